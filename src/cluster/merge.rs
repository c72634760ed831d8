//! [`Merger`]: from one snapshot and an answer to the next snapshot.
//!
//! Owned by the refresher under its lock; pure, with `now` passed in. What it guards against, by
//! reports of other clients: answers of brokers that lag behind (leader epochs go back), epochs
//! that went back for good because a cluster was restored (they are believed after
//! [`DOUBT_MAX`]), leaders that are no broker of the answer, partition ids that are negative, twice
//! there or beyond the count, and errors of one topic that must not touch the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::metadata::{BrokerInfo, Metadata, PartitionInfo, TopicInfo};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    LeaderIdAndEpoch, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic,
    NodeEndpoint,
};

/// How long a leader of a lower epoch is taken for the word of a broker that lags behind. After
/// that the cluster itself went back (an unclean restore), and the lower epoch is accepted.
pub(crate) const DOUBT_MAX: Duration = Duration::from_secs(10);

/// How long a topic that was known stays in use while brokers say that they do not know it.
/// Brokers learn of changes at different times.
pub(crate) const UNKNOWN_KEEP: Duration = Duration::from_secs(10);

/// The first version of Metadata whose leader epochs can be trusted (KAFKA-9212: older brokers
/// gave epochs that a reassignment could set back).
const EPOCHS_FROM: i16 = 9;

/// The present snapshot, and what is doubted.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    current: Arc<Metadata>,
    /// Since when answers give a lower epoch than the known one.
    doubts: HashMap<(Arc<str>, i32), Instant>,
    /// Since when a topic is answered with "unknown".
    unknown_since: HashMap<Arc<str>, Instant>,
}

impl Merger {
    /// The present snapshot.
    pub(crate) fn current(&self) -> &Arc<Metadata> {
        &self.current
    }

    /// Takes in the answer to a request that named the topics `asked`.
    ///
    /// # Errors
    /// The error of the answer as a whole; the snapshot stays as it was.
    pub(crate) fn merge(
        &mut self,
        response: &MetadataResponse,
        version: i16,
        asked: &[Arc<str>],
        now: Instant,
    ) -> Result<()> {
        if !response.error_code.is_ok() {
            return Err(Error::from_code(response.error_code, None));
        }
        let brokers = brokers(response);
        if brokers.is_empty() {
            return Err(Error::new(
                ErrorKind::NoLeader,
                "the list of brokers is empty: the broker is not ready yet",
            ));
        }
        let answers: HashMap<&str, &MetadataResponseTopic> = response
            .topics
            .iter()
            .filter_map(|topic| Some((topic.name.as_deref()?, topic)))
            .collect();

        let mut topics = HashMap::with_capacity(asked.len());
        let mut failures = HashMap::new();
        for name in asked {
            let known = self.current.topics.get(name).cloned();
            let code = answers
                .get(&**name)
                .map_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, |answer| answer.error_code);
            let kept = match answers.get(&**name) {
                Some(answer) if code.is_ok() => {
                    self.unknown_since.remove(name);
                    Some(self.topic(name, answer, version, known, now))
                }
                _ => {
                    failures.insert(Arc::clone(name), code);
                    known.filter(|_| self.keep_in_spite_of(name, code, now))
                }
            };
            if let Some(topic) = kept {
                topics.insert(Arc::clone(name), without_strangers(topic, &brokers));
            }
        }
        self.doubts.retain(|(name, _), _| topics.contains_key(name));
        self.unknown_since.retain(|name, _| topics.contains_key(name));

