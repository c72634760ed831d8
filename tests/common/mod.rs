//! Real servers and foreign clients for integration tests.
//!
//! Owns the way to the servers that `tests/all.sh` (or a person, with `tests/servers/up.sh`) started: their
//! addresses, their outages, and the clients that are not ours: kcat, redis-cli, Kafka's Java classes. It
//! starts no servers: a run of three brokers is shared by all test binaries, and its end must not
//! depend on a test's. It knows nothing of the crate under test.
//!
//! A test binary that uses it is listed in `Cargo.toml` with `required-features = ["real-servers"]`, so that a
//! plain `cargo test` needs no servers. Asked for without servers, a test fails; it never skips itself.
//!
//! Tests of one binary run at the same time on the same servers, hence two rules:
//!
//! - Topics and groups get a name of their own: [`unique`].
//! - A test holds [`Servers::calm`] or [`Servers::outage`] from its first line to its last. Many are calm together;
//!   an outage is alone. When its guard is dropped, every broker and Redis run again and every replica is in
//!   sync, also after a panic.
//!
//! Each wait has a bound, and passing it is a failure that says what was waited for.

#![allow(
    dead_code,
    reason = "each test binary uses its own part; `expect` would fail in the one that uses all of it"
)]

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// How long one run of a script or of a foreign client may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(150);
/// How long replicas may take to catch up after an outage.
const SETTLE_LIMIT: Duration = Duration::from_secs(90);
/// Between two looks at a condition.
const POLL: Duration = Duration::from_millis(20);

/// The servers of this test run.
///
/// # Panics
/// Without them: with the one command that brings them.
pub(crate) fn servers() -> &'static Servers {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    SERVERS.get_or_init(|| Servers {
        bootstrap: setting("OTTLA_BOOTSTRAP"),
        redis_url: setting("OTTLA_REDIS"),
        folder: setting("OTTLA_SERVERS").into(),
        kafka_lib: setting("OTTLA_KAFKA_LIB").into(),
        disturbance: RwLock::new(()),
    })
}

fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: this test needs real servers; run tests/all.sh, which starts them"
        )
    })
}

/// One Redis and the brokers of one cluster.
#[derive(Debug)]
pub(crate) struct Servers {
    bootstrap: String,
    redis_url: String,
    folder: PathBuf,
    kafka_lib: PathBuf,
    disturbance: RwLock<()>,
}

impl Servers {
    /// `host:port` of every broker, separated by commas.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// `host:port` of broker `n`, counted from 1.
    pub(crate) fn broker_address(&self, n: usize) -> &str {
        self.bootstrap.split(',').nth(n - 1).expect("a broker of this cluster")
    }

    /// How many brokers there are; their ids are 1 to this.
    pub(crate) fn brokers(&self) -> usize {
        self.bootstrap.split(',').count()
    }

    /// `redis://host:port`.
    pub(crate) fn redis_url(&self) -> &str {
        &self.redis_url
    }

    /// The folder of this run: `broker-N/data` is what broker N stores.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of Kafka's jars.
    pub(crate) fn kafka_lib(&self) -> &Path {
        &self.kafka_lib
    }

