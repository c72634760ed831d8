//! Idempotence of one partition as a state machine: sequence numbers, what is open, and when a new
//! producer epoch is due (KIP-98, KIP-360).
//!
//! Pure: no lock, no clock, no I/O. Owned by the partition's state and touched under its lock, so
//! that a sequence is assigned in the same step that takes the batch for the wire.
//!
//! ```text
//!            assign            acked                    next batch
//!   queue ----------> open ------------> last_acked    restart at 0
//!                      | refused, retry: stays open         ^
//!                      | failed / expired                   | restart(epoch + 1)
//!                      v                                    |
//!            Unresolved or GapAt -- nothing on the wire --> settle
//! ```
//!
//! The broker takes a batch of an epoch only if it starts where the last one ended, so a batch that
//! is given up leaves a hole that blocks all later ones. Instead of guessing while answers are
//! still under way, the partition starts nothing new until none of its batches is on the wire; then
//! [`Sequences::settle`] tells whether there is a hole, and if so the open batches are numbered
//! anew from 0 under a new epoch. An epoch is changed on the client alone: epoch + 1 with the same
//! producer id. Other partitions take the new epoch when their open batches are done.
//!
//! Invariant: open ranges are contiguous and ascending, except for holes after a `GapAt`
//! or `Unresolved` was noted.

use std::collections::VecDeque;

use crate::protocol::ErrorCode;

/// A producer id with its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) id: i64,
    pub(super) epoch: i16,
    /// Counts the identities of this producer: the later one has the higher number.
    pub(super) serial: u32,
}

/// What the head of a batch carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) identity: Identity,
    pub(super) first: i32,
}

/// Batches of a producer that a broker remembers per partition, and recognises when they come again.
const REMEMBERED: u64 = 5;

/// Sequences count modulo 2^31.
fn advance(sequence: i32, count: u32) -> i32 {
    ((sequence as u32).wrapping_add(count) & 0x7fff_ffff) as i32
}

/// Place of a batch in its partition: the batches opened before it, and, for a piece of a batch
/// that was cut, the records of that batch before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number {
    pub(super) batch: u64,
    pub(super) record: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    number: Number,
    first: i32,
    count: u32,
    /// How many batches were numbered before it, under this identity.
    ordinal: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// A batch expired that may have been stored.
    Unresolved,
    /// The broker will not take the sequence of this batch or of any later one. Earlier ones may
    /// be stored: they keep their numbers, under which the broker recognises them.
    GapAt(Number),
}

/// What to do with a batch whose sequence the broker did not like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send it again; its sequence may be another by then.
    Retry,
    /// It was stored by an earlier attempt; the offset is not known.
    Duplicate,
    /// Give it up.
    Fail,
}

/// The sequence numbers of one partition.
#[derive(Debug)]
pub(super) struct Sequences {
    identity: Option<Identity>,
    next: i32,
    last_acked: Option<i32>,
    last_offset: i64,
    open: VecDeque<Range>,
    /// Batches numbered under this identity.
    assigned: u64,
    trouble: Trouble,
}

impl Sequences {
    /// Nothing was ever sent.
    pub(super) fn new() -> Self {
        Self {
            identity: None,
            next: 0,
            last_acked: None,
            last_offset: -1,
            open: VecDeque::new(),
            assigned: 0,
            trouble: Trouble::None,
        }
    }

    /// Whether the broker has stored a batch of this identity. Before that it takes any sequence
    /// as the first one, so a second batch must not overtake a first one that is refused.
    pub(super) fn is_known_to_broker(&self) -> bool {
        self.last_acked.is_some()
    }

    /// Whether a new batch may be numbered, `current` being the identity that the writer knows: no
    /// trouble, no batch of an older epoch is open, and the broker still remembers the first open one
    /// after the new one. (That one may be stored, and be refused again and again for another reason,
    /// such as a leader that moves; were it forgotten meanwhile, it would be stored twice.)
    pub(super) fn may_assign(&self, current: Identity) -> bool {
        let remembered =
            self.open.front().is_none_or(|first| self.assigned - first.ordinal < REMEMBERED);
        self.trouble == Trouble::None
            && remembered
            && (self.identity == Some(self.latest(current)) || self.open.is_empty())
    }

