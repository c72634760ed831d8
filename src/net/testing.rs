//! A scripted server for tests: accepts on a loopback port of the system's choice and lets a
//! closure play the broker, one thread per connection. Ends with the value.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Address, Endpoint, Settings};
use crate::clock::Deadline;
use crate::protocol::messages::{ApiVersion, ApiVersionsResponse};
use crate::protocol::{
    ApiKey, Bytes, Message, Reader, RequestHeader, ResponseHeader, TaggedFields, Writer,
};
use crate::threads::{Thread, spawn};

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
        let mut writer = Writer::new();
        let header = ResponseHeader { correlation_id: id, tagged_fields: TaggedFields::default() };
        header.encode(&mut writer, api, version).expect("a header encodes");
        body.encode(&mut writer, version).expect("an answer encodes");
        let frame = writer.into_vec();
        self.send(&(frame.len() as i32).to_be_bytes());
        self.send(&frame);
    }

    /// Sends any bytes; a client that has gone is no matter.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).ok();
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
    address: Address,
    stop: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    threads: Arc<Mutex<Vec<Thread>>>,
    acceptor: Option<Thread>,
}

impl ScriptedServer {
    /// Starts it; `play` runs once per connection, on a thread of its own.
    pub(crate) fn start(play: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let port = listener.local_addr().expect("a bound address").port();
        let mut server = Self {
            address: Address::new("127.0.0.1", port),
            stop: Arc::default(),
            accepted: Arc::default(),
            streams: Arc::default(),
            threads: Arc::default(),
            acceptor: None,
        };
        let (stop, accepted) = (Arc::clone(&server.stop), Arc::clone(&server.accepted));
        let (streams, threads) = (Arc::clone(&server.streams), Arc::clone(&server.threads));
        let play = Arc::new(play);
        let acceptor = spawn("test-accept", move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.expect("accept");
                stream.set_nodelay(true).expect("nodelay");
                streams.lock().push(stream.try_clone().expect("a second handle"));
                let peer = Peer { stream, index: accepted.fetch_add(1, Ordering::SeqCst) };
                let play = Arc::clone(&play);
                let body = move || {
                    let ended = peer.stream.try_clone().expect("a second handle");
                    play(peer);
                    ended.shutdown(Shutdown::Both).ok();
                };
                threads.lock().push(spawn("test-peer", body).expect("a thread"));
            }
        });
        server.acceptor = Some(acceptor.expect("a thread"));
        server
    }

    /// How many connections were made.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Where it listens.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint { id: None, address: self.address.clone() }
    }

    /// Ends every connection, keeps accepting.
    pub(crate) fn drop_connections(&self) {
        for stream in self.streams.lock().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let wake = super::stream::connect(&self.endpoint(), &settings(), soon());
        drop(wake);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join();
        }
        self.drop_connections();
        for thread in self.threads.lock().drain(..) {
            thread.join_by(soon());
        }
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
