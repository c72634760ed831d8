//! `LeaveGroup`, API 13, versions 0-5: members leave, and the others join anew.
//!
//! One member up to version 2; from version 3 on many, each with its own error, a static one also by its
//! name alone, as admin clients do it.

use super::super::call::{Api, Call, Outcome};
use super::super::state::Identity;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{LeaveGroupRequest, LeaveGroupResponse, MemberResponse};

impl Api for LeaveGroupRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<LeaveGroupResponse> {
        if self.group_id.is_empty() {
            return Outcome::Answer(self.refuse(ErrorCode::INVALID_GROUP_ID, call));
        }
        if !call.state.coordinates(call.broker, &self.group_id) {
            return Outcome::Answer(self.refuse(ErrorCode::NOT_COORDINATOR, call));
        }
        let leaving: Vec<Identity> = if call.version < 3 {
            vec![Identity { member_id: self.member_id.clone(), instance_id: None }]
        } else {
            let identity = |member: &crate::protocol::messages::MemberIdentity| Identity {
                member_id: member.member_id.clone(),
                instance_id: member.group_instance_id.clone(),
            };
            self.members.iter().map(identity).collect()
        };
        let now = call.now;
        let errors = call
            .state
            .with_group(&self.group_id, now, |group| group.leave(&leaving, now))
            .unwrap_or_else(|| vec![ErrorCode::UNKNOWN_MEMBER_ID; leaving.len()]);
        if call.version < 3 {
            let error = errors.first().copied().unwrap_or_default();
            return Outcome::Answer(self.refuse(error, call));
        }
        let row = |(member, error_code): (Identity, ErrorCode)| MemberResponse {
            member_id: member.member_id,
            group_instance_id: member.instance_id,
            error_code,
            ..Default::default()
        };
        let members = leaving.into_iter().zip(errors).map(row).collect();
        Outcome::Answer(LeaveGroupResponse { members, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> LeaveGroupResponse {
        LeaveGroupResponse { error_code: error, ..Default::default() }
    }

    fn throttle(response: &mut LeaveGroupResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}
