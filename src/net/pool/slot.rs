//! What r2d2 holds: [`Slot`]s, each of which may hold a connection.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use r2d2::ManageConnection;

/// What can be kept in a pool.
pub trait Poolable: Send + 'static {
    /// Whether it may be lent again: nothing failed on it and no exchange is unfinished. Asked when
    /// it comes back; must not block.
    fn is_reusable(&self) -> bool;

    /// Whether the peer is still there, as far as can be known without asking it. Asked before it
    /// is lent again; must not block.
    fn is_alive(&self) -> bool;
}

/// A place for one connection.
#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) held: Option<Held<C>>,
}

/// A connection with its ages.
#[derive(Debug)]
pub(super) struct Held<C> {
    pub(super) connection: C,
    pub(super) opened: Instant,
    pub(super) idle_since: Instant,
}

/// How old a connection may become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ages {
    pub(super) idle_max: Duration,
    pub(super) ttl: Option<Duration>,
}

impl<C> Held<C> {
    /// Whether it is too old at `now` to be lent.
    pub(super) fn has_expired(&self, ages: Ages, now: Instant) -> bool {
        now.saturating_duration_since(self.idle_since) >= ages.idle_max
            || ages.ttl.is_some_and(|ttl| now.saturating_duration_since(self.opened) >= ttl)
    }
}

/// Makes slots for r2d2. Never fails, never waits, finds nothing broken.
#[derive(Debug)]
pub(super) struct Slots<C>(PhantomData<fn() -> C>);

impl<C> Slots<C> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<C: Send + 'static> ManageConnection for Slots<C> {
    type Connection = Slot<C>;
    type Error = Infallible;

    fn connect(&self) -> Result<Slot<C>, Infallible> {
        Ok(Slot { held: None })
    }

    fn is_valid(&self, _slot: &mut Slot<C>) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _slot: &mut Slot<C>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn idle_time_and_age_expire_apart() {
        let opened = clock::now();
        let seconds = Duration::from_secs;
        let held = Held { connection: (), opened, idle_since: opened + seconds(50) };
        let idle = Ages { idle_max: seconds(10), ttl: None };
        assert!(!held.has_expired(idle, opened + seconds(59)));
        assert!(held.has_expired(idle, opened + seconds(60)));
        let ttl = Ages { idle_max: seconds(1000), ttl: Some(seconds(55)) };
        assert!(!held.has_expired(ttl, opened + seconds(54)));
        assert!(held.has_expired(ttl, opened + seconds(55)));
    }
}
