//! `ottla consume` without a group: partitions are read directly.
//!
//! ```text
//!   readers, one per partition ──▶ queue ──▶ threads ottla-read-N: one batch of the first reader,
//!             ▲                                render, write, flush; back to the end
//!             └───────────────────────────────────┘
//! ```
//!
//! A reader is with one thread at a time, so a partition's records come in order; between
//! partitions there is none. A batch is written as one piece.

use std::collections::HashMap;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use parking_lot::Mutex;

use super::args::ConsumeArgs;
use super::format::{Fields, Format};
use super::output::Output;
use super::report::{self, Failures};
use super::signals::Ending;
use super::{End, topics, workers};
use crate::client::Client;
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::{At, FetchedBatch, Missing, RangeReader};
use crate::protocol::records::RecordView;
use crate::threads;

/// Most threads that read; more partitions take turns.
const THREADS_MAX: usize = 16;
/// How long a partition is waited for when others wait for their turn.
const TURN: Duration = Duration::from_millis(10);
/// How long a partition is waited for when every partition has a thread.
const ALONE: Duration = Duration::from_millis(500);
/// How long the end waits for what is being written.
const LAST_WRITE: Duration = Duration::from_secs(10);
/// How long a partition that failed is left alone.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// A topic that was there and that no broker knows for so long was deleted.
const GONE_AFTER: Duration = Duration::from_secs(10);

