//! What a producer lets be seen, on brokers in this process: metrics, and events for an observer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{
    BatchAcknowledged, BatchFailed, BatchRetried, BatchSent, ConnectionLost, ConnectionOpened,
    EpochBumped, MetadataChanged, Observer, ProducerBuilder, Record, Throttled,
};
use crate::Client;
use crate::broker::{Cluster, Fault};
use crate::config::Acks;
use crate::error::ErrorKind;
use crate::protocol::records::Compression;
use crate::protocol::{ApiKey, ErrorCode};

const PATIENCE: Duration = Duration::from_secs(60);

/// Writes down what it is told, and panics where asked to.
#[derive(Debug, Default)]
struct Diary {
    lines: Mutex<Vec<String>>,
    panics_at_sent: bool,
}

impl Diary {
    fn note(&self, line: String) {
        self.lines.lock().push(line);
    }

    fn count(&self, start: &str) -> usize {
        self.lines.lock().iter().filter(|line| line.starts_with(start)).count()
    }
}

impl Observer for Diary {
    fn batch_sent(&self, event: &BatchSent<'_>) {
        self.note(format!("sent {}-{} {}x", event.topic, event.partition, event.records));
        assert!(!self.panics_at_sent, "on purpose");
        assert!(event.bytes > 0 && event.attempt > 0 && event.broker.starts_with("1 ("));
    }
    fn batch_acknowledged(&self, event: &BatchAcknowledged<'_>) {
        self.note(format!(
            "acknowledged {}-{} {:?}",
            event.topic, event.partition, event.base_offset
        ));
    }
    fn batch_failed(&self, event: &BatchFailed<'_>) {
        self.note(format!("failed {}x {:?}", event.records, event.error.kind()));
    }
    fn batch_retried(&self, event: &BatchRetried<'_>) {
        self.note(format!("retried {}x {:?}", event.records, event.error.broker_code()));
    }
    fn connection_opened(&self, event: &ConnectionOpened<'_>) {
        self.note(format!("opened {}", event.broker_id));
    }
    fn connection_lost(&self, event: &ConnectionLost<'_>) {
        self.note(format!("lost {} {} {:?}", event.broker_id, event.requests, event.error.kind()));
    }
    fn epoch_bumped(&self, event: &EpochBumped<'_>) {
        self.note(format!("epoch {} {}", event.partition, event.epoch));
    }
    fn throttled(&self, event: &Throttled<'_>) {
        self.note(format!("throttled {:?}", event.pause));
    }
    fn metadata_changed(&self, event: &MetadataChanged<'_>) {
        self.note(format!("metadata {} {} {}", event.topic, event.partitions, event.with_leader));
    }
}

fn cluster() -> Cluster {
    Cluster::builder().brokers(1).topic("t", 2).start().expect("a cluster")
}

fn builder(kafka: &Cluster) -> ProducerBuilder {
    let client = Client::builder(kafka.bootstrap())
        .client_id("watched".to_owned())
        .retry_backoff(Duration::from_millis(5))
        .reconnect_backoff(Duration::from_millis(5));
    client.build().expect("a client").producer().linger(Duration::from_millis(1))
}

