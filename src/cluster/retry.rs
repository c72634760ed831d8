//! The one retry loop: every call that tries more than once goes through [`Cluster::retry`].
//!
//! An attempt's failure decides what happens before the next one (its `Recovery`): nothing,
//! metadata fetched anew, coordinators forgotten. Between attempts there is a pause that doubles
//! from `retry.backoff.ms` to `retry.backoff.max.ms`, with jitter; the time that the recovery took
//! counts as pause. All attempts, recoveries and pauses happen within one deadline, so that
//! time-outs never add up. The error at the end is the last one, with the number of attempts and the
//! time they took; when that is a time-out, the one before it which was none is its cause.

use std::time::Duration;

use super::backoff::Backoff;
use super::handle::Cluster;
use super::links::closed;
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Recovery, Result};

impl Cluster {
    /// Runs `attempt` (it is told its number, from 1) until it succeeds, fails for good, or
    /// `deadline` passes. `what` is a phrase for the log and the error, such as "list offsets".
    ///
    /// # Errors
    /// The last error of `attempt`; `Closed`.
    pub(crate) fn retry<T>(
        &self,
        what: &str,
        deadline: Deadline,
        attempt: impl FnMut(u32) -> Result<T>,
    ) -> Result<T> {
        self.retry_by(what, deadline, attempt, Error::recovery)
    }

    /// As [`Cluster::retry`], with another view of what a failure asks for.
    pub(crate) fn retry_by<T>(
        &self,
        what: &str,
        deadline: Deadline,
        mut attempt: impl FnMut(u32) -> Result<T>,
        mut recovery: impl FnMut(&Error) -> Recovery,
    ) -> Result<T> {
        let start = clock::now();
        let config = self.config();
        let backoff = Backoff::new(config.retry_backoff, config.retry_backoff_max);
        let mut rng = fastrand::Rng::new();
        let mut before: Option<Error> = None;
        for number in 1.. {
            if self.is_closed() {
                return Err(closed());
            }
            let error = match attempt(number) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let recovery = recovery(&error);
            // A size can be damaged on its way once; twice it is what the broker has to say.
            let too_large = error.kind() == ErrorKind::AnswerTooLarge
                && before.as_ref().is_some_and(|error| error.kind() == ErrorKind::AnswerTooLarge);
            let failed = clock::now();
            if error.kind() == ErrorKind::Closed {
                return Err(error);
            }
            if recovery == Recovery::Fail || too_large || deadline.has_passed(failed) {
                return Err(at_the_end(error, before, what, number, failed - start));
            }
            log::debug!("{what}: attempt {number} failed: {error}");
            let pause_end = deadline.at_most(failed, backoff.pause(number, &mut rng));
            if !self.recover(recovery, deadline) {
                return Err(at_the_end(error, before, what, number, clock::now() - start));
            }
            if self.links.stop().wait_until(pause_end) {
                return Err(closed());
            }
            let now = clock::now();
            if deadline.has_passed(now) {
                return Err(at_the_end(error, before, what, number, now - start));
            }
            if !error.is_timeout() {
                before = Some(error);
            }
        }
        unreachable!("the deadline passes before four billion attempts with pauses between them")
    }

    /// Does what has to come before the next attempt; `false` when that has no hope.
    fn recover(&self, recovery: Recovery, deadline: Deadline) -> bool {
        match recovery {
            Recovery::Fail | Recovery::Retry => {}
            Recovery::FindCoordinator => self.coordinators.lock().clear(),
            Recovery::RefreshMetadata | Recovery::Reconnect => {
                // Its failure is not the one to report: the next attempt shows whether it matters.
                if let Err(error) = self.refresh_now(&[], deadline) {
                    log::debug!("metadata could not be fetched before the next attempt: {error}");
                    let is_final = error.recovery() == Recovery::Fail;
                    return !(is_final && error.kind() == ErrorKind::NotKafka);
                }
            }
        }
        true
    }
}

fn at_the_end(
    error: Error,
    before: Option<Error>,
    what: &str,
    attempts: u32,
    elapsed: Duration,
) -> Error {
    let error = match before {
        // The time that was left may have been too short for an answer: this says what is wrong.
        Some(cause) if error.is_timeout() && std::error::Error::source(&error).is_none() => {
            error.with_source(cause)
        }
        _ => error,
    };
    error.during(what).with_attempts(attempts, elapsed).given_up()
}
