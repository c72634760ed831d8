//! The whole producer against brokers in this process: order, faults, bounds.
//!
//! Tests that come from reports on other clients name them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::fake_kafka::{FakeKafka, Fault, PATIENCE, Seen};
use super::{Producer, ProducerBuilder, Record, Ticket};
use crate::config::Acks;
use crate::error::ErrorKind;
use crate::protocol::ErrorCode;
use crate::protocol::records::Compression;
use crate::threads;
use crate::{Client, clock};

fn client(kafka: &FakeKafka) -> Client {
    Client::builder(&kafka.bootstrap())
        .retry_backoff(Duration::from_millis(5))
        .retry_backoff_max(Duration::from_millis(50))
        .reconnect_backoff(Duration::from_millis(5))
        .reconnect_backoff_max(Duration::from_millis(50))
        .request_timeout(Duration::from_secs(20))
        .build()
        .expect("a client")
}

fn builder(kafka: &FakeKafka) -> ProducerBuilder {
    client(kafka).producer().linger(Duration::from_millis(1))
}

fn producer(kafka: &FakeKafka) -> Producer {
    builder(kafka).build().expect("a producer")
}

#[expect(clippy::needless_pass_by_value, reason = "reads better in the tests")]
fn send(producer: &Producer, partition: i32, value: impl ToString) -> Ticket {
    let value = value.to_string();
    producer.send(Record::to("t").partition(partition).value(&value)).expect("taken")
}

/// Values of the records of an uncompressed batch.
fn values(batch: &[u8]) -> Vec<String> {
    let mut rest = &batch[61..];
    let mut all = Vec::new();
    let varint = |rest: &mut &[u8]| {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = rest[0];
            *rest = &rest[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return (value >> 1) as i64 ^ -((value & 1) as i64);
            }
        }
    };
    while !rest.is_empty() {
        let length = varint(&mut rest) as usize;
        let mut record = &rest[1..length];
        rest = &rest[length..];
        varint(&mut record);
        varint(&mut record);
        let key = varint(&mut record);
        record = &record[key.max(0) as usize..];
        let length = varint(&mut record) as usize;
        all.push(String::from_utf8(record[..length].to_vec()).expect("text"));
    }
    all
}

fn log(kafka: &FakeKafka, partition: usize) -> Vec<String> {
    kafka.with(|state| state.log(partition).iter().flat_map(|(_, batch)| values(batch)).collect())
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

fn seen(kafka: &FakeKafka) -> Vec<Seen> {
    kafka.with(|state| state.seen.clone())
}

#[test]
fn a_record_is_stored_and_its_ticket_says_where() {
    let kafka = FakeKafka::start(1, 3);
    let producer = producer(&kafka);
    let first = send(&producer, 2, "a").wait().expect("stored");
    let second = send(&producer, 2, "b").wait().expect("stored");
    assert_eq!((first.partition, first.offset), (2, Some(0)));
    assert_eq!(second.offset, Some(1));
    assert!(second.timestamp >= first.timestamp && first.timestamp > 1_600_000_000_000);
    assert_eq!(log(&kafka, 2), ["a", "b"]);
    assert_eq!(seen(&kafka)[0].version, 13, "the topic's id is known");
    assert!(producer.close(PATIENCE).expect("closed").is_empty());
    assert_eq!(producer.buffered_bytes(), 0);
    let error = producer.send(Record::to("t")).expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
}

/// dpkp/kafka-python#2714: a step of the wall clock, an hour ahead and an hour back, expires nothing and hangs
/// nothing; the records' timestamps follow it. The call of `send` is the only one that reads that clock.
#[test]
fn a_step_of_the_wall_clock_moves_timestamps_alone() {
    const HOUR_MS: i64 = 3_600_000;
    let kafka = FakeKafka::start(1, 1);
    let producer =
        builder(&kafka).delivery_timeout(Duration::from_secs(120)).build().expect("a producer");
    let mut tickets = vec![send(&producer, 0, "now")];
    for (value, step) in [("ahead", HOUR_MS), ("back", -HOUR_MS)] {
        clock::testing::step_wall_clock(step);
        tickets.push(send(&producer, 0, value));
    }
    clock::testing::step_wall_clock(0);
    let times: Vec<i64> =
        tickets.into_iter().map(|ticket| ticket.wait().expect("stored").timestamp).collect();
    assert!((times[1] - times[0] - HOUR_MS).abs() < HOUR_MS / 2, "{times:?}");
    assert!((times[0] - times[2] - HOUR_MS).abs() < HOUR_MS / 2, "{times:?}");
    assert_eq!(log(&kafka, 0), ["now", "ahead", "back"]);
}

/// tulios/kafkajs#598, dpkp/kafka-python#2937.
#[test]
fn many_senders_give_one_sequence_without_gap_or_swap() {
    const SENDERS: usize = 8;
    const EACH: usize = 2000;
    let kafka = FakeKafka::start(1, 1);
    kafka.with(|state| state.jitter_us = 20_000);
    let producer = Arc::new(builder(&kafka).batch_size(2000).build().expect("a producer"));
    let threads: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let producer = Arc::clone(&producer);
            threads::spawn("test-sender", move || {
                for number in 0..EACH {
                    send(&producer, 0, sender * EACH + number);
                }
            })
            .expect("a thread")
        })
        .collect();
    threads.into_iter().for_each(threads::Thread::join);
    producer.flush(PATIENCE).expect("flushed");
    let mut next = 0;
    for seen in seen(&kafka) {
        assert_eq!((seen.epoch, seen.sequence), (0, next));
        next += seen.count;
    }
    assert_eq!(next as usize, SENDERS * EACH);
    let log: Vec<usize> =
        log(&kafka, 0).iter().map(|value| value.parse().expect("a number")).collect();
    for sender in 0..SENDERS {
        let own: Vec<_> = log.iter().filter(|number| **number / EACH == sender).collect();
        assert!(own.len() == EACH && own.is_sorted(), "sender {sender}");
    }
}

