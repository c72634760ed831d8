//! The two halves of a connection: one sends requests, the other takes the answers.
//!
//! ```text
//!   writer thread             shared                  reader thread
//!   RequestSender::send  ->  in-flight queue  ->  ResponseReceiver::receive
//!        |                   end: why it is over          |
//!        +------------------- the socket -----------------+
//! ```
//!
//! A request is noted in the queue before its first byte is written, so its answer always finds it.
//! The first failure on either side is kept as the end of the connection; the socket is shut down,
//! which wakes the other side, and every later call is told that it is over. Dropping either half
//! ends the connection too. No lock is held while the socket is used.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::address::Endpoint;
use super::frame::{self, FrameError, FrameReader, ReadError};
use super::in_flight::{IN_FLIGHT_MAX, InFlight, Match, Sent};
use super::settings::Settings;
use super::stream::{Pending, Stream, StreamError};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{ApiKey, Bytes, Message, Reader, Request, ResponseHeader, Writer};

/// Largest buffer for building requests that is kept for the next one.
const KEPT_BUFFER_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
struct Shared {
    endpoint: Endpoint,
    stream: Stream,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    in_flight: InFlight,
    /// Why it is over.
    end: Option<Error>,
}

/// The half that sends. Owned by one thread.
#[derive(Debug)]
pub(crate) struct RequestSender {
    shared: Arc<Shared>,
    client_id: String,
    next_correlation_id: i32,
    /// The last frame's buffer, used again.
    buffer: Vec<u8>,
}

/// The half that receives. Owned by one thread.
#[derive(Debug)]
pub(crate) struct ResponseReceiver {
    shared: Arc<Shared>,
    frames: FrameReader,
}

/// Ends a connection from another thread, without keeping it alive.
#[derive(Clone, Debug)]
pub(crate) struct Closer(Weak<Shared>);

/// The answer to one request, its body not decoded yet.
#[derive(Debug)]
pub(crate) struct Answer {
    sent: Sent,
    body: Bytes,
}

/// Makes the halves of a connection over `stream`.
pub(super) fn halves(
    endpoint: Endpoint,
    stream: Stream,
    settings: &Settings,
) -> (RequestSender, ResponseReceiver) {
    let state = State { in_flight: InFlight::new(), end: None };
    let shared = Arc::new(Shared { endpoint, stream, state: Mutex::new(state) });
    let sender = RequestSender {
        shared: Arc::clone(&shared),
        client_id: settings.client_id.clone(),
        next_correlation_id: 1,
        buffer: Vec::new(),
    };
    let frames = FrameReader::new(settings.receive_max);
    (sender, ResponseReceiver { shared, frames })
}

impl Shared {
    /// Ends the connection because of `error`, unless it has ended before; gives `error` back with
    /// the broker's name.
    fn end(&self, error: Error) -> Error {
        let error = error.with_broker(&self.endpoint);
        self.state.lock().end.get_or_insert_with(|| error.clone());
        self.stream.shutdown();
        error
    }

    /// As [`Shared::end`], for a failure that may hide that a request was carried out.
    fn end_in_doubt(&self, error: Error, of: Option<Sent>) -> Error {
        let error = match of {
            Some(sent) => {
                error.with_api(sent.api, sent.version).maybe_persisted(sent.api == ApiKey::PRODUCE)
            }
            None => error,
        };
        self.end(error)
    }

    fn close(&self) {
        self.end(disconnected("the connection was closed on this side"));
    }

    /// The error of a call on a connection that is over: nothing was sent for it.
    fn over(&self, end: &Error) -> Error {
        disconnected("the connection is over since an earlier failure")
            .with_broker(&self.endpoint)
            .with_source(end.clone())
    }
}

impl Closer {
    /// Ends the connection, if it is still there; who waits on it is woken with `Disconnected`.
    pub(crate) fn shutdown(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.close();
        }
    }
}

impl Answer {
    /// Decodes the body.
    ///
    /// # Errors
    /// `Protocol` when it is no such message.
    pub(crate) fn decode<M: Message>(&self) -> Result<M> {
        let Sent { api, version, .. } = self.sent;
        debug_assert_eq!(M::API, api, "an answer is decoded as what was asked for");
        M::decode_all(&self.body, version)
            .map_err(|error| Error::from(error).with_api(api, version))
    }

    /// The body as it came.
    pub(super) fn body(&self) -> &Bytes {
        &self.body
    }
}