pub(super) fn run(args: &ConsumeArgs) -> Result<End> {
    if args.group.is_some() {
        return workers::run(args);
    }
    let ending = Ending::watch()?;
    let client = topics::client(&args.cluster)?;
    let [topic] = args.topics.as_slice() else {
        let message = "without -g one topic is read at a time";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    };
    if topic.starts_with('^') {
        let message = "topics by regular expression are read with -g alone";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    let started = clock::now();
    let Plan { ranges, partitions, beyond } = plan(&client, topic, args)?;
    let open = ranges.len();
    let shared = Arc::new(Shared {
        output: Output::default(),
        format: args.format.clone().unwrap_or_else(Format::value_line),
        ending: ending.clone(),
        left: AtomicI64::new(args.count.map_or(i64::MAX, |count| count as i64)),
        records: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        failures: Mutex::default(),
        unknown: Mutex::default(),
        open: AtomicU64::new(open as u64),
    });
    for reason in beyond {
        if args.exit_at_end {
            shared.failures.lock().add(&reason);
        } else {
            report::line(&format!("ottla: {reason}; waiting for it"));
        }
    }
    let (queue, next) = crossbeam_channel::unbounded();
    for (partition, range) in ranges {
        let reader = client.read(topic, partition, range)?.on_missing(Missing::Skip);
        queue.send(reader).expect("the receiving end is here");
    }
    let threads = open.clamp(1, THREADS_MAX);
    let wait = if open > threads { TURN } else { ALONE };
    if open == 0 || args.count == Some(0) {
        ending.finish();
    }
    let readers = (1..=threads)
        .map(|number| {
            let (shared, queue, next) = (Arc::clone(&shared), queue.clone(), next.clone());
            threads::spawn(&format!("ottla-read-{number}"), move || {
                if let Err(panic) = threads::guard(|| shared.read(&queue, &next, wait)) {
                    shared.failures.lock().add(&format!("reading panicked: {panic}"));
                }
                shared.ending.finish();
            })
        })
        .collect::<Result<Vec<_>>>()?;
    while !ending.wait(ALONE) {}
    // One may stand in a write, which cannot be interrupted, as long as nobody reads.
    let patience = Deadline::within(LAST_WRITE);
    let stuck = readers.into_iter().filter_map(|reader| (!reader.join_by(patience)).then_some(()));
    let is_stuck = stuck.count() > 0;
    if is_stuck {
        report::line("ottla: standard output is not read; the last records may be cut off");
    }
    if let Some(failure) = shared.output.failure() {
        report::line(&format!("ottla: {failure}"));
    }
    let failed = shared.failures.lock().count;
    let unfinished = shared.open.load(Ordering::SeqCst) > 0 && !shared.is_full();
    let cut_short = (args.exit_at_end || args.count.is_some()) && unfinished;
    report::line(&format!(
        "read {} of {}, {failed} failed, {} in {}{}",
        report::records(shared.records.load(Ordering::SeqCst)),
        report::count(partitions as u64, "partition"),
        report::megabytes(shared.bytes.load(Ordering::SeqCst)),
        report::seconds(clock::now() - started),
        if ending.is_interrupted() { ", interrupted" } else { "" },
    ));
    let end = if failed == 0 && !cut_short && !is_stuck { End::Complete } else { End::Incomplete };
    Ok(shared.output.verdict(end))
}

struct Shared {
    output: Output,
    format: Format,
    ending: Ending,
    /// Records that may still be written.
    left: AtomicI64,
    records: AtomicU64,
    bytes: AtomicU64,
    failures: Mutex<Failures>,
    /// Since when no broker knows a partition.
    unknown: Mutex<HashMap<i32, Instant>>,
    /// Partitions that are not finished.
    open: AtomicU64,
}

impl Shared {
    /// A reading thread.
    fn read(&self, queue: &Sender<RangeReader>, next: &Receiver<RangeReader>, wait: Duration) {
        while !self.ending.is_finished() {
            let Ok(mut reader) = next.recv_timeout(wait) else { continue };
            let step = self.step(&mut reader, wait);
            if step.is_ok() {
                self.unknown.lock().remove(&reader.partition_index());
            }
            match step {
                Ok(()) if reader.is_finished() => self.close_one(),
                Ok(()) => {
                    queue.send(reader).expect("the receiving end is with the threads");
                }
                Err(_) if self.output.is_lost() => self.ending.finish(),
                Err(error) if error.is_retriable() && !self.is_gone(&reader, &error) => {
                    report::line(&format!("ottla: {error}; trying again"));
                    self.ending.wait(AFTER_FAILURE);
                    queue.send(reader).expect("the receiving end is with the threads");
                }
                Err(error) => {
                    self.failures.lock().add(&error.to_string());
                    self.close_one();
                }
            }
        }
    }

    /// Whether the partition's topic was deleted, as far as one can know.
    fn is_gone(&self, reader: &RangeReader, error: &Error) -> bool {
        let mut unknown = self.unknown.lock();
        if error.kind() != ErrorKind::UnknownTopic {
            unknown.remove(&reader.partition_index());
            return false;
        }
        let now = clock::now();
        let since = *unknown.entry(reader.partition_index()).or_insert(now);
        now.saturating_duration_since(since) >= GONE_AFTER
    }

    fn close_one(&self) {
        if self.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.ending.finish();
        }
    }

    /// One batch of one partition.
    fn step(&self, reader: &mut RangeReader, wait: Duration) -> Result<()> {
        let batch = reader.next_batch(wait);
        for gone in reader.take_skipped() {
            report::line(&format!(
                "ottla: offsets {} to {} are no longer in the log",
                gone.start,
                gone.end - 1
            ));
        }
        let Some(batch) = batch? else { return Ok(()) };
        let mut piece = Vec::new();
        let mut count = 0;
        let mut full = false;
        for record in &batch {
            let record = record?;
            if self.left.fetch_sub(1, Ordering::SeqCst) <= 0 {
                full = true;
                break;
            }
            self.format.render(&Shown { batch: &batch, record: &record }, &mut piece);
            count += 1;
        }
        self.output.write(&piece)?;
        self.records.fetch_add(count, Ordering::SeqCst);
        self.bytes.fetch_add(piece.len() as u64, Ordering::SeqCst);
        if full || self.is_full() {
            self.ending.finish();
        }
        Ok(())
    }

    /// Whether as many records were asked for as were read.
    fn is_full(&self) -> bool {
        self.left.load(Ordering::SeqCst) <= 0
    }
}

/// A record of a batch, for a format.
pub(super) struct Shown<'a> {
    pub(super) batch: &'a FetchedBatch,
    pub(super) record: &'a RecordView<'a>,
}

