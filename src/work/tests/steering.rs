//! What people do about failed units, on each queue.

use std::time::Duration;

use crate::work::queue::{
    Answer, Begun, DeadUnit, Finished, Outcome, Progress, Reposition, Repositioned, Reset, Settled,
    SkipReason, Steered,
};
use crate::work::snapshot::UnitState;
use crate::work::tests::bench::{Bench, LIMIT, OTHER_TOPIC, TOPIC, on_every_queue};
use crate::work::tests::rig::{Loss, Rig};
use crate::work::unit::{LeaseToken, TopicPartition, UnitId};

/// Fails units until none is claimable any more: all are dead.
fn kill_all(bench: &Bench<'_>) {
    for _ in 0..3 {
        while let Some(unit) = bench.claim(&bench.one) {
            let (token, _) = bench.begin(&unit, &bench.one);
            bench.fail(&unit, token, &bench.one, unit.start());
        }
        bench.wait(40);
        bench.promote();
    }
}

/// Their dead letters are stored.
fn bury_all(bench: &Bench<'_>) {
    for dead in dead(bench) {
        assert_eq!(bench.queue().bury(bench.me, &dead).unwrap(), Answer::Done(()));
    }
}

fn dead(bench: &Bench<'_>) -> Vec<DeadUnit> {
    bench.queue().dead(bench.me, LIMIT).unwrap().done().expect("the leader asks")
}

fn redrive(bench: &Bench<'_>, limit: usize) -> Steered {
    bench.queue().redrive(&bench.of, limit).unwrap()
}

fn move_to(bench: &Bench<'_>, to: i64) -> Answer<Repositioned> {
    let to = Reposition { partition: bench.of.clone(), topic_id: TOPIC, to };
    bench.queue().reposition(bench.me, &to).unwrap()
}

fn drop_failed(bench: &Bench<'_>, limit: usize) -> Steered {
    bench.queue().drop_failed(&bench.of, limit).unwrap()
}

/// A worker gives the unit up, and says that its dead letter is stored.
fn give_up(bench: &Bench<'_>, unit: &UnitId, token: LeaseToken, from: i64) {
    let outcome = Outcome::DeadLettered { why: "poison".into() };
    let progress = Progress::to(from);
    let settled = bench.queue().finish(unit, token, &bench.one, &progress, &outcome).unwrap();
    assert_eq!(settled, Finished::Settled(Settled::Complete));
}

