//! Producing to real Kafka: what a foreign client reads back, and what an outage leaves.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{servers, text, unique};
use ottla::Client;
use ottla::producer::{Producer, Record};
use ottla::protocol::records::Compression;

const TIMEOUT: Duration = Duration::from_secs(90);

fn client() -> Client {
    Client::builder(servers().bootstrap()).build().expect("a client")
}

fn close(producer: &Producer) {
    assert!(producer.close(TIMEOUT).expect("closed").is_empty());
    assert_eq!(producer.buffered_bytes(), 0);
}

#[test]
fn a_foreign_client_reads_every_codec_with_keys_headers_timestamps_and_tombstones() {
    let _calm = servers().calm();
    let client = client();
    for compression in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let topic = unique(&format!("codec-{compression}"));
        // The timestamps are old: retention by time would take the records within seconds.
        servers().create_topic(&topic, 1, &["retention.ms=-1"]);
        let producer = client.producer().compression(compression).build().expect("a producer");
        let mut expected = String::new();
        for number in 0..500 {
            let (key, value) = (format!("key-{number}"), format!("value-{number}"));
            let timestamp = 1_700_000_000_000 + number;
            let record = Record::to(&topic).timestamp(timestamp).header("n", Some(key.as_bytes()));
            let (record, line) = match number % 5 {
                0 => (record.key(&key), format!("{key}||-1|n={key}")),
                1 => (record.value(&value), format!("|{value}|{}|n={key}", value.len())),
                _ => (
                    record.key(&key).value(&value).header("e", Some(b"")).header("n", None),
                    format!("{key}|{value}|{}|n={key},e=,n=NULL", value.len()),
                ),
            };
            producer.send(record).expect("taken");
            expected.extend([&format!("{number}|{timestamp}|{line}"), "\n"]);
        }
        close(&producer);
        let format = "%o|%T|%k|%s|%S|%h\n";
        let read = servers().kcat(&["-C", "-t", &topic, "-e", "-q", "-f", format], b"");
        assert_eq!(text(&read.stdout), expected, "{compression}");
    }
}

#[test]
fn tickets_of_all_partitions_tell_the_offsets() {
    let _calm = servers().calm();
    let topic = unique("tickets");
    servers().create_topic(&topic, 6, &[]);
    let producer = client().producer().build().expect("a producer");
    assert_eq!(producer.partitions(&topic).expect("known").len(), 6);
    let tickets: Vec<_> = (0..5000)
        .map(|number: usize| {
            let key = number.to_string();
            producer.send(Record::to(&topic).key(&key).value("v")).expect("taken")
        })
        .collect();
    let mut offsets = BTreeMap::<i32, Vec<i64>>::new();
    for ticket in tickets {
        let stored = ticket.wait().expect("stored");
        offsets.entry(stored.partition).or_default().push(stored.offset.expect("an offset"));
    }
    assert_eq!(offsets.len(), 6);
    for (partition, offsets) in offsets {
        let expected: Vec<i64> = (0..offsets.len() as i64).collect();
        assert_eq!(offsets, expected, "partition {partition}");
    }
    close(&producer);
}

#[test]
fn a_broker_stopped_and_started_midway_loses_and_doubles_nothing() {
    const RECORDS: usize = 200_000;
    const PARTITIONS: usize = 6;
    let outage = servers().outage();
    let topic = unique("outage");
    servers().create_topic(&topic, PARTITIONS, &[]);
    let producer = client().producer().build().expect("a producer");
    let stored = Arc::new(AtomicUsize::new(0));
    let broker = outage.broker(servers().leader(&topic, 0));
    for number in 0..RECORDS {
        match number {
            n if n == RECORDS / 3 => broker.stop(),
            n if n == RECORDS * 2 / 3 => broker.start(),
            _ => {}
        }
        let (value, stored) = (number.to_string(), Arc::clone(&stored));
        let partition = (number % PARTITIONS) as i32;
        producer
            .send_with(Record::to(&topic).partition(partition).value(&value), move |result| {
                result.expect("stored");
                stored.fetch_add(1, Ordering::SeqCst);
            })
            .expect("taken");
    }
    producer.flush(TIMEOUT).expect("flushed");
    assert_eq!(stored.load(Ordering::SeqCst), RECORDS);
    close(&producer);
    for partition in 0..PARTITIONS {
        let index = partition.to_string();
        let arguments = ["-C", "-t", &topic, "-p", &index, "-e", "-q", "-f", "%s\n"];
        let read = servers().kcat(&arguments, b"");
        let read: Vec<usize> =
            text(&read.stdout).lines().map(|line| line.parse().expect("a number")).collect();
        let expected: Vec<usize> = (partition..RECORDS).step_by(PARTITIONS).collect();
        assert!(read == expected, "partition {partition}: {} of {}", read.len(), expected.len());
    }
}
