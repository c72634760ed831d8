//! `CreateTopics`, API 19, versions 0-7: makes topics.
//!
//! Any broker answers, as in KRaft. Each topic is checked by itself: name, counts or assignments; a name
//! that comes twice is refused. The topic has its leaders before the answer. Settings are kept as they
//! are given; those that Kafka does not know are refused with `INVALID_CONFIG` by `configs`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::call::{Api, Call, Outcome};
use super::super::state::{State, TopicError};
use crate::protocol::messages::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};
use crate::protocol::{ErrorCode, Uuid};

impl Api for CreateTopicsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<CreateTopicsResponse> {
        let mut seen = BTreeSet::new();
        let twice: BTreeSet<&str> = self
            .topics
            .iter()
            .map(|t| t.name.as_str())
            .filter(|name| !seen.insert(*name))
            .collect();
        let mut answered = BTreeSet::new();
        let mut rows = Vec::new();
        for topic in &self.topics {
            if !answered.insert(topic.name.as_str()) {
                continue;
            }
            let made = if twice.contains(topic.name.as_str()) {
                let message = "Duplicate topic name.";
                Err(TopicError::new(ErrorCode::INVALID_REQUEST, message))
            } else {
                create(call.state, topic, self.validate_only)
            };
            rows.push(row(topic, made));
        }
        Outcome::Answer(CreateTopicsResponse { topics: rows, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> CreateTopicsResponse {
        let refused =
            |topic: &CreatableTopic| row(topic, Err(TopicError::new(error, error.to_string())));
        CreateTopicsResponse {
            topics: self.topics.iter().map(refused).collect(),
            ..Default::default()
        }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }

    fn throttle(response: &mut CreateTopicsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

/// Id, partitions and replication of a topic that was made.
type Made = (Uuid, i32, i16);

fn create(
    state: &mut State,
    topic: &CreatableTopic,
    validate_only: bool,
) -> Result<Made, TopicError> {
    let replicas = if topic.assignments.is_empty() {
        state.plan_topic(&topic.name, topic.num_partitions, topic.replication_factor)?
    } else {
        if topic.num_partitions != -1 || topic.replication_factor != -1 {
            let message = "A manual partition assignment was specified, but numPartitions or \
                           replicationFactor was not set to -1.";
            return Err(TopicError::new(ErrorCode::INVALID_REQUEST, message));
        }
        state.plan_topic(&topic.name, 1, 1)?;
        assigned(state, &topic.assignments)?
    };
    let configs: BTreeMap<String, String> = topic
        .configs
        .iter()
        .filter_map(|config| Some((config.name.clone(), config.value.clone()?)))
        .collect();
    let partitions = replicas.len() as i32;
    let replication = replicas.first().map_or(0, Vec::len) as i16;
    let id =
        if validate_only { Uuid::ZERO } else { state.create_topic(&topic.name, replicas, configs) };
    Ok((id, partitions, replication))
}

/// The replicas as the request assigns them: partitions from 0 without a gap, brokers that exist.
fn assigned(
    state: &State,
    assignments: &[CreatableReplicaAssignment],
) -> Result<Vec<Vec<i32>>, TopicError> {
    let illegal = |why: String| TopicError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why);
    let mut replicas = BTreeMap::new();
    for assignment in assignments {
        let index = assignment.partition_index;
        let brokers = &assignment.broker_ids;
        let distinct: BTreeSet<i32> = brokers.iter().copied().collect();
        if brokers.is_empty() || distinct.len() != brokers.len() {
            return Err(illegal(format!("Partition {index} has no replicas, or one twice.")));
        }
        if let Some(unknown) = brokers.iter().find(|id| !state.is_up(**id)) {
            return Err(illegal(format!(
                "Broker {unknown} of partition {index} is not registered."
            )));
        }
        if replicas.insert(index, brokers.clone()).is_some() {
            return Err(illegal(format!("Partition {index} has multiple assignments.")));
        }
    }
    if replicas.keys().enumerate().any(|(place, index)| place as i32 != *index) {
        return Err(illegal("Partitions must be a consecutive range from 0.".to_owned()));
    }
    Ok(replicas.into_values().collect())
}

fn row(topic: &CreatableTopic, made: Result<Made, TopicError>) -> CreatableTopicResult {
    let name = topic.name.clone();
    match made {
        Ok((topic_id, num_partitions, replication_factor)) => CreatableTopicResult {
            name,
            topic_id,
            error_message: None,
            num_partitions,
            replication_factor,
            ..Default::default()
        },
        Err(error) => CreatableTopicResult {
            name,
            error_code: error.code,
            error_message: Some(error.message),
            configs: None,
            ..Default::default()
        },
    }
}
