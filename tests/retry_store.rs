//! The retry store and `kill -9`: what a producer told to be stored is delivered by the next one.
//!
//! The test runs itself as a child process, which sends while no record can be delivered, writes down each record whose ticket
//! says "stored for retry", and is killed in the middle of it.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ottla::broker::{Cluster, Fault};
use ottla::fetch::At;
use ottla::protocol::ApiKey;
use ottla::{Client, ErrorKind, Producer, Record};

const BOOTSTRAP: &str = "OTTLA_TEST_BOOTSTRAP";
const FOLDER: &str = "OTTLA_TEST_FOLDER";
/// The child is killed when it has told that so many records are stored.
const STORED_BEFORE_KILL: usize = 300;
/// Between two looks whether everything is delivered.
const LOOK: Duration = Duration::from_millis(10);
/// Most such looks.
const LOOKS_MAX: usize = 6000;
const PARTITIONS: i32 = 3;

fn producer(client: &Client, folder: &str, delivery: Duration) -> Producer {
    client
        .producer()
        .linger(Duration::ZERO)
        .batch_size(200)
        .delivery_timeout(delivery)
        .retry_store_path(folder.to_owned())
        .build()
        .expect("a producer")
}

fn client(bootstrap: &str) -> Client {
    Client::builder(bootstrap)
        .request_timeout(Duration::from_millis(150))
        .retry_backoff(Duration::from_millis(5))
        .reconnect_backoff(Duration::from_millis(5))
        .build()
        .expect("a client")
}

/// The child: sends for ever, and tells what is stored.
fn child(bootstrap: &str, folder: &str) {
    let client = client(bootstrap);
    // Nothing is delivered: the sooner that is noticed the better.
    let producer = producer(&client, folder, Duration::from_millis(200));
    let mut number = 0;
    loop {
        let mut tickets = Vec::new();
        for _ in 0..30 {
            let value = format!("{number:08}");
            let record = Record::to("t").partition(number % PARTITIONS).value(&value);
            tickets.push((value.clone(), producer.send(record).expect("taken")));
            number += 1;
        }
        for (value, ticket) in tickets {
            let error = ticket.wait().expect_err("nothing is delivered");
            assert_eq!(error.kind(), ErrorKind::StoredForRetry, "{error}");
            let mut out = std::io::stdout();
            writeln!(out, "stored {value}").and_then(|()| out.flush()).expect("told");
        }
    }
}

fn delivered(client: &Client, partition: i32) -> Vec<String> {
    let offsets = client.offsets("t", At::Latest).expect("a topic");
    let end = offsets.into_iter().map(|offset| offset.expect("an offset"));
    let end = end.into_iter().find(|offset| offset.partition == partition).expect("there");
    let end = end.offset.expect("known");
    let records = client.read("t", partition, 0..end).expect("a range");
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let values = records.map(|record| text(record.expect("a record").value().expect("a value")));
    let values: Vec<_> = values.collect();
    assert_eq!(values.len() as i64, end, "all that is there was read");
    values
}

#[test]
fn what_was_told_as_stored_survives_kill_9_and_is_delivered_in_order() {
    if let (Ok(bootstrap), Ok(folder)) = (env::var(BOOTSTRAP), env::var(FOLDER)) {
        return child(&bootstrap, &folder);
    }
    let kafka = Cluster::builder().brokers(1).topic("t", PARTITIONS).start().expect("a cluster");
    let outage = kafka.fault(Fault::on(ApiKey::PRODUCE).drop_before());
    let folder: PathBuf = env::temp_dir().join(format!("ottla-kill-{}", std::process::id()));
    let mut process = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "what_was_told_as_stored_survives_kill_9_and_is_delivered_in_order"])
        .arg("--nocapture")
        .env(BOOTSTRAP, kafka.bootstrap())
        .env(FOLDER, &folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let mut told = BTreeSet::new();
    for line in lines {
        let line = line.expect("a line");
        // The first line shares its own with the name of the test.
        if let Some((_, value)) = line.split_once("stored ").filter(|(_, value)| value.len() == 8) {
            told.insert(value.to_owned());
        }
        if told.len() == STORED_BEFORE_KILL {
            process.kill().expect("SIGKILL");
        }
    }
    assert!(!process.wait().expect("it ended").success());
    assert!(told.len() >= STORED_BEFORE_KILL, "the child ended early, after {}", told.len());

    outage.remove();
    let client = client(kafka.bootstrap());
    let producer = producer(&client, folder.to_str().expect("text"), Duration::from_secs(30));
    let mut looks = 0;
    while producer.metrics().retry_store_bytes > 0 {
        looks += 1;
        assert!(looks < LOOKS_MAX, "{:?}", producer.metrics());
        let wait = producer.send(Record::to("t").partition(0).value("probe")).expect("taken");
        wait.wait().expect("the outage is over");
        thread::park_timeout(LOOK);
    }
    let mut all = BTreeSet::new();
    for partition in 0..PARTITIONS {
        let values = delivered(&client, partition);
        let mut seen = BTreeSet::new();
        // At least once: of what came twice, the first counts.
        let first = |value: &String| value != "probe" && seen.insert(value.clone());
        let values: Vec<_> = values.into_iter().filter(first).collect();
        assert!(values.is_sorted(), "partition {partition} is out of order: {values:?}");
        all.extend(values);
    }
    let lost: Vec<_> = told.difference(&all).collect();
    assert!(lost.is_empty(), "told as stored and not delivered: {lost:?}");
    println!("{} told as stored before the kill, {} delivered", told.len(), all.len());
    drop(producer);
    std::fs::remove_dir_all(&folder).expect("removed");
}
