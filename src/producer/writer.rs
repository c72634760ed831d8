//! The thread `ottla-w-N`: drains what is ready for broker N and writes Produce requests.
//!
//! One round: take over the partitions that were offered, look at each, and if there is something
//! ready build ONE request with one batch of each ready partition, up to `max.request.size`;
//! compress, stamp and write it outside of all locks. At most
//! `max.in.flight.requests.per.connection` requests wait for answers, which the reader thread of
//! the connection takes; while that many are under way, batches grow.
//!
//! A wake-up costs as much as encoding a thousand records, so a round that finds little ready while
//! requests are under way waits for more: until [`WORTHWHILE_BYTES`] are ready, the linger of one
//! of the batches is over, somebody waits for one of them, or nothing is under way any more.
//!
//! The writer owns the sending half of the connection and opens a new one when it is broken. When
//! it cannot, its partitions go to the router, which asks for newer metadata.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::accumulator::Partition;
use super::backlog::{IdentityState, Look, Taker};
use super::batch::Batch;
use super::core::{Core, REQUEST_OVERHEAD, thread_name};
use super::flight::{Flight, Sent};
use super::metrics::BrokerMeter;
use super::queue::ReadyQueue;
use super::reader;
use super::ticket::BatchResult;
use crate::clock::{self, Deadline};
use crate::config::Acks;
use crate::error::{Error, ErrorKind, Result};
use crate::net::{Connection, RequestSender};
use crate::protocol::messages::{PartitionProduceData, ProduceRequest, TopicProduceData};
use crate::protocol::records::{Compression, Compressor};
use crate::protocol::{ApiKey, Bytes, Uuid, VersionRange};
use crate::threads::{self, Thread};

/// So many ready bytes are sent although requests are under way and batches could still grow.
const WORTHWHILE_BYTES: usize = 256 * 1024;
/// Longest and shortest time between two looks for batches that ran out of time.
const EXPIRY_TICK_MAX: Duration = Duration::from_millis(500);
const EXPIRY_TICK_MIN: Duration = Duration::from_millis(10);
/// Produce versions that name topics, with record batches of format 2; and those with topic ids.
const NAMED: VersionRange = VersionRange { min: 3, max: 12 };
const WITH_IDS: VersionRange = VersionRange { min: 13, max: 13 };
/// First version that takes zstd (KIP-110).
const ZSTD_VERSION: i16 = 7;

/// How often batches that wait are checked against `delivery.timeout.ms`.
pub(super) fn expiry_tick(delivery_timeout: Duration) -> Duration {
    (delivery_timeout / 8).clamp(EXPIRY_TICK_MIN, EXPIRY_TICK_MAX)
}

/// The body of the thread.
pub(super) fn run(core: &Arc<Core>, queue: &Arc<ReadyQueue>) {
    let mut writer = Writer {
        core,
        queue,
        list: Vec::new(),
        link: None,
        request: 0,
        compressor: Compressor::new(),
        expiry_tick: expiry_tick(core.limits.delivery_timeout),
        next_expiry: clock::now(),
    };
    while !core.stopped.is_set() {
        writer.round();
    }
    if let Some(link) = writer.link.take() {
        writer.disconnect(link, &Core::closed_error());
    }
}

struct Writer<'a> {
    core: &'a Arc<Core>,
    queue: &'a Arc<ReadyQueue>,
    /// Partitions that have something for this broker.
    list: Vec<Arc<Partition>>,
    link: Option<Link>,
    /// Requests built so far.
    request: u64,
    compressor: Compressor,
    expiry_tick: Duration,
    next_expiry: Instant,
}

/// The connection, with the thread that reads its answers.
struct Link {
    number: u64,
    sender: RequestSender,
    flight: Arc<Flight>,
    reader: Thread,
    broker: String,
    meter: Arc<BrokerMeter>,
    named: Result<i16>,
    with_ids: Option<i16>,
}

/// What a look at all partitions found.
#[derive(Default)]
struct Found {
    ready: Vec<Arc<Partition>>,
    ready_bytes: usize,
    /// When the first of the rest is due.
    next: Option<Instant>,
    /// Until when all that is ready may wait for company; `None` if something must go now.
    patience: Option<Instant>,
}

