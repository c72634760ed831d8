//! The snapshot: what the state looks like from outside.

use std::time::Duration;

use crate::work::life::state::Life;
use crate::work::snapshot::{
    CompleteEntry, ErrorEntry, PartitionSnapshot, SkippedEntry, Snapshot, SnapshotLimits,
    UnitSnapshot, UnitState, WorkerSnapshot, age,
};
use crate::work::unit::{TopicPartition, UnitId};

impl Life {
    pub(crate) fn snapshot(&self, limits: SnapshotLimits, now: i64) -> Snapshot {
        let leader = self.leader.filter(|(_, until)| *until > now);
        Snapshot {
            leader: leader.map(|(id, _)| id.to_string()),
            work: self.work.len(),
            work_head: self.work.iter().take(limits.entries).cloned().collect(),
            delayed: self.delayed.len(),
            leased: self.leases.len(),
            dead: self.dead.len(),
            partitions: self
                .parts
                .keys()
                .filter_map(|of| self.partition_snapshot(of, limits, now))
                .collect(),
            workers: self.worker_snapshots(limits, now),
            completed: self
                .complete
                .iter()
                .take(limits.entries)
                .map(|entry| CompleteEntry {
                    age: age(entry.at, now),
                    unit: entry.unit.clone(),
                    worker: entry.worker.clone(),
                    attempts: entry.attempts,
                    position: entry.position,
                })
                .collect(),
            completed_logged: self.complete.len(),
            errors: self
                .errors
                .iter()
                .take(limits.entries)
                .map(|entry| ErrorEntry {
                    age: age(entry.at, now),
                    unit: entry.unit.clone(),
                    worker: entry.worker.clone(),
                    attempts: entry.attempts,
                    error: entry.error.clone(),
                })
                .collect(),
            errors_logged: self.errors.len(),
            skipped: self
                .skipped
                .iter()
                .take(limits.entries)
                .map(|entry| SkippedEntry {
                    age: age(entry.at, now),
                    range: entry.range.clone(),
                    why: entry.why,
                })
                .collect(),
            skipped_logged: self.skipped.len(),
        }
    }

    fn partition_snapshot(
        &self,
        of: &TopicPartition,
        limits: SnapshotLimits,
        now: i64,
    ) -> Option<PartitionSnapshot> {
        let out = self.out.get(of).into_iter().flatten();
        let done = self.done.get(of).into_iter().flatten();
        Some(PartitionSnapshot {
            partition: of.clone(),
            state: self.partition_state(of)?,
            units: out.take(limits.units).map(|unit| self.unit_snapshot(unit, now)).collect(),
            done: done.take(limits.units).map(|(&start, &end)| (start, end)).collect(),
            skipped: self.parts.get(of)?.skipped.iter().map(|(&why, &n)| (why, n)).collect(),
        })
    }

    fn unit_snapshot(&self, unit: &UnitId, now: i64) -> UnitSnapshot {
        match self.units.get(&unit.to_string()) {
            Some(state) => UnitSnapshot {
                unit: unit.clone(),
                state: state.state,
                age: age(state.since, now),
                attempts: state.attempts,
                owner: state.owner.clone(),
                position: state.position,
                error: state.error.clone(),
            },
            None => UnitSnapshot {
                unit: unit.clone(),
                state: UnitState::Lost,
                age: Duration::ZERO,
                attempts: 0,
                owner: String::new(),
                position: unit.start(),
                error: String::new(),
            },
        }
    }

    fn worker_snapshots(&self, limits: SnapshotLimits, now: i64) -> Vec<WorkerSnapshot> {
        let snapshot = |(name, at): (&str, i64)| WorkerSnapshot {
            worker: name.to_owned(),
            heartbeat_age: age(at, now),
            list: self
                .lists
                .get(name)
                .into_iter()
                .flatten()
                .take(limits.entries)
                .cloned()
                .collect(),
        };
        self.workers.by_name().into_iter().map(snapshot).collect()
    }
}
