//! Nodes on a queue and a Kafka in memory: every thread is real, nothing leaves the process.

mod ahead;
mod letters;
mod pace;
mod records;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::builder::{assemble, rules_of};
use super::crew::Crew;
use super::events::{Event, EventSink};
use super::handler::{Handler, HandlerResult, Sink, log_dead_letter};
use super::memory::MemoryQueue;
use super::node::{Node, threads_of};
use super::organiser::Organiser;
use super::pull::PullNode;
use super::queue::WorkQueue;
use super::shared::Shared;
use super::snapshot::{SnapshotLimits, UnitState};
use super::sources::Topics;
use super::testing::MemoryKafka;
use super::unit_handle::Unit;
use crate::clock::Deadline;
use crate::config::WorkConfig;
use crate::error::ErrorKind;
use crate::threads::pause;

const LIMIT: Duration = Duration::from_secs(60);

/// What a test starts nodes from.
struct Place {
    kafka: MemoryKafka,
    queue: MemoryQueue,
    config: WorkConfig,
    sink: Arc<Sink>,
}

impl Place {
    fn new() -> Self {
        let ms = Duration::from_millis;
        let config = WorkConfig {
            unit_size: 10,
            workers: 3,
            unit_retry_backoff: ms(1),
            unit_retry_backoff_max: ms(2),
            planning_interval: ms(5),
            commit_interval: ms(5),
            audit_interval: ms(10),
            max_attempts: 3,
            ..WorkConfig::default()
        };
        let queue = MemoryQueue::new(rules_of(&config));
        Self { kafka: MemoryKafka::default(), queue, config, sink: Arc::new(log_dead_letter) }
    }

    fn with(change: impl FnOnce(&mut WorkConfig)) -> Self {
        let mut place = Self::new();
        change(&mut place.config);
        place.queue = MemoryQueue::new(rules_of(&place.config));
        place
    }

    fn crew(&self, topics: &[&str], workers: usize) -> Crew {
        let topics = Topics::of(topics).expect("legal");
        let shared = Shared::new("g".to_owned(), self.config.clone(), EventSink::new(), topics);
        let (queue, kafka) = (Arc::new(self.queue.clone()), Arc::new(self.kafka.clone()));
        let shop = assemble(queue, kafka, shared, Arc::clone(&self.sink));
        Crew::start(shop, workers, Duration::from_secs(5)).expect("threads")
    }

    fn node(
        &self,
        topics: &[&str],
        handler: impl Fn(&mut Unit) -> HandlerResult + Send + Sync + 'static,
    ) -> Node {
        let workers = self.config.workers as usize;
        let handler: Arc<Handler> = Arc::new(handler);
        Node::start(self.crew(topics, threads_of(&self.config, workers)), workers, &handler)
            .expect("threads")
    }

    fn pull(&self, topics: &[&str]) -> PullNode {
        PullNode::start(self.crew(topics, 1))
    }
}

/// How often each record was seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<Spot, u32>>>);

/// Topic, partition, offset.
type Spot = (String, i32, i64);

impl Seen {
    fn note(&self, topic: &str, partition: i32, offset: i64) {
        *self.0.lock().entry((topic.to_owned(), partition, offset)).or_default() += 1;
    }

    fn handler(&self) -> impl Fn(&mut Unit) -> HandlerResult + Send + Sync + 'static {
        let seen = self.clone();
        move |unit| {
            for record in unit.records()? {
                let record = record?;
                assert_eq!(record.value(), Some(record.offset().to_string().as_bytes()));
                seen.note(record.topic(), record.partition(), record.offset());
                unit.done_to(record.offset() + 1);
            }
            Ok(())
        }
    }

    fn times(&self, topic: &str, partition: i32, offset: i64) -> u32 {
        self.0.lock().get(&(topic.to_owned(), partition, offset)).copied().unwrap_or(0)
    }

    /// Whether exactly these offsets were seen, each exactly once.
    fn is_once(&self, topic: &str, partition: i32, offsets: impl IntoIterator<Item = i64>) -> bool {
        let seen = self.0.lock();
        let of = |key: &&Spot| key.0 == topic && key.1 == partition;
        let all: BTreeSet<i64> = seen.keys().filter(of).map(|key| key.2).collect();
        let once = seen.iter().filter(|(key, _)| of(key)).all(|(_, count)| *count == 1);
        once && all == offsets.into_iter().collect()
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Deadline::within(LIMIT);
    while !condition() {
        assert!(!deadline.left().is_zero(), "in vain: {what}");
        pause(Duration::from_millis(2));
    }
}

