//! Snapshots from answers: the shapes that other clients stumbled over, and laws for any answer.

use proptest::prelude::*;

use super::*;
use crate::clock;
use crate::protocol::Uuid;
use crate::protocol::messages::MetadataResponseBroker;

const V: i16 = 12;

fn broker(node_id: i32) -> MetadataResponseBroker {
    let host = format!("kafka{node_id}");
    MetadataResponseBroker { node_id, host, port: 9092, ..Default::default() }
}

fn partition(index: i32, leader: i32, epoch: i32) -> MetadataResponsePartition {
    MetadataResponsePartition {
        partition_index: index,
        leader_id: leader,
        leader_epoch: epoch,
        ..Default::default()
    }
}

fn topic(partitions: Vec<MetadataResponsePartition>) -> MetadataResponseTopic {
    MetadataResponseTopic {
        name: Some("t".to_owned()),
        topic_id: Uuid([1; 16]),
        partitions,
        ..Default::default()
    }
}

fn failed(code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic { error_code: code, ..topic(Vec::new()) }
}

fn answer(brokers: &[i32], topic: MetadataResponseTopic) -> MetadataResponse {
    MetadataResponse {
        brokers: brokers.iter().map(|id| broker(*id)).collect(),
        controller_id: 2,
        topics: vec![topic],
        ..Default::default()
    }
}

fn asked() -> Vec<Arc<str>> {
    vec![Arc::from("t")]
}

struct Case {
    merger: Merger,
    now: Instant,
}

impl Case {
    fn new() -> Self {
        Self { merger: Merger::default(), now: clock::now() }
    }

    fn take(&mut self, response: &MetadataResponse) {
        self.merger.merge(response, V, &asked(), self.now).expect("a usable answer");
    }

    fn later(&mut self, wait: Duration) {
        self.now += wait;
    }

    fn partition(&self, index: i32) -> PartitionInfo {
        let topic = self.merger.current().topic("t").expect("the topic is known");
        topic.partition(index).expect("the partition is known").clone()
    }

    fn leader(&self) -> (Option<i32>, Option<i32>) {
        (self.partition(0).leader, self.partition(0).leader_epoch)
    }
}

// KAFKA-9261, librdkafka#132, librdkafka#5280.
#[test]
fn a_leader_that_is_no_known_broker_is_no_leader() {
    let mut case = Case::new();
    case.take(&answer(
        &[2],
        topic(vec![partition(0, 1, 5), partition(1, -1, 5), partition(2, 2, 5)]),
    ));
    for index in [0, 1] {
        assert_eq!(case.partition(index).leader, None);
        assert_eq!(case.partition(index).error, ErrorCode::LEADER_NOT_AVAILABLE);
    }
    assert_eq!(case.partition(2).leader, Some(2));
    assert_eq!(case.merger.current().controller().map(|broker| broker.id), Some(2));
}

// KAFKA-9261.
#[test]
fn odd_partition_ids_give_a_dense_list() {
    let mut case = Case::new();
    let odd = vec![
        partition(0, 1, 3),
        partition(0, 2, 4),
        partition(0, 1, 4),
        partition(7, 1, 1),
        partition(-1, 1, 1),
        partition(i32::MAX, 1, 1),
    ];
    case.take(&answer(&[1, 2], topic(odd)));
    let topic = case.merger.current().topic("t").expect("known");
    assert_eq!(topic.partitions.len(), 3);
    assert_eq!(case.leader(), (Some(2), Some(4)), "the higher epoch, and of equals the first");
    assert_eq!(case.partition(1).leader, None);
    assert_eq!(case.partition(2).leader, None);
}

#[test]
fn an_empty_list_of_brokers_or_an_error_leaves_everything_as_it_was() {
    let mut case = Case::new();
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 5)])));
    let before = Arc::clone(case.merger.current());
    let empty = answer(&[], topic(vec![partition(0, 1, 6)]));
    assert!(case.merger.merge(&empty, V, &asked(), case.now).unwrap_err().is_retriable());
    let refused = MetadataResponse {
        error_code: ErrorCode::REBOOTSTRAP_REQUIRED,
        ..answer(&[1], topic(Vec::new()))
    };
    let error = case.merger.merge(&refused, 13, &asked(), case.now).unwrap_err();
    assert_eq!(error.broker_code(), Some(ErrorCode::REBOOTSTRAP_REQUIRED));
    assert_eq!(case.merger.current(), &before);
}

