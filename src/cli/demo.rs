//! `ottla demo`: the main job on real input, with every record accounted for at the end.
//!
//! Real lines (this machine's package index, or the files of the checkout) are sent to a topic of
//! six partitions; workers read them back in units. One unit in twenty is made to fail at its first
//! attempt, half way through, so that the rest of it is seen to be handled again; one worker stalls
//! on its unit until the unit is taken from it and another worker does it. The check at the end
//! knows each line: each record carries its number.
//!
//! Without `-b` and `--redis` all of it happens inside this process: brokers of [`crate::broker`], the
//! queue in memory.

mod check;
mod input;
mod servers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar};

use self::check::Check;
use self::input::{Line, input};
use self::servers::Servers;
use super::End;
use super::args::DemoArgs;
use super::report::{self, megabytes, records, seconds};
use super::signals::Ending;
use crate::admin::Topic;
use crate::client::Client;
use crate::clock;
use crate::error::Result;
use crate::producer::Record;
use crate::threads;
use crate::work::{NodeStats, Unit};

const PARTITIONS: i32 = 6;
const REPLICAS_MAX: usize = 3;
/// Longest time that one part of the demo may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often the progress line is brought up to date.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// How long a unit belongs to a worker that says nothing.
const UNIT_LEASE: Duration = Duration::from_secs(1);
/// Longest time that a worker may keep a unit: what a stalled one holds is taken from it.
const UNIT_MAX: Duration = Duration::from_secs(3);
/// The header that carries a line's number.
const LINE_HEADER: &str = "line";

pub(super) fn run(args: &DemoArgs) -> Result<End> {
    let ending = Ending::watch()?;
    let servers = match (&args.bootstrap, &args.redis) {
        (Some(bootstrap), Some(redis)) => {
            Servers::Given { bootstrap: bootstrap.clone(), redis: redis.clone() }
        }
        _ => Servers::start()?,
    };
    demo(args, &servers, &ending)
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
        .topics([topic])
        .workers(args.workers)
        .unit_size(args.unit_size)
        .unit_lease(UNIT_LEASE)
        .unit_max(UNIT_MAX)
        .unit_retry_backoff(Duration::from_millis(100));
    let node = servers.queue(node).run(move |unit: &mut Unit| handler.handle(unit))?;
    let node = Arc::new(node);
    let mut bars = Bars::new(check.lines());
    let drained = {
        let (draining, drained) = (Arc::clone(&node), ending.clone());
        let (result, end) = crossbeam_channel::bounded(1);
        let drain = threads::spawn("ottla-drain", move || {
            result.send(draining.drain(PATIENCE)).expect("the result is waited for");
            drained.finish();
        })?;
        while !ending.wait(PROGRESS_EVERY) {
            bars.show(check.distinct(), &node.stats());
        }
        node.shutdown(PATIENCE)?;
        drain.join();
        end.recv().expect("the thread sends before it ends")
    };
    bars.clear();
    let stats = node.stats();
    report::line(&format!(
        "handled {} in {} units in {}; attempts failed on purpose: {}; stalled units taken over: {}",
        records(check.distinct()),
        stats.total.units,
        seconds(clock::now() - started),
        stats.total.failed - check.taken_over().min(stats.total.failed),
        check.taken_over(),
    ));
    for (worker, stats) in &stats.workers {
        report::line(&format!("  {worker}: {} units, {}", stats.units, records(stats.records)));
    }
    if let Err(error) = &drained {
        report::line(&format!("ottla: {error}"));
    }
    Ok(drained.is_ok())
}

/// A progress line for all, and one for each worker.
struct Bars {
    all: MultiProgress,
    total: ProgressBar,
    workers: BTreeMap<String, ProgressBar>,
    lines: u64,
}

impl Bars {
    fn new(lines: u64) -> Self {
        let all = MultiProgress::new();
        let total = all.add(report::progress(lines, "workers {wide_bar} {pos}/{len} {msg}"));
        Self { all, total, workers: BTreeMap::new(), lines }
    }

    fn show(&mut self, distinct: u64, stats: &NodeStats) {
        self.total.set_position(distinct);
        self.total.set_message(format!("{} units", stats.total.units));
        for (worker, stats) in &stats.workers {
            let bar = self.workers.entry(worker.clone()).or_insert_with(|| {
                self.all.add(report::progress(self.lines, "  {prefix} {wide_bar} {pos} {msg}"))
            });
            bar.set_prefix(worker.clone());
            bar.set_position(stats.records);
            bar.set_message(format!("{} units", stats.units));
        }
    }

    fn clear(self) {
        for bar in self.workers.values().chain([&self.total]) {
            bar.finish_and_clear();
        }
    }
}
