//! One framed connection to a broker: requests out, answers in, in order.
//!
//! A broker answers the requests of a connection in the order they came, so the in-flight requests
//! form a queue and every answer must carry the correlation id at its front; anything else, a
//! time-out in the middle, or bytes that are no answer, poison the connection for good: the next
//! answer could be taken for another request's. A poisoned connection is dropped, never mended.
//!
//! ```text
//!   sender half              in-flight queue               receiver half
//!   send() ── push_back ──▶ [id, api, version] ── pop_front ──▶ receive()
//! ```
//!
//! [`Connection`] is both halves on one thread; [`Connection::split`] gives them to two (a
//! producer's writer and reader). The queue's lock is never held while the socket is used.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::frame::{self, FrameError};
use super::versions::BrokerVersions;
use super::{Endpoint, Settings, negotiate, stream};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use crate::protocol::{
    ApiKey, Bytes, ErrorCode, Message, Reader, Request, RequestHeader, ResponseHeader,
    TaggedFields, VersionRange, Writer,
};

/// Most requests that wait for their answer on one connection, whatever the caller does.
const IN_FLIGHT_MAX: usize = 1000;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) correlation_id: i32,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
}

/// The answer to one request, not decoded yet.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) request: InFlight,
    body: Bytes,
}

impl Answer {
    /// Decodes the body.
    ///
    /// # Errors
    /// `Protocol` when it is no such message.
    pub(crate) fn decode<M: Message>(&self) -> Result<M> {
        M::decode_all(&self.body, self.request.version)
            .map_err(|error| Error::from(error).with_api(self.request.api, self.request.version))
    }
}

/// What both halves share.
#[derive(Debug)]
struct Shared {
    stream: TcpStream,
    endpoint: Endpoint,
    /// Learnt by the first exchange.
    versions: OnceLock<BrokerVersions>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    in_flight: VecDeque<InFlight>,
    /// The id of the last request that the broker should leave unanswered (acks=0), with those
    /// before it: an answer that comes all the same (Event Hubs) is thrown away.
    unanswered: VecDeque<i32>,
    poisoned: bool,
}

/// The half that sends.
#[derive(Debug)]
pub(crate) struct RequestSender {
    shared: Arc<Shared>,
    client_id: Option<String>,
    next_correlation_id: i32,
    /// The last frame's buffer, used again.
    buffer: Vec<u8>,
}

/// The half that receives.
#[derive(Debug)]
pub(crate) struct ResponseReceiver {
    shared: Arc<Shared>,
    receive_max: usize,
}

/// Ends a connection from another thread, without keeping it alive.
#[derive(Clone, Debug)]
pub(crate) struct Closer(Weak<Shared>);

impl Closer {
    /// Ends the connection, if it is still there; who waits on it is woken with `Disconnected`.
    pub(crate) fn shutdown(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.shutdown();
        }
    }
}

/// A connection whose versions are known.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: RequestSender,
    receiver: ResponseReceiver,
}

impl Connection {
    /// Connects and asks the broker for its versions. Blocks until `deadline` at most.
    ///
    /// # Errors
    /// `Resolve`, `Connect`, `Timeout`, `Disconnected`, `Protocol`, each naming the broker.
    pub(crate) fn open(
        endpoint: &Endpoint,
        settings: &Settings,
        deadline: Deadline,
    ) -> Result<Self> {
        negotiate::open(endpoint, settings, deadline)
    }

    /// Connects without asking for versions.
    pub(super) fn connect(
        endpoint: &Endpoint,
        settings: &Settings,
        deadline: Deadline,
    ) -> Result<Self> {
        let stream = stream::connect(endpoint, settings, deadline)?;
        let shared = Arc::new(Shared {
            stream,
            endpoint: endpoint.clone(),
            versions: OnceLock::new(),
            state: Mutex::default(),
        });
        Ok(Self {
            sender: RequestSender {
                shared: Arc::clone(&shared),
                client_id: Some(settings.client_id.clone()),
                next_correlation_id: 1,
                buffer: Vec::new(),
            },
            receiver: ResponseReceiver { shared, receive_max: settings.receive_max },
        })
    }

    /// Keeps what the broker told about its versions.
    pub(super) fn learn(&self, versions: BrokerVersions) {
        self.sender.shared.versions.set(versions).expect("versions are learnt once a connection");
    }

    /// Asks for the broker's versions. A refusal (error 35) comes in the form of version 0,
    /// whatever was asked.
    pub(super) fn ask_versions(
        &mut self,
        request: &ApiVersionsRequest,
        version: i16,
        deadline: Deadline,
    ) -> Result<ApiVersionsResponse> {
        self.sender.send(request, version, deadline)?;
        let answer = self.receiver.receive(Some(deadline))?;
        let code = Reader::new(&answer.body).i16().map(ErrorCode);
        if code == Ok(ErrorCode::UNSUPPORTED_VERSION) {
            let request = InFlight { version: 0, ..answer.request };
            return Answer { request, ..answer }.decode();
        }
        answer.decode()
    }

