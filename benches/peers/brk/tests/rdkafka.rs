//! Crate rdkafka (librdkafka), unchanged, on Ottla's in-process cluster: producers, transactions, groups.
//!
//! Each test has a cluster of its own. Nothing here sleeps to wait: every loop polls the client until what
//! it waits for has come, or [`LIMIT`] is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ottla::broker::{Cluster, Fault};
use ottla::protocol::{ApiKey, ErrorCode};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};

/// Bound on everything that is waited for.
const LIMIT: Duration = Duration::from_secs(60);
/// One poll.
const POLL: Duration = Duration::from_millis(50);

fn cluster(partitions: i32) -> Cluster {
    Cluster::builder().brokers(3).topic("t", partitions).start().expect("a cluster")
}

fn config(kafka: &Cluster, settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.bootstrap());
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config
}

fn producer(kafka: &Cluster, settings: &[(&str, &str)]) -> BaseProducer {
    config(kafka, settings).create().expect("a producer")
}

fn consumer(kafka: &Cluster, settings: &[(&str, &str)]) -> BaseConsumer {
    let common = [("enable.auto.commit", "false"), ("auto.offset.reset", "earliest")];
    config(kafka, &[&common, settings].concat()).create().expect("a consumer")
}

fn send(producer: &BaseProducer, partition: i32, value: &str) {
    let record = BaseRecord::<str, str>::to("t").partition(partition).payload(value);
    producer.send(record).map_err(|(error, _)| error).expect("room in the queue");
}

