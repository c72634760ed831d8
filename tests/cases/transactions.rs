//! Transactions as a reader sees them, written over plain sockets.

use ottla::broker::Cluster;
use ottla::protocol::messages::*;
use ottla::protocol::records::{BatchBuilder, Compression, Compressor, stamp};
use ottla::protocol::{ApiKey, Bytes, Request};

use crate::wire::ask_at;
use crate::{SOON, client, cluster};

/// A producer whose transactions all go to partition 0 of `t`.
struct Transactions<'a> {
    kafka: &'a Cluster,
    id: &'static str,
    producer_id: i64,
    epoch: i16,
    sequence: i32,
}

impl<'a> Transactions<'a> {
    fn new(kafka: &'a Cluster, id: &'static str) -> Self {
        let request = InitProducerIdRequest {
            transactional_id: Some(id.to_owned()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let answer = ask(kafka, 3, &request);
        assert!(answer.error_code.is_ok(), "{answer:?}");
        let (producer_id, epoch) = (answer.producer_id, answer.producer_epoch);
        Self { kafka, id, producer_id, epoch, sequence: 0 }
    }

    fn begin(&self) {
        let topic = AddPartitionsToTxnTopic {
            name: "t".to_owned(),
            partitions: vec![0],
            ..Default::default()
        };
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.to_owned(),
            v3_and_below_producer_id: self.producer_id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![topic],
            ..Default::default()
        };
        let answer = ask(self.kafka, 3, &request);
        let row = &answer.results_by_topic_v3_and_below[0].results_by_partition[0];
        assert!(row.partition_error_code.is_ok(), "{answer:?}");
    }

    /// Stores one batch.
    fn send(&mut self, values: &[&str]) {
        let mut batch = batch(values);
        stamp(&mut batch, self.producer_id, self.epoch, self.sequence, true);
        self.sequence += values.len() as i32;
        produce(self.kafka, Some(self.id), batch);
    }

    fn end(&self, committed: bool) {
        let request = EndTxnRequest {
            transactional_id: self.id.to_owned(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            committed,
            ..Default::default()
        };
        let answer = ask(self.kafka, 3, &request);
        assert!(answer.error_code.is_ok(), "{answer:?}");
    }
}

fn ask<R: Request>(kafka: &Cluster, version: i16, request: &R) -> R::Response {
    ask_at(kafka.bootstrap(), version, request).expect("an answer")
}

fn batch(values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for value in values {
        builder.append(1_700_000_000_000, None, Some(value.as_bytes()), &[]).expect("it fits");
    }
    builder.finish(Compression::None, None, &mut Compressor::new()).expect("a batch")
}

fn produce(kafka: &Cluster, transactional_id: Option<&str>, records: Vec<u8>) {
    let partition = PartitionProduceData {
        index: 0,
        records: Some(Bytes::from(records)),
        ..Default::default()
    };
    let topic = TopicProduceData {
        name: "t".to_owned(),
        partition_data: vec![partition],
        ..Default::default()
    };
    let request = ProduceRequest {
        transactional_id: transactional_id.map(str::to_owned),
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![topic],
        ..Default::default()
    };
    let answer = ask(kafka, 9, &request);
    assert!(answer.responses[0].partition_responses[0].error_code.is_ok(), "{answer:?}");
}

/// The values and offsets that a reader of committed records finds in `0..end`.
fn committed(kafka: &Cluster, end: i64, settings: &[(&str, &str)]) -> Vec<(i64, String)> {
    let settings = [&[("isolation.level", "read_committed")], settings].concat();
    let client = client(kafka, &settings);
    let mut reader = client.read("t", 0, 0..end).expect("a reader");
    let mut found = Vec::new();
    while !reader.is_finished() {
        let Some(batch) = reader.next_batch(SOON).expect("no error") else {
            assert!(reader.is_finished(), "stuck at {}", reader.position());
            break;
        };
        for record in &batch {
            let record = record.expect("whole");
            let value = String::from_utf8(record.value.expect("a value").to_vec()).expect("text");
            found.push((record.offset, value));
        }
    }
    found
}

/// The offsets that fetches asked for, in order.
fn fetched(kafka: &Cluster) -> Vec<i64> {
    let fetches = kafka.observed().into_iter().filter(|seen| seen.api() == ApiKey::FETCH);
    fetches
        .map(|seen| {
            let request: FetchRequest = seen.decode().expect("a fetch");
            request.topics[0].partitions[0].fetch_offset
        })
        .collect()
}

/// apache/pinot#12318, apache/pinot#18337, tulios/kafkajs#1256: a long stretch of aborted records gives no
/// record, answer after answer, and is crossed all the same.
#[test]
fn a_long_aborted_stretch_is_crossed() {
    const BATCHES: usize = 50;
    let kafka = cluster();
    let mut aborted = Transactions::new(&kafka, "aborted");
    aborted.begin();
    for _ in 0..BATCHES {
        aborted.send(&["aborted"; 100]);
    }
    aborted.end(false);
    produce(&kafka, None, batch(&["after"]));
    let end = kafka.log_end("t", 0).expect("a log");
    assert_eq!(end, 5002, "a marker and a record");

    let found = committed(&kafka, end, &[("max.partition.fetch.bytes", "4000")]);
    assert_eq!(found, [(5001, "after".to_owned())]);
    let asked = fetched(&kafka);
    assert!(asked.len() > BATCHES / 10, "the stretch took {} answers", asked.len());
    assert!(asked.is_sorted_by(|one, next| one < next), "each answer moves on: {asked:?}");
}

/// confluentinc/librdkafka#3020, streamnative/kop#1283: of two producers in one partition one aborts; the
/// answers are cut so that each holds one batch, its marker far behind.
#[test]
fn aborted_records_stay_hidden_when_their_marker_comes_in_a_later_answer() {
    let kafka = cluster();
    let mut aborts = Transactions::new(&kafka, "aborts");
    let mut commits = Transactions::new(&kafka, "commits");
    aborts.begin();
    commits.begin();
    for round in 0..5 {
        aborts.send(&[&format!("aborted {round}")]);
        commits.send(&[&format!("committed {round}")]);
    }
    aborts.end(false);
    commits.send(&["between the markers"]);
    commits.end(true);
    // The same producer commits what comes next: its abort is over.
    aborts.begin();
    aborts.send(&["of the next transaction"]);
    aborts.end(true);
    let end = kafka.log_end("t", 0).expect("a log");

    let mut wanted: Vec<(i64, String)> =
        (0..5).map(|round| (round * 2 + 1, format!("committed {round}"))).collect();
    wanted.push((11, "between the markers".to_owned()));
    wanted.push((13, "of the next transaction".to_owned()));
    for limit in ["1", "150", "1000000"] {
        let found = committed(&kafka, end, &[("max.partition.fetch.bytes", limit)]);
        assert_eq!(found, wanted, "{limit} bytes at a time");
    }
    assert!(fetched(&kafka).len() > 13, "one batch at a time was read");
}

/// confluentinc/librdkafka#3400: two records are read of three, then the place is saved; neither it nor any other place
/// before a marker passes over what was not read.
#[test]
fn a_saved_position_passes_over_no_record_beside_a_marker() {
    let kafka = cluster();
    let mut producer = Transactions::new(&kafka, "one");
    for first in [0, 4] {
        producer.begin();
        let values: Vec<String> = (first..first + 3).map(|offset| offset.to_string()).collect();
        producer.send(&values.iter().map(String::as_str).collect::<Vec<_>>());
        producer.end(true);
    }
    let client = client(&kafka, &[("isolation.level", "read_committed")]);
    let all: Vec<i64> = vec![0, 1, 2, 4, 5, 6];
    for count in 0..=all.len() {
        let mut reader = client.read("t", 0, 0..8).expect("a reader");
        let read: Vec<i64> =
            reader.by_ref().take(count).map(|record| record.expect("a record").offset()).collect();
        assert_eq!(read, all[..count]);
        // What the reader says itself is the start of the batch that was begun, or less.
        let position = reader.position();
        let saved = read.last().map_or(0, |last| last + 1);
        assert!(position <= all.get(count).copied().unwrap_or(8), "{position} after {count}");
        let again = client.read("t", 0, saved..8).expect("a reader");
        let rest: Vec<i64> = again.map(|record| record.expect("a record").offset()).collect();
        assert_eq!(rest, all[count..], "from {saved}");
    }
}
