//! SIGINT and SIGTERM: the first asks the command to end, a second, later one ends the process.
//!
//! A thread of its own waits for them ("ottla-signal"), so that no handler does more than what
//! signal-hook does. The thread ends with the process.
//!
//! A command that was started for a unit (`--exec`) is the leader of a process group of its own, so that it
//! can be ended with whatever it started. The first signal is passed on to these groups as SIGTERM,
//! the second kills them.

use std::collections::HashSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::report;
use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::threads;

/// The exit code of a command that a second signal ended: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;
/// A signal that follows the first so soon is the same one: `timeout` and some terminals send it to the
/// process and to its group.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Tells when to end: by a signal, or because the work is done.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending(Arc<State>);

#[derive(Debug, Default)]
struct State {
    interrupted: AtomicBool,
    done: Mutex<bool>,
    changed: Condvar,
    /// Process groups of children that were not reaped yet: their numbers are still theirs.
    groups: Mutex<HashSet<Pid>>,
}

/// A child process at the head of its group.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    pid: Pid,
    state: Arc<State>,
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
            let mut first = None;
            for _signal in signals.forever() {
                let now = clock::now();
                if now.saturating_duration_since(*first.get_or_insert(now)) >= SAME_SIGNAL {
                    seen.kill_groups();
                    report::line("ottla: ended by a second signal");
                    std::process::exit(INTERRUPTED);
                }
                if seen.is_interrupted() {
                    continue;
                }
                report::line("ottla: ending (a second signal ends at once)");
                seen.interrupt();
                seen.finish();
            }
        })?);
        Ok(ending)
    }

    fn interrupt(&self) {
        let groups = self.0.groups.lock();
        self.0.interrupted.store(true, Ordering::SeqCst);
        groups.iter().for_each(|group| signal(*group, Signal::TERM));
    }

    /// Kills every child with what it started.
    pub(super) fn kill_groups(&self) {
        self.0.groups.lock().iter().for_each(|group| signal(*group, Signal::KILL));
    }

    /// Starts `command` with a pipe as its input.
    ///
    /// # Errors
    /// When it cannot be started, and after a signal.
    pub(super) fn start(&self, command: &mut Command) -> io::Result<Group> {
        // Held over the start: a signal comes before it, or finds the group.
        let mut groups = self.0.groups.lock();
        if self.is_interrupted() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "this process is ending"));
        }
        let child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        groups.insert(pid);
        Ok(Group { child, pid, state: Arc::clone(&self.0) })
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
    pub(super) fn wait(&self, wait: Duration) -> bool {
        let mut done = self.0.done.lock();
        if !*done {
            self.0.changed.wait_for(&mut done, wait);
        }
        *done
    }
}

impl Group {
    /// The pipe that is the child's input; once.
    pub(super) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Kills the child with what it started.
    pub(super) fn kill(&self) {
        signal(self.pid, Signal::KILL);
    }

    /// Waits for the child's end.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn wait(mut self) -> io::Result<ExitStatus> {
        // First without reaping it: until then nobody else gets its number.
        waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        self.state.groups.lock().remove(&self.pid);
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Without effect after `wait`.
        if self.state.groups.lock().remove(&self.pid) {
            self.kill();
            drop(self.child.wait());
        }
    }
}

fn signal(group: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(group, signal) {
        // It has ended by itself.
        log::debug!("process group {}: {error}", group.as_raw_nonzero());
    }
}