/// apache/kafka#9832 (KAFKA-12152).
#[test]
fn an_idle_partition_starts_the_new_epoch_at_sequence_zero() {
    let kafka = FakeKafka::start(1, 2);
    let producer = producer(&kafka);
    send(&producer, 0, "a").wait().expect("stored");
    send(&producer, 1, "b").wait().expect("stored");
    kafka.with(|state| state.fault(0, Fault::Code(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)));
    send(&producer, 0, "c").wait().expect("stored under a new epoch");
    send(&producer, 1, "d").wait().expect("stored");
    let last = seen(&kafka).pop().expect("a batch");
    assert_eq!((last.partition, last.epoch, last.sequence), (1, 1, 0));
    assert_eq!([log(&kafka, 0), log(&kafka, 1)], [["a", "c"], ["b", "d"]]);
}

/// confluentinc/librdkafka#3584.
#[test]
fn a_first_batch_that_meets_a_new_leader_and_a_lost_sequence_gets_through() {
    let kafka = FakeKafka::start(2, 1);
    kafka.with(|state| {
        state.fault(0, Fault::Code(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        state.fault(0, Fault::Code(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    });
    let producer = producer(&kafka);
    send(&producer, 0, "a").wait().expect("stored");
    send(&producer, 0, "b").wait().expect("stored");
    assert_eq!(log(&kafka, 0), ["a", "b"]);
}

/// confluentinc/librdkafka#3720.
#[test]
fn used_up_epochs_lead_to_a_new_producer_id() {
    let kafka = FakeKafka::start(1, 1);
    kafka.with(|state| state.first_epoch = 32766);
    let producer = producer(&kafka);
    for value in 0..3 {
        send(&producer, 0, value).wait().expect("stored");
        kafka.with(|state| state.fault(0, Fault::Code(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)));
    }
    send(&producer, 0, 3).wait().expect("stored");
    assert_eq!(log(&kafka, 0), numbers(0..4));
    let epochs: Vec<_> = seen(&kafka).iter().map(|seen| (seen.producer_id, seen.epoch)).collect();
    assert!(epochs.iter().all(|(_, epoch)| *epoch >= 0), "{epochs:?}");
    assert_eq!(kafka.with(|state| state.init_requests), 2);
    assert!(epochs.contains(&(1001, 32767)) && epochs.contains(&(1002, 0)), "{epochs:?}");
}

/// redpanda-data/redpanda#22670.
#[test]
fn a_broker_that_forgot_the_producer_is_met_with_a_new_epoch() {
    let kafka = FakeKafka::start(1, 1);
    let producer = producer(&kafka);
    send(&producer, 0, 0).wait().expect("stored");
    kafka.with(|state| {
        state.fault(0, Fault::Forget(0));
        state.fault(0, Fault::Code(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    });
    send(&producer, 0, 1).wait().expect("stored");
    send(&producer, 0, 2).wait().expect("stored");
    assert_eq!(log(&kafka, 0), numbers(0..3));
    assert_eq!(seen(&kafka).last().map(|seen| seen.epoch), Some(2));
}

/// confluentinc/librdkafka#1092 and #623.
#[test]
fn a_retry_is_not_overtaken() {
    let kafka = FakeKafka::start(1, 1);
    kafka.with(|state| {
        for _ in 0..3 {
            state.fault(0, Fault::Code(ErrorCode::NOT_ENOUGH_REPLICAS));
        }
    });
    let producer = builder(&kafka).max_in_flight(1).batch_size(0).build().expect("a producer");
    (0..20).for_each(|number| _ = send(&producer, 0, number));
    producer.flush(PATIENCE).expect("flushed");
    assert_eq!(log(&kafka, 0), numbers(0..20));
    assert!(seen(&kafka).iter().take(4).all(|seen| seen.sequence == 0));
}

/// dpkp/kafka-python#718.
#[test]
fn a_retried_batch_is_the_same_bytes() {
    let kafka = FakeKafka::start(1, 1);
    kafka.with(|state| state.fault(0, Fault::Code(ErrorCode::NOT_ENOUGH_REPLICAS)));
    let producer = builder(&kafka).compression(Compression::Gzip).build().expect("a producer");
    send(&producer, 0, "a".repeat(1000)).wait().expect("stored");
    let seen = seen(&kafka);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].bytes.len() < 300, "compressed");
}

/// librdkafka#488, zendesk/ruby-kafka#890, kafka4beam/wolff#64.
#[test]
fn a_record_too_large_for_the_broker_fails_alone() {
    let kafka = FakeKafka::start(1, 1);
    kafka.with(|state| state.batch_bytes_max = 2000);
    let producer = builder(&kafka).linger(Duration::from_millis(200)).build().expect("a producer");
    let called = Arc::new(AtomicUsize::new(0));
    let tickets: Vec<_> = (0..7)
        .map(|number| {
            let value = if number == 3 { "x".repeat(5000) } else { number.to_string() };
            let called = Arc::clone(&called);
            let record = Record::to("t").value(&value).timestamp(1000 + number);
            let count = move |_| _ = called.fetch_add(1, Ordering::SeqCst);
            producer.send_with(record, count).expect("taken")
        })
        .collect();
    producer.flush(PATIENCE).expect("flushed");
    for (number, ticket) in tickets.iter().enumerate() {
        match ticket.try_get().expect("resolved") {
            Ok(stored) => {
                assert_eq!(stored.timestamp, 1000 + number as i64);
                let place = if number < 3 { number } else { number - 1 };
                assert_eq!(stored.offset, Some(place as i64));
            }
            Err(error) => {
                assert_eq!((number, error.kind()), (3, ErrorKind::RecordTooLarge));
            }
        }
    }
    assert_eq!(log(&kafka, 0), ["0", "1", "2", "4", "5", "6"]);
    assert_eq!(called.load(Ordering::SeqCst), 7, "one call each");
    assert_eq!(producer.buffered_bytes(), 0);
}

#[test]
fn records_that_the_broker_names_fail_and_the_others_are_stored() {
    let kafka = FakeKafka::start(1, 1);
    kafka.with(|state| state.fault(0, Fault::BadRecords(vec![1, 3])));
    let producer = builder(&kafka).linger(Duration::from_millis(200)).build().expect("a producer");
    let tickets: Vec<_> = (0..5).map(|number| send(&producer, 0, number)).collect();
    let results: Vec<_> = tickets.iter().map(Ticket::wait).collect();
    assert_eq!(
        results.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, false, true, false, true]
    );
    let error = results[1].as_ref().expect_err("bad");
    assert_eq!(error.broker_code(), Some(ErrorCode::INVALID_RECORD));
    assert!(error.to_string().contains("bad record"), "{error}");
    assert_eq!(log(&kafka, 0), ["0", "2", "4"]);
}

#[test]
fn a_record_beyond_max_request_size_is_refused_at_once() {
    let kafka = FakeKafka::start(1, 1);
    let producer = builder(&kafka).max_request_size(10_000).build().expect("a producer");
    let value = vec![0; 10_000];
    let error = producer.send(Record::to("t").value(&value)).expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::RecordTooLarge);
    let fits = vec![0; 9_900];
    producer.send(Record::to("t").value(&fits)).expect("taken").wait().expect("stored");
}

/// Jroland/kafka-net#42, grepplabs/kafka-proxy#54 and others.
#[test]
fn without_acknowledgements_nothing_is_waited_for() {
    let kafka = FakeKafka::start(1, 2);
    let fast = builder(&kafka).acks(Acks::None).enable_idempotence(false);
    let producer = fast.build().expect("a producer");
    for number in 0..10_000 {
        send(&producer, 0, number);
    }
    let stored = send(&producer, 1, "last").wait().expect("sent");
    assert_eq!(stored.offset, None);
    producer.flush(PATIENCE).expect("flushed");
    assert_eq!(producer.buffered_bytes(), 0);
    kafka.wait_until("all records", |state| {
        state.seen.iter().map(|seen| seen.count).sum::<i32>() == 10_001
    });
    assert_eq!(log(&kafka, 0), numbers(0..10_000));
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    let kafka = FakeKafka::start(1, 1);
    for (builder, word) in [
        (builder(&kafka).acks(Acks::None), "acks"),
        (builder(&kafka).acks(Acks::Leader), "acks"),
        (builder(&kafka).max_in_flight(6), "max.in.flight"),
        (builder(&kafka).delivery_timeout(Duration::from_secs(20)), "delivery.timeout.ms"),
    ] {
        let error = builder.build().expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_broker_without_producer_ids_is_named_as_such() {
    let kafka = FakeKafka::start(1, 1);
    kafka.with(|state| state.knows_init = false);
    let producer = producer(&kafka);
    let error = send(&producer, 0, "a").wait().expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert!(error.to_string().contains("enable.idempotence"), "{error}");
    let error = producer.send(Record::to("t").partition(0)).expect_err("refused at once");
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert_eq!(producer.buffered_bytes(), 0);
    let plain = builder(&kafka).enable_idempotence(false).build().expect("a producer");
    send(&plain, 0, "a").wait().expect("stored");
    assert_eq!(seen(&kafka).last().map(|seen| seen.producer_id), Some(-1));
}

#[test]
fn a_broker_that_has_no_ids_yet_is_asked_again() {
    let kafka = FakeKafka::start(1, 1);
    let code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
    kafka.with(|state| state.init_errors.extend([code, code]));
    let producer = producer(&kafka);
    send(&producer, 0, "a").wait().expect("stored");
    assert_eq!(kafka.with(|state| state.init_requests), 3);
}

/// karafka/rdkafka-ruby#268, librdkafka#999, confluent-kafka-dotnet#1027.
#[test]
fn close_returns_in_time_and_gives_back_what_was_not_sent() {
    let kafka = FakeKafka::start(1, 2);
    let producer = builder(&kafka).linger(Duration::from_secs(10)).build().expect("a producer");
    send(&producer, 0, "first").wait().expect("stored");
    kafka.with(|state| state.lead(1, -1));
    kafka.stop(1);
    let called = Arc::new(AtomicUsize::new(0));
    for number in 0..100 {
        let called = Arc::clone(&called);
        let value = number.to_string();
        let record = Record::to("t").partition(number % 2).key("k").value(&value);
        producer
            .send_with(record.header("h", Some(b"v")), move |result| {
                assert_eq!(result.expect_err("not stored").kind(), ErrorKind::Closed);
                called.fetch_add(1, Ordering::SeqCst);
            })
            .expect("taken");
    }
    let started = clock::now();
    let unsent = producer.close(Duration::from_millis(300)).expect("closed");
    assert!(started.elapsed() < PATIENCE, "bounded");
    assert_eq!(unsent.len(), 100);
    let of_first: Vec<_> = unsent
        .iter()
        .filter(|record| record.partition == 0)
        .map(|record| String::from_utf8(record.value.clone().expect("a value")).expect("text"))
        .collect();
    assert_eq!(of_first, (0..50).map(|n| (n * 2).to_string()).collect::<Vec<_>>());
    assert_eq!(unsent[0].key.as_deref(), Some(&b"k"[..]));
    assert_eq!(unsent[0].headers, [("h".to_owned(), Some(b"v".to_vec()))]);
    assert_eq!(called.load(Ordering::SeqCst), 100);
    assert_eq!(producer.buffered_bytes(), 0);
    assert!(producer.close(PATIENCE).expect("again").is_empty());
}

#[test]
fn dropping_without_close_delivers_what_it_can() {
    let kafka = FakeKafka::start(1, 1);
    let producer = builder(&kafka).linger(Duration::from_secs(10)).build().expect("a producer");
    let tickets: Vec<_> = (0..10).map(|number| send(&producer, 0, number)).collect();
    drop(producer);
    assert!(tickets.iter().all(|ticket| ticket.try_get().is_some_and(|result| result.is_ok())));
    assert_eq!(log(&kafka, 0), numbers(0..10));
}

/// fede1024/rust-rdkafka#777, dpkp/kafka-python#2213.
#[test]
fn flush_waits_for_callbacks_and_callbacks_may_send() {
    let kafka = FakeKafka::start(1, 1);
    let producer = Arc::new(producer(&kafka));
    let called = Arc::new(AtomicUsize::new(0));
    for number in 0..20 {
        let (called, inner) = (Arc::clone(&called), Arc::downgrade(&producer));
        let value = number.to_string();
        let callback = move |_| {
            threads::pause(Duration::from_millis(5));
            let producer = inner.upgrade().expect("still there");
            if number == 7 {
                send(&producer, 0, "from a callback");
                let error = producer.flush(PATIENCE).expect_err("it would wait for itself");
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
            }
            called.fetch_add(1, Ordering::SeqCst);
        };
        producer.send_with(Record::to("t").value(&value), callback).expect("taken");
    }
    producer.flush(PATIENCE).expect("flushed");
    assert_eq!(called.load(Ordering::SeqCst), 20);
    producer.flush(PATIENCE).expect("flushed");
    assert_eq!(log(&kafka, 0).len(), 21);
}

/// confluent-kafka-dotnet#1094, dpkp/kafka-python#467, Parsely/pykafka#779.
#[test]
fn a_callback_that_panics_stops_nothing() {
    let kafka = FakeKafka::start(1, 1);
    let producer = producer(&kafka);
    let called = Arc::new(AtomicUsize::new(0));
    for number in 0..100 {
        let called = Arc::clone(&called);
        producer
            .send_with(Record::to("t").value("v"), move |result| {
                assert_ne!(number, 3, "on purpose");
                result.expect("stored");
                called.fetch_add(1, Ordering::SeqCst);
            })
            .expect("taken");
    }
    producer.flush(PATIENCE).expect("flushed");
    assert_eq!(called.load(Ordering::SeqCst), 99);
}

/// dpkp/kafka-python#985, librdkafka#471.
#[test]
fn a_full_buffer_refuses_in_time_and_is_empty_afterwards() {
    let kafka = FakeKafka::start(1, 2);
    let producer = builder(&kafka)
        .buffer_memory(100_000)
        .batch_size(10_000)
        .max_block(Duration::from_millis(50))
        .build()
        .expect("a producer");
    send(&producer, 0, "first").wait().expect("stored");
    kafka.freeze(true);
    let value = "x".repeat(1000);
    let mut taken = 0;
    let error = loop {
        match producer.send(Record::to("t").value(&value)) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 1000, "the buffer is bounded");
    };
    assert_eq!(error.kind(), ErrorKind::BufferFull);
    // Buffers double as batches grow: at worst half of the memory holds no record yet.
    assert!(error.is_retriable() && taken > 40, "{taken}");
    // The key's partition may have room in its last batch.
    let rejected = loop {
        match producer.try_send(Record::to("t").key("k").value(&value)) {
            Ok(_) => taken += 1,
            Err(rejected) => break rejected,
        }
        assert!(taken < 1000, "the buffer is bounded");
    };
    assert_eq!(rejected.error.kind(), ErrorKind::BufferFull);
    assert_eq!(rejected.record.topic(), "t");
    assert!(producer.buffered_bytes() <= 100_000);
    kafka.freeze(false);
    producer.flush(PATIENCE).expect("flushed");
    assert_eq!(producer.buffered_bytes(), 0);
    send(&producer, 0, "last").wait().expect("stored");
    assert_eq!(log(&kafka, 0).len() + log(&kafka, 1).len(), taken + 2);
}

/// Those that fail come out of the channel with their bytes and reasons, once, whatever way they fail; the others do not.
#[test]
fn failures_are_read_from_a_channel() {
    let kafka = FakeKafka::start(1, 1);
    let producer = builder(&kafka).linger(Duration::from_secs(5)).build().expect("a producer");
    let failures = producer.failures(3).expect("the first call");
    assert_eq!(producer.failures(3).unwrap_err().kind(), ErrorKind::InvalidInput);
    send(&producer, 0, "first").wait().expect("stored");
    kafka.with(|state| state.fault(0, Fault::Code(ErrorCode::TOPIC_AUTHORIZATION_FAILED)));
    let record = Record::to("t").key("k").value("refused").header("h", Some(b"v"));
    producer.send(record).expect("taken").wait().expect_err("refused");
    let failed = failures.recv_timeout(PATIENCE).expect("a failure");
    assert_eq!((failed.topic.as_str(), failed.partition), ("t", 0));
    assert_eq!(failed.key.as_deref(), Some(&b"k"[..]));
    assert_eq!(failed.value.as_deref(), Some(&b"refused"[..]));
    assert_eq!(failed.headers, [("h".to_owned(), Some(b"v".to_vec()))]);
    assert_eq!(failed.reason.broker_code(), Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    // Five fail at once: three fit.
    kafka.with(|state| state.fault(0, Fault::Code(ErrorCode::TOPIC_AUTHORIZATION_FAILED)));
    let values: Vec<String> = (0..5).map(|number| number.to_string()).collect();
    let tickets = producer.send_all(values.iter().map(|value| Record::to("t").value(value)));
    let tickets: Vec<Ticket> = tickets.into_iter().map(|ticket| ticket.expect("taken")).collect();
    assert!(Ticket::wait_all(&tickets).iter().all(Result::is_err));
    let told: Vec<Vec<u8>> = failures.try_iter().filter_map(|failed| failed.value).collect();
    assert_eq!(told, [b"0", b"1", b"2"]);
    assert_eq!(producer.failures_untold(), 2);
    send(&producer, 0, "last").wait().expect("stored");
    // What a close gives back comes here too, and then the channel ends.
    kafka.freeze(true);
    producer.send(Record::to("t").value("late")).expect("taken");
    assert_eq!(producer.close(Duration::from_millis(50)).expect("closed").len(), 1);
    drop(producer);
    let told: Vec<Vec<u8>> = failures.iter().filter_map(|failed| failed.value).collect();
    assert_eq!(told, [b"late"]);
    kafka.freeze(false);
}

#[test]
fn several_records_are_sent_and_waited_for_together() {
    let kafka = FakeKafka::start(1, 2);
    let producer = builder(&kafka)
        .buffer_memory(100_000)
        .batch_size(10_000)
        .max_block(Duration::from_millis(50))
        .build()
        .expect("a producer");
    let (small, large) = ("x".repeat(1000), "x".repeat(2 << 20));
    let records = [&small, &large, &small].map(|value| Record::to("t").partition(0).value(value));
    let sent = producer.send_all(records);
    let rejected = sent[1].as_ref().expect_err("too large");
    assert_eq!(rejected.error.kind(), ErrorKind::RecordTooLarge);
    let tickets: Vec<&Ticket> = sent.iter().flatten().collect();
    let stored = Ticket::wait_all(tickets.iter().copied());
    let offsets: Vec<_> = stored.into_iter().map(|stored| stored.expect("stored").offset).collect();
    assert_eq!(offsets, [Some(0), Some(1)]);
    kafka.freeze(true);
    let sent = producer.send_all((0..500).map(|_| Record::to("t").partition(0).value(&small)));
    let taken = sent.iter().take_while(|sent| sent.is_ok()).count();
    assert!(taken > 40 && taken < 200, "{taken}");
    for rejected in sent.iter().skip(taken) {
        let rejected = rejected.as_ref().expect_err("none passes another");
        assert_eq!(rejected.error.kind(), ErrorKind::BufferFull);
    }
    let tickets: Vec<&Ticket> = sent.iter().flatten().collect();
    let waited = Ticket::wait_all_timeout(tickets.iter().copied(), Duration::from_millis(20));
    assert!(waited.iter().all(Option::is_none));
    kafka.freeze(false);
    assert!(Ticket::wait_all(tickets.iter().copied()).iter().all(Result::is_ok));
}

#[test]
fn memory_comes_back_from_every_failure() {
    let kafka = FakeKafka::start(1, 1);
    let producer =
        builder(&kafka).max_block(Duration::from_millis(50)).build().expect("a producer");
    send(&producer, 0, "first").wait().expect("stored");
    for number in 0..1000 {
        let large = vec![0; 2 << 20];
        producer.send(Record::to("t").value(&large)).expect_err("too large");
        let nowhere = Record::to("t").partition(99).value("v");
        if number < 3 {
            producer.send(nowhere).expect_err("no such partition");
            producer.send(Record::to("nowhere").value("v")).expect_err("no such topic");
        }
        kafka.with(|state| state.fault(0, Fault::Code(ErrorCode::TOPIC_AUTHORIZATION_FAILED)));
        let error = send(&producer, 0, "refused").wait().expect_err("refused");
        assert_eq!(error.broker_code(), Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
        assert!(!error.possibly_persisted());
    }
    assert_eq!(producer.buffered_bytes(), 0);
    send(&producer, 0, "last").wait().expect("stored");
    assert_eq!(log(&kafka, 0), ["first", "last"]);
}

/// dpkp/kafka-python#265, SOHU-Co/kafka-node#1468, confluentinc/librdkafka#3009, apache/kafka#11552.
#[test]
fn partitions_come_and_topics_are_made_again() {
    let kafka = FakeKafka::start(1, 2);
    let client = client(&kafka);
    let producer = client.producer().batch_size(100).build().expect("a producer");
    for number in 0..20 {
        producer.send(Record::to("t").value(&number.to_string())).expect("taken");
    }
    producer.flush(PATIENCE).expect("flushed");
    kafka.with(|state| {
        state.add_partition(1);
        state.add_partition(1);
    });
    client.refresh().expect("refreshed");
    for _ in 0..200 {
        let value = "x".repeat(100);
        producer.send(Record::to("t").value(&value)).expect("taken").wait().expect("stored");
    }
    assert!((0..4).all(|partition| !log(&kafka, partition).is_empty()));

    kafka.with(|state| state.recreate(1));
    client.refresh().expect("refreshed");
    let stored = loop {
        // What was meant for the old topic may fail; what is sent afterwards goes to the new one.
        if let Ok(stored) = producer.send(Record::to("t").value("new")).expect("taken").wait() {
            break stored;
        }
    };
    assert_eq!((stored.partition, stored.offset), (0, Some(0)));
    assert_eq!(log(&kafka, 0), ["new"]);
}

/// twmb/franz-go#908: what was meant for a topic that is made again does not go to the new one.
#[test]
fn records_of_a_deleted_topic_fail() {
    let kafka = FakeKafka::start(1, 1);
    let producer = producer(&kafka);
    send(&producer, 0, "old").wait().expect("stored");
    kafka.with(|state| state.recreate(1));
    let error = send(&producer, 0, "for the old one").wait().expect_err("the topic is gone");
    assert_eq!(error.kind(), ErrorKind::UnknownTopic);
    send(&producer, 0, "new").wait().expect("stored");
    assert_eq!(log(&kafka, 0), ["new"]);
}

/// platformatic/kafka#377, IBM/sarama#3135 and #2760, `kafkaex/kafka_ex#396`.
#[test]
fn a_dead_leader_is_left_for_the_new_one() {
    let kafka = FakeKafka::start(2, 1);
    let producer = builder(&kafka).batch_size(200).build().expect("a producer");
    send(&producer, 0, 0).wait().expect("stored");
    kafka.stop(1);
    (1..50).for_each(|number| _ = send(&producer, 0, number));
    kafka.with(|state| state.lead(0, 2));
    producer.flush(PATIENCE).expect("flushed");
    kafka.restart(1);
    kafka.with(|state| state.lead(0, 1));
    (50..100).for_each(|number| _ = send(&producer, 0, number));
    producer.flush(PATIENCE).expect("flushed");
    assert_eq!(log(&kafka, 0), numbers(0..100));
    let leaders: Vec<_> = seen(&kafka).iter().map(|seen| seen.broker).collect();
    assert!(leaders.contains(&2) && leaders.last() == Some(&1), "{leaders:?}");
}

#[test]
fn lost_answers_store_nothing_twice() {
    let kafka = FakeKafka::start(1, 1);
    let producer = builder(&kafka).batch_size(100).build().expect("a producer");
    for round in 0..10 {
        kafka.with(|state| {
            state.fault(0, Fault::StoreAndClose);
            state.fault(0, Fault::Close);
            state.fault(0, Fault::StoredBut(ErrorCode::REQUEST_TIMED_OUT));
        });
        (round * 20..round * 20 + 20).for_each(|number| _ = send(&producer, 0, number));
    }
    producer.flush(PATIENCE).expect("flushed");
    assert_eq!(log(&kafka, 0), numbers(0..200));
}

/// confluentinc/librdkafka#4134.
#[test]
fn a_batch_that_expires_does_not_let_later_ones_slip_in_before_it() {
    let kafka = FakeKafka::start(1, 1);
    let client = Client::builder(&kafka.bootstrap())
        .retry_backoff(Duration::from_millis(5))
        .request_timeout(Duration::from_millis(150))
        .build()
        .expect("a client");
    let producer = client
        .producer()
        .linger(Duration::ZERO)
        .batch_size(0)
        .delivery_timeout(Duration::from_millis(400))
        .build()
        .expect("a producer");
    send(&producer, 0, 0).wait().expect("stored");
    kafka.freeze(true);
    let early: Vec<_> = (1..4).map(|number| send(&producer, 0, number)).collect();
    for ticket in &early {
        let error = ticket.wait().expect_err("out of time");
        assert!(error.is_timeout(), "{error}");
    }
    let late: Vec<_> = (4..8).map(|number| send(&producer, 0, number)).collect();
    kafka.freeze(false);
    for ticket in &late {
        _ = ticket.wait();
    }
    producer.close(PATIENCE).expect("closed");
    let log: Vec<usize> =
        log(&kafka, 0).iter().map(|value| value.parse().expect("a number")).collect();
    assert!(log.is_sorted_by(|a, b| a < b), "{log:?}");
    for (ticket, number) in late.iter().zip(4..) {
        if ticket.try_get().expect("resolved").is_ok() {
            assert!(log.contains(&number), "{number} is said to be stored: {log:?}");
        }
    }
}

/// aio-libs/aiokafka#1142 and #1137, edenhill/kcat#12.
#[test]
fn linger_gathers_and_nobody_waits_for_it() {
    let kafka = FakeKafka::start(1, 1);
    let hour = Duration::from_secs(3600);
    let builder = builder(&kafka).linger(hour).delivery_timeout(hour * 2);
    let producer = builder.batch_size(1000).build().expect("a producer");
    send(&producer, 0, "0").wait().expect("stored without the linger");
    send(&producer, 0, "1");
    send(&producer, 0, "2");
    producer.flush(PATIENCE).expect("flushed without the linger");
    assert_eq!(seen(&kafka).last().map(|seen| seen.count), Some(2), "both in one batch");
    let full = "x".repeat(1000);
    let ticket = send(&producer, 0, full);
    kafka.wait_until("a full batch leaves", |state| state.seen.len() == 3);
    drop(ticket);
    send(&producer, 0, "last");
    assert!(producer.close(PATIENCE).expect("closed without the linger").is_empty());
    assert_eq!(log(&kafka, 0).len(), 5);
}

#[test]
fn several_partitions_travel_in_one_request() {
    let kafka = FakeKafka::start(1, 6);
    let producer = builder(&kafka).linger(Duration::from_secs(10)).build().expect("a producer");
    send(&producer, 0, "first").wait().expect("stored");
    (0..6).for_each(|partition| _ = send(&producer, partition, "v"));
    producer.flush(PATIENCE).expect("flushed");
    assert_eq!((0..6).map(|partition| log(&kafka, partition).len()).sum::<usize>(), 7);
}

#[test]
fn keys_go_where_java_puts_them() {
    let kafka = FakeKafka::start(1, 10);
    let producer = producer(&kafka);
    for (key, partition) in [("foobar", 6), ("21", 0), ("wu", 0), ("", 1)] {
        let ticket = producer.send(Record::to("t").key(key).value("v")).expect("taken");
        assert_eq!(ticket.wait().expect("stored").partition, partition, "{key}");
    }
    assert_eq!(producer.partitions("t").expect("known").len(), 10);
}
