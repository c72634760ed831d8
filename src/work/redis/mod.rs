//! The work queue on Redis, for workers and organisers on many machines.
//!
//! [`RedisQueue`] keeps the rules of [`WorkQueue`](crate::work::WorkQueue) by Lua scripts: every transition is one
//! script, so Redis runs it alone and whole, and every script reads the time from the server
//! (`TIME`; Redis 6 or later, which replicate a script's effects). The scripts and the state machine in
//! [`life`](crate::work::life) mirror each other line by line, and one test suite runs on both.
//!
//! ```text
//!  worker ──▶ RedisQueue ──▶ link: pool of connections (r2d2) ──▶ Redis: EVALSHA, BRPOPLPUSH
//! ```
//!
//! - `settings`: [`Redis`], where it is and how it is reached; opens a [`RedisQueue`].
//! - `keys`: names of keys. All of a group carry the hash tag `{group}`.
//! - `scripts`: the scripts' texts, put together.
//! - `link`: connections: bounded waits, none used again after an error.
//! - `batches`: scripts that threads run at a time, put together.
//! - `reply`: answers of scripts, read without trust.
//! - `client`: the operations.
//! - `audit`, `view`: the two operations that take several steps.
//!
//! Redis is reached through `link` alone: run a script, pop, read. Another client can take its place
//! with the same scripts.
//!
//! What it needs of Redis: memory that does not evict (an evicted key is a lost queue; open refuses policies that
//! would), and, to survive a restart of Redis, persistence. A queue that is lost is rebuilt from Kafka's offsets.

mod audit;
mod batches;
mod client;
mod keys;
mod link;
mod reply;
mod scripts;
mod settings;
#[cfg(test)]
mod tests;
mod view;

pub use client::RedisQueue;
pub use settings::Redis;
