//! Topics by admin against scripted brokers over real sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{CreatedTopic, Topic, TopicCreation};
use crate::cluster::testing::{FakeKafka, Hooked};
use crate::error::{Error, ErrorKind};
use crate::protocol::messages::*;
use crate::protocol::{ApiKey, ErrorCode, VersionRange};

const CREATE: ApiKey = ApiKey::CREATE_TOPICS;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn only(results: Vec<TopicCreation>) -> Result<CreatedTopic, Error> {
    assert_eq!(results.len(), 1);
    results.into_iter().next().expect("one").result
}

fn code(error: &Error) -> Option<ErrorCode> {
    error.broker_code()
}

#[test]
fn topics_are_created_listed_and_deleted() {
    let kafka = FakeKafka::start(1);
    let client = kafka.client();
    let admin = client.admin();
    let topics = [Topic::new("b").partitions(3).replication(1), Topic::new("a").partitions(1)];
    let made = admin.create_topics(topics).expect("the broker answers");
    let names: Vec<&str> = made.iter().map(|topic| topic.name.as_str()).collect();
    assert_eq!(names, ["b", "a"], "in the caller's order");
    let b = made[0].result.as_ref().expect("created");
    assert_eq!((b.partitions, b.existed, b.id.is_some()), (Some(3), false, true));
    let listed = admin.list_topics().expect("topics");
    let listed: Vec<_> = listed.iter().map(|t| (&*t.name, t.partitions.len())).collect();
    assert_eq!(listed, [("a", 1), ("b", 3)]);
    let gone = admin.delete_topics(["b", "nope"]).expect("the broker answers");
    assert!(gone[0].result.is_ok());
    let error = gone[1].result.as_ref().unwrap_err();
    assert_eq!((error.kind(), error.possibly_persisted()), (ErrorKind::UnknownTopic, false));
    assert_eq!(admin.list_topics().expect("topics").len(), 1);
}

#[test]
fn old_versions_of_the_requests_do_the_same() {
    let kafka = FakeKafka::start(1);
    kafka.with(|state| {
        state.versions.insert(CREATE, Some(VersionRange { min: 0, max: 0 }));
        state.versions.insert(ApiKey::DELETE_TOPICS, Some(VersionRange { min: 0, max: 3 }));
        state.versions.insert(ApiKey::METADATA, Some(VersionRange { min: 0, max: 0 }));
        state.add_topic("other", &[1]);
    });
    let client = kafka.client();
    let topic = Topic::new("a").partitions(2).replication(1);
    let made = only(client.admin().create_topics([topic]).expect("the broker answers"));
    assert_eq!(made.expect("created").partitions, Some(2));
    let names = client.admin().list_topics().expect("topics");
    assert_eq!(names.len(), 2);
    assert!(client.admin().delete_topics(["a"]).expect("the broker answers")[0].result.is_ok());
}

// aiokafka#939, sarama#1121: not the controller.
#[test]
fn the_controller_is_asked_and_found_again_when_it_moved() {
    let kafka = FakeKafka::start(3);
    kafka.with(|state| state.controller = 2);
    let client = kafka.client();
    client.brokers().expect("brokers");
    kafka.with(|state| state.controller = 3);
    kafka.hook(|broker, request, peer| {
        if request.header.api != CREATE || broker == 3 {
            return Hooked::Pass;
        }
        let row = |topic: &CreatableTopic| CreatableTopicResult {
            name: topic.name.clone(),
            error_code: ErrorCode::NOT_CONTROLLER,
            ..Default::default()
        };
        let topics = request.decode::<CreateTopicsRequest>().topics.iter().map(row).collect();
        peer.answer(request, &CreateTopicsResponse { topics, ..Default::default() });
        Hooked::Done
    });
    only(client.admin().create_topics([Topic::new("a")]).expect("answered")).expect("created");
    let asked: Vec<i32> = kafka.seen(CREATE).iter().map(|seen| seen.broker).collect();
    assert_eq!(asked, [2, 3]);
}

#[test]
fn without_a_known_controller_any_broker_is_asked() {
    let kafka = FakeKafka::start(2);
    kafka.with(|state| state.controller = -1);
    let client = kafka.client();
    only(client.admin().create_topics([Topic::new("a")]).expect("answered")).expect("created");
}

