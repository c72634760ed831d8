//! One partition of the producer: its open batch, the batches that wait, and their order.
//!
//! ```text
//!   append --> open --(full, or no room)--> sealed --take--> on the wire --answer--> settled
//!                                              retry <-----------'  (refused, may be tried again)
//! ```
//!
//! One lock per partition. Callers hold it to encode one record; the writer to take one batch; the
//! reader to bring one answer. Nothing under it waits, writes to a socket, compresses or runs user
//! code; memory that is not free at once is waited for outside ([`Appended::NoMemory`]).
//!
//! What may leave when is decided in [`super::backlog`]; here are the lock, and what callers, writers
//! and readers do under it.
//!
//! Taking a batch and numbering it is one step under the lock, and one thread takes and writes, so
//! sequences reach the broker as they were assigned.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::backlog::{Backlog, IdentityState, Limits, Look, Taker};
use super::batch::Batch;
use super::callbacks::Callback;
use super::memory::Memory;
use super::partitioner::Load;
use super::queue::ReadyQueue;
use super::record::Plain;
use super::sequence::{Identity, Number, Stamp, Verdict};
use super::ticket::{BatchOutcome, Ticket, Unfinished};
use crate::error::Error;
use crate::protocol::records::BatchBuilder;
use crate::protocol::{ErrorCode, Uuid};

/// What became of a record that was to be appended.
#[derive(Debug)]
pub(super) enum Appended {
    /// It is in the open batch.
    Done {
        ticket: Ticket,
        /// Set when somebody may have to be woken.
        event: Option<Event>,
        /// Whether it is time for the topic to go on to its next sticky partition.
        move_on: bool,
    },
    /// These bytes have to be reserved first; come back with them as the grant.
    NoMemory(usize),
    /// The partition is gone.
    Retired(Error),
}

/// What an append may have to wake the writer for.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) queue: Arc<ReadyQueue>,
    /// A batch was opened that is due then.
    pub(super) due: Option<Instant>,
    /// So many bytes became ready.
    pub(super) ready: usize,
}

/// A partition of a topic as the producer knows it.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) topic: Arc<str>,
    pub(super) topic_id: Uuid,
    pub(super) index: i32,
    limits: Limits,
    this: Weak<Partition>,
    state: Mutex<Backlog>,
}

