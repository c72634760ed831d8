//! [`Shell`]: the organiser's thread. Keeps the lock and does what is due.
//!
//! Owned by one thread ("ottla-org" in a node). It holds no lock while it asks. Each question to
//! Kafka is bounded by a part of the lock's time, and the lock is renewed between questions, so a
//! broker that is slow does not cost the lock. When the lock is lost, what was under way is dropped:
//! every method that acts asks [`Shell::lead`] first and gives the answers of the queue to
//! [`Shell::answered`]; either ends it with [`Halt::NotLeader`].
//!
//! ```text
//!   elect ──▶ [ mend, plan, commit, audit, each when due ] ──▶ wait ──┐
//!     ▲                                                              │
//!     └──────────────────────────────────────────────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::lock::{Change, Lock};
use super::round::TopicIds;
use crate::clock::{self, Deadline};
use crate::error::Error;
use crate::threads::Stop;
use crate::work::commit::CommitLog;
use crate::work::events::Event;
use crate::work::handler::{Sink, bury_by};
use crate::work::kafka::{Kafka, TopicFacts};
use crate::work::queue::{Answer, AuditRound, DeadUnit, WorkQueue};
use crate::work::shared::Shared;
use crate::work::trouble::Trouble;
use crate::work::unit::{LeaderId, TopicPartition};

/// A question to Kafka may take this part of the lock's time.
const QUESTION_PART: u32 = 3;
/// A candidate asks for a lock that another holds this often in the lock's time.
const POLL_PART: u32 = 10;
/// Units, workers or entries that one call mends.
const MEND_MAX: usize = 200;
/// Calls of one kind in a row, while each finds as much as it may mend.
const MEND_CALLS_MAX: usize = 50;

/// The organiser's state.
pub(crate) struct Shell {
    pub(super) me: LeaderId,
    pub(super) queue: Arc<dyn WorkQueue>,
    pub(super) kafka: Arc<dyn Kafka>,
    pub(super) shared: Arc<Shared>,
    pub(super) sink: Arc<Sink>,
    /// The most that one request to Kafka takes.
    pub(super) request_timeout: Duration,
    pub(super) lock: Lock,
    pub(super) ids: TopicIds,
    pub(super) commits: CommitLog,
    /// The topics as last described.
    pub(super) facts: BTreeMap<String, TopicFacts>,
    /// The cluster's topics at that time, if the node reads some by regular expression.
    pub(super) listed: Vec<String>,
    /// What was asked for then.
    pub(super) facts_of: Vec<String>,
    pub(super) facts_until: Option<Deadline>,
    /// Partitions that the queue holds, those of topics that were removed included: their units go
    /// on, and so do the commits.
    pub(super) taken_up: BTreeSet<TopicPartition>,
    /// Whether `taken_up` has what the queue held when this process became the organiser: units of
    /// the one before may have ended since it committed.
    pub(super) inherited: bool,
    pub(super) troubles: Troubles,
    audit: AuditRound,
    due: Due,
}

/// Why something ended early.
#[derive(Debug)]
pub(super) enum Halt {
    /// The lock is not held, or not known to be.
    NotLeader,
    /// Queue or Kafka failed.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// When each task is next due.
struct Due {
    mend: Deadline,
    plan: Deadline,
    commit: Deadline,
    audit: Deadline,
}

/// What may be in trouble.
pub(super) struct Troubles {
    lock: Trouble,
    plan: Trouble,
    mend: Trouble,
    commit: Trouble,
    audit: Trouble,
    dead: Trouble,
    pub(super) topics: Trouble,
    pub(super) offsets: Trouble,
    pub(super) start: Trouble,
    pub(super) behind: Trouble,
    pub(super) held: Trouble,
    pub(super) store: Trouble,
}

impl Shell {
    pub(crate) fn new(
        queue: Arc<dyn WorkQueue>,
        kafka: Arc<dyn Kafka>,
        shared: Arc<Shared>,
        sink: Arc<Sink>,
        request_timeout: Duration,
    ) -> Self {
        let now = Deadline::after(clock::now(), Duration::ZERO);
        let trouble = |doing| Trouble::new(doing, shared.events.clone());
        Self {
            me: LeaderId::random(),
            lock: Lock::new(queue.rules().leader_lock),
            ids: TopicIds::default(),
            commits: CommitLog::default(),
            facts: BTreeMap::new(),
            listed: Vec::new(),
            facts_of: Vec::new(),
            facts_until: None,
            taken_up: BTreeSet::new(),
            inherited: false,
            troubles: Troubles {
                lock: trouble("asking for the organiser's lock"),
                plan: trouble("planning"),
                mend: trouble("mending the queue"),
                commit: trouble("committing the group's offsets"),
                audit: trouble("auditing the queue"),
                dead: trouble("storing dead letters"),
                topics: trouble("describing topics"),
                offsets: trouble("looking up the ends of logs"),
                start: trouble("taking up partitions"),
                behind: trouble("planning to the end of a log"),
                held: trouble("reading the group's offsets"),
                store: trouble("storing the group's offsets"),
            },
            audit: AuditRound::new(),
            due: Due { mend: now, plan: now, commit: now, audit: now },
            queue,
            kafka,
            shared,
            sink,
            request_timeout,
        }
    }

