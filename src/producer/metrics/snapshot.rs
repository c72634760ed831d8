//! [`ProducerMetrics`]: the counts at one moment, as plain values.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::histogram::Histogram;
use super::meters::Waits;
use super::tally::{Reading, Tally};
use crate::clock;
use crate::producer::Producer;
use crate::producer::core::Core;
use crate::producer::store::Log;

/// Times of one kind. All are zero while there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Times {
    /// The mean of the last 30 to 60 seconds.
    pub avg: Duration,
    /// The longest of the last 30 to 60 seconds.
    pub max: Duration,
    /// The median of the last 30 to 60 seconds; at most a sixteenth too long.
    pub p50: Duration,
    /// 99 of 100 in the last 30 to 60 seconds were no longer than this; at most a sixteenth too long.
    pub p99: Duration,
    /// How many there were since the start.
    pub count: u64,
    /// Their sum since the start.
    pub sum: Duration,
}

/// What a producer did and has, at one moment.
///
/// Names as in Java's `producer-metrics`. `*_total` counts from the start; `*_rate` is per second; rates, averages, maxima and
/// quantiles are of the last 30 to 60 seconds, and 0 while nothing was counted.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ProducerMetrics {
    /// `client.id`.
    pub client_id: String,
    /// Records in requests that were written, each time they were: retries count again.
    pub record_send_total: u64,
    /// The same per second.
    pub record_send_rate: f64,
    /// Records that a broker acknowledged (with `acks=0`: that were written). Not in Java.
    pub record_acknowledged_total: u64,
    /// The same per second.
    pub record_acknowledged_rate: f64,
    /// Bytes of batches in requests, as they were sent: compressed.
    pub byte_total: u64,
    /// The same per second.
    pub byte_rate: f64,
    /// Records that failed for good.
    pub record_error_total: u64,
    /// The same per second.
    pub record_error_rate: f64,
    /// Records that went to the retry store (`retry.store.path`): no errors yet. Not in Java.
    pub record_stored_for_retry_total: u64,
    /// Bytes of the retry store on disk. Not in Java.
    pub retry_store_bytes: u64,
    /// Records that came back to be sent again.
    pub record_retry_total: u64,
    /// The same per second.
    pub record_retry_rate: f64,
    /// Batches that the broker called too large and that were cut in two.
    pub batch_split_total: u64,
    /// Bytes of a batch as it was sent.
    pub batch_size_avg: f64,
    /// Bytes of the largest batch.
    pub batch_size_max: u64,
    /// Bytes of a record in its batch, before compression.
    pub record_size_avg: f64,
    /// Size of batches after compression, as a share of the size before: 0.25 is a quarter.
    pub compression_rate_avg: f64,
    /// Requests that were written.
    pub request_total: u64,
    /// The same per second.
    pub request_rate: f64,
    /// Answers that came.
    pub response_total: u64,
    /// Records per request.
    pub records_per_request_avg: f64,
    /// From the write of a request to its answer.
    pub request_latency: Times,
    /// From a batch's first record to its first write.
    pub record_queue_time: Times,
    /// How long brokers asked to pause, on average over all answers.
    pub produce_throttle_time_avg: Duration,
    /// The longest pause that a broker asked for.
    pub produce_throttle_time_max: Duration,
    /// Requests that wait for their answers.
    pub requests_in_flight: u64,
    /// `buffer.memory`.
    pub buffer_total_bytes: u64,
    /// What is free of it.
    pub buffer_available_bytes: u64,
    /// How long senders waited for memory, all threads together, since the start.
    pub bufferpool_wait_time_total: Duration,
    /// The share of time that senders waited for memory; above 1 when several did at once.
    pub bufferpool_wait_ratio: f64,
    /// Sends that found no memory in time.
    pub buffer_exhausted_total: u64,
    /// Records that failed and found no room in the channel of [`Producer::failures`]. Not in Java.
    pub failures_untold_total: u64,
    /// Age of the cluster's metadata; since the client was made while there are none.
    pub metadata_age: Duration,
    /// Connections of this producer at present: one per broker it sends to.
    pub connection_count: u64,
    /// Connections that were opened.
    pub connection_creation_total: u64,
    /// Connections that ended.
    pub connection_close_total: u64,
    /// The same per broker that was sent to, by its id.
    pub brokers: BTreeMap<i32, BrokerMetrics>,
    /// The same per topic that was sent to.
    pub topics: BTreeMap<String, TopicMetrics>,
}

