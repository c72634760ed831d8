//! The whole way on real input, with the command alone: a million real lines are sent to three brokers and
//! read by three processes of four workers in units of 5,000, while one process is killed and one broker is
//! stopped and started again. Every line arrives; what arrives twice was held by the killed process.

mod common;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Running, run, servers, succeeded, text, unique, wait_until};

const PARTITIONS: usize = 6;
const PROCESSES: usize = 3;
const WORKERS: usize = 4;
const UNIT: i64 = 5_000;
/// Without a package index the sources are repeated up to so many lines.
const LINES_WITHOUT_INDEX: usize = 300_000;
const LIMIT: Duration = Duration::from_secs(240);

fn ottla(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ottla"));
    command.args(arguments);
    command
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(unique("ottla-real-input"));
        fs::create_dir(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Writes the input, each line as `package<TAB>line`; tells how many lines there are.
fn write_input(file: &Path) -> usize {
    let mut out = BufWriter::new(File::create(file).expect("a file"));
    let mut lines = 0;
    let index = Command::new("apt-cache").arg("dumpavail").stdout(Stdio::piped()).spawn();
    if let Ok(mut index) = index {
        let reader = BufReader::new(index.stdout.take().expect("piped"));
        let mut package = Vec::new();
        for line in reader.split(b'\n') {
            let line = line.expect("a line");
            if let Some(name) = line.strip_prefix(b"Package: ") {
                package = name.to_vec();
            }
            out.write_all(&[&package[..], b"\t", &line[..], b"\n"].concat()).expect("written");
            lines += 1;
        }
        index.wait().expect("our own child");
    }
    if lines < LINES_WITHOUT_INDEX {
        let lock = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock")).expect("a file");
        let source: Vec<&[u8]> = lock.split(|byte| *byte == b'\n').collect();
        for number in lines..LINES_WITHOUT_INDEX {
            let line = source[number % source.len()];
            out.write_all(format!("round-{}\t", number / source.len()).as_bytes())
                .expect("written");
            out.write_all(&[line, b"\n"].concat()).expect("written");
        }
        lines = LINES_WITHOUT_INDEX;
    }
    out.flush().expect("written");
    lines
}

/// What a process wrote: partition and offset of each record to its key and value. A line that a
/// kill cut off does not count.
fn read_output(file: &Path) -> Vec<((i32, i64), Vec<u8>)> {
    let bytes = fs::read(file).expect("an output file");
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let mut fields = line.splitn(3, |byte| *byte == b' ');
            let mut number =
                || text(fields.next().expect("a field")).parse::<i64>().expect("a number");
            let (partition, offset) = (number() as i32, number());
            ((partition, offset), fields.next().expect("the rest").to_vec())
        })
        .collect()
}

fn bytes_of(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |metadata| metadata.len())
}

