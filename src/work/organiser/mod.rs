//! The organiser: the one member of a group that plans.
//!
//! ```text
//! lock    until when this process may act                 (pure)
//! round   what to do next about a partition               (pure)
//! alone   the organiser without workers, for programs
//! shell   keeps the lock, does what is due
//! planning  asks queue and Kafka about partitions, carries out what was decided
//! ```
//!
//! Every node is a candidate; the one that holds the queue's lock plans units, mends what faults
//! left behind, and commits the group's offsets. Losing the lock at any moment is harmless: the
//! queue compares the holder in every operation, and commits to Kafka start only while the lock
//! outlasts them.

mod alone;
mod lock;
mod planning;
mod round;
mod shell;

pub use alone::Organiser;
pub(crate) use shell::Shell;
