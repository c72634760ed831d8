//! `ListOffsets`, API 2, versions 0-11: finds offsets by place or by time.
//!
//! Places: -1 the end (the last stable offset for a reader of committed records), -2 the start, -3 the
//! record with the latest timestamp (from version 7 on), -4 the start on the broker's own disk (8), -5
//! and -6 places in remote storage (9, 11), which there is none of. The order of the checks is that
//! of `Partition.fetchOffsetForTimestamp`.

use std::collections::BTreeSet;

use super::super::call::{Api, Call, Outcome};
use super::super::state::{Log, State, Wanted};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopic, ListOffsetsTopicResponse,
};
use crate::protocol::records::RecordBatch;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;
/// The first version whose answer has a place for the leader epoch.
const LEADER_EPOCH_FROM: i16 = 4;
/// The replica that stands for somebody who looks at things.
const DEBUGGING: i32 = -2;

impl Api for ListOffsetsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<ListOffsetsResponse> {
        if !matches!(self.isolation_level, 0 | 1) {
            // An exception, of which the client learns no more.
            return Outcome::Answer(self.refuse(ErrorCode::UNKNOWN_SERVER_ERROR, call));
        }
        let mut seen = BTreeSet::new();
        let mut repeated = BTreeSet::new();
        for topic in &self.topics {
            for partition in &topic.partitions {
                let place = (topic.name.as_str(), partition.partition_index);
                if !seen.insert(place) {
                    repeated.insert(place);
                }
            }
        }
        let topics = self.topics.iter().map(|topic| {
            let rows = topic.partitions.iter().filter_map(|asked| {
                let place = (topic.name.as_str(), asked.partition_index);
                if call.version > 0 && repeated.contains(&place) {
                    let once = seen.remove(&place);
                    return once.then(|| failed(place.1, ErrorCode::INVALID_REQUEST));
                }
                Some(list(self, &topic.name, asked, call))
            });
            answered(topic, rows.collect())
        });
        Outcome::Answer(ListOffsetsResponse { topics: topics.collect(), ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> ListOffsetsResponse {
        let topic = |topic: &ListOffsetsTopic| {
            let rows = topic.partitions.iter().map(|asked| failed(asked.partition_index, error));
            answered(topic, rows.collect())
        };
        ListOffsetsResponse {
            topics: self.topics.iter().map(topic).collect(),
            ..Default::default()
        }
    }

    fn topics(&self, _state: &State) -> Vec<String> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }

    fn throttle(response: &mut ListOffsetsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn answered(
    topic: &ListOffsetsTopic,
    partitions: Vec<ListOffsetsPartitionResponse>,
) -> ListOffsetsTopicResponse {
    ListOffsetsTopicResponse { name: topic.name.clone(), partitions, ..Default::default() }
}

fn failed(partition_index: i32, error_code: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse { partition_index, error_code, ..Default::default() }
}

/// The lowest number that stands for a place in `version`.
fn lowest_place(version: i16) -> i64 {
    match version {
        11.. => EARLIEST_PENDING_UPLOAD,
        9.. => LATEST_TIERED,
        8 => EARLIEST_LOCAL,
        7 => MAX_TIMESTAMP,
        _ => EARLIEST,
    }
}

fn list(
    request: &ListOffsetsRequest,
    topic: &str,
    asked: &ListOffsetsPartition,
    call: &Call<'_>,
) -> ListOffsetsPartitionResponse {
    let index = asked.partition_index;
    if asked.timestamp < lowest_place(call.version) && call.version > 0 {
        return failed(index, ErrorCode::UNSUPPORTED_VERSION);
    }
    let leader_only = request.replica_id != DEBUGGING;
    let epoch = asked.current_leader_epoch;
    let wanted = Wanted { topic, partition: index, epoch, leader_only };
    let partition = match call.state.replica(call.broker, wanted) {
        Ok((_, partition)) => partition,
        Err(code) => return failed(index, code),
    };
    let log = &partition.log;
    if call.version == 0 {
        let old_style_offsets = old_style(log, asked);
        return ListOffsetsPartitionResponse {
            old_style_offsets,
            ..failed(index, ErrorCode::NONE)
        };
    }
    let until = if request.isolation_level == 1 { log.last_stable() } else { log.end() };
    let none = (-1, -1, -1);
    let (timestamp, offset, leader_epoch) = match asked.timestamp {
        LATEST => (-1, until, partition.leader_epoch),
        EARLIEST | EARLIEST_LOCAL => (-1, log.start(), log.epochs.at_start(log.start())),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => none,
        time => {
            let found =
                if time == MAX_TIMESTAMP { log.find_latest_time() } else { log.find_time(time) };
            found
                .filter(|found| found.offset < until)
                .map_or(none, |found| (found.timestamp, found.offset, found.leader_epoch))
        }
    };
    let tells_epoch = call.version >= LEADER_EPOCH_FROM;
    ListOffsetsPartitionResponse {
        timestamp,
        offset,
        leader_epoch: if tells_epoch { leader_epoch } else { -1 },
        ..failed(index, ErrorCode::NONE)
    }
}

/// The starts of segments, newest first, with the end of the log before them: version 0. The log
/// counts as one segment.
fn old_style(log: &Log, asked: &ListOffsetsPartition) -> Vec<i64> {
    let newest = log.batches().map(RecordBatch::max_timestamp).max().unwrap_or(-1);
    let all = match asked.timestamp {
        LATEST if log.bytes() > 0 => vec![log.end(), log.start()],
        LATEST | EARLIEST => vec![log.start()],
        time if log.bytes() > 0 && newest <= time => vec![log.end(), log.start()],
        time if log.bytes() == 0 || newest <= time => vec![log.start()],
        _ => Vec::new(),
    };
    let count = usize::try_from(asked.max_num_offsets).unwrap_or(0);
    all.into_iter().take(count).collect()
}
