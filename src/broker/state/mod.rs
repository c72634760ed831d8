//! What the cluster knows. No sockets, no threads, no clock: everything happens under the lock of
//! [`Shared`](super::server::Shared), time comes as an argument.
//!
//! ```text
//! nodes    the brokers: up or not, frozen, where they listen
//! configs  the settings of topics: names, types, defaults, valid values; described: as they are told
//! topics   topics, partitions, who leads them
//! log      the log of a partition: batches, epochs, producers
//! records  partitions as requests name them
//! sessions fetch sessions
//! coordinators  which broker coordinates which group
//! groups   groups, members, committed offsets
//! transactions  transactional ids, their producers and open transactions
//! ```
//!
//! Invariant: every change of what a waiting request may wait for raises [`State::changes`], which is
//! what wakes it; so it goes through [`State::changed`].

mod configs;
mod coordinators;
mod described;
mod groups;
mod log;
mod nodes;
mod records;
mod sessions;
mod topics;
mod transactions;

use std::collections::BTreeMap;
use std::time::Instant;

pub(super) use configs::{Setting, check as check_configs, parts};
pub(super) use described::{ALL_BROKERS, Described, Resource, Source};
pub(super) use groups::{
    Answer, Committed, Group, GroupState, Identity, Join, Joined, Offsets, Subscribed, Sync, Synced,
};
pub(super) use log::{
    Appended, Checked, Log, Range, Refusal, Rules, Sent, accept, check_form, to_messages,
};
pub(super) use nodes::Node;
pub(super) use records::Wanted;
pub(super) use sessions::{Session, SessionKey, Sessions};
pub(super) use topics::{PARTITIONS_MAX, Partition, Topic, TopicError, check_name};
pub(super) use transactions::{
    OFFSETS_TOPIC, Place, Producer, Protocol, Transaction, offsets_place,
};

use super::faults::Faults;
use super::release::Release;
use super::sasl::{SaslMechanism, Session as SaslSession, Step, Users};
use crate::protocol::Uuid;

/// What the cluster knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) release: Release,
    pub(super) cluster_id: String,
    pub(super) settings: Settings,
    pub(super) faults: Faults,
    /// Who may come in; nobody is asked while it is empty.
    pub(super) users: Users,
    nodes: BTreeMap<i32, Node>,
    topics: BTreeMap<String, Topic>,
    names: BTreeMap<Uuid, String>,
    meter: log::Meter,
    next_producer_id: i64,
    pub(super) fetch_sessions: BTreeMap<i32, Sessions>,
    /// What was set for brokers, by id; see `described`.
    broker_configs: BTreeMap<i32, BTreeMap<String, String>>,
    groups: groups::Groups,
    transactions: transactions::Transactions,
    /// Groups and transactional ids that were moved, and where.
    moved: BTreeMap<String, i32>,
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
    /// `group.min.session.timeout.ms`.
    pub(super) group_session_timeout_ms_min: i32,
    /// `default.replication.factor`.
    pub(super) replication: i16,
    /// Bytes that all logs may hold together.
    pub(super) bytes_max: usize,
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
            faults: Faults::default(),
            users: Users::default(),
            nodes: BTreeMap::new(),
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            meter: log::Meter::default(),
            next_producer_id: 0,
            fetch_sessions: BTreeMap::new(),
            broker_configs: BTreeMap::new(),
            groups: groups::Groups::default(),
            transactions: transactions::Transactions::default(),
            moved: BTreeMap::new(),
            changes: 0,
            random,
        }
    }

    /// Lets a user in by `mechanism`; from then on connections have to say who they are.
    pub(super) fn add_user(&mut self, mechanism: SaslMechanism, name: &str, password: &str) {
        self.users.add(mechanism, name, password, &mut self.random);
    }

    /// Takes a token of the client of a connection.
    pub(super) fn sasl_token(
        &mut self,
        session: &mut SaslSession,
        token: &[u8],
        now: Instant,
    ) -> Step {
        session.token(token, &self.users, &mut self.random, now)
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
    pub(super) fn connection_ended(&mut self, connection: u64) {
        self.forget_group_answer(connection);
    }

    /// A random number for the id of a fetch session.
    pub(super) fn new_session_id(&mut self) -> i32 {
        self.random.i32(1..)
    }

    /// A random UUID of version 4 in the usual form, as Kafka makes them for members.
    pub(super) fn new_uuid_text(&mut self) -> String {
        let random = self.random.u128(..) & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
        let hex = format!("{random:032x}");
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
        parts.map(|part| hex.get(part).expect("32 digits")).join("-")
    }

    /// An id that no topic has or had.
    fn new_id(&mut self) -> Uuid {
        Uuid(self.random.u128(1..).to_be_bytes())
    }
}
