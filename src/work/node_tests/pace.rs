//! Limits of pace, and the records of a unit shared by key.

use super::*;
use crate::broker::Cluster;
use crate::client::Client;
use crate::clock;
use crate::producer::Record;

/// Time is read here, but only to see that it was long enough: a slow machine passes.
#[test]
fn records_do_not_pass_faster_than_they_may() {
    let place = Place::with(|config| config.records_per_second_max = 100);
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 60);
    let seen = Seen::default();
    let began = clock::now();
    let node = place.node(&["t"], seen.handler());
    node.drain(LIMIT).expect("drained");
    // A burst of ten, and one more for each of three workers.
    assert!(clock::now() - began >= Duration::from_millis(460));
    assert!(seen.is_once("t", 0, 0..60));
}

#[test]
fn bytes_do_not_pass_faster_than_they_may() {
    let place = Place::with(|config| config.bytes_per_second_max = 100);
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 50);
    let began = clock::now();
    let node = place.node(&["t"], |unit| {
        for batch in unit.batches()? {
            batch?;
        }
        Ok(())
    });
    node.drain(LIMIT).expect("drained");
    // 90 bytes in units of 10 to 20: a burst of ten bytes, and three units ahead of the pace.
    assert!(clock::now() - began >= Duration::from_millis(190));
}

/// Who waits for the pace does not hold a shutdown up: the unit goes back with what was done.
#[test]
fn a_shutdown_wakes_those_who_wait_for_the_pace() {
    let place = Place::with(|config| {
        config.records_per_second_max = 1;
        config.workers = 1;
        config.unit_size = 1000;
    });
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 1000);
    let seen = Seen::default();
    let node = place.node(&["t"], seen.handler());
    wait_until("one passed", || seen.times("t", 0, 0) == 1);
    node.shutdown(LIMIT).expect("at the pace it would take a quarter of an hour");
    let total = node.stats().total;
    assert_eq!((total.failed, total.lost), (0, 0));
    let held = place.queue.snapshot(SnapshotLimits::default()).expect("in memory");
    let unit = &held.partitions[0].units[0];
    assert_eq!((unit.attempts, unit.unit.start()), (0, total.records as i64));
}

/// The lease is kept while the handler waits for the pace.
#[test]
fn a_lease_is_renewed_while_the_pace_is_waited_for() {
    let place = Place::with(|config| {
        config.records_per_second_max = 4;
        config.unit_lease = Duration::from_millis(1200);
    });
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 10);
    let seen = Seen::default();
    let node = place.node(&["t"], seen.handler());
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 0..10));
    assert_eq!(node.stats().total.lost, 0);
}

/// A pull node that may not give a record out yet says that there is none.
#[test]
fn a_pull_waits_for_the_pace_no_longer_than_it_is_told() {
    const FIRST: i64 = 100_000;
    let place = Place::with(|config| config.bytes_per_second_max = 1);
    place.kafka.create("t", 1);
    place.kafka.append_gap("t", 0, FIRST);
    place.kafka.append("t", 0, 10);
    place.kafka.set_offset("g", "t", 0, FIRST);
    let mut node = place.pull(&["t"]);
    // One of the six bytes was there, five seconds bring the others.
    assert_eq!(node.read(LIMIT).expect("no failure").map(|record| record.offset()), Some(FIRST));
    assert!(node.read(Duration::ZERO).expect("no failure").is_none());
    let next = node.read(LIMIT).expect("no failure").map(|record| record.offset());
    assert_eq!(next, Some(FIRST + 1));
    node.close(LIMIT).expect("closed");
}

const KEYS: i64 = 7;

/// A cluster with `count` records of seven keys in "t".
fn keyed(count: i64) -> (Cluster, Client) {
    let kafka = Cluster::builder().topic("t", 1).start().expect("a cluster");
    let client = Client::builder(kafka.bootstrap()).build().expect("legal settings");
    let producer = client.producer().build().expect("legal settings");
    for n in 0..count {
        let (key, value) = ((n % KEYS).to_string(), n.to_string());
        producer.send(Record::to("t").key(&key).value(&value)).expect("room");
    }
    producer.flush(LIMIT).expect("stored");
    (kafka, client)
}

fn builder(client: &Client) -> super::super::NodeBuilder {
    let ms = Duration::from_millis;
    client
        .node("g")
        .topics(["t"])
        .unit_size(500)
        .key_threads(4)
        .max_attempts(2)
        .unit_retry_backoff(ms(1))
        .unit_retry_backoff_max(ms(2))
        .planning_interval(ms(5))
        .commit_interval(ms(5))
}

/// Two keys are handled at the same time, each in order.
#[test]
fn the_records_of_a_key_are_handled_in_order() {
    let (_kafka, client) = keyed(500);
    let by_key: Arc<Mutex<BTreeMap<Vec<u8>, Vec<i64>>>> = Arc::default();
    let threads: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let (noted, seen_by) = (Arc::clone(&by_key), Arc::clone(&threads));
    let node = builder(&client).run_records(move |record| {
        let key = record.key().expect("a key").to_vec();
        noted.lock().entry(key).or_default().push(record.offset());
        let thread = std::thread::current().name().expect("a name").to_owned();
        seen_by.lock().insert(thread);
        Ok(())
    });
    let node = node.expect("legal settings");
    node.drain(LIMIT).expect("drained");
    node.shutdown(LIMIT).expect("no handler runs");
    for (key, offsets) in by_key.lock().iter() {
        let key: i64 = String::from_utf8_lossy(key).parse().expect("a number");
        let expected: Vec<i64> = (0..500).filter(|n| n % KEYS == key).collect();
        assert_eq!(*offsets, expected, "key {key}");
    }
    assert_eq!(by_key.lock().len(), KEYS as usize);
    let threads = threads.lock();
    assert!(threads.len() > 1 && threads.iter().all(|name| name.starts_with("ottla-k-")));
}

/// Nothing is skipped by a failure in one lane, and the bad record alone is given up.
#[test]
fn a_failure_among_threads_skips_nothing() {
    let (_kafka, client) = keyed(500);
    let seen = Seen::default();
    let dead: Arc<Mutex<Vec<String>>> = Arc::default();
    let (noted, letters) = (seen.clone(), Arc::clone(&dead));
    let node = builder(&client)
        .dead_letter(move |unit| {
            letters.lock().push(unit.unit.to_string());
            Ok(())
        })
        .run_records(move |record| {
            if record.offset() == 200 {
                return Err("poison".into());
            }
            noted.note("t", 0, record.offset());
            Ok(())
        });
    let node = node.expect("legal settings");
    node.drain(LIMIT).expect("drained");
    assert_eq!(*dead.lock(), ["t/0/200-201"]);
    for offset in (0..500).filter(|offset| *offset != 200) {
        assert!(seen.times("t", 0, offset) > 0, "{offset} was skipped");
    }
    assert_eq!(node.stats().total.dead_lettered, 0);
}
