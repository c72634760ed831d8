//! The cluster handle against scripted brokers over real sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::Target;
use super::testing::{FakeKafka, Hooked};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind};
use crate::net::testing::soon;
use crate::protocol::messages::*;
use crate::protocol::{ApiKey, ErrorCode, Message, VersionRange};
use crate::{Client, threads};

const OFFSETS: VersionRange = ListOffsetsRequest::VERSIONS;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn brokers_and_topics_are_learnt_from_one_of_the_bootstrap_servers() {
    let kafka = FakeKafka::start(3);
    kafka.with(|state| state.add_topic("t", &[1, 2, 3]));
    let client = kafka.client();
    assert_eq!(client.metadata().brokers().count(), 0, "nobody is asked before the first call");
    let ids: Vec<i32> = client.brokers().expect("brokers").iter().map(|broker| broker.id).collect();
    assert_eq!(ids, [1, 2, 3]);
    let topic = client.topic("t").expect("the topic");
    let leaders: Vec<Option<i32>> = topic.partitions.iter().map(|part| part.leader).collect();
    assert_eq!(leaders, [Some(1), Some(2), Some(3)]);
    assert_eq!(client.metadata().cluster_id(), Some("scripted"));
    assert_eq!(client.metadata().controller().map(|broker| broker.id), Some(1));
    let (endpoint, epoch) = client.cluster().leader("t", 1, soon()).expect("a leader");
    assert_eq!((endpoint.id, epoch), (Some(2), 1));
}

#[test]
fn many_callers_share_few_requests() {
    let kafka = FakeKafka::start(1);
    let client = kafka.client();
    client.brokers().expect("brokers");
    let before = kafka.seen(ApiKey::METADATA).len();
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            threads::spawn("test-caller", move || {
                client.refresh().expect("metadata");
            })
            .expect("a thread")
        })
        .collect();
    callers.into_iter().for_each(threads::Thread::join);
    let asked = kafka.seen(ApiKey::METADATA).len() - before;
    assert!((1..=20).contains(&asked), "{asked}");
    assert!(kafka.accepted(1) <= 2, "one for bootstrap, one for the broker");
}

// kafka-python#1892, ruby-kafka#226, librdkafka#1569: a flood of connections while brokers are away.
#[test]
fn a_broker_that_hangs_up_is_tried_again_with_growing_pauses() {
    let kafka = FakeKafka::start(1);
    kafka.hook(|_, _, _| Hooked::Close);
    let client = Client::builder(&kafka.bootstrap()).default_api_timeout(ms(1500)).build().unwrap();
    let error = client.brokers().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
    assert!(error.to_string().contains(&kafka.bootstrap()), "{error}");
    // Pauses of 100, 200, 400, ... ms with jitter; an attempt connects up to three times, for the
    // fallbacks of the version negotiation.
    assert!(kafka.accepted(1) <= 3 * 6, "{}", kafka.accepted(1));
    kafka.hook(|_, _, _| Hooked::Pass);
    client.cluster().known(soon()).expect("it recovers");
}

// sarama#3741: a request for an API that the broker does not list.
#[test]
fn an_api_that_the_broker_lacks_is_an_error_before_anything_is_sent() {
    let kafka = FakeKafka::start(1);
    let ours = InitProducerIdRequest::VERSIONS;
    for versions in [None, Some(VersionRange { min: 90, max: 95 })] {
        kafka.with(|state| state.versions.insert(ApiKey::INIT_PRODUCER_ID, versions));
        kafka.drop_connections(1);
        let client = kafka.client();
        client.brokers().expect("brokers");
        let request = InitProducerIdRequest::default();
        let error = client.cluster().call_any(&request, ours, soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion, "{error}");
        assert!(!error.is_retriable());
    }
    assert!(kafka.seen(ApiKey::INIT_PRODUCER_ID).is_empty());
}

// sarama#3741: min(max) of both sides.
#[test]
fn the_version_is_the_highest_that_both_have() {
    let kafka = FakeKafka::start(1);
    let range = VersionRange { min: 1, max: 3 };
    kafka.with(|state| state.versions.insert(ApiKey::INIT_PRODUCER_ID, Some(range)));
    let client = kafka.client();
    let request = InitProducerIdRequest::default();
    let cap = VersionRange { min: 0, max: 2 };
    client.cluster().call_any(&request, cap, soon()).expect("an answer");
    assert_eq!(kafka.seen(ApiKey::INIT_PRODUCER_ID)[0].version, 2);
}

