//! Nodes on real Kafka and real Redis: the queue's rules meet real brokers here.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::{servers, text, unique, wait_until};
use ottla::Client;
use ottla::config::IsolationLevel;
use ottla::work::{HandlerResult, NodeBuilder, Redis, Unit};

const LIMIT: Duration = Duration::from_secs(120);

fn client() -> Client {
    Client::builder(servers().bootstrap()).build().expect("legal settings")
}

/// A node of `group` with settings that fit a test.
fn node(client: &Client, group: &str, topic: &str) -> NodeBuilder {
    client
        .node(group)
        .queue(Redis::at(servers().redis_url()))
        .topics([topic])
        .workers(4)
        .unit_size(50)
        .max_attempts(3)
        .planning_interval(Duration::from_millis(50))
        .commit_interval(Duration::from_millis(100))
        .unit_retry_backoff(Duration::from_millis(10))
        .unit_retry_backoff_max(Duration::from_millis(100))
}

/// Writes `count` lines to a partition with a foreign client.
fn produce(topic: &str, partition: usize, count: usize) {
    let lines = (0..count).map(|n| format!("k{n}:{partition}-{n}\n")).collect::<Vec<_>>().concat();
    let partition = partition.to_string();
    servers().kcat(&["-P", "-t", topic, "-p", &partition, "-K", ":"], lines.as_bytes());
}

/// How often each value was seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, u32>>>);

impl Seen {
    fn handler(&self) -> impl Fn(&mut Unit) -> HandlerResult + Send + Sync + 'static {
        let seen = self.clone();
        move |unit| {
            for record in unit.records()? {
                let record = record?;
                let value = text(record.value().expect("a value")).into_owned();
                *seen.lock().entry(value).or_default() += 1;
                unit.done_to(record.offset() + 1);
            }
            Ok(())
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn values(&self) -> BTreeSet<String> {
        self.lock().keys().cloned().collect()
    }

    fn most(&self) -> u32 {
        self.lock().values().copied().max().unwrap_or(0)
    }
}

fn expected(partition: usize, count: usize) -> BTreeSet<String> {
    (0..count).map(|n| format!("{partition}-{n}")).collect()
}

#[test]
fn two_nodes_share_the_work_and_kafkas_tool_sees_the_offset() {
    let _calm = servers().calm();
    let (topic, group) = (unique("work"), unique("group"));
    servers().create_topic(&topic, 3, &[]);
    for partition in 0..3 {
        produce(&topic, partition, 3000);
    }
    let (client, seen) = (client(), Seen::default());
    let one = node(&client, &group, &topic).run(seen.handler()).expect("a node");
    let other = node(&client, &group, &topic).run(seen.handler()).expect("a node");
    wait_until("both work", LIMIT, || {
        [&one, &other].iter().all(|node| node.stats().total.units > 0)
    });
    one.shutdown(LIMIT).expect("its handlers end");
    other.drain(LIMIT).expect("the other goes on");
    other.shutdown(LIMIT).expect("its handlers end");
    let all: BTreeSet<String> = (0..3).flat_map(|partition| expected(partition, 3000)).collect();
    assert_eq!(seen.values(), all);
    assert_eq!(seen.most(), 1, "nothing failed, so nothing came twice");
    let described = servers().java_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        &["--describe", "--group", &group],
    );
    let described = text(&described.stdout).into_owned();
    let rows: Vec<Vec<&str>> = described
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|fields: &Vec<&str>| fields.get(1) == Some(&topic.as_str()))
        .collect();
    assert_eq!(rows.len(), 3, "{described}");
    for row in rows {
        assert_eq!(row[3..6], ["3000", "3000", "0"], "{described}");
    }
}