impl<'a> Writer<'a> {
    fn round(&mut self) {
        self.queue.begin_round();
        self.list.extend(self.queue.arrivals());
        if self.queue.take_overflow() {
            let all = self.core.topics.all_partitions();
            self.list.extend(all.into_iter().filter(|one| one.is_listed_on(self.queue)));
        }
        let now = clock::now();
        self.check_link(now);
        self.expire_on_wire(now);
        if self.list.is_empty() {
            let until = self.under_way().then_some(self.next_expiry);
            self.queue.sleep(until, 1);
            return;
        }
        let identity = self.core.identity();
        let found = self.look(identity, now);
        let tick = now + self.expiry_tick;
        let next = found.next.map_or(tick, |next| next.min(tick));
        if found.ready.is_empty() {
            self.queue.sleep(Some(next), 1);
            return;
        }
        if !self.connect() {
            return;
        }
        let link = self.link.as_ref().expect("connect succeeded");
        if let Some(until) = link.flight.throttled_until(now) {
            self.queue.sleep(Some(until.min(tick)), usize::MAX);
            return;
        }
        if let Some((until, wanted)) = self.reason_to_wait(&found) {
            let until = until.map_or(next, |until| until.min(next));
            self.queue.sleep(Some(until), wanted);
            return;
        }
        self.send(&found.ready, identity, now);
    }

    /// Gives up a connection that broke, or whose oldest answer is overdue.
    fn check_link(&mut self, now: Instant) {
        let Some(link) = &self.link else { return };
        let why = if link.flight.is_closed() {
            Error::new(ErrorKind::Disconnected, "the connection ended")
        } else if link.flight.overdue().is_some_and(|overdue| overdue <= now) {
            let timeout = self.core.client.request_timeout;
            let message = format!("the broker did not answer within {timeout:?}");
            Error::new(ErrorKind::Timeout, message)
        } else {
            return;
        };
        let link = self.link.take().expect("it was just looked at");
        self.disconnect(link, &why);
    }

