//! [`Keyed`]: connections to be used again, by endpoint.
//!
//! One r2d2 pool per endpoint, all on one scheduler thread (`ottla-pool`). What r2d2 keeps is not
//! the connection but a [slot](slot::Slot) that may hold one: a slot is made in no time, so r2d2
//! hands it out at once, and the caller's own thread connects and gets the typed error. A slot whose
//! connection failed goes back empty instead of broken. That matters twice: r2d2 does not wake
//! waiting threads when it discards something broken (a thread would sit out its time although there
//! is room), and a failed connect never costs a place.
//!
//! ```text
//! poll -> slot of that endpoint, the most recently used first   waits, bounded, while all are out
//!      -> holds a connection that is young, was not idle for too long, is alive: lend it
//!      -> else connect on the caller's thread
//! drop -> reusable and not too many idle: back into the slot
//!      -> else closed at once; the slot goes back empty
//! ```
//!
//! Ages are kept by the slots and looked at by one job of ours for all endpoints, every few
//! seconds, and by `poll`: r2d2 has such a job per pool but never takes it off the scheduler, so
//! each broker that moved would leave one behind. The job also forgets endpoints without connections.
//!
//! The lock on the map is held for look-ups only; no lock is held while a connection is made, used
//! or closed.

mod keyed;
mod slot;
#[cfg(test)]
mod tests;

pub use keyed::{KeyStats, Keyed, PoolSettings, Pooled};
pub use slot::Poolable;
