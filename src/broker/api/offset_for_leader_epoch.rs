//! `OffsetForLeaderEpoch`, API 23, versions 0-4: where a leader epoch ends (KIP-101, KIP-320).
//!
//! Only the leader answers, by the epochs that its log knows: see [`Epochs`](super::super::state).

use super::super::call::{Api, Call, Outcome};
use super::super::state::{State, Wanted};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    LeaderEpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};

impl Api for OffsetForLeaderEpochRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<OffsetForLeaderEpochResponse> {
        let topics = self.topics.iter().map(|topic| {
            answered(topic, |asked| match find(&topic.topic, asked, call) {
                Ok((leader_epoch, end_offset)) => LeaderEpochEndOffset {
                    partition: asked.partition,
                    leader_epoch,
                    end_offset,
                    ..Default::default()
                },
                Err(code) => failed(asked.partition, code),
            })
        });
        let topics = topics.collect();
        Outcome::Answer(OffsetForLeaderEpochResponse { topics, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> OffsetForLeaderEpochResponse {
        let topics = self.topics.iter();
        let topics = topics.map(|topic| answered(topic, |asked| failed(asked.partition, error)));
        OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        self.topics.iter().map(|topic| topic.topic.clone()).collect()
    }

    fn throttle(response: &mut OffsetForLeaderEpochResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn find(
    topic: &str,
    asked: &OffsetForLeaderPartition,
    call: &Call<'_>,
) -> Result<(i32, i64), ErrorCode> {
    let (partition, epoch) = (asked.partition, asked.current_leader_epoch);
    let wanted = Wanted { topic, partition, epoch, leader_only: true };
    let (_, partition) = call.state.replica(call.broker, wanted)?;
    Ok(partition.log.epochs.end_of(asked.leader_epoch, partition.log.end()))
}

fn answered(
    topic: &OffsetForLeaderTopic,
    row: impl Fn(&OffsetForLeaderPartition) -> LeaderEpochEndOffset,
) -> OffsetForLeaderTopicResult {
    OffsetForLeaderTopicResult {
        topic: topic.topic.clone(),
        partitions: topic.partitions.iter().map(row).collect(),
        ..Default::default()
    }
}

fn failed(partition: i32, error_code: ErrorCode) -> LeaderEpochEndOffset {
    LeaderEpochEndOffset { error_code, partition, ..Default::default() }
}
