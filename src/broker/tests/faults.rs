//! Faults, seen from the wire.

use std::time::Duration;

use super::raw::Raw;
use super::*;
use crate::clock;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    CreatableTopic, CreateTopicsRequest, MetadataRequest, MetadataRequestTopic, ProduceRequest,
};

/// Longer than anything these tests wait for.
const PATIENCE: Duration = Duration::from_secs(20);
/// A delay that no test lives to see the end of.
const FOR_EVER: Duration = Duration::from_secs(3600);

fn cluster() -> Cluster {
    Cluster::builder().topic("t", 1).seed(7).start().expect("a cluster")
}

fn metadata(topic: &str) -> MetadataRequest {
    let topic = MetadataRequestTopic { name: Some(topic.to_owned()), ..Default::default() };
    MetadataRequest { topics: Some(vec![topic]), ..Default::default() }
}

fn create(topic: &str) -> CreateTopicsRequest {
    let topic = CreatableTopic {
        name: topic.to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    CreateTopicsRequest { topics: vec![topic], ..Default::default() }
}

#[test]
fn a_fault_answers_with_its_error_as_often_as_it_shall() {
    let kafka = cluster();
    let mut raw = Raw::connect(kafka.bootstrap());
    let fault = Fault::on(ApiKey::METADATA).topic("t").times(2);
    let handle = kafka.fault(fault.answer(ErrorCode::LEADER_NOT_AVAILABLE));
    let mut error_of =
        |topic: &str| raw.ask(&metadata(topic), 12).expect("an answer").topics[0].error_code;
    assert_eq!(error_of("t"), ErrorCode::LEADER_NOT_AVAILABLE);
    assert_eq!(error_of("s"), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "made on the way");
    assert_eq!(error_of("t"), ErrorCode::LEADER_NOT_AVAILABLE);
    assert_eq!(error_of("t"), ErrorCode::NONE);
    assert_eq!(handle.count(), 2);
    handle.remove();
    assert_eq!(handle.count(), 2);
}

#[test]
fn an_error_for_what_has_no_answer_closes() {
    let kafka = cluster();
    let mut raw = Raw::connect(kafka.bootstrap());
    kafka.fault(Fault::on(ApiKey::PRODUCE).answer(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    raw.send(&ProduceRequest { acks: 0, ..Default::default() }, 7);
    assert_eq!(raw.frame(), None);
}

#[test]
fn a_connection_is_dropped_before_or_after_the_work() {
    let kafka = cluster();
    let exists = |topic: &str| kafka.shared.state.lock().topics().contains_key(topic);
    let create_fault = || Fault::on(ApiKey::CREATE_TOPICS).times(1);
    kafka.fault(create_fault().drop_before());
    kafka.fault(create_fault().drop_after());
    for (topic, made) in [("a", false), ("b", true)] {
        let mut raw = Raw::connect(kafka.bootstrap());
        assert_eq!(raw.ask(&create(topic), 7), None);
        assert_eq!(exists(topic), made);
    }
    let mut raw = Raw::connect(kafka.bootstrap());
    assert!(raw.ask(&create("c"), 7).is_some());
}

#[test]
fn an_answer_is_cut_changed_or_given_to_another_request() {
    let kafka = cluster();
    let fault = || Fault::on(ApiKey::METADATA).times(1);
    let mut raw = Raw::connect(kafka.bootstrap());
    let ask = |raw: &mut Raw| {
        raw.send(&metadata("t"), 12);
        raw.frame().expect("an answer")
    };
    let whole = ask(&mut raw);
    kafka.fault(fault().corrupt(3));
    let changed = ask(&mut raw);
    assert_eq!(changed.len(), whole.len());
    assert_ne!(changed[4..], whole[4..]);
    kafka.fault(fault().wrong_correlation_id());
    let misnamed = ask(&mut raw);
    assert_eq!(misnamed[4..], whole[4..]);
    assert_eq!(i32::from_be_bytes(misnamed[..4].try_into().expect("four bytes")), 1_000_003);
    kafka.fault(fault().truncate(10));
    raw.send(&metadata("t"), 12);
    assert_eq!(raw.rest().len(), 10);
}

#[test]
fn a_delay_holds_one_connection_and_ends_with_the_fault_or_the_broker() {
    let kafka = cluster();
    let mut slow = Raw::connect(kafka.bootstrap());
    let handle = kafka.fault(Fault::on(ApiKey::METADATA).times(1).delay(FOR_EVER));
    slow.send(&metadata("t"), 12);
    assert!(handle.wait(1, PATIENCE));
    let mut quick = Raw::connect(kafka.bootstrap());
    assert!(quick.ask(&metadata("t"), 12).is_some(), "only one is held");
    kafka.clear_faults();
    assert!(slow.frame().is_some());
    let handle = kafka.fault(Fault::any().delay(FOR_EVER));
    slow.send(&metadata("t"), 12);
    assert!(handle.wait(1, PATIENCE));
    kafka.stop_broker(1);
    assert_eq!(slow.frame(), None);
    assert!(!handle.wait(2, Duration::ZERO));
}

#[test]
fn a_throttle_time_is_told_or_waited_out_as_the_version_says() {
    let kafka = cluster();
    let mut raw = Raw::connect(kafka.bootstrap());
    // 6 is the first version of Metadata whose throttle time the client waits out.
    kafka.fault(Fault::on(ApiKey::METADATA).times(1).throttle(FOR_EVER));
    assert_eq!(raw.ask(&metadata("t"), 6).expect("an answer").throttle_time_ms, 3_600_000);
    let time = Duration::from_millis(30);
    kafka.fault(Fault::on(ApiKey::METADATA).times(1).throttle(time));
    let start = clock::now();
    assert_eq!(raw.ask(&metadata("t"), 5).expect("an answer").throttle_time_ms, 30);
    assert!(clock::now() - start >= time, "never earlier");
}

#[test]
fn our_client_gets_past_errors_and_drops() {
    let kafka = cluster();
    let handle = kafka.fault(Fault::on(ApiKey::METADATA).times(1).drop_before());
    kafka.fault(Fault::on(ApiKey::API_VERSIONS).times(1).drop_after());
    let client = Client::builder(kafka.bootstrap()).build().expect("a client");
    assert_eq!(client.topic("t").expect("the topic").partitions.len(), 1);
    assert_eq!(handle.count(), 1);
}
