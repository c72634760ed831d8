//! [`RecordBatches`]: finds the entries in the bytes of a Fetch answer.
//!
//! A broker copies the log as it is and cuts it at the size limit, so the last entry is often
//! incomplete: that ends the iteration without an error, and [`RecordBatches::incomplete`] says how
//! much was missing. Everything else that does not fit is damage and gives an error; nothing after
//! it is delivered, because a reader that goes on must say so (it asks again, from the offset after
//! the error's range).
//!
//! Runs on the caller's thread. Knows one partition's bytes and nothing of any other.
//!
//! Invariant: every step either consumes a whole entry or is the last one.

use super::{RecordBatch, RecordsError, RecordsErrorKind, at};
use crate::protocol::{Bytes, DecodeErrorKind, Reader};

/// Bytes up to and including the magic byte: what is needed to tell the formats apart.
const ENTRY_HEAD_BYTES: usize = at::MAGIC + 1;
/// What the length field of an entry must be at least, by magic.
const LENGTH_MIN: [i32; 3] = [14, 22, 49];

/// The batches in one partition's part of a Fetch answer, in order.
///
/// After an error nothing follows. Checksums are compared before a batch is given, unless
/// [`without_crc_check`](Self::without_crc_check) was called.
///
/// ```
/// use ottla::protocol::Bytes;
/// use ottla::protocol::records::{BatchBuilder, Compression, Compressor, Decompressor, RecordBatches};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut builder = BatchBuilder::new(Vec::new());
/// builder.append(1_000, None, Some(b"hello"), &[])?;
/// let bytes = builder.finish(Compression::None, None, &mut Compressor::new())?;
///
/// let mut decompressor = Decompressor::new();
/// for batch in RecordBatches::new(Bytes::from(bytes)) {
///     let batch = batch?;
///     for record in &batch.records(&mut decompressor)? {
///         assert_eq!(record?.value, Some(&b"hello"[..]));
///     }
///     let _next_position = batch.last_offset() + 1;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RecordBatches {
    bytes: Bytes,
    position: usize,
    check_crcs: bool,
    failed: bool,
}

/// The entry at the end of an answer that is not there as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incomplete {
    /// Its first offset (its last one for a compressed set of the older formats), if there.
    pub offset: Option<i64>,
    /// How many of its bytes are there.
    pub present: usize,
    /// How many it has, or at least has while its length field is not there.
    pub needed: usize,
}

impl RecordBatches {
    /// The batches in `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, position: 0, check_crcs: true, failed: false }
    }

    /// Leaves the checksums of the batches alone (`check.crcs=false`). What the codecs check
    /// themselves is still checked.
    #[must_use]
    pub fn without_crc_check(mut self) -> Self {
        self.check_crcs = false;
        self
    }

    /// The cut entry at the end, once all whole ones were given.
    ///
    /// When it is the only one, the reader must ask for more bytes: `needed` of them.
    pub fn incomplete(&self) -> Option<Incomplete> {
        if self.failed {
            return None;
        }
        match self.entry() {
            Ok(Entry::Cut(incomplete)) => Some(incomplete),
            _ => None,
        }
    }

    /// What stands at the present position.
    fn entry(&self) -> Result<Entry, RecordsError> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(Entry::End);
        }
        let mut reader = Reader::new(rest);
        let offset = reader.i64().ok();
        let length = reader.i32().ok();
        let magic = rest.get(at::MAGIC).map(|byte| *byte as i8);
        let present = rest.len();
        let (Some(offset), Some(length), Some(magic)) = (offset, length, magic) else {
            let total = length.and_then(|length| usize::try_from(length).ok());
            let needed = total.map_or(0, |length| length.saturating_add(at::LENGTH.end));
            let needed = needed.max(ENTRY_HEAD_BYTES);
            return Ok(Entry::Cut(Incomplete { offset, present, needed }));
        };
        let Some(length_min) = usize::try_from(magic).ok().and_then(|at| LENGTH_MIN.get(at)) else {
            return Err(RecordsError::from(RecordsErrorKind::UnknownMagic(magic)).at(offset, None));
        };
        if length < *length_min {
            let kind = DecodeErrorKind::IllegalLength(i64::from(length));
            let error = crate::protocol::DecodeError {
                kind,
                position: self.position + at::LENGTH.start,
                field: Some("RecordBatch.batch_length"),
            };
            return Err(RecordsError::from(error).at(offset, None));
        }
        let size = (length as usize).saturating_add(at::LENGTH.end);
        if size > present {
            return Ok(Entry::Cut(Incomplete { offset: Some(offset), present, needed: size }));
        }
        Ok(Entry::Whole { size })
    }

    fn take(&mut self) -> Result<Option<RecordBatch>, RecordsError> {
        let Entry::Whole { size } = self.entry()? else {
            return Ok(None);
        };
        let end = self.position + size;
        let bytes = self.bytes.slice(self.position..end).expect("the entry is all there");
        let batch = RecordBatch::read(bytes, self.check_crcs)?;
        self.position = end;
        Ok(Some(batch))
    }
}

/// What stands at a position of the bytes.
enum Entry {
    End,
    Cut(Incomplete),
    Whole { size: usize },
}

impl Iterator for RecordBatches {
    type Item = Result<RecordBatch, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let taken = self.take();
        self.failed = taken.is_err();
        taken.transpose()
    }
}

impl std::iter::FusedIterator for RecordBatches {}
