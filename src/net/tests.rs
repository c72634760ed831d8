//! Connections and the pool of connections against scripted servers.

use std::io::ErrorKind as IoErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::frame::FrameReader;
use super::pool::{PoolSettings, Poolable};
use super::stream::Stream;
use super::testing::{
    Peer, Received, ScriptedServer, all_versions, eventually, frame, names, refusing, settings,
    soon,
};
use super::{Address, Connection, Connections, Endpoint, Settings};
use crate::clock::Deadline;
use crate::error::{ErrorKind, Result};
use crate::protocol::messages::*;
use crate::protocol::{ApiKey, Bytes, ErrorCode, VersionRange};
use crate::threads::{self, Stop};

const METADATA_VERSION: i16 = 1;
const ANY: VersionRange = VersionRange { min: 0, max: i16::MAX };

fn serve(peer: &mut Peer, mut answer: impl FnMut(&mut Peer, &Received)) {
    while let Some(request) = peer.receive_past_versions() {
        answer(peer, &request);
    }
}

fn metadata(controller_id: i32) -> MetadataResponse {
    MetadataResponse { controller_id, ..Default::default() }
}

fn ask(connection: &mut Connection, deadline: Deadline) -> Result<MetadataResponse> {
    connection.call(&MetadataRequest::default(), METADATA_VERSION, deadline)
}

fn open(server: &ScriptedServer) -> Connection {
    Connection::open(&server.endpoint(), &settings(), soon()).expect("a connection")
}

fn short() -> Deadline {
    Deadline::within(Duration::from_millis(50))
}

fn pool(connections_max: u32) -> Connections {
    Connections::new(settings(), PoolSettings::new().per_key_max(connections_max))
}

/// A server whose first answer is `bytes`, whatever is asked.
fn saying(bytes: &'static [u8]) -> ScriptedServer {
    ScriptedServer::start(move |mut peer| {
        peer.receive();
        peer.send(bytes);
        peer.hold();
    })
}

/// A server that answers Metadata with the number of the connection.
fn numbering() -> ScriptedServer {
    ScriptedServer::start(|mut peer| {
        serve(&mut peer, |peer, request| peer.answer(request, &metadata(peer.index as i32)));
    })
}

/// A server that answers ApiVersions and nothing else.
fn silent() -> ScriptedServer {
    ScriptedServer::start(|mut peer| serve(&mut peer, |_, _| {}))
}

