//! `AddOffsetsToTxn`, API 25, versions 0-4: a group whose offsets a transaction is about to commit (KIP-98).
//!
//! The transaction's coordinator answers. What is added is the partition of `__consumer_offsets` that
//! the group's offsets belong to, as in Kafka. The group need not exist.

use std::collections::BTreeSet;

use super::super::call::{Api, Call, Outcome};
use super::super::state::offsets_place;
use super::transactional;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

impl Api for AddOffsetsToTxnRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<AddOffsetsToTxnResponse> {
        let id = &self.transactional_id;
        let producer = (self.producer_id, self.producer_epoch);
        let added = transactional::check(id, call).and_then(|()| {
            let places = BTreeSet::from([offsets_place(&self.group_id)]);
            call.state.add_to_transaction(id, producer, &places, (call.now, call.now_ms))
        });
        Outcome::Answer(match added {
            Ok(()) => AddOffsetsToTxnResponse::default(),
            Err(error) => self.refuse(transactional::fenced(error, call.version, 2), call),
        })
    }

    fn refuse(&self, error_code: ErrorCode, _call: &mut Call<'_>) -> AddOffsetsToTxnResponse {
        AddOffsetsToTxnResponse { error_code, ..Default::default() }
    }

    fn throttle(response: &mut AddOffsetsToTxnResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}
