//! The Kafka protocol: bytes to values and back. No I/O, no clock, no thread, no log.
//!
//! ```text
//! wire      primitive types: Reader, Writer, DecodeError, EncodeError; bytes: Bytes
//! types     the field types in both forms of the wire: Uuid, strings, bytes, arrays
//! declare   the macro behind every message: one declaration yields both directions
//! messages  the declarations, a request beside its response, one file per API
//! api       ApiKey, the registry of versions, request and response headers
//! error_code  the broker's codes
//! records   record batches (v2) and the older message sets, compression
//! ```
//!
//! A message is one struct for all its versions: a field that a version lacks has its default
//! after decoding, and encoding refuses a value that the version cannot carry (unless Kafka itself
//! marks the field as ignorable). Decoding is total: any bytes give a value or a typed error,
//! without a panic and without memory beyond a small multiple of the bytes that are there. Tagged
//! fields that are not known are kept and written again (KIP-482).
//!
//! The modules are public for proxies, fuzzers and tools; the client above uses nothing else.
//!
//! ```
//! use ottla::protocol::messages::{MetadataRequest, MetadataRequestTopic};
//! use ottla::protocol::{Bytes, Message, Writer};
//!
//! let topic = MetadataRequestTopic { name: Some("orders".to_owned()), ..Default::default() };
//! let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
//! let mut writer = Writer::new();
//! request.encode(&mut writer, 12)?;
//! let body = Bytes::from(writer.into_vec());
//! assert_eq!(MetadataRequest::decode_all(&body, 12)?, request);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Proof: `laws` holds every message in every version to the same rules, with values that `generate`
//! makes from the declarations; `official` compares the declarations with Kafka's schemas and what
//! they write with Kafka's classes; `fuzz/` feeds every decoder with anything.

#[macro_use]
mod declare;

mod api;
mod bytes;
mod error_code;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod generate;
#[cfg(test)]
mod laws;
pub mod messages;
#[cfg(all(test, feature = "real-servers"))]
mod official;
pub mod records;
mod types;
pub mod wire;

pub use api::{ApiKey, RequestHeader, ResponseHeader, VersionRange};
pub use bytes::Bytes;
pub use declare::{Message, Request, TaggedFields};
pub use error_code::ErrorCode;
pub use types::Uuid;
pub use wire::{
    DecodeError, DecodeErrorKind, Decoded, EncodeError, EncodeErrorKind, Reader, Writer,
};
