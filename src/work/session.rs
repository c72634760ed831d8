//! [`Session`]: one worker's dealings with the queue, from claim to settlement.
//!
//! Owned by one thread: a worker of a node, or whoever pulls. The calls to the queue that change
//! a unit are repeated with the same token until they are answered, since the queue recognises a
//! repetition; they end early only when the node abandons its workers.
//!
//! ```text
//!   claim ─▶ begin(token) ─▶ Unit ─▶ handler ─▶ outcome ─▶ finish | give back
//!              │ gone, taken                       (pure)     │ refused: lease lost
//!              └─▶ claim                                      └─ dead: sink, then bury
//! ```
//!
//! A worker that goes on ends a unit and begins the next in one question ([`Session::settle_and_go_on`]).
//! It claims, and waits, only when that gave none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Result};
use crate::threads::Stop;
use crate::work::events::Event;
use crate::work::handler::{Sink, bury_by};
use crate::work::kafka::Kafka;
use crate::work::lease::{Held, Leases};
use crate::work::pace::Pace;
use crate::work::queue::{Begun, DeadUnit, Finished, Lease, NextUnit, Outcome, Settled, WorkQueue};
use crate::work::records::RecordSink;
use crate::work::shared::Shared;
use crate::work::stats::WorkerCounters;
use crate::work::trouble::Trouble;
use crate::work::unit::{LeaseToken, UnitId, WorkerId};
use crate::work::unit_handle::{Unit, UnitParts};

/// How long a unit that cannot be read at present stays away from the workers.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(1);
/// How long a unit of a paused topic stays away from the workers.
const PAUSED_PAUSE: Duration = Duration::from_secs(2);

/// What all sessions of a node have in common.
#[derive(Clone)]
pub(crate) struct Workshop {
    pub(crate) queue: Arc<dyn WorkQueue>,
    pub(crate) kafka: Arc<dyn Kafka>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) leases: Arc<Leases>,
    /// How fast records may be given out.
    pub(crate) pace: Arc<Pace>,
    /// Where dead letters go.
    pub(crate) sink: Arc<Sink>,
    /// Where dead letters of single records go.
    pub(crate) record_sink: Arc<RecordSink>,
    /// No more units are claimed.
    pub(crate) stop: Stop,
    /// Nobody waits for the workers any more: they end at the next look.
    pub(crate) abandon: Stop,
}

/// One worker.
pub(crate) struct Session {
    shop: Workshop,
    worker: WorkerId,
    counters: Arc<WorkerCounters>,
    claiming: Trouble,
    settling: Trouble,
    reading: Trouble,
    /// Begun together with the end of the last unit.
    ahead: Option<Unit>,
    /// Set when the session is closed: the queue is asked no longer than this.
    limit: Option<Deadline>,
}

/// What follows the end of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The next unit, in the same question.
    Next,
    Nothing,
}

/// How the handling of a unit ended.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// Handled: the whole unit is acknowledged.
    Done,
    /// The handler failed: an attempt is used up, what was done is credited.
    Failed(Error),
    /// It could not be read at present, or the node stops: no attempt is used up.
    GivenBack(Error),
    /// Another worker has it: nothing to settle.
    Lost,
}

/// What a handler's result and the unit's reading come to.
pub(crate) fn ending(result: Result<()>, unit: &Unit) -> Ending {
    if unit.is_lost() {
        return Ending::Lost;
    }
    if let Some(error) = unit.given_back() {
        return Ending::GivenBack(error);
    }
    match (result, unit.read_failure()) {
        // The shutdown ended the handler: it was not the records' fault.
        (Err(error), None) if error.kind() == ErrorKind::Closed && unit.is_stopping() => {
            Ending::GivenBack(error)
        }
        (_, Some(error)) if error.kind() == ErrorKind::LeaseLost => Ending::Lost,
        (_, Some(error)) if error.is_retriable() || error.kind() == ErrorKind::Closed => {
            Ending::GivenBack(error)
        }
        // Reading failed for good, a damaged batch say. Also when the handler thinks that all is
        // well: it did not see every record.
        (_, Some(error)) | (Err(error), None) => Ending::Failed(error),
        (Ok(()), None) => Ending::Done,
    }
}

impl Session {
    /// A session of `worker`, which shows itself from now on.
    pub(crate) fn open(shop: Workshop, worker: WorkerId, counters: Arc<WorkerCounters>) -> Self {
        shop.leases.register(&worker);
        let trouble = |doing| Trouble::new(doing, shop.shared.events.clone());
        Self {
            claiming: trouble("claiming units"),
            settling: trouble("settling units"),
            reading: trouble("working off units"),
            ahead: None,
            limit: None,
            shop,
            worker,
            counters,
        }
    }

