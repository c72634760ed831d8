//! `InitProducerId`, API 22, versions 0-5: gives a producer its id and epoch (KIP-98).
//!
//! Without a transactional id any broker gives a fresh id with epoch 0, whatever the producer had. With
//! one its coordinator gives the next epoch and fences whoever had it before; a transaction that they
//! left open is aborted first, and the client is asked to come again (`CONCURRENT_TRANSACTIONS`). A
//! producer that says what it was (version 3, KIP-360) is let in only if it is still that.

use super::super::call::{Api, Call, Outcome};
use super::transactional;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

/// The first version that knows `PRODUCER_FENCED` (KIP-588).
const FENCED_FROM: i16 = 4;

impl Api for InitProducerIdRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<InitProducerIdResponse> {
        let half_known = (self.producer_id < 0) != (self.producer_epoch < 0);
        if half_known || self.transactional_id.as_deref() == Some("") {
            return Outcome::Answer(self.refuse(ErrorCode::INVALID_REQUEST, call));
        }
        let Some(id) = &self.transactional_id else {
            let producer_id = call.state.new_producer_id();
            return Outcome::Answer(InitProducerIdResponse { producer_id, ..Default::default() });
        };
        let as_known = (self.producer_id >= 0).then_some((self.producer_id, self.producer_epoch));
        let timeout_ms = self.transaction_timeout_ms;
        let given = transactional::check(id, call).and_then(|()| {
            call.state.init_transactions(id, as_known, timeout_ms, (call.now, call.now_ms))
        });
        Outcome::Answer(match given {
            Ok((producer_id, producer_epoch)) => {
                InitProducerIdResponse { producer_id, producer_epoch, ..Default::default() }
            }
            Err(error) => {
                self.refuse(transactional::fenced(error, call.version, FENCED_FROM), call)
            }
        })
    }

    fn refuse(&self, error_code: ErrorCode, _call: &mut Call<'_>) -> InitProducerIdResponse {
        InitProducerIdResponse { error_code, producer_epoch: -1, ..Default::default() }
    }

    fn throttle(response: &mut InitProducerIdResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}
