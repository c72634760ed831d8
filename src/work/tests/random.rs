//! Random worlds: faults in any order, the invariant after every step, and everything handled in the end.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::work::tests::rig::{Loss, MemoryRig, Rig};
use crate::work::tests::world::{Ending, ORGANISERS, PARTITIONS, WORKERS, World, partition};

#[derive(Clone, Debug)]
enum Step {
    Produce(usize, i64),
    Retain(usize, i64),
    Recreate(usize),
    Elect(usize),
    Resign(usize),
    Prepare(usize, usize),
    SendPlan(usize),
    Commit(usize, usize),
    Promote(usize),
    Reap(usize),
    Dead(usize, bool),
    Audit(usize),
    Reposition(usize, usize, i64),
    Redrive(usize, usize),
    DropFailed(usize, usize),
    Claim(usize, bool),
    Begin(usize, bool),
    Handle(usize, i64),
    Renew(usize),
    Finish(usize, Ending, bool),
    FinishNext(usize, Ending, bool),
    Heartbeat(usize),
    Crash(usize),
    Wake(Ending),
    Unregister(usize),
    Advance(u64),
    Lose(LossKind, usize),
    Double(usize),
    Save,
    GoBack,
    /// The usual course of a worker, so that worlds get somewhere.
    Work(usize, i64, Ending),
    /// A worker takes a unit and keeps it.
    Hold(usize, i64),
    /// Unit after unit.
    Chain(usize, usize, Ending),
    /// A worker takes a unit and stands still while it holds it.
    Stall(usize, i64),
    /// Leases run out, and what they held is queued again.
    Expire(usize),
    /// The usual course of an organiser.
    Organise(usize),
}

#[derive(Clone, Copy, Debug)]
enum LossKind {
    Everything,
    Part,
    Out,
    Done,
    Unit,
    Work,
    List,
    Workers,
    Times,
    Leader,
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        6 => Just(Ending::Handled),
        3 => Just(Ending::Failed),
        1 => Just(Ending::DeadLettered),
        1 => Just(Ending::GivenBack),
    ]
}

/// True mostly: the answer is heard.
fn hears() -> impl Strategy<Value = bool> {
    prop_oneof![4 => Just(true), 1 => Just(false)]
}

fn step() -> impl Strategy<Value = Step> {
    let (o, p, w) = (0..ORGANISERS, 0..PARTITIONS, 0..WORKERS);
    let seconds = prop_oneof![Just(5_u64), Just(20), Just(40), Just(100)];
    let loss = prop_oneof![
        Just(LossKind::Everything),
        Just(LossKind::Part),
        Just(LossKind::Out),
        Just(LossKind::Done),
        Just(LossKind::Unit),
        Just(LossKind::Work),
        Just(LossKind::List),
        Just(LossKind::Workers),
        Just(LossKind::Times),
        Just(LossKind::Leader),
    ];
    // Faults are rarer than work, so that worlds get somewhere before the next one.
    prop_oneof![
        12 => (p.clone(), 1..20_i64).prop_map(|(p, n)| Step::Produce(p, n)),
        2 => (p.clone(), 1..10_i64).prop_map(|(p, n)| Step::Retain(p, n)),
        2 => p.clone().prop_map(Step::Recreate),
        4 => o.clone().prop_map(Step::Elect),
        2 => o.clone().prop_map(Step::Resign),
        6 => (o.clone(), p.clone()).prop_map(|(o, p)| Step::Prepare(o, p)),
        8 => o.clone().prop_map(Step::SendPlan),
        6 => (o.clone(), p.clone()).prop_map(|(o, p)| Step::Commit(o, p)),
        4 => o.clone().prop_map(Step::Promote),
        6 => o.clone().prop_map(Step::Reap),
        6 => (o.clone(), any::<bool>()).prop_map(|(o, b)| Step::Dead(o, b)),
        4 => o.clone().prop_map(Step::Audit),
        6 => (p.clone(), 1..4_usize).prop_map(|(p, n)| Step::Redrive(p, n)),
        4 => (o.clone(), p.clone(), 0..60_i64).prop_map(|(o, p, n)| Step::Reposition(o, p, n)),
        2 => (p.clone(), 1..4_usize).prop_map(|(p, n)| Step::DropFailed(p, n)),
        8 => (w.clone(), hears()).prop_map(|(w, h)| Step::Claim(w, h)),
        8 => (w.clone(), hears()).prop_map(|(w, h)| Step::Begin(w, h)),
        6 => (w.clone(), 1..6_i64).prop_map(|(w, n)| Step::Handle(w, n)),
        6 => w.clone().prop_map(Step::Renew),
        8 => (w.clone(), ending(), hears()).prop_map(|(w, e, h)| Step::Finish(w, e, h)),
        12 => (w.clone(), ending(), hears()).prop_map(|(w, e, h)| Step::FinishNext(w, e, h)),
        2 => w.clone().prop_map(Step::Heartbeat),
        4 => w.clone().prop_map(Step::Crash),
        12 => ending().prop_map(Step::Wake),
        2 => w.clone().prop_map(Step::Unregister),
        6 => seconds.prop_map(Step::Advance),
        2 => (loss, any::<usize>()).prop_map(|(l, n)| Step::Lose(l, n)),
        2 => any::<usize>().prop_map(Step::Double),
        2 => Just(Step::Save),
        1 => Just(Step::GoBack),
        24 => (w.clone(), 0..6_i64, ending()).prop_map(|(w, n, e)| Step::Work(w, n, e)),
        8 => (w.clone(), 1..5_usize, ending()).prop_map(|(w, n, e)| Step::Chain(w, n, e)),
        16 => (w.clone(), 0..6_i64).prop_map(|(w, n)| Step::Hold(w, n)),
        12 => (w.clone(), 0..6_i64).prop_map(|(w, n)| Step::Stall(w, n)),
        16 => o.clone().prop_map(Step::Expire),
        24 => o.prop_map(Step::Organise),
    ]
}

