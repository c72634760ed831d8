//! Throttling by brokers (KIP-219): until when nothing may be sent to whom.
//!
//! From a certain version on of each API a broker answers at once and says for how long it will
//! not read from the client; the client waits. Below that version the broker has delayed the answer
//! already, and nothing is left to wait for. The wait is no failure of the broker and does not
//! count against the time-out of a request: it is spent before the request is sent.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::protocol::ApiKey;
use crate::protocol::messages::{
    ApiVersionsResponse, CreateTopicsResponse, DeleteTopicsResponse, FetchResponse,
    FindCoordinatorResponse, InitProducerIdResponse, ListOffsetsResponse, MetadataResponse,
    OffsetCommitResponse, OffsetFetchResponse, ProduceResponse,
};

/// A response that carries a throttle time.
pub(crate) trait Throttled {
    /// How long the broker asks to wait, in milliseconds.
    fn throttle_time_ms(&self) -> i32;
}

macro_rules! throttled {
    ($($response:ident)+) => {$(
        impl Throttled for $response {
            fn throttle_time_ms(&self) -> i32 {
                self.throttle_time_ms
            }
        }
    )+};
}

throttled! {
    ApiVersionsResponse
    CreateTopicsResponse
    DeleteTopicsResponse
    FetchResponse
    FindCoordinatorResponse
    InitProducerIdResponse
    ListOffsetsResponse
    MetadataResponse
    OffsetCommitResponse
    OffsetFetchResponse
    ProduceResponse
}

/// When each broker may be sent to again.
#[derive(Clone, Debug)]
pub(crate) struct Throttles<K> {
    until: HashMap<K, Instant>,
}

impl<K: Hash + Eq + Clone> Throttles<K> {
    /// Nobody throttles.
    pub(crate) fn new() -> Self {
        Self { until: HashMap::new() }
    }

    /// An answer to `version` of `api` from `key` asked to wait for `throttle_time_ms`. The moment
    /// never moves backwards.
    pub(crate) fn note(
        &mut self,
        key: &K,
        api: ApiKey,
        version: i16,
        throttle_time_ms: i32,
        now: Instant,
    ) {
        let client_waits = api.facts().is_none_or(|facts| facts.client_throttles.contains(version));
        let Ok(wait_ms @ 1..) = u64::try_from(throttle_time_ms) else { return };
        if !client_waits {
            return;
        }
        self.until.retain(|_, until| *until > now);
        let until = now + Duration::from_millis(wait_ms);
        let known = self.until.entry(key.clone()).or_insert(until);
        *known = until.max(*known);
    }

    /// Until when nothing may be sent to `key`.
    pub(crate) fn until(&self, key: &K, now: Instant) -> Option<Instant> {
        self.until.get(key).copied().filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_broker_is_left_alone_for_the_time_it_asked_and_others_are_not_affected() {
        let (mut throttles, now) = (Throttles::new(), clock::now());
        throttles.note(&1, ApiKey::METADATA, 9, 3000, now);
        throttles.note(&1, ApiKey::METADATA, 9, 100, now);
        assert_eq!(throttles.until(&1, now), Some(now + Duration::from_secs(3)));
        assert_eq!(throttles.until(&2, now), None);
        assert_eq!(throttles.until(&1, now + Duration::from_secs(3)), None);
    }

    #[test]
    fn an_older_version_was_delayed_by_the_broker_itself() {
        let (mut throttles, now) = (Throttles::new(), clock::now());
        throttles.note(&1, ApiKey::METADATA, 5, 3000, now);
        assert_eq!(throttles.until(&1, now), None);
        throttles.note(&1, ApiKey::METADATA, 6, 3000, now);
        assert!(throttles.until(&1, now).is_some());
        throttles.note(&2, ApiKey::METADATA, 6, -5, now);
        assert_eq!(throttles.until(&2, now), None);
    }
}
