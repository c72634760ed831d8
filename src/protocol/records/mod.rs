//! Record batches (v2) and the older message sets, compression.

/// Codec of a record batch.
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
