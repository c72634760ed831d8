//! Writes a batch of the present format (magic 2): [`BatchBuilder`].
//!
//! Each record is encoded once, where it will travel: behind the space for the batch's head, in one
//! buffer that is used again for later batches. Lengths stand before what they measure, so the size
//! of a record is computed first, room is made once, and the bytes follow front to back. Nothing is
//! allocated per record.
//!
//! The caller owns the builder and locks it as it likes; nothing here waits. It knows no topic, no
//! limit on sizes but the format's own, and no producer id: [`stamp`] puts that in when the batch is
//! about to leave, because only then is its sequence number decided.
//!
//! Invariant: up to `end` the buffer holds room for the head (61 bytes, filled by `finish`) and exactly
//! `record_count` whole records, with offset deltas 0, 1, 2... as brokers demand of producers.

use super::{
    BATCH_HEAD_BYTES, Compression, Compressor, NONE, RecordsError, RecordsErrorKind, at, attribute,
    checksum,
};
use crate::protocol::{EncodeError, wire::EncodeErrorKind};

/// The longest batch: its length field is an `int32`.
const BATCH_BYTES_MAX: u64 = i32::MAX as u64;
/// Bytes that stand before the key: length (5), attributes (1), timestamp (10) and offset (5)
/// deltas, key length (5).
const PREFIX_BYTES_MAX: usize = 26;
/// So many bytes are summed at a time while a batch grows: few enough to be in the processor's
/// nearest cache still, enough for the checksum to run at its full speed.
const SUMMED_BYTES: usize = 16 * 1024;
/// `sum_at` of a batch that is summed in one go when it is finished.
const NEVER: usize = usize::MAX;

/// A header of a record that is written. Keys may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name; it cannot be null.
    pub key: &'a str,
    /// The value; null and empty differ.
    pub value: Option<&'a [u8]>,
}

/// Collects records into one batch, in the bytes that will travel.
///
/// ```
/// use ottla::protocol::records::{BatchBuilder, Compression, Compressor, stamp};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut builder = BatchBuilder::new(Vec::new());
/// builder.append(1_700_000_000_000, Some(b"key"), Some(b"value"), &[])?;
/// builder.append(1_700_000_000_001, Some(b"key"), None, &[])?;
/// let mut batch = builder.finish(Compression::Lz4, None, &mut Compressor::new())?;
/// stamp(&mut batch, 4711, 0, 0, false);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BatchBuilder {
    /// Longer than the batch: what stands from `end` on is left from before.
    buffer: Vec<u8>,
    end: usize,
    record_count: i32,
    first_timestamp: i64,
    max_timestamp: i64,
    /// The checksum of the records up to `summed`; goes on when `end` reaches `sum_at`.
    sum: u32,
    summed: usize,
    sum_at: usize,
}

impl BatchBuilder {
    /// An empty batch in `buffer`, whose content is dropped and whose room is used.
    pub fn new(buffer: Vec<u8>) -> Self {
        let none = i64::from(NONE);
        let end = BATCH_HEAD_BYTES;
        let mut builder = Self {
            buffer,
            end,
            record_count: 0,
            first_timestamp: none,
            max_timestamp: none,
            sum: 0,
            summed: BATCH_HEAD_BYTES,
            sum_at: NEVER,
        };
        builder.make_room(0);
        builder
    }

    /// Sums the records up while they come, for a batch that will not be compressed: later they
    /// may have to be fetched from memory for it.
    pub(crate) fn sum_as_it_grows(&mut self) {
        self.sum_at = self.summed + SUMMED_BYTES;
    }

    #[cold]
    fn sum_up(&mut self) {
        let new = self.buffer.get(self.summed..self.end).unwrap_or_default();
        self.sum = crc32c::crc32c_append(self.sum, new);
        self.summed = self.end;
        self.sum_at = self.end + SUMMED_BYTES;
    }

    /// Makes room for `bytes` in all, head included, so that the buffer does not grow by itself
    /// before that.
    pub fn reserve_total(&mut self, bytes: usize) {
        self.buffer.reserve_exact(bytes.saturating_sub(self.buffer.len()));
    }

