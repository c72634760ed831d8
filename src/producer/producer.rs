//! [`Producer`]: the calls, all on the caller's thread.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use parking_lot::Mutex;

use super::accumulator::Appended;
use super::batch::HEAD_BYTES;
use super::callbacks::{Callback, Callbacks};
use super::core::Core;
use super::observer::{Observer, Watcher};
use super::partitioner::{PartitionRequest, Partitioner, RoundRobin, partition_of_key};
use super::record::{Plain, Record, Rejected, Undelivered};
use super::router;
use super::serialize::written;
use super::store::Log;
use super::ticket::{Stored, Ticket};
use super::topics::Topic;
use crate::Client;
use crate::clock::{self, Deadline};
use crate::cluster::PartitionInfo;
use crate::config::{Acks, PartitionerClass, ProducerConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::records::{BatchBuilder, Compression};
use crate::threads::{self, Thread};

/// How long dropping a producer that was not closed waits for its records to be delivered.
const DROP_WAIT: Duration = Duration::from_secs(3);
/// How long `close` waits beyond its time-out for threads to end.
const CLOSE_GRACE: Duration = Duration::from_millis(500);
/// Most requests in flight with idempotence: as many batches as a broker remembers.
const IN_FLIGHT_MAX: u32 = 5;
/// How often `send` looks a topic up again that changed under its hands.
const TOPIC_CHANGES_MAX: usize = 8;

/// Sends records to Kafka: idempotent, ordered per partition, batched, with bounded memory.
///
/// Shared by reference between threads (`Sync`); put it in an [`Arc`] to own it in several. Every
/// record that was taken has exactly one outcome, told by its [`Ticket`] and callback. Dropping it
/// without [`close`](Self::close) delivers what it can within three seconds and logs what was lost.
///
/// ```no_run
/// use std::time::Duration;
/// use ottla::{Client, producer::Record};
///
/// # fn main() -> ottla::Result<()> {
/// let client = Client::builder("localhost:9092").build()?;
/// let producer = client.producer().linger(Duration::from_millis(20)).build()?;
/// let ticket = producer.send(Record::to("orders").key("42").value("{}"))?;
/// let stored = ticket.wait()?;
/// println!("at offset {:?} of partition {}", stored.offset, stored.partition);
/// let unsent = producer.close(Duration::from_secs(30))?;
/// assert!(unsent.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Producer {
    pub(super) core: Arc<Core>,
    /// The router and the thread of callbacks, until they are joined.
    threads: Mutex<Option<(Thread, Thread)>>,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("buffered_bytes", &self.core.memory.used())
            .finish_non_exhaustive()
    }
}

/// Settings of a producer, one setter per property.
#[derive(Clone)]
pub struct ProducerBuilder {
    client: Client,
    config: ProducerConfig,
    partitioner: Option<Arc<dyn Partitioner>>,
    watcher: Watcher,
}

impl fmt::Debug for ProducerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerBuilder")
            .field("config", &self.config)
            .field("partitioner", &self.partitioner.is_some())
            .field("watcher", &self.watcher)
            .finish_non_exhaustive()
    }
}

producer_properties! { config_setters ProducerBuilder }

impl ProducerBuilder {
    pub(crate) fn new(client: Client, config: ProducerConfig) -> Self {
        Self { client, config, partitioner: None, watcher: Watcher::default() }
    }

    /// Picks the partitions of records that have none set; comes before `partitioner.class`. Defaults to Java's built-in
    /// rule.
    #[must_use]
    pub fn partitioner(mut self, partitioner: impl Partitioner + 'static) -> Self {
        self.partitioner = Some(Arc::new(partitioner));
        self
    }