// kafka-python#1382, KAFKA-8305: the broker's defaults on a broker that has no word for them.
#[test]
fn broker_defaults_need_a_version_that_knows_them() {
    let kafka = FakeKafka::start(1);
    kafka.with(|state| state.versions.insert(CREATE, Some(VersionRange { min: 0, max: 2 })));
    let client = kafka.client();
    let error = client.admin().create_topics([Topic::new("a").partitions(3)]).unwrap_err();
    assert_eq!(
        (error.kind(), error.topic()),
        (ErrorKind::UnsupportedVersion, Some("a")),
        "{error}"
    );
    assert!(kafka.seen(CREATE).is_empty());
    let placed = Topic::new("b").assignment([[1], [1]]);
    let made = only(client.admin().create_topics([placed]).expect("answered"));
    assert_eq!(made.expect("created").partitions, Some(2));
}

// terraform-provider-kafka#300, redpanda#1573: one error for all, without the broker's words.
#[test]
fn each_topic_has_its_own_result_with_the_brokers_words() {
    let kafka = FakeKafka::start(1);
    kafka.with(|state| state.add_topic("c", &[1]));
    kafka.hook(|_, request, peer| {
        if request.header.api != CREATE {
            return Hooked::Pass;
        }
        let row = |topic: &CreatableTopic| {
            let (error_code, text) = match topic.name.as_str() {
                "b" => (ErrorCode::INVALID_REPLICATION_FACTOR, Some("only 1 broker is there")),
                "c" => (ErrorCode::TOPIC_ALREADY_EXISTS, Some("Topic 'c' already exists.")),
                _ => (ErrorCode::NONE, None),
            };
            let error_message = text.map(str::to_owned);
            CreatableTopicResult {
                name: topic.name.clone(),
                error_code,
                error_message,
                ..Default::default()
            }
        };
        let topics = request.decode::<CreateTopicsRequest>().topics.iter().map(row).collect();
        peer.answer(request, &CreateTopicsResponse { topics, ..Default::default() });
        Hooked::Done
    });
    let client = kafka.client();
    let topics = ["a", "b", "c"].map(|name| Topic::new(name).replication(9));
    let made = client.admin().without_waiting().create_topics(topics.clone()).expect("answered");
    assert!(made[0].result.is_ok());
    let b = made[1].result.as_ref().unwrap_err();
    assert_eq!((code(b), b.topic()), (Some(ErrorCode::INVALID_REPLICATION_FACTOR), Some("b")));
    assert!(b.to_string().contains("only 1 broker is there"), "{b}");
    let c = made[2].result.as_ref().unwrap_err();
    assert_eq!(code(c), Some(ErrorCode::TOPIC_ALREADY_EXISTS));
    assert!(c.to_string().contains("already exists"), "{c}");
    let made = client.admin().without_waiting().if_not_exists().create_topics(topics);
    let made = made.expect("answered");
    assert!(made[2].result.as_ref().expect("it is there").existed);
    assert!(!made[0].result.as_ref().expect("it is new").existed);
}

// KAFKA-2945: the same topic twice.
#[test]
fn what_is_refused_here_is_not_sent_and_the_rest_is_created() {
    let kafka = FakeKafka::start(1);
    let client = kafka.client();
    let topics = ["a", "a", "a b", "ok"].map(Topic::new);
    let made = client.admin().create_topics(topics).expect("answered");
    let kinds: Vec<Option<ErrorKind>> =
        made.iter().map(|topic| topic.result.as_ref().err().map(Error::kind)).collect();
    let refused = Some(ErrorKind::InvalidInput);
    assert_eq!(kinds, [refused, refused, refused, None]);
    assert!(made[0].result.as_ref().unwrap_err().to_string().contains("more than once"));
    assert_eq!(kafka.with(|state| state.topics.keys().cloned().collect::<Vec<_>>()), ["ok"]);
    let none = client.admin().create_topics([Topic::new("")]).expect("nothing to send");
    assert_eq!(none.len(), 1);
    assert_eq!(kafka.seen(CREATE).len(), 1, "nothing was sent for the second");
}

