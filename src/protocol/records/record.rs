//! [`Records`] and [`RecordView`]: the records of a batch, read one by one without a copy.
//!
//! [`Records`] owns the bytes (a piece of the answer, or what decompression gave); the iterator
//! borrows from it and gives slices. A record is checked as a whole before it is given: its length
//! must be the sum of its fields, its headers included, so that a view never fails later.
//!
//! Invariant: offsets stay within the batch's range, and after the last record no byte is left.

use std::borrow::Cow;
use std::iter::FusedIterator;

use super::legacy;
use super::{BATCH_HEAD_BYTES, Decompressor, RecordBatch, RecordsError, TimestampType};
use crate::protocol::{Bytes, DecodeError, DecodeErrorKind, Decoded, Reader};

/// The smallest record: its length and six fields of a byte each.
const RECORD_BYTES_MIN: usize = 7;
/// The smallest header: two lengths.
const HEADER_BYTES_MIN: usize = 2;

/// The records of one batch. Iterate with [`Records::iter`], as often as need be.
#[derive(Clone, Debug)]
pub struct Records {
    body: Bytes,
    count: u32,
    layout: Layout,
}

/// How the records lie in the body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) magic: i8,
    /// The batch's range, which errors name; records of magic 2 must stay within it.
    pub(super) base_offset: i64,
    pub(super) last_offset: i64,
    /// What is added to the offset that a record carries.
    pub(super) base_shift: i64,
    /// What is added to the time that a record of magic 2 carries.
    pub(super) base_timestamp: i64,
    /// The time of all records, if it is the broker's.
    pub(super) append_timestamp: Option<i64>,
}

impl Layout {
    /// As the head of `batch` says.
    pub(super) fn of(batch: &RecordBatch) -> Self {
        let appended = batch.timestamp_type() == TimestampType::LogAppendTime;
        Self {
            magic: batch.magic,
            base_offset: batch.base_offset,
            last_offset: batch.last_offset,
            base_shift: batch.base_offset,
            base_timestamp: batch.base_timestamp,
            append_timestamp: appended.then_some(batch.max_timestamp),
        }
    }
}

impl Records {
    pub(super) fn new(body: Bytes, count: u32, layout: Layout) -> Self {
        Self { body, count, layout }
    }

    /// Those of a magic 2 batch.
    pub(super) fn of_batch(
        batch: &RecordBatch,
        decompressor: &mut Decompressor,
    ) -> Result<Self, RecordsError> {
        let stored =
            batch.bytes.slice(BATCH_HEAD_BYTES..batch.bytes.len()).expect("the head was read");
        let body = decompressor.decompress(batch.compression, batch.magic, &stored)?;
        let count = batch.record_count.unwrap_or_default();
        Reader::new(&body).check_count(u64::from(count), RECORD_BYTES_MIN)?;
        Ok(Self::new(body, count, Layout::of(batch)))
    }

    /// How many there are. True in so far as there are bytes for so many.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none, as compaction may leave it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Goes through the records.
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter {
            reader: Reader::new(&self.body),
            left: self.count,
            layout: self.layout,
            ended: false,
        }
    }

    /// Goes on where another iteration stopped: for owners that cannot keep a borrowed iterator.
    #[inline]
    pub(crate) fn resume(&self, cursor: RecordCursor) -> RecordIter<'_> {
        let mut reader = Reader::new(&self.body);
        let skipped = reader.take(cursor.position);
        debug_assert!(skipped.is_ok(), "a cursor belongs to the records it came from");
        RecordIter { reader, left: cursor.left, layout: self.layout, ended: cursor.ended }
    }

    /// The bytes of the records, after decompression.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// Gives up the records; their bytes can go back to [`Decompressor::recycle`].
    pub fn into_bytes(self) -> Bytes {
        self.body
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = Result<RecordView<'a>, RecordsError>;
    type IntoIter = RecordIter<'a>;

    fn into_iter(self) -> RecordIter<'a> {
        self.iter()
    }
}

