//! SIGINT and SIGTERM: the first asks the command to end, the second ends the process.
//!
//! A thread of its own waits for them ("ottla-signal"), so that no handler does more than what
//! signal-hook does. The thread ends with the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::report;
use crate::error::{Error, ErrorKind, Result};
use crate::threads;

/// The exit code of a command that a second signal ended: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// Tells when to end: by a signal, or because the work is done.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending(Arc<State>);

#[derive(Debug, Default)]
struct State {
    interrupted: AtomicBool,
    done: Mutex<bool>,
    changed: Condvar,
}

impl Ending {
    /// Begins to watch for signals.
    ///
    /// # Errors
    /// `Io` when the system refuses.
    pub(super) fn watch() -> Result<Self> {
        let ending = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| {
            Error::new(ErrorKind::Io, "signals cannot be watched").with_source(error)
        })?;
        let seen = ending.clone();
        // Detached: it lives as long as the process.
        drop(threads::spawn("ottla-signal", move || {
            for _signal in signals.forever() {
                if seen.is_interrupted() {
                    report::line("ottla: ended by a second signal");
                    std::process::exit(INTERRUPTED);
                }
                report::line("ottla: ending (a second signal ends at once)");
                seen.0.interrupted.store(true, Ordering::SeqCst);
                seen.finish();
            }
        })?);
        Ok(ending)
    }

    /// Whether a signal came.
    pub(super) fn is_interrupted(&self) -> bool {
        self.0.interrupted.load(Ordering::SeqCst)
    }

    /// The work is done (or must end): wakes who waits.
    pub(super) fn finish(&self) {
        *self.0.done.lock() = true;
        self.0.changed.notify_all();
    }

    /// Whether to end.
    pub(super) fn is_finished(&self) -> bool {
        *self.0.done.lock()
    }

    /// Waits for the end, or for `wait`; tells whether it is the end.
    pub(super) fn wait(&self, wait: std::time::Duration) -> bool {
        let mut done = self.0.done.lock();
        if !*done {
            self.0.changed.wait_for(&mut done, wait);
        }
        *done
    }
}
