//! `DescribeTransactions`, API 65, version 0: state and partitions of transactions (KIP-664).
//!
//! The coordinator of each answers for it.

use super::super::call::{Api, Call, Outcome};
use super::super::state::Transaction;
use super::transactional;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, DescribedTransaction,
    DescribedTransactionTopic,
};

impl Api for DescribeTransactionsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<DescribeTransactionsResponse> {
        let row = |id: &String| match transactional::check(id, call) {
            Err(error) => refused(id, error),
            Ok(()) => match call.state.transaction(id) {
                None => refused(id, ErrorCode::TRANSACTIONAL_ID_NOT_FOUND),
                Some(transaction) => described(id, transaction),
            },
        };
        let transaction_states = self.transactional_ids.iter().map(row).collect();
        Outcome::Answer(DescribeTransactionsResponse { transaction_states, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> DescribeTransactionsResponse {
        let transaction_states =
            self.transactional_ids.iter().map(|id| refused(id, error)).collect();
        DescribeTransactionsResponse { transaction_states, ..Default::default() }
    }

    fn throttle(response: &mut DescribeTransactionsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn refused(id: &str, error_code: ErrorCode) -> DescribedTransaction {
    DescribedTransaction { error_code, transactional_id: id.to_owned(), ..Default::default() }
}

fn described(id: &str, transaction: &Transaction) -> DescribedTransaction {
    let mut topics: Vec<DescribedTransactionTopic> = Vec::new();
    for (topic, index) in transaction.partitions() {
        if topics.last().is_none_or(|last| last.topic != *topic) {
            let topic = topic.clone();
            topics.push(DescribedTransactionTopic { topic, ..Default::default() });
        }
        let topic = topics.last_mut().expect("one was put there if there was none");
        topic.partitions.push(*index);
    }
    let (producer_id, producer_epoch) = transaction.producer();
    DescribedTransaction {
        transactional_id: id.to_owned(),
        transaction_state: transaction.status().name().to_owned(),
        transaction_timeout_ms: transaction.timeout_ms(),
        transaction_start_time_ms: transaction.started_ms(),
        producer_id,
        producer_epoch,
        topics,
        ..Default::default()
    }
}
