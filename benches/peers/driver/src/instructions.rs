//! Instructions per record of Ottla under callgrind: a figure that neither the machine's load nor its
//! caches move, to see what a change to the code did. It says nothing of the kernel and of waiting.
//!
//! Each case runs with N and with 3 N records; the difference divided by 2 N leaves out what a run
//! costs whatever its length. All threads of the client count.

use std::process::{Command, Stdio};

use peers_common::{Failure, Mode};

use crate::run::Programs;
use crate::topics::Topics;
use crate::{CLIENTS, Case, Client};

/// What a run may take: some fifty times as long as without callgrind.
const LIMIT_SECONDS: u64 = 600;
/// Keeps glibc from string instructions, which callgrind counts once per byte.
const TUNABLES: &str = "glibc.cpu.x86_rep_stosb_threshold=1000000000:\
                        glibc.cpu.x86_rep_movsb_threshold=1000000000";

/// Prints a line for each of `cases`.
pub fn count(
    cases: &[Case],
    records: u64,
    programs: &Programs,
    topics: &mut Topics,
) -> Result<(), Failure> {
    let client = CLIENTS.iter().find(|client| client.program == "ott").ok_or("no such client")?;
    println!("| case | instructions per record |\n|---|---|");
    for case in cases {
        let short = run(case, client, records, programs, topics)?;
        let long = run(case, client, 3 * records, programs, topics)?;
        println!("| {case} | {:.0} |", (long as f64 - short as f64) / (2.0 * records as f64));
    }
    Ok(())
}

fn run(
    case: &Case,
    client: &Client,
    n: u64,
    programs: &Programs,
    topics: &mut Topics,
) -> Result<u64, Failure> {
    let topic = topics.create()?;
    if case.mode == Mode::Consume {
        programs.run(client, &case.filling(), &topic, n)?;
    }
    let output = Command::new("valgrind")
        .env("GLIBC_TUNABLES", TUNABLES)
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(programs.path_of(client))
        .args(programs.arguments(client, case, &topic, n, LIMIT_SECONDS))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("valgrind does not start: {e}"))?;
    topics.delete(&topic)?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{case} under callgrind ended with {}: {text}", output.status).into());
    }
    let count = text.lines().find_map(|line| line.split_once("Collected :"));
    let (_, count) = count.ok_or_else(|| format!("callgrind gave no figure: {text}"))?;
    Ok(count.trim().parse()?)
}
