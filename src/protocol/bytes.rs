//! [`Bytes`]: a shared, immutable piece of a buffer.
//!
//! A response is read into one buffer; record sets, batches and records are pieces of it. A
//! [`Bytes`] keeps its buffer alive and costs one reference count to clone or cut.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A shared, immutable piece of a buffer. Cheap to clone and to cut; `Send` and `Sync`.
///
/// ```
/// use ottla::protocol::Bytes;
///
/// let all = Bytes::from(b"abcdef".to_vec());
/// let middle = all.slice(2..4).expect("inside");
/// assert_eq!(&*middle, b"cd");
/// assert!(all.slice(4..9).is_none());
/// ```
#[derive(Clone, Default)]
pub struct Bytes {
    buffer: Arc<Vec<u8>>,
    start: usize,
    end: usize,
}

impl Bytes {
    /// An empty piece.
    pub fn new() -> Self {
        Self::default()
    }

    /// The part `range` of `buffer`, without a copy; `None` when the range is not inside it.
    ///
    /// For a buffer whose payload does not start at its first byte (response buffers start at an
    /// aligned address).
    pub fn from_part(buffer: Vec<u8>, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > buffer.len() {
            return None;
        }
        Some(Self { buffer: Arc::new(buffer), start: range.start, end: range.end })
    }

    /// A piece of this piece; `None` when the range is not inside it.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        Some(Self {
            buffer: Arc::clone(&self.buffer),
            start: self.start + range.start,
            end: self.start + range.end,
        })
    }

    /// The buffer itself, if nobody else holds a piece of it: for pools that use buffers again.
    pub fn into_buffer(self) -> Option<Vec<u8>> {
        Arc::try_unwrap(self.buffer).ok()
    }

    /// The bytes as a vector: the buffer itself if this is all of it and nobody else holds a piece,
    /// else a copy.
    ///
    /// # Panics
    /// Never: a piece is checked to be inside its buffer when it is made.
    pub fn into_vec(self) -> Vec<u8> {
        let Self { buffer, start, end } = self;
        if start == 0 && end == buffer.len() {
            Arc::unwrap_or_clone(buffer)
        } else {
            buffer.get(start..end).expect("checked when the piece was made").to_vec()
        }
    }

    /// How many bytes of memory the buffer behind this piece takes, shared or not.
    pub fn buffer_capacity(&self) -> usize {
        self.buffer.capacity()
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).expect("checked when the piece was made")
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(buffer: Vec<u8>) -> Self {
        let end = buffer.len();
        Self { buffer: Arc::new(buffer), start: 0, end }
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self::from(bytes.to_vec())
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// As many bytes as a line of a log can hold.
        const SHOWN: usize = 32;
        write!(f, "{} bytes", self.len())?;
        let shown = self.get(..SHOWN.min(self.len())).unwrap_or_default();
        write!(f, " [{}", shown.escape_ascii())?;
        if self.len() > SHOWN { f.write_str("...]") } else { f.write_str("]") }
    }
}
