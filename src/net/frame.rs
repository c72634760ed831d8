//! Frames: a size of four bytes, then that many bytes; written in pieces, read into a buffer whose
//! payload starts at a page boundary.
//!
//! The size is checked before anything is reserved: bytes of a TLS alert or of an HTTP answer make
//! absurd sizes, and are named as what they are. A large frame's buffer grows with what arrives.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

use thiserror::Error;

use super::stream::time_left;
use crate::clock::Deadline;
use crate::protocol::Bytes;

/// Bytes of the size in front of a frame.
const SIZE_BYTES: usize = 4;
/// The smallest answer: a correlation id.
const FRAME_BYTES_MIN: usize = 4;
/// Where the payload of a frame starts: copies from the kernel to an address a few bytes behind a
/// page boundary are many times slower than to the boundary itself.
const PAYLOAD_ALIGNMENT: usize = 4096;
/// A buffer grows by this much at most ahead of the bytes that have arrived.
const GROWTH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Pieces of one vectored write; the system takes at most 1024.
const PIECES_MAX: usize = 64;

/// Why a frame could not be read or written.
#[derive(Debug, Error)]
pub(crate) enum FrameError {
    #[error("the peer closed the connection")]
    Closed,
    #[error("the answer looks like TLS: a plain connection was made to a TLS port")]
    LooksLikeTls,
    #[error("the answer looks like HTTP: this is no Kafka port")]
    LooksLikeHttp,
    #[error("the peer announced a frame of {0} bytes, which is illegal")]
    IllegalSize(i32),
    #[error("the peer announced a frame of {size} bytes, the limit is {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error("no time was left")]
    TimedOut,
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// Writes all `pieces`, until `deadline` at most.
pub(crate) fn write_all<'a>(
    stream: &TcpStream,
    pieces: impl Iterator<Item = &'a [u8]>,
    deadline: Deadline,
) -> Result<(), FrameError> {
    let mut pieces: Vec<&[u8]> = pieces.collect();
    let mut rest = pieces.as_mut_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(time_left(deadline)?))?;
        let slices: Vec<IoSlice<'_>> =
            rest.iter().take(PIECES_MAX).map(|piece| IoSlice::new(piece)).collect();
        let mut written = match (&*stream).write_vectored(&slices) {
            Ok(0) => return Err(FrameError::Closed),
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        while let Some(first) = rest.first_mut() {
            if written < first.len() {
                *first = first.get(written..).expect("written is less than its length");
                break;
            }
            written -= first.len();
            rest = rest.get_mut(1..).expect("there is a first piece");
        }
    }
    Ok(())
}

/// Reads one frame of at most `limit` bytes; `None` for the deadline waits without end (until the
/// peer closes or the socket is shut down).
pub(crate) fn read(
    stream: &TcpStream,
    limit: usize,
    deadline: Option<Deadline>,
) -> Result<Bytes, FrameError> {
    let mut size = [0; SIZE_BYTES];
    fill(stream, &mut size, deadline)?;
    let size = check_size(size, limit)?;
    let first = size.min(GROWTH_BYTES_MAX);
    let mut buffer = vec![0; first + PAYLOAD_ALIGNMENT];
    let start = buffer.as_ptr().align_offset(PAYLOAD_ALIGNMENT).min(PAYLOAD_ALIGNMENT);
    let mut read = 0;
    loop {
        let end = size.min(buffer.len() - start);
        let part = buffer.get_mut(start + read..start + end).expect("the buffer holds start..end");
        fill(stream, part, deadline)?;
        read = end;
        if read == size {
            break;
        }
        let more = (size - read).min(GROWTH_BYTES_MAX);
        buffer.resize(start + read + more, 0);
    }
    Ok(Bytes::from_part(buffer, start..start + size).expect("the frame is inside its buffer"))
}

/// The size of a frame, if it can be one.
fn check_size(bytes: [u8; SIZE_BYTES], limit: usize) -> Result<usize, FrameError> {
    /// Content types of a TLS record (RFC 8446, 5.1): change_cipher_spec to application_data.
    const TLS_CONTENT: std::ops::RangeInclusive<u8> = 20..=23;
    if TLS_CONTENT.contains(&bytes[0]) && bytes[1] == 3 && bytes[2] <= 4 {
        return Err(FrameError::LooksLikeTls);
    }
    if &bytes == b"HTTP" {
        return Err(FrameError::LooksLikeHttp);
    }
    let announced = i32::from_be_bytes(bytes);
    let Ok(size) = usize::try_from(announced) else {
        return Err(FrameError::IllegalSize(announced));
    };
    if size < FRAME_BYTES_MIN {
        return Err(FrameError::IllegalSize(announced));
    }
    if size > limit {
        return Err(FrameError::TooLarge { size, limit });
    }
    Ok(size)
}

/// Fills `part` from the stream.
fn fill(
    mut stream: &TcpStream,
    part: &mut [u8],
    deadline: Option<Deadline>,
) -> Result<(), FrameError> {
    let mut filled = 0;
    while filled < part.len() {
        let timeout = deadline.map(time_left).transpose()?;
        stream.set_read_timeout(timeout)?;
        let rest = part.get_mut(filled..).expect("filled is at most its length");
        match stream.read(rest) {
            Ok(0) => return Err(FrameError::Closed),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of other protocols read as a size (redpanda-data/kminion#91).
    #[test]
    fn sizes_that_are_no_sizes_are_named() {
        let limit = 1000;
        let check = |bytes| check_size(bytes, limit).map_err(|error| error.to_string());
        assert!(check([0x15, 3, 3, 0]).unwrap_err().contains("TLS"));
        assert!(check(*b"HTTP").unwrap_err().contains("HTTP"));
        assert!(check([0xff; 4]).unwrap_err().contains("-1 bytes"));
        assert!(check([0, 0, 0, 3]).unwrap_err().contains("3 bytes"));
        assert!(check([0, 0, 4, 0]).unwrap_err().contains("limit is 1000"));
        assert_eq!(check([0, 0, 0, 5]), Ok(5));
    }
}
