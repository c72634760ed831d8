//! One partition, one organiser that holds the lock, and two workers, on a queue under test.

use std::time::Duration;

use crate::protocol::Uuid;
use crate::work::plan::{Decision, LogRange, Plan, PlanRules, plan};
use crate::work::queue::{
    Answer, AuditRound, Audited, Begun, Finished, Init, Lease, NextUnit, Outcome, PartitionState,
    Progress, Settled, Skip, SkipReason, WorkQueue,
};
use crate::work::snapshot::{PartitionSnapshot, Snapshot, SnapshotLimits};
use crate::work::tests::rig::Rig;
use crate::work::unit::{LeaderId, LeaseToken, TopicPartition, UnitId, WorkerId};

pub(super) const TOPIC: Uuid = Uuid([1; 16]);
pub(super) const OTHER_TOPIC: Uuid = Uuid([2; 16]);
pub(super) const LIMIT: usize = 100;

/// One partition, one organiser that holds the lock, two workers.
pub(super) struct Bench<'a> {
    pub(super) rig: &'a dyn Rig,
    pub(super) me: LeaderId,
    pub(super) of: TopicPartition,
    pub(super) one: WorkerId,
    pub(super) two: WorkerId,
}

impl<'a> Bench<'a> {
    /// Nothing is taken up yet.
    pub(super) fn empty(rig: &'a dyn Rig) -> Self {
        let of = TopicPartition::new("t", 0).unwrap();
        let (one, two) = (WorkerId::unique("one").unwrap(), WorkerId::unique("two").unwrap());
        let bench = Self { rig, me: LeaderId::random(), of, one, two };
        assert!(bench.queue().elect(bench.me).unwrap());
        bench
    }

    /// `units` units of 10 offsets are queued.
    pub(super) fn with_units(rig: &'a dyn Rig, units: i64) -> Self {
        let bench = Self::empty(rig);
        bench.init(0, 0);
        bench.note(0);
        bench.plan(0, units * 10);
        bench
    }

