//! [`Refresher`]: keeps the snapshot fresh, on a thread of its own ("ottla-meta").
//!
//! One metadata request is in flight at a time. Requests for a refresh are numbered; whoever needs
//! one takes the next number and waits on the condition variable, with its own deadline, until a
//! request that was *started* after that has been answered. Any number of callers thereby share
//! one request.
//!
//! ```text
//! caller                              ottla-meta
//! wanted = 7, notify  ------------->  serial = wanted (7), topics = interest
//! wait until served >= 7                request ... answer
//!                     <-------------  merge, served = 7, notify
//! ```
//!
//! A failed attempt leaves the numbers as they are, so the thread tries again, with another broker
//! and after a growing pause, until one answers: an answer is what clears the trigger, and nothing
//! else sets it again by itself but age (`metadata.max.age.ms`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

use super::backoff::Backoff;
use super::links::{Answer, Links, closed};
use super::merge::Merger;
use super::metadata::Metadata;
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Recovery, Result};
use crate::net::{Address, Endpoint};
use crate::protocol::messages::{
    LeaderIdAndEpoch, MetadataRequest, MetadataRequestTopic, MetadataResponse, NodeEndpoint,
};
use crate::protocol::{ErrorCode, Message, VersionRange};

/// After this long without an answer the bootstrap list is asked before the known brokers
/// (KIP-1102, `metadata.recovery.rebootstrap.trigger.ms` of Java's client).
const REBOOTSTRAP_AFTER: Duration = Duration::from_secs(300);

/// The metadata as this client has them, and the means to renew them.
#[derive(Debug)]
pub(crate) struct Refresher {
    links: Arc<Links>,
    current: RwLock<Arc<Metadata>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    merger: Merger,
    /// The topics that requests name: those this client uses.
    interest: HashSet<Arc<str>>,
    /// The number of the last request for a refresh.
    wanted: u64,
    /// Requests up to this number were met by an answer.
    served: u64,
    /// Requests up to this number were met by a final error.
    refused: u64,
    /// Someone waits for a topic that was never asked about: no pause between answers.
    urgent: bool,
    failures: u32,
    /// Bootstrap addresses behind which something else than Kafka answered last.
    foreign: HashSet<Address>,
    last_failure: Option<Failure>,
    not_before: Instant,
    /// When metadata was last received; at first, when the client was made.
    received: Instant,
    ever_received: bool,
    start_over: bool,
    rng: fastrand::Rng,
}

#[derive(Clone, Debug)]
struct Failure {
    serial: u64,
    error: Error,
}

impl State {
    fn name(&mut self, topic: &str) {
        if !self.interest.contains(topic) {
            self.interest.insert(Arc::from(topic));
            self.urgent = true;
        }
    }

    fn is_pending(&self) -> bool {
        self.wanted > self.served.max(self.refused)
    }

    /// When the thread has something to do; `None`: not before it is asked.
    fn due(&self, age_max: Duration) -> Option<Instant> {
        if self.is_pending() {
            let paced =
                if self.urgent && self.failures == 0 { self.received } else { self.not_before };
            return Some(paced);
        }
        self.ever_received.then(|| (self.received + age_max).max(self.not_before))
    }
}