    /// The next unit, waiting for one at most `wait`; `None` when none came, or the node stops.
    ///
    /// # Errors
    /// When the queue does not answer, with the pause before the next attempt.
    pub(crate) fn next(&mut self, wait: Duration) -> Result<Option<Unit>, (Error, Duration)> {
        let limit = Deadline::within(wait);
        while !self.shop.stop.is_set() {
            if let Some(unit) = self.ahead.take() {
                return Ok(Some(unit));
            }
            let claimed = self.shop.queue.claim(&self.worker, limit.left());
            let id = match claimed {
                Ok(Some(id)) => id,
                Ok(None) => {
                    self.claiming.worked();
                    return Ok(None);
                }
                Err(error) => {
                    let pause = self.claiming.failed(&error);
                    return Err((error, pause));
                }
            };
            self.claiming.worked();
            if let Some(unit) = self.begin(id) {
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }

    /// Begins the unit that was claimed; `None` when it is not to be had.
    fn begin(&mut self, id: UnitId) -> Option<Unit> {
        let token = LeaseToken::random();
        // The lease counts from before the question: this side never believes longer.
        let began = clock::now();
        let answer = self.until_answered(|queue, worker| queue.begin(&id, token, worker))?;
        let Begun::Leased(lease) = answer else {
            log::debug!("{} could not begin {id}: {answer:?}", self.worker);
            return None;
        };
        self.hold(id, token, lease, began)
    }

    /// Keeps the lease of a unit that was begun at `began`; `None` when it was given back at once.
    fn hold(
        &mut self,
        id: UnitId,
        token: LeaseToken,
        lease: Lease,
        began: Instant,
    ) -> Option<Unit> {
        let held = Arc::new(Held::new(id, token, began, self.shop.shared.config.unit_max));
        self.shop.leases.hold(Arc::clone(&held));
        let unit = Unit::new(UnitParts {
            held,
            lease,
            kafka: Arc::clone(&self.shop.kafka),
            events: self.shop.shared.events.clone(),
            pace: Arc::clone(&self.shop.pace),
            worker: self.worker.clone(),
            stop: self.shop.stop.clone(),
            abandon: self.shop.abandon.clone(),
        });
        if self.shop.shared.is_paused(unit.topic()) {
            self.give_back(&unit, PAUSED_PAUSE);
            return None;
        }
        if self.shop.stop.is_set() {
            self.give_back(&unit, Duration::ZERO);
            return None;
        }
        Some(unit)
    }

    /// Settles `unit` as `ending` says. Blocks until the queue has answered, or the node abandons
    /// its workers; then the lease runs out by itself.
    pub(crate) fn settle(&mut self, unit: &Unit, ending: Ending) {
        self.end(unit, ending, Then::Nothing);
    }

    /// [`Session::settle`] by a worker that asks for another unit right away.
    pub(crate) fn settle_and_go_on(&mut self, unit: &Unit, ending: Ending) {
        let then = if self.shop.stop.is_set() { Then::Nothing } else { Then::Next };
        self.end(unit, ending, then);
    }

    fn end(&mut self, unit: &Unit, ending: Ending, then: Then) {
        let records = unit.records_read();
        self.counters.records.add(records);
        self.counters.records_dead_lettered.add(unit.records_given_up());
        match ending {
            Ending::Done => {
                unit.done_to(unit.range().end);
                self.reading.worked();
                self.finish(unit, None, then);
            }
            Ending::Failed(error) => {
                self.counters.failed.add(1);
                self.finish(unit, Some(&error), then);
            }
            Ending::GivenBack(error) => {
                let stops = self.shop.stop.is_set();
                if error.kind() != ErrorKind::Closed {
                    self.reading.failed(&error);
                }
                self.give_back(unit, if stops { Duration::ZERO } else { UNREADABLE_PAUSE });
            }
            Ending::Lost => self.lost(unit),
        }
    }

    fn finish(&mut self, unit: &Unit, failure: Option<&Error>, then: Then) {
        let held = Arc::clone(unit.held());
        let outcome = match failure {
            None => Outcome::Handled,
            Some(error) => self.outcome_of_failure(unit, error),
        };
        let mut asked = 0_u32;
        let next_token = LeaseToken::random();
        // As in `begin`; a repetition finds the lease of the first question.
        let began = clock::now();
        let answer = self.until_answered(|queue, worker| {
            asked += 1;
            let (of, token, progress) = (&held.unit, held.token, held.progress());
            match then {
                Then::Nothing => {
                    queue.finish(of, token, worker, &progress, &outcome).map(|end| (end, None))
                }
                Then::Next => queue.finish_next(of, token, worker, &progress, &outcome, next_token),
            }
        });
        self.shop.leases.release(&held);
        let (answer, next) = answer.unzip();
        if let Some(NextUnit { unit: id, lease }) = next.flatten() {
            self.ahead = self.hold(id, next_token, lease, began);
        }
        match answer {
            Some(Finished::Settled(settled)) => self.settled(unit, &settled, &outcome, failure),
            // An earlier answer was lost: most likely that one was the success.
            Some(Finished::Refused) if asked > 1 && !held.is_lost() => {
                log::debug!("{} was settled by a request whose answer was lost", held.unit);
                self.counters.units.add(u64::from(failure.is_none()));
            }
            Some(Finished::Refused) => self.lost(unit),
            None => log::warn!("{} was left unsettled: its lease runs out", held.unit),
        }
    }

    /// A failure for good is handed to the dead-letter sink here, where the records are at hand; if
    /// that fails too the unit becomes dead and the organiser goes on trying.
    fn outcome_of_failure(&self, unit: &Unit, error: &Error) -> Outcome {
        let why = error.to_string();
        if !unit.is_last_attempt() || unit.held().has_progress() {
            return Outcome::Failed { why };
        }
        let dead = DeadUnit {
            unit: unit.id().clone(),
            topic_id: unit.topic_id(),
            attempts: unit.attempt(),
            owner: self.worker.to_string(),
            error: why.clone(),
        };
        match bury_by(&*self.shop.sink, &dead) {
            Ok(()) => Outcome::DeadLettered { why },
            Err(sink) => {
                log::error!("the dead letter of unit {} was not stored: {sink}", dead.unit);
                Outcome::Failed { why }
            }
        }
    }

    fn settled(&self, unit: &Unit, settled: &Settled, outcome: &Outcome, failure: Option<&Error>) {
        let Some(error) = failure else {
            self.counters.units.add(1);
            return;
        };
        let id = unit.id();
        log::warn!("attempt {} at unit {id} failed: {error}", unit.attempt());
        self.shop.shared.events.tell(Event::UnitFailed {
            unit: id.clone(),
            attempt: unit.attempt(),
            error: error.clone(),
        });
        match (settled, outcome) {
            (_, Outcome::DeadLettered { .. }) => {
                self.counters.dead_lettered.add(1);
                let event = Event::DeadLettered { unit: id.clone(), error: error.to_string() };
                self.shop.shared.events.tell(event);
            }
            (Settled::Dead, _) => log::error!("unit {id} is dead, its dead letter is due"),
            _ => {}
        }
    }
}

/// The ends that are not success.
impl Session {
    /// Puts the unit back for others; what was done is credited, no attempt is used up.
    fn give_back(&mut self, unit: &Unit, pause: Duration) {
        if unit.held().has_progress() {
            // What remains is a unit of its own then, without attempts.
            return self.finish(unit, None, Then::Nothing);
        }
        let held = Arc::clone(unit.held());
        let mut asked = 0_u32;
        let answer = self.until_answered(|queue, _| {
            asked += 1;
            queue.give_back(&held.unit, held.token, pause)
        });
        self.shop.leases.release(&held);
        match answer {
            Some(false) if asked == 1 || held.is_lost() => self.lost(unit),
            Some(_) => self.counters.given_back.add(1),
            None => log::warn!("{} was not given back: its lease runs out", held.unit),
        }
    }

    fn lost(&self, unit: &Unit) {
        self.shop.leases.release(unit.held());
        log::warn!("the lease of unit {} went to another worker", unit.id());
        self.counters.lost.add(1);
        self.counters.duplicates.add(unit.records_read());
        self.shop.shared.events.tell(Event::LeaseLost { unit: unit.id().clone() });
    }

    /// Asks the queue until it answers; `None` when the node abandons its workers first, or the
    /// queue refuses for good.
    fn until_answered<T>(
        &mut self,
        mut ask: impl FnMut(&dyn WorkQueue, &WorkerId) -> Result<T>,
    ) -> Option<T> {
        loop {
            match ask(&*self.shop.queue, &self.worker) {
                Ok(answer) => {
                    self.settling.worked();
                    return Some(answer);
                }
                Err(error) if !error.is_retriable() => {
                    log::error!("the queue refuses: {error}");
                    return None;
                }
                Err(error) => {
                    let pause = self.settling.failed(&error);
                    let over = self.limit.is_some_and(|limit| limit.left().is_zero());
                    if over || self.shop.abandon.wait(pause) {
                        return None;
                    }
                }
            }
        }
    }

    /// From now on the queue is asked again only until `limit`.
    pub(crate) fn hurry(&mut self, limit: Deadline) {
        self.limit = Some(limit);
    }

    /// Takes the worker out of the queue; its claims have ended by now.
    pub(crate) fn close(&mut self) {
        if let Some(unit) = self.ahead.take() {
            self.give_back(&unit, Duration::ZERO);
        }
        let left = self.until_answered(|queue, worker| queue.unregister(worker));
        self.shop.leases.unregister(&self.worker);
        if left.is_none() {
            log::info!("worker {} did not sign off; the organiser will notice", self.worker);
        }
    }
}
