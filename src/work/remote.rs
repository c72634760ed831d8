//! [`Kafka`] over the client's cluster: what organiser and workers ask, as requests.
//!
//! Runs on the thread that calls. Each question is one attempt per broker, with what is known of
//! the cluster now: organiser and workers come back with it anyway, so the retry loop is theirs. A
//! failure that speaks of stale metadata has it fetched before the next question.
//!
//! Offsets of groups are asked for by topic *name* (up to version 9 of both APIs): which topic an
//! offset belongs to is told by its label, also on brokers without topic ids.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::commit::{Commit, label, topic_id_of};
use super::kafka::{Each, Kafka, LogBounds, TopicFacts, UnitReader};
use super::plan::CommittedOffset;
use super::unit::{TopicPartition, UnitId};
use crate::clock::Deadline;
use crate::cluster::{Cluster, METADATA_VERSIONS, Target, metadata_request};
use crate::config::FetchConfig;
use crate::error::{Error, Recovery, Result};
use crate::fetch::{At, list_now};
use crate::protocol::messages::{
    MetadataRequest, OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse,
};
use crate::protocol::{ErrorCode, Message, Uuid, VersionRange};

/// Group offsets are asked for by name, which later versions cannot.
const BY_NAME_MAX: i16 = 9;
/// The first version that asks about many groups at once.
const MANY_GROUPS_FROM: i16 = 8;
/// Version 0 kept the offsets in ZooKeeper.
const IN_KAFKA_FROM: i16 = 1;

/// The cluster that a client is connected to.
#[derive(Debug)]
pub(crate) struct RemoteKafka {
    cluster: Arc<Cluster>,
    fetch: Arc<FetchConfig>,
}

impl RemoteKafka {
    pub(crate) fn new(cluster: Arc<Cluster>, fetch: Arc<FetchConfig>) -> Self {
        Self { cluster, fetch }
    }

    /// Has metadata fetched if `error` speaks of stale ones.
    fn note(&self, error: &Error) {
        if matches!(error.recovery(), Recovery::RefreshMetadata | Recovery::Reconnect) {
            self.cluster.request_refresh();
        }
    }
}

/// `versions` without those above `most` and below `least`.
fn at_most(versions: VersionRange, most: i16, least: i16) -> VersionRange {
    VersionRange { min: versions.min.max(least), max: versions.max.min(most) }
}

/// The partitions of each topic.
fn by_topic(partitions: &[TopicPartition]) -> BTreeMap<&str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for of in partitions {
        topics.entry(of.topic()).or_default().push(of.partition());
    }
    topics
}

impl Kafka for RemoteKafka {
    fn topics(
        &self,
        names: &[String],
        deadline: Deadline,
    ) -> Result<HashMap<String, Result<TopicFacts>>> {
        let asked: Vec<&str> = names.iter().map(String::as_str).collect();
        let metadata = self.cluster.refresh_now(&asked, deadline)?;
        let describe = |name: &String| {
            if let Some(code) = metadata.failures.get(name.as_str()) {
                return Err(Error::from_code(*code, None).with_topic(name));
            }
            let Some(topic) = metadata.topics.get(name.as_str()) else {
                let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                return Err(Error::from_code(code, None).with_topic(name));
            };
            Ok(TopicFacts {
                name: topic.name.clone(),
                id: topic.id.unwrap_or(Uuid::ZERO),
                partitions: topic.partitions.len() as i32,
            })
        };
        Ok(names.iter().map(|name| (name.clone(), describe(name))).collect())
    }

    fn names(&self, deadline: Deadline) -> Result<Vec<String>> {
        let answer = self
            .cluster
            .attempt::<MetadataRequest, _>(Target::Any, METADATA_VERSIONS, deadline, |version| {
                Ok(metadata_request(version, None))
            })
            .inspect_err(|error| self.note(error))?;
        let topics = answer.response.topics.into_iter().filter(|topic| !topic.is_internal);
        Ok(topics.filter_map(|topic| topic.name).collect())
    }

