//! What the programs of this workspace share, so that they differ in their Kafka client alone: the
//! command line ([`Job`]), the data ([`payloads`]), the measuring ([`Meter`]) and the line that each
//! prints ([`Figures`]), which the driver reads again.
//!
//! Knows no Kafka client.

mod figures;
mod job;
mod meter;
mod payload;

pub use figures::Figures;
pub use job::{Codec, Job, Mode, PARTITIONS};
pub use meter::Meter;
pub use payload::{KEYS, POOL, keys, payloads};

/// Any failure: these programs print it and end with 1.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
