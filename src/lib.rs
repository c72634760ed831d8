//! Ottla: a Kafka client for programs that use threads.

// First: its tables are macros that the builders use.
#[macro_use]
pub mod config;

pub mod admin;
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
pub use error::{Error, ErrorKind, Result};
