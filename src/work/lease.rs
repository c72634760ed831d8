//! The units that a node holds, and the thread that keeps their leases.
//!
//! ```text
//!   worker thread            ottla-lease                    queue
//!   hold(unit) ──────▶ table ──every third of the lease──▶ renew(position, skips)
//!   done_to(..) ─────▶ position                            heartbeat(worker)
//!   is_lost() ◀─────── lost ◀──────────────── refused ────┘
//!   release(unit) ───▶
//! ```
//!
//! One thread renews for all workers of the node, so a handler that computes for minutes keeps its
//! unit without doing anything for it. A handler that hangs does not: a unit that is held for
//! longer than `unit.max.ms` is not renewed any more, the lease runs out and another worker takes
//! over.
//!
//! The table's mutex is held for moments, never while the queue is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock::{self, Deadline};
use crate::error::Result;
use crate::threads::Stop;
use crate::work::events::{Event, EventSink};
use crate::work::queue::{Progress, QueueRules, Skip, SkipReason, WorkQueue};
use crate::work::trouble::Trouble;
use crate::work::unit::{LeaseToken, UnitId, WorkerId};

/// A lease is renewed after this part of its time, so that two tries may fail.
const RENEW_AFTER_PART: u32 = 3;
/// A worker shows itself after this part of the time after which it counts as dead.
const HEARTBEAT_PART: u32 = 4;
/// Shortest pause of the thread, whatever the settings.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// One unit in hand: what its worker, its handler and the lease thread share.
#[derive(Debug)]
pub(crate) struct Held {
    /// The unit.
    pub(crate) unit: UnitId,
    /// The proof of the lease.
    pub(crate) token: LeaseToken,
    /// The node's clock until which it is renewed.
    renew_until: Deadline,
    position: AtomicI64,
    lost: AtomicBool,
    skips: Mutex<Vec<Skip>>,
}

impl Held {
    /// `unit` under `token`, from `now` on for at most `unit_max`.
    pub(crate) fn new(unit: UnitId, token: LeaseToken, now: Instant, unit_max: Duration) -> Self {
        Self {
            position: AtomicI64::new(unit.start()),
            unit,
            token,
            renew_until: Deadline::after(now, unit_max),
            lost: AtomicBool::new(false),
            skips: Mutex::default(),
        }
    }

    /// Everything before this is done.
    pub(crate) fn position(&self) -> i64 {
        self.position.load(Ordering::Acquire)
    }

    /// Moves the position on to `offset`; it never goes back, nor beyond the unit.
    pub(crate) fn done_to(&self, offset: i64) {
        self.position.fetch_max(offset.min(self.unit.end()), Ordering::AcqRel);
    }

    /// Whether the lease went to another.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// The queue refused.
    pub(crate) fn mark_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Whether a lease that was renewed last before `renew_until` has run out by `now`.
    fn is_surely_over(&self, now: Instant, lease: Duration) -> bool {
        Deadline::after(self.renew_until.instant(), lease).has_passed(now)
    }

    /// Records that `[from, to)` is gone from the log; a position that stands there moves on.
    pub(crate) fn skipped(&self, from: i64, to: i64) {
        self.skips.lock().push(Skip { start: from, end: to, why: SkipReason::Retention });
        let (from, to) = (from.max(self.unit.start()), to.min(self.unit.end()));
        // It stays where it is if the handler is not done with what lies before.
        self.position
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |at| (at == from).then_some(to))
            .ok();
    }

    /// Records that `[from, to)` was given up and that its dead letter is stored.
    pub(crate) fn given_up(&self, from: i64, to: i64) {
        let mut skips = self.skips.lock();
        match skips.last_mut() {
            Some(last) if last.why == SkipReason::DeadLetter && last.end == from => last.end = to,
            _ => skips.push(Skip { start: from, end: to, why: SkipReason::DeadLetter }),
        }
        drop(skips);
    }

    /// How far the unit is done, as the queue wants to know it.
    pub(crate) fn progress(&self) -> Progress {
        let position = self.position();
        let skips = self.skips.lock();
        Progress { position, skips: skips.iter().filter(|s| s.end <= position).copied().collect() }
    }

    /// Whether anything is done.
    pub(crate) fn has_progress(&self) -> bool {
        self.position() > self.unit.start()
    }
}

/// What a node holds, and who its workers are.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    held: Vec<Arc<Held>>,
    workers: Vec<WorkerId>,
}

impl Leases {
    /// `worker` takes units from now on, and shows itself.
    pub(crate) fn register(&self, worker: &WorkerId) {
        self.table.lock().workers.push(worker.clone());
    }

    /// `worker` ended.
    pub(crate) fn unregister(&self, worker: &WorkerId) {
        self.table.lock().workers.retain(|other| other != worker);
    }

    /// `held` is renewed from now on.
    pub(crate) fn hold(&self, held: Arc<Held>) {
        self.table.lock().held.push(held);
    }

    /// `held` is renewed no more.
    pub(crate) fn release(&self, held: &Held) {
        self.table.lock().held.retain(|other| other.token != held.token);
    }

    fn snapshot(&self) -> (Vec<Arc<Held>>, Vec<WorkerId>) {
        let table = self.table.lock();
        (table.held.clone(), table.workers.clone())
    }
}

/// The settings of the thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    lease: Duration,
    worker_timeout: Duration,
}

impl Rhythm {
    /// What the queue's rules ask for.
    pub(crate) fn of(rules: &QueueRules) -> Self {
        Self { lease: rules.lease, worker_timeout: rules.worker_timeout }
    }

    fn pause(self) -> Duration {
        (self.lease / RENEW_AFTER_PART).min(self.worker_timeout / HEARTBEAT_PART).max(PAUSE_MIN)
    }
}

/// Body of the thread `ottla-lease`: renews and shows the workers until `stop`.
pub(crate) fn keep(
    leases: &Leases,
    queue: &dyn WorkQueue,
    rhythm: Rhythm,
    events: &EventSink,
    stop: &Stop,
) {
    let mut trouble = Trouble::new("renewing leases", events.clone());
    let mut overdue: Vec<LeaseToken> = Vec::new();
    loop {
        let pause = match renew_all(leases, queue, events, &mut overdue) {
            Ok(()) => {
                trouble.worked();
                rhythm.pause()
            }
            Err(error) => trouble.failed(&error).min(rhythm.pause()),
        };
        if stop.wait(pause) {
            return;
        }
    }
}

/// Renews every unit once, and shows every worker.
fn renew_all(
    leases: &Leases,
    queue: &dyn WorkQueue,
    events: &EventSink,
    overdue: &mut Vec<LeaseToken>,
) -> Result<()> {
    let (held, workers) = leases.snapshot();
    overdue.retain(|token| held.iter().any(|held| held.token == *token));
    for held in held.iter().filter(|held| !held.is_lost()) {
        if held.renew_until.has_passed(clock::now()) {
            if held.is_surely_over(clock::now(), queue.rules().lease) {
                held.mark_lost();
            }
            if !overdue.contains(&held.token) {
                overdue.push(held.token);
                log::warn!("unit {} is held for too long and is not renewed any more", held.unit);
                events.tell(Event::UnitOverdue { unit: held.unit.clone() });
            }
            continue;
        }
        if !queue.renew(&held.unit, held.token, &held.progress())? {
            // It may have been finished and released since the table was read; then nobody looks
            // at the mark any more.
            held.mark_lost();
        }
    }
    for worker in &workers {
        queue.heartbeat(worker)?;
    }
    Ok(())
}