#[test]
fn every_record_is_handled_once_and_the_offset_is_committed() {
    let place = Place::new();
    place.kafka.create("a", 3);
    place.kafka.create("b", 1);
    for partition in 0..3 {
        place.kafka.append("a", partition, 95);
    }
    place.kafka.append("b", 0, 5);
    place.kafka.append_gap("b", 0, 30);
    place.kafka.append("b", 0, 5);
    place.kafka.append_gap("b", 0, 7);
    let seen = Seen::default();
    let node = place.node(&["a", "b"], seen.handler());
    node.drain(LIMIT).expect("drained");
    for partition in 0..3 {
        assert!(seen.is_once("a", partition, 0..95));
    }
    assert!(seen.is_once("b", 0, (0..5).chain(35..40)));
    node.shutdown(LIMIT).expect("no handler runs");
    assert_eq!(place.kafka.offset("g", "a", 2), Some(95));
    assert_eq!(place.kafka.offset("g", "b", 0), Some(47));
    let stats = node.stats();
    assert_eq!((stats.total.records, stats.total.units, stats.planned), (295, 35, 35));
    assert_eq!((stats.total.failed, stats.total.lost, stats.total.duplicates), (0, 0, 0));
}

/// As many units are open as may be, and no more; the rest is planned as they are finished.
#[test]
fn a_backlog_is_planned_as_it_is_worked_off() {
    let place = Place::with(|config| config.units_per_partition_max = 7);
    place.kafka.create("t", 2);
    place.kafka.append("t", 0, 2000);
    place.kafka.append("t", 1, 2000);
    let seen = Seen::default();
    let (inner, queue) = (seen.handler(), place.queue.clone());
    let node = place.node(&["t"], move |unit| {
        let held = queue.snapshot(SnapshotLimits::default())?;
        assert!(held.partitions.iter().all(|partition| partition.state.outstanding <= 7));
        inner(unit)
    });
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 0..2000) && seen.is_once("t", 1, 0..2000));
    assert_eq!(node.stats().total.failed, 0);
}

#[test]
fn what_a_failed_handler_had_done_is_not_done_again() {
    let place = Place::new();
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 20);
    let seen = Seen::default();
    let (inner, failed) = (seen.handler(), AtomicBool::new(false));
    let node = place.node(&["t"], move |unit| {
        if unit.range().start == 10 && !failed.swap(true, Ordering::Relaxed) {
            for record in unit.records()?.take(4) {
                unit.done_to(record?.offset() + 1);
            }
            return Err("no luck".into());
        }
        inner(unit)
    });
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, (0..10).chain(14..20)));
    assert_eq!(node.stats().total.failed, 1);
    let failure = node.events().find(|event| matches!(event, Event::UnitFailed { .. }));
    let Some(Event::UnitFailed { unit, attempt: 1, error }) = failure else {
        panic!("{failure:?}")
    };
    assert_eq!((unit.to_string().as_str(), error.kind()), ("t/0/10-20", ErrorKind::Handler));
}

#[test]
fn a_panic_is_a_failure_and_the_worker_lives_on() {
    let place = Place::with(|config| config.workers = 1);
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 30);
    let seen = Seen::default();
    let inner = seen.handler();
    let node = place.node(&["t"], move |unit| {
        assert!(unit.attempt() > 1, "the first attempt at {} fails", unit.id());
        inner(unit)
    });
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 0..30));
    assert_eq!(node.stats().total.failed, 3);
}

