//! Faults that users of other clients reported, tried on the in-process cluster. A test is named after the fault, and
//! its comment cites the reports.
//!
//! Here are those that show through the public API alone. Cases that need a broker which answers what no broker
//! would, or that are about one part of the client, are tests of that part.

#[path = "../common/wire.rs"]
mod wire;

mod fetch;
mod transactions;

use std::collections::HashMap;
use std::time::Duration;

use ottla::Client;
use ottla::broker::Cluster;

/// Bound on everything that is waited for.
const SOON: Duration = Duration::from_secs(30);

/// One broker with topic `t` of one partition.
fn cluster() -> Cluster {
    Cluster::builder().brokers(1).topic("t", 1).start().expect("a cluster")
}

/// A client with settings by their names in the configuration.
fn client(kafka: &Cluster, settings: &[(&str, &str)]) -> Client {
    let servers = [("bootstrap.servers", kafka.bootstrap())];
    let all: HashMap<&str, &str> = servers.iter().chain(settings).copied().collect();
    Client::from_properties(all).expect("known settings").build().expect("a client")
}