    /// The broker.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.sender.shared.endpoint
    }

    /// What the broker speaks.
    pub(crate) fn versions(&self) -> &BrokerVersions {
        self.sender.versions()
    }

    /// The version for `api` on this connection, see [`BrokerVersions::choose`].
    ///
    /// # Errors
    /// `UnsupportedVersion`; nothing was sent.
    pub(crate) fn version_for(&self, api: ApiKey, cap: VersionRange) -> Result<i16> {
        self.sender.version_for(api, cap)
    }

    /// Sends a request and waits for its answer, until `deadline` at most.
    ///
    /// # Errors
    /// `Timeout`, `Disconnected`, `Protocol`: the connection is poisoned afterwards.
    /// `InvalidInput` when the request cannot be encoded: nothing was sent.
    pub(crate) fn call<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<R::Response> {
        self.sender.send(request, version, deadline)?;
        self.receiver.receive(Some(deadline))?.decode()
    }

    /// Sends a request that the broker does not answer (Produce with acks=0).
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(crate) fn tell<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<()> {
        self.sender.send_unanswered(request, version, deadline)
    }

    /// The means to end it from another thread.
    pub(crate) fn closer(&self) -> Closer {
        Closer(Arc::downgrade(&self.sender.shared))
    }

    /// Gives each half to a thread of its own.
    pub(crate) fn split(self) -> (RequestSender, ResponseReceiver) {
        (self.sender, self.receiver)
    }

    /// Whether another exchange may begin: no request waits for its answer, nothing went wrong,
    /// and the peer has neither closed nor said anything unasked. Does not block.
    pub(crate) fn is_reusable(&self) -> bool {
        let state = self.sender.shared.state.lock();
        let clean = !state.poisoned && state.in_flight.is_empty() && state.unanswered.is_empty();
        drop(state);
        clean && !stream::is_stale(&self.sender.shared.stream)
    }

    /// Whether it must be dropped: poisoned, or a request still waits. Cheaper than
    /// [`Connection::is_reusable`], without a look at the socket.
    pub(crate) fn is_spoilt(&self) -> bool {
        let state = self.sender.shared.state.lock();
        state.poisoned || !state.in_flight.is_empty()
    }
}

impl RequestSender {
    pub(crate) fn versions(&self) -> &BrokerVersions {
        self.shared.versions.get().expect("a connection is handed out after negotiation")
    }

    /// See [`Connection::version_for`].
    ///
    /// # Errors
    /// `UnsupportedVersion`; nothing was sent.
    pub(crate) fn version_for(&self, api: ApiKey, cap: VersionRange) -> Result<i16> {
        let chosen = self.versions().choose(api, cap);
        chosen.map_err(|error| error.with_broker(&self.shared.endpoint))
    }

    /// Sends a request; its correlation id comes back. Blocks until `deadline` at most.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(crate) fn send<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<i32> {
        self.send_frame(request, version, deadline, true)
    }

    /// Sends a request that the broker does not answer.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(crate) fn send_unanswered<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<()> {
        self.send_frame(request, version, deadline, false).map(drop)
    }

    fn send_frame<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
        answered: bool,
    ) -> Result<i32> {
        let correlation_id = self.next_correlation_id;
        // Ids above this are Java's for SASL; after them it starts again.
        self.next_correlation_id =
            if correlation_id >= 0x7fff_fff0 { 1 } else { correlation_id + 1 };
        let in_flight = InFlight { correlation_id, api: R::API, version };
        let header = RequestHeader {
            api: R::API,
            version,
            correlation_id,
            client_id: self.client_id.clone(),
            tagged_fields: TaggedFields::default(),
        };
        let mut writer = Writer::reusing(std::mem::take(&mut self.buffer));
        writer.put_be(0_i32.to_be_bytes());
        let encoded =
            header.encode(&mut writer).and_then(|()| request.encode(&mut writer, version));
        encoded.map_err(|error| Error::from(error).with_api(R::API, version))?;
        let size = writer.len() - size_of::<i32>();
        let announced = i32::try_from(size).map_err(|_| {
            let message = format!("a request of {size} bytes is too large for a frame");
            Error::new(ErrorKind::InvalidInput, message).with_api(R::API, version)
        })?;
        writer.set_i32(0, announced);

        self.shared.begin(in_flight, answered)?;
        let written = frame::write_all(&self.shared.stream, writer.pieces(), deadline);
        self.buffer = writer.into_own_buffer();
        written.map_err(|error| self.shared.poison(&in_flight, error, true))?;
        Ok(correlation_id)
    }

    /// How many requests wait for their answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.shared.state.lock().in_flight.len()
    }

    /// Ends the connection; a receiver that waits is woken with `Disconnected`.
    pub(crate) fn shutdown(&self) {
        self.shared.shutdown();
    }
}