#[test]
fn a_unit_that_fails_too_often_is_dead_lettered_and_the_rest_goes_on() {
    let mut place = Place::new();
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 30);
    let dead = Arc::new(Mutex::new(Vec::new()));
    let letters = Arc::clone(&dead);
    place.sink = Arc::new(move |unit| {
        letters.lock().push((unit.unit.to_string(), unit.attempts, unit.error.clone()));
        Ok(())
    });
    let seen = Seen::default();
    let inner = seen.handler();
    let node = place.node(&["t"], move |unit| match unit.range().start {
        10 => Err("poison".into()),
        _ => inner(unit),
    });
    node.drain(LIMIT).expect("drained");
    let letter = ("t/0/10-20".to_owned(), 3, "the handler failed: poison".to_owned());
    assert_eq!(*dead.lock(), [letter]);
    assert!(seen.is_once("t", 0, (0..10).chain(20..30)));
    let total = node.stats().total;
    assert_eq!((total.failed, total.dead_lettered, total.units), (3, 1, 2));
}

/// Nothing is lost by a sink that is down: the offset stays below the unit until it works.
#[test]
fn a_dead_letter_that_cannot_be_stored_holds_the_offset() {
    let mut place = Place::new();
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 30);
    let (works, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (sink_works, sink_calls) = (Arc::clone(&works), Arc::clone(&calls));
    place.sink = Arc::new(move |_| {
        sink_calls.fetch_add(1, Ordering::Relaxed);
        if sink_works.load(Ordering::Relaxed) { Ok(()) } else { Err("full disk".into()) }
    });
    let node = place.node(&["t"], |unit| match unit.range().start {
        10 => Err("poison".into()),
        _ => Ok(()),
    });
    wait_until("the sink is tried again", || calls.load(Ordering::Relaxed) >= 3);
    assert_eq!(place.kafka.offset("g", "t", 0), Some(10));
    works.store(true, Ordering::Relaxed);
    node.drain(LIMIT).expect("drained");
    wait_until("the offset", || place.kafka.offset("g", "t", 0) == Some(30));
}

#[test]
fn a_handler_that_hangs_loses_its_unit() {
    let ms = Duration::from_millis;
    let place = Place::with(|config| {
        config.unit_lease = ms(100);
        config.unit_max = ms(100);
    });
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 10);
    let seen = Seen::default();
    let (inner, first) = (seen.handler(), AtomicBool::new(true));
    let node = place.node(&["t"], move |unit| {
        if first.swap(false, Ordering::Relaxed) {
            let read = unit.records()?.count();
            assert_eq!(read, 10);
            wait_until("the lease is lost", || unit.is_lost());
            return Ok(());
        }
        inner(unit)
    });
    node.drain(LIMIT).expect("another worker finished it");
    wait_until("the late one is counted", || node.stats().total.lost == 1);
    assert_eq!(node.stats().total.duplicates, 10);
    assert!(seen.is_once("t", 0, 0..10));
    node.shutdown(LIMIT).expect("no handler runs");
    let events: Vec<Event> = node.events().collect();
    assert!(events.iter().any(|event| matches!(event, Event::UnitOverdue { .. })));
    assert!(events.iter().any(|event| matches!(event, Event::LeaseLost { .. })));
}

#[test]
fn two_nodes_share_the_work_and_one_may_leave() {
    let place = Place::new();
    place.kafka.create("t", 4);
    for partition in 0..4 {
        place.kafka.append("t", partition, 1000);
    }
    let seen = Seen::default();
    let (one, other) = (place.node(&["t"], seen.handler()), place.node(&["t"], seen.handler()));
    wait_until("both work", || [&one, &other].iter().all(|node| node.stats().total.units > 0));
    one.shutdown(LIMIT).expect("its handlers end");
    other.drain(LIMIT).expect("the other goes on");
    for partition in 0..4 {
        assert!(seen.is_once("t", partition, 0..1000));
    }
    assert!(!one.stats().is_leader);
    wait_until("the other leads", || other.stats().is_leader);
}

