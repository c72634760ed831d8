//! The cluster by its own client.

mod admin;
mod asking;
mod faults;
mod fetch;
mod groups;
mod hostile;
mod produce;
pub(in crate::broker) mod raw;
mod records;
mod sasl;
mod transactions;

use super::*;
use crate::Client;
use crate::protocol::ApiKey;
use crate::protocol::messages::MetadataRequest;

#[test]
fn a_client_finds_brokers_and_topics_and_makes_its_own() {
    let kafka = Cluster::builder().brokers(3).topic("orders", 6).start().expect("a cluster");
    let client = Client::builder(kafka.bootstrap()).build().expect("a client");
    assert_eq!(client.topic("orders").expect("the topic").partitions.len(), 6);
    let seen = kafka.observed();
    let metadata = seen.iter().find(|seen| seen.api() == ApiKey::METADATA).expect("was asked");
    metadata.decode::<MetadataRequest>().expect("a request of ours decodes");
    assert!(metadata.decode::<crate::protocol::messages::FetchRequest>().is_err());
}

#[test]
fn a_stopped_broker_hands_its_leaderships_on_and_may_come_back_elsewhere() {
    let kafka = Cluster::builder().brokers(2).topic("t", 2).start().expect("a cluster");
    kafka.stop_broker(1);
    {
        let state = kafka.shared.state.lock();
        let leaders: Vec<i32> =
            state.topics()["t"].partitions.iter().map(|partition| partition.leader).collect();
        assert_eq!(leaders, [2, 2]);
        assert_eq!(state.controller(), 2);
    }
    let client = Client::builder(kafka.bootstrap()).build().expect("a client");
    assert_eq!(client.topic("t").expect("the topic").partitions.len(), 2);
    kafka.start_broker_elsewhere(1).expect("a port");
    assert!(kafka.start_broker(1).is_err(), "it runs");
    kafka.move_leader("t", 0, 1).expect("a replica that runs");
    assert!(kafka.move_leader("t", 7, 1).is_err());
}

#[test]
fn bytes_that_are_no_request_end_the_connection_and_nothing_else() {
    use std::io::{Read, Write};
    let kafka = Cluster::builder().topic("t", 1).start().expect("a cluster");
    let address = kafka.bootstrap().to_owned();
    let size = i32::MAX.to_be_bytes();
    let wrong: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 64],
        &size,
        &[0, 0, 0, 1, 7],
        &[0, 0, 0, 8, 0, 99, 0, 0, 0, 0, 0, 0],
    ];
    for bytes in wrong {
        #[expect(clippy::disallowed_methods, reason = "a peer that is no client of ours")]
        let mut peer = std::net::TcpStream::connect(&address).expect("a connection");
        peer.write_all(bytes).expect("sent");
        peer.shutdown(std::net::Shutdown::Write).expect("half closed");
        let mut rest = Vec::new();
        // A reset, where the broker closed before it had read everything, says the same.
        if peer.read_to_end(&mut rest).is_ok() {
            assert!(rest.is_empty(), "{rest:?}");
        }
    }
    let client = Client::builder(&address).build().expect("a client");
    assert_eq!(client.topic("t").expect("the topic").partitions.len(), 1);
}