    pub(super) fn queue(&self) -> &'a dyn WorkQueue {
        self.rig.queue()
    }

    pub(super) fn unit(&self, start: i64, end: i64) -> UnitId {
        self.of.unit(start, end).unwrap()
    }

    pub(super) fn init(&self, first: i64, log_start: i64) {
        let init = Init { partition: self.of.clone(), topic_id: TOPIC, first, log_start };
        assert!(matches!(self.queue().init(self.me, &init).unwrap(), Answer::Done(_)));
    }

    pub(super) fn note(&self, low: i64) {
        let noted = self.queue().note_committed(self.me, &self.of, low).unwrap();
        assert_eq!(noted, Answer::Done(()));
    }

    pub(super) fn state(&self) -> PartitionState {
        self.queue()
            .partitions(self.me, std::slice::from_ref(&self.of))
            .unwrap()
            .done()
            .expect("the leader asks")[0]
            .expect("the partition is taken up")
    }

    /// A plan made from what the queue holds now.
    pub(super) fn planned(&self, log_start: i64, end: i64) -> Plan {
        let log = LogRange { topic_id: TOPIC, start: log_start, end, leader_epoch: 0 };
        let rules = PlanRules { unit_size: 10, ..PlanRules::default() };
        match plan(rules, &self.of, &self.state(), log).unwrap() {
            Decision::Plan(plan) => plan,
            other => panic!("{other:?}"),
        }
    }

    /// A plan that is made as if the first offset were in Kafka already.
    pub(super) fn plan_of(of: &TopicPartition, from: i64, end: i64) -> Plan {
        let log = LogRange { topic_id: TOPIC, start: 0, end, leader_epoch: 0 };
        let state = PartitionState {
            topic_id: TOPIC,
            planned: from,
            low: from,
            committed: true,
            leader_epoch: 0,
            outstanding: 0,
        };
        match plan(PlanRules::default(), of, &state, log).unwrap() {
            Decision::Plan(plan) => plan,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn plan(&self, log_start: i64, end: i64) {
        let plan = self.planned(log_start, end);
        assert!(matches!(self.queue().plan(self.me, &plan).unwrap(), Answer::Done(_)));
    }

    pub(super) fn claim(&self, worker: &WorkerId) -> Option<UnitId> {
        self.queue().claim(worker, Duration::ZERO).unwrap()
    }

    pub(super) fn begin(&self, unit: &UnitId, worker: &WorkerId) -> (LeaseToken, Begun) {
        let token = LeaseToken::random();
        (token, self.queue().begin(unit, token, worker).unwrap())
    }

    /// Claims and begins the next unit; stale hints are passed over as a worker does.
    pub(super) fn take(&self, worker: &WorkerId) -> (UnitId, LeaseToken, Lease) {
        loop {
            let unit = self.claim(worker).expect("a unit");
            if let (token, Begun::Leased(lease)) = self.begin(&unit, worker) {
                return (unit, token, lease);
            }
        }
    }

    pub(super) fn finish(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        to: i64,
    ) -> Finished {
        let progress = Progress::to(to);
        self.queue().finish(unit, token, worker, &progress, &Outcome::Handled).unwrap()
    }

    /// Finishes all of `unit` and begins the next one under `next`.
    pub(super) fn finish_next(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        next: LeaseToken,
    ) -> (Finished, Option<NextUnit>) {
        let progress = Progress::to(unit.end());
        self.queue().finish_next(unit, token, worker, &progress, &Outcome::Handled, next).unwrap()
    }

    pub(super) fn fail(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        to: i64,
    ) -> Finished {
        let outcome = Outcome::Failed { why: "on purpose".into() };
        self.queue().finish(unit, token, worker, &Progress::to(to), &outcome).unwrap()
    }

    /// Time passes; the organiser keeps its lock.
    pub(super) fn wait(&self, seconds: u64) {
        self.rig.advance(Duration::from_secs(seconds));
        assert!(self.queue().elect(self.me).unwrap());
    }

    pub(super) fn promote(&self) -> usize {
        self.queue().promote(self.me, LIMIT).unwrap().done().expect("the leader asks")
    }

    pub(super) fn reap(&self) {
        self.queue().reap_leases(self.me, LIMIT).unwrap().done().expect("the leader asks");
        self.queue().reap_workers(self.me, LIMIT).unwrap().done().expect("the leader asks");
    }

    /// A whole round, in slices of `limit`.
    pub(super) fn audit(&self, limit: usize) -> Audited {
        let (mut round, mut audited) = (AuditRound::new(), Audited::default());
        for _ in 0..100_000 {
            if round.is_complete() {
                return audited;
            }
            let slice = self.queue().audit(self.me, &mut round, limit).unwrap();
            audited.add(slice.done().expect("the leader asks"));
        }
        panic!("the round does not end: {round:?}");
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.queue().snapshot(SnapshotLimits::default()).unwrap()
    }

    pub(super) fn part(&self) -> PartitionSnapshot {
        self.snapshot().partitions.pop().expect("the partition")
    }

    /// Everything that is left is handled by `worker`; then all up to `end` is done.
    pub(super) fn drain(&self, worker: &WorkerId, end: i64) {
        for _ in 0..100 {
            let Some(unit) = self.claim(worker) else { break };
            if let (token, Begun::Leased(_)) = self.begin(&unit, worker) {
                let done = self.finish(&unit, token, worker, unit.end());
                assert_eq!(done, Finished::Settled(Settled::Complete));
            }
        }
        assert_eq!((self.state().low, self.state().outstanding), (end, 0));
    }
}

pub(super) fn retention(start: i64, end: i64) -> Skip {
    Skip { start, end, why: SkipReason::Retention }
}

/// Declares each test once; it runs on every queue.
macro_rules! on_every_queue {
    ($($(#[$doc:meta])* fn $name:ident($rig:ident) $body:block)*) => {
        $($(#[$doc])* fn $name($rig: &dyn Rig) $body)*

        mod memory {
            $(#[test] fn $name() { super::$name(&crate::work::tests::rig::MemoryRig::new()) })*
        }

        #[cfg(feature = "real-servers")]
        mod redis {
            $(#[test] fn $name() { super::$name(&crate::work::tests::rig::RedisRig::new()) })*
        }
    };
}

pub(super) use on_every_queue;
