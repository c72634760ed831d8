//! One broker's listener: accepts connections, gives each a thread, ends them all.
//!
//! Threads: `brk<id>-accept` per broker that is up, `brk<id>-conn` per connection. All end when the
//! [`Server`] is dropped: the sockets are shut down, waits on the state are woken.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::connection::{self, Connection};
use super::observe;
use super::state::State;
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::threads::{Thread, spawn};

/// How long the end of a server waits for its threads.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the listener rests when the system has no socket or thread to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// What all brokers of a cluster share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Rung whenever a request has changed the state, and by every control of the cluster.
    pub(super) changed: Condvar,
    pub(super) observed: Mutex<observe::Log>,
    pub(super) limits: Limits,
    connections: AtomicU64,
}

/// What a peer cannot exceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of a request, Kafka's `socket.request.max.bytes`.
    pub(super) frame_bytes_max: usize,
    /// Connections of one broker, Kafka's `max.connections`.
    pub(super) connections_max: usize,
    /// Kafka's `connections.max.idle.ms`.
    pub(super) idle_max: Duration,
}

impl Shared {
    pub(super) fn new(state: State, limits: Limits) -> Self {
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            observed: Mutex::default(),
            limits,
            connections: AtomicU64::new(0),
        }
    }

    /// Changes the state and wakes whoever waits for a change.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock());
        self.changed.notify_all();
        result
    }
}

/// A broker that is up. Dropping it closes the port and every connection.
#[derive(Debug)]
pub(super) struct Server {
    local: SocketAddr,
    own: Arc<Own>,
    shared: Arc<Shared>,
    acceptor: Option<Thread>,
}

#[derive(Debug)]
struct Own {
    broker: i32,
    stop: AtomicBool,
    connections: Mutex<Vec<(Arc<TcpStream>, Thread)>>,
}

impl Server {
    /// Listens for `broker` on `127.0.0.1:port`, port 0 for one of the system's choice.
    ///
    /// # Errors
    /// `Io` when the port is taken or the system has no thread.
    pub(super) fn start(broker: i32, port: u16, shared: &Arc<Shared>) -> Result<Self> {
        let listener = listen(port).map_err(|error| {
            let what = format!("in-process broker {broker} could not listen on 127.0.0.1:{port}");
            Error::new(ErrorKind::Io, what).with_source(error)
        })?;
        let local = listener.local_addr().map_err(|error| {
            Error::new(ErrorKind::Io, "a listener without an address").with_source(error)
        })?;
        let own =
            Arc::new(Own { broker, stop: AtomicBool::new(false), connections: Mutex::default() });
        let (its, all) = (Arc::clone(&own), Arc::clone(shared));
        let acceptor =
            spawn(&format!("brk{broker}-accept"), move || accept(&listener, &its, &all))?;
        Ok(Self { local, own, shared: Arc::clone(shared), acceptor: Some(acceptor) })
    }

    /// The port it listens on.
    pub(super) fn port(&self) -> u16 {
        self.local.port()
    }

    /// Closes every connection; the port stays open.
    pub(super) fn drop_connections(&self) {
        for (stream, _) in self.own.connections.lock().iter() {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

/// `SO_REUSEADDR` is set by the standard library, so that a broker can come back to its port.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", port))
}

fn accept(listener: &TcpListener, own: &Arc<Own>, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if own.stop.load(Ordering::SeqCst) {
            return;
        }
        let taken = stream.map_err(no_socket).and_then(|stream| take(stream, own, shared));
        if let Err(error) = taken {
            log::warn!("broker {} could not take a connection: {error}", own.broker);
            crate::threads::Stop::new().wait(ACCEPT_PAUSE);
        }
    }
}

fn no_socket(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the system gave no socket").with_source(error)
}

/// Gives the connection a thread, or closes it when there are too many.
fn take(stream: TcpStream, own: &Arc<Own>, shared: &Arc<Shared>) -> Result<()> {
    let mut connections = own.connections.lock();
    connections.retain(|(_, thread)| !thread.has_ended());
    if connections.len() >= shared.limits.connections_max {
        log::warn!(
            "broker {} has its {} connections; one more is closed",
            own.broker,
            connections.len()
        );
        return Ok(());
    }
    let kept = Arc::new(stream.try_clone().map_err(no_socket)?);
    let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
    let connection =
        Connection::new(&stream, own.broker, number, Arc::clone(shared)).map_err(no_socket)?;
    let ended = Arc::clone(&kept);
    let thread = spawn(&format!("brk{}-conn", own.broker), move || {
        connection::serve(stream, connection);
        ended.shutdown(Shutdown::Both).ok();
    })?;
    connections.push((kept, thread));
    Ok(())
}

impl Drop for Server {
    #[expect(clippy::disallowed_methods, reason = "wakes the accept of this very listener")]
    fn drop(&mut self) {
        let deadline = Deadline::within(END_TIMEOUT);
        self.own.stop.store(true, Ordering::SeqCst);
        drop(TcpStream::connect_timeout(&self.local, deadline.left()));
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join_by(deadline);
        }
        self.drop_connections();
        self.shared.change(|state| state.end_connections(self.own.broker));
        let connections = std::mem::take(&mut *self.own.connections.lock());
        for (_, thread) in connections {
            thread.join_by(deadline);
        }
    }
}