    fn under_way(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.flight.count() > 0)
    }

    /// Looks at each partition on the list; drops those that have nothing.
    fn look(&mut self, identity: IdentityState, now: Instant) -> Found {
        let core = self.core;
        let taker = self.taker(identity);
        let mut found = Found::default();
        let mut impatient = false;
        let mut expired = Vec::new();
        let mut look = |partition: &Arc<Partition>| {
            let mut look = partition.look(&taker, now, &mut expired);
            if let Look::NeedsEpoch(old) = look {
                match core.identities.newer_than(old) {
                    Some(new) => {
                        if partition.restart(old, new) {
                            core.monitor.epoch_bumped(partition, old, new);
                        }
                        look = partition.look(&taker, now, &mut expired);
                    }
                    None => core.request_identity(),
                }
            }
            match look {
                Look::Idle | Look::Moved => return false,
                Look::Ready { bytes, patient_until } => {
                    found.ready.push(Arc::clone(partition));
                    found.ready_bytes += bytes;
                    match patient_until {
                        None => impatient = true,
                        Some(until) => {
                            found.patience = Some(found.patience.map_or(until, |p| p.min(until)));
                        }
                    }
                }
                Look::Later(due) => {
                    found.next = Some(found.next.map_or(due, |next| next.min(due)));
                }
                Look::Blocked | Look::NeedsEpoch(_) => {}
            }
            true
        };
        self.list.retain(|partition| look(partition));
        if impatient {
            found.patience = None;
        }
        core.expire_all(expired, now);
        found
    }

    fn taker(&self, identity: IdentityState) -> Taker<'a> {
        Taker {
            queue: self.queue,
            connection: self.link.as_ref().map_or(0, |link| link.number),
            request: self.request + 1,
            identity,
            hurry: self.core.is_hurried(),
        }
    }

    /// Whether to let answers come first: until when, and for how many more bytes.
    fn reason_to_wait(&self, found: &Found) -> Option<(Option<Instant>, usize)> {
        let flight = &self.link.as_ref()?.flight;
        let slots = self.core.config.max_in_flight as usize;
        let wait = |under_way: usize| {
            if under_way >= slots {
                return Some((None, usize::MAX));
            }
            let patience = found.patience?;
            (under_way > 0 && found.ready_bytes < WORTHWHILE_BYTES)
                .then(|| (Some(patience), WORTHWHILE_BYTES - found.ready_bytes))
        };
        wait(flight.count())?;
        // From here on an answer rings; one that came in between is seen by the second look.
        flight.hold_back();
        let reason = wait(flight.count());
        if reason.is_none() {
            flight.release_held();
        }
        reason
    }

    /// Fails what ran out of time while it is on the wire. Its place in the sequence stays open
    /// until the answer comes.
    fn expire_on_wire(&mut self, now: Instant) {
        if now < self.next_expiry {
            return;
        }
        self.next_expiry = now + self.expiry_tick;
        let Some(link) = &self.link else { return };
        let core = self.core;
        let mut expired = Vec::new();
        link.flight.for_each(|_, batch| {
            if batch.opened + core.limits.delivery_timeout <= now && !batch.is_over() {
                expired.push(batch.detach());
            }
        });
        let failed = expired.into_iter().map(|batch| {
            let error = core.expiry(&batch, now).with_broker(&link.broker);
            (batch, error)
        });
        core.fail_all(failed.collect());
    }

    /// Makes sure that there is a connection; hands all partitions to the router if there cannot
    /// be one now.
    fn connect(&mut self) -> bool {
        if self.link.is_some() {
            return true;
        }
        let deadline = Deadline::within(self.core.client.request_timeout);
        let opened = self
            .core
            .cluster
            .open_dedicated(self.queue.broker, deadline)
            .and_then(|connection| self.link_up(connection));
        match opened {
            Ok(link) => {
                self.link = Some(link);
                true
            }
            Err(error) => {
                self.core.monitor.unreachable(self.queue.broker, &error);
                let now = clock::now();
                for partition in self.list.drain(..) {
                    partition.unreachable(now, &error, |failures| self.core.backoff(failures));
                    partition.route(&self.core.router);
                }
                self.core.cluster.request_refresh();
                false
            }
        }
    }

    fn link_up(&self, connection: Connection) -> Result<Link> {
        let number = self.core.next_connection();
        let named = connection.version_for(ApiKey::PRODUCE, NAMED);
        let with_ids = connection.version_for(ApiKey::PRODUCE, WITH_IDS).ok();
        let broker = connection.endpoint().to_string();
        let (sender, receiver) = connection.split();
        let flight = Arc::new(Flight::new());
        self.core.watch(&flight);
        let (core, queue, theirs) =
            (Arc::clone(self.core), Arc::clone(self.queue), Arc::clone(&flight));
        let name = thread_name("ottla-r-", self.queue.broker);
        let label = broker.clone();
        let reader =
            threads::spawn(&name, move || reader::run(&core, &queue, &theirs, receiver, &label))?;
        let id = self.queue.broker;
        let meter = self.core.monitor.meters.broker(id, clock::now());
        self.core.monitor.connected(&meter, &flight, id, &broker);
        Ok(Link { number, sender, flight, reader, broker, meter, named, with_ids })
    }

    /// Ends a connection: what is under way comes back, the reader ends.
    fn disconnect(&mut self, link: Link, why: &Error) {
        let tells = link.flight.is_first_to_tell();
        link.sender.shutdown();
        let why = why.clone().with_broker(&link.broker);
        let under_way = link.flight.close();
        let lost = under_way.len();
        reader::return_all(self.core, under_way, &why);
        link.reader.join();
        if tells {
            self.core.monitor.disconnected(&link.meter, self.queue.broker, lost, &why);
        }
    }

    /// Builds one request out of what is ready and writes it.
    fn send(&mut self, ready: &[Arc<Partition>], identity: IdentityState, now: Instant) {
        let core = self.core;
        let taker = self.taker(identity);
        let mut room = core.config.max_request_size.saturating_sub(REQUEST_OVERHEAD);
        let mut batches = Vec::with_capacity(ready.len());
        let mut payloads = Vec::with_capacity(ready.len());
        // Each round begins with another partition, so that none is left out for ever when the
        // request is full before its turn.
        let first = self.request as usize % ready.len();
        let (late, early) = ready.split_at(first);
        for partition in early.iter().chain(late) {
            // The first one goes whatever its size: a record of its own may fill the request.
            let room_for_it = if batches.is_empty() { usize::MAX } else { room };
            let Some((mut batch, stamp)) = partition.take(&taker, now, room_for_it) else {
                continue;
            };
            match batch.encode(core.codec, stamp, &mut self.compressor) {
                Ok(bytes) => {
                    room = room.saturating_sub(bytes.len() + ENTRY_OVERHEAD);
                    payloads.push(bytes);
                    batches.push((Arc::clone(partition), batch));
                }
                Err(error) => {
                    partition.failed(&batch, true);
                    core.fail(batch, error);
                }
            }
        }
        self.request += 1;
        if batches.is_empty() {
            return;
        }
        self.write(batches, payloads);
    }

    fn write(&mut self, batches: Vec<(Arc<Partition>, Batch)>, payloads: Vec<Bytes>) {
        let core = self.core;
        let link = self.link.as_mut().expect("send is called with a connection");
        let all_have_ids = batches.iter().all(|(partition, _)| partition.topic_id != Uuid::ZERO);
        let version = match (link.with_ids, &link.named) {
            (Some(version), _) if all_have_ids => version,
            (_, Ok(version)) => *version,
            (_, Err(error)) => {
                let error = error.clone();
                return fail_all(core, batches, &error);
            }
        };
        if core.codec.compression == Compression::Zstd && version < ZSTD_VERSION {
            let message = "the broker is too old for zstd: Produce version 7 is needed";
            let error = Error::new(ErrorKind::UnsupportedVersion, message)
                .with_api(ApiKey::PRODUCE, version)
                .with_broker(&link.broker);
            return fail_all(core, batches, &error);
        }
        let acks = core.config.acks;
        let now = clock::now();
        core.monitor.sending(&link.meter, &link.broker, &batches, &payloads, now);
        let request = request(&batches, payloads, core);
        let deadline = Deadline::after(now, core.client.request_timeout);
        let expects_answer = acks != Acks::None;
        if expects_answer {
            let sent = Sent { version, batches, written: now, overdue: deadline.instant() };
            if let Err(sent) = link.flight.push(sent) {
                let why = Error::new(ErrorKind::Disconnected, "the connection ended");
                reader::return_unsent(core, sent, &why);
                return;
            }
            if let Err(error) = link.sender.send(&request, version, deadline) {
                let link = self.link.take().expect("it was just used");
                self.disconnect(link, &error);
            }
            return;
        }
        match link.sender.send_unanswered(&request, version, deadline) {
            Ok(()) => {
                drop(request);
                for (partition, batch) in batches {
                    partition.acked(batch.number, None);
                    let records = batch.records;
                    core.monitor.count_acknowledged(&partition, records, now);
                    let stored = BatchResult::Stored { base_offset: None, append_time_ms: None };
                    core.settle(batch, stored);
                    core.monitor.acknowledged(&partition, records, None, &link.broker);
                }
            }
            Err(error) => {
                let link = self.link.take().expect("it was just used");
                let sent = Sent { version, batches, written: now, overdue: deadline.instant() };
                reader::return_all(core, vec![sent], &error);
                self.disconnect(link, &error);
            }
        }
    }
}

