//! Opening a TCP connection: every address behind the name, each within its own time-out.
//!
//! Runs on the caller's thread and blocks it. Knows nothing of Kafka.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::{Endpoint, Settings};
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Result};

/// Idle time before the system probes a silent peer: a balancer that dropped the connection
/// without a word is noticed in a minute or two.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// The shortest connect time-out worth trying; the system refuses zero.
const CONNECT_MIN: Duration = Duration::from_millis(1);

/// Connects to `endpoint`, trying all its addresses in the resolver's order until one answers.
///
/// Blocks until `deadline` at most, `settings.connect_timeout` per address, and as long as the
/// system's resolver.
///
/// # Errors
/// `Resolve`, or `Connect` with the last address's reason, or `Timeout`.
pub(crate) fn connect(
    endpoint: &Endpoint,
    settings: &Settings,
    deadline: Deadline,
) -> Result<TcpStream> {
    let addresses = endpoint.address.resolve().map_err(|error| error.with_broker(endpoint))?;
    let mut failure = None;
    for address in addresses {
        let left = deadline.left();
        if left.is_zero() {
            break;
        }
        match connect_one(address, left.min(settings.connect_timeout).max(CONNECT_MIN)) {
            Ok(stream) => {
                configure(&stream, settings)
                    .map_err(|error| connect_error(endpoint, address, error))?;
                return Ok(stream);
            }
            Err(error) => failure = Some(connect_error(endpoint, address, error)),
        }
    }
    Err(failure.unwrap_or_else(|| {
        Error::new(ErrorKind::Timeout, "no time was left to connect").with_broker(endpoint)
    }))
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that connects")]
fn connect_one(address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&address, timeout)
}

fn connect_error(endpoint: &Endpoint, address: SocketAddr, error: io::Error) -> Error {
    Error::new(ErrorKind::Connect, format!("cannot connect to {address}"))
        .with_broker(endpoint)
        .with_source(error)
}

fn configure(stream: &TcpStream, settings: &Settings) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_IDLE))?;
    if let Some(bytes) = settings.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = settings.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    Ok(())
}

/// Whether the peer has closed, or has sent something unasked: such a connection must not be used
/// again. Does not block.
pub(crate) fn is_stale(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let peeked = stream.peek(&mut [0; 1]);
    let restored = stream.set_nonblocking(false);
    let quiet = matches!(&peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    !quiet || restored.is_err()
}

/// What is left until `deadline`, as a socket time-out.
///
/// # Errors
/// `TimedOut` when nothing is left.
pub(crate) fn time_left(deadline: Deadline) -> io::Result<Duration> {
    let left = deadline.remaining(clock::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
