//! What is counted for one broker or one topic, and the windows in which it is kept.

use std::time::{Duration, Instant};

use super::histogram::Histogram;

/// Length of a window; rates, averages, maxima and quantiles look at two of them, as Java's do
/// (`metrics.sample.window.ms`, `metrics.num.samples`).
pub(super) const WINDOW: Duration = Duration::from_secs(30);

/// Something that is counted and can be added up.
pub(super) trait Count: Default {
    /// Adds all that `other` counted.
    fn merge(&mut self, other: &Self);
}

/// Values of which only count, sum and maximum matter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    pub(super) count: u64,
    pub(super) sum: u64,
    pub(super) max: u64,
}

impl Mean {
    pub(super) fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum += value;
        self.max = self.max.max(value);
    }

    pub(super) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

/// Counts of one broker or topic.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Records in requests that were written, each time they were.
    pub(super) records_sent: u64,
    pub(super) records_acknowledged: u64,
    pub(super) records_retried: u64,
    pub(super) records_failed: u64,
    pub(super) records_stored_for_retry: u64,
    pub(super) batches_split: u64,
    /// Sizes of batches in requests, as they were sent.
    pub(super) batches: Mean,
    /// Bytes of batches before and after compression, at their first attempt.
    pub(super) plain_bytes: u64,
    pub(super) packed_bytes: u64,
    /// Records at their first attempt.
    pub(super) first_records: u64,
    /// Records per request.
    pub(super) requests: Mean,
    pub(super) answers: u64,
    pub(super) connections_opened: u64,
    pub(super) connections_lost: u64,
    /// Milliseconds.
    pub(super) throttle: Mean,
    /// Microseconds from the write of a request to its answer.
    pub(super) latency: Histogram,
    /// Microseconds from a batch's first record to its first write.
    pub(super) queue_time: Histogram,
}

impl Count for Tally {
    fn merge(&mut self, other: &Self) {
        self.records_sent += other.records_sent;
        self.records_acknowledged += other.records_acknowledged;
        self.records_retried += other.records_retried;
        self.records_failed += other.records_failed;
        self.records_stored_for_retry += other.records_stored_for_retry;
        self.batches_split += other.batches_split;
        self.batches.merge(other.batches);
        self.plain_bytes += other.plain_bytes;
        self.packed_bytes += other.packed_bytes;
        self.first_records += other.first_records;
        self.requests.merge(other.requests);
        self.answers += other.answers;
        self.connections_opened += other.connections_opened;
        self.connections_lost += other.connections_lost;
        self.throttle.merge(other.throttle);
        self.latency.merge(&other.latency);
        self.queue_time.merge(&other.queue_time);
    }
}

/// Counts by age: each is written in one place, the current window.
#[derive(Debug)]
pub(super) struct Windowed<T> {
    born: Instant,
    /// When the current window began.
    since: Instant,
    current: T,
    previous: T,
    /// All that is older.
    settled: T,
}

impl<T: Count> Windowed<T> {
    /// Nothing counted yet.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            born: now,
            since: now,
            current: T::default(),
            previous: T::default(),
            settled: T::default(),
        }
    }

    /// Where to count at `now`.
    pub(super) fn at(&mut self, now: Instant) -> &mut T {
        let age = now.saturating_duration_since(self.since);
        if age >= WINDOW {
            self.settled.merge(&self.previous);
            self.previous = std::mem::take(&mut self.current);
            self.since += WINDOW;
            if age >= 2 * WINDOW {
                self.settled.merge(&self.previous);
                self.previous = T::default();
                self.since = now;
            }
        }
        &mut self.current
    }

    /// What was counted in all, and in the last two windows.
    pub(super) fn read(&mut self, now: Instant) -> Reading<T> {
        self.at(now);
        let mut recent = T::default();
        recent.merge(&self.previous);
        recent.merge(&self.current);
        let mut all = T::default();
        all.merge(&self.settled);
        all.merge(&recent);
        Reading { all, recent, span: self.span(now) }
    }

    /// How long the two windows have lasted: less than twice [`WINDOW`] at first only. At least a second, so that a
    /// rate taken at once does not explode.
    fn span(&self, now: Instant) -> Duration {
        let from = (self.since.checked_sub(WINDOW)).map_or(self.born, |from| from.max(self.born));
        now.saturating_duration_since(from).max(Duration::from_secs(1))
    }
}

/// Counts at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading<T> {
    pub(super) all: T,
    pub(super) recent: T,
    pub(super) span: Duration,
}

impl<T: Count> Reading<T> {
    /// Adds the counts of another place; the longer span counts.
    pub(super) fn merge(&mut self, other: &Self) {
        self.all.merge(&other.all);
        self.recent.merge(&other.recent);
        self.span = self.span.max(other.span);
    }

    /// Per second.
    pub(super) fn rate(&self, recent: u64) -> f64 {
        recent as f64 / self.span.as_secs_f64().max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock;

    #[derive(Debug, Default)]
    struct Sum(u64);

    impl Count for Sum {
        fn merge(&mut self, other: &Self) {
            self.0 += other.0;
        }
    }

    #[test]
    fn what_is_recent_leaves_after_two_windows_and_stays_in_the_total() {
        let start = clock::now();
        let mut counts = Windowed::<Sum>::new(start);
        counts.at(start).0 += 5;
        let reading = counts.read(start + WINDOW);
        assert_eq!((reading.all.0, reading.recent.0), (5, 5));
        assert_eq!(reading.span, WINDOW);
        counts.at(start + WINDOW).0 += 3;
        let reading = counts.read(start + 2 * WINDOW);
        assert_eq!((reading.all.0, reading.recent.0), (8, 3));
        let reading = counts.read(start + 9 * WINDOW);
        assert_eq!((reading.all.0, reading.recent.0), (8, 0));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_counted_twice(
            steps in proptest::collection::vec((0_u64..100, 0_u64..10), 1..100),
        ) {
            let mut now = clock::now();
            let mut counts = Windowed::<Sum>::new(now);
            let mut all = Vec::new();
            for (seconds, count) in steps {
                now += Duration::from_secs(seconds);
                counts.at(now).0 += count;
                all.push((now, count));
                let reading = counts.read(now);
                prop_assert_eq!(reading.all.0, all.iter().map(|(_, count)| count).sum::<u64>());
                // Whatever came in the last window is there, and nothing from before the span.
                let least: u64 = all.iter().filter(|(at, _)| now - *at < WINDOW).map(|(_, count)| count).sum();
                let most: u64 = all.iter().filter(|(at, _)| now - *at < 2 * WINDOW).map(|(_, count)| count).sum();
                prop_assert!((least..=most).contains(&reading.recent.0));
                prop_assert!(reading.span < 2 * WINDOW);
            }
        }
    }
}
