//! What a unit costs on a Redis and in memory: by one worker, by 8 and by 64, that finish each unit together with the
//! begin of the next.
//!
//! `OTTLA_REDIS=redis://127.0.0.1:6379 cargo bench --features real-servers --bench work_queue`
//!
//! Redis's share is the processor time that it reports, divided by the units. The load is bounded: `UNITS` per run.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ottla::protocol::Uuid;
use ottla::work::plan::{Decision, LogRange, PlanRules, plan};
use ottla::work::queue::{Answer, Begun, Finished, Init, Outcome, Progress, QueueRules, Settled};
use ottla::work::{LeaderId, LeaseToken, MemoryQueue, Redis, TopicPartition, WorkQueue, WorkerId};
use r2d2_redis::redis;

const UNITS: i64 = 40_000;
const TOPIC: Uuid = Uuid([7; 16]);

#[expect(clippy::disallowed_methods, reason = "a measurement of wall-clock time")]
fn now() -> Instant {
    Instant::now()
}

/// Queues `UNITS` units; gives the time of one of them in microseconds.
fn fill(queue: &dyn WorkQueue, me: LeaderId, of: &TopicPartition) -> f64 {
    assert!(queue.elect(me).expect("it answers"));
    let init = Init { partition: of.clone(), topic_id: TOPIC, first: 0, log_start: 0 };
    assert!(matches!(queue.init(me, &init), Ok(Answer::Done(_))));
    assert!(matches!(queue.note_committed(me, of, 0), Ok(Answer::Done(()))));
    let rules =
        PlanRules { unit_size: 10, outstanding_max: UNITS as usize, ..PlanRules::default() };
    let log = LogRange { topic_id: TOPIC, start: 0, end: UNITS * 10, leader_epoch: 0 };
    let began = now();
    loop {
        let states = queue.partitions(me, std::slice::from_ref(of)).expect("it answers");
        let state = states.done().expect("the leader asks")[0].expect("taken up");
        match plan(rules, of, &state, log).expect("small offsets") {
            Decision::Plan(made) => {
                assert!(matches!(queue.plan(me, &made), Ok(Answer::Done(_))));
            }
            _ => return began.elapsed().as_secs_f64() * 1e6 / UNITS as f64,
        }
    }
}

/// Handles every unit on `threads` threads as workers do: claim and begin the first, then finish each together with
/// the begin of the next. Gives units per second.
fn work(queue: &dyn WorkQueue, threads: usize) -> f64 {
    let began = now();
    let handled = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let worker = WorkerId::unique("bench").expect("a name");
                while let Some(unit) = queue.claim(&worker, Duration::ZERO).expect("it answers") {
                    let token = LeaseToken::random();
                    let begun = queue.begin(&unit, token, &worker).expect("it answers");
                    assert!(matches!(begun, Begun::Leased(_)));
                    let mut held = Some((unit, token));
                    while let Some((unit, token)) = held {
                        let next_token = LeaseToken::random();
                        let progress = Progress::to(unit.end());
                        let (finished, next) = queue
                            .finish_next(
                                &unit,
                                token,
                                &worker,
                                &progress,
                                &Outcome::Handled,
                                next_token,
                            )
                            .expect("it answers");
                        assert_eq!(finished, Finished::Settled(Settled::Complete));
                        handled.fetch_add(1, Ordering::Relaxed);
                        held = next.map(|next| (next.unit, next_token));
                    }
                }
            });
        }
    });
    let rate = UNITS as f64 / began.elapsed().as_secs_f64();
    assert_eq!(handled.into_inner(), UNITS);
    rate
}

/// Processor seconds that Redis used so far.
fn redis_seconds(url: &str) -> f64 {
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_connection().expect("Redis runs");
    let info: String = redis::cmd("INFO").arg("cpu").query(&mut connection).expect("it answers");
    let seconds = |line: &str| {
        let (name, value) = line.split_once(':')?;
        matches!(name, "used_cpu_sys" | "used_cpu_user")
            .then(|| value.trim().parse::<f64>().ok())?
    };
    info.lines().filter_map(seconds).sum()
}

#[expect(clippy::print_stdout, reason = "the result")]
fn main() {
    let url = std::env::var("OTTLA_REDIS").expect("OTTLA_REDIS: the URL of a Redis to measure on");
    let of = TopicPartition::new("t", 0).expect("a name");
    for threads in [1, 8, 64] {
        let me = LeaderId::random();
        let queue = Redis::at(&url)
            .connect(&format!("bench-{me}"), "ottla-bench", QueueRules::default())
            .expect("Redis runs");
        let before_plan = redis_seconds(&url);
        let planned = fill(&queue, me, &of);
        let before_work = redis_seconds(&url);
        let rate = work(&queue, threads);
        let after = redis_seconds(&url);
        println!(
            "redis, {threads} threads: {rate:.0} units/s; Redis {:.1} us a unit (plan {:.1} us); plan call {planned:.1} us a unit",
            (after - before_work) * 1e6 / UNITS as f64,
            (before_work - before_plan) * 1e6 / UNITS as f64,
        );
        let memory = MemoryQueue::default();
        fill(&memory, me, &of);
        println!("memory, {threads} threads: {:.0} units/s", work(&memory, threads));
    }
}
