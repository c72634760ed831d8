//! Transactions by requests: both protocols, fencing, time-outs, offsets, what is told of them.

use std::time::Duration;

use proptest::prelude::*;

use super::asking::{Asking, NOW_MS, batch, of_producer, produce};
use crate::broker::Release;
use crate::protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction, DescribeTransactionsRequest, EndTxnRequest, EndTxnResponse,
    InitProducerIdRequest, ListTransactionsRequest, TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use crate::protocol::records::{Decompressor, RecordBatches, stamp};
use crate::protocol::{Bytes, ErrorCode};

type Producer = (i64, i16);

fn end(id: &str, (producer_id, producer_epoch): Producer, committed: bool) -> EndTxnRequest {
    let transactional_id = id.to_owned();
    EndTxnRequest { transactional_id, producer_id, producer_epoch, committed, ..Default::default() }
}

fn end_code(kafka: &mut Asking, producer: Producer, commit: bool, version: i16) -> ErrorCode {
    kafka.ask(end("x", producer, commit), version).error_code
}

/// Ends a transaction by the second protocol; gives the producer as it goes on.
fn end_v2(kafka: &mut Asking, id: &str, producer: Producer, commit: bool) -> Producer {
    let answer: EndTxnResponse = kafka.ask(end(id, producer, commit), 5);
    assert_eq!(answer.error_code, ErrorCode::NONE);
    (answer.producer_id, answer.producer_epoch)
}

fn topics(partitions: &[i32]) -> Vec<AddPartitionsToTxnTopic> {
    let partitions = partitions.to_vec();
    vec![AddPartitionsToTxnTopic { name: "t".to_owned(), partitions, ..Default::default() }]
}

/// Adds partitions of `t` for the transactional id `x`.
fn add(kafka: &mut Asking, producer: Producer, parts: &[i32], version: i16) -> Vec<ErrorCode> {
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: "x".to_owned(),
        v3_and_below_producer_id: producer.0,
        v3_and_below_producer_epoch: producer.1,
        v3_and_below_topics: topics(parts),
        ..Default::default()
    };
    let answer = kafka.ask(request, version);
    let rows = &answer.results_by_topic_v3_and_below[0].results_by_partition;
    rows.iter().map(|row| row.partition_error_code).collect()
}