    fn bounds(&self, partitions: &[TopicPartition], deadline: Deadline) -> Each<LogBounds> {
        let wanted: Vec<(Arc<str>, i32)> =
            partitions.iter().map(|of| (Arc::from(of.topic()), of.partition())).collect();
        let isolation = self.fetch.isolation_level;
        let starts = list_now(&self.cluster, &wanted, At::Earliest, isolation, deadline);
        let ends = list_now(&self.cluster, &wanted, At::Latest, isolation, deadline);
        let metadata = self.cluster.metadata();
        let epoch = |of: &TopicPartition| {
            metadata.topic(of.topic())?.partition(of.partition())?.leader_epoch
        };
        let mut answer = Each::new();
        for ((of, start), end) in partitions.iter().zip(starts).zip(ends) {
            let bounds = start.and_then(|start| {
                let (start, end) = (start.unwrap_or(0), end?.unwrap_or(0));
                let leader_epoch = epoch(of).unwrap_or(-1);
                Ok(LogBounds { start, end: end.max(start), leader_epoch })
            });
            answer.insert(of.clone(), bounds.inspect_err(|error| self.note(error)));
        }
        answer
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        deadline: Deadline,
    ) -> Result<Each<Option<CommittedOffset>>> {
        let versions = at_most(OffsetFetchRequest::VERSIONS, BY_NAME_MAX, IN_KAFKA_FROM);
        let topics = by_topic(partitions);
        let response = self.cluster.retry("read the group's offsets", deadline, |_| {
            let answer =
                self.cluster.call(Target::Coordinator(group), versions, deadline, |version| {
                    Ok(offset_fetch(group, &topics, version))
                })?;
            match group_error(&answer) {
                ErrorCode::NONE => Ok(answer),
                code => Err(Error::from_code(code, None)),
            }
        })?;
        Ok(committed_in(&response))
    }

    fn commit(&self, group: &str, commits: &[Commit], deadline: Deadline) -> Result<Each<()>> {
        let versions = at_most(OffsetCommitRequest::VERSIONS, BY_NAME_MAX, IN_KAFKA_FROM);
        let response = self.cluster.call(Target::Coordinator(group), versions, deadline, |_| {
            Ok(offset_commit(group, commits))
        })?;
        let mut answer = Each::new();
        let mut stale = false;
        for topic in response.topics {
            for row in topic.partitions {
                let Ok(of) = TopicPartition::new(topic.name.as_str(), row.partition_index) else {
                    continue;
                };
                let stored = match row.error_code {
                    ErrorCode::NONE => Ok(()),
                    code => {
                        stale |= code.recovery() == Recovery::FindCoordinator;
                        let error = Error::from_code(code, None);
                        Err(error.with_partition(of.topic(), of.partition()))
                    }
                };
                answer.insert(of, stored);
            }
        }
        if stale {
            self.cluster.forget_coordinator(group);
        }
        Ok(answer)
    }

    fn open(&self, unit: &UnitId, topic_id: Uuid) -> Result<Box<dyn UnitReader>> {
        Ok(super::reading::open(&self.cluster, &self.fetch, unit, topic_id))
    }
}

/// The request for the offsets of `topics`.
fn offset_fetch(
    group: &str,
    topics: &BTreeMap<&str, Vec<i32>>,
    version: i16,
) -> OffsetFetchRequest {
    if version >= MANY_GROUPS_FROM {
        let topic = |(name, indexes): (&&str, &Vec<i32>)| OffsetFetchRequestTopics {
            name: (*name).to_owned(),
            partition_indexes: indexes.clone(),
            ..Default::default()
        };
        return OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: group.to_owned(),
                topics: Some(topics.iter().map(topic).collect()),
                ..Default::default()
            }],
            ..Default::default()
        };
    }
    let topic = |(name, indexes): (&&str, &Vec<i32>)| OffsetFetchRequestTopic {
        name: (*name).to_owned(),
        partition_indexes: indexes.clone(),
        ..Default::default()
    };
    OffsetFetchRequest {
        group_id: group.to_owned(),
        topics: Some(topics.iter().map(topic).collect()),
        ..Default::default()
    }
}

