//! [`Observer`]: events of a producer, told as they happen.
//!
//! For programs that count, log or alert in their own way. Metrics are there without it
//! ([`Producer::metrics`](super::Producer::metrics)).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::threads;

/// Is told what a producer does. Every method does nothing by default.
///
/// Called on the producer's own threads, which each method names, with no lock held, at most once per batch, answer or
/// connection, never per record. The thread goes on when the method returns: a method that takes longer than some
/// microseconds slows the producer down, one that blocks stops it. It must not call [`flush`](super::Producer::flush) or
/// [`close`](super::Producer::close), which would wait for it. A panic in it is caught and logged, and the producer goes on.
///
/// Several threads call it at once: one writer and one reader per broker. Events of one partition that concern the
/// same batch come in their order.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use ottla::producer::{BatchFailed, Observer};
///
/// #[derive(Default)]
/// struct Lost(AtomicU64);
///
/// impl Observer for Lost {
///     fn batch_failed(&self, event: &BatchFailed<'_>) {
///         self.0.fetch_add(u64::from(event.records), Ordering::Relaxed);
///     }
/// }
/// ```
pub trait Observer: Send + Sync {
    /// A batch is about to be written to a broker. On `ottla-w-N`.
    fn batch_sent(&self, event: &BatchSent<'_>) {
        let _ = event;
    }

    /// A broker acknowledged a batch; its tickets tell it already. On `ottla-r-N`; with `acks=0` when it was written, on
    /// `ottla-w-N`.
    fn batch_acknowledged(&self, event: &BatchAcknowledged<'_>) {
        let _ = event;
    }

    /// A batch, or some records of one that the broker named, failed for good, or went to the retry store (its error is of kind
    /// [`StoredForRetry`](crate::ErrorKind::StoredForRetry)); the tickets tell it already. On the thread
    /// that found out: `ottla-w-N`, `ottla-r-N`, `ottla-router`, `ottla-id`, or a caller's in `send` (the topic was deleted)
    /// and `close`.
    fn batch_failed(&self, event: &BatchFailed<'_>) {
        let _ = event;
    }

    /// A batch came back and will be sent again after a pause. On `ottla-r-N` or `ottla-w-N`.
    fn batch_retried(&self, event: &BatchRetried<'_>) {
        let _ = event;
    }

    /// A connection to a broker is ready. On `ottla-w-N`.
    fn connection_opened(&self, event: &ConnectionOpened<'_>) {
        let _ = event;
    }

    /// A connection to a broker ended or was given up, or could not be made. On `ottla-w-N`
    /// or `ottla-r-N`.
    fn connection_lost(&self, event: &ConnectionLost<'_>) {
        let _ = event;
    }

    /// A partition's sequences start again under a newer producer epoch (KIP-360). On `ottla-w-N`.
    fn epoch_bumped(&self, event: &EpochBumped<'_>) {
        let _ = event;
    }

    /// A broker asked for a pause (KIP-219). On `ottla-r-N`.
    fn throttled(&self, event: &Throttled<'_>) {
        let _ = event;
    }

    /// A topic that is sent to was found in newer metadata: for the first time, or changed. On `ottla-router`, or a
    /// caller's thread in `send`.
    fn metadata_changed(&self, event: &MetadataChanged<'_>) {
        let _ = event;
    }
}

/// See [`Observer::batch_sent`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BatchSent<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The broker, as `id (host:port)`.
    pub broker: &'a str,
    /// Records in it.
    pub records: u32,
    /// Its bytes in the request.
    pub bytes: usize,
    /// How often it has been sent, this time included.
    pub attempt: u32,
}

/// See [`Observer::batch_acknowledged`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BatchAcknowledged<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The broker, as `id (host:port)`.
    pub broker: &'a str,
    /// Records in it.
    pub records: u32,
    /// Offset of its first record, if the broker told it.
    pub base_offset: Option<i64>,
}

/// See [`Observer::batch_failed`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BatchFailed<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// Records that failed.
    pub records: u32,
    /// Why; [`Error::possibly_persisted`] tells whether they may be stored all the same.
    pub error: &'a Error,
}

/// See [`Observer::batch_retried`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BatchRetried<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// Records in it.
    pub records: u32,
    /// How often it was sent so far.
    pub attempts: u32,
    /// Why it came back.
    pub error: &'a Error,
}

/// See [`Observer::connection_opened`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionOpened<'a> {
    /// The broker's id.
    pub broker_id: i32,
    /// The broker, as `id (host:port)`.
    pub broker: &'a str,
}

/// See [`Observer::connection_lost`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionLost<'a> {
    /// The broker's id.
    pub broker_id: i32,
    /// Requests that waited for an answer; their batches are sent again.
    pub requests: usize,
    /// Why.
    pub error: &'a Error,
}

/// See [`Observer::epoch_bumped`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EpochBumped<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The producer id from now on.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
}

/// See [`Observer::throttled`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Throttled<'a> {
    /// The broker, as `id (host:port)`.
    pub broker: &'a str,
    /// For how long nothing is sent to it.
    pub pause: Duration,
}

/// See [`Observer::metadata_changed`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MetadataChanged<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Partitions it has.
    pub partitions: usize,
    /// How many of them have a leader.
    pub with_leader: usize,
}

/// The observer of a producer, if it has one.
#[derive(Clone, Default)]
pub(super) struct Watcher(Option<Arc<dyn Observer>>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "an observer" } else { "no observer" })
    }
}

impl Watcher {
    /// Tells `observer` everything.
    pub(super) fn new(observer: Arc<dyn Observer>) -> Self {
        Self(Some(observer))
    }

    /// Calls `tell` with the observer; a panic in it goes no further.
    pub(super) fn tell(&self, tell: impl FnOnce(&dyn Observer)) {
        let Some(observer) = &self.0 else { return };
        if let Err(panic) = threads::guard(|| tell(&**observer)) {
            log::error!("a producer's observer panicked: {panic}");
        }
    }
}
