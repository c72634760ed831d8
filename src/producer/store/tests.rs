//! The retry store of a producer, on brokers in this process.

use std::time::Duration;

use super::testing::Folder;
use crate::broker::{Cluster, Fault, FaultHandle};
use crate::clock::Deadline;
use crate::error::ErrorKind;
use crate::fetch::At;
use crate::producer::ProducerBuilder;
use crate::protocol::records::Compression;
use crate::protocol::{ApiKey, ErrorCode};
use crate::{Client, Producer, Record, Ticket, threads};

const PATIENCE: Duration = Duration::from_secs(60);
/// After so long a record is not delivered: short, since each test waits for it, but long enough for a broker in a busy
/// process, since what is answered too late is sent again and comes twice.
const DELIVERY: Duration = Duration::from_secs(1);

struct World {
    kafka: Cluster,
    client: Client,
    folder: Folder,
}

impl World {
    fn new() -> Self {
        let kafka = Cluster::builder().brokers(1).topic("t", 2).start().expect("a cluster");
        let client = Client::builder(kafka.bootstrap())
            .request_timeout(DELIVERY)
            .retry_backoff(Duration::from_millis(5))
            .reconnect_backoff(Duration::from_millis(5))
            .build()
            .expect("a client");
        Self { kafka, client, folder: Folder::new() }
    }

    /// Records fail after [`DELIVERY`].
    fn builder(&self) -> ProducerBuilder {
        self.client
            .producer()
            .linger(Duration::ZERO)
            .delivery_timeout(DELIVERY)
            .retry_store_path(self.folder.path().to_str().expect("text").to_owned())
    }

    /// No record is stored while this is in force.
    fn outage(&self) -> FaultHandle {
        self.kafka.fault(Fault::on(ApiKey::PRODUCE).drop_before())
    }

    fn stored(&self, partition: i32) -> Vec<String> {
        let offsets = self.client.offsets("t", At::Latest).expect("a topic");
        let end = offsets.into_iter().map(|offset| offset.expect("an offset"));
        let end =
            end.into_iter().find(|offset| offset.partition == partition).expect("it is there");
        let records =
            self.client.read("t", partition, 0..end.offset.expect("known")).expect("a range");
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        records.map(|record| text(record.expect("a record").value().expect("a value"))).collect()
    }
}

fn send(producer: &Producer, count: usize) -> Vec<Ticket> {
    let mut tickets = Vec::new();
    for number in 0..count {
        let value = format!("record {number}");
        let record = Record::to("t").partition((number % 2) as i32).value(&value);
        tickets.push(producer.send(record).expect("taken"));
        if number % 10 == 9 {
            // So that there is more than one batch.
            tickets.last().expect("one").wait_timeout(Duration::from_millis(1)).ok();
        }
    }
    tickets
}

fn numbers(partition: usize, count: usize) -> Vec<String> {
    (0..count)
        .filter(|number| number % 2 == partition)
        .map(|number| format!("record {number}"))
        .collect()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Deadline::within(PATIENCE);
    while !holds() {
        assert!(!deadline.left().is_zero(), "{what}");
        threads::pause(Duration::from_millis(5));
    }
}

fn is_delivered(producer: &Producer) -> bool {
    producer.metrics().retry_store_bytes == 0
}

#[test]
fn what_timed_out_is_stored_and_sent_again_in_order_after_recovery() {
    let world = World::new();
    let producer = world.builder().compression(Compression::Lz4).build().expect("a producer");
    let failures = producer.failures(1000).expect("a channel");
    let outage = world.outage();
    for ticket in send(&producer, 100) {
        let error = ticket.wait().expect_err("an outage");
        assert_eq!(error.kind(), ErrorKind::StoredForRetry, "{error}");
        assert!(!error.is_retriable(), "it must not be sent again by the program");
    }
    let metrics = producer.metrics();
    assert_eq!((metrics.record_stored_for_retry_total, metrics.record_error_total), (100, 0));
    assert!(metrics.retry_store_bytes > 0);
    outage.remove();
    until("the store is empty", || is_delivered(&producer));
    for partition in 0..2 {
        assert_eq!(world.stored(partition as i32), numbers(partition, 100));
    }
    assert!(failures.is_empty(), "what is stored is no failure");
    producer.send(Record::to("t").value("more")).expect("taken").wait().expect("stored");
}

#[test]
fn a_batch_that_fails_again_stays_and_is_not_stored_twice() {
    let world = World::new();
    let producer = world.builder().build().expect("a producer");
    let outage = world.outage();
    for ticket in send(&producer, 10) {
        ticket.wait().expect_err("an outage");
    }
    let bytes = producer.metrics().retry_store_bytes;
    let sent = producer.metrics().record_send_total;
    until("it is tried again", || producer.metrics().record_send_total > sent + 20);
    until("it fails again", || producer.buffered_bytes() == 0);
    assert_eq!(producer.metrics().retry_store_bytes, bytes);
    assert_eq!(producer.metrics().record_stored_for_retry_total, 10);
    outage.remove();
    until("the store is empty", || is_delivered(&producer));
    for partition in 0..2 {
        assert_eq!(world.stored(partition as i32), numbers(partition, 10));
    }
}