impl ResponseReceiver {
    /// Waits for the next answer, until `deadline`, or without end when there is none.
    ///
    /// # Errors
    /// `Timeout`, `Disconnected`, `Protocol`: the connection is poisoned afterwards.
    pub(crate) fn receive(&mut self, deadline: Option<Deadline>) -> Result<Answer> {
        loop {
            let body = frame::read(&self.shared.stream, self.receive_max, deadline);
            let body = match body {
                Ok(body) => body,
                Err(error) => {
                    let waiting = self.shared.state.lock().in_flight.front().copied();
                    return Err(self.shared.poison_from(waiting.as_ref(), error, true));
                }
            };
            if let Some(answer) = self.shared.match_answer(&body)? {
                return Ok(answer);
            }
        }
    }

    /// The broker.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// Ends the connection; a sender that writes is woken with `Disconnected`.
    pub(crate) fn shutdown(&self) {
        self.shared.shutdown();
    }
}

impl Shared {
    /// Registers a request before its first byte is written.
    fn begin(&self, request: InFlight, answered: bool) -> Result<()> {
        let mut state = self.state.lock();
        if state.poisoned {
            let message = "the connection is broken by an earlier failure";
            return Err(self.describe(Error::new(ErrorKind::Disconnected, message), &request));
        }
        if state.in_flight.len() >= IN_FLIGHT_MAX {
            let message = format!("{IN_FLIGHT_MAX} requests wait for their answers already");
            return Err(self.describe(Error::new(ErrorKind::InvalidInput, message), &request));
        }
        if answered {
            state.in_flight.push_back(request);
        } else {
            state.unanswered.push_back(request.correlation_id);
            if state.unanswered.len() > IN_FLIGHT_MAX {
                state.unanswered.pop_front();
            }
        }
        Ok(())
    }

    /// Finds the request that a frame answers; `None` for an answer that nobody asked for.
    fn match_answer(&self, frame: &Bytes) -> Result<Option<Answer>> {
        let mut reader = Reader::shared(frame);
        let id = reader.i32().map_err(Error::from)?;
        let mut state = self.state.lock();
        let Some(request) = state.in_flight.front().copied() else {
            if take_unanswered(&mut state.unanswered, id) {
                return Ok(None);
            }
            state.poisoned = true;
            let message = format!("an answer with correlation id {id} came unasked");
            return Err(Error::new(ErrorKind::Protocol, message).with_broker(&self.endpoint));
        };
        if request.correlation_id != id {
            if take_unanswered(&mut state.unanswered, id) {
                return Ok(None);
            }
            state.poisoned = true;
            let expected = request.correlation_id;
            let message = format!("correlation id {id} came where {expected} was expected");
            return Err(self.describe(Error::new(ErrorKind::Protocol, message), &request));
        }
        state.in_flight.pop_front();
        if state.in_flight.is_empty() {
            // Answers come in order: what was to stay unanswered before this one stays so.
            state.unanswered.clear();
        }
        drop(state);
        let mut reader = Reader::shared(frame);
        ResponseHeader::decode(&mut reader, request.api, request.version).map_err(|error| {
            self.state.lock().poisoned = true;
            self.describe(Error::from(error), &request)
        })?;
        let start = reader.position();
        let body = frame.slice(start..frame.len()).expect("the reader stops inside the frame");
        Ok(Some(Answer { request, body }))
    }

    fn poison(&self, request: &InFlight, error: FrameError, sent: bool) -> Error {
        self.poison_from(Some(request), error, sent)
    }

    /// Marks the connection as broken and says why; `sent`: the request may have reached the
    /// broker.
    fn poison_from(&self, request: Option<&InFlight>, error: FrameError, sent: bool) -> Error {
        self.state.lock().poisoned = true;
        self.shutdown();
        let error = match error {
            FrameError::TimedOut => {
                Error::new(ErrorKind::Timeout, "the broker did not answer in time")
            }
            FrameError::Closed => {
                Error::new(ErrorKind::Disconnected, FrameError::Closed.to_string())
            }
            FrameError::Io(error) => {
                Error::new(ErrorKind::Disconnected, "the connection broke").with_source(error)
            }
            odd => Error::new(ErrorKind::Protocol, odd.to_string()),
        };
        let error =
            error.maybe_persisted(sent && request.is_some_and(|r| r.api == ApiKey::PRODUCE));
        match request {
            Some(request) => self.describe(error, request),
            None => error.with_broker(&self.endpoint),
        }
    }

    fn describe(&self, error: Error, request: &InFlight) -> Error {
        error.with_api(request.api, request.version).with_broker(&self.endpoint)
    }

    fn shutdown(&self) {
        // The only failure is that the socket is not connected any more, which is what is wanted.
        if let Err(error) = self.stream.shutdown(Shutdown::Both) {
            log::trace!("shutting down the connection to {}: {error}", self.endpoint);
        }
    }
}

/// Whether `id` is of a request that was to stay unanswered; forgets it and those before it.
fn take_unanswered(unanswered: &mut VecDeque<i32>, id: i32) -> bool {
    let Some(index) = unanswered.iter().position(|other| *other == id) else { return false };
    unanswered.drain(..=index);
    true
}
