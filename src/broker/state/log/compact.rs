//! Compaction: of every key the last record stays (Kafka's `Cleaner`, KIP-534).
//!
//! The whole log up to the last stable offset is cleaned, in one go. Offsets stay, so gaps come out. A
//! batch that loses records is rewritten; one that loses all goes, unless it is the last of its
//! producer: then its head stays, with no records. Records of aborted transactions go, records without
//! a key too. Tombstones go in a later compaction, once `delete.retention.ms` has passed since the one
//! that saw them first (their delete horizon); so do markers, once the records of their transaction are
//! gone. A batch whose records cannot be read is left as it is.

use std::collections::{BTreeSet, HashMap};

use super::{Log, Rules};
use crate::broker::release::Release;
use crate::protocol::Bytes;
use crate::protocol::records::{
    Compressor, Decompressor, RecordBatch, RecordBatches, RecordView, Records, RecordsError, assign,
};

/// The first release that keeps the delete horizon in the batch (3.1).
const HORIZON_FROM: Release = Release::V3_9;

impl Log {
    /// Cleans the log. `false` when nothing changed.
    pub(in crate::broker) fn compact(&mut self, rules: &Rules, now_ms: i64) -> bool {
        let stable = self.last_stable();
        let mut cleaning = Cleaning {
            last: HashMap::new(),
            seen: BTreeSet::new(),
            decompressor: Decompressor::new(),
            compressor: Compressor::new(),
            tombstones_ms: rules.tombstones_ms,
            keeps_horizon: rules.release >= HORIZON_FROM,
            now_ms,
        };
        let dirty: Vec<bool> =
            self.batches.iter().map(|batch| batch.last_offset() < stable).collect();
        for (batch, dirty) in self.batches.iter().zip(&dirty) {
            if *dirty && !self.is_aborted(batch) && !batch.is_control() {
                cleaning.note(batch);
            }
        }
        let mut kept = std::collections::VecDeque::with_capacity(self.batches.len());
        let mut changed = false;
        for (batch, dirty) in self.batches.iter().zip(&dirty) {
            let fate = if *dirty { cleaning.fate(self, batch) } else { Fate::Stays };
            match fate {
                Fate::Stays => kept.push_back(batch.clone()),
                Fate::Goes => changed = true,
                Fate::Becomes(bytes) => {
                    changed = true;
                    let batch = RecordBatches::new(Bytes::from(bytes)).without_crc_check().next();
                    kept.push_back(batch.expect("one batch").expect("it was just written"));
                }
            }
        }
        self.batches = kept;
        self.bytes = self.batches.iter().map(RecordBatch::size).sum();
        self.count();
        changed
    }

    /// Whether a batch belongs to a transaction that was aborted.
    fn is_aborted(&self, batch: &RecordBatch) -> bool {
        let (from, to) = (batch.base_offset(), batch.last_offset() + 1);
        batch.is_transactional()
            && !batch.is_control()
            && self
                .producers
                .aborted(from, to)
                .any(|aborted| Some(aborted.producer_id) == batch.producer_id())
    }
}

/// What becomes of a batch.
enum Fate {
    Stays,
    Goes,
    Becomes(Vec<u8>),
}

/// The state of one cleaning.
struct Cleaning {
    /// The last offset of each key.
    last: HashMap<Vec<u8>, i64>,
    /// Producers of whose present transaction a batch was seen.
    seen: BTreeSet<i64>,
    decompressor: Decompressor,
    compressor: Compressor,
    tombstones_ms: i64,
    keeps_horizon: bool,
    now_ms: i64,
}

impl Cleaning {
    fn note(&mut self, batch: &RecordBatch) {
        let Ok(records) = batch.records(&mut self.decompressor) else { return };
        let there = records.iter().map_while(Result::ok);
        for record in there {
            if let Some(key) = record.key {
                self.last.insert(key.to_vec(), record.offset);
            }
        }
    }

    fn fate(&mut self, log: &Log, batch: &RecordBatch) -> Fate {
        let must_stay = log.producers.is_last_of_its_producer(batch);
        let Ok(records) = batch.records(&mut self.decompressor) else { return Fate::Stays };
        let Ok(all) = all(&records) else { return Fate::Stays };
        let aborted = log.is_aborted(batch);
        if batch.is_transactional() && !batch.is_control() {
            self.seen.extend(batch.producer_id());
        }
        // Whether what it says is of no more use, and may go when its time is there.
        let spent = batch.is_control() && self.marks_nothing(batch);
        let expires = |record: &RecordView<'_>| {
            if batch.is_control() { spent } else { record.value.is_none() }
        };
        let horizon = self.horizon(batch);
        let kept: Vec<RecordView<'_>> = all
            .iter()
            .filter(|record| {
                let expired = expires(record) && horizon.is_some_and(|at| at <= self.now_ms);
                !aborted && !expired && (batch.is_control() || self.is_last(record))
            })
            .copied()
            .collect();
        let sets_horizon = self.keeps_horizon && horizon.is_none() && kept.iter().any(expires);
        if kept.is_empty() && !must_stay {
            return Fate::Goes;
        }
        if kept.len() == all.len() && !sets_horizon {
            return Fate::Stays;
        }
        let new = self.now_ms.saturating_add(self.tombstones_ms);
        let at = batch.delete_horizon().or(sets_horizon.then_some(new));
        let written = assign::with_records(batch, &kept, at, &mut self.compressor);
        written.map_or(Fate::Stays, Fate::Becomes)
    }

    /// When the tombstones and markers of a batch may go, if that is known already.
    fn horizon(&self, batch: &RecordBatch) -> Option<i64> {
        if self.keeps_horizon {
            batch.delete_horizon()
        } else {
            Some(batch.max_timestamp().saturating_add(self.tombstones_ms))
        }
    }

    fn is_last(&self, record: &RecordView<'_>) -> bool {
        record.key.is_some_and(|key| self.last.get(key).is_none_or(|last| record.offset >= *last))
    }

    /// Whether no batch of the transaction that the marker ends was there
    /// (`CleanedTransactionMetadata`).
    fn marks_nothing(&mut self, marker: &RecordBatch) -> bool {
        marker.producer_id().is_none_or(|id| !self.seen.remove(&id))
    }
}

fn all(records: &Records) -> Result<Vec<RecordView<'_>>, RecordsError> {
    records.iter().collect()
}
