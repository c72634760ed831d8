//! [`TcpClient`]: a TCP client without any protocol, for proxies, fuzzers and tools.
//!
//! Writing happens on the callers' threads, one at a time: the lock on the buffer is held while the
//! socket takes it, so that pieces of two writers never mix. Reading happens on one thread
//! (`ottla-tcp`) that hands what came to a callback. The thread is joined by `close` and by the
//! drop; both wait a bounded time for a callback that does not return.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::address::Address;
use super::frame::{FrameReader, ReadError};
use super::pool::Poolable;
use super::settings::TcpSettings;
use super::stream::{Pending, Stream, StreamError};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::Bytes;
use crate::threads::{self, Thread};

/// Bytes that are collected before they are written unasked.
const BUFFER_BYTES: usize = 64 * 1024;
/// Most bytes of one piece when reading raw.
const CHUNK_BYTES: usize = 64 * 1024;
/// Longest wait of the drop for the read loop.
const DROP_WAIT: Duration = Duration::from_secs(5);

/// How the read loop cuts what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadMode {
    /// As it comes, in pieces of at most 64 KiB.
    Raw,
    /// As Kafka frames: four bytes of size, big-endian, then so many bytes, which are handed over
    /// without the size.
    Frames,
}

/// What the read loop hands to the callback.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Read {
    /// A piece or a frame.
    Bytes(Bytes),
    /// The last call: the peer or [`TcpClient::close`] ended the connection, or it failed.
    End(Option<Error>),
}

/// A connected TCP socket with buffered writing and a read loop on a thread.
///
/// `Send` and `Sync`; all calls take `&self`. Dropping it closes it, flushing nothing, and waits at
/// most 5 s for a callback that is running.
///
/// ```no_run
/// use std::time::Duration;
///
/// use ottla::net::{Read, ReadMode, TcpClient, TcpSettings};
///
/// let client = TcpClient::connect(&"localhost:9092".parse()?, &TcpSettings::new())?;
/// client.start_reading(ReadMode::Frames, |read| match read {
///     Read::Bytes(frame) => println!("{} bytes", frame.len()),
///     _ => println!("the end"),
/// })?;
/// // ApiVersions, version 0, correlation id 7, no client id.
/// client.write(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff])?;
/// client.flush()?;
/// client.close(Duration::from_secs(1))?;
/// # Ok::<(), ottla::Error>(())
/// ```
#[derive(Debug)]
pub struct TcpClient {
    shared: Arc<Shared>,
    reader: Mutex<Option<Thread>>,
    settings: TcpSettings,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    stream: Stream,
    writing: Mutex<Writing>,
    end: Mutex<Ending>,
}

#[derive(Debug)]
struct Writing {
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Ending {
    Open,
    /// By [`TcpClient::close`].
    Closed,
    /// By the peer or a failure.
    Failed(Error),
}

impl TcpClient {
    /// Connects to `address`.
    ///
    /// Blocks until connected, at most [`TcpSettings::connect_timeout`].
    ///
    /// # Errors
    /// `Resolve`, `Connect` or `Timeout`.
    pub fn connect(address: &Address, settings: &TcpSettings) -> Result<Self> {
        let deadline = Deadline::within(settings.socket.connect_timeout);
        let stream = Stream::connect(address, &settings.socket, deadline)
            .map_err(|error| error.with_broker(address))?;
        let shared = Arc::new(Shared {
            address: address.clone(),
            stream,
            writing: Mutex::new(Writing { buffer: Vec::new() }),
            end: Mutex::new(Ending::Open),
        });
        Ok(Self { shared, reader: Mutex::new(None), settings: settings.clone() })
    }

    /// The address it was connected to.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// Appends `bytes` to what is to be sent, and sends when 64 KiB have come together.
    ///
    /// Blocks while the socket takes them or another thread writes, at most
    /// [`TcpSettings::write_timeout`] each.
    ///
    /// # Errors
    /// `Closed`, `Disconnected` or `Timeout`; the connection is over then.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut writing = self.shared.writing.lock();
        self.shared.check()?;
        if writing.buffer.len() + bytes.len() < BUFFER_BYTES {
            writing.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.send(&mut writing, bytes)
    }

    /// Sends what was written.
    ///
    /// Blocks as [`TcpClient::write`].
    ///
    /// # Errors
    /// As [`TcpClient::write`].
    pub fn flush(&self) -> Result<()> {
        let mut writing = self.shared.writing.lock();
        self.shared.check()?;
        self.send(&mut writing, &[])
    }

