//! What a reader hands out: [`FetchedBatch`], and [`ConsumerRecord`] for those who want to own one.
//!
//! Both are pieces of the answer's buffer (or of the buffer a batch was decompressed into);
//! nothing is copied. A batch that reaches over the edge of a range is cut to it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::reader::damaged;
use crate::error::Result;
use crate::protocol::records::{Headers, RecordCursor, RecordIter, RecordView, Records};

/// The records of one batch that are inside the range that was asked for.
///
/// Cloning shares the buffer. The fast way to read: its records are borrowed.
#[derive(Clone, Debug)]
pub struct FetchedBatch {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) records: Records,
    /// The offsets to hand out; records outside are passed over.
    pub(super) window: Range<i64>,
}

impl FetchedBatch {
    /// A batch with a record at each offset of `offsets`, its value the offset's digits, and
    /// nothing in the rest of `window`.
    #[cfg(test)]
    pub(crate) fn for_test(
        topic: &str,
        partition: i32,
        offsets: Range<i64>,
        window: Range<i64>,
    ) -> Self {
        use crate::protocol::Bytes;
        use crate::protocol::records::{
            BatchBuilder, Compression, Compressor, Decompressor, RecordBatches,
        };
        let mut builder = BatchBuilder::new(Vec::new());
        for offset in offsets.clone() {
            builder
                .append(0, None, Some(offset.to_string().as_bytes()), &[])
                .expect("a small record");
        }
        let mut bytes = builder
            .finish(Compression::None, None, &mut Compressor::default())
            .expect("a batch of a few records");
        bytes[..8].copy_from_slice(&offsets.start.to_be_bytes());
        let mut batches = RecordBatches::new(Bytes::from(bytes));
        let batch = batches.next().expect("one batch").expect("a sound batch");
        let records = batch.records(&mut Decompressor::default()).expect("no compression");
        Self { topic: topic.into(), partition, records, window }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The offsets that this batch covers, those without a record included: reading goes on at its
    /// end.
    pub fn range(&self) -> Range<i64> {
        self.window.clone()
    }

    /// Bytes of the whole batch's records, unpacked.
    pub(crate) fn size(&self) -> usize {
        self.records.bytes().len()
    }

    /// The records in order.
    pub fn iter(&self) -> BatchIter<'_> {
        BatchIter { batch: self, records: self.records.iter() }
    }

    /// The records in order, each as a value of its own that keeps the buffer alive.
    pub fn into_records(self) -> impl Iterator<Item = Result<ConsumerRecord>> + Send {
        OwnedIter::new(self)
    }
}

impl<'a> IntoIterator for &'a FetchedBatch {
    type Item = Result<RecordView<'a>>;
    type IntoIter = BatchIter<'a>;

    fn into_iter(self) -> BatchIter<'a> {
        self.iter()
    }
}

/// Goes through the records of a [`FetchedBatch`].
#[derive(Clone, Debug)]
pub struct BatchIter<'a> {
    batch: &'a FetchedBatch,
    records: RecordIter<'a>,
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = Result<RecordView<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.records.next()? {
                Ok(record) if self.batch.window.contains(&record.offset) => {
                    return Some(Ok(record));
                }
                Ok(_) => {}
                Err(error) => {
                    let batch = self.batch;
                    return Some(Err(damaged(error, &batch.topic, batch.partition)));
                }
            }
        }
    }
}

/// Goes through the records of a batch that it owns.
#[derive(Debug)]
pub(crate) struct OwnedIter {
    batch: Arc<FetchedBatch>,
    cursor: RecordCursor,
    /// The offset after the record that was given last.
    position: i64,
}

impl OwnedIter {
    pub(super) fn new(batch: FetchedBatch) -> Self {
        let cursor = batch.records.iter().cursor();
        let position = batch.window.start;
        Self { batch: Arc::new(batch), cursor, position }
    }

    pub(super) fn position(&self) -> i64 {
        self.position
    }
}

impl Iterator for OwnedIter {
    type Item = Result<ConsumerRecord>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut records = self.batch.records.resume(self.cursor);
            let next = records.next();
            self.cursor = records.cursor();
            match next? {
                Ok(record) if self.batch.window.contains(&record.offset) => {
                    self.position = record.offset + 1;
                    return Some(Ok(ConsumerRecord::new(&self.batch, &record)));
                }
                Ok(_) => {}
                Err(error) => {
                    return Some(Err(damaged(error, &self.batch.topic, self.batch.partition)));
                }
            }
        }
    }
}

/// A record that was read from Kafka.
///
/// Owns a share of the buffer it came in: cloning is cheap and copies no bytes, and keeping one
/// record keeps the buffer of its batch. `Send` and `Sync`.
#[derive(Clone)]
pub struct ConsumerRecord {
    batch: Arc<FetchedBatch>,
    offset: i64,
    timestamp_ms: i64,
    key: Option<Piece>,
    value: Option<Piece>,
    headers: Piece,
    header_count: u32,
}

/// Where a field lies in the bytes of its batch's records.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    start: u32,
    length: u32,
}

impl Piece {
    /// Where `part` lies in `whole`, of which it is a piece.
    fn of(whole: &[u8], part: &[u8]) -> Self {
        let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        // An empty piece may stand anywhere, a static one included.
        let start = if part.is_empty() { 0 } else { start };
        debug_assert!(start + part.len() <= whole.len(), "a field lies in its batch");
        Self { start: start as u32, length: part.len() as u32 }
    }

    fn get(self, whole: &[u8]) -> &[u8] {
        let start = self.start as usize;
        whole.get(start..start + self.length as usize).expect("a field lies in its batch")
    }
}

impl ConsumerRecord {
    #[inline]
    fn new(batch: &Arc<FetchedBatch>, record: &RecordView<'_>) -> Self {
        let bytes = batch.records.bytes();
        let (headers, header_count) = record.headers.raw();
        Self {
            batch: Arc::clone(batch),
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(|key| Piece::of(bytes, key)),
            value: record.value.map(|value| Piece::of(bytes, value)),
            headers: Piece::of(bytes, headers),
            header_count,
        }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.batch.topic
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.batch.partition
    }

    /// The offset in the partition.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The time in milliseconds since 1970, the producer's or, where the topic says so, the
    /// broker's; -1 where there is none.
    pub fn timestamp_ms(&self) -> i64 {
        self.timestamp_ms
    }

    /// The key; null and empty differ.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.map(|piece| piece.get(self.batch.records.bytes()))
    }

    /// The value; null (a tombstone) and empty differ.
    pub fn value(&self) -> Option<&[u8]> {
        self.value.map(|piece| piece.get(self.batch.records.bytes()))
    }

    /// The headers in order, repeated keys included.
    pub fn headers(&self) -> Headers<'_> {
        let bytes = self.headers.get(self.batch.records.bytes());
        Headers::from_raw(bytes, self.header_count)
    }
}

impl fmt::Debug for ConsumerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerRecord")
            .field("topic", &self.topic())
            .field("partition", &self.partition())
            .field("offset", &self.offset)
            .field("timestamp_ms", &self.timestamp_ms)
            .field("key_bytes", &self.key().map(<[u8]>::len))
            .field("value_bytes", &self.value().map(<[u8]>::len))
            .field("headers", &self.header_count)
            .finish_non_exhaustive()
    }
}