fn take(world: &mut World<'_>, step: &Step) {
    match *step {
        Step::Produce(p, n) => world.produce(p, n),
        Step::Retain(p, n) => world.retain(p, n),
        Step::Recreate(p) => world.recreate(p),
        Step::Elect(o) => world.elect(o),
        Step::Resign(o) => world.resign(o),
        Step::Prepare(o, p) => world.prepare(o, p),
        Step::SendPlan(o) => world.send_plan(o),
        Step::Commit(o, p) => world.commit(o, p),
        Step::Promote(o) => world.promote(o),
        Step::Reap(o) => world.reap(o),
        Step::Dead(o, buries) => world.dead(o, buries),
        Step::Audit(o) => world.audit(o),
        Step::Reposition(o, p, n) => {
            // Workers are live mostly: once they are silent for long enough, it is done.
            world.reposition(o, p, n);
            world.check();
            world.advance(100);
            world.elect(o);
            world.reposition(o, p, n);
        }
        Step::Redrive(p, n) => world.redrive(p, n),
        Step::DropFailed(p, n) => world.drop_failed(p, n),
        Step::Claim(w, hears) => world.claim(w, hears),
        Step::Begin(w, hears) => world.begin(w, hears),
        Step::Handle(w, n) => world.handle(w, n),
        Step::Renew(w) => world.renew(w),
        Step::Finish(w, how, hears) => world.finish(w, how, hears),
        Step::FinishNext(w, how, hears) => world.finish_next(w, how, hears),
        Step::Heartbeat(w) => world.heartbeat(w),
        Step::Crash(w) => world.crash(w),
        Step::Wake(how) => world.wake(how),
        Step::Unregister(w) => world.unregister(w),
        Step::Advance(seconds) => world.advance(seconds),
        Step::Lose(kind, n) => {
            let of = partition(n % PARTITIONS);
            let loss = match kind {
                LossKind::Everything => Some(Loss::Everything),
                LossKind::Part => Some(Loss::Part(of)),
                LossKind::Out => Some(Loss::Out(of)),
                LossKind::Done => Some(Loss::Done(of)),
                LossKind::Unit => world.any_unit(n).map(Loss::Unit),
                LossKind::Work => Some(Loss::Work),
                LossKind::List => Some(Loss::List(world.worker_name(n % WORKERS))),
                LossKind::Workers => Some(Loss::Workers),
                LossKind::Times => Some(Loss::Times),
                LossKind::Leader => Some(Loss::Leader),
            };
            if let Some(loss) = loss {
                world.lose(&loss);
            }
        }
        Step::Double(n) => world.double(n),
        Step::Save => world.save(),
        Step::GoBack => world.go_back(),
        Step::Work(w, n, how) => {
            hold(world, w, n);
            world.finish(w, how, true);
        }
        Step::Hold(w, n) => hold(world, w, n),
        Step::Chain(w, n, how) => {
            hold(world, w, 5);
            for _ in 0..n {
                world.finish_next(w, how, true);
                world.check();
                world.handle(w, 5);
            }
        }
        Step::Stall(w, n) => {
            hold(world, w, n);
            world.crash(w);
        }
        Step::Expire(o) => {
            for _ in 0..2 {
                world.advance(40);
                world.elect(o);
                world.reap(o);
                world.check();
                world.promote(o);
            }
        }
        Step::Organise(o) => organise(world, o),
    }
}

fn hold(world: &mut World<'_>, worker: usize, records: i64) {
    world.claim(worker, true);
    world.begin(worker, true);
    world.handle(worker, records);
}

fn organise(world: &mut World<'_>, organiser: usize) {
    world.elect(organiser);
    for index in 0..PARTITIONS {
        world.prepare(organiser, index);
        world.check();
        world.send_plan(organiser);
        world.check();
    }
    world.promote(organiser);
}

fn live(rigs: Vec<&dyn Rig>, steps: &[Step]) {
    let mut world = World::new(rigs);
    for index in 0..PARTITIONS {
        world.produce(index, 23);
    }
    // Taken up, first offset committed, planned.
    for _ in 0..3 {
        organise(&mut world, 0);
    }
    for step in steps {
        take(&mut world, step);
        world.check();
    }
    world.drain();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_in_memory(steps in vec(step(), 1..150)) {
        live(vec![&MemoryRig::new()], &steps);
    }
}

#[cfg(feature = "real-servers")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_on_redis_and_it_answers_as_memory_does(steps in vec(step(), 1..100)) {
        live(vec![&MemoryRig::new(), &crate::work::tests::rig::RedisRig::new()], &steps);
    }
}
