//! What became of a record: one [`BatchOutcome`] per batch, shared by the [`Ticket`]s of its
//! records.
//!
//! A ticket is a reference to its batch's outcome and a place in it, so a record costs no
//! allocation. An outcome is set once, by whoever settles the batch, and never changes. A batch
//! that had to be cut into smaller ones resolves to pointers into those.
//!
//! ```text
//!   Ticket { outcome, index } --> Pending -> Stored { base_offset } | Failed(error)
//!                                         -> Split [ piece per record ] --> other outcomes
//! ```
//!
//! `finished` is the later moment at which the callbacks of the batch have run too; `flush` waits
//! for that one.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::accumulator::Partition;
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};

/// Where a record was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// The partition.
    pub partition: i32,
    /// The offset. `None` with `acks=0`, and when the broker recognised a record that an earlier
    /// attempt had stored but no longer knew where.
    pub offset: Option<i64>,
    /// The record's time in milliseconds since 1970: its own, or the broker's if the topic has
    /// `message.timestamp.type=LogAppendTime`.
    pub timestamp: i64,
}

/// A promise of what becomes of one record.
///
/// May be kept, cloned, sent to other threads, or dropped: dropping it changes nothing for the
/// record.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub(super) outcome: Arc<BatchOutcome>,
    pub(super) index: u32,
    pub(super) timestamp_ms: i64,
}

impl Ticket {
    /// The partition that the record goes to.
    pub fn partition(&self) -> i32 {
        self.outcome.partition()
    }

    /// Waits until the record is stored or has failed.
    ///
    /// Blocks at most `delivery.timeout.ms` (counted from `send`) and a moment. The record's batch
    /// is sent at once, `linger.ms` is not waited for.
    ///
    /// # Errors
    /// What kept the record from being stored; [`Error::possibly_persisted`] tells whether it may
    /// be stored all the same.
    ///
    /// # Panics
    /// Never: a batch that is resolved has a result.
    pub fn wait(&self) -> Result<Stored> {
        let (outcome, index) = self.follow(|outcome| {
            outcome.wait_resolved(None);
            true
        });
        outcome.of(index, self.timestamp_ms).expect("a resolved batch has a result")
    }

    /// As [`wait`](Self::wait), for at most `limit`; `None` when that has passed.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&self, limit: Duration) -> Result<Option<Stored>> {
        let deadline = Deadline::within(limit);
        let (outcome, index) = self.follow(|outcome| outcome.wait_resolved(Some(deadline)));
        outcome.of(index, self.timestamp_ms).transpose()
    }

    /// Waits for several records; gives their results in order.
    ///
    /// Blocks as [`wait`](Self::wait) does for the last of them: all batches are sent at once.
    pub fn wait_all<'a>(tickets: impl IntoIterator<Item = &'a Self>) -> Vec<Result<Stored>> {
        let tickets: Vec<&Self> = tickets.into_iter().collect();
        for ticket in &tickets {
            ticket.outcome.urge();
        }
        tickets.into_iter().map(Self::wait).collect()
    }

    /// As [`wait_all`](Self::wait_all), for at most `limit` together; `None` for those whose result is not known by then.
    pub fn wait_all_timeout<'a>(
        tickets: impl IntoIterator<Item = &'a Self>,
        limit: Duration,
    ) -> Vec<Option<Result<Stored>>> {
        let deadline = Deadline::within(limit);
        let tickets: Vec<&Self> = tickets.into_iter().collect();
        for ticket in &tickets {
            ticket.outcome.urge();
        }
        let result = |ticket: &Self| ticket.wait_timeout(deadline.left()).transpose();
        tickets.into_iter().map(result).collect()
    }

    /// The result if it is known; never blocks.
    pub fn try_get(&self) -> Option<Result<Stored>> {
        let (outcome, index) = self.follow(BatchOutcome::is_resolved);
        outcome.of(index, self.timestamp_ms)
    }

    /// Goes from a batch that was cut to the one that has the record now.
    fn follow(&self, mut ready: impl FnMut(&BatchOutcome) -> bool) -> (Arc<BatchOutcome>, u32) {
        let (mut outcome, mut index) = (Arc::clone(&self.outcome), self.index);
        while ready(&outcome) {
            match outcome.moved(index) {
                Some((next, place)) => (outcome, index) = (next, place),
                None => break,
            }
        }
        (outcome, index)
    }
}