    /// Adds a record. Null and empty keys and values differ; a null value is a tombstone.
    ///
    /// # Errors
    /// [`EncodeErrorKind::TooLong`] when the batch would outgrow the format's 2 GiB; the batch is
    /// as before.
    #[inline]
    pub fn append(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> Result<(), EncodeError> {
        if self.record_count == 0 {
            self.first_timestamp = timestamp_ms;
            self.max_timestamp = timestamp_ms;
        }
        // Timestamps a whole int64 apart wrap around, here and again when they are read.
        let timestamp_delta = zigzag(timestamp_ms.wrapping_sub(self.first_timestamp));
        let mut before_key = Piece::<32>::default();
        // No bit of a record's attributes has a meaning yet.
        before_key.varint(0);
        before_key.varint(timestamp_delta);
        before_key.varint(zigzag(i64::from(self.record_count)));
        before_key.varint(length_code(key));
        let mut before_value = Piece::<16>::default();
        before_value.varint(length_code(value));
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        let body = (before_key.len + before_value.len) as u64
            + key.len() as u64
            + value.len() as u64
            + headers_bytes(headers);
        let mut length = Piece::<16>::default();
        length.varint(body << 1);
        let size = length.len as u64 + body;
        if self.end as u64 + size > BATCH_BYTES_MAX {
            return Err(EncodeErrorKind::TooLong(self.end.saturating_add(body as usize)).error());
        }
        let size = size as usize;
        if self.buffer.len() - self.end < size {
            self.make_room(size);
        }

        let mut place = self.buffer.get_mut(self.end..).unwrap_or_default();
        place = length.put(place);
        place = before_key.put(place);
        place = put_bytes(place, key);
        place = before_value.put(place);
        place = put_bytes(place, value);
        place = put_varint(place, (headers.len() as u64) << 1);
        for header in headers {
            place = put_varint(place, (header.key.len() as u64) << 1);
            place = put_bytes(place, header.key.as_bytes());
            place = put_varint(place, length_code(header.value));
            place = put_bytes(place, header.value.unwrap_or_default());
        }
        debug_assert_eq!(place.len(), self.buffer.len() - self.end - size, "as was computed");
        self.end += size;
        self.record_count += 1;
        self.max_timestamp = self.max_timestamp.max(timestamp_ms);
        if self.end >= self.sum_at {
            self.sum_up();
        }
        Ok(())
    }

    /// Makes the buffer long enough for `size` bytes more, and as long as its memory if that does.
    /// It is doubled at least, so that each byte is zeroed once for many that are written.
    #[cold]
    fn make_room(&mut self, size: usize) {
        let needed = self.end + size;
        let doubled = needed.max(self.buffer.len().saturating_mul(2));
        let capacity = self.buffer.capacity();
        let len = if capacity >= needed { doubled.min(capacity) } else { doubled };
        if len > self.buffer.len() {
            self.buffer.resize(len, 0);
        }
    }

    /// The most bytes that such a record can take in a batch.
    #[inline]
    pub fn upper_bound(key_bytes: usize, value_bytes: usize, headers: &[Header<'_>]) -> usize {
        let length = |bytes: usize| varint_bytes((bytes as u64) << 1) as usize;
        PREFIX_BYTES_MAX
            .saturating_add(key_bytes)
            .saturating_add(length(value_bytes))
            .saturating_add(value_bytes)
            .saturating_add(headers_bytes(headers) as usize)
    }

    /// How many records there are.
    pub fn record_count(&self) -> usize {
        self.record_count as usize
    }

    /// Whether there is no record. Brokers refuse an empty batch.
    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// The size of the batch so far, before compression, in bytes, its head included.
    pub fn len(&self) -> usize {
        self.end
    }

    /// The latest timestamp of the records; -1 while there is none.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Gives the buffer back and drops the records.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Ends the batch: compresses the records as one stream, fills in the head and the checksum.
    ///
    /// The base offset is 0 and there is no leader epoch and no producer: what brokers expect of a
    /// producer without an id. `level` is that of gzip (1 to 9, 6 when left out) or zstd (up to 22,
    /// 3 when left out); the other codecs have none. The codec is kept even where the records do
    /// not shrink.
    ///
    /// # Errors
    /// [`RecordsErrorKind::NotCompressed`] when the codec has no memory.
    pub fn finish(
        self,
        compression: Compression,
        level: Option<i32>,
        compressor: &mut Compressor,
    ) -> Result<Vec<u8>, RecordsError> {
        let (mut batch, sum) = self.finish_without_crc(compression, level, compressor)?;
        put_crc(&mut batch, sum);
        Ok(batch)
    }

    /// As [`finish`](Self::finish), but without the checksum: for a batch that [`stamp_summed`] gets
    /// next, which computes it. With the checksum of what follows the head, if it is known.
    pub(crate) fn finish_without_crc(
        mut self,
        compression: Compression,
        level: Option<i32>,
        compressor: &mut Compressor,
    ) -> Result<(Vec<u8>, Option<u32>), RecordsError> {
        let is_summed = self.summed > BATCH_HEAD_BYTES && compression == Compression::None;
        if is_summed {
            self.sum_up();
        }
        let mut batch = self.buffer;
        batch.truncate(self.end);
        if compression != Compression::None {
            let records = batch.get(BATCH_HEAD_BYTES..).unwrap_or_default();
            let compressed = compressor.compress(compression, level, records)?;
            batch.truncate(BATCH_HEAD_BYTES);
            batch.extend_from_slice(compressed);
        }
        let length = i32::try_from(batch.len() - at::LENGTH.end).map_err(|_| {
            RecordsErrorKind::NotCompressed {
                codec: compression,
                reason: "the result is longer than 2 GiB",
            }
        })?;
        put(&mut batch, 0..at::LENGTH.start, &0_i64.to_be_bytes());
        put(&mut batch, at::LENGTH, &length.to_be_bytes());
        put(&mut batch, at::LEADER_EPOCH, &NONE.to_be_bytes());
        put(&mut batch, at::MAGIC..at::MAGIC + 1, &[2]);
        put(&mut batch, at::ATTRIBUTES, &i16::from(compression.id()).to_be_bytes());
        let last_offset_delta = (self.record_count - 1).max(0);
        put(&mut batch, at::LAST_OFFSET_DELTA, &last_offset_delta.to_be_bytes());
        put(&mut batch, at::BASE_TIMESTAMP, &self.first_timestamp.to_be_bytes());
        put(&mut batch, at::MAX_TIMESTAMP, &self.max_timestamp.to_be_bytes());
        put(&mut batch, at::PRODUCER_ID, &i64::from(NONE).to_be_bytes());
        put(&mut batch, at::PRODUCER_EPOCH, &(NONE as i16).to_be_bytes());
        put(&mut batch, at::BASE_SEQUENCE, &NONE.to_be_bytes());
        put(&mut batch, at::RECORD_COUNT, &self.record_count.to_be_bytes());
        Ok((batch, is_summed.then_some(self.sum)))
    }
}

/// Fills in who produced a finished batch, and the checksum again.
///
/// # Panics
/// When `batch` is not what [`BatchBuilder::finish`] gave.
pub fn stamp(
    batch: &mut [u8],
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
) {
    stamp_summed(batch, producer_id, producer_epoch, base_sequence, transactional, None);
}

/// As [`stamp`], when the checksum of what follows the head may be known.
pub(crate) fn stamp_summed(
    batch: &mut [u8],
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
    sum: Option<u32>,
) {
    let attributes = batch.get_mut(at::ATTRIBUTES).expect("a finished batch has a whole head");
    let low = attributes.last_mut().expect("two bytes");
    if transactional {
        *low |= attribute::TRANSACTIONAL as u8;
    } else {
        *low &= !(attribute::TRANSACTIONAL as u8);
    }
    put(batch, at::PRODUCER_ID, &producer_id.to_be_bytes());
    put(batch, at::PRODUCER_EPOCH, &producer_epoch.to_be_bytes());
    put(batch, at::BASE_SEQUENCE, &base_sequence.to_be_bytes());
    put_crc(batch, sum);
}

fn put(batch: &mut [u8], place: std::ops::Range<usize>, bytes: &[u8]) {
    batch.get_mut(place).expect("a finished batch has a whole head").copy_from_slice(bytes);
}

/// Fills in the checksum; `sum` is that of what follows the head, if known.
fn put_crc(batch: &mut [u8], sum: Option<u32>) {
    let of = |part: Option<&[u8]>| crc32c::crc32c(part.unwrap_or_default());
    let crc = match sum {
        None => of(batch.get(at::CHECKED..)),
        Some(sum) => {
            let head = of(batch.get(at::CHECKED..BATCH_HEAD_BYTES));
            // A batch is shorter than 2 GiB.
            checksum::join(head, sum, (batch.len() - BATCH_HEAD_BYTES) as u32)
        }
    };
    put(batch, at::CRC, &crc.to_be_bytes());
}

/// A few varints in a row. `N` is a power of two, so that a mask does for a check of bounds, and at
/// least the longest row.
struct Piece<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Piece<N> {
    #[inline]
    fn default() -> Self {
        Self { bytes: [0; N], len: 0 }
    }
}

impl<const N: usize> Piece<N> {
    #[inline]
    fn varint(&mut self, mut code: u64) {
        while code >= 0x80 {
            self.bytes[self.len & (N - 1)] = code as u8 | 0x80;
            self.len += 1;
            code >>= 7;
        }
        self.bytes[self.len & (N - 1)] = code as u8;
        self.len += 1;
    }

    /// Puts it at the start of `place` and gives what is left of it. Where there is room all `N`
    /// bytes are copied, which is a plain move; those that are too many are written over next.
    #[inline]
    fn put<'a>(&self, place: &'a mut [u8]) -> &'a mut [u8] {
        match place.first_chunk_mut::<N>() {
            Some(here) => {
                *here = self.bytes;
                place.get_mut(self.len..).unwrap_or_default()
            }
            None => put_bytes(place, self.bytes.get(..self.len).unwrap_or_default()),
        }
    }
}

