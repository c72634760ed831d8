//! What a producer holds when its broker stalls: `buffer.memory` and a constant, whatever is sent.
//!
//! A process of its own, since it measures the whole of it; one test, since tests of a process share it.

use std::time::Duration;

use ottla::broker::Cluster;
use ottla::{Client, ErrorKind, Record};

const MIB: u64 = 1 << 20;
/// `buffer.memory` of the producers.
const BUFFER: u64 = 32 * MIB;
/// What may come on top: batches on the way to the broker's socket, tickets and callbacks of small records.
const BESIDE: u64 = 16 * MIB;

/// Bytes of memory that this process has now.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a figure");
    let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    kib.expect("a number") << 10
}

#[test]
fn a_stalled_broker_costs_the_buffer_and_a_constant() {
    // The larger records first: what they leave to the allocator, the smaller ones may use.
    for size in [100_000, 1000, 100] {
        let kafka = Cluster::builder().brokers(1).topic("t", 6).start().expect("a cluster");
        let client = Client::builder(kafka.bootstrap()).build().expect("a client");
        let producer = client
            .producer()
            .buffer_memory(BUFFER as usize)
            .max_block(Duration::from_millis(200))
            .build()
            .expect("a producer");
        let value = vec![b'x'; size];
        producer.send(Record::to("t").value(&value)).expect("taken").wait().expect("stored");
        let before = resident();
        kafka.freeze(1);
        let mut taken = 0_u64;
        let error = loop {
            match producer.send_with(Record::to("t").value(&value), |_| ()) {
                Ok(_) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::BufferFull);
        let grown = resident().saturating_sub(before);
        println!("{size} bytes: {taken} records, {} KiB on top of what there was", grown >> 10);
        assert!(taken * size as u64 > BUFFER / 2, "{taken} records are no full buffer");
        assert!(grown < BUFFER + BESIDE, "{grown} bytes for a buffer of {BUFFER}");
        kafka.thaw(1);
        producer.flush(Duration::from_secs(60)).expect("everything is stored");
    }
}
