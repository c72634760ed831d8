//! The only opener of sockets: addresses, framed connections, the keyed pool, the direct client.
//!
//! ```text
//! tcp_client   a direct connection for proxies and fuzzers, its read loop on a thread
//! connections  the pool of a client; pool: idle connections by endpoint, bounded, on r2d2
//! connection   open, agree on versions, call; halves: for a writing and a reading thread
//! frame        size and payload, bounded, aligned
//! stream       a TCP socket with deadlines; resolve: names to addresses, at each connect
//! address      host and port; a broker's endpoint               (values)
//! negotiate    the first exchange; versions: which one to use   (decisions)
//! in_flight    what was sent and not answered                   (decisions)
//! ```
//!
//! Everything here blocks its caller, and everything takes a deadline. Nothing here knows topics,
//! leaders or retries: a failure is described and given up. The threads are the callers', but for
//! `ottla-pool` (closes idle connections), `ottla-dns` (looks up one name) and `ottla-tcp` (the read
//! loop of a [`TcpClient`]).

mod address;
mod connection;
mod connections;
mod frame;
mod halves;
mod in_flight;
mod negotiate;
pub mod pool;
mod resolve;
mod settings;
mod stream;
mod tcp_client;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod versions;

pub use address::{Address, Endpoint};
pub(crate) use connection::Connection;
pub(crate) use connections::Connections;
pub(crate) use halves::{Closer, RequestSender, ResponseReceiver};
pub(crate) use settings::Settings;
pub use settings::TcpSettings;
pub use tcp_client::{Read, ReadMode, TcpClient};
