//! What a caller hands to the producer, and what it gets back when it was not sent.
//!
//! A [`Record`] borrows everything: it is encoded straight into the open batch of its partition
//! before `send` returns, so nothing is copied on the way and the caller's buffers are free again
//! afterwards. An [`Undelivered`] owns its bytes: it is read back from a batch that
//! [`close`](super::Producer::close) had to give up.

use super::serialize::{Payload, Serialize};
use crate::error::Error;
use crate::protocol::records::Header;

/// A record on its way into the producer; borrows topic, key, value and headers.
///
/// Without a key it goes to the topic's current sticky partition, with one to the partition that
/// Java's client would pick (murmur2). Without a value it is a tombstone.
///
/// ```
/// use ottla::producer::Record;
///
/// let record = Record::to("orders").key("42").value(b"{}").header("trace", Some(b"7"));
/// assert_eq!(record.topic(), "orders");
/// ```
#[derive(Clone, Debug)]
pub struct Record<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: Option<i32>,
    pub(super) timestamp_ms: Option<i64>,
    pub(super) key: Payload<'a>,
    pub(super) value: Payload<'a>,
    pub(super) headers: Vec<Header<'a>>,
}

impl<'a> Record<'a> {
    /// A record for `topic` with neither key nor value.
    #[inline]
    pub fn to(topic: &'a str) -> Self {
        Self {
            topic,
            partition: None,
            timestamp_ms: None,
            key: Payload::Null,
            value: Payload::Null,
            headers: Vec::new(),
        }
    }

    /// Sets the key: bytes, text, a number, or whatever [`Serialize`] is written for. An empty key is a key; `None` is none.
    #[inline]
    #[must_use]
    pub fn key<K: Serialize + ?Sized>(mut self, key: &'a K) -> Self {
        self.key = key.payload();
        self
    }

    /// Sets the value, as [`key`](Self::key) does the key; left out, or `None`, the record is a tombstone.
    #[inline]
    #[must_use]
    pub fn value<V: Serialize + ?Sized>(mut self, value: &'a V) -> Self {
        self.value = value.payload();
        self
    }

    /// Adds a header; names may repeat, the order is kept.
    #[must_use]
    pub fn header(mut self, name: &'a str, value: Option<&'a [u8]>) -> Self {
        self.headers.push(Header { key: name, value });
        self
    }

    /// Sets the time in milliseconds since 1970. Defaults to the time of `send`.
    #[inline]
    #[must_use]
    pub fn timestamp(mut self, unix_ms: i64) -> Self {
        self.timestamp_ms = Some(unix_ms);
        self
    }

    /// Sets the partition instead of having it picked.
    #[inline]
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The topic it goes to.
    pub fn topic(&self) -> &'a str {
        self.topic
    }
}

/// A record whose key and value are bytes by now.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: Option<i32>,
    pub(super) timestamp_ms: Option<i64>,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: &'a [Header<'a>],
}

impl<'a> Plain<'a> {
    #[inline]
    pub(super) fn of(
        record: &'a Record<'_>,
        key: Option<&'a [u8]>,
        value: Option<&'a [u8]>,
    ) -> Self {
        let Record { topic, partition, timestamp_ms, .. } = *record;
        Self { topic, partition, timestamp_ms, key, value, headers: &record.headers }
    }
}

/// A record that was not delivered, with the reason.
///
/// Its bytes are its own, so it can be stored or sent again with [`Undelivered::record`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Undelivered {
    /// The topic.
    pub topic: String,
    /// The partition that had been picked.
    pub partition: i32,
    /// The time in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value; `None` for a tombstone.
    pub value: Option<Vec<u8>>,
    /// The headers in their order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Why; [`Error::possibly_persisted`] tells whether it may be stored all the same.
    pub reason: Error,
}

impl Undelivered {
    /// The record, to be sent again to the same partition.
    pub fn record(&self) -> Record<'_> {
        Record {
            topic: &self.topic,
            partition: Some(self.partition),
            timestamp_ms: Some(self.timestamp_ms),
            key: self.key.as_deref().map_or(Payload::Null, Payload::Bytes),
            value: self.value.as_deref().map_or(Payload::Null, Payload::Bytes),
            headers: self
                .headers
                .iter()
                .map(|(key, value)| Header { key, value: value.as_deref() })
                .collect(),
        }
    }
}

/// A record that [`try_send`](super::Producer::try_send) did not take, with the reason.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct Rejected<'a> {
    /// The record, as it was handed in.
    pub record: Record<'a>,
    /// Why; of kind [`BufferFull`](crate::ErrorKind::BufferFull) when there is no space now.
    #[source]
    pub error: Error,
}
