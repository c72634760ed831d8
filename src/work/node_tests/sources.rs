//! Topics by regular expression.

use std::collections::BTreeSet;

use super::{LIMIT, Place, Seen};
use crate::error::ErrorKind;

/// A topic that is made later is taken up by itself; one that is named and matches is read once.
#[test]
fn topics_that_match_are_read_also_those_made_later() {
    let place = Place::new();
    for topic in ["orders-1", "old-orders-1", "named"] {
        place.kafka.create(topic, 2);
        place.kafka.append(topic, 1, 20);
    }
    let seen = Seen::default();
    let node = place.node(&["^orders-", "named", "^na"], seen.handler());
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("orders-1", 1, 0..20) && seen.is_once("named", 1, 0..20));
    place.kafka.create("orders-2", 1);
    place.kafka.append("orders-2", 0, 20);
    // The drain knows the new topic at once; the organiser finds it.
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("orders-2", 0, 0..20));
    node.add_topic("^old").expect("a pattern");
    node.remove_topic("^orders-").expect("it reads it");
    place.kafka.append("orders-2", 0, 20);
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("old-orders-1", 1, 0..20));
    assert!(seen.is_once("orders-2", 0, 0..20), "removed");
    place.kafka.delete("old-orders-1");
    node.drain(LIMIT).expect("what is gone does not match");
    for wrong in ["^[", "orders*"] {
        assert_eq!(node.add_topic(wrong).unwrap_err().kind(), ErrorKind::InvalidInput, "{wrong}");
    }
    let topics: BTreeSet<String> = seen.0.lock().keys().map(|key| key.0.clone()).collect();
    assert_eq!(topics.len(), 4);
}

/// Without a topic that matches a node waits for one.
#[test]
fn a_pattern_that_matches_nothing_yet_waits() {
    let place = Place::new();
    let seen = Seen::default();
    let node = place.node(&["^later$"], seen.handler());
    node.drain(LIMIT).expect("there is nothing");
    place.kafka.create("later", 1);
    place.kafka.create("later-not", 1);
    place.kafka.append("later", 0, 5);
    place.kafka.append("later-not", 0, 5);
    node.pause("later").expect("it matches");
    assert_eq!(node.pause("later-not").unwrap_err().kind(), ErrorKind::InvalidInput);
    node.resume("later").expect("it matches");
    node.drain(LIMIT).expect("drained");
    assert!(seen.is_once("later", 0, 0..5) && seen.is_once("later-not", 0, []));
}