/// The error of an answer as a whole.
fn group_error(response: &OffsetFetchResponse) -> ErrorCode {
    if !response.error_code.is_ok() {
        return response.error_code;
    }
    response
        .groups
        .iter()
        .map(|group| group.error_code)
        .find(|code| !code.is_ok())
        .unwrap_or_default()
}

/// What an answer says about each partition, in either of its forms.
fn committed_in(response: &OffsetFetchResponse) -> Each<Option<CommittedOffset>> {
    let mut answer = Each::new();
    let mut take =
        |topic: &str, partition: i32, offset: i64, text: Option<&str>, code: ErrorCode| {
            let Ok(of) = TopicPartition::new(topic, partition) else { return };
            let held = if code.is_ok() {
                Ok((offset >= 0).then(|| CommittedOffset { offset, topic_id: topic_id_of(text) }))
            } else {
                Err(Error::from_code(code, None).with_partition(topic, partition))
            };
            answer.insert(of, held);
        };
    for topic in &response.topics {
        for row in &topic.partitions {
            let text = row.metadata.as_deref();
            take(&topic.name, row.partition_index, row.committed_offset, text, row.error_code);
        }
    }
    for topic in response.groups.iter().flat_map(|group| &group.topics) {
        for row in &topic.partitions {
            let text = row.metadata.as_deref();
            take(&topic.name, row.partition_index, row.committed_offset, text, row.error_code);
        }
    }
    answer
}

/// The request that stores `commits`, outside of any membership.
fn offset_commit(group: &str, commits: &[Commit]) -> OffsetCommitRequest {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for commit in commits {
        let of = &commit.partition;
        topics.entry(of.topic()).or_default().push(OffsetCommitRequestPartition {
            partition_index: of.partition(),
            committed_offset: commit.offset,
            committed_metadata: Some(label(commit.topic_id)),
            ..Default::default()
        });
    }
    let topic = |(name, partitions): (&str, Vec<OffsetCommitRequestPartition>)| {
        OffsetCommitRequestTopic { name: name.to_owned(), partitions, ..Default::default() }
    };
    OffsetCommitRequest {
        group_id: group.to_owned(),
        topics: topics.into_iter().map(topic).collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Client;
    use crate::broker::{Cluster, Release};

    /// Group offsets in every form that a release asks for, also when the coordinator moves.
    #[test]
    fn offsets_of_a_group_are_stored_and_read_back() {
        for release in [Release::V0_11, Release::V2_1, Release::V2_8, Release::V3_9, Release::V4_4]
        {
            let kafka = Cluster::builder().brokers(2).as_kafka(release).topic("t", 2).start();
            let kafka = kafka.expect("a cluster");
            kafka.move_coordinator("g", 1).expect("it runs");
            let client = Client::builder(kafka.bootstrap()).build().expect("a client");
            let remote = RemoteKafka::new(Arc::clone(client.cluster()), Arc::default());
            let deadline = || Deadline::within(Duration::from_secs(30));
            let of = |partition| TopicPartition::new("t", partition).expect("a partition");
            let id = Uuid([5; 16]);
            let commit = |offset| Commit { partition: of(1), topic_id: id, offset };
            let held = |remote: &RemoteKafka| {
                let held = remote.committed("g", &[of(0), of(1)], deadline()).expect("an answer");
                [of(0), of(1)].map(|of| *held[&of].as_ref().expect("no error"))
            };
            assert_eq!(held(&remote), [None, None]);
            let stored = remote.commit("g", &[commit(7)], deadline()).expect("an answer");
            assert!(stored[&of(1)].is_ok(), "{stored:?}");
            let at = |offset| Some(CommittedOffset { offset, topic_id: Some(id) });
            assert_eq!(held(&remote), [None, at(7)]);
            kafka.move_coordinator("g", 2).expect("it runs");
            let stored = remote.commit("g", &[commit(8)], deadline()).expect("an answer");
            assert!(stored[&of(1)].is_err(), "the coordinator has moved");
            let stored = remote.commit("g", &[commit(9)], deadline()).expect("an answer");
            assert!(stored[&of(1)].is_ok(), "it is asked for anew: {stored:?}");
            assert_eq!(held(&remote), [None, at(9)]);
        }
    }
}
