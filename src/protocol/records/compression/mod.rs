//! The codecs of record batches: [`Compression`] names them, [`Compressor`] and [`Decompressor`]
//! keep their contexts and buffers between batches. One file per codec; each knows its own framing
//! and nothing of batches.
//!
//! A context costs more to make than a small batch costs to compress, so both are made once per
//! thread and used again; a codec's context is made when it is first needed.
//!
//! Invariant of decompression: memory grows with what was really decompressed, to at most the limit
//! and a factor; a size that the bytes announce is never trusted.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::fmt;
use std::str::FromStr;

use super::{RecordsError, RecordsErrorKind};
use crate::error::{Error, ErrorKind};
use crate::protocol::Bytes;

/// How large a batch may be when decompressed, in bytes, unless set otherwise: 128 MiB.
///
/// Brokers take batches of 1 MiB by default, as they are stored, which codecs can make from about a
/// thousand times as much. Producers stop at 1 MiB before compression; 128 times that is for the
/// unusual ones.
pub const DECOMPRESSED_BYTES_MAX_DEFAULT: usize = 128 * 1024 * 1024;

/// Codec of a record batch. Its text form is the one in Kafka's configuration: `none`, `gzip`,
/// `snappy`, `lz4`, `zstd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Records as they are.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy blocks in the container of the JVM library, or one bare block.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// Zstandard; brokers from 2.1.
    Zstd,
}

impl Compression {
    /// All codecs, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The number in the attributes of a batch.
    pub fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec of that number, if there is one.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|codec| codec.to_string() == name).ok_or_else(|| {
            let known = "none, gzip, snappy, lz4 and zstd";
            Error::new(ErrorKind::Config, format!("no codec is called {name:?}; there are {known}"))
        })
    }
}

/// Compresses the records of batches; keeps its contexts and its output buffer for the next one.
///
/// `Send`, used by one thread at a time. Holds as much memory as the largest result needed.
#[derive(Default)]
pub struct Compressor {
    output: Vec<u8>,
    gzip: gzip::Encoder,
    snappy: snappy::Encoder,
    lz4: lz4::Encoder,
    zstd: zstd::Encoder,
}

impl Compressor {
    /// Without contexts yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compresses `input` into one stream. `level` is for gzip and zstd; they take the nearest one
    /// they have.
    ///
    /// # Errors
    /// [`RecordsErrorKind::NotCompressed`] when the codec has no memory.
    pub(super) fn compress(
        &mut self,
        codec: Compression,
        level: Option<i32>,
        input: &[u8],
    ) -> Result<&[u8], RecordsError> {
        let output = &mut self.output;
        let written = match codec {
            Compression::None => {
                output.clear();
                output.extend_from_slice(input);
                Ok(input.len())
            }
            Compression::Gzip => self.gzip.encode(level, input, output),
            Compression::Snappy => self.snappy.encode(input, output),
            Compression::Lz4 => self.lz4.encode(input, output),
            Compression::Zstd => self.zstd.encode(level, input, output),
        };
        match written {
            Ok(written) => Ok(output.get(..written).unwrap_or_default()),
            Err(reason) => Err(RecordsErrorKind::NotCompressed { codec, reason }.into()),
        }
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("buffer_bytes", &self.output.len())
            .finish_non_exhaustive()
    }
}

/// Puts `bytes` at the start of `place` and gives what is left of it.
fn put<'a>(place: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let (head, rest) = place.split_at_mut(bytes.len());
    head.copy_from_slice(bytes);
    rest
}

/// Makes `output` at least `size` bytes long. It never becomes shorter, so that it is zeroed once.
fn room(output: &mut Vec<u8>, size: usize) {
    if output.len() < size {
        output.resize(size, 0);
    }
}

/// Decompresses batches, each to at most a limit; keeps its contexts for the next one.
///
/// `Send`, used by one thread at a time.
pub struct Decompressor {
    output_bytes_max: usize,
    /// A buffer that was given back.
    spare: Vec<u8>,
    gzip: gzip::Decoder,
    snappy: snappy::Decoder,
    zstd: zstd::Decoder,
}

impl Decompressor {
    /// With the limit [`DECOMPRESSED_BYTES_MAX_DEFAULT`].
    pub fn new() -> Self {
        Self::with_limit(DECOMPRESSED_BYTES_MAX_DEFAULT)
    }

    /// With the limit of `output_bytes_max` bytes per batch.
    pub fn with_limit(output_bytes_max: usize) -> Self {
        Self {
            output_bytes_max,
            spare: Vec::new(),
            gzip: gzip::Decoder::default(),
            snappy: snappy::Decoder::default(),
            zstd: zstd::Decoder::default(),
        }
    }

    /// Takes back the bytes of records that are done with, to decompress the next batch into their
    /// buffer. Does nothing when somebody else still holds a piece of it.
    pub fn recycle(&mut self, bytes: Bytes) {
        if let Some(buffer) = bytes.into_buffer()
            && buffer.capacity() > self.spare.capacity()
        {
            self.spare = buffer;
        }
    }

    /// What `stored` holds; the bytes themselves when there is no codec.
    pub(super) fn decompress(
        &mut self,
        codec: Compression,
        magic: i8,
        stored: &Bytes,
    ) -> Result<Bytes, RecordsError> {
        let limit = self.output_bytes_max;
        let mut buffer = std::mem::take(&mut self.spare);
        buffer.clear();
        let mut output = Output { bytes: buffer, limit };
        let decoded = match codec {
            Compression::None => {
                self.spare = output.bytes;
                return Ok(stored.clone());
            }
            Compression::Gzip => self.gzip.decode(stored, &mut output),
            Compression::Snappy => self.snappy.decode(stored, &mut output),
            Compression::Lz4 => {
                let check = if magic == 0 { lz4::HeadCheck::Ignored } else { lz4::HeadCheck::Made };
                lz4::decode(stored, check, &mut output)
            }
            Compression::Zstd => self.zstd.decode(stored, &mut output),
        };
        match decoded {
            Ok(()) if output.bytes.len() <= limit => Ok(Bytes::from(output.bytes)),
            Ok(()) | Err(Fault::TooLarge) => Err(RecordsErrorKind::TooLarge { limit }.into()),
            Err(Fault::Damaged(reason)) => {
                Err(RecordsErrorKind::BadCompression { codec, reason }.into())
            }
        }
    }
}

impl Default for Decompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor")
            .field("output_bytes_max", &self.output_bytes_max)
            .finish_non_exhaustive()
    }
}

/// Why decompression ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    TooLarge,
    Damaged(&'static str),
}

/// Where a codec puts what it decompressed.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
}

impl Output {
    /// How much may still come.
    fn left(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }

    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.len() > self.left() {
            return Err(Fault::TooLarge);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends what `fill` writes into `size` zeroed bytes: it gets those and what stands before
    /// them, and says how many it wrote.
    fn put_with<E>(
        &mut self,
        size: usize,
        fill: impl FnOnce(&mut [u8], &[u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        self.bytes.resize(start + size, 0);
        let (before, place) = self.bytes.split_at_mut(start);
        let filled = fill(place, before);
        let written = filled.as_ref().map_or(0, |written| (*written).min(size));
        self.bytes.truncate(start + written);
        filled.map(|_| ())
    }
}
