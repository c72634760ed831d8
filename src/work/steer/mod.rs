//! What people do to a group's queue: have failed units worked on again, drop them, move the group's position.
//!
//! ```text
//!   redrive, drop_failed ──▶ queue        any time, beside workers and organiser
//!   PositionReset ──▶ lock ──▶ queue ──▶ Kafka, read back      only while nobody works
//! ```
//!
//! - `failed`: [`redrive`] and [`drop_failed`] over many partitions.
//! - `position`: [`PositionReset`].
//!
//! Runs on the caller's thread. Owns nothing that lasts; each step is an operation of the queue, so that no end in
//! the middle breaks its invariant.

mod failed;
mod position;
#[cfg(all(test, feature = "broker"))]
mod tests;

pub use failed::{Scope, drop_failed, redrive};
pub use position::{PositionMove, PositionReset, ResetTo};
