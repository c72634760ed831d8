//! `ottla work-queue`: what the queue of a group holds, for people and for programs, and what they do to it.
//!
//! - here: what it holds, once.
//! - `watch`: what it holds, again and again.
//! - `steer`: `redrive`, `drop` and `reset`.

mod steer;
mod watch;

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::{ClusterArgs, WorkQueueAction, WorkQueueArgs};
use super::output::Output;
use super::{End, report, topics};
use crate::client::Client;
use crate::config::AllConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::At;
use crate::work::snapshot::{PartitionSnapshot, Snapshot, SnapshotLimits, UnitSnapshot, UnitState};
use crate::work::{QueueRules, Redis, RedisQueue, WorkQueue};

/// Names of states in the order of a unit's life.
const STATES: [(UnitState, &str); 5] = [
    (UnitState::Queued, "queued"),
    (UnitState::Leased, "leased"),
    (UnitState::Delayed, "delayed"),
    (UnitState::Dead, "dead"),
    (UnitState::Lost, "lost"),
];

/// Failing units that are shown.
const FAILING_MAX: usize = 20;

/// The ends of partitions, by topic and partition.
type Ends = HashMap<(String, i32), i64>;

pub(super) fn run(args: &WorkQueueArgs) -> Result<End> {
    if args.watch.is_some() && args.action.is_some() {
        let message = "--watch only shows: give it without the name of something to do";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    match &args.action {
        None => args.watch.map_or_else(|| show(args), |every| watch::run(args, every)),
        Some(WorkQueueAction::Redrive(scope)) => steer::failed(args, scope, false),
        Some(WorkQueueAction::Drop(scope)) => steer::failed(args, scope, true),
        Some(WorkQueueAction::Reset(to)) => steer::reset(args, to),
    }
}

/// The queue and what it holds.
///
/// # Errors
/// When it cannot be reached, and when there is none of that group.
fn open(args: &WorkQueueArgs) -> Result<(RedisQueue, Snapshot)> {
    let config = AllConfig::from_properties(args.properties.iter().cloned())?;
    let prefix = config.work.queue_prefix;
    let queue = Redis::at(&args.redis).connect(&args.group, &prefix, QueueRules::default())?;
    let snapshot = queue.snapshot(SnapshotLimits::default())?;
    if snapshot.partitions.is_empty() && snapshot.workers.is_empty() && snapshot.leader.is_none() {
        let message =
            format!("group {}: no queue of it under {prefix:?} in this Redis", args.group);
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok((queue, snapshot))
}

/// Where Kafka is, if that was said.
fn cluster(args: &WorkQueueArgs) -> Option<ClusterArgs> {
    let bootstrap = args.bootstrap.clone()?;
    Some(ClusterArgs { bootstrap, properties: args.properties.clone() })
}

fn show(args: &WorkQueueArgs) -> Result<End> {
    let (_, snapshot) = open(args)?;
    let ends = match cluster(args) {
        Some(cluster) => ends(&topics::client(&cluster)?, &snapshot),
        None => Ends::new(),
    };
    let end = Output::print(&text_of(args, &snapshot, &ends));
    report::line(&counts(&snapshot));
    Ok(end)
}

fn text_of(args: &WorkQueueArgs, snapshot: &Snapshot, ends: &Ends) -> String {
    if args.json {
        format!("{}\n", as_json(&args.group, snapshot, ends))
    } else {
        as_tables(snapshot, ends)
    }
}

fn counts(snapshot: &Snapshot) -> String {
    let units: usize = snapshot.partitions.iter().map(|partition| partition.units.len()).sum();
    format!(
        "{} in {}, {}, {}",
        report::count(units as u64, "unit"),
        report::count(snapshot.partitions.len() as u64, "partition"),
        report::count(snapshot.workers.len() as u64, "worker"),
        report::count(snapshot.errors_logged as u64, "error")
    )
}

/// The ends of all partitions that the queue knows. A topic that cannot be asked has none here, and
/// that is told.
fn ends(client: &Client, snapshot: &Snapshot) -> Ends {
    let mut ends = Ends::new();
    let mut topics: Vec<&str> = snapshot.partitions.iter().map(|p| p.partition.topic()).collect();
    topics.dedup();
    for topic in topics {
        let Some(found) = report::or_tell(client.offsets(topic, At::Latest), topic) else {
            continue;
        };
        for found in found {
            if let Some(found) = report::or_tell(found, topic)
                && let Some(offset) = found.offset
            {
                ends.insert((topic.to_owned(), found.partition), offset);
            }
        }
    }
    ends
}

/// Offsets from the low watermark to the end of the partition, or to what is planned.
fn lag(partition: &PartitionSnapshot, ends: &Ends) -> i64 {
    let key = (partition.partition.topic().to_owned(), partition.partition.partition());
    let end = ends.get(&key).copied().unwrap_or(partition.state.planned);
    (end - partition.state.low).max(0)
}

fn oldest(partition: &PartitionSnapshot) -> Option<Duration> {
    partition.units.iter().map(|unit| unit.age).max()
}

/// Units that failed and are not given up yet: those with the most attempts.
fn failing(snapshot: &Snapshot) -> Vec<&UnitSnapshot> {
    let units = snapshot.partitions.iter().flat_map(|partition| &partition.units);
    let mut failing: Vec<_> = units.filter(|unit| !unit.error.is_empty()).collect();
    failing.sort_by_key(|unit| std::cmp::Reverse(unit.attempts));
    failing.truncate(FAILING_MAX);
    failing
}

fn as_tables(snapshot: &Snapshot, ends: &Ends) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(words.trim_end());
        text.push('\n');
    };
    line(format!("organiser  {}", snapshot.leader.as_deref().unwrap_or("none")));
    line(format!(
        "lists      work {}  delayed {}  leased {}  dead {}  complete {}  error {}  skipped {}",
        snapshot.work,
        snapshot.delayed,
        snapshot.leased,
        snapshot.dead,
        snapshot.completed_logged,
        snapshot.errors_logged,
        snapshot.skipped_logged
    ));
    line(String::new());
    line(format!(
        "{:<40} {:>12} {:>12} {:>10} {:>7} {:>7} {:>8} {:>6} {:>9}",
        "PARTITION", "LOW", "PLANNED", "LAG", "QUEUED", "LEASED", "DELAYED", "DEAD", "OLDEST"
    ));
    for partition in &snapshot.partitions {
        line(format!(
            "{:<40} {:>12} {:>12} {:>10} {:>7} {:>7} {:>8} {:>6} {:>9}",
            partition.partition.to_string(),
            partition.state.low,
            partition.state.planned,
            lag(partition, ends),
            partition.count(UnitState::Queued),
            partition.count(UnitState::Leased),
            partition.count(UnitState::Delayed),
            partition.count(UnitState::Dead),
            oldest(partition).map(report::seconds).unwrap_or_default(),
        ));
    }
    line(String::new());
    line(format!("{:<50} {:>10} {:>6}", "WORKER", "HEARTBEAT", "LIST"));
    for worker in &snapshot.workers {
        line(format!(
            "{:<50} {:>10} {:>6}",
            worker.worker,
            report::seconds(worker.heartbeat_age),
            worker.list.len()
        ));
    }
    let failing = failing(snapshot);
    if !failing.is_empty() {
        line(String::new());
        line(format!(
            "{:<50} {:>8} {:>8} {:>10}  {}",
            "FAILING", "STATE", "ATTEMPTS", "AGE", "WHY"
        ));
        for unit in failing {
            let state = STATES.iter().find(|(state, _)| *state == unit.state);
            line(format!(
                "{:<50} {:>8} {:>8} {:>10}  {}",
                unit.unit.to_string(),
                state.map_or("", |(_, name)| name),
                unit.attempts,
                report::seconds(unit.age),
                unit.error
            ));
        }
    }
    if !snapshot.errors.is_empty() {
        line(String::new());
        line(format!("{:<50} {:>8} {:>10}  {}", "ERROR", "ATTEMPTS", "AGE", "WHY"));
        for error in &snapshot.errors {
            line(format!(
                "{:<50} {:>8} {:>10}  {}",
                error.unit,
                error.attempts,
                report::seconds(error.age),
                error.error
            ));
        }
    }
    text
}

