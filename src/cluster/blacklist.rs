//! [`Blacklist`]: which brokers did not answer lately, and when to turn to them again.
//!
//! Two times follow from a broker's failures in a row. Until the *pause* ends nobody connects to
//! it at all (`reconnect.backoff.ms`, at most a second): that keeps a dead broker from being
//! flooded even by those who need exactly that one. Until the *blacklist* time ends (it grows up
//! to `broker.blacklist.max.ms`) those who can choose choose another. Both end by themselves, and
//! one success clears them: there is always a way back.
//!
//! Pure: `now` and the random numbers are arguments. Keyed by address, so that a broker that moved
//! starts anew, and a bootstrap address and the broker behind it count as one.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::backoff::Backoff;

/// The first blacklist time; it doubles with each failure in a row.
const BLACKLIST_FIRST: Duration = Duration::from_millis(500);

/// Failures per address.
#[derive(Clone, Debug)]
pub(crate) struct Blacklist<K> {
    pause: Backoff,
    away: Backoff,
    entries: HashMap<K, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    failures: u32,
    pause_until: Instant,
    away_until: Instant,
}

impl<K: Hash + Eq + Clone> Blacklist<K> {
    /// Empty; `pause` is the reconnect back-off, `max` the longest blacklist time.
    pub(crate) fn new(pause: Backoff, max: Duration) -> Self {
        Self { pause, away: Backoff::new(BLACKLIST_FIRST, max), entries: HashMap::new() }
    }

    /// `key` did not answer at `now`.
    pub(crate) fn failed(&mut self, key: &K, now: Instant, rng: &mut fastrand::Rng) {
        let failures = self.entries.get(key).map_or(0, |entry| entry.failures).saturating_add(1);
        let pause_until = now + self.pause.pause(failures, rng);
        let away_until = now + self.away.pause(failures, rng);
        self.entries.insert(key.clone(), Entry { failures, pause_until, away_until });
    }

    /// `key` answered.
    pub(crate) fn succeeded(&mut self, key: &K) {
        self.entries.remove(key);
    }

    /// Until when nobody may connect to `key`.
    pub(crate) fn paused_until(&self, key: &K, now: Instant) -> Option<Instant> {
        self.entries.get(key).map(|entry| entry.pause_until).filter(|until| *until > now)
    }

    /// Until when those who can choose another leave `key` alone.
    pub(crate) fn away_until(&self, key: &K, now: Instant) -> Option<Instant> {
        self.entries.get(key).map(|entry| entry.away_until).filter(|until| *until > now)
    }

    /// Forgets the addresses that `known` does not confirm: the bound on the number of entries.
    pub(crate) fn retain(&mut self, mut known: impl FnMut(&K) -> bool) {
        self.entries.retain(|key, _| known(key));
    }

