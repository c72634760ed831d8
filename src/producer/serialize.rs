//! Serializers: how keys and values become the bytes of a record.
//!
//! [`Serialize`] says where the bytes are: there already ([`Payload::Bytes`]), a few of them ([`Payload::Short`]: numbers),
//! or still to be written ([`Payload::Write`]: JSON, a closure). Bytes that are there are encoded straight into the open
//! batch. What is written goes through a buffer that the sending thread keeps, bounded by `max.request.size`, and is copied
//! into the batch: its length stands before it there, a key's hash picks the partition, and no lock is held while code of
//! the user runs. No record allocates.
//!
//! Numbers are big-endian, as those of Java's serializers (`org.apache.kafka.common.serialization`): `IntegerSerializer` and
//! an `i32` give the same bytes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use super::record::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::Bytes;
use crate::threads;

/// What a thread keeps of its buffer from one record to the next, in bytes.
const KEPT_BYTES: usize = 1 << 20;
/// Bytes of the longest [`Payload::Short`].
const SHORT_BYTES: usize = 16;

/// Why a serializer failed.
pub type SerializeError = Box<dyn StdError + Send + Sync>;

/// A key or a value.
///
/// Implemented for bytes and strings (as they are), numbers and `bool` (big-endian, as Java's serializers), [`With`] (a
/// closure that writes) and, with feature `json`, `Json`. `None` of an `Option` is a null: no key, or a tombstone.
///
/// ```
/// use std::io::Write;
/// use ottla::producer::{Payload, Record, Serialize, SerializeBuffer, SerializeError, WritePayload};
///
/// struct Point(f32, f32);
///
/// impl Serialize for Point {
///     fn payload(&self) -> Payload<'_> {
///         Payload::Write(self)
///     }
/// }
///
/// impl WritePayload for Point {
///     fn write(&self, buffer: &mut SerializeBuffer<'_>) -> Result<(), SerializeError> {
///         write!(buffer, "{};{}", self.0, self.1)?;
///         Ok(())
///     }
/// }
///
/// let point = Point(1.5, -2.0);
/// let record = Record::to("points").key(&42_i64).value(&point);
/// # drop(record);
/// ```
pub trait Serialize {
    /// Where the bytes are.
    fn payload(&self) -> Payload<'_>;
}

/// Writes the bytes of a key or value when the record is sent.
///
/// Runs on the sending thread, without a lock held; [`try_send`](super::Producer::try_send) runs it too. A panic is
/// caught: the record is refused with an error of kind [`Handler`](ErrorKind::Handler), as after an error.
pub trait WritePayload {
    /// Appends the bytes to `buffer`.
    ///
    /// # Errors
    /// Whatever keeps the bytes from being written; the record is not taken then.
    fn write(&self, buffer: &mut SerializeBuffer<'_>) -> Result<(), SerializeError>;
}

/// The bytes of a key or value, or the way to them.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Payload<'a> {
    /// No key, or a tombstone.
    Null,
    /// They are there.
    Bytes(&'a [u8]),
    /// There are few of them.
    Short(Short),
    /// They are written when the record is sent.
    Write(&'a dyn WritePayload),
}

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Short(short) => write!(f, "\"{}\"", short.bytes().escape_ascii()),
            Self::Write(_) => f.write_str("Write"),
        }
    }
}

impl Payload<'_> {
    /// The bytes, `None` for a null, unless they are still to be written.
    #[inline]
    pub(super) fn known(&self) -> std::result::Result<Option<&[u8]>, &dyn WritePayload> {
        match self {
            Self::Null => Ok(None),
            Self::Bytes(bytes) => Ok(Some(bytes)),
            Self::Short(short) => Ok(Some(short.bytes())),
            Self::Write(write) => Err(*write),
        }
    }
}

/// At most 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    bytes: [u8; SHORT_BYTES],
    len: u8,
}

impl Short {
    /// `bytes`; `None` when there are more than 16.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut short = Self { bytes: [0; SHORT_BYTES], len: u8::try_from(bytes.len()).ok()? };
        short.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(short)
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

macro_rules! bytes_are_there {
    ($($type:ty,)+) => {$(
        impl Serialize for $type {
            #[inline]
            fn payload(&self) -> Payload<'_> {
                Payload::Bytes(self.as_ref())
            }
        }
    )+};
}

bytes_are_there! { [u8], str, Vec<u8>, String, Bytes, Box<[u8]>, Arc<[u8]>, Cow<'_, [u8]>, }

macro_rules! text {
    ($($type:ty,)+) => {$(
        impl Serialize for $type {
            #[inline]
            fn payload(&self) -> Payload<'_> {
                Payload::Bytes(self.as_bytes())
            }
        }
    )+};
}

text! { Box<str>, Arc<str>, Cow<'_, str>, }

impl<const N: usize> Serialize for [u8; N] {
    #[inline]
    fn payload(&self) -> Payload<'_> {
        Payload::Bytes(self)
    }
}

