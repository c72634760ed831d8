//! Handlers of records and of batches of records.

use super::*;
use crate::fetch::ConsumerRecord;
use crate::work::records::{PortionHandler, RecordSink, by_unit_sink, in_portions};

impl Place {
    /// A node whose handler is given at most `most` records at a time.
    fn portions(
        &self,
        most: usize,
        sink: Option<Arc<RecordSink>>,
        by: Arc<PortionHandler>,
    ) -> Node {
        let workers = self.config.workers as usize;
        let sink = sink.unwrap_or_else(|| by_unit_sink(Arc::clone(&self.sink)));
        let handler = in_portions(most, by, sink);
        Node::start(self.crew(&["t"], workers), workers, &handler).expect("threads")
    }

    fn topic_of(count: i64) -> Self {
        let place = Self::new();
        place.kafka.create("t", 1);
        place.kafka.append("t", 0, count);
        place
    }
}

impl Seen {
    fn of(&self, records: &[ConsumerRecord]) {
        for record in records {
            self.note(record.topic(), record.partition(), record.offset());
        }
    }
}

#[test]
fn batches_are_full_in_order_and_of_one_unit() {
    let place = Place::topic_of(45);
    let (seen, sizes) = (Seen::default(), Arc::new(Mutex::new(BTreeMap::new())));
    let (noted, counted) = (seen.clone(), Arc::clone(&sizes));
    let node = place.portions(
        4,
        None,
        Arc::new(move |records| {
            noted.of(records);
            assert!(records.windows(2).all(|pair| pair[0].offset() + 1 == pair[1].offset()));
            counted.lock().insert(records[0].offset(), records.len());
            Ok(())
        }),
    );
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 0..45));
    let first_unit: Vec<_> = sizes.lock().range(..10).map(|(at, size)| (*at, *size)).collect();
    assert_eq!(first_unit, [(0, 4), (4, 4), (8, 2)]);
    assert_eq!(node.stats().total.records, 45);
}

/// Only what follows the failure is tried again, and a panic is a failure like any other.
#[test]
fn a_record_that_fails_once_repeats_nothing_before_it() {
    let place = Place::topic_of(30);
    let (seen, failed) = (Seen::default(), AtomicBool::new(false));
    let noted = seen.clone();
    let node = place.portions(
        1,
        None,
        Arc::new(move |records| {
            let first_time = records[0].offset() == 14 && !failed.swap(true, Ordering::Relaxed);
            assert!(!first_time, "on purpose");
            noted.of(records);
            Ok(())
        }),
    );
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 0..30));
    let total = node.stats().total;
    assert_eq!((total.failed, total.dead_lettered, total.records_dead_lettered), (1, 0, 0));
}

/// The sink of units has a unit of one offset for each bad record; the good ones are handled.
#[test]
fn bad_records_of_a_batch_are_given_up_one_by_one() {
    let mut place = Place::topic_of(30);
    let dead = Arc::new(Mutex::new(BTreeMap::new()));
    let letters = Arc::clone(&dead);
    place.sink = Arc::new(move |unit| {
        letters.lock().insert(unit.unit.to_string(), (unit.attempts, unit.error.clone()));
        Ok(())
    });
    let seen = Seen::default();
    let noted = seen.clone();
    let bad = |record: &ConsumerRecord| [12, 13, 17].contains(&record.offset());
    let node = place.portions(
        5,
        None,
        Arc::new(move |records| {
            if records.iter().any(bad) {
                return Err("poison".into());
            }
            noted.of(records);
            Ok(())
        }),
    );
    node.drain(LIMIT).expect("drained");
    let why = (3, "the handler failed: poison".to_owned());
    let expected = ["t/0/12-13", "t/0/13-14", "t/0/17-18"].map(|id| (id.to_owned(), why.clone()));
    assert_eq!(*dead.lock(), BTreeMap::from(expected));
    let good = (0..30).filter(|offset| ![12, 13, 17].contains(offset));
    assert!(seen.is_once("t", 0, good));
    let total = node.stats().total;
    assert_eq!((total.dead_lettered, total.records_dead_lettered), (0, 3));
    let held = place.queue.snapshot(SnapshotLimits::default()).expect("in memory");
    assert!(held.skipped.iter().any(|skip| skip.range == "t/0/12-14"), "{:?}", held.skipped);
    let told = node.events().find(|event| matches!(event, Event::RecordDeadLettered { .. }));
    assert!(matches!(told, Some(Event::RecordDeadLettered { offset: 12, .. })), "{told:?}");
}

