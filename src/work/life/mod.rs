//! The life cycle of units, as a pure state machine.
//!
//! [`Life`] is everything that a queue holds; each operation of
//! [`WorkQueue`](crate::work::WorkQueue) is one method of it that takes `now` (milliseconds on the
//! queue's clock) and changes the state in one step. The rules stand at the trait. It knows no
//! clock, no lock, no thread and no store; its owner serialises the calls.
//!
//! It mirrors the layout that the queue has in Redis, key by key, so that the scripts can be
//! compared with it line by line and a test can take any single key away from either:
//!
//! | here | key |
//! |---|---|
//! | `work`, `lists` | `work`, `working:<worker>`: hints |
//! | `workers`, `leases`, `delayed`, `dead` | sorted sets by time |
//! | `units` | `u:<id>` |
//! | `out`, `done` | `out:<t>/<p>`, `done:<t>/<p>` |
//! | `parts` | `part:<t>/<p>` |
//! | `complete`, `errors`, `skipped` | trimmed logs |
//!
//! - `state`: the state and its small steps.
//! - `organiser`: the lock, partitions, plans.
//! - `worker`: claim, begin, renew, finish, and how a unit is settled.
//! - `mend`: promote, reap, audit, dead letters.
//! - `steer`: what people do about failed units and the position.
//! - `view`: the snapshot.

mod mend;
mod organiser;
mod state;
mod steer;
mod view;
mod worker;

pub(crate) use state::Life;
