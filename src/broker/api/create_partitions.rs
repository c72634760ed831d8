//! `CreatePartitions`, API 37, versions 0-3: gives a topic more partitions.
//!
//! Any broker answers, as in KRaft. Each topic is checked by itself: the count is the new total and must
//! grow; replicas by hand, one entry per new partition, must be as many as those of the partitions
//! there are. The new partitions are empty and have their leaders before the answer.

use std::collections::BTreeSet;

use super::super::call::{Api, Call, Outcome};
use super::super::state::{PARTITIONS_MAX, State, TopicError};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsResponse,
    CreatePartitionsTopic, CreatePartitionsTopicResult,
};

impl Api for CreatePartitionsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<CreatePartitionsResponse> {
        let mut seen = BTreeSet::new();
        let mut twice = BTreeSet::new();
        for topic in &self.topics {
            if !seen.insert(topic.name.as_str()) {
                twice.insert(topic.name.as_str());
            }
        }
        let mut results = Vec::new();
        for name in &twice {
            let message = "Duplicate topic name.";
            results.push(row(name, Err(TopicError::new(ErrorCode::INVALID_REQUEST, message))));
        }
        for topic in self.topics.iter().filter(|topic| !twice.contains(topic.name.as_str())) {
            let added = add(call.state, topic, self.validate_only);
            results.push(row(&topic.name, added));
        }
        Outcome::Answer(CreatePartitionsResponse { results, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> CreatePartitionsResponse {
        let refused = |topic: &CreatePartitionsTopic| CreatePartitionsTopicResult {
            name: topic.name.clone(),
            error_code: error,
            ..Default::default()
        };
        let results = self.topics.iter().map(refused).collect();
        CreatePartitionsResponse { results, ..Default::default() }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }

    fn throttle(response: &mut CreatePartitionsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn row(name: &str, added: Result<(), TopicError>) -> CreatePartitionsTopicResult {
    let error = added.err();
    CreatePartitionsTopicResult {
        name: name.to_owned(),
        error_code: error.as_ref().map_or(ErrorCode::NONE, |error| error.code),
        error_message: error.map(|error| error.message).filter(|message| !message.is_empty()),
        ..Default::default()
    }
}

fn add(
    state: &mut State,
    topic: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), TopicError> {
    let name = &topic.name;
    let Some(found) = state.topics().get(name) else {
        return Err(TopicError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ""));
    };
    let invalid = |why: String| Err(TopicError::new(ErrorCode::INVALID_PARTITIONS, why));
    let present = found.partitions.len() as i32;
    let replication = found.partitions.first().map_or(0, |partition| partition.replicas.len());
    if topic.count == present {
        return invalid(format!("Topic already has {present} partition(s)."));
    }
    if topic.count < present {
        return invalid(format!(
            "The topic {name} currently has {present} partition(s); {} would not be an increase.",
            topic.count
        ));
    }
    if topic.count > PARTITIONS_MAX {
        return invalid(format!("A topic may have {PARTITIONS_MAX} partitions here."));
    }
    let additional = topic.count - present;
    let replicas = match &topic.assignments {
        Some(assignments) => assigned(state, assignments, additional as usize, replication)?,
        None => state.place(additional, replication as i16)?,
    };
    if !validate_only {
        state.add_partitions(name, replicas);
    }
    Ok(())
}

fn assigned(
    state: &State,
    assignments: &[CreatePartitionsAssignment],
    additional: usize,
    replication: usize,
) -> Result<Vec<Vec<i32>>, TopicError> {
    let illegal = |why: String| Err(TopicError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
    if assignments.len() != additional {
        return illegal(format!(
            "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
            assignments.len()
        ));
    }
    state.check_room(additional)?;
    for brokers in assignments.iter().map(|assignment| &assignment.broker_ids) {
        if brokers.is_empty() {
            let why = "The manual partition assignment includes an empty replica list.";
            return illegal(why.to_owned());
        }
        let mut seen = BTreeSet::new();
        for id in brokers {
            if !state.nodes().any(|(known, _)| known == *id) {
                return illegal(format!(
                    "The manual partition assignment includes broker {id}, but no such broker is registered."
                ));
            }
            if !seen.insert(id) {
                return illegal(format!(
                    "The manual partition assignment includes the broker {id} more than once."
                ));
            }
        }
        if brokers.len() != replication {
            return illegal(format!(
                "The manual partition assignment includes a partition with {} replica(s), but this is not consistent \
                 with previous partitions, which have {replication} replica(s).",
                brokers.len()
            ));
        }
    }
    Ok(assignments.iter().map(|assignment| assignment.broker_ids.clone()).collect())
}
