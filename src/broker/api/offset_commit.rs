//! `OffsetCommit`, API 8, versions 0-10: stores offsets of a group.
//!
//! The group's coordinator answers. Partitions that do not exist are refused one by one
//! (`UNKNOWN_TOPIC_OR_PARTITION`; from version 10 on `UNKNOWN_TOPIC_ID`), metadata of more than 4096
//! characters too; then the group has its say on the rest. Outside of membership (generation -1) a group
//! that does not exist is made, one with members is refused. A member's commit is a sign of life.
//! Retention times are not heeded: offsets do not expire. Version 0 goes to the same store.

use std::collections::BTreeMap;

use super::super::call::{Api, Call, Outcome};
use super::super::state::{Committed, GroupState, Identity, State};
use crate::protocol::messages::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use crate::protocol::{ErrorCode, Uuid};

/// `offset.metadata.max.bytes`, which counts UTF-16 units in truth.
pub(super) const METADATA_MAX: usize = 4096;

impl Api for OffsetCommitRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<OffsetCommitResponse> {
        let mut rows = Rows::default();
        let mut valid = Vec::new();
        for topic in &self.topics {
            let (name, unknown) = if call.version >= 10 {
                let name = call.state.name_of(topic.topic_id).unwrap_or_default();
                (name.to_owned(), ErrorCode::UNKNOWN_TOPIC_ID)
            } else {
                (topic.name.clone(), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
            };
            let known = call.state.topics().get(&name).map(|topic| topic.partitions.len());
            for partition in &topic.partitions {
                let index = partition.partition_index;
                match known {
                    None => rows.add(topic, index, unknown),
                    Some(count) if usize::try_from(index).is_ok_and(|index| index < count) => {
                        valid.push((topic, name.clone(), partition));
                    }
                    Some(_) => rows.add(topic, index, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                }
            }
        }
        if !valid.is_empty() {
            let refusal = self.enter(call, &valid).err();
            for (topic, name, partition) in valid {
                let error = match refusal {
                    Some(error) => error,
                    None => commit(call.state, &self.group_id, &name, partition),
                };
                rows.add(topic, partition.partition_index, error);
            }
        }
        Outcome::Answer(OffsetCommitResponse { topics: rows.topics, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> OffsetCommitResponse {
        let mut rows = Rows::default();
        for topic in &self.topics {
            for partition in &topic.partitions {
                rows.add(topic, partition.partition_index, error);
            }
        }
        OffsetCommitResponse { topics: rows.topics, ..Default::default() }
    }

    fn topics(&self, state: &State) -> Vec<String> {
        let resolve = |topic: &OffsetCommitRequestTopic| {
            if topic.topic_id.is_zero() {
                Some(topic.name.clone())
            } else {
                state.name_of(topic.topic_id).map(str::to_owned)
            }
        };
        self.topics.iter().filter_map(resolve).collect()
    }

    fn throttle(response: &mut OffsetCommitResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

/// What the group says to a commit.
trait Enter {
    fn enter(
        &self,
        call: &mut Call<'_>,
        valid: &[(&OffsetCommitRequestTopic, String, &OffsetCommitRequestPartition)],
    ) -> Result<(), ErrorCode>;
}

impl Enter for OffsetCommitRequest {
    fn enter(
        &self,
        call: &mut Call<'_>,
        valid: &[(&OffsetCommitRequestTopic, String, &OffsetCommitRequestPartition)],
    ) -> Result<(), ErrorCode> {
        let (id, generation) = (&self.group_id, self.generation_id_or_member_epoch);
        if !call.state.coordinates(call.broker, id) {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        let bytes = |(_, name, partition): &(_, String, &OffsetCommitRequestPartition)| {
            name.len() + partition.committed_metadata.as_ref().map_or(0, String::len)
        };
        if !call.state.has_room_for_offsets(valid.len(), valid.iter().map(bytes).sum()) {
            return Err(ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
        }
        if generation < 0 {
            if !call.state.ensure_group(id, call.now) {
                return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            }
        } else if call.state.offsets(id).is_none() {
            return Err(if call.version >= 9 {
                ErrorCode::GROUP_ID_NOT_FOUND
            } else {
                ErrorCode::ILLEGAL_GENERATION
            });
        }
        let identity = Identity {
            member_id: self.member_id.clone(),
            instance_id: self.group_instance_id.clone(),
        };
        let now = call.now;
        let checked = call.state.with_group(id, now, |group| {
            group.may_commit(&identity, generation, false)?;
            if matches!(group.state(), GroupState::Stable | GroupState::Preparing) {
                group.renew(&identity.member_id, now);
            }
            Ok(())
        });
        checked.unwrap_or(Err(ErrorCode::COORDINATOR_NOT_AVAILABLE))
    }
}

fn commit(
    state: &mut State,
    group: &str,
    topic: &str,
    partition: &OffsetCommitRequestPartition,
) -> ErrorCode {
    let metadata = partition.committed_metadata.clone().unwrap_or_default();
    if metadata.encode_utf16().count() > METADATA_MAX {
        return ErrorCode::OFFSET_METADATA_TOO_LARGE;
    }
    let committed = Committed {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata,
    };
    let Some(offsets) = state.offsets_mut(group) else {
        return ErrorCode::COORDINATOR_NOT_AVAILABLE;
    };
    offsets.commit(topic, partition.partition_index, committed);
    ErrorCode::NONE
}

/// The rows of the answer: one per topic, in the order in which they first came.
#[derive(Default)]
struct Rows {
    topics: Vec<OffsetCommitResponseTopic>,
    places: BTreeMap<(String, Uuid), usize>,
}

impl Rows {
    fn add(&mut self, topic: &OffsetCommitRequestTopic, index: i32, error_code: ErrorCode) {
        let key = (topic.name.clone(), topic.topic_id);
        let place = *self.places.entry(key).or_insert(self.topics.len());
        if place == self.topics.len() {
            self.topics.push(OffsetCommitResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                ..Default::default()
            });
        }
        if let Some(row) = self.topics.get_mut(place) {
            row.partitions.push(OffsetCommitResponsePartition {
                partition_index: index,
                error_code,
                ..Default::default()
            });
        }
    }
}
