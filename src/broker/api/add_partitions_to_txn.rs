//! `AddPartitionsToTxn`, API 24, versions 0-5: partitions that a transaction is about to write to (KIP-98).
//!
//! The transaction's coordinator answers. All or nothing: where one partition does not exist, the others
//! answer `OPERATION_NOT_ATTEMPTED`. From version 4 on several transactions at once, sent by brokers in
//! Kafka, which may also ask only whether the partitions are there (KIP-890).

use std::collections::{BTreeMap, BTreeSet};

use super::super::call::{Api, Call, Outcome};
use super::super::state::{OFFSETS_TOPIC, Place, Producer, State};
use super::transactional;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult, AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult,
};

/// The first version with many transactions in one request.
const BATCHED_FROM: i16 = 4;
/// The first version that knows `TRANSACTION_ABORTABLE`.
const ABORTABLE_FROM: i16 = 5;

/// What became of each partition.
type Results = BTreeMap<Place, ErrorCode>;

impl Api for AddPartitionsToTxnRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<AddPartitionsToTxnResponse> {
        if call.version < BATCHED_FROM {
            let producer = (self.v3_and_below_producer_id, self.v3_and_below_producer_epoch);
            let places = places(&self.v3_and_below_topics);
            let id = &self.v3_and_below_transactional_id;
            let results = add(id, producer, &places, false, call);
            return Outcome::Answer(AddPartitionsToTxnResponse {
                results_by_topic_v3_and_below: by_topic(results),
                ..Default::default()
            });
        }
        let rows = self.transactions.iter().map(|asked| {
            let producer = (asked.producer_id, asked.producer_epoch);
            let places = places(&asked.topics);
            let results = add(&asked.transactional_id, producer, &places, asked.verify_only, call);
            row(&asked.transactional_id, results)
        });
        let results_by_transaction = rows.collect();
        Outcome::Answer(AddPartitionsToTxnResponse { results_by_transaction, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, call: &mut Call<'_>) -> AddPartitionsToTxnResponse {
        if call.version >= BATCHED_FROM {
            return AddPartitionsToTxnResponse { error_code: error, ..Default::default() };
        }
        let results = all(&places(&self.v3_and_below_topics), error);
        AddPartitionsToTxnResponse {
            results_by_topic_v3_and_below: by_topic(results),
            ..Default::default()
        }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        let batched = self.transactions.iter().flat_map(|asked| &asked.topics);
        batched.chain(&self.v3_and_below_topics).map(|topic| topic.name.clone()).collect()
    }

    fn throttle(response: &mut AddPartitionsToTxnResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn add(
    id: &str,
    producer: Producer,
    places: &BTreeSet<Place>,
    verify_only: bool,
    call: &mut Call<'_>,
) -> Results {
    let refusal = |(topic, index): &Place| {
        if topic == OFFSETS_TOPIC {
            Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
        } else if call.state.partition(topic, *index).is_none() {
            Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        } else {
            None
        }
    };
    let refusals: Vec<_> = places.iter().map(refusal).collect();
    if refusals.iter().any(Option::is_some) {
        let one = |refusal: Option<_>| refusal.unwrap_or(ErrorCode::OPERATION_NOT_ATTEMPTED);
        return places.iter().cloned().zip(refusals.into_iter().map(one)).collect();
    }
    let told = |error| match transactional::fenced(error, call.version, 2) {
        ErrorCode::TRANSACTION_ABORTABLE if call.version < ABORTABLE_FROM => {
            ErrorCode::INVALID_TXN_STATE
        }
        other => other,
    };
    if let Err(error) = transactional::check(id, call) {
        return all(places, error);
    }
    if verify_only {
        let verify = |place: &Place| {
            let verified = call.state.verify_in_transaction(id, producer, place);
            (place.clone(), verified.map_or_else(told, |()| ErrorCode::NONE))
        };
        return places.iter().map(verify).collect();
    }
    let times = (call.now, call.now_ms);
    let added = call.state.add_to_transaction(id, producer, places, times);
    all(places, added.map_or_else(told, |()| ErrorCode::NONE))
}

fn places(topics: &[AddPartitionsToTxnTopic]) -> BTreeSet<Place> {
    let of = |topic: &AddPartitionsToTxnTopic| {
        let name = topic.name.clone();
        topic.partitions.clone().into_iter().map(move |index| (name.clone(), index))
    };
    topics.iter().flat_map(of).collect()
}

fn all(places: &BTreeSet<Place>, error: ErrorCode) -> Results {
    places.iter().map(|place| (place.clone(), error)).collect()
}

fn row(id: &str, results: Results) -> AddPartitionsToTxnResult {
    AddPartitionsToTxnResult {
        transactional_id: id.to_owned(),
        topic_results: by_topic(results),
        ..Default::default()
    }
}

fn by_topic(results: Results) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut topics: Vec<AddPartitionsToTxnTopicResult> = Vec::new();
    for ((name, partition_index), partition_error_code) in results {
        if topics.last().is_none_or(|topic| topic.name != name) {
            topics.push(AddPartitionsToTxnTopicResult { name, ..Default::default() });
        }
        let topic = topics.last_mut().expect("one was put there if there was none");
        topic.results_by_partition.push(AddPartitionsToTxnPartitionResult {
            partition_index,
            partition_error_code,
            ..Default::default()
        });
    }
    topics
}
