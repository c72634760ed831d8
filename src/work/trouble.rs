//! Says once that something fails, and once that it works again.
//!
//! A server that is away fails every attempt for minutes; a log line for each would hide everything
//! else. One [`Trouble`] stands for one thing that a thread does again and again; it logs and tells
//! the events only when the state changes, and counts the pause before the next attempt. The pause
//! doubles from attempt to attempt up to a bound, with jitter, so that the nodes of a group do not
//! come back in step.

use std::time::Duration;

use crate::error::Error;
use crate::work::events::{Event, EventSink};

/// First pause after a failure.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Whether one thing works at present.
#[derive(Debug)]
pub(crate) struct Trouble {
    doing: &'static str,
    failures: u32,
    events: EventSink,
}

impl Trouble {
    /// All is well with `doing`, a phrase such as `planning`.
    pub(crate) fn new(doing: &'static str, events: EventSink) -> Self {
        Self { doing, failures: 0, events }
    }

    /// It failed; gives the pause before the next attempt.
    pub(crate) fn failed(&mut self, error: &Error) -> Duration {
        if self.failures == 0 {
            log::warn!("{} failed and is tried again until it works: {error}", self.doing);
            self.events.tell(Event::Trouble { doing: self.doing, error: error.clone() });
        } else {
            log::debug!("{} failed again: {error}", self.doing);
        }
        let pause = pause_after(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// It worked, or failed without a pause of its own: [`Self::worked`] or [`Self::failed`].
    pub(crate) fn report(&mut self, failure: Option<&Error>) {
        match failure {
            None => self.worked(),
            Some(error) => {
                self.failed(error);
            }
        }
    }

    /// It worked.
    pub(crate) fn worked(&mut self) {
        if self.failures > 0 {
            log::info!("{} works again after {} failures", self.doing, self.failures);
            self.events.tell(Event::Recovered { doing: self.doing });
            self.failures = 0;
        }
    }
}

/// The pause after so many earlier failures; `random` is in 0..1 and spreads it over 80 to 120 %.
fn pause_after(failures: u32, random: f64) -> Duration {
    let doubled = PAUSE_FIRST.saturating_mul(1_u32.checked_shl(failures.min(16)).unwrap_or(1));
    doubled.min(PAUSE_MAX).mul_f64(0.8 + 0.4 * random)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_state_is_told_when_it_changes_only() {
        let sink = EventSink::new();
        let mut trouble = Trouble::new("planning", sink.clone());
        let error = Error::new(ErrorKind::Queue, "away");
        trouble.worked();
        for _ in 0..10 {
            trouble.failed(&error);
        }
        trouble.worked();
        trouble.worked();
        sink.close();
        let told: Vec<Event> = sink.events().collect();
        assert!(
            matches!(
                told.as_slice(),
                [Event::Trouble { doing: "planning", .. }, Event::Recovered { doing: "planning" }]
            ),
            "{told:?}"
        );
    }

    #[test]
    fn the_pause_grows_to_its_bound() {
        let mut last = Duration::ZERO;
        for failures in 0..6 {
            let pause = pause_after(failures, 0.5);
            assert!(pause > last);
            last = pause;
        }
        for failures in [6, 20, u32::MAX] {
            assert!(pause_after(failures, 1.0) <= PAUSE_MAX.mul_f64(1.2));
        }
    }
}