// librdkafka#2862, redpanda#1256: a topic cannot be used right after its creation.
#[test]
fn a_creation_ends_when_every_partition_has_a_leader() {
    let kafka = Arc::new(FakeKafka::start(1));
    let looks = Arc::new(AtomicUsize::new(0));
    let (counter, weak) = (Arc::clone(&looks), Arc::downgrade(&kafka));
    kafka.hook(move |_, request, peer| {
        if request.header.api != ApiKey::METADATA {
            return Hooked::Pass;
        }
        let metadata: MetadataRequest = request.decode();
        if metadata.topics.as_ref().is_none_or(Vec::is_empty) {
            return Hooked::Pass;
        }
        assert!(!metadata.allow_auto_topic_creation, "a look must not create");
        let kafka = weak.upgrade().expect("the test runs");
        let mut answer = kafka.with(|state| state.metadata(&metadata, request.header.version));
        match counter.fetch_add(1, Ordering::SeqCst) {
            0 => answer.topics[0].error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            1 => answer.topics[0].error_code = ErrorCode::LEADER_NOT_AVAILABLE,
            2 => answer.topics[0].partitions[1].leader_id = -1,
            3 => answer.topics[0].partitions.truncate(1),
            _ => {}
        }
        peer.answer(request, &answer);
        Hooked::Done
    });
    let client = kafka.client();
    let topic = Topic::new("a").partitions(2);
    let made = only(client.admin().create_topics([topic]).expect("answered")).expect("usable");
    assert_eq!((made.partitions, looks.load(Ordering::SeqCst)), (Some(2), 5));
    let only_checked = client.admin().validate_only().create_topics([Topic::new("b")]);
    only(only_checked.expect("answered")).expect("it could be created");
    assert_eq!(looks.load(Ordering::SeqCst), 5, "nothing to wait for");
    assert_eq!(kafka.with(|state| state.topics.len()), 1);
    client.close(ms(20_000)).expect("closed");
    kafka.hook(|_, _, _| Hooked::Pass);
}

#[test]
fn a_topic_that_does_not_become_usable_in_time_is_an_error_that_says_it_is_there() {
    let kafka = FakeKafka::start(1);
    let client = kafka.client();
    client.brokers().expect("brokers");
    kafka.hook(|_, request, _| match request.header.api {
        ApiKey::METADATA => Hooked::Close,
        _ => Hooked::Pass,
    });
    let made = client.admin().timeout(ms(400)).create_topics([Topic::new("a")]);
    let error = only(made.expect("the controller answered")).unwrap_err();
    assert!(error.possibly_persisted(), "{error}");
    assert_eq!(error.topic(), Some("a"));
}

// KAFKA-10006, kafka-fast#45: created again while the deletion is going on.
#[test]
fn a_creation_waits_for_the_deletion_of_its_predecessor() {
    let kafka = FakeKafka::start(1);
    let refusals = AtomicUsize::new(0);
    kafka.hook(move |_, request, peer| {
        if request.header.api != CREATE || refusals.fetch_add(1, Ordering::SeqCst) >= 2 {
            return Hooked::Pass;
        }
        // Metadata does not show it any more, the controller still has it.
        let row = CreatableTopicResult {
            name: "a".to_owned(),
            error_code: ErrorCode::TOPIC_ALREADY_EXISTS,
            error_message: Some("Topic 'a' is marked for deletion.".to_owned()),
            ..Default::default()
        };
        peer.answer(request, &CreateTopicsResponse { topics: vec![row], ..Default::default() });
        Hooked::Done
    });
    let client = kafka.client();
    let made = only(client.admin().create_topics([Topic::new("a")]).expect("answered"));
    assert!(!made.expect("created in the end").existed);
    assert_eq!(kafka.seen(CREATE).len(), 3);
}

#[test]
fn a_deletion_that_never_ends_is_an_error_with_the_brokers_words() {
    let kafka = FakeKafka::start(1);
    kafka.hook(|_, request, peer| {
        if request.header.api != CREATE {
            return Hooked::Pass;
        }
        let row = CreatableTopicResult {
            name: "a".to_owned(),
            error_code: ErrorCode::TOPIC_ALREADY_EXISTS,
            error_message: Some("Topic 'a' is marked for deletion.".to_owned()),
            ..Default::default()
        };
        peer.answer(request, &CreateTopicsResponse { topics: vec![row], ..Default::default() });
        Hooked::Done
    });
    let client = kafka.client();
    let made = client.admin().timeout(ms(300)).create_topics([Topic::new("a")]);
    let error = only(made.expect("answered")).unwrap_err();
    assert_eq!(code(&error), Some(ErrorCode::TOPIC_ALREADY_EXISTS));
    assert!(error.to_string().contains("marked for deletion"), "{error}");
    assert!(error.attempts().is_some_and(|attempts| attempts > 1), "{error}");
}

