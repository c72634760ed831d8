//! [`Cluster`] and its [`Builder`]: what a test holds in its hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::observe::Observed;
use super::release::Release;
use super::sasl::SaslMechanism;
use super::server::{Limits, Server, Shared};
use super::state::{Settings, State};
use crate::clock;
use crate::error::{Error, ErrorKind, Result};

/// More brokers than that are refused.
const BROKERS_MAX: i32 = 100;

/// What a cluster is made of. Made by [`Cluster::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    brokers: i32,
    port: u16,
    topics: Vec<(String, i32)>,
    release: Release,
    auto_create_topics: bool,
    frame_bytes_max: usize,
    connections_max: usize,
    idle_max: Duration,
    bytes_max: usize,
    group_session_timeout_min: Duration,
    seed: Option<u64>,
    users: Vec<(SaslMechanism, String, String)>,
    session_max: Option<Duration>,
}

impl Builder {
    /// How many brokers, with the ids from 1; 1 unless set, at most 100.
    pub fn brokers(mut self, count: i32) -> Self {
        self.brokers = count;
        self
    }

    /// The port of broker 1, the others follow on the next ones. 0, the default: ports of the system's choice.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// A topic that is there from the start, replicated to up to three brokers.
    pub fn topic(mut self, name: &str, partitions: i32) -> Self {
        self.topics.push((name.to_owned(), partitions));
        self
    }