/// Polls until `count` messages came, and gives what `of` takes from each.
fn polled<T>(
    consumer: &BaseConsumer,
    count: usize,
    of: impl Fn(&BorrowedMessage<'_>) -> T,
) -> Vec<T> {
    let end = Instant::now() + LIMIT;
    let mut seen = Vec::new();
    while seen.len() < count {
        assert!(Instant::now() < end, "{} of {count} messages came", seen.len());
        if let Some(message) = consumer.poll(POLL) {
            seen.push(of(&message.expect("no error of the consumer")));
        }
    }
    seen
}

fn value(message: &BorrowedMessage<'_>) -> String {
    String::from_utf8(message.payload().expect("a value").to_vec()).expect("text")
}

/// What partition 0 of `t` holds at an isolation level, up to the end that the brokers tell.
fn read(kafka: &Cluster, isolation: &str) -> Vec<String> {
    let settings =
        [("isolation.level", isolation), ("enable.partition.eof", "true"), ("group.id", "reader")];
    let reader = consumer(kafka, &settings);
    let mut from = TopicPartitionList::new();
    from.add_partition_offset("t", 0, Offset::Beginning).expect("a partition");
    reader.assign(&from).expect("assigned");
    let end = Instant::now() + LIMIT;
    let mut values = Vec::new();
    loop {
        assert!(Instant::now() < end, "no end of the partition after {values:?}");
        match reader.poll(POLL) {
            Some(Err(KafkaError::PartitionEOF(0))) => return values,
            Some(message) => values.push(value(&message.expect("no error of the consumer"))),
            None => {}
        }
    }
}

#[test]
fn an_idempotent_producer_stores_each_record_once_and_in_order_over_retries() {
    let kafka = cluster(1);
    let lost = kafka.fault(Fault::on(ApiKey::PRODUCE).skip(1).times(2).drop_after());
    let moved =
        Fault::on(ApiKey::PRODUCE).skip(6).times(1).answer(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    let moved = kafka.fault(moved);
    let settings = [
        ("enable.idempotence", "true"),
        ("linger.ms", "1"),
        ("batch.num.messages", "50"),
        ("retry.backoff.ms", "10"),
    ];
    let producer = producer(&kafka, &settings);
    let sent: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    for value in &sent {
        send(&producer, 0, value);
        producer.poll(Duration::ZERO);
    }
    producer.flush(LIMIT).expect("all delivered");
    assert_eq!((lost.count(), moved.count()), (2, 1), "the faults happened");
    assert_eq!(kafka.log_end("t", 0), Some(2000), "no answer that was lost stored a batch twice");
    assert_eq!(read(&kafka, "read_uncommitted"), sent);
}

#[test]
fn a_transactional_producer_commits_and_aborts() {
    let kafka = cluster(1);
    let producer = producer(&kafka, &[("transactional.id", "one")]);
    producer.init_transactions(LIMIT).expect("initialised");

    producer.begin_transaction().expect("begun");
    send(&producer, 0, "a");
    send(&producer, 0, "b");
    producer.commit_transaction(LIMIT).expect("committed");
    producer.begin_transaction().expect("begun");
    send(&producer, 0, "c");
    producer.flush(LIMIT).expect("stored, so that there is something to abort");
    producer.abort_transaction(LIMIT).expect("aborted");
    producer.begin_transaction().expect("begun");
    send(&producer, 0, "d");
    producer.commit_transaction(LIMIT).expect("committed");

    assert_eq!(read(&kafka, "read_committed"), ["a", "b", "d"]);
    assert_eq!(read(&kafka, "read_uncommitted"), ["a", "b", "c", "d"]);
    assert_eq!(kafka.log_end("t", 0), Some(7), "three markers");
}

#[test]
fn an_open_transaction_holds_a_read_committed_consumer_back() {
    let kafka = cluster(1);
    let producer = producer(&kafka, &[("transactional.id", "open")]);
    producer.init_transactions(LIMIT).expect("initialised");
    producer.begin_transaction().expect("begun");
    send(&producer, 0, "a");
    producer.flush(LIMIT).expect("stored");
    assert_eq!(read(&kafka, "read_committed"), [""; 0]);
    assert_eq!(read(&kafka, "read_uncommitted"), ["a"]);
    producer.commit_transaction(LIMIT).expect("committed");
    assert_eq!(read(&kafka, "read_committed"), ["a"]);
}

#[test]
fn a_second_producer_of_the_same_transactional_id_fences_the_first() {
    let kafka = cluster(1);
    let first = producer(&kafka, &[("transactional.id", "id")]);
    first.init_transactions(LIMIT).expect("initialised");
    first.begin_transaction().expect("begun");
    send(&first, 0, "of the zombie");
    first.flush(LIMIT).expect("stored");

    let second = producer(&kafka, &[("transactional.id", "id")]);
    second.init_transactions(LIMIT).expect("initialised");
    second.begin_transaction().expect("begun");
    send(&second, 0, "of the second");
    second.commit_transaction(LIMIT).expect("committed");

    let error = first.commit_transaction(LIMIT).expect_err("fenced");
    let KafkaError::Transaction(error) = error else { panic!("{error}") };
    assert!(error.is_fatal(), "{error}");
    assert_eq!(read(&kafka, "read_committed"), ["of the second"]);
}

#[test]
fn offsets_of_a_group_are_part_of_a_transaction() {
    let kafka = cluster(1);
    let plain = producer(&kafka, &[]);
    (0..10).for_each(|n| send(&plain, 0, &n.to_string()));
    plain.flush(LIMIT).expect("stored");

    let reader = consumer(&kafka, &[("group.id", "g")]);
    reader.subscribe(&["t"]).expect("subscribed");
    polled(&reader, 10, |_| ());
    let producer = producer(&kafka, &[("transactional.id", "moves")]);
    producer.init_transactions(LIMIT).expect("initialised");
    for (offset, commit) in [(4, false), (7, true)] {
        producer.begin_transaction().expect("begun");
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset("t", 0, Offset::Offset(offset)).expect("a partition");
        let member = reader.group_metadata().expect("a member");
        producer.send_offsets_to_transaction(&offsets, &member, LIMIT).expect("sent");
        if commit {
            producer.commit_transaction(LIMIT).expect("committed");
        } else {
            producer.abort_transaction(LIMIT).expect("aborted");
        }
        let committed = reader.committed(LIMIT).expect("told").elements()[0].offset();
        assert_eq!(committed, if commit { Offset::Offset(7) } else { Offset::Invalid });
    }
}

/// Polls both members until each owns as many partitions as said, and gives what came meanwhile.
fn settle(members: &[(&BaseConsumer, usize)]) -> Vec<(i32, i64)> {
    let end = Instant::now() + LIMIT;
    let mut seen = Vec::new();
    let owns = |member: &BaseConsumer| member.assignment().expect("an assignment").count();
    while members.iter().any(|(member, count)| owns(member) != *count) {
        assert!(
            Instant::now() < end,
            "{:?}",
            members.iter().map(|m| owns(m.0)).collect::<Vec<_>>()
        );
        for (member, _) in members {
            if let Some(message) = member.poll(POLL) {
                let message = message.expect("no error of the consumer");
                seen.push((message.partition(), message.offset()));
            }
        }
    }
    seen
}

fn owned(member: &BaseConsumer) -> BTreeSet<i32> {
    let assignment = member.assignment().expect("an assignment");
    assignment.elements().iter().map(TopicPartitionListElem::partition).collect()
}

/// A group of two shares four partitions; one leaves; the other goes on where both stopped.
fn two_members_rebalance(strategy: &str) {
    let kafka = cluster(4);
    let plain = producer(&kafka, &[]);
    let fill = |round: i32| {
        for partition in 0..4 {
            (0..25).for_each(|n| send(&plain, partition, &format!("{round}/{n}")));
        }
        plain.flush(LIMIT).expect("stored");
    };
    let member = |name: &str| {
        let settings = [
            ("group.id", "g"),
            ("client.id", name),
            ("partition.assignment.strategy", strategy),
            ("heartbeat.interval.ms", "100"),
        ];
        let member = consumer(&kafka, &settings);
        member.subscribe(&["t"]).expect("subscribed");
        member
    };

    // Alone, the first has all.
    let first = member("first");
    assert!(settle(&[(&first, 4)]).is_empty(), "nothing is written yet");
    // The second gets its half.
    let second = member("second");
    settle(&[(&first, 2), (&second, 2)]);
    assert!(owned(&first).is_disjoint(&owned(&second)), "no partition has two owners");
    fill(1);
    for member in [&first, &second] {
        let mine = owned(member);
        let seen = polled(member, 50, |message| (message.partition(), message.offset()));
        assert_eq!(seen.iter().map(|(partition, _)| *partition).collect::<BTreeSet<_>>(), mine);
        member.commit_consumer_state(CommitMode::Sync).expect("committed");
    }
    // It leaves; what it committed is where the first goes on.
    drop(second);
    assert!(settle(&[(&first, 4)]).is_empty(), "all was read and committed");
    fill(2);
    let mut next = BTreeMap::from([(0, 25), (1, 25), (2, 25), (3, 25)]);
    for (partition, offset) in polled(&first, 100, |m| (m.partition(), m.offset())) {
        assert_eq!(next.insert(partition, offset + 1), Some(offset), "in order, from 25 on");
    }
    first.commit_consumer_state(CommitMode::Sync).expect("committed");
    for element in first.committed(LIMIT).expect("told").elements() {
        assert_eq!(element.offset(), Offset::Offset(50));
    }
}

#[test]
fn two_members_rebalance_eagerly() {
    two_members_rebalance("range,roundrobin");
}

#[test]
fn two_members_rebalance_cooperatively() {
    two_members_rebalance("cooperative-sticky");
}

#[test]
fn a_member_that_lost_its_coordinator_finds_the_next_and_goes_on() {
    let kafka = cluster(1);
    let plain = producer(&kafka, &[]);
    send(&plain, 0, "before");
    plain.flush(LIMIT).expect("stored");
    let member = consumer(&kafka, &[("group.id", "g"), ("heartbeat.interval.ms", "100")]);
    member.subscribe(&["t"]).expect("subscribed");
    assert_eq!(polled(&member, 1, value), ["before"]);
    member.commit_consumer_state(CommitMode::Sync).expect("committed");
    // Whichever it was, it is another one at least twice.
    for broker in 1..=3 {
        kafka.move_coordinator("g", broker).expect("moved");
        send(&plain, 0, "after");
        plain.flush(LIMIT).expect("stored");
        assert_eq!(polled(&member, 1, value), ["after"]);
        let end = Instant::now() + LIMIT;
        while let Err(error) = member.commit_consumer_state(CommitMode::Sync) {
            let code = error.rdkafka_error_code();
            assert_eq!(code, Some(RDKafkaErrorCode::NotCoordinator), "{error}");
            assert!(Instant::now() < end, "no coordinator is found");
            member.poll(POLL);
        }
        let committed = member.committed(LIMIT).expect("told").elements()[0].offset();
        assert_eq!(committed, Offset::Offset(i64::from(broker) + 1));
    }
}