// rskafka#58, #61, #187: metadata keeps asking the same dead broker.
#[test]
fn a_dead_broker_is_not_asked_twice_in_a_row() {
    let kafka = FakeKafka::start(3);
    let client = kafka.client();
    client.brokers().expect("brokers");
    let asked = kafka.seen(ApiKey::METADATA)[0].broker;
    kafka.stop_broker(asked);
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let client = client.clone();
            threads::spawn("test-caller", move || {
                client.refresh().expect("another broker answers");
            })
            .expect("a thread")
        })
        .collect();
    callers.into_iter().for_each(threads::Thread::join);
    let last = kafka.seen(ApiKey::METADATA).last().copied().expect("an answer came");
    assert_ne!(last.broker, asked);
}

// kafka-python#810, KAFKA-12193: no known broker is reachable any more.
#[test]
fn with_no_known_broker_left_the_bootstrap_list_is_asked_again() {
    let old = FakeKafka::start(2);
    let new = FakeKafka::start(1);
    new.with(|state| state.add_topic("t", &[1]));
    // The first metadata name only brokers of the old cluster; the last bootstrap server leads to
    // the new one once the old one is gone.
    let servers = format!("{},{}", old.bootstrap(), new.bootstrap());
    let moved = new.with(|state| state.brokers.clone());
    new.with(|state| state.brokers = old.with(|old| old.brokers.clone()));
    let client = Client::builder(&servers)
        .retry_backoff(ms(5))
        .reconnect_backoff(ms(5))
        .reconnect_backoff_max(ms(20))
        .build()
        .unwrap();
    assert_eq!(client.brokers().expect("brokers").len(), 2);
    old.stop_broker(1);
    old.stop_broker(2);
    new.with(|state| state.brokers = moved);
    let metadata = client.cluster().refresh_now(&[], soon()).expect("the new cluster");
    assert_eq!(metadata.brokers().count(), 1);
    client.topic("t").expect("its topic");
}

// rskafka#84, #106; aiokafka#288: codes of a rolling restart and of a topic that is being created.
#[test]
fn a_topic_that_is_not_ready_is_waited_for() {
    for code in [
        ErrorCode::INVALID_REPLICATION_FACTOR,
        ErrorCode::LEADER_NOT_AVAILABLE,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ] {
        let kafka = Arc::new(FakeKafka::start(1));
        kafka.with(|state| {
            state.add_topic("t", &[1]);
            state.topics.get_mut("t").expect("just made").error = code;
        });
        let asked = AtomicUsize::new(0);
        let weak = Arc::downgrade(&kafka);
        kafka.hook(move |_, request, _| {
            let kafka = weak.upgrade().expect("the test runs");
            if request.header.api == ApiKey::METADATA && asked.fetch_add(1, Ordering::SeqCst) == 3 {
                kafka.with(|s| s.topics.get_mut("t").expect("made").error = ErrorCode::NONE);
            }
            Hooked::Pass
        });
        let client = kafka.client();
        let topic = client.cluster().topic("t", soon()).expect("a delay only");
        assert_eq!(topic.partitions.len(), 1, "{code}");
        client.close(ms(20_000)).expect("closed");
        kafka.hook(|_, _, _| Hooked::Pass);
    }
}

