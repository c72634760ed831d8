//! Every thread of the crate: named, owned, stopped, joined.
//!
//! [`spawn`] starts a thread under a name of at most 15 bytes (what Linux shows) and gives a
//! [`Thread`] that its owner joins. [`Stop`] is how a thread is asked to end: it is also the only
//! way to sleep, so that every wait ends at once when a close begins. A panic in a thread's body
//! is caught, logged under the thread's name and shown to the owner by [`Thread::join`]; user code
//! (handlers, callbacks) is guarded closer to its call with [`guard`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};

/// Longest thread name that Linux keeps.
const NAME_BYTES_MAX: usize = 15;

/// A running thread. Dropping it detaches; owners call [`Thread::join`] or [`Thread::join_by`].
#[derive(Debug)]
pub(crate) struct Thread {
    name: String,
    handle: JoinHandle<()>,
    ended: Stop,
}

/// Starts `body` on a new thread called `name`.
///
/// # Errors
/// `Io` when the system has no thread to give.
#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<Thread> {
    debug_assert!(name.len() <= NAME_BYTES_MAX, "thread name {name} is cut by the system");
    let ended = Stop::new();
    let at_end = ended.clone();
    let own_name = name.to_owned();
    let handle = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            if let Err(panic) = guard(body) {
                log::error!("thread {own_name} panicked: {panic}");
            }
            at_end.set();
        })
        .map_err(|error| {
            Error::new(ErrorKind::Io, format!("thread {name} could not be started"))
                .with_source(error)
        })?;
    Ok(Thread { name: name.to_owned(), handle, ended })
}

impl Thread {
    /// Waits for the end, however long that takes: for threads whose end is certain and near.
    pub(crate) fn join(self) {
        if self.handle.join().is_err() {
            log::error!("thread {} ended by a panic", self.name);
        }
    }

    /// Waits for the end until `deadline`; a thread that is still running then is detached and
    /// `false` is returned.
    pub(crate) fn join_by(self, deadline: Deadline) -> bool {
        if self.ended.wait_until(deadline) {
            self.join();
            return true;
        }
        log::warn!("thread {} did not end in time and was left behind", self.name);
        false
    }

    /// Whether its body has returned or panicked.
    #[cfg(any(test, feature = "broker"))]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_set()
    }

    /// Whether the caller runs on this thread.
    pub(crate) fn is_current(&self) -> bool {
        self.handle.thread().id() == std::thread::current().id()
    }
}

/// Runs each of `bodies` on a thread called `name-N` and `meanwhile` on the caller's; returns when all
/// have ended, which `meanwhile` has to bring about. A body that panics is logged.
///
/// # Errors
/// `Io` when the system has no thread to give; `meanwhile` is dropped then.
pub(crate) fn beside<T>(
    name: &str,
    bodies: Vec<impl FnOnce() + Send>,
    meanwhile: impl FnOnce() -> T,
) -> Result<T> {
    std::thread::scope(|scope| {
        let meanwhile = meanwhile;
        for (index, body) in bodies.into_iter().enumerate() {
            let name = format!("{name}-{index}");
            debug_assert!(name.len() <= NAME_BYTES_MAX, "thread name {name} is cut by the system");
            let own_name = name.clone();
            let guarded = move || {
                if let Err(panic) = guard(body) {
                    log::error!("thread {own_name} panicked: {panic}");
                }
            };
            std::thread::Builder::new().name(name).spawn_scoped(scope, guarded).map_err(
                |error| {
                    let message = "a thread could not be started";
                    Error::new(ErrorKind::Io, message).with_source(error)
                },
            )?;
        }
        Ok(meanwhile())
    })
}

/// Runs user code; a panic becomes its message.
pub(crate) fn guard<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

/// A flag that is set once and can be waited for. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// Not set.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets it and wakes everyone who waits. Setting twice is the same as once.
    pub(crate) fn set(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    /// Whether it is set.
    pub(crate) fn is_set(&self) -> bool {
        *self.0.0.lock()
    }

    /// Sleeps for `wait`, or until it is set; tells whether it is set.
    pub(crate) fn wait(&self, wait: Duration) -> bool {
        self.wait_until(Deadline::within(wait))
    }

    /// Sleeps until `deadline`, or until it is set; tells whether it is set.
    pub(crate) fn wait_until(&self, deadline: Deadline) -> bool {
        let until: Instant = deadline.instant();
        let mut set = self.0.0.lock();
        while !*set {
            if self.0.1.wait_until(&mut set, until).timed_out() {
                break;
            }
        }
        *set
    }
}

/// Sleeps where nothing can interrupt: between two looks of a test.
#[cfg(test)]
pub(crate) fn pause(wait: Duration) {
    Stop::new().wait_until(Deadline::within(wait));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_flag_ends_the_wait_and_the_thread_is_joined() {
        let stop = Stop::new();
        let seen = stop.clone();
        let thread = spawn("ottla-test", move || {
            assert!(seen.wait(Duration::from_secs(60)));
        })
        .expect("a thread");
        stop.set();
        assert!(thread.join_by(Deadline::within(Duration::from_secs(30))));
    }

    #[test]
    fn a_panic_is_caught_with_its_message() {
        assert_eq!(guard(|| panic!("no {}", 1)), Err::<(), _>("no 1".to_owned()));
        let thread = spawn("ottla-test", || panic!("on purpose")).expect("a thread");
        assert!(thread.join_by(Deadline::within(Duration::from_secs(30))));
    }

    #[test]
    fn a_thread_that_does_not_end_is_left_behind() {
        let stop = Stop::new();
        let held = stop.clone();
        let thread = spawn("ottla-test", move || {
            held.wait(Duration::from_secs(60));
        })
        .expect("a thread");
        assert!(!thread.join_by(Deadline::within(Duration::ZERO)));
        stop.set();
    }
}
