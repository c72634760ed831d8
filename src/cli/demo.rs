//! `ottla demo`: the main job on real input, with every record accounted for at the end.
//!
//! Real lines (this machine's package index, or the files of the checkout) are sent to a topic of
//! six partitions; workers read them back in units over Redis; one unit in twenty is made to fail at
//! its first attempt, half way through, so that the rest of it is seen to be handled again. Each
//! record carries its line number, so the check at the end knows each line: how often it came, and
//! whether its bytes are the ones that were sent.
//!
//! Without `-b` and `--redis` throw-away servers are started by the scripts of the checkout and ended
//! afterwards.

mod servers;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use self::servers::Servers;
use super::End;
use super::args::DemoArgs;
use super::report::{self, megabytes, records, seconds};
use super::signals::Ending;
use crate::admin::Topic;
use crate::client::Client;
use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::producer::Record;
use crate::threads;
use crate::work::{HandlerResult, Redis, Unit};

const PARTITIONS: i32 = 6;
const REPLICAS_MAX: usize = 3;
/// One unit in so many fails at its first attempt.
const FAILING_UNITS: u64 = 20;
/// Longest time that one part of the demo may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often the progress line is brought up to date.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// The header that carries a line's number.
const LINE_HEADER: &str = "line";

pub(super) fn run(args: &DemoArgs) -> Result<End> {
    let ending = Ending::watch()?;
    let servers = match (&args.bootstrap, &args.redis) {
        (Some(bootstrap), Some(redis)) => Servers::given(bootstrap, redis),
        _ => Servers::start()?,
    };
    let outcome = demo(args, &servers, &ending);
    servers.end();
    outcome
}

/// A line of the input: key and value.
struct Line {
    key: String,
    value: String,
}

fn demo(args: &DemoArgs, servers: &Servers, ending: &Ending) -> Result<End> {
    let (source, lines) = input(args.lines)?;
    let bytes: u64 = lines.iter().map(|line| line.value.len() as u64).sum();
    report::line(&format!("input: {} lines of {source}, {}", lines.len(), megabytes(bytes)));
    let lines = Arc::new(lines);

    let client = Client::builder(servers.bootstrap()).build()?;
    let topic = format!("ottla-demo-{:08x}", fastrand::u32(..));
    let replicas = client.brokers()?.len().min(REPLICAS_MAX) as i32;
    let created = client
        .admin()
        .create_topics([Topic::new(&topic).partitions(PARTITIONS).replication(replicas)])?;
    for topic in created {
        topic.result?;
    }
    let acknowledged = produce(&client, &topic, &lines, ending)?;
    let check = Arc::new(Check::new(Arc::clone(&lines)));
    let complete =
        !ending.is_interrupted() && consume(args, servers, &client, &topic, &check, ending)?;
    for deleted in client.admin().delete_topics([topic])? {
        deleted.result?;
    }

    let (once, twice, missing, damaged) = check.sum();
    report::line("");
    report::line(&format!("lines sent            {:>9}", lines.len()));
    report::line(&format!("acknowledged          {acknowledged:>9}"));
    report::line(&format!("handled once          {once:>9}"));
    report::line(&format!("handled again         {twice:>9}"));
    report::line(&format!("missing               {missing:>9}"));
    report::line(&format!("damaged               {damaged:>9}"));
    let good = complete && acknowledged == lines.len() as u64 && missing == 0 && damaged == 0;
    report::line(if good { "every line arrived" } else { "NOT every line arrived" });
    Ok(if good { End::Complete } else { End::Incomplete })
}