    /// While it is held no other test of this binary stops a server. Blocks while one does.
    pub(crate) fn calm(&self) -> RwLockReadGuard<'_, ()> {
        self.disturbance.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to stop servers. Blocks until the other tests of this binary that use them have ended.
    pub(crate) fn outage(&self) -> Outage<'_> {
        let alone = self.disturbance.write().unwrap_or_else(PoisonError::into_inner);
        Outage { servers: self, _alone: alone }
    }

    /// Runs kcat with `-b` and `arguments`, and `stdin` as its input.
    ///
    /// # Panics
    /// If it fails, with what it said. (For a failure that is wanted: [`run`].)
    pub(crate) fn kcat(&self, arguments: &[&str], stdin: &[u8]) -> Output {
        kcat_at(&self.bootstrap, arguments, stdin)
    }

    /// Runs a command class of Kafka with `--bootstrap-server` and `arguments`: about a second.
    ///
    /// # Panics
    /// If it fails, with what it said.
    pub(crate) fn java_tool(&self, class: &str, arguments: &[&str]) -> Output {
        succeeded(java_tool_at(&self.bootstrap, class, arguments, b""))
    }

    /// What redis-cli prints for `arguments`, one reply a line, without the last line's end.
    ///
    /// # Panics
    /// If it fails.
    pub(crate) fn redis_cli(&self, arguments: &[&str]) -> String {
        let output = run(
            Command::new("redis-cli").args(["-u", &self.redis_url, "--raw", "-e"]).args(arguments),
            b"",
        );
        text(&succeeded(output).stdout).trim_end_matches('\n').to_owned()
    }

    /// Creates a topic by Kafka's own means, replicated to every broker, and waits until each broker knows it.
    /// `configs`: `key=value`.
    pub(crate) fn create_topic(&self, topic: &str, partitions: usize, configs: &[&str]) {
        let (partition_count, replicas) = (partitions.to_string(), self.brokers().to_string());
        let mut arguments = vec!["--create", "--topic", topic, "--partitions", &partition_count];
        arguments.extend(["--replication-factor", &replicas]);
        for config in configs {
            arguments.extend(["--config", config]);
        }
        self.java_tool("org.apache.kafka.tools.TopicCommand", &arguments);
        wait_until(&format!("topic {topic} at every broker"), SETTLE_LIMIT, || {
            (1..=self.brokers()).all(|n| {
                let layout = layout(self.broker_address(n), Some(topic));
                layout.len() == partitions && layout.iter().all(|found| found.leader > 0)
            })
        });
    }

    /// Deletes a topic by Kafka's own means. The brokers do it in their own time.
    pub(crate) fn delete_topic(&self, topic: &str) {
        self.java_tool("org.apache.kafka.tools.TopicCommand", &["--delete", "--topic", topic]);
    }

    /// The broker that leads a partition, as the other brokers see it; 0 while nobody does.
    pub(crate) fn leader(&self, topic: &str, partition: usize) -> usize {
        layout(&self.bootstrap, Some(topic))
            .into_iter()
            .find(|found| found.topic == topic && found.partition == partition)
            .map_or(0, |found| found.leader)
    }

    fn broker_script(&self, action: &str, brokers: &[usize]) -> Output {
        let mut command = script("broker.sh");
        command.arg(&self.folder).arg(action).args(brokers.iter().map(usize::to_string));
        run(&mut command, b"")
    }

    fn redis_script(&self, action: &str) -> Output {
        run(script("redis.sh").arg(&self.folder).arg(action), b"")
    }

    /// All run, and all replicas are in sync in the eyes of every broker.
    fn settled(&self) -> bool {
        (1..=self.brokers()).all(|n| {
            layout(self.broker_address(n), None)
                .iter()
                .all(|found| found.leader > 0 && found.replicas == found.in_sync)
        })
    }
}

/// The right to disturb the servers; see [`Servers::outage`]. Dropped, it mends everything.
#[derive(Debug)]
pub(crate) struct Outage<'a> {
    servers: &'a Servers,
    _alone: RwLockWriteGuard<'a, ()>,
}

impl Outage<'_> {
    /// Broker `n`, counted from 1.
    pub(crate) fn broker(&self, n: usize) -> Disturb<'_> {
        Disturb { servers: self.servers, broker: Some(n) }
    }

    /// The Redis.
    pub(crate) fn redis(&self) -> Disturb<'_> {
        Disturb { servers: self.servers, broker: None }
    }

    fn mend(&self) -> Result<(), String> {
        let all: Vec<usize> = (1..=self.servers.brokers()).collect();
        // A server that is stopped cannot be thawed, one that runs need not be: no failure here.
        for n in &all {
            self.servers.broker_script("thaw", &[*n]);
        }
        self.servers.redis_script("thaw");
        for output in
            [self.servers.broker_script("start", &all), self.servers.redis_script("start")]
        {
            if !output.status.success() {
                return Err(text(&output.stderr).into_owned());
            }
        }
        if poll_until(SETTLE_LIMIT, || self.servers.settled()) {
            Ok(())
        } else {
            Err(format!("replicas were not in sync {SETTLE_LIMIT:?} after an outage"))
        }
    }
}

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        if let Err(reason) = self.mend() {
            if std::thread::panicking() {
                eprintln!("after a failed test: {reason}");
            } else {
                panic!("{reason}");
            }
        }
    }
}

/// What can happen to one server. Each blocks until it has happened, and panics if it did not.
#[derive(Debug)]
pub(crate) struct Disturb<'a> {
    servers: &'a Servers,
    /// `None`: Redis.
    broker: Option<usize>,
}

impl Disturb<'_> {
    /// A clean end: a broker gives its leaders away first.
    pub(crate) fn stop(&self) {
        self.act("stop");
    }

    /// A sudden end.
    pub(crate) fn kill(&self) {
        self.act("kill");
    }

    /// It stands still, with its connections open.
    pub(crate) fn freeze(&self) {
        self.act("freeze");
    }

    /// It goes on.
    pub(crate) fn thaw(&self) {
        self.act("thaw");
    }

    /// It runs again, at the same address: a broker with its data, Redis empty.
    pub(crate) fn start(&self) {
        self.act("start");
    }

    fn act(&self, action: &str) {
        succeeded(match self.broker {
            Some(n) => self.servers.broker_script(action, &[n]),
            None => self.servers.redis_script(action),
        });
    }
}

/// A name nobody else has, for a topic or a group.
pub(crate) fn unique(prefix: &str) -> String {
    // The keys of a `RandomState` are random per process and differ per value.
    format!("{prefix}-{:016x}", RandomState::new().hash_one(prefix))
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not within `limit`, with `what` was waited for.
pub(crate) fn wait_until(what: &str, limit: Duration, condition: impl FnMut() -> bool) {
    assert!(poll_until(limit, condition), "waited {limit:?} for: {what}");
}

/// Waits until `condition` holds, and tells whether it did within `limit`.
pub(crate) fn poll_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = now() + limit;
    loop {
        if condition() {
            return true;
        }
        if now() >= end {
            return false;
        }
        std::thread::park_timeout(POLL);
    }
}

