//! [`Metadata`]: an immutable snapshot of what the brokers last said about the cluster.
//!
//! A snapshot is shared behind an `Arc` and never changed: [`super::merge`] builds the next one.
//! Its invariants, which every reader may rely on:
//!
//! - `partitions[i].index == i`: partitions are dense, whatever the answer looked like;
//! - a partition's `leader` is one of `brokers`, or `None`;
//! - once a broker was known, `brokers` is never empty again;
//! - a topic is in `topics` or in `failures`, or in both while its last answer was an error that
//!   may pass (the older description is used meanwhile).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::protocol::{ErrorCode, Uuid};

/// A broker as the cluster advertises it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerInfo {
    /// Its id.
    pub id: i32,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The rack, if one is configured.
    pub rack: Option<String>,
}

/// A partition and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionInfo {
    /// The partition's number.
    pub index: i32,
    /// The leader's id; `None` while there is none, or while the leader is no known broker.
    pub leader: Option<i32>,
    /// The leader epoch, from Kafka 2.4 on.
    pub leader_epoch: Option<i32>,
    /// All replicas.
    pub replicas: Vec<i32>,
    /// The replicas in sync.
    pub in_sync: Vec<i32>,
    /// The replicas that are offline, from Kafka 1.0 on.
    pub offline: Vec<i32>,
    /// What the broker said about the partition, zero when all is well. "Replica not available" is
    /// only informative.
    pub error: ErrorCode,
}

/// A topic and its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicInfo {
    /// Its name.
    pub name: Arc<str>,
    /// Its id, from Kafka 2.8 on: a topic that was deleted and created again has another.
    pub id: Option<Uuid>,
    /// Whether it is one of Kafka's own.
    pub is_internal: bool,
    /// Its partitions; partition `i` is at index `i`.
    pub partitions: Vec<PartitionInfo>,
}

impl TopicInfo {
    /// Partition `index`, if the topic has it.
    pub fn partition(&self, index: i32) -> Option<&PartitionInfo> {
        usize::try_from(index).ok().and_then(|index| self.partitions.get(index))
    }
}

/// What the brokers last said about the cluster: a snapshot, cheap to share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Grows by one with each change.
    pub(crate) generation: u64,
    pub(crate) cluster_id: Option<Arc<str>>,
    pub(crate) controller: Option<i32>,
    pub(crate) brokers: BTreeMap<i32, BrokerInfo>,
    pub(crate) topics: HashMap<Arc<str>, Arc<TopicInfo>>,
    /// Topics that were asked for and answered with an error.
    pub(crate) failures: HashMap<Arc<str>, ErrorCode>,
}

impl Metadata {
    /// The cluster's id, once a broker told it.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// The controller. With KRaft any live broker may be named: each forwards what is meant for
    /// the controller.
    pub fn controller(&self) -> Option<&BrokerInfo> {
        self.controller.and_then(|id| self.brokers.get(&id))
    }

    /// The live brokers, by id.
    pub fn brokers(&self) -> impl Iterator<Item = &BrokerInfo> {
        self.brokers.values()
    }

    /// The broker called `id`.
    pub fn broker(&self, id: i32) -> Option<&BrokerInfo> {
        self.brokers.get(&id)
    }

    /// The topics this client has used, in no order.
    pub fn topics(&self) -> impl Iterator<Item = &TopicInfo> {
        self.topics.values().map(|topic| &**topic)
    }

    /// The topic called `name`, if this client has used it.
    pub fn topic(&self, name: &str) -> Option<&TopicInfo> {
        self.topics.get(name).map(|topic| &**topic)
    }
}
