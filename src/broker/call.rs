//! What a handler gets and gives back.
//!
//! [`Api`] is implemented by each request in its own file under `api/`. A handler is pure but for the
//! state it is given: it reads no clock ([`Call::now`]), does no I/O and never waits; to wait it
//! returns [`Outcome::Wait`] and is called again, on the same request, when the state has changed
//! or the time is there. It may leave notes for itself in the request.

use std::time::{Duration, Instant};

use super::faults::Spoiled;
use super::sasl;
use super::state::State;
use crate::protocol::{ErrorCode, Request};

/// A request that the broker serves.
pub(super) trait Api: Request {
    /// Serves it.
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<Self::Response>;

    /// The answer that gives `error` for everything that the request names.
    fn refuse(&self, error: ErrorCode, call: &mut Call<'_>) -> Self::Response;

    /// Whether the request has an answer at all; Produce with acks 0 has none.
    fn has_answer(&self) -> bool {
        true
    }

    /// The topics that the request names (ids resolved), for faults of one topic.
    fn topics(&self, state: &State) -> Vec<String> {
        let _ = state;
        Vec::new()
    }

    /// Puts a throttle time into an answer that has room for one (KIP-219).
    fn throttle(response: &mut Self::Response, time_ms: i32) {
        let _ = (response, time_ms);
    }

    /// Damages the records in an answer that has some.
    fn spoil(response: &mut Self::Response, how: &Spoiled) {
        let _ = (response, how);
    }
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Outcome<R> {
    /// The answer.
    Answer(R),
    /// The answer, after which the connection is closed. Says why, for the log.
    AnswerAndClose(R, &'static str),
    /// Not yet: again when the state has changed, and at this moment at the latest.
    Wait(Instant),
    /// No answer, as to Produce with acks 0; the connection stays.
    Silence,
    /// The connection is closed, as Kafka does where the protocol has no answer. Says why, for the log.
    Close(&'static str),
}

/// One request on its way through a handler.
pub(super) struct Call<'a> {
    /// What the cluster knows, locked.
    pub(super) state: &'a mut State,
    /// The broker that was asked.
    pub(super) broker: i32,
    /// The version of request and answer.
    pub(super) version: i16,
    /// Who asks.
    pub(super) peer: &'a mut Peer,
    /// Monotonic time, the same for the whole run of the handler.
    pub(super) now: Instant,
    /// When the request came: deadlines count from here, in every run.
    pub(super) arrived: Instant,
    /// Wall-clock time in milliseconds, for what Kafka stores.
    pub(super) now_ms: i64,
    /// Whether this is the request's first run.
    pub(super) first: bool,
}

impl Call<'_> {
    /// `ms` after the arrival of the request; a negative number is none.
    pub(super) fn deadline(&self, ms: i32) -> Instant {
        self.arrived + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    }
}

/// What is known of the client behind a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    /// Counts the connections of the cluster, from 1.
    pub(super) connection: u64,
    /// Its address, as Kafka writes it: `/127.0.0.1`.
    pub(super) host: String,
    /// As the present request says.
    pub(super) client_id: Option<String>,
    /// Who it is, where that is asked.
    pub(super) sasl: sasl::Session,
}
