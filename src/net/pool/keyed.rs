//! The pool itself, see [the module](super).

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use scheduled_thread_pool::{JobHandle, OnPoolDropBehavior, ScheduledThreadPool};

use super::slot::{Ages, Held, Poolable, Slots};
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Result};
use crate::net::Endpoint;

/// Most connections per endpoint that can be set.
const PER_KEY_MAX: u32 = 10_000;
/// Bounds of the time between two looks at the ages.
const REAP_INTERVAL_MIN: Duration = Duration::from_millis(10);
const REAP_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Settings of a [`Keyed`] pool.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    per_key_max: u32,
    idle_per_key_max: u32,
    ages: Ages,
}

impl Default for PoolSettings {
    fn default() -> Self {
        let ages = Ages { idle_max: Duration::from_secs(540), ttl: None };
        Self { per_key_max: 32, idle_per_key_max: 32, ages }
    }
}

impl PoolSettings {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Most connections to one endpoint, lent and idle together. Defaults to 32; at least 1 and at
    /// most 10,000.
    #[must_use]
    pub fn per_key_max(mut self, count: u32) -> Self {
        self.per_key_max = count.clamp(1, PER_KEY_MAX);
        self
    }

    /// Most idle connections to one endpoint; one that comes back beyond it is closed. Defaults to
    /// 32.
    #[must_use]
    pub fn idle_per_key_max(mut self, count: u32) -> Self {
        self.idle_per_key_max = count;
        self
    }

    /// How long a connection may be idle before it is closed (`connections.max.idle.ms`). Defaults
    /// to 9 minutes, a minute less than brokers wait, so that the client closes first.
    #[must_use]
    pub fn idle_max(mut self, wait: Duration) -> Self {
        self.ages.idle_max = wait;
        self
    }

    /// How long after it was opened a connection is still lent. Defaults to no limit.
    #[must_use]
    pub fn ttl(mut self, ttl: Option<Duration>) -> Self {
        self.ages.ttl = ttl;
        self
    }
}

/// What a pool holds for one endpoint at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyStats {
    /// Connections that are open: lent and idle.
    pub open: u32,
    /// Connections that wait to be lent.
    pub idle: u32,
    /// Places that are lent, with a connection or while one is made.
    pub in_use: u32,
    /// Threads that wait for a place.
    pub waiting: u32,
    /// Connections opened since the endpoint was first used.
    pub opened: u64,
    /// How often an idle connection was lent again.
    pub reused: u64,
    /// Connections closed because of a failure, an unfinished exchange, or a peer that had gone.
    pub discarded: u64,
    /// Connections closed because of their age or number.
    pub expired: u64,
}

/// Connections to be used again, by endpoint.
///
/// Shared by reference between threads. Connections are made by the thread that asks for one, at
/// most `per_key_max` per endpoint at a time; the last one that came back is lent first. Dropping
/// the pool closes what is idle; what is lent is closed when it comes back.
pub struct Keyed<C: Poolable> {
    inner: Arc<Inner<C>>,
    reaper: JobHandle,
}

struct Inner<C: Poolable> {
    settings: PoolSettings,
    scheduler: Arc<ScheduledThreadPool>,
    keys: Mutex<HashMap<Endpoint, Arc<Key<C>>>>,
}

struct Key<C: Poolable> {
    endpoint: Endpoint,
    slots: r2d2::Pool<Slots<C>>,
    /// Taken out of the map: connections that come back are closed.
    closed: AtomicBool,
    idle_max: u32,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    open: AtomicU32,
    idle: AtomicU32,
    in_use: AtomicU32,
    waiting: AtomicU32,
    opened: AtomicU64,
    reused: AtomicU64,
    discarded: AtomicU64,
    expired: AtomicU64,
}

/// A connection on loan. It goes back when this is dropped; after a panic, a failure or an
/// unfinished exchange it is closed instead.
pub struct Pooled<C: Poolable> {
    key: Arc<Key<C>>,
    /// `None` only while it is being taken apart.
    held: Option<Held<C>>,
    slot: r2d2::PooledConnection<Slots<C>>,
}

impl<C: Poolable> Keyed<C> {
    /// An empty pool. Starts its one thread and opens nothing.
    pub fn new(settings: PoolSettings) -> Self {
        let scheduler = ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern("ottla-pool")
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build();
        let shortest =
            settings.ages.ttl.map_or(settings.ages.idle_max, |ttl| ttl.min(settings.ages.idle_max));
        let interval = (shortest / 4).clamp(REAP_INTERVAL_MIN, REAP_INTERVAL_MAX);
        let inner = Arc::new(Inner {
            settings,
            scheduler: Arc::new(scheduler),
            keys: Mutex::new(HashMap::new()),
        });
        let reaped = Arc::downgrade(&inner);
        let reaper = inner.scheduler.execute_with_fixed_delay(interval, interval, move || {
            if let Some(inner) = reaped.upgrade() {
                inner.reap(clock::now());
            }
        });
        Self { inner, reaper }
    }