    /// Which of `brokers` and `bootstrap` to ask at `now`, when any will do.
    ///
    /// A broker that is not blacklisted, by chance, but `favourite` first; else a bootstrap address
    /// that is not (KIP-899: all known brokers are away); else the one whose time ends first. With
    /// `bootstrap_first` the bootstrap addresses come before the brokers (KIP-1102). `None` only
    /// when both lists are empty.
    pub(crate) fn choose<'a>(
        &self,
        brokers: &'a [K],
        bootstrap: &'a [K],
        favourite: Option<&K>,
        bootstrap_first: bool,
        now: Instant,
        rng: &mut fastrand::Rng,
    ) -> Option<&'a K> {
        let (first, second) =
            if bootstrap_first { (bootstrap, brokers) } else { (brokers, bootstrap) };
        for group in [first, second] {
            let free: Vec<&K> =
                group.iter().filter(|key| self.away_until(key, now).is_none()).collect();
            let kept = favourite.and_then(|favourite| free.iter().find(|key| **key == favourite));
            if let Some(key) = kept.or_else(|| rng.choice(&free)) {
                return Some(key);
            }
        }
        brokers.iter().chain(bootstrap).min_by_key(|key| self.away_until(key, now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock;

    const MAX: Duration = Duration::from_secs(5);

    fn list() -> Blacklist<u8> {
        Blacklist::new(Backoff::new(Duration::from_millis(50), Duration::from_secs(1)), MAX)
    }

    #[test]
    fn the_time_grows_is_bounded_and_a_success_clears_it() {
        let (mut list, mut rng, now) = (list(), fastrand::Rng::with_seed(1), clock::now());
        let mut before = Duration::ZERO;
        for failure in 1..=12 {
            list.failed(&1, now, &mut rng);
            let away = list.away_until(&1, now).expect("blacklisted") - now;
            assert!(away <= MAX, "{away:?}");
            assert!(failure > 3 || away > before, "{failure}: {away:?} after {before:?}");
            before = away;
            assert!(list.paused_until(&1, now).expect("paused") - now <= Duration::from_secs(1));
        }
        assert_eq!(list.away_until(&1, now + MAX), None, "there is a way back");
        list.succeeded(&1);
        assert_eq!(list.away_until(&1, now), None);
        assert_eq!(list.paused_until(&1, now), None);
    }

    // rskafka#58, #61, #187: the same dead broker again and again.
    #[test]
    fn a_broker_that_failed_is_not_the_next_choice() {
        let (mut list, mut rng, now) = (list(), fastrand::Rng::with_seed(1), clock::now());
        list.failed(&1, now, &mut rng);
        for _ in 0..100 {
            let chosen = list.choose(&[1, 2, 3], &[9], Some(&1), false, now, &mut rng);
            assert!(matches!(chosen, Some(2 | 3)), "{chosen:?}");
        }
    }

    #[test]
    fn with_all_brokers_away_the_bootstrap_list_is_next_then_who_is_free_first() {
        let (mut list, mut rng, now) = (list(), fastrand::Rng::with_seed(1), clock::now());
        for _ in 0..4 {
            list.failed(&1, now, &mut rng);
        }
        list.failed(&2, now, &mut rng);
        assert_eq!(list.choose(&[1, 2], &[9], None, false, now, &mut rng), Some(&9));
        list.failed(&9, now, &mut rng);
        list.failed(&9, now, &mut rng);
        assert_eq!(list.choose(&[1, 2], &[9], None, false, now, &mut rng), Some(&2));
        assert_eq!(list.choose(&[], &[], None, false, now, &mut rng), None);
    }

    #[test]
    fn a_favourite_is_kept_and_a_new_bootstrap_goes_before_it() {
        let (list, mut rng, now) = (list(), fastrand::Rng::with_seed(1), clock::now());
        for _ in 0..20 {
            assert_eq!(list.choose(&[1, 2], &[9], Some(&2), false, now, &mut rng), Some(&2));
            assert_eq!(list.choose(&[1, 2], &[9], Some(&2), true, now, &mut rng), Some(&9));
        }
    }

    proptest! {
        #[test]
        fn somebody_is_always_chosen_and_nobody_is_away_for_ever(
            events in proptest::collection::vec((0_u8..4, any::<bool>(), 0_u64..3000), 0..60),
            seed: u64,
        ) {
            let (mut list, mut rng) = (list(), fastrand::Rng::with_seed(seed));
            let mut now = clock::now();
            for (key, failed, step) in events {
                now += Duration::from_millis(step);
                if failed {
                    list.failed(&key, now, &mut rng);
                } else {
                    list.succeeded(&key);
                }
                let chosen = list.choose(&[0, 1, 2], &[3], None, false, now, &mut rng);
                let chosen = *chosen.expect("the lists are not empty");
                let free = (0..4).any(|key| list.away_until(&key, now).is_none());
                prop_assert!(!free || list.away_until(&chosen, now).is_none());
            }
            prop_assert!((0..4).all(|key| list.away_until(&key, now + MAX).is_none()));
            list.retain(|_| false);
            prop_assert!(list.entries.is_empty());
        }
    }
}
