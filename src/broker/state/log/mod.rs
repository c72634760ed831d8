//! A partition's log, in memory: batches as they were sent, offsets, leader epochs, producers.
//!
//! ```text
//! Produce -> accept (is it allowed?) -> producers (is it the next?) -> Log::append -> Fetch
//!                convert (formats before 0.11)          compact, retention, truncation
//! ```
//!
//! A batch is copied once, out of the frame it came in (which must not stay for its sake), and never
//! again when it is read alone. Replication is perfect: the high watermark is the end.
//!
//! Knows no topic, broker or request. No clock: time comes as an argument.
//!
//! Invariant: batches ascend without overlap, all of them reach to `start` or beyond and end before
//! `end`; `bytes` is the sum of their sizes.

mod accept;
mod compact;
mod convert;
mod epochs;
mod meter;
mod producers;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub(in crate::broker) use accept::{Refusal, Sent, accept, check_form};
pub(in crate::broker) use convert::to_messages;
pub(in crate::broker) use epochs::Epochs;
pub(in crate::broker) use meter::Meter;
use meter::Share;
pub(in crate::broker) use producers::{Checked, Marker, Producers};
pub(in crate::broker) use rules::Rules;

use crate::broker::release::Release;
use crate::protocol::records::{BatchBuilder, Compression, Compressor, ControlKind, Decompressor};
use crate::protocol::records::{RecordBatch, RecordBatches, RecordsErrorKind, assign, stamp};
use crate::protocol::{Bytes, ErrorCode};

/// Memory that a batch takes besides its bytes.
const BATCH_OVERHEAD_BYTES: usize = size_of::<RecordBatch>() + 64;

/// A partition's log.
#[derive(Debug)]
pub(in crate::broker) struct Log {
    batches: VecDeque<RecordBatch>,
    start: i64,
    end: i64,
    bytes: usize,
    share: Share,
    pub(in crate::broker) epochs: Epochs,
    pub(in crate::broker) producers: Producers,
    /// When retention was last looked after.
    retained_ms: i64,
}

/// Where a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Appended {
    pub(in crate::broker) base_offset: i64,
    /// The time that the broker gave it, -1 where it kept its own.
    pub(in crate::broker) log_append_time_ms: i64,
}

/// What a read may take.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Range {
    pub(in crate::broker) from: i64,
    /// The offset before which it ends.
    pub(in crate::broker) until: i64,
    pub(in crate::broker) bytes_max: usize,
    /// Whether the first batch comes whole, however large (KIP-74).
    pub(in crate::broker) first_whole: bool,
}

/// A record that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Found {
    pub(in crate::broker) offset: i64,
    pub(in crate::broker) timestamp: i64,
    pub(in crate::broker) leader_epoch: i32,
}

impl Log {
    /// An empty log from offset 0 on.
    pub(in crate::broker) fn new(meter: &Meter) -> Self {
        Self {
            batches: VecDeque::new(),
            start: 0,
            end: 0,
            bytes: 0,
            share: Share::new(meter),
            epochs: Epochs::default(),
            producers: Producers::default(),
            retained_ms: i64::MIN,
        }
    }

    /// The first offset.
    pub(in crate::broker) fn start(&self) -> i64 {
        self.start
    }

    /// The offset behind the last record, and the high watermark.
    pub(in crate::broker) fn end(&self) -> i64 {
        self.end
    }

    /// The offset before which every transaction is decided.
    pub(in crate::broker) fn last_stable(&self) -> i64 {
        self.producers.first_open().unwrap_or(self.end)
    }

