//! `TxnOffsetCommit`, API 28, versions 0-6: offsets of a group that count when a transaction does (KIP-98).
//!
//! The group's coordinator answers. From version 3 on it also checks the member (KIP-447); from version 5
//! on it adds the group to the transaction itself (KIP-890). Before that the producer must have added
//! it: from 3.6 on that is verified, earlier releases took whatever came and left what was not part
//! of a transaction pending for ever.

use std::collections::{BTreeMap, BTreeSet};

use super::super::call::{Api, Call, Outcome};
use super::super::state::{Committed, Identity, State, offsets_place};
use super::offset_commit::METADATA_MAX;
use crate::protocol::messages::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use crate::protocol::{ErrorCode, Uuid};

/// The first version that knows `TRANSACTION_ABORTABLE`.
const ABORTABLE_FROM: i16 = 4;
/// The first version that adds the group to the transaction.
const ADDS_FROM: i16 = 5;
/// The first version that names topics by id (KIP-1319).
const BY_ID_FROM: i16 = 6;

impl Api for TxnOffsetCommitRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<TxnOffsetCommitResponse> {
        let mut rows = Rows::default();
        let mut valid = Vec::new();
        let by_id = call.version >= BY_ID_FROM;
        for topic in &self.topics {
            let name = call.state.resolve(&topic.name, topic.topic_id, by_id).map(str::to_owned);
            for partition in &topic.partitions {
                let index = partition.partition_index;
                match &name {
                    Err(unknown) => rows.add(topic, index, *unknown),
                    Ok(name) if call.state.partition(name, index).is_some() => {
                        valid.push((topic, name.clone(), partition));
                    }
                    Ok(_) => rows.add(topic, index, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                }
            }
        }
        if !valid.is_empty() {
            let refusal = self.enter(call, &valid).err();
            for (topic, name, partition) in valid {
                let error = refusal.unwrap_or_else(|| self.commit(call.state, &name, partition));
                rows.add(topic, partition.partition_index, error);
            }
        }
        Outcome::Answer(TxnOffsetCommitResponse { topics: rows.topics, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> TxnOffsetCommitResponse {
        let mut rows = Rows::default();
        for topic in &self.topics {
            for partition in &topic.partitions {
                rows.add(topic, partition.partition_index, error);
            }
        }
        TxnOffsetCommitResponse { topics: rows.topics, ..Default::default() }
    }

    fn topics(&self, state: &State) -> Vec<String> {
        let named = self.topics.iter().filter_map(|topic| {
            let by_id = !topic.topic_id.is_zero();
            state.resolve(&topic.name, topic.topic_id, by_id).ok().map(str::to_owned)
        });
        named.collect()
    }

    fn throttle(response: &mut TxnOffsetCommitResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

type Valid<'a> = (&'a TxnOffsetCommitRequestTopic, String, &'a TxnOffsetCommitRequestPartition);

/// The steps of a commit.
trait Commit {
    /// What the transaction and the group say to it.
    fn enter(&self, call: &mut Call<'_>, valid: &[Valid<'_>]) -> Result<(), ErrorCode>;

    /// Whether the transaction is open for the group.
    fn join_transaction(&self, call: &mut Call<'_>) -> Result<(), ErrorCode>;

    /// Notes one offset.
    fn commit(
        &self,
        state: &mut State,
        topic: &str,
        partition: &TxnOffsetCommitRequestPartition,
    ) -> ErrorCode;
}

impl Commit for TxnOffsetCommitRequest {
    fn enter(&self, call: &mut Call<'_>, valid: &[Valid<'_>]) -> Result<(), ErrorCode> {
        let (id, generation) = (&self.group_id, self.generation_id_or_member_epoch);
        if id.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        if !call.state.coordinates(call.broker, id) {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        let bytes = |(_, name, partition): &Valid<'_>| {
            name.len() + partition.committed_metadata.as_ref().map_or(0, String::len)
        };
        if !call.state.has_room_for_offsets(valid.len(), valid.iter().map(bytes).sum()) {
            return Err(ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
        }
        self.join_transaction(call)?;
        if generation < 0 {
            if !call.state.ensure_group(id, call.now) {
                return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            }
        } else if call.state.offsets(id).is_none() {
            return Err(if call.version >= BY_ID_FROM {
                ErrorCode::GROUP_ID_NOT_FOUND
            } else {
                ErrorCode::ILLEGAL_GENERATION
            });
        }
        let identity = Identity {
            member_id: self.member_id.clone(),
            instance_id: self.group_instance_id.clone(),
        };
        let checked = call
            .state
            .with_group(id, call.now, |group| group.may_commit(&identity, generation, true));
        checked.unwrap_or(Err(ErrorCode::COORDINATOR_NOT_AVAILABLE))
    }

    fn join_transaction(&self, call: &mut Call<'_>) -> Result<(), ErrorCode> {
        if !call.state.release.verifies_transactions() {
            return Ok(());
        }
        let producer = (self.producer_id, self.producer_epoch);
        let (id, place) = (&self.transactional_id, offsets_place(&self.group_id));
        let joined = if call.version >= ADDS_FROM {
            let times = (call.now, call.now_ms);
            call.state.add_to_transaction(id, producer, &BTreeSet::from([place]), times)
        } else {
            call.state.verify_in_transaction(id, producer, &place)
        };
        joined.map_err(|error| match error {
            ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
            ErrorCode::TRANSACTION_ABORTABLE if call.version < ABORTABLE_FROM => {
                ErrorCode::INVALID_TXN_STATE
            }
            other => other,
        })
    }

    fn commit(
        &self,
        state: &mut State,
        topic: &str,
        partition: &TxnOffsetCommitRequestPartition,
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
        let Some(offsets) = state.offsets_mut(&self.group_id) else {
            return ErrorCode::COORDINATOR_NOT_AVAILABLE;
        };
        offsets.add_pending(self.producer_id, topic, partition.partition_index, committed);
        ErrorCode::NONE
    }
}

/// The rows of the answer: one per topic, in the order in which they first came.
#[derive(Default)]
struct Rows {
    topics: Vec<TxnOffsetCommitResponseTopic>,
    places: BTreeMap<(String, Uuid), usize>,
}

impl Rows {
    fn add(&mut self, topic: &TxnOffsetCommitRequestTopic, index: i32, error_code: ErrorCode) {
        let key = (topic.name.clone(), topic.topic_id);
        let place = *self.places.entry(key).or_insert(self.topics.len());
        if place == self.topics.len() {
            self.topics.push(TxnOffsetCommitResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                ..Default::default()
            });
        }
        if let Some(row) = self.topics.get_mut(place) {
            row.partitions.push(TxnOffsetCommitResponsePartition {
                partition_index: index,
                error_code,
                ..Default::default()
            });
        }
    }
}
