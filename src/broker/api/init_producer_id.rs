//! `InitProducerId`, API 22, versions 0-5: gives a producer its id (KIP-98).
//!
//! Without a transactional id any broker gives a fresh id with epoch 0, whatever the producer had. With
//! one it takes a transaction coordinator, which no broker of the cluster is yet.

use super::super::call::{Api, Call, Outcome};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

impl Api for InitProducerIdRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<InitProducerIdResponse> {
        let half_known = (self.producer_id < 0) != (self.producer_epoch < 0);
        if half_known || self.transactional_id.as_deref() == Some("") {
            return Outcome::Answer(self.refuse(ErrorCode::INVALID_REQUEST, call));
        }
        if self.transactional_id.is_some() {
            return Outcome::Answer(self.refuse(ErrorCode::COORDINATOR_NOT_AVAILABLE, call));
        }
        let producer_id = call.state.new_producer_id();
        Outcome::Answer(InitProducerIdResponse { producer_id, ..Default::default() })
    }

    fn refuse(&self, error_code: ErrorCode, _call: &mut Call<'_>) -> InitProducerIdResponse {
        InitProducerIdResponse { error_code, producer_epoch: -1, ..Default::default() }
    }

    fn throttle(response: &mut InitProducerIdResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}
