//! `DescribeConfigs`, API 32, versions 0-4: the settings of topics and brokers.
//!
//! A topic's by any broker: all settings of the release with value, type and source, and with the
//! settings that stand behind when they are asked for. A broker's by that broker (the empty name, what was
//! set for all of them, by any): those that topics take their defaults from, and what the cluster was built
//! with. Other resources (loggers, groups, client metrics) are refused. The texts of `TopicConfig` are not
//! here: documentation is null.

use super::super::call::{Api, Call, Outcome};
use super::super::state::{Described, Resource, Source, State, TopicError, check_name};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    CreatableTopicConfigs, DescribeConfigsRequest, DescribeConfigsResource,
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult,
    DescribeConfigsSynonym,
};

impl Api for DescribeConfigsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<DescribeConfigsResponse> {
        let results = self.resources.iter().map(|resource| match describe(resource, call) {
            Ok(described) => DescribeConfigsResult {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                configs: self.rows(resource, described, call.version),
                ..Default::default()
            },
            Err(error) => refused(resource, error),
        });
        Outcome::Answer(DescribeConfigsResponse {
            results: results.collect(),
            ..Default::default()
        })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> DescribeConfigsResponse {
        let row = |resource| refused(resource, TopicError::new(error, error.to_string()));
        DescribeConfigsResponse {
            results: self.resources.iter().map(row).collect(),
            ..Default::default()
        }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        let topics = self
            .resources
            .iter()
            .filter(|resource| Resource::of(resource.resource_type) == Some(Resource::Topic));
        topics.map(|resource| resource.resource_name.clone()).collect()
    }

    fn throttle(response: &mut DescribeConfigsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn refused(resource: &DescribeConfigsResource, error: TopicError) -> DescribeConfigsResult {
    DescribeConfigsResult {
        error_code: error.code,
        error_message: Some(error.message),
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        ..Default::default()
    }
}

fn describe(
    resource: &DescribeConfigsResource,
    call: &Call<'_>,
) -> Result<Vec<Described>, TopicError> {
    let name = resource.resource_name.as_str();
    let invalid = |why: String| Err(TopicError::new(ErrorCode::INVALID_REQUEST, why));
    match Resource::of(resource.resource_type) {
        Some(Resource::Topic) => {
            check_name(name)?;
            let unknown = || TopicError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "");
            let topic = call.state.topics().get(name).ok_or_else(unknown)?;
            Ok(call.state.describe_topic(&topic.configs, call.broker))
        }
        Some(Resource::Broker) if name.is_empty() => Ok(call.state.describe_brokers()),
        Some(Resource::Broker) => match name.parse::<i32>() {
            Ok(id) if id == call.broker => Ok(call.state.describe_broker(id)),
            Ok(id) => invalid(format!(
                "Unexpected broker id, expected {} or empty string, but received {id}",
                call.broker
            )),
            Err(_) => invalid(format!("Broker id must be an integer, but it is: {name}")),
        },
        None => invalid(ErrorCode::INVALID_REQUEST.to_string()),
    }
}

impl DescribeConfigsRequest {
    fn rows(
        &self,
        resource: &DescribeConfigsResource,
        described: Vec<Described>,
        version: i16,
    ) -> Vec<DescribeConfigsResourceResult> {
        let keys = resource.configuration_keys.as_ref();
        let wanted = |one: &Described| keys.is_none_or(|keys| keys.contains(&one.name));
        let row = |one: Described| DescribeConfigsResourceResult {
            read_only: one.read_only,
            is_default: version == 0 && one.source() == Source::Default,
            config_source: one.source() as i8,
            is_sensitive: one.is_sensitive(),
            config_type: one.kind.map_or(0, |kind| kind as i8),
            documentation: None,
            value: one.value(),
            synonyms: if self.include_synonyms { synonyms(&one) } else { Vec::new() },
            name: one.name,
            ..Default::default()
        };
        described.into_iter().filter(wanted).map(row).collect()
    }
}

fn synonyms(described: &Described) -> Vec<DescribeConfigsSynonym> {
    let sensitive = described.is_sensitive();
    let row = |(name, value, source): &(String, String, Source)| DescribeConfigsSynonym {
        name: name.clone(),
        value: (!sensitive).then(|| value.clone()),
        source: *source as i8,
        ..Default::default()
    };
    described.synonyms.iter().map(row).collect()
}

/// The settings of a new topic, as `CreateTopics` tells them (KIP-525).
pub(super) fn of_new_topic(described: Vec<Described>) -> Vec<CreatableTopicConfigs> {
    let row = |one: Described| CreatableTopicConfigs {
        read_only: one.read_only,
        config_source: one.source() as i8,
        is_sensitive: one.is_sensitive(),
        value: one.value(),
        name: one.name,
        ..Default::default()
    };
    described.into_iter().map(row).collect()
}