impl Partition {
    /// A partition without records, read by `queue`.
    pub(super) fn new(
        topic: Arc<str>,
        topic_id: Uuid,
        index: i32,
        limits: Limits,
        queue: Arc<ReadyQueue>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            topic,
            topic_id,
            index,
            limits,
            this: Weak::clone(this),
            state: Mutex::new(Backlog::new(&limits, queue)),
        })
    }

    pub(super) fn shared(&self) -> Arc<Self> {
        self.this.upgrade().expect("a partition is used through its Arc")
    }

    /// Encodes a record into the open batch. `grant` is memory that the caller reserved; what is
    /// used of it is taken off.
    ///
    /// `size_max` is the most bytes that the record can take.
    #[expect(
        clippy::too_many_arguments,
        reason = "the hot path: one call, nothing to build for it"
    )]
    #[inline]
    pub(super) fn append(
        &self,
        record: &Plain<'_>,
        timestamp_ms: i64,
        size_max: usize,
        callback: &mut Option<Callback>,
        memory: &Memory,
        unfinished: &Unfinished,
        grant: &mut usize,
        now: impl FnOnce() -> Instant,
    ) -> Appended {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(error) = &state.retired {
            return Appended::Retired(error.clone());
        }
        let mut event = None;
        if !state.has_room(size_max) {
            match self.make_room(state, size_max, memory, unfinished, grant, now) {
                Ok(new) => event = new,
                Err(bytes) => return Appended::NoMemory(bytes),
            }
        }
        let batch_size = self.limits.batch_size;
        let batch = state.open.as_mut().expect("room was made in an open batch");
        let before = batch.len();
        let index = batch.records;
        // Before the record's bytes: counting a reference waits for all writes before it, and the
        // batch is seldom in the cache.
        let ticket = Ticket { outcome: Arc::clone(&batch.outcome), index, timestamp_ms };
        if let Some(callback) = callback.take() {
            // As many as the last batch had: it grows in one step.
            let expected = state.callbacks_before;
            batch.callbacks.push_expecting(index, timestamp_ms, callback, expected);
            state.callbacks_before = batch.callbacks.len();
        }
        let builder = batch.builder().expect("the open batch is not encoded");
        let appended = builder.append(timestamp_ms, record.key, record.value, record.headers);
        appended.expect("a batch is bounded by max.request.size, which is far below 2 GiB");
        let after = builder.len();
        batch.records += 1;
        if after >= batch_size && (before < batch_size || index == 0) {
            let queue = &state.queue;
            event
                .get_or_insert_with(|| Event { queue: Arc::clone(queue), due: None, ready: 0 })
                .ready += after;
        }
        state.sticky_bytes += after - before;
        let move_on = state.sticky_bytes >= batch_size
            && (after >= batch_size || state.sticky_bytes >= 2 * batch_size);
        if move_on {
            state.sticky_bytes = 0;
        }
        Appended::Done { ticket, event, move_on }
    }

    /// Grows the open batch or opens one; the event of an opened batch, or the bytes missing.
    #[cold]
    fn make_room(
        &self,
        state: &mut Backlog,
        size_max: usize,
        memory: &Memory,
        unfinished: &Unfinished,
        grant: &mut usize,
        now: impl FnOnce() -> Instant,
    ) -> Result<Option<Event>, usize> {
        let batch_max = state.batch_max;
        if let Some(batch) = &mut state.open {
            let wanted = batch.len() + size_max;
            if wanted <= batch_max {
                let capacity = (batch.reserved * 2).min(batch_max).max(wanted);
                let more = capacity - batch.reserved;
                if !take(more, memory, grant) {
                    return Err(more);
                }
                batch.reserved = capacity;
                let builder = batch.builder().expect("the open batch is not encoded");
                builder.reserve_total(capacity);
                return Ok(None);
            }
        }
        let wanted = (super::batch::HEAD_BYTES + size_max).max(self.limits.batch_size);
        let pooled = memory.pooled(wanted, (*grant).max(2 * batch_max.max(wanted)));
        let (buffer, capacity) = match pooled {
            Some(buffer) if take(buffer.capacity(), memory, grant) => {
                let capacity = buffer.capacity();
                (buffer, capacity)
            }
            too_large => {
                if let Some(buffer) = too_large {
                    memory.recycle(buffer);
                }
                // What a caller was told to wait for must do, or it would wait for it again at once.
                if !take(wanted, memory, grant) {
                    return Err(wanted);
                }
                (Vec::with_capacity(wanted), wanted)
            }
        };
        let mut ready = 0;
        if let Some(full) = state.open.take() {
            if full.len() < self.limits.batch_size {
                // Not announced yet: it is due because the next record has no room.
                ready = full.len();
            }
            state.sealed.push_back(full);
        }
        let opened = now();
        let outcome = Arc::new(BatchOutcome::new(self.index, Weak::clone(&self.this)));
        let number = Number { batch: state.opened_count, record: 0 };
        state.opened_count += 1;
        unfinished.add(&outcome);
        let mut batch = Batch::open(number, outcome, buffer, capacity, opened);
        if self.limits.plain
            && let Some(builder) = batch.builder()
        {
            builder.sum_as_it_grows();
        }
        state.open = Some(batch);
        state.list(self);
        Ok(Some(Event {
            queue: Arc::clone(&state.queue),
            due: Some(opened + self.limits.linger),
            ready,
        }))
    }

    /// What there is for `taker` at `now`. Batches that ran out of time are put on `expired`.
    pub(super) fn look(&self, taker: &Taker<'_>, now: Instant, expired: &mut Vec<Batch>) -> Look {
        let mut state = self.state.lock();
        if !Arc::ptr_eq(&state.queue, taker.queue) {
            return Look::Moved;
        }
        state.expire(now, self.limits.delivery_timeout, expired);
        let look = state.look(&self.limits, taker, now);
        state.blocked = look == Look::Blocked;
        if look == Look::Idle {
            state.listed = false;
        }
        look
    }

    /// Takes the batch that [`look`](Self::look) found ready, if it is no larger than `room`;
    /// numbered, and from now on the wire of the taker's connection.
    pub(super) fn take(
        &self,
        taker: &Taker<'_>,
        now: Instant,
        room: usize,
    ) -> Option<(Batch, Option<Stamp>)> {
        let mut state = self.state.lock();
        if !Arc::ptr_eq(&state.queue, taker.queue) {
            return None;
        }
        match state.look(&self.limits, taker, now) {
            Look::Ready { bytes, .. } if bytes <= room => {}
            _ => return None,
        }
        let mut batch = match state.retry.pop_front() {
            Some(batch) => batch,
            None => match state.sealed.pop_front() {
                Some(batch) => batch,
                None => state.open.take().expect("look found a batch"),
            },
        };
        let stamp = match (state.sequences.stamp_of(batch.number), taker.identity) {
            (Some(stamp), _) => Some(stamp),
            (None, IdentityState::Known(identity)) => {
                Some(state.sequences.assign(batch.number, batch.records, identity))
            }
            (None, _) => None,
        };
        state.on_wire += 1;
        state.taken_by = (taker.connection, taker.request);
        batch.attempts += 1;
        Some((batch, stamp))
    }

    /// Gives all open sequences a newer identity than `old`, unless that happened already: tells whether it did so now.
    pub(super) fn restart(&self, old: Identity, new: Identity) -> bool {
        let mut state = self.state.lock();
        let due = state.on_wire == 0 && state.sequences.identity() == Some(old);
        if due {
            state.sequences.restart(new);
        }
        due
    }

    /// The batch is stored; it has left the wire.
    pub(super) fn acked(&self, number: Number, last_offset: Option<i64>) {
        let mut state = self.state.lock();
        state.sequences.acked(number, last_offset);
        state.failures = 0;
        state.not_before = None;
        state.left_the_wire();
    }

    /// The broker answered with a code that concerns sequences.
    pub(super) fn verdict(&self, number: Number, code: ErrorCode, log_start: i64) -> Verdict {
        self.state.lock().sequences.refused(number, code, log_start)
    }

    /// The batch has left the wire for good without being stored, or without our knowing.
    pub(super) fn failed(&self, batch: &Batch, refused_for_certain: bool) {
        let mut state = self.state.lock();
        if batch.maybe_stored {
            state.sequences.expired(batch.number);
        } else {
            state.sequences.failed(batch.number, refused_for_certain);
        }
        state.left_the_wire();
    }

    /// The batch has left the wire and is to be sent again after a pause; `backoff` tells how long
    /// after so many failures. Gives it back with the reason if the partition is gone meanwhile.
    pub(super) fn returned(
        &self,
        batch: Batch,
        now: Instant,
        backoff: impl FnOnce(u32) -> Duration,
    ) -> Option<(Batch, Error)> {
        let mut state = self.state.lock();
        if let Some(error) = state.retired.clone() {
            // What was on the wire and is not sent again leaves its fate open.
            state.sequences.expired(batch.number);
            state.left_the_wire();
            return Some((batch, error));
        }
        state.pause(now, backoff);
        state.requeue(batch);
        state.left_the_wire();
        state.list(self);
        state.queue.ring();
        None
    }

    /// The batch was too large for the broker, or some of its records were bad: `pieces` take its
    /// place.
    pub(super) fn cut(&self, number: Number, pieces: Vec<Batch>, too_large: bool) {
        let mut state = self.state.lock();
        let counts: Vec<_> = pieces.iter().map(|piece| (piece.number, piece.records)).collect();
        state.sequences.cut(number, &counts);
        if too_large {
            state.batch_max = state.batch_max.min(self.limits.batch_size);
        }
        for piece in pieces {
            state.requeue(piece);
        }
        state.left_the_wire();
        state.list(self);
        state.queue.ring();
    }

    /// Hands the partition to another queue.
    pub(super) fn route(&self, queue: &Arc<ReadyQueue>) {
        let mut state = self.state.lock();
        if Arc::ptr_eq(&state.queue, queue) {
            return;
        }
        state.queue = Arc::clone(queue);
        if state.listed || !state.is_empty() {
            state.listed = false;
            state.list(self);
            queue.ring();
        }
    }

    /// Its leader could not be reached: a pause, and a reason for batches that run out of time.
    pub(super) fn unreachable(
        &self,
        now: Instant,
        why: &Error,
        backoff: impl FnOnce(u32) -> Duration,
    ) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.pause(now, backoff);
        let waiting = state.retry.iter_mut().chain(&mut state.sealed).chain(&mut state.open);
        for batch in waiting {
            batch.last_error = Some(why.clone());
        }
    }

    /// What waits in it, for the choice of the next sticky partition; late is what is due since longer than `patience`.
    pub(super) fn load(&self, late: Option<(Instant, Duration)>) -> Load {
        let state = self.state.lock();
        let oldest = state.retry.front().or(state.sealed.front()).or(state.open.as_ref());
        let is_late = late.zip(oldest).is_some_and(|((now, patience), batch)| {
            batch.opened + self.limits.linger + patience <= now
        });
        Load {
            batches: state.retry.len() + state.sealed.len() + usize::from(state.open.is_some()),
            queue: Arc::as_ptr(&state.queue) as usize,
            is_late,
        }
    }

    /// Whether it has batches, waiting or on the wire.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.state.lock();
        state.on_wire > 0 || !state.is_empty()
    }

    /// Sends what is there without waiting for the linger.
    pub(super) fn urge(&self) {
        let mut state = self.state.lock();
        state.urgent_below = state.opened_count;
        if state.open.is_some() {
            let queue = Arc::clone(&state.queue);
            drop(state);
            queue.ring();
        }
    }

    /// When it may be tried again after a failure.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.state.lock().not_before
    }

    /// Refuses records from now on with `error`, and gives up all batches that are not on the
    /// wire.
    pub(super) fn retire(&self, error: Error) -> Vec<Batch> {
        let mut state = self.state.lock();
        state.retired = Some(error);
        state.give_up()
    }

    /// Puts a batch of the retry store behind what is there; it holds `reserved` bytes of memory.
    ///
    /// # Errors
    /// When the partition is gone.
    pub(super) fn enqueue(
        &self,
        builder: BatchBuilder,
        reserved: usize,
        unfinished: &Unfinished,
        now: Instant,
    ) -> Result<Arc<BatchOutcome>, Error> {
        let mut state = self.state.lock();
        if let Some(error) = &state.retired {
            return Err(error.clone());
        }
        // What is open is older, and closed by this.
        let open = state.open.take();
        state.sealed.extend(open);
        let outcome = Arc::new(BatchOutcome::new(self.index, Weak::clone(&self.this)));
        let number = Number { batch: state.opened_count, record: 0 };
        state.opened_count += 1;
        unfinished.add(&outcome);
        let batch = Batch::from_store(number, Arc::clone(&outcome), builder, reserved, now);
        state.sealed.push_back(batch);
        state.list(self);
        state.queue.ring();
        Ok(outcome)
    }

    /// Gives up all batches that are not on the wire, and goes on.
    pub(super) fn purge(&self) -> Vec<Batch> {
        self.state.lock().give_up()
    }

    /// Whether it has been offered to `queue`: to find what a full channel did not carry.
    pub(super) fn is_listed_on(&self, queue: &Arc<ReadyQueue>) -> bool {
        let state = self.state.lock();
        state.listed && Arc::ptr_eq(&state.queue, queue)
    }
}

/// Takes `bytes` out of the grant, or out of free memory.
fn take(bytes: usize, memory: &Memory, grant: &mut usize) -> bool {
    let from_grant = bytes.min(*grant);
    let rest = bytes - from_grant;
    if rest > 0 && !memory.try_reserve(rest) {
        return false;
    }
    *grant -= from_grant;
    true
}
