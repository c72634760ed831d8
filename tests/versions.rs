//! The client on one release of Kafka: `tests/versions.sh` runs this on old ones, `tests/all.sh` on the present one too.
//!
//! Topics, every codec in and out (read by kcat as well), offsets by place and time, a group's offset that survives the
//! loss of the queue. Needs `OTTLA_BOOTSTRAP`; `OTTLA_RELEASE` names the release, without it the newest is meant.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ottla::admin::Topic;
use ottla::fetch::At;
use ottla::work::{HandlerResult, Unit};
use ottla::{Client, Compression, ErrorKind, Record};

const LIMIT: Duration = Duration::from_secs(90);
/// Of the records: not now, so that a search by time has something to find.
const FIRST_MS: i64 = 1_700_000_000_000;

fn bootstrap() -> String {
    std::env::var("OTTLA_BOOTSTRAP").expect("OTTLA_BOOTSTRAP: tests/versions.sh sets it")
}

/// Major and minor number.
fn release() -> (u32, u32) {
    let Ok(release) = std::env::var("OTTLA_RELEASE") else { return (u32::MAX, 0) };
    let mut numbers = release.split('.').map(|number| number.parse().expect("a number"));
    (numbers.next().expect("a major"), numbers.next().expect("a minor"))
}

fn client() -> Client {
    Client::builder(&bootstrap()).build().expect("legal settings")
}

/// A topic of its own for a test.
fn topic(client: &Client, name: &str, partitions: i32) -> String {
    let name = format!("{name}-{:08x}", std::process::id());
    let topic = Topic::new(&name).partitions(partitions).replication(1);
    let topic = topic.config("retention.ms", "-1");
    for created in client.admin().create_topics([topic]).expect("an answer") {
        created.result.expect("made");
    }
    name
}

#[test]
fn topics_are_made_listed_and_deleted() {
    let client = client();
    let name = topic(&client, "made", 3);
    let listed = client.admin().list_topics().expect("a list");
    let found = listed.iter().find(|topic| *topic.name == name).expect("it is listed");
    assert_eq!(found.partitions.len(), 3);
    assert_eq!(found.id.is_some(), release() >= (2, 8), "topic ids came with 2.8");
    let again = client.admin().create_topics([Topic::new(&name).partitions(1).replication(1)]);
    let again = again.expect("an answer").remove(0).result.expect_err("it exists");
    assert_eq!(again.broker_code(), Some(ottla::protocol::ErrorCode::TOPIC_ALREADY_EXISTS));
    for deleted in client.admin().delete_topics([name.clone()]).expect("an answer") {
        deleted.result.expect("deleted");
    }
}

#[test]
fn every_codec_of_the_release_goes_in_and_comes_out() {
    const RECORDS: i64 = 2000;
    let client = client();
    for codec in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let topic = topic(&client, &format!("codec-{codec}"), 1);
        let producer = client.producer().compression(codec).build().expect("a producer");
        if codec == Compression::Zstd && release() < (2, 1) {
            let ticket = producer.send(Record::to(&topic).value("v")).expect("taken");
            let error = ticket.wait().expect_err("the release does not know zstd");
            assert_eq!(error.kind(), ErrorKind::UnsupportedVersion, "{error}");
            assert!(!error.possibly_persisted() && error.to_string().contains("zstd"), "{error}");
            assert_eq!(end(&client, &topic), 0);
            continue;
        }
        for n in 0..RECORDS {
            let (key, value) = (format!("k{n}"), format!("value {n}"));
            let record =
                Record::to(&topic).key(&key).value(&value).header("n", Some(key.as_bytes()));
            producer.send(record.timestamp(FIRST_MS + n)).expect("taken");
        }
        assert!(producer.close(LIMIT).expect("closed").is_empty());
        let records = client.read(&topic, 0, 0..RECORDS).expect("a reader");
        let mut count = 0;
        for (n, record) in (0..).zip(records) {
            let record = record.expect("a record");
            assert_eq!((record.offset(), record.timestamp_ms()), (n, FIRST_MS + n), "{codec}");
            assert_eq!(record.key(), Some(format!("k{n}").as_bytes()));
            assert_eq!(record.value(), Some(format!("value {n}").as_bytes()));
            let header = record.headers().last("n").expect("a header").value;
            assert_eq!(header, record.key());
            count += 1;
        }
        assert_eq!(count, RECORDS, "{codec}");
        let read = Command::new("kcat")
            .args(["-b", &bootstrap(), "-C", "-t", &topic, "-e", "-q", "-f", "%o %T %k %s %h\n"])
            .output()
            .expect("kcat");
        let line = |n| format!("{n} {} k{n} value {n} n=k{n}\n", FIRST_MS + n);
        let expected = (0..RECORDS).map(line).collect::<Vec<_>>().concat();
        assert!(read.stdout == expected.as_bytes(), "{codec}: kcat reads something else");
        offsets_are_found(&client, &topic, RECORDS);
    }
}

