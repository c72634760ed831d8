//! A work queue in memory, for the threads of one process.
//!
//! [`MemoryQueue`] is the life cycle of [`life`](crate::work::life) behind one mutex, with a
//! condition variable for claims that wait. It keeps every rule of [`WorkQueue`], so a program can
//! start with it and move to Redis by configuration; what it cannot do is outlive its process or be
//! seen by another. A process that ends takes the queue with it, and the next starts from
//! the offsets that Kafka holds: duplicates at most.
//!
//! The lock is held for one operation, never while a caller waits. Its clock is monotonic.

use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::clock::{self, Deadline};
use crate::error::Result;
use crate::work::life::Life;
use crate::work::plan::Plan;
use crate::work::queue::{
    Answer, AuditRound, Audited, Begun, CLAIM_WAIT_MAX, DeadUnit, Finished, Init, NextUnit,
    Outcome, PartitionState, Progress, QueueRules, Reaped, Reposition, Repositioned, Reset,
    Steered, WorkQueue,
};
use crate::work::snapshot::{Snapshot, SnapshotLimits};
use crate::work::unit::{LeaderId, LeaseToken, TopicPartition, UnitId, WorkerId};

/// A work queue in memory. Clones share it.
///
/// Unlike Redis, [`WorkQueue::audit`] does a whole round in one call.
#[derive(Clone, Debug)]
pub struct MemoryQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    life: Mutex<Life>,
    pushed: Condvar,
    rules: QueueRules,
    clock: QueueClock,
}

/// Where the queue reads the time.
#[derive(Debug)]
enum QueueClock {
    /// Milliseconds since then.
    Since(Instant),
    /// A test moves it.
    #[cfg(test)]
    Manual(AtomicI64),
}

impl MemoryQueue {
    /// An empty queue.
    pub fn new(rules: QueueRules) -> Self {
        Self::on_clock(rules, QueueClock::Since(clock::now()))
    }

    fn on_clock(rules: QueueRules, clock: QueueClock) -> Self {
        let life = Mutex::new(Life::new(rules));
        Self(Arc::new(Shared { life, pushed: Condvar::new(), rules, clock }))
    }

