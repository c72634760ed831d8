//! A connection without a socket: the bytes of a peer in, what it is answered out, for fuzzers.
//!
//! Runs on the caller's thread and is over when the bytes are: what would wait for another connection or
//! for time is run again at once, with the time at which the wait would end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::connection::{Connection, run};
use super::release::Release;
use super::sasl::SaslMechanism;
use super::server::{Limits, Shared};
use super::state::{Settings, State};

/// Bytes of a request, and of all records.
const BYTES_MAX: usize = 1 << 20;
const RELEASES: [Release; 5] =
    [Release::V0_11, Release::V2_1, Release::V2_8, Release::V3_9, Release::V4_4];
/// Among the bits of the first byte: whether the peer has to authenticate.
const SASL: u8 = 0x80;

/// Plays `bytes` to a new cluster of two brokers with topic `t` of two partitions; gives what was
/// answered. The first byte says which release it is and whether there is a user.
pub fn replay(bytes: &[u8]) -> Vec<u8> {
    let Some((kind, mut bytes)) = bytes.split_first() else { return Vec::new() };
    let release = RELEASES[usize::from(kind & !SASL) % RELEASES.len()];
    let settings = Settings {
        auto_create_topics: true,
        partitions: 1,
        replication: 1,
        bytes_max: BYTES_MAX,
        group_session_timeout_ms_min: 6000,
    };
    let mut state = State::new(release, settings, 1);
    state.broker_started(1, 9001);
    state.broker_started(2, 9002);
    let replicas = vec![vec![1, 2], vec![2, 1]];
    state.create_topic("t", replicas, BTreeMap::new());
    if kind & SASL != 0 {
        state.add_user(SaslMechanism::Plain, "u", "p");
    }
    let limits =
        Limits { frame_bytes_max: BYTES_MAX, connections_max: 1, idle_max: Duration::from_secs(1) };
    let mut connection = Connection::replay(1, Arc::new(Shared::new(state, limits)));
    let mut answers = Vec::new();
    let why = run(
        &mut bytes,
        |_, answer| {
            answer.pieces().for_each(|piece| answers.extend_from_slice(piece));
            Ok(())
        },
        &mut connection,
    );
    log::debug!("the replay ends: {why}");
    answers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::broker::tests::raw::frame;
    use crate::protocol::messages::{
        ApiVersionsRequest, FetchPartition, FetchRequest, FetchTopic, MetadataRequest,
    };

    fn answered(kind: u8, frames: &[Vec<u8>]) -> Vec<i32> {
        let answers = replay(&[vec![kind], frames.concat()].concat());
        let mut ids = Vec::new();
        let mut rest = answers.as_slice();
        while let Some((size, after)) = rest.split_first_chunk::<4>() {
            let (answer, after) = after.split_at(i32::from_be_bytes(*size) as usize);
            ids.push(i32::from_be_bytes(answer[..4].try_into().expect("a correlation id")));
            rest = after;
        }
        ids
    }

    #[test]
    fn requests_are_answered_in_order_and_a_long_poll_costs_no_time() {
        let partition = FetchPartition { partition_max_bytes: 1000, ..Default::default() };
        let topic =
            FetchTopic { topic: "t".to_owned(), partitions: vec![partition], ..Default::default() };
        let fetch = FetchRequest {
            max_wait_ms: i32::MAX,
            min_bytes: 1,
            max_bytes: 1000,
            topics: vec![topic],
            ..Default::default()
        };
        let frames = [
            frame(&ApiVersionsRequest::default(), 2, 1),
            frame(&fetch, 11, 2),
            frame(&MetadataRequest { topics: None, ..Default::default() }, 12, 3),
        ];
        assert_eq!(answered(4, &frames), [1, 2, 3]);
        assert_eq!(answered(4 | SASL, &frames), [1], "the others come before authentication");
        assert_eq!(answered(4, &[frames[0].clone(), vec![0; 9]]), [1]);
    }

    proptest! {
        #[test]
        fn any_body_is_answered_or_refused(
            kind: u8,
            api in 0_i16..70,
            version in 0_i16..19,
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut bytes = Vec::new();
            bytes.extend_from_slice(&api.to_be_bytes());
            bytes.extend_from_slice(&version.to_be_bytes());
            bytes.extend_from_slice(&[0, 0, 0, 7, 0xff, 0xff]);
            bytes.extend_from_slice(&body);
            let size = (bytes.len() as i32).to_be_bytes();
            let all = [&[kind & 0x7f], size.as_slice(), &bytes].concat();
            for answer in answered(all[0], &[all[1..].to_vec()]) {
                prop_assert_eq!(answer, 7);
            }
        }
    }
}
