//! `ListTransactions`, API 66, versions 0-2: the transactional ids that the asked broker coordinates
//! (KIP-664).
//!
//! Filters by state, producer id, duration (version 1, KIP-994) and a pattern for the whole id (version
//! 2, KIP-1152).

use std::collections::BTreeSet;

use regex_lite::Regex;

use super::super::call::{Api, Call, Outcome};
use super::super::state::Transaction;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    ListTransactionsRequest, ListTransactionsResponse, ListedTransaction,
};

/// The states that Kafka knows.
const STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
];

/// An expression for a whole id. A program that takes too much memory is an error too.
fn whole(pattern: &str) -> Result<Regex, regex_lite::Error> {
    // By itself first: the brackets around it must not close what it leaves open.
    Regex::new(pattern)?;
    Regex::new(&format!("^(?:{pattern})$"))
}

impl Api for ListTransactionsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<ListTransactionsResponse> {
        let is_known = |name: &&String| STATES.contains(&name.as_str());
        let (states, unknown): (BTreeSet<&String>, BTreeSet<&String>) =
            self.state_filters.iter().partition(is_known);
        let pattern = match self.transactional_id_pattern.as_deref() {
            None | Some("") => None,
            Some(pattern) => match whole(pattern) {
                Ok(pattern) => Some(pattern),
                Err(_) => {
                    return Outcome::Answer(
                        self.refuse(ErrorCode::INVALID_REGULAR_EXPRESSION, call),
                    );
                }
            },
        };
        let ids: BTreeSet<i64> = self.producer_id_filters.iter().copied().collect();
        let passes = |transaction: &Transaction| {
            let (state, started) = (transaction.status().name(), transaction.started_ms());
            let duration = call.now_ms.saturating_sub(started);
            (self.state_filters.is_empty() || states.iter().any(|name| *name == state))
                && (ids.is_empty() || ids.contains(&transaction.producer().0))
                && (self.duration_filter < 0 || duration > self.duration_filter)
        };
        let listed = call.state.transactions().filter(|(id, transaction)| {
            call.state.coordinates(call.broker, id)
                && pattern.as_ref().is_none_or(|pattern| pattern.is_match(id))
                && passes(transaction)
        });
        let row = |(id, transaction): (&str, &Transaction)| ListedTransaction {
            transactional_id: id.to_owned(),
            producer_id: transaction.producer().0,
            transaction_state: transaction.status().name().to_owned(),
            ..Default::default()
        };
        Outcome::Answer(ListTransactionsResponse {
            transaction_states: listed.map(row).collect(),
            unknown_state_filters: unknown.into_iter().cloned().collect(),
            ..Default::default()
        })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> ListTransactionsResponse {
        ListTransactionsResponse { error_code: error, ..Default::default() }
    }

    fn throttle(response: &mut ListTransactionsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}
