//! Record batches: how records lie in a Produce request and in the answer to a Fetch.
//!
//! ```text
//! write:  BatchBuilder --append--> records in one buffer --finish(codec)--> batch --stamp--> frame
//! read:   Bytes of an answer --RecordBatches--> RecordBatch --records()--> Records --iter--> RecordView
//! ```
//!
//! Written is the format of Kafka 0.11 and later (magic 2, KIP-98, KIP-82) only. Read are magic 2, 1
//! and 0, told apart entry by entry by the byte that all of them have at the same place: a log that
//! lived through an upgrade mixes them, whatever version the request had.
//!
//! Whose work is where: `builder` writes, and `checksum` joins the sums of its parts; `batches` finds the entries in an answer and checks their
//! checksums; `batch` is one entry with its head; `record` reads records of magic 2, `legacy` those
//! of 0 and 1; `compression` has one file per codec; `error` says what is damaged and where.
//!
//! Pure: no I/O, no clock, no thread. A [`Compressor`] and a [`Decompressor`] keep contexts and
//! buffers between batches; each belongs to one thread at a time.
//!
//! Invariant of reading: any bytes give records or a typed error that names the offsets concerned,
//! without a panic, an endless loop, or memory beyond what is there (and, for compressed batches,
//! beyond the limit of the [`Decompressor`]). Damage in the middle is never taken for the cut tail
//! that brokers leave at the size limit of an answer.

#[cfg(any(test, feature = "broker"))]
pub(crate) mod assign;
mod batch;
mod batches;
mod builder;
mod checksum;
mod compression;
mod error;
mod legacy;
mod record;

pub use batch::{ControlKind, RecordBatch, TimestampType};
pub use batches::{Incomplete, RecordBatches};
pub(crate) use builder::stamp_summed;
pub use builder::{BatchBuilder, Header, stamp};
pub use compression::{Compression, Compressor, DECOMPRESSED_BYTES_MAX_DEFAULT, Decompressor};
pub use error::{RecordsError, RecordsErrorKind};
pub(crate) use record::RecordCursor;
pub use record::{HeaderIter, HeaderView, Headers, RecordIter, RecordView, Records};

/// Bytes before the records of a magic 2 batch.
pub const BATCH_HEAD_BYTES: usize = 61;

/// Where the fields of a magic 2 batch begin. The first five are common to all formats in place.
mod at {
    use std::ops::Range;

    pub(super) const LENGTH: Range<usize> = 8..12;
    pub(super) const LEADER_EPOCH: Range<usize> = 12..16;
    pub(super) const MAGIC: usize = 16;
    pub(super) const CRC: Range<usize> = 17..21;
    /// The checksum covers everything from here on.
    pub(super) const CHECKED: usize = 21;
    pub(super) const ATTRIBUTES: Range<usize> = 21..23;
    pub(super) const LAST_OFFSET_DELTA: Range<usize> = 23..27;
    pub(super) const BASE_TIMESTAMP: Range<usize> = 27..35;
    pub(super) const MAX_TIMESTAMP: Range<usize> = 35..43;
    pub(super) const PRODUCER_ID: Range<usize> = 43..51;
    pub(super) const PRODUCER_EPOCH: Range<usize> = 51..53;
    pub(super) const BASE_SEQUENCE: Range<usize> = 53..57;
    pub(super) const RECORD_COUNT: Range<usize> = 57..61;
}

/// Bits of a batch's attributes.
mod attribute {
    pub(super) const CODEC: i16 = 0x07;
    pub(super) const LOG_APPEND_TIME: i16 = 0x08;
    pub(super) const TRANSACTIONAL: i16 = 0x10;
    pub(super) const CONTROL: i16 = 0x20;
    /// The base timestamp is the time after which tombstones may go (KIP-534).
    pub(super) const DELETE_HORIZON: i16 = 0x40;
}

/// Value of the producer fields and the leader epoch where there is none.
const NONE: i32 = -1;

#[cfg(test)]
mod tests;
