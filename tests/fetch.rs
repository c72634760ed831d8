//! Reading ranges from real Kafka, written by a foreign client.

mod common;

use std::time::Duration;

use common::{servers, unique, wait_until};
use ottla::admin::Topic;
use ottla::fetch::{At, Missing};
use ottla::{Client, ErrorKind};

const TIMEOUT: Duration = Duration::from_secs(30);

fn client() -> Client {
    Client::builder(servers().bootstrap()).build().expect("a client")
}

fn created(client: &Client, topic: Topic) -> String {
    let name = topic.name().to_owned();
    for made in client.admin().create_topics([topic]).expect("asked") {
        made.result.expect("created");
    }
    name
}

/// `count` lines `key-N` and value `value-N`, with a header, through kcat.
fn write(topic: &str, codec: &str, count: usize) {
    let lines: Vec<String> = (0..count).map(|i| format!("key-{i}:value-{i}\n")).collect();
    let lines = lines.concat();
    let args = ["-P", "-t", topic, "-p", "0", "-z", codec, "-K", ":", "-H", "h=1", "-H", "e="];
    servers().kcat(&args, lines.as_bytes());
}

#[test]
fn every_codec_of_a_foreign_client_is_read_byte_for_byte() {
    let _calm = servers().calm();
    let client = client();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = created(&client, Topic::new(unique(codec)).partitions(1).replication(1));
        write(&topic, codec, 1000);
        let reader = client.read(&topic, 0, 0..1000).expect("a range");
        let mut next = 0;
        for record in reader {
            let record = record.expect("a record");
            assert_eq!(record.offset(), next);
            assert_eq!(record.key(), Some(format!("key-{next}").as_bytes()), "{codec}");
            assert_eq!(record.value(), Some(format!("value-{next}").as_bytes()), "{codec}");
            let headers: Vec<_> = record
                .headers()
                .iter()
                .map(|h| (h.key().into_owned(), h.value.map(<[u8]>::to_vec)))
                .collect();
            assert_eq!(
                headers,
                [("h".into(), Some(b"1".to_vec())), ("e".into(), Some(Vec::new()))]
            );
            assert!(record.timestamp_ms() > 1_700_000_000_000);
            next += 1;
        }
        assert_eq!(next, 1000, "{codec}");
    }
}

/// A range that begins and ends inside batches (kafka-rust#80).
#[test]
fn a_range_is_cut_to_its_offsets() {
    let _calm = servers().calm();
    let client = client();
    let topic = created(&client, Topic::new(unique("cut")).partitions(1).replication(1));
    write(&topic, "lz4", 500);
    let mut reader = client.read(&topic, 0, 90..95).expect("a range");
    let batch = reader.next_batch(TIMEOUT).expect("an answer").expect("a batch");
    let offsets: Vec<i64> = batch.iter().map(|record| record.expect("a record").offset).collect();
    assert_eq!(offsets, [90, 91, 92, 93, 94]);
    assert!(reader.is_finished());
    assert_eq!(reader.position(), 95);
    assert!(reader.next_batch(TIMEOUT).expect("the end").is_none());

    let empty = client.read(&topic, 0, 7..7).expect("a range");
    assert!(empty.is_finished());
    let backwards = std::ops::Range { start: 9, end: 7 };
    let error = client.read(&topic, 0, backwards).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn offsets_are_found_by_place_and_time() {
    let _calm = servers().calm();
    let client = client();
    let topic = created(&client, Topic::new(unique("offsets")).partitions(3).replication(1));
    write(&topic, "none", 10);
    let at = |at| -> Vec<Option<i64>> {
        let found = client.offsets(&topic, at).expect("asked");
        found.into_iter().map(|offset| offset.expect("an offset").offset).collect()
    };
    assert_eq!(at(At::Earliest), [Some(0), Some(0), Some(0)]);
    assert_eq!(at(At::Latest), [Some(10), Some(0), Some(0)]);
    assert_eq!(at(At::Time(0)), [Some(0), None, None]);
    assert_eq!(at(At::Time(4_000_000_000_000)), [None, None, None]);
    let error = client.offsets(&unique("nope"), At::Latest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownTopic, "{error}");
}

/// The start of the range is gone (MaterializeInc/materialize#36559).
#[test]
fn a_range_that_is_partly_gone_fails_or_skips_as_asked() {
    let _calm = servers().calm();
    let client = client();
    let topic = created(&client, Topic::new(unique("gone")).partitions(1).replication(1));
    write(&topic, "none", 100);
    let json = format!(
        r#"{{"partitions":[{{"topic":"{topic}","partition":0,"offset":50}}],"version":1}}"#
    );
    let file = std::env::temp_dir().join(format!("{topic}.json"));
    std::fs::write(&file, json).expect("a file");
    let file_name = file.to_str().expect("a path");
    servers().java_tool(
        "org.apache.kafka.tools.DeleteRecordsCommand",
        &["--offset-json-file", file_name],
    );
    std::fs::remove_file(&file).expect("removed");

    let mut strict = client.read(&topic, 0, 0..60).expect("a range");
    let error = strict.next_batch(TIMEOUT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OffsetOutOfRange, "{error}");
    assert!(error.to_string().contains("0..50"), "{error}");

    let mut lenient = client.read(&topic, 0, 0..60).expect("a range").on_missing(Missing::Skip);
    let mut seen = Vec::new();
    while !lenient.is_finished() {
        let batch = lenient.next_batch(TIMEOUT).expect("an answer").expect("a batch");
        seen.extend(batch.iter().map(|record| record.expect("a record").offset));
    }
    assert_eq!(seen, (50..60).collect::<Vec<i64>>());
    assert_eq!(lenient.take_skipped(), vec![0..50]);

    let mut all_gone = client.read(&topic, 0, 0..40).expect("a range").on_missing(Missing::Skip);
    assert!(all_gone.next_batch(TIMEOUT).expect("an answer").is_none());
    assert!(all_gone.is_finished());
    assert_eq!(all_gone.take_skipped(), vec![0..40]);
}

#[test]
fn a_reader_follows_what_is_written_after_it_began() {
    let _calm = servers().calm();
    let client = client();
    let topic = created(&client, Topic::new(unique("follow")).partitions(1).replication(1));
    let mut reader = client.read(&topic, 0, 0..i64::MAX).expect("a range");
    assert!(reader.next_batch(Duration::from_millis(50)).expect("nothing yet").is_none());
    assert!(!reader.is_finished());
    write(&topic, "zstd", 20);
    let mut count = 0;
    wait_until("twenty records", TIMEOUT, || {
        if let Some(batch) = reader.next_batch(Duration::from_millis(200)).expect("an answer") {
            for record in &batch {
                record.expect("a record");
                count += 1;
            }
        }
        count == 20
    });
}
