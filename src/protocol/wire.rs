//! The primitive types of the wire: one bounds-checked [`Reader`], one [`Writer`], one pair of
//! errors. Everything that turns bytes into values or back goes through here.
//!
//! All integers are big-endian; `uvarint` is unsigned LEB128 of at most five bytes; `varint` and
//! `varlong` are zig-zag LEB128 of at most five and ten bytes (they occur inside record batches
//! only). See the protocol guide of Apache Kafka and KIP-482 (flexible versions).
//!
//! Reading is total: any bytes give a value or a [`DecodeError`]; nothing is reserved for a length
//! or count that the remaining bytes cannot hold.

use thiserror::Error;

use super::Bytes;

/// Longest string that Kafka takes, in bytes, in the classic and in the compact form.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Payloads from this size on are not copied into the frame but sent from where they are.
const SHARED_BYTES_MIN: usize = 1024;

/// Why bytes could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind} at byte {position}{}", field.map(|f| format!(" in {f}")).unwrap_or_default())]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// Where, counted from the start of the bytes that were being read.
    pub position: usize,
    /// The innermost field, as `Message.field`, where it is known.
    pub field: Option<&'static str>,
}

/// The kinds of [`DecodeError`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The value goes on past the end of the bytes.
    #[error("{needed} bytes are needed, {remaining} are left")]
    Truncated {
        /// How many bytes the value needs from here, as far as it is known.
        needed: usize,
        /// How many there are.
        remaining: usize,
    },
    /// Bytes are left after the last field.
    #[error("{0} bytes are left over")]
    TrailingBytes(usize),
    /// A length is negative where that is illegal, or beyond its type.
    #[error("illegal length {0}")]
    IllegalLength(i64),
    /// More elements are announced than the remaining bytes can hold.
    #[error("{count} elements cannot fit in {remaining} bytes")]
    ImpossibleCount {
        /// The number announced.
        count: u64,
        /// The bytes that are left.
        remaining: usize,
    },
    /// Null where the version allows none.
    #[error("null is illegal here")]
    IllegalNull,
    /// A string is not UTF-8.
    #[error("the string is not UTF-8")]
    NotUtf8,
    /// A variable-length integer does not end, or does not fit its type.
    #[error("the variable-length integer is too long")]
    VarintTooLong,
    /// Tags of a tagged-field section do not ascend.
    #[error("tag {0} is out of order")]
    TagOrder(u32),
    /// A tagged field's content is not as long as announced.
    #[error("tagged field {0} has another size than announced")]
    TagSize(u32),
    /// The message has no such version.
    #[error("version {0} does not exist")]
    UnknownVersion(i16),
    /// A value outside of what the format defines.
    #[error("illegal value {value} for {what}")]
    IllegalValue {
        /// What it stands for.
        what: &'static str,
        /// The value.
        value: i64,
    },
}

impl DecodeError {
    /// Names the field, unless a deeper one is named.
    #[must_use]
    pub(crate) fn in_field(mut self, field: &'static str) -> Self {
        self.field.get_or_insert(field);
        self
    }
}

/// Why a value could not be encoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind}{}", field.map(|f| format!(" in {f}")).unwrap_or_default())]
pub struct EncodeError {
    /// What is wrong.
    pub kind: EncodeErrorKind,
    /// The innermost field, as `Message.field`, where it is known.
    pub field: Option<&'static str>,
}

/// The kinds of [`EncodeError`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// A string has more bytes than Kafka takes.
    #[error("a string of {0} bytes is too long, the limit is 32767")]
    StringTooLong(usize),
    /// More than an `int32` can count.
    #[error("{0} bytes or elements are too many")]
    TooLong(usize),
    /// Null where the version allows none.
    #[error("null is illegal in version {0}")]
    IllegalNull(i16),
    /// The version has no such field, and leaving the value out would change the meaning.
    #[error("version {0} cannot carry this value")]
    NotInVersion(i16),
    /// The message has no such version.
    #[error("version {0} does not exist")]
    UnknownVersion(i16),
    /// Two tagged fields of one struct have this tag.
    #[error("tag {0} occurs twice")]
    RepeatedTag(u32),
}

impl EncodeErrorKind {
    pub(crate) fn error(self) -> EncodeError {
        EncodeError { kind: self, field: None }
    }
}

impl EncodeError {
    /// Names the field, unless a deeper one is named.
    #[must_use]
    pub(crate) fn in_field(mut self, field: &'static str) -> Self {
        self.field.get_or_insert(field);
        self
    }
}

/// Reads primitive values from a piece of bytes, front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// The shared buffer that `bytes` is, so that payloads become pieces of it, not copies.
    origin: Option<&'a Bytes>,
}

/// What reading gives.
pub type Decoded<T> = Result<T, DecodeError>;

