//! A scripted server for tests: accepts on a loopback port and lets a closure play the broker, one
//! thread per connection. Ends with the value; a script that panicked fails the test then.
//!
//! [`names`] holds host names under `.test` that resolve to what a test says.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Address, Endpoint, Settings};
use crate::clock::{self, Deadline};
use crate::protocol::messages::{ApiVersion, ApiVersionsResponse};
use crate::protocol::{
    ApiKey, Bytes, Message, Reader, RequestHeader, ResponseHeader, TaggedFields, Writer,
};
use crate::threads::{self, Thread, spawn};

/// A request as the server reads it.
pub(crate) struct Received {
    pub(crate) header: RequestHeader,
    pub(crate) body: Bytes,
}

impl Received {
    pub(crate) fn decode<M: Message>(&self) -> M {
        M::decode_all(&self.body, self.header.version).expect("a request of ours decodes")
    }
}

/// One accepted connection.
pub(crate) struct Peer {
    stream: TcpStream,
    /// Counts the connections of the server, from 0.
    pub(crate) index: usize,
}

impl Peer {
    /// The next request, `None` when the client has closed.
    pub(crate) fn receive(&mut self) -> Option<Received> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).ok()?;
        let mut frame = vec![0; i32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut frame).ok()?;
        let frame = Bytes::from(frame);
        let mut reader = Reader::shared(&frame);
        let header = RequestHeader::decode(&mut reader).expect("a header of ours decodes");
        let start = reader.position();
        let body = frame.slice(start..frame.len()).expect("inside");
        Some(Received { header, body })
    }

    /// Answers `request` with `body`.
    pub(crate) fn answer<M: Message>(&mut self, request: &Received, body: &M) {
        self.answer_as(
            request.header.correlation_id,
            request.header.api,
            request.header.version,
            body,
        );
    }

    /// Answers with a correlation id and version of the test's choice.
    pub(crate) fn answer_as<M: Message>(&mut self, id: i32, api: ApiKey, version: i16, body: &M) {
        self.send(&frame(id, api, version, body));
    }

    /// Sends any bytes; a client that has gone is no matter.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).ok();
    }

    /// Ends the sending side: the client reads the end of the stream, and can still write.
    pub(crate) fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).ok();
    }

    /// Whether the client has closed, as far as is known.
    pub(crate) fn is_closed(&self) -> bool {
        self.stream.set_nonblocking(true).expect("the mode");
        let ended = match self.stream.peek(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        self.stream.set_nonblocking(false).expect("the mode");
        ended
    }

    /// Takes whatever comes and says nothing, until the client closes.
    pub(crate) fn hold(&mut self) {
        let mut scratch = [0; 4096];
        while matches!(self.stream.read(&mut scratch), Ok(1..)) {}
    }

    /// All that the client sends until it closes.
    pub(crate) fn receive_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        self.stream.read_to_end(&mut all).expect("the client ends in order");
        all
    }

    /// Answers ApiVersions with every API in every stable version; gives other requests back.
    pub(crate) fn receive_past_versions(&mut self) -> Option<Received> {
        loop {
            let request = self.receive()?;
            if request.header.api != ApiKey::API_VERSIONS {
                return Some(request);
            }
            self.answer(&request, &all_versions());
        }
    }
}

/// An answer as it travels.
pub(crate) fn frame<M: Message>(id: i32, api: ApiKey, version: i16, body: &M) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put_be([0; 4]);
    let header = ResponseHeader { correlation_id: id, tagged_fields: TaggedFields::default() };
    header.encode(&mut writer, api, version).expect("a header encodes");
    body.encode(&mut writer, version).expect("an answer encodes");
    writer.set_i32(0, writer.len() as i32 - 4);
    writer.into_vec()
}

/// An ApiVersions answer that lists all that this crate speaks.
pub(crate) fn all_versions() -> ApiVersionsResponse {
    let api_keys = ApiKey::ALL.iter().map(|api| {
        let stable = api.facts().expect("listed APIs have facts").stable;
        ApiVersion {
            api_key: api.0,
            min_version: stable.min,
            max_version: stable.max,
            ..Default::default()
        }
    });
    ApiVersionsResponse { api_keys: api_keys.collect(), ..Default::default() }
}

/// The server.
pub(crate) struct ScriptedServer {
    local: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<Thread>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    accepted: AtomicUsize,
    /// Scripts that run.
    running: AtomicUsize,
    failures: Mutex<Vec<String>>,
    connections: Mutex<Vec<(Arc<TcpStream>, Thread)>>,
}

impl ScriptedServer {
    /// Starts it on a free port; `play` runs once per connection, on a thread of its own.
    pub(crate) fn start(play: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        Self::start_on("127.0.0.1:0".parse().expect("an address"), play)
    }

