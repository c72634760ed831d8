//! What a producer lets be seen: every event is counted, logged and told to the observer, here and nowhere else.
//!
//! Called by the writer, the readers and whoever ends a batch, with no lock held. Log lines: what happens to each batch at
//! level debug; what failed, and connections that ended, at warn; epochs and connections at info.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::accumulator::Partition;
use super::batch::Batch;
use super::flight::Flight;
use super::metrics::{BrokerMeter, Fate, Meters, Written};
use super::observer::{
    BatchAcknowledged, BatchFailed, BatchRetried, BatchSent, ConnectionLost, ConnectionOpened,
    EpochBumped, MetadataChanged, Throttled, Watcher,
};
use super::sequence::Identity;
use super::topics::Topic;
use crate::clock;
use crate::error::{Error, ErrorKind};
use crate::protocol::Bytes;

/// Counts and observer of one producer.
#[derive(Debug)]
pub(super) struct Monitor {
    pub(super) meters: Meters,
    watcher: Watcher,
}

/// Records of a batch that failed, to be told when no lock is held.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) records: u32,
    pub(super) error: Error,
}

impl Failed {
    /// Whether the retry store took them.
    fn is_stored(&self) -> bool {
        self.error.kind() == ErrorKind::StoredForRetry
    }
}

impl Monitor {
    /// Nothing seen yet.
    pub(super) fn new(watcher: Watcher) -> Self {
        Self { meters: Meters::new(clock::now()), watcher }
    }

    /// A request with these batches is about to be written to `broker`.
    pub(super) fn sending(
        &self,
        meter: &BrokerMeter,
        broker: &str,
        batches: &[(Arc<Partition>, Batch)],
        payloads: &[Bytes],
        now: Instant,
    ) {
        let written = batches.iter().zip(payloads).map(|((partition, batch), bytes)| Written {
            topic: &partition.topic,
            records: batch.records,
            attempt: batch.attempts,
            plain_bytes: batch.plain_bytes,
            bytes: bytes.len(),
            opened: batch.opened,
        });
        self.meters.written(meter, written, now);
        for ((partition, batch), bytes) in batches.iter().zip(payloads) {
            let (topic, partition) = (&*partition.topic, partition.index);
            let (records, bytes, attempt) = (batch.records, bytes.len(), batch.attempts);
            log::debug!(
                "producer: {topic}-{partition}: {records} records in {bytes} bytes to broker {broker}, attempt {attempt}"
            );
            let event = BatchSent { topic, partition, broker, records, bytes, attempt };
            self.watcher.tell(|observer| observer.batch_sent(&event));
        }
    }

    /// A batch was acknowledged; its tickets do not know yet: who reads metrics after a ticket finds it counted.
    pub(super) fn count_acknowledged(&self, partition: &Partition, records: u32, now: Instant) {
        self.meters.count(Fate::Acknowledged, &partition.topic, records, now);
    }

    /// A batch was acknowledged by `broker`, and its tickets know.
    pub(super) fn acknowledged(
        &self,
        partition: &Partition,
        records: u32,
        base_offset: Option<i64>,
        broker: &str,
    ) {
        let (topic, partition) = (&*partition.topic, partition.index);
        log::debug!(
            "producer: {topic}-{partition}: {records} records acknowledged from offset {base_offset:?} by broker {broker}"
        );
        let event = BatchAcknowledged { topic, partition, broker, records, base_offset };
        self.watcher.tell(|observer| observer.batch_acknowledged(&event));
    }

    /// Records failed; their tickets do not know yet.
    pub(super) fn count_failed(&self, failed: &Failed) {
        let fate = if failed.is_stored() { Fate::StoredForRetry } else { Fate::Failed };
        self.meters.count(fate, &failed.topic, failed.records, clock::now());
    }

    /// Records failed, and their tickets know.
    pub(super) fn failed(&self, failed: &Failed) {
        let Failed { topic, partition, records, error } = failed;
        let what = if failed.is_stored() { "went to the retry store" } else { "failed" };
        log::warn!("producer: {topic}-{partition}: {records} records {what}: {error}");
        let event = BatchFailed { topic, partition: *partition, records: *records, error };
        self.watcher.tell(|observer| observer.batch_failed(&event));
    }