/// What the last node finishes before it was ever the organiser is committed when it shuts down.
#[test]
fn the_last_node_commits_what_it_inherits() {
    let place = Place::with(|config| {
        config.organiser_lease = Duration::from_secs(600);
        config.workers = 1;
    });
    place.kafka.create("t", 1);
    let seen = Seen::default();
    let (runs, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (handler, gate) = (seen.handler(), Arc::clone(&runs));
    let one = place.node(&["t"], move |unit| {
        wait_until("the other has a unit", || gate.load(Ordering::SeqCst));
        handler(unit)
    });
    wait_until("one leads", || one.stats().is_leader);
    let (handler, has, gate) = (seen.handler(), Arc::clone(&runs), Arc::clone(&go_on));
    let other = place.node(&["t"], move |unit| {
        has.store(true, Ordering::SeqCst);
        wait_until("it may go on", || gate.load(Ordering::SeqCst));
        handler(unit)
    });
    place.kafka.append("t", 0, 1000);
    wait_until("one goes on", || one.stats().total.units > 0);
    one.shutdown(LIMIT).expect("its handlers end");
    go_on.store(true, Ordering::SeqCst);
    other.drain(LIMIT).expect("the other goes on");
    assert!(!other.stats().is_leader, "it asks for the lock once in a minute");
    other.shutdown(LIMIT).expect("its handlers end");
    assert!(seen.is_once("t", 0, 0..1000));
    assert_eq!(place.kafka.offset("g", "t", 0), Some(1000));
}

#[test]
fn topics_come_and_go_while_it_runs() {
    let place = Place::new();
    place.kafka.create("a", 1);
    place.kafka.create("b", 1);
    place.kafka.append("a", 0, 20);
    place.kafka.append("b", 0, 20);
    let seen = Seen::default();
    let node = place.node(&["a"], seen.handler());
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("b", 0, []));
    node.add_topic("b").expect("legal");
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("b", 0, 0..20));
    node.remove_topic("a").expect("it reads it");
    assert_eq!(node.remove_topic("a").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(node.pause("a").unwrap_err().kind(), ErrorKind::InvalidInput);
    place.kafka.append("a", 0, 20);
    node.pause("b").expect("it reads it");
    place.kafka.append("b", 0, 20);
    node.resume("b").expect("it reads it");
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("b", 0, 0..40));
    assert!(seen.is_once("a", 0, 0..20), "removed");
    assert_eq!(node.add_topic("no/topic").unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// A queue that was lost is rebuilt from the group's offsets in Kafka.
#[test]
fn an_emptied_queue_goes_on_at_the_groups_offset() {
    let mut place = Place::new();
    place.kafka.create("t", 2);
    place.kafka.append("t", 0, 50);
    let seen = Seen::default();
    let node = place.node(&["t"], seen.handler());
    node.drain(LIMIT).expect("drained");
    node.shutdown(LIMIT).expect("no handler runs");
    place.kafka.append("t", 0, 50);
    place.kafka.append("t", 1, 50);
    place.queue = MemoryQueue::new(rules_of(&place.config));
    let node = place.node(&["t"], seen.handler());
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 0..100) && seen.is_once("t", 1, 0..50));
}

#[test]
fn a_topic_made_anew_is_read_from_its_start() {
    let place = Place::new();
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 50);
    let seen = Seen::default();
    let node = place.node(&["t"], seen.handler());
    node.drain(LIMIT).expect("drained");
    place.kafka.delete("t");
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 20);
    wait_until("the new topic is read", || seen.times("t", 0, 19) == 2);
    wait_until("its offset", || place.kafka.offset("g", "t", 0) == Some(20));
    assert_eq!((seen.times("t", 0, 0), seen.times("t", 0, 49)), (2, 1));
}

#[test]
fn new_partitions_are_read_from_their_start() {
    let place = Place::with(|config| {
        config.auto_offset_reset = crate::config::AutoOffsetReset::Latest;
    });
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 50);
    let seen = Seen::default();
    let node = place.node(&["t"], seen.handler());
    wait_until("the first offset", || place.kafka.offset("g", "t", 0) == Some(50));
    place.kafka.add_partition("t");
    place.kafka.append("t", 1, 15);
    place.kafka.append("t", 0, 10);
    wait_until("the new one is read", || place.kafka.offset("g", "t", 1) == Some(15));
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 1, 0..15) && seen.is_once("t", 0, 50..60));
}

#[test]
fn what_retention_took_is_told_and_not_waited_for() {
    let place = Place::new();
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 30);
    place.kafka.truncate("t", 0, 12);
    let seen = Seen::default();
    place.kafka.set_offset("g", "t", 0, 5);
    let node = place.node(&["t"], seen.handler());
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 12..30));
    let told = node.events().find(|event| matches!(event, Event::Skipped { .. }));
    assert!(matches!(told, Some(Event::Skipped { from: 5, to: 12, .. })), "{told:?}");
}