macro_rules! numbers {
    ($($type:ty,)+) => {$(
        impl Serialize for $type {
            #[inline]
            fn payload(&self) -> Payload<'_> {
                Short::new(&self.to_be_bytes()).map_or(Payload::Null, Payload::Short)
            }
        }
    )+};
}

numbers! { i8, u8, i16, u16, i32, u32, i64, u64, i128, u128, f32, f64, }

impl Serialize for bool {
    fn payload(&self) -> Payload<'_> {
        Payload::Bytes(if *self { &[1] } else { &[0] })
    }
}

impl<T: Serialize + ?Sized> Serialize for &T {
    #[inline]
    fn payload(&self) -> Payload<'_> {
        (**self).payload()
    }
}

impl<T: Serialize> Serialize for Option<T> {
    #[inline]
    fn payload(&self) -> Payload<'_> {
        self.as_ref().map_or(Payload::Null, Serialize::payload)
    }
}

/// A closure that writes a key or value when the record is sent.
///
/// ```
/// use std::io::Write;
/// use ottla::producer::{Record, With};
///
/// let (low, high) = (3, 9);
/// let range = With(|buffer| Ok(write!(buffer, "{low}..{high}")?));
/// let record = Record::to("ranges").value(&range);
/// # drop(record);
/// ```
pub struct With<F>(pub F)
where
    F: Fn(&mut SerializeBuffer<'_>) -> std::result::Result<(), SerializeError>;

impl<F> Serialize for With<F>
where
    F: Fn(&mut SerializeBuffer<'_>) -> std::result::Result<(), SerializeError>,
{
    fn payload(&self) -> Payload<'_> {
        Payload::Write(self)
    }
}

impl<F> WritePayload for With<F>
where
    F: Fn(&mut SerializeBuffer<'_>) -> std::result::Result<(), SerializeError>,
{
    fn write(&self, buffer: &mut SerializeBuffer<'_>) -> std::result::Result<(), SerializeError> {
        (self.0)(buffer)
    }
}

impl<F> fmt::Debug for With<F>
where
    F: Fn(&mut SerializeBuffer<'_>) -> std::result::Result<(), SerializeError>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("With")
    }
}

/// A key or value as JSON, by `serde_json`. Feature `json`.
///
/// ```
/// use ottla::producer::{Json, Record};
///
/// let order = std::collections::BTreeMap::from([("id", 7), ("pieces", 2)]);
/// let json = Json(&order);
/// let record = Record::to("orders").key(&7_i64).value(&json);
/// # drop(record);
/// ```
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug)]
pub struct Json<'a, T: ?Sized>(pub &'a T);

#[cfg(feature = "json")]
impl<T: serde::Serialize + ?Sized> Serialize for Json<'_, T> {
    fn payload(&self) -> Payload<'_> {
        Payload::Write(self)
    }
}

#[cfg(feature = "json")]
impl<T: serde::Serialize + ?Sized> WritePayload for Json<'_, T> {
    fn write(&self, buffer: &mut SerializeBuffer<'_>) -> std::result::Result<(), SerializeError> {
        Ok(serde_json::to_writer(buffer, self.0)?)
    }
}

/// What a [`WritePayload`] writes to: takes as many bytes as a record may have and then fails.
#[derive(Debug)]
pub struct SerializeBuffer<'a> {
    bytes: &'a mut Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl io::Write for SerializeBuffer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len().saturating_add(bytes.len()) > self.limit {
            self.is_full = true;
            return Err(io::Error::other(format!("it has more than {} bytes", self.limit)));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Hands `then` the bytes of key and value of a record with something still to be written.
///
/// # Errors
/// `Handler` when that fails or panics, `RecordTooLarge` when it is more than `limit` bytes; what `then` gives.
#[cold]
pub(super) fn written<T>(
    record: &Record<'_>,
    limit: usize,
    then: impl FnOnce(Option<&[u8]>, Option<&[u8]>) -> Result<T>,
) -> Result<T> {
    // Taken, not borrowed: a serializer may send records itself.
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let mut place = |payload: &Payload<'_>, what: &str| match payload.known() {
        Ok(_) => Ok(None),
        Err(write) => {
            let begin = scratch.len();
            run(write, &mut scratch, begin + limit, what)
                .map(|()| Some(begin..scratch.len()))
                .map_err(|error| error.with_topic(record.topic))
        }
    };
    let written =
        place(&record.key, "key").and_then(|key| Ok((key, place(&record.value, "value")?)));
    let result = written.and_then(|(key, value)| {
        let key = match &key {
            Some(range) => scratch.get(range.clone()),
            None => record.key.known().unwrap_or_default(),
        };
        let value = match &value {
            Some(range) => scratch.get(range.clone()),
            None => record.value.known().unwrap_or_default(),
        };
        then(key, value)
    });
    scratch.truncate(KEPT_BYTES);
    scratch.shrink_to(KEPT_BYTES);
    SCRATCH.set(scratch);
    result
}