/// A record, borrowed from the bytes it came in.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecordView<'a> {
    /// Its offset in the partition.
    pub offset: i64,
    /// Its time in milliseconds, negative where there is none (-1) or before 1970.
    pub timestamp_ms: i64,
    /// The key; null and empty differ.
    pub key: Option<&'a [u8]>,
    /// The value; null (a tombstone) and empty differ.
    pub value: Option<&'a [u8]>,
    /// The headers, in order, repeated keys included.
    pub headers: Headers<'a>,
}

/// Goes through the records of a batch. After an error nothing follows.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    reader: Reader<'a>,
    left: u32,
    layout: Layout,
    ended: bool,
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<RecordView<'a>, RecordsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return self.end();
        }
        self.left -= 1;
        if self.layout.magic == 2
            && let Some(record) = read_usual(&mut self.reader, &self.layout)
        {
            return Some(Ok(record));
        }
        Some(self.read())
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        // One more for an error after the last record.
        (0, (self.left as usize).checked_add(1))
    }
}

impl FusedIterator for RecordIter<'_> {}

/// Where an iteration stands, apart from the records themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordCursor {
    position: usize,
    left: u32,
    ended: bool,
}

impl<'a> RecordIter<'a> {
    #[inline(never)]
    fn read(&mut self) -> Result<RecordView<'a>, RecordsError> {
        let record = if self.layout.magic == 2 {
            read_record(&mut self.reader, &self.layout)
        } else {
            legacy::read_record(&mut self.reader, &self.layout)
        };
        record.map_err(|error| self.fail(error))
    }

    /// Where it stands, for [`Records::resume`].
    #[inline]
    pub(crate) fn cursor(&self) -> RecordCursor {
        RecordCursor { position: self.reader.position(), left: self.left, ended: self.ended }
    }

    /// After the last record: once an error if bytes are left.
    #[inline]
    fn end(&mut self) -> Option<Result<RecordView<'a>, RecordsError>> {
        if self.ended || self.reader.remaining() == 0 {
            return None;
        }
        let left = DecodeErrorKind::TrailingBytes(self.reader.remaining());
        let error = self.reader.error(left);
        Some(Err(self.fail(error)))
    }

    #[cold]
    fn fail(&mut self, error: DecodeError) -> RecordsError {
        self.ended = true;
        self.left = 0;
        RecordsError::from(error).at(self.layout.base_offset, Some(self.layout.last_offset))
    }
}

/// How many bytes the fields before the value of a usual record may take, and then that of its
/// value's length: varints of three bytes, which is up to 2^20.
const USUAL_HEAD_BYTES: usize = 16;
const USUAL_LENGTH_BYTES: usize = 4;

/// A record of magic 2 without headers, with short lengths and deltas, and not at the end of the
/// batch: nearly every record. `None`, and nothing read, for any other one and for damage: the
/// decision is [`read_record`]'s, and what this function gives is what that one would give.
///
/// Twice as fast because the varints are taken from an array of fixed size, which needs one
/// check of bounds. Inlined by force: the view is then never moved through memory.
#[expect(clippy::inline_always, reason = "measured: 10 ns a record against 19 ns")]
#[inline(always)]
fn read_usual<'a>(reader: &mut Reader<'a>, layout: &Layout) -> Option<RecordView<'a>> {
    let rest = reader.rest();
    let head = rest.first_chunk::<USUAL_HEAD_BYTES>()?;
    let mut at = 0;
    let length = short_varint(head, &mut at)?;
    let start = at;
    // The attributes.
    at += 1;
    let timestamp_delta = unzigzag(short_varint(head, &mut at)?);
    let offset_delta = unzigzag(short_varint(head, &mut at)?);
    let key_length = short_varint(head, &mut at)?;
    let (key, value_length) = if key_length == NULL_CODE {
        (None, short_varint(head, &mut at)?)
    } else {
        let key = piece(rest, &mut at, key_length)?;
        let mut within = 0;
        let length = rest.get(at..)?.first_chunk::<USUAL_LENGTH_BYTES>()?;
        let value_length = short_varint(length, &mut within)?;
        at += within;
        (key, value_length)
    };
    let value = piece(rest, &mut at, value_length)?;
    if *rest.get(at)? != 0 {
        return None;
    }
    at += 1;
    let offset = layout.base_shift.wrapping_add(offset_delta);
    if length != ((at - start) << 1) || offset < layout.base_offset || offset > layout.last_offset {
        return None;
    }
    let timestamp_ms = match layout.append_timestamp {
        Some(appended) => appended,
        None => layout.base_timestamp.wrapping_add(timestamp_delta),
    };
    reader.skip(at);
    Some(RecordView { offset, timestamp_ms, key, value, headers: Headers::default() })
}