#[test]
fn a_cluster_that_is_away_is_waited_for() {
    let place = Place::new();
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 30);
    place.kafka.set_down(true);
    let seen = Seen::default();
    let node = place.node(&["t"], seen.handler());
    let trouble = node.events().find(|event| matches!(event, Event::Trouble { .. }));
    assert!(trouble.is_some());
    place.kafka.set_down(false);
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 0..30));
    let recovered = node.events().find(|event| matches!(event, Event::Recovered { .. }));
    assert!(recovered.is_some());
}

#[test]
fn a_reading_failure_is_no_success_whatever_the_handler_says() {
    let place = Place::new();
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 10);
    let (kafka, first) = (place.kafka.clone(), AtomicBool::new(true));
    let seen = Seen::default();
    let inner = seen.handler();
    let node = place.node(&["t"], move |unit| {
        if first.swap(false, Ordering::Relaxed) {
            kafka.set_down(true);
            assert!(unit.records()?.next().expect("an error").is_err());
            assert!(unit.records()?.next().is_none(), "it ends after the error");
            kafka.set_down(false);
            return Ok(());
        }
        inner(unit)
    });
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 0..10));
    let total = node.stats().total;
    assert_eq!((total.failed, total.given_back, total.units), (0, 1, 1));
}

#[test]
fn pulled_records_are_acknowledged_by_asking_for_the_next() {
    let place = Place::new();
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 25);
    let mut first = place.pull(&["t"]);
    let mut read = Vec::new();
    while read.len() < 14 {
        read.extend(first.read(LIMIT).expect("no failure").map(|record| record.offset()));
    }
    assert_eq!(read, (0..14).collect::<Vec<i64>>());
    first.close(LIMIT).expect("closed");
    assert_eq!(first.read(LIMIT).unwrap_err().kind(), ErrorKind::Closed);
    assert!(first.next().is_none());
    let mut rest: Vec<i64> = Vec::new();
    let mut second = place.pull(&["t"]);
    while rest.len() < 12 {
        rest.extend(second.read(LIMIT).expect("no failure").map(|record| record.offset()));
    }
    rest.sort_unstable();
    assert_eq!(rest, (13..25).collect::<Vec<i64>>(), "the last one was not acknowledged");
    assert!(second.read(Duration::from_millis(1)).expect("no failure").is_none());
    second.close(LIMIT).expect("closed");
    assert_eq!(place.kafka.offset("g", "t", 0), Some(25));
}

#[test]
fn an_organiser_plans_alone_and_one_at_a_time() {
    let place = Place::new();
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 35);
    let organiser = || {
        let shared =
            Shared::new("g".to_owned(), place.config.clone(), EventSink::new(), Topics::default());
        let (queue, kafka) = (Arc::new(place.queue.clone()), Arc::new(place.kafka.clone()));
        let shop = assemble(queue, kafka, shared, Arc::clone(&place.sink));
        Organiser::new(shop, Duration::from_secs(5))
    };
    let (first, second) = (organiser(), organiser());
    assert_eq!(first.plan_once(["t"]).expect("it leads"), 4);
    assert_eq!(first.plan_once(["t"]).expect("it leads"), 0);
    assert_eq!(second.plan_once(["t"]).unwrap_err().kind(), ErrorKind::Queue);
    first.stop();
    first.run();
    assert_eq!(second.plan_once(["t"]).expect("the first one resigned"), 0);
}

#[test]
fn shutting_down_does_not_wait_for_ever_for_a_handler() {
    let place = Place::with(|config| config.workers = 1);
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 10);
    let (release, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (held, started) = (Arc::clone(&release), Arc::clone(&runs));
    let node = place.node(&["t"], move |_| {
        started.store(true, Ordering::Relaxed);
        wait_until("the test lets it go", || held.load(Ordering::Relaxed));
        Ok(())
    });
    wait_until("the handler runs", || runs.load(Ordering::Relaxed));
    assert_eq!(node.drain(Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(node.shutdown(Duration::ZERO).unwrap_err().kind(), ErrorKind::Timeout);
    assert!(node.shutdown(Duration::ZERO).is_ok(), "again is the same as once");
    release.store(true, Ordering::Relaxed);
    assert!(node.events().count() > 0, "the events end with the node");
}