#[expect(clippy::disallowed_methods, reason = "tests of real servers wait in real time")]
fn now() -> Instant {
    Instant::now()
}

/// A child process that does not outlive its test: killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    /// Starts `command`, with its streams as set there.
    ///
    /// # Panics
    /// If it cannot be started.
    pub(crate) fn start(command: &mut Command) -> Self {
        match command.spawn() {
            Ok(child) => Self(child),
            Err(error) => panic!("{command:?} did not start: {error}"),
        }
    }
}

impl Deref for Running {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a child that has been waited for.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs `command` to its end with `stdin` as its input, both streams collected; at most [`COMMAND_LIMIT`].
///
/// # Panics
/// If it cannot be started or does not end in time.
pub(crate) fn run(command: &mut Command, stdin: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running::start(command);
    let mut input = child.stdin.take().expect("piped above");
    let mut output = child.stdout.take().expect("piped above");
    let mut errors = child.stderr.take().expect("piped above");
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut status = None;
    // All three streams at once: a full pipe on one would stop the child on the others.
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A child that ends without reading all of it says so by its exit code.
            drop(input.write_all(stdin));
        });
        scope.spawn(|| output.read_to_end(&mut stdout).expect("a pipe can be read"));
        scope.spawn(|| errors.read_to_end(&mut stderr).expect("a pipe can be read"));
        poll_until(COMMAND_LIMIT, || {
            status = child.try_wait().expect("our own child");
            status.is_some()
        });
        if status.is_none() {
            // Its end closes the pipes, which ends the readers.
            drop(child.kill());
        }
    });
    let Some(status) = status else {
        panic!("{command:?} took longer than {COMMAND_LIMIT:?}; it said: {}", text(&stderr));
    };
    Output { status, stdout, stderr }
}

/// `output`, if the command succeeded.
///
/// # Panics
/// If it did not, with what it said.
pub(crate) fn succeeded(output: Output) -> Output {
    assert!(
        output.status.success(),
        "{}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// Bytes as text, for messages and for tools that print text.
pub(crate) fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Runs kcat against `bootstrap` with `stdin` as its input.
///
/// # Panics
/// If it fails.
pub(crate) fn kcat_at(bootstrap: &str, arguments: &[&str], stdin: &[u8]) -> Output {
    succeeded(run(Command::new("kcat").args(["-b", bootstrap]).args(arguments), stdin))
}

/// Runs a class of Kafka against `bootstrap` with `stdin` as its input; how it ended is for the caller to judge.
pub(crate) fn java_tool_at(
    bootstrap: &str,
    class: &str,
    arguments: &[&str],
    stdin: &[u8],
) -> Output {
    let mut command = script("tool.sh");
    run(command.args([class, "--bootstrap-server", bootstrap]).args(arguments), stdin)
}

/// A script of `tests/servers`.
fn script(name: impl AsRef<OsStr>) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    Command::new(folder.join(name.as_ref()))
}

/// A partition as kcat lists it. No leader: 0.
#[derive(Debug)]
struct Placement {
    topic: String,
    partition: usize,
    leader: usize,
    replicas: usize,
    in_sync: usize,
}

/// The partitions as the broker at `address` sees them. Empty while it does not answer.
fn layout(address: &str, topic: Option<&str>) -> Vec<Placement> {
    let mut command = Command::new("kcat");
    command.args(["-b", address, "-L", "-m", "5"]);
    command.args(topic.iter().flat_map(|name| ["-t", name]));
    placements(&text(&run(&mut command, b"").stdout))
}

/// Reads `kcat -L`, whose lines are `topic "NAME" with N partitions:` and, below each,
/// `partition N, leader N, replicas: N,N, isrs: N,N`.
fn placements(listing: &str) -> Vec<Placement> {
    let mut topic = "";
    let mut found = Vec::new();
    for line in listing.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("topic \"") {
            topic = rest.split('"').next().unwrap_or_default();
        } else if let Some(rest) = line.strip_prefix("partition ") {
            let field = |name: &str| {
                let (_, value) = rest.split_once(name)?;
                Some(value.split(", ").next().unwrap_or_default())
            };
            let number = |value: &str| value.parse().unwrap_or(0);
            let count = |value: &str| value.split(',').filter(|id| !id.trim().is_empty()).count();
            found.push(Placement {
                topic: topic.to_owned(),
                partition: rest.split(',').next().map_or(0, number),
                leader: field("leader ").map_or(0, number),
                replicas: field("replicas: ").map_or(0, count),
                in_sync: field("isrs: ").map_or(0, count),
            });
        }
    }
    found
}
