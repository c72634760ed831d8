//! A Kafka cluster inside the process: brokers on loopback that speak the real protocol, for tests,
//! examples and development. Nothing to install, nothing kept; everything (threads, ports, memory)
//! ends with the value.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kafka = ottla::broker::Cluster::builder().brokers(3).topic("orders", 6).start()?;
//! let client = ottla::Client::builder(kafka.bootstrap()).build()?;
//! assert_eq!(client.topic("orders")?.partitions.len(), 6);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! cluster      Cluster and its Builder: what a test holds in its hand
//! server       one listener per broker; its connections
//! connection   frames in, answers out, one request at a time as in Kafka
//! dispatch     which API goes where; where faults strike; what is observed
//! faults       what a real broker cannot be told to do
//! replay       a connection without a socket, for fuzzers
//! call         what a handler gets (Call) and gives back (Outcome)
//! api/         one file per API, each opening with its versions and behaviour
//! sasl         who is at the other end; SCRAM
//! state/       what the cluster knows: brokers, topics, logs; no sockets, no threads
//! release      which Kafka it poses as: versions of every API, features
//! ```
//!
//! One lock guards the whole [`state`](self): a handler is a function from state and request to an
//! [`Outcome`](call::Outcome), runs under the lock and never blocks. One that has to wait (a long
//! poll, a group that rebalances) says until when; its connection's thread sleeps on the one
//! condition variable and runs it again whenever the state has changed. All brokers share each log:
//! replication is perfect, and a broker that stops hands its leaderships to the others.
//!
//! Hostile peers: a frame is bounded ([`Builder::frame_bytes_max`]) and its memory grows with what has
//! arrived, connections are bounded ([`Builder::connections_max`]), a reader that takes nothing for
//! [`WRITE_TIMEOUT`] is cut off, one answer at a time waits for it.
//!
//! Uses `protocol/`, the clock and the threads, and nothing else of this crate, so that a fault of
//! the client is not mirrored in what it is tested against.

mod api;
mod call;
mod cluster;
mod connection;
mod dispatch;
mod faults;
mod logs;
mod observe;
mod release;
mod replay;
mod sasl;
mod server;
mod state;
#[cfg(test)]
mod tests;

pub use cluster::{Builder, Cluster};
pub use connection::WRITE_TIMEOUT;
pub use faults::{Fault, FaultHandle};
pub use observe::Observed;
pub use release::Release;
#[doc(hidden)]
pub use replay::replay;
pub use sasl::SaslMechanism;
