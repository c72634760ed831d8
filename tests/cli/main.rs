//! The command, tried as an operator would, against the real servers: what it prints, where, and how it ends.
//!
//! One file per subcommand. Here is what they share: calling the command, topics, signals, and a gate
//! at which a command of `--exec` can be held.

#[path = "../common/mod.rs"]
mod common;

mod consume;
mod hostile;
mod send;
mod signals;
mod topics;
mod units;
mod work_queue;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{Running, poll_until, run, servers, succeeded, text, unique, wait_until};

/// How long anything here may take; mostly for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn ottla(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ottla"));
    command.args(arguments);
    command
}

/// What a call of the command came to.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    /// Standard output.
    records: Vec<u8>,
    /// Standard error.
    words: String,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            records: output.stdout.clone(),
            words: text(&output.stderr).into_owned(),
        }
    }

    /// The last line on standard error: the counts.
    fn counts(&self) -> &str {
        self.words.lines().last().unwrap_or_default()
    }

    fn lines(&self) -> Vec<String> {
        text(&self.records).lines().map(str::to_owned).collect()
    }

    /// Checks the exit code, with what was said if it is another.
    #[track_caller]
    fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.words);
        self
    }

    /// Checks that all of `parts` were said on standard error.
    #[track_caller]
    fn told(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.words.contains(part), "{part:?} is not in: {}", self.words);
        }
        self
    }
}

/// Runs `ottla` to its end.
fn call(arguments: &[&str], input: &[u8]) -> Said {
    Said::of(&run(&mut ottla(arguments), input))
}

/// Runs `ottla VERB... -b BROKERS ARGUMENTS...` to its end.
fn with_brokers(verb: &[&str], arguments: &[&str], input: &[u8]) -> Said {
    call(&[verb, &["-b", servers().bootstrap()], arguments].concat(), input)
}

/// A new topic.
fn topic(partitions: usize, configs: &[&str]) -> String {
    let topic = unique("cli");
    let partitions = partitions.to_string();
    let mut arguments = vec!["-t", &topic, "--partitions", &partitions, "--replication", "3"];
    for config in configs {
        arguments.extend(["--config", config]);
    }
    with_brokers(&["topics", "create"], &arguments, b"").ended_with(0);
    topic
}

/// A new topic of one partition with `lines` records: their numbers, each up to `width` bytes.
fn numbered(lines: usize, width: usize) -> String {
    let topic = topic(1, &[]);
    let numbers: Vec<String> = (0..lines).map(|number| format!("{number:0width$}\n")).collect();
    let input = numbers.concat();
    with_brokers(&["send"], &["-t", &topic], input.as_bytes())
        .ended_with(0)
        .told(&[&format!("delivered {lines} of {lines} records, 0 failed")]);
    topic
}

/// The number that a line of [`numbered`] begins with.
fn number_of(line: &str) -> usize {
    line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a numbered line")
}

/// `consume -g` with what makes a small test quick.
fn worker(topic: &str, group: &str, arguments: &[&str]) -> Command {
    let mut command = ottla(&[
        "consume",
        "-b",
        servers().bootstrap(),
        "-t",
        topic,
        "-g",
        group,
        "--redis",
        servers().redis_url(),
        "-X",
        "planning.interval.ms=50",
        "-X",
        "unit.retry.backoff.ms=20",
        "-X",
        "organiser.lease.ms=2000",
    ]);
    command.args(arguments);
    command
}

/// What `work-queue --json` shows of a group.
fn queue_of(group: &str) -> Option<serde_json::Value> {
    let arguments = ["work-queue", "-g", group, "--redis", servers().redis_url(), "--json"];
    let said = call(&arguments, b"");
    (said.code == Some(0)).then(|| serde_json::from_slice(&said.records).expect("JSON"))
}

/// How many units of a group are leased now.
fn leased(group: &str) -> u64 {
    queue_of(group).and_then(|queue| queue["lists"]["leased"].as_u64()).unwrap_or(0)
}

/// An address at which nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

/// Sends a signal, by its name.
fn signal(process: &Running, name: &str) {
    succeeded(run(
        Command::new("kill").args([&format!("-{name}"), &process.id().to_string()]),
        b"",
    ));
}

/// Waits for a process's end, with the streams that are still piped collected.
fn ended(mut process: Running) -> Said {
    let mut records = Vec::new();
    let mut words = String::new();
    let mut in_time = false;
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    std::thread::scope(|scope| {
        let records = &mut records;
        let words = &mut words;
        scope.spawn(move || stdout.map(|mut pipe| std::io::Read::read_to_end(&mut pipe, records)));
        scope.spawn(move || stderr.map(|mut pipe| std::io::Read::read_to_string(&mut pipe, words)));
        let has_ended = poll_until(LIMIT, || process.try_wait().expect("our own child").is_some());
        if !has_ended {
            // Its end closes the pipes, which ends the readers.
            drop(process.kill());
        }
        in_time = has_ended;
    });
    assert!(in_time, "the process did not end in {LIMIT:?}; it said: {words}");
    let code = process.wait().expect("our own child").code();
    Said { code, records, words }
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(unique("ottla-cli"));
        fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of ours is text").to_owned()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).expect("a file");
        self.path(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Holds commands of `--exec` that read a line from it, until it lets some pass.
struct Gate {
    folder: Folder,
    pipe: File,
}

impl Gate {
    fn new() -> Self {
        let folder = Folder::new();
        let path = folder.path("gate");
        succeeded(run(Command::new("mkfifo").arg(&path), b""));
        // For reading as well, so that neither side waits for the other to open it.
        let pipe = OpenOptions::new().read(true).write(true).open(path).expect("a pipe");
        Self { folder, pipe }
    }

    /// The shell's words to wait at it.
    fn pass(&self) -> String {
        format!("read -r _ < {}", self.folder.path("gate"))
    }

    fn let_pass(&mut self, commands: usize) {
        self.pipe.write_all(&vec![b'\n'; commands]).expect("room in the pipe");
    }
}

/// All streams piped, nothing to read.
fn piped(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}