    /// Which Kafka it poses as: [`Release::V4_4`] unless set.
    pub fn as_kafka(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// Whether a topic is made when a client asks for its metadata, Kafka's `auto.create.topics.enable`:
    /// true unless set.
    pub fn auto_create_topics(mut self, yes: bool) -> Self {
        self.auto_create_topics = yes;
        self
    }

    /// The largest request in bytes, Kafka's `socket.request.max.bytes`: 100 MiB unless set. A larger
    /// one ends its connection.
    pub fn frame_bytes_max(mut self, bytes: usize) -> Self {
        self.frame_bytes_max = bytes;
        self
    }

    /// The most connections of one broker, each with a thread: 1,000 unless set. One more is closed at once.
    pub fn connections_max(mut self, count: usize) -> Self {
        self.connections_max = count;
        self
    }

    /// How long a connection may be idle, Kafka's `connections.max.idle.ms`: 10 minutes unless set.
    pub fn connections_max_idle(mut self, time: Duration) -> Self {
        self.idle_max = time;
        self
    }

    /// How many bytes all logs may hold together: 1 GiB unless set. What goes beyond is refused with
    /// `POLICY_VIOLATION`, which no client retries: room does not come by itself.
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// The least session time-out that a member of a group may ask for, Kafka's
    /// `group.min.session.timeout.ms`: 6 seconds unless set. Less makes tests of dying members quick.
    pub fn group_session_timeout_min(mut self, time: Duration) -> Self {
        self.group_session_timeout_min = time;
        self
    }

    /// Where ids and other random values come from; a seed of the system's choice unless set.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Asks every client to authenticate by SASL, and lets this user in by `mechanism`. The mechanisms with
    /// users are those that are offered; without a user, the default, nobody is asked. There is no TLS, so
    /// passwords of [`SaslMechanism::Plain`] can be read on the way.
    pub fn sasl_user(mut self, mechanism: SaslMechanism, name: &str, password: &str) -> Self {
        self.users.push((mechanism, name.to_owned(), password.to_owned()));
        self
    }

    /// How long an authenticated connection may be used before it has to authenticate again (KIP-368), Kafka's
    /// `connections.max.reauth.ms`; no limit unless set.
    pub fn sasl_session_max(mut self, time: Duration) -> Self {
        self.session_max = Some(time);
        self
    }

    /// Starts the brokers. They listen when this returns.
    ///
    /// # Errors
    /// `Config` for counts or topics that cannot be, `Io` when a port is taken.
    pub fn start(self) -> Result<Cluster> {
        let config = |what: String| Error::new(ErrorKind::Config, what);
        if !(1..=BROKERS_MAX).contains(&self.brokers) {
            return Err(config(format!(
                "brokers: {} is not from 1 to {BROKERS_MAX}",
                self.brokers
            )));
        }
        if self.idle_max.is_zero() {
            return Err(config("connections_max_idle: must not be zero".to_owned()));
        }
        let replication = self.brokers.min(3) as i16;
        let settings = Settings {
            auto_create_topics: self.auto_create_topics,
            partitions: 1,
            replication,
            bytes_max: self.bytes_max,
            group_session_timeout_ms_min: i32::try_from(self.group_session_timeout_min.as_millis())
                .unwrap_or(i32::MAX)
                .max(1),
        };
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let limits = Limits {
            frame_bytes_max: self.frame_bytes_max,
            connections_max: self.connections_max,
            idle_max: self.idle_max,
        };
        let mut state = State::new(self.release, settings, seed);
        for (mechanism, name, password) in &self.users {
            if name.is_empty() || password.is_empty() {
                return Err(config("sasl_user: name and password must not be empty".to_owned()));
            }
            state.add_user(*mechanism, name, password);
        }
        state.users.session_max = self.session_max;
        let shared = Arc::new(Shared::new(state, limits));
        let mut cluster =
            Cluster { shared, servers: Mutex::new(BTreeMap::new()), bootstrap: String::new() };
        for id in 1..=self.brokers {
            let port = match self.port {
                0 => 0,
                first => first.checked_add(id as u16 - 1).ok_or_else(|| {
                    config(format!("port: {first} leaves no room for {} brokers", self.brokers))
                })?,
            };
            cluster.start_on(id, port)?;
        }
        for (name, partitions) in &self.topics {
            cluster.create_topic(name, *partitions)?;
        }
        let ports: Vec<u16> =
            cluster.shared.state.lock().nodes().map(|(_, node)| node.port).collect();
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        cluster.bootstrap = addresses.join(",");
        Ok(cluster)
    }
}

/// A running cluster. Dropping it ends every connection, closes the ports and joins the threads; that
/// takes a few milliseconds.
///
/// `Send` and `Sync`: tests change it from any thread while clients work.
#[derive(Debug)]
pub struct Cluster {
    // First: the connections end before the rest goes.
    servers: Mutex<BTreeMap<i32, Server>>,
    pub(super) shared: Arc<Shared>,
    bootstrap: String,
}

impl Cluster {
    /// Begins with one broker of Kafka 4.4 and no topics.
    pub fn builder() -> Builder {
        Builder {
            brokers: 1,
            port: 0,
            topics: Vec::new(),
            release: Release::V4_4,
            auto_create_topics: true,
            frame_bytes_max: 100 << 20,
            connections_max: 1000,
            idle_max: Duration::from_secs(600),
            bytes_max: 1 << 30,
            group_session_timeout_min: Duration::from_secs(6),
            seed: None,
            users: Vec::new(),
            session_max: None,
        }
    }

    /// Where the brokers listened at the start, for a client's `bootstrap.servers`.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Makes a topic, replicated to up to three brokers.
    ///
    /// # Errors
    /// `Config` when the topic exists or cannot be.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<()> {
        self.shared.change(|state| {
            let replicas = state.plan_topic(name, partitions, -1).map_err(|error| {
                Error::new(ErrorKind::Config, format!("topic {name}: {}", error.message))
            })?;
            state.create_topic(name, replicas, BTreeMap::new());
            Ok(())
        })
    }

    /// Stops a broker: its port closes, its connections end, other replicas lead. No matter when it is
    /// down or unknown.
    pub fn stop_broker(&self, broker: i32) {
        let server = self.servers.lock().remove(&broker);
        if server.is_some() {
            self.shared.change(|state| state.broker_stopped(broker));
        }
        drop(server);
    }

    /// Starts a stopped broker again, on the port it had.
    ///
    /// # Errors
    /// `Config` when it is unknown or runs, `Io` when the port was taken meanwhile.
    pub fn start_broker(&self, broker: i32) -> Result<()> {
        let port = self.stopped(broker)?;
        self.start_on(broker, port)
    }