/// The zig-zag code of -1, the length of null.
const NULL_CODE: usize = 1;

/// The code of a varint of at most three bytes that lies in `window`, whose size is a power of two
/// (so that the mask changes nothing and the compiler sees that the index is inside).
#[expect(clippy::inline_always, reason = "part of the loop over records")]
#[inline(always)]
fn short_varint<const N: usize>(window: &[u8; N], at: &mut usize) -> Option<usize> {
    let mut code = 0;
    for shift in [0, 7, 14] {
        let byte = usize::from(window[*at & (N - 1)]);
        *at += 1;
        code |= (byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(code);
        }
    }
    None
}

#[inline]
fn unzigzag(code: usize) -> i64 {
    (code >> 1) as i64 ^ -((code & 1) as i64)
}

/// The bytes of a key or value whose length has this code, at `at`, which is moved behind them.
#[expect(clippy::inline_always, reason = "part of the loop over records")]
#[expect(clippy::option_option, reason = "null is a value; the outer one is whether it was read")]
#[inline(always)]
fn piece<'a>(rest: &'a [u8], at: &mut usize, code: usize) -> Option<Option<&'a [u8]>> {
    if code & 1 == 1 {
        return (code == NULL_CODE).then_some(None);
    }
    let end = *at + (code >> 1);
    let bytes = rest.get(*at..end)?;
    *at = end;
    Some(Some(bytes))
}

/// One record of magic 2, whatever it is.
fn read_record<'a>(reader: &mut Reader<'a>, layout: &Layout) -> Decoded<RecordView<'a>> {
    let length = reader.varint()?;
    let length = usize::try_from(length)
        .map_err(|_| reader.error(DecodeErrorKind::IllegalLength(i64::from(length))))?;
    let start = reader.position();
    let mut fields = Reader::new(reader.take(length)?);
    read_fields(&mut fields, layout).map_err(|error| shifted(error, start))
}

#[cold]
fn shifted(error: DecodeError, start: usize) -> DecodeError {
    DecodeError { position: error.position + start, ..error }
}

fn read_fields<'a>(fields: &mut Reader<'a>, layout: &Layout) -> Decoded<RecordView<'a>> {
    // No bit of a record's attributes has a meaning yet.
    fields.u8()?;
    let timestamp_delta = fields.varlong()?;
    let offset_delta = fields.varint()?;
    let key = nullable(fields)?;
    let value = nullable(fields)?;
    let headers = read_headers(fields)?;
    let offset = layout.base_shift.wrapping_add(i64::from(offset_delta));
    if offset < layout.base_offset || offset > layout.last_offset {
        return Err(fields.error(DecodeErrorKind::IllegalValue {
            what: "offset_delta",
            value: i64::from(offset_delta),
        }));
    }
    let timestamp_ms = match layout.append_timestamp {
        Some(appended) => appended,
        None => layout.base_timestamp.wrapping_add(timestamp_delta),
    };
    Ok(RecordView { offset, timestamp_ms, key, value, headers })
}

/// A key or value: length -1 is null, anything below it is damage.
fn nullable<'a>(fields: &mut Reader<'a>) -> Decoded<Option<&'a [u8]>> {
    let length = fields.varint()?;
    match usize::try_from(length) {
        Ok(length) => fields.take(length).map(Some),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(fields.error(DecodeErrorKind::IllegalLength(i64::from(length)))),
    }
}