    fn send(&self, writing: &mut Writing, more: &[u8]) -> Result<()> {
        let deadline = Deadline::within(self.settings.write_timeout);
        let pieces = [writing.buffer.as_slice(), more].into_iter();
        let sent = self.shared.stream.write_all(pieces, deadline);
        writing.buffer.clear();
        sent.map_err(|error| self.shared.fail(stream_error(error)))
    }

    /// Starts the read loop: `callback` gets what comes, cut by `mode`, and last [`Read::End`]. A
    /// callback that panics ends the connection.
    ///
    /// # Errors
    /// `InvalidInput` when it was started before; `Io` when the system gives no thread; `Closed` or
    /// `Disconnected` when the connection is over.
    pub fn start_reading(
        &self,
        mode: ReadMode,
        callback: impl FnMut(Read) + Send + 'static,
    ) -> Result<()> {
        let mut reader = self.reader.lock();
        self.shared.check()?;
        if reader.is_some() {
            return Err(Error::new(ErrorKind::InvalidInput, "the read loop runs already"));
        }
        let shared = Arc::clone(&self.shared);
        let limit = self.settings.socket.receive_max;
        *reader = Some(threads::spawn("ottla-tcp", move || {
            read_loop(&shared, mode, limit, callback);
        })?);
        Ok(())
    }

    /// Sends what was written, ends the connection and waits for the read loop. Closing twice is
    /// the same as once. From inside the callback it does not wait.
    ///
    /// Blocks until the callback returned, at most `timeout`.
    ///
    /// # Errors
    /// What the last flush gave; `Timeout` when the callback did not return in time: its thread is
    /// left behind then.
    pub fn close(&self, timeout: Duration) -> Result<()> {
        let deadline = Deadline::within(timeout);
        let flushed = self.flush_by(deadline);
        let ended = self.end(deadline);
        flushed.and(ended)
    }

    fn flush_by(&self, deadline: Deadline) -> Result<()> {
        let Some(mut writing) = self.shared.writing.try_lock_until(deadline.instant()) else {
            let text = "another thread was still writing";
            return Err(Error::new(ErrorKind::Timeout, text).with_broker(&self.shared.address));
        };
        if writing.buffer.is_empty() || self.shared.check().is_err() {
            return Ok(());
        }
        let sent = self.shared.stream.write_all([writing.buffer.as_slice()].into_iter(), deadline);
        writing.buffer.clear();
        sent.map_err(|error| self.shared.fail(stream_error(error)))
    }

    fn end(&self, deadline: Deadline) -> Result<()> {
        self.shared.close();
        let Some(thread) = self.reader.lock().take() else { return Ok(()) };
        if thread.is_current() || thread.join_by(deadline) {
            return Ok(());
        }
        let text = "the callback of the read loop did not return in time";
        Err(Error::new(ErrorKind::Timeout, text).with_broker(&self.shared.address))
    }
}

impl Drop for TcpClient {
    fn drop(&mut self) {
        if let Err(error) = self.end(Deadline::within(DROP_WAIT)) {
            log::warn!("{error}");
        }
    }
}

impl Poolable for TcpClient {
    fn is_reusable(&self) -> bool {
        matches!(*self.shared.end.lock(), Ending::Open)
    }

    fn is_alive(&self) -> bool {
        self.is_reusable() && self.shared.stream.pending() != Pending::End
    }
}

impl Shared {
    fn check(&self) -> Result<()> {
        match &*self.end.lock() {
            Ending::Open => Ok(()),
            Ending::Closed => {
                let error = Error::new(ErrorKind::Closed, "the connection was closed");
                Err(error.with_broker(&self.address))
            }
            Ending::Failed(error) => Err(error.clone()),
        }
    }

    fn fail(&self, error: Error) -> Error {
        let error = error.with_broker(&self.address);
        {
            let mut end = self.end.lock();
            if matches!(*end, Ending::Open) {
                *end = Ending::Failed(error.clone());
            }
        }
        self.stream.shutdown();
        error
    }