    /// The later one of `current` and the own identity: a writer that read `current` before this
    /// partition got a newer one must not take it back to an epoch whose numbers are used.
    fn latest(&self, current: Identity) -> Identity {
        match self.identity {
            Some(own) if own.serial > current.serial => own,
            _ => current,
        }
    }

    /// Numbers batch `number` of `count` records.
    pub(super) fn assign(&mut self, number: Number, count: u32, current: Identity) -> Stamp {
        debug_assert!(self.may_assign(current), "assign is asked for only when it may be");
        let current = self.latest(current);
        if self.identity != Some(current) {
            self.restart(current);
        }
        let first = self.next;
        self.open.push_back(Range { number, first, count, ordinal: self.assigned });
        self.assigned += 1;
        self.next = advance(first, count);
        Stamp { identity: current, first }
    }

    /// What an open batch is to carry now.
    pub(super) fn stamp_of(&self, number: Number) -> Option<Stamp> {
        let identity = self.identity?;
        let range = self.open.iter().find(|range| range.number == number)?;
        Some(Stamp { identity, first: range.first })
    }

    /// Whether no earlier batch is open.
    pub(super) fn is_first(&self, number: Number) -> bool {
        self.open.front().is_some_and(|range| range.number == number)
    }

    /// The broker stored the batch, at `last_offset` if that is known.
    pub(super) fn acked(&mut self, number: Number, last_offset: Option<i64>) {
        if let Some(range) = self.remove(number) {
            self.last_acked = Some(advance(range.first, range.count.wrapping_sub(1)));
            if let Some(offset) = last_offset {
                self.last_offset = offset;
            }
        }
    }

    /// The broker answered one of the codes that concern sequences.
    pub(super) fn refused(
        &mut self,
        number: Number,
        code: ErrorCode,
        log_start_offset: i64,
    ) -> Verdict {
        match code {
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Verdict::Duplicate,
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => {
                // With an earlier batch still open this one merely came too early.
                if self.is_first(number) {
                    self.note_gap(number);
                }
                Verdict::Retry
            }
            ErrorCode::UNKNOWN_PRODUCER_ID => {
                // Without a log start the broker itself does not know yet.
                if log_start_offset >= 0 {
                    self.note_gap(number);
                }
                Verdict::Retry
            }
            _ => {
                self.note_gap(number);
                Verdict::Fail
            }
        }
    }

    /// The batch is given up; with `refused_for_certain` the broker did not store it.
    pub(super) fn failed(&mut self, number: Number, refused_for_certain: bool) {
        let last = self.open.back().is_some_and(|range| range.number == number);
        let Some(range) = self.remove(number) else { return };
        if refused_for_certain && last && self.trouble == Trouble::None {
            // Nothing was numbered after it: its numbers are free again.
            self.next = range.first;
        } else {
            self.note_gap(number);
        }
    }

    fn note_gap(&mut self, number: Number) {
        self.trouble = Trouble::GapAt(match self.trouble {
            Trouble::GapAt(earlier) => earlier.min(number),
            Trouble::None | Trouble::Unresolved => number,
        });
    }

    /// The batch ran out of time after it had been sent; it is not on the wire any more.
    pub(super) fn expired(&mut self, number: Number) {
        if self.remove(number).is_some() && self.trouble == Trouble::None {
            self.trouble = Trouble::Unresolved;
        }
    }

