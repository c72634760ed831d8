//! The next unit read while one is handled.

use super::*;

fn place(change: impl FnOnce(&mut WorkConfig)) -> Place {
    Place::with(|config| {
        config.workers = 1;
        config.prefetch_max = 1000;
        change(config);
    })
}

/// One is handled at a time, and the next is read meanwhile.
#[test]
fn the_next_unit_is_read_while_one_is_handled() {
    let place = place(|_| ());
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 100);
    let seen = Seen::default();
    let (inner, kafka) = (seen.handler(), place.kafka.clone());
    let (busy, calls) = (AtomicBool::new(false), AtomicU32::new(0));
    let node = place.node(&["t"], move |unit| {
        assert!(!busy.swap(true, Ordering::SeqCst), "one worker");
        // The first one has read nothing of its own yet.
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            wait_until("the next unit is read", || kafka.portions() > 0);
        }
        let handled = inner(unit);
        busy.store(false, Ordering::SeqCst);
        handled
    });
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("t", 0, 0..100));
    let total = node.stats().total;
    assert_eq!((total.units, total.failed), (10, 0));
}

/// What was read ahead goes back at a shutdown, and no attempt is used up.
#[test]
fn a_unit_that_was_read_ahead_goes_back_at_a_shutdown() {
    let place = place(|_| ());
    place.kafka.create("t", 1);
    place.kafka.append("t", 0, 20);
    let (kafka, go_on) = (place.kafka.clone(), Arc::new(AtomicBool::new(false)));
    let gate = Arc::clone(&go_on);
    let node = place.node(&["t"], move |unit| {
        let read = unit.records()?.count();
        assert_eq!(read, 10);
        wait_until("the test lets it go", || gate.load(Ordering::SeqCst));
        Ok(())
    });
    wait_until("the next unit is read", || kafka.portions() == 2);
    assert!(node.shutdown(Duration::ZERO).is_err(), "a handler runs");
    let units = || {
        let held = place.queue.snapshot(SnapshotLimits::default()).expect("in memory");
        held.partitions[0].units.iter().map(|unit| (unit.state, unit.attempts)).collect()
    };
    let is_back = |units: Vec<(UnitState, u32)>| units.contains(&(UnitState::Queued, 0));
    wait_until("it is back", || is_back(units()));
    go_on.store(true, Ordering::SeqCst);
    wait_until("the other is done", || units() == [(UnitState::Queued, 0)]);
}