        let cluster_id = response.cluster_id.as_deref().map(Arc::from);
        self.replace(Metadata {
            generation: self.current.generation,
            cluster_id: cluster_id.or_else(|| self.current.cluster_id.clone()),
            controller: Some(response.controller_id).filter(|id| brokers.contains_key(id)),
            brokers,
            topics,
            failures,
        });
        Ok(())
    }

    /// Takes in what a Produce or Fetch answer says of a partition's leader (KIP-951); tells
    /// whether that was news.
    pub(crate) fn note_leader(
        &mut self,
        topic: &str,
        partition: i32,
        leader: &LeaderIdAndEpoch,
        endpoints: &[NodeEndpoint],
    ) -> bool {
        let Some(known) = self.current.topics.get(topic) else { return false };
        let Some(entry) = known.partition(partition) else { return false };
        if entry.leader_epoch.is_some_and(|epoch| leader.leader_epoch <= epoch) {
            return false;
        }
        let mut brokers = self.current.brokers.clone();
        for node in endpoints {
            let Some(port) = legal_port(node.port) else { continue };
            let (id, host, rack) = (node.node_id, node.host.clone(), node.rack.clone());
            brokers.insert(id, BrokerInfo { id, host, port, rack });
        }
        if leader.leader_epoch < 0 || !brokers.contains_key(&leader.leader_id) {
            return false;
        }
        let mut changed = (**known).clone();
        let index = usize::try_from(partition).expect("the partition was found");
        let Some(entry) = changed.partitions.get_mut(index) else { return false };
        entry.leader = Some(leader.leader_id);
        entry.leader_epoch = Some(leader.leader_epoch);
        entry.error = ErrorCode::NONE;
        let mut next = (*self.current).clone();
        next.topics.insert(Arc::clone(&changed.name), Arc::new(changed));
        next.brokers = brokers;
        self.replace(next);
        true
    }

    /// Forgets a topic that nobody uses any more.
    pub(crate) fn forget(&mut self, topic: &str) {
        if self.current.topics.contains_key(topic) || self.current.failures.contains_key(topic) {
            let mut next = (*self.current).clone();
            next.topics.remove(topic);
            next.failures.remove(topic);
            self.replace(next);
        }
    }

    fn replace(&mut self, mut next: Metadata) {
        if next != *self.current {
            next.generation += 1;
            self.current = Arc::new(next);
        }
    }

    /// Whether the older description of a topic stays in use while it is answered with `code`.
    fn keep_in_spite_of(&mut self, topic: &Arc<str>, code: ErrorCode, now: Instant) -> bool {
        match code {
            code if is_unknown_topic(code) => {
                let since = *self.unknown_since.entry(Arc::clone(topic)).or_insert(now);
                now.saturating_duration_since(since) < UNKNOWN_KEEP
            }
            _ => may_pass(code),
        }
    }

    fn topic(
        &mut self,
        name: &Arc<str>,
        answer: &MetadataResponseTopic,
        version: i16,
        known: Option<Arc<TopicInfo>>,
        now: Instant,
    ) -> Arc<TopicInfo> {
        let id = Some(answer.topic_id).filter(|id| !id.is_zero());
        let mut known = known;
        if let (Some(before), Some(after)) = (known.as_ref().and_then(|topic| topic.id), id)
            && before != after
        {
            // Deleted and created again: the epochs start anew.
            known = None;
            self.doubts.retain(|(topic, _), _| topic != name);
        }
        let mut entries: BTreeMap<i32, &MetadataResponsePartition> = BTreeMap::new();
        for entry in answer.partitions.iter().filter(|entry| entry.partition_index >= 0) {
            let best = entries.entry(entry.partition_index).or_insert(entry);
            if entry.leader_epoch > best.leader_epoch {
                *best = entry;
            }
        }
        let count = entries.len() as i32;
        let partitions = (0..count).map(|index| {
            let before = known.as_ref().and_then(|topic| topic.partition(index));
            match entries.get(&index) {
                Some(entry) => self.partition(name, entry, version, before, now),
                None => no_partition(index),
            }
        });
        let partitions = partitions.collect();
        let name = Arc::clone(name);
        Arc::new(TopicInfo { name, id, is_internal: answer.is_internal, partitions })
    }

    /// The newer of what is known and what the answer says.
    fn partition(
        &mut self,
        topic: &Arc<str>,
        answer: &MetadataResponsePartition,
        version: i16,
        before: Option<&PartitionInfo>,
        now: Instant,
    ) -> PartitionInfo {
        let index = answer.partition_index;
        let trusted = version >= EPOCHS_FROM && answer.leader_epoch >= 0;
        let leader_epoch = trusted.then_some(answer.leader_epoch);
        let known_epoch = before.and_then(|partition| partition.leader_epoch);
        if let (Some(before), Some(known), Some(epoch)) = (before, known_epoch, leader_epoch)
            && epoch < known
        {
            let since = *self.doubts.entry((Arc::clone(topic), index)).or_insert(now);
            if now.saturating_duration_since(since) < DOUBT_MAX {
                return before.clone();
            }
            log::warn!(
                "the leader epoch of {topic}-{index} went back from {known} to {epoch} and stayed \
                 there: the cluster was restored"
            );
        }
        self.doubts.remove(&(Arc::clone(topic), index));
        PartitionInfo {
            index,
            leader: Some(answer.leader_id),
            leader_epoch,
            replicas: answer.replica_nodes.clone(),
            in_sync: answer.isr_nodes.clone(),
            offline: answer.offline_replicas.clone(),
            error: answer.error_code,
        }
    }
}

