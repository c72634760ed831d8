//! Where records go and what bytes they have: serializers and partitioners, on the in-process cluster.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use ottla::broker::{Cluster, Fault};
use ottla::producer::{PartitionRequest, Producer, RoundRobin, With};
use ottla::protocol::ApiKey;
use ottla::{Client, ErrorKind, PartitionerClass, Record};

/// Bound on everything that is waited for.
const SOON: Duration = Duration::from_secs(30);

fn cluster(brokers: i32, partitions: i32) -> (Cluster, Client) {
    let builder = Cluster::builder().brokers(brokers).topic("t", partitions);
    let kafka = builder.auto_create_topics(false).start().expect("a cluster");
    for partition in 0..partitions {
        kafka.move_leader("t", partition, 1 + partition % brokers).expect("moved");
    }
    let client = Client::builder(kafka.bootstrap()).build().expect("a client");
    (kafka, client)
}

/// Where a record without a key lands.
fn place(producer: &Producer) -> i32 {
    producer.send(Record::to("t").value("v")).expect("taken").wait().expect("stored").partition
}

#[test]
fn keys_and_values_are_the_bytes_of_their_serializers() {
    let (_kafka, client) = cluster(1, 1);
    let producer = client.producer().build().expect("a producer");
    let pair = With(|buffer| Ok(write!(buffer, "{}-{}", 1, 2)?));
    let big = With(|buffer| Ok(buffer.write_all(&vec![7; 3_000_000])?));
    for record in [
        Record::to("t").key(&-1_i32).value(&258_i64),
        Record::to("t").key(&pair).value("text"),
        Record::to("t").key(&None::<i64>).value(&pair).header("h", None),
    ] {
        producer.send(record).expect("taken");
    }
    let error = producer.send(Record::to("t").value(&big)).expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::RecordTooLarge, "{error}");
    let rejected = producer.try_send(Record::to("t").key("k").value(&big)).expect_err("too large");
    assert_eq!(rejected.record.topic(), "t");
    producer.flush(SOON).expect("stored");
    let read: Vec<_> = client
        .read("t", 0, 0..3)
        .expect("a reader")
        .map(|record| {
            let record = record.expect("a record");
            (record.key().map(<[u8]>::to_vec), record.value().map(<[u8]>::to_vec))
        })
        .collect();
    let bytes = |bytes: &[u8]| Some(bytes.to_vec());
    assert_eq!(
        read,
        [
            (bytes(&[0xff; 4]), bytes(&[0, 0, 0, 0, 0, 0, 1, 2])),
            (bytes(b"1-2"), bytes(b"text")),
            (None, bytes(b"1-2")),
        ]
    );
}

#[test]
fn a_partitioner_of_the_user_comes_first_and_its_faults_cost_one_record() {
    let (_kafka, client) = cluster(1, 6);
    let producer = client
        .producer()
        .partitioner(|record: &PartitionRequest<'_>| {
            assert_eq!((record.topic(), record.partitions()), ("t", 6));
            assert_eq!(record.available(), [0, 1, 2, 3, 4, 5]);
            match record.key()? {
                b"panic" => panic!("on purpose"),
                b"beyond" => Some(6),
                b"java" => Some(record.of_key(b"21")),
                key => i32::try_from(key.len()).ok(),
            }
        })
        .build()
        .expect("a producer");
    let send = |record: Record<'_>| Ok(producer.send(record)?.wait()?.partition);
    let keyed = |key: &'static str| send(Record::to("t").key(key).value("v"));
    assert_eq!(keyed("abc").expect("stored"), 3);
    assert_eq!(send(Record::to("t").key("abc").partition(5)).expect("stored"), 5);
    assert!((0..6).contains(&place(&producer)), "the built-in rule");
    let error: ottla::Error = keyed("panic").expect_err("it panics");
    assert_eq!(error.kind(), ErrorKind::Handler, "{error}");
    let error = keyed("beyond").expect_err("there are six");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(keyed("java").expect("stored"), keyed("java").expect("stored"));
    assert_eq!(keyed("a").expect("stored"), 1);
}