/// The offset stays below a bad record until its letter is stored, and no attempt is used up by
/// that.
#[test]
fn a_letter_that_cannot_be_stored_holds_the_offset() {
    let place = Place::topic_of(30);
    let (works, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (sink_works, sink_calls) = (Arc::clone(&works), Arc::clone(&calls));
    let sink: Arc<RecordSink> = Arc::new(move |_, dead, _| {
        sink_calls.fetch_add(1, Ordering::Relaxed);
        assert_eq!((dead.unit.to_string().as_str(), dead.attempts), ("t/0/14-15", 3));
        if sink_works.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(crate::error::Error::new(ErrorKind::NoLeader, "no leader"))
    });
    let node = place.portions(
        1,
        Some(sink),
        Arc::new(|records| if records[0].offset() == 14 { Err("poison".into()) } else { Ok(()) }),
    );
    wait_until("the sink is tried again", || calls.load(Ordering::Relaxed) >= 2);
    assert_eq!(place.kafka.offset("g", "t", 0), Some(14));
    works.store(true, Ordering::Relaxed);
    node.drain(LIMIT).expect("drained");
    wait_until("the offset", || place.kafka.offset("g", "t", 0) == Some(30));
    assert_eq!(node.stats().total.records_dead_lettered, 1);
}

/// A shutdown waits for one call of the handler, not for its unit; the rest goes back at once.
#[test]
fn a_shutdown_waits_for_the_record_and_not_for_the_unit() {
    let place = Place::topic_of(10);
    let (seen, runs, go_on) =
        (Seen::default(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (noted, started, gate) = (seen.clone(), Arc::clone(&runs), Arc::clone(&go_on));
    let node = place.portions(
        1,
        None,
        Arc::new(move |records| {
            if records[0].offset() == 4 {
                started.store(true, Ordering::SeqCst);
                wait_until("it may go on", || gate.load(Ordering::SeqCst));
            }
            noted.of(records);
            Ok(())
        }),
    );
    wait_until("the handler runs", || runs.load(Ordering::SeqCst));
    assert!(node.shutdown(Duration::ZERO).is_err(), "a handler runs");
    go_on.store(true, Ordering::SeqCst);
    wait_until("the rest is back", || {
        let held = place.queue.snapshot(SnapshotLimits::default()).expect("in memory");
        held.partitions[0]
            .units
            .iter()
            .any(|unit| unit.unit.to_string() == "t/0/5-10" && unit.attempts == 0)
    });
    assert!(seen.is_once("t", 0, 0..5));
}

/// An attempt counts what the records did, not what the node did.
#[test]
fn a_unit_that_is_given_back_uses_up_no_attempt() {
    let place = Place::topic_of(10);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Seen::default();
    let (noted, inner) = (Arc::clone(&calls), seen.handler());
    let node = place.node(&["t"], move |unit| {
        noted.lock().push(unit.attempt());
        if noted.lock().len() == 1 {
            unit.give_back("the database is away");
            return Err("and so this failed".into());
        }
        inner(unit)
    });
    node.drain(LIMIT).expect("drained");
    assert_eq!(*calls.lock(), [1, 1]);
    assert!(seen.is_once("t", 0, 0..10));
    let total = node.stats().total;
    assert_eq!((total.failed, total.given_back), (0, 1));
}

/// A handler that ended because the node was shut down did not fail.
#[test]
fn what_the_shutdown_ended_is_no_failed_attempt() {
    let place = Place::with(|config| config.workers = 1);
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 10);
    let runs = Arc::new(AtomicBool::new(false));
    let started = Arc::clone(&runs);
    let node = place.node(&["t"], move |unit| {
        started.store(true, Ordering::SeqCst);
        wait_until("the node stops", || unit.is_stopping());
        Err(crate::error::Error::new(ErrorKind::Closed, "the pool is closed").into())
    });
    wait_until("the handler runs", || runs.load(Ordering::SeqCst));
    node.shutdown(LIMIT).expect("the handler ends");
    let total = node.stats().total;
    assert_eq!((total.failed, total.given_back), (0, 1));
    let held = place.queue.snapshot(SnapshotLimits::default()).expect("in memory");
    let units = &held.partitions[0].units;
    assert_eq!((units.len(), units[0].attempts), (1, 0));
}