on_every_queue! {
    fn a_dead_unit_that_is_redriven_begins_anew(rig) {
        let bench = Bench::with_units(rig, 3);
        kill_all(&bench);
        assert_eq!(bench.part().count(UnitState::Dead), 3);
        assert_eq!(redrive(&bench, 2), Steered { units: 2, records: 20 });
        assert_eq!((bench.snapshot().work, bench.snapshot().dead), (2, 1));
        let (unit, token, lease) = bench.take(&bench.two);
        assert_eq!((unit.start(), lease.attempt, lease.is_last), (0, 1, false));
        bench.finish(&unit, token, &bench.two, 10);
        assert_eq!(redrive(&bench, 2), Steered { units: 1, records: 10 });
        assert_eq!(redrive(&bench, 2), Steered::default());
        bench.drain(&bench.one, 30);
    }

    /// The organiser stores a letter while somebody redrives its unit: the unit is worked on.
    fn a_letter_that_is_stored_meanwhile_does_not_bury_a_redriven_unit(rig) {
        let bench = Bench::with_units(rig, 1);
        kill_all(&bench);
        let letter = dead(&bench).remove(0);
        redrive(&bench, LIMIT);
        assert_eq!(bench.queue().bury(bench.me, &letter).unwrap(), Answer::Stale);
        assert_eq!(bench.state().low, 0);
        bench.drain(&bench.one, 10);
        assert_eq!(bench.snapshot().errors_logged, 0);
    }

    fn a_worker_that_held_it_before_is_refused(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, old, _) = bench.take(&bench.one);
        bench.wait(30);
        bench.reap();
        kill_all(&bench);
        bench.wait(40);
        bench.promote();
        kill_all(&bench);
        redrive(&bench, LIMIT);
        let (again, token, _) = bench.take(&bench.two);
        assert_eq!(again, unit);
        assert_eq!(bench.finish(&unit, old, &bench.one, 10), Finished::Refused);
        assert!(!bench.queue().renew(&unit, old, &Progress::to(5)).unwrap());
        assert_eq!(bench.finish(&unit, token, &bench.two, 10), Finished::Settled(Settled::Complete));
    }

    /// What is done and lies below the low watermark becomes outstanding again: the watermark goes back to it.
    fn a_buried_unit_that_is_redriven_is_outstanding_again(rig) {
        let bench = Bench::with_units(rig, 3);
        kill_all(&bench);
        bury_all(&bench);
        assert_eq!((bench.state().low, bench.snapshot().errors_logged), (30, 3));
        // The oldest entry first, whatever its offset.
        assert_eq!(redrive(&bench, 1), Steered { units: 1, records: 10 });
        assert_eq!((bench.state().low, bench.part().done), (0, vec![(10, 30)]));
        assert_eq!(redrive(&bench, LIMIT), Steered { units: 2, records: 20 });
        assert_eq!((bench.state().outstanding, bench.part().done), (3, vec![]));
        assert_eq!(bench.snapshot().errors_logged, 0);
        assert_eq!(bench.audit(LIMIT), crate::work::queue::Audited::default());
        bench.drain(&bench.one, 30);
    }

    /// Above the low watermark the range is cut out of the done range that it became part of.
    fn a_redriven_range_is_cut_out_of_what_is_done(rig) {
        let bench = Bench::with_units(rig, 5);
        let taken: Vec<_> = (0..5).map(|n| {
            let worker = format!("w-{n}").parse().unwrap();
            bench.take(&worker)
        }).collect();
        for n in [1, 3] {
            let (unit, token, _) = &taken[n];
            bench.finish(unit, *token, &bench.one, unit.end());
        }
        let (unit, token, _) = &taken[2];
        give_up(&bench, unit, *token, 24);
        assert_eq!(bench.part().done, [(10, 40)]);
        assert_eq!(bench.snapshot().errors[0].unit, "t/0/24-30");
        assert_eq!(redrive(&bench, LIMIT), Steered { units: 1, records: 6 });
        assert_eq!((bench.state().low, bench.part().done), (0, vec![(10, 24), (30, 40)]));
        for n in [0, 4] {
            let (unit, token, _) = &taken[n];
            bench.finish(unit, *token, &bench.one, unit.end());
        }
        assert_eq!((bench.state().low, bench.part().done), (24, vec![(30, 50)]));
        bench.drain(&bench.one, 50);
    }

    /// A finished unit's entry is older than the partition that is there now.
    fn an_entry_of_another_topic_or_of_another_life_is_not_redriven(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, token, _) = bench.take(&bench.one);
        give_up(&bench, &unit, token, 0);
        let reset = |old, new| {
            let reset = Reset {
                partition: bench.of.clone(), old_topic_id: old, new_topic_id: new, log_start: 20,
            };
            assert!(bench.queue().reset(bench.me, &reset).unwrap().done().is_some());
        };
        reset(TOPIC, OTHER_TOPIC);
        assert_eq!((bench.state().low, redrive(&bench, LIMIT)), (20, Steered::default()));
        // The store was lost, and the partition is below what the entry names: that is planned anyway.
        rig.lose(&Loss::Part(bench.of.clone()));
        assert_eq!(redrive(&bench, LIMIT), Steered::default());
        bench.init(5, 0);
        assert_eq!((redrive(&bench, LIMIT), bench.state().outstanding), (Steered::default(), 0));
        assert_eq!(drop_failed(&bench, LIMIT), Steered { units: 1, records: 10 });
        assert_eq!(bench.snapshot().errors_logged, 0);
    }

    fn what_is_dropped_lets_the_low_watermark_pass_and_is_recorded(rig) {
        let bench = Bench::with_units(rig, 3);
        kill_all(&bench);
        assert_eq!(drop_failed(&bench, 2), Steered { units: 2, records: 20 });
        assert_eq!((bench.state().low, bench.state().outstanding), (20, 1));
        assert_eq!(bench.part().skipped, [(SkipReason::Dropped, 20)]);
        let ranges: Vec<_> = bench.snapshot().skipped.into_iter().map(|e| e.range).collect();
        assert_eq!(ranges, ["t/0/10-20", "t/0/0-10"]);
        bury_all(&bench);
        assert_eq!(drop_failed(&bench, LIMIT), Steered { units: 1, records: 10 });
        assert_eq!(bench.part().skipped, [(SkipReason::DeadLetter, 10), (SkipReason::Dropped, 20)]);
        assert_eq!((bench.snapshot().errors_logged, bench.snapshot().dead), (0, 0));
        assert_eq!((redrive(&bench, LIMIT), drop_failed(&bench, LIMIT)), Default::default());
    }

    fn only_failed_units_of_the_partition_are_steered(rig) {
        let bench = Bench::with_units(rig, 3);
        let (leased, token, _) = bench.take(&bench.one);
        let (failing, failed, _) = bench.take(&bench.two);
        bench.fail(&failing, failed, &bench.two, 10);
        rig.push_hint("t/0/00-5");
        let queued = bench.claim(&bench.two).expect("a unit");
        assert_eq!(bench.snapshot().errors_logged, 1, "an entry that is no unit");
        let before = bench.snapshot();
        let other = TopicPartition::new("t", 1).unwrap();
        for of in [&bench.of, &other] {
            assert_eq!(bench.queue().redrive(of, LIMIT).unwrap(), Steered::default());
            assert_eq!(bench.queue().drop_failed(of, LIMIT).unwrap(), Steered::default());
        }
        assert_eq!(bench.snapshot(), before);
        assert!(matches!(bench.begin(&queued, &bench.two).1, Begun::Leased(_)));
        assert_eq!(bench.finish(&leased, token, &bench.one, 10), Finished::Settled(Settled::Complete));
    }

    fn the_position_moves_back_and_who_held_a_unit_is_refused(rig) {
        let bench = Bench::with_units(rig, 3);
        let (unit, token, _) = bench.take(&bench.one);
        bench.finish(&unit, token, &bench.one, 10);
        let (unit, token, _) = bench.take(&bench.one);
        bench.wait(60);
        let moved = move_to(&bench, 5).done().expect("the leader asks");
        let Repositioned::Moved(state) = moved else { panic!("{moved:?}") };
        assert_eq!((state.low, state.planned, state.outstanding, state.committed), (5, 5, 0, false));
        assert_eq!((bench.part().skipped, bench.part().done), (vec![], vec![]));
        assert_eq!(bench.finish(&unit, token, &bench.one, 20), Finished::Refused);
        // Nothing is planned before Kafka has the offset.
        let plan = bench.queue().plan(bench.me, &Bench::plan_of(&bench.of, 5, 30)).unwrap();
        assert_eq!(plan, Answer::Stale);
        bench.note(5);
        bench.plan(0, 30);
        assert_eq!(bench.finish(&unit, token, &bench.one, 20), Finished::Refused);
        assert_eq!(bench.audit(LIMIT), crate::work::queue::Audited::default());
        bench.drain(&bench.two, 30);
    }

    /// A unit of the same range is planned again while its former holder sleeps.
    fn a_unit_of_the_same_range_is_another_after_a_move(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, old, _) = bench.take(&bench.one);
        bench.wait(60);
        assert!(matches!(move_to(&bench, 0), Answer::Done(Repositioned::Moved(_))));
        bench.note(0);
        bench.plan(0, 10);
        bench.reap();
        let (again, token, lease) = bench.take(&bench.two);
        assert_eq!((&again, lease.attempt), (&unit, 1));
        assert_eq!(bench.finish(&unit, old, &bench.one, 10), Finished::Refused);
        assert_eq!(bench.finish(&unit, token, &bench.two, 10), Finished::Settled(Settled::Complete));
    }

    fn what_a_move_forwards_passes_is_recorded(rig) {
        let bench = Bench::with_units(rig, 4);
        bench.take(&bench.one);
        let (unit, token, _) = bench.take(&bench.two);
        bench.finish(&unit, token, &bench.two, 20);
        bench.take(&bench.two);
        bench.wait(60);
        assert!(matches!(move_to(&bench, 45), Answer::Done(Repositioned::Moved(_))));
        let ranges: Vec<_> = bench.snapshot().skipped.into_iter().map(|e| e.range).collect();
        assert_eq!(ranges, ["t/0/20-45", "t/0/0-10"]);
        assert_eq!(bench.part().skipped, [(SkipReason::Reset, 35)]);
        assert!(matches!(move_to(&bench, 0), Answer::Done(Repositioned::Moved(_))));
        assert_eq!((bench.state().low, bench.part().skipped), (0, vec![(SkipReason::Reset, 35)]));
    }

    /// Between two done ranges: what was done before the place is not recorded, nor is what comes after it.
    fn a_move_into_the_middle_records_what_lies_before_it(rig) {
        let bench = Bench::with_units(rig, 4);
        let taken: Vec<_> = (0..4).map(|n| bench.take(&format!("w-{n}").parse().unwrap())).collect();
        for n in [1, 3] {
            let (unit, token, _) = &taken[n];
            bench.finish(unit, *token, &bench.one, unit.end());
        }
        bench.wait(60);
        assert!(matches!(move_to(&bench, 25), Answer::Done(Repositioned::Moved(_))));
        let ranges: Vec<_> = bench.snapshot().skipped.into_iter().map(|e| e.range).collect();
        assert_eq!(ranges, ["t/0/20-25", "t/0/0-10"]);
    }

    fn no_position_moves_while_a_worker_lives_or_of_another_topic(rig) {
        let bench = Bench::with_units(rig, 1);
        let (unit, token, _) = bench.take(&bench.one);
        bench.queue().heartbeat(&bench.two).unwrap();
        bench.wait(59);
        let before = bench.snapshot();
        assert_eq!(move_to(&bench, 5), Answer::Done(Repositioned::WorkersLive(2)));
        assert_eq!(bench.snapshot(), before);
        bench.queue().heartbeat(&bench.two).unwrap();
        bench.wait(1);
        assert_eq!(move_to(&bench, 5), Answer::Done(Repositioned::WorkersLive(1)));
        assert_eq!(bench.finish(&unit, token, &bench.one, 10), Finished::Settled(Settled::Complete));
        bench.queue().unregister(&bench.two).unwrap();
        let other = Reposition { partition: bench.of.clone(), topic_id: OTHER_TOPIC, to: 5 };
        assert_eq!(bench.queue().reposition(bench.me, &other).unwrap(), Answer::Stale);
        let other = Reposition {
            partition: TopicPartition::new("t", 1).unwrap(), topic_id: TOPIC, to: 5,
        };
        assert_eq!(bench.queue().reposition(bench.me, &other).unwrap(), Answer::Stale);
        rig.advance(Duration::from_secs(19));
        assert_eq!(move_to(&bench, 5), Answer::NotLeader);
        assert!(bench.queue().elect(bench.me).unwrap());
        assert!(matches!(move_to(&bench, 5), Answer::Done(Repositioned::Moved(_))));
    }
}