#[test]
fn round_robin_takes_each_partition_in_its_turn() {
    let (kafka, client) = cluster(2, 4);
    let by_name = [
        ("bootstrap.servers", kafka.bootstrap()),
        ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
    ];
    let named = Client::from_properties(by_name).and_then(ottla::ClientBuilder::build);
    for producer in [
        client.producer().partitioner(RoundRobin::new()),
        client.producer().partitioner_class(PartitionerClass::RoundRobin),
        named.expect("a client").producer(),
    ] {
        let producer = producer.build().expect("a producer");
        let places: Vec<i32> = (0..8)
            .map(|_| {
                let record = Record::to("t").key("the same").value("v");
                producer.send(record).expect("taken").wait().expect("stored").partition
            })
            .collect();
        assert_eq!(places, [0, 1, 2, 3, 0, 1, 2, 3]);
    }
}

/// KIP-794: a broker that takes nothing gets no more records without a key than those that show it.
#[test]
fn records_without_a_key_avoid_a_broker_that_takes_nothing() {
    const RECORDS: usize = 400;
    let (kafka, client) = cluster(2, 4);
    let producer = client
        .producer()
        .batch_size(1024)
        .linger(Duration::ZERO)
        .partitioner_availability_timeout(Duration::from_millis(50))
        .build()
        .expect("a producer");
    // Both writers have their connections once every partition was met.
    let all_met = || (0..4).all(|partition| kafka.log_end("t", partition) > Some(0));
    for _ in 0..100_000 {
        if all_met() {
            break;
        }
        place(&producer);
    }
    assert!(all_met());
    kafka.freeze(2);
    let value = [b'x'; 500];
    let mut tickets = Vec::new();
    for _ in 0..RECORDS {
        let ticket = producer.send(Record::to("t").value(&value)).expect("taken");
        if ticket.partition() % 2 == 0 {
            // Of the broker that works: time passes.
            ticket.wait().expect("stored");
        } else {
            tickets.push(ticket);
        }
    }
    assert!(tickets.len() < RECORDS / 4, "{} of {RECORDS} for a frozen broker", tickets.len());
    kafka.thaw(2);
    for ticket in tickets {
        ticket.wait_timeout(SOON).expect("an outcome").expect("stored");
    }
}

/// A key belongs to its partition, leader or not; without a key the others are used.
#[test]
fn keys_stay_where_they_belong_while_a_leader_is_missing() {
    let (kafka, client) = cluster(2, 2);
    let before = client.producer().build().expect("a producer");
    let mut homes = BTreeMap::new();
    for number in 0..20 {
        let record = Record::to("t").key(&number).value("v");
        homes.insert(number, before.send(record).expect("taken").wait().expect("stored").partition);
    }
    before.close(SOON).expect("closed");
    kafka.stop_broker(2);
    let producer = client.producer().build().expect("a producer");
    let tickets: Vec<_> = (0..20)
        .map(|number: i32| producer.send(Record::to("t").key(&number).value("v")).expect("taken"))
        .collect();
    kafka.start_broker(2).expect("started");
    for (ticket, home) in tickets.iter().zip(homes.values()) {
        let stored = ticket.wait_timeout(SOON).expect("an outcome").expect("stored");
        assert_eq!(stored.partition, *home);
    }
}

/// `close` ends every call of the producer that waits, on whatever thread: else this one would take an hour.
#[test]
fn close_wakes_a_sender_that_looks_a_topic_up() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (kafka, client) = cluster(1, 1);
    let producer = client.producer().max_block(HOUR).build().expect("a producer");
    let asked = kafka.fault(Fault::on(ApiKey::METADATA).delay(HOUR));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| producer.send(Record::to("t").value("v")).map(drop));
        assert!(asked.wait(1, SOON), "it looks the topic up");
        assert!(producer.close(SOON).expect("closed").is_empty());
        let error = sender.join().expect("no panic").expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    });
}
