//! The thread `ottla-cb` that runs users' callbacks.
//!
//! Callbacks run in the order in which their batches were settled, outside of all locks, one at a
//! time; a panic in one is caught and logged, and the next one runs. The queue holds settled
//! batches. It needs no bound of its own: each callback in it still holds [`CALLBACK_BYTES`] of
//! `buffer.memory`, so callbacks that are slower than the broker slow the senders down.
//!
//! A callback may send; it must not wait for the producer's whole work to be done (`flush`,
//! `close`), which would be waiting for itself: those refuse on this thread.

use std::sync::Arc;
use std::thread::ThreadId;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::batch::Pending;
use super::ticket::BatchOutcome;
use crate::threads;

/// What a callback that waits to run holds of `buffer.memory`, at most.
pub(super) const CALLBACK_BYTES: usize = 64;

/// A settled batch whose callbacks are to run.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) outcome: Arc<BatchOutcome>,
    pub(super) callbacks: Vec<Pending>,
    /// Bytes to be given back afterwards.
    pub(super) held: usize,
}

/// The sending end, with the thread's identity once it runs.
#[derive(Debug)]
pub(super) struct Callbacks {
    sender: parking_lot::Mutex<Option<Sender<Settled>>>,
    thread: std::sync::OnceLock<ThreadId>,
}

impl Callbacks {
    /// The queue with its reading end.
    pub(super) fn new() -> (Self, Receiver<Settled>) {
        let (sender, receiver) = unbounded();
        let sender = parking_lot::Mutex::new(Some(sender));
        (Self { sender, thread: std::sync::OnceLock::new() }, receiver)
    }

    /// Queues the callbacks of a batch; gives them back when the thread has been told to end.
    pub(super) fn queue(&self, settled: Settled) -> Option<Settled> {
        match &*self.sender.lock() {
            Some(sender) => {
                sender.send(settled).err().map(crossbeam_channel::SendError::into_inner)
            }
            None => Some(settled),
        }
    }

    /// The thread ends when it has run what is queued.
    pub(super) fn end(&self) {
        self.sender.lock().take();
    }

    /// Whether the caller is a callback.
    pub(super) fn is_current(&self) -> bool {
        self.thread.get() == Some(&std::thread::current().id())
    }

    /// The body of the thread: runs callbacks until the queue ends; `after` gives back what a
    /// batch held and finishes it.
    pub(super) fn run(
        &self,
        receiver: &Receiver<Settled>,
        mut after: impl FnMut(&BatchOutcome, usize),
    ) {
        // Set once: this is the only thread that runs this body.
        let _known = self.thread.set(std::thread::current().id());
        for settled in receiver {
            run_all(settled.callbacks, &settled.outcome);
            after(&settled.outcome, settled.held);
        }
    }
}

/// Runs each callback with its record's result.
pub(super) fn run_all(callbacks: Vec<Pending>, outcome: &BatchOutcome) {
    for Pending { index, timestamp_ms, callback } in callbacks {
        let result = outcome
            .of(index, timestamp_ms)
            .expect("callbacks move along when a batch is cut, and run when it is settled");
        if let Err(panic) = threads::guard(move || callback(result)) {
            log::error!("a producer callback panicked: {panic}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::producer::ticket::BatchResult;

    #[test]
    fn a_panic_does_not_keep_the_others_from_running() {
        let ran = Arc::new(AtomicUsize::new(0));
        let outcome = Arc::new(BatchOutcome::new(0, Weak::new()));
        outcome.resolve(BatchResult::Stored { base_offset: Some(5), append_time_ms: None });
        let callbacks = (0..5)
            .map(|index| {
                let ran = Arc::clone(&ran);
                Pending {
                    index,
                    timestamp_ms: 0,
                    callback: Box::new(move |result| {
                        assert_ne!(index, 2, "on purpose");
                        let stored = result.expect("stored");
                        ran.fetch_add(stored.offset.expect("known") as usize, Ordering::SeqCst);
                    }),
                }
            })
            .collect();
        let (callbacks_queue, receiver) = Callbacks::new();
        let settled = Settled { outcome, callbacks, held: 7 };
        assert!(callbacks_queue.queue(settled).is_none());
        callbacks_queue.end();
        let mut given_back = 0;
        callbacks_queue.run(&receiver, |_, held| given_back += held);
        assert_eq!(ran.load(Ordering::SeqCst), 5 + 6 + 8 + 9);
        assert_eq!(given_back, 7);
    }
}
