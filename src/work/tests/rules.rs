//! Every rule by name, and every hole of the natural reading, on each queue.

use std::time::Duration;

use crate::protocol::Uuid;
use crate::work::plan::{
    CommittedOffset, Decision, LogRange, Plan, PlanRules, StartFacts, first_offset, plan,
};
use crate::work::queue::{
    Answer, AuditRound, Audited, Begun, Finished, Init, Lease, Outcome, PartitionState, Progress,
    Reset, Settled, Skip, SkipReason, WorkQueue,
};
use crate::work::snapshot::{PartitionSnapshot, Snapshot, SnapshotLimits, UnitState};
use crate::work::tests::rig::{Loss, Rig, rules};
use crate::work::unit::{LeaderId, LeaseToken, TopicPartition, UnitId, WorkerId};

const TOPIC: Uuid = Uuid([1; 16]);
const OTHER_TOPIC: Uuid = Uuid([2; 16]);
const LIMIT: usize = 100;

/// One partition, one organiser that holds the lock, two workers.
struct Bench<'a> {
    rig: &'a dyn Rig,
    me: LeaderId,
    of: TopicPartition,
    one: WorkerId,
    two: WorkerId,
}

impl<'a> Bench<'a> {
    /// Nothing is taken up yet.
    fn empty(rig: &'a dyn Rig) -> Self {
        let of = TopicPartition::new("t", 0).unwrap();
        let (one, two) = (WorkerId::unique("one").unwrap(), WorkerId::unique("two").unwrap());
        let bench = Self { rig, me: LeaderId::random(), of, one, two };
        assert!(bench.queue().elect(bench.me).unwrap());
        bench
    }

    /// `units` units of 10 offsets are queued.
    fn with_units(rig: &'a dyn Rig, units: i64) -> Self {
        let bench = Self::empty(rig);
        bench.init(0, 0);
        bench.note(0);
        bench.plan(0, units * 10);
        bench
    }