fn as_json(group: &str, snapshot: &Snapshot, ends: &Ends) -> Value {
    let partitions: Vec<Value> = snapshot
        .partitions
        .iter()
        .map(|partition| {
            let units: serde_json::Map<String, Value> = STATES
                .iter()
                .map(|(state, name)| ((*name).to_owned(), json!(partition.count(*state))))
                .collect();
            json!({
                "topic": partition.partition.topic(),
                "partition": partition.partition.partition(),
                "low": partition.state.low,
                "planned": partition.state.planned,
                "lag": lag(partition, ends),
                "units": units,
                "oldest_ms": oldest(partition).map(|age| age.as_millis() as u64),
            })
        })
        .collect();
    let workers: Vec<Value> = snapshot
        .workers
        .iter()
        .map(|worker| {
            json!({
                "worker": worker.worker,
                "heartbeat_ms": worker.heartbeat_age.as_millis() as u64,
                "list": worker.list,
            })
        })
        .collect();
    let errors: Vec<Value> = snapshot
        .errors
        .iter()
        .map(|error| {
            json!({
                "unit": error.unit,
                "worker": error.worker,
                "attempts": error.attempts,
                "age_ms": error.age.as_millis() as u64,
                "error": error.error,
            })
        })
        .collect();
    let failing: Vec<Value> = failing(snapshot)
        .iter()
        .map(|unit| {
            let state = STATES.iter().find(|(state, _)| *state == unit.state);
            json!({
                "unit": unit.unit.to_string(),
                "state": state.map(|(_, name)| name),
                "attempts": unit.attempts,
                "age_ms": unit.age.as_millis() as u64,
                "error": unit.error,
            })
        })
        .collect();
    json!({
        "group": group,
        "organiser": snapshot.leader,
        "lists": {
            "work": snapshot.work,
            "delayed": snapshot.delayed,
            "leased": snapshot.leased,
            "dead": snapshot.dead,
            "complete": snapshot.completed_logged,
            "error": snapshot.errors_logged,
            "skipped": snapshot.skipped_logged,
        },
        "partitions": partitions,
        "workers": workers,
        "failing": failing,
        "errors": errors,
    })
}