/// The headers and the end of the record.
fn read_headers<'a>(fields: &mut Reader<'a>) -> Decoded<Headers<'a>> {
    let count = fields.varint()?;
    if count == 0 && fields.remaining() == 0 {
        return Ok(Headers::default());
    }
    check_headers(fields, count)
}

fn check_headers<'a>(fields: &mut Reader<'a>, count: i32) -> Decoded<Headers<'a>> {
    let count = u32::try_from(count)
        .map_err(|_| fields.error(DecodeErrorKind::IllegalLength(i64::from(count))))?;
    fields.check_count(u64::from(count), HEADER_BYTES_MIN)?;
    let bytes = fields.clone().take(fields.remaining())?;
    for _ in 0..count {
        read_header(fields)?;
    }
    fields.clone().finish()?;
    Ok(Headers { bytes, count })
}

fn read_header<'a>(fields: &mut Reader<'a>) -> Decoded<HeaderView<'a>> {
    let Some(key_bytes) = nullable(fields)? else {
        return Err(fields.error(DecodeErrorKind::IllegalNull).in_field("RecordHeader.key"));
    };
    Ok(HeaderView { key_bytes, value: nullable(fields)? })
}

/// The headers of a record, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Headers<'a> {
    /// The bytes and the number, for an owner that keeps them apart.
    pub(crate) fn raw(&self) -> (&'a [u8], u32) {
        (self.bytes, self.count)
    }

    /// The headers that [`Headers::raw`] gave the parts of.
    pub(crate) fn from_raw(bytes: &'a [u8], count: u32) -> Self {
        Self { bytes, count }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Goes through them.
    pub fn iter(&self) -> HeaderIter<'a> {
        HeaderIter { reader: Reader::new(self.bytes), left: self.count }
    }

    /// The last one of that key: the one that counts where keys repeat.
    pub fn last(&self, key: &str) -> Option<HeaderView<'a>> {
        self.iter().filter(|header| header.key_bytes == key.as_bytes()).last()
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = HeaderView<'a>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Headers<'a> {
    type Item = HeaderView<'a>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

/// Goes through the headers of a record.
#[derive(Clone, Debug)]
pub struct HeaderIter<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = HeaderView<'a>;

    fn next(&mut self) -> Option<HeaderView<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(read_header(&mut self.reader).expect("headers are checked when a record is read"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for HeaderIter<'_> {}
impl FusedIterator for HeaderIter<'_> {}

/// A header of a record that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderView<'a> {
    /// The key as it is stored. Kafka means UTF-8, but no broker checks it.
    pub key_bytes: &'a [u8],
    /// The value; null and empty differ.
    pub value: Option<&'a [u8]>,
}

impl<'a> HeaderView<'a> {
    /// The key; what is not UTF-8 is replaced by U+FFFD, as Kafka's Java client does.
    pub fn key(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.key_bytes)
    }
}

/// Reads `body` both ways: where the quick one gives a record, the careful one must give the same.
#[cfg(test)]
pub(super) fn check_quick_way(body: &[u8], records: usize) {
    let last_offset = records as i64;
    let layout = Layout {
        magic: 2,
        base_offset: 0,
        last_offset,
        base_shift: 0,
        base_timestamp: 5,
        append_timestamp: None,
    };
    let mut reader = Reader::new(body);
    for _ in 0..records {
        let mut careful = reader.clone();
        let expected = read_record(&mut careful, &layout);
        if let Some(quick) = read_usual(&mut reader, &layout) {
            let expected = expected.expect("the quick way gave a record");
            let fields = |view: &RecordView<'_>| (view.offset, view.timestamp_ms);
            assert_eq!(fields(&quick), fields(&expected));
            assert_eq!((quick.key, quick.value), (expected.key, expected.value));
            assert!(quick.headers.is_empty() && expected.headers.is_empty());
            assert_eq!(reader.position(), careful.position());
        } else if expected.is_ok() {
            reader = careful;
        } else {
            return;
        }
    }
}