impl Fields for Shown<'_> {
    fn topic(&self) -> &str {
        self.batch.topic()
    }

    fn partition(&self) -> i32 {
        self.batch.partition()
    }

    fn offset(&self) -> i64 {
        self.record.offset
    }

    fn timestamp_ms(&self) -> i64 {
        self.record.timestamp_ms
    }

    fn key(&self) -> Option<&[u8]> {
        self.record.key
    }

    fn value(&self) -> Option<&[u8]> {
        self.record.value
    }

    fn headers(&self, each: &mut dyn FnMut(&str, Option<&[u8]>)) {
        for header in self.record.headers {
            each(&header.key(), header.value);
        }
    }
}

/// Where to start in each partition: `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    At(At),
    Offset(i64),
    Last(i64),
}

impl FromStr for Start {
    type Err = &'static str;

    /// Reads the text of `-o`.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let number = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<i64>().ok().filter(|_| is_plain)
        };
        let start = match text {
            "earliest" | "beginning" => Some(Self::At(At::Earliest)),
            "latest" | "end" => Some(Self::At(At::Latest)),
            _ => match (text.strip_prefix('-'), text.strip_prefix('@')) {
                (Some(last), _) => number(last).map(Self::Last),
                (_, Some(time)) => number(time).map(|ms| Self::At(At::Time(ms))),
                _ => number(text).map(Self::Offset),
            },
        };
        start.ok_or("expected is earliest, latest, an offset, -N, or @MS for a time")
    }
}

/// What to read.
struct Plan {
    /// The range of each partition that has one.
    ranges: Vec<(i32, Range<i64>)>,
    /// How many partitions were looked at.
    partitions: usize,
    /// Of which the offset that was asked for is not there yet.
    beyond: Vec<String>,
}

/// The range to read of each partition. The ends are those of this moment, so that `-e` ends even
/// while others write.
fn plan(client: &Client, topic: &str, args: &ConsumeArgs) -> Result<Plan> {
    let start = args.offset;
    let look_up = |at| -> Result<Vec<(i32, Option<i64>)>> {
        let found = client.offsets(topic, at)?;
        found.into_iter().map(|found| found.map(|o| (o.partition, o.offset))).collect()
    };
    let ends = look_up(At::Latest)?;
    let firsts = look_up(At::Earliest)?;
    let wanted = match start {
        Start::At(at @ At::Time(_)) => Some(look_up(at)?),
        _ => None,
    };
    for partition in &args.partitions {
        if !ends.iter().any(|(known, _)| known == partition) {
            let error = Error::new(ErrorKind::UnknownTopic, "there is no such partition");
            return Err(error.with_partition(topic, *partition));
        }
    }
    let mut plan = Plan { ranges: Vec::new(), partitions: 0, beyond: Vec::new() };
    for (index, (partition, end)) in ends.iter().enumerate() {
        if !args.partitions.is_empty() && !args.partitions.contains(partition) {
            continue;
        }
        plan.partitions += 1;
        let end = end.unwrap_or(0);
        let first = firsts.get(index).and_then(|(_, first)| *first).unwrap_or(0);
        let begin = match start {
            Start::At(At::Earliest) => first,
            Start::At(At::Latest) => end,
            Start::At(At::Time(_)) => {
                wanted.as_ref().and_then(|w| w.get(index)).and_then(|(_, at)| *at).unwrap_or(end)
            }
            Start::Offset(offset) => {
                if offset > end {
                    plan.beyond.push(format!(
                        "{topic}-{partition} ends at {end}: offset {offset} is not there"
                    ));
                }
                offset
            }
            Start::Last(count) => end.saturating_sub(count).max(first),
        };
        let stop = if args.exit_at_end { end } else { i64::MAX };
        if begin < stop {
            plan.ranges.push((*partition, begin..stop));
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_read_or_refused() {
        assert_eq!("earliest".parse::<Start>().expect("legal"), Start::At(At::Earliest));
        assert_eq!("latest".parse::<Start>().expect("legal"), Start::At(At::Latest));
        assert_eq!("17".parse::<Start>().expect("legal"), Start::Offset(17));
        assert_eq!("-10".parse::<Start>().expect("legal"), Start::Last(10));
        assert_eq!(
            "@1700000000000".parse::<Start>().expect("legal"),
            Start::At(At::Time(1_700_000_000_000))
        );
        for text in ["", "-", "@", "1x", "--1", "+1", "-+1", "now"] {
            assert!(text.parse::<Start>().is_err(), "{text}");
        }
    }
}
