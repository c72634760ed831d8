//! `OffsetFetch`, API 9, versions 0-10: reads committed offsets, of one group or (version 8 on) of many.
//!
//! The coordinator answers, per group. Without a committed offset, and for a group that nobody knows, the
//! answer is -1 and no error. `UNSTABLE_OFFSET_COMMIT` where stable offsets are asked for (version 7
//! on) and an open transaction may change one. From version 10 on topics have ids; unknown ones come last,
//! with `UNKNOWN_TOPIC_ID`. Versions 0 and 1 tell a group's error in its partitions.

use super::super::call::{Api, Call, Outcome};
use super::super::state::{Committed, Offsets, State};
use crate::protocol::messages::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use crate::protocol::{ErrorCode, Uuid};

impl Api for OffsetFetchRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<OffsetFetchResponse> {
        let groups = self.groups_of(call.version);
        let rows = groups.iter().map(|group| fetch(group, self.require_stable, call)).collect();
        Outcome::Answer(response(rows, call.version))
    }

    fn refuse(&self, error: ErrorCode, call: &mut Call<'_>) -> OffsetFetchResponse {
        let groups = self.groups_of(call.version);
        let rows = groups.iter().map(|group| refused(group, error)).collect();
        response(rows, call.version)
    }

    fn topics(&self, state: &State) -> Vec<String> {
        let of_one = self.topics.iter().flatten().map(|topic| topic.name.clone());
        let resolve = |topic: &OffsetFetchRequestTopics| {
            if topic.topic_id.is_zero() {
                Some(topic.name.clone())
            } else {
                state.name_of(topic.topic_id).map(str::to_owned)
            }
        };
        let of_many = self.groups.iter().flat_map(|group| group.topics.iter().flatten());
        of_one.chain(of_many.filter_map(resolve)).collect()
    }

    fn throttle(response: &mut OffsetFetchResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

/// The groups of the request in the form of version 8.
trait GroupsOf {
    fn groups_of(&self, version: i16) -> Vec<OffsetFetchRequestGroup>;
}

impl GroupsOf for OffsetFetchRequest {
    fn groups_of(&self, version: i16) -> Vec<OffsetFetchRequestGroup> {
        if version >= 8 {
            return self.groups.clone();
        }
        let topics = self.topics.as_ref().map(|topics| {
            let topic = |topic: &OffsetFetchRequestTopic| OffsetFetchRequestTopics {
                name: topic.name.clone(),
                partition_indexes: topic.partition_indexes.clone(),
                ..Default::default()
            };
            topics.iter().map(topic).collect()
        });
        vec![OffsetFetchRequestGroup {
            group_id: self.group_id.clone(),
            topics,
            ..Default::default()
        }]
    }
}

fn fetch(
    group: &OffsetFetchRequestGroup,
    stable: bool,
    call: &Call<'_>,
) -> OffsetFetchResponseGroup {
    let state = &*call.state;
    if !state.coordinates(call.broker, &group.group_id) {
        return refused(group, ErrorCode::NOT_COORDINATOR);
    }
    let nothing = Offsets::default();
    let offsets = state.offsets(&group.group_id).unwrap_or(&nothing);
    let by_id = call.version >= 10;
    let row = |topic: &str, index: i32| {
        if stable && offsets.is_unstable(topic, index) {
            without_offset(index, ErrorCode::UNSTABLE_OFFSET_COMMIT)
        } else {
            committed(index, offsets.get(topic, index))
        }
    };
    let mut topics: Vec<OffsetFetchResponseTopics> = Vec::new();
    let mut unknown = Vec::new();
    let Some(asked) = &group.topics else {
        for (topic, index, _) in offsets.iter() {
            if topics.last().is_none_or(|last| last.name != topic) {
                let id = state.topics().get(topic).map_or(Uuid::ZERO, |topic| topic.id);
                topics.push(OffsetFetchResponseTopics {
                    name: topic.to_owned(),
                    topic_id: id,
                    ..Default::default()
                });
            }
            topics.last_mut().expect("was pushed").partitions.push(row(topic, index));
        }
        return OffsetFetchResponseGroup {
            group_id: group.group_id.clone(),
            topics,
            ..Default::default()
        };
    };
    for topic in asked {
        let indexes = topic.partition_indexes.iter().copied();
        let name = if by_id { state.name_of(topic.topic_id) } else { Some(topic.name.as_str()) };
        match name {
            Some(name) => topics.push(answered(topic, indexes.map(|index| row(name, index)))),
            None => unknown.push(answered(
                topic,
                indexes.map(|index| without_offset(index, ErrorCode::UNKNOWN_TOPIC_ID)),
            )),
        }
    }
    topics.append(&mut unknown);
    OffsetFetchResponseGroup { group_id: group.group_id.clone(), topics, ..Default::default() }
}

fn answered(
    topic: &OffsetFetchRequestTopics,
    rows: impl Iterator<Item = OffsetFetchResponsePartitions>,
) -> OffsetFetchResponseTopics {
    OffsetFetchResponseTopics {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: rows.collect(),
        ..Default::default()
    }
}

fn committed(index: i32, committed: Option<&Committed>) -> OffsetFetchResponsePartitions {
    match committed {
        None => without_offset(index, ErrorCode::NONE),
        Some(committed) => OffsetFetchResponsePartitions {
            partition_index: index,
            committed_offset: committed.offset,
            committed_leader_epoch: committed.leader_epoch,
            metadata: Some(committed.metadata.clone()),
            ..Default::default()
        },
    }
}

fn without_offset(index: i32, error_code: ErrorCode) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index: index,
        committed_offset: -1,
        error_code,
        ..Default::default()
    }
}

/// A group's error. The partitions are only shown by versions 0 and 1, which have no other place.
fn refused(group: &OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup {
    let topic = |topic: &OffsetFetchRequestTopics| {
        let rows = topic.partition_indexes.iter().map(|index| without_offset(*index, error));
        answered(topic, rows)
    };
    OffsetFetchResponseGroup {
        group_id: group.group_id.clone(),
        topics: group.topics.iter().flatten().map(topic).collect(),
        error_code: error,
        ..Default::default()
    }
}

/// The answer in the form of `version`.
fn response(mut groups: Vec<OffsetFetchResponseGroup>, version: i16) -> OffsetFetchResponse {
    if version >= 2 {
        for group in groups.iter_mut().filter(|group| !group.error_code.is_ok()) {
            group.topics.clear();
        }
    }
    if version >= 8 {
        return OffsetFetchResponse { groups, ..Default::default() };
    }
    let group = groups.pop().unwrap_or_default();
    let topics = group.topics.into_iter().map(|topic| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic
            .partitions
            .into_iter()
            .map(|row| OffsetFetchResponsePartition {
                partition_index: row.partition_index,
                committed_offset: row.committed_offset,
                committed_leader_epoch: row.committed_leader_epoch,
                metadata: row.metadata,
                error_code: row.error_code,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    OffsetFetchResponse {
        topics: topics.collect(),
        error_code: group.error_code,
        ..Default::default()
    }
}