// kafka-python#2540, KAFKA-4665, librdkafka#1370: a topic or partition that does not exist.
#[test]
fn what_does_not_exist_is_named_within_the_deadline() {
    let kafka = FakeKafka::start(1);
    kafka.with(|state| state.add_topic("t", &[1, 1, 1]));
    let client = kafka.client();
    let cluster = client.cluster();
    let error = cluster.topic("nope", Deadline::within(ms(300))).unwrap_err();
    assert_eq!((error.kind(), error.topic()), (ErrorKind::UnknownTopic, Some("nope")), "{error}");
    assert_eq!(error.broker_code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert!(error.attempts().is_some_and(|attempts| attempts > 1), "not at the first answer");
    let error = cluster.leader("t", 99, Deadline::within(ms(300))).unwrap_err();
    assert_eq!((error.topic(), error.partition()), (Some("t"), Some(99)), "{error}");
    cluster.leader("t", 2, soon()).expect("the others are answered");
    // Nobody asks about it any more.
    cluster.refresh_now(&[], soon()).expect("metadata");
    assert_eq!(cluster.metadata().failures.len(), 0);
}

#[test]
fn a_topic_that_may_not_be_seen_fails_at_once_and_alone() {
    let kafka = FakeKafka::start(1);
    kafka.with(|state| {
        state.add_topic("secret", &[1]);
        state.topics.get_mut("secret").expect("made").error = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
        state.add_topic("t", &[1]);
    });
    let client = kafka.client();
    let error = client.topic("secret").unwrap_err();
    assert_eq!(error.broker_code(), Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    assert_eq!(error.attempts(), Some(1));
    client.topic("t").expect("another topic");
}

/// A call to a partition's leader as readers and producers make it.
fn list_offsets(client: &Client, deadline: Deadline) -> Result<ListOffsetsResponse, Error> {
    client.cluster().retry("list offsets", deadline, |_| {
        let target = Target::Leader("t", 0);
        let response: ListOffsetsResponse =
            client
                .cluster()
                .call(target, OFFSETS, deadline, |_| Ok(ListOffsetsRequest::default()))?;
        let code = response.topics[0].partitions[0].error_code;
        if code.is_ok() { Ok(response) } else { Err(Error::from_code(code, None)) }
    })
}

fn offsets_answer(code: ErrorCode) -> ListOffsetsResponse {
    let partition = ListOffsetsPartitionResponse { error_code: code, ..Default::default() };
    let topic = ListOffsetsTopicResponse { partitions: vec![partition], ..Default::default() };
    ListOffsetsResponse { topics: vec![topic], ..Default::default() }
}

// platformatic/kafka#377, sarama#3135, kafka_ex#396: retries go to the dead or demoted leader.
#[test]
fn metadata_is_fetched_between_attempts_so_that_the_new_leader_gets_the_request() {
    for demoted in [false, true] {
        let kafka = FakeKafka::start(2);
        kafka.with(|state| state.add_topic("t", &[1]));
        kafka.hook(move |broker, request, peer| {
            if request.header.api != ApiKey::LIST_OFFSETS {
                return Hooked::Pass;
            }
            let code = match broker {
                1 => ErrorCode::NOT_LEADER_OR_FOLLOWER,
                _ => ErrorCode::NONE,
            };
            peer.answer(request, &offsets_answer(code));
            Hooked::Done
        });
        let client = kafka.client();
        client.topic("t").expect("the topic");
        kafka.with(|state| state.move_leader("t", 0, 2));
        if !demoted {
            kafka.stop_broker(1);
        }
        list_offsets(&client, soon()).expect("the new leader answers");
        let seen = kafka.seen(ApiKey::LIST_OFFSETS);
        assert_eq!(seen.last().map(|seen| seen.broker), Some(2));
        assert!(seen.len() <= 2, "one attempt at the old leader: {seen:?}");
    }
}

// Dekaf#2263, KAFKA-16083: a throttled client keeps sending.
#[test]
fn a_broker_that_throttles_is_left_alone_and_no_timeout_comes_of_it() {
    const THROTTLE: Duration = Duration::from_millis(600);
    let kafka = FakeKafka::start(2);
    kafka.hook(|broker, request, peer| {
        if request.header.api != ApiKey::INIT_PRODUCER_ID || broker != 1 {
            return Hooked::Pass;
        }
        let throttle_time_ms = THROTTLE.as_millis() as i32;
        peer.answer(request, &InitProducerIdResponse { throttle_time_ms, ..Default::default() });
        Hooked::Done
    });
    let client = kafka.builder().request_timeout(ms(500)).build().unwrap();
    let cluster = client.cluster();
    let call = |broker| {
        let request = InitProducerIdRequest::default();
        let versions = InitProducerIdRequest::VERSIONS;
        cluster.call(Target::Broker(broker), versions, soon(), |_| Ok(request))
    };
    call(1).expect("the first");
    call(2).expect("another broker");
    call(1).expect("the second, later");
    let seen = kafka.seen(ApiKey::INIT_PRODUCER_ID);
    let order: Vec<i32> = seen.iter().map(|seen| seen.broker).collect();
    assert_eq!(order, [1, 2, 1]);
    // The broker notes the arrival before it answers, so the gap is no shorter than the throttle.
    assert!(seen[2].at - seen[0].at >= THROTTLE);
    let hurried = cluster.call(
        Target::Broker(1),
        InitProducerIdRequest::VERSIONS,
        Deadline::within(ms(1)),
        |_| Ok(InitProducerIdRequest::default()),
    );
    let error = hurried.unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("throttles"), "{error}");
}

// confluent-kafka-go#70, sarama#272, KAFKA-2657: names that cannot be resolved.
#[test]
fn a_bad_bootstrap_name_is_passed_over_and_a_bad_advertised_one_is_named() {
    let kafka = FakeKafka::start(1);
    kafka.with(|state| {
        state.brokers.insert(7, ("9c95dafd9323.invalid".to_owned(), 9092));
        state.add_topic("t", &[7]);
    });
    let servers = format!("bad.invalid:9092,{}", kafka.bootstrap());
    let client = Client::builder(&servers).build().unwrap();
    let brokers = client.cluster().known(soon()).expect("the other server answers");
    assert_eq!(brokers.brokers().count(), 2);
    let error = list_offsets(&client, Deadline::within(ms(500))).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("9c95dafd9323.invalid:9092") && text.contains("cannot resolve"),
        "{text}"
    );
    assert_eq!(error.kind(), ErrorKind::Resolve);
}