    /// Milliseconds on the queue's clock.
    fn now(&self) -> i64 {
        match &self.0.clock {
            QueueClock::Since(began) => clock::now().duration_since(*began).as_millis() as i64,
            #[cfg(test)]
            QueueClock::Manual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// One step of the life cycle; wakes those who wait if there is something to pop.
    fn step<T>(&self, step: impl FnOnce(&mut Life, i64) -> T) -> T {
        let now = self.now();
        let mut life = self.0.life.lock();
        let value = step(&mut life, now);
        if life.has_work() {
            self.0.pushed.notify_all();
        }
        value
    }
}

impl Default for MemoryQueue {
    fn default() -> Self {
        Self::new(QueueRules::default())
    }
}

impl WorkQueue for MemoryQueue {
    fn rules(&self) -> &QueueRules {
        &self.0.rules
    }

    fn elect(&self, me: LeaderId) -> Result<bool> {
        Ok(self.step(|life, now| life.elect(me, now)))
    }

    fn resign(&self, me: LeaderId) -> Result<()> {
        self.step(|life, _| life.resign(me));
        Ok(())
    }

    fn partitions(
        &self,
        me: LeaderId,
        of: &[TopicPartition],
    ) -> Result<Answer<Vec<Option<PartitionState>>>> {
        Ok(self.step(|life, now| life.partitions(me, of, now)))
    }

    fn init(&self, me: LeaderId, init: &Init) -> Result<Answer<PartitionState>> {
        Ok(self.step(|life, now| life.init(me, init, now)))
    }

    fn note_committed(
        &self,
        me: LeaderId,
        partition: &TopicPartition,
        low: i64,
    ) -> Result<Answer<()>> {
        Ok(self.step(|life, now| life.note_committed(me, partition, low, now)))
    }

    fn plan(&self, me: LeaderId, plan: &Plan) -> Result<Answer<PartitionState>> {
        Ok(self.step(|life, now| life.plan(me, plan, now)))
    }

    fn reset(&self, me: LeaderId, reset: &Reset) -> Result<Answer<PartitionState>> {
        Ok(self.step(|life, now| life.reset(me, reset, now)))
    }

    fn promote(&self, me: LeaderId, limit: usize) -> Result<Answer<usize>> {
        Ok(self.step(|life, now| life.promote(me, limit, now)))
    }

    fn reap_leases(&self, me: LeaderId, limit: usize) -> Result<Answer<Vec<Reaped>>> {
        Ok(self.step(|life, now| life.reap_leases(me, limit, now)))
    }

    fn reap_workers(&self, me: LeaderId, limit: usize) -> Result<Answer<Vec<WorkerId>>> {
        Ok(self.step(|life, now| life.reap_workers(me, limit, now)))
    }

    fn audit(
        &self,
        me: LeaderId,
        round: &mut AuditRound,
        _limit: usize,
    ) -> Result<Answer<Audited>> {
        Ok(self.step(|life, now| life.audit(me, round, now)))
    }

    fn dead(&self, me: LeaderId, limit: usize) -> Result<Answer<Vec<DeadUnit>>> {
        Ok(self.step(|life, now| life.dead(me, limit, now)))
    }

    fn bury(&self, me: LeaderId, dead: &DeadUnit) -> Result<Answer<()>> {
        Ok(self.step(|life, now| life.bury(me, dead, now)))
    }

    fn heartbeat(&self, worker: &WorkerId) -> Result<()> {
        self.step(|life, now| life.heartbeat(worker, now));
        Ok(())
    }

    fn unregister(&self, worker: &WorkerId) -> Result<()> {
        self.step(|life, _| life.unregister(worker));
        Ok(())
    }

    fn claim(&self, worker: &WorkerId, wait: Duration) -> Result<Option<UnitId>> {
        let deadline = Deadline::within(wait.min(CLAIM_WAIT_MAX)).instant();
        let mut life = self.0.life.lock();
        loop {
            if let Some(unit) = life.claim(worker, self.now()) {
                return Ok(Some(unit));
            }
            if self.0.pushed.wait_until(&mut life, deadline).timed_out() {
                return Ok(life.claim(worker, self.now()));
            }
        }
    }

    fn begin(&self, unit: &UnitId, token: LeaseToken, worker: &WorkerId) -> Result<Begun> {
        Ok(self.step(|life, now| life.begin(unit, token, worker, now)))
    }

    fn renew(&self, unit: &UnitId, token: LeaseToken, progress: &Progress) -> Result<bool> {
        Ok(self.step(|life, now| life.renew(unit, token, progress, now)))
    }

    fn finish(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        progress: &Progress,
        outcome: &Outcome,
    ) -> Result<Finished> {
        Ok(self.step(|life, now| life.finish(unit, token, worker, progress, outcome, now)))
    }

    fn finish_next(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        progress: &Progress,
        outcome: &Outcome,
        next_token: LeaseToken,
    ) -> Result<(Finished, Option<NextUnit>)> {
        Ok(self.step(|life, now| {
            let finished = life.finish(unit, token, worker, progress, outcome, now);
            (finished, life.next(next_token, worker, now))
        }))
    }

    fn give_back(&self, unit: &UnitId, token: LeaseToken, delay: Duration) -> Result<bool> {
        let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX / 4);
        Ok(self.step(|life, now| life.give_back(unit, token, delay_ms, now)))
    }

    fn reposition(&self, me: LeaderId, to: &Reposition) -> Result<Answer<Repositioned>> {
        Ok(self.step(|life, now| life.reposition(me, to, now)))
    }

    fn redrive(&self, of: &TopicPartition, limit: usize) -> Result<Steered> {
        Ok(self.step(|life, now| life.redrive(of, limit, now)))
    }

    fn drop_failed(&self, of: &TopicPartition, limit: usize) -> Result<Steered> {
        Ok(self.step(|life, now| life.drop_failed(of, limit, now)))
    }

    fn snapshot(&self, limits: SnapshotLimits) -> Result<Snapshot> {
        Ok(self.step(|life, now| life.snapshot(limits, now)))
    }
}

#[cfg(test)]
impl MemoryQueue {
    /// A queue whose time stands still but for [`MemoryQueue::advance`].
    pub(crate) fn with_manual_clock(rules: QueueRules) -> Self {
        Self::on_clock(rules, QueueClock::Manual(AtomicI64::new(1_000_000)))
    }

    /// Moves the manual clock.
    pub(crate) fn advance(&self, by: Duration) {
        match &self.0.clock {
            QueueClock::Since(_) => panic!("the clock is real"),
            QueueClock::Manual(now) => {
                now.fetch_add(by.as_millis() as i64, Ordering::Relaxed);
            }
        }
    }

    /// The state itself, to inject faults.
    pub(crate) fn with_life<T>(&self, f: impl FnOnce(&mut Life) -> T) -> T {
        f(&mut self.0.life.lock())
    }
}
