//! A connection: frames in, answers out.
//!
//! One request at a time, in order, as Kafka's broker mutes a connection while it serves a request;
//! so at most one answer waits for a peer that does not read. Runs on the connection's own thread.
//! Every end is logged with its reason at debug level, since the peer sees only that it is closed.

use std::io::{self, BufReader, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use super::call::Peer;
use super::dispatch::{self, Reply};
use super::sasl::Session;
use super::server::Shared;
use crate::protocol::{Bytes, Reader, RequestHeader, Writer};

/// How long a peer may take nothing of an answer before its connection is closed.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that are read ahead of the frame at hand.
const READ_BUFFER_BYTES: usize = 64 << 10;
/// Bytes that are reserved for a frame before they have arrived.
const FRAME_BYTES_UNSEEN: usize = 64 << 10;
/// Pieces of an answer that go into one system call.
const PIECES_MAX: usize = 64;

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) broker: i32,
    /// Ends with the broker's stop: see [`State::end_connections`](super::state::State).
    pub(super) incarnation: u64,
    pub(super) peer: Peer,
    pub(super) shared: Arc<Shared>,
    /// Whether nobody is there: what waits does not sleep, the time jumps to the end of the wait.
    pub(super) is_replay: bool,
}

impl Connection {
    /// Sets the socket up.
    ///
    /// # Errors
    /// When the peer has gone already.
    pub(super) fn new(
        stream: &TcpStream,
        broker: i32,
        number: u64,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(shared.limits.idle_max))?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let host = format!("/{}", stream.peer_addr()?.ip());
        Ok(Self::of_peer(host, broker, number, shared))
    }

    /// A connection without a socket.
    pub(super) fn replay(broker: i32, shared: Arc<Shared>) -> Self {
        Self { is_replay: true, ..Self::of_peer("/127.0.0.1".to_owned(), broker, 1, shared) }
    }

    fn of_peer(host: String, broker: i32, number: u64, shared: Arc<Shared>) -> Self {
        let (incarnation, sasl) = {
            let state = shared.state.lock();
            (state.incarnation(broker), Session::new(&state.users))
        };
        let peer = Peer { connection: number, host, sasl, ..Peer::default() };
        Self { broker, incarnation, peer, shared, is_replay: false }
    }
}

/// Serves the connection to its end.
pub(super) fn serve(stream: TcpStream, mut connection: Connection) {
    let mut stream = BufReader::with_capacity(READ_BUFFER_BYTES, stream);
    let why =
        run(&mut stream, |stream, answer| write_all(stream.get_ref(), answer), &mut connection);
    let (broker, number) = (connection.broker, connection.peer.connection);
    log::debug!("broker {broker} closes connection {number}: {why}");
    connection.shared.change(|state| state.connection_ended(number));
}

/// Answers every frame of `stream`; gives the reason of the end.
pub(super) fn run<S: Read>(
    stream: &mut S,
    mut write: impl FnMut(&mut S, &Writer) -> io::Result<()>,
    connection: &mut Connection,
) -> String {
    let frame_bytes_max = connection.shared.limits.frame_bytes_max;
    loop {
        let frame = match read_frame(stream, frame_bytes_max) {
            Ok(Some(frame)) => frame,
            Ok(None) => return "the client has closed".to_owned(),
            Err(error) => return error.to_string(),
        };
        match reply(connection, &frame) {
            Reply::Send(answer) => {
                if let Err(error) = write(stream, &answer) {
                    return format!("the answer could not be sent: {error}");
                }
            }
            Reply::SendAndClose(answer, why) => {
                return match write(stream, &answer) {
                    Ok(()) => why,
                    Err(error) => format!("{why}; {error}"),
                };
            }
            Reply::Silence => {}
            Reply::Close(why) => return why,
        }
    }
}

/// What a frame gets.
fn reply(connection: &mut Connection, frame: &Bytes) -> Reply {
    if connection.peer.sasl.awaits_raw_token() {
        return dispatch::serve_raw_token(connection, frame);
    }
    let mut reader = Reader::shared(frame);
    let header = match RequestHeader::decode(&mut reader) {
        Ok(header) => header,
        Err(error) => return Reply::Close(format!("no request header: {error}")),
    };
    let start = reader.position();
    let body = frame.slice(start..frame.len()).expect("the reader stands inside the frame");
    dispatch::serve(connection, &header, &body)
}

/// The next frame without its size, `None` at the end of the stream.
fn read_frame(stream: &mut impl Read, bytes_max: usize) -> io::Result<Option<Bytes>> {
    let mut size = [0; 4];
    match stream.read_exact(&mut size) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let size = i32::from_be_bytes(size);
    let Some(size) = usize::try_from(size).ok().filter(|size| *size <= bytes_max) else {
        return Err(io::Error::other(format!("a frame of {size} bytes")));
    };
    let mut frame = Vec::with_capacity(size.min(FRAME_BYTES_UNSEEN));
    stream.take(size as u64).read_to_end(&mut frame)?;
    if frame.len() < size {
        return Err(io::Error::other(format!("{} of the {size} bytes of a frame", frame.len())));
    }
    Ok(Some(Bytes::from(frame)))
}

fn write_all(mut stream: &TcpStream, answer: &Writer) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> =
        answer.pieces().filter(|piece| !piece.is_empty()).map(IoSlice::new).collect();
    let mut rest: &mut [IoSlice<'_>] = &mut slices;
    while !rest.is_empty() {
        let some = rest.get(..PIECES_MAX.min(rest.len())).unwrap_or_default();
        match stream.write_vectored(some) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
