//! `IncrementalAlterConfigs`, API 44, versions 0-1: sets, deletes, appends to and subtracts from settings
//! of topics and brokers (KIP-339).
//!
//! A topic's by any broker, a broker's by that broker (the empty name, for all of them, by any). A
//! resource is changed as a whole or not at all. What is set for brokers is kept and told, and is the
//! default that `DescribeConfigs` names; logs go by what is set for their topic alone. Other
//! resources are refused.

use std::collections::{BTreeMap, BTreeSet};

use super::super::call::{Api, Call, Outcome};
use super::super::state::{
    ALL_BROKERS, Resource, Setting, State, TopicError, check_configs, parts,
};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

/// More settings than that, of any name, are not kept for brokers.
const BROKER_SETTINGS_MAX: usize = 1000;
/// The longest name or value that is kept of a setting that this cluster does not know.
const UNKNOWN_BYTES_MAX: usize = 1024;

impl Api for IncrementalAlterConfigsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<IncrementalAlterConfigsResponse> {
        let mut seen = BTreeSet::new();
        let mut twice = BTreeSet::new();
        for resource in &self.resources {
            let key = (resource.resource_type, resource.resource_name.as_str());
            if !seen.insert(key) {
                twice.insert(key);
            }
        }
        let mut responses = Vec::new();
        for resource in &self.resources {
            let key = (resource.resource_type, resource.resource_name.as_str());
            let altered = if twice.contains(&key) {
                Err(invalid("Each resource must appear at most once."))
            } else {
                alter(resource, self.validate_only, call)
            };
            responses.push(row(resource, altered.err()));
        }
        Outcome::Answer(IncrementalAlterConfigsResponse { responses, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> IncrementalAlterConfigsResponse {
        let refused = |resource| row(resource, Some(TopicError::new(error, error.to_string())));
        let responses = self.resources.iter().map(refused).collect();
        IncrementalAlterConfigsResponse { responses, ..Default::default() }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        let topics = self
            .resources
            .iter()
            .filter(|resource| Resource::of(resource.resource_type) == Some(Resource::Topic));
        topics.map(|resource| resource.resource_name.clone()).collect()
    }

    fn throttle(response: &mut IncrementalAlterConfigsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn invalid(why: impl Into<String>) -> TopicError {
    TopicError::new(ErrorCode::INVALID_REQUEST, why)
}

fn row(resource: &AlterConfigsResource, error: Option<TopicError>) -> AlterConfigsResourceResponse {
    AlterConfigsResourceResponse {
        error_code: error.as_ref().map_or(ErrorCode::NONE, |error| error.code),
        error_message: error.map(|error| error.message).filter(|message| !message.is_empty()),
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        ..Default::default()
    }
}

fn alter(
    resource: &AlterConfigsResource,
    validate_only: bool,
    call: &mut Call<'_>,
) -> Result<(), TopicError> {
    let name = resource.resource_name.as_str();
    let mut keys = BTreeSet::new();
    if !resource.configs.iter().all(|config| keys.insert(config.name.as_str())) {
        return Err(invalid("Error due to duplicate config keys"));
    }
    let null =
        |config: &&AlterableConfig| config.value.is_none() && config.config_operation != DELETE;
    if let Some(config) = resource.configs.iter().find(null) {
        return Err(invalid(format!("Null value not supported for : {}", config.name)));
    }
    match Resource::of(resource.resource_type) {
        Some(Resource::Topic) => alter_topic(name, &resource.configs, validate_only, call),
        Some(Resource::Broker) => {
            let broker = match name.parse::<i32>() {
                _ if name.is_empty() => ALL_BROKERS,
                Ok(id) if id == call.broker => id,
                Ok(id) => {
                    let own = call.broker;
                    let why = format!("Unexpected broker id, expected {own}, but received {id}");
                    return Err(invalid(why));
                }
                Err(_) => {
                    return Err(invalid(format!("Node id must be an integer, but it is: {name}")));
                }
            };
            alter_broker(broker, &resource.configs, validate_only, call.state)
        }
        None => Err(invalid(format!("Unknown resource type {}", resource.resource_type))),
    }
}

fn alter_topic(
    name: &str,
    changes: &[AlterableConfig],
    validate_only: bool,
    call: &mut Call<'_>,
) -> Result<(), TopicError> {
    if name.is_empty() {
        return Err(invalid("Default topic resources are not allowed."));
    }
    let release = call.state.release;
    let Some(topic) = call.state.topic_mut(name) else {
        let message = format!("The topic '{name}' does not exist.");
        return Err(TopicError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message));
    };
    let changed = apply(&topic.configs, changes, |name| Setting::find(name, release))?;
    let checked = check_configs(&changed, release)?;
    if !validate_only {
        topic.configs = checked;
        call.state.changed();
    }
    Ok(())
}

fn alter_broker(
    broker: i32,
    changes: &[AlterableConfig],
    validate_only: bool,
    state: &mut State,
) -> Result<(), TopicError> {
    let release = state.release;
    let fixed = changes.iter().map(|change| change.name.as_str());
    let fixed: Vec<&str> = fixed.filter(|name| state.is_fixed(name)).collect();
    if !fixed.is_empty() {
        let names = fixed.join(", ");
        return Err(invalid(format!("Cannot update these configs dynamically: [{names}]")));
    }
    let known = |name: &str| Setting::of_brokers(name, release);
    let mut changed = apply(state.set_for_brokers(broker), changes, known)?;
    for change in changes {
        let Some(value) = changed.get_mut(&change.name) else { continue };
        match known(&change.name) {
            Some(setting) => *value = setting.parse_as(&change.name, value).map_err(invalid)?,
            None if change.name.len().max(value.len()) > UNKNOWN_BYTES_MAX => {
                return Err(invalid(format!("A setting of more than {UNKNOWN_BYTES_MAX} bytes")));
            }
            None => {}
        }
    }
    if changed.len() > BROKER_SETTINGS_MAX {
        return Err(invalid(format!("More than {BROKER_SETTINGS_MAX} settings of brokers")));
    }
    if !validate_only {
        state.set_brokers(broker, changed);
    }
    Ok(())
}

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// What is set after `changes`.
fn apply(
    present: &BTreeMap<String, String>,
    changes: &[AlterableConfig],
    known: impl Fn(&str) -> Option<&'static Setting>,
) -> Result<BTreeMap<String, String>, TopicError> {
    let mut result = present.clone();
    for change in changes {
        let name = change.name.as_str();
        let value = change.value.clone().unwrap_or_default();
        match change.config_operation {
            SET => {
                result.insert(name.to_owned(), value);
            }
            DELETE => {
                result.remove(name);
            }
            operation @ (APPEND | SUBTRACT) => {
                let Some(setting) = known(name).filter(|setting| setting.is_list()) else {
                    let verb = if operation == APPEND { "APPEND to" } else { "SUBTRACT from" };
                    return Err(TopicError::new(
                        ErrorCode::INVALID_CONFIG,
                        format!("Can't {verb} key {name} because its type is not LIST."),
                    ));
                };
                let before = result.get(name).map_or(setting.default, String::as_str).to_owned();
                let given = parts(&value);
                let mut after = parts(&before);
                if operation == APPEND {
                    after.extend(given.iter().filter(|part| !parts(&before).contains(part)));
                } else {
                    after.retain(|part| !given.contains(part));
                }
                result.insert(name.to_owned(), after.join(","));
            }
            _ => return Err(TopicError::new(ErrorCode::UNKNOWN_SERVER_ERROR, "")),
        }
    }
    Ok(result)
}