    /// Starts it on `local`.
    pub(crate) fn start_on(local: SocketAddr, play: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(local).expect("a loopback port");
        let local = listener.local_addr().expect("a bound address");
        let shared = Arc::<Shared>::default();
        let (own, play) = (Arc::clone(&shared), Arc::new(play));
        let acceptor = spawn("test-accept", move || accept(&listener, &own, &play));
        Self { local, shared, acceptor: Some(acceptor.expect("a thread")) }
    }

    /// How many connections were made.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many scripts run.
    pub(crate) fn running(&self) -> usize {
        self.shared.running.load(Ordering::SeqCst)
    }

    /// Where it listens.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> Address {
        Address::new(self.local.ip().to_string(), self.local.port())
    }

    /// It as a broker to begin with.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint { id: None, address: self.address() }
    }

    /// Ends every connection, keeps accepting.
    pub(crate) fn drop_connections(&self) {
        for (stream, _) in self.shared.connections.lock().iter() {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

fn accept<F>(listener: &TcpListener, shared: &Arc<Shared>, play: &Arc<F>)
where
    F: Fn(Peer) + Send + Sync + 'static,
{
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let stream = stream.expect("accept");
        stream.set_nodelay(true).expect("nodelay");
        let kept = Arc::new(stream.try_clone().expect("a second handle"));
        let index = shared.accepted.fetch_add(1, Ordering::SeqCst);
        shared.running.fetch_add(1, Ordering::SeqCst);
        // Held before the script can answer: who has its answer finds the connection here.
        let mut connections = shared.connections.lock();
        let (own, play, ended) = (Arc::clone(shared), Arc::clone(play), Arc::clone(&kept));
        let thread = spawn("test-peer", move || {
            let outcome = threads::guard(|| play(Peer { stream, index }));
            if let Err(panic) = outcome {
                own.failures.lock().push(format!("connection {index}: {panic}"));
            }
            ended.shutdown(Shutdown::Both).ok();
            own.running.fetch_sub(1, Ordering::SeqCst);
        });
        // The handles of ended connections go, or a long test would run out of them.
        connections.retain(|(_, thread)| !thread.has_ended());
        connections.push((kept, thread.expect("a thread")));
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(super::stream::Stream::connect(&self.address(), &settings(), soon()));
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join();
        }
        self.drop_connections();
        for (_, thread) in self.shared.connections.lock().drain(..) {
            thread.join_by(soon());
        }
        let failures = std::mem::take(&mut *self.shared.failures.lock());
        if !std::thread::panicking() {
            assert!(failures.is_empty(), "scripts failed: {failures:?}");
        }
    }
}

/// An address of this host that refuses connections. The socket keeps it from being used.
pub(crate) fn refusing() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    socket.bind(&any.into()).expect("a port");
    let address = socket.local_addr().expect("its address").as_socket().expect("an IP address");
    (socket, address)
}

/// Waits until `condition` holds, at most as long as [`soon`] says.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = soon();
    while !condition() {
        assert!(!deadline.has_passed(clock::now()), "it never came true that {what}");
        threads::pause(Duration::from_millis(1));
    }
}

/// Settings for tests.
pub(crate) fn settings() -> Settings {
    Settings {
        client_id: "test".to_owned(),
        connect_timeout: Duration::from_secs(10),
        receive_max: 1 << 20,
        send_buffer: None,
        receive_buffer: None,
    }
}

/// A deadline that a healthy test never meets.
pub(crate) fn soon() -> Deadline {
    Deadline::within(Duration::from_secs(20))
}

/// Host names under `.test`, common to all tests of the process: each test takes names of its own.
pub(crate) mod names {
    use std::collections::HashMap;
    use std::io;
    use std::net::SocketAddr;
    use std::sync::{Arc, LazyLock};

    use parking_lot::Mutex;

    type Answer = dyn Fn() -> io::Result<Vec<SocketAddr>> + Send + Sync;

    static NAMES: LazyLock<Mutex<HashMap<String, Arc<Answer>>>> = LazyLock::new(Mutex::default);

    /// `name` resolves to `addresses` from now on, whatever port is asked for.
    pub(crate) fn set(name: &str, addresses: &[SocketAddr]) {
        let addresses = addresses.to_vec();
        set_with(name, move || Ok(addresses.clone()));
    }

    /// `name` resolves to what `answer` gives from now on.
    pub(crate) fn set_with(
        name: &str,
        answer: impl Fn() -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) {
        assert!(name.strip_suffix(".test").is_some(), "only names under .test are looked up here");
        NAMES.lock().insert(name.to_owned(), Arc::new(answer));
    }

    /// What `name` resolves to, `None` when it is not under `.test`.
    pub(crate) fn look_up(name: &str) -> Option<io::Result<Vec<SocketAddr>>> {
        name.strip_suffix(".test")?;
        let answer = NAMES.lock().get(name).cloned();
        Some(match answer {
            Some(answer) => answer(),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "the name is not known")),
        })
    }
}
