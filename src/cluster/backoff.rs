//! [`Backoff`]: how long to pause after the n-th failure in a row (KIP-580).

use std::time::Duration;

/// Share of a pause by which it is made longer or shorter, so that clients that failed together do
/// not come back together. Java's client uses the same.
const JITTER: f64 = 0.2;

/// Pauses that double from `first` up to `max`, with jitter; never longer than `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    first: Duration,
    max: Duration,
}

impl Backoff {
    /// Doubles from `first` to `max`.
    pub(crate) fn new(first: Duration, max: Duration) -> Self {
        Self { first: first.min(max), max }
    }

    /// The pause after `failures` failures in a row; none before the first.
    pub(crate) fn pause(&self, failures: u32, rng: &mut fastrand::Rng) -> Duration {
        /// Doublings that take any pause of a millisecond beyond a day.
        const DOUBLINGS_MAX: u32 = 30;
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let term = self.first.saturating_mul(1 << doublings.min(DOUBLINGS_MAX));
        let middle = term.min(self.max.div_f64(1.0 + JITTER));
        let factor = 1.0 - JITTER + 2.0 * JITTER * rng.f64();
        middle.mul_f64(factor).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pauses_double_with_jitter_up_to_the_limit() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let mut rng = fastrand::Rng::with_seed(7);
        assert_eq!(backoff.pause(0, &mut rng), Duration::ZERO);
        for (failures, low, high) in [(1, 80, 120), (2, 160, 240), (3, 320, 480), (9, 660, 1000)] {
            let pause = backoff.pause(failures, &mut rng).as_millis();
            assert!((low..=high).contains(&pause), "{failures}: {pause}");
        }
    }

    #[test]
    fn two_clients_do_not_pause_alike() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let pauses: std::collections::HashSet<Duration> =
            (0..20).map(|seed| backoff.pause(8, &mut fastrand::Rng::with_seed(seed))).collect();
        assert!(pauses.len() > 15, "{pauses:?}");
    }

    proptest! {
        #[test]
        fn no_pause_is_longer_than_the_limit(
            first in 1_u64..100_000, max in 1_u64..100_000, failures: u32, seed: u64,
        ) {
            let max = Duration::from_millis(max);
            let backoff = Backoff::new(Duration::from_millis(first), max);
            prop_assert!(backoff.pause(failures, &mut fastrand::Rng::with_seed(seed)) <= max);
        }
    }
}
