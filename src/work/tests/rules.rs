//! Every rule by name, on each queue.

use std::time::Duration;

use crate::work::queue::{
    Answer, AuditRound, Begun, Finished, Init, Outcome, Progress, Reset, Settled, SkipReason,
};
use crate::work::snapshot::UnitState;
use crate::work::tests::rig::{Loss, Rig};
use crate::work::unit::{LeaderId, LeaseToken, WorkerId};

use crate::work::tests::bench::{Bench, LIMIT, OTHER_TOPIC, TOPIC, on_every_queue, retention};

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

    fn the_next_unit_is_begun_in_the_step_that_finishes_one(rig) {
        let bench = Bench::with_units(rig, 3);
        let (unit, token, _) = bench.take(&bench.one);
        let next_token = LeaseToken::random();
        let (finished, next) = bench.finish_next(&unit, token, &bench.one, next_token);
        let next = next.expect("units are queued");
        assert_eq!(finished, Finished::Settled(Settled::Complete));
        assert_eq!((next.unit.start(), next.lease.attempt, next.lease.topic_id), (10, 1, TOPIC));
        assert_eq!(bench.state().low, 10);
        let last_token = LeaseToken::random();
        let (_, last) = bench.finish_next(&next.unit, next_token, &bench.one, last_token);
        let last = last.expect("a unit is queued").unit;
        let (finished, none) =
            bench.finish_next(&last, last_token, &bench.one, LeaseToken::random());
        assert_eq!((finished, none), (Finished::Settled(Settled::Complete), None));
        assert_eq!((bench.state().low, bench.state().outstanding), (30, 0));
    }

    /// What remains of the unit itself can be the next one.
    fn a_finish_in_part_can_begin_what_it_left(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, token, _) = bench.take(&bench.one);
        let queue = bench.queue();
        let next_token = LeaseToken::random();
        let progress = Progress { position: 4, skips: vec![retention(0, 2)] };
        let (finished, next) = queue
            .finish_next(&unit, token, &bench.one, &progress, &Outcome::Handled, next_token)
            .unwrap();
        let rest = bench.unit(4, 10);
        assert_eq!(finished, Finished::Settled(Settled::Remainder(rest.clone())));
        assert_eq!(next.expect("the rest is queued").unit, rest);
        assert_eq!(bench.part().skipped, [(SkipReason::Retention, 2)]);
        assert_eq!(bench.finish(&rest, next_token, &bench.one, 10), Finished::Settled(Settled::Complete));
    }

    /// The answer of a finish and begin is lost, as often as one likes: one unit is begun, once.
    fn a_repeated_finish_finds_the_unit_that_it_began(rig) {
        let bench = Bench::with_units(rig, 3);
        let (unit, token, _) = bench.take(&bench.one);
        let next_token = LeaseToken::random();
        let (_, next) = bench.finish_next(&unit, token, &bench.one, next_token);
        for _ in 0..5 {
            let (finished, again) = bench.finish_next(&unit, token, &bench.one, next_token);
            assert_eq!((finished, &again), (Finished::Refused, &next));
        }
        assert_eq!((bench.snapshot().leased, bench.snapshot().work), (1, 1));
        // Also behind an entry that a parked pop of the same worker brought.
        rig.push_hint("t/0/20-30");
        let begun = next.expect("units are queued").unit;
        rig.lose(&Loss::List(bench.one.clone()));
        assert_eq!(bench.claim(&bench.one), Some(bench.unit(20, 30)));
        let (_, other) = bench.finish_next(&unit, token, &bench.one, next_token);
        assert_eq!(other.expect("the own list first").unit, bench.unit(20, 30));
        assert_eq!(bench.finish(&begun, next_token, &bench.one, 20), Finished::Settled(Settled::Complete));
    }

    /// What is not queued is left to claim and begin, which know what to do about it.
    fn a_stale_hint_is_not_begun_with_a_finish(rig) {
        let bench = Bench::with_units(rig, 3);
        let (unit, token, _) = bench.take(&bench.one);
        for entry in ["t/0/00-5", "t/0/no-unit"] {
            rig.push_hint(entry);
        }
        assert_eq!(bench.finish_next(&unit, token, &bench.one, LeaseToken::random()).1, None);
        let (second, token, _) = bench.take(&bench.one);
        assert_eq!((second.start(), bench.snapshot().errors_logged), (10, 2));
        rig.push_hint(&unit.to_string());
        assert_eq!(bench.finish_next(&second, token, &bench.one, LeaseToken::random()).1, None);
        assert_eq!(bench.claim(&bench.one).as_ref(), Some(&unit));
        assert_eq!(bench.begin(&unit, &bench.one).1, Begun::Gone);
        bench.drain(&bench.one, 30);
    }

    /// A zombie's finish is refused, and it may still take another unit.
    fn a_refused_finish_takes_the_next_unit_all_the_same(rig) {
        let bench = Bench::with_units(rig, 2);
        let (unit, token, _) = bench.take(&bench.one);
        bench.wait(30);
        bench.reap();
        let (finished, next) = bench.finish_next(&unit, token, &bench.one, LeaseToken::random());
        assert_eq!(finished, Finished::Refused);
        assert_eq!(next.expect("the other one").unit, bench.unit(10, 20));
        assert_eq!(bench.part().count(UnitState::Delayed), 1);
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