macro_rules! read_integer {
    ($($(#[$doc:meta])* $name:ident $type:ty;)+) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// When fewer bytes are left.
        #[inline]
        pub fn $name(&mut self) -> Decoded<$type> {
            Ok(<$type>::from_be_bytes(self.array()?))
        }
    )+};
}

impl<'a> Reader<'a> {
    /// Reads from plain bytes; payloads are copied.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0, origin: None }
    }

    /// Reads from a shared buffer; payloads become pieces of it.
    pub fn shared(bytes: &'a Bytes) -> Self {
        Self { bytes, position: 0, origin: Some(bytes) }
    }

    /// How many bytes were read.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// What is left, as it is.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// Passes over the next `count` bytes, or what is left of them.
    #[inline]
    pub(crate) fn skip(&mut self, count: usize) {
        self.position += count.min(self.remaining());
    }

    /// An error at the present position.
    pub(crate) fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { kind, position: self.position, field: None }
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize) -> Decoded<&'a [u8]> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        match rest.get(..count) {
            Some(taken) => {
                self.position += count;
                Ok(taken)
            }
            None => Err(self.truncated(count)),
        }
    }

    #[cold]
    fn truncated(&self, needed: usize) -> DecodeError {
        self.error(DecodeErrorKind::Truncated { needed, remaining: self.remaining() })
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        match self.bytes.get(self.position..).and_then(<[u8]>::first_chunk::<N>) {
            Some(chunk) => {
                self.position += N;
                Ok(*chunk)
            }
            None => Err(self.truncated(N)),
        }
    }

    read_integer! {
        /// A signed 8-bit integer.
        i8 i8;
        /// An unsigned 8-bit integer.
        u8 u8;
        /// A signed 16-bit integer.
        i16 i16;
        /// An unsigned 16-bit integer.
        u16 u16;
        /// A signed 32-bit integer.
        i32 i32;
        /// An unsigned 32-bit integer.
        u32 u32;
        /// A signed 64-bit integer.
        i64 i64;
    }

    /// Sixteen bytes, as a UUID is written.
    ///
    /// # Errors
    /// When fewer bytes are left.
    pub fn uuid_bytes(&mut self) -> Decoded<[u8; 16]> {
        self.array()
    }

    /// An unsigned variable-length integer of at most five bytes.
    ///
    /// # Errors
    /// When it does not end in time or is beyond 32 bits.
    #[inline]
    pub fn uvarint(&mut self) -> Decoded<u32> {
        let value = self.leb128(5)?;
        u32::try_from(value).map_err(|_| self.error(DecodeErrorKind::VarintTooLong))
    }

    /// A zig-zag variable-length integer of at most five bytes.
    ///
    /// # Errors
    /// When it does not end in time or is beyond 32 bits.
    #[inline]
    pub fn varint(&mut self) -> Decoded<i32> {
        let value = self.uvarint()?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// A zig-zag variable-length integer of at most ten bytes.
    ///
    /// # Errors
    /// When it does not end in time or is beyond 64 bits.
    #[inline]
    pub fn varlong(&mut self) -> Decoded<i64> {
        let value = self.leb128(10)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    #[inline]
    fn leb128(&mut self, bytes_max: u32) -> Decoded<u64> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for index in 1..bytes_max {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * index;
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(DecodeErrorKind::VarintTooLong))
    }

    /// The next `count` bytes as a payload: a piece of the shared buffer where there is one.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn payload(&mut self, count: usize) -> Decoded<Bytes> {
        let start = self.position;
        let taken = self.take(count)?;
        Ok(match self.origin.and_then(|origin| origin.slice(start..start + count)) {
            Some(piece) => piece,
            None => Bytes::from(taken),
        })
    }

    /// Refuses a count of elements that the remaining bytes cannot hold, `element_bytes_min` each.
    ///
    /// # Errors
    /// When they cannot.
    pub fn check_count(&self, count: u64, element_bytes_min: usize) -> Decoded<usize> {
        let remaining = self.remaining();
        let fits = (remaining / element_bytes_min.max(1)) as u64;
        if count > fits {
            return Err(self.error(DecodeErrorKind::ImpossibleCount { count, remaining }));
        }
        Ok(count as usize)
    }

    /// Ends the reading: nothing may be left.
    ///
    /// # Errors
    /// When bytes are left.
    pub fn finish(self) -> Decoded<()> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(DecodeErrorKind::TrailingBytes(left))),
        }
    }
}

/// Collects a frame: its own bytes, and large payloads that are sent from where they are.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    own: Vec<u8>,
    /// Payloads and the position in `own` that each stands before.
    shared: Vec<(usize, Bytes)>,
    shared_bytes: usize,
}

impl Writer {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empty, writing into `buffer`, which is cleared: to use a buffer again.
    pub fn reusing(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { own: buffer, shared: Vec::new(), shared_bytes: 0 }
    }

