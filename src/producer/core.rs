//! What all threads of one producer share, and the settling of batches.
//!
//! ```text
//!  callers --append--> Partition <--take-- ottla-w-N (writer) ---> broker N
//!     |                   ^  ^                                        |
//!     |                   |  '--- returned, cut --- ottla-r-N (reader) <
//!     v                   |                             |
//!  tickets <-- outcome    '-- route -- ottla-router     '-- settle --> outcome, ottla-cb
//! ```
//!
//! [`Core::settle`] is the only place where a batch ends: it resolves the outcome, gives back the
//! memory, keeps the buffer for the next batch and queues the callbacks. Every path (stored,
//! refused, expired, given up at close) leads there exactly once per batch.
//!
//! Locks, in the order in which they may be held together: the topics (to read), a partition's
//! state, a ready queue's bell. All others are leaves and are held for a few instructions.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::accumulator::Event;
use super::backlog::{IdentityState, Limits};
use super::batch::{Batch, Codec};
use super::callbacks::{CALLBACK_BYTES, Callbacks, PendingList, Settled, run_all};
use super::failures::Failures;
use super::flight::Flight;
use super::id::Identities;
use super::memory::Memory;
use super::monitor::{Failed, Monitor};
use super::observer::Watcher;
use super::partitioner::Partitioner;
use super::queue::ReadyQueue;
use super::record::Undelivered;
use super::store::{self, Log};
use super::ticket::{BatchOutcome, BatchResult, Unfinished};
use super::topics::Topics;
use super::writer;
use crate::cluster::Cluster;
use crate::config::{ClientConfig, ProducerConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::records::Compression;
use crate::threads::{self, Thread};

/// How many times `batch.size` a batch may grow while its writer is busy.
const BATCH_GROWTH: usize = 4;
/// What a request takes besides its batches, at most, per partition in it.
pub(super) const REQUEST_OVERHEAD: usize = 512;

/// The shared part of a producer.
pub(super) struct Core {
    pub(super) config: ProducerConfig,
    pub(super) client: Arc<ClientConfig>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) limits: Limits,
    pub(super) codec: Codec,
    pub(super) memory: Memory,
    pub(super) identities: Identities,
    pub(super) topics: Topics,
    /// The queue of partitions whose leader is not known.
    pub(super) router: Arc<ReadyQueue>,
    pub(super) callbacks: Callbacks,
    /// Set once: no record is taken any more.
    closed: AtomicBool,
    /// Set once: threads end.
    pub(super) stopped: threads::Stop,
    pub(super) unfinished: Unfinished,
    /// Records of batches that were given up, once `close` collects them.
    undelivered: Mutex<Option<Vec<Undelivered>>>,
    pub(super) failures: Failures,
    /// What the user has in the place of the built-in rule.
    pub(super) partitioner: Option<Arc<dyn Partitioner>>,
    pub(super) monitor: Monitor,
    /// What could not be delivered, on disk.
    pub(super) store: Option<Log>,
    writers: Mutex<Writers>,
    /// Connections opened so far, by all writers: a number belongs to one of them.
    connections: AtomicU64,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("config", &self.config).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Writers {
    queues: HashMap<i32, Arc<ReadyQueue>>,
    threads: Vec<Thread>,
    flights: Vec<Weak<Flight>>,
}

impl Core {
    /// Everything empty; no thread runs yet.
    pub(super) fn new(
        config: ProducerConfig,
        client: Arc<ClientConfig>,
        cluster: Arc<Cluster>,
        callbacks: Callbacks,
        partitioner: Option<Arc<dyn Partitioner>>,
        watcher: Watcher,
        store: Option<Log>,
    ) -> Self {
        let request_room = config.max_request_size.saturating_sub(REQUEST_OVERHEAD);
        let grown = config.batch_size.saturating_mul(BATCH_GROWTH);
        let limits = Limits {
            batch_size: config.batch_size.min(request_room),
            batch_max: grown.min(request_room),
            linger: config.linger,
            plain: config.compression == Compression::None,
            delivery_timeout: config.delivery_timeout,
        };
        Self {
            codec: Codec::of(&config),
            memory: Memory::new(config.buffer_memory),
            identities: Identities::new(config.enable_idempotence),
            topics: Topics::default(),
            router: Arc::new(ReadyQueue::new(-1)),
            callbacks,
            closed: AtomicBool::new(false),
            stopped: threads::Stop::new(),
            unfinished: Unfinished::default(),
            undelivered: Mutex::default(),
            failures: Failures::default(),
            partitioner,
            monitor: Monitor::new(watcher),
            store,
            writers: Mutex::default(),
            connections: AtomicU64::new(0),
            limits,
            config,
            client,
            cluster,
        }
    }

    /// Whether `close` has begun.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Begins to close: no record is taken from now on. Tells whether this call was the first.
    pub(super) fn close_to_records(&self) -> bool {
        !self.closed.swap(true, Ordering::SeqCst)
    }

    /// Whether batches go out without waiting for the linger: at close, and while callers wait for
    /// the memory that open batches hold.
    pub(super) fn is_hurried(&self) -> bool {
        self.is_closed() || self.memory.is_wanted()
    }

    /// The error of a closed producer.
    pub(super) fn closed_error() -> Error {
        Error::new(ErrorKind::Closed, "the producer was closed")
    }

    /// Pause after `failures` failed attempts in a row: `retry.backoff.ms`, doubled each time up
    /// to `retry.backoff.max.ms`, a fifth more or less.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        /// Enough doublings to reach any maximum from a millisecond.
        const DOUBLINGS_MAX: u32 = 20;
        let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
        let pause = self.client.retry_backoff.saturating_mul(1 << doublings);
        pause.min(self.client.retry_backoff_max).mul_f64(0.8 + 0.4 * fastrand::f64())
    }

    /// Wakes whom an append has to wake.
    pub(super) fn notify(event: &Event) {
        if event.ready > 0 {
            event.queue.announce(event.ready);
        }
        if let Some(due) = event.due {
            event.queue.wake_before(due);
        }
    }

    /// Ends a batch that is nowhere else any more. One that was given up before, on the wire, only gives
    /// back what it holds.
    pub(super) fn settle(&self, mut batch: Batch, result: BatchResult) {
        let failed = self.tell_failure(&mut batch, &result);
        let (outcome, is_over) = (Arc::clone(&batch.outcome), batch.is_over());
        let reserved = batch.reserved;
        let callbacks = self.recycle(batch);
        // Memory first: whoever waits for the outcome finds it free.
        let held = reserved.min(callbacks.len() * CALLBACK_BYTES);
        self.memory.release(reserved - held);
        if is_over {
            debug_assert!(callbacks.is_empty(), "its callbacks went with what was detached");
            return;
        }
        self.resolve(outcome, callbacks, result, held);
        if let Some(failed) = failed {
            self.monitor.failed(&failed);
        }
    }

    /// Tells the channel of failures, once: a batch that expired on the wire is settled later again.
    /// Gives what the monitor is to be told.
    fn tell_failure(&self, batch: &mut Batch, result: &BatchResult) -> Option<Failed> {
        let BatchResult::Failed(error) = result else { return None };
        if batch.is_over() {
            return None;
        }
        let is_stored = error.kind() == ErrorKind::StoredForRetry;
        // It is on disk as before, and will be sent again.
        if batch.is_from_store && store::stays(error) {
            return None;
        }
        if !is_stored {
            self.failures.tell(batch, |_| Some(error.clone()));
        }
        let failed = Failed {
            topic: batch.outcome.topic()?,
            partition: batch.outcome.partition(),
            records: batch.records,
            error: error.clone(),
        };
        self.monitor.count_failed(&failed);
        Some(failed)
    }

    /// Resolves, and queues the callbacks, which hold on to `held` bytes until they have run.
    fn resolve(
        &self,
        outcome: Arc<BatchOutcome>,
        callbacks: PendingList,
        result: BatchResult,
        held: usize,
    ) {
        let first = outcome.resolve(result);
        assert!(first, "a batch is settled once");
        if callbacks.is_empty() {
            self.unfinished.finish(&outcome);
            return;
        }
        if let Some(late) = self.callbacks.queue(Settled { outcome, callbacks, held }) {
            // The callback thread has ended: this is the end of a close, on its own thread.
            run_all(late.callbacks, &late.outcome);
            self.memory.release(late.held);
            self.unfinished.finish(&late.outcome);
        }
    }

    fn recycle(&self, batch: Batch) -> PendingList {
        let (callbacks, buffer) = batch.into_parts();
        if let Some(buffer) = buffer {
            self.memory.recycle(buffer);
        }
        callbacks
    }

    /// Fails a batch that is nowhere else any more.
    pub(super) fn fail(&self, batch: Batch, error: Error) {
        self.fail_all(vec![(batch, error)]);
    }

    /// Fails batches that are nowhere else any more, each with its error. Those that the retry store takes are told so.
    pub(super) fn fail_all(&self, failed: Vec<(Batch, Error)>) {
        let in_context = |(batch, error): (Batch, Error)| {
            let error = error.maybe_persisted(batch.maybe_stored);
            let error = match batch.outcome.topic() {
                Some(topic) => error.with_partition(&topic, batch.outcome.partition()),
                None => error,
            };
            (batch, error)
        };
        let mut failed: Vec<_> = failed.into_iter().map(in_context).collect();
        self.keep(&mut failed);
        for (batch, error) in failed {
            self.settle(batch, BatchResult::Failed(error));
        }
    }

    /// Fails batches that ran out of time, with the reason of their last failure.
    pub(super) fn expire_all(&self, expired: Vec<Batch>, now: Instant) {
        let error = |batch: Batch| {
            let error = self.expiry(&batch, now);
            (batch, error)
        };
        self.fail_all(expired.into_iter().map(error).collect());
    }

    /// The error of a batch that ran out of time.
    pub(super) fn expiry(&self, batch: &Batch, now: Instant) -> Error {
        let message = format!(
            "delivery.timeout.ms ({} ms) passed before the record was acknowledged",
            self.limits.delivery_timeout.as_millis()
        );
        let waited = now.saturating_duration_since(batch.opened);
        let error = Error::new(ErrorKind::Timeout, message).with_attempts(batch.attempts, waited);
        match batch.last_error.clone().or_else(|| self.identities.refused()) {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }

    /// The queue of `broker`'s writer, which is started if there is none yet.
    ///
    /// # Errors
    /// `Closed` once threads are told to end, `Io` when the system has no thread to give.
    pub(super) fn queue_of(self: &Arc<Self>, broker: i32) -> Result<Arc<ReadyQueue>> {
        let mut writers = self.writers.lock();
        if self.stopped.is_set() {
            return Err(Self::closed_error());
        }
        if let Some(queue) = writers.queues.get(&broker) {
            return Ok(Arc::clone(queue));
        }
        let queue = Arc::new(ReadyQueue::new(broker));
        let (core, theirs) = (Arc::clone(self), Arc::clone(&queue));
        let name = thread_name("ottla-w-", broker);
        let thread = threads::spawn(&name, move || writer::run(&core, &theirs))?;
        writers.threads.push(thread);
        writers.queues.insert(broker, Arc::clone(&queue));
        Ok(queue)
    }

    /// Wakes the writers and the router to look again.
    pub(super) fn ring_all(&self) {
        let writers = self.writers.lock();
        for queue in writers.queues.values() {
            queue.ring();
        }
        self.router.ring();
    }

    /// A thread that [`close`](super::Producer::close) joins.
    pub(super) fn adopt(&self, thread: Thread) {
        self.writers.lock().threads.push(thread);
    }

    /// Tells all threads to end; the caller joins them.
    pub(super) fn stop_threads(&self) -> Vec<Thread> {
        let mut writers = self.writers.lock();
        // Under the lock that starts writers: none can start unseen.
        self.stopped.set();
        let threads = std::mem::take(&mut writers.threads);
        drop(writers);
        self.ring_all();
        self.memory.wake_all();
        threads
    }

    /// Largest size of a batch with a single record.
    pub(super) fn record_max(&self) -> usize {
        self.config.max_request_size.min(self.config.buffer_memory)
    }

    /// Asks for a producer id on a thread of its own, unless somebody does.
    pub(super) fn request_identity(self: &Arc<Self>) {
        if !self.identities.claim_request() {
            return;
        }
        let core = Arc::clone(self);
        match threads::spawn("ottla-id", move || super::init::run(&core)) {
            Ok(thread) => self.adopt(thread),
            Err(error) => {
                log::error!("{error}");
                self.identities.unanswered();
            }
        }
    }

    /// What batches are numbered under; asks for it if need be.
    pub(super) fn identity(self: &Arc<Self>) -> IdentityState {
        let identity = self.identities.current();
        if identity == IdentityState::Awaited {
            self.request_identity();
        }
        identity
    }

    /// The producer as a whole was refused: everything fails with `error`, now and later.
    pub(super) fn refuse(&self, error: &Error) {
        self.identities.refuse(error.clone());
        self.retire_all(error);
    }

    /// A number for a new connection, from 1.
    pub(super) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Remembers the requests under way of a new connection, for `close`.
    pub(super) fn watch(&self, flight: &Arc<Flight>) {
        let mut writers = self.writers.lock();
        writers.flights.retain(|flight| flight.strong_count() > 0);
        writers.flights.push(Arc::downgrade(flight));
    }

    /// The requests under way of all connections.
    pub(super) fn flights(&self) -> Vec<Arc<Flight>> {
        self.writers.lock().flights.iter().filter_map(Weak::upgrade).collect()
    }

    /// Abandons what is on the wire, without waiting for anybody.
    pub(super) fn abandon_flights(&self, error: &Error) {
        let flights = std::mem::take(&mut self.writers.lock().flights);
        let (mut partitions, mut batches) = (Vec::new(), Vec::new());
        for sent in flights.iter().filter_map(Weak::upgrade).flat_map(|flight| flight.close()) {
            for (partition, mut batch) in sent.batches {
                batch.maybe_stored = true;
                partition.failed(&batch, false);
                partitions.push(partition);
                batches.push(batch);
            }
        }
        self.abandon_all(batches, error);
    }

    /// From now on [`abandon`](Self::abandon) keeps what it is given.
    pub(super) fn collect_undelivered(&self) {
        self.undelivered.lock().get_or_insert_default();
    }

    /// What was abandoned since.
    pub(super) fn take_undelivered(&self) -> Vec<Undelivered> {
        self.undelivered.lock().take().unwrap_or_default()
    }

    /// Fails a batch because the producer closes; its records go to the retry store, or else to whoever closes it.
    pub(super) fn abandon(&self, batch: Batch, error: &Error) {
        self.abandon_all(vec![batch], error);
    }

    /// As [`abandon`](Self::abandon). The partitions of the batches are alive.
    fn abandon_all(&self, batches: Vec<Batch>, error: &Error) {
        let mut abandoned = Vec::with_capacity(batches.len());
        for batch in batches {
            let topic = batch.outcome.topic().unwrap_or_default();
            let error = error.clone().with_partition(&topic, batch.outcome.partition());
            let error = error.maybe_persisted(batch.maybe_stored);
            abandoned.push((batch, error));
        }
        self.keep(&mut abandoned);
        for (mut batch, error) in abandoned {
            if error.kind() != ErrorKind::StoredForRetry && !batch.is_over() {
                self.collect(&mut batch, &error);
            }
            self.settle(batch, BatchResult::Failed(error));
        }
    }

    /// Keeps the records of a batch for whoever closes the producer.
    fn collect(&self, batch: &mut Batch, error: &Error) {
        let Some(kept) = &mut *self.undelivered.lock() else { return };
        let topic = batch.outcome.topic().unwrap_or_default();
        match batch.undelivered(&topic, batch.outcome.partition(), error) {
            Ok(records) => kept.extend(records),
            Err(unreadable) => log::error!("a batch of ours cannot be read back: {unreadable}"),
        }
    }

    /// Refuses all records from now on and abandons what is not on the wire.
    pub(super) fn retire_all(&self, error: &Error) {
        let partitions = self.topics.close();
        let batches = partitions.iter().flat_map(|partition| partition.retire(error.clone()));
        self.abandon_all(batches.collect(), error);
    }
}

/// `prefix` and a broker's id, cut to what Linux shows of a thread's name.
pub(super) fn thread_name(prefix: &str, broker: i32) -> String {
    const NAME_BYTES_MAX: usize = 15;
    let mut name = format!("{prefix}{broker}");
    name.truncate(NAME_BYTES_MAX);
    name
}