    /// Starts a stopped broker again, on another port.
    ///
    /// # Errors
    /// `Config` when it is unknown or runs, `Io` when there is no port.
    pub fn start_broker_elsewhere(&self, broker: i32) -> Result<()> {
        self.stopped(broker)?;
        self.start_on(broker, 0)
    }

    /// Makes a broker hang: it takes connections and requests and answers nothing, as a stopped process
    /// (`SIGSTOP`) does.
    pub fn freeze(&self, broker: i32) {
        self.shared.change(|state| state.set_frozen(broker, true));
    }

    /// A frozen broker goes on with what it was asked.
    pub fn thaw(&self, broker: i32) {
        self.shared.change(|state| state.set_frozen(broker, false));
    }

    /// Ends every connection of a broker; it takes new ones.
    pub fn drop_connections(&self, broker: i32) {
        if let Some(server) = self.servers.lock().get(&broker) {
            server.drop_connections();
        }
    }

    /// Moves the leadership of a partition to `leader`, under the next leader epoch.
    ///
    /// # Errors
    /// `Config` when there is no such partition, or `leader` is not a replica of it that runs.
    pub fn move_leader(&self, topic: &str, partition: i32, leader: i32) -> Result<()> {
        if self.shared.change(|state| state.move_leader(topic, partition, leader)) {
            return Ok(());
        }
        let what = format!("broker {leader} cannot lead {topic}-{partition}");
        Err(Error::new(ErrorKind::Config, what))
    }

    /// Makes `broker` the coordinator of a group or a transactional id: the one before answers
    /// `NOT_COORDINATOR` from now on, to who waits with it too. Nothing is lost.
    ///
    /// # Errors
    /// `Config` when that broker does not run.
    pub fn move_coordinator(&self, name: &str, broker: i32) -> Result<()> {
        if self.shared.change(|state| state.move_coordinator(name, broker)) {
            return Ok(());
        }
        let what = format!("broker {broker} cannot coordinate {name}: it does not run");
        Err(Error::new(ErrorKind::Config, what))
    }

    /// Puts a partition back to what it was when it ended before `offset`, as an unclean election or a
    /// backup does: later records, leader epochs and what was known of producers are gone, and
    /// the offsets are given again. A batch that reaches beyond `offset` goes whole.
    ///
    /// # Errors
    /// `Config` when there is no such partition.
    pub fn restore(&self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        if self.shared.change(|state| state.restore(topic, partition, offset, clock::unix_ms())) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Config, format!("there is no partition {topic}-{partition}")))
    }

    /// Makes a partition forget the producers that wrote to it, but for their open transactions: the
    /// next batch of each is that of an unknown one.
    ///
    /// # Errors
    /// `Config` when there is no such partition.
    pub fn forget_producers(&self, topic: &str, partition: i32) -> Result<()> {
        if self.shared.change(|state| state.forget_producers(topic, partition)) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Config, format!("there is no partition {topic}-{partition}")))
    }

    /// The requests that arrived, in order: the last 10,000, or fewer when they are large. To see what
    /// comes after a moment, note [`Cluster::observed_count`] and use [`Cluster::observed_since`].
    pub fn observed(&self) -> Vec<Observed> {
        self.observed_since(0)
    }

    /// The requests from `number` on.
    pub fn observed_since(&self, number: u64) -> Vec<Observed> {
        self.shared.observed.lock().since(number)
    }

    /// How many requests have arrived.
    pub fn observed_count(&self) -> u64 {
        self.shared.observed.lock().count()
    }

    /// The port of a broker that does not run.
    fn stopped(&self, broker: i32) -> Result<u16> {
        let state = self.shared.state.lock();
        let node = state.nodes().find(|(id, _)| *id == broker);
        match node {
            Some((_, node)) if !node.up => Ok(node.port),
            Some(_) => Err(Error::new(ErrorKind::Config, format!("broker {broker} runs"))),
            None => Err(Error::new(ErrorKind::Config, format!("there is no broker {broker}"))),
        }
    }

    fn start_on(&self, broker: i32, port: u16) -> Result<()> {
        let server = Server::start(broker, port, &self.shared)?;
        self.shared.change(|state| state.broker_started(broker, server.port()));
        self.servers.lock().insert(broker, server);
        Ok(())
    }
}
