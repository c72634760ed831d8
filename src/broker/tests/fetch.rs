//! Fetch: limits, waits, sessions, leader epochs.

use std::time::Duration;

use super::asking::{Asking, batch, fetch};
use crate::broker::Release;
use crate::broker::call::Outcome;
use crate::protocol::messages::{
    FetchRequest, FetchResponse, OffsetForLeaderEpochRequest, OffsetForLeaderPartition,
    OffsetForLeaderTopic,
};
use crate::protocol::{Bytes, ErrorCode};

fn sizes(answer: &FetchResponse) -> Vec<usize> {
    let rows = answer.responses.iter().flat_map(|topic| &topic.partitions);
    rows.map(|row| row.records.as_ref().map_or(0, |records| records.len())).collect()
}

#[test]
fn a_request_waits_for_its_bytes_or_its_time() {
    let mut kafka = Asking::new(Release::V4_4);
    let mut request = FetchRequest { max_wait_ms: 500, min_bytes: 100, ..fetch(0, 0) };
    let Outcome::Wait(until) = kafka.run(&mut request, 12, None) else {
        panic!("nothing is there")
    };
    assert_eq!(until, kafka.start + Duration::from_millis(500));
    kafka.produce(0, Bytes::from(batch(&["a"])));
    let later = Some(Duration::from_millis(400));
    assert!(matches!(kafka.run(&mut request, 12, later), Outcome::Wait(_)), "too little");
    kafka.produce(0, Bytes::from(batch(&["b"])));
    let Outcome::Answer(answer) = kafka.run(&mut request, 12, later) else { panic!("enough") };
    assert_eq!(sizes(&answer), [2 * batch(&["a"]).len()]);
    let mut request = FetchRequest { max_wait_ms: 500, ..fetch(0, 2) };
    let end = Some(Duration::from_millis(500));
    assert!(matches!(kafka.run(&mut request, 12, None), Outcome::Wait(_)));
    let Outcome::Answer(answer) = kafka.run(&mut request, 12, end) else { panic!("it is time") };
    assert_eq!(sizes(&answer), [0]);
    let mut request = FetchRequest { max_wait_ms: 500, ..fetch(0, 3) };
    let Outcome::Answer(answer) = kafka.run(&mut request, 12, None) else { panic!("an error") };
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
}

#[test]
fn limits_cut_the_last_batch_but_never_the_first() {
    let mut kafka = Asking::new(Release::V4_4);
    kafka.state.move_leader("t", 1, 1);
    let size = batch(&["a"]).len();
    for partition in [0, 0, 1] {
        kafka.produce(partition, Bytes::from(batch(&["a"])));
    }
    let mut request = fetch(0, 0);
    let mut second = request.topics[0].partitions[0].clone();
    second.partition = 1;
    request.topics[0].partitions.push(second);
    let mut ask = |max_bytes, partition_max_bytes, version| {
        let mut request = FetchRequest { max_bytes, ..request.clone() };
        for wanted in &mut request.topics[0].partitions {
            wanted.partition_max_bytes = partition_max_bytes;
        }
        sizes(&kafka.ask(request, version))
    };
    assert_eq!(ask(1 << 20, 1 << 20, 12), [2 * size, size]);
    assert_eq!(ask(1, 1 << 20, 12), [size, 0], "the first batch comes whole");
    assert_eq!(ask(1 << 20, 1, 12), [size, 0]);
    assert_eq!(ask(size as i32 + 5, 1 << 20, 12), [size + 5, 0], "the second is cut");
    assert_eq!(ask(1 << 20, size as i32, 12), [size, size]);
}

