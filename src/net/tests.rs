//! Connections and the pool against scripted servers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::pool::{PoolSettings, Poolable};
use super::testing::{Peer, Received, ScriptedServer, all_versions, settings, soon};
use super::{Address, Connection, Connections, Endpoint};
use crate::clock::Deadline;
use crate::error::ErrorKind;
use crate::protocol::messages::*;
use crate::protocol::{ApiKey, ErrorCode};

const METADATA_VERSION: i16 = 1;

fn serve(peer: &mut Peer, mut answer: impl FnMut(&mut Peer, &Received)) {
    while let Some(request) = peer.receive_past_versions() {
        answer(peer, &request);
    }
}

fn metadata(controller_id: i32) -> MetadataResponse {
    MetadataResponse { controller_id, ..Default::default() }
}

fn ask(connection: &mut Connection, deadline: Deadline) -> crate::Result<MetadataResponse> {
    connection.call(&MetadataRequest::default(), METADATA_VERSION, deadline)
}

fn pool(connections_max: u32) -> Connections {
    Connections::new(settings(), PoolSettings::new().per_key_max(connections_max))
}

/// Plain clients on other protocols' ports (redpanda-data/kminion#91).
#[test]
fn answers_that_are_no_kafka_are_named() {
    for (bytes, word) in [
        (&b"\x15\x03\x03\x00\x02\x02\x46"[..], "TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"\xff\xff\xff\xff", "-1 bytes"),
        (b"\x7f\xff\xff\xff", "limit"),
    ] {
        let server = ScriptedServer::start(move |mut peer: Peer| {
            peer.receive();
            peer.send(bytes);
            peer.receive();
        });
        let error = Connection::open(&server.endpoint(), &settings(), soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(error.broker().is_some());
    }
}

/// A size below a correlation id, an answer cut off, bytes left over.
#[test]
fn answers_of_the_wrong_length_poison_the_connection() {
    let server = ScriptedServer::start(|mut peer: Peer| {
        serve(&mut peer, |peer, request| {
            let id = request.header.correlation_id.to_be_bytes();
            let frame = [&[0, 0, 0, 6][..], &id, &[0, 0]].concat();
            peer.send(&frame);
        });
    });
    let mut connection = Connection::open(&server.endpoint(), &settings(), soon()).expect("open");
    let error = ask(&mut connection, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    assert_eq!(error.api(), Some((ApiKey::METADATA, METADATA_VERSION)));
}

/// A late answer is never taken for the next one (dpkp/kafka-python#1748).
#[test]
fn a_correlation_id_out_of_turn_poisons_the_connection() {
    let server = ScriptedServer::start(|mut peer: Peer| {
        serve(&mut peer, |peer, request| {
            let id = request.header.correlation_id - 1;
            peer.answer_as(id, ApiKey::METADATA, METADATA_VERSION, &metadata(1));
        });
    });
    let mut connection = Connection::open(&server.endpoint(), &settings(), soon()).expect("open");
    let error = ask(&mut connection, soon()).unwrap_err();
    assert!(error.to_string().contains("correlation id"), "{error}");
    assert!(!connection.is_reusable());
    let error = ask(&mut connection, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
}

/// A silent broker: each attempt has a socket of its own (platformatic/kafka#389).
#[test]
fn a_timed_out_connection_is_not_used_again() {
    let server = ScriptedServer::start(|mut peer: Peer| serve(&mut peer, |_, _| {}));
    let pool = pool(2);
    for _ in 0..3 {
        let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
        let error = ask(&mut connection, Deadline::within(Duration::from_millis(50))).unwrap_err();
        assert!(error.is_timeout() && error.is_retriable(), "{error}");
    }
    assert_eq!(server.accepted(), 3);
    let stats = pool.stats();
    assert!(stats.iter().all(|(_, key)| key.in_use == 0), "{stats:?}");
}

/// Failing and panicking users give their place back (djc/bb8#167, sfackler/r2d2#142).
#[test]
fn places_come_back_from_failures_and_panics() {
    let nobody = Endpoint { id: Some(1), address: Address::new("127.0.0.1", 1) };
    let server = ScriptedServer::start(|mut peer: Peer| {
        serve(&mut peer, |peer, request| match request.header.correlation_id {
            2 => peer.answer(request, &metadata(7)),
            _ => peer.send(b"nonsense"),
        });
    });
    let pool = pool(5);
    for _ in 0..50 {
        let error = pool.poll(&nobody, soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    }
    for _ in 0..50 {
        let mut connection = pool.poll(&server.endpoint(), soon()).expect("a place");
        ask(&mut connection, soon()).expect("the first answer is good");
        ask(&mut connection, soon()).unwrap_err();
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _held = pool.poll(&server.endpoint(), soon()).expect("a place");
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    let mut connection = pool.poll(&server.endpoint(), soon()).expect("a place");
    assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 7);
    assert_eq!(pool.stats().iter().map(|(_, key)| key.in_use).sum::<u32>(), 1);
}

#[test]
fn a_full_key_makes_others_wait_until_the_deadline_and_no_longer() {
    let server = ScriptedServer::start(|mut peer: Peer| serve(&mut peer, |_, _| {}));
    let pool = pool(1);
    let held = pool.poll(&server.endpoint(), soon()).expect("a place");
    let short = Deadline::within(Duration::from_millis(20));
    let error = pool.poll(&server.endpoint(), short).unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("1 of 1"), "{error}");
    drop(held);
    pool.poll(&server.endpoint(), soon()).expect("the place that came back");
    assert_eq!(server.accepted(), 1, "the connection was used again");
}

/// The peer closed an idle connection (IBM/sarama#760).
#[test]
fn a_connection_closed_while_idle_is_replaced_unseen() {
    let server = ScriptedServer::start(|mut peer: Peer| {
        serve(&mut peer, |peer, request| peer.answer(request, &metadata(peer.index as i32)));
    });
    let pool = pool(1);
    let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
    assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 0);
    drop(connection);
    server.drop_connections();
    let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
    assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 1);
}

/// acks=0: no answer is waited for, and one that comes all the same is thrown away
/// (Jroland/kafka-net#42).
#[test]
fn unanswered_requests_do_not_disturb_the_next_answer() {
    for stray in [false, true] {
        let server = ScriptedServer::start(move |mut peer: Peer| {
            serve(&mut peer, |peer, request| match request.header.api {
                ApiKey::PRODUCE if stray => peer.answer(request, &ProduceResponse::default()),
                ApiKey::PRODUCE => {}
                _ => peer.answer(request, &metadata(3)),
            });
        });
        let mut connection =
            Connection::open(&server.endpoint(), &settings(), soon()).expect("open");
        for _ in 0..1000 {
            let request = ProduceRequest { acks: 0, ..Default::default() };
            connection.tell(&request, 3, soon()).expect("sent");
        }
        assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 3);
    }
}

/// The three ways in which brokers refuse a newer ApiVersions (librdkafka#3283).
#[test]
fn a_broker_that_refuses_our_version_request_is_asked_again() {
    for way in 0..3 {
        let server = ScriptedServer::start(move |mut peer: Peer| {
            while let Some(request) = peer.receive() {
                if request.header.version <= 1 {
                    peer.answer(&request, &all_versions());
                    continue;
                }
                let mut refusal = ApiVersionsResponse {
                    error_code: ErrorCode::UNSUPPORTED_VERSION,
                    ..Default::default()
                };
                match way {
                    0 => refusal.api_keys.push(ApiVersion {
                        api_key: ApiKey::API_VERSIONS.0,
                        min_version: 0,
                        max_version: 1,
                        ..Default::default()
                    }),
                    1 => {}
                    _ => return,
                }
                let id = request.header.correlation_id;
                peer.answer_as(id, ApiKey::API_VERSIONS, 0, &refusal);
            }
        });
        let connection = Connection::open(&server.endpoint(), &settings(), soon()).expect("open");
        assert!(connection.versions().of(ApiKey::PRODUCE).is_some());
    }
}

/// A name that cannot be resolved is told as such (confluent-kafka-go#70).
#[test]
fn an_unresolvable_name_is_named() {
    let endpoint = Endpoint { id: Some(4), address: Address::new("no-such-host.invalid", 9092) };
    let error = Connection::open(&endpoint, &settings(), soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resolve);
    let text = error.to_string();
    assert!(text.contains("cannot resolve the host name no-such-host.invalid"), "{text}");
    assert!(text.contains("4 ("), "{text}");
}

/// Replaced connections are closed (librdkafka#1170): the number of descriptors stays.
#[test]
#[cfg(target_os = "linux")]
fn connections_that_break_leave_no_descriptor() {
    let server = ScriptedServer::start(|mut peer: Peer| serve(&mut peer, |_, _| {}));
    let mine = |port: u16| {
        let table = std::fs::read_to_string("/proc/self/net/tcp").expect("the socket table");
        let suffix = format!(":{port:04X} 01");
        table.lines().filter(|line| line.contains(&suffix)).count()
    };
    let pool = pool(4);
    for _ in 0..200 {
        let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
        ask(&mut connection, Deadline::within(Duration::from_millis(1))).unwrap_err();
    }
    pool.close_all();
    let deadline = soon();
    while mine(server.endpoint().address.port()) > 0 {
        assert!(!deadline.has_passed(crate::clock::now()), "connections stay established");
        crate::threads::pause(Duration::from_millis(5));
    }
}
