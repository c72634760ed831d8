//! The dead-letter topic on a cluster in the process.

use crate::broker::Cluster;
use crate::client::Client;
use crate::fetch::{At, ConsumerRecord};
use crate::producer::Record;
use crate::work::letters;

use super::*;

fn cluster(settings: &[&str]) -> (Cluster, Client) {
    let mut builder = Cluster::builder();
    for topic in settings {
        builder = builder.topic(topic, 1);
    }
    let kafka = builder.start().expect("a cluster");
    let client = Client::builder(kafka.bootstrap()).build().expect("legal settings");
    (kafka, client)
}

fn fill(client: &Client, count: i64) {
    let producer = client.producer().build().expect("legal settings");
    for n in 0..count {
        let text = n.to_string();
        let record = Record::to("t").key(&text).value(&text).timestamp(1000 + n);
        producer.send(record.header("trace", Some(b"x"))).expect("room");
    }
    producer.flush(LIMIT).expect("stored");
}

fn builder(client: &Client) -> super::super::NodeBuilder {
    let ms = Duration::from_millis;
    client
        .node("g")
        .topics(["t"])
        .unit_size(10)
        .max_attempts(2)
        .unit_retry_backoff(ms(1))
        .unit_retry_backoff_max(ms(2))
        .planning_interval(ms(5))
        .commit_interval(ms(5))
}

fn letters(client: &Client) -> Vec<ConsumerRecord> {
    let end = client.offsets("dead", At::Latest).expect("it answers").remove(0).expect("an end");
    let range = 0..end.offset.expect("an end");
    client.read("dead", 0, range).expect("legal").map(|record| record.expect("sound")).collect()
}

fn header(record: &ConsumerRecord, name: &str) -> String {
    let header = record.headers().last(name).expect("the header");
    String::from_utf8(header.value.expect("a value").to_vec()).expect("text")
}

#[test]
fn a_bad_record_is_stored_with_the_reason_and_the_unit_goes_on() {
    let (_kafka, client) = cluster(&["t", "dead"]);
    fill(&client, 30);
    let seen = Seen::default();
    let noted = seen.clone();
    let node = builder(&client).dead_letter_topic("dead").run_records(move |record| {
        if record.offset() == 14 {
            return Err("poison".into());
        }
        noted.note("t", 0, record.offset());
        Ok(())
    });
    let node = node.expect("legal settings");
    node.drain(LIMIT).expect("drained");
    node.shutdown(LIMIT).expect("no handler runs");
    assert!(seen.is_once("t", 0, (0..14).chain(15..30)));
    let stored = letters(&client);
    assert_eq!(stored.len(), 1);
    let letter = &stored[0];
    assert_eq!((letter.key(), letter.value()), (Some(&b"14"[..]), Some(&b"14"[..])));
    assert_eq!(letter.timestamp_ms(), 1014);
    assert_eq!(header(letter, "trace"), "x");
    let why = [
        (letters::HEADER_TOPIC, "t"),
        (letters::HEADER_PARTITION, "0"),
        (letters::HEADER_OFFSET, "14"),
        (letters::HEADER_ERROR, "the handler failed: poison"),
        (letters::HEADER_ATTEMPTS, "2"),
        (letters::HEADER_GROUP, "g"),
        (letters::HEADER_UNIT, "t/0/14-15"),
    ];
    for (name, text) in why {
        assert_eq!(header(letter, name), text, "{name}");
    }
}

#[test]
fn a_unit_that_fails_as_a_whole_is_stored_record_by_record() {
    let (_kafka, client) = cluster(&["t", "dead"]);
    fill(&client, 30);
    let node = builder(&client).dead_letter_topic("dead").run(|unit| match unit.range().start {
        10 => Err("poison".into()),
        _ => Ok(()),
    });
    let node = node.expect("legal settings");
    node.drain(LIMIT).expect("drained");
    let stored = letters(&client);
    let offsets: Vec<String> =
        stored.iter().map(|letter| header(letter, letters::HEADER_OFFSET)).collect();
    assert_eq!(offsets, (10..20).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(header(&stored[3], letters::HEADER_UNIT), "t/0/10-20");
    assert_eq!(node.stats().total.dead_lettered, 1);
}

#[test]
fn a_node_does_not_read_its_own_letters() {
    let client = Client::builder("localhost:1").build().expect("legal settings");
    let refused = client.node("g").topics(["t"]).dead_letter_topic("t").run(|_| Ok(()));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
}