    /// The batch was cut into `pieces`, which take its place and its numbers; fewer records than it
    /// had leave a hole unless it was the last.
    pub(super) fn cut(&mut self, number: Number, pieces: &[(Number, u32)]) {
        let Some(index) = self.open.iter().position(|range| range.number == number) else {
            return;
        };
        let whole = self.open.remove(index).expect("the position was just found");
        let last = index == self.open.len();
        let (mut at, mut first) = (index, whole.first);
        for (number, count) in pieces {
            let ordinal = whole.ordinal;
            self.open.insert(at, Range { number: *number, first, count: *count, ordinal });
            (at, first) = (at + 1, advance(first, *count));
        }
        let kept: u32 = pieces.iter().map(|(_, count)| count).sum();
        if kept == whole.count {
            return;
        }
        if last && self.trouble == Trouble::None {
            self.next = first;
        } else {
            self.note_gap(number);
        }
    }

    fn remove(&mut self, number: Number) -> Option<Range> {
        let index = self.open.iter().position(|range| range.number == number)?;
        self.open.remove(index)
    }

    /// Whether `settle` has to be asked before anything new is sent.
    pub(super) fn is_troubled(&self) -> bool {
        self.trouble != Trouble::None
    }

    /// Looks at the trouble once nothing is on the wire: `true` when a new epoch is needed before
    /// anything else is sent, `false` when open batches can be sent again as they are.
    pub(super) fn settle(&mut self) -> bool {
        match self.trouble {
            Trouble::None => false,
            Trouble::GapAt(gap) => self.open.front().is_none_or(|range| range.number >= gap),
            // Open batches may be stored as well: they find out under their old numbers.
            Trouble::Unresolved if !self.open.is_empty() => false,
            Trouble::Unresolved => {
                let expected = self.last_acked.map_or(0, |last| advance(last, 1));
                if expected == self.next {
                    self.trouble = Trouble::None;
                }
                expected != self.next
            }
        }
    }

    /// The identity in use.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Numbers everything that is open anew, from 0, under `identity`.
    pub(super) fn restart(&mut self, identity: Identity) {
        self.identity = Some(identity);
        self.trouble = Trouble::None;
        self.last_acked = None;
        self.next = 0;
        self.assigned = 0;
        for range in &mut self.open {
            range.first = self.next;
            range.ordinal = self.assigned;
            self.next = advance(self.next, range.count);
            self.assigned += 1;
        }
    }

