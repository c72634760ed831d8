//! Reading: limits, waiting, damage, brokers that fail, logs that go back.

use std::collections::HashMap;
use std::time::Duration;

use ottla::broker::{Cluster, Fault};
use ottla::fetch::At;
use ottla::protocol::ApiKey;
use ottla::{Client, ErrorKind, Record};

use crate::{SOON, client, cluster};

/// tulios/kafkajs#1677: a batch larger than every limit comes whole, since nothing else could.
#[test]
fn a_batch_beyond_the_limit_is_delivered() {
    const SIZE: usize = 126_000;
    let kafka = cluster();
    let limits = [("max.partition.fetch.bytes", "1"), ("fetch.max.bytes", "1")];
    let client = client(&kafka, &limits);
    let producer = client.producer().build().expect("a producer");
    let value = "x".repeat(SIZE);
    for _ in 0..2 {
        let ticket = producer.send(Record::to("t").value(&value)).expect("taken");
        ticket.wait().expect("stored");
    }
    let mut reader = client.read("t", 0, 0..2).expect("a reader");
    let sizes: Vec<usize> = reader
        .by_ref()
        .map(|record| record.expect("a record").value().expect("a value").len())
        .collect();
    assert_eq!(sizes, [SIZE; 2]);
    assert!(reader.is_finished());
}

/// confluentinc/librdkafka#1616: an answer that is longer than the client accepts ends with a word about it, at once, not in
/// connections made for ever. Fetch limits of which a full answer would not be accepted are refused.
#[test]
fn an_answer_beyond_the_accepted_size_is_an_error() {
    let kafka = cluster();
    let limit = [("receive.message.max.bytes", "100000"), ("fetch.max.bytes", "90000")];
    let client = client(&kafka, &limit);
    let producer = client.producer().build().expect("a producer");
    let value = "x".repeat(100_000);
    producer.send(Record::to("t").value(&value)).expect("taken").wait().expect("stored");
    let fetches = kafka.fault(Fault::on(ApiKey::FETCH));
    let error =
        client.read("t", 0, 0..1).expect("a reader").next().expect("one").expect_err("long");
    assert!(error.to_string().contains("receive.message.max.bytes"), "{error}");
    assert_eq!(error.kind(), ErrorKind::AnswerTooLarge, "{error}");
    assert_eq!(fetches.count(), 2, "asked once more: {error}");
    let servers = [("bootstrap.servers", kafka.bootstrap())];
    let same = [("receive.message.max.bytes", "100000"), ("fetch.max.bytes", "100000")];
    let all: HashMap<&str, &str> = servers.iter().chain(&same).copied().collect();
    let refused = Client::from_properties(all).and_then(|client| client.build().map(drop));
    assert!(refused.expect_err("no room").to_string().contains("fetch.max.bytes"));
}

/// segmentio/kafka-go#830: at the end of an idle partition the answers hold nothing, which is no error, and the broker does
/// the waiting.
#[test]
fn an_idle_partition_is_waited_for_in_the_broker() {
    let kafka = cluster();
    let client = client(&kafka, &[("fetch.max.wait.ms", "500")]);
    let mut reader = client.read("t", 0, 0..i64::MAX).expect("a reader");
    let fetches = kafka.fault(Fault::on(ApiKey::FETCH));
    let batch = reader.next_batch(Duration::from_secs(2)).expect("no error");
    assert!(batch.is_none() && !reader.is_finished());
    assert_eq!(reader.position(), 0);
    // Four full waits, and one that the time-out cuts short. A slow machine asks less often.
    assert!((1..=6).contains(&fetches.count()), "{} requests", fetches.count());
}

/// confluentinc/librdkafka#2588: one leader does not answer. The others' partitions have their offsets in time, and the
/// error names the partition.
#[test]
fn ends_of_partitions_come_without_the_one_whose_leader_is_gone() {
    let kafka = Cluster::builder().brokers(3).topic("t", 3).start().expect("a cluster");
    for partition in 0..3 {
        kafka.move_leader("t", partition, partition + 1).expect("moved");
    }
    let client = client(&kafka, &[("default.api.timeout.ms", "2000")]);
    let ends = client.offsets("t", At::Latest).expect("a topic");
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
    kafka.freeze(3);
    let ends = client.offsets("t", At::Latest).expect("a topic");
    kafka.thaw(3);
    assert_eq!(ends.len(), 3);
    for (end, partition) in ends.iter().zip(0..) {
        match end {
            Ok(end) => assert_eq!((end.partition, end.offset), (partition, Some(0))),
            Err(error) => {
                assert_eq!(partition, 2, "{error}");
                assert!(error.is_timeout() && error.to_string().contains("t-2"), "{error}");
            }
        }
    }
    assert!(ends[2].is_err(), "broker 3 was frozen");
}