/// Where the only partition of `topic` ends.
fn end(client: &Client, topic: &str) -> i64 {
    offset(client, topic, At::Latest).expect("an end")
}

fn offset(client: &Client, topic: &str, at: At) -> Option<i64> {
    let mut all = client.offsets(topic, at).expect("an answer");
    all.remove(0).expect("an answer of the leader").offset
}

fn offsets_are_found(client: &Client, topic: &str, records: i64) {
    assert_eq!(offset(client, topic, At::Earliest), Some(0));
    assert_eq!(end(client, topic), records);
    assert_eq!(offset(client, topic, At::Time(FIRST_MS + 700)), Some(700));
    assert_eq!(offset(client, topic, At::Time(FIRST_MS + records)), None);
}

/// What kcat writes in the format of its own choice for the release, we read.
#[test]
fn records_of_a_foreign_client_are_read() {
    let client = client();
    for codec in ["none", "gzip", "snappy", "lz4"] {
        let topic = topic(&client, &format!("foreign-{codec}"), 1);
        let lines = (0..500).map(|n| format!("k{n}:v{n}\n")).collect::<Vec<_>>().concat();
        let file = std::env::temp_dir().join(&topic);
        std::fs::write(&file, lines).expect("written");
        let sent = Command::new("kcat")
            .args(["-b", &bootstrap(), "-P", "-t", &topic, "-p", "0", "-K", ":", "-z", codec, "-l"])
            .arg(&file)
            .status()
            .expect("kcat");
        std::fs::remove_file(&file).expect("removed");
        assert!(sent.success());
        let values: Vec<String> = client
            .read(&topic, 0, 0..500)
            .expect("a reader")
            .map(|record| {
                let record = record.expect("a record");
                String::from_utf8(record.value().expect("a value").to_vec()).expect("text")
            })
            .collect();
        let expected: Vec<String> = (0..500).map(|n| format!("v{n}")).collect();
        assert_eq!(values, expected, "{codec}");
    }
}

/// The group's offset is in Kafka: a second node with an empty queue goes on where the first one ended.
#[test]
fn a_group_goes_on_from_its_offset_in_kafka() {
    let client = client();
    let topic = topic(&client, "group", 2);
    let group = format!("{topic}-g");
    let first = drained(&client, &topic, &group, 0..1000);
    assert_eq!(first, (0..1000).collect());
    let second = drained(&client, &topic, &group, 1000..1500);
    assert_eq!(second, (1000..1500).collect());
}

/// Sends the numbers and works the topic off; what the workers saw.
fn drained(
    client: &Client,
    topic: &str,
    group: &str,
    numbers: std::ops::Range<u32>,
) -> BTreeSet<u32> {
    let producer = client.producer().build().expect("a producer");
    for number in numbers {
        let value = number.to_string();
        producer.send(Record::to(topic).key(&value).value(&value)).expect("taken");
    }
    assert!(producer.close(LIMIT).expect("closed").is_empty());
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let handler = {
        let seen = Arc::clone(&seen);
        move |unit: &mut Unit| -> HandlerResult {
            for record in unit.records()? {
                let record = record?;
                let number = std::str::from_utf8(record.value().unwrap_or_default())?.parse()?;
                assert!(seen.lock().expect("no panic").insert(number), "{number} came twice");
                unit.done_to(record.offset() + 1);
            }
            Ok(())
        }
    };
    let node = client.node(group).topics([topic]).workers(2).unit_size(100).run(handler);
    let node = node.expect("a node");
    node.drain(LIMIT).expect("drained");
    node.shutdown(LIMIT).expect("ended");
    let seen = seen.lock().expect("no panic");
    seen.clone()
}
