//! What a queue holds, as plain data for people and tools.
//!
//! Filled by [`WorkQueue::snapshot`](crate::work::WorkQueue::snapshot) of either queue; knows neither. Everything
//! that can be long is cut to [`SnapshotLimits`], and its full count stands beside it.

use std::time::Duration;

use crate::work::queue::{PartitionState, SkipReason};
use crate::work::unit::{TopicPartition, UnitId};

/// How much detail a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Units and done ranges listed per partition, from the lowest on. Counts by state cover these.
    pub units: usize,
    /// Newest entries of each log, and of each list of hints.
    pub entries: usize,
}

impl Default for SnapshotLimits {
    /// 10,000 units per partition, 20 entries of each log.
    fn default() -> Self {
        Self { units: 10_000, entries: 20 }
    }
}

/// What a queue holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The organiser's id, if one holds the lock.
    pub leader: Option<String>,
    /// Entries in `work`: hints of what can be claimed.
    pub work: usize,
    /// Newest entries of `work`.
    pub work_head: Vec<String>,
    /// Units that wait for a retry.
    pub delayed: usize,
    /// Units that are leased.
    pub leased: usize,
    /// Units that wait for their dead letter to be stored.
    pub dead: usize,
    /// Every partition, in order.
    pub partitions: Vec<PartitionSnapshot>,
    /// Every registered worker, in order.
    pub workers: Vec<WorkerSnapshot>,
    /// Newest finished units first.
    pub completed: Vec<CompleteEntry>,
    /// Entries in the log of finished units.
    pub completed_logged: usize,
    /// Newest dead-lettered units and unreadable entries first.
    pub errors: Vec<ErrorEntry>,
    /// Entries in the log of errors.
    pub errors_logged: usize,
    /// Newest skipped ranges first.
    pub skipped: Vec<SkippedEntry>,
    /// Entries in the log of skipped ranges.
    pub skipped_logged: usize,
}

/// What a queue holds of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSnapshot {
    /// The partition.
    pub partition: TopicPartition,
    /// Its watermarks.
    pub state: PartitionState,
    /// Outstanding units, from the lowest on.
    pub units: Vec<UnitSnapshot>,
    /// Done ranges above `low`, start and end, from the lowest on.
    pub done: Vec<(i64, i64)>,
    /// Offsets skipped since the queue took the partition up, by reason.
    pub skipped: Vec<(SkipReason, i64)>,
}

impl PartitionSnapshot {
    /// Listed units in `state`.
    pub fn count(&self, state: UnitState) -> usize {
        self.units.iter().filter(|unit| unit.state == state).count()
    }
}

/// An outstanding unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSnapshot {
    /// The unit.
    pub unit: UnitId,
    /// Its state.
    pub state: UnitState,
    /// How long it is in this state (leased: since it was begun).
    pub age: Duration,
    /// Attempts begun.
    pub attempts: u32,
    /// The worker that has it or had it last; empty if none had.
    pub owner: String,
    /// The last renewed position.
    pub position: i64,
    /// The last failure; empty if none.
    pub error: String,
}

/// What state an outstanding unit is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum UnitState {
    /// It can be begun.
    Queued,
    /// A worker has it.
    Leased,
    /// It waits for a retry.
    Delayed,
    /// It waits for its dead letter to be stored.
    Dead,
    /// The store lost its state; an audit queues it anew.
    Lost,
}

/// A registered worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSnapshot {
    /// Its name.
    pub worker: String,
    /// Time since its last heartbeat.
    pub heartbeat_age: Duration,
    /// The hints in its own list.
    pub list: Vec<String>,
}

/// A finished unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteEntry {
    /// How long ago.
    pub age: Duration,
    /// The unit.
    pub unit: String,
    /// The worker.
    pub worker: String,
    /// The attempt that finished it.
    pub attempts: u32,
    /// Where it was finished: its end, or what remained is another unit.
    pub position: i64,
}

/// A dead-lettered unit, or an entry of a list that is no unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorEntry {
    /// How long ago.
    pub age: Duration,
    /// The unit, or the unreadable entry.
    pub unit: String,
    /// The worker of the last attempt.
    pub worker: String,
    /// How often it was tried.
    pub attempts: u32,
    /// The last failure.
    pub error: String,
}

/// A skipped range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// How long ago.
    pub age: Duration,
    /// The range, spelled as a unit is.
    pub range: String,
    /// Why.
    pub why: SkipReason,
}

/// Time since `at`; zero if that is still to come.
pub(crate) fn age(at: i64, now: i64) -> Duration {
    Duration::from_millis(u64::try_from(now - at).unwrap_or(0))
}
