//! `work-queue redrive`, `drop` and `reset`.

use serde_json::{Value, json};

use super::super::args::{ResetArgs, ScopeArgs, WorkQueueArgs};
use super::super::output::Output;
use super::super::{End, report, topics};
use crate::error::{Error, ErrorKind, Result};
use crate::work::queue::Steered;
use crate::work::steer::{PositionMove, Scope, drop_failed, redrive};
use crate::work::{Redis, TopicPartition};

/// `redrive` and `drop`.
pub(super) fn failed(args: &WorkQueueArgs, of: &ScopeArgs, drops: bool) -> Result<End> {
    let (queue, _) = super::open(args)?;
    let scope = match (&of.topic, of.partition) {
        (None, _) => Scope::all(),
        (Some(topic), None) => Scope::topic(topic),
        (Some(topic), Some(partition)) => Scope::partition(topic, partition),
    };
    let steered = if drops { drop_failed(&queue, &scope)? } else { redrive(&queue, &scope)? };
    let text = if args.json { as_json(&steered) } else { as_table(&steered) };
    let end = Output::print(&text);
    let mut all = Steered::default();
    for (_, of) in &steered {
        all.add(*of);
    }
    report::line(&format!(
        "{} {} with {} in {}",
        if drops { "dropped" } else { "queued again" },
        report::count(all.units as u64, "unit"),
        report::records(all.records.unsigned_abs()),
        report::count(steered.len() as u64, "partition")
    ));
    Ok(end)
}

fn as_table(steered: &[(TopicPartition, Steered)]) -> String {
    let line =
        |of: &str, units: &str, records: &str| format!("{of:<40} {units:>8} {records:>12}\n");
    let rows = steered.iter().map(|(of, steered)| {
        line(&of.to_string(), &steered.units.to_string(), &steered.records.to_string())
    });
    std::iter::once(line("PARTITION", "UNITS", "RECORDS")).chain(rows).collect()
}

fn as_json(steered: &[(TopicPartition, Steered)]) -> String {
    let row = |(of, steered): &(TopicPartition, Steered)| {
        json!({
            "topic": of.topic(),
            "partition": of.partition(),
            "units": steered.units,
            "records": steered.records,
        })
    };
    format!("{}\n", Value::Array(steered.iter().map(row).collect()))
}

/// `reset`.
pub(super) fn reset(args: &WorkQueueArgs, to: &ResetArgs) -> Result<End> {
    let Some(cluster) = super::cluster(args) else {
        let message = "a reset needs the brokers, with -b before its name";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    };
    let reset = topics::client(&cluster)?
        .reset_positions(&args.group, to.to)
        .queue(Redis::at(&args.redis))
        .topics(to.topics.iter().cloned())
        .partitions(to.partitions.iter().copied());
    let moves = if to.execute { reset.execute()? } else { reset.preview()? };
    let end = Output::print(&if args.json { moves_json(&moves) } else { moves_table(&moves) });
    let total = |of: fn(&PositionMove) -> i64| moves.iter().map(of).sum::<i64>().unsigned_abs();
    report::line(&format!(
        "{} {}, {} skipped, {} repeated{}",
        if to.execute { "moved" } else { "would move" },
        report::count(moves.len() as u64, "partition"),
        report::records(total(|moved| moved.skipped)),
        report::records(total(|moved| moved.repeated)),
        if to.execute { "" } else { "; nothing was changed: --execute does it" },
    ));
    Ok(end)
}

fn moves_table(moves: &[PositionMove]) -> String {
    let line = |of: &str, from: &str, to: &str, skipped: &str, repeated: &str| {
        format!("{of:<40} {from:>12} {to:>12} {skipped:>12} {repeated:>12}\n")
    };
    let rows = moves.iter().map(|moved| {
        line(
            &moved.partition.to_string(),
            &moved.from.map_or_else(|| "-".to_owned(), |from| from.to_string()),
            &moved.to.to_string(),
            &moved.skipped.to_string(),
            &moved.repeated.to_string(),
        )
    });
    let head = line("PARTITION", "FROM", "TO", "SKIPPED", "REPEATED");
    std::iter::once(head).chain(rows).collect()
}

fn moves_json(moves: &[PositionMove]) -> String {
    let row = |moved: &PositionMove| {
        json!({
            "topic": moved.partition.topic(),
            "partition": moved.partition.partition(),
            "from": moved.from,
            "to": moved.to,
            "skipped": moved.skipped,
            "repeated": moved.repeated,
        })
    };
    format!("{}\n", Value::Array(moves.iter().map(row).collect()))
}
