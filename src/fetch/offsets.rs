//! Looking offsets up: the first, the last, the first since a time.
//!
//! One ListOffsets request per leader carries all of its partitions. A leader that does not answer
//! costs its own partitions only: the others get their answers, each attempt takes its fair share
//! of the time that is left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{self, Deadline};
use crate::cluster::{Cluster, Target};
use crate::config::IsolationLevel;
use crate::error::{Error, ErrorKind, Recovery, Result};
use crate::protocol::messages::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsTopic,
};
use crate::protocol::{ApiKey, ErrorCode, VersionRange};

/// The place or time of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum At {
    /// The first offset that is still in the log.
    Earliest,
    /// The end: the offset of the next record (under `read_committed`, of the first open
    /// transaction).
    Latest,
    /// The first record with this timestamp or a later one, in milliseconds since 1970.
    Time(i64),
}

impl At {
    /// As ListOffsets writes it.
    fn timestamp(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::Time(ms) => ms,
        }
    }
}

/// A partition's offset, as looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionOffset {
    /// The partition.
    pub partition: i32,
    /// The offset; `None` when no record is as late as the time asked for.
    pub offset: Option<i64>,
}

/// Partitions of any topics, by name.
pub(crate) type Wanted = (Arc<str>, i32);

/// Looks up one offset.
///
/// # Errors
/// What kept the leader from answering until `deadline`.
pub(crate) fn list_one(
    cluster: &Cluster,
    topic: &str,
    partition: i32,
    at: At,
    isolation: IsolationLevel,
    deadline: Deadline,
) -> Result<Option<i64>> {
    let wanted = [(Arc::from(topic), partition)];
    let mut found = list(cluster, &wanted, at, isolation, deadline);
    found.pop().expect("one answer for each partition that was asked for")
}

