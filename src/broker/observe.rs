//! What was asked: every request that arrived, in order, for tests to look at.
//!
//! The last [`OBSERVED_MAX`] requests are kept; a request is kept before it is served, so that one that
//! never gets an answer is seen too.

use std::collections::VecDeque;

use crate::protocol::{ApiKey, Bytes, Decoded, Message, RequestHeader};

/// How many requests are kept; older ones go.
pub(super) const OBSERVED_MAX: usize = 10_000;
/// How many bytes of bodies are kept; older requests go.
pub(super) const OBSERVED_BYTES_MAX: usize = 16 << 20;

/// A request that arrived at a broker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Observed {
    /// Counts the requests of the cluster, from 0.
    pub number: u64,
    /// The broker that got it.
    pub broker: i32,
    /// Counts the connections of the cluster, from 1.
    pub connection: u64,
    /// API, version, correlation id and client id.
    pub header: RequestHeader,
    /// The body, in the version of the header.
    pub body: Bytes,
}

impl Observed {
    /// The API.
    pub fn api(&self) -> ApiKey {
        self.header.api
    }

    /// The body as a message.
    ///
    /// # Errors
    /// When it is another API's, or the bytes are not such a message.
    pub fn decode<M: Message>(&self) -> Decoded<M> {
        M::decode_all(&self.body, self.header.version)
    }
}

/// The requests that are kept.
#[derive(Debug, Default)]
pub(super) struct Log {
    kept: VecDeque<Observed>,
    bytes: usize,
    count: u64,
}

impl Log {
    pub(super) fn add(&mut self, broker: i32, connection: u64, header: RequestHeader, body: Bytes) {
        self.bytes += body.len();
        self.kept.push_back(Observed { number: self.count, broker, connection, header, body });
        self.count += 1;
        while self.kept.len() > OBSERVED_MAX || self.bytes > OBSERVED_BYTES_MAX {
            let Some(old) = self.kept.pop_front() else { break };
            self.bytes -= old.body.len();
        }
    }

    /// The requests from `number` on that are still kept.
    pub(super) fn since(&self, number: u64) -> Vec<Observed> {
        self.kept.iter().filter(|observed| observed.number >= number).cloned().collect()
    }

    /// How many there were in all.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}
