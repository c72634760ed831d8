//! Topics and partitions: their making and end, replicas and leaders.
//!
//! Replicas share one log, so a replica is in sync exactly when its broker runs. A leader that stops is
//! followed by the first replica that runs, under the next leader epoch; without one the partition
//! has no leader (-1) until a replica is back.
//!
//! Invariant: a partition's leader is -1 or a replica that runs; `names` and `topics` list the same.

use std::collections::BTreeMap;

use super::{Log, State};
use crate::protocol::{ErrorCode, Uuid};

/// The longest topic name (Kafka's `Topic.MAX_NAME_LENGTH`).
const NAME_BYTES_MAX: usize = 249;
/// More partitions than that in one topic are refused.
pub(in crate::broker) const PARTITIONS_MAX: i32 = 20_000;
/// More partitions than that in all topics together are refused.
const PARTITIONS_TOTAL_MAX: usize = 200_000;

/// A topic.
#[derive(Debug)]
pub(in crate::broker) struct Topic {
    pub(in crate::broker) id: Uuid,
    pub(in crate::broker) partitions: Vec<Partition>,
    /// What was set for it, by Kafka's names.
    pub(in crate::broker) configs: BTreeMap<String, String>,
}

/// A partition.
#[derive(Debug)]
pub(in crate::broker) struct Partition {
    /// -1 without one.
    pub(in crate::broker) leader: i32,
    pub(in crate::broker) leader_epoch: i32,
    /// The preferred leader first.
    pub(in crate::broker) replicas: Vec<i32>,
    /// The one log that all replicas share.
    pub(in crate::broker) log: Log,
}

/// Why a topic cannot be made, in Kafka's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct TopicError {
    pub(in crate::broker) code: ErrorCode,
    pub(in crate::broker) message: String,
}

impl TopicError {
    pub(in crate::broker) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl State {
    /// Checks a topic that is to be made; gives the replicas of each partition. -1 stands for the
    /// brokers' default.
    pub(in crate::broker) fn plan_topic(
        &self,
        name: &str,
        partitions: i32,
        replication: i16,
    ) -> Result<Vec<Vec<i32>>, TopicError> {
        self.check_new(name)?;
        let partitions = if partitions == -1 { self.settings.partitions } else { partitions };
        if !(1..=PARTITIONS_MAX).contains(&partitions) {
            let message = "Number of partitions was set to an invalid non-positive value.";
            return Err(TopicError::new(ErrorCode::INVALID_PARTITIONS, message));
        }
        self.place(partitions, replication)
    }

    /// Checks that a topic can be called `name` and none is.
    pub(in crate::broker) fn check_new(&self, name: &str) -> Result<(), TopicError> {
        check_name(name)?;
        if self.topics.contains_key(name) {
            let message = format!("Topic '{name}' already exists.");
            return Err(TopicError::new(ErrorCode::TOPIC_ALREADY_EXISTS, message));
        }
        Ok(())
    }

    /// Checks that the cluster can have so many partitions more.
    pub(in crate::broker) fn check_room(&self, partitions: usize) -> Result<(), TopicError> {
        let present: usize = self.topics.values().map(|topic| topic.partitions.len()).sum();
        if present.saturating_add(partitions) <= PARTITIONS_TOTAL_MAX {
            return Ok(());
        }
        let message =
            format!("All topics together may have {PARTITIONS_TOTAL_MAX} partitions here.");
        Err(TopicError::new(ErrorCode::POLICY_VIOLATION, message))
    }

    /// Replicas for `partitions` new partitions, one after the other around the brokers.
    pub(in crate::broker) fn place(
        &self,
        partitions: i32,
        replication: i16,
    ) -> Result<Vec<Vec<i32>>, TopicError> {
        self.check_room(partitions as usize)?;
        let replication = if replication == -1 { self.settings.replication } else { replication };
        let live: Vec<i32> = self.live().map(|(id, _)| id).collect();
        let count = usize::try_from(replication).unwrap_or(0);
        if count == 0 {
            let message =
                "Replication factor must be larger than 0, or -1 to use the default value.";
            return Err(TopicError::new(ErrorCode::INVALID_REPLICATION_FACTOR, message));
        }
        if count > live.len() {
            let message = format!(
                "Unable to replicate the partition {replication} time(s): The target replication factor of {replication} \
                 cannot be reached because only {} broker(s) are registered or some brokers have all their log directories \
                 cordoned.",
                live.len()
            );
            return Err(TopicError::new(ErrorCode::INVALID_REPLICATION_FACTOR, message));
        }
        let around = |first: usize| live.iter().cycle().skip(first).take(count).copied().collect();
        Ok((0..partitions as usize).map(|index| around(index % live.len())).collect())
    }

    /// Makes a topic whose name and replicas were checked.
    pub(in crate::broker) fn create_topic(
        &mut self,
        name: &str,
        replicas: Vec<Vec<i32>>,
        configs: BTreeMap<String, String>,
    ) -> Uuid {
        let id = self.new_id();
        let partitions = self.new_partitions(replicas);
        self.names.insert(id, name.to_owned());
        self.topics.insert(name.to_owned(), Topic { id, partitions, configs });
        self.elect_leaders();
        self.changed();
        id
    }

    /// Gives a topic that exists more partitions, whose replicas were checked.
    pub(in crate::broker) fn add_partitions(&mut self, name: &str, replicas: Vec<Vec<i32>>) {
        let added = self.new_partitions(replicas);
        if let Some(topic) = self.topics.get_mut(name) {
            topic.partitions.extend(added);
        }
        self.elect_leaders();
        self.changed();
    }

    fn new_partitions(&self, replicas: Vec<Vec<i32>>) -> Vec<Partition> {
        let empty =
            |replicas| Partition { leader: -1, leader_epoch: -1, replicas, log: self.new_log() };
        replicas.into_iter().map(empty).collect()
    }

    /// Deletes a topic with everything in it.
    pub(in crate::broker) fn delete_topic(&mut self, name: &str) -> Option<Topic> {
        let topic = self.topics.remove(name)?;
        self.names.remove(&topic.id);
        self.forget_offsets_of(name);
        self.changed();
        Some(topic)
    }

    /// All topics by name.
    pub(in crate::broker) fn topics(&self) -> &BTreeMap<String, Topic> {
        &self.topics
    }

    /// The topic called `name`.
    pub(in crate::broker) fn topic_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.topics.get_mut(name)
    }

