//! The thread `ottla-store`: sends stored batches again, until they are acknowledged.
//!
//! A round goes through the segments, oldest first. Of a segment it sends in waves: the next batch of every partition, then
//! waits for all of them; so batches of a partition follow each other, and at most one of each is under way. A partition whose
//! batch could not be delivered is left alone for the rest of the round, and the round is followed by a pause, which grows. Each
//! batch goes into its partition as a batch of its own, behind what is there: it is not mixed with new records, so that what
//! fails again is known to be on disk already.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::log::Log;
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Result};
use crate::producer::core::Core;
use crate::producer::monitor::Failed;
use crate::producer::ticket::{BatchOutcome, Ticket};
use crate::protocol::records::{BatchBuilder, Decompressor, Header, HeaderView, RecordBatches};
use crate::protocol::{ErrorCode, Uuid};
use crate::threads;

/// How often the store is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Longest pause after rounds in which something could not be delivered.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Codes by which a broker says that it will never take these records.
const FINAL: [ErrorCode; 5] = [
    ErrorCode::MESSAGE_TOO_LARGE,
    ErrorCode::RECORD_LIST_TOO_LARGE,
    ErrorCode::INVALID_RECORD,
    ErrorCode::INVALID_TIMESTAMP,
    ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT,
];

type Place = (String, i32);

impl Core {
    /// Starts the thread of the retry store, if there is one.
    ///
    /// # Errors
    /// `Io` when the system has no thread to give.
    pub(in crate::producer) fn start_store(self: &Arc<Self>) -> Result<()> {
        if self.store.is_some() {
            let core = Arc::clone(self);
            self.adopt(threads::spawn("ottla-store", move || {
                if let Some(log) = &core.store {
                    run(&core, log);
                }
            })?);
        }
        Ok(())
    }
}

/// The body of the thread.
fn run(core: &Arc<Core>, log: &Log) {
    let mut replay = Replay { core, log, done: BTreeMap::new(), blocked: HashSet::new() };
    let mut pause = Duration::ZERO;
    while !core.stopped.wait(pause) && !core.is_closed() {
        replay.round();
        pause = if replay.blocked.is_empty() { LOOK } else { (pause * 2).clamp(LOOK, PAUSE_MAX) };
    }
}

struct Replay<'a> {
    core: &'a Arc<Core>,
    log: &'a Log,
    /// Per segment that is sent in part: which of its batches are done with.
    done: BTreeMap<u64, Vec<bool>>,
    /// Partitions that are left alone in this round.
    blocked: HashSet<Place>,
}

impl Replay<'_> {
    fn round(&mut self) {
        self.blocked.clear();
        for number in self.log.segments() {
            if self.core.is_closed() {
                return;
            }
            let entries = match self.log.read(number) {
                Ok(entries) => entries,
                Err(error) => {
                    log::error!(
                        "producer: segment {number} of the retry store cannot be read: {error}"
                    );
                    continue;
                }
            };
            self.send(number, &entries);
            let all = self.done.get(&number).is_none_or(|done| done.iter().all(|done| *done));
            if all {
                match self.log.remove(number) {
                    Ok(()) => {
                        log::info!("producer: segment {number} of the retry store is delivered");
                    }
                    Err(error) => {
                        // It is sent again after a restart at worst.
                        log::error!("producer: segment {number} of the retry store stays: {error}");
                        continue;
                    }
                }
                self.done.remove(&number);
            }
        }
    }

    fn send(&mut self, number: u64, entries: &[Entry]) {
        let done = self.done.entry(number).or_insert_with(|| vec![false; entries.len()]);
        let mut queues: BTreeMap<Place, VecDeque<(usize, &Entry)>> = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            if done.get(index) == Some(&false) {
                let place = (entry.topic.clone(), entry.partition);
                queues.entry(place).or_default().push_back((index, entry));
            }
        }
        loop {
            let mut wave = Vec::new();
            let mut results = Vec::new();
            for (place, queue) in &mut queues {
                if self.blocked.contains(place) || self.core.is_closed() {
                    continue;
                }
                let Some((index, entry)) = queue.pop_front() else { continue };
                match submit(self.core, entry) {
                    Ok(outcome) => wave.push((place, index, entry, outcome)),
                    Err(error) => results.push((place, index, Err(error))),
                }
            }
            for (place, index, entry, outcome) in wave {
                results.push((place, index, wait(&outcome, entry.records)));
            }
            if results.is_empty() {
                return;
            }
            for (place, index, result) in results {
                match result {
                    Err(error) if stays(&error) => {
                        log::warn!(
                            "producer: {}-{} stays in the retry store: {error}",
                            place.0,
                            place.1
                        );
                        self.blocked.insert(place.clone());
                    }
                    // Delivered, or refused for good, which was told.
                    Ok(()) | Err(_) => {
                        if let Some(done) = done.get_mut(index) {
                            *done = true;
                        }
                    }
                }
            }
        }
    }
}

