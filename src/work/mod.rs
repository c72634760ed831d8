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
//! - [`unit`]: identities, parsed strictly.
//! - [`plan`]: pure functions that decide where a partition starts and how it is cut.
//! - [`queue`]: the trait [`WorkQueue`] with every rule written down, and its values.
//! - `life`: the life cycle as a pure state machine of (state, operation, now).
//! - [`memory`]: that state machine behind a mutex: a queue for one process.
//!
//! The invariant of all of it, per partition: `[low, planned)` is tiled exactly by outstanding
//! units and done ranges. Nothing is skipped without a record of what and why.

mod life;
pub mod memory;
pub mod plan;
pub mod queue;
pub mod snapshot;
pub mod unit;

pub use memory::MemoryQueue;
pub use queue::WorkQueue;
pub use unit::{LeaderId, LeaseToken, TopicPartition, UnitId, WorkerId};
