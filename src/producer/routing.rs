//! From the cluster's metadata to the producer's topics and queues.

use std::sync::Arc;

use super::accumulator::Partition;
use super::core::Core;
use super::partitioner::Sticky;
use super::topics::Topic;
use crate::clock::Deadline;
use crate::cluster::TopicInfo;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::Uuid;

impl Core {
    /// The topic as it is known, looked up in the cluster if it was never sent to.
    ///
    /// # Errors
    /// `UnknownTopic` or what else kept the look-up from succeeding by `deadline`.
    pub(super) fn find_topic(
        self: &Arc<Self>,
        name: &str,
        deadline: Deadline,
    ) -> Result<Arc<Topic>> {
        if let Some(topic) = self.topics.get(name) {
            return Ok(topic);
        }
        self.look_up(name, deadline)?;
        self.refresh_topic(name);
        self.topics.get(name).ok_or_else(|| unknown(name))
    }

    /// The topic in the cluster's metadata; `Closed` as soon as the producer closes.
    pub(super) fn look_up(&self, name: &str, deadline: Deadline) -> Result<Arc<TopicInfo>> {
        self.cluster.topic_while(name, deadline, &|| !self.is_closed()).map_err(|error| {
            if self.is_closed() { Self::closed_error().with_topic(name) } else { error }
        })
    }

    /// Takes over what newer metadata say about a topic.
    pub(super) fn refresh_topic(self: &Arc<Self>, name: &str) {
        let metadata = self.cluster.metadata();
        let generation = metadata.generation;
        if self.topics.get(name).is_some_and(|topic| topic.generation == generation) {
            return;
        }
        if let Some(now) = metadata.topic(name) {
            self.take_over(name, now, generation);
        }
    }

    /// Takes over a topic of the metadata of `generation`, unless a thread that came first has taken over those or newer ones: a
    /// partition must never be there twice, each with sequences of its own.
    fn take_over(self: &Arc<Self>, name: &str, now: &TopicInfo, generation: u64) {
        let id = now.id.unwrap_or(Uuid::ZERO);
        let mut gone = Vec::new();
        let mut changed = false;
        let present = self.topics.replace(name, |old| {
            if old.is_some_and(|old| old.generation >= generation && !old.partitions.is_empty()) {
                return None;
            }
            let same = old.filter(|old| is_same(old.id, id));
            if let Some(old) = old
                && same.is_none()
            {
                gone.clone_from(&old.partitions);
            }
            changed = true;
            Some(self.snapshot(name, now, generation, same))
        });
        if changed && let Some(topic) = &present {
            self.monitor.metadata_changed(name, topic);
        }
        if !gone.is_empty() {
            log::warn!("producer: topic {name} was deleted and made again");
        }
        let error = Error::new(
            ErrorKind::UnknownTopic,
            "the topic was deleted and made again; the record was meant for the old one",
        );
        for partition in gone {
            for batch in partition.retire(error.clone()) {
                self.fail(batch, error.clone());
            }
        }
    }

    /// The topic if the metadata at hand have it; else has them fetched in the background.
    ///
    /// # Errors
    /// `NoLeader`, retriable, while they do not have it.
    pub(super) fn known_topic(self: &Arc<Self>, name: &str) -> Result<Arc<Topic>> {
        self.refresh_topic(name);
        if let Some(topic) = self.topics.get(name) {
            return Ok(topic);
        }
        self.cluster.request_topic(name);
        let message = "the topic is being looked up; try again";
        Err(Error::new(ErrorKind::NoLeader, message).with_topic(name))
    }

    fn snapshot(
        self: &Arc<Self>,
        name: &str,
        now: &TopicInfo,
        generation: u64,
        old: Option<&Arc<Topic>>,
    ) -> Topic {
        let name: Arc<str> = Arc::from(name);
        let id = now.id.unwrap_or(Uuid::ZERO);
        let count = now.partitions.len();
        let mut partitions = Vec::with_capacity(count);
        let mut available = Vec::with_capacity(count);
        for (index, leader) in now.partitions.iter().map(|partition| partition.leader).enumerate() {
            let kept = old.and_then(|old| old.partitions.get(index)).map(Arc::clone);
            partitions.push(kept.unwrap_or_else(|| {
                let queue = leader.and_then(|broker| self.queue_of(broker).ok());
                Partition::new(
                    Arc::clone(&name),
                    id,
                    index as i32,
                    self.limits,
                    queue.unwrap_or_else(|| Arc::clone(&self.router)),
                )
            }));
            if leader.is_some() {
                available.push(index as u32);
            }
        }
        let sticky =
            old.map_or_else(|| Arc::new(Sticky::new(count)), |old| Arc::clone(&old.sticky));
        Topic { id, generation, partitions, available, sticky }
    }

    /// The broker that leads `partition`, as far as the metadata know.
    pub(super) fn leader_of(&self, partition: &Partition) -> Option<i32> {
        let metadata = self.cluster.metadata();
        let topic = metadata.topic(&partition.topic)?;
        let info = topic.partitions.get(usize::try_from(partition.index).ok()?)?;
        info.leader
    }
}

/// Whether two ids are of one topic; old brokers give none.
fn is_same(one: Uuid, other: Uuid) -> bool {
    one == other || one == Uuid::ZERO || other == Uuid::ZERO
}

pub(super) fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::UnknownTopic, "the topic is not known to the cluster").with_topic(name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::broker::Cluster;
    use crate::{Client, Record};

    /// Two threads that send to a new topic at once each look it up, and both come to take it over.
    #[test]
    fn a_topic_that_two_threads_look_up_at_once_has_each_partition_once() {
        let kafka = Cluster::builder().brokers(1).topic("t", 2).start().expect("a cluster");
        let client = Client::builder(kafka.bootstrap()).build().expect("a client");
        let producer = client.producer().build().expect("a producer");
        let core = &producer.core;
        core.cluster.topic("t", Deadline::within(Duration::from_secs(60))).expect("a topic");
        let metadata = core.cluster.metadata();
        let now = metadata.topic("t").expect("it was looked up");
        core.take_over("t", now, metadata.generation);
        let first = core.topics.get("t").expect("taken over");
        producer.send(Record::to("t").partition(0).value("x")).expect("taken");
        for generation in [metadata.generation, metadata.generation.saturating_sub(1)] {
            core.take_over("t", now, generation);
            let second = core.topics.get("t").expect("still there");
            assert_eq!(second.generation, first.generation);
            for (one, other) in first.partitions.iter().zip(&second.partitions) {
                assert!(Arc::ptr_eq(one, other), "its batches and sequences are here");
            }
        }
        core.take_over("t", now, metadata.generation + 1);
        let newer = core.topics.get("t").expect("still there");
        assert_eq!(newer.generation, metadata.generation + 1);
        assert!(Arc::ptr_eq(&first.partitions[0], &newer.partitions[0]));
    }
}
