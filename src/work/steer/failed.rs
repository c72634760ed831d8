//! Failed units of many partitions.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::work::queue::{ERROR_LOG_MAX, Steered, WorkQueue};
use crate::work::snapshot::SnapshotLimits;
use crate::work::unit::{TopicPartition, UnitId};

/// Units of one partition that one call of the queue steers.
const UNITS_PER_CALL: usize = 200;

/// Which partitions are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    topic: Option<String>,
    partition: Option<i32>,
}

impl Scope {
    /// Every partition of the group.
    pub fn all() -> Self {
        Self::default()
    }

    /// Every partition of `topic`.
    pub fn topic(topic: impl Into<String>) -> Self {
        Self { topic: Some(topic.into()), partition: None }
    }

    /// One partition of `topic`.
    pub fn partition(topic: impl Into<String>, partition: i32) -> Self {
        Self { topic: Some(topic.into()), partition: Some(partition) }
    }

    /// Whether `of` is meant.
    pub fn covers(&self, of: &TopicPartition) -> bool {
        self.topic.as_deref().is_none_or(|topic| topic == of.topic())
            && self.partition.is_none_or(|partition| partition == of.partition())
    }
}

/// Puts the failed units in `scope` back to be worked on, with their attempts counted from zero: those that wait for their
/// dead letter and those of the list of errors, see [`WorkQueue::redrive`]. Gives what was done, by partition, without
/// those that had nothing.
///
/// Blocks while the queue is asked. May be called while everybody works.
///
/// # Errors
/// What the queue says. What was done before stays done, and a second call does the rest.
pub fn redrive(queue: &dyn WorkQueue, scope: &Scope) -> Result<Vec<(TopicPartition, Steered)>> {
    each(queue, scope, |of| queue.redrive(of, UNITS_PER_CALL))
}

/// Gives the failed units in `scope` up for good, see [`WorkQueue::drop_failed`]: the group's offset may pass those
/// that wait for their dead letter, and those of the list of errors leave it. Else like [`redrive`].
///
/// # Errors
/// As [`redrive`].
pub fn drop_failed(queue: &dyn WorkQueue, scope: &Scope) -> Result<Vec<(TopicPartition, Steered)>> {
    each(queue, scope, |of| queue.drop_failed(of, UNITS_PER_CALL))
}

fn each(
    queue: &dyn WorkQueue,
    scope: &Scope,
    step: impl Fn(&TopicPartition) -> Result<Steered>,
) -> Result<Vec<(TopicPartition, Steered)>> {
    let snapshot = queue.snapshot(SnapshotLimits { units: 0, entries: ERROR_LOG_MAX })?;
    // The most that there can be of each, which bounds the calls: units that fail again meanwhile are left to the next time.
    let mut most: BTreeMap<TopicPartition, usize> = BTreeMap::new();
    for held in snapshot.partitions {
        most.insert(held.partition, held.state.outstanding);
    }
    for unit in snapshot.errors.iter().filter_map(|error| error.unit.parse::<UnitId>().ok()) {
        *most.entry(unit.topic_partition().clone()).or_default() += 1;
    }
    let mut all = Vec::new();
    for (of, most) in most.into_iter().filter(|(of, most)| *most > 0 && scope.covers(of)) {
        let mut steered = Steered::default();
        for _ in 0..=most / UNITS_PER_CALL {
            let more = step(&of)?;
            steered.add(more);
            if more.units < UNITS_PER_CALL {
                break;
            }
        }
        if steered.units > 0 {
            all.push((of, steered));
        }
    }
    Ok(all)
}