/// How a batch ended.
#[derive(Debug)]
pub(super) enum BatchResult {
    /// All of it is stored.
    Stored { base_offset: Option<i64>, append_time_ms: Option<i64> },
    /// None of it, as far as is known.
    Failed(Error),
    /// It was cut: one entry per record.
    Split(Vec<Piece>),
}

/// Where a record of a batch that was cut is.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// In another batch, at a place there.
    Moved(Arc<BatchOutcome>, u32),
    /// The broker named it as the reason.
    Failed(Error),
}

/// The fate of one batch, written once.
#[derive(Debug)]
pub(super) struct BatchOutcome {
    partition: i32,
    origin: Weak<Partition>,
    result: OnceLock<BatchResult>,
    finished: Mutex<bool>,
    bell: Condvar,
}

impl BatchOutcome {
    /// Of a batch of `partition`; `origin` is told when somebody waits.
    pub(super) fn new(partition: i32, origin: Weak<Partition>) -> Self {
        Self {
            partition,
            origin,
            result: OnceLock::new(),
            finished: Mutex::new(false),
            bell: Condvar::new(),
        }
    }

    /// Sets the result; `false` if there was one already.
    pub(super) fn resolve(&self, result: BatchResult) -> bool {
        let first = self.result.set(result).is_ok();
        let _finished = self.finished.lock();
        self.bell.notify_all();
        first
    }

    /// Notes that all callbacks have run.
    pub(super) fn finish(&self) {
        let mut finished = self.finished.lock();
        debug_assert!(!*finished, "a batch finishes once");
        *finished = true;
        self.bell.notify_all();
    }

    /// Whether there is a result.
    pub(super) fn is_resolved(&self) -> bool {
        self.result.get().is_some()
    }

    /// Has the batch sent at once, unless it is done.
    fn urge(&self) {
        if !self.is_resolved()
            && let Some(partition) = self.origin.upgrade()
        {
            partition.urge();
        }
    }

    /// Waits for the result; has the batch sent at once. `false` at the deadline.
    fn wait_resolved(&self, deadline: Option<Deadline>) -> bool {
        if self.is_resolved() {
            return true;
        }
        self.urge();
        let mut finished = self.finished.lock();
        while !self.is_resolved() {
            match deadline {
                None => self.bell.wait(&mut finished),
                Some(deadline) => {
                    if self.bell.wait_until(&mut finished, deadline.instant()).timed_out() {
                        return self.is_resolved();
                    }
                }
            }
        }
        true
    }

    /// Waits until the callbacks have run; `false` at the deadline.
    pub(super) fn wait_finished(&self, deadline: Deadline) -> bool {
        let mut finished = self.finished.lock();
        while !*finished {
            if self.bell.wait_until(&mut finished, deadline.instant()).timed_out() {
                return *finished;
            }
        }
        true
    }

    /// The partition's index.
    pub(super) fn partition(&self) -> i32 {
        self.partition
    }

    /// The partition, while the producer is there.
    pub(super) fn origin(&self) -> Option<Arc<Partition>> {
        self.origin.upgrade()
    }

    /// The topic, while the producer is there.
    pub(super) fn topic(&self) -> Option<Arc<str>> {
        self.origin.upgrade().map(|partition| Arc::clone(&partition.topic))
    }

