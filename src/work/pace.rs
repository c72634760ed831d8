//! A rate limit on records and bytes: a token bucket as plain data, and the node's own behind a lock.
//!
//! [`Bucket`] is a pure state machine of (level, cost, now). It may be taken from while anything is
//! in it, and then goes below zero by what was taken; so what is read next need not be known
//! beforehand, and one that is larger than the bucket passes too. Invariant: within any time `t`
//! what is taken by one taker is at most `burst + rate * t` and the last thing taken.
//!
//! [`Pace`] is shared by the workers of a node. Its lock is held for moments, never while waiting;
//! so each of `n` workers may take one thing at the same moment.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock;

/// A bucket that is full holds what flows in within this time.
const BURST: Duration = Duration::from_millis(100);
/// Nanoseconds of a second.
const NANOS: u128 = 1_000_000_000;

/// A token bucket. Its level is kept in billionths, so that nothing is lost by rounding.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    per_second: u64,
    /// The most that it holds.
    full: i128,
    level: i128,
    at: Instant,
}

impl Bucket {
    /// A full one into which `per_second` flow.
    pub(crate) fn new(per_second: u64, now: Instant) -> Self {
        let in_burst = u128::from(per_second) * BURST.as_nanos();
        let full = in_burst.max(NANOS) as i128;
        Self { per_second, full, level: full, at: now }
    }

    /// How long it takes until something may be taken; zero if it may be now.
    pub(crate) fn wait(&mut self, now: Instant) -> Duration {
        self.flow(now);
        if self.level > 0 {
            return Duration::ZERO;
        }
        // To one billionth above zero, rounded up.
        let missing = (1 - self.level) as u128;
        let nanos = missing.div_ceil(u128::from(self.per_second.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Takes `count`, whatever is in it.
    pub(crate) fn take(&mut self, count: u64, now: Instant) {
        self.flow(now);
        self.level -= i128::from(count) * NANOS as i128;
    }

    fn flow(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_nanos();
        let inflow = passed.saturating_mul(u128::from(self.per_second));
        let inflow = i128::try_from(inflow).unwrap_or(i128::MAX);
        self.level = self.level.saturating_add(inflow).min(self.full);
        self.at = self.at.max(now);
    }
}

/// The limits of a node.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    records: Option<Mutex<Bucket>>,
    bytes: Option<Mutex<Bucket>>,
}

impl Pace {
    /// So much per second; zero is no limit.
    pub(crate) fn new(records: u64, bytes: u64) -> Self {
        let now = clock::now();
        let bucket = |rate| (rate > 0).then(|| Mutex::new(Bucket::new(rate, now)));
        Self { records: bucket(records), bytes: bucket(bytes) }
    }

    /// Whether there is a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.records.is_some() || self.bytes.is_some()
    }

    /// How long it takes until the next record may be given out.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let buckets = self.records.iter().chain(&self.bytes);
        buckets.map(|bucket| bucket.lock().wait(now)).max().unwrap_or_default()
    }

    /// Notes what was given out.
    pub(crate) fn take(&self, records: u64, bytes: u64, now: Instant) {
        for (bucket, count) in [(&self.records, records), (&self.bytes, bytes)] {
            if let Some(bucket) = bucket {
                bucket.lock().take(count, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn what_is_larger_than_the_bucket_passes_and_is_paid_afterwards() {
        let start = clock::now();
        let mut bucket = Bucket::new(10, start);
        assert_eq!(bucket.wait(start), Duration::ZERO);
        bucket.take(21, start);
        let wait = bucket.wait(start);
        assert_eq!((wait.as_secs(), wait.subsec_nanos()), (2, 1), "full is one");
        assert_eq!(bucket.wait(start + wait), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_gives_nothing() {
        let before = clock::now();
        let start = before + ms(1000);
        let mut bucket = Bucket::new(1000, start);
        bucket.take(200, start);
        let wait = bucket.wait(start);
        assert_eq!(bucket.wait(before + ms(500)), wait);
        assert_eq!(bucket.wait(start), wait);
    }

    proptest! {
        /// Over any stretch no more than the burst, the inflow and the last thing; and one who comes
        /// when it was told to is never sent away.
        #[test]
        fn the_rate_holds_over_every_stretch(
            rate in 1_u64..100_000,
            steps in prop::collection::vec((1_u64..5_000, 0_u64..50), 1..60),
        ) {
            let mut now = clock::now();
            let mut bucket = Bucket::new(rate, now);
            let burst = (u128::from(rate) * BURST.as_nanos()).max(NANOS);
            let mut taken: Vec<(Instant, u64)> = Vec::new();
            for (count, idle) in steps {
                now += ms(idle);
                now += bucket.wait(now);
                prop_assert_eq!(bucket.wait(now), Duration::ZERO);
                bucket.take(count, now);
                taken.push((now, count));
            }
            for first in 0..taken.len() {
                let mut before = 0_u128;
                for (at, count) in &taken[first..] {
                    let passed = at.saturating_duration_since(taken[first].0).as_nanos();
                    prop_assert!(before * NANOS <= burst + passed * u128::from(rate));
                    before += u128::from(*count);
                }
            }
        }

        /// It does not lag behind: who takes as fast as it may gets what flows in.
        #[test]
        fn the_rate_is_reached(rate in 1_u64..10_000, count in 1_u64..100) {
            let start = clock::now();
            let mut now = start;
            let mut bucket = Bucket::new(rate, now);
            let mut total = 0_u128;
            for _ in 0..200 {
                now += bucket.wait(now);
                bucket.take(count, now);
                total += u128::from(count);
            }
            let passed = (now - start).as_nanos();
            prop_assert!(total * NANOS >= passed * u128::from(rate));
        }
    }
}
