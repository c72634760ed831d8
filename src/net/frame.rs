//! Frames: four bytes of size, then a request or an answer.
//!
//! [`FrameReader`] takes frames off a stream. The size is checked before anything is done with it;
//! a peer that does not speak Kafka (a TLS listener, an HTTP server) is named as what it looks
//! like, because the first bytes of its answer read as a size are hundreds of megabytes
//! (KAFKA-4090). Memory grows with what arrived, never with what was announced.
//!
//! A frame's bytes start at an aligned address: the kernel copies many times slower to addresses
//! that lie a few bytes behind the start of a page. A small frame costs one read together with its
//! size; what was read too much stays for the next frame.

use thiserror::Error;

use super::stream::{Stream, StreamError};
use crate::clock::Deadline;
use crate::error::{ErrorKind, Result};
use crate::protocol::{Bytes, EncodeError, EncodeErrorKind, Request, RequestHeader, Writer};

/// Bytes of the size that stands before each frame.
const SIZE_BYTES: usize = 4;
/// The smallest frame: a correlation id.
const FRAME_BYTES_MIN: usize = 4;
/// How far the buffer of a large frame may be ahead of what arrived, until the frame itself is
/// larger than this: from there on it doubles.
const GROWTH_BYTES: usize = 4 * 1024 * 1024;
/// Alignment of large and of small frames.
const PAGE_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;
/// From this size on a frame is a large one.
const LARGE_BYTES: usize = 32 * 1024;
/// What is read ahead: a size, and a page, so that reading on continues aligned.
const AHEAD_BYTES: usize = SIZE_BYTES + PAGE_BYTES;

/// Why the bytes of a peer are no frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum FrameError {
    #[error("the peer's answer looks like TLS: this port wants an encrypted connection")]
    LooksLikeTls,
    #[error("the peer's answer looks like HTTP: this is no Kafka port")]
    LooksLikeHttp,
    #[error("the peer's answer looks like text ({0:?}...): this is no Kafka port")]
    LooksLikeText(String),
    #[error("the peer announced a frame of {0} bytes")]
    IllegalSize(i32),
    #[error("the peer announced a frame of {size} bytes, the limit is {limit}")]
    TooLarge { size: usize, limit: usize, first: bool },
}

impl FrameError {
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::LooksLikeTls | Self::LooksLikeHttp | Self::LooksLikeText(_) => {
                ErrorKind::NotKafka
            }
            // The first answer of a broker is a short one.
            Self::IllegalSize(_) | Self::TooLarge { first: true, .. } => ErrorKind::Protocol,
            Self::TooLarge { first: false, .. } => ErrorKind::AnswerTooLarge,
        }
    }
}

/// Why no frame could be read.
#[derive(Debug)]
pub(super) enum ReadError {
    Stream(StreamError),
    Frame(FrameError),
    /// The stream ended inside a frame.
    EndedInside {
        received: usize,
        size: Option<usize>,
    },
    /// There is no memory for it.
    NoMemory(usize),
}

/// Takes frames off one stream.
#[derive(Debug)]
pub(super) struct FrameReader {
    limit: usize,
    /// Bytes that were read and not used yet, from `used` on. Never grows.
    ahead: Vec<u8>,
    used: usize,
    frames: u64,
}

impl FrameReader {
    /// Accepts frames of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ahead: Vec::with_capacity(AHEAD_BYTES), used: 0, frames: 0 }
    }

    /// Whether bytes were read that belong to no frame yet.
    pub(super) fn has_bytes(&self) -> bool {
        self.used < self.ahead.len()
    }

    /// The next frame without its size. Waits until `deadline`, or for ever without one. After an
    /// error the stream stands at an unknown place.
    pub(super) fn read(
        &mut self,
        stream: &Stream,
        deadline: Option<Deadline>,
    ) -> Result<Bytes, ReadError> {
        let head = self.read_head(stream, deadline)?;
        let size = frame_size(head, self.limit, self.frames == 0).map_err(ReadError::Frame)?;
        self.used += SIZE_BYTES;
        let frame = self.read_body(stream, size, deadline)?;
        self.frames += 1;
        Ok(frame)
    }

    fn read_head(
        &mut self,
        stream: &Stream,
        deadline: Option<Deadline>,
    ) -> Result<[u8; SIZE_BYTES], ReadError> {
        loop {
            let unused = self.ahead.get(self.used..).unwrap_or_default();
            if let Some(head) = unused.first_chunk() {
                return Ok(*head);
            }
            let received = unused.len();
            self.ahead.drain(..self.used);
            self.used = 0;
            match stream.read_spare(&mut self.ahead, deadline) {
                Ok(_) => {}
                Err(StreamError::Ended) if received > 0 => {
                    return Err(ReadError::EndedInside { received, size: None });
                }
                Err(error) => return Err(ReadError::Stream(error)),
            }
        }
    }

    fn read_body(
        &mut self,
        stream: &Stream,
        size: usize,
        deadline: Option<Deadline>,
    ) -> Result<Bytes, ReadError> {
        let (mut buffer, start) = aligned(size).ok_or(ReadError::NoMemory(size))?;
        let unused = self.ahead.get(self.used..).unwrap_or_default();
        let taken = unused.get(..size).unwrap_or(unused);
        buffer.extend_from_slice(taken);
        self.used += taken.len();
        let end = start + size;
        while buffer.len() < end {
            if buffer.len() == buffer.capacity() {
                let more = GROWTH_BYTES.max(buffer.len()).min(end - buffer.len());
                if buffer.try_reserve_exact(more).is_err() {
                    return Err(ReadError::NoMemory(size));
                }
            }
            match stream.read_spare(&mut buffer, deadline) {
                Ok(_) => {}
                Err(StreamError::Ended) => {
                    let received = buffer.len() - start;
                    return Err(ReadError::EndedInside { received, size: Some(size) });
                }
                Err(error) => return Err(ReadError::Stream(error)),
            }
        }
        if let Some(surplus) = buffer.get(end..).filter(|surplus| !surplus.is_empty()) {
            // All that was ahead is used up, else nothing would have been read.
            self.ahead.clear();
            self.used = 0;
            self.ahead.extend_from_slice(surplus);
        }
        Ok(Bytes::from_part(buffer, start..end).expect("the buffer reaches to the frame's end"))
    }
}

