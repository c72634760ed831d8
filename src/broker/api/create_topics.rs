//! `CreateTopics`, API 19, versions 0-7: makes topics.
//!
//! Any broker answers, as in KRaft. Each topic is checked by itself: name, counts or assignments; a name
//! that comes twice is refused. The topic has its leaders before the answer. Settings are
//! checked as Kafka does (`INVALID_CONFIG`), before counts, and told in the answer with all others from version
//! 5 on (KIP-525).

use std::collections::{BTreeMap, BTreeSet};

use super::super::call::{Api, Call, Outcome};
use super::super::state::{State, TopicError, check_configs};
use super::describe_configs::of_new_topic;
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
            rows.push(row(topic, made, call));
        }
        Outcome::Answer(CreateTopicsResponse { topics: rows, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, call: &mut Call<'_>) -> CreateTopicsResponse {
        let refused = |topic: &CreatableTopic| {
            row(topic, Err(TopicError::new(error, error.to_string())), call)
        };
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

/// A topic that was made, or could be.
struct Made {
    id: Uuid,
    partitions: i32,
    replication: i16,
    configs: BTreeMap<String, String>,
}

fn create(
    state: &mut State,
    topic: &CreatableTopic,
    validate_only: bool,
) -> Result<Made, TopicError> {
    state.check_new(&topic.name)?;
    let configs = configs(state, topic)?;
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
    let partitions = replicas.len() as i32;
    let replication = replicas.first().map_or(0, Vec::len) as i16;
    let id = if validate_only {
        Uuid::ZERO
    } else {
        state.create_topic(&topic.name, replicas, configs.clone())
    };
    Ok(Made { id, partitions, replication, configs })
}

/// What is set for the topic, checked.
fn configs(state: &State, topic: &CreatableTopic) -> Result<BTreeMap<String, String>, TopicError> {
    let mut wanted = BTreeMap::new();
    for config in &topic.configs {
        let Some(value) = &config.value else {
            let message = format!("Null value not supported for topic configs: {}", config.name);
            return Err(TopicError::new(ErrorCode::INVALID_CONFIG, message));
        };
        wanted.insert(config.name.clone(), value.clone());
    }
    check_configs(&wanted, state.release)
}

/// The replicas as the request assigns them: partitions from 0 without a gap, brokers that exist.
fn assigned(
    state: &State,
    assignments: &[CreatableReplicaAssignment],
) -> Result<Vec<Vec<i32>>, TopicError> {
    let illegal = |why: String| TopicError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why);
    state.check_room(assignments.len())?;
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

fn row(
    topic: &CreatableTopic,
    made: Result<Made, TopicError>,
    call: &Call<'_>,
) -> CreatableTopicResult {
    let name = topic.name.clone();
    match made {
        Ok(made) => CreatableTopicResult {
            name,
            topic_id: made.id,
            error_message: None,
            num_partitions: made.partitions,
            replication_factor: made.replication,
            configs: Some(of_new_topic(call.state.describe_topic(&made.configs, call.broker))),
            ..Default::default()
        },
        Err(error) => CreatableTopicResult {
            name,
            error_code: error.code,
            error_message: Some(error.message),
            configs: Some(Vec::new()),
            ..Default::default()
        },
    }
}
