//! What a partition remembers of its producers: Kafka's `ProducerStateManager`, `ProducerAppendInfo`
//! and transaction index (KIP-98, KIP-360, KIP-890).
//!
//! Per producer its epoch, its last five batches and its open transaction. A batch is checked before
//! it is appended ([`Producers::check`]) and noted afterwards ([`Producers::note`]).
//!
//! Bounded: a producer is forgotten a day after its last batch (`producer.id.expiration.ms`), and the
//! one that was silent for longest when there are more than [`PRODUCERS_MAX`]; one with an open
//! transaction is kept. Aborted transactions go with the records they cover.
//!
//! Invariant: `open` holds exactly the first offsets of the producers' open transactions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::broker::release::Release;
use crate::protocol::ErrorCode;
use crate::protocol::records::RecordBatch;

/// Batches that are remembered of a producer (`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`).
const BATCHES_KEPT: usize = 5;
/// Producers that are remembered of a partition.
pub(in crate::broker) const PRODUCERS_MAX: usize = 10_000;
/// `producer.id.expiration.ms`.
const EXPIRATION_MS: i64 = 24 * 3600 * 1000;

/// A batch that is remembered.
#[derive(Clone, Copy, Debug)]
struct Kept {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
    last_offset: i64,
    timestamp: i64,
}

/// A producer.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Producer {
    pub(in crate::broker) epoch: i16,
    /// Of the coordinator whose marker came last; -1 without one.
    pub(in crate::broker) coordinator_epoch: i32,
    /// Of its last batch or marker.
    pub(in crate::broker) last_timestamp: i64,
    /// The first offset of its open transaction.
    pub(in crate::broker) open_since: Option<i64>,
    batches: VecDeque<Kept>,
    /// When it wrote last, by the broker's clock.
    seen_ms: i64,
}

impl Producer {
    fn new(epoch: i16, now_ms: i64) -> Self {
        Self {
            epoch,
            coordinator_epoch: -1,
            last_timestamp: -1,
            open_since: None,
            batches: VecDeque::new(),
            seen_ms: now_ms,
        }
    }

    /// The sequence number of its last record in this epoch, -1 without one.
    pub(in crate::broker) fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(-1, |kept| kept.last_sequence)
    }

    fn move_to_epoch(&mut self, epoch: i16) {
        if epoch != self.epoch {
            self.batches.clear();
            self.epoch = epoch;
        }
    }
}

/// A transaction that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Aborted {
    pub(in crate::broker) producer_id: i64,
    pub(in crate::broker) first_offset: i64,
    /// That of its marker.
    pub(in crate::broker) last_offset: i64,
}

/// What checking a batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Checked {
    /// It is the next one.
    Next,
    /// It is stored already, at this offset and with this latest timestamp.
    Duplicate { base_offset: i64, timestamp: i64 },
}

/// The producers of a partition.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Producers {
    known: BTreeMap<i64, Producer>,
    open: BTreeSet<i64>,
    aborted: Vec<Aborted>,
}

