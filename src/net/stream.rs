//! [`Stream`]: a TCP socket with deadlines. The only place that opens one.
//!
//! Every read and write takes an absolute deadline and sets the socket's time-out to what is left
//! of it, so a peer that trickles bytes gains nothing. Interrupted calls are repeated. Reading and
//! writing at the same time from two threads is fine; a stream knows nothing of frames.
//!
//! A time-out or failure in the middle of something leaves the stream in an unknown position: its
//! owner must give it up.

use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::address::Address;
use super::resolve;
use super::settings::Settings;
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Result};

/// Silence after which the system asks whether the peer is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Time between two such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Most pieces of one vectored write; Linux takes 1024.
const PIECES_MAX: usize = 64;

/// A connected socket.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
}

/// Why a read or write did not do all of its work.
#[derive(Debug)]
pub(super) enum StreamError {
    /// The deadline passed.
    TimedOut,
    /// The peer sent its end.
    Ended,
    /// The system reported a failure.
    Failed(io::Error),
}

/// What a look at a socket finds without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// Nothing came.
    Nothing,
    /// Bytes came.
    Bytes,
    /// The peer ended or reset the connection.
    End,
}

impl Stream {
    /// Resolves `address` and connects to the first of its socket addresses that accepts. Each has
    /// at most `connect_timeout`, and an equal share of what is left of `deadline`, so that one
    /// that drops packets does not keep the others from being tried.
    ///
    /// # Errors
    /// `Resolve`, `Connect` with every address and its failure, or `Timeout` when the deadline
    /// passed before an address had its `connect_timeout`.
    pub(super) fn connect(
        address: &Address,
        settings: &Settings,
        deadline: Deadline,
    ) -> Result<Self> {
        let candidates = resolve::by_deadline(address, deadline)?;
        let mut failures = Vec::new();
        let mut last = None;
        for (index, candidate) in candidates.iter().enumerate() {
            let left = deadline.left();
            if left.is_zero() {
                break;
            }
            let share = left / (candidates.len() - index) as u32;
            match Self::connect_one(*candidate, settings, share.min(settings.connect_timeout)) {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    failures.push(format!("{candidate}: {error}"));
                    last = Some(error);
                }
            }
        }
        let kind = if deadline.has_passed(clock::now()) || failures.len() < candidates.len() {
            ErrorKind::Timeout
        } else {
            ErrorKind::Connect
        };
        let text = match failures.as_slice() {
            [] => format!("there was no time left to connect to {address}"),
            // One address: its failure is the cause, and shown as that.
            [_] if candidates.len() == 1 => format!("cannot connect to {address}"),
            tried => format!(
                "cannot connect to {address}, {} of {} addresses tried: {}",
                tried.len(),
                candidates.len(),
                tried.join("; ")
            ),
        };
        let error = Error::new(kind, text);
        Err(match last {
            Some(source) if candidates.len() == 1 => error.with_source(source),
            _ => error,
        })
    }

    fn connect_one(address: SocketAddr, settings: &Settings, wait: Duration) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // Before the connect: the window that TCP offers depends on it.
        if let Some(bytes) = settings.send_buffer {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = settings.receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.connect_timeout(&address.into(), wait)?;
        let socket = TcpStream::from(socket);
        // A port of this host that nobody listens on can be given to the connecting socket itself,
        // which then talks to itself.
        if socket.local_addr()? == socket.peer_addr()? {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                "the socket connected to itself: nobody listens there",
            ));
        }
        Self::prepare(socket)
    }

    fn prepare(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let keepalive =
            TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
        SockRef::from(&socket).set_tcp_keepalive(&keepalive)?;
        Ok(Self { socket })
    }

    /// Appends bytes to `buffer`, at least one and at most what its spare capacity holds. Waits
    /// until `deadline`, or for ever without one.
    pub(super) fn read_spare(
        &self,
        buffer: &mut Vec<u8>,
        deadline: Option<Deadline>,
    ) -> Result<usize, StreamError> {
        debug_assert!(buffer.capacity() > buffer.len(), "there must be room to read into");
        loop {
            let wait = deadline.map(Deadline::left);
            if wait.is_some_and(|left| left.is_zero()) {
                return Err(StreamError::TimedOut);
            }
            self.socket.set_read_timeout(wait).map_err(StreamError::Failed)?;
            match receive(&self.socket, buffer) {
                Ok(0) => return Err(StreamError::Ended),
                Ok(count) => return Ok(count),
                Err(error) => check(error)?,
            }
        }
    }

    /// Writes all `pieces`, in as few calls as the system allows.
    pub(super) fn write_all<'a>(
        &self,
        pieces: impl Iterator<Item = &'a [u8]>,
        deadline: Deadline,
    ) -> Result<(), StreamError> {
        let mut pieces = pieces.filter(|piece| !piece.is_empty()).peekable();
        let mut slices = Vec::with_capacity(PIECES_MAX.min(pieces.size_hint().0.max(4)));
        while pieces.peek().is_some() {
            slices.clear();
            slices.extend(pieces.by_ref().take(PIECES_MAX).map(IoSlice::new));
            let mut rest = slices.as_mut_slice();
            while !rest.is_empty() {
                let left = deadline.left();
                if left.is_zero() {
                    return Err(StreamError::TimedOut);
                }
                self.socket.set_write_timeout(Some(left)).map_err(StreamError::Failed)?;
                match (&self.socket).write_vectored(rest) {
                    Ok(0) => return Err(StreamError::Ended),
                    Ok(count) => IoSlice::advance_slices(&mut rest, count),
                    Err(error) => check(error)?,
                }
            }
        }
        Ok(())
    }

    /// Looks whether something came, without waiting and without taking it. Safe beside a reader.
    pub(super) fn pending(&self) -> Pending {
        let looked = loop {
            match look(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        match looked {
            Ok(0) => Pending::End,
            Ok(_) => Pending::Bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Pending::Nothing,
            Err(_) => Pending::End,
        }
    }

    /// Ends both directions and wakes whoever waits on the socket.
    pub(super) fn shutdown(&self) {
        // Fails only when the peer was first, which is as good.
        if let Err(error) = self.socket.shutdown(Shutdown::Both) {
            log::trace!("shutdown: {error}");
        }
    }
}

/// Whether a failed call may be repeated: it was interrupted, or its time-out came, of which the
/// loop around it decides.
fn check(error: io::Error) -> Result<(), StreamError> {
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(()),
        _ => Err(StreamError::Failed(error)),
    }
}

/// Reads into the spare capacity, which need not be zeroed for it.
#[cfg(unix)]
fn receive(socket: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    Ok(rustix::io::read(socket, rustix::buffer::spare_capacity(buffer))?)
}

#[cfg(not(unix))]
fn receive(mut socket: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    use std::io::Read;
    let (before, all) = (buffer.len(), buffer.capacity());
    buffer.resize(all, 0);
    let outcome = match buffer.get_mut(before..) {
        Some(spare) => socket.read(spare),
        None => Ok(0),
    };
    buffer.truncate(before + outcome.as_ref().map_or(0, |count| *count));
    outcome
}

/// One byte, not taken; `WouldBlock` when there is none. The socket's mode stays as it is, because
/// another thread may be reading.
#[cfg(unix)]
fn look(socket: &TcpStream) -> io::Result<usize> {
    use rustix::net::{RecvFlags, recv};
    let mut byte = [0_u8];
    let (count, _) = recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(count)
}

/// Elsewhere a closed connection is noticed by the next write or read only.
#[cfg(not(unix))]
fn look(_socket: &TcpStream) -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}