fn run(write: &dyn WritePayload, scratch: &mut Vec<u8>, limit: usize, what: &str) -> Result<()> {
    let mut buffer = SerializeBuffer { bytes: scratch, limit, is_full: false };
    let outcome = threads::guard(|| write.write(&mut buffer));
    if buffer.is_full {
        let message =
            format!("the serializer of the {what} wrote more than max.request.size allows");
        return Err(Error::new(ErrorKind::RecordTooLarge, message));
    }
    let why = match outcome {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => format!("the serializer of the {what} failed: {error}"),
        Err(panic) => format!("the serializer of the {what} panicked: {panic}"),
    };
    Err(Error::new(ErrorKind::Handler, why))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn bytes(value: &(impl Serialize + ?Sized)) -> Option<Vec<u8>> {
        value.payload().known().unwrap_or_else(|_| panic!("not there")).map(<[u8]>::to_vec)
    }

    fn written_bytes(value: &impl Serialize, limit: usize) -> Result<Option<Vec<u8>>> {
        let record = Record::to("t").key("k").value(value);
        written(&record, limit, |key, value| {
            assert_eq!(key, Some(&b"k"[..]));
            Ok(value.map(<[u8]>::to_vec))
        })
    }

    /// Those of `ShortSerializer` and its like in `org.apache.kafka.common.serialization`.
    #[test]
    fn numbers_have_the_bytes_of_javas_serializers() {
        assert_eq!(bytes(&-2_i16), Some(vec![0xff, 0xfe]));
        assert_eq!(bytes(&0x0102_0304_i32), Some(vec![1, 2, 3, 4]));
        assert_eq!(bytes(&i64::MIN), Some(vec![0x80, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(bytes(&1.5_f32), Some(vec![0x3f, 0xc0, 0, 0]));
        assert_eq!(bytes(&-2.0_f64), Some(vec![0xc0, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!((bytes(&true), bytes(&false)), (Some(vec![1]), Some(vec![0])));
        assert_eq!(bytes(&u128::MAX), Some(vec![0xff; 16]));
    }

    #[test]
    fn bytes_and_text_stay_as_they_are_and_none_is_a_null() {
        for text in ["", "text"] {
            let expected = Some(text.as_bytes().to_vec());
            assert_eq!(bytes(text), expected);
            assert_eq!(bytes(&text.to_owned()), expected);
            assert_eq!(bytes(text.as_bytes()), expected);
            assert_eq!(bytes(&Some(text)), expected);
            assert_eq!(bytes(&Arc::<str>::from(text)), expected);
        }
        assert_eq!(bytes(&None::<i32>), None);
        assert_eq!(bytes(&[7; 3]), Some(vec![7; 3]));
    }

    #[test]
    fn a_closure_writes_up_to_the_limit() {
        let nines = |count: usize| With(move |buffer| Ok(buffer.write_all(&vec![9; count])?));
        assert_eq!(written_bytes(&nines(5), 5).expect("written"), Some(vec![9; 5]));
        let error = written_bytes(&nines(6), 5).expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::RecordTooLarge);
        // A serializer that hides the failure changes nothing.
        let hides = With(|buffer| {
            drop(buffer.write_all(&[9; 6]));
            Ok(())
        });
        let error = written_bytes(&hides, 5).expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::RecordTooLarge);
    }

    #[test]
    fn failures_and_panics_are_errors_and_the_next_record_is_whole() {
        let fails = With(|buffer| {
            buffer.write_all(b"half")?;
            Err("no more".into())
        });
        let error = written_bytes(&fails, 100).expect_err("it fails");
        assert_eq!((error.kind(), error.topic()), (ErrorKind::Handler, Some("t")));
        assert!(error.to_string().contains("value failed: no more"), "{error}");
        let panics = With(|_| panic!("oh"));
        let error = written_bytes(&panics, 100).expect_err("it panics");
        assert_eq!(error.kind(), ErrorKind::Handler);
        assert!(error.to_string().contains("panicked: oh"), "{error}");
        let good = With(|buffer| Ok(buffer.write_all(b"whole")?));
        assert_eq!(written_bytes(&good, 100).expect("written"), Some(b"whole".to_vec()));
    }

    #[test]
    fn a_serializer_may_use_the_buffer_of_its_thread_again() {
        let outer = With(|buffer| {
            buffer.write_all(b"a")?;
            let inner = With(|buffer| Ok(buffer.write_all(b"inner")?));
            assert_eq!(written_bytes(&inner, 9).expect("written"), Some(b"inner".to_vec()));
            Ok(buffer.write_all(b"b")?)
        });
        assert_eq!(written_bytes(&outer, 9).expect("written"), Some(b"ab".to_vec()));
    }

    #[cfg(feature = "json")]
    #[test]
    fn json_is_written() {
        assert_eq!(written_bytes(&Json(&[1, 2]), 100).expect("written"), Some(b"[1,2]".to_vec()));
        let map = std::collections::BTreeMap::from([(vec![1], 1)]);
        let error = written_bytes(&Json(&map), 100).expect_err("a key that is no text");
        assert_eq!(error.kind(), ErrorKind::Handler, "{error}");
    }
}
