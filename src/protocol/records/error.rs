//! [`RecordsError`]: what is wrong with a batch, and which offsets it concerns.

use std::fmt;

use thiserror::Error;

use super::Compression;
use crate::error::{Error, ErrorKind};
use crate::protocol::{DecodeError, DecodeErrorKind};

/// Why a record batch could not be read (or compressed), with the offsets it covers where known.
///
/// A reader that wants to go on all the same continues at `last_offset() + 1`.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordsError(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: RecordsErrorKind,
    base_offset: Option<i64>,
    last_offset: Option<i64>,
}

/// The kinds of [`RecordsError`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordsErrorKind {
    /// The bytes are not those that were stored.
    #[error("its checksum is {stored:#010x}, its bytes give {computed:#010x}")]
    BadCrc {
        /// The checksum in the batch.
        stored: u32,
        /// The checksum of the bytes that are there.
        computed: u32,
    },
    /// A record format that does not exist (or not yet).
    #[error("its format, magic {0}, is not known")]
    UnknownMagic(i8),
    /// A codec that does not exist (or not yet).
    #[error("its codec, number {0}, is not known")]
    UnknownCodec(u8),
    /// A codec that the batch's format does not have.
    #[error("magic {magic} has no codec {codec}")]
    CodecNotInFormat {
        /// The codec.
        codec: Compression,
        /// The record format.
        magic: i8,
    },
    /// Decompression would give more than the limit of the decompressor.
    #[error("it has more than {limit} bytes when decompressed, the limit")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The compressed bytes are damaged.
    #[error("its {codec} data is damaged: {reason}")]
    BadCompression {
        /// The codec.
        codec: Compression,
        /// What the codec found.
        reason: &'static str,
    },
    /// The codec failed to compress: it had no memory, or a setting is out of its range.
    #[error("{codec} compression failed: {reason}")]
    NotCompressed {
        /// The codec.
        codec: Compression,
        /// What the codec says.
        reason: &'static str,
    },
    /// A field is damaged.
    #[error("{0}")]
    Malformed(#[from] DecodeError),
}

impl RecordsError {
    /// The kind.
    pub fn kind(&self) -> &RecordsErrorKind {
        &self.0.kind
    }

    /// The first offset of the batch, where it is known.
    pub fn base_offset(&self) -> Option<i64> {
        self.0.base_offset
    }

    /// The last offset of the batch, where it is known: reading can go on after it.
    ///
    /// It comes from the damaged batch itself; when the checksum is wrong it may be wrong too.
    pub fn last_offset(&self) -> Option<i64> {
        self.0.last_offset
    }

    /// Adds the offsets, unless they are known already.
    #[must_use]
    pub(super) fn at(mut self, base_offset: i64, last_offset: Option<i64>) -> Self {
        self.0.base_offset.get_or_insert(base_offset);
        self.0.last_offset = self.0.last_offset.or(last_offset);
        self
    }

    /// A field `what` has the illegal `value`, at byte `position`.
    pub(super) fn illegal(what: &'static str, value: i64, position: usize) -> Self {
        let kind = DecodeErrorKind::IllegalValue { what, value };
        DecodeError { kind, position, field: None }.into()
    }
}

impl From<RecordsErrorKind> for RecordsError {
    fn from(kind: RecordsErrorKind) -> Self {
        Self(Box::new(Inner { kind, base_offset: None, last_offset: None }))
    }
}

impl From<DecodeError> for RecordsError {
    #[cold]
    fn from(error: DecodeError) -> Self {
        RecordsErrorKind::Malformed(error).into()
    }
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.base_offset, self.0.last_offset) {
            (Some(base), Some(last)) => write!(f, "the batch of offsets {base}..={last}")?,
            (Some(base), None) => write!(f, "the batch at offset {base}")?,
            _ => f.write_str("the batch")?,
        }
        write!(f, " cannot be used: {}", self.0.kind)
    }
}

impl fmt::Debug for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordsError({self})")
    }
}

impl std::error::Error for RecordsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            RecordsErrorKind::Malformed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RecordsError> for Error {
    fn from(error: RecordsError) -> Self {
        match error.kind() {
            RecordsErrorKind::NotCompressed { .. } => {
                Self::new(ErrorKind::InvalidInput, "the batch could not be compressed")
            }
            _ => Self::new(ErrorKind::Corrupt, "records could not be read"),
        }
        .with_source(error)
    }
}
