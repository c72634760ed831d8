//! `DeleteTopics`, API 20, versions 0-6: deletes topics with their records, at once.
//!
//! By name, or (version 6) by id; an entry with both is refused. Any broker answers.

use super::super::call::{Api, Call, Outcome};
use super::super::state::State;
use crate::protocol::messages::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use crate::protocol::{ErrorCode, Uuid};

impl Api for DeleteTopicsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<DeleteTopicsResponse> {
        let state = &mut *call.state;
        let by_name = self.topic_names.iter().map(|name| delete_name(state, name)).collect();
        let mut responses: Vec<DeletableTopicResult> = by_name;
        responses.extend(self.topics.iter().map(|topic| delete(state, topic)));
        Outcome::Answer(DeleteTopicsResponse { responses, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> DeleteTopicsResponse {
        let by_name = self.topic_names.iter().map(|name| row(Some(name), Uuid::ZERO, error));
        let rest =
            self.topics.iter().map(|topic| row(topic.name.as_deref(), topic.topic_id, error));
        DeleteTopicsResponse { responses: by_name.chain(rest).collect(), ..Default::default() }
    }

    fn topics(&self, state: &State) -> Vec<String> {
        let resolve = |topic: &DeleteTopicState| match &topic.name {
            Some(name) => Some(name.clone()),
            None => state.name_of(topic.topic_id).map(str::to_owned),
        };
        let named = self.topics.iter().filter_map(resolve);
        named.chain(self.topic_names.iter().cloned()).collect()
    }

    fn throttle(response: &mut DeleteTopicsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn delete(state: &mut State, topic: &DeleteTopicState) -> DeletableTopicResult {
    match (&topic.name, topic.topic_id) {
        (Some(name), Uuid::ZERO) => delete_name(state, name),
        (None, id) if !id.is_zero() => match state.name_of(id).map(str::to_owned) {
            Some(name) => delete_name(state, &name),
            None => row(None, id, ErrorCode::UNKNOWN_TOPIC_ID),
        },
        (name, id) => row(name.as_deref(), id, ErrorCode::INVALID_REQUEST),
    }
}

fn delete_name(state: &mut State, name: &str) -> DeletableTopicResult {
    match state.delete_topic(name) {
        Some(topic) => row(Some(name), topic.id, ErrorCode::NONE),
        None => row(Some(name), Uuid::ZERO, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    }
}

fn row(name: Option<&str>, topic_id: Uuid, error_code: ErrorCode) -> DeletableTopicResult {
    DeletableTopicResult {
        name: name.map(str::to_owned),
        topic_id,
        error_code,
        error_message: (!error_code.is_ok()).then(|| error_code.to_string()),
        ..Default::default()
    }
}
