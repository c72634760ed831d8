//! [`Crew`]: what every form of a node has: shared state, counters, the organiser's thread and the
//! lease thread; and how they end.
//!
//! ```text
//!   stop workers ─▶ (they settle, sign off) ─▶ lease thread ─▶ organiser: last commit, resigns
//! ```
//!
//! The order matters: leases are renewed until the last handler is done, and the organiser commits
//! what the last handler finished. Each step has what is left of one deadline.

use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::threads::{Stop, Thread, spawn};
use crate::work::events::Events;
use crate::work::lease::{Rhythm, keep};
use crate::work::organiser::Shell;
use crate::work::session::{Session, Workshop};
use crate::work::snapshot::SnapshotLimits;
use crate::work::sources::Topics;
use crate::work::stats::{Counters, NodeStats};
use crate::work::unit::{TopicPartition, WorkerId};

/// How long a drop waits for handlers.
const DROP_WAIT: Duration = Duration::from_secs(5);
/// Time that the organiser and the lease thread have to end, beyond what the workers left.
const GRACE: Duration = Duration::from_secs(2);
/// First and longest pause between two looks at how far a drain is.
const DRAIN_LOOK_FIRST: Duration = Duration::from_millis(20);
const DRAIN_LOOK_MAX: Duration = Duration::from_millis(500);

/// The threads and state behind a node.
pub(crate) struct Crew {
    pub(crate) shop: Workshop,
    counters: Counters,
    lease_stop: Stop,
    organiser_stop: Stop,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    workers: Vec<Thread>,
    lease: Option<Thread>,
    organiser: Option<Thread>,
}

impl Crew {
    /// Starts the organiser and the lease thread, for `workers` workers that are started apart.
    pub(crate) fn start(shop: Workshop, workers: usize, request_timeout: Duration) -> Result<Self> {
        let host = host_name();
        let process = std::process::id();
        let names: Result<Vec<WorkerId>> = (0..workers)
            .map(|index| Ok(WorkerId::unique(&format!("{host}-{process}-{index}"))?))
            .collect();
        let crew = Self {
            counters: Counters::new(names?),
            lease_stop: Stop::new(),
            organiser_stop: Stop::new(),
            threads: Mutex::default(),
            shop,
        };
        let (shop, stop) = (crew.shop.clone(), crew.lease_stop.clone());
        let lease = spawn("ottla-lease", move || {
            let rhythm = Rhythm::of(shop.queue.rules());
            keep(&shop.leases, &*shop.queue, rhythm, &shop.shared.events, &stop);
        })?;
        crew.threads.lock().lease = Some(lease);
        let shop = crew.shop.clone();
        let mut shell = Shell::new(shop.queue, shop.kafka, shop.shared, shop.sink, request_timeout);
        let stop = crew.organiser_stop.clone();
        // If there is no thread for it, dropping the crew ends the other one.
        let organiser = spawn("ottla-org", move || shell.run(&stop))?;
        crew.threads.lock().organiser = Some(organiser);
        Ok(crew)
    }

    /// A session for the worker at `index`.
    pub(crate) fn session(&self, index: usize) -> Session {
        let (worker, counters) =
            self.counters.worker(index).expect("the crew has counters for each of its workers");
        Session::open(self.shop.clone(), worker, counters)
    }

    /// Starts a worker thread.
    pub(crate) fn add_worker(
        &self,
        index: usize,
        body: impl FnOnce(Session, &Stop) + Send + 'static,
    ) -> Result<()> {
        let (session, stop) = (self.session(index), self.shop.stop.clone());
        let thread = spawn(&format!("ottla-u-{index}"), move || body(session, &stop))?;
        self.threads.lock().workers.push(thread);
        Ok(())
    }

    /// The figures so far.
    pub(crate) fn stats(&self) -> NodeStats {
        let mut stats = self.counters.read();
        stats.planned = self.shop.shared.planned();
        stats.is_leader = self.shop.shared.leads();
        stats.events_dropped = self.events().dropped();
        stats
    }

    /// The events.
    pub(crate) fn events(&self) -> Events {
        self.shop.shared.events.events()
    }

    /// Adds a topic; the organiser takes it up in its next round.
    pub(crate) fn add_topic(&self, topic: &str) -> Result<()> {
        self.shop.shared.change_topics(|topics| topics.add(topic))
    }

    /// Plans a topic no more.
    pub(crate) fn remove_topic(&self, topic: &str) -> Result<()> {
        self.change_known(topic, |topics| topics.remove(topic))
    }

    /// Leaves a topic alone until it is resumed.
    pub(crate) fn pause(&self, topic: &str) -> Result<()> {
        self.change_known(topic, |topics| topics.pause(topic))
    }

    /// Ends a pause.
    pub(crate) fn resume(&self, topic: &str) -> Result<()> {
        self.change_known(topic, |topics| topics.resume(topic))
    }

