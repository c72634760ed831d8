//! Ottla: a Kafka client for programs that use threads.

pub mod admin;
mod clock;
pub mod cluster;
pub mod config;
mod error;
pub mod fetch;
pub mod net;
pub mod producer;
pub mod protocol;
mod threads;
pub mod work;

pub use error::{Error, ErrorKind, Result};
