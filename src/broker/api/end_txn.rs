//! `EndTxn`, API 26, versions 0-5: commits or aborts a transaction (KIP-98).
//!
//! Its coordinator answers, once the markers are written. From version 5 on the producer gets its next
//! epoch with the answer (KIP-890). Asked again, it answers the same; with the opposite wish
//! `INVALID_TXN_STATE`.

use super::super::call::{Api, Call, Outcome};
use super::super::state::Protocol;
use super::transactional;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{EndTxnRequest, EndTxnResponse};

/// The first version of the present transaction protocol (KIP-890).
const RAISES_EPOCH_FROM: i16 = 5;

impl Api for EndTxnRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<EndTxnResponse> {
        let raises = call.version >= RAISES_EPOCH_FROM;
        let protocol = if raises { Protocol::V2 } else { Protocol::V1 };
        let id = &self.transactional_id;
        let producer = (self.producer_id, self.producer_epoch);
        let ended = transactional::check(id, call).and_then(|()| {
            let times = (call.now, call.now_ms);
            call.state.end_transaction(id, producer, self.committed, protocol, times)
        });
        Outcome::Answer(match ended {
            Ok((producer_id, producer_epoch)) if raises => {
                EndTxnResponse { producer_id, producer_epoch, ..Default::default() }
            }
            Ok(_) => EndTxnResponse::default(),
            Err(error) => self.refuse(transactional::fenced(error, call.version, 2), call),
        })
    }

    fn refuse(&self, error_code: ErrorCode, _call: &mut Call<'_>) -> EndTxnResponse {
        EndTxnResponse { error_code, ..Default::default() }
    }

    fn throttle(response: &mut EndTxnResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}