#[test]
fn a_session_tells_only_what_is_new() {
    let mut kafka = Asking::new(Release::V4_4);
    kafka.produce(0, Bytes::from(batch(&["a"])));
    let opened = kafka.ask(FetchRequest { session_epoch: 0, ..fetch(0, 0) }, 12);
    let session_id = opened.session_id;
    assert!(session_id > 0);
    assert_eq!(opened.responses.len(), 1);
    let mut within = |epoch, mut request: FetchRequest| {
        (request.session_id, request.session_epoch) = (session_id, epoch);
        let answer = kafka.ask(request, 12);
        (answer.error_code, answer.session_id, sizes(&answer).len())
    };
    let nothing = FetchRequest { max_bytes: 1 << 20, ..Default::default() };
    assert_eq!(within(1, fetch(0, 1)), (ErrorCode::NONE, session_id, 0), "no news");
    assert_eq!(within(1, nothing.clone()), (ErrorCode::INVALID_FETCH_SESSION_EPOCH, 0, 0));
    assert_eq!(within(2, fetch(0, 9)), (ErrorCode::NONE, session_id, 1), "an error");
    assert_eq!(within(3, fetch(0, 1)), (ErrorCode::NONE, session_id, 1), "what an error hid");
    assert_eq!(within(4, nothing.clone()), (ErrorCode::NONE, session_id, 0));
    kafka.produce(0, Bytes::from(batch(&["b"])));
    let mut request = FetchRequest { session_id, session_epoch: 5, ..nothing.clone() };
    let Outcome::Answer(answer) = kafka.run(&mut request, 12, None) else { panic!("news") };
    assert_eq!(sizes(&answer), [batch(&["b"]).len()]);
    let by_id = FetchRequest { session_id, session_epoch: 6, ..nothing.clone() };
    let answer = kafka.ask(by_id, 13);
    assert_eq!(answer.error_code, ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
    let close = FetchRequest { session_id, session_epoch: -1, ..nothing.clone() };
    assert_eq!(kafka.ask(close, 12).session_id, 0);
    let gone = FetchRequest { session_id, session_epoch: 6, ..nothing };
    assert_eq!(kafka.ask(gone, 12).error_code, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn leader_epochs_fence_and_tell_where_logs_part() {
    let mut kafka = Asking::new(Release::V4_4);
    kafka.produce(0, Bytes::from(batch(&["a", "b"])));
    kafka.state.move_leader("t", 0, 2);
    kafka.state.move_leader("t", 0, 1);
    kafka.produce(0, Bytes::from(batch(&["c"])));
    let id = kafka.state.topics()["t"].id;
    let mut ask = |current, last_fetched, offset| {
        let mut request = fetch(0, offset);
        request.topics[0].topic_id = id;
        let wanted = &mut request.topics[0].partitions[0];
        (wanted.current_leader_epoch, wanted.last_fetched_epoch) = (current, last_fetched);
        kafka.ask(request, 16).responses[0].partitions[0].clone()
    };
    let fenced = ask(1, -1, 0);
    assert_eq!(fenced.error_code, ErrorCode::FENCED_LEADER_EPOCH);
    assert_eq!((fenced.current_leader.leader_id, fenced.current_leader.leader_epoch), (1, 2));
    assert_eq!(ask(3, -1, 0).error_code, ErrorCode::UNKNOWN_LEADER_EPOCH);
    assert_eq!(ask(2, 0, 2).diverging_epoch.epoch, -1);
    let parted = ask(2, 0, 3);
    assert_eq!((parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset), (0, 2));
    let asked =
        OffsetForLeaderPartition { current_leader_epoch: 2, leader_epoch: 1, ..Default::default() };
    let topic = OffsetForLeaderTopic {
        topic: "t".to_owned(),
        partitions: vec![asked],
        ..Default::default()
    };
    let request = OffsetForLeaderEpochRequest { topics: vec![topic], ..Default::default() };
    let row = kafka.ask(request, 4).topics[0].partitions[0].clone();
    assert_eq!((row.leader_epoch, row.end_offset), (0, 2));
}

#[test]
fn a_follower_serves_those_who_know_of_it() {
    let mut kafka = Asking::new(Release::V4_4);
    let mut ask = |version| kafka.ask(fetch(1, 0), version).responses[0].partitions[0].error_code;
    assert_eq!(ask(10), ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(ask(11), ErrorCode::NONE);
}