    /// A batch goes back to wait for another attempt.
    pub(super) fn retried(
        &self,
        partition: &Partition,
        batch: &Batch,
        error: &Error,
        now: Instant,
    ) {
        let (records, attempts) = (batch.records, batch.attempts);
        self.meters.count(Fate::Retried, &partition.topic, records, now);
        let (topic, partition) = (&*partition.topic, partition.index);
        log::debug!(
            "producer: {topic}-{partition}: {records} records go again after attempt {attempts}: {error}"
        );
        let event = BatchRetried { topic, partition, records, attempts, error };
        self.watcher.tell(|observer| observer.batch_retried(&event));
    }

    /// A batch was cut because the broker called it too large.
    pub(super) fn split(&self, partition: &Partition, records: u32, error: &Error) {
        self.meters.count(Fate::Split, &partition.topic, records, clock::now());
        let (topic, partition) = (&partition.topic, partition.index);
        log::warn!(
            "producer: {topic}-{partition}: a batch of {records} records is cut in two: {error}"
        );
    }

    /// A connection is ready.
    pub(super) fn connected(
        &self,
        meter: &BrokerMeter,
        flight: &Arc<Flight>,
        id: i32,
        broker: &str,
    ) {
        meter.opened(flight, clock::now());
        log::info!("producer: connected to broker {broker}");
        let event = ConnectionOpened { broker_id: id, broker };
        self.watcher.tell(|observer| observer.connection_opened(&event));
    }

    /// A connection ended, with so many requests under way.
    pub(super) fn disconnected(
        &self,
        meter: &BrokerMeter,
        id: i32,
        requests: usize,
        error: &Error,
    ) {
        meter.lost(clock::now());
        if requests > 0 {
            log::warn!(
                "producer: the connection ended with {requests} requests under way: {error}"
            );
        } else {
            log::info!("producer: the connection ended: {error}");
        }
        self.lost(id, requests, error);
    }

    /// A connection could not be made.
    pub(super) fn unreachable(&self, id: i32, error: &Error) {
        log::warn!("producer: no connection to broker {id}: {error}");
        self.lost(id, 0, error);
    }

    fn lost(&self, broker_id: i32, requests: usize, error: &Error) {
        let event = ConnectionLost { broker_id, requests, error };
        self.watcher.tell(|observer| observer.connection_lost(&event));
    }

    /// A partition goes on under `new`.
    pub(super) fn epoch_bumped(&self, partition: &Partition, old: Identity, new: Identity) {
        let (topic, partition) = (&*partition.topic, partition.index);
        let Identity { id: producer_id, epoch, .. } = new;
        log::info!(
            "producer: {topic}-{partition}: epoch {epoch} of producer id {producer_id} follows epoch {} of id {}",
            old.epoch,
            old.id
        );
        let event = EpochBumped { topic, partition, producer_id, epoch };
        self.watcher.tell(|observer| observer.epoch_bumped(&event));
    }

    /// An answer came to the request written at `written`; the broker asked for a pause, or not.
    pub(super) fn answered(
        &self,
        meter: &BrokerMeter,
        broker: &str,
        written: Instant,
        pause: Duration,
        now: Instant,
    ) {
        meter.answered(written, pause, now);
        if pause.is_zero() {
            return;
        }
        log::debug!("producer: broker {broker} asks for a pause of {pause:?}");
        let event = Throttled { broker, pause };
        self.watcher.tell(|observer| observer.throttled(&event));
    }

    /// Newer metadata have this of a topic.
    pub(super) fn metadata_changed(&self, name: &str, topic: &Topic) {
        let (partitions, with_leader) = (topic.partitions.len(), topic.available.len());
        log::debug!(
            "producer: topic {name} has {partitions} partitions, {with_leader} with a leader"
        );
        let event = MetadataChanged { topic: name, partitions, with_leader };
        self.watcher.tell(|observer| observer.metadata_changed(&event));
    }
}
