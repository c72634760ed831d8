//! Where a producer counts: one tally per broker, one per topic.
//!
//! Counting happens per batch, per request and per answer, never per record: sends do not come here, except when they
//! have to wait for memory. Each lock is a leaf and is held for a few additions. A broker's is taken by its writer and
//! its reader; that of the topics by all of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::tally::{Count, Reading, Tally, Windowed};
use crate::producer::flight::Flight;

/// Counts of one broker, shared by its writer and its readers.
#[derive(Debug)]
pub(in crate::producer) struct BrokerMeter {
    counts: Mutex<Windowed<Tally>>,
    /// The connection at present.
    flight: Mutex<Weak<Flight>>,
}

/// A batch in a request.
#[derive(Clone, Copy, Debug)]
pub(in crate::producer) struct Written<'a> {
    pub(in crate::producer) topic: &'a Arc<str>,
    pub(in crate::producer) records: u32,
    /// How often it was sent, this time included.
    pub(in crate::producer) attempt: u32,
    pub(in crate::producer) plain_bytes: usize,
    pub(in crate::producer) bytes: usize,
    pub(in crate::producer) opened: Instant,
}

/// What a batch's end or return is counted as.
#[derive(Clone, Copy, Debug)]
pub(in crate::producer) enum Fate {
    Acknowledged,
    Retried,
    Failed,
    /// It is in the retry store.
    StoredForRetry,
    /// The batch was cut because the broker called it too large.
    Split,
}

/// Waits of senders.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) nanos: u64,
    /// Sends that found no memory in time.
    pub(super) refused: u64,
}

impl Count for Waits {
    fn merge(&mut self, other: &Self) {
        self.nanos += other.nanos;
        self.refused += other.refused;
    }
}

/// All counts of one producer.
#[derive(Debug)]
pub(in crate::producer) struct Meters {
    brokers: Mutex<BTreeMap<i32, Arc<BrokerMeter>>>,
    topics: Mutex<HashMap<Arc<str>, Windowed<Tally>>>,
    waits: Mutex<Windowed<Waits>>,
}

impl Meters {
    /// Nothing counted yet.
    pub(in crate::producer) fn new(now: Instant) -> Self {
        Self {
            brokers: Mutex::default(),
            topics: Mutex::default(),
            waits: Mutex::new(Windowed::new(now)),
        }
    }

    /// The counts of a broker, made at the first call.
    pub(in crate::producer) fn broker(&self, id: i32, now: Instant) -> Arc<BrokerMeter> {
        let mut brokers = self.brokers.lock();
        let meter = brokers.entry(id).or_insert_with(|| {
            let counts = Mutex::new(Windowed::new(now));
            Arc::new(BrokerMeter { counts, flight: Mutex::default() })
        });
        Arc::clone(meter)
    }

    /// A request with these batches is about to be written.
    pub(in crate::producer) fn written<'a>(
        &self,
        broker: &BrokerMeter,
        batches: impl Iterator<Item = Written<'a>> + Clone,
        now: Instant,
    ) {
        let mut counts = broker.counts.lock();
        let tally = counts.at(now);
        tally.requests.record(batches.clone().map(|batch| u64::from(batch.records)).sum());
        for batch in batches.clone() {
            sent(tally, batch);
            if batch.attempt == 1 {
                let waited = now.saturating_duration_since(batch.opened);
                tally.queue_time.record(waited.as_micros() as u64);
            }
        }
        drop(counts);
        let mut topics = self.topics.lock();
        for batch in batches {
            sent(of_topic(&mut topics, batch.topic, now), batch);
        }
    }

    /// What became of a batch, or of some of its records.
    pub(in crate::producer) fn count(
        &self,
        fate: Fate,
        topic: &Arc<str>,
        records: u32,
        now: Instant,
    ) {
        let mut topics = self.topics.lock();
        let tally = of_topic(&mut topics, topic, now);
        let records = u64::from(records);
        match fate {
            Fate::Acknowledged => tally.records_acknowledged += records,
            Fate::Retried => tally.records_retried += records,
            Fate::Failed => tally.records_failed += records,
            Fate::StoredForRetry => tally.records_stored_for_retry += records,
            Fate::Split => tally.batches_split += 1,
        }
    }

    /// A sender waited for memory, and got it or not.
    pub(in crate::producer) fn waited(&self, wait: Duration, refused: bool, now: Instant) {
        let mut waits = self.waits.lock();
        let waits = waits.at(now);
        waits.nanos = waits.nanos.saturating_add(wait.as_nanos() as u64);
        waits.refused += u64::from(refused);
    }

    pub(super) fn read_waits(&self, now: Instant) -> Reading<Waits> {
        self.waits.lock().read(now)
    }

    pub(super) fn read_topics(&self, now: Instant) -> BTreeMap<String, Reading<Tally>> {
        let mut topics = self.topics.lock();
        topics.iter_mut().map(|(name, counts)| (name.to_string(), counts.read(now))).collect()
    }

    pub(super) fn brokers(&self) -> BTreeMap<i32, Arc<BrokerMeter>> {
        self.brokers.lock().clone()
    }
}

impl BrokerMeter {
    /// The answer to a request that was written at `written`, with the pause that the broker asks for.
    pub(in crate::producer) fn answered(&self, written: Instant, pause: Duration, now: Instant) {
        let mut counts = self.counts.lock();
        let tally = counts.at(now);
        tally.answers += 1;
        let latency = now.saturating_duration_since(written);
        tally.latency.record(latency.as_micros() as u64);
        tally.throttle.record(pause.as_millis() as u64);
    }

    /// A connection was opened.
    pub(in crate::producer) fn opened(&self, flight: &Arc<Flight>, now: Instant) {
        *self.flight.lock() = Arc::downgrade(flight);
        self.counts.lock().at(now).connections_opened += 1;
    }

    /// The connection is no more.
    pub(in crate::producer) fn lost(&self, now: Instant) {
        *self.flight.lock() = Weak::new();
        self.counts.lock().at(now).connections_lost += 1;
    }

    pub(super) fn read(&self, now: Instant) -> Reading<Tally> {
        self.counts.lock().read(now)
    }

    /// Requests that wait for their answers; `None` without a connection.
    pub(super) fn in_flight(&self) -> Option<usize> {
        let flight = self.flight.lock().upgrade()?;
        (!flight.is_closed()).then(|| flight.count())
    }
}

fn sent(tally: &mut Tally, batch: Written<'_>) {
    tally.records_sent += u64::from(batch.records);
    tally.batches.record(batch.bytes as u64);
    if batch.attempt == 1 {
        tally.plain_bytes += batch.plain_bytes as u64;
        tally.packed_bytes += batch.bytes as u64;
        tally.first_records += u64::from(batch.records);
    }
}

fn of_topic<'a>(
    topics: &'a mut HashMap<Arc<str>, Windowed<Tally>>,
    topic: &Arc<str>,
    now: Instant,
) -> &'a mut Tally {
    if !topics.contains_key(topic) {
        topics.insert(Arc::clone(topic), Windowed::new(now));
    }
    topics.get_mut(topic).expect("it was just put in").at(now)
}