impl RequestSender {
    /// Sends a request; its correlation id comes back. Blocks until it is written, at most until
    /// `deadline`.
    ///
    /// # Errors
    /// `InvalidInput` when the request cannot be encoded or too many are in flight: nothing was
    /// sent and the connection stays good. Any other error is the end of the connection.
    pub(crate) fn send<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<i32> {
        self.write(request, version, deadline, InFlight::push)
    }

    /// Sends a request that the broker does not answer (Produce with `acks=0`).
    ///
    /// # Errors
    /// As [`RequestSender::send`].
    pub(crate) fn send_unanswered<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<()> {
        self.write(request, version, deadline, |in_flight, sent| {
            in_flight.push_unanswered(sent.correlation_id);
            true
        })?;
        Ok(())
    }

    fn write<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
        note: impl FnOnce(&mut InFlight, Sent) -> bool,
    ) -> Result<i32> {
        let correlation_id = self.next_correlation_id;
        let sent = Sent { correlation_id, api: R::API, version };
        let context = |error: Error| error.with_api(sent.api, version);
        let buffer = std::mem::take(&mut self.buffer);
        let frame = frame::encode(request, version, correlation_id, &self.client_id, buffer)
            .map_err(|error| context(error.into()).with_broker(&self.shared.endpoint))?;
        {
            let mut state = self.shared.state.lock();
            if let Some(end) = &state.end {
                return Err(context(self.shared.over(end)));
            }
            if !note(&mut state.in_flight, sent) {
                let text = format!("{IN_FLIGHT_MAX} requests wait for their answers already");
                let error = Error::new(ErrorKind::InvalidInput, text);
                return Err(context(error).with_broker(&self.shared.endpoint));
            }
        }
        // Ids stay positive.
        self.next_correlation_id = correlation_id.checked_add(1).unwrap_or(1);
        self.shared.stream.write_all(frame.pieces(), deadline).map_err(|error| {
            let error = match error {
                StreamError::TimedOut => {
                    let text = "the broker did not take the request in time";
                    Error::new(ErrorKind::Timeout, text)
                }
                StreamError::Ended => disconnected("the broker closed the connection"),
                StreamError::Failed(io) => {
                    disconnected("the connection failed while sending").with_source(io)
                }
            };
            self.shared.end_in_doubt(error, Some(sent))
        })?;
        self.keep_buffer(frame);
        Ok(correlation_id)
    }

    fn keep_buffer(&mut self, frame: Writer) {
        let buffer = frame.into_own_buffer();
        if buffer.capacity() <= KEPT_BUFFER_BYTES_MAX {
            self.buffer = buffer;
        }
    }

    /// How many requests wait for their answer.
    #[cfg_attr(not(test), expect(dead_code, reason = "the producer counts for itself"))]
    pub(crate) fn in_flight(&self) -> usize {
        self.shared.state.lock().in_flight.expected()
    }

    /// Ends the connection; a receiver that waits is woken with `Disconnected`.
    pub(crate) fn shutdown(&self) {
        self.shared.close();
    }

    pub(super) fn closer(&self) -> Closer {
        Closer(Arc::downgrade(&self.shared))
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }
}

impl Drop for RequestSender {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl ResponseReceiver {
    /// Waits for the answer to the oldest request, until `deadline`, or without end when there is
    /// none: then a [shutdown](RequestSender::shutdown) ends the wait.
    ///
    /// # Errors
    /// Any error is the end of the connection: `Timeout`, `Disconnected`, `Protocol`.
    pub(crate) fn receive(&mut self, deadline: Option<Deadline>) -> Result<Answer> {
        loop {
            if let Some(answer) = self.next_frame(deadline)? {
                return Ok(answer);
            }
        }
    }

    /// Ends the connection; a sender that writes is woken with `Disconnected`.
    pub(crate) fn shutdown(&self) {
        self.shared.close();
    }

    /// Waits for the answer to the oldest request and decodes it.
    pub(super) fn receive_as<M: Message>(&mut self, deadline: Deadline) -> Result<M> {
        let answer = self.receive(Some(deadline))?;
        answer.decode().map_err(|error| self.shared.end_in_doubt(error, Some(answer.sent)))
    }

