//! Requests under way on one connection, shared by its writer and its reader.
//!
//! The writer puts a request here before its first byte goes out, the reader takes the oldest one
//! when an answer comes: answers come in the order of requests. Whoever finds the connection broken
//! closes the list and returns all that is in it; after that a request that was to be added comes
//! back to the writer. So each batch is in exactly one pair of hands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::accumulator::Partition;
use super::batch::Batch;

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) version: i16,
    pub(super) batches: Vec<(Arc<Partition>, Batch)>,
    /// When it was written.
    pub(super) written: Instant,
    /// When the answer is overdue.
    pub(super) overdue: Instant,
}

/// The requests under way of one connection, oldest first.
#[derive(Debug)]
pub(super) struct Flight {
    state: Mutex<State>,
    count: AtomicUsize,
    /// The writer has something to send but waits for answers.
    held_back: AtomicBool,
    /// Somebody tells how the connection ended.
    end_told: AtomicBool,
}

#[derive(Debug)]
struct State {
    closed: bool,
    sent: VecDeque<Sent>,
    throttled_until: Option<Instant>,
}

impl Flight {
    /// Nothing under way.
    pub(super) fn new() -> Self {
        let state = State { closed: false, sent: VecDeque::new(), throttled_until: None };
        Self {
            state: Mutex::new(state),
            count: AtomicUsize::new(0),
            held_back: AtomicBool::new(false),
            end_told: AtomicBool::new(false),
        }
    }

    /// Adds a request about to be written; gives it back when the connection is known as broken.
    pub(super) fn push(&self, sent: Sent) -> Result<(), Sent> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(sent);
        }
        state.sent.push_back(sent);
        self.count.store(state.sent.len(), Ordering::SeqCst);
        Ok(())
    }

    /// Takes the oldest request.
    pub(super) fn pop(&self) -> Option<Sent> {
        let mut state = self.state.lock();
        let sent = state.sent.pop_front();
        self.count.store(state.sent.len(), Ordering::SeqCst);
        sent
    }

    /// How many are under way.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// When the oldest answer is overdue.
    pub(super) fn overdue(&self) -> Option<Instant> {
        self.state.lock().sent.front().map(|sent| sent.overdue)
    }

    /// Takes all of it and lets nothing in any more.
    pub(super) fn close(&self) -> Vec<Sent> {
        let mut state = self.state.lock();
        state.closed = true;
        self.count.store(0, Ordering::SeqCst);
        state.sent.drain(..).collect()
    }

    /// Whether the connection is done with.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Whether the caller is the first to know that the connection ends, and so tells the reason.
    pub(super) fn is_first_to_tell(&self) -> bool {
        !self.end_told.swap(true, Ordering::SeqCst)
    }

    /// Calls `visit` for each batch under way.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&Arc<Partition>, &mut Batch)) {
        let mut state = self.state.lock();
        for sent in &mut state.sent {
            for (partition, batch) in &mut sent.batches {
                visit(partition, batch);
            }
        }
    }

    /// The writer will wait for answers; the reader rings when it sees this.
    pub(super) fn hold_back(&self) {
        self.held_back.store(true, Ordering::SeqCst);
    }

    /// Whether the writer was waiting for answers; it is not any more.
    pub(super) fn release_held(&self) -> bool {
        self.held_back.swap(false, Ordering::SeqCst)
    }

    /// The broker asked for a pause until then (KIP-219). Never moves backwards.
    pub(super) fn throttle(&self, until: Instant) {
        let mut state = self.state.lock();
        state.throttled_until = state.throttled_until.max(Some(until));
    }

    /// The pause that the broker asked for, if it is not over.
    pub(super) fn throttled_until(&self, now: Instant) -> Option<Instant> {
        self.state.lock().throttled_until.filter(|until| *until > now)
    }
}
