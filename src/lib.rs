//! Ottla: a Kafka client for programs built on threads. Every call blocks within a time-out, no
//! async runtime is involved.
//!
//! Two things make it worth choosing. *Work units*: an organiser cuts the new offsets of every
//! partition into ranges, any worker on any machine takes the next one; nobody owns a partition, so
//! a slow or dead worker delays one unit, and workers may outnumber partitions ([`Client::node`],
//! [`work`]). And a *producer* that is idempotent by default and tells what became of every record
//! ([`Client::producer`], [`producer`]).
//!
//! ```text
//! cli/  (feature "cli")      the ottla command, one file per subcommand
//! broker/ (feature "broker") a Kafka cluster inside the process, for tests
//! work/                      units, the queue (Redis or memory), organiser, workers, node
//! producer/ fetch/ admin/    records in, records out, topics
//! client    cluster/         the door; metadata, routing, the one retry loop
//! net/                       sockets, framed connections, the keyed pool
//! config/   error clock threads
//! protocol/                  bytes <-> values: messages, record batches; no I/O
//! ```
//!
//! Arrows point down: a module uses those below it. Decisions are pure functions and state
//! machines that take the time as an argument; sockets, clocks and threads are at the rim.
//!
//! If you are debugging a lost or doubled record, begin with [`producer`]; a unit that does not
//! move, with [`work`]; "it talks to the wrong broker" or "it waits too long", with [`cluster`];
//! bytes, with [`protocol`].

// First: its tables are macros that the builders use.
#[macro_use]
pub mod config;

pub mod admin;
#[cfg(any(test, feature = "broker"))]
pub mod broker;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod client;
mod clock;
pub mod cluster;
mod error;
pub mod fetch;
pub mod net;
pub mod producer;
pub mod protocol;
mod threads;
pub mod work;

pub use client::{Client, ClientBuilder};
pub use config::{Acks, AutoOffsetReset, IsolationLevel, PartitionerClass};
pub use error::{Error, ErrorKind, Result};
pub use fetch::ConsumerRecord;
pub use producer::{Producer, Record, Stored, Ticket, Undelivered};
pub use protocol::records::Compression;
pub use work::{Node, PullNode, Redis, Unit};

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