/// What a producer did with one broker. Names as in Java's `producer-node-metrics`; times and rates as in
/// [`ProducerMetrics`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BrokerMetrics {
    /// Records in requests that were written, retries included.
    pub record_send_total: u64,
    /// The same per second.
    pub record_send_rate: f64,
    /// Bytes of batches in requests: Java's `outgoing-byte-total` without what is around the batches.
    pub byte_total: u64,
    /// The same per second.
    pub byte_rate: f64,
    /// Requests that were written.
    pub request_total: u64,
    /// The same per second.
    pub request_rate: f64,
    /// Answers that came.
    pub response_total: u64,
    /// Records per request.
    pub records_per_request_avg: f64,
    /// From the write of a request to its answer.
    pub request_latency: Times,
    /// From a batch's first record to its first write.
    pub record_queue_time: Times,
    /// How long the broker asked to pause, on average over all answers.
    pub produce_throttle_time_avg: Duration,
    /// The longest pause that it asked for.
    pub produce_throttle_time_max: Duration,
    /// Requests that wait for their answers.
    pub requests_in_flight: u64,
    /// Whether there is a connection.
    pub is_connected: bool,
    /// Connections that were opened.
    pub connection_creation_total: u64,
    /// Connections that ended.
    pub connection_close_total: u64,
}

/// What a producer did with one topic. Names as in Java's `producer-topic-metrics`; times and rates as in
/// [`ProducerMetrics`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TopicMetrics {
    /// Records in requests that were written, retries included.
    pub record_send_total: u64,
    /// The same per second.
    pub record_send_rate: f64,
    /// Records that a broker acknowledged (with `acks=0`: that were written).
    pub record_acknowledged_total: u64,
    /// Bytes of batches in requests.
    pub byte_total: u64,
    /// The same per second.
    pub byte_rate: f64,
    /// Records that failed for good.
    pub record_error_total: u64,
    /// The same per second.
    pub record_error_rate: f64,
    /// Records that came back to be sent again.
    pub record_retry_total: u64,
    /// The same per second.
    pub record_retry_rate: f64,
    /// Batches that were cut in two.
    pub batch_split_total: u64,
    /// Size of batches after compression, as a share of the size before.
    pub compression_rate: f64,
}

impl Producer {
    /// What this producer did and has. Never blocks; costs some microseconds per broker and topic, so it may be called
    /// every second, not for every record. Works after a close too.
    ///
    /// ```no_run
    /// # fn main() -> ottla::Result<()> {
    /// # let client = ottla::Client::builder("localhost:9092").build()?;
    /// let producer = client.producer().build()?;
    /// let metrics = producer.metrics();
    /// println!("{:.0} records/s, p99 {:?}", metrics.record_send_rate, metrics.request_latency.p99);
    /// print!("{}", metrics.to_prometheus());
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(&self) -> ProducerMetrics {
        read(&self.core, clock::now())
    }
}

fn read(core: &Core, now: Instant) -> ProducerMetrics {
    let meters = &core.monitor.meters;
    // Of all brokers: requests. Of all topics: fates of records.
    let (mut sent, mut fates) = (Reading::<Tally>::default(), Reading::<Tally>::default());
    let (mut in_flight, mut connections) = (0, 0);
    let mut brokers = BTreeMap::new();
    for (id, meter) in meters.brokers() {
        let reading = meter.read(now);
        sent.merge(&reading);
        let under_way = meter.in_flight();
        in_flight += under_way.unwrap_or(0) as u64;
        connections += u64::from(under_way.is_some());
        brokers.insert(id, of_broker(&reading, under_way));
    }
    let topics = meters.read_topics(now);
    for reading in topics.values() {
        fates.merge(reading);
    }
    let waits = meters.read_waits(now);
    let total = core.memory.limit();
    ProducerMetrics {
        client_id: core.client.client_id.clone(),
        requests_in_flight: in_flight,
        connection_count: connections,
        buffer_total_bytes: total as u64,
        buffer_available_bytes: total.saturating_sub(core.memory.used()) as u64,
        retry_store_bytes: core.store.as_ref().map_or(0, Log::bytes),
        failures_untold_total: core.failures.untold(),
        metadata_age: core.cluster.metadata_age(now),
        brokers,
        topics: topics.iter().map(|(name, reading)| (name.clone(), of_topic(reading))).collect(),
        ..whole(&sent, &fates, &waits)
    }
}