    fn close(&self) {
        {
            let mut end = self.end.lock();
            if matches!(*end, Ending::Open) {
                *end = Ending::Closed;
            }
        }
        self.stream.shutdown();
    }
}

fn read_loop(shared: &Shared, mode: ReadMode, limit: usize, mut callback: impl FnMut(Read)) {
    let mut source = match mode {
        ReadMode::Raw => Source::Raw(Vec::with_capacity(CHUNK_BYTES)),
        ReadMode::Frames => Source::Frames(FrameReader::new(limit)),
    };
    loop {
        let (read, last) = match source.read(&shared.stream) {
            Ok(bytes) => (Read::Bytes(bytes), false),
            Err(error) => (Read::End(shared.end_of_reading(error)), true),
        };
        if let Err(panic) = threads::guard(|| callback(read)) {
            log::error!("the callback of the read loop of {} panicked: {panic}", shared.address);
            let text = format!("the callback of the read loop panicked: {panic}");
            shared.fail(Error::new(ErrorKind::Handler, text));
            return;
        }
        if last {
            return;
        }
    }
}

enum Source {
    Raw(Vec<u8>),
    Frames(FrameReader),
}

impl Source {
    fn read(&mut self, stream: &Stream) -> Result<Bytes, ReadError> {
        match self {
            Self::Raw(buffer) => {
                buffer.clear();
                stream.read_spare(buffer, None).map_err(ReadError::Stream)?;
                Ok(Bytes::from(buffer.as_slice()))
            }
            Self::Frames(frames) => frames.read(stream, None),
        }
    }
}

impl Shared {
    /// What the callback is told about why there is nothing more to read.
    fn end_of_reading(&self, error: ReadError) -> Option<Error> {
        if matches!(*self.end.lock(), Ending::Closed) {
            return None;
        }
        let error = match error {
            ReadError::Stream(StreamError::Ended) => {
                self.fail(stream_error(StreamError::Ended));
                return None;
            }
            ReadError::Stream(error) => stream_error(error),
            ReadError::Frame(error) => Error::new(error.kind(), error.to_string()),
            ReadError::EndedInside { received, .. } => {
                let text = format!("the connection ended inside a frame, after {received} bytes");
                Error::new(ErrorKind::Disconnected, text)
            }
            ReadError::NoMemory(size) => {
                Error::new(ErrorKind::Io, format!("there is no memory for {size} bytes"))
            }
        };
        Some(self.fail(error))
    }
}

fn stream_error(error: StreamError) -> Error {
    match error {
        StreamError::TimedOut => {
            Error::new(ErrorKind::Timeout, "the peer did not take the bytes in time")
        }
        StreamError::Ended => Error::new(ErrorKind::Disconnected, "the peer closed the connection"),
        StreamError::Failed(io) => {
            Error::new(ErrorKind::Disconnected, "the connection failed").with_source(io)
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{Receiver, unbounded};

    use super::*;
    use crate::net::testing::{ScriptedServer, eventually, soon};
    use crate::protocol::ApiKey;
    use crate::protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
    use crate::threads::Stop;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A client whose read loop fills a channel.
    fn reading(server: &ScriptedServer, mode: ReadMode) -> (TcpClient, Receiver<Read>) {
        let settings = TcpSettings::new().frame_bytes_max(1000);
        let client = TcpClient::connect(&server.address(), &settings).expect("connected");
        let (sender, receiver) = unbounded();
        client
            .start_reading(mode, move |read| sender.send(read).expect("the test reads"))
            .expect("started");
        (client, receiver)
    }

    fn next(receiver: &Receiver<Read>) -> Read {
        receiver.recv_deadline(soon().instant()).expect("the callback is called")
    }

    fn bytes(read: Read) -> Bytes {
        match read {
            Read::Bytes(bytes) => bytes,
            Read::End(why) => panic!("the end: {why:?}"),
        }
    }

    fn end(read: Read) -> Option<Error> {
        match read {
            Read::End(why) => why,
            Read::Bytes(bytes) => panic!("{bytes:?}"),
        }
    }

    #[test]
    fn a_broker_answers_what_was_written_and_flushed() {
        let server = ScriptedServer::start(|mut peer| {
            let request = peer.receive().expect("a request");
            assert_eq!(request.header.api, ApiKey::API_VERSIONS);
            request.decode::<ApiVersionsRequest>();
            peer.answer(&request, &ApiVersionsResponse::default());
            peer.hold();
        });
        let (client, reads) = reading(&server, ReadMode::Frames);
        client.write(&[0, 0, 0, 10, 0, 18, 0, 0]).expect("written");
        client.write(&[0, 0, 0, 7, 0xff, 0xff]).expect("written");
        assert!(reads.try_recv().is_err(), "nothing is sent before the flush");
        client.flush().expect("flushed");
        let frame = bytes(next(&reads));
        assert_eq!(&*frame, [0, 0, 0, 7, 0, 0, 0, 0, 0, 0]);
        client.close(PATIENCE).expect("closed");
        assert!(end(next(&reads)).is_none());
        assert_eq!(client.write(&[1]).expect_err("closed").kind(), ErrorKind::Closed);
        client.close(PATIENCE).expect("again");
    }

    #[test]
    fn raw_reading_ends_with_the_peer() {
        let server = ScriptedServer::start(|mut peer| {
            peer.send(b"HTTP/1.1 400");
            peer.finish_sending();
            peer.hold();
        });
        let (client, reads) = reading(&server, ReadMode::Raw);
        let mut all = Vec::new();
        while all.len() < 12 {
            all.extend_from_slice(&bytes(next(&reads)));
        }
        assert_eq!(all, b"HTTP/1.1 400");
        assert!(end(next(&reads)).is_none());
        assert_eq!(client.flush().expect_err("over").kind(), ErrorKind::Disconnected);
        assert!(!client.is_reusable());
    }

    #[test]
    fn what_is_no_frame_ends_the_loop_with_the_reason() {
        for (sent, word) in [
            (&b"\x15\x03\x03\x00\x02\x02\x46"[..], "TLS"),
            (b"\x00\x00\x10\x00", "limit is 1000"),
            (b"\x00\x00\x00\x09abc", "inside a frame, after 3 bytes"),
        ] {
            let server = ScriptedServer::start(move |mut peer| {
                peer.send(sent);
                peer.finish_sending();
                peer.hold();
            });
            let (_client, reads) = reading(&server, ReadMode::Frames);
            let error = end(next(&reads)).expect("a failure");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn large_writes_go_out_by_themselves_and_close_flushes_the_rest() {
        const SIZE: usize = 1_000_003;
        let (sender, received) = unbounded();
        let server = ScriptedServer::start(move |mut peer| {
            sender.send(peer.receive_all()).expect("the test reads");
        });
        let client = TcpClient::connect(&server.address(), &TcpSettings::new()).expect("connected");
        let sent: Vec<u8> = (0..SIZE).map(|at| at as u8).collect();
        for piece in sent.chunks(10_007) {
            client.write(piece).expect("written");
        }
        client.close(PATIENCE).expect("closed");
        let got = received.recv_deadline(soon().instant()).expect("all");
        assert!(got == sent, "{} of {SIZE} bytes, or others", got.len());
    }

    #[test]
    fn a_callback_that_panics_ends_the_connection() {
        let server = ScriptedServer::start(|mut peer| {
            peer.send(b"x");
            peer.hold();
        });
        let client = TcpClient::connect(&server.address(), &TcpSettings::new()).expect("connected");
        client.start_reading(ReadMode::Raw, |_| panic!("on purpose")).expect("started");
        eventually("the connection ends", || !client.is_reusable());
        assert_eq!(client.write(&[1]).expect_err("over").kind(), ErrorKind::Handler);
    }

    #[test]
    fn a_callback_that_hangs_does_not_hold_close() {
        let server = ScriptedServer::start(|mut peer| {
            peer.send(b"x");
            peer.hold();
        });
        let client = TcpClient::connect(&server.address(), &TcpSettings::new()).expect("connected");
        let (stop, inside) = (Stop::new(), Stop::new());
        let (held, reached) = (stop.clone(), inside.clone());
        client
            .start_reading(ReadMode::Raw, move |_| {
                reached.set();
                held.wait_until(soon());
            })
            .expect("started");
        assert!(inside.wait_until(soon()));
        let again = client.start_reading(ReadMode::Raw, |_| {});
        assert_eq!(again.expect_err("it runs").kind(), ErrorKind::InvalidInput);
        let error = client.close(Duration::from_millis(10)).expect_err("the callback hangs");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        stop.set();
    }

    #[test]
    fn who_refuses_is_named() {
        let (_port, address) = crate::net::testing::refusing();
        let address = Address::new(address.ip().to_string(), address.port());
        let error = TcpClient::connect(&address, &TcpSettings::new()).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Connect);
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}
