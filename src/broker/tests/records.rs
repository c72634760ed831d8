//! Records through the cluster: written by our producer, read by our reader, asked for by raw
//! requests.

use std::time::Duration;

use super::asking::{NOW_MS, of_producer};
use crate::Client;
use crate::broker::Cluster;
use crate::producer::Record;
use crate::protocol::ApiKey;
use crate::protocol::records::{Compression, RecordBatches};

const TIMEOUT: Duration = Duration::from_secs(30);

fn client(kafka: &Cluster) -> Client {
    Client::builder(kafka.bootstrap()).build().expect("a client")
}

#[test]
fn a_reader_waits_for_what_is_produced_later() {
    let kafka = Cluster::builder().topic("t", 1).start().expect("a cluster");
    let client = client(&kafka);
    let producer = client.producer().build().expect("a producer");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut records = client.read("t", 0, 0..1).expect("a range");
            records.next().expect("one record").expect("read").value().map(<[u8]>::to_vec)
        });
        // Once the reader's request is there and waits.
        let deadline = crate::clock::Deadline::within(TIMEOUT);
        while !kafka.observed().iter().any(|seen| seen.api() == ApiKey::FETCH) {
            assert!(!deadline.left().is_zero(), "the reader asks");
            std::thread::yield_now();
        }
        producer.send(Record::to("t").value("late")).expect("sent").wait().expect("stored");
        assert_eq!(reader.join().expect("no panic"), Some(b"late".to_vec()));
    });
}

#[test]
fn compaction_leaves_gaps_that_a_reader_passes_over() {
    let kafka = Cluster::builder().topic("t", 1).start().expect("a cluster");
    let client = client(&kafka);
    let producer = client.producer().build().expect("a producer");
    for index in 0..30 {
        let (key, value) = (format!("key-{}", index % 3), format!("value-{index}"));
        let ticket = producer.send(Record::to("t").key(&key).value(&value)).expect("sent");
        ticket.wait().expect("stored");
    }
    let before = kafka.log_bytes("t", 0).expect("a log");
    kafka.compact("t").expect("a topic");
    assert!(kafka.log_bytes("t", 0).expect("a log") < before / 5);
    assert_eq!((kafka.log_start("t", 0), kafka.log_end("t", 0)), (Some(0), Some(30)));
    let reader = client.read("t", 0, 0..30).expect("a range");
    let offsets: Vec<i64> = reader.map(|record| record.expect("read").offset()).collect();
    assert_eq!(offsets, [27, 28, 29]);
    assert_eq!(kafka.delete_records("t", 0, 29).expect("a log"), 29);
    assert_eq!(kafka.log_start("t", 0), Some(29));
}

#[test]
fn what_is_produced_is_read_with_every_codec() {
    for codec in Compression::ALL {
        let kafka = Cluster::builder().brokers(2).topic("t", 2).start().expect("a cluster");
        let client = client(&kafka);
        let producer = client.producer().compression(codec).build().expect("a producer");
        for index in 0..1000 {
            let (key, value) = (format!("key-{index}"), format!("value-{index}"));
            let record = Record::to("t").partition(index % 2).key(&key).value(&value);
            producer.send(record.header("h", Some(b"1"))).expect("sent");
        }
        producer.flush(TIMEOUT).expect("flushed");
        for partition in 0..2 {
            let reader = client.read("t", partition, 0..500).expect("a range");
            let mut next = 0;
            for record in reader {
                let record = record.expect("a record");
                assert_eq!(record.offset(), next);
                let index = next * 2 + i64::from(partition);
                assert_eq!(record.key(), Some(format!("key-{index}").as_bytes()), "{codec}");
                assert_eq!(record.value(), Some(format!("value-{index}").as_bytes()), "{codec}");
                assert_eq!(record.headers().len(), 1);
                next += 1;
            }
            assert_eq!(next, 500, "{codec}");
        }
    }
}

#[test]
fn a_restored_partition_gives_its_offsets_and_epochs_again() {
    let kafka = Cluster::builder().brokers(2).topic("t", 1).start().expect("a cluster");
    let place = || {
        let state = kafka.shared.state.lock();
        let partition = state.partition("t", 0).expect("it is there");
        (partition.log.end(), partition.leader_epoch, partition.log.producers.known().count())
    };
    let write = |id, sequence| {
        let sent = of_producer((id, 0, sequence), 2, false);
        let sent = RecordBatches::new(sent).next().expect("one").expect("well-formed");
        kafka.shared.change(|state| {
            let partition = state.partition_mut("t", 0).expect("it is there");
            let epoch = partition.leader_epoch;
            partition.log.append(&sent, epoch, None, NOW_MS);
        });
    };
    write(1, 0);
    let (_, first, _) = place();
    kafka.move_leader("t", 0, 2).expect("a replica that runs");
    write(2, 0);
    assert_eq!(place(), (4, first + 1, 2));
    kafka.restore("t", 0, 3).expect("a partition");
    assert_eq!(place(), (2, first, 1));
    write(2, 0);
    assert_eq!(place(), (4, first, 2));
    kafka.forget_producers("t", 0).expect("a partition");
    assert_eq!(place(), (4, first, 0));
    assert!(kafka.restore("t", 1, 0).is_err() && kafka.forget_producers("u", 0).is_err());
}
