//! Partitions and their logs, found by broker, topic and epoch as a request names them.

use super::State;
use super::log::{Log, Marker, Meter, Rules};
use super::topics::{Partition, Topic};
use crate::protocol::messages::{LeaderIdAndEpoch, NodeEndpoint};
use crate::protocol::{ErrorCode, Uuid};

/// A partition that is asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Wanted<'a> {
    pub(in crate::broker) topic: &'a str,
    pub(in crate::broker) partition: i32,
    /// The leader epoch that the client knows, -1 for none.
    pub(in crate::broker) epoch: i32,
    /// Whether only the leader may serve it.
    pub(in crate::broker) leader_only: bool,
}

impl<'a> Wanted<'a> {
    /// Of its leader, whatever the epoch.
    pub(in crate::broker) fn of_leader(topic: &'a str, partition: i32) -> Self {
        Self { topic, partition, epoch: -1, leader_only: true }
    }
}

impl State {
    /// The partition, when `broker` may serve it: `Partition.localLogWithEpochOrThrow`.
    ///
    /// # Errors
    /// Kafka's code when it may not.
    pub(in crate::broker) fn replica(
        &self,
        broker: i32,
        wanted: Wanted<'_>,
    ) -> Result<(&Topic, &Partition), ErrorCode> {
        let found = self.partition(wanted.topic, wanted.partition);
        let (Some(topic), Some(partition)) = (self.topics.get(wanted.topic), found) else {
            return Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        };
        if !partition.replicas.contains(&broker) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        if wanted.epoch >= 0 && wanted.epoch < partition.leader_epoch {
            return Err(ErrorCode::FENCED_LEADER_EPOCH);
        }
        if wanted.epoch > partition.leader_epoch {
            return Err(ErrorCode::UNKNOWN_LEADER_EPOCH);
        }
        if wanted.leader_only && partition.leader != broker {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        Ok((topic, partition))
    }

    /// As [`State::replica`], to be changed, with the topic's rules.
    ///
    /// # Errors
    /// Kafka's code when `broker` may not serve it.
    pub(in crate::broker) fn replica_mut(
        &mut self,
        broker: i32,
        wanted: Wanted<'_>,
    ) -> Result<(Rules, &mut Partition), ErrorCode> {
        let (topic, _) = self.replica(broker, wanted)?;
        let rules = Rules::of(&topic.configs, self.release);
        let partition = self
            .partition_mut(wanted.topic, wanted.partition)
            .expect("it was there a moment ago, under the same lock");
        Ok((rules, partition))
    }

    /// The partition.
    pub(in crate::broker) fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        let index = usize::try_from(partition).ok()?;
        self.topics.get(topic)?.partitions.get(index)
    }

    /// The partition, to be changed.
    pub(in crate::broker) fn partition_mut(
        &mut self,
        topic: &str,
        partition: i32,
    ) -> Option<&mut Partition> {
        let index = usize::try_from(partition).ok()?;
        self.topics.get_mut(topic)?.partitions.get_mut(index)
    }

    /// An empty log that counts towards the bytes of the cluster.
    pub(in crate::broker) fn new_log(&self) -> Log {
        Log::new(&self.meter)
    }

    /// The bytes of all logs.
    pub(in crate::broker) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// A name that a request gives, or the name of the id that it gives instead.
    ///
    /// # Errors
    /// `UNKNOWN_TOPIC_ID` when there is no such id.
    pub(in crate::broker) fn resolve<'a>(
        &'a self,
        name: &'a str,
        id: Uuid,
        by_id: bool,
    ) -> Result<&'a str, ErrorCode> {
        if by_id { self.name_of(id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID) } else { Ok(name) }
    }

    /// Who leads a partition, for an answer that says "not I" (KIP-951).
    pub(in crate::broker) fn leader_of(&self, topic: &str, partition: i32) -> LeaderIdAndEpoch {
        let found = self.partition(topic, partition);
        found.map_or_else(LeaderIdAndEpoch::default, |found| LeaderIdAndEpoch {
            leader_id: found.leader,
            leader_epoch: found.leader_epoch,
            ..Default::default()
        })
    }

    /// Where `leaders` can be reached, each once (KIP-951).
    pub(in crate::broker) fn endpoints(
        &self,
        leaders: impl IntoIterator<Item = i32>,
    ) -> Vec<NodeEndpoint> {
        let leaders: std::collections::BTreeSet<i32> = leaders.into_iter().collect();
        let live = self.live().filter(|(id, _)| leaders.contains(id));
        let endpoint = |(id, node): (i32, &super::Node)| NodeEndpoint {
            node_id: id,
            host: "127.0.0.1".to_owned(),
            port: i32::from(node.port),
            rack: None,
            ..Default::default()
        };
        live.map(endpoint).collect()
    }

    /// Writes the end of a transaction into a partition; gives the marker's offset. Works without a
    /// leader too: the log is one.
    ///
    /// # Errors
    /// `UNKNOWN_TOPIC_OR_PARTITION`, `INVALID_PRODUCER_EPOCH` when the producer has a higher epoch by
    /// now, `TRANSACTION_COORDINATOR_FENCED` when a later coordinator was there.
    pub(in crate::broker) fn append_marker(
        &mut self,
        topic: &str,
        partition: i32,
        marker: Marker,
    ) -> Result<i64, ErrorCode> {
        let found = self.partition_mut(topic, partition);
        let partition = found.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let offset = partition.log.append_marker(marker, partition.leader_epoch)?;
        self.changed();
        Ok(offset)
    }

    /// Whether a producer has written to a partition in a transaction that is open.
    pub(in crate::broker) fn has_ongoing(
        &self,
        topic: &str,
        partition: i32,
        (producer_id, epoch): (i64, i16),
    ) -> bool {
        let found = self.partition(topic, partition);
        let known = found.and_then(|partition| partition.log.producers.get(producer_id));
        known.is_some_and(|known| known.open_since.is_some() && known.epoch == epoch)
    }

    /// Cuts the end of a partition off, and takes its leader epochs back to those of what is left;
    /// `false` when there is no such partition.
    pub(in crate::broker) fn restore(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        now_ms: i64,
    ) -> bool {
        let Some(partition) = self.partition_mut(topic, partition) else { return false };
        partition.log.truncate(offset, now_ms);
        partition.leader_epoch = partition.log.epochs.last().unwrap_or(0);
        self.changed();
        true
    }

    /// Forgets the producers of a partition; `false` when there is none.
    pub(in crate::broker) fn forget_producers(&mut self, topic: &str, partition: i32) -> bool {
        let Some(partition) = self.partition_mut(topic, partition) else { return false };
        partition.log.forget_producers();
        self.changed();
        true
    }

    /// A producer id that nobody had.
    pub(in crate::broker) fn new_producer_id(&mut self) -> i64 {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        id
    }
}