    /// The size of all batches.
    pub(in crate::broker) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The batches.
    pub(in crate::broker) fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.batches.iter()
    }

    /// How much memory `batch` would take.
    pub(in crate::broker) fn cost(batch: &RecordBatch) -> usize {
        batch.size() + BATCH_OVERHEAD_BYTES
    }

    /// Appends a batch that was accepted and is the next one of its producer. With `append_ms` it
    /// gets that as its time.
    pub(in crate::broker) fn append(
        &mut self,
        batch: &RecordBatch,
        leader_epoch: i32,
        append_ms: Option<i64>,
        now_ms: i64,
    ) -> Appended {
        let base_offset = self.end;
        let mut bytes = assign::placed(batch.bytes(), base_offset, leader_epoch)
            .expect("an accepted batch has a whole head");
        if let Some(append_ms) = append_ms {
            assign::set_append_time(&mut bytes, append_ms)
                .expect("an accepted batch has a whole head");
        }
        let stored = self.push(bytes, leader_epoch);
        self.producers.note(&stored, now_ms);
        Appended { base_offset, log_append_time_ms: append_ms.unwrap_or(-1) }
    }

    /// Writes the end of a transaction; gives the marker's offset.
    ///
    /// # Errors
    /// When the producer has a higher epoch by now, or another coordinator was there.
    pub(in crate::broker) fn append_marker(
        &mut self,
        marker: Marker,
        leader_epoch: i32,
    ) -> Result<i64, ErrorCode> {
        let Marker { producer_id, epoch, commit, coordinator_epoch, now_ms } = marker;
        self.producers.check_marker(producer_id, epoch, coordinator_epoch)?;
        let key = [0, 0, 0, u8::from(commit)];
        let mut value = vec![0, 0];
        value.extend_from_slice(&coordinator_epoch.to_be_bytes());
        let mut builder = BatchBuilder::new(Vec::new());
        builder.append(now_ms, Some(&key), Some(&value), &[]).expect("ten bytes fit into a batch");
        let mut bytes = builder
            .finish(Compression::None, None, &mut Compressor::new())
            .expect("nothing is compressed");
        stamp(&mut bytes, producer_id, epoch, -1, true);
        assign::set_control(&mut bytes).expect("a finished batch has a whole head");
        let offset = self.end;
        let bytes = assign::placed(&bytes, offset, leader_epoch).expect("it has a whole head");
        self.push(bytes, leader_epoch);
        self.producers.note_marker(marker, offset);
        Ok(offset)
    }

    fn push(&mut self, bytes: Vec<u8>, leader_epoch: i32) -> RecordBatch {
        let stored = RecordBatches::new(Bytes::from(bytes)).without_crc_check().next();
        let stored = stored
            .expect("it is one batch")
            .expect("an accepted batch is well-formed at any offset of a log");
        self.epochs.assign(leader_epoch, stored.base_offset());
        self.end = stored.last_offset() + 1;
        self.bytes += stored.size();
        self.batches.push_back(stored.clone());
        self.count();
        stored
    }

    fn count(&mut self) {
        self.share.set(self.bytes + self.batches.len() * BATCH_OVERHEAD_BYTES);
    }

    /// The index of the first batch that reaches to `offset` or beyond.
    fn at(&self, offset: i64) -> usize {
        self.batches.partition_point(|batch| batch.last_offset() < offset)
    }

    /// How many bytes [`Log::read`] would give.
    pub(in crate::broker) fn readable(&self, range: Range) -> usize {
        let mut first = None;
        let mut sum = 0_usize;
        for batch in self.batches.range(self.at(range.from)..) {
            if batch.base_offset() >= range.until || sum >= range.bytes_max.max(1) {
                break;
            }
            first.get_or_insert(batch.size());
            sum += batch.size();
        }
        let first = first.unwrap_or(0);
        let limit = if range.first_whole { range.bytes_max.max(first) } else { range.bytes_max };
        sum.min(limit)
    }

    /// Whether [`Log::read`] would give its first batch whole, or has none to give.
    pub(in crate::broker) fn gives_whole_batch(&self, range: Range) -> bool {
        let first = self.batches.get(self.at(range.from));
        range.first_whole || first.is_none_or(|first| first.size() <= range.bytes_max)
    }

    /// The batches from `range.from` on as they lie in the log, the last one cut at the limit, and the
    /// offset behind the last one. One batch is shared, several are joined into a copy.
    pub(in crate::broker) fn read(&self, range: Range) -> (Bytes, i64) {
        let size = self.readable(range);
        let index = self.at(range.from);
        let Some(first) = self.batches.get(index).filter(|_| size > 0) else {
            return (Bytes::new(), range.from);
        };
        if size <= first.size() {
            let bytes = first.bytes().slice(0..size).expect("no more than the batch");
            return (bytes, first.last_offset() + 1);
        }
        let mut joined = Vec::with_capacity(size);
        let mut upper = range.from;
        for batch in self.batches.range(index..) {
            let rest = size - joined.len();
            if rest == 0 {
                break;
            }
            joined
                .extend_from_slice(batch.bytes().get(..rest.min(batch.size())).unwrap_or_default());
            upper = batch.last_offset() + 1;
        }
        (Bytes::from(joined), upper)
    }

    /// The first record at `timestamp` or later.
    pub(in crate::broker) fn find_time(&self, timestamp: i64) -> Option<Found> {
        let late = self.batches.iter().filter(|batch| batch.max_timestamp() >= timestamp);
        late.into_iter().find_map(|batch| self.first_in(batch, |time| time >= timestamp))
    }

    /// The first record among those with the latest timestamp.
    pub(in crate::broker) fn find_latest_time(&self) -> Option<Found> {
        let data = self.batches.iter().filter(|batch| !batch.is_control());
        let latest = data.clone().map(RecordBatch::max_timestamp).max()?;
        let mut with_it = data.filter(|batch| batch.max_timestamp() == latest);
        with_it.find_map(|batch| self.first_in(batch, |time| time == latest))
    }

    fn first_in(&self, batch: &RecordBatch, wanted: impl Fn(i64) -> bool) -> Option<Found> {
        let leader_epoch = batch.leader_epoch().unwrap_or(-1);
        let whole =
            Found { offset: batch.base_offset(), timestamp: batch.max_timestamp(), leader_epoch };
        // What is inside a compressed batch was not looked at on arrival.
        let Ok(records) = batch.records(&mut Decompressor::new()) else { return Some(whole) };
        let mut there = records.iter().map_while(Result::ok);
        let found = there.find(|record| record.offset >= self.start && wanted(record.timestamp_ms));
        found.map(|record| Found {
            offset: record.offset,
            timestamp: record.timestamp_ms,
            leader_epoch,
        })
    }

    /// Moves the start forward to `offset`, at most to the end; batches before it go. `false` when it
    /// stands there already or beyond.
    pub(in crate::broker) fn trim_start(&mut self, offset: i64, release: Release) -> bool {
        let offset = offset.min(self.end);
        if offset <= self.start {
            return false;
        }
        self.start = offset;
        let gone = self.at(offset);
        let freed: usize = self.batches.drain(..gone).map(|batch| batch.size()).sum();
        self.bytes -= freed;
        self.count();
        self.epochs.trim_start(offset);
        self.producers.trim_start(offset, release);
        true
    }

    /// Cuts the end off, down to `offset` or to the start of the batch that it lies in: what an unclean
    /// election does. Producers are remembered by what is left.
    pub(in crate::broker) fn truncate(&mut self, offset: i64, now_ms: i64) {
        let kept = self.at(offset);
        let Some(first) = self.batches.get(kept) else { return };
        self.end = first.base_offset().max(self.start);
        let cut: usize = self.batches.drain(kept..).map(|batch| batch.size()).sum();
        self.bytes -= cut;
        self.count();
        self.epochs.trim_end(self.end);
        self.producers = Producers::default();
        for batch in &self.batches {
            match marker_of(batch, now_ms) {
                Some(marker) => self.producers.note_marker(marker, batch.base_offset()),
                None => self.producers.note(batch, now_ms),
            }
        }
    }

    /// Forgets the producers, but for open transactions and what was aborted: what losing their
    /// snapshot does.
    pub(in crate::broker) fn forget_producers(&mut self) {
        self.producers.forget();
    }

    /// Applies the retention of `rules`; `false` when nothing went. The last batch may go too.
    pub(in crate::broker) fn retain(
        &mut self,
        rules: &Rules,
        now_ms: i64,
        release: Release,
    ) -> bool {
        self.retained_ms = now_ms;
        self.producers.expire(now_ms);
        if !rules.deletes {
            return false;
        }
        let (mut keep_from, mut bytes) = (self.start, self.bytes);
        for batch in &self.batches {
            let too_old = rules.retention_ms.is_some_and(|ms| {
                batch.max_timestamp() >= 0 && now_ms.saturating_sub(batch.max_timestamp()) > ms
            });
            let too_many = rules.retention_bytes.is_some_and(|limit| bytes - batch.size() >= limit);
            if !too_old && !too_many {
                break;
            }
            bytes -= batch.size();
            keep_from = batch.last_offset() + 1;
        }
        let keep_from = keep_from.min(self.last_stable());
        self.trim_start(keep_from, release)
    }

    /// As [`Log::retain`], when it is time.
    pub(in crate::broker) fn retain_after_append(
        &mut self,
        rules: &Rules,
        now_ms: i64,
        release: Release,
    ) {
        if self.retained_ms == i64::MIN {
            self.retained_ms = now_ms;
        }
        if now_ms.saturating_sub(self.retained_ms) >= rules.retention_interval_ms {
            self.retain(rules, now_ms, release);
        }
    }
}

