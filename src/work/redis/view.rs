//! The snapshot, read for people and tools.
//!
//! One script for what is short, one per partition, one read per worker: each is consistent in itself.

use std::time::Duration;

use r2d2_redis::redis;

use crate::error::Result;
use crate::work::queue::SkipReason;
use crate::work::redis::client::RedisQueue;
use crate::work::redis::reply::{Fields, unexpected};
use crate::work::snapshot::{
    CompleteEntry, ErrorEntry, PartitionSnapshot, SkippedEntry, Snapshot, SnapshotLimits,
    UnitSnapshot, UnitState, WorkerSnapshot, age,
};
use crate::work::unit::{TopicPartition, UnitId};

impl RedisQueue {
    pub(super) fn view(&self, limits: SnapshotLimits) -> Result<Snapshot> {
        let arguments = [limits.entries.to_string()];
        let mut fields = Fields::of(self.run(&self.scripts().view, &arguments)?)?;
        let now: i64 = fields.parse()?;
        let leader = Some(fields.text()?).filter(|id| !id.is_empty());
        let (work, work_head) = counted(&mut fields)?;
        let (delayed, leased, dead) = (fields.parse()?, fields.parse()?, fields.parse()?);
        let mut partitions: Vec<TopicPartition> =
            fields.fields()?.texts()?.iter().filter_map(|name| name.parse().ok()).collect();
        partitions.sort();
        let mut heartbeats = fields.fields()?;
        let (completed_logged, completed) = counted(&mut fields)?;
        let (errors_logged, errors) = counted(&mut fields)?;
        let (skipped_logged, skipped) = counted(&mut fields)?;
        let mut workers = Vec::new();
        while !heartbeats.is_empty() {
            let (worker, at): (String, i64) = (heartbeats.text()?, heartbeats.parse()?);
            workers.push(WorkerSnapshot {
                list: self.worker_list(&worker, limits)?,
                worker,
                heartbeat_age: age(at, now),
            });
        }
        workers.sort_by(|a, b| a.worker.cmp(&b.worker));
        let mut snapshots = Vec::new();
        for partition in partitions {
            snapshots.extend(self.view_partition(partition, limits)?);
        }
        Ok(Snapshot {
            leader,
            work,
            work_head,
            delayed,
            leased,
            dead,
            partitions: snapshots,
            workers,
            completed: completed
                .iter()
                .map(|entry| completed_of(entry, now))
                .collect::<Result<_>>()?,
            completed_logged,
            errors: errors.iter().map(|entry| error_of(entry, now)).collect::<Result<_>>()?,
            errors_logged,
            skipped: skipped.iter().map(|entry| skipped_of(entry, now)).collect::<Result<_>>()?,
            skipped_logged,
        })
    }

    fn worker_list(&self, worker: &str, limits: SnapshotLimits) -> Result<Vec<String>> {
        let mut command = redis::cmd("LRANGE");
        command.arg(self.keys().working(worker)).arg(0).arg(limits.entries as i64 - 1);
        if limits.entries == 0 {
            return Ok(Vec::new());
        }
        self.link().command(&command, Duration::ZERO)
    }

    fn view_partition(
        &self,
        partition: TopicPartition,
        limits: SnapshotLimits,
    ) -> Result<Option<PartitionSnapshot>> {
        let arguments = [partition.to_string(), limits.units.to_string()];
        let mut fields = Fields::of(self.run(&self.scripts().view_partition, &arguments)?)?;
        if fields.is_empty() {
            return Ok(None);
        }
        let now: i64 = fields.parse()?;
        let state = fields.fields()?.partition_state()?.ok_or_else(|| unexpected("no state"))?;
        let units: Result<Vec<_>> =
            fields.fields()?.lists().map(|unit| unit_snapshot(unit?, now)).collect();
        let done: Result<Vec<_>> = fields
            .fields()?
            .texts()?
            .iter()
            .map(|range| pair(range, '-').ok_or_else(|| unexpected(range)))
            .collect();
        let mut skips = fields.fields()?;
        let mut skipped = Vec::new();
        while !skips.is_empty() {
            let (why, count) = (skips.text()?, skips.parse()?);
            skipped.extend(SkipReason::from_name(&why).map(|why| (why, count)));
        }
        skipped.sort_unstable();
        Ok(Some(PartitionSnapshot { partition, state, units: units?, done: done?, skipped }))
    }
}

/// A count and the entries that stand for it.
fn counted(fields: &mut Fields) -> Result<(usize, Vec<String>)> {
    let mut fields = fields.fields()?;
    Ok((fields.parse()?, fields.fields()?.texts()?))
}

fn unit_snapshot(mut fields: Fields, now: i64) -> Result<UnitSnapshot> {
    let unit: UnitId = fields.parse()?;
    let state = match fields.text()?.as_str() {
        "queued" => UnitState::Queued,
        "leased" => UnitState::Leased,
        "delayed" => UnitState::Delayed,
        "dead" => UnitState::Dead,
        _ => UnitState::Lost,
    };
    let since = fields.text()?.parse().unwrap_or(now);
    let attempts = fields.text()?.parse().unwrap_or(0);
    let owner = fields.text()?;
    let position = fields.text()?.parse().unwrap_or(unit.start());
    let error = fields.text()?;
    Ok(UnitSnapshot { unit, state, age: age(since, now), attempts, owner, position, error })
}

fn completed_of(entry: &str, now: i64) -> Result<CompleteEntry> {
    let read = || {
        let mut fields = entry.splitn(5, '\t');
        Some(CompleteEntry {
            age: age(fields.next()?.parse().ok()?, now),
            unit: fields.next()?.to_owned(),
            worker: fields.next()?.to_owned(),
            attempts: fields.next()?.parse().ok()?,
            position: fields.next()?.parse().ok()?,
        })
    };
    read().ok_or_else(|| unexpected(entry))
}

fn error_of(entry: &str, now: i64) -> Result<ErrorEntry> {
    let read = || {
        let mut fields = entry.splitn(6, '\t');
        Some(ErrorEntry {
            age: age(fields.next()?.parse().ok()?, now),
            unit: fields.next()?.to_owned(),
            worker: fields.next()?.to_owned(),
            attempts: fields.next()?.parse().ok()?,
            error: fields.next()?.to_owned(),
        })
    };
    read().ok_or_else(|| unexpected(entry))
}

fn skipped_of(entry: &str, now: i64) -> Result<SkippedEntry> {
    let read = || {
        let mut fields = entry.splitn(3, '\t');
        Some(SkippedEntry {
            age: age(fields.next()?.parse().ok()?, now),
            range: fields.next()?.to_owned(),
            why: SkipReason::from_name(fields.next()?)?,
        })
    };
    read().ok_or_else(|| unexpected(entry))
}

/// Two numbers around `separator`.
fn pair(text: &str, separator: char) -> Option<(i64, i64)> {
    let (first, second) = text.split_once(separator)?;
    Some((first.parse().ok()?, second.parse().ok()?))
}