    /// Body of the thread: a candidate until `stop`, then gives the lock back.
    pub(crate) fn run(&mut self, stop: &Stop) {
        loop {
            let wait = self.turn();
            if stop.wait(wait) {
                break;
            }
        }
        // A last commit, so that a group that stops cleanly begins where it ended.
        if self.lead().is_ok()
            && let Err(Halt::Failed(error)) = self.commit_round()
        {
            log::info!("the group's offsets were not committed at the end: {error}");
        }
        self.resign();
    }

    /// Does what is due; gives how long there is nothing to do.
    fn turn(&mut self) -> Duration {
        if let Err(pause) = self.candidate() {
            return pause;
        }
        self.mend_if_due();
        self.plan_if_due();
        self.commit_if_due();
        self.audit_if_due();
        let Due { mend, plan, commit, audit } = self.due;
        let next = mend.min(plan).min(commit).min(audit);
        let next = self.lock.renew_at().map_or(next, |renew| next.min(renew));
        next.left()
    }

    /// Asks for the lock, or renews it, when that is due. `Err`: it is not held, with the pause
    /// before it is asked for again.
    fn candidate(&mut self) -> Result<(), Duration> {
        let now = clock::now();
        let change = self.lock.expire(now);
        self.changed(change);
        if !self.lock.is_due(now) {
            return Ok(());
        }
        match self.queue.elect(self.me) {
            Ok(granted) => {
                self.troubles.lock.worked();
                let change = if granted { self.lock.granted(now) } else { self.lock.refused() };
                self.changed(change);
                if granted { Ok(()) } else { Err(self.queue.rules().leader_lock / POLL_PART) }
            }
            Err(error) => {
                let pause = self.troubles.lock.failed(&error);
                if self.lock.may_act(clock::now()) { Ok(()) } else { Err(pause) }
            }
        }
    }

    /// Makes sure of the lock before something that needs it.
    pub(super) fn lead(&mut self) -> Result<(), Halt> {
        self.candidate().map_err(|_| Halt::NotLeader)
    }

    /// What the queue did; `None` when what it was asked had been made from something that changed
    /// meanwhile.
    pub(super) fn answered<T>(&mut self, answer: Answer<T>) -> Result<Option<T>, Halt> {
        match answer {
            Answer::Done(value) => Ok(Some(value)),
            Answer::Stale => Ok(None),
            Answer::NotLeader => {
                let change = self.lock.refused();
                self.changed(change);
                Err(Halt::NotLeader)
            }
        }
    }

    fn changed(&mut self, change: Change) {
        let group = &self.shared.group;
        match change {
            Change::Same => return,
            Change::Won => {
                log::info!("this node is the organiser of group {group}");
                self.inherited = false;
            }
            Change::Lost => {
                log::info!("this node is no longer the organiser of group {group}");
                self.commits.clear();
                self.audit = AuditRound::new();
            }
        }
        self.shared.set_leads(change == Change::Won);
    }

    /// One round of planning, with the lock; gives how many units it made.
    pub(super) fn plan_now(&mut self) -> Result<u64, Halt> {
        self.lead()?;
        let before = self.shared.planned();
        self.facts_until = None;
        self.plan_round()?;
        Ok(self.shared.planned() - before)
    }

    fn resign(&mut self) {
        if !self.lock.may_act(clock::now()) {
            return;
        }
        if let Err(error) = self.queue.resign(self.me) {
            log::info!("the organiser's lock was not given back and runs out: {error}");
        }
        let change = self.lock.refused();
        self.changed(change);
    }

    /// By when a question to Kafka must be answered.
    pub(super) fn question(&self) -> Deadline {
        let part = self.queue.rules().leader_lock / QUESTION_PART;
        Deadline::within(self.request_timeout.min(part))
    }

