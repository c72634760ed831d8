//! The work queue on a real Redis that stands still, is killed and comes back empty.

mod common;

use std::time::Duration;

use common::{servers, unique, wait_until};
use ottla::ErrorKind;
use ottla::protocol::Uuid;
use ottla::work::plan::{Decision, LogRange, PlanRules, plan};
use ottla::work::queue::{Answer, Begun, Finished, Init, Outcome, Progress, QueueRules, Settled};
use ottla::work::{
    LeaderId, LeaseToken, Redis, RedisQueue, TopicPartition, UnitId, WorkQueue, WorkerId,
};

const TOPIC: Uuid = Uuid([7; 16]);
/// Longest time that anything here may take.
const LIMIT: Duration = Duration::from_secs(60);

fn queue(group: &str) -> RedisQueue {
    Redis::at(servers().redis_url())
        .command_timeout(Duration::from_millis(500))
        .connect(group, "ottla-test", QueueRules::default())
        .expect("Redis runs")
}

/// Takes the partition up and queues `units` units of ten offsets.
fn fill(queue: &RedisQueue, me: LeaderId, of: &TopicPartition, units: i64) {
    assert!(queue.elect(me).expect("it answers"));
    let init = Init { partition: of.clone(), topic_id: TOPIC, first: 0, log_start: 0 };
    assert!(matches!(queue.init(me, &init), Ok(Answer::Done(_))));
    assert!(matches!(queue.note_committed(me, of, 0), Ok(Answer::Done(()))));
    let rules = PlanRules { unit_size: 10, outstanding_max: 100_000, ..PlanRules::default() };
    let log = LogRange { topic_id: TOPIC, start: 0, end: units * 10, leader_epoch: 0 };
    for _ in 0..units {
        let states = queue.partitions(me, std::slice::from_ref(of)).expect("it answers");
        let state = states.done().expect("the leader asks")[0].expect("taken up");
        let Decision::Plan(made) = plan(rules, of, &state, log).expect("small offsets") else {
            return;
        };
        assert!(matches!(queue.plan(me, &made), Ok(Answer::Done(_))));
    }
}

fn low(queue: &RedisQueue, me: LeaderId, of: &TopicPartition) -> i64 {
    let states = queue.partitions(me, std::slice::from_ref(of)).expect("it answers");
    states.done().expect("the leader asks")[0].expect("taken up").low
}

fn work(queue: &RedisQueue, worker: &WorkerId, unit: &UnitId) -> ottla::Result<Finished> {
    let token = LeaseToken::random();
    if let Begun::Leased(_) = queue.begin(unit, token, worker)? {
        return queue.finish(unit, token, worker, &Progress::to(unit.end()), &Outcome::Handled);
    }
    Ok(Finished::Refused)
}

/// redis-py#775, activepieces#14626: a Redis that stands still is noticed by everyone in bounded time, also by
/// one that connects; when it goes on, so does the work, and every unit is handled.
#[test]
fn a_redis_that_stands_still_is_noticed_and_survived() {
    let outage = servers().outage();
    let group = unique("frozen");
    let (queue, fresh) = (queue(&group), queue(&group));
    let of = TopicPartition::new("t", 0).expect("a name");
    let me = LeaderId::random();
    fill(&queue, me, &of, 3);
    let worker = WorkerId::unique("w").expect("a name");
    let lost = queue.claim(&worker, Duration::ZERO).expect("it answers").expect("a unit");

    outage.redis().freeze();
    for queue in [&queue, &fresh] {
        let claimed = std::thread::scope(|scope| {
            let claim = scope.spawn(|| queue.claim(&worker, Duration::from_secs(1)));
            wait_until("it gives up", LIMIT, || claim.is_finished());
            claim.join().expect("no panic")
        });
        let error = claimed.expect_err("it stands still");
        assert_eq!(error.kind(), ErrorKind::Queue, "{error}");
        assert!(error.is_retriable());
    }
    outage.redis().thaw();

    let mut done = 0;
    wait_until("every unit is handled", LIMIT, || {
        if let Ok(Some(unit)) = queue.claim(&worker, Duration::from_millis(100)) {
            assert!(done > 0 || unit == lost, "the own list comes first");
            if work(&queue, &worker, &unit).is_ok_and(|f| f == Finished::Settled(Settled::Complete))
            {
                done += 1;
            }
        }
        done == 3
    });
    assert!(queue.elect(me).expect("it answers"));
    assert_eq!(low(&queue, me, &of), 30);
}

