//! What waits in one partition of the producer, and what of it may leave when.
//!
//! A [`Backlog`] has no lock of its own: its [`Partition`] holds one and calls in here. Nothing waits,
//! sends or reads the clock; `now` is handed in.
//!
//! Order is kept by these rules, all checked in [`Backlog::look`]:
//! - batches leave in the order in which they were opened, one per request;
//! - while a batch waits for another attempt nothing else goes out, and it goes out only when
//!   nothing of the partition is on the wire any more;
//! - the first batch under an identity travels alone (see [`Sequences::is_known_to_broker`]);
//! - batches are on the wire of one connection at a time: after a change of leader the new writer
//!   starts when the old connection has given everything back;
//! - after a hole in the sequences nothing goes out before [`Sequences::settle`] said how to go on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::accumulator::Partition;
use super::batch::Batch;
use super::queue::ReadyQueue;
use super::sequence::{Identity, Sequences};
use crate::error::Error;

/// Sizes and times of the configuration that a partition needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes at which a batch is due.
    pub(super) batch_size: usize,
    /// Bytes up to which a batch may grow while its writer is busy.
    pub(super) batch_max: usize,
    /// How long a batch waits for company.
    pub(super) linger: Duration,
    /// Batches are not compressed.
    pub(super) plain: bool,
    /// How long a batch may take from its first record to its settlement.
    pub(super) delivery_timeout: Duration,
}

/// Who takes batches, for which request, and under which producer identity.
#[derive(Debug)]
pub(super) struct Taker<'a> {
    pub(super) queue: &'a Arc<ReadyQueue>,
    pub(super) connection: u64,
    pub(super) request: u64,
    /// `None` without idempotence.
    pub(super) identity: IdentityState,
    /// No batch waits for its linger: the producer is closing.
    pub(super) hurry: bool,
}

/// Whether batches carry sequences, and under which identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdentityState {
    /// Without idempotence.
    Off,
    /// The broker has not given one yet.
    Awaited,
    /// This one.
    Known(Identity),
}

/// What a partition has for its writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing; it was taken off the list.
    Idle,
    /// It belongs to another queue now.
    Moved,
    /// A batch of so many bytes; with `patient_until` it is full but may grow until then, if
    /// the writer has reason to wait.
    Ready { bytes: usize, patient_until: Option<Instant> },
    /// Nothing before then.
    Later(Instant),
    /// Nothing before an answer or an identity comes, which rings.
    Blocked,
    /// It needs a newer identity than this one.
    NeedsEpoch(Identity),
}

/// The batches of a partition and where they stand.
#[derive(Debug)]
pub(super) struct Backlog {
    pub(super) open: Option<Batch>,
    pub(super) sealed: VecDeque<Batch>,
    pub(super) retry: VecDeque<Batch>,
    pub(super) sequences: Sequences,
    pub(super) on_wire: usize,
    /// The connection and the request that took the last batch.
    pub(super) taken_by: (u64, u64),
    pub(super) opened_count: u64,
    /// Bytes of records without a key since the topic's sticky partition moved here.
    pub(super) sticky_bytes: usize,
    /// Callbacks of the last batch that had any.
    pub(super) callbacks_before: usize,
    pub(super) batch_max: usize,
    pub(super) not_before: Option<Instant>,
    /// Failed attempts since the last success, for the back-off.
    pub(super) failures: u32,
    /// Batches opened before this count do not wait for the linger.
    pub(super) urgent_below: u64,
    pub(super) queue: Arc<ReadyQueue>,
    pub(super) listed: bool,
    pub(super) blocked: bool,
    pub(super) retired: Option<Error>,
}

impl Backlog {
    /// Without records, read by `queue`.
    pub(super) fn new(limits: &Limits, queue: Arc<ReadyQueue>) -> Self {
        Self {
            open: None,
            sealed: VecDeque::new(),
            retry: VecDeque::new(),
            sequences: Sequences::new(),
            on_wire: 0,
            taken_by: (0, 0),
            opened_count: 0,
            sticky_bytes: 0,
            callbacks_before: 0,
            batch_max: limits.batch_max,
            not_before: None,
            failures: 0,
            urgent_below: 0,
            queue,
            listed: false,
            blocked: false,
            retired: None,
        }
    }