    fn plan_if_due(&mut self) {
        if !self.due.plan.has_passed(clock::now()) {
            return;
        }
        let round = self.plan_round();
        let interval = self.shared.config.planning_interval;
        self.due.plan = after(round, interval, &mut self.troubles.plan);
    }

    fn commit_if_due(&mut self) {
        if !self.due.commit.has_passed(clock::now()) {
            return;
        }
        let round = self.commit_round();
        let interval = self.shared.config.commit_interval;
        self.due.commit = after(round, interval, &mut self.troubles.commit);
    }

    fn mend_if_due(&mut self) {
        if !self.due.mend.has_passed(clock::now()) {
            return;
        }
        let mended = self.mend();
        let interval = self.shared.config.planning_interval;
        self.due.mend = after(mended, interval, &mut self.troubles.mend);
    }

    /// Takes back what ran out and what dead workers had, and queues what waited long enough.
    fn mend(&mut self) -> Result<(), Halt> {
        for _ in 0..MEND_CALLS_MAX {
            self.lead()?;
            let answer = self.queue.reap_leases(self.me, MEND_MAX)?;
            let reaped = self.answered(answer)?.unwrap_or_default();
            for lost in &reaped {
                log::warn!("the lease of unit {} of worker {} is over", lost.unit, lost.owner);
            }
            if reaped.len() < MEND_MAX {
                break;
            }
        }
        self.lead()?;
        let answer = self.queue.reap_workers(self.me, MEND_MAX)?;
        for worker in self.answered(answer)?.unwrap_or_default() {
            log::warn!("worker {worker} gave no sign of life and is taken for dead");
        }
        for _ in 0..MEND_CALLS_MAX {
            self.lead()?;
            let answer = self.queue.promote(self.me, MEND_MAX)?;
            if self.answered(answer)?.unwrap_or_default() < MEND_MAX {
                break;
            }
        }
        self.bury_dead()
    }

    /// Stores the dead letters that are due, and lets the queue forget their units.
    fn bury_dead(&mut self) -> Result<(), Halt> {
        self.lead()?;
        let answer = self.queue.dead(self.me, MEND_MAX)?;
        for dead in self.answered(answer)?.unwrap_or_default() {
            self.lead()?;
            if let Err(error) = bury_by(&*self.sink, &dead) {
                // The queue gives it out again after its back-off; the others have their turn.
                self.troubles.dead.failed(&error);
                continue;
            }
            self.troubles.dead.worked();
            let answer = self.queue.bury(self.me, &dead)?;
            if self.answered(answer)?.is_some() {
                let DeadUnit { unit, error, .. } = dead;
                self.shared.events.tell(Event::DeadLettered { unit, error });
            }
        }
        Ok(())
    }

    fn audit_if_due(&mut self) {
        if !self.due.audit.has_passed(clock::now()) {
            return;
        }
        let slice = self.audit_slice();
        let complete = self.audit.is_complete();
        let interval = if complete { self.shared.config.audit_interval } else { Duration::ZERO };
        if complete || slice.is_err() {
            self.audit = AuditRound::new();
        }
        self.due.audit = after(slice, interval, &mut self.troubles.audit);
    }

    /// Compares a slice of the hints with the truth.
    fn audit_slice(&mut self) -> Result<(), Halt> {
        self.lead()?;
        let answer = self.queue.audit(self.me, &mut self.audit, MEND_MAX)?;
        let Some(audited) = self.answered(answer)? else { return Ok(()) };
        if audited.requeued + audited.restored + audited.lists_reaped > 0 {
            log::info!(
                "the audit queued {} units that no list held, restored {} and emptied {} lists",
                audited.requeued,
                audited.restored,
                audited.lists_reaped
            );
        }
        for partition in &audited.dropped {
            log::warn!("{partition} had holes in the queue and is taken up from Kafka's offset");
            self.taken_up.remove(partition);
        }
        Ok(())
    }
}

/// When to do something again that ended like this: after `interval`, or its trouble's pause.
fn after<T>(ended: Result<T, Halt>, interval: Duration, trouble: &mut Trouble) -> Deadline {
    Deadline::within(match ended {
        Ok(_) => {
            trouble.worked();
            interval
        }
        // Whether it works is not known.
        Err(Halt::NotLeader) => interval,
        Err(Halt::Failed(error)) => trouble.failed(&error),
    })
}