/// Plain clients on other protocols' ports (redpanda-data/kminion#91), sizes that are none.
#[test]
fn answers_that_are_no_kafka_are_named() {
    use ErrorKind::{NotKafka, Protocol};
    for (bytes, word, kind) in [
        (&b"\x15\x03\x03\x00\x02\x02\x46"[..], "TLS", NotKafka),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP", NotKafka),
        (b"-ERR unknown command\r\n", "text", NotKafka),
        (b"\xff\xff\xff\xff", "-1 bytes", Protocol),
        (b"\x00\x00\x00\x03abc", "3 bytes", Protocol),
        (b"\x7f\xff\xff\xff", "limit", Protocol),
        (b"\x00\x00\x00\x05\x00\x00\x00\x01\x00", "could not be decoded", Protocol),
        (b"\x00\x00\x00\x04\x00\x00\x00\x09", "correlation id 9", Protocol),
    ] {
        let server = saying(bytes);
        let error = Connection::open(&server.endpoint(), &settings(), soon()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(error.broker(), Some(server.address().to_string().as_str()));
        assert_eq!(server.accepted(), 1, "it is not tried again");
    }
}

/// Bytes that are missing, left over, or not what was asked for.
#[test]
fn answers_of_the_wrong_length_end_the_connection() {
    let good = frame(2, ApiKey::METADATA, METADATA_VERSION, &metadata(1));
    let body = good.get(4..).expect("a frame");
    let cut = body.get(..body.len() - 1).expect("a body");
    for wrong in [cut.to_vec(), [body, &[0]].concat(), body[..4].to_vec()] {
        let server = ScriptedServer::start(move |mut peer| {
            serve(&mut peer, |peer, _| {
                peer.send(&(wrong.len() as i32).to_be_bytes());
                peer.send(&wrong);
            });
        });
        let mut connection = open(&server);
        let error = ask(&mut connection, soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        assert_eq!(error.api(), Some((ApiKey::METADATA, METADATA_VERSION)));
        assert!(!connection.is_reusable());
    }
}

/// The end of the stream inside a frame says how far it came.
#[test]
fn a_frame_that_is_cut_off_is_a_disconnect() {
    let server = ScriptedServer::start(|mut peer| {
        serve(&mut peer, |peer, _| {
            peer.send(&[0, 0, 0, 100, 1, 2, 3]);
            peer.finish_sending();
        });
    });
    let error = ask(&mut open(&server), soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
    assert!(error.to_string().contains("after 3 bytes of 100 bytes"), "{error}");
    assert!(error.is_retriable());
}

/// Answers in swapped order (dpkp/kafka-python#1748, B66).
#[test]
fn a_correlation_id_out_of_turn_ends_the_connection() {
    let server = ScriptedServer::start(|mut peer| {
        serve(&mut peer, |peer, request| {
            let id = request.header.correlation_id - 1;
            peer.answer_as(id, ApiKey::METADATA, METADATA_VERSION, &metadata(1));
        });
    });
    let mut connection = open(&server);
    let error = ask(&mut connection, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.to_string().contains("correlation id"), "{error}");
    assert!(!connection.is_reusable());
    let error = ask(&mut connection, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
}

/// A late answer is never taken for the next one (allegro/hermes#819, B66).
#[test]
fn after_a_time_out_nothing_is_sent_or_read_any_more() {
    let (late, requests) = (Stop::new(), Arc::new(AtomicUsize::new(0)));
    let (go, seen) = (late.clone(), Arc::clone(&requests));
    let server = ScriptedServer::start(move |mut peer| {
        serve(&mut peer, |peer, request| {
            seen.fetch_add(1, Ordering::SeqCst);
            go.wait_until(soon());
            peer.answer(request, &metadata(1));
        });
    });
    let mut connection = open(&server);
    let error = ask(&mut connection, short()).unwrap_err();
    assert!(error.is_timeout() && error.is_retriable(), "{error}");
    assert_eq!(error.api(), Some((ApiKey::METADATA, METADATA_VERSION)));
    late.set();
    let error = ask(&mut connection, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert!(error.to_string().contains("earlier failure"), "{error}");
    drop(connection);
    eventually("the script ends", || server.running() == 0);
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

/// A peer that sends a byte now and then does not stretch the deadline.
#[test]
fn trickled_bytes_do_not_extend_the_deadline() {
    let server = ScriptedServer::start(|mut peer| {
        serve(&mut peer, |peer, _| {
            peer.send(&[0, 0, 100, 0]);
            // As long as a test may take, at one byte a millisecond.
            for _ in 0..20_000 {
                if peer.is_closed() {
                    return;
                }
                peer.send(&[0]);
                threads::pause(Duration::from_millis(1));
            }
        });
    });
    let error = ask(&mut open(&server), short()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

/// A peer that does not read cannot hold a writer.
#[test]
fn a_request_that_is_not_taken_times_out() {
    let stop = Stop::new();
    let held = stop.clone();
    let server = ScriptedServer::start(move |mut peer| {
        let request = peer.receive().expect("ApiVersions");
        peer.answer(&request, &all_versions());
        held.wait_until(soon());
    });
    let settings = Settings { send_buffer: Some(16 * 1024), ..settings() };
    let mut connection = Connection::open(&server.endpoint(), &settings, soon()).expect("open");
    let partition = PartitionProduceData {
        records: Some(Bytes::from(vec![0; 32 << 20])),
        ..Default::default()
    };
    let topic = TopicProduceData { partition_data: vec![partition], ..Default::default() };
    let request = ProduceRequest { acks: 1, topic_data: vec![topic], ..Default::default() };
    let error = connection.call(&request, 9, short()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.possibly_persisted());
    stop.set();
}

/// A request that cannot be encoded costs nothing.
#[test]
fn what_cannot_be_encoded_is_refused_and_the_connection_stays() {
    let server = numbering();
    let mut connection = open(&server);
    let topic = MetadataRequestTopic { name: Some("x".repeat(40_000)), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let error = connection.call(&request, METADATA_VERSION, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(connection.is_alive());
    assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 0);
}

/// A silent broker: each attempt has a socket of its own (platformatic/kafka#389, B65).
#[test]
fn a_timed_out_connection_is_not_used_again() {
    let server = silent();
    let pool = pool(2);
    for _ in 0..3 {
        let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
        let error = ask(&mut connection, short()).unwrap_err();
        assert!(error.is_timeout() && error.is_retriable(), "{error}");
    }
    assert_eq!(server.accepted(), 3);
    let stats = pool.stats();
    assert!(stats.iter().all(|(_, key)| key.open == 0 && key.in_use == 0), "{stats:?}");
}

/// A server that accepts and says nothing holds nobody for longer than the deadline.
#[test]
fn the_first_exchange_is_bounded_too() {
    let server = ScriptedServer::start(|mut peer| peer.hold());
    let error = Connection::open(&server.endpoint(), &settings(), short()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(error.api().map(|(api, _)| api), Some(ApiKey::API_VERSIONS));
}

/// The peer closed an idle connection (IBM/sarama#760, B64).
#[test]
fn a_connection_closed_while_idle_is_replaced_unseen() {
    let server = numbering();
    let pool = pool(1);
    let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
    assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 0);
    drop(connection);
    let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
    assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 0, "used again");
    server.drop_connections();
    eventually("the client sees the end", || !connection.is_alive());
    drop(connection);
    let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
    assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 1);
}

/// On a connection of one's own the closed peer is seen before anything is sent.
#[test]
fn nothing_is_sent_on_a_connection_that_the_peer_closed() {
    let server = numbering();
    let mut connection = open(&server);
    server.drop_connections();
    eventually("the end arrives", || !connection.is_alive());
    let request = ProduceRequest { acks: 1, ..Default::default() };
    let error = connection.call(&request, 3, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert!(!error.possibly_persisted() && error.to_string().contains("idle"), "{error}");
}

/// Bytes on an idle connection that nobody asked for.
#[test]
fn a_peer_that_speaks_unasked_is_left() {
    let server = ScriptedServer::start(|mut peer| {
        let request = peer.receive().expect("ApiVersions");
        peer.answer(&request, &all_versions());
        peer.answer(&request, &all_versions());
        peer.hold();
    });
    let mut connection = open(&server);
    eventually("the bytes arrive", || !connection.is_alive());
    let error = ask(&mut connection, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    assert!(error.to_string().contains("nobody asked for"), "{error}");
}

/// acks=0: no answer is waited for, and one that comes all the same is thrown away
/// (Jroland/kafka-net#42, B39).
#[test]
fn unanswered_requests_do_not_disturb_the_next_answer() {
    for stray in [false, true] {
        let server = ScriptedServer::start(move |mut peer| {
            serve(&mut peer, |peer, request| match request.header.api {
                ApiKey::PRODUCE if stray => peer.answer(request, &ProduceResponse::default()),
                ApiKey::PRODUCE => {}
                _ => peer.answer(request, &metadata(3)),
            });
        });
        let pool = pool(1);
        let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
        let request = ProduceRequest { acks: 0, ..Default::default() };
        for _ in 0..10_000 {
            connection.tell(&request, 3, soon()).expect("sent");
        }
        assert!(connection.is_reusable(), "nothing is in flight");
        assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 3);
        connection.tell(&request, 3, soon()).expect("sent");
        drop(connection);
        let mut connection = pool.poll(&server.endpoint(), soon()).expect("the same");
        assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 3);
        assert_eq!(server.accepted(), 1);
    }
}

/// The three ways in which brokers refuse a newer ApiVersions (librdkafka#3283, B70).
#[test]
fn a_broker_that_refuses_our_version_request_is_asked_again() {
    for (way, asked, connections) in [(0, &[4, 1][..], 1), (1, &[4, 0], 1), (2, &[4, 4, 0], 3)] {
        let versions = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&versions);
        let server = ScriptedServer::start(move |mut peer| {
            while let Some(request) = peer.receive() {
                seen.lock().push(request.header.version);
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
        let connection = open(&server);
        assert!(connection.versions().of(ApiKey::PRODUCE).is_some());
        assert_eq!(*versions.lock(), asked);
        assert_eq!(server.accepted(), connections);
    }
}

/// A port that hangs up on everything: bounded, and the error says what it may be.
#[test]
fn a_broker_that_always_hangs_up_is_given_up() {
    let server = ScriptedServer::start(|mut peer| {
        peer.receive();
    });
    let error = Connection::open(&server.endpoint(), &settings(), soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert!(error.to_string().contains("TLS"), "{error}");
    assert_eq!(server.accepted(), 3);
}

/// IBM/sarama#3741 (B71): what the broker does not list is not sent.
#[test]
fn an_api_that_is_not_offered_never_reaches_the_socket() {
    let requests = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&requests);
    let server = ScriptedServer::start(move |mut peer| {
        while let Some(request) = peer.receive() {
            seen.fetch_add(1, Ordering::SeqCst);
            let mut versions = all_versions();
            versions.api_keys.retain(|row| row.api_key != ApiKey::INIT_PRODUCER_ID.0);
            peer.answer(&request, &versions);
        }
    });
    let connection = open(&server);
    let error = connection.version_for(ApiKey::INIT_PRODUCER_ID, ANY).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert_eq!(error.broker(), Some(server.address().to_string().as_str()));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    assert!(connection.is_alive());
}

/// A name of which the first address refuses (platformatic/kafka#364, B73).
#[test]
fn every_address_of_a_name_is_tried() {
    let server = numbering();
    let (_port, refusing) = refusing();
    let ipv6: SocketAddr = format!("[::1]:{}", refusing.port()).parse().expect("an address");
    names::set("dual.test", &[ipv6, refusing, server.local()]);
    let endpoint = Endpoint { id: Some(1), address: Address::new("dual.test", 9092) };
    let mut connection = Connection::open(&endpoint, &settings(), soon()).expect("the third");
    assert_eq!(ask(&mut connection, soon()).expect("an answer").controller_id, 0);

    names::set("none.test", &[refusing, refusing]);
    let endpoint = Endpoint { id: Some(1), address: Address::new("none.test", 9092) };
    let error = Connection::open(&endpoint, &settings(), soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    let text = error.to_string();
    assert!(text.contains("none.test:9092, 2 of 2 addresses tried"), "{text}");
    assert!(text.contains(&refusing.to_string()), "{text}");
}

/// A broker that moved is found under its name (KAFKA-12193, B63).
#[test]
fn a_name_is_resolved_anew_for_each_connection() {
    let old = numbering();
    names::set("moves.test", &[old.local()]);
    let endpoint = Endpoint { id: Some(7), address: Address::new("moves.test", 9092) };
    let pool = pool(1);
    let mut connection = pool.poll(&endpoint, soon()).expect("open");
    ask(&mut connection, soon()).expect("an answer");
    drop(old);
    eventually("the client sees the end", || !connection.is_alive());
    drop(connection);
    let error = pool.poll(&endpoint, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    let io = std::error::Error::source(&error).and_then(|io| io.downcast_ref::<std::io::Error>());
    assert_eq!(io.map(std::io::Error::kind), Some(IoErrorKind::ConnectionRefused));
    let new = numbering();
    names::set("moves.test", &[new.local()]);
    let mut connection = pool.poll(&endpoint, soon()).expect("the new place");
    ask(&mut connection, soon()).expect("an answer");
    assert_eq!(new.accepted(), 1);
}

/// A name that cannot be resolved is told as such (confluent-kafka-go#70, B82).
#[test]
fn an_unresolvable_name_is_named() {
    let endpoint = Endpoint { id: Some(4), address: Address::new("9c95dafd9323.test", 9092) };
    let error = Connection::open(&endpoint, &settings(), soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resolve);
    let text = error.to_string();
    assert!(text.contains("cannot resolve the host name 9c95dafd9323.test"), "{text}");
    assert!(text.contains("broker 4 (9c95dafd9323.test:9092)"), "{text}");
}

/// Frames behind one another, cut at any place, small and larger than the buffer's first size.
#[test]
fn frames_arrive_whole_and_aligned_however_they_are_cut() {
    let sizes = [4, 5, 63, 4096, 4097, 100_000, 9_000_000, 4, 70_000, 5];
    let content = |index: usize, size: usize| -> Vec<u8> {
        (0..size).map(|at| (at * 7 + index) as u8).collect()
    };
    let server = ScriptedServer::start(move |mut peer| {
        let mut all = Vec::new();
        for (index, size) in sizes.into_iter().enumerate() {
            all.extend_from_slice(&(size as i32).to_be_bytes());
            all.extend_from_slice(&content(index, size));
        }
        let mut rest = all.as_slice();
        for length in [1, 2, 5, 3, 70, 4000, 9, 12_345, 1_000_000].into_iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(length));
            peer.send(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        peer.hold();
    });
    let stream = Stream::connect(&server.address(), &settings(), soon()).expect("connected");
    let mut frames = FrameReader::new(10_000_000);
    for (index, size) in sizes.into_iter().enumerate() {
        let frame = frames.read(&stream, Some(soon())).expect("a frame");
        assert!(*frame == *content(index, size), "frame {index} of {size} bytes differs");
        if size < 4 << 20 {
            assert_eq!(frame.as_ptr() as usize % 64, 0);
            assert!(frame.buffer_capacity() <= size + 4096 + 64);
        }
    }
}

/// A writer and a reader with many requests in flight.
#[test]
fn halves_on_two_threads_keep_the_order() {
    const REQUESTS: i32 = 500;
    let server = ScriptedServer::start(|mut peer| {
        serve(&mut peer, |peer, request| {
            peer.answer(request, &metadata(request.header.correlation_id));
        });
    });
    let (mut sender, mut receiver) = open(&server).split();
    let writer = threads::spawn("test-writer", move || {
        let request = MetadataRequest::default();
        for _ in 0..REQUESTS {
            // As a producer does: not more than the limit at a time.
            eventually("an answer makes room", || sender.in_flight() < 100);
            sender.send(&request, METADATA_VERSION, soon()).expect("sent");
        }
        eventually("all is answered", || sender.in_flight() == 0);
    })
    .expect("a thread");
    for number in 0..REQUESTS {
        let answer = receiver.receive(None).expect("an answer");
        let response: MetadataResponse = answer.decode().expect("metadata");
        assert_eq!(response.controller_id, number + 2);
    }
    assert!(writer.join_by(soon()));
    let error = receiver.receive(None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected, "the sender was dropped: {error}");
}

#[test]
fn too_many_requests_in_flight_are_refused() {
    let server = silent();
    let (mut sender, receiver) = open(&server).split();
    let request = MetadataRequest::default();
    let refused = (0..2000)
        .find_map(|_| sender.send(&request, METADATA_VERSION, soon()).err())
        .expect("there is a limit");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    drop(receiver);
    let error = sender.send(&request, METADATA_VERSION, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected);
}

/// Whoever waits is woken by the other half, or by a closer.
#[test]
fn a_shutdown_wakes_who_waits() {
    let server = silent();
    let (sender, mut receiver) = open(&server).split();
    let outcome = Arc::new(Mutex::new(None));
    let told = Arc::clone(&outcome);
    let reader = threads::spawn("test-reader", move || {
        *told.lock() = receiver.receive(None).err();
    })
    .expect("a thread");
    sender.shutdown();
    assert!(reader.join_by(soon()));
    let error = outcome.lock().take().expect("an error");
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");

    let mut connection = open(&server);
    let closer = connection.closer();
    let caller = threads::spawn("test-caller", move || {
        let error = ask(&mut connection, soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
        assert!(error.to_string().contains("closed on this side"), "{error}");
        *outcome.lock() = Some(error);
    })
    .expect("a thread");
    closer.shutdown();
    assert!(caller.join_by(soon()));
    closer.shutdown();
}

/// Replaced connections are closed (librdkafka#1170, B80): brokers that come back on other ports,
/// and exchanges that fail.
#[test]
#[cfg(target_os = "linux")]
fn connections_that_break_leave_no_descriptor() {
    /// Sockets of this process that are connected to `port` and still have a descriptor.
    fn descriptors(port: u16) -> usize {
        let table = std::fs::read_to_string("/proc/self/net/tcp").expect("the socket table");
        let remote = format!(":{port:04X}");
        table
            .lines()
            .filter(|line| {
                let fields: Vec<_> = line.split_whitespace().collect();
                let inode = fields.get(9).copied().unwrap_or("0");
                fields.get(2).is_some_and(|address| address.ends_with(&remote)) && inode != "0"
            })
            .count()
    }
    let pool = pool(4);
    let mut ports = Vec::new();
    for _ in 0..50 {
        let server = numbering();
        ports.push(server.local().port());
        for _ in 0..2 {
            let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
            ask(&mut connection, soon()).expect("an answer");
        }
        assert!(descriptors(server.local().port()) > 0, "the count works");
        let endpoint = server.endpoint();
        drop(server);
        pool.poll(&endpoint, soon()).unwrap_err();
        pool.close(&endpoint);
    }
    let server = silent();
    ports.push(server.local().port());
    for _ in 0..200 {
        let mut connection = pool.poll(&server.endpoint(), soon()).expect("open");
        let soon = Deadline::within(Duration::from_millis(1));
        ask(&mut connection, soon).unwrap_err();
    }
    pool.close_all();
    for port in ports {
        assert_eq!(descriptors(port), 0, "connections to port {port} stay open");
    }
    assert!(pool.stats().is_empty());
}