fn whole(sent: &Reading<Tally>, fates: &Reading<Tally>, waits: &Reading<Waits>) -> ProducerMetrics {
    let Reading { all, recent, .. } = sent;
    ProducerMetrics {
        record_send_total: all.records_sent,
        record_send_rate: sent.rate(recent.records_sent),
        record_acknowledged_total: fates.all.records_acknowledged,
        record_acknowledged_rate: fates.rate(fates.recent.records_acknowledged),
        byte_total: all.batches.sum,
        byte_rate: sent.rate(recent.batches.sum),
        record_error_total: fates.all.records_failed,
        record_error_rate: fates.rate(fates.recent.records_failed),
        record_stored_for_retry_total: fates.all.records_stored_for_retry,
        record_retry_total: fates.all.records_retried,
        record_retry_rate: fates.rate(fates.recent.records_retried),
        batch_split_total: fates.all.batches_split,
        batch_size_avg: recent.batches.mean(),
        batch_size_max: recent.batches.max,
        record_size_avg: share(recent.plain_bytes, recent.first_records),
        compression_rate_avg: share(recent.packed_bytes, recent.plain_bytes),
        request_total: all.requests.count,
        request_rate: sent.rate(recent.requests.count),
        response_total: all.answers,
        records_per_request_avg: recent.requests.mean(),
        request_latency: times(sent, |tally| &tally.latency),
        record_queue_time: times(sent, |tally| &tally.queue_time),
        produce_throttle_time_avg: millis(recent.throttle.mean()),
        produce_throttle_time_max: Duration::from_millis(recent.throttle.max),
        bufferpool_wait_time_total: Duration::from_nanos(waits.all.nanos),
        bufferpool_wait_ratio: waits.rate(waits.recent.nanos) / 1e9,
        buffer_exhausted_total: waits.all.refused,
        connection_creation_total: all.connections_opened,
        connection_close_total: all.connections_lost,
        ..ProducerMetrics::default()
    }
}

fn of_broker(reading: &Reading<Tally>, under_way: Option<usize>) -> BrokerMetrics {
    let Reading { all, recent, .. } = reading;
    BrokerMetrics {
        record_send_total: all.records_sent,
        record_send_rate: reading.rate(recent.records_sent),
        byte_total: all.batches.sum,
        byte_rate: reading.rate(recent.batches.sum),
        request_total: all.requests.count,
        request_rate: reading.rate(recent.requests.count),
        response_total: all.answers,
        records_per_request_avg: recent.requests.mean(),
        request_latency: times(reading, |tally| &tally.latency),
        record_queue_time: times(reading, |tally| &tally.queue_time),
        produce_throttle_time_avg: millis(recent.throttle.mean()),
        produce_throttle_time_max: Duration::from_millis(recent.throttle.max),
        requests_in_flight: under_way.unwrap_or(0) as u64,
        is_connected: under_way.is_some(),
        connection_creation_total: all.connections_opened,
        connection_close_total: all.connections_lost,
    }
}

fn of_topic(reading: &Reading<Tally>) -> TopicMetrics {
    let Reading { all, recent, .. } = reading;
    TopicMetrics {
        record_send_total: all.records_sent,
        record_send_rate: reading.rate(recent.records_sent),
        record_acknowledged_total: all.records_acknowledged,
        byte_total: all.batches.sum,
        byte_rate: reading.rate(recent.batches.sum),
        record_error_total: all.records_failed,
        record_error_rate: reading.rate(recent.records_failed),
        record_retry_total: all.records_retried,
        record_retry_rate: reading.rate(recent.records_retried),
        batch_split_total: all.batches_split,
        compression_rate: share(recent.packed_bytes, recent.plain_bytes),
    }
}

fn times(reading: &Reading<Tally>, of: impl Fn(&Tally) -> &Histogram) -> Times {
    let (all, recent) = (of(&reading.all), of(&reading.recent));
    Times {
        avg: Duration::from_micros(recent.mean() as u64),
        max: Duration::from_micros(recent.max),
        p50: Duration::from_micros(recent.quantile(0.5)),
        p99: Duration::from_micros(recent.quantile(0.99)),
        count: all.count,
        sum: Duration::from_micros(all.sum),
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn millis(millis: f64) -> Duration {
    Duration::from_secs_f64(millis.max(0.0) / 1000.0)
}
