//! The producer: records in, one outcome each.
//!
//! ```text
//! producer      the calls: send, send_with, try_send, flush, close
//! failures      the channel of failed records
//! record        Record (borrowed, going in), Undelivered (owned, coming back)
//! serialize     keys and values to bytes
//! ticket        Ticket, Stored; the outcome that the records of a batch share
//! partitioner   Java's murmur2 rule; the sticky partition (KIP-794); those of the user
//! memory        buffer.memory, max.block.ms, the pool of buffers
//! accumulator   a partition: open batch, waiting batches, what is on the wire
//! backlog       what of a partition may leave when: the order of its batches
//! batch         one batch from its first record to its end
//! sequence      idempotence of a partition as a state machine (KIP-98, KIP-360)
//! queue         hands partitions with work to a writer, and wakes it
//! writer        thread ottla-w-N: one Produce request out of what is ready for broker N
//! flight        requests under way on a connection
//! reader        thread ottla-r-N: answers, in order
//! answer        what an answer means
//! router        thread ottla-router: partitions without a reachable leader
//! routing       from the cluster's metadata to topics and queues
//! topics        snapshots of the topics that were sent to
//! id, init      the producer id; thread ottla-id asks for it
//! callbacks     thread ottla-cb
//! monitor       every event: counted, logged, told to the observer
//! metrics/      the counts, Producer::metrics, Prometheus
//! observer      events for the user's code
//! purge         Producer::purge: what was taken is given up
//! store/        the retry store: what could not be delivered, on disk; thread ottla-store
//! core          what the threads share; where every batch ends
//! ```
//!
//! A record is encoded once, by the caller's thread, into the open batch of its partition. Batches
//! travel, records do not; a wake-up is spent per batch at most. The writer compresses and sends,
//! the reader settles. No lock is held while a socket is written or read, while anything is
//! compressed, or while user code runs.
//!
//! Promises, each kept in the file named: every record that was taken has exactly one outcome
//! (`core`); records of a partition are stored in the order in which they were taken, also over
//! retries, with idempotence on (`backlog`, `sequence`); memory never exceeds
//! `buffer.memory` plus a small pool (`memory`); a caller that waits for a ticket or flushes does
//! not sit out the linger (`backlog`).
//!
//! Without idempotence and with more than one request in flight a retry may store records out of
//! order, as with Java's client. A batch that runs out of `delivery.timeout.ms` is failed; later
//! ones of its partition go on, under a new epoch from sequence 0 if its fate is not known. Records
//! for a topic that is deleted and made again meanwhile fail and never go to the new topic, as far as
//! broker and metadata have topic ids (Kafka 2.8; certain from Produce version 13 on).

mod accumulator;
mod answer;
mod backlog;
mod batch;
mod callbacks;
mod core;
mod failures;
#[cfg(test)]
mod fake_kafka;
mod flight;
mod id;
mod init;
mod memory;
mod metrics;
#[cfg(test)]
mod model_tests;
mod monitor;
mod observer;
pub(crate) mod partitioner;
#[expect(clippy::module_inception, reason = "the public type of the module")]
mod producer;
mod purge;
mod queue;
mod reader;
mod record;
mod router;
mod routing;
mod sequence;
mod serialize;
mod store;
#[cfg(test)]
mod tests;
mod ticket;
mod topics;
#[cfg(test)]
mod watch_tests;
mod writer;

pub use metrics::{BrokerMetrics, ProducerMetrics, Times, TopicMetrics};
pub use observer::{
    BatchAcknowledged, BatchFailed, BatchRetried, BatchSent, ConnectionLost, ConnectionOpened,
    EpochBumped, MetadataChanged, Observer, Throttled,
};
pub use partitioner::{PartitionRequest, Partitioner, RoundRobin};
pub use producer::{Producer, ProducerBuilder};
pub use record::{Record, Rejected, Undelivered};
#[cfg(feature = "json")]
pub use serialize::Json;
pub use serialize::{
    Payload, Serialize, SerializeBuffer, SerializeError, Short, With, WritePayload,
};
pub use ticket::{Stored, Ticket};