// librdkafka#4577: metadata asked for ever after one disconnect.
#[test]
fn one_disconnect_asks_for_metadata_a_handful_of_times() {
    let kafka = FakeKafka::start(1);
    kafka.with(|state| state.add_topic("t", &[1]));
    kafka.hook(|_, request, peer| {
        if request.header.api != ApiKey::LIST_OFFSETS {
            return Hooked::Pass;
        }
        peer.answer(request, &offsets_answer(ErrorCode::NONE));
        Hooked::Done
    });
    let client = kafka.client();
    list_offsets(&client, soon()).expect("offsets");
    kafka.drop_connections(1);
    for _ in 0..300 {
        list_offsets(&client, soon()).expect("offsets");
    }
    let asked = kafka.seen(ApiKey::METADATA).len();
    assert!(asked <= 6, "{asked}");
}

#[test]
fn the_coordinator_is_looked_up_once_and_again_when_it_moved() {
    let kafka = FakeKafka::start(2);
    kafka.hook(|broker, request, peer| {
        if request.header.api != ApiKey::OFFSET_FETCH {
            return Hooked::Pass;
        }
        let error_code = match broker {
            1 => ErrorCode::NOT_COORDINATOR,
            _ => ErrorCode::NONE,
        };
        peer.answer(request, &OffsetFetchResponse { error_code, ..Default::default() });
        Hooked::Done
    });
    let client = kafka.client();
    let cluster = client.cluster();
    let versions = VersionRange { min: 2, max: 5 };
    let fetch = || {
        cluster.retry("fetch offsets", soon(), |_| {
            let request = OffsetFetchRequest { topics: None, ..Default::default() };
            let target = Target::Coordinator("g");
            let response = cluster.call(target, versions, soon(), |_| Ok(request))?;
            match response.error_code {
                ErrorCode::NONE => Ok(()),
                code => {
                    kafka.with(|state| state.coordinator = 2);
                    Err(Error::from_code(code, None))
                }
            }
        })
    };
    fetch().expect("the coordinator that moved");
    fetch().expect("the coordinator that is known");
    let brokers: Vec<i32> = kafka.seen(ApiKey::OFFSET_FETCH).iter().map(|s| s.broker).collect();
    assert_eq!(brokers, [1, 2, 2]);
    assert_eq!(kafka.seen(ApiKey::FIND_COORDINATOR).len(), 2);
}

