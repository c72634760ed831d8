//! `FindCoordinator`, API 10, versions 0-6: which broker coordinates groups (key type 0) and
//! transactional ids (1).
//!
//! Any broker answers: one key up to version 3, many from version 4 on. Share partitions (2) and unknown
//! types are refused with `INVALID_REQUEST`; `COORDINATOR_NOT_AVAILABLE` where no broker runs. Unlike in
//! Kafka the first question of a cluster's life has its answer at once: there is no internal topic to
//! be made.

use super::super::call::{Api, Call, Outcome};
use super::super::state::State;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

impl Api for FindCoordinatorRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<FindCoordinatorResponse> {
        if ![GROUP, TRANSACTION].contains(&self.key_type) {
            return Outcome::Answer(self.refuse(ErrorCode::INVALID_REQUEST, call));
        }
        let state = &*call.state;
        if call.version < 4 {
            let Some((node_id, port)) = find(state, &self.key) else {
                return Outcome::Answer(self.refuse(ErrorCode::COORDINATOR_NOT_AVAILABLE, call));
            };
            return Outcome::Answer(FindCoordinatorResponse {
                // Kafka's text for no error, null being legal.
                error_message: Some("NONE".to_owned()),
                node_id,
                host: "127.0.0.1".to_owned(),
                port,
                ..Default::default()
            });
        }
        let row = |key: &String| match find(state, key) {
            Some((node_id, port)) => Coordinator {
                key: key.clone(),
                node_id,
                host: "127.0.0.1".to_owned(),
                port,
                ..Default::default()
            },
            None => refused(key, ErrorCode::COORDINATOR_NOT_AVAILABLE),
        };
        let coordinators = self.coordinator_keys.iter().map(row).collect();
        Outcome::Answer(FindCoordinatorResponse { coordinators, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, call: &mut Call<'_>) -> FindCoordinatorResponse {
        if call.version < 4 {
            return FindCoordinatorResponse {
                error_code: error,
                error_message: Some(message(error)),
                node_id: -1,
                port: -1,
                ..Default::default()
            };
        }
        let row = |key: &String| Coordinator {
            error_message: Some(message(error)),
            ..refused(key, error)
        };
        FindCoordinatorResponse {
            coordinators: self.coordinator_keys.iter().map(row).collect(),
            ..Default::default()
        }
    }

    fn throttle(response: &mut FindCoordinatorResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

/// Id and port of the coordinator.
fn find(state: &State, key: &str) -> Option<(i32, i32)> {
    let coordinator = state.coordinator(key)?;
    let (id, node) = state.live().find(|(id, _)| *id == coordinator)?;
    Some((id, i32::from(node.port)))
}

fn refused(key: &str, error_code: ErrorCode) -> Coordinator {
    Coordinator { key: key.to_owned(), node_id: -1, port: -1, error_code, ..Default::default() }
}

/// Kafka's words for the errors that clients show here.
fn message(error: ErrorCode) -> String {
    match error {
        ErrorCode::COORDINATOR_NOT_AVAILABLE => "The coordinator is not available.".to_owned(),
        ErrorCode::INVALID_REQUEST => {
            "This most likely occurs because of a request being malformed by the client library or the \
             message was sent to an incompatible broker. See the broker logs for more details."
                .to_owned()
        }
        other => other.to_string(),
    }
}
