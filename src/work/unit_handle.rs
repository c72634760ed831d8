//! [`Unit`]: a work unit in a handler's hand.
//!
//! Owned by one worker thread, which hands it to the handler and settles it afterwards. The
//! handler reads through it and says how far it came; the lease thread reads that position
//! ([`Held`]) with each renewal, so that a crash costs the records after it only.
//!
//! Invariant: a unit whose reading failed is never acknowledged as a whole, whatever the handler
//! returns: the failure is kept here, and the worker asks for it before it settles.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::{ConsumerRecord, FetchedBatch};
use crate::protocol::Uuid;
use crate::threads::Stop;
use crate::work::events::{Event, EventSink};
use crate::work::kafka::{Kafka, Portion, UnitReader};
use crate::work::lease::Held;
use crate::work::pace::Pace;
use crate::work::queue::Lease;
use crate::work::unit::{UnitId, WorkerId};

/// Between two looks at whether the node stops or the lease is lost, while the log does not reach
/// a unit's end.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A work unit as a handler sees it: a range of one partition to read and handle.
///
/// Read its records with [`Unit::records`], or portion by portion with [`Unit::batches`]. After
/// the handler returned `Ok` the whole range is acknowledged. After an error or a panic what lies
/// before [`Unit::done_to`] is acknowledged, and the rest is tried again.
///
/// Records are fetched when they are asked for; nothing is fetched for a handler that does not ask.
pub struct Unit {
    held: Arc<Held>,
    lease: Lease,
    reading: Mutex<Reading>,
    kafka: Arc<dyn Kafka>,
    events: EventSink,
    pace: Arc<Pace>,
    worker: WorkerId,
    stop: Stop,
    abandon: Stop,
    given_back: Mutex<Option<Error>>,
    records_given_up: AtomicU64,
}

/// How far the reading of a unit came.
#[derive(Default)]
struct Reading {
    reader: Option<Box<dyn UnitReader>>,
    /// What is left of a batch that is given out record by record.
    rest: Option<Box<dyn Iterator<Item = Result<ConsumerRecord>> + Send>>,
    /// Read before the handler asked.
    ahead: VecDeque<FetchedBatch>,
    ended: bool,
    failure: Option<Error>,
    records: u64,
}

/// What a unit's reading reached.
#[derive(Debug)]
pub(crate) enum Reached<T> {
    /// The next record or batch.
    Next(T),
    /// The unit's end.
    End,
    /// Neither is known within the time that was given.
    NotYet,
}

impl<T> Reached<T> {
    fn next(self) -> Option<T> {
        match self {
            Self::Next(next) => Some(next),
            Self::End | Self::NotYet => None,
        }
    }
}

/// What a worker needs to make a [`Unit`].
pub(crate) struct UnitParts {
    pub(crate) held: Arc<Held>,
    pub(crate) lease: Lease,
    pub(crate) kafka: Arc<dyn Kafka>,
    pub(crate) events: EventSink,
    pub(crate) pace: Arc<Pace>,
    pub(crate) worker: WorkerId,
    /// Set when the node is shut down.
    pub(crate) stop: Stop,
    /// Set when the node does not wait for handlers any more.
    pub(crate) abandon: Stop,
}

impl Unit {
    pub(crate) fn new(parts: UnitParts) -> Self {
        let UnitParts { held, lease, kafka, events, pace, worker, stop, abandon } = parts;
        Self {
            held,
            lease,
            reading: Mutex::default(),
            kafka,
            events,
            pace,
            worker,
            stop,
            abandon,
            given_back: Mutex::default(),
            records_given_up: AtomicU64::new(0),
        }
    }

    /// Its identity: `topic/partition/start-end`, the same in every attempt. A sink can use its
    /// text as a key that makes writing idempotent.
    pub fn id(&self) -> &UnitId {
        &self.held.unit
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        self.held.unit.topic()
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.held.unit.partition()
    }

