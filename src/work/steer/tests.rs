//! Steering against a cluster in the process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::broker::Cluster;
use crate::client::Client;
use crate::error::{ErrorKind, Result};
use crate::producer::Record;
use crate::work::memory::MemoryQueue;
use crate::work::queue::{QueueRules, Steered, WorkQueue};
use crate::work::{Node, TopicPartition, Unit};

const LIMIT: Duration = Duration::from_secs(60);
/// Records of each of the two partitions.
const RECORDS: i64 = 20;

/// A cluster with a topic, and a queue that outlives nodes.
struct Group {
    cluster: Cluster,
    client: Client,
    queue: Arc<dyn WorkQueue>,
    seen: Arc<Mutex<Vec<(i32, i64)>>>,
    bad: Arc<Mutex<BTreeSet<i64>>>,
}

impl Group {
    fn new() -> Self {
        let cluster = Cluster::builder().topic("t", 2).start().expect("a cluster");
        let client = Client::builder(cluster.bootstrap()).build().expect("a client");
        let producer = client.producer().build().expect("a producer");
        for partition in [0, 1] {
            for offset in 0..RECORDS {
                let record = Record::to("t").partition(partition).value(b"x");
                producer.send(record.timestamp(1_000 * (offset + 1))).expect("room");
            }
        }
        producer.flush(LIMIT).expect("it is stored");
        let rules = QueueRules { max_attempts: 1, ..QueueRules::default() };
        let queue: Arc<dyn WorkQueue> = Arc::new(MemoryQueue::new(rules));
        Self { cluster, client, queue, seen: Arc::default(), bad: Arc::default() }
    }

    /// Runs a node until everything is finished.
    fn node(&self) -> Node {
        let (seen, bad) = (Arc::clone(&self.seen), Arc::clone(&self.bad));
        let handle = move |unit: &mut Unit| {
            let start = unit.id().start();
            if bad.lock().contains(&start) {
                return Err("on purpose".into());
            }
            let partition = unit.id().partition();
            seen.lock().extend((start..unit.id().end()).map(|offset| (partition, offset)));
            Ok(())
        };
        let builder = self.client.node("g").queue(Arc::clone(&self.queue)).topics(["t"]);
        let builder = builder.unit_size(5).planning_interval(Duration::from_millis(20));
        builder.commit_interval(Duration::from_millis(20)).run(handle).expect("a node")
    }

    fn work(&self) {
        let node = self.node();
        node.drain(LIMIT).expect("all is handled");
        node.shutdown(LIMIT).expect("it ends");
    }

    fn seen(&self) -> Vec<(i32, i64)> {
        let mut seen = std::mem::take(&mut *self.seen.lock());
        seen.sort_unstable();
        seen
    }

    fn reset(&self, to: ResetTo) -> PositionReset {
        self.client.reset_positions("g", to).queue(Arc::clone(&self.queue))
    }
}

fn of(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition).expect("legal")
}

fn both(from: i64) -> Vec<(i32, i64)> {
    [0, 1].iter().flat_map(|p| (from..RECORDS).map(|offset| (*p, offset))).collect()
}

/// Partition, from, to, skipped, repeated.
fn rows(moves: Result<Vec<PositionMove>>) -> Vec<(i32, Option<i64>, i64, i64, i64)> {
    let moves = moves.expect("they can be moved");
    let row = |m: PositionMove| (m.partition.partition(), m.from, m.to, m.skipped, m.repeated);
    moves.into_iter().map(row).collect()
}

/// The queue and Kafka agree: a node that begins with an empty queue goes on at the same place.
#[test]
fn a_position_moves_in_the_queue_and_in_kafka() {
    let mut group = Group::new();
    group.work();
    assert_eq!(group.seen(), both(0));
    let back = group.reset(ResetTo::Offset(12));
    let wanted = [(0, Some(20), 12, 0, 8), (1, Some(20), 12, 0, 8)];
    assert_eq!(rows(back.preview()), wanted);
    group.work();
    assert_eq!(group.seen(), [], "a look changes nothing");
    assert_eq!(rows(back.execute()), wanted);
    group.work();
    assert_eq!(group.seen(), both(12));

    let one = group.reset(ResetTo::Time(6_000)).topics(["t"]).partitions([1]);
    assert_eq!(rows(one.execute()), [(1, Some(20), 5, 0, 15)]);
    group.queue = Arc::new(MemoryQueue::default());
    group.work();
    let seen: Vec<_> = both(5).into_iter().filter(|(partition, _)| *partition == 1).collect();
    assert_eq!(group.seen(), seen, "from Kafka's offset alone");
}

