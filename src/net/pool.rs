//! The keyed pool: idle connections by broker.
//!
//! One r2d2 pool per [`Endpoint`] (broker id, host, port), all with the same one scheduler thread.
//! r2d2 opens connections in the background, repeats failed attempts and tells the waiting caller
//! nothing but "timed out". So what it pools here is a [`Slot`], which costs nothing to make; the
//! caller that gets an empty slot connects on its own thread and has the typed reason of a failure
//! at once. r2d2 is left with what it is good at: bounding the slots of a key, queueing those who
//! wait, dropping what is broken, idle for too long or too old.
//!
//! A slot goes back when its [`Pooled`] is dropped, also while a panic unwinds. A connection whose
//! exchange did not finish is dropped then, never used again.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use scheduled_thread_pool::ScheduledThreadPool;

use super::{Connection, Endpoint, Settings};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};

/// The bounds of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Most connections of one key.
    pub(crate) connections_max: u32,
    /// An idle connection is closed after this long.
    pub(crate) idle: Duration,
    /// A connection is closed after this long, idle or not; `None` for never.
    pub(crate) ttl: Option<Duration>,
}

/// Counts of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// The broker.
    pub endpoint: Endpoint,
    /// Slots, idle and in use.
    pub open: u32,
    /// Those that nobody uses.
    pub idle: u32,
    /// Those in use.
    pub in_use: u32,
}

/// Place for one connection; empty until its first user connects.
#[derive(Debug, Default)]
struct Slot(Option<Connection>);

/// Makes empty slots; r2d2's side of the arrangement.
#[derive(Debug)]
struct Slots;

impl r2d2::ManageConnection for Slots {
    type Connection = Slot;
    type Error = std::convert::Infallible;

    fn connect(&self) -> Result<Slot, Self::Error> {
        Ok(Slot::default())
    }

    fn is_valid(&self, _: &mut Slot) -> Result<(), Self::Error> {
        Ok(())
    }

    fn has_broken(&self, slot: &mut Slot) -> bool {
        slot.0.as_ref().is_some_and(Connection::is_spoilt)
    }
}

/// Idle connections by broker. Shared between threads by reference; its lock is held for a look-up
/// only, never while connecting or waiting.
pub(crate) struct Keyed {
    settings: Arc<Settings>,
    limits: Limits,
    scheduler: Arc<ScheduledThreadPool>,
    pools: Mutex<HashMap<Endpoint, r2d2::Pool<Slots>>>,
}

/// A connection on loan. Dropping it gives it back.
pub(crate) struct Pooled {
    slot: r2d2::PooledConnection<Slots>,
}

impl Keyed {
    /// Empty; no connection is opened before one is asked for.
    pub(crate) fn new(settings: Settings, limits: Limits) -> Self {
        let scheduler = ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern("ottla-pool-{}")
            .build();
        Self {
            settings: Arc::new(settings),
            limits,
            scheduler: Arc::new(scheduler),
            pools: Mutex::default(),
        }
    }

    /// A connection to `endpoint`: an idle one, or a new one if fewer than the limit are open,
    /// else the next that is given back. Blocks until `deadline` at most.
    ///
    /// # Errors
    /// Those of connecting, at once; `Timeout` when all connections stay in use.
    pub(crate) fn poll(&self, endpoint: &Endpoint, deadline: Deadline) -> Result<Pooled> {
        let pool = self.pool(endpoint);
        // r2d2 refuses a time-out of zero; what is there already is still given.
        let wait = deadline.left().max(Duration::from_millis(1));
        let mut slot = pool.get_timeout(wait).map_err(|_| {
            let state = pool.state();
            let in_use = state.connections - state.idle_connections;
            let limit = self.limits.connections_max;
            let message =
                format!("no connection became free in time, {in_use} of {limit} are in use");
            Error::new(ErrorKind::Timeout, message).with_broker(endpoint)
        })?;
        // One that the peer closed while it was idle makes room for a new one.
        if !slot.0.as_ref().is_some_and(Connection::is_reusable) {
            slot.0 = None;
            slot.0 = Some(Connection::open(endpoint, &self.settings, deadline)?);
        }
        Ok(Pooled { slot })
    }

    /// A connection that is not of the pool, for an owner that keeps it.
    ///
    /// # Errors
    /// Those of connecting.
    pub(crate) fn open(&self, endpoint: &Endpoint, deadline: Deadline) -> Result<Connection> {
        Connection::open(endpoint, &self.settings, deadline)
    }

    fn pool(&self, endpoint: &Endpoint) -> r2d2::Pool<Slots> {
        let mut pools = self.pools.lock();
        if let Some(pool) = pools.get(endpoint) {
            return pool.clone();
        }
        let pool = r2d2::Pool::builder()
            .max_size(self.limits.connections_max)
            .min_idle(Some(0))
            .test_on_check_out(false)
            .idle_timeout(Some(self.limits.idle))
            .max_lifetime(self.limits.ttl)
            .thread_pool(Arc::clone(&self.scheduler))
            .build_unchecked(Slots);
        pools.insert(endpoint.clone(), pool.clone());
        pool
    }

    /// Forgets `endpoint`: its idle connections are closed, those on loan when they come back.
    pub(crate) fn close(&self, endpoint: &Endpoint) {
        drop(self.pools.lock().remove(endpoint));
    }

    /// Forgets all keys.
    pub(crate) fn close_all(&self) {
        self.pools.lock().clear();
    }

    /// Counts by key, in the order of the keys.
    pub(crate) fn stats(&self) -> Vec<PoolStats> {
        let pools = self.pools.lock();
        let mut stats: Vec<PoolStats> = pools
            .iter()
            .map(|(endpoint, pool)| {
                let state = pool.state();
                PoolStats {
                    endpoint: endpoint.clone(),
                    open: state.connections,
                    idle: state.idle_connections,
                    in_use: state.connections - state.idle_connections,
                }
            })
            .collect();
        stats.sort_by(|a, b| a.endpoint.cmp(&b.endpoint));
        stats
    }
}

impl fmt::Debug for Keyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("limits", &self.limits).field("keys", &self.stats()).finish()
    }
}

impl Deref for Pooled {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.slot.0.as_ref().expect("a slot is filled before it is lent")
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut Connection {
        self.slot.0.as_mut().expect("a slot is filled before it is lent")
    }
}

impl fmt::Debug for Pooled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