fn commit_offset(id: &str, producer: Producer, offset: i64) -> TxnOffsetCommitRequest {
    let partition =
        TxnOffsetCommitRequestPartition { committed_offset: offset, ..Default::default() };
    TxnOffsetCommitRequest {
        transactional_id: id.to_owned(),
        group_id: "g".to_owned(),
        producer_id: producer.0,
        producer_epoch: producer.1,
        topics: vec![TxnOffsetCommitRequestTopic {
            name: "t".to_owned(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn offset_code(kafka: &mut Asking, producer: Producer, version: i16) -> ErrorCode {
    assert!(kafka.state.move_coordinator("g", 1), "broker 1 runs");
    let answer = kafka.ask(commit_offset("x", producer, 5), version);
    answer.topics[0].partitions[0].error_code
}

fn committed(kafka: &Asking) -> Option<i64> {
    kafka.state.offsets("g")?.get("t", 0).map(|committed| committed.offset)
}

#[test]
fn the_first_protocol_adds_partitions_and_keeps_its_epoch() {
    for (release, version, produce_version) in
        [(Release::V0_11, 0, 3), (Release::V2_8, 3, 9), (Release::V3_9, 3, 11)]
    {
        let mut kafka = Asking::new(release);
        let producer @ (id, epoch) = kafka.init("x");
        assert_eq!(add(&mut kafka, producer, &[0, 1], version), [ErrorCode::NONE; 2]);
        let missing = [ErrorCode::OPERATION_NOT_ATTEMPTED, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION];
        assert_eq!(add(&mut kafka, producer, &[0, 7], version), missing);
        let sent = of_producer((id, epoch, 0), 2, true);
        assert_eq!(kafka.produce_as(produce_version, -1, 0, sent).error_code, ErrorCode::NONE);
        let seen = kafka.fetch(0, true);
        assert_eq!((seen.last_stable_offset, seen.high_watermark), (0, 2));
        let plain = kafka.produce_as(produce_version, -1, 0, of_producer((id, epoch, 2), 1, false));
        assert_eq!(plain.error_code, ErrorCode::INVALID_TXN_STATE, "its transaction is open");
        assert_eq!(end_code(&mut kafka, producer, true, version), ErrorCode::NONE);
        assert_eq!(end_code(&mut kafka, producer, true, version), ErrorCode::NONE, "repeated");
        let opposite = end_code(&mut kafka, producer, false, version);
        assert_eq!(opposite, ErrorCode::INVALID_TXN_STATE);
        assert_eq!(kafka.fetch(0, true).last_stable_offset, 3);
        assert_eq!(kafka.state.partition("t", 1).expect("it is there").log.end(), 1, "a marker");
        let fenced = if version < 2 {
            ErrorCode::INVALID_PRODUCER_EPOCH
        } else {
            ErrorCode::PRODUCER_FENCED
        };
        assert_eq!(add(&mut kafka, (id, 9), &[0], version), [fenced]);
        let unknown = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
        assert_eq!(add(&mut kafka, (id + 1, 0), &[0], version), [unknown]);
    }
}

#[test]
fn records_of_no_transaction_are_refused_since_kafka_verifies() {
    let aborts = ErrorCode::TRANSACTION_ABORTABLE;
    for (release, version, code) in [
        (Release::V2_8, 9, ErrorCode::NONE),
        (Release::V3_9, 10, ErrorCode::INVALID_TXN_STATE),
        (Release::V3_9, 11, aborts),
        (Release::V4_4, 10, ErrorCode::INVALID_TXN_STATE),
        (Release::V4_4, 11, aborts),
        (Release::V4_4, 12, ErrorCode::NONE),
    ] {
        let mut kafka = Asking::new(release);
        let (id, epoch) = kafka.init("x");
        let row = kafka.produce_as(version, -1, 0, of_producer((id, epoch, 0), 1, true));
        assert_eq!(row.error_code, code, "{release:?} v{version}");
        let row = kafka.produce_as(version, -1, 0, of_producer((id + 1, epoch, 0), 1, true));
        let verified = release >= Release::V3_9;
        let unknown = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
        assert_eq!(row.error_code, if verified { unknown } else { ErrorCode::NONE });
    }
}

#[test]
fn the_second_protocol_raises_the_epoch_at_every_end() {
    let mut kafka = Asking::new(Release::V4_4);
    kafka.state.move_leader("t", 1, 1);
    let first @ (id, epoch) = kafka.init("x");
    for partition in [0, 1] {
        let row = kafka.produce(partition, of_producer((id, epoch, 0), 1, true));
        assert_eq!(row.error_code, ErrorCode::NONE);
    }
    assert_eq!(offset_code(&mut kafka, first, 5), ErrorCode::NONE);
    assert_eq!(committed(&kafka), None);
    let second = end_v2(&mut kafka, "x", first, true);
    assert_eq!(second, (id, epoch + 1));
    assert_eq!(end_v2(&mut kafka, "x", first, true), second, "a repetition");
    assert_eq!(committed(&kafka), Some(5));
    let late = kafka.produce(0, of_producer((id, epoch, 1), 1, true));
    assert_eq!(late.error_code, ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(offset_code(&mut kafka, first, 5), ErrorCode::INVALID_PRODUCER_EPOCH);
    let row = kafka.produce(0, of_producer((id, epoch + 1, 3), 1, true));
    assert_eq!(row.error_code, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    let row = kafka.produce(0, of_producer((id, epoch + 1, 0), 1, true));
    assert_eq!((row.error_code, row.base_offset), (ErrorCode::NONE, 2));
    assert_eq!(end_v2(&mut kafka, "x", second, false), (id, epoch + 2));
    let aborted = kafka.fetch(0, true).aborted_transactions.expect("asked for");
    assert_eq!((aborted.len(), aborted[0].producer_id, aborted[0].first_offset), (1, id, 2));
    assert!(kafka.fetch(4, true).aborted_transactions.expect("asked for").is_empty());
    assert_eq!(kafka.fetch(0, false).aborted_transactions, None);
}

#[test]
fn offsets_of_the_first_protocol_need_their_group_in_the_transaction() {
    let mut kafka = Asking::new(Release::V3_9);
    let producer = kafka.init("x");
    assert_eq!(add(&mut kafka, producer, &[0], 3), [ErrorCode::NONE]);
    assert_eq!(offset_code(&mut kafka, producer, 3), ErrorCode::INVALID_TXN_STATE);
    assert_eq!(offset_code(&mut kafka, producer, 4), ErrorCode::TRANSACTION_ABORTABLE);
    let request = AddOffsetsToTxnRequest {
        transactional_id: "x".to_owned(),
        producer_id: producer.0,
        producer_epoch: producer.1,
        group_id: "g".to_owned(),
        ..Default::default()
    };
    assert_eq!(kafka.ask(request, 3).error_code, ErrorCode::NONE);
    for commit in [false, true] {
        assert_eq!(offset_code(&mut kafka, producer, 3), ErrorCode::NONE);
        assert!(kafka.state.offsets("g").expect("the group").is_unstable("t", 0));
        assert_eq!(end_code(&mut kafka, producer, commit, 3), ErrorCode::NONE);
        assert_eq!(committed(&kafka), commit.then_some(5));
        let added = AddOffsetsToTxnRequest {
            transactional_id: "x".to_owned(),
            producer_id: producer.0,
            producer_epoch: producer.1,
            group_id: "g".to_owned(),
            ..Default::default()
        };
        assert_eq!(kafka.ask(added, 3).error_code, ErrorCode::NONE);
    }
}

#[test]
fn another_instance_aborts_what_the_one_before_left_open() {
    let mut kafka = Asking::new(Release::V4_4);
    let old @ (id, epoch) = kafka.init("x");
    kafka.produce(0, of_producer((id, epoch, 0), 1, true));
    let init = InitProducerIdRequest {
        transactional_id: Some("x".to_owned()),
        transaction_timeout_ms: 1000,
        ..Default::default()
    };
    let answer = kafka.ask(init.clone(), 5);
    assert_eq!(answer.error_code, ErrorCode::CONCURRENT_TRANSACTIONS);
    assert_eq!(kafka.fetch(0, true).last_stable_offset, 2, "it is aborted");
    let answer = kafka.ask(init.clone(), 5);
    assert_eq!((answer.producer_id, answer.producer_epoch), (id, epoch + 2));
    let zombie = kafka.produce(0, of_producer((id, epoch, 1), 1, true));
    assert_eq!(zombie.error_code, ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(end_code(&mut kafka, old, true, 5), ErrorCode::PRODUCER_FENCED);
    assert_eq!(end_code(&mut kafka, old, true, 1), ErrorCode::INVALID_PRODUCER_EPOCH);
    for timeout in [0, -1, 900_001] {
        let init = InitProducerIdRequest { transaction_timeout_ms: timeout, ..init.clone() };
        let code = kafka.ask(init, 5).error_code;
        assert_eq!(code, ErrorCode::INVALID_TRANSACTION_TIMEOUT);
    }
    assert!(kafka.state.move_coordinator("x", 2), "broker 2 runs");
    assert_eq!(kafka.ask(init, 5).error_code, ErrorCode::NOT_COORDINATOR);
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted_before_anybody_looks() {
    let mut kafka = Asking::new(Release::V4_4);
    let producer @ (id, epoch) = kafka.init("x");
    kafka.produce(0, of_producer((id, epoch, 0), 1, true));
    let due = kafka.start + Duration::from_secs(60);
    assert_eq!(kafka.state.next_expiry(), Some(due));
    kafka.state.expire_transactions(kafka.start + Duration::from_millis(59_999), NOW_MS);
    assert_eq!(kafka.fetch(0, true).last_stable_offset, 0);
    let mut seen = super::asking::fetch(0, 0);
    seen.isolation_level = 1;
    let late = kafka.run(&mut seen, 12, Some(Duration::from_secs(60)));
    let crate::broker::call::Outcome::Answer(late) = late else { panic!("there is an answer") };
    let row = &late.responses[0].partitions[0];
    assert_eq!((row.last_stable_offset, row.high_watermark), (2, 2));
    assert_eq!(kafka.state.next_expiry(), None);
    let zombie = kafka.produce(0, of_producer((id, epoch, 1), 1, true));
    assert_eq!(zombie.error_code, ErrorCode::INVALID_PRODUCER_EPOCH);
    // It cannot commit any more. Its abort looks like the repetition of one, here as in Kafka 4.4.0.
    assert_eq!(end_code(&mut kafka, producer, true, 5), ErrorCode::INVALID_TXN_STATE);
    assert_eq!(end_v2(&mut kafka, "x", producer, false), (id, epoch + 1));
    assert_eq!(end_code(&mut kafka, producer, false, 4), ErrorCode::PRODUCER_FENCED);
}

#[test]
fn transactions_are_listed_and_described() {
    let mut kafka = Asking::new(Release::V4_4);
    let (id, epoch) = kafka.init("x");
    let (idle, _) = kafka.init("y");
    kafka.produce(0, of_producer((id, epoch, 0), 1, true));
    kafka.now_ms += 10;
    let mut list = |request: ListTransactionsRequest| {
        let answer = kafka.ask(request, 1);
        let rows = answer.transaction_states.into_iter();
        let rows: Vec<_> = rows
            .map(|row| (row.transactional_id, row.producer_id, row.transaction_state))
            .collect();
        (rows, answer.unknown_state_filters)
    };
    let x = ("x".to_owned(), id, "Ongoing".to_owned());
    let y = ("y".to_owned(), idle, "Empty".to_owned());
    let every = ListTransactionsRequest::default();
    assert_eq!(list(every.clone()), (vec![x.clone(), y.clone()], vec![]));
    let state_filters = vec!["Ongoing".to_owned(), "ongoing".to_owned()];
    let by_state = ListTransactionsRequest { state_filters, ..every.clone() };
    assert_eq!(list(by_state), (vec![x.clone()], vec!["ongoing".to_owned()]));
    let nonsense =
        ListTransactionsRequest { state_filters: vec!["ongoing".to_owned()], ..every.clone() };
    assert_eq!(list(nonsense), (vec![], vec!["ongoing".to_owned()]));
    let by_id = ListTransactionsRequest { producer_id_filters: vec![idle], ..every.clone() };
    assert_eq!(list(by_id).0, [y]);
    let long = ListTransactionsRequest { duration_filter: 10, ..every.clone() };
    assert!(!list(long).0.contains(&x));
    let short = ListTransactionsRequest { duration_filter: 9, ..every };
    assert!(list(short).0.contains(&x));
    for (pattern, count, code) in [
        ("", 2, ErrorCode::NONE),
        ("x|z", 1, ErrorCode::NONE),
        ("[xy]x", 0, ErrorCode::NONE),
        ("(", 0, ErrorCode::INVALID_REGULAR_EXPRESSION),
    ] {
        let transactional_id_pattern = Some(pattern.to_owned());
        let request = ListTransactionsRequest { transactional_id_pattern, ..Default::default() };
        let answer = kafka.ask(request, 2);
        assert_eq!((answer.error_code, answer.transaction_states.len()), (code, count));
    }
    let transactional_ids = ["x", "none", ""].map(str::to_owned).to_vec();
    let asked = DescribeTransactionsRequest { transactional_ids, ..Default::default() };
    kafka.state.move_coordinator("none", 1);
    let rows = kafka.ask(asked, 0).transaction_states;
    let row = &rows[0];
    assert_eq!((row.error_code, row.transaction_state.as_str()), (ErrorCode::NONE, "Ongoing"));
    assert_eq!((row.transaction_timeout_ms, row.transaction_start_time_ms), (60_000, NOW_MS));
    assert_eq!(
        (row.topics[0].topic.as_str(), row.topics[0].partitions.as_slice()),
        ("t", &[0][..])
    );
    assert_eq!(rows[1].error_code, ErrorCode::TRANSACTIONAL_ID_NOT_FOUND);
    assert_eq!(rows[2].error_code, ErrorCode::INVALID_REQUEST);
}

#[test]
fn brokers_ask_for_several_transactions_at_once() {
    let mut kafka = Asking::new(Release::V4_4);
    let (producer_id, producer_epoch) = kafka.init("x");
    let mut ask = |verify_only, version| {
        let transaction = AddPartitionsToTxnTransaction {
            transactional_id: "x".to_owned(),
            producer_id,
            producer_epoch,
            verify_only,
            topics: topics(&[0]),
            ..Default::default()
        };
        let transactions = vec![transaction];
        let request = AddPartitionsToTxnRequest { transactions, ..Default::default() };
        let answer = kafka.ask(request, version);
        let row = &answer.results_by_transaction[0];
        (
            row.transactional_id.clone(),
            row.topic_results[0].results_by_partition[0].partition_error_code,
        )
    };
    assert_eq!(ask(true, 5), ("x".to_owned(), ErrorCode::TRANSACTION_ABORTABLE));
    assert_eq!(ask(true, 4).1, ErrorCode::INVALID_TXN_STATE);
    assert_eq!(ask(false, 5).1, ErrorCode::NONE);
    assert_eq!(ask(true, 5).1, ErrorCode::NONE);
}

/// What a transactional producer does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(i32),
    Offset,
    End(bool),
    /// Another instance takes over.
    Init,
    /// A minute goes by, for all producers.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2).prop_map(Step::Write),
        1 => Just(Step::Offset),
        3 => any::<bool>().prop_map(Step::End),
        1 => Just(Step::Init),
        1 => Just(Step::Wait),
    ]
}

/// A producer as it sees itself.
#[derive(Clone, Debug)]
struct Instance {
    id: String,
    producer: Producer,
    sequences: [i32; 2],
    is_open: bool,
    is_fenced: bool,
    offset: Option<i64>,
}

/// A record that was written, by whom, and whether it was committed.
#[derive(Clone, Debug)]
struct Row {
    value: String,
    by: usize,
    committed: Option<bool>,
}

struct Model {
    kafka: Asking,
    instances: Vec<Instance>,
    rows: [Vec<Row>; 2],
    offset: Option<i64>,
    count: i64,
}

impl Model {
    fn new() -> Self {
        let mut kafka = Asking::new(Release::V4_4);
        kafka.state.move_leader("t", 1, 1);
        kafka.state.move_coordinator("g", 1);
        let instances = ["x", "y"].map(|id| Instance {
            id: id.to_owned(),
            producer: kafka.init(id),
            sequences: [0; 2],
            is_open: false,
            is_fenced: false,
            offset: None,
        });
        let (instances, rows) = (instances.to_vec(), [Vec::new(), Vec::new()]);
        Self { kafka, instances, rows, offset: None, count: 0 }
    }

    fn take(&mut self, by: usize, step: Step) {
        self.count += 1;
        let (kafka, one) = (&mut self.kafka, &mut self.instances[by]);
        let (id, epoch) = one.producer;
        match step {
            Step::Write(partition) => {
                let value = format!("v{}", self.count);
                let mut sent = batch(&[&value]);
                let sequence = &mut one.sequences[partition as usize];
                stamp(&mut sent, id, epoch, *sequence, true);
                let mut request = produce(-1, partition, Bytes::from(sent));
                request.transactional_id = Some(one.id.clone());
                let answer = kafka.ask(request, 12);
                let code = answer.responses[0].partition_responses[0].error_code;
                if one.is_fenced {
                    assert_eq!(code, ErrorCode::INVALID_PRODUCER_EPOCH);
                    return;
                }
                assert_eq!(code, ErrorCode::NONE);
                *sequence += 1;
                one.is_open = true;
                self.rows[partition as usize].push(Row { value, by, committed: None });
            }
            Step::Offset => {
                let answer = kafka.ask(commit_offset(&one.id, one.producer, self.count), 5);
                let code = answer.topics[0].partitions[0].error_code;
                if one.is_fenced {
                    assert_eq!(code, ErrorCode::INVALID_PRODUCER_EPOCH);
                    return;
                }
                assert_eq!(code, ErrorCode::NONE);
                (one.is_open, one.offset) = (true, Some(self.count));
            }
            Step::End(commit) if !one.is_open && commit => {
                let answer = kafka.ask(end(&one.id, one.producer, true), 5);
                assert_eq!(answer.error_code, ErrorCode::INVALID_TXN_STATE);
            }
            Step::End(commit) => {
                one.producer = end_v2(kafka, &one.id, one.producer, commit);
                (one.sequences, one.is_fenced) = ([0; 2], false);
                self.decide(by, commit);
            }
            Step::Init => {
                if one.is_open {
                    let request = InitProducerIdRequest {
                        transactional_id: Some(one.id.clone()),
                        transaction_timeout_ms: 60_000,
                        ..Default::default()
                    };
                    let code = kafka.ask(request, 5).error_code;
                    assert_eq!(code, ErrorCode::CONCURRENT_TRANSACTIONS);
                }
                one.producer = kafka.init(&one.id);
                (one.sequences, one.is_fenced) = ([0; 2], false);
                self.decide(by, false);
            }
            Step::Wait => {
                kafka.start += Duration::from_secs(60);
                for by in 0..self.instances.len() {
                    self.instances[by].is_fenced |= self.instances[by].is_open;
                    self.decide(by, false);
                }
            }
        }
    }

    fn decide(&mut self, by: usize, commit: bool) {
        let one = &mut self.instances[by];
        one.is_open = false;
        let offset = one.offset.take();
        if commit {
            self.offset = offset.or(self.offset);
        }
        let rows = self.rows.iter_mut().flatten();
        rows.filter(|row| row.by == by && row.committed.is_none())
            .for_each(|row| row.committed = Some(commit));
    }

    /// What a reader of committed records of a partition sees, and what it should.
    fn read(&mut self, partition: i32) -> (Vec<String>, Vec<String>) {
        let mut request = super::asking::fetch(partition, 0);
        request.isolation_level = 1;
        let answer = self.kafka.ask(request, 12).responses[0].partitions[0].clone();
        let mut aborted = answer.aborted_transactions.expect("asked for");
        let mut seen = Vec::new();
        for read in RecordBatches::new(answer.records.expect("there")) {
            let read = read.expect("well-formed");
            let id = read.producer_id().expect("a producer's");
            if read.is_control() {
                // The aborted transaction of this producer ends here, if this is its end.
                let ended = |row: &_| -> bool {
                    let row: &crate::protocol::messages::AbortedTransaction = row;
                    row.producer_id == id && row.first_offset < read.base_offset()
                };
                aborted.retain(|row| !ended(row));
                continue;
            }
            let skips = aborted
                .iter()
                .any(|row| row.producer_id == id && row.first_offset <= read.base_offset());
            if skips {
                continue;
            }
            let records = read.records(&mut Decompressor::new()).expect("records");
            for record in &records {
                let value = record.expect("well-formed").value.expect("a value");
                seen.push(String::from_utf8(value.to_vec()).expect("text"));
            }
        }
        let decided =
            self.rows[partition as usize].iter().take_while(|row| row.committed.is_some());
        let committed = decided.filter(|row| row.committed == Some(true));
        (seen, committed.map(|row| row.value.clone()).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn readers_see_what_was_committed_and_nothing_else(
        steps in proptest::collection::vec((0..2_usize, step()), 1..60),
    ) {
        let mut model = Model::new();
        for (by, step) in steps {
            model.take(by, step);
            for partition in 0..2 {
                let (seen, committed) = model.read(partition);
                prop_assert_eq!(seen, committed);
            }
            prop_assert_eq!(committed(&model.kafka), model.offset);
        }
    }
}
