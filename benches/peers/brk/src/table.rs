//! Runs every pair of cluster and client, round by round, and prints the medians as a table.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use peers_common::{Failure, Figures};

const CLUSTERS: [(&str, &str); 2] = [("cluster", "Ottla's"), ("mock", "librdkafka's")];
const CLIENTS: [(&str, &str); 2] = [("rdk", "rdkafka"), ("ott", "Ottla")];
const WORKS: [&str; 2] = ["produce", "read"];

/// What one run took: records per second, CPU seconds of the client, of the cluster.
type Cost = [f64; 3];

pub fn print(rounds: usize, n: u64) -> Result<(), Failure> {
    let mut costs: BTreeMap<(usize, usize, usize), Vec<Cost>> = BTreeMap::new();
    for round in 1..=rounds {
        for (c, (cluster, _)) in CLUSTERS.iter().enumerate() {
            let mut serving = Serving::start(cluster)?;
            for (l, (client, _)) in CLIENTS.iter().enumerate() {
                for (w, work) in WORKS.iter().enumerate() {
                    match cost(&mut serving, client, work, n) {
                        Ok(cost) => {
                            eprintln!("{round}: {cluster} {client} {work} {cost:.2?}");
                            costs.entry((w, l, c)).or_default().push(cost);
                        }
                        // Shown by a row without figures.
                        Err(error) => eprintln!("{round}: {cluster} {client} {work}: {error}"),
                    }
                }
            }
            serving.finish()?;
        }
    }
    println!("| work | client | cluster | records/s | CPU s, client | CPU s, cluster |");
    println!("|---|---|---|---|---|---|");
    for (w, work) in WORKS.iter().enumerate() {
        for (l, (_, client)) in CLIENTS.iter().enumerate() {
            for (c, (_, cluster)) in CLUSTERS.iter().enumerate() {
                let figures = match costs.get(&(w, l, c)).filter(|runs| runs.len() == rounds) {
                    Some(runs) => {
                        let [rate, own, cluster] = [0, 1, 2].map(|i| median(runs, i));
                        format!("{rate:.0} | {own:.2} | {cluster:.2}")
                    }
                    None => "failed | | ".to_owned(),
                };
                println!("| {work} | {client} | {cluster} | {figures} |");
            }
        }
    }
    Ok(())
}

fn median(runs: &[Cost], field: usize) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|cost| cost[field]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn cost(serving: &mut Serving, client: &str, work: &str, n: u64) -> Result<Cost, Failure> {
    let before = serving.cpu()?;
    let mut command = Command::new(env::current_exe()?);
    let output = command
        .args([client, work, &serving.bootstrap, &n.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("it failed: {}", output.status).into());
    }
    let figures: Figures = String::from_utf8(output.stdout)?.trim().parse()?;
    let cluster = serving.cpu()? - before;
    let own = figures.cpu_seconds_per_million * n as f64 / 1e6;
    Ok([figures.records_per_second, own, cluster])
}

/// A cluster that runs in a process of its own.
struct Serving {
    process: Child,
    ask: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    bootstrap: String,
}

impl Serving {
    fn start(cluster: &str) -> Result<Serving, Failure> {
        let mut process = Command::new(env::current_exe()?)
            .args(["serve", cluster])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let ask = process.stdin.take().expect("piped");
        let mut answers = BufReader::new(process.stdout.take().expect("piped")).lines();
        let bootstrap = answers.next().ok_or("the cluster did not start")??;
        Ok(Serving { process, ask, answers, bootstrap })
    }

    /// CPU seconds of the cluster so far.
    fn cpu(&mut self) -> Result<f64, Failure> {
        writeln!(self.ask)?;
        Ok(self.answers.next().ok_or("the cluster ended")??.parse()?)
    }

    fn finish(mut self) -> Result<(), Failure> {
        drop(self.ask);
        let status = self.process.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the cluster ended with {status}").into())
        }
    }
}
