//! Work units: the ranges of offsets that are shared out to workers, and the queue that holds them.
//!
//! A *work unit* is a range of offsets of one partition, `topic/partition/start-end`. An elected
//! organiser cuts what is new in each partition into units ([`plan`]) and puts them on a
//! [`WorkQueue`]; any worker claims the next one, reads that range from Kafka, handles it and
//! finishes it. What faults leave behind is mended by reaping, promoting and auditing.
//!
//! ```text
//!  Kafka's log ──plan──▶ queued ──claim, begin──▶ leased ──finish──▶ done ──▶ low moves
//!                          ▲                        │ failed, lease over
//!                          └──promote── delayed ◀───┤
//!                                                   └─▶ dead ──bury──▶ done
//! ```
//!
//! The pieces, from pure to real:
//!
//! - [`unit`](mod@unit): identities, parsed strictly.
//! - [`plan`]: pure functions that decide where a partition starts and how it is cut.
//! - [`queue`]: the trait [`WorkQueue`] with every rule written down, and its values.
//! - `life`: the life cycle as a pure state machine of (state, operation, now).
//! - [`memory`]: that state machine behind a mutex: a queue for one process.
//! - [`redis`]: the same rules as Lua scripts: a queue for many machines.
//!
//! And around the queue:
//!
//! - `organiser`: elects itself, plans, mends, commits the group's offsets.
//! - `session`, `worker`: one worker's way from claim to settlement; `lease` keeps what it holds.
//! - [`Node`], [`PullNode`]: what a program starts, by [`Client::node`](crate::Client::node).
//! - [`steer`]: what people do: redrive or drop what failed, move the group's position.
//! - `kafka`: what all of them need of Kafka, as one seam; `remote` is the real one.
//!
//! The invariant of all of it, per partition: `[low, planned)` is tiled exactly by outstanding
//! units and done ranges. Nothing is skipped without a record of what and why.

mod builder;
mod commit;
mod crew;
mod events;
mod handler;
mod kafka;
mod lanes;
mod lease;
mod letters;
mod life;
pub mod memory;
mod node;
#[cfg(test)]
mod node_tests;
mod organiser;
mod pace;
pub mod plan;
mod pull;
pub mod queue;
mod reading;
mod records;
pub mod redis;
mod remote;
mod session;
mod shared;
pub mod snapshot;
mod sources;
mod stats;
pub mod steer;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trouble;
mod turns;
pub mod unit;
mod unit_handle;
mod worker;

pub use builder::{NodeBuilder, QueueSource};
pub use events::{Event, Events};
pub use handler::HandlerResult;
pub use memory::MemoryQueue;
pub use node::Node;
pub use organiser::Organiser;
pub use pull::PullNode;
pub use queue::{DeadUnit, QueueRules, WorkQueue};
pub use redis::{Redis, RedisQueue};
pub use stats::{NodeStats, WorkerStats};
pub use unit::{LeaderId, LeaseToken, TopicPartition, UnitId, WorkerId};
pub use unit_handle::{Unit, UnitBatches, UnitRecords};
