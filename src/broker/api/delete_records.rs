//! `DeleteRecords`, API 21, versions 0-2: moves the start of logs forward (KIP-107).
//!
//! Offset -1 stands for the end. A topic that is only compacted refuses
//! (`Partition.deleteRecordsOnLeader`).

use super::super::call::{Api, Call, Outcome};
use super::super::state::{State, Wanted};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest,
    DeleteRecordsResponse, DeleteRecordsTopic, DeleteRecordsTopicResult,
};

impl Api for DeleteRecordsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<DeleteRecordsResponse> {
        let topics = self.topics.iter().map(|topic| {
            answered(topic, |asked| match delete(&topic.name, asked, call) {
                Ok(low_watermark) => DeleteRecordsPartitionResult {
                    partition_index: asked.partition_index,
                    low_watermark,
                    ..Default::default()
                },
                Err(code) => failed(asked.partition_index, code),
            })
        });
        let topics = topics.collect();
        Outcome::Answer(DeleteRecordsResponse { topics, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> DeleteRecordsResponse {
        let topics = self.topics.iter();
        let topics =
            topics.map(|topic| answered(topic, |asked| failed(asked.partition_index, error)));
        DeleteRecordsResponse { topics: topics.collect(), ..Default::default() }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }

    fn throttle(response: &mut DeleteRecordsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn delete(
    topic: &str,
    asked: &DeleteRecordsPartition,
    call: &mut Call<'_>,
) -> Result<i64, ErrorCode> {
    if topic.starts_with("__") {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    let release = call.state.release;
    let wanted = Wanted::of_leader(topic, asked.partition_index);
    let (rules, partition) = call.state.replica_mut(call.broker, wanted)?;
    if !rules.deletes {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    let end = partition.log.end();
    let offset = if asked.offset == -1 { end } else { asked.offset };
    if !(0..=end).contains(&offset) {
        return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
    }
    let moved = partition.log.trim_start(offset, release);
    let start = partition.log.start();
    if moved {
        call.state.changed();
    }
    Ok(start)
}

fn answered(
    topic: &DeleteRecordsTopic,
    row: impl FnMut(&DeleteRecordsPartition) -> DeleteRecordsPartitionResult,
) -> DeleteRecordsTopicResult {
    DeleteRecordsTopicResult {
        name: topic.name.clone(),
        partitions: topic.partitions.iter().map(row).collect(),
        ..Default::default()
    }
}

fn failed(partition_index: i32, error_code: ErrorCode) -> DeleteRecordsPartitionResult {
    DeleteRecordsPartitionResult {
        partition_index,
        low_watermark: -1,
        error_code,
        ..Default::default()
    }
}