    /// The name of the topic with `id`.
    pub(in crate::broker) fn name_of(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// The replicas of a partition that run.
    pub(in crate::broker) fn in_sync(&self, partition: &Partition) -> Vec<i32> {
        partition.replicas.iter().copied().filter(|replica| self.is_up(*replica)).collect()
    }

    /// Moves the leadership of a partition, with the next epoch. `false` when there is no such
    /// partition or `leader` is not a replica of it that runs.
    pub(in crate::broker) fn move_leader(&mut self, topic: &str, index: i32, leader: i32) -> bool {
        let up = self.is_up(leader);
        let Some(partition) = usize::try_from(index)
            .ok()
            .and_then(|index| self.topics.get_mut(topic)?.partitions.get_mut(index))
        else {
            return false;
        };
        if !up || !partition.replicas.contains(&leader) {
            return false;
        }
        partition.lead(leader);
        self.changed();
        true
    }

    /// Gives every partition whose leader does not run another one, if there is one.
    pub(super) fn elect_leaders(&mut self) {
        let up: Vec<i32> = self.live().map(|(id, _)| id).collect();
        for partition in self.topics.values_mut().flat_map(|topic| &mut topic.partitions) {
            if !up.contains(&partition.leader) {
                let next = partition.replicas.iter().copied().find(|replica| up.contains(replica));
                let next = next.unwrap_or(-1);
                if next != partition.leader {
                    partition.lead(next);
                }
            }
        }
    }
}

impl Partition {
    fn lead(&mut self, leader: i32) {
        self.leader = leader;
        self.leader_epoch += 1;
        if leader >= 0 {
            self.log.epochs.assign(self.leader_epoch, self.log.end());
        }
    }
}

/// Kafka's rules for topic names.
pub(in crate::broker) fn check_name(name: &str) -> Result<(), TopicError> {
    let illegal = |why: String| Err(TopicError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, why));
    if name.is_empty() {
        return illegal("Topic name is invalid: the empty string is not allowed".to_owned());
    }
    if name == "." || name == ".." {
        return illegal("Topic name is invalid: '.' or '..' is not allowed".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return illegal(format!(
            "Topic name is invalid: the length of '{name}' is longer than the max allowed length {NAME_BYTES_MAX}"
        ));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return illegal(format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ));
    }
    Ok(())
}
