//! What a test does to logs and asks of them: the controls of [`Cluster`] that concern records.

use super::Cluster;
use super::state::{Rules, State};
use crate::clock;
use crate::error::{Error, ErrorKind, Result};

impl Cluster {
    /// The first offset of a partition's log, `None` when there is no such partition.
    pub fn log_start(&self, topic: &str, partition: i32) -> Option<i64> {
        let state = self.shared.state.lock();
        state.partition(topic, partition).map(|partition| partition.log.start())
    }

    /// The offset behind the last record of a partition, `None` when there is no such partition.
    pub fn log_end(&self, topic: &str, partition: i32) -> Option<i64> {
        let state = self.shared.state.lock();
        state.partition(topic, partition).map(|partition| partition.log.end())
    }

    /// The bytes that the batches of a partition take, `None` when there is no such partition.
    pub fn log_bytes(&self, topic: &str, partition: i32) -> Option<usize> {
        let state = self.shared.state.lock();
        state.partition(topic, partition).map(|partition| partition.log.bytes())
    }

    /// Compacts all partitions of a topic, whatever its `cleanup.policy`: of every key the last record
    /// stays. Offsets stay too, so gaps and empty batches come out, as of Kafka's cleaner; unlike there
    /// the newest records take part.
    ///
    /// # Errors
    /// `Config` when there is no such topic.
    pub fn compact(&self, topic: &str) -> Result<()> {
        let now_ms = clock::unix_ms();
        self.shared
            .change(|state| on_each_log(state, topic, |log, rules| log.compact(rules, now_ms)))
    }

    /// Applies `retention.ms` and `retention.bytes` of a topic now.
    ///
    /// # Errors
    /// `Config` when there is no such topic.
    pub fn apply_retention(&self, topic: &str) -> Result<()> {
        let now_ms = clock::unix_ms();
        self.shared.change(|state| {
            let release = state.release;
            on_each_log(state, topic, |log, rules| log.retain(rules, now_ms, release))
        })
    }

    /// Deletes the records of a partition before `offset`, at most up to its end; gives the new start.
    ///
    /// # Errors
    /// `Config` when there is no such partition.
    pub fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> Result<i64> {
        self.shared.change(|state| {
            let release = state.release;
            let found = state.partition_mut(topic, partition);
            let found = found.ok_or_else(|| {
                Error::new(ErrorKind::Config, format!("there is no partition {topic}-{partition}"))
            })?;
            found.log.trim_start(offset, release);
            let start = found.log.start();
            state.changed();
            Ok(start)
        })
    }
}

fn on_each_log(
    state: &mut State,
    topic: &str,
    mut change: impl FnMut(&mut super::state::Log, &Rules) -> bool,
) -> Result<()> {
    let release = state.release;
    let found = state.topic_mut(topic);
    let found =
        found.ok_or_else(|| Error::new(ErrorKind::Config, format!("there is no topic {topic}")))?;
    let rules = Rules::of(&found.configs, release);
    for partition in &mut found.partitions {
        change(&mut partition.log, &rules);
    }
    state.changed();
    Ok(())
}