    /// The offsets, end exclusive. Fewer records may be there: compaction and transaction markers
    /// leave gaps.
    pub fn range(&self) -> Range<i64> {
        self.held.unit.start()..self.held.unit.end()
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.lease.attempt
    }

    /// Whether a failure now is final: the unit would go to the dead-letter sink.
    pub fn is_last_attempt(&self) -> bool {
        self.lease.is_last
    }

    /// Whether the lease went to another worker: what is handled from now on is handled twice.
    /// Reading ends with an error of kind `LeaseLost` then. A handler that works on one record for
    /// long may look here and give up.
    pub fn is_lost(&self) -> bool {
        self.held.is_lost()
    }

    /// Everything before `offset` is done, whatever happens to the rest: if the handler fails later,
    /// the unit is tried again from here on. Never goes back.
    pub fn done_to(&self, offset: i64) {
        self.held.done_to(offset);
    }

    /// Whether the node is being shut down: [`Node::shutdown`](super::Node::shutdown) waits for this
    /// handler. One that takes long may look here, call [`Unit::give_back`] and return.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_set()
    }

    /// Gives the unit back when the handler returns, whatever it returns: what lies before
    /// [`Unit::done_to`] is acknowledged, the rest goes to another worker, and no attempt is used up.
    /// For what is not the records' fault: a shutdown, a service that is away. `why` is for people.
    ///
    /// Another worker has it at once when the node is being shut down, else after a second. Nothing
    /// bounds how often a unit is given back.
    pub fn give_back(&self, why: &str) {
        self.give_back_for(self.error(ErrorKind::Closed, why));
    }

    pub(crate) fn give_back_for(&self, error: Error) {
        self.given_back.lock().get_or_insert(error);
    }

    /// Why the handler gave it back, if it did.
    pub(crate) fn given_back(&self) -> Option<Error> {
        self.given_back.lock().clone()
    }

    /// The worker that has it.
    pub(crate) fn worker(&self) -> &WorkerId {
        &self.worker
    }

    /// Set when the node does not wait for handlers any more.
    pub(crate) fn abandoned(&self) -> &Stop {
        &self.abandon
    }

    /// A record was given up, its dead letter is stored.
    pub(crate) fn record_given_up(&self, offset: i64, error: String) {
        self.held.given_up(offset, offset + 1);
        self.records_given_up.fetch_add(1, Ordering::Relaxed);
        let partition = self.held.unit.topic_partition().clone();
        self.events.tell(Event::RecordDeadLettered { partition, offset, error });
    }

    /// How many records were given up.
    pub(crate) fn records_given_up(&self) -> u64 {
        self.records_given_up.load(Ordering::Relaxed)
    }

    /// Iterator over the records that were not read yet. Blocks while they are fetched; an offset
    /// that the log does not reach is waited for.
    ///
    /// After an error of the iterator (a broker that stays away, a damaged batch, a lost lease) it
    /// ends. The handler is best left with that error; if it returns `Ok` all the same, the unit is
    /// not acknowledged beyond [`Unit::done_to`].
    ///
    /// # Errors
    /// `InvalidInput` while another iterator of this unit is alive.
    pub fn records(&self) -> Result<UnitRecords<'_>> {
        Ok(UnitRecords { unit: self, reading: self.reading()? })
    }

    /// Iterator over the records by the portion they were fetched in: the fast path for handlers
    /// that take many at once. Else like [`Unit::records`].
    ///
    /// # Errors
    /// `InvalidInput` while another iterator of this unit is alive.
    pub fn batches(&self) -> Result<UnitBatches<'_>> {
        Ok(UnitBatches { unit: self, reading: self.reading()? })
    }

    fn reading(&self) -> Result<MutexGuard<'_, Reading>> {
        self.reading.try_lock().ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "the unit's records are being iterated already")
        })
    }

    /// The failure that ended the reading, if one did.
    pub(crate) fn read_failure(&self) -> Option<Error> {
        self.reading.lock().failure.clone()
    }

    /// How many records were given out.
    pub(crate) fn records_read(&self) -> u64 {
        self.reading.lock().records
    }

    /// The topic's id when the unit was planned.
    pub(crate) fn topic_id(&self) -> Uuid {
        self.lease.topic_id
    }

    /// What is shared with the lease thread.
    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// The next batch, waiting for it until `limit`, or for as long as it takes.
    fn fetch(
        &self,
        reading: &mut Reading,
        limit: Option<Deadline>,
    ) -> Result<Reached<FetchedBatch>> {
        if let Some(failure) = &reading.failure {
            return Err(failure.clone());
        }
        if let Some(batch) = reading.ahead.pop_front().filter(|_| !self.held.is_lost()) {
            return Ok(Reached::Next(batch));
        }
        let fetched = self.fetch_or_fail(reading, limit);
        if let Err(error) = &fetched {
            reading.failure = Some(error.clone());
        }
        fetched
    }

    fn fetch_or_fail(
        &self,
        reading: &mut Reading,
        limit: Option<Deadline>,
    ) -> Result<Reached<FetchedBatch>> {
        while !reading.ended {
            if self.held.is_lost() {
                return Err(self.error(ErrorKind::LeaseLost, "the lease went to another worker"));
            }
            if self.abandon.is_set() {
                return Err(self.error(ErrorKind::Closed, "the node has stopped"));
            }
            let reader = match &mut reading.reader {
                Some(reader) => reader,
                none => none.insert(self.kafka.open(&self.held.unit, self.lease.topic_id)?),
            };
            let look = Deadline::within(LOOK_EVERY);
            match reader.next(limit.map_or(look, |limit| limit.min(look)))? {
                Portion::Batch(batch) => return Ok(Reached::Next(batch)),
                Portion::Skipped { from, to } => self.skipped(from, to),
                Portion::Nothing if limit.is_some_and(|limit| limit.left().is_zero()) => {
                    return Ok(Reached::NotYet);
                }
                Portion::Nothing => {}
                Portion::End => reading.ended = true,
            }
        }
        Ok(Reached::End)
    }

    /// The next record, waiting for it until `limit`, or for as long as it takes.
    fn next_record(
        &self,
        reading: &mut Reading,
        limit: Option<Deadline>,
    ) -> Result<Reached<ConsumerRecord>> {
        if !self.may_go_on(reading, limit)? {
            return Ok(Reached::NotYet);
        }
        loop {
            if let Some(rest) = &mut reading.rest {
                match rest.next() {
                    Some(Ok(record)) => {
                        reading.records += 1;
                        if self.pace.is_limited() {
                            let bytes = length(record.key()) + length(record.value());
                            self.pace.take(1, bytes, clock::now());
                        }
                        return Ok(Reached::Next(record));
                    }
                    Some(Err(error)) => {
                        reading.rest = None;
                        reading.failure = Some(error.clone());
                        return Err(error);
                    }
                    None => reading.rest = None,
                }
            }
            match self.fetch(reading, limit)? {
                Reached::Next(batch) => reading.rest = Some(Box::new(batch.into_records())),
                Reached::End => return Ok(Reached::End),
                Reached::NotYet => return Ok(Reached::NotYet),
            }
        }
    }

    /// Reads until it has `bytes`, the unit ends or `enough` says so: at least what is at hand at once. A
    /// failure is left for the handler to meet.
    pub(crate) fn read_ahead(&self, bytes: usize, enough: impl Fn() -> bool) {
        let mut reading = self.reading.lock();
        let mut have = 0;
        while have < bytes && !enough() && !self.stop.is_set() {
            match self.fetch_or_fail(&mut reading, Some(Deadline::within(LOOK_EVERY))) {
                Ok(Reached::Next(batch)) => {
                    have += batch.size();
                    reading.ahead.push_back(batch);
                }
                Ok(Reached::End | Reached::NotYet) => break,
                Err(error) => {
                    log::debug!("unit {} could not be read ahead: {error}", self.held.unit);
                    break;
                }
            }
        }
    }

    /// Waits until the node's limits let a record pass; `false` when they do not until `limit`. The
    /// lease is renewed meanwhile; a shutdown ends the wait, and the unit is given back.
    fn may_go_on(&self, reading: &mut Reading, limit: Option<Deadline>) -> Result<bool> {
        while self.pace.is_limited() {
            let wait = self.pace.wait(clock::now());
            if wait.is_zero() {
                break;
            }
            let failure = if self.held.is_lost() {
                Some(self.error(ErrorKind::LeaseLost, "the lease went to another worker"))
            } else if self.stop.is_set() {
                Some(self.error(ErrorKind::Closed, "the node stops"))
            } else {
                None
            };
            if let Some(failure) = failure {
                reading.failure = Some(failure.clone());
                return Err(failure);
            }
            let left = limit.map_or(LOOK_EVERY, Deadline::left);
            if left.is_zero() {
                return Ok(false);
            }
            self.stop.wait(wait.min(left).min(LOOK_EVERY));
        }
        Ok(true)
    }

    /// The next batch for a handler that takes them whole.
    fn next_batch(&self, reading: &mut Reading) -> Result<Reached<FetchedBatch>> {
        self.may_go_on(reading, None)?;
        let reached = self.fetch(reading, None)?;
        if let (Reached::Next(batch), true) = (&reached, self.pace.is_limited()) {
            let (mut records, mut bytes) = (0, 0);
            // One that is damaged is the handler's to find.
            for record in batch.iter().flatten() {
                records += 1;
                bytes += length(record.key) + length(record.value);
            }
            self.pace.take(records, bytes, clock::now());
        }
        Ok(reached)
    }

    /// The next record, waiting for it until `limit` at most.
    pub(crate) fn next_within(&self, limit: Deadline) -> Result<Reached<ConsumerRecord>> {
        let mut reading = self.reading()?;
        self.next_record(&mut reading, Some(limit))
    }

    fn skipped(&self, from: i64, to: i64) {
        log::warn!("offsets {from} to {to} of unit {} are gone from the log", self.held.unit);
        self.held.skipped(from, to);
        let partition = self.held.unit.topic_partition().clone();
        self.events.tell(Event::Skipped { partition, from, to });
    }

    fn error(&self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, format!("{message}: unit {}", self.held.unit))
    }
}

