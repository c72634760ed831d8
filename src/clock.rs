//! The only reader of time.
//!
//! Decisions take `now` as an argument and keep absolute deadlines; the threads at the rim read
//! the clock here and pass it down. Time-outs use the monotonic clock only, so a step of the wall
//! clock neither expires nor hangs anything; the wall clock is read for record timestamps alone.

use std::time::{Duration, Instant};

/// Longest wait that a deadline stands for: a duration beyond it is cut, so that adding it to
/// `now` cannot overflow. About a hundred years.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Monotonic time.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Wall-clock time in milliseconds since 1970, as the kernel saw it at its last tick: up to 4 ms
/// old, five times cheaper than the exact clock. Good for record timestamps, which Kafka keeps in
/// milliseconds and compares with nothing.
#[cfg(target_os = "linux")]
pub(crate) fn unix_ms() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let ms = time.tv_sec * 1000 + time.tv_nsec / 1_000_000;
    #[cfg(test)]
    let ms = ms + testing::step_ms();
    ms
}

/// A wall clock that tests can step, for the thread that reads it.
#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;

    thread_local! {
        static STEP_MS: Cell<i64> = const { Cell::new(0) };
    }

    /// What [`super::unix_ms`] is off by on this thread, from now on.
    pub(crate) fn step_wall_clock(ms: i64) {
        STEP_MS.set(ms);
    }

    pub(super) fn step_ms() -> i64 {
        STEP_MS.get()
    }
}

/// Wall-clock time in milliseconds since 1970.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn unix_ms() -> i64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_millis() as i64,
        Err(before) => -(before.duration().as_millis() as i64),
    }
}

/// A point of monotonic time by which something must be done. What remains is computed at each
/// call, so a wait that is cut into pieces still ends on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// `wait` from `now`.
    pub(crate) fn after(now: Instant, wait: Duration) -> Self {
        Self(now + wait.min(FOREVER))
    }

    /// `wait` from this moment.
    pub(crate) fn within(wait: Duration) -> Self {
        Self::after(now(), wait)
    }

    /// The moment itself.
    pub(crate) fn instant(self) -> Instant {
        self.0
    }

    /// What is left at `now`; zero once it has passed.
    pub(crate) fn remaining(self, now: Instant) -> Duration {
        self.0.saturating_duration_since(now)
    }

    /// What is left at this moment.
    pub(crate) fn left(self) -> Duration {
        self.remaining(now())
    }

    /// Whether it has passed at `now`.
    pub(crate) fn has_passed(self, now: Instant) -> bool {
        now >= self.0
    }

    /// The earlier of this and `wait` from `now`.
    pub(crate) fn at_most(self, now: Instant, wait: Duration) -> Self {
        self.min(Self::after(now, wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_wait_does_not_overflow() {
        let start = now();
        let deadline = Deadline::after(start, Duration::MAX);
        assert!(deadline.remaining(start) > Duration::from_secs(3600 * 24 * 365));
    }

    #[test]
    fn the_wall_clock_is_in_this_century() {
        let ms = unix_ms();
        assert!(ms > 1_700_000_000_000 && ms < 4_100_000_000_000, "{ms}");
    }
}
