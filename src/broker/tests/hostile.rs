//! Peers that mean no good, or are only slow.

use std::io::{Read, Write};
use std::time::Duration;

use super::raw::{Raw, frame};
use super::*;

/// So many answers do not fit into the buffers of two sockets.
const REQUESTS: usize = 100;
/// Longer than anything these tests wait for.
const PATIENCE: Duration = Duration::from_secs(20);

fn metadata() -> MetadataRequest {
    MetadataRequest { topics: None, ..Default::default() }
}

#[test]
fn a_frame_over_the_limit_ends_its_connection_before_it_is_read() {
    let builder = Cluster::builder().topic("t", 1).frame_bytes_max(100);
    let kafka = builder.start().expect("a cluster");
    let mut raw = Raw::connect(kafka.bootstrap());
    assert!(raw.ask(&metadata(), 12).is_some());
    raw.stream.write_all(&101_i32.to_be_bytes()).expect("sent");
    assert_eq!(raw.frame(), None, "though none of the 101 bytes was sent");
    let mut raw = Raw::connect(kafka.bootstrap());
    raw.stream.write_all(&(-1_i32).to_be_bytes()).expect("sent");
    assert_eq!(raw.frame(), None);
}

#[test]
fn one_connection_too_many_is_closed_and_makes_room_when_another_ends() {
    let kafka = Cluster::builder().connections_max(2).start().expect("a cluster");
    let mut first = Raw::connect(kafka.bootstrap());
    let mut second = Raw::connect(kafka.bootstrap());
    assert!(first.ask(&metadata(), 12).is_some() && second.ask(&metadata(), 12).is_some());
    let mut third = Raw::connect(kafka.bootstrap());
    assert_eq!(third.frame(), None);
    assert!(second.ask(&metadata(), 12).is_some(), "the others are as before");
    drop(first);
    // The broker sees the end a moment later.
    let deadline = crate::clock::Deadline::within(PATIENCE);
    let mut served = false;
    while !served && !deadline.has_passed(crate::clock::now()) {
        let mut next = Raw::connect(kafka.bootstrap());
        // A closed connection may refuse the bytes already.
        served =
            next.stream.write_all(&frame(&metadata(), 12, 1)).is_ok() && next.frame().is_some();
    }
    assert!(served);
}

#[test]
fn an_idle_connection_is_closed() {
    let idle = Duration::from_millis(50);
    let kafka = Cluster::builder().connections_max_idle(idle).start().expect("a cluster");
    let mut silent = Raw::connect(kafka.bootstrap());
    assert_eq!(silent.frame(), None);
    // Half a request is no sign of life.
    let mut halfway = Raw::connect(kafka.bootstrap());
    halfway.stream.write_all(&[0, 0, 0, 20, 0]).expect("sent");
    assert_eq!(halfway.frame(), None);
}

#[test]
fn a_reader_that_reads_nothing_has_one_answer_waiting_and_no_more() {
    let builder = Cluster::builder().topic("t", 6_000).topic("u", 1);
    let kafka = builder.start().expect("a cluster");
    let mut slow = Raw::connect(kafka.bootstrap());
    // Each asks for an answer of some 200 kB; more requests than the sockets' buffers can answer.
    let wanted = frame(&metadata(), 12, 1);
    for _ in 0..REQUESTS {
        slow.stream.write_all(&wanted).expect("the requests fit into the buffers");
    }
    // Others are served meanwhile, and the requests of the slow one are not read ahead.
    let client = Client::builder(kafka.bootstrap()).build().expect("a client");
    assert_eq!(client.topic("u").expect("the topic").partitions.len(), 1);
    let from_slow = || {
        let seen = kafka.observed();
        seen.iter().filter(|seen| seen.header.client_id.as_deref() == Some("raw")).count()
    };
    assert!(from_slow() < REQUESTS, "{}", from_slow());
    // All is answered once it reads.
    let mut first = vec![0; 4];
    slow.stream.read_exact(&mut first).expect("an answer");
    let size = i32::from_be_bytes(first.try_into().expect("four bytes")) as usize;
    let mut rest = vec![0; size];
    slow.stream.read_exact(&mut rest).expect("the rest of it");
    for _ in 1..REQUESTS {
        assert_eq!(slow.frame().expect("an answer").len(), size);
    }
    assert_eq!(from_slow(), REQUESTS);
}