#[test]
fn another_producer_takes_over_after_a_restart_and_not_before() {
    let world = World::new();
    let producer = world.builder().build().expect("a producer");
    let outage = world.outage();
    for ticket in send(&producer, 40) {
        ticket.wait().expect_err("an outage");
    }
    let error = world.builder().build().expect_err("the folder is in use");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(producer.close(PATIENCE).expect("closed").is_empty());
    outage.remove();
    let producer = world.builder().build().expect("the folder is free");
    until("the store is empty", || is_delivered(&producer));
    for partition in 0..2 {
        assert_eq!(world.stored(partition as i32), numbers(partition, 40));
    }
}

#[test]
fn what_close_cannot_deliver_is_stored_and_not_given_back() {
    let world = World::new();
    let producer = world.builder().delivery_timeout(PATIENCE).build().expect("a producer");
    let outage = world.outage();
    let tickets = send(&producer, 20);
    assert!(producer.close(Duration::ZERO).expect("closed").is_empty());
    for ticket in tickets {
        let error = ticket.try_get().expect("told").expect_err("an outage");
        assert_eq!(error.kind(), ErrorKind::StoredForRetry);
    }
    outage.remove();
    let producer = world.builder().build().expect("a producer");
    until("the store is empty", || is_delivered(&producer));
    for partition in 0..2 {
        assert_eq!(world.stored(partition as i32), numbers(partition, 20));
    }
}

#[test]
fn a_full_store_lets_records_fail_as_without_one() {
    let world = World::new();
    let producer = world.builder().retry_store_max(4096).build().expect("a producer");
    let failures = producer.failures(1000).expect("a channel");
    let outage = world.outage();
    let value = vec![b'x'; 1000];
    let mut results = Vec::new();
    for _ in 0..6 {
        let ticket = producer.send(Record::to("t").partition(0).value(&value)).expect("taken");
        results.push(ticket.wait().expect_err("an outage").kind());
    }
    let count = |kind| results.iter().filter(|result| **result == kind).count();
    assert_eq!(
        (count(ErrorKind::StoredForRetry), count(ErrorKind::Timeout)),
        (3, 3),
        "{results:?}"
    );
    assert_eq!(failures.len(), 3);
    assert!(producer.metrics().retry_store_bytes <= 4096);
    outage.remove();
    until("the store is empty", || is_delivered(&producer));
    assert_eq!(world.stored(0).len(), 3);
}

#[test]
fn a_stored_batch_that_is_refused_for_good_is_dropped_and_told() {
    let world = World::new();
    let producer = world.builder().build().expect("a producer");
    let failures = producer.failures(1000).expect("a channel");
    let outage = world.outage();
    producer
        .send(Record::to("t").partition(0).value("bad"))
        .expect("taken")
        .wait()
        .expect_err("an outage");
    world.kafka.fault(Fault::on(ApiKey::PRODUCE).times(1).answer(ErrorCode::INVALID_TIMESTAMP));
    outage.remove();
    until("the store is empty", || is_delivered(&producer));
    let told = failures.recv_timeout(PATIENCE).expect("one failure");
    assert_eq!(told.value.as_deref(), Some(&b"bad"[..]));
    assert_eq!(told.reason.broker_code(), Some(ErrorCode::INVALID_TIMESTAMP));
    assert!(world.stored(0).is_empty());
}

#[test]
fn a_topic_that_was_made_again_gets_nothing_of_the_old_one() {
    let world = World::new();
    let producer = world.builder().build().expect("a producer");
    let outage = world.outage();
    for ticket in send(&producer, 4) {
        ticket.wait().expect_err("an outage");
    }
    producer.close(PATIENCE).expect("closed");
    let admin = world.client.admin();
    admin.delete_topics(["t"]).expect("asked").into_iter().for_each(drop);
    until("it is gone and made again", || world.kafka.create_topic("t", 2).is_ok());
    outage.remove();
    let producer = world.builder().build().expect("a producer");
    until("the store is empty", || is_delivered(&producer));
    assert_eq!(producer.metrics().record_error_total, 4);
    producer
        .send(Record::to("t").partition(0).value("new"))
        .expect("taken")
        .wait()
        .expect("stored");
    assert_eq!((world.stored(0), world.stored(1)), (vec!["new".to_owned()], Vec::new()));
}

#[test]
fn without_a_path_nothing_is_stored() {
    let world = World::new();
    let producer = world.builder().retry_store_path(String::new()).build().expect("a producer");
    let _outage = world.outage();
    let error =
        producer.send(Record::to("t").value("x")).expect("taken").wait().expect_err("outage");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(std::fs::read_dir(world.folder.path()).expect("a folder").count(), 0);
}
