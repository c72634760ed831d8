//! The producer's promise on real Kafka: each record once and in order per partition, while brokers are stopped, frozen
//! (`SIGSTOP`), killed and restarted in turn.
//!
//! `OTTLA_RECORDS` sets the number of records (10,000,000 for the full size); a fault comes every 25,000 of them, and every
//! 250,000 in a run of more than a million.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{servers, text, unique, wait_until};
use ottla::Client;
use ottla::producer::Record;

/// Unless `OTTLA_RECORDS` says otherwise.
const RECORDS: u64 = 75_000;
const PARTITIONS: u64 = 6;
/// Longest time that anything here may take.
const LIMIT: Duration = Duration::from_secs(240);

fn record_count() -> u64 {
    let Ok(count) = std::env::var("OTTLA_RECORDS") else { return RECORDS };
    count.parse().expect("OTTLA_RECORDS is a number")
}

#[test]
fn each_record_is_stored_once_and_in_order_while_brokers_fail_in_turn() {
    let records = record_count();
    let phase = if records > 1_000_000 { 250_000 } else { 25_000 };
    let outage = servers().outage();
    let topic = unique("once");
    servers().create_topic(&topic, PARTITIONS as usize, &[]);
    let client = Client::builder(servers().bootstrap())
        .request_timeout(Duration::from_secs(5))
        .build()
        .expect("legal settings");
    let producer =
        client.producer().delivery_timeout(LIMIT).max_block(LIMIT).build().expect("a producer");
    let stored = Arc::new(AtomicU64::new(0));
    let mut sent = 0;
    let mut faults = 0_usize;
    while sent < records {
        let broker = outage.broker(faults % servers().brokers() + 1);
        match faults % 3 {
            0 => broker.stop(),
            1 => broker.freeze(),
            _ => broker.kill(),
        }
        let end = (sent + phase).min(records);
        for number in sent..end {
            let (value, stored) = (number.to_string(), Arc::clone(&stored));
            let record = Record::to(&topic).partition((number % PARTITIONS) as i32).value(&value);
            let count = move |result: ottla::Result<ottla::Stored>| {
                result.expect("stored");
                stored.fetch_add(1, Ordering::SeqCst);
            };
            producer.send_with(record, count).expect("taken");
        }
        // The others carry on: that is seen before the broker comes back.
        let carried_on = sent + (end - sent) / 2;
        wait_until("records are stored without the broker", LIMIT, || {
            stored.load(Ordering::SeqCst) >= carried_on
        });
        if faults % 3 == 1 {
            broker.thaw();
        } else {
            broker.start();
        }
        faults += 1;
        sent = end;
    }
    producer.flush(LIMIT).expect("flushed");
    assert_eq!(stored.load(Ordering::SeqCst), records);
    assert!(producer.close(LIMIT).expect("closed").is_empty());
    for partition in 0..PARTITIONS {
        let index = partition.to_string();
        let arguments = ["-C", "-t", &topic, "-p", &index, "-e", "-q", "-f", "%s\n"];
        let read = servers().kcat(&arguments, b"");
        let read = text(&read.stdout);
        let mut expected = (partition..records).step_by(PARTITIONS as usize);
        for line in read.lines() {
            let number: u64 = line.parse().expect("a number");
            assert_eq!(
                Some(number),
                expected.next(),
                "partition {partition} after {faults} faults"
            );
        }
        assert_eq!(expected.next(), None, "partition {partition} ends early");
    }
    println!("{records} records, {faults} faults");
}