// confluent-kafka-python#682: waits beyond the limit, then a vague message.
#[test]
fn a_controller_that_refuses_is_named_when_the_time_is_up() {
    let kafka = FakeKafka::start(2);
    let client = kafka.client();
    client.brokers().expect("brokers");
    let address = kafka.with(|state| format!("127.0.0.1:{}", state.brokers[&1].1));
    kafka.stop_broker(1);
    let error = client.admin().timeout(ms(400)).create_topics([Topic::new("a")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    assert_eq!(error.broker(), Some(format!("1 ({address})").as_str()));
    assert!(error.attempts().is_some_and(|attempts| attempts > 1), "{error}");
    assert!(!error.possibly_persisted(), "nothing was ever sent");
}

// confluent-kafka-python#682: the broker's own time-out.
#[test]
fn a_broker_that_timed_out_may_still_create_the_topic() {
    let kafka = Arc::new(FakeKafka::start(1));
    let allowed = Arc::new(Mutex::new(Vec::new()));
    let (times, weak) = (Arc::clone(&allowed), Arc::downgrade(&kafka));
    kafka.hook(move |_, request, peer| {
        if request.header.api != CREATE {
            return Hooked::Pass;
        }
        let create: CreateTopicsRequest = request.decode();
        times.lock().push(create.timeout_ms);
        if create.topics[0].name == "late" {
            weak.upgrade().expect("the test runs").with(|state| state.add_topic("late", &[1]));
        }
        let row = CreatableTopicResult {
            name: create.topics[0].name.clone(),
            error_code: ErrorCode::REQUEST_TIMED_OUT,
            ..Default::default()
        };
        peer.answer(request, &CreateTopicsResponse { topics: vec![row], ..Default::default() });
        Hooked::Done
    });
    let client = kafka.client();
    let late = Topic::new("late").partitions(1);
    only(client.admin().create_topics([late]).expect("answered")).expect("seen in metadata");
    for admin in [client.admin().without_waiting(), client.admin().timeout(ms(300))] {
        let error =
            only(admin.create_topics([Topic::new("never")]).expect("answered")).unwrap_err();
        assert_eq!(code(&error), Some(ErrorCode::REQUEST_TIMED_OUT), "{error}");
        assert!(error.possibly_persisted());
    }
    assert_eq!(kafka.seen(CREATE).len(), 3, "it is not asked twice");
    assert!(allowed.lock()[2] <= 300, "the broker gets no more time than there is");
    client.close(ms(20_000)).expect("closed");
    kafka.hook(|_, _, _| Hooked::Pass);
}

#[test]
fn a_lost_answer_leaves_the_outcome_in_doubt() {
    let kafka = Arc::new(FakeKafka::start(1));
    let calls = AtomicUsize::new(0);
    let weak = Arc::downgrade(&kafka);
    kafka.hook(move |_, request, _| {
        if request.header.api != CREATE || calls.fetch_add(1, Ordering::SeqCst) > 0 {
            return Hooked::Pass;
        }
        // Carried out, but the answer never leaves.
        weak.upgrade().expect("the test runs").with(|state| state.add_topic("a", &[1]));
        Hooked::Close
    });
    let client = kafka.client();
    let error =
        only(client.admin().create_topics([Topic::new("a")]).expect("answered")).unwrap_err();
    assert_eq!(code(&error), Some(ErrorCode::TOPIC_ALREADY_EXISTS));
    assert!(error.possibly_persisted(), "{error}");
    client.close(ms(20_000)).expect("closed");
    kafka.hook(|_, _, _| Hooked::Pass);
}

#[test]
fn a_quota_is_waited_out() {
    let kafka = FakeKafka::start(1);
    let calls = AtomicUsize::new(0);
    kafka.hook(move |_, request, peer| {
        if request.header.api != CREATE || calls.fetch_add(1, Ordering::SeqCst) > 0 {
            return Hooked::Pass;
        }
        let row = CreatableTopicResult {
            name: "a".to_owned(),
            error_code: ErrorCode::THROTTLING_QUOTA_EXCEEDED,
            ..Default::default()
        };
        let answer =
            CreateTopicsResponse { topics: vec![row], throttle_time_ms: 20, ..Default::default() };
        peer.answer(request, &answer);
        Hooked::Done
    });
    let client = kafka.client();
    only(client.admin().create_topics([Topic::new("a")]).expect("answered")).expect("created");
    assert_eq!(kafka.seen(CREATE).len(), 2);
}
