//! [`Cluster`]: what a client and everything made from it share.
//!
//! Owns the links, the refresher and its thread, and the cache of coordinators. Dropping the last
//! handle closes it: the flag is set, waiters wake with `Closed`, sockets are closed, the thread
//! is joined within [`DROP_WAIT`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::links::{Links, closed, endpoint_of};
use super::metadata::{Metadata, TopicInfo};
use super::refresh::Refresher;
use crate::clock::Deadline;
use crate::config::ClientConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::net::{Address, Connection, Endpoint};
use crate::protocol::messages::{LeaderIdAndEpoch, NodeEndpoint};
use crate::threads::{self, Thread};

/// How long a drop waits for the thread; a close takes its own time-out.
const DROP_WAIT: Duration = Duration::from_secs(2);

/// The cluster as a client sees it. Shared behind an `Arc`; every call may come from any thread.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(super) links: Arc<Links>,
    pub(super) refresher: Arc<Refresher>,
    /// Where the coordinators of groups are, by group.
    pub(super) coordinators: Mutex<HashMap<String, Endpoint>>,
    thread: Mutex<Option<Thread>>,
}

impl Cluster {
    /// Starts the metadata thread; connects to nobody yet.
    ///
    /// # Errors
    /// `Config` for bootstrap servers that are none; `Io` without a thread.
    pub(crate) fn new(config: Arc<ClientConfig>) -> Result<Self> {
        let mut bootstrap = Vec::with_capacity(config.bootstrap_servers.len());
        for server in &config.bootstrap_servers {
            let address: Address = server.parse()?;
            if !bootstrap.contains(&address) {
                bootstrap.push(address);
            }
        }
        if bootstrap.is_empty() {
            return Err(Error::new(ErrorKind::Config, "bootstrap.servers names no server"));
        }
        let links = Arc::new(Links::new(config, bootstrap));
        let refresher = Arc::new(Refresher::new(Arc::clone(&links)));
        let body = Arc::clone(&refresher);
        let thread = threads::spawn("ottla-meta", move || body.run())?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { links, refresher, coordinators: Mutex::default(), thread })
    }

    /// The settings.
    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        self.links.config()
    }

    /// `default.api.timeout.ms` from now.
    pub(crate) fn default_deadline(&self) -> Deadline {
        Deadline::within(self.config().default_api_timeout)
    }

    /// Sleeps for `wait`, or until it is closed.
    pub(crate) fn pause(&self, wait: Duration) {
        self.links.stop().wait(wait);
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.links.stop().is_set()
    }

    /// Refuses everything from now on, wakes who waits, closes connections, and waits for the
    /// thread until `deadline`. Again is the same as once.
    ///
    /// # Errors
    /// `Timeout` when the thread did not end in time: it ends with its present request.
    pub(crate) fn close(&self, deadline: Deadline) -> Result<()> {
        self.links.close();
        self.refresher.wake();
        let Some(thread) = self.thread.lock().take() else { return Ok(()) };
        if thread.join_by(deadline) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Timeout, "the metadata thread did not end in time"))
    }

    /// The present snapshot; empty before the first answer. Never blocks.
    pub(crate) fn metadata(&self) -> Arc<Metadata> {
        self.refresher.metadata()
    }

    /// How long ago the brokers last answered; since the client was made before the first answer.
    pub(crate) fn metadata_age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.refresher.received())
    }

    /// The present snapshot, once there is one: the first call waits for it until `deadline`.
    ///
    /// # Errors
    /// What kept every broker from answering.
    pub(crate) fn known(&self, deadline: Deadline) -> Result<Arc<Metadata>> {
        let metadata = self.metadata();
        if metadata.brokers.is_empty() { self.refresh_now(&[], deadline) } else { Ok(metadata) }
    }

    /// A snapshot that was asked for after this call began, naming `topics` too. Callers at the
    /// same time share one request. Blocks until `deadline`.
    ///
    /// # Errors
    /// What kept every broker from answering; `Closed`.
    pub(crate) fn refresh_now(&self, topics: &[&str], deadline: Deadline) -> Result<Arc<Metadata>> {
        self.refresher.refresh(topics, deadline)
    }

    /// As [`refresh_now`](Self::refresh_now), and `Closed` once `go_on` does not hold any more and somebody called
    /// [`wake_all`](Self::wake_all).
    pub(crate) fn refresh_while(
        &self,
        topics: &[&str],
        deadline: Deadline,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Arc<Metadata>> {
        self.refresher.refresh_while(topics, deadline, go_on)
    }

    /// Has everybody who waits for metadata look whether there is still a reason to.
    pub(crate) fn wake_all(&self) {
        self.refresher.wake();
    }

    /// Has metadata fetched in the background.
    pub(crate) fn request_refresh(&self) {
        self.refresher.request(&[]);
    }

    /// Has metadata fetched in the background, of `topic` too from now on.
    pub(crate) fn request_topic(&self, topic: &str) {
        self.refresher.request(&[topic]);
    }

    /// Takes in what an answer of another API said about a leader (KIP-951); a refresh follows.
    pub(crate) fn note_leader(
        &self,
        topic: &str,
        partition: i32,
        leader: &LeaderIdAndEpoch,
        endpoints: &[NodeEndpoint],
    ) {
        self.refresher.note_leader(topic, partition, leader, endpoints);
    }

    /// Names `topic` no longer in metadata requests: it was deleted.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.refresher.forget(topic);
    }

    /// The topic, if it is known at present. Never blocks.
    pub(crate) fn cached_topic(&self, topic: &str) -> Option<Arc<TopicInfo>> {
        self.metadata().topics.get(topic).cloned()
    }

    /// Where broker `id` can be reached, if it is known at present.
    pub(crate) fn endpoint(&self, id: i32) -> Option<Endpoint> {
        self.metadata().broker(id).map(endpoint_of)
    }

    /// A connection of one's own to broker `id`. Blocks until `deadline`; a failure counts against
    /// the broker and has metadata fetched, for it may have moved.
    ///
    /// # Errors
    /// What kept the connection from being made; `NoLeader` when the broker is not known.
    pub(crate) fn open_dedicated(&self, id: i32, deadline: Deadline) -> Result<Connection> {
        if self.is_closed() {
            return Err(closed());
        }
        let opened = match self.endpoint(id) {
            Some(endpoint) => self.links.dedicated(&endpoint, deadline),
            None => Err(unknown_broker(id)),
        };
        opened.inspect_err(|_| self.request_refresh())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.close(Deadline::within(DROP_WAIT)) {
            log::warn!("a client was dropped: {error}");
        }
    }
}

/// The error for a broker that the metadata do not have.
pub(super) fn unknown_broker(id: i32) -> Error {
    Error::new(ErrorKind::NoLeader, format!("broker {id} is not in the cluster's metadata"))
}