/// The marker that a batch is.
fn marker_of(batch: &RecordBatch, now_ms: i64) -> Option<Marker> {
    let mut decompressor = Decompressor::new();
    let kind = batch.control_kind(&mut decompressor).ok()??;
    let (producer_id, epoch) = (batch.producer_id()?, batch.producer_epoch()?);
    let records = batch.records(&mut decompressor).ok()?;
    let value = records.iter().next()?.ok()?.value?;
    let coordinator_epoch = i32::from_be_bytes(*value.get(2..)?.first_chunk()?);
    let commit = kind == ControlKind::Commit;
    Some(Marker { producer_id, epoch, commit, coordinator_epoch, now_ms })
}

/// Kafka's code for a batch that cannot be read.
fn code_of(kind: &RecordsErrorKind) -> ErrorCode {
    match kind {
        RecordsErrorKind::BadCrc { .. } | RecordsErrorKind::UnknownMagic(_) => {
            ErrorCode::CORRUPT_MESSAGE
        }
        RecordsErrorKind::UnknownCodec(_) => ErrorCode::UNKNOWN_SERVER_ERROR,
        RecordsErrorKind::CodecNotInFormat { .. } => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
        RecordsErrorKind::TooLarge { .. }
        | RecordsErrorKind::BadCompression { .. }
        | RecordsErrorKind::NotCompressed { .. } => ErrorCode::CORRUPT_MESSAGE,
        RecordsErrorKind::Malformed(_) => ErrorCode::INVALID_RECORD,
    }
}