#[test]
fn what_is_not_in_the_queue_moves_in_kafka() {
    let group = Group::new();
    let error = group.reset(ResetTo::Latest).preview().expect_err("nothing is known");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let to_end = group.client.reset_positions("g", ResetTo::Latest).topics(["t"]);
    assert_eq!(rows(to_end.execute()), [(0, None, 20, 0, 0), (1, None, 20, 0, 0)]);
    let places = [
        (ResetTo::Earliest, 0, 20),
        (ResetTo::Back(Duration::from_secs(1)), 20, 0),
        (ResetTo::Back(Duration::MAX), 0, 20),
        (ResetTo::Time(i64::MAX), 20, 0),
        (ResetTo::Offset(99), 20, 0),
        (ResetTo::Offset(-5), 0, 20),
    ];
    for (to, place, repeated) in places {
        let wanted = [(0, Some(20), place, 0, repeated), (1, Some(20), place, 0, repeated)];
        assert_eq!(rows(group.reset(to).topics(["t"]).preview()), wanted, "{to:?}");
    }
    group.work();
    assert_eq!(group.seen(), []);
    for (topic, partitions) in [("t", vec![2]), ("unknown", vec![])] {
        let reset = group.reset(ResetTo::Earliest).topics([topic]).partitions(partitions);
        let error = reset.execute().expect_err("it is not there");
        assert_eq!(error.kind(), ErrorKind::UnknownTopic, "{error}");
    }
    let elected = group.queue.elect(crate::work::LeaderId::random()).expect("it answers");
    assert!(elected, "the lock was given back");
    drop(group.cluster);
}

#[test]
fn nothing_moves_while_the_group_works() {
    let group = Group::new();
    let node = group.node();
    node.drain(LIMIT).expect("all is handled");
    let reset = group.reset(ResetTo::Earliest);
    let error = reset.execute().expect_err("an organiser lives");
    assert_eq!(error.kind(), ErrorKind::Queue);
    assert!(error.to_string().contains("organiser"), "{error}");
    node.shutdown(LIMIT).expect("it ends");
    let worker = crate::work::WorkerId::unique("w").expect("legal");
    group.queue.heartbeat(&worker).expect("it answers");
    let error = reset.execute().expect_err("a worker lives");
    assert!(error.to_string().contains("1 workers live"), "{error}");
    group.queue.unregister(&worker).expect("it answers");
    group.seen();
    group.work();
    assert_eq!(group.seen(), []);
    reset.execute().expect("nobody lives");
    group.work();
    assert_eq!(group.seen(), both(0));
}

#[test]
fn what_failed_is_worked_on_again_by_topic_and_partition() {
    let group = Group::new();
    group.bad.lock().extend([5, 10]);
    group.work();
    assert_eq!(group.seen().len(), 20);
    group.bad.lock().clear();
    let node = group.node();
    let two = |partition| (of(partition), Steered { units: 2, records: 10 });
    assert_eq!(node.redrive(&Scope::topic("other")).expect("it answers"), []);
    assert_eq!(node.redrive(&Scope::partition("t", 1)).expect("it answers"), [two(1)]);
    node.drain(LIMIT).expect("all is handled");
    assert_eq!(group.seen(), (5..15).map(|offset| (1, offset)).collect::<Vec<_>>());
    assert_eq!(node.drop_failed(&Scope::all()).expect("it answers"), [two(0)]);
    assert_eq!(node.redrive(&Scope::all()).expect("it answers"), []);
    node.shutdown(LIMIT).expect("it ends");
}
