//! The thread `ottla-cb` that runs users' callbacks.
//!
//! Callbacks run in the order in which their batches were settled, outside of all locks, one at a
//! time; a panic in one is caught and logged, and the next one runs. The queue holds settled
//! batches. It needs no bound of its own: each callback in it still holds [`CALLBACK_BYTES`] of
//! `buffer.memory`, so callbacks that are slower than the broker slow the senders down.
//!
//! A callback may send; it must not wait for the producer's whole work to be done (`flush`,
//! `close`), which would be waiting for itself: those refuse on this thread.

use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::ticket::{BatchOutcome, Stored};
use crate::error::Result;
use crate::threads;

/// What a callback that waits to run holds of `buffer.memory`, at most.
pub(super) const CALLBACK_BYTES: usize = 64;

/// What a caller wants to be called with when the fate of a record is known.
pub(super) type Callback = Box<dyn FnOnce(Result<Stored>) + Send>;

/// A callback with the place of its record in the batch and the record's time.
pub(super) struct Pending {
    pub(super) index: u32,
    pub(super) timestamp_ms: i64,
    pub(super) callback: Callback,
}

/// The callbacks of a batch. Places and times of most records follow from those of the one before,
/// so they are kept by runs: half the memory, which is written by one thread and read much later by
/// another.
#[derive(Default)]
pub(super) struct PendingList {
    callbacks: Vec<Callback>,
    runs: Vec<Run>,
}

/// Records in a row with one time.
struct Run {
    first: u32,
    count: u32,
    timestamp_ms: i64,
}

impl PendingList {
    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.callbacks.len()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.callbacks.is_empty()
    }

    /// Adds one. An empty list makes room for `expected` at once.
    #[inline]
    pub(super) fn push_expecting(
        &mut self,
        index: u32,
        timestamp_ms: i64,
        callback: Callback,
        expected: usize,
    ) {
        if self.callbacks.capacity() == 0 {
            self.callbacks.reserve(expected);
        }
        self.callbacks.push(callback);
        match self.runs.last_mut() {
            Some(run) if run.timestamp_ms == timestamp_ms && run.first + run.count == index => {
                run.count += 1;
            }
            _ => self.runs.push(Run { first: index, count: 1, timestamp_ms }),
        }
    }

    /// Adds one.
    pub(super) fn push(&mut self, index: u32, timestamp_ms: i64, callback: Callback) {
        self.push_expecting(index, timestamp_ms, callback, 0);
    }
}

impl IntoIterator for PendingList {
    type Item = Pending;
    type IntoIter = std::iter::Map<
        std::iter::Zip<std::vec::IntoIter<Callback>, Places>,
        fn((Callback, (u32, i64))) -> Pending,
    >;

    fn into_iter(self) -> Self::IntoIter {
        let places = Places { runs: self.runs.into_iter(), run: None };
        self.callbacks.into_iter().zip(places).map(|(callback, (index, timestamp_ms))| Pending {
            index,
            timestamp_ms,
            callback,
        })
    }
}

/// The places and times of a list, one by one.
pub(super) struct Places {
    runs: std::vec::IntoIter<Run>,
    run: Option<Run>,
}

impl Iterator for Places {
    type Item = (u32, i64);

    #[inline]
    fn next(&mut self) -> Option<(u32, i64)> {
        loop {
            match &mut self.run {
                Some(run) if run.count > 0 => {
                    let place = (run.first, run.timestamp_ms);
                    run.first += 1;
                    run.count -= 1;
                    return Some(place);
                }
                run => *run = Some(self.runs.next()?),
            }
        }
    }
}

impl fmt::Debug for PendingList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} callbacks", self.len())
    }
}

/// A settled batch whose callbacks are to run.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) outcome: Arc<BatchOutcome>,
    pub(super) callbacks: PendingList,
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
pub(super) fn run_all(callbacks: PendingList, outcome: &BatchOutcome) {
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
        let mut callbacks = PendingList::default();
        for index in 0..5 {
            let ran = Arc::clone(&ran);
            let callback = move |result: Result<Stored>| {
                assert_ne!(index, 2, "on purpose");
                let stored = result.expect("stored");
                ran.fetch_add(stored.offset.expect("known") as usize, Ordering::SeqCst);
            };
            callbacks.push(index, 0, Box::new(callback));
        }
        let (callbacks_queue, receiver) = Callbacks::new();
        let settled = Settled { outcome, callbacks, held: 7 };
        assert!(callbacks_queue.queue(settled).is_none());
        callbacks_queue.end();
        let mut given_back = 0;
        callbacks_queue.run(&receiver, |_, held| given_back += held);
        assert_eq!(ran.load(Ordering::SeqCst), 5 + 6 + 8 + 9);
        assert_eq!(given_back, 7);
    }

    #[test]
    fn each_callback_keeps_its_place_and_time() {
        let places = [(0, 7), (1, 7), (3, 7), (4, 8), (5, 8), (6, 7)];
        let mut list = PendingList::default();
        for (index, timestamp_ms) in places {
            list.push(index, timestamp_ms, Box::new(|_| ()));
        }
        assert_eq!((list.len(), list.runs.len()), (6, 4));
        let back: Vec<_> =
            list.into_iter().map(|pending| (pending.index, pending.timestamp_ms)).collect();
        assert_eq!(back, places);
    }
}