    /// Lends a connection to `endpoint`: an idle one, or what `connect` makes. `connect` gets the
    /// time that is left.
    ///
    /// Blocks until a place is free and the connection made, at most `timeout`.
    ///
    /// # Errors
    /// `Timeout` when no place became free in time; else what `connect` gave.
    pub fn poll(
        &self,
        endpoint: &Endpoint,
        timeout: Duration,
        connect: impl FnOnce(Duration) -> Result<C>,
    ) -> Result<Pooled<C>> {
        self.poll_by(endpoint, Deadline::within(timeout), |deadline| connect(deadline.left()))
    }

    /// As [`Keyed::poll`], until `deadline`.
    pub(crate) fn poll_by(
        &self,
        endpoint: &Endpoint,
        deadline: Deadline,
        connect: impl FnOnce(Deadline) -> Result<C>,
    ) -> Result<Pooled<C>> {
        let key = self.inner.key(endpoint);
        let slot = key.take_slot(deadline)?;
        let mut pooled = Pooled { key, held: None, slot };
        pooled.key.counts.in_use.fetch_add(1, Ordering::Relaxed);
        pooled.held = pooled.usable(self.inner.settings.ages);
        if pooled.held.is_none() {
            let connection = connect(deadline)?;
            let now = clock::now();
            pooled.key.counts.opened.fetch_add(1, Ordering::Relaxed);
            pooled.key.counts.open.fetch_add(1, Ordering::Relaxed);
            pooled.held = Some(Held { connection, opened: now, idle_since: now });
        }
        Ok(pooled)
    }

    /// Closes the idle connections to `endpoint` and forgets it; those that are lent are closed
    /// when they come back.
    pub fn close(&self, endpoint: &Endpoint) {
        let key = self.inner.keys.lock().remove(endpoint);
        if let Some(key) = key {
            key.close();
        }
    }

    /// As [`Keyed::close`], for every endpoint.
    pub fn close_all(&self) {
        self.inner.close_all();
    }

    /// Does what the reaper does, as if it were `now`.
    #[cfg(test)]
    pub(super) fn reap(&self, now: Instant) {
        self.inner.reap(now);
    }

    /// What the pool holds at this moment, ascending by endpoint.
    pub fn stats(&self) -> Vec<(Endpoint, KeyStats)> {
        let mut all: Vec<_> = self
            .inner
            .keys
            .lock()
            .iter()
            .map(|(endpoint, key)| (endpoint.clone(), key.counts.read()))
            .collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }
}

impl<C: Poolable> Drop for Keyed<C> {
    fn drop(&mut self) {
        self.reaper.cancel();
        self.inner.close_all();
    }
}

impl<C: Poolable> fmt::Debug for Keyed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.stats()).finish()
    }
}

impl<C: Poolable> Inner<C> {
    fn key(&self, endpoint: &Endpoint) -> Arc<Key<C>> {
        let mut keys = self.keys.lock();
        if let Some(key) = keys.get(endpoint) {
            return Arc::clone(key);
        }
        let slots = r2d2::Pool::builder()
            .max_size(self.settings.per_key_max)
            .min_idle(Some(0))
            .test_on_check_out(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .error_handler(Box::new(r2d2::NopErrorHandler))
            .thread_pool(Arc::clone(&self.scheduler))
            .build_unchecked(Slots::new());
        let key = Arc::new(Key {
            endpoint: endpoint.clone(),
            slots,
            closed: AtomicBool::new(false),
            idle_max: self.settings.idle_per_key_max,
            counts: Counts::default(),
        });
        keys.insert(endpoint.clone(), Arc::clone(&key));
        key
    }

    fn close_all(&self) {
        let keys = std::mem::take(&mut *self.keys.lock());
        for key in keys.into_values() {
            key.close();
        }
    }

    /// Closes idle connections that are too old at `now` and forgets endpoints that hold nothing.
    fn reap(&self, now: Instant) {
        let keys: Vec<_> = self.keys.lock().values().map(Arc::clone).collect();
        for key in &keys {
            key.reap(|held| held.has_expired(self.settings.ages, now));
        }
        drop(keys);
        // One reference: no thread is about to take a place, and none can get the key meanwhile.
        self.keys.lock().retain(|_, key| {
            Arc::strong_count(key) > 1 || key.counts.open.load(Ordering::Relaxed) > 0
        });
    }
}

impl<C: Poolable> Key<C> {
    /// A slot, one with a connection if there is one. Waits until `deadline` while all are lent.
    fn take_slot(&self, deadline: Deadline) -> Result<r2d2::PooledConnection<Slots<C>>> {
        let slot = match self.slots.try_get() {
            Some(slot) => slot,
            None => self.wait_for_slot(deadline)?,
        };
        if slot.held.is_some() {
            return Ok(slot);
        }
        // An empty slot may lie on top of one with a connection.
        let mut empty = vec![slot];
        while let Some(next) = self.slots.try_get() {
            if next.held.is_some() {
                return Ok(next);
            }
            empty.push(next);
        }
        Ok(empty.pop().expect("it had one slot at first"))
    }