// franz-go#119: after a restore all metadata was ignored for ever.
#[test]
fn a_lower_epoch_is_ignored_for_a_while_and_then_believed() {
    let mut case = Case::new();
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 5)])));
    case.take(&answer(&[1, 2], topic(vec![partition(0, 2, 6)])));
    assert_eq!(case.leader(), (Some(2), Some(6)));
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 3)])));
    assert_eq!(case.leader(), (Some(2), Some(6)));
    case.later(DOUBT_MAX.mul_f64(0.75));
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 3)])));
    assert_eq!(case.leader(), (Some(2), Some(6)));
    case.later(DOUBT_MAX.mul_f64(0.25));
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 3)])));
    assert_eq!(case.leader(), (Some(1), Some(3)));
    case.take(&answer(&[1, 2], topic(vec![partition(0, 2, 4)])));
    assert_eq!(case.leader(), (Some(2), Some(4)));
}

#[test]
fn an_answer_with_the_known_epoch_ends_the_doubt() {
    let mut case = Case::new();
    case.take(&answer(&[1, 2], topic(vec![partition(0, 2, 6)])));
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 5)])));
    case.later(DOUBT_MAX / 2);
    case.take(&answer(&[1, 2], topic(vec![partition(0, 2, 6)])));
    case.later(DOUBT_MAX / 2);
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 5)])));
    assert_eq!(case.leader(), (Some(2), Some(6)));
}

#[test]
fn a_topic_created_again_starts_with_new_epochs() {
    let mut case = Case::new();
    case.take(&answer(&[1, 2], topic(vec![partition(0, 2, 6)])));
    let anew = MetadataResponseTopic { topic_id: Uuid([2; 16]), ..topic(vec![partition(0, 1, 0)]) };
    case.take(&answer(&[1, 2], anew));
    assert_eq!(case.leader(), (Some(1), Some(0)));
}

#[test]
fn epochs_of_old_versions_are_not_looked_at() {
    let mut case = Case::new();
    case.take(&answer(&[1, 2], topic(vec![partition(0, 2, 6)])));
    let old = answer(&[1, 2], topic(vec![partition(0, 1, 3)]));
    case.merger.merge(&old, 8, &asked(), case.now).expect("usable");
    assert_eq!(case.leader(), (Some(1), None));
}

// rskafka#84: INVALID_REPLICATION_FACTOR and the like during a rolling restart.
#[test]
fn an_error_that_passes_keeps_the_topic_and_a_final_one_drops_it() {
    let mut case = Case::new();
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 5)])));
    for code in [ErrorCode::INVALID_REPLICATION_FACTOR, ErrorCode::LEADER_NOT_AVAILABLE] {
        case.take(&answer(&[1, 2], failed(code)));
        assert_eq!(case.leader(), (Some(1), Some(5)));
        assert_eq!(case.merger.current().failures.get("t"), Some(&code));
    }
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 5)])));
    assert!(case.merger.current().failures.is_empty());
    case.take(&answer(&[1, 2], failed(ErrorCode::TOPIC_AUTHORIZATION_FAILED)));
    assert_eq!(case.merger.current().topic("t"), None);
}