#[test]
fn metrics_count_what_was_sent_and_acknowledged() {
    let kafka = cluster();
    let producer = builder(&kafka)
        .compression(Compression::Gzip)
        .buffer_memory(1 << 20)
        .build()
        .expect("a producer");
    let value = vec![b'x'; 1000];
    for _ in 0..50 {
        for partition in 0..2 {
            producer.send(Record::to("t").partition(partition).value(&value)).expect("taken");
        }
    }
    producer.flush(PATIENCE).expect("stored");
    let metrics = producer.metrics();
    assert_eq!(metrics.client_id, "watched");
    assert_eq!((metrics.record_send_total, metrics.record_acknowledged_total), (100, 100));
    assert_eq!((metrics.record_error_total, metrics.record_retry_total), (0, 0));
    assert!(metrics.byte_total > 0 && metrics.byte_total < 100 * 1000, "{metrics:?}");
    assert!(
        metrics.compression_rate_avg > 0.0 && metrics.compression_rate_avg < 0.5,
        "{metrics:?}"
    );
    assert!((1000.0..1200.0).contains(&metrics.record_size_avg), "{metrics:?}");
    assert!(
        metrics.batch_size_avg > 0.0 && metrics.batch_size_avg <= metrics.batch_size_max as f64
    );
    assert_eq!(metrics.request_total, metrics.response_total);
    assert_eq!(metrics.request_latency.count, metrics.response_total);
    assert!(metrics.request_latency.p50 <= metrics.request_latency.p99);
    assert!(metrics.request_latency.p99 <= metrics.request_latency.max);
    assert!(metrics.request_latency.max > Duration::ZERO);
    assert!(metrics.record_queue_time.count > 0);
    assert!(metrics.record_send_rate > 0.0 && metrics.records_per_request_avg >= 1.0);
    assert_eq!((metrics.buffer_total_bytes, metrics.buffer_available_bytes), (1 << 20, 1 << 20));
    assert_eq!((metrics.requests_in_flight, metrics.connection_count), (0, 1));
    assert_eq!((metrics.connection_creation_total, metrics.connection_close_total), (1, 0));
    let broker = &metrics.brokers[&1];
    assert!(broker.is_connected);
    assert_eq!((broker.record_send_total, broker.byte_total), (100, metrics.byte_total));
    let topic = &metrics.topics["t"];
    assert_eq!((topic.record_send_total, topic.record_acknowledged_total), (100, 100));
    assert_eq!(topic.byte_total, metrics.byte_total);
    producer.close(PATIENCE).expect("closed");
    let closed = producer.metrics();
    assert_eq!((closed.record_acknowledged_total, closed.connection_count), (100, 0));
    assert_eq!(closed.connection_close_total, 1);
}

