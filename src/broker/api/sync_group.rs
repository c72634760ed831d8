//! `SyncGroup`, API 14, versions 0-5: a member's assignment; the leader brings everybody's.
//!
//! Waits for the leader. From version 5 on a member says which protocol it believes in, and is refused
//! with `INCONSISTENT_GROUP_PROTOCOL` when it does not or another one was chosen.

use super::super::call::{Api, Call, Outcome};
use super::super::state::{Answer, Identity, Sync, Synced};
use super::group_wait::{Waited, group_wait};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{SyncGroupRequest, SyncGroupResponse};

impl Api for SyncGroupRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<SyncGroupResponse> {
        if call.first {
            if let Err(error) = enter(self, call) {
                return Outcome::Answer(self.refuse(error, call));
            }
            let assignments = std::mem::take(&mut self.assignments).into_iter();
            let sync = Sync {
                ticket: call.peer.connection,
                identity: Identity {
                    member_id: self.member_id.clone(),
                    instance_id: self.group_instance_id.clone(),
                },
                generation: self.generation_id,
                protocol_type: self.protocol_type.clone(),
                protocol: self.protocol_name.clone(),
                assignments: assignments.map(|row| (row.member_id, row.assignment)).collect(),
            };
            call.state.await_group(call.peer.connection);
            let now = call.now;
            call.state.with_group(&self.group_id, now, |group| group.sync(sync, now));
        }
        match group_wait(&self.group_id, call) {
            Waited::Answer(Answer::Sync(synced)) => Outcome::Answer(response(synced)),
            Waited::Until(until) => Outcome::Wait(until),
            Waited::Refused(error) => Outcome::Answer(self.refuse(error, call)),
            Waited::Answer(Answer::Join(_)) => {
                Outcome::Answer(self.refuse(ErrorCode::UNKNOWN_SERVER_ERROR, call))
            }
        }
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> SyncGroupResponse {
        SyncGroupResponse { error_code: error, ..Default::default() }
    }

    fn throttle(response: &mut SyncGroupResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn enter(request: &SyncGroupRequest, call: &mut Call<'_>) -> Result<(), ErrorCode> {
    let unnamed = request.protocol_type.is_none() || request.protocol_name.is_none();
    if call.version >= 5 && unnamed {
        return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    if !call.state.coordinates(call.broker, &request.group_id) {
        return Err(ErrorCode::NOT_COORDINATOR);
    }
    match call.state.group(&request.group_id, call.now) {
        Some(_) => Ok(()),
        None => Err(ErrorCode::UNKNOWN_MEMBER_ID),
    }
}

fn response(synced: Synced) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: synced.error,
        protocol_type: synced.protocol_type,
        protocol_name: synced.protocol,
        assignment: synced.assignment,
        ..Default::default()
    }
}
