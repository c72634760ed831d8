//! `OffsetDelete`, API 47, version 0: deletes committed offsets (KIP-496).
//!
//! The coordinator answers. A group with members that are no consumers is refused as a whole
//! (`NON_EMPTY_GROUP`), a topic to which consumers subscribe by itself (`GROUP_SUBSCRIBED_TO_TOPIC`),
//! partitions that do not exist one by one. Where none is committed there is no error.

use std::collections::BTreeMap;

use super::super::call::{Api, Call, Outcome};
use super::super::state::{Group, GroupState, State, Subscribed};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};

impl Api for OffsetDeleteRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<OffsetDeleteResponse> {
        if let Err(error) = enter(&self.group_id, call) {
            return Outcome::Answer(self.refuse(error, call));
        }
        let subscribed = call
            .state
            .group(&self.group_id, call.now)
            .map_or(Subscribed::default(), Group::subscribed);
        let mut rows = Rows::default();
        // Kafka puts what does not exist in front.
        for existing in [false, true] {
            for topic in &self.topics {
                let count = call.state.topics().get(&topic.name).map_or(0, |t| t.partitions.len());
                let subscribed = subscribed.contains(&topic.name);
                for partition in &topic.partitions {
                    let index = partition.partition_index;
                    if usize::try_from(index).is_ok_and(|index| index < count) != existing {
                        continue;
                    }
                    let error = if !existing {
                        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                    } else if subscribed {
                        ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC
                    } else {
                        if let Some(offsets) = call.state.offsets_mut(&self.group_id) {
                            offsets.delete(&topic.name, index);
                        }
                        ErrorCode::NONE
                    };
                    rows.add(&topic.name, index, error);
                }
            }
        }
        Outcome::Answer(OffsetDeleteResponse { topics: rows.topics, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> OffsetDeleteResponse {
        OffsetDeleteResponse { error_code: error, ..Default::default() }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }

    fn throttle(response: &mut OffsetDeleteResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn enter(id: &str, call: &mut Call<'_>) -> Result<(), ErrorCode> {
    if id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    if !call.state.coordinates(call.broker, id) {
        return Err(ErrorCode::NOT_COORDINATOR);
    }
    match call.state.group(id, call.now) {
        None => Err(ErrorCode::GROUP_ID_NOT_FOUND),
        Some(group) if group.state() != GroupState::Empty && !group.is_of_consumers() => {
            Err(ErrorCode::NON_EMPTY_GROUP)
        }
        Some(_) => Ok(()),
    }
}

/// The rows of the answer: one per topic, in the order in which they first came.
#[derive(Default)]
struct Rows {
    topics: Vec<OffsetDeleteResponseTopic>,
    places: BTreeMap<String, usize>,
}

impl Rows {
    fn add(&mut self, topic: &str, partition_index: i32, error_code: ErrorCode) {
        let place = *self.places.entry(topic.to_owned()).or_insert(self.topics.len());
        if place == self.topics.len() {
            let name = topic.to_owned();
            self.topics.push(OffsetDeleteResponseTopic { name, ..Default::default() });
        }
        if let Some(row) = self.topics.get_mut(place) {
            row.partitions.push(OffsetDeleteResponsePartition {
                partition_index,
                error_code,
                ..Default::default()
            });
        }
    }
}
