//! What a candidate knows about the organiser's lock.
//!
//! Pure: it is told when a request was sent and what was answered, and says until when this
//! process may act. The lock lasts `lease` from the moment the store granted it, which is not
//! before the request was sent: counting from there, this side never believes longer than the store.
//! An answer that did not come proves nothing either way: what was believed before stays, until its
//! own time is over.
//!
//! ```text
//!   sent ───────── granted ──────────────────────────── store forgets
//!   |<------------------- lease -------------------->|  this side stops
//!   |<--------- commits may start here -->|<- request time-out ->|
//! ```

use std::time::{Duration, Instant};

use crate::clock::Deadline;

/// The lock is renewed after this part of its time, so that several tries fit into the rest.
const RENEW_AFTER_PART: u32 = 3;

/// Whether this process is the organiser, as far as it can know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    lease: Duration,
    held: Option<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    renew_at: Deadline,
    until: Deadline,
}

/// What an answer changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    Same,
    /// This process is the organiser now.
    Won,
    /// It is not any more: a pending operation must be dropped.
    Lost,
}

impl Lock {
    /// Not held.
    pub(crate) fn new(lease: Duration) -> Self {
        Self { lease, held: None }
    }

    /// The store granted or renewed the lock on a request that was sent at `sent`.
    pub(crate) fn granted(&mut self, sent: Instant) -> Change {
        let change = if self.held.is_none() { Change::Won } else { Change::Same };
        self.held = Some(Held {
            renew_at: Deadline::after(sent, self.lease / RENEW_AFTER_PART),
            until: Deadline::after(sent, self.lease),
        });
        change
    }

    /// The store said that another holds it, or an operation was refused for that reason.
    pub(crate) fn refused(&mut self) -> Change {
        if self.held.take().is_some() { Change::Lost } else { Change::Same }
    }

    /// Looks at the time: a lock that could not be renewed ends by itself.
    pub(crate) fn expire(&mut self, now: Instant) -> Change {
        if self.held.is_some_and(|held| held.until.has_passed(now)) {
            return self.refused();
        }
        Change::Same
    }

    /// Whether it is time to ask the store: not held, or due for renewal.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.held.is_none_or(|held| held.renew_at.has_passed(now))
    }

    /// When it is due for renewal; `None` while not held.
    pub(crate) fn renew_at(&self) -> Option<Deadline> {
        self.held.map(|held| held.renew_at)
    }

    /// Whether this process may plan.
    pub(crate) fn may_act(&self, now: Instant) -> bool {
        self.held.is_some_and(|held| !held.until.has_passed(now))
    }

    /// By when a commit to Kafka must be answered, at most `request_timeout` from `now`; `None`
    /// when the lock may not last that long. A commit is the one thing that the store cannot
    /// refuse, so it must not be under way when the lock ends.
    pub(crate) fn commit_deadline(
        &self,
        now: Instant,
        request_timeout: Duration,
    ) -> Option<Deadline> {
        let held = self.held?;
        // A lock shorter than two time-outs leaves the request what the lock has, halved.
        let wait = request_timeout.min(self.lease / 2);
        let answer = Deadline::after(now, wait);
        (answer < held.until).then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const LEASE: Duration = Duration::from_secs(15);
    const REQUEST: Duration = Duration::from_secs(5);

    fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_lock_is_believed_from_the_moment_of_sending() {
        let start = clock::now();
        let mut lock = Lock::new(LEASE);
        assert!(lock.is_due(start) && !lock.may_act(start));
        assert_eq!(lock.granted(start), Change::Won);
        assert!(lock.may_act(start + secs(14)) && !lock.may_act(start + secs(15)));
        assert!(!lock.is_due(start + secs(4)) && lock.is_due(start + secs(5)));
        assert_eq!(lock.granted(start + secs(5)), Change::Same);
        assert!(lock.may_act(start + secs(19)));
    }

    #[test]
    fn an_unanswered_renewal_ends_it_on_time_and_once() {
        let start = clock::now();
        let mut lock = Lock::new(LEASE);
        lock.granted(start);
        assert_eq!(lock.expire(start + secs(14)), Change::Same);
        assert_eq!(lock.expire(start + secs(15)), Change::Lost);
        assert_eq!(lock.expire(start + secs(16)), Change::Same);
        assert!(lock.is_due(start + secs(16)));
    }

    #[test]
    fn a_refusal_ends_it_at_once() {
        let start = clock::now();
        let mut lock = Lock::new(LEASE);
        assert_eq!(lock.refused(), Change::Same);
        lock.granted(start);
        assert_eq!(lock.refused(), Change::Lost);
        assert!(!lock.may_act(start));
    }

    #[test]
    fn no_commit_starts_that_could_outlive_the_lock() {
        let start = clock::now();
        let mut lock = Lock::new(LEASE);
        assert!(lock.commit_deadline(start, REQUEST).is_none());
        lock.granted(start);
        let answer = lock.commit_deadline(start + secs(9), REQUEST).expect("time is left");
        assert_eq!(answer, Deadline::after(start, secs(14)));
        assert!(lock.commit_deadline(start + secs(10), REQUEST).is_none());
        let mut short = Lock::new(secs(2));
        short.granted(start);
        assert!(short.commit_deadline(start, REQUEST).is_some());
    }
}