/// What a partition's entry takes in a request besides its batch, at most.
const ENTRY_OVERHEAD: usize = 16;

fn fail_all(core: &Core, batches: Vec<(Arc<Partition>, Batch)>, error: &Error) {
    for (partition, batch) in batches {
        partition.failed(&batch, true);
        core.fail(batch, error.clone());
    }
}

/// One entry per topic, one batch per partition.
fn request(
    batches: &[(Arc<Partition>, Batch)],
    payloads: Vec<Bytes>,
    core: &Core,
) -> ProduceRequest {
    let mut topic_data: Vec<TopicProduceData> = Vec::new();
    for ((partition, _), records) in batches.iter().zip(payloads) {
        let data = PartitionProduceData {
            index: partition.index,
            records: Some(records),
            ..PartitionProduceData::default()
        };
        let known = topic_data
            .iter_mut()
            .find(|topic| topic.topic_id == partition.topic_id && topic.name == *partition.topic);
        match known {
            Some(topic) => topic.partition_data.push(data),
            None => topic_data.push(TopicProduceData {
                name: partition.topic.to_string(),
                topic_id: partition.topic_id,
                partition_data: vec![data],
                ..TopicProduceData::default()
            }),
        }
    }
    ProduceRequest {
        transactional_id: None,
        acks: match core.config.acks {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        },
        timeout_ms: core.client.request_timeout.as_millis().min(i32::MAX as u128) as i32,
        topic_data,
        ..ProduceRequest::default()
    }
}