    /// Tells `observer` what the producer does: see [`Observer`] for which thread calls it, and how long it may take.
    /// A later call replaces it.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.watcher = Watcher::new(observer);
        self
    }

    /// Starts the producer; talks to no broker yet.
    ///
    /// # Errors
    /// `Config` for a value out of range and for settings that exclude each other (idempotence needs
    /// `acks=all` and at most five requests in flight; `delivery.timeout.ms` must not be below
    /// `linger.ms` + `request.timeout.ms`), and when another producer has the folder of `retry.store.path` open; `Io` when a
    /// thread cannot be started, or that folder cannot be used.
    pub fn build(self) -> Result<Producer> {
        let Self { client, config, partitioner, watcher } = self;
        let partitioner = partitioner.or_else(|| match config.partitioner_class {
            PartitionerClass::BuiltIn => None,
            PartitionerClass::RoundRobin => Some(Arc::new(RoundRobin::new()) as Arc<_>),
        });
        let cluster = Arc::clone(client.cluster());
        let client_config = Arc::clone(cluster.config());
        check(&config, client_config.request_timeout)?;
        let store = match config.retry_store_path.as_str() {
            "" => None,
            path => Some(Log::open(Path::new(path), config.retry_store_max as u64)?),
        };
        let (callbacks, settled) = Callbacks::new();
        let core = Arc::new(Core::new(
            config,
            client_config,
            cluster,
            callbacks,
            partitioner,
            watcher,
            store,
        ));
        let of_router = Arc::clone(&core);
        let router = threads::spawn("ottla-router", move || router::run(&of_router))?;
        let of_callbacks = Arc::clone(&core);
        let started = threads::spawn("ottla-cb", move || {
            let core = of_callbacks;
            core.callbacks.run(&settled, |outcome, held| {
                core.memory.release(held);
                core.unfinished.finish(outcome);
            });
        });
        match started.and_then(|callbacks| core.start_store().map(|()| callbacks)) {
            Ok(callbacks) => Ok(Producer { core, threads: Mutex::new(Some((router, callbacks))) }),
            Err(error) => {
                core.callbacks.end();
                core.stop_threads();
                router.join();
                Err(error)
            }
        }
    }
}

fn check(config: &ProducerConfig, request_timeout: Duration) -> Result<()> {
    config.validate()?;
    let illegal = |why: String| Err(Error::new(ErrorKind::Config, why));
    if config.enable_idempotence && config.acks != Acks::All {
        return illegal("enable.idempotence=true needs acks=all".to_owned());
    }
    if config.enable_idempotence && config.max_in_flight > IN_FLIGHT_MAX {
        return illegal(format!(
            "enable.idempotence=true needs max.in.flight.requests.per.connection of at most \
             {IN_FLIGHT_MAX}"
        ));
    }
    if config.delivery_timeout < config.linger + request_timeout {
        return illegal(format!(
            "delivery.timeout.ms ({}) must be at least linger.ms ({}) + request.timeout.ms ({})",
            config.delivery_timeout.as_millis(),
            config.linger.as_millis(),
            request_timeout.as_millis()
        ));
    }
    if config.buffer_memory < config.batch_size {
        return illegal("buffer.memory must hold a batch of batch.size".to_owned());
    }
    Ok(())
}

impl Client {
    /// A producer with the settings of this client's properties, to be changed and built.
    pub fn producer(&self) -> ProducerBuilder {
        ProducerBuilder::new(self.clone(), self.producer_config().clone())
    }
}

/// Whether a call may wait.
enum Patience {
    Never,
    /// Until `max.block.ms` from its first wait on.
    Block(Option<Deadline>),
}

impl Patience {
    fn deadline(&mut self, max_block: Duration) -> Option<Deadline> {
        match self {
            Self::Never => None,
            Self::Block(deadline) => {
                Some(*deadline.get_or_insert_with(|| Deadline::within(max_block)))
            }
        }
    }
}

impl Producer {
    /// Takes a record; the ticket tells what became of it.
    ///
    /// Encodes it into the open batch of its partition. Blocks only while the topic is looked up
    /// for the first time and while `buffer.memory` is used up: at most `max.block.ms` together.
    ///
    /// # Errors
    /// `BufferFull` when no memory became free in time, `UnknownTopic` when the topic or the
    /// partition could not be found, `RecordTooLarge` for a record beyond `max.request.size`,
    /// `Closed` after a close. The record was not taken then, and the caller still has it.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a record is built for the call")]
    pub fn send(&self, record: Record<'_>) -> Result<Ticket> {
        self.accept(&record, None, &mut Patience::Block(None))
    }