    /// How many bytes were written in all.
    pub fn len(&self) -> usize {
        self.own.len() + self.shared_bytes
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes as they are.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
    }

    /// Appends an integer's big-endian bytes: `writer.put_be(value.to_be_bytes())`.
    #[inline]
    pub fn put_be<const N: usize>(&mut self, bytes: [u8; N]) {
        self.own.extend_from_slice(&bytes);
    }

    /// Appends an unsigned variable-length integer.
    pub fn put_uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.own.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.own.push(value as u8);
    }

    /// Appends a payload; a large one is shared, not copied.
    pub fn put_payload(&mut self, payload: &Bytes) {
        if payload.len() < SHARED_BYTES_MIN {
            self.put(payload);
        } else {
            self.shared_bytes += payload.len();
            self.shared.push((self.own.len(), payload.clone()));
        }
    }

    /// Appends all that another writer collected.
    pub fn put_writer(&mut self, other: Self) {
        let base = self.own.len();
        self.own.extend_from_slice(&other.own);
        self.shared_bytes += other.shared_bytes;
        self.shared.extend(other.shared.into_iter().map(|(at, payload)| (base + at, payload)));
    }

    /// Overwrites four bytes at `position` of the own bytes, for a size that is known at the end.
    ///
    /// # Panics
    /// When the four bytes were not written before.
    pub fn set_i32(&mut self, position: usize, value: i32) {
        self.own
            .get_mut(position..position + 4)
            .expect("the placeholder was written before")
            .copy_from_slice(&value.to_be_bytes());
    }

    /// The pieces in their order, for a vectored write.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let heads = self.shared.iter().flat_map(move |(at, payload)| {
            let own = self.own.get(from..*at).unwrap_or_default();
            from = *at;
            [own, &**payload]
        });
        let tail_from = self.shared.last().map_or(0, |(at, _)| *at);
        let tail = self.own.get(tail_from..).unwrap_or_default();
        heads.chain([tail]).filter(|piece| !piece.is_empty())
    }

    /// All bytes in one piece.
    pub fn into_vec(self) -> Vec<u8> {
        if self.shared.is_empty() {
            return self.own;
        }
        let mut all = Vec::with_capacity(self.len());
        for piece in self.pieces() {
            all.extend_from_slice(piece);
        }
        all
    }

    /// The buffer of the own bytes, to be used again by [`Writer::reusing`].
    pub fn into_own_buffer(self) -> Vec<u8> {
        self.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_length_integers_end_or_are_refused() {
        let mut writer = Writer::new();
        for value in [0, 1, 127, 128, 300, u32::MAX] {
            writer.put_uvarint(value);
        }
        let bytes = writer.into_vec();
        let mut reader = Reader::new(&bytes);
        for value in [0, 1, 127, 128, 300, u32::MAX] {
            assert_eq!(reader.uvarint(), Ok(value));
        }
        assert_eq!(reader.finish(), Ok(()));
        for endless in [&[0xff; 11][..], &[0x80; 6], &[0xff, 0xff, 0xff, 0xff, 0x7f]] {
            assert_eq!(
                Reader::new(endless).uvarint().map_err(|e| e.kind),
                Err(DecodeErrorKind::VarintTooLong)
            );
        }
        assert_eq!(
            Reader::new(&[0x80; 20]).varlong().map_err(|e| e.kind),
            Err(DecodeErrorKind::VarintTooLong)
        );
        let lowest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Reader::new(&lowest).varlong(), Ok(i64::MIN));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).varint(), Ok(i32::MIN));
    }

    #[test]
    fn shared_payloads_keep_their_place() {
        let large = Bytes::from(vec![7; SHARED_BYTES_MIN]);
        let mut inner = Writer::new();
        inner.put(b"in");
        inner.put_payload(&large);
        let mut writer = Writer::new();
        writer.put(b"head");
        writer.put_payload(&large);
        writer.put_writer(inner);
        writer.put(b"tail");
        let mut expected = b"head".to_vec();
        expected.extend_from_slice(&large);
        expected.extend_from_slice(b"in");
        expected.extend_from_slice(&large);
        expected.extend_from_slice(b"tail");
        assert_eq!(writer.len(), expected.len());
        assert_eq!(writer.pieces().flatten().copied().collect::<Vec<u8>>(), expected);
        assert_eq!(writer.into_vec(), expected);
    }

    #[test]
    fn payloads_of_a_shared_buffer_are_pieces_of_it() {
        let buffer = Bytes::from(b"abcdef".to_vec());
        let mut reader = Reader::shared(&buffer);
        reader.take(2).expect("two bytes");
        let payload = reader.payload(3).expect("three bytes");
        assert_eq!(&*payload, b"cde");
        assert!(payload.into_buffer().is_none(), "the buffer is shared");
    }
}
