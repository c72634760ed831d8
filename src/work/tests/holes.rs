//! Every hole of the natural reading, by its number in the model, on each queue.

use std::time::Duration;

use crate::work::plan::{
    CommittedOffset, Decision, LogRange, PlanRules, StartFacts, first_offset, plan,
};
use crate::work::queue::{
    Answer, Audited, Begun, Finished, PartitionState, Progress, Reset, Settled, SkipReason,
};
use crate::work::snapshot::UnitState;
use crate::work::tests::rig::{Loss, Rig, rules};
use crate::work::unit::{LeaderId, LeaseToken, TopicPartition, WorkerId};

use crate::work::tests::bench::{Bench, LIMIT, OTHER_TOPIC, TOPIC, on_every_queue};

on_every_queue! {
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
}