/// Sends all lines; tells how many were acknowledged.
fn produce(client: &Client, topic: &str, lines: &[Line], ending: &Ending) -> Result<u64> {
    let started = clock::now();
    let producer = client.producer().build()?;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let bar = report::progress(lines.len() as u64, "produce {wide_bar} {pos}/{len}");
    for (number, line) in lines.iter().enumerate() {
        if ending.is_interrupted() {
            break;
        }
        let number = number.to_string();
        let record = Record::to(topic)
            .key(&line.key)
            .value(&line.value)
            .header(LINE_HEADER, Some(number.as_bytes()));
        let count = Arc::clone(&acknowledged);
        producer.send_with(record, move |outcome| {
            if outcome.is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        bar.set_position(acknowledged.load(Ordering::Relaxed));
    }
    let unsent = producer.close(PATIENCE)?;
    bar.finish_and_clear();
    if let Some(first) = unsent.first() {
        report::line(&format!(
            "ottla: {} not delivered, the first: {}",
            records(unsent.len() as u64),
            first.reason
        ));
    }
    let acknowledged = acknowledged.load(Ordering::SeqCst);
    report::line(&format!(
        "produced {} in {}",
        records(acknowledged),
        seconds(clock::now() - started)
    ));
    Ok(acknowledged)
}

/// Reads everything back in units; tells whether the topic was drained.
fn consume(
    args: &DemoArgs,
    servers: &Servers,
    client: &Client,
    topic: &str,
    check: &Arc<Check>,
    ending: &Ending,
) -> Result<bool> {
    let started = clock::now();
    let handler = Arc::clone(check);
    let node = client
        .node(topic)
        .queue(Redis::at(servers.redis()))
        .topics([topic])
        .workers(args.workers)
        .unit_size(args.unit_size)
        .unit_retry_backoff(Duration::from_millis(100))
        .run(move |unit: &mut Unit| handler.handle(unit))?;
    let node = Arc::new(node);
    let bar = report::progress(check.lines.len() as u64, "workers {wide_bar} {pos}/{len} {msg}");
    let drained = {
        let (draining, drained) = (Arc::clone(&node), ending.clone());
        let (result, end) = crossbeam_channel::bounded(1);
        let drain = threads::spawn("ottla-drain", move || {
            result.send(draining.drain(PATIENCE)).expect("the result is waited for");
            drained.finish();
        })?;
        while !ending.wait(PROGRESS_EVERY) {
            bar.set_position(check.distinct.load(Ordering::Relaxed));
            bar.set_message(format!("{} units", node.stats().total.units));
        }
        node.shutdown(PATIENCE)?;
        drain.join();
        end.recv().expect("the thread sends before it ends")
    };
    bar.finish_and_clear();
    let stats = node.stats();
    report::line(&format!(
        "handled {} in {} units, {} attempts failed on purpose, in {}",
        records(stats.total.records),
        stats.total.units,
        stats.total.failed,
        seconds(clock::now() - started)
    ));
    for (worker, stats) in &stats.workers {
        report::line(&format!("  {worker}: {} units, {}", stats.units, records(stats.records)));
    }
    if let Err(error) = &drained {
        report::line(&format!("ottla: {error}"));
    }
    Ok(drained.is_ok())
}

/// How often each line came, and whether it was the line that was sent.
struct Check {
    lines: Arc<Vec<Line>>,
    seen: Vec<AtomicU8>,
    distinct: AtomicU64,
    damaged: AtomicU64,
    units: AtomicU64,
}

impl Check {
    fn new(lines: Arc<Vec<Line>>) -> Self {
        let seen = lines.iter().map(|_| AtomicU8::new(0)).collect();
        Self {
            lines,
            seen,
            distinct: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            units: AtomicU64::new(0),
        }
    }

    fn handle(&self, unit: &Unit) -> HandlerResult {
        let number = self.units.fetch_add(1, Ordering::Relaxed);
        let range = unit.range();
        let failing = unit.attempt() == 1 && number.is_multiple_of(FAILING_UNITS);
        let half = range.start + (range.end - range.start) / 2;
        for record in unit.records()? {
            let record = record?;
            if failing && record.offset() >= half {
                return Err("made to fail, half way through".into());
            }
            let line = record
                .headers()
                .last(LINE_HEADER)
                .and_then(|header| std::str::from_utf8(header.value?).ok()?.parse::<usize>().ok());
            self.count(line, record.key(), record.value());
            unit.done_to(record.offset() + 1);
        }
        Ok(())
    }

    fn count(&self, line: Option<usize>, key: Option<&[u8]>, value: Option<&[u8]>) {
        let sent = line.and_then(|index| Some((self.lines.get(index)?, self.seen.get(index)?)));
        match sent {
            Some((line, seen))
                if key == Some(line.key.as_bytes()) && value == Some(line.value.as_bytes()) =>
            {
                if seen.fetch_add(1, Ordering::Relaxed) == 0 {
                    self.distinct.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => {
                self.damaged.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Lines that came once, again, never, and records that are no line that was sent.
    fn sum(&self) -> (u64, u64, u64, u64) {
        let (mut once, mut again, mut missing) = (0, 0, 0);
        for seen in &self.seen {
            match seen.load(Ordering::SeqCst) {
                0 => missing += 1,
                1 => once += 1,
                _ => again += 1,
            }
        }
        (once, again, missing, self.damaged.load(Ordering::SeqCst))
    }
}

/// Real lines: this machine's package index, else the sources that this command was built from.
fn input(limit: Option<u64>) -> Result<(&'static str, Vec<Line>)> {
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let index = package_index(limit);
    if !index.is_empty() {
        return Ok(("the package index", index));
    }
    let mut lines = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let key = path.display().to_string();
                lines.extend(
                    text.lines().map(|line| Line { key: key.clone(), value: line.to_owned() }),
                );
            }
        }
    }
    lines.truncate(limit);
    if lines.is_empty() {
        return Err(Error::new(ErrorKind::Io, "there is no input: no package index, no sources"));
    }
    Ok(("the checkout's files", lines))
}

/// The lines of `apt-cache dumpavail`, each under the name of its package; none where there is no
/// such index.
fn package_index(limit: usize) -> Vec<Line> {
    let child = Command::new("apt-cache")
        .arg("dumpavail")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return Vec::new() };
    let output = child.stdout.take().expect("the output was asked to be piped");
    let mut reader = BufReader::new(output);
    let mut lines = Vec::new();
    let mut package = String::new();
    let mut bytes = Vec::new();
    while lines.len() < limit {
        bytes.clear();
        match reader.by_ref().read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        if let Some(name) = text.strip_prefix("Package: ") {
            name.clone_into(&mut package);
        }
        lines.push(Line { key: package.clone(), value: text.to_owned() });
    }
    drop(reader);
    // It may still be writing when the limit was reached; its end is all that is wanted.
    drop(child.kill());
    drop(child.wait());
    lines
}