/// A Redis that is killed comes back empty: who held a unit is refused, and it starts over from Kafka's offset.
#[test]
fn a_redis_that_comes_back_empty_is_filled_again() {
    let outage = servers().outage();
    let group = unique("emptied");
    let queue = queue(&group);
    let of = TopicPartition::new("t", 0).expect("a name");
    let me = LeaderId::random();
    fill(&queue, me, &of, 2);
    let worker = WorkerId::unique("w").expect("a name");
    let unit = queue.claim(&worker, Duration::ZERO).expect("it answers").expect("a unit");
    let token = LeaseToken::random();
    assert!(matches!(queue.begin(&unit, token, &worker), Ok(Begun::Leased(_))));

    outage.redis().kill();
    let error = queue.renew(&unit, token, &Progress::to(5)).expect_err("it is dead");
    assert!(error.is_retriable(), "{error}");
    let error = Redis::at(servers().redis_url())
        .connect(&group, "ottla-test", QueueRules::default())
        .expect_err("it is dead");
    assert_eq!(error.kind(), ErrorKind::Queue, "{error}");
    outage.redis().start();

    let progress = Progress::to(unit.end());
    let finished = queue.finish(&unit, token, &worker, &progress, &Outcome::Handled);
    assert_eq!(finished.expect("it answers"), Finished::Refused);
    fill(&queue, me, &of, 2);
    while let Some(unit) = queue.claim(&worker, Duration::ZERO).expect("it answers") {
        work(&queue, &worker, &unit).expect("it answers");
    }
    assert_eq!(low(&queue, me, &of), 20);
}

/// rq#2079, redix#102, lettuce#757: the element that a pop took is not lost when nobody hears the answer. A worker whose
/// pops are cut off by its time-out, again and again, still finds every unit.
#[test]
fn pops_that_nobody_heard_lose_nothing() {
    const UNITS: i64 = 300;
    let _calm = servers().calm();
    let queue = queue(&unique("deaf"));
    let of = TopicPartition::new("t", 0).expect("a name");
    let me = LeaderId::random();
    fill(&queue, me, &of, UNITS);
    let worker = WorkerId::unique("w").expect("a name");
    let mut done = 0;
    while let Some(heard) = queue.claim(&worker, Duration::ZERO).expect("it answers") {
        // The answers to these were lost.
        for _ in 0..3 {
            assert_eq!(
                queue.claim(&worker, Duration::ZERO).expect("it answers"),
                Some(heard.clone())
            );
        }
        let finished = work(&queue, &worker, &heard).expect("it answers");
        assert_eq!(finished, Finished::Settled(Settled::Complete));
        done += 1;
    }
    assert_eq!((done, low(&queue, me, &of)), (UNITS, UNITS * 10));
}

/// omniqueue-rs#146, kue#1019: eight workers share the units; each is handled once, and what is finished leaves no keys.
#[test]
fn eight_workers_share_the_units_and_leave_no_keys() {
    const UNITS: i64 = 2_000;
    let _calm = servers().calm();
    let group = unique("shared");
    let queue = queue(&group);
    let of = TopicPartition::new("t", 0).expect("a name");
    let me = LeaderId::random();
    fill(&queue, me, &of, UNITS);
    let done: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let worker = WorkerId::unique("w").expect("a name");
                    let mut done = 0;
                    while let Some(unit) = queue.claim(&worker, Duration::ZERO).expect("it answers")
                    {
                        let finished = work(&queue, &worker, &unit).expect("it answers");
                        assert_eq!(finished, Finished::Settled(Settled::Complete));
                        done += 1;
                    }
                    queue.unregister(&worker).expect("it answers");
                    done
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    assert_eq!(done, UNITS as usize);
    assert!(queue.elect(me).expect("it answers"));
    assert_eq!(low(&queue, me, &of), UNITS * 10);
    let pattern = format!("ottla-test:{{{group}}}:*");
    let keys = servers().redis_cli(&["KEYS", &pattern]);
    let mut names: Vec<_> =
        keys.lines().filter_map(|key| key.rsplit_once("}:").map(|(_, name)| name)).collect();
    names.sort_unstable();
    assert_eq!(names, ["complete", "leader", "part:t/0", "partitions"]);
}

/// bullmq#419, kue#1019: a Redis without room refuses what adds, as an error that passes; nothing is planned twice or
/// passed over, and the work goes on when there is room again.
#[test]
fn a_redis_without_room_is_waited_out() {
    let _outage = servers().outage();
    let group = unique("full");
    let queue = queue(&group);
    let of = TopicPartition::new("t", 0).expect("a name");
    let me = LeaderId::random();
    fill(&queue, me, &of, 10);
    let used = servers().redis_cli(&["INFO", "memory"]);
    assert!(used.contains("maxmemory:0"), "the test sets it back to none");
    servers().redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let worker = WorkerId::unique("w").expect("a name");
    let refused = queue.heartbeat(&worker);
    let planned = queue.elect(me);
    servers().redis_cli(&["CONFIG", "SET", "maxmemory", "0"]);
    for error in [refused.err(), planned.err()] {
        let error = error.expect("there was no room");
        assert_eq!(error.kind(), ErrorKind::Queue);
        assert!(error.is_retriable(), "{error}");
    }
    assert!(queue.elect(me).expect("it answers"));
    assert_eq!(low(&queue, me, &of), 0, "nothing was passed over");
    while let Some(unit) = queue.claim(&worker, Duration::ZERO).expect("it answers") {
        let finished = work(&queue, &worker, &unit).expect("it answers");
        assert_eq!(finished, Finished::Settled(Settled::Complete));
    }
    assert_eq!(low(&queue, me, &of), 100);
}