    fn queue(&self) -> &'a dyn WorkQueue {
        self.rig.queue()
    }

    fn unit(&self, start: i64, end: i64) -> UnitId {
        self.of.unit(start, end).unwrap()
    }

    fn init(&self, first: i64, log_start: i64) {
        let init = Init { partition: self.of.clone(), topic_id: TOPIC, first, log_start };
        assert!(matches!(self.queue().init(self.me, &init).unwrap(), Answer::Done(_)));
    }

    fn note(&self, low: i64) {
        let noted = self.queue().note_committed(self.me, &self.of, low).unwrap();
        assert_eq!(noted, Answer::Done(()));
    }

    fn state(&self) -> PartitionState {
        self.queue()
            .partitions(self.me, std::slice::from_ref(&self.of))
            .unwrap()
            .done()
            .expect("the leader asks")[0]
            .expect("the partition is taken up")
    }

    /// A plan made from what the queue holds now.
    fn planned(&self, log_start: i64, end: i64) -> Plan {
        let log = LogRange { topic_id: TOPIC, start: log_start, end, leader_epoch: 0 };
        let rules = PlanRules { unit_size: 10, ..PlanRules::default() };
        match plan(rules, &self.of, &self.state(), log).unwrap() {
            Decision::Plan(plan) => plan,
            other => panic!("{other:?}"),
        }
    }

    fn plan(&self, log_start: i64, end: i64) {
        let plan = self.planned(log_start, end);
        assert!(matches!(self.queue().plan(self.me, &plan).unwrap(), Answer::Done(_)));
    }

    fn claim(&self, worker: &WorkerId) -> Option<UnitId> {
        self.queue().claim(worker, Duration::ZERO).unwrap()
    }

    fn begin(&self, unit: &UnitId, worker: &WorkerId) -> (LeaseToken, Begun) {
        let token = LeaseToken::random();
        (token, self.queue().begin(unit, token, worker).unwrap())
    }

    /// Claims and begins the next unit; stale hints are passed over as a worker does.
    fn take(&self, worker: &WorkerId) -> (UnitId, LeaseToken, Lease) {
        loop {
            let unit = self.claim(worker).expect("a unit");
            if let (token, Begun::Leased(lease)) = self.begin(&unit, worker) {
                return (unit, token, lease);
            }
        }
    }

    fn finish(&self, unit: &UnitId, token: LeaseToken, worker: &WorkerId, to: i64) -> Finished {
        let progress = Progress::to(to);
        self.queue().finish(unit, token, worker, &progress, &Outcome::Handled).unwrap()
    }

    fn fail(&self, unit: &UnitId, token: LeaseToken, worker: &WorkerId, to: i64) -> Finished {
        let outcome = Outcome::Failed { why: "on purpose".into() };
        self.queue().finish(unit, token, worker, &Progress::to(to), &outcome).unwrap()
    }

    /// Time passes; the organiser keeps its lock.
    fn wait(&self, seconds: u64) {
        self.rig.advance(Duration::from_secs(seconds));
        assert!(self.queue().elect(self.me).unwrap());
    }

    fn promote(&self) -> usize {
        self.queue().promote(self.me, LIMIT).unwrap().done().expect("the leader asks")
    }

    fn reap(&self) {
        self.queue().reap_leases(self.me, LIMIT).unwrap().done().expect("the leader asks");
        self.queue().reap_workers(self.me, LIMIT).unwrap().done().expect("the leader asks");
    }

    /// A whole round, in slices of `limit`.
    fn audit(&self, limit: usize) -> Audited {
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

    fn snapshot(&self) -> Snapshot {
        self.queue().snapshot(SnapshotLimits::default()).unwrap()
    }

    fn part(&self) -> PartitionSnapshot {
        self.snapshot().partitions.pop().expect("the partition")
    }

    /// Everything that is left is handled by `worker`; then all up to `end` is done.
    fn drain(&self, worker: &WorkerId, end: i64) {
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

fn retention(start: i64, end: i64) -> Skip {
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

on_every_queue! {
    fn units_come_in_order_and_low_follows(rig) {
        let bench = Bench::with_units(rig, 3);
        let (first, first_token, lease) = bench.take(&bench.one);
        assert_eq!((first.to_string().as_str(), lease.attempt, lease.is_last), ("t/0/0-10", 1, false));
        assert_eq!(lease.topic_id, TOPIC);
        let (second, second_token, _) = bench.take(&bench.two);
        bench.finish(&second, second_token, &bench.two, 20);
        assert_eq!((bench.state().low, bench.part().done), (0, vec![(10, 20)]));
        bench.finish(&first, first_token, &bench.one, 10);
        assert_eq!((bench.state().low, bench.part().done), (20, vec![]));
        bench.drain(&bench.one, 30);
        assert_eq!(bench.snapshot().completed_logged, 3);
    }

    fn done_ranges_that_touch_are_one(rig) {
        let bench = Bench::with_units(rig, 6);
        let taken: Vec<_> = (0..6).map(|n| {
            let worker: WorkerId = format!("w-{n}").parse().unwrap();
            (bench.take(&worker), worker)
        }).collect();
        for n in [2, 4, 5, 3, 1] {
            let ((unit, token, _), worker) = &taken[n];
            bench.finish(unit, *token, worker, unit.end());
        }
        assert_eq!(bench.part().done, [(10, 60)]);
        let ((unit, token, _), worker) = &taken[0];
        bench.finish(unit, *token, worker, 10);
        assert_eq!((bench.state().low, bench.part().done), (60, vec![]));
    }

    fn a_unit_that_was_handled_in_part_leaves_the_rest(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, token, _) = bench.take(&bench.one);
        let rest = bench.unit(4, 10);
        let settled = bench.finish(&unit, token, &bench.one, 4);
        assert_eq!(settled, Finished::Settled(Settled::Remainder(rest.clone())));
        assert_eq!(bench.state().low, 4);
        let (unit, token, lease) = bench.take(&bench.two);
        assert_eq!((unit.clone(), lease.attempt), (rest, 1));
        // A failure with progress: the rest waits, with its attempts counted from zero.
        let settled = bench.fail(&unit, token, &bench.two, 7);
        assert_eq!(settled, Finished::Settled(Settled::Remainder(bench.unit(7, 10))));
        assert_eq!(bench.claim(&bench.one), None);
        bench.wait(5);
        assert_eq!(bench.promote(), 1);
        bench.drain(&bench.one, 10);
    }

    fn failures_wait_longer_each_time_and_end_as_dead(rig) {
        let bench = Bench::with_units(rig, 2);
        for (attempt, wait) in [(1, 5), (2, 10)] {
            let (unit, token, lease) = bench.take(&bench.one);
            assert_eq!((unit.start(), lease.attempt, lease.is_last), (0, attempt, false));
            bench.fail(&unit, token, &bench.one, 0);
            bench.rig.advance(Duration::from_secs(wait - 5));
            bench.wait(0);
            assert_eq!(bench.promote(), usize::from(wait == 5 && attempt > 1));
            bench.wait(5);
            assert_eq!(bench.promote(), 1);
            // The other unit is older in the list: set aside for this test.
            let other = bench.claim(&bench.two);
            assert!(attempt > 1 || other == Some(bench.unit(10, 20)));
        }
        let (unit, token, lease) = bench.take(&bench.one);
        assert_eq!((lease.attempt, lease.is_last), (3, true));
        assert_eq!(bench.fail(&unit, token, &bench.one, 0), Finished::Settled(Settled::Dead));
        assert_eq!(bench.part().count(UnitState::Dead), 1);
        // Nobody gets it any more.
        bench.wait(100);
        bench.reap();
        assert_eq!(bench.promote(), 0);
        assert!(matches!(bench.begin(&unit, &bench.one).1, Begun::Taken));
    }

    fn no_progress_without_a_failure_counts_as_one(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, token, _) = bench.take(&bench.one);
        assert_eq!(bench.finish(&unit, token, &bench.one, 0), Finished::Settled(Settled::Delayed));
        assert!(bench.part().units[0].error.contains("without progress"));
    }

    fn a_unit_given_back_keeps_its_attempts_and_its_progress(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, token, _) = bench.take(&bench.one);
        assert!(bench.queue().give_back(&unit, token, Duration::from_secs(5)).unwrap());
        assert!(!bench.queue().give_back(&unit, token, Duration::ZERO).unwrap());
        assert_eq!(bench.claim(&bench.one), None);
        bench.wait(5);
        bench.promote();
        let (unit, token, lease) = bench.take(&bench.two);
        assert_eq!(lease.attempt, 1);
        assert!(bench.queue().renew(&unit, token, &Progress::to(6)).unwrap());
        assert!(bench.queue().give_back(&unit, token, Duration::ZERO).unwrap());
        let (unit, _, lease) = bench.take(&bench.one);
        assert_eq!((unit.start(), lease.attempt, bench.state().low), (6, 1, 6));
    }

    fn a_renewed_lease_lasts_and_keeps_the_progress_of_a_crash(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, token, _) = bench.take(&bench.one);
        bench.wait(20);
        assert!(bench.queue().renew(&unit, token, &Progress::to(4)).unwrap());
        bench.wait(20);
        bench.reap();
        assert!(bench.queue().renew(&unit, token, &Progress::to(2)).unwrap());
        assert_eq!(bench.part().units[0].position, 4);
        bench.wait(30);
        let reaped = bench.queue().reap_leases(bench.me, LIMIT).unwrap().done().unwrap();
        assert_eq!(reaped.len(), 1);
        assert_eq!(reaped[0].settled, Settled::Remainder(bench.unit(4, 10)));
        assert_eq!(bench.state().low, 4);
        assert!(!bench.queue().renew(&unit, token, &Progress::to(9)).unwrap());
    }

    fn skips_are_recorded_once_however_often_they_are_told(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, token, _) = bench.take(&bench.one);
        let progress = Progress { position: 5, skips: vec![retention(0, 3), retention(4, 50)] };
        for _ in 0..2 {
            assert!(bench.queue().renew(&unit, token, &progress).unwrap());
        }
        assert_eq!(bench.part().skipped, [(SkipReason::Retention, 4)]);
        let progress = Progress { position: 99, skips: vec![retention(0, 99)] };
        let done = bench.queue().finish(&unit, token, &bench.one, &progress, &Outcome::Handled);
        assert_eq!(done.unwrap(), Finished::Settled(Settled::Complete));
        assert_eq!(bench.part().skipped, [(SkipReason::Retention, 9)]);
        let ranges: Vec<_> = bench.snapshot().skipped.into_iter().map(|e| e.range).collect();
        assert_eq!(ranges, ["t/0/5-10", "t/0/4-5", "t/0/0-3"]);
    }

    fn a_worker_that_ends_gives_back_what_it_had_not_begun(rig) {
        let bench = Bench::with_units(rig, 1);
        bench.queue().heartbeat(&bench.one).unwrap();
        assert_eq!(bench.snapshot().workers.len(), 1);
        let unit = bench.claim(&bench.one).unwrap();
        bench.queue().unregister(&bench.one).unwrap();
        assert!(bench.snapshot().workers.is_empty());
        assert_eq!(bench.claim(&bench.two), Some(unit));
    }

    fn a_silent_worker_is_reaped_and_another_on_its_host_is_not(rig) {
        let bench = Bench::with_units(rig, 2);
        let unit = bench.claim(&bench.one).unwrap();
        bench.queue().heartbeat(&bench.one).unwrap();
        bench.wait(40);
        let (theirs, token, _) = bench.take(&bench.two);
        bench.wait(20);
        let reaped = bench.queue().reap_workers(bench.me, LIMIT).unwrap().done().unwrap();
        assert_eq!(reaped, std::slice::from_ref(&bench.one));
        assert!(bench.queue().renew(&theirs, token, &Progress::to(10)).unwrap());
        assert_eq!(bench.claim(&"three".parse().unwrap()), Some(unit));
    }

    fn an_entry_that_is_no_unit_is_set_aside(rig) {
        let bench = Bench::with_units(rig, 1);
        rig.push_hint("t/0/no-unit");
        rig.push_hint("t/0/00-5");
        assert_eq!(bench.claim(&bench.one), Some(bench.unit(0, 10)));
        let errors: Vec<_> = bench.snapshot().errors.into_iter().map(|e| e.unit).collect();
        assert_eq!(errors, ["t/0/no-unit", "t/0/00-5"]);
    }

    fn the_lock_is_one_organisers_at_a_time(rig) {
        let bench = Bench::with_units(rig, 1);
        let other = LeaderId::random();
        assert!(!bench.queue().elect(other).unwrap());
        assert_eq!(bench.snapshot().leader, Some(bench.me.to_string()));
        bench.queue().resign(other).unwrap();
        assert!(bench.queue().elect(bench.me).unwrap());
        rig.advance(Duration::from_secs(20));
        assert!(bench.queue().elect(other).unwrap());
        assert!(!bench.queue().elect(bench.me).unwrap());
        bench.queue().resign(other).unwrap();
        assert!(bench.queue().elect(bench.me).unwrap());
    }

    /// Every operation of an organiser compares the lock.
    fn nothing_is_done_for_an_organiser_without_the_lock(rig) {
        let bench = Bench::with_units(rig, 1);
        let plan = bench.planned(0, 30);
        let (unit, token, _) = bench.take(&bench.one);
        rig.advance(Duration::from_secs(100));
        let before = bench.snapshot();
        let (queue, me, of) = (bench.queue(), bench.me, bench.of.clone());
        let init = Init { partition: of.clone(), topic_id: TOPIC, first: 0, log_start: 0 };
        let reset = Reset {
            partition: of.clone(), old_topic_id: TOPIC, new_topic_id: OTHER_TOPIC, log_start: 0,
        };
        let dead = crate::work::queue::DeadUnit {
            unit: unit.clone(), topic_id: TOPIC, attempts: 1, owner: String::new(), error: String::new(),
        };
        assert_eq!(queue.partitions(me, std::slice::from_ref(&of)).unwrap(), Answer::NotLeader);
        assert_eq!(queue.init(me, &init).unwrap(), Answer::NotLeader);
        assert_eq!(queue.note_committed(me, &of, 0).unwrap(), Answer::NotLeader);
        assert_eq!(queue.plan(me, &plan).unwrap(), Answer::NotLeader);
        assert_eq!(queue.reset(me, &reset).unwrap(), Answer::NotLeader);
        assert_eq!(queue.promote(me, LIMIT).unwrap(), Answer::NotLeader);
        assert_eq!(queue.reap_leases(me, LIMIT).unwrap(), Answer::NotLeader);
        assert_eq!(queue.reap_workers(me, LIMIT).unwrap(), Answer::NotLeader);
        assert_eq!(queue.audit(me, &mut AuditRound::new(), LIMIT).unwrap(), Answer::NotLeader);
        assert_eq!(queue.dead(me, LIMIT).unwrap(), Answer::NotLeader);
        assert_eq!(queue.bury(me, &dead).unwrap(), Answer::NotLeader);
        assert_eq!(bench.snapshot(), before);
        assert!(queue.renew(&unit, token, &Progress::to(1)).unwrap());
    }

    /// Hole 1: a pop's answer is lost and the worker lives on.
    fn hole_1_a_lost_pop_is_answered_by_the_own_list(rig) {
        let bench = Bench::with_units(rig, 2);
        let lost = bench.claim(&bench.one);
        assert_eq!(bench.claim(&bench.one), lost);
        bench.drain(&bench.one, 20);
    }

    /// Hole 2: the store serves a dead connection's parked pop after that worker was reaped.
    fn hole_2_a_pop_for_nobody_is_found_by_the_audit(rig) {
        let bench = Bench::with_units(rig, 2);
        bench.queue().heartbeat(&bench.one).unwrap();
        bench.wait(100);
        bench.reap();
        let parked = bench.claim(&bench.one).unwrap();
        let audited = bench.audit(1);
        assert_eq!((audited.lists_reaped, audited.requeued), (1, 1), "requeued by either half");
        bench.drain(&bench.two, 20);
        // The other half: it is in no list at all.
        bench.plan(0, 30);
        assert_eq!(bench.claim(&bench.one).map(|u| u.start()), Some(20));
        rig.lose(&Loss::List(bench.one.clone()));
        assert_eq!(bench.audit(1).requeued, 1);
        bench.drain(&bench.two, 30);
        assert_eq!(parked.start(), 0);
    }

    /// Hole 3: popped, list reaped, begun, finished; then the second copy is begun.
    fn hole_3_a_second_copy_of_a_finished_unit_is_gone(rig) {
        let bench = Bench::with_units(rig, 1);
        bench.queue().heartbeat(&bench.one).unwrap();
        let unit = bench.claim(&bench.one).unwrap();
        bench.wait(100);
        bench.reap();
        // The worker was only slow.
        let (token, begun) = bench.begin(&unit, &bench.one);
        assert!(matches!(begun, Begun::Leased(_)));
        let copy = bench.claim(&bench.two).unwrap();
        assert!(matches!(bench.begin(&copy, &bench.two).1, Begun::Taken));
        rig.push_hint(&copy.to_string());
        bench.finish(&unit, token, &bench.one, 10);
        let copy = bench.claim(&bench.two).unwrap();
        assert!(matches!(bench.begin(&copy, &bench.two).1, Begun::Gone));
        bench.drain(&bench.two, 10);
    }

    /// Hole 4: the store goes back; a refused finish must not remove the hint of a queued unit.
    fn hole_4_a_refused_finish_leaves_a_queued_unit_its_hint(rig) {
        let bench = Bench::with_units(rig, 1);
        let unit = bench.claim(&bench.one).unwrap();
        let go_back = rig.save();
        let (token, _) = bench.begin(&unit, &bench.one);
        go_back();
        assert_eq!(bench.finish(&unit, token, &bench.one, 10), Finished::Refused);
        assert_eq!(bench.claim(&bench.one), Some(unit));
        bench.drain(&bench.one, 10);
    }

    /// Hole 5: lost answers must not use up the attempts.
    fn hole_5_the_same_token_is_the_same_attempt(rig) {
        let bench = Bench::with_units(rig, 1);
        let unit = bench.claim(&bench.one).unwrap();
        let token = LeaseToken::random();
        let answers: Vec<_> =
            (0..10).map(|_| bench.queue().begin(&unit, token, &bench.one).unwrap()).collect();
        assert!(answers.iter().all(|answer| matches!(answer, Begun::Leased(l) if l.attempt == 1)));
        assert_eq!(bench.finish(&unit, token, &bench.one, 10), Finished::Settled(Settled::Complete));
    }

    /// Hole 6: after an emptied store an old finish is refused for another's lease of the same attempt.
    fn hole_6_an_old_token_does_not_finish_anothers_lease(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, old, _) = bench.take(&bench.one);
        rig.lose(&Loss::Everything);
        bench.wait(0);
        bench.init(0, 0);
        bench.note(0);
        bench.plan(0, 10);
        let (again, new, lease) = bench.take(&bench.two);
        assert_eq!((again.clone(), lease.attempt), (unit.clone(), 1));
        assert_eq!(bench.finish(&unit, old, &bench.one, 10), Finished::Refused);
        assert!(!bench.queue().renew(&unit, old, &Progress::to(10)).unwrap());
        assert!(!bench.queue().give_back(&unit, old, Duration::ZERO).unwrap());
        assert_eq!(bench.finish(&again, new, &bench.two, 10), Finished::Settled(Settled::Complete));
    }

    /// Hole 7: a record that kills its process does not come back for ever.
    fn hole_7_the_attempt_limit_holds_for_the_reaper(rig) {
        let bench = Bench::with_units(rig, 1);
        for attempt in 1..=rules().max_attempts {
            let worker = WorkerId::unique("victim").unwrap();
            assert_eq!(bench.take(&worker).2.attempt, attempt);
            bench.wait(30);
            bench.reap();
            bench.wait(40);
            bench.promote();
        }
        assert_eq!(bench.part().count(UnitState::Dead), 1);
        assert_eq!(bench.claim(&bench.one), None);
    }

    /// Hole 8: the lease's reaper finds the worker's list reaped already.
    fn hole_8_a_lease_is_reaped_without_its_list(rig) {
        let bench = Bench::with_units(rig, 1);
        bench.take(&bench.one);
        rig.lose(&Loss::List(bench.one.clone()));
        bench.wait(100);
        bench.reap();
        bench.wait(40);
        assert_eq!(bench.promote(), 1);
        bench.drain(&bench.two, 10);
    }

    /// Hole 9: two planners.
    fn hole_9_of_two_plans_from_one_offset_one_is_accepted(rig) {
        let bench = Bench::with_units(rig, 1);
        let (short, long) = (bench.planned(0, 15), bench.planned(0, 30));
        assert!(matches!(bench.queue().plan(bench.me, &long).unwrap(), Answer::Done(_)));
        assert_eq!(bench.queue().plan(bench.me, &short).unwrap(), Answer::Stale);
        let other = LeaderId::random();
        assert_eq!(bench.queue().plan(other, &bench.planned(0, 40)).unwrap(), Answer::NotLeader);
        bench.drain(&bench.one, 30);
    }

    /// Hole 10: a plan made before the topic was made anew.
    fn hole_10_a_plan_for_another_topic_id_is_stale(rig) {
        let bench = Bench::empty(rig);
        bench.init(0, 0);
        bench.note(0);
        let old = bench.planned(0, 10);
        let reset = Reset {
            partition: bench.of.clone(), old_topic_id: TOPIC, new_topic_id: OTHER_TOPIC, log_start: 0,
        };
        assert!(matches!(bench.queue().reset(bench.me, &reset).unwrap(), Answer::Done(_)));
        assert_eq!(bench.queue().reset(bench.me, &reset).unwrap(), Answer::Stale);
        bench.note(0);
        assert_eq!(bench.queue().plan(bench.me, &old).unwrap(), Answer::Stale);
        assert_eq!(bench.state().planned, 0);
    }

    /// Hole 11: retention passes the planned offset.
    fn hole_11_what_retention_took_is_done_and_recorded(rig) {
        let bench = Bench::with_units(rig, 1);
        bench.plan(25, 30);
        assert_eq!(bench.part().done, [(10, 25)]);
        assert_eq!(bench.part().skipped, [(SkipReason::Retention, 15)]);
        assert_eq!(bench.snapshot().skipped[0].range, "t/0/10-25");
        bench.drain(&bench.one, 30);
        // And with nothing outstanding, low follows at once, also without a unit.
        bench.plan(35, 35);
        assert_eq!((bench.state().low, bench.state().planned), (35, 35));
    }

    /// Hole 12: the store is lost before the first commit, and the policy is latest.
    fn hole_12_nothing_is_planned_before_the_first_offset_is_in_kafka(rig) {
        let bench = Bench::empty(rig);
        let facts = StartFacts { committed: None, sisters_committed: false, reset_to: 40 };
        let log = LogRange { topic_id: TOPIC, start: 0, end: 40, leader_epoch: 0 };
        bench.init(first_offset(facts, log), 0);
        let log = LogRange { end: 50, ..log };
        let decision = plan(PlanRules::default(), &bench.of, &bench.state(), log).unwrap();
        assert_eq!(decision, Decision::FirstCommitMissing);
        // A plan from a state that claims the commit is refused by the queue itself.
        let hopeful = PartitionState { committed: true, ..bench.state() };
        let Decision::Plan(made) = plan(PlanRules::default(), &bench.of, &hopeful, log).unwrap()
        else {
            panic!("no plan")
        };
        assert_eq!(bench.queue().plan(bench.me, &made).unwrap(), Answer::Stale);
        bench.note(40);
        assert!(matches!(bench.queue().plan(bench.me, &made).unwrap(), Answer::Done(_)));
        // Lost now, it starts where it was committed, whatever the policy says.
        let committed = Some(CommittedOffset { offset: 40, topic_id: Some(TOPIC) });
        assert_eq!(first_offset(StartFacts { committed, ..facts }, log), 40);
    }

    /// Hole 13: a late note for an older start.
    fn hole_13_a_late_note_of_another_low_does_not_count(rig) {
        let bench = Bench::empty(rig);
        bench.init(40, 0);
        rig.lose(&Loss::Everything);
        bench.wait(0);
        bench.init(55, 0);
        let late = bench.queue().note_committed(bench.me, &bench.of, 40).unwrap();
        assert_eq!((late, bench.state().committed), (Answer::Stale, false));
        bench.note(55);
        assert!(bench.state().committed);
    }

    /// Holes 15 and 14 in what the queue gives for them: low is read under the lock, by the organiser that is
    /// about to commit, as often as it reads Kafka's value back.
    fn hole_15_low_is_read_under_the_lock(rig) {
        let bench = Bench::with_units(rig, 1);
        let of = std::slice::from_ref(&bench.of);
        assert_eq!(bench.state().low, 0);
        bench.drain(&bench.one, 10);
        assert_eq!(bench.state().low, 10);
        let unknown = TopicPartition::new("t", 7).unwrap();
        let both = [bench.of.clone(), unknown];
        let states = bench.queue().partitions(bench.me, &both).unwrap().done().unwrap();
        assert!(states[0].is_some() && states[1].is_none());
        rig.advance(Duration::from_secs(100));
        assert_eq!(bench.queue().partitions(bench.me, of).unwrap(), Answer::NotLeader);
    }

    /// Holes 16 and 17: a commit lands after the topic was made anew, or the old id's overwrites the new one.
    fn hole_16_and_17_a_commit_labelled_with_another_id_leads_to_the_log_start(rig) {
        let bench = Bench::empty(rig);
        let committed = Some(CommittedOffset { offset: 40, topic_id: Some(OTHER_TOPIC) });
        let facts = StartFacts { committed, sisters_committed: true, reset_to: 60 };
        let log = LogRange { topic_id: TOPIC, start: 3, end: 60, leader_epoch: 0 };
        bench.init(first_offset(facts, log), log.start);
        assert_eq!((bench.state().low, bench.part().skipped.len()), (3, 0));
    }

    /// Hole 18: an old unit reads the new topic by its name.
    fn hole_18_a_lease_names_the_topic_id_and_does_not_outlive_the_topic(rig) {
        let bench = Bench::with_units(rig, 2);
        let (unit, token, lease) = bench.take(&bench.one);
        assert_eq!(lease.topic_id, TOPIC);
        let waiting = bench.claim(&bench.two).unwrap();
        let reset = Reset {
            partition: bench.of.clone(), old_topic_id: TOPIC, new_topic_id: OTHER_TOPIC, log_start: 0,
        };
        bench.queue().reset(bench.me, &reset).unwrap();
        assert_eq!(bench.finish(&unit, token, &bench.one, 10), Finished::Refused);
        assert!(matches!(bench.begin(&waiting, &bench.two).1, Begun::Gone));
        assert_eq!((bench.state().low, bench.state().topic_id), (0, OTHER_TOPIC));
        assert_eq!(bench.part().skipped, [(SkipReason::TopicRecreated, 20)]);
        // A unit of the same name in the new topic has nothing of the old one.
        bench.note(0);
        let log = LogRange { topic_id: OTHER_TOPIC, start: 0, end: 10, leader_epoch: 0 };
        let rules = PlanRules { unit_size: 10, ..PlanRules::default() };
        let Decision::Plan(made) = plan(rules, &bench.of, &bench.state(), log).unwrap() else {
            panic!("no plan")
        };
        bench.queue().plan(bench.me, &made).unwrap();
        let (again, _, lease) = bench.take(&bench.two);
        assert_eq!((again, lease.attempt, lease.topic_id), (unit, 1, OTHER_TOPIC));
    }

    /// Hole 19: low does not pass a dead unit before its dead letter is stored outside.
    fn hole_19_low_waits_for_the_dead_letter(rig) {
        let bench = Bench::with_units(rig, 2);
        let doomed = bench.unit(0, 10);
        for _ in 0..rules().max_attempts {
            rig.push_hint(&doomed.to_string());
            let (unit, token, _) = bench.take(&bench.one);
            bench.fail(&unit, token, &bench.one, 0);
            bench.wait(40);
            bench.promote();
        }
        let other = bench.unit(10, 20);
        rig.push_hint(&other.to_string());
        let (unit, token, _) = bench.take(&bench.two);
        bench.finish(&unit, token, &bench.two, 20);
        assert_eq!((bench.state().low, bench.snapshot().dead), (0, 1));
        let dead = bench.queue().dead(bench.me, LIMIT).unwrap().done().unwrap();
        assert_eq!((dead.len(), &dead[0].unit, dead[0].attempts), (1, &doomed, 3));
        assert_eq!((dead[0].owner.as_str(), dead[0].error.as_str()), (bench.one.as_str(), "on purpose"));
        // The organiser dies before it has buried it: it comes again, and not sooner.
        assert!(bench.queue().dead(bench.me, LIMIT).unwrap().done().unwrap().is_empty());
        bench.wait(40);
        assert_eq!(bench.queue().dead(bench.me, LIMIT).unwrap().done().unwrap(), dead);
        assert_eq!(bench.state().low, 0);
        let foreign = crate::work::queue::DeadUnit { topic_id: OTHER_TOPIC, ..dead[0].clone() };
        assert_eq!(bench.queue().bury(bench.me, &foreign).unwrap(), Answer::Stale);
        assert_eq!(bench.queue().bury(bench.me, &dead[0]).unwrap(), Answer::Done(()));
        assert_eq!(bench.queue().bury(bench.me, &dead[0]).unwrap(), Answer::Stale);
        assert_eq!(bench.state().low, 20);
        assert_eq!(bench.part().skipped, [(SkipReason::DeadLetter, 10)]);
        let errors = bench.snapshot().errors;
        assert_eq!((errors[0].unit.as_str(), errors[0].error.as_str()), ("t/0/0-10", "on purpose"));
    }

    fn a_dead_letter_that_the_worker_stored_is_done_at_once(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, token, _) = bench.take(&bench.one);
        let outcome = Outcome::DeadLettered { why: "poison".into() };
        let settled =
            bench.queue().finish(&unit, token, &bench.one, &Progress::to(4), &outcome).unwrap();
        assert_eq!(settled, Finished::Settled(Settled::Complete));
        assert_eq!(bench.state().low, 10);
        assert_eq!(bench.part().skipped, [(SkipReason::DeadLetter, 6)]);
        assert_eq!(bench.snapshot().errors[0].unit, "t/0/4-10");
    }

    /// Hole 20: any one key is evicted.
    fn hole_20_a_lost_key_is_healed(rig) {
        let bench = Bench::with_units(rig, 8);
        let (leased, token, _) = bench.take(&bench.one);
        let (failed, failed_token, _) = bench.take(&bench.two);
        bench.fail(&failed, failed_token, &bench.two, 10);
        let listed = bench.claim(&bench.two).unwrap();
        for loss in [Loss::Work, Loss::List(bench.two.clone()), Loss::Workers] {
            rig.lose(&loss);
            bench.audit(2);
        }
        assert_eq!(bench.snapshot().work, 6, "{:?}", bench.snapshot().work_head);
        rig.lose(&Loss::Times);
        assert_eq!(bench.audit(2).restored, 2);
        assert_eq!((bench.snapshot().leased, bench.snapshot().delayed), (1, 1));
        rig.lose(&Loss::Unit(leased.clone()));
        assert_eq!(bench.part().count(UnitState::Lost), 1);
        assert_eq!(bench.audit(2).restored, 1);
        assert_eq!(bench.finish(&leased, token, &bench.one, 10), Finished::Refused);
        assert_eq!(bench.promote(), 1);
        bench.drain(&bench.one, 80);
        assert_eq!(listed.start(), 20);
        // The partition itself: what is not committed is done again, from Kafka's offset.
        bench.plan(0, 100);
        for loss in [
            Loss::Part(bench.of.clone()), Loss::Out(bench.of.clone()), Loss::Done(bench.of.clone()),
        ] {
            let (first, first_token, _) = bench.take(&bench.one);
            let (second, second_token, _) = bench.take(&bench.two);
            bench.finish(&second, second_token, &bench.two, 100);
            rig.lose(&loss);
            let dropped = bench.audit(2).dropped;
            assert_eq!(dropped.len(), usize::from(!matches!(loss, Loss::Part(_))), "{loss:?}");
            bench.init(80, 0);
            bench.note(80);
            bench.plan(0, 100);
            assert_eq!(bench.finish(&first, first_token, &bench.one, 90), Finished::Refused);
            assert_eq!(bench.audit(2), Audited::default());
        }
        bench.drain(&bench.one, 100);
    }

    /// verbling/kickq#4 and others: after a lost answer and a crash every range is handled again.
    fn four_reapers_requeue_each_unit_once(rig) {
        let bench = Bench::with_units(rig, 20);
        for n in 0..20 {
            bench.take(&format!("w-{n}").parse().unwrap());
        }
        bench.wait(30);
        let reaped: usize = std::thread::scope(|scope| {
            let queue = bench.queue();
            let me = bench.me;
            let reapers: Vec<_> = (0..4)
                .map(|_| scope.spawn(move || {
                    (0..10).map(|_| queue.reap_leases(me, 3).unwrap().done().unwrap().len()).sum::<usize>()
                }))
                .collect();
            reapers.into_iter().map(|reaper| reaper.join().unwrap()).sum()
        });
        assert_eq!((reaped, bench.snapshot().delayed), (20, 20));
        bench.wait(5);
        assert_eq!(bench.promote(), 20);
        bench.drain(&bench.one, 200);
    }

    /// danielgerlag/workflow-core#1446: two equal entries.
    fn a_doubled_id_is_handled_once(rig) {
        let bench = Bench::with_units(rig, 1);
        rig.push_hint("t/0/0-10");
        let (unit, token, _) = bench.take(&bench.one);
        assert!(matches!(bench.begin(&bench.claim(&bench.two).unwrap(), &bench.two).1, Begun::Taken));
        bench.finish(&unit, token, &bench.one, 10);
        rig.push_hint("t/0/0-10");
        bench.drain(&bench.two, 10);
    }
}
