//! A Kafka in memory for tests of organiser and workers: logs with gaps, retention, topics made
//! anew, group offsets, and calls that fail on demand. Behaves as the brokers do where the tests
//! look: a fetch below the log's start is out of range, one beyond its end waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::commit::Commit;
use super::kafka::{Each, Kafka, LogBounds, Portion, TopicFacts, UnitReader};
use super::plan::CommittedOffset;
use super::unit::{TopicPartition, UnitId};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::FetchedBatch;
use crate::protocol::Uuid;

/// Records of a portion.
const PORTION: i64 = 100;

/// The cluster; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryKafka(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    topics: HashMap<String, Topic>,
    ids: u8,
    offsets: HashMap<(String, TopicPartition), CommittedOffset>,
    /// While set, every call fails.
    down: bool,
    /// How many were read.
    portions: u64,
}

#[derive(Debug)]
struct Topic {
    id: Uuid,
    logs: Vec<Log>,
}

#[derive(Debug, Default)]
struct Log {
    start: i64,
    end: i64,
    records: BTreeSet<i64>,
}

impl MemoryKafka {
    pub(crate) fn create(&self, topic: &str, partitions: usize) {
        let mut state = self.0.lock();
        state.ids += 1;
        let id = Uuid([state.ids; 16]);
        let logs = (0..partitions).map(|_| Log::default()).collect();
        state.topics.insert(topic.to_owned(), Topic { id, logs });
    }

    pub(crate) fn delete(&self, topic: &str) {
        self.0.lock().topics.remove(topic);
    }

    pub(crate) fn add_partition(&self, topic: &str) {
        self.0.lock().topics.get_mut(topic).expect("a topic").logs.push(Log::default());
    }

    fn change<T>(&self, topic: &str, partition: usize, f: impl FnOnce(&mut Log) -> T) -> T {
        f(&mut self.0.lock().topics.get_mut(topic).expect("a topic").logs[partition])
    }

    /// Appends `count` records.
    pub(crate) fn append(&self, topic: &str, partition: usize, count: i64) {
        self.change(topic, partition, |log| {
            log.records.extend(log.end..log.end + count);
            log.end += count;
        });
    }

    /// Appends `count` offsets without records, as markers and compaction leave them.
    pub(crate) fn append_gap(&self, topic: &str, partition: usize, count: i64) {
        self.change(topic, partition, |log| log.end += count);
    }

    /// Retention takes everything before `start`.
    pub(crate) fn truncate(&self, topic: &str, partition: usize, start: i64) {
        self.change(topic, partition, |log| {
            log.start = start;
            log.records = log.records.split_off(&start);
        });
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.0.lock().down = down;
    }

    /// How many portions with records were read.
    pub(crate) fn portions(&self) -> u64 {
        self.0.lock().portions
    }

    pub(crate) fn offset(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let key = (group.to_owned(), TopicPartition::new(topic, partition).expect("legal"));
        self.0.lock().offsets.get(&key).map(|held| held.offset)
    }

    pub(crate) fn set_offset(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let key = (group.to_owned(), TopicPartition::new(topic, partition).expect("legal"));
        self.0.lock().offsets.insert(key, CommittedOffset { offset, topic_id: None });
    }

    fn state(&self) -> Result<parking_lot::MutexGuard<'_, State>> {
        let state = self.0.lock();
        if state.down {
            return Err(Error::new(ErrorKind::Connect, "the cluster is down"));
        }
        Ok(state)
    }
}

fn unknown(topic: &str) -> Error {
    Error::new(ErrorKind::UnknownTopic, "no such topic").with_topic(topic)
}

impl Kafka for MemoryKafka {
    fn topics(&self, names: &[String], _: Deadline) -> Result<HashMap<String, Result<TopicFacts>>> {
        let state = self.state()?;
        let describe = |name: &String| match state.topics.get(name) {
            None => Err(unknown(name)),
            Some(topic) => Ok(TopicFacts {
                name: name.as_str().into(),
                id: topic.id,
                partitions: topic.logs.len() as i32,
            }),
        };
        Ok(names.iter().map(|name| (name.clone(), describe(name))).collect())
    }

    fn names(&self, _: Deadline) -> Result<Vec<String>> {
        Ok(self.state()?.topics.keys().cloned().collect())
    }

    fn bounds(&self, partitions: &[TopicPartition], _: Deadline) -> Each<LogBounds> {
        let bounds = |of: &TopicPartition| {
            let state = self.state()?;
            let topic = state.topics.get(of.topic()).ok_or_else(|| unknown(of.topic()))?;
            let log = topic.logs.get(of.partition() as usize).ok_or_else(|| unknown(of.topic()))?;
            Ok(LogBounds { start: log.start, end: log.end, leader_epoch: 0 })
        };
        partitions.iter().map(|of| (of.clone(), bounds(of))).collect()
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        _: Deadline,
    ) -> Result<Each<Option<CommittedOffset>>> {
        let state = self.state()?;
        let held =
            |of: &TopicPartition| state.offsets.get(&(group.to_owned(), of.clone())).copied();
        Ok(partitions.iter().map(|of| (of.clone(), Ok(held(of)))).collect())
    }

    fn commit(&self, group: &str, commits: &[Commit], _: Deadline) -> Result<Each<()>> {
        let mut state = self.state()?;
        for commit in commits {
            let held = CommittedOffset { offset: commit.offset, topic_id: Some(commit.topic_id) };
            state.offsets.insert((group.to_owned(), commit.partition.clone()), held);
        }
        Ok(commits.iter().map(|commit| (commit.partition.clone(), Ok(()))).collect())
    }

    fn open(&self, unit: &UnitId, topic_id: Uuid) -> Result<Box<dyn UnitReader>> {
        drop(self.state()?);
        let (kafka, unit, next) = (self.clone(), unit.clone(), unit.start());
        Ok(Box::new(MemoryReader { kafka, unit, topic_id, next }))
    }
}

struct MemoryReader {
    kafka: MemoryKafka,
    unit: UnitId,
    topic_id: Uuid,
    next: i64,
}

impl UnitReader for MemoryReader {
    fn next(&mut self, _: Deadline) -> Result<Portion> {
        if self.next >= self.unit.end() {
            return Ok(Portion::End);
        }
        let mut state = self.kafka.state()?;
        let topic = state
            .topics
            .get(self.unit.topic())
            .filter(|topic| topic.id == self.topic_id)
            .ok_or_else(|| unknown(self.unit.topic()))?;
        let log = &topic.logs[self.unit.partition() as usize];
        if self.next < log.start {
            let (from, to) = (self.next, log.start.min(self.unit.end()));
            self.next = to;
            return Ok(Portion::Skipped { from, to });
        }
        match log.records.range(self.next..self.unit.end()).next().copied() {
            Some(first) => {
                let is_there = |offset: &i64| log.records.contains(offset);
                let limit = self.unit.end().min(first + PORTION);
                let offsets =
                    first..(first..limit).take_while(is_there).last().unwrap_or(first) + 1;
                let window = self.next..offsets.end;
                self.next = window.end;
                let (topic, partition) = (self.unit.topic(), self.unit.partition());
                state.portions += 1;
                Ok(Portion::Batch(FetchedBatch::for_test(topic, partition, offsets, window)))
            }
            None if log.end >= self.unit.end() => {
                self.next = self.unit.end();
                Ok(Portion::End)
            }
            None => {
                drop(state);
                crate::threads::pause(Duration::from_millis(1));
                Ok(Portion::Nothing)
            }
        }
    }
}