#[test]
fn a_topic_that_vanished_is_dropped_after_a_bounded_time() {
    let mut case = Case::new();
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 5)])));
    case.take(&answer(&[1, 2], failed(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)));
    assert_eq!(case.leader(), (Some(1), Some(5)));
    case.later(UNKNOWN_KEEP);
    // Left out of the answer counts as unknown.
    let other = MetadataResponseTopic { name: Some("other".to_owned()), ..topic(Vec::new()) };
    case.take(&answer(&[1, 2], other));
    assert_eq!(case.merger.current().topic("t"), None);
    let code = case.merger.current().failures.get("t");
    assert_eq!(code, Some(&ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    case.merger.forget("t");
    assert!(case.merger.current().failures.is_empty());
}

#[test]
fn an_answer_of_another_api_names_the_new_leader_and_where_it_is() {
    let mut case = Case::new();
    case.take(&answer(&[1], topic(vec![partition(0, 1, 5)])));
    let news = |leader_id, leader_epoch| LeaderIdAndEpoch {
        leader_id,
        leader_epoch,
        ..Default::default()
    };
    let node = NodeEndpoint { node_id: 3, host: "kafka3".into(), port: 9093, ..Default::default() };
    let merger = &mut case.merger;
    assert!(!merger.note_leader("t", 0, &news(3, 6), &[]), "nobody knows broker 3");
    assert!(
        !merger.note_leader("t", 0, &news(3, 5), std::slice::from_ref(&node)),
        "no newer epoch"
    );
    assert!(!merger.note_leader("t", 9, &news(3, 6), std::slice::from_ref(&node)));
    assert!(!merger.note_leader("u", 0, &news(3, 6), std::slice::from_ref(&node)));
    let generation = merger.current().generation;
    assert!(merger.note_leader("t", 0, &news(3, 6), &[node]));
    assert!(merger.current().generation > generation);
    assert_eq!(merger.current().broker(3).map(|broker| broker.port), Some(9093));
    assert_eq!(case.leader(), (Some(3), Some(6)));
}

// Found by the property test below.
#[test]
fn a_leader_that_left_the_cluster_is_none_even_while_the_topic_is_kept() {
    let mut case = Case::new();
    case.take(&answer(&[1, 2], topic(vec![partition(0, 1, 5)])));
    case.take(&answer(&[2], failed(ErrorCode::LEADER_NOT_AVAILABLE)));
    assert_eq!(case.leader(), (None, Some(5)));
}

#[test]
fn the_same_answer_twice_is_no_change() {
    let mut case = Case::new();
    let same = answer(&[1, 2], topic(vec![partition(0, 1, 5)]));
    case.take(&same);
    let generation = case.merger.current().generation;
    case.take(&same);
    assert_eq!(case.merger.current().generation, generation);
}

prop_compose! {
    fn any_answer()(
        brokers in proptest::collection::vec(0..4, 0..4),
        partitions in proptest::collection::vec((-2..5, -1..4, -1..9), 0..6),
        code in prop_oneof![4 => Just(0_i16), 1 => Just(3), 1 => Just(5), 1 => Just(17)],
        id in 0_u8..3,
        port in prop_oneof![9 => Just(9092), 1 => Just(-1)],
    ) -> MetadataResponse {
        let partitions = partitions.into_iter().map(|(index, leader, epoch)| {
            partition(index, leader, epoch)
        });
        let topic = MetadataResponseTopic {
            error_code: ErrorCode(code),
            topic_id: Uuid([id; 16]),
            ..topic(partitions.collect())
        };
        let mut answer = answer(&brokers, topic);
        answer.brokers.iter_mut().for_each(|broker| broker.port = port);
        answer
    }
}

proptest! {
    #[test]
    fn any_answers_keep_the_invariants_of_a_snapshot(
        answers in proptest::collection::vec((any_answer(), prop_oneof![Just(8_i16), Just(12)], 0_u64..8000), 1..20),
    ) {
        let (mut merger, mut now) = (Merger::default(), clock::now());
        for (answer, version, wait) in answers {
            now += Duration::from_millis(wait);
            let before = Arc::clone(merger.current());
            let taken = merger.merge(&answer, version, &asked(), now).is_ok();
            let after = merger.current();
            prop_assert!(before.brokers.is_empty() || !after.brokers.is_empty());
            prop_assert!(taken || *after == before);
            prop_assert!(after.topic("t").is_some() || after.generation == 0
                || after.failures.contains_key("t"));
            for (index, partition) in after.topic("t").iter().flat_map(|t| t.partitions.iter().enumerate()) {
                prop_assert_eq!(partition.index as usize, index);
                prop_assert!(partition.leader.is_none_or(|id| after.brokers.contains_key(&id)));
            }
        }
    }
}