#[test]
fn a_proxy_that_asks_for_a_new_start_gets_one() {
    let kafka = FakeKafka::start(1);
    let asked = AtomicUsize::new(0);
    kafka.hook(move |_, request, peer| {
        if request.header.api == ApiKey::METADATA && asked.fetch_add(1, Ordering::SeqCst) == 1 {
            let error_code = ErrorCode::REBOOTSTRAP_REQUIRED;
            peer.answer(request, &MetadataResponse { error_code, ..Default::default() });
            return Hooked::Done;
        }
        Hooked::Pass
    });
    let client = kafka.client();
    client.brokers().expect("brokers");
    let before = kafka.accepted(1);
    client.refresh().expect("after a new start");
    assert!(kafka.accepted(1) > before, "over a new connection");
}

#[test]
fn a_close_wakes_who_waits_and_refuses_the_rest() {
    let kafka = FakeKafka::start(1);
    kafka.hook(|_, request, _| match request.header.api {
        ApiKey::METADATA => Hooked::Done,
        _ => Hooked::Pass,
    });
    let client = kafka.client();
    let waiting = client.clone();
    let outcome = Arc::new(parking_lot::Mutex::new(None));
    let result = Arc::clone(&outcome);
    let caller = threads::spawn("test-caller", move || {
        *result.lock() = Some(waiting.brokers());
    })
    .expect("a thread");
    while kafka.seen(ApiKey::METADATA).is_empty() {
        threads::pause(ms(1));
    }
    client.close(ms(20_000)).expect("the thread ends although no answer ever comes");
    caller.join();
    let error = outcome.lock().take().expect("the caller came back").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert_eq!(client.topic("t").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(client.cluster().open_dedicated(1, soon()).unwrap_err().kind(), ErrorKind::Closed);
    client.close(ms(0)).expect("again is the same as once");
}

#[test]
fn a_broker_that_never_answers_costs_one_request_timeout() {
    let kafka = FakeKafka::start(3);
    let hangs = Arc::new(AtomicUsize::new(0));
    let silent = Arc::clone(&hangs);
    kafka.hook(move |broker, request, _| {
        let api = request.header.api;
        if api == ApiKey::METADATA && broker as usize == silent.load(Ordering::SeqCst) {
            return Hooked::Done;
        }
        Hooked::Pass
    });
    let client = kafka.builder().request_timeout(ms(200)).build().unwrap();
    client.cluster().known(soon()).expect("all answer");
    for _ in 0..3 {
        // The one that would be asked next, for it answered last, hangs from now on.
        let asked = kafka.seen(ApiKey::METADATA);
        let last = asked.last().expect("one was asked").broker;
        hangs.store(last as usize, Ordering::SeqCst);
        client.cluster().refresh_now(&[], soon()).expect("another broker");
        let since = kafka.seen(ApiKey::METADATA).split_off(asked.len());
        let brokers: Vec<i32> = since.iter().map(|seen| seen.broker).collect();
        assert_eq!(brokers.len(), 2, "{brokers:?}");
        assert_eq!(brokers[0], last);
        assert_ne!(brokers[1], last);
    }
}

#[test]
fn a_throttled_broker_is_not_asked_while_others_can_be() {
    let kafka = FakeKafka::start(2);
    let throttles = AtomicUsize::new(0);
    kafka.hook(move |broker, request, peer| {
        if request.header.api != ApiKey::INIT_PRODUCER_ID {
            return Hooked::Pass;
        }
        let first = throttles.fetch_add(1, Ordering::SeqCst) == 0;
        let throttle_time_ms = if first { 3_600_000 } else { 0 };
        let producer_id = i64::from(broker);
        let answer = InitProducerIdResponse { throttle_time_ms, producer_id, ..Default::default() };
        peer.answer(request, &answer);
        Hooked::Done
    });
    let client = kafka.client();
    client.brokers().expect("brokers");
    let versions = InitProducerIdRequest::VERSIONS;
    let request = InitProducerIdRequest::default();
    let call = || client.cluster().call_any(&request, versions, soon()).expect("an answer");
    let throttled = call().producer_id;
    assert!((0..5).all(|_| call().producer_id != throttled));
    client.refresh().expect("metadata from the other broker");
}