    /// Last offset that was acknowledged, -1 for none.
    #[cfg(test)]
    pub(super) fn last_offset(&self) -> i64 {
        self.last_offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Identity = Identity { id: 7, epoch: 0, serial: 1 };
    const SECOND: Identity = Identity { id: 7, epoch: 1, serial: 2 };

    fn n(batch: u64) -> Number {
        Number { batch, record: 0 }
    }

    #[test]
    fn sequences_run_on_and_wrap_at_two_to_the_31() {
        let mut sequences = Sequences::new();
        sequences.restart(FIRST);
        sequences.next = i32::MAX - 1;
        assert_eq!(sequences.assign(n(0), 3, FIRST).first, i32::MAX - 1);
        assert_eq!(sequences.assign(n(1), 2, FIRST).first, 1);
        sequences.acked(n(0), Some(10));
        assert_eq!(sequences.last_acked, Some(0));
        assert_eq!(sequences.last_offset(), 10);
    }

    /// apache/kafka#9832 (KAFKA-12152).
    #[test]
    fn an_idle_partition_takes_the_new_epoch_from_sequence_zero() {
        let mut sequences = Sequences::new();
        sequences.assign(n(0), 5, FIRST);
        assert!(!sequences.may_assign(SECOND), "a batch of the old epoch is open");
        sequences.acked(n(0), Some(4));
        assert!(sequences.may_assign(SECOND));
        assert_eq!(sequences.assign(n(1), 5, SECOND), Stamp { identity: SECOND, first: 0 });
    }

    #[test]
    fn a_writer_with_an_old_identity_does_not_bring_it_back() {
        let mut sequences = Sequences::new();
        sequences.assign(n(0), 1, FIRST);
        sequences.expired(n(0));
        assert!(sequences.settle());
        sequences.restart(SECOND);
        assert_eq!(sequences.assign(n(1), 1, FIRST), Stamp { identity: SECOND, first: 0 });
    }

    /// A batch whose answer was lost is refused again and again by a leader that moves, while those
    /// sent after it are stored: no more than the broker remembers may pass it.
    #[test]
    fn no_batch_is_numbered_so_late_that_an_open_one_is_forgotten() {
        let mut sequences = Sequences::new();
        for number in 0..REMEMBERED {
            assert!(sequences.may_assign(FIRST));
            sequences.assign(n(number), 4, FIRST);
        }
        for number in 1..REMEMBERED {
            sequences.acked(n(number), None);
        }
        assert!(!sequences.may_assign(FIRST), "the first one is open still");
        sequences.acked(n(0), Some(3));
        assert!(sequences.may_assign(FIRST));
    }

    #[test]
    fn out_of_order_behind_an_open_batch_is_only_early() {
        let mut sequences = Sequences::new();
        sequences.assign(n(0), 5, FIRST);
        sequences.assign(n(1), 5, FIRST);
        let code = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        assert_eq!(sequences.refused(n(1), code, -1), Verdict::Retry);
        assert!(!sequences.is_troubled());
        sequences.acked(n(0), Some(4));
        assert_eq!(sequences.refused(n(1), code, -1), Verdict::Retry);
        assert!(sequences.settle(), "now it is a gap");
        sequences.restart(SECOND);
        assert_eq!(sequences.stamp_of(n(1)), Some(Stamp { identity: SECOND, first: 0 }));
    }

    #[test]
    fn an_expired_batch_that_was_stored_needs_no_new_epoch() {
        let mut sequences = Sequences::new();
        sequences.assign(n(0), 5, FIRST);
        sequences.assign(n(1), 5, FIRST);
        sequences.acked(n(0), Some(4));
        sequences.expired(n(1));
        assert!(!sequences.may_assign(FIRST));
        assert!(sequences.settle(), "nobody knows whether 5..10 was stored");
        sequences.restart(SECOND);
        assert_eq!(sequences.assign(n(2), 1, SECOND).first, 0);
    }

    #[test]
    fn a_refused_last_batch_gives_its_numbers_back() {
        let mut sequences = Sequences::new();
        sequences.assign(n(0), 5, FIRST);
        sequences.failed(n(0), true);
        assert!(!sequences.is_troubled());
        assert_eq!(sequences.assign(n(1), 2, FIRST).first, 0);
        sequences.assign(n(2), 2, FIRST);
        sequences.failed(n(1), true);
        assert!(sequences.settle(), "batch 2 stands behind a hole");
    }

    #[test]
    fn the_pieces_of_a_batch_take_its_numbers() {
        let mut sequences = Sequences::new();
        sequences.assign(n(0), 7, FIRST);
        sequences.assign(n(1), 2, FIRST);
        let pieces = [(n(0), 3), (Number { batch: 0, record: 3 }, 4)];
        sequences.cut(n(0), &pieces);
        assert_eq!(sequences.stamp_of(pieces[1].0).map(|stamp| stamp.first), Some(3));
        assert!(!sequences.is_troubled());
        sequences.cut(n(1), &[(n(1), 1)]);
        assert_eq!(sequences.next, 8, "one record of the last batch was dropped");
        sequences.cut(n(0), &[(n(0), 2)]);
        assert!(sequences.settle(), "two batches stand behind a hole");
    }

    /// redpanda-data/redpanda#22670.
    #[test]
    fn a_broker_that_forgot_the_producer_gets_a_new_epoch() {
        let mut sequences = Sequences::new();
        sequences.assign(n(0), 5, FIRST);
        sequences.acked(n(0), Some(4));
        sequences.assign(n(1), 5, FIRST);
        let code = ErrorCode::UNKNOWN_PRODUCER_ID;
        assert_eq!(sequences.refused(n(1), code, -1), Verdict::Retry);
        assert!(!sequences.is_troubled());
        assert_eq!(sequences.refused(n(1), code, 0), Verdict::Retry);
        assert!(sequences.settle());
    }
}