    /// As [`send`](Self::send); `callback` is called once, on the producer's callback thread.
    ///
    /// Callbacks of a partition run in the order in which its batches were settled. A callback may
    /// send. A panic in it is caught and logged.
    ///
    /// # Errors
    /// As [`send`](Self::send); `callback` is not called then.
    #[expect(clippy::needless_pass_by_value, reason = "a record is built for the call")]
    pub fn send_with(
        &self,
        record: Record<'_>,
        callback: impl FnOnce(Result<Stored>) + Send + 'static,
    ) -> Result<Ticket> {
        self.accept(&record, Some(Box::new(callback)), &mut Patience::Block(None))
    }

    /// As [`send`](Self::send), but never blocks.
    ///
    /// # Errors
    /// [`Rejected`] has the record again. Besides the errors of [`send`](Self::send): of kind
    /// `NoLeader`, which is retriable, while a topic that was not sent to before is looked up in
    /// the background.
    pub fn try_send<'a>(&self, record: Record<'a>) -> Result<Ticket, Rejected<'a>> {
        match self.accept(&record, None, &mut Patience::Never) {
            Ok(ticket) => Ok(ticket),
            Err(error) => Err(Rejected { record, error }),
        }
    }

    #[inline]
    fn accept(
        &self,
        record: &Record<'_>,
        callback: Option<Callback>,
        patience: &mut Patience,
    ) -> Result<Ticket> {
        match (record.key.known(), record.value.known()) {
            (Ok(key), Ok(value)) => self.take(&Plain::of(record, key, value), callback, patience),
            _ => written(record, self.core.record_max(), |key, value| {
                self.take(&Plain::of(record, key, value), callback, patience)
            }),
        }
    }

    #[inline]
    fn take(
        &self,
        record: &Plain<'_>,
        callback: Option<Callback>,
        patience: &mut Patience,
    ) -> Result<Ticket> {
        match &self.core.partitioner {
            Some(partitioner) if record.partition.is_none() => {
                let partition = self.ask(&**partitioner, record, patience)?;
                self.take_placed(&Plain { partition, ..*record }, callback, patience)
            }
            _ => self.take_placed(record, callback, patience),
        }
    }

    /// What a partitioner of the user says.
    fn ask(
        &self,
        partitioner: &dyn Partitioner,
        record: &Plain<'_>,
        patience: &mut Patience,
    ) -> Result<Option<i32>> {
        if self.core.is_closed() {
            return Err(Core::closed_error());
        }
        let topic = match self.core.topics.get(record.topic) {
            Some(topic) => topic,
            None => self.look_up(record.topic, patience)?,
        };
        let count = topic.partitions.len();
        if count == 0 {
            return Ok(None);
        }
        let request = PartitionRequest::new(record, &topic);
        let partition = threads::guard(|| partitioner.partition(&request)).map_err(|panic| {
            let message = format!("the partitioner panicked: {panic}");
            Error::new(ErrorKind::Handler, message).with_topic(record.topic)
        })?;
        match partition {
            Some(partition) if usize::try_from(partition).is_ok_and(|index| index < count) => {
                Ok(Some(partition))
            }
            Some(partition) => {
                let message = format!("the partitioner picked {partition} of {count} partitions");
                Err(Error::new(ErrorKind::InvalidInput, message).with_topic(record.topic))
            }
            None => Ok(None),
        }
    }

    /// The sticky partition of a topic has had its bytes.
    #[cold]
    fn move_on(&self, topic: &Topic, from: usize) {
        let config = &self.core.config;
        let patience = config.partitioner_availability_timeout;
        let late = (!patience.is_zero()).then(|| (clock::now(), patience));
        let load = config.partitioner_adaptive_partitioning_enable.then_some(|index: u32| {
            let partition = topic.partitions.get(index as usize);
            partition.expect("what is available is there").load(late)
        });
        topic.sticky.move_on(from, &topic.available, topic.partitions.len(), load);
    }

    #[inline]
    fn take_placed(
        &self,
        record: &Plain<'_>,
        callback: Option<Callback>,
        patience: &mut Patience,
    ) -> Result<Ticket> {
        let size_max = BatchBuilder::upper_bound(
            record.key.map_or(0, <[u8]>::len),
            record.value.map_or(0, <[u8]>::len),
            record.headers,
        );
        if HEAD_BYTES + size_max > self.core.record_max() {
            return Err(self.too_large(record, size_max));
        }
        if record.timestamp_ms.is_some_and(|timestamp| timestamp < 0) {
            return Err(Error::new(ErrorKind::InvalidInput, "a record's timestamp is negative"));
        }
        let mut callback = callback;
        let mut grant = 0;
        let result = self.place(record, size_max, &mut callback, &mut grant, patience);
        if grant > 0 {
            self.core.memory.release(grant);
        }
        result
    }

    #[inline]
    fn place(
        &self,
        record: &Plain<'_>,
        size_max: usize,
        callback: &mut Option<Callback>,
        grant: &mut usize,
        patience: &mut Patience,
    ) -> Result<Ticket> {
        let core = &self.core;
        let mut changes = 0;
        loop {
            if core.is_closed() {
                return Err(Core::closed_error());
            }
            let Some(topic) = core.topics.read(record.topic) else {
                drop(self.look_up(record.topic, patience)?);
                continue;
            };
            let Some((index, is_sticky)) =
                pick(record, &topic, core.config.partitioner_ignore_keys)
            else {
                let known = topic.partitions.len();
                drop(topic);
                self.find_partition(record, known, patience)?;
                continue;
            };
            let partition =
                topic.partitions.get(index).expect("the index was picked below the count");
            let timestamp_ms = record.timestamp_ms.unwrap_or_else(clock::unix_ms);
            let appended = partition.append(
                record,
                timestamp_ms,
                size_max,
                callback,
                &core.memory,
                &core.unfinished,
                grant,
                clock::now,
            );
            if let Appended::Done { move_on: true, .. } = &appended
                && is_sticky
            {
                self.move_on(&topic, index);
            }
            // From here on there may be waits and newer metadata.
            drop(topic);
            match appended {
                Appended::Done { ticket, event, .. } => {
                    if let Some(event) = event {
                        if event.due.is_some() {
                            core.refresh_topic(record.topic);
                        }
                        Core::notify(&event);
                    }
                    return Ok(ticket);
                }
                Appended::NoMemory(bytes) => self.wait_for_memory(bytes, grant, patience)?,
                Appended::Retired(error) => {
                    changes += 1;
                    core.refresh_topic(record.topic);
                    if core.is_closed()
                        || core.identities.refused().is_some()
                        || changes > TOPIC_CHANGES_MAX
                    {
                        return Err(error);
                    }
                }
            }
        }
    }

    #[cold]
    fn too_large(&self, record: &Plain<'_>, size_max: usize) -> Error {
        let message = format!(
            "a record of up to {size_max} bytes exceeds max.request.size ({}) or buffer.memory ({})",
            self.core.config.max_request_size, self.core.config.buffer_memory
        );
        Error::new(ErrorKind::RecordTooLarge, message).with_topic(record.topic)
    }

    #[cold]
    fn look_up(&self, topic: &str, patience: &mut Patience) -> Result<Arc<Topic>> {
        if let Some(error) = self.core.identities.refused() {
            return Err(error);
        }
        match patience.deadline(self.core.config.max_block) {
            Some(deadline) => self.core.find_topic(topic, deadline),
            None => self.core.known_topic(topic),
        }
    }

    /// A partition that was asked for is not among those known: newer metadata may have it.
    #[cold]
    fn find_partition(
        &self,
        record: &Plain<'_>,
        known: usize,
        patience: &mut Patience,
    ) -> Result<()> {
        let wanted = record.partition.unwrap_or(0);
        let missing = || {
            let message = format!("the topic has {known} partitions");
            Error::new(ErrorKind::UnknownTopic, message).with_partition(record.topic, wanted)
        };
        if wanted < 0 {
            return Err(Error::new(ErrorKind::InvalidInput, "a partition is negative"));
        }
        let Some(deadline) = patience.deadline(self.core.config.max_block) else {
            self.core.cluster.request_refresh();
            return Err(missing());
        };
        if deadline.has_passed(clock::now()) {
            return Err(missing());
        }
        self.core
            .cluster
            .refresh_while(&[record.topic], deadline, &|| !self.core.is_closed())
            .map_err(|error| match error.kind() {
                ErrorKind::Closed => Core::closed_error(),
                _ => missing().with_source(error),
            })?;
        self.core.refresh_topic(record.topic);
        let known = self.core.topics.get(record.topic).map_or(0, |topic| topic.partitions.len());
        if wanted as usize >= known
            && self
                .core
                .stopped
                .wait_until(deadline.at_most(clock::now(), self.core.client.retry_backoff))
        {
            return Err(Core::closed_error());
        }
        Ok(())
    }

    #[cold]
    fn wait_for_memory(
        &self,
        bytes: usize,
        grant: &mut usize,
        patience: &mut Patience,
    ) -> Result<()> {
        let core = &self.core;
        core.memory.release(std::mem::take(grant));
        let full = || {
            let message = format!(
                "no space in the producer's buffer: {} of {} bytes are in use",
                core.memory.used(),
                core.memory.limit()
            );
            Error::new(ErrorKind::BufferFull, message)
        };
        let start = clock::now();
        let waited = |refused| {
            let now = clock::now();
            core.monitor.meters.waited(now.saturating_duration_since(start), refused, now);
        };
        let Some(deadline) = patience.deadline(core.config.max_block) else {
            waited(true);
            return Err(full());
        };
        // Open batches hold memory too: while somebody waits they do not sit out their linger.
        if core.memory.reserve(bytes, deadline, || core.is_closed(), || core.ring_all()) {
            waited(false);
            *grant = bytes;
            return Ok(());
        }
        waited(!core.is_closed());
        Err(if core.is_closed() { Core::closed_error() } else { full() })
    }

    /// Has everything sent that was taken before, and waits until its outcome is known and its
    /// callbacks have run.
    ///
    /// Blocks at most `timeout`.
    ///
    /// # Errors
    /// `Timeout` when that passed first; the records are still on their way then. `InvalidInput`
    /// when called by a callback, which would be waiting for itself. A record that failed is no error
    /// of `flush`: its ticket and callback tell.
    pub fn flush(&self, timeout: Duration) -> Result<()> {
        self.refuse_callbacks("flush")?;
        if self.settle_all(Deadline::within(timeout)) {
            return Ok(());
        }
        let message = format!("flush: records are still on their way after {timeout:?}");
        Err(Error::new(ErrorKind::Timeout, message))
    }

    fn refuse_callbacks(&self, what: &str) -> Result<()> {
        if self.core.callbacks.is_current() {
            let message = format!("{what} would wait for the callback that calls it");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(())
    }

    /// Waits for all batches there are now; `false` at the deadline.
    fn settle_all(&self, deadline: Deadline) -> bool {
        let mut waiting = self.core.unfinished.all();
        for partition in self.core.topics.all_partitions() {
            partition.urge();
        }
        while let Some(outcome) = waiting.pop() {
            if !outcome.wait_finished(deadline) {
                return false;
            }
            waiting.extend(outcome.children());
        }
        true
    }

    /// Takes no more records, delivers those it has, ends its threads.
    ///
    /// Blocks at most `timeout` and half a second. Gives back what was not acknowledged by then and is not in the retry store,
    /// including records that are on the wire and may be stored
    /// ([`possibly_persisted`](Error::possibly_persisted)); their tickets and callbacks tell the
    /// same. A second call returns at once with nothing.
    ///
    /// # Errors
    /// `InvalidInput` when called by a callback.
    pub fn close(&self, timeout: Duration) -> Result<Vec<Undelivered>> {
        self.refuse_callbacks("close")?;
        Ok(self.shut_down(timeout))
    }

    fn shut_down(&self, timeout: Duration) -> Vec<Undelivered> {
        let core = &self.core;
        let deadline = Deadline::within(timeout);
        if !core.close_to_records() {
            return Vec::new();
        }
        core.memory.wake_all();
        core.cluster.wake_all();
        core.ring_all();
        self.settle_all(deadline);
        let message = format!(
            "the producer was closed before the record was acknowledged, after {timeout:?}"
        );
        let error = Error::new(ErrorKind::Closed, message);
        core.collect_undelivered();
        core.retire_all(&error);
        core.abandon_flights(&error);
        let ends = Deadline::after(deadline.instant().max(clock::now()), CLOSE_GRACE);
        for thread in core.stop_threads() {
            thread.join_by(ends);
        }
        if let Some((router, callbacks)) = self.threads.lock().take() {
            router.join_by(ends);
            core.callbacks.end();
            if !callbacks.is_current() {
                callbacks.join_by(ends);
            }
        }
        if let Some(store) = &core.store {
            store.close();
        }
        core.take_undelivered()
    }

    /// Takes several records, in their order; gives for each its ticket, or the record again with the reason.
    ///
    /// Blocks at most `max.block.ms`, for all of them together. A record that is not taken does not keep the
    /// others from being taken; one that finds no memory does, so that none of them passes another.
    pub fn send_all<'a>(
        &self,
        records: impl IntoIterator<Item = Record<'a>>,
    ) -> Vec<Result<Ticket, Rejected<'a>>> {
        let mut patience = Patience::Block(None);
        let mut full: Option<Error> = None;
        let take = |record: Record<'a>| {
            let taken = match &full {
                Some(error) => Err(error.clone()),
                None => self.accept(&record, None, &mut patience),
            };
            taken.map_err(|error| {
                if matches!(error.kind(), ErrorKind::BufferFull | ErrorKind::Closed) {
                    full.get_or_insert_with(|| error.clone());
                }
                Rejected { record, error }
            })
        };
        records.into_iter().map(take).collect()
    }

    /// A channel of the records that were taken and not delivered, each with its bytes and the reason; tickets and
    /// callbacks tell the same. For a program that repairs or stores them in one place.
    ///
    /// Has room for `capacity` records. The producer never waits for its reader: what finds no room is counted,
    /// [`failures_untold`](Self::failures_untold). Failures before this call are not told. The channel ends when
    /// the producer is dropped; what a [`close`](Self::close) gives back comes here too.
    ///
    /// # Errors
    /// `InvalidInput` when it was asked for before, or `capacity` is 0.
    pub fn failures(&self, capacity: usize) -> Result<Receiver<Undelivered>> {
        self.core.failures.open(capacity)
    }

    /// Failed records that found no room in the channel of [`failures`](Self::failures).
    pub fn failures_untold(&self) -> u64 {
        self.core.failures.untold()
    }

    /// The partitions of a topic with their leaders, as the cluster's metadata have them.
    ///
    /// Blocks at most `max.block.ms` if the topic is not known yet.
    ///
    /// # Errors
    /// `UnknownTopic`, or what kept the look-up from succeeding.
    pub fn partitions(&self, topic: &str) -> Result<Vec<PartitionInfo>> {
        let deadline = Deadline::within(self.core.config.max_block);
        let topic = self.core.look_up(topic, deadline)?;
        Ok(topic.partitions.clone())
    }

    /// Bytes of `buffer.memory` in use.
    pub fn buffered_bytes(&self) -> usize {
        self.core.memory.used()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let lost = self.shut_down(DROP_WAIT);
        if !lost.is_empty() {
            log::error!(
                "a producer was dropped with {} records that were not delivered",
                lost.len()
            );
        }
    }
}

/// The partition of a record, and whether it is the topic's sticky one; `None` if the one asked for
/// is not known, or none is.
#[inline]
fn pick(record: &Plain<'_>, topic: &Topic, ignore_keys: bool) -> Option<(usize, bool)> {
    let count = topic.partitions.len();
    if let Some(partition) = record.partition {
        let index = usize::try_from(partition).ok()?;
        return (index < count).then_some((index, false));
    }
    if count == 0 {
        return None;
    }
    match record.key {
        Some(key) if !ignore_keys => Some((partition_of_key(key, count), false)),
        _ => Some((topic.sticky.current(count), true)),
    }
}