fn length(field: Option<&[u8]>) -> u64 {
    field.map_or(0, |bytes| bytes.len() as u64)
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit")
            .field("id", &self.held.unit)
            .field("attempt", &self.lease.attempt)
            .field("done_to", &self.held.position())
            .finish_non_exhaustive()
    }
}

/// Iterator over a unit's records, see [`Unit::records`].
pub struct UnitRecords<'a> {
    unit: &'a Unit,
    reading: MutexGuard<'a, Reading>,
}

impl Iterator for UnitRecords<'_> {
    type Item = Result<ConsumerRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reading.failure.is_some() {
            return None;
        }
        self.unit.next_record(&mut self.reading, None).map(Reached::next).transpose()
    }
}

impl fmt::Debug for UnitRecords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnitRecords").field("unit", self.unit).finish_non_exhaustive()
    }
}

/// Iterator over a unit's records by portions, see [`Unit::batches`].
pub struct UnitBatches<'a> {
    unit: &'a Unit,
    reading: MutexGuard<'a, Reading>,
}

impl Iterator for UnitBatches<'_> {
    type Item = Result<FetchedBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reading.failure.is_some() {
            return None;
        }
        self.unit.next_batch(&mut self.reading).map(Reached::next).transpose()
    }
}

impl fmt::Debug for UnitBatches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnitBatches").field("unit", self.unit).finish_non_exhaustive()
    }
}
