//! `Heartbeat`, API 12, versions 0-4: a sign of life, answered with `REBALANCE_IN_PROGRESS` while the
//! members are to join anew.

use super::super::call::{Api, Call, Outcome};
use super::super::state::Identity;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{HeartbeatRequest, HeartbeatResponse};

impl Api for HeartbeatRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<HeartbeatResponse> {
        let error = if self.group_id.is_empty() {
            ErrorCode::INVALID_GROUP_ID
        } else if !call.state.coordinates(call.broker, &self.group_id) {
            ErrorCode::NOT_COORDINATOR
        } else {
            let identity = Identity {
                member_id: self.member_id.clone(),
                instance_id: self.group_instance_id.clone(),
            };
            let (now, generation) = (call.now, self.generation_id);
            call.state
                .with_group(&self.group_id, now, |group| {
                    group.heartbeat(&identity, generation, now)
                })
                .unwrap_or(ErrorCode::UNKNOWN_MEMBER_ID)
        };
        Outcome::Answer(self.refuse(error, call))
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> HeartbeatResponse {
        HeartbeatResponse { error_code: error, ..Default::default() }
    }

    fn throttle(response: &mut HeartbeatResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}