impl Producers {
    /// Checks a batch of a client. `sequence_starts_at_0` says that a producer without batches here must
    /// begin at 0 (KIP-890).
    pub(in crate::broker) fn check(
        &self,
        batch: &RecordBatch,
        release: Release,
        sequence_starts_at_0: bool,
    ) -> Result<Checked, ErrorCode> {
        let (Some(id), Some(epoch)) = (batch.producer_id(), batch.producer_epoch()) else {
            return Ok(Checked::Next);
        };
        let first = batch.base_sequence().unwrap_or(-1);
        let Some(producer) = self.known.get(&id) else {
            let strict = sequence_starts_at_0 && batch.is_transactional();
            return match first {
                0 => Ok(Checked::Next),
                // Until KIP-360 the leader insisted on knowing what came before.
                _ if release < Release::V2_1 => Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
                _ if release < Release::V2_8 => Err(ErrorCode::UNKNOWN_PRODUCER_ID),
                _ if strict => Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
                _ => Ok(Checked::Next),
            };
        };
        if let Some(known) = producer.duplicate(epoch, first, last_sequence(batch, first), release)
        {
            let (base_offset, timestamp) = (known.base_offset, known.timestamp);
            return Ok(Checked::Duplicate { base_offset, timestamp });
        }
        if epoch < producer.epoch {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        let expected = if epoch == producer.epoch { next(producer.last_sequence()) } else { 0 };
        if first != expected {
            return Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        }
        if producer.open_since.is_some() && !batch.is_transactional() {
            return Err(ErrorCode::INVALID_TXN_STATE);
        }
        Ok(Checked::Next)
    }

    /// Notes a batch that was checked and appended.
    pub(super) fn note(&mut self, batch: &RecordBatch, now_ms: i64) {
        let (Some(id), Some(epoch)) = (batch.producer_id(), batch.producer_epoch()) else {
            return;
        };
        let first_sequence = batch.base_sequence().unwrap_or(-1);
        let producer = self.known.entry(id).or_insert_with(|| Producer::new(epoch, now_ms));
        producer.move_to_epoch(epoch);
        if producer.batches.len() == BATCHES_KEPT {
            producer.batches.pop_front();
        }
        producer.batches.push_back(Kept {
            first_sequence,
            last_sequence: last_sequence(batch, first_sequence),
            base_offset: batch.base_offset(),
            last_offset: batch.last_offset(),
            timestamp: batch.max_timestamp(),
        });
        (producer.last_timestamp, producer.seen_ms) = (batch.max_timestamp(), now_ms);
        if batch.is_transactional() && producer.open_since.is_none() {
            producer.open_since = Some(batch.base_offset());
            self.open.insert(batch.base_offset());
        }
        self.bound();
    }

    /// Checks a marker: neither its epoch nor its coordinator may be older than what is known.
    pub(super) fn check_marker(
        &self,
        producer_id: i64,
        epoch: i16,
        coordinator_epoch: i32,
    ) -> Result<(), ErrorCode> {
        let Some(producer) = self.known.get(&producer_id) else { return Ok(()) };
        if epoch < producer.epoch {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if coordinator_epoch < producer.coordinator_epoch {
            return Err(ErrorCode::TRANSACTION_COORDINATOR_FENCED);
        }
        Ok(())
    }

    /// Notes a marker that was checked and appended at `offset`.
    pub(super) fn note_marker(&mut self, marker: Marker, offset: i64) {
        let Marker { producer_id, epoch, commit, coordinator_epoch, now_ms } = marker;
        let producer =
            self.known.entry(producer_id).or_insert_with(|| Producer::new(epoch, now_ms));
        producer.move_to_epoch(epoch);
        producer.coordinator_epoch = coordinator_epoch;
        (producer.last_timestamp, producer.seen_ms) = (now_ms, now_ms);
        if let Some(first_offset) = producer.open_since.take() {
            self.open.remove(&first_offset);
            if !commit {
                self.aborted.push(Aborted { producer_id, first_offset, last_offset: offset });
            }
        }
        self.bound();
    }

    /// The first offset whose transaction is not decided.
    pub(super) fn first_open(&self) -> Option<i64> {
        self.open.first().copied()
    }

    /// The aborted transactions that reach into the offsets from `from` to before `to`.
    pub(in crate::broker) fn aborted(&self, from: i64, to: i64) -> impl Iterator<Item = &Aborted> {
        // Kept in the order of their markers.
        let first = self.aborted.partition_point(|aborted| aborted.last_offset < from);
        let rest = self.aborted.get(first..).unwrap_or_default();
        rest.iter().filter(move |aborted| aborted.first_offset < to)
    }

    /// Those that are known, by id.
    pub(in crate::broker) fn known(&self) -> impl Iterator<Item = (i64, &Producer)> {
        self.known.iter().map(|(id, producer)| (*id, producer))
    }

    /// The one with this id.
    pub(in crate::broker) fn get(&self, id: i64) -> Option<&Producer> {
        self.known.get(&id)
    }

    /// Whether compaction must leave the batch, empty if need be, so that a broker which reads the log
    /// knows the producer (`Cleaner.isBatchLastRecordOfProducer`).
    pub(super) fn is_last_of_its_producer(&self, batch: &RecordBatch) -> bool {
        let producer = batch.producer_id().and_then(|id| self.known.get(&id));
        producer.is_some_and(|producer| match producer.batches.back() {
            Some(kept) => kept.last_offset == batch.last_offset(),
            None => batch.is_control() && batch.producer_epoch() == Some(producer.epoch),
        })
    }

    /// The log now begins at `start`. Until KIP-360 that also cost the memory of producers all of whose
    /// batches went.
    pub(super) fn trim_start(&mut self, start: i64, release: Release) {
        self.aborted.retain(|aborted| aborted.last_offset >= start);
        if release < Release::V2_8 {
            self.known.retain(|_, producer| {
                let last = producer.batches.back();
                producer.open_since.is_some() || last.is_none_or(|kept| kept.last_offset >= start)
            });
        }
    }

    /// Forgets those that have been silent for a day.
    pub(super) fn expire(&mut self, now_ms: i64) {
        self.known.retain(|_, producer| {
            producer.open_since.is_some() || now_ms - producer.seen_ms < EXPIRATION_MS
        });
    }

    /// Forgets those without an open transaction.
    pub(super) fn forget(&mut self) {
        self.known.retain(|_, producer| producer.open_since.is_some());
        self.known.values_mut().for_each(|producer| producer.batches.clear());
    }

    fn bound(&mut self) {
        if self.known.len() <= PRODUCERS_MAX {
            return;
        }
        let closed = self.known.iter().filter(|(_, producer)| producer.open_since.is_none());
        let oldest = closed.min_by_key(|(_, producer)| producer.seen_ms).map(|(id, _)| *id);
        if let Some(oldest) = oldest {
            self.known.remove(&oldest);
        }
    }
}

impl Producer {
    fn duplicate(&self, epoch: i16, first: i32, last: i32, release: Release) -> Option<&Kept> {
        // The first release with idempotence remembered one batch.
        let kept = if release < Release::V2_1 { 1 } else { BATCHES_KEPT };
        let same = |known: &&Kept| known.first_sequence == first && known.last_sequence == last;
        (epoch == self.epoch).then(|| self.batches.iter().rev().take(kept).find(same)).flatten()
    }
}

/// The end of a transaction in a partition.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Marker {
    pub(in crate::broker) producer_id: i64,
    pub(in crate::broker) epoch: i16,
    pub(in crate::broker) commit: bool,
    pub(in crate::broker) coordinator_epoch: i32,
    pub(in crate::broker) now_ms: i64,
}

/// The sequence number after `sequence`: after the highest comes 0.
fn next(sequence: i32) -> i32 {
    sequence.checked_add(1).unwrap_or(0)
}

/// That of the last record (`DefaultRecordBatch.incrementSequence`).
fn last_sequence(batch: &RecordBatch, first: i32) -> i32 {
    let delta = batch.last_offset() - batch.base_offset();
    let last = i64::from(first) + delta;
    if last > i64::from(i32::MAX) { (last - i64::from(i32::MAX) - 1) as i32 } else { last as i32 }
}