    fn wait_for_slot(&self, deadline: Deadline) -> Result<r2d2::PooledConnection<Slots<C>>> {
        let start = clock::now();
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let slot = self.slots.get_timeout(deadline.remaining(start));
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        slot.map_err(|_| {
            let waited = clock::now().saturating_duration_since(start).as_millis();
            let text = format!(
                "no connection became free in {waited} ms: {} of {} are in use and {} other \
                 threads wait (connections.per.broker.max)",
                self.counts.in_use.load(Ordering::Relaxed),
                self.slots.max_size(),
                self.counts.waiting.load(Ordering::Relaxed),
            );
            Error::new(ErrorKind::Timeout, text).with_broker(&self.endpoint)
        })
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.reap(|_| true);
    }

    /// Closes the idle connections that `condemns` finds.
    fn reap(&self, condemns: impl Fn(&Held<C>) -> bool) {
        // All that are idle now, the most recently used first; they go back the other way round
        // and so keep their order. At most as many as there can be slots.
        let mut slots: Vec<_> = std::iter::from_fn(|| self.slots.try_get()).collect();
        while let Some(mut slot) = slots.pop() {
            if let Some(held) = slot.held.take_if(|held| condemns(held)) {
                self.counts.idle.fetch_sub(1, Ordering::Relaxed);
                self.counts.expired.fetch_add(1, Ordering::Relaxed);
                self.counts.open.fetch_sub(1, Ordering::Relaxed);
                drop(held);
            }
        }
    }
}

impl Counts {
    /// Counts one more idle connection, unless there are `max`.
    fn one_more_idle(&self, max: u32) -> bool {
        let add = |idle| (idle < max).then_some(idle + 1);
        self.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn read(&self) -> KeyStats {
        KeyStats {
            open: self.open.load(Ordering::Relaxed),
            idle: self.idle.load(Ordering::Relaxed),
            in_use: self.in_use.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            opened: self.opened.load(Ordering::Relaxed),
            reused: self.reused.load(Ordering::Relaxed),
            discarded: self.discarded.load(Ordering::Relaxed),
            expired: self.expired.load(Ordering::Relaxed),
        }
    }
}

impl<C: Poolable> Pooled<C> {
    /// Gives the connection back, as dropping does.
    pub fn give_back(self) {}

    /// The endpoint that it belongs to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.key.endpoint
    }

    /// The slot's connection, if it can be lent.
    fn usable(&mut self, ages: Ages) -> Option<Held<C>> {
        let held = self.slot.held.take()?;
        let counts = &self.key.counts;
        counts.idle.fetch_sub(1, Ordering::Relaxed);
        let expired = held.has_expired(ages, clock::now());
        if !expired && held.connection.is_alive() {
            counts.reused.fetch_add(1, Ordering::Relaxed);
            return Some(held);
        }
        let reason = if expired { &counts.expired } else { &counts.discarded };
        reason.fetch_add(1, Ordering::Relaxed);
        counts.open.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl<C: Poolable> Deref for Pooled<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.held.as_ref().expect("it is there until the drop").connection
    }
}

impl<C: Poolable> DerefMut for Pooled<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.held.as_mut().expect("it is there until the drop").connection
    }
}

impl<C: Poolable> Drop for Pooled<C> {
    fn drop(&mut self) {
        let counts = &self.key.counts;
        counts.in_use.fetch_sub(1, Ordering::Relaxed);
        // None when the connect failed.
        let Some(mut held) = self.held.take() else { return };
        let reusable = !std::thread::panicking() && held.connection.is_reusable();
        let open = !self.key.closed.load(Ordering::Acquire);
        if reusable && open && counts.one_more_idle(self.key.idle_max) {
            held.idle_since = clock::now();
            self.slot.held = Some(held);
            return;
        }
        let reason = if reusable { &counts.expired } else { &counts.discarded };
        reason.fetch_add(1, Ordering::Relaxed);
        counts.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<C: Poolable + fmt::Debug> fmt::Debug for Pooled<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooled")
            .field("endpoint", self.endpoint())
            .field("connection", &self.held.as_ref().map(|held| &held.connection))
            .finish_non_exhaustive()
    }
}
