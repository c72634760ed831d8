//! [`Connections`]: the pool of a client, its connections made with the client's settings.

use super::address::Endpoint;
use super::connection::Connection;
use super::pool::{KeyStats, Keyed, PoolSettings, Pooled};
use super::settings::Settings;
use crate::clock::Deadline;
use crate::error::Result;

/// Connections to brokers, to be used again. Shared between threads by reference.
#[derive(Debug)]
pub(crate) struct Connections {
    settings: Settings,
    pool: Keyed<Connection>,
}

impl Connections {
    /// None; no connection is opened before one is asked for.
    pub(crate) fn new(settings: Settings, pool: PoolSettings) -> Self {
        Self { settings, pool: Keyed::new(pool) }
    }

    /// A connection to `endpoint`: an idle one, or a new one if fewer than the limit are open,
    /// else the next that is given back. Blocks until `deadline` at most.
    ///
    /// # Errors
    /// Those of connecting, at once; `Timeout` when all connections stay in use.
    pub(crate) fn poll(
        &self,
        endpoint: &Endpoint,
        deadline: Deadline,
    ) -> Result<Pooled<Connection>> {
        self.pool.poll_by(endpoint, deadline, |deadline| {
            Connection::open(endpoint, &self.settings, deadline)
        })
    }

    /// A connection that is not of the pool, for an owner that keeps it.
    ///
    /// # Errors
    /// Those of connecting.
    pub(crate) fn open(&self, endpoint: &Endpoint, deadline: Deadline) -> Result<Connection> {
        Connection::open(endpoint, &self.settings, deadline)
    }

    /// Forgets `endpoint`: its idle connections are closed, those on loan when they come back.
    pub(crate) fn close(&self, endpoint: &Endpoint) {
        self.pool.close(endpoint);
    }

    /// Forgets all endpoints.
    pub(crate) fn close_all(&self) {
        self.pool.close_all();
    }

    /// Counts by endpoint.
    #[cfg_attr(not(test), expect(dead_code, reason = "metrics will show them"))]
    pub(crate) fn stats(&self) -> Vec<(Endpoint, KeyStats)> {
        self.pool.stats()
    }
}