#[test]
fn every_line_arrives_while_a_process_is_killed_and_a_broker_stops() {
    let outage = servers().outage();
    let folder = Folder::new();
    let input = folder.0.join("input");
    let lines = write_input(&input);
    let input_bytes = bytes_of(&input);
    let (topic, group) = (unique("input"), unique("readers"));
    let bootstrap = servers().bootstrap();
    let partitions = PARTITIONS.to_string();

    let create = [
        "topics",
        "create",
        "-b",
        bootstrap,
        "-t",
        &topic,
        "--partitions",
        &partitions,
        "--replication",
        "3",
    ];
    succeeded(run(&mut ottla(&create), b""));
    let file = input.to_str().expect("a path");
    let sent = run(
        &mut ottla(&["send", "-b", bootstrap, "-t", &topic, "-K", r"\t", "-z", "lz4", file]),
        b"",
    );
    let sent = succeeded(sent);
    assert!(
        text(&sent.stderr).contains(&format!("delivered {lines} of {lines} records")),
        "{}",
        text(&sent.stderr)
    );

    let outputs: Vec<PathBuf> =
        (0..PROCESSES).map(|n| folder.0.join(format!("output-{n}"))).collect();
    let errors: Vec<PathBuf> =
        (0..PROCESSES).map(|n| folder.0.join(format!("errors-{n}"))).collect();
    let workers = WORKERS.to_string();
    let unit = UNIT.to_string();
    let consume = [
        "consume",
        "-b",
        bootstrap,
        "-t",
        &topic,
        "-g",
        &group,
        "--redis",
        servers().redis_url(),
        "--workers",
        &workers,
        "--unit-size",
        &unit,
        "--drain",
        "-f",
        r"%p %o %k\t%s\n",
        "-X",
        "unit.lease.ms=6000",
        "-X",
        "worker.timeout.ms=6000",
        "-X",
        "organiser.lease.ms=6000",
    ];
    let mut processes: Vec<Running> = outputs
        .iter()
        .zip(&errors)
        .map(|(output, error)| {
            let mut command = ottla(&consume);
            command.stdin(Stdio::null());
            command.stdout(File::create(output).expect("a file"));
            command.stderr(File::create(error).expect("a file"));
            Running::start(&mut command)
        })
        .collect();

    let written = || outputs.iter().map(|output| bytes_of(output)).sum::<u64>();
    let complain = |what: &str| {
        let words: Vec<String> =
            errors.iter().map(|error| fs::read_to_string(error).unwrap_or_default()).collect();
        format!("{what}; the processes said: {}", words.join("\n---\n"))
    };
    wait_until("a tenth of the lines", LIMIT, || written() > input_bytes / 10);
    wait_until("the first process at work", LIMIT, || bytes_of(&outputs[0]) > 0);
    processes[0].kill().expect("our own child");
    processes[0].wait().expect("our own child");
    outage.broker(2).stop();
    outage.broker(2).start();

    for process in &mut processes[1..] {
        let mut status = None;
        wait_until(&complain("the other processes drain the topic"), LIMIT, || {
            status = process.try_wait().expect("our own child");
            status.is_some()
        });
        assert!(status.expect("it ended").success(), "{}", complain("a process failed"));
    }

    // Accounts.
    let mut seen: HashMap<(i32, i64), (u32, bool)> = HashMap::new();
    let mut values: HashMap<Vec<u8>, i64> = HashMap::new();
    for (number, output) in outputs.iter().enumerate() {
        for (place, value) in read_output(output) {
            let entry = seen.entry(place).or_default();
            if entry.0 == 0 {
                *values.entry(value).or_default() += 1;
            }
            entry.0 += 1;
            entry.1 |= number == 0;
        }
    }
    assert_eq!(seen.len(), lines, "every offset arrives");
    for line in BufReader::new(File::open(&input).expect("a file")).split(b'\n') {
        *values.entry(line.expect("a line")).or_default() -= 1;
    }
    let different = values.values().filter(|count| **count != 0).count();
    assert_eq!(different, 0, "every line arrives with its key, byte for byte");

    let twice: Vec<_> = seen.iter().filter(|(_, (count, _))| *count > 1).collect();
    assert!(
        twice.iter().all(|(_, (count, killed))| *count == 2 && *killed),
        "duplicates come from the killed process"
    );
    let mut units: Vec<(i32, i64)> =
        twice.iter().map(|((p, offset), _)| (*p, offset / UNIT)).collect();
    units.sort_unstable();
    units.dedup();
    assert!(units.len() <= 2 * WORKERS, "duplicates lie in the units that it held: {units:?}");
    println!("{lines} lines, {} seen twice, in {} ranges", twice.len(), units.len());

    let lag = servers().java_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        &["--describe", "--group", &group],
    );
    let described = text(&lag.stdout).into_owned();
    let rows: Vec<Vec<&str>> = described
        .lines()
        .filter(|line| line.contains(&topic))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), PARTITIONS, "{described}");
    let total: usize = rows.iter().map(|row| row[3].parse::<usize>().expect("an offset")).sum();
    assert_eq!(total, lines, "{described}");
    assert!(rows.iter().all(|row| row[5] == "0"), "no lag is left: {described}");
}