/// Puts `bytes` at the start of `place` and gives what is left of it.
#[inline]
fn put_bytes<'a>(place: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let (here, rest) = place.split_at_mut_checked(bytes.len()).expect(ROOM);
    here.copy_from_slice(bytes);
    rest
}

/// Puts the variable-length form of `code` there.
#[inline]
fn put_varint(mut place: &mut [u8], mut code: u64) -> &mut [u8] {
    loop {
        let (byte, rest) = place.split_first_mut().expect(ROOM);
        place = rest;
        if code < 0x80 {
            *byte = code as u8;
            return place;
        }
        *byte = code as u8 | 0x80;
        code >>= 7;
    }
}

const ROOM: &str = "the size of the record was computed and room was made";

/// The zig-zag code of a signed value, small for values near zero.
#[inline]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// How many bytes the variable-length form of `code` takes.
#[inline]
fn varint_bytes(code: u64) -> u64 {
    if code < 0x80 {
        return 1;
    }
    let bits = u64::from(64 - code.leading_zeros());
    bits.div_ceil(7)
}

/// The code of a nullable field's length: null is -1, which is 1 in zig-zag.
#[inline]
fn length_code(field: Option<&[u8]>) -> u64 {
    field.map_or(1, |bytes| (bytes.len() as u64) << 1)
}

