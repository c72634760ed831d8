//! What the cluster knows. No sockets, no threads, no clock: everything happens under the lock of
//! [`Shared`](super::server::Shared), time comes as an argument.
//!
//! ```text
//! nodes    the brokers: up or not, frozen, where they listen
//! topics   topics, partitions, who leads them
//! ```
//!
//! Invariant: every change of what a waiting request may wait for raises [`State::changes`], which is
//! what wakes it; so it goes through [`State::changed`].

mod nodes;
mod topics;

use std::collections::BTreeMap;

pub(super) use nodes::Node;
pub(super) use topics::{Partition, Topic, TopicError};

use super::release::Release;
use crate::protocol::Uuid;

/// What the cluster knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) release: Release,
    pub(super) cluster_id: String,
    pub(super) settings: Settings,
    nodes: BTreeMap<i32, Node>,
    topics: BTreeMap<String, Topic>,
    names: BTreeMap<Uuid, String>,
    changes: u64,
    random: fastrand::Rng,
}

/// The brokers' settings, by Kafka's names.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// `auto.create.topics.enable`.
    pub(super) auto_create_topics: bool,
    /// `num.partitions`.
    pub(super) partitions: i32,
    /// `default.replication.factor`.
    pub(super) replication: i16,
}

impl State {
    /// A cluster without brokers and topics. What is random in it comes from `seed`.
    pub(super) fn new(release: Release, settings: Settings, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let cluster_id = Uuid(random.u128(..).to_be_bytes()).to_string();
        Self {
            release,
            cluster_id,
            settings,
            nodes: BTreeMap::new(),
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            changes: 0,
            random,
        }
    }

    /// Notes that something changed that a request may wait for.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// Counts the changes.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// A connection has ended: what belonged to it goes.
    #[expect(clippy::unused_self, reason = "what a connection owns comes with its first owner")]
    pub(super) fn connection_ended(&mut self, connection: u64) {
        let _ = connection;
    }

    /// An id that no topic has or had.
    fn new_id(&mut self) -> Uuid {
        Uuid(self.random.u128(1..).to_be_bytes())
    }
}
