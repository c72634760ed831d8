//! Runs the clients against one broker, in turn, several rounds, and prints the medians.
//!
//! `peers bootstrap=HOST:PORT [rounds=3] [records=4000000] [minutes=30] [only=WORD,...]`
//!
//! `records` is the number of 100 B records; of 1 KiB there are a quarter of it. `only` leaves out the cases
//! of whose label ("produce 100 B lz4") none of the words is a part, and brings in those that a run without
//! it leaves out: more codecs, keys, several threads, latency. No run begins after `minutes`.
//!
//! `peers instructions bootstrap=HOST:PORT [records=100000] [only=WORD,...]` counts Ottla's
//! instructions per record under callgrind instead; `instructions.sh` builds what that needs.
//!
//! Every topic is made here and deleted again. Ends with 1 if a run failed.

mod instructions;
mod plan;
mod run;
mod table;
mod topics;

use std::time::{Duration, Instant};

use peers_common::{Failure, Mode};

use plan::{CASES, CLIENTS, Case, Client, more_cases};
use run::Programs;
use table::Table;
use topics::Topics;

const USAGE: &str = "peers [instructions] bootstrap=HOST:PORT [rounds=3] [records=4000000] [minutes=30] [only=WORD,...]";

/// Records of the shorter run under callgrind, unless told otherwise.
const COUNTED_RECORDS: u64 = 100_000;
/// Records of a measured run, unless told otherwise.
const MEASURED_RECORDS: u64 = 4_000_000;

struct Options {
    instructions: bool,
    bootstrap: String,
    rounds: u32,
    records: u64,
    time: Duration,
    only: Vec<String>,
}

fn main() -> Result<(), Failure> {
    let options = Options::from_args().map_err(|e| format!("{e}\nusage: {USAGE}"))?;
    let programs = Programs::beside_this(&options.bootstrap)?;
    let mut topics = Topics::connect(&options.bootstrap)?;
    if options.instructions {
        let outcome =
            instructions::count(&options.cases(), options.records, &programs, &mut topics);
        topics.delete_all()?;
        return outcome;
    }
    let outcome = measure(&options, &programs, &mut topics);
    topics.delete_all()?;
    let table = outcome?;
    print!("{table}");
    match table.failed() {
        0 => Ok(()),
        failed => Err(format!("{failed} runs failed").into()),
    }
}

fn measure(options: &Options, programs: &Programs, topics: &mut Topics) -> Result<Table, Failure> {
    let end = Instant::now() + options.time;
    let cases = options.cases();
    let mut filled = Vec::new();
    for case in cases.iter().filter(|case| case.mode == Mode::Consume) {
        let topic = topics.create()?;
        // All read the same bytes, so one client writes them: the one all are compared with.
        let figures =
            programs.run(&CLIENTS[0], &case.filling(), &topic, case.n(options.records))?;
        eprintln!("filled for {case}: {figures}");
        filled.push((*case, topic));
    }

    let mut table = Table::default();
    for round in 1..=options.rounds {
        for case in &cases {
            for client in CLIENTS.iter().filter(|client| client.does(case)) {
                if Instant::now() > end {
                    eprintln!("the time is over, in round {round}");
                    return Ok(table);
                }
                let full = filled.iter().find(|(other, _)| other == case);
                let topic = match full {
                    Some((_, topic)) => topic.clone(),
                    None => topics.create()?,
                };
                let outcome = programs.run(client, case, &topic, case.n(options.records));
                match &outcome {
                    Ok(figures) => eprintln!("{round} {case} {}: {figures}", client.label),
                    Err(error) => eprintln!("{round} {case} {}: {error}", client.label),
                }
                table.add(*case, client.label, outcome.ok());
                if full.is_none() {
                    topics.delete(&topic)?;
                }
            }
        }
    }
    Ok(table)
}

impl Options {
    fn cases(&self) -> Vec<Case> {
        let more = if self.only.is_empty() { Vec::new() } else { more_cases() };
        CASES.into_iter().chain(more).filter(|case| case.matches(&self.only)).collect()
    }

    fn from_args() -> Result<Options, Failure> {
        let mut bootstrap = None;
        let mut rounds = 3;
        let mut instructions = false;
        let mut records = None;
        let mut minutes = 30;
        let mut only = Vec::new();
        for arg in std::env::args().skip(1) {
            match arg.split_once('=') {
                Some(("bootstrap", value)) => bootstrap = Some(value.to_owned()),
                Some(("rounds", value)) => rounds = value.parse()?,
                Some(("records", value)) => records = Some(value.parse()?),
                Some(("minutes", value)) => minutes = value.parse()?,
                Some(("only", value)) => only = value.split(',').map(str::to_owned).collect(),
                None if arg == "instructions" => instructions = true,
                _ => return Err(format!("unknown argument {arg}").into()),
            }
        }
        Ok(Options {
            bootstrap: bootstrap.ok_or("bootstrap is missing")?,
            rounds,
            instructions,
            records: records.unwrap_or(if instructions {
                COUNTED_RECORDS
            } else {
                MEASURED_RECORDS
            }),
            time: Duration::from_secs(minutes * 60),
            only,
        })
    }
}