#[inline]
fn field_bytes(field: Option<&[u8]>) -> u64 {
    varint_bytes(length_code(field)) + field.map_or(0, |bytes| bytes.len() as u64)
}

#[inline]
fn headers_bytes(headers: &[Header<'_>]) -> u64 {
    let count = varint_bytes((headers.len() as u64) << 1);
    headers.iter().fold(count, |sum, header| {
        sum + field_bytes(Some(header.key.as_bytes())) + field_bytes(header.value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_on_the_way_is_the_sum_at_the_end() {
        for records in [1, 40, 200, 3000] {
            let build = |sums: bool| {
                let mut builder = BatchBuilder::new(Vec::new());
                if sums {
                    builder.sum_as_it_grows();
                }
                for i in 0..records {
                    let value = vec![i as u8; 100 + i % 7];
                    builder.append(1000 + i as i64, None, Some(&value), &[]).expect("it is short");
                }
                builder
            };
            for codec in [Compression::None, Compression::Lz4] {
                let mut compressor = Compressor::new();
                let plain = build(false).finish(codec, None, &mut compressor).expect("memory");
                let summed = build(true).finish(codec, None, &mut compressor).expect("memory");
                assert!(plain == summed, "{records} records, {codec}");

                let mut stamped = plain;
                stamp(&mut stamped, 7, 3, 99, false);
                let (mut other, sum) =
                    build(true).finish_without_crc(codec, None, &mut compressor).expect("memory");
                let is_long = records >= 200 && codec == Compression::None;
                assert_eq!(sum.is_some(), is_long, "{records} records, {codec}");
                for sequence in [5, 99] {
                    stamp_summed(&mut other, 7, 3, sequence, false, sum);
                }
                assert!(stamped == other, "{records} records, {codec}, stamped");
            }
        }
    }
}