/// Looks up the offsets of many partitions; one result for each, in the order asked for. Blocks
/// until `deadline` at most.
pub(crate) fn list(
    cluster: &Cluster,
    wanted: &[Wanted],
    at: At,
    isolation: IsolationLevel,
    deadline: Deadline,
) -> Vec<Result<Option<i64>>> {
    let mut results: Vec<Option<Result<Option<i64>>>> = vec![None; wanted.len()];
    let mut last_error: Vec<Option<Error>> = vec![None; wanted.len()];
    let outcome = cluster.retry("list offsets", deadline, |_| {
        let open: Vec<usize> = (0..wanted.len()).filter(|i| results[*i].is_none()).collect();
        let mut failure = None;
        for (index, result) in list_once(cluster, wanted, &open, at, isolation, deadline) {
            match result {
                Ok(offset) => results[index] = Some(Ok(offset)),
                Err(error) if error.recovery() == Recovery::Fail => {
                    results[index] = Some(Err(error));
                }
                Err(error) => {
                    last_error[index] = Some(error.clone());
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    });
    let at_the_end = outcome.err();
    let finished = results.into_iter().zip(last_error).zip(wanted);
    finished
        .map(|((result, error), (topic, partition))| {
            result.unwrap_or_else(|| {
                let error = error.or_else(|| at_the_end.clone());
                let error = error.unwrap_or_else(|| Error::new(ErrorKind::Timeout, "no answer"));
                Err(error.with_partition(topic, *partition))
            })
        })
        .collect()
}

/// As [`list`], but one attempt only: for a caller that comes back anyway.
pub(crate) fn list_now(
    cluster: &Cluster,
    wanted: &[Wanted],
    at: At,
    isolation: IsolationLevel,
    deadline: Deadline,
) -> Vec<Result<Option<i64>>> {
    let missing = || Err(Error::new(ErrorKind::Timeout, "no answer"));
    let mut results: Vec<_> = wanted.iter().map(|_| missing()).collect();
    let all: Vec<usize> = (0..wanted.len()).collect();
    for (index, result) in list_once(cluster, wanted, &all, at, isolation, deadline) {
        results[index] = result;
    }
    results
}

/// One attempt for the partitions at the indices `open`.
fn list_once(
    cluster: &Cluster,
    wanted: &[Wanted],
    open: &[usize],
    at: At,
    isolation: IsolationLevel,
    deadline: Deadline,
) -> Vec<(usize, Result<Option<i64>>)> {
    let mut answers = Vec::with_capacity(open.len());
    let mut by_leader: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for &index in open {
        let (topic, partition) = &wanted[index];
        match leader_of(cluster, topic, *partition, deadline) {
            Ok(leader) => by_leader.entry(leader).or_default().push(index),
            Err(error) => answers.push((index, Err(error))),
        }
    }
    let mut leaders_left = by_leader.len() as u32;
    for (leader, indices) in by_leader {
        let now = clock::now();
        let share = deadline.remaining(now) / leaders_left.max(1);
        leaders_left -= 1;
        let until = Deadline::after(now, share.max(Duration::from_millis(1)));
        ask_leader(cluster, leader, wanted, &indices, at, isolation, until, &mut answers);
    }
    answers
}

/// The leader by what is known now; unknown topics are looked up.
fn leader_of(cluster: &Cluster, topic: &str, partition: i32, deadline: Deadline) -> Result<i32> {
    let info = cluster.topic(topic, deadline)?;
    let Some(info) = info.partition(partition) else {
        let (endpoint, _) = cluster.leader(topic, partition, deadline)?;
        return endpoint.id.ok_or_else(|| no_leader(topic, partition));
    };
    info.leader.ok_or_else(|| no_leader(topic, partition))
}

fn no_leader(topic: &str, partition: i32) -> Error {
    Error::new(ErrorKind::NoLeader, "the partition has no leader").with_partition(topic, partition)
}

#[expect(clippy::too_many_arguments, reason = "one request, described once")]
fn ask_leader(
    cluster: &Cluster,
    leader: i32,
    wanted: &[Wanted],
    indices: &[usize],
    at: At,
    isolation: IsolationLevel,
    deadline: Deadline,
    answers: &mut Vec<(usize, Result<Option<i64>>)>,
) {
    let committed = isolation == IsolationLevel::ReadCommitted;
    // Only version 2 and later know isolation levels.
    let versions = VersionRange { min: if committed { 2 } else { 0 }, max: i16::MAX };
    let answer = cluster.attempt::<ListOffsetsRequest, _>(
        Target::Broker(leader),
        versions,
        deadline,
        |version| Ok(request(cluster, version, wanted, indices, at, committed, deadline)),
    );
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            cluster.request_refresh();
            answers.extend(indices.iter().map(|index| (*index, Err(error.clone()))));
            return;
        }
    };
    for &index in indices {
        let (topic, partition) = &wanted[index];
        let of_topic = answer.response.topics.iter().find(|entry| *entry.name == **topic);
        let entry = of_topic
            .and_then(|entry| entry.partitions.iter().find(|p| p.partition_index == *partition));
        let result = match entry {
            Some(entry) => read(entry, answer.version, at),
            None => Err(Error::new(ErrorKind::Protocol, "the answer lacks the partition")),
        };
        let result = result.map_err(|error| {
            error
                .with_partition(topic, *partition)
                .with_api(ApiKey::LIST_OFFSETS, answer.version)
                .with_broker(&answer.endpoint)
        });
        answers.push((index, result));
    }
}

fn request(
    cluster: &Cluster,
    version: i16,
    wanted: &[Wanted],
    indices: &[usize],
    at: At,
    committed: bool,
    deadline: Deadline,
) -> ListOffsetsRequest {
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for &index in indices {
        let (topic, partition) = &wanted[index];
        let mut entry = ListOffsetsPartition {
            partition_index: *partition,
            timestamp: at.timestamp(),
            ..ListOffsetsPartition::default()
        };
        let known = cluster.cached_topic(topic);
        let epoch = known
            .as_deref()
            .and_then(|info| info.partition(*partition))
            .and_then(|info| info.leader_epoch);
        if version >= 4
            && let Some(epoch) = epoch
        {
            entry.current_leader_epoch = epoch;
        }
        topics.entry(topic).or_default().push(entry);
    }
    let topics = topics.into_iter().map(|(name, partitions)| ListOffsetsTopic {
        name: name.to_owned(),
        partitions,
        ..ListOffsetsTopic::default()
    });
    let mut request = ListOffsetsRequest {
        replica_id: -1,
        topics: topics.collect(),
        ..ListOffsetsRequest::default()
    };
    if version >= 2 {
        request.isolation_level = i8::from(committed);
    }
    if version >= 10 {
        request.timeout_ms = i32::try_from(deadline.left().as_millis()).unwrap_or(i32::MAX);
    }
    request
}

/// What a partition's part of the answer says. -1 is "none", and never an offset.
fn read(entry: &ListOffsetsPartitionResponse, version: i16, at: At) -> Result<Option<i64>> {
    if entry.error_code == ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT {
        return Ok(None);
    }
    if !entry.error_code.is_ok() {
        return Err(Error::from_code(entry.error_code, None));
    }
    let offset = match version {
        0 => entry.old_style_offsets.first().copied(),
        _ => Some(entry.offset),
    };
    match offset.filter(|offset| *offset >= 0) {
        Some(offset) => Ok(Some(offset)),
        None if matches!(at, At::Time(_)) => Ok(None),
        None => Err(Error::new(ErrorKind::Protocol, "the broker gave no offset")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(offset: i64) -> ListOffsetsPartitionResponse {
        ListOffsetsPartitionResponse { offset, ..Default::default() }
    }

    /// "None" is no offset (dpkp/kafka-python#2030, librdkafka#1957).
    #[test]
    fn minus_one_is_none_and_never_an_offset() {
        assert_eq!(read(&entry(-1), 1, At::Time(5)).expect("none"), None);
        assert_eq!(read(&entry(7), 1, At::Time(5)).expect("found"), Some(7));
        assert!(read(&entry(-1), 1, At::Latest).is_err());
        let old = |offsets: &[i64]| ListOffsetsPartitionResponse {
            old_style_offsets: offsets.to_vec(),
            ..Default::default()
        };
        assert_eq!(read(&old(&[]), 0, At::Time(5)).expect("none"), None);
        assert_eq!(read(&old(&[40, 20]), 0, At::Latest).expect("found"), Some(40));
    }

    #[test]
    fn a_format_without_times_has_no_record_since_a_time() {
        let mut old = entry(-1);
        old.error_code = ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT;
        assert_eq!(read(&old, 1, At::Time(5)).expect("none"), None);
        old.error_code = ErrorCode::NOT_LEADER_OR_FOLLOWER;
        assert!(read(&old, 1, At::Time(5)).unwrap_err().is_retriable());
    }
}