/// Whether an error that Metadata gives for a topic may pass by itself. Wider than the code's own
/// recovery: brokers answer these while a topic is being created and during a rolling restart.
pub(crate) fn may_pass(code: ErrorCode) -> bool {
    code.is_retriable()
        || matches!(
            code,
            ErrorCode::INVALID_REPLICATION_FACTOR
                | ErrorCode::BROKER_NOT_AVAILABLE
                | ErrorCode::UNKNOWN_SERVER_ERROR
        )
}

/// Whether the code says that there is no such topic, as far as the broker knows.
pub(crate) fn is_unknown_topic(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID)
}

/// The snapshot that one answer alone gives.
///
/// # Errors
/// The error of the answer as a whole.
pub(crate) fn describe(
    response: &MetadataResponse,
    version: i16,
    asked: &[Arc<str>],
    now: Instant,
) -> Result<Arc<Metadata>> {
    let mut merger = Merger::default();
    merger.merge(response, version, asked, now)?;
    Ok(merger.current)
}

/// The brokers of an answer, without those whose id or port is none.
fn brokers(response: &MetadataResponse) -> BTreeMap<i32, BrokerInfo> {
    let usable = response.brokers.iter().filter_map(|broker| {
        let port = legal_port(broker.port).filter(|_| broker.node_id >= 0)?;
        let (id, host, rack) = (broker.node_id, broker.host.clone(), broker.rack.clone());
        Some((id, BrokerInfo { id, host, port, rack }))
    });
    usable.collect()
}

fn legal_port(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port > 0)
}

/// The topic without leaders that are no broker: also a description that is kept in spite of an
/// error can name one that has left meanwhile.
fn without_strangers(
    mut topic: Arc<TopicInfo>,
    brokers: &BTreeMap<i32, BrokerInfo>,
) -> Arc<TopicInfo> {
    let is_stranger = |partition: &PartitionInfo| {
        partition.leader.is_some_and(|leader| !brokers.contains_key(&leader))
    };
    if topic.partitions.iter().any(is_stranger) {
        let topic = Arc::make_mut(&mut topic);
        for partition in topic.partitions.iter_mut().filter(|partition| is_stranger(partition)) {
            partition.leader = None;
            if partition.error.is_ok() {
                partition.error = ErrorCode::LEADER_NOT_AVAILABLE;
            }
        }
    }
    topic
}

/// A partition that the answer left out.
fn no_partition(index: i32) -> PartitionInfo {
    PartitionInfo {
        index,
        leader: None,
        leader_epoch: None,
        replicas: Vec::new(),
        in_sync: Vec::new(),
        offline: Vec::new(),
        error: ErrorCode::LEADER_NOT_AVAILABLE,
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