    fn change_known(&self, topic: &str, change: impl FnOnce(&mut Topics) -> bool) -> Result<()> {
        if self.shop.shared.change_topics(change) {
            return Ok(());
        }
        let message = "the node does not read this topic";
        Err(Error::new(ErrorKind::InvalidInput, message).with_topic(topic))
    }

    /// Waits until everything that was in the topics when it was called is finished.
    pub(crate) fn drain(&self, timeout: Duration) -> Result<()> {
        let deadline = Deadline::within(timeout);
        let ends = self.pin_ends(deadline)?;
        let mut look = DRAIN_LOOK_FIRST;
        loop {
            let behind = match self.behind(&ends) {
                Ok(0) => return Ok(()),
                Ok(behind) => Ok(behind),
                // The queue may come back in time.
                Err(error) if error.is_retriable() => Err(error),
                Err(error) => return Err(error),
            };
            if deadline.left().is_zero() {
                let late = Error::new(ErrorKind::Timeout, "the topics were not drained in time");
                return Err(match behind {
                    Ok(behind) => {
                        let message = format!("{behind} offsets were not finished in time");
                        Error::new(ErrorKind::Timeout, message)
                    }
                    Err(error) => late.with_source(error),
                });
            }
            if self.shop.stop.wait(look.min(deadline.left())) {
                return Err(Error::new(ErrorKind::Closed, "the node was shut down"));
            }
            look = (look * 2).min(DRAIN_LOOK_MAX);
        }
    }

    /// Where each log ends now, asked until every partition has answered.
    fn pin_ends(&self, deadline: Deadline) -> Result<Vec<(TopicPartition, i64)>> {
        let topics = self.shop.shared.topics();
        loop {
            let failure = match self.ends_of(&topics, deadline) {
                Ok(ends) => return Ok(ends),
                Err(error) => error,
            };
            if deadline.left().is_zero() || !failure.is_retriable() {
                return Err(failure);
            }
            if self.shop.stop.wait(DRAIN_LOOK_MAX.min(deadline.left())) {
                return Err(failure);
            }
        }
    }

    fn ends_of(&self, topics: &Topics, deadline: Deadline) -> Result<Vec<(TopicPartition, i64)>> {
        let kafka = &self.shop.kafka;
        let cluster = if topics.has_patterns() { kafka.names(deadline)? } else { Vec::new() };
        let names: Vec<String> = topics.read(&cluster).into_iter().collect();
        let mut partitions = Vec::new();
        for (_, described) in kafka.topics(&names, deadline)? {
            let facts = described?;
            for index in 0..facts.partitions {
                partitions.push(TopicPartition::new(facts.name.clone(), index)?);
            }
        }
        let mut bounds = self.shop.kafka.bounds(&partitions, deadline);
        let mut ends = Vec::new();
        for partition in partitions {
            let bounds = bounds.remove(&partition).unwrap_or_else(|| {
                Err(Error::new(ErrorKind::Timeout, "a broker did not tell where a log ends"))
            })?;
            if bounds.end > bounds.start {
                ends.push((partition, bounds.end));
            }
        }
        Ok(ends)
    }

    /// How many offsets below `ends` are not finished.
    fn behind(&self, ends: &[(TopicPartition, i64)]) -> Result<i64> {
        let snapshot = self.shop.queue.snapshot(SnapshotLimits { units: 0, entries: 0 })?;
        let low = |of: &TopicPartition| {
            let held = snapshot.partitions.iter().find(|held| held.partition == *of);
            held.map_or(0, |held| held.state.low)
        };
        Ok(ends.iter().map(|(of, end)| (end - low(of)).max(0)).sum())
    }

    /// Stops the workers and waits for them, then ends the other threads. Again is the same as
    /// once.
    pub(crate) fn shut_down(&self, timeout: Duration) -> Result<()> {
        let deadline = Deadline::within(timeout);
        self.shop.stop.set();
        let threads = std::mem::take(&mut *self.threads.lock());
        let mut left_behind = 0;
        for worker in threads.workers {
            // A handler that shuts its own node down does not wait for itself.
            if worker.is_current() || !worker.join_by(deadline) {
                left_behind += 1;
            }
        }
        self.shop.abandon.set();
        let grace = deadline.max(Deadline::within(GRACE));
        self.lease_stop.set();
        if let Some(lease) = threads.lease {
            lease.join_by(grace);
        }
        self.organiser_stop.set();
        if let Some(organiser) = threads.organiser {
            organiser.join_by(grace);
        }
        self.shop.shared.events.close();
        if left_behind == 0 {
            return Ok(());
        }
        let message = format!(
            "{left_behind} of the handlers did not end in time; what they hold goes to others when \
             the leases run out"
        );
        Err(Error::new(ErrorKind::Timeout, message))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down(DROP_WAIT) {
            log::warn!("a node was dropped: {error}");
        }
    }
}

/// The machine's name as part of a worker's, for people.
fn host_name() -> String {
    const BYTES_MAX: usize = 100;
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let legal = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let name: String = name.trim().chars().filter(legal).take(BYTES_MAX).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}