/// confluentinc/librdkafka#5581, aio-libs/aiokafka#321: the error of a damaged batch says how far it reaches. Nothing is skipped
/// unasked; after an explicit skip reading goes on.
#[test]
fn a_damaged_batch_names_its_offsets_and_is_skipped_only_when_asked() {
    let kafka = cluster();
    let client = client(&kafka, &[("retry.backoff.max.ms", "100"), ("linger.ms", "20000")]);
    let producer = client.producer().build().expect("a producer");
    for batch in [0..3, 3..7, 7..9] {
        for _ in batch {
            producer.send(Record::to("t").value("v")).expect("taken");
        }
        producer.flush(SOON).expect("stored");
    }
    let mut reader = client.read("t", 0, 3..9).expect("a reader");
    let fault = kafka.fault(Fault::on(ApiKey::FETCH).corrupt_records());
    for _ in 0..3 {
        let error = reader.next_batch(SOON).expect_err("damage");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("offsets 3 to 6"), "{error}");
        assert!(error.to_string().contains("t-0"), "{error}");
        assert_eq!(reader.position(), 3);
    }
    assert!(fault.count() >= 3, "asked anew each time");
    fault.remove();
    reader.skip_to(7);
    let batch = reader.next_batch(SOON).expect("no damage").expect("a batch");
    assert_eq!(batch.iter().count(), 2);
}

/// thomhurst/Dekaf#1718: bytes come that are no batch. The partition fails with a word about it; others flow on.
#[test]
fn a_partition_of_garbage_fails_alone() {
    let kafka = Cluster::builder().brokers(2).topic("t", 2).start().expect("a cluster");
    kafka.move_leader("t", 0, 1).expect("moved");
    kafka.move_leader("t", 1, 2).expect("moved");
    let client = client(&kafka, &[("retry.backoff.max.ms", "100")]);
    let producer = client.producer().build().expect("a producer");
    for partition in [0, 1, 1, 1] {
        let record = Record::to("t").partition(partition).value("v");
        producer.send(record).expect("taken").wait().expect("stored");
    }
    // 2 kB whose format is of version 9.
    let fault = kafka.fault(Fault::on(ApiKey::FETCH).broker(1).replace_records(vec![9; 2000]));
    let mut garbage = client.read("t", 0, 0..1).expect("a reader");
    let mut good = client.read("t", 1, 0..3).expect("a reader");
    for offset in 0..3 {
        let error = garbage.next_batch(SOON).expect_err("garbage");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("t-0"), "{error}");
        let record = good.next().expect("a record").expect("read");
        assert_eq!(record.offset(), offset);
    }
    assert_eq!(fault.count(), 3, "one request for each call");
}

/// twmb/franz-go#119: a broker comes back from a backup, with a lower leader epoch and a shorter log. The client
/// follows it instead of waiting for the epoch it knew.
#[test]
fn a_restored_partition_with_a_lower_epoch_is_followed() {
    let kafka = Cluster::builder().brokers(2).topic("t", 1).start().expect("a cluster");
    let client = client(&kafka, &[("default.api.timeout.ms", "30000")]);
    let send = |value: &str| {
        let producer = client.producer().build().expect("a producer");
        producer.send(Record::to("t").value(value)).expect("taken").wait().expect("stored")
    };
    send("0");
    for leader in [1, 2, 1, 2] {
        kafka.move_leader("t", 0, leader).expect("moved");
        send("of a later epoch");
    }
    kafka.restore("t", 0, 1).expect("restored");
    assert_eq!(kafka.log_end("t", 0), Some(1));
    assert_eq!(send("after").offset, Some(1));
    let values: Vec<Vec<u8>> = client
        .read("t", 0, 0..2)
        .expect("a reader")
        .map(|record| record.expect("a record").value().expect("a value").to_vec())
        .collect();
    assert_eq!(values, [b"0".to_vec(), b"after".to_vec()]);
}