#[test]
fn retries_failures_and_waits_for_memory_are_counted_and_told() {
    let kafka = cluster();
    let diary = Arc::new(Diary::default());
    let producer = builder(&kafka)
        .observer(Arc::clone(&diary) as Arc<dyn Observer>)
        .buffer_memory(64 * 1024)
        .batch_size(16 * 1024)
        .max_block(Duration::from_millis(20))
        .build()
        .expect("a producer");
    let send = |value: &[u8]| producer.send(Record::to("t").partition(0).value(value));
    kafka.fault(Fault::on(ApiKey::PRODUCE).times(2).answer(ErrorCode::NOT_ENOUGH_REPLICAS));
    send(b"twice again").expect("taken").wait().expect("stored");
    kafka.fault(Fault::on(ApiKey::PRODUCE).times(1).answer(ErrorCode::INVALID_TIMESTAMP));
    let error = send(b"refused").expect("taken").wait().expect_err("refused");
    assert_eq!(error.broker_code(), Some(ErrorCode::INVALID_TIMESTAMP));
    kafka.freeze(1);
    let full = loop {
        if let Err(error) = send(&[0; 10_000]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::BufferFull);
    assert!(producer.metrics().requests_in_flight > 0);
    kafka.thaw(1);
    producer.flush(PATIENCE).expect("stored");
    let metrics = producer.metrics();
    assert_eq!((metrics.record_retry_total, metrics.record_error_total), (2, 1));
    let topic = &metrics.topics["t"];
    assert_eq!((topic.record_retry_total, topic.record_error_total), (2, 1));
    assert!(metrics.buffer_exhausted_total == 1 && metrics.bufferpool_wait_ratio > 0.0);
    assert!(metrics.bufferpool_wait_time_total >= Duration::from_millis(20));
    assert_eq!(diary.count("retried 1x Some(NOT_ENOUGH_REPLICAS"), 2, "{diary:?}");
    assert_eq!(diary.count("failed 1x Broker"), 1, "{diary:?}");
    assert_eq!(diary.count("metadata t 2 2"), 1, "{diary:?}");
    assert_eq!(diary.count("opened 1"), 1, "{diary:?}");
    assert_eq!(diary.count("acknowledged t-0 Some(0)"), 1, "{diary:?}");
    producer.close(PATIENCE).expect("closed");
    assert_eq!(diary.count("lost 1 0 Closed"), 1, "{diary:?}");
}

#[test]
fn a_lost_connection_is_told_once_with_what_was_under_way() {
    let kafka = cluster();
    let diary = Arc::new(Diary::default());
    let producer = builder(&kafka)
        .observer(Arc::clone(&diary) as Arc<dyn Observer>)
        .build()
        .expect("a producer");
    kafka.fault(Fault::on(ApiKey::PRODUCE).times(1).drop_after());
    producer.send(Record::to("t").value("x")).expect("taken").wait().expect("stored once");
    assert_eq!(diary.count("lost 1 1 Disconnected"), 1, "{diary:?}");
    assert_eq!(diary.count("lost"), 1, "{diary:?}");
    assert_eq!(diary.count("opened"), 2, "{diary:?}");
    let metrics = producer.metrics();
    assert_eq!((metrics.connection_creation_total, metrics.connection_close_total), (2, 1));
    assert_eq!(metrics.record_retry_total, 1);
}

#[test]
fn a_pause_that_the_broker_asks_for_is_counted_and_told() {
    let kafka = cluster();
    let diary = Arc::new(Diary::default());
    let producer = builder(&kafka)
        .observer(Arc::clone(&diary) as Arc<dyn Observer>)
        .build()
        .expect("a producer");
    kafka.fault(Fault::on(ApiKey::PRODUCE).times(1).throttle(Duration::from_millis(30)));
    producer.send(Record::to("t").value("x")).expect("taken").wait().expect("stored");
    producer.send(Record::to("t").value("y")).expect("taken").wait().expect("stored");
    assert_eq!(diary.count("throttled 30ms"), 1, "{diary:?}");
    let metrics = producer.metrics();
    assert_eq!(metrics.produce_throttle_time_max, Duration::from_millis(30));
    assert_eq!(metrics.produce_throttle_time_avg, Duration::from_millis(15));
}

#[test]
fn a_sequence_that_is_lost_bumps_the_epoch_and_the_observer_knows() {
    let kafka = cluster();
    let diary = Arc::new(Diary::default());
    let producer = builder(&kafka)
        .observer(Arc::clone(&diary) as Arc<dyn Observer>)
        .build()
        .expect("a producer");
    let send = |value: &str| producer.send(Record::to("t").partition(1).value(value));
    send("first").expect("taken").wait().expect("stored");
    kafka
        .fault(Fault::on(ApiKey::PRODUCE).times(1).answer(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    send("second").expect("taken").wait().expect("stored");
    assert_eq!(diary.count("epoch 1 1"), 1, "{diary:?}");
}

#[test]
fn an_observer_that_panics_stops_nothing() {
    let kafka = cluster();
    let diary = Arc::new(Diary { panics_at_sent: true, ..Diary::default() });
    let producer = builder(&kafka)
        .observer(Arc::clone(&diary) as Arc<dyn Observer>)
        .build()
        .expect("a producer");
    for value in ["x", "y"] {
        producer.send(Record::to("t").value(value)).expect("taken").wait().expect("stored");
    }
    assert_eq!(diary.count("sent"), 2, "{diary:?}");
}

#[test]
fn without_acknowledgements_what_was_written_counts_as_acknowledged() {
    let kafka = cluster();
    let diary = Arc::new(Diary::default());
    let producer = builder(&kafka)
        .acks(Acks::None)
        .enable_idempotence(false)
        .observer(Arc::clone(&diary) as Arc<dyn Observer>)
        .build()
        .expect("a producer");
    producer.send(Record::to("t").partition(0).value("x")).expect("taken").wait().expect("written");
    producer.close(PATIENCE).expect("closed");
    assert_eq!(producer.metrics().record_acknowledged_total, 1);
    assert_eq!(diary.count("acknowledged t-0 None"), 1, "{diary:?}");
}
