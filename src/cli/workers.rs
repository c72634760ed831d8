//! `ottla consume -g`: organiser candidate and workers of a group.
//!
//! Without `--exec` a unit's records go to standard output, batch by batch as whole pieces, and
//! each piece that was flushed is credited: what fails later in the unit does not repeat it. With
//! `--exec` a unit's records go to the standard input of one process per unit, and its exit code
//! decides about the unit as a whole.

use std::io::{self, Write};
use std::process::{ChildStdin, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::args::ConsumeArgs;
use super::consume::Shown;
use super::format::Format;
use super::output::Output;
use super::report::{self, seconds};
use super::signals::Ending;
use super::{End, topics};
use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::FetchedBatch;
use crate::threads::{self, Stop};
use crate::work::{Event, HandlerResult, Node, Redis, Unit};

/// How long handlers may take to end; after a signal, a command has it from SIGTERM to SIGKILL.
const SHUTDOWN: Duration = Duration::from_secs(10);
/// How long handlers may take to end whose commands were killed.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// How often it is looked whether it is time to end.
const LOOK: Duration = Duration::from_millis(500);
/// Longest time that `--drain` waits: it ends by itself or by a signal.
const DRAIN_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

pub(super) fn run(args: &ConsumeArgs) -> Result<End> {
    let (Some(group), Some(redis)) = (args.group.clone(), args.redis.clone()) else {
        let message = "a group needs --redis";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    };
    if args.workers == 0 {
        if args.exec.is_some() {
            let message = "--exec needs a worker: --workers 0 only plans";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        report::line("ottla: no workers here: this process plans, others have to handle the units");
    }
    let ending = Ending::watch()?;
    let started = clock::now();
    let client = topics::client(&args.cluster)?;
    // What a regular expression matches is looked up while it runs.
    for topic in args.topics.iter().filter(|topic| !topic.starts_with('^')) {
        client.topic(topic)?;
    }
    let mut builder = client
        .node(&group)
        .queue(Redis::at(&redis))
        .topics(args.topics.iter().cloned())
        .workers(args.workers);
    if let Some(size) = args.unit_size {
        builder = builder.unit_size(size);
    }
    if let Some(topic) = &args.dead_letter_topic {
        client.topic(topic)?;
        builder = builder.dead_letter_topic(topic);
    }
    if let Some(records) = args.records_per_second {
        builder = builder.records_per_second_max(records);
    }
    if let Some(bytes) = args.bytes_per_second {
        builder = builder.bytes_per_second_max(bytes);
    }
    let output = Arc::new(Output::default());
    let records = Arc::new(AtomicU64::new(0));
    let handler = Handler {
        records: Arc::clone(&records),
        output: Arc::clone(&output),
        ending: ending.clone(),
        format: args.format.clone().unwrap_or_else(Format::value_line),
        command: args.exec.clone(),
    };
    let node = Arc::new(builder.run(move |unit: &mut Unit| handler.handle(unit))?);
    tell_events(&node)?;
    let drained = Arc::new(AtomicBool::new(false));
    let drain_error = Arc::new(Mutex::new(None));
    if args.drain {
        let (node, drained, error) =
            (Arc::clone(&node), Arc::clone(&drained), Arc::clone(&drain_error));
        let ending = ending.clone();
        // Detached: a shutdown of the node ends it.
        drop(threads::spawn("ottla-drain", move || {
            match node.drain(DRAIN_MAX) {
                Ok(()) => drained.store(true, Ordering::SeqCst),
                Err(failure) => *error.lock() = Some(failure),
            }
            ending.finish();
        })?);
    }
    while !ending.wait(LOOK) {}
    let shut_down = shut_down(&node, &ending)?;
    if let Some(failure) = output.failure() {
        report::line(&format!("ottla: {failure}"));
    }
    let drain_error = drain_error.lock().take().filter(|_| !ending.is_interrupted());
    for error in shut_down.iter().chain(&drain_error) {
        report::line(&format!("ottla: {error}"));
    }

    let total = node.stats().total;
    report::line(&format!(
        "processed {} in {}, {} attempts failed, {} units dead-lettered, {} leases lost, in {}{}",
        report::records(records.load(Ordering::SeqCst)),
        report::count(total.units, "unit"),
        total.failed,
        total.dead_lettered,
        total.lost,
        seconds(clock::now() - started),
        if ending.is_interrupted() { ", interrupted" } else { "" },
    ));
    let missed = args.drain && !drained.load(Ordering::SeqCst);
    let is_complete = !missed && total.dead_lettered == 0 && shut_down.is_none();
    Ok(output.verdict(if is_complete { End::Complete } else { End::Incomplete }))
}

/// Shuts the node down and gives what kept it from ending cleanly. Commands that do not end in time are
/// killed, so that none outlives this process and their units go back at once.
fn shut_down(node: &Node, ending: &Ending) -> Result<Option<Error>> {
    let stopped = Stop::new();
    let killer = {
        let (stopped, ending) = (stopped.clone(), ending.clone());
        threads::spawn("ottla-kill", move || {
            if !stopped.wait(SHUTDOWN) {
                ending.kill_groups();
            }
        })?
    };
    let result = node.shutdown(SHUTDOWN + AFTER_KILL);
    stopped.set();
    killer.join();
    Ok(result.err())
}

/// Tells what people should know while it runs.
fn tell_events(node: &Node) -> Result<()> {
    let events = node.events();
    // Detached: the events end with the node.
    drop(threads::spawn("ottla-events", move || {
        for event in events {
            match event {
                Event::UnitFailed { unit, attempt, error } => {
                    report::line(&format!("ottla: unit {unit}, attempt {attempt}: {error}"));
                }
                Event::DeadLettered { unit, error } => {
                    report::line(&format!("ottla: unit {unit} was given up: {error}"));
                }
                Event::LeaseLost { unit } => report::line(&format!(
                    "ottla: the lease of unit {unit} was lost: its records may be seen twice"
                )),
                Event::UnitOverdue { unit } => {
                    report::line(&format!("ottla: unit {unit} is held for too long"));
                }
                Event::Skipped { partition, from, to } => report::line(&format!(
                    "ottla: {partition}: offsets {from} to {} are no longer in the log",
                    to - 1
                )),
                Event::TopicReset { partition } => report::line(&format!(
                    "ottla: {partition}: the topic was made anew, starting over"
                )),
                Event::Trouble { doing, error } => {
                    report::line(&format!("ottla: {doing}: {error}; trying again"));
                }
                Event::Recovered { doing } => report::line(&format!("ottla: {doing}: works again")),
                _ => {}
            }
        }
    })?);
    Ok(())
}

/// Why a unit could not be handled.
type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// What is done with each unit.
struct Handler {
    output: Arc<Output>,
    ending: Ending,
    format: Format,
    command: Option<String>,
    /// Records that were flushed, or that a command was given; those of a unit that is tried again count
    /// again.
    records: Arc<AtomicU64>,
}

impl Handler {
    fn handle(&self, unit: &mut Unit) -> HandlerResult {
        match &self.command {
            Some(command) => self.pipe(unit, command),
            None => self.print(unit),
        }
    }

    fn print(&self, unit: &Unit) -> HandlerResult {
        let mut piece = Vec::new();
        for batch in unit.batches()? {
            let batch = batch?;
            let count = self.render(&batch, &mut piece)?;
            if unit.is_lost() {
                return Err("another worker has this unit by now".into());
            }
            if let Err(error) = self.output.write(&piece) {
                // Nothing can be delivered any more, by this process.
                self.ending.finish();
                return Err(error.into());
            }
            self.records.fetch_add(count, Ordering::Relaxed);
            unit.done_to(batch.range().end);
        }
        Ok(())
    }

    fn pipe(&self, unit: &Unit, command: &str) -> HandlerResult {
        let range = unit.range();
        let mut group = self.ending.start(
            Command::new("sh")
                .args(["-c", command])
                .env("OTTLA_UNIT", unit.id().to_string())
                .env("OTTLA_TOPIC", unit.topic())
                .env("OTTLA_PARTITION", unit.partition().to_string())
                .env("OTTLA_START", range.start.to_string())
                .env("OTTLA_END", range.end.to_string())
                .env("OTTLA_ATTEMPT", unit.attempt().to_string()),
        )?;
        let mut input = group.input().expect("the input was asked to be piped");
        let fed = self.feed(unit, &mut input);
        if fed.is_err() {
            // Killed before its input ends: it must not take half a unit for a whole one. That it
            // has ended already is no matter.
            group.kill();
        }
        drop(input);
        let status = group.wait()?;
        let count = fed?;
        if !status.success() {
            if unit.is_stopping() || self.ending.is_interrupted() {
                // The signal was passed on to it: the records are not to blame.
                unit.give_back("the command was ended by the shutdown");
            }
            return Err(format!("the command ended with {status}").into());
        }
        self.records.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// The text of a batch, in place of what `piece` held; tells how many records it has.
    fn render(&self, batch: &FetchedBatch, piece: &mut Vec<u8>) -> Result<u64> {
        piece.clear();
        let mut count = 0;
        for record in batch {
            self.format.render(&Shown { batch, record: &record? }, piece);
            count += 1;
        }
        Ok(count)
    }

    /// Writes the unit's records to a child's input, and tells how many there are. A child that ends
    /// without reading everything has what it wants.
    fn feed(&self, unit: &Unit, input: &mut ChildStdin) -> std::result::Result<u64, HandlerError> {
        let mut piece = Vec::new();
        let mut count = 0;
        for batch in unit.batches()? {
            count += self.render(&batch?, &mut piece)?;
            if unit.is_lost() {
                return Err("another worker has this unit by now".into());
            }
            match input.write_all(&piece) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(count),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(count)
    }
}