    #[inline]
    pub(super) fn has_room(&self, size_max: usize) -> bool {
        self.open.as_ref().is_some_and(|batch| {
            let wanted = batch.len() + size_max;
            wanted <= batch.reserved && (wanted <= self.batch_max || batch.records == 0)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.sealed.is_empty() && self.retry.is_empty()
    }

    pub(super) fn list(&mut self, partition: &Partition) {
        if !self.listed {
            self.listed = true;
            self.queue.offer(partition.shared());
        }
    }

    pub(super) fn left_the_wire(&mut self) {
        self.on_wire = self.on_wire.checked_sub(1).expect("the batch was on the wire");
        if self.blocked {
            self.blocked = false;
            self.queue.ring();
        }
    }

    pub(super) fn pause(&mut self, now: Instant, backoff: impl FnOnce(u32) -> Duration) {
        // Batches that come back together are one failure.
        if self.not_before.is_none_or(|until| until <= now) {
            self.failures += 1;
            self.not_before = Some(now + backoff(self.failures));
        }
    }

    pub(super) fn requeue(&mut self, batch: Batch) {
        let place = self.retry.partition_point(|other| other.number < batch.number);
        self.retry.insert(place, batch);
    }

    pub(super) fn look(&mut self, limits: &Limits, taker: &Taker<'_>, now: Instant) -> Look {
        if self.is_empty() {
            return Look::Idle;
        }
        if self.on_wire > 0
            && (self.taken_by.0 != taker.connection
                || !self.retry.is_empty()
                || self.sequences.is_troubled()
                || taker.identity != IdentityState::Off && !self.sequences.is_known_to_broker())
            || self.taken_by == (taker.connection, taker.request)
        {
            return Look::Blocked;
        }
        if let Some(until) = self.not_before
            && until > now
        {
            return Look::Later(until);
        }
        match taker.identity {
            IdentityState::Off => {}
            IdentityState::Awaited => return Look::Blocked,
            IdentityState::Known(identity) => {
                if self.sequences.is_troubled() && self.sequences.settle() {
                    let old = self.sequences.identity().expect("only what was sent is troubled");
                    return Look::NeedsEpoch(old);
                }
                if self.retry.is_empty() && !self.sequences.may_assign(identity) {
                    return Look::Blocked;
                }
            }
        }
        if let Some(batch) = self.retry.front().or_else(|| self.sealed.front()) {
            return Look::Ready { bytes: batch.len(), patient_until: None };
        }
        let batch = self.open.as_ref().expect("something is there");
        let due = batch.opened + limits.linger;
        if batch.number.batch < self.urgent_below || taker.hurry || due <= now {
            return Look::Ready { bytes: batch.len(), patient_until: None };
        }
        if batch.len() >= limits.batch_size {
            return Look::Ready { bytes: batch.len(), patient_until: Some(due) };
        }
        Look::Later(due)
    }

    /// Moves what ran out of time by `now` to `expired`. All batches of a partition run out in
    /// the order in which they were opened.
    pub(super) fn expire(&mut self, now: Instant, timeout: Duration, expired: &mut Vec<Batch>) {
        let late = |batch: &Batch| batch.opened + timeout <= now;
        let from = expired.len();
        while self.retry.front().is_some_and(late) {
            let batch = self.retry.pop_front().expect("it was just looked at");
            if batch.maybe_stored {
                self.sequences.expired(batch.number);
            } else {
                self.sequences.failed(batch.number, true);
            }
            expired.push(batch);
        }
        if self.retry.is_empty() {
            while self.sealed.front().is_some_and(late) {
                expired.extend(self.sealed.pop_front());
            }
            if self.sealed.is_empty()
                && let Some(batch) = self.open.take_if(|batch| late(batch))
            {
                expired.push(batch);
            }
        }
        debug_assert!(
            expired.get(from..).is_some_and(|new| new.is_sorted_by_key(|batch| batch.number))
        );
    }

    pub(super) fn give_up(&mut self) -> Vec<Batch> {
        let mut given_up: Vec<Batch> = Vec::new();
        for batch in self.retry.drain(..) {
            if batch.maybe_stored {
                self.sequences.expired(batch.number);
            } else {
                self.sequences.failed(batch.number, true);
            }
            given_up.push(batch);
        }
        given_up.extend(self.sealed.drain(..));
        given_up.extend(self.open.take());
        given_up
    }
}