#[test]
fn failures_are_tried_again_from_where_they_failed_and_given_up_at_last() {
    let _calm = servers().calm();
    let (topic, group) = (unique("work"), unique("group"));
    servers().create_topic(&topic, 1, &[]);
    produce(&topic, 0, 200);
    let (client, seen) = (client(), Seen::default());
    let (inner, panicked) = (seen.handler(), AtomicBool::new(false));
    let dead = Arc::new(Mutex::new(Vec::new()));
    let letters = Arc::clone(&dead);
    let node = node(&client, &group, &topic)
        .dead_letter(move |dead| {
            letters.lock().expect("no panic").push(dead.unit.to_string());
            Ok(())
        })
        .run(move |unit| match unit.range().start {
            50 => Err("poison".into()),
            100 if !panicked.swap(true, Ordering::Relaxed) => {
                for record in unit.records()?.take(20) {
                    unit.done_to(record?.offset() + 1);
                }
                panic!("once");
            }
            _ => inner(unit),
        })
        .expect("a node");
    node.drain(LIMIT).expect("drained");
    let left: BTreeSet<String> = (0..50).chain(120..200).map(|n| format!("0-{n}")).collect();
    assert_eq!(seen.values(), left, "50 to 100 is dead, 100 to 120 was credited");
    assert_eq!(seen.most(), 1);
    assert_eq!(*dead.lock().expect("no panic"), [format!("{topic}/0/50-100")]);
    assert_eq!((node.stats().total.failed, node.stats().total.dead_lettered), (4, 1));
}

#[test]
fn an_emptied_redis_is_rebuilt_from_the_groups_offset() {
    let outage = servers().outage();
    let (topic, group) = (unique("work"), unique("group"));
    servers().create_topic(&topic, 1, &[]);
    produce(&topic, 0, 500);
    let (client, seen) = (client(), Seen::default());
    let node = node(&client, &group, &topic).run(seen.handler()).expect("a node");
    node.drain(LIMIT).expect("drained");
    outage.redis().stop();
    outage.redis().start();
    servers().kcat(&["-P", "-t", &topic, "-p", "0"], b"after\n");
    node.drain(LIMIT).expect("drained");
    let mut all = expected(0, 500);
    all.insert("after".to_owned());
    assert_eq!(seen.values(), all);
    node.shutdown(LIMIT).expect("its handlers end");
}

#[test]
fn topics_come_and_go_and_records_can_be_pulled() {
    let _calm = servers().calm();
    let (first, second, group) = (unique("work"), unique("work"), unique("group"));
    for topic in [&first, &second] {
        servers().create_topic(topic, 1, &[]);
        produce(topic, 0, 120);
    }
    let client = client();
    let mut pull = node(&client, &group, &first).pull().expect("a node");
    let mut read = Vec::new();
    while read.len() < 70 {
        read.extend(pull.read(LIMIT).expect("no failure").map(|record| record.offset()));
    }
    assert_eq!(read, (0..70).collect::<Vec<i64>>());
    pull.close(LIMIT).expect("closed");
    let seen = Seen::default();
    let node = node(&client, &group, &first).run(seen.handler()).expect("a node");
    node.drain(LIMIT).expect("drained");
    let rest: BTreeSet<String> = (69..120).map(|n| format!("0-{n}")).collect();
    assert_eq!(seen.values(), rest, "the last record that was pulled was not acknowledged");
    node.remove_topic(&first).expect("it reads it");
    node.add_topic(&second).expect("legal");
    node.drain(LIMIT).expect("drained");
    assert_eq!(seen.values(), expected(0, 120));
}

#[test]
fn a_compacted_range_is_finished() {
    let _calm = servers().calm();
    let (topic, group) = (unique("work"), unique("group"));
    servers().create_topic(
        &topic,
        1,
        &["cleanup.policy=compact", "segment.ms=100", "min.cleanable.dirty.ratio=0.01"],
    );
    for round in 0..5 {
        let lines = (0..50).map(|n| format!("k{n}:{round}-{n}\n")).collect::<Vec<_>>().concat();
        servers().kcat(&["-P", "-t", &topic, "-p", "0", "-K", ":"], lines.as_bytes());
    }
    let client = client();
    wait_until("the cleaner has run", LIMIT, || {
        let reader = client.read(&topic, 0, 0..250).expect("legal");
        servers().kcat(&["-P", "-t", &topic, "-p", "0", "-K", ":"], b"roll:roll\n");
        reader.take_while(|record| record.as_ref().is_ok_and(|r| r.offset() < 250)).count() < 250
    });
    let seen = Seen::default();
    let node = node(&client, &group, &topic)
        .isolation_level(IsolationLevel::ReadCommitted)
        .run(seen.handler())
        .expect("a node");
    node.drain(LIMIT).expect("gaps are no obstacle");
    let last: BTreeSet<String> = (0..50).map(|n| format!("4-{n}")).collect();
    assert!(seen.values().is_superset(&last));
}
