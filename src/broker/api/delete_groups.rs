//! `DeleteGroups`, API 42, versions 0-3: deletes groups without members, with their offsets.

use std::collections::BTreeSet;

use super::super::call::{Api, Call, Outcome};
use super::super::state::GroupState;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};

impl Api for DeleteGroupsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<DeleteGroupsResponse> {
        let mut seen = BTreeSet::new();
        let mut results = Vec::new();
        for id in self.groups_names.iter().filter(|id| seen.insert(id.as_str())) {
            results.push(row(id, delete(id, call)));
        }
        Outcome::Answer(DeleteGroupsResponse { results, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> DeleteGroupsResponse {
        let results = self.groups_names.iter().map(|id| row(id, error)).collect();
        DeleteGroupsResponse { results, ..Default::default() }
    }

    fn throttle(response: &mut DeleteGroupsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn delete(id: &str, call: &mut Call<'_>) -> ErrorCode {
    if !call.state.coordinates(call.broker, id) {
        return ErrorCode::NOT_COORDINATOR;
    }
    match call.state.group(id, call.now).map(super::super::state::Group::state) {
        None => ErrorCode::GROUP_ID_NOT_FOUND,
        Some(GroupState::Empty) => {
            call.state.delete_group(id);
            ErrorCode::NONE
        }
        Some(_) => ErrorCode::NON_EMPTY_GROUP,
    }
}

fn row(id: &str, error_code: ErrorCode) -> DeletableGroupResult {
    DeletableGroupResult { group_id: id.to_owned(), error_code, ..Default::default() }
}