impl Refresher {
    /// Knows nothing yet.
    pub(crate) fn new(links: Arc<Links>) -> Self {
        let now = clock::now();
        let state = State {
            merger: Merger::default(),
            interest: HashSet::new(),
            wanted: 0,
            served: 0,
            refused: 0,
            urgent: false,
            failures: 0,
            foreign: HashSet::new(),
            last_failure: None,
            not_before: now,
            received: now,
            ever_received: false,
            start_over: false,
            rng: fastrand::Rng::new(),
        };
        Self {
            links,
            current: RwLock::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// The present snapshot.
    pub(crate) fn metadata(&self) -> Arc<Metadata> {
        Arc::clone(&self.current.read())
    }

    /// When metadata was last received; at first, when the client was made.
    pub(crate) fn received(&self) -> Instant {
        self.state.lock().received
    }

    /// Asks for a refresh that names `topics` too, without waiting for it.
    pub(crate) fn request(&self, topics: &[&str]) -> u64 {
        let mut state = self.state.lock();
        for topic in topics {
            state.name(topic);
        }
        state.wanted += 1;
        let serial = state.wanted;
        drop(state);
        self.changed.notify_all();
        serial
    }

    /// Asks for a refresh and waits for it until `deadline`.
    ///
    /// # Errors
    /// The last failure, with its cause, when no broker answered in time; `Closed`.
    pub(crate) fn refresh(&self, topics: &[&str], deadline: Deadline) -> Result<Arc<Metadata>> {
        self.refresh_while(topics, deadline, &|| true)
    }

    /// As [`refresh`](Self::refresh), and `Closed` once `go_on` does not hold any more and somebody called
    /// [`wake`](Self::wake).
    pub(crate) fn refresh_while(
        &self,
        topics: &[&str],
        deadline: Deadline,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Arc<Metadata>> {
        let start = clock::now();
        let serial = self.request(topics);
        let mut state = self.state.lock();
        loop {
            if self.links.stop().is_set() || !go_on() {
                return Err(closed());
            }
            if state.served >= serial {
                return Ok(Arc::clone(state.merger.current()));
            }
            let failure = state.last_failure.as_ref();
            if state.refused >= serial
                && let Some(failure) = failure.filter(|failure| failure.serial >= serial)
            {
                return Err(failure.error.clone().given_up());
            }
            if deadline.has_passed(clock::now()) {
                return Err(no_metadata(failure, state.failures, clock::now() - start));
            }
            self.changed.wait_until(&mut state, deadline.instant());
        }
    }

    /// Takes in what another answer said about a leader (KIP-951), and asks for a refresh.
    pub(crate) fn note_leader(
        &self,
        topic: &str,
        partition: i32,
        leader: &LeaderIdAndEpoch,
        endpoints: &[NodeEndpoint],
    ) {
        let mut state = self.state.lock();
        if state.merger.note_leader(topic, partition, leader, endpoints) {
            self.publish(&state);
        }
        state.wanted += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Names a topic no longer.
    pub(crate) fn forget(&self, topic: &str) {
        let mut state = self.state.lock();
        state.interest.remove(topic);
        state.merger.forget(topic);
        self.publish(&state);
    }

    /// Wakes the thread and everyone who waits, after the links were closed or a waiter's reason to wait has gone.
    pub(crate) fn wake(&self) {
        // Under the lock: else a waiter between its look at the flag and its wait would miss it.
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// The body of the thread.
    pub(crate) fn run(&self) {
        while let Some(work) = self.next_work() {
            let endpoint = self.links.any(&work.metadata, work.bootstrap_first);
            let outcome = endpoint.clone().and_then(|endpoint| self.attempt(&work, &endpoint));
            self.conclude(&work, endpoint.ok(), outcome);
        }
    }

    /// Waits until there is something to ask; `None` when the client is closed.
    fn next_work(&self) -> Option<Work> {
        let mut state = self.state.lock();
        loop {
            if self.links.stop().is_set() {
                return None;
            }
            match state.due(self.links.config().metadata_max_age) {
                Some(due) if due <= clock::now() => break,
                Some(due) => drop(self.changed.wait_until(&mut state, due)),
                None => self.changed.wait(&mut state),
            }
        }
        let silent = clock::now().saturating_duration_since(state.received);
        state.urgent = false;
        Some(Work {
            serial: state.wanted,
            topics: state.interest.iter().cloned().collect(),
            bootstrap_first: state.start_over || silent >= REBOOTSTRAP_AFTER,
            metadata: Arc::clone(state.merger.current()),
        })
    }

    fn attempt(&self, work: &Work, endpoint: &Endpoint) -> Result<Answer<MetadataResponse>> {
        // The exchange itself takes `request.timeout.ms`; the rest is for the broker's turn to come.
        let deadline = Deadline::within(self.links.config().request_timeout * 2);
        self.links.exchange::<MetadataRequest, _>(
            endpoint,
            MetadataRequest::VERSIONS,
            deadline,
            |version| Ok(metadata_request(version, Some(&work.topics))),
        )
    }

    fn conclude(
        &self,
        work: &Work,
        asked: Option<Endpoint>,
        outcome: Result<Answer<MetadataResponse>>,
    ) {
        let mut state = self.state.lock();
        let now = clock::now();
        let outcome = outcome.and_then(|answer| {
            let before = Arc::clone(state.merger.current());
            state
                .merger
                .merge(&answer.response, answer.version, &work.topics, now)
                .map_err(|error| error.with_broker(&answer.endpoint))?;
            // A topic that was forgotten while the request was under way stays forgotten.
            for topic in &work.topics {
                if !state.interest.contains(topic) {
                    state.merger.forget(topic);
                }
            }
            self.links.favour(&answer.endpoint);
            self.links.brokers_changed(&before, state.merger.current());
            Ok(())
        });
        let config = self.links.config();
        match outcome {
            Ok(()) => {
                state.served = work.serial;
                state.failures = 0;
                state.received = now;
                state.ever_received = true;
                state.start_over = false;
                state.not_before = now + config.retry_backoff;
                self.publish(&state);
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                if state.failures.is_power_of_two() && error.kind() != ErrorKind::Closed {
                    let count = match state.failures {
                        1 => String::new(),
                        failures => format!(" {failures} times in a row"),
                    };
                    log::warn!("no metadata from the cluster{count}, trying again: {error}");
                }
                if error.broker_code() == Some(ErrorCode::REBOOTSTRAP_REQUIRED) {
                    state.start_over = true;
                    self.links.disconnect_all();
                } else if error.recovery() == Recovery::Fail
                    || self.is_no_cluster(&mut state, asked, &error)
                {
                    state.refused = work.serial;
                }
                let backoff = Backoff::new(config.retry_backoff, config.retry_backoff_max);
                let pause = backoff.pause(state.failures, &mut state.rng);
                state.not_before = now + pause;
                state.last_failure = Some(Failure { serial: work.serial, error });
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether there is nothing to hope for: nobody ever answered as a broker does, and every
    /// bootstrap address is the port of something else.
    fn is_no_cluster(&self, state: &mut State, asked: Option<Endpoint>, error: &Error) -> bool {
        let Some(asked) = asked.filter(|_| !state.ever_received) else { return false };
        if error.kind() == ErrorKind::NotKafka {
            state.foreign.insert(asked.address);
        } else {
            state.foreign.remove(&asked.address);
        }
        self.links.bootstrap().iter().all(|address| state.foreign.contains(address))
    }

    fn publish(&self, state: &State) {
        let mut current = self.current.write();
        if !Arc::ptr_eq(&current, state.merger.current()) {
            *current = Arc::clone(state.merger.current());
        }
    }
}

/// What one metadata request is made from.
#[derive(Debug)]
struct Work {
    serial: u64,
    topics: Vec<Arc<str>>,
    bootstrap_first: bool,
    metadata: Arc<Metadata>,
}

/// Asks for `topics`, or for all of them with `None`.
///
/// Never lets the broker create a topic, from version 4 on, which is where a request can say so.
pub(crate) fn metadata_request(version: i16, topics: Option<&[Arc<str>]>) -> MetadataRequest {
    let named = topics.map(|topics| {
        let entry = |topic: &Arc<str>| MetadataRequestTopic {
            name: Some(topic.to_string()),
            ..Default::default()
        };
        topics.iter().map(entry).collect()
    });
    MetadataRequest {
        // In version 0 an empty list means all.
        topics: named.or((version == 0).then(Vec::new)),
        allow_auto_topic_creation: version < 4,
        ..Default::default()
    }
}

/// All versions of Metadata.
pub(crate) const METADATA_VERSIONS: VersionRange = MetadataRequest::VERSIONS;

fn no_metadata(failure: Option<&Failure>, failures: u32, waited: Duration) -> Error {
    let message = "no broker told about the cluster in time";
    match failure.filter(|_| failures > 0) {
        Some(failure) => Error::new(failure.error.kind(), message)
            .with_source(failure.error.clone())
            .with_attempts(failures, waited),
        None => Error::new(ErrorKind::Timeout, message),
    }
}