/// Whether the batch is to stay: unless its records themselves are what keeps them from being stored. What the cluster forbids or
/// lacks today it may allow and have tomorrow.
pub(in crate::producer) fn stays(error: &Error) -> bool {
    let is_final = match error.broker_code() {
        Some(code) => FINAL.contains(&code),
        None => matches!(
            error.kind(),
            ErrorKind::Corrupt | ErrorKind::UnknownTopic | ErrorKind::RecordTooLarge
        ),
    };
    !is_final
}

fn wait(outcome: &Arc<BatchOutcome>, records: u32) -> Result<()> {
    // A batch ends as one, unless it was cut: then what is to stay decides for the whole.
    let mut result = Ok(());
    for index in 0..records {
        let ticket = Ticket { outcome: Arc::clone(outcome), index, timestamp_ms: 0 };
        if let Err(error) = ticket.wait() {
            let last = stays(&error);
            result = Err(error);
            if last {
                break;
            }
        }
    }
    result
}

/// Puts a stored batch into its partition.
fn submit(core: &Arc<Core>, entry: &Entry) -> Result<Arc<BatchOutcome>> {
    let later = |error: Error| {
        Error::new(ErrorKind::StoredForRetry, "the topic is not reachable").with_source(error)
    };
    let deadline = Deadline::within(core.config.max_block);
    let topic = core.find_topic(&entry.topic, deadline).map_err(later)?;
    if topic.id != Uuid::ZERO && entry.topic_id != Uuid::ZERO && topic.id != entry.topic_id {
        let message =
            "the topic was deleted and made again; the stored record was meant for the old one";
        return Err(drop_entry(core, entry, Error::new(ErrorKind::UnknownTopic, message)));
    }
    let partition =
        usize::try_from(entry.partition).ok().and_then(|index| topic.partitions.get(index));
    let Some(partition) = partition else {
        return Err(later(Error::new(ErrorKind::UnknownTopic, "the partition is not known")));
    };
    let builder = rebuild(entry).map_err(|error| drop_entry(core, entry, error))?;
    let bytes = builder.len();
    if !core.memory.reserve(bytes, deadline, || core.is_closed(), || core.ring_all()) {
        return Err(Error::new(ErrorKind::BufferFull, "no space in the producer's buffer"));
    }
    partition.enqueue(builder, bytes, &core.unfinished, clock::now()).map_err(|error| {
        core.memory.release(bytes);
        later(error)
    })
}

/// Tells that a stored batch will never be delivered.
fn drop_entry(core: &Core, entry: &Entry, error: Error) -> Error {
    let failed = Failed {
        topic: Arc::from(entry.topic.as_str()),
        partition: entry.partition,
        records: entry.records,
        error: error.with_partition(&entry.topic, entry.partition).maybe_persisted(true),
    };
    core.monitor.count_failed(&failed);
    core.monitor.failed(&failed);
    failed.error
}

/// The records of a stored batch in an open one: it gets another sequence, and perhaps another codec.
fn rebuild(entry: &Entry) -> Result<BatchBuilder> {
    let batch = RecordBatches::new(entry.batch.clone()).next();
    let batch =
        batch.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a stored batch is empty"))??;
    let records = batch.records(&mut Decompressor::with_limit(usize::MAX))?;
    let mut builder = BatchBuilder::new(Vec::with_capacity(entry.batch.len()));
    for record in &records {
        let record = record?;
        let views: Vec<_> = record.headers.iter().collect();
        let keys: Vec<_> = views.iter().map(HeaderView::key).collect();
        let headers = keys.iter().zip(&views);
        let headers: Vec<_> =
            headers.map(|(key, view)| Header { key, value: view.value }).collect();
        builder.append(record.timestamp_ms, record.key, record.value, &headers)?;
    }
    if builder.is_empty() || u32::try_from(builder.record_count()) != Ok(entry.records) {
        return Err(Error::new(ErrorKind::Corrupt, "a stored batch has another number of records"));
    }
    Ok(builder)
}
