//! The one suite that both queues pass.
//!
//! - `rig`: a queue under test whose clock stands still and whose store can be injured.
//! - `bench`: one partition, one organiser and two workers on such a queue.
//! - `rules`, `holes`: every rule and every hole of the natural reading, by name, on each queue.
//! - `steering`: what people do about failed units, on each queue.
//! - `world`: Kafka, organisers and workers around the queues, driven step by step; asserts the invariant after
//!   every step and that both queues give the same answers.
//! - `random`: random worlds.
//! - `exhaustive`: every interleaving of a small group, on the transitions alone.
//!
//! On Redis they run with the feature `real-servers`, at the address in `OTTLA_REDIS`.

mod bench;
mod exhaustive;
mod holes;
mod random;
mod rig;
mod rules;
mod steering;
mod world;