    /// Reads one frame. `None` when it answers a request that expects nothing.
    fn next_frame(&mut self, deadline: Option<Deadline>) -> Result<Option<Answer>> {
        let frame = self
            .frames
            .read(&self.shared.stream, deadline)
            .map_err(|error| self.read_failed(error))?;
        let mut reader = Reader::shared(&frame);
        let correlation_id = reader.i32().map_err(|error| self.shared.end(error.into()))?;
        let matched = self.shared.state.lock().in_flight.answered(correlation_id);
        let sent = match matched {
            Match::Answer(sent) => sent,
            Match::Unexpected => return Ok(None),
            Match::Nothing { expected } => {
                let error = mismatch(correlation_id, expected);
                return Err(self.shared.end_in_doubt(error, expected));
            }
        };
        let mut reader = Reader::shared(&frame);
        ResponseHeader::decode(&mut reader, sent.api, sent.version)
            .map_err(|error| self.shared.end_in_doubt(error.into(), Some(sent)))?;
        let body = frame
            .slice(reader.position()..frame.len())
            .expect("the header was read from this frame");
        Ok(Some(Answer { sent, body }))
    }

    fn read_failed(&self, error: ReadError) -> Error {
        let (oldest, ended) = {
            let state = self.shared.state.lock();
            (state.in_flight.oldest(), state.end.clone())
        };
        // The socket failed because this side ended it: the reason is known.
        if let Some(end) = ended {
            let error = disconnected("the connection is over").with_source(end);
            return self.shared.end_in_doubt(error, oldest);
        }
        let error = match error {
            ReadError::Stream(StreamError::TimedOut) => {
                Error::new(ErrorKind::Timeout, "the broker did not answer in time")
            }
            ReadError::Stream(StreamError::Ended) => {
                disconnected("the broker closed the connection")
            }
            ReadError::Stream(StreamError::Failed(io)) => {
                disconnected("the connection failed").with_source(io)
            }
            ReadError::EndedInside { received, size } => {
                let size = size.map_or("its size".to_owned(), |size| format!("{size} bytes"));
                disconnected(format!("the connection ended after {received} bytes of {size}"))
            }
            ReadError::NoMemory(size) => {
                Error::new(ErrorKind::Io, format!("there is no memory for {size} bytes"))
            }
            ReadError::Frame(error @ FrameError::TooLarge { .. }) => {
                let text = format!("{error} (receive.message.max.bytes)");
                Error::new(error.kind(), text)
            }
            ReadError::Frame(error) => Error::new(error.kind(), error.to_string()),
        };
        self.shared.end_in_doubt(error, oldest)
    }

    /// On a connection where nothing is in flight: takes answers off the socket that nobody waits
    /// for, and finds out whether the peer has gone. Waits only for the rest of what has begun to
    /// come.
    ///
    /// # Errors
    /// `Disconnected` or `Protocol`; nothing was lost.
    pub(super) fn clear(&mut self, deadline: Deadline) -> Result<()> {
        loop {
            let may_be_answered = {
                let state = self.shared.state.lock();
                if let Some(end) = &state.end {
                    return Err(self.shared.over(end));
                }
                if state.in_flight.expected() > 0 {
                    return Ok(());
                }
                state.in_flight.has_unanswered()
            };
            match self.pending() {
                Pending::Nothing => return Ok(()),
                Pending::Bytes if may_be_answered => {
                    self.next_frame(Some(deadline))?;
                }
                Pending::Bytes => {
                    let text = "the peer sent bytes that nobody asked for";
                    return Err(self.shared.end(Error::new(ErrorKind::Protocol, text)));
                }
                Pending::End => {
                    let text = "the broker closed the idle connection";
                    return Err(self.shared.end(disconnected(text)));
                }
            }
        }
    }

    fn pending(&self) -> Pending {
        if self.frames.has_bytes() { Pending::Bytes } else { self.shared.stream.pending() }
    }

    /// Whether nothing failed and nothing is in flight.
    pub(super) fn is_reusable(&self) -> bool {
        let state = self.shared.state.lock();
        state.end.is_none() && state.in_flight.expected() == 0
    }

    /// Whether the peer is still there and sent nothing but what it may. Does not wait.
    pub(super) fn is_alive(&self) -> bool {
        match self.pending() {
            Pending::Nothing => true,
            Pending::Bytes => self.shared.state.lock().in_flight.has_unanswered(),
            Pending::End => false,
        }
    }
}

impl Drop for ResponseReceiver {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn disconnected(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Disconnected, text)
}

fn mismatch(correlation_id: i32, expected: Option<Sent>) -> Error {
    let text = match expected {
        Some(sent) => format!(
            "an answer with correlation id {correlation_id} came where {} was expected",
            sent.correlation_id
        ),
        None => format!("an answer with correlation id {correlation_id} came unasked"),
    };
    Error::new(ErrorKind::Protocol, text)
}