    /// Outcomes that the records of this one moved to.
    pub(super) fn children(&self) -> Vec<Arc<Self>> {
        let Some(BatchResult::Split(pieces)) = self.result.get() else { return Vec::new() };
        let mut children: Vec<Arc<Self>> = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Moved(outcome, _) => Some(Arc::clone(outcome)),
                Piece::Failed(_) => None,
            })
            .collect();
        children.dedup_by(|a, b| Arc::ptr_eq(a, b));
        children
    }

    fn moved(&self, index: u32) -> Option<(Arc<Self>, u32)> {
        match self.result.get()? {
            BatchResult::Split(pieces) => match pieces.get(index as usize)? {
                Piece::Moved(outcome, place) => Some((Arc::clone(outcome), *place)),
                Piece::Failed(_) => None,
            },
            _ => None,
        }
    }

    /// The result of one record; `None` while there is none, or none here.
    pub(super) fn of(&self, index: u32, timestamp_ms: i64) -> Option<Result<Stored>> {
        Some(match self.result.get()? {
            BatchResult::Stored { base_offset, append_time_ms } => Ok(Stored {
                partition: self.partition,
                offset: base_offset.map(|base| base + i64::from(index)),
                timestamp: append_time_ms.unwrap_or(timestamp_ms),
            }),
            BatchResult::Failed(error) => Err(error.clone()),
            BatchResult::Split(pieces) => match pieces.get(index as usize) {
                Some(Piece::Failed(error)) => Err(error.clone()),
                Some(Piece::Moved(..)) => return None,
                None => Err(Error::new(ErrorKind::InvalidInput, "no such record in its batch")),
            },
        })
    }
}

/// Outcomes of all batches that are not finished: what `flush` waits for.
///
/// A leaf lock, taken once when a batch opens and once when it is finished.
#[derive(Debug, Default)]
pub(super) struct Unfinished(Mutex<HashMap<usize, Arc<BatchOutcome>>>);

impl Unfinished {
    /// Adds a batch; before its first record is acknowledged to the caller, so that no `flush`
    /// misses it.
    pub(super) fn add(&self, outcome: &Arc<BatchOutcome>) {
        self.0.lock().insert(Arc::as_ptr(outcome) as usize, Arc::clone(outcome));
    }

    /// All callbacks of a batch have run.
    pub(super) fn finish(&self, outcome: &BatchOutcome) {
        outcome.finish();
        self.0.lock().remove(&(std::ptr::from_ref(outcome) as usize));
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<BatchOutcome>> {
        self.0.lock().values().map(Arc::clone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(outcome: &Arc<BatchOutcome>, index: u32) -> Ticket {
        Ticket { outcome: Arc::clone(outcome), index, timestamp_ms: 1000 }
    }

    #[test]
    fn a_ticket_counts_from_the_batch_s_first_offset() {
        let outcome = Arc::new(BatchOutcome::new(3, Weak::new()));
        let ticket = ticket(&outcome, 2);
        assert!(ticket.try_get().is_none());
        assert_eq!(ticket.wait_timeout(Duration::ZERO).expect("no failure"), None);
        let stored = BatchResult::Stored { base_offset: Some(40), append_time_ms: None };
        assert!(outcome.resolve(stored));
        let expected = Stored { partition: 3, offset: Some(42), timestamp: 1000 };
        assert_eq!(ticket.wait().expect("stored"), expected);
        assert!(!outcome.resolve(BatchResult::Split(Vec::new())), "the first result stays");
        assert_eq!(ticket.wait().expect("stored"), expected);
    }

    #[test]
    fn a_ticket_follows_its_record_into_smaller_batches() {
        let whole = Arc::new(BatchOutcome::new(0, Weak::new()));
        let part = Arc::new(BatchOutcome::new(0, Weak::new()));
        whole.resolve(BatchResult::Split(vec![
            Piece::Failed(Error::new(ErrorKind::RecordTooLarge, "too large")),
            Piece::Moved(Arc::clone(&part), 0),
        ]));
        assert_eq!(ticket(&whole, 0).wait().expect_err("failed").kind(), ErrorKind::RecordTooLarge);
        assert!(ticket(&whole, 1).try_get().is_none());
        part.resolve(BatchResult::Stored { base_offset: Some(9), append_time_ms: Some(77) });
        let expected = Stored { partition: 0, offset: Some(9), timestamp: 77 };
        assert_eq!(ticket(&whole, 1).wait().expect("stored"), expected);
        assert_eq!(whole.children().len(), 1);
    }
}