/// A buffer for a frame of `size` bytes, or for the first part of a large one, and where in it the
/// frame starts. It is filled up to there. `None` when there is no memory.
fn aligned(size: usize) -> Option<(Vec<u8>, usize)> {
    let alignment = if size < LARGE_BYTES { LINE_BYTES } else { PAGE_BYTES };
    let mut buffer: Vec<u8> = Vec::new();
    buffer.try_reserve_exact(size.min(GROWTH_BYTES) + alignment).ok()?;
    // The method may refuse to say.
    let offset = buffer.as_ptr().align_offset(alignment);
    let start = if offset < alignment { offset } else { 0 };
    buffer.resize(start, 0);
    Some((buffer, start))
}

/// The size that `head` announces; `first` when nothing came on the connection before.
fn frame_size(head: [u8; SIZE_BYTES], limit: usize, first: bool) -> Result<usize, FrameError> {
    let announced = i32::from_be_bytes(head);
    let legal = usize::try_from(announced).ok().filter(|size| *size >= FRAME_BYTES_MIN);
    match legal {
        // The first answer is a short one: if its size looks like something else, it is.
        Some(size) if size <= limit && !(first && looks_like(head).is_some()) => Ok(size),
        _ => Err(match (looks_like(head), legal) {
            (Some(other), _) => other,
            (None, Some(size)) => FrameError::TooLarge { size, limit, first },
            (None, None) => FrameError::IllegalSize(announced),
        }),
    }
}

/// What bytes look like that are no size: a TLS record (type 20 to 23, version 3.0 to 3.4), HTTP,
/// or other text.
fn looks_like(head: [u8; SIZE_BYTES]) -> Option<FrameError> {
    match head {
        [20..=23, 3, 0..=4, _] => Some(FrameError::LooksLikeTls),
        [b'H', b'T', b'T', b'P'] => Some(FrameError::LooksLikeHttp),
        text if text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') => {
            Some(FrameError::LooksLikeText(String::from_utf8_lossy(&text).into_owned()))
        }
        _ => None,
    }
}

/// Writes a request as a frame, into `buffer`.
pub(super) fn encode<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &str,
    buffer: Vec<u8>,
) -> Result<Writer, EncodeError> {
    let mut writer = Writer::reusing(buffer);
    writer.put_be([0; SIZE_BYTES]);
    let header = RequestHeader {
        api: R::API,
        version,
        correlation_id,
        client_id: Some(client_id.to_owned()),
        tagged_fields: crate::protocol::TaggedFields::default(),
    };
    header.encode(&mut writer)?;
    request.encode(&mut writer, version)?;
    let size = writer.len() - SIZE_BYTES;
    let size = i32::try_from(size).map_err(|_| EncodeErrorKind::TooLong(size).error())?;
    writer.set_i32(0, size);
    Ok(writer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 128 * 1024 * 1024;

    /// redpanda-data/kminion#91, KAFKA-4090 (B67).
    #[test]
    fn what_is_no_size_is_named() {
        let first = |head: &[u8; 4]| frame_size(*head, LIMIT, true);
        assert_eq!(first(&[0x15, 3, 3, 0]), Err(FrameError::LooksLikeTls));
        assert_eq!(first(b"HTTP"), Err(FrameError::LooksLikeHttp));
        assert_eq!(first(b"-ERR"), Err(FrameError::LooksLikeText("-ERR".to_owned())));
        assert_eq!(first(&[0xff; 4]), Err(FrameError::IllegalSize(-1)));
        assert_eq!(first(&[0, 0, 0, 3]), Err(FrameError::IllegalSize(3)));
        assert_eq!(first(&[0x80, 0, 0, 0]), Err(FrameError::IllegalSize(i32::MIN)));
        assert_eq!(first(&[0, 0, 0, 4]), Ok(4));
        assert_eq!(
            first(&[0x7f, 0xff, 0xff, 0xff]),
            Err(FrameError::TooLarge { size: i32::MAX as usize, limit: LIMIT, first: true })
        );
        assert_eq!(frame_size([8, 0, 0, 0], LIMIT, false), Ok(LIMIT));
        assert_eq!(
            frame_size([8, 0, 0, 1], LIMIT, false),
            Err(FrameError::TooLarge { size: LIMIT + 1, limit: LIMIT, first: false })
        );
        // With a limit that high, a later frame may have such a size.
        assert_eq!(frame_size(*b"HTTP", usize::MAX, false), Ok(0x4854_5450));
        assert_eq!(frame_size(*b"HTTP", usize::MAX, true), Err(FrameError::LooksLikeHttp));
    }

    #[test]
    fn frames_start_aligned_and_reserve_little() {
        for size in [4, 100, LARGE_BYTES, 1 << 20, LIMIT] {
            let (buffer, start) = aligned(size).expect("memory");
            let alignment = if size < LARGE_BYTES { LINE_BYTES } else { PAGE_BYTES };
            assert_eq!((buffer.as_ptr() as usize + start) % alignment, 0);
            assert!(buffer.capacity() >= start + size.min(GROWTH_BYTES));
            assert!(buffer.capacity() <= size.min(GROWTH_BYTES) + alignment);
        }
    }
}
