//! The only opener of sockets: addresses, framed connections, the keyed pool, the direct client.
//!
//! ```text
//! tcp_client   a direct connection for proxies and fuzzers, its read loop on a thread
//! pool         idle connections by broker, bounded, on r2d2
//! connection   requests out, answers in, in order; negotiate: the first exchange
//! versions     which version a request takes
//! frame        size and payload, bounded, aligned
//! stream       connecting, all addresses; address: host and port
//! ```
//!
//! Everything here blocks its caller, and everything takes a deadline. Nothing here knows topics,
//! leaders or retries: a failure is described and given up.

mod address;
mod connection;
mod frame;
mod negotiate;
pub mod pool;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod versions;

pub use address::{Address, Endpoint};
pub(crate) use connection::{
    Answer, Closer, Connection, InFlight, RequestSender, ResponseReceiver,
};
pub(crate) use versions::BrokerVersions;

use std::time::Duration;

/// How connections are made.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The name that brokers show in their logs.
    pub(crate) client_id: String,
    /// Longest wait for one address to accept.
    pub(crate) connect_timeout: Duration,
    /// Longest answer that is accepted, in bytes.
    pub(crate) receive_max: usize,
    /// Size of the socket's send buffer, the system's if `None`.
    pub(crate) send_buffer: Option<usize>,
    /// Size of the socket's receive buffer, the system's if `None`.
    pub(crate) receive_buffer: Option<usize>,
}
