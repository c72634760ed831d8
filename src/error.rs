//! The one error type of the crate, and the recovery each failure asks for.
//!
//! [`Error`] is opaque and cheap to clone (one failed connection fails every record that was on
//! it). It answers the questions a caller has: what failed ([`Error::kind`]), where
//! ([`Error::broker`], [`Error::api`], [`Error::topic`]), is another try worth it
//! ([`Error::is_retriable`]), may the record be stored all the same
//! ([`Error::possibly_persisted`]). `Display` is a sentence for a person that carries the context;
//! the cause is in the `source` chain.
//!
//! Inside the crate every failure maps to one [`Recovery`]; nobody compares messages.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::{ApiKey, DecodeError, EncodeError, ErrorCode};

/// Result of the crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in broad classes a program can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting or a combination of settings is illegal; nothing was sent.
    Config,
    /// An argument or a record was refused locally; nothing was sent.
    InvalidInput,
    /// A host name could not be resolved.
    Resolve,
    /// No connection could be made to a broker.
    Connect,
    /// The connection ended before the answer was complete.
    Disconnected,
    /// A deadline passed.
    Timeout,
    /// The peer's bytes are not what the Kafka protocol asks for.
    Protocol,
    /// The broker's answer is longer than `receive.message.max.bytes`; the connection was given up for it. Asked once more,
    /// then final.
    AnswerTooLarge,
    /// The peer speaks another protocol (TLS, HTTP, text): its port is no Kafka port, or not one for
    /// this kind of connection.
    NotKafka,
    /// The broker and this client share no version of the API that is needed.
    UnsupportedVersion,
    /// The broker answered with an error code, see [`Error::broker_code`].
    Broker,
    /// Stored data is damaged: a checksum or the layout of a record batch is wrong.
    Corrupt,
    /// The offset asked for is not in the log.
    OffsetOutOfRange,
    /// The topic or partition is not known to the cluster.
    UnknownTopic,
    /// The partition has no leader at present.
    NoLeader,
    /// The record is larger than `max.request.size` or the broker's limit.
    RecordTooLarge,
    /// The record could not be delivered in time and went to the retry store (`retry.store.path`), which sends it again:
    /// it must not be sent by the program too.
    StoredForRetry,
    /// The record was dropped by [`Producer::purge`](crate::Producer::purge).
    Purged,
    /// No space became free in the producer's buffer in time.
    BufferFull,
    /// The object was closed.
    Closed,
    /// The work queue (Redis) failed.
    Queue,
    /// A unit's lease was lost to another worker; what this one did since counts as a duplicate.
    LeaseLost,
    /// The user's handler, callback or serializer failed or panicked.
    Handler,
    /// The operating system refused something (a thread, a file).
    Io,
}

/// What the crate does about a failure. One exhaustive decision per failure, see
/// [`Error::recovery`] and `ErrorCode::recovery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Final: report it.
    Fail,
    /// The same request again to the same broker, after a back-off.
    Retry,
    /// Fetch metadata anew, then ask the broker it names.
    RefreshMetadata,
    /// Look the coordinator up again, then repeat.
    FindCoordinator,
    /// Open a new connection (and fetch metadata anew: the broker may be gone), then repeat.
    Reconnect,
}

/// An error of any call of the crate.
///
/// Cloning is cheap and shares the cause.
///
/// ```
/// use ottla::{Client, ErrorKind};
///
/// let error = Client::builder("localhost:no-port").build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Config);
/// assert!(!error.is_retriable());
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    broker: Option<String>,
    api: Option<(ApiKey, i16)>,
    topic: Option<Arc<str>>,
    partition: Option<i32>,
    code: Option<ErrorCode>,
    attempts: Option<u32>,
    elapsed: Option<Duration>,
    possibly_persisted: bool,
    given_up: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` says what failed, without the context that the setters add.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            broker: None,
            api: None,
            topic: None,
            partition: None,
            code: None,
            attempts: None,
            elapsed: None,
            possibly_persisted: false,
            given_up: false,
            source: None,
        }))
    }

    /// The broker answered `code`; `detail` is its own text, if it sent one.
    pub(crate) fn from_code(code: ErrorCode, detail: Option<&str>) -> Self {
        let kind = match code {
            ErrorCode::OFFSET_OUT_OF_RANGE => ErrorKind::OffsetOutOfRange,
            ErrorCode::CORRUPT_MESSAGE => ErrorKind::Corrupt,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => {
                ErrorKind::UnknownTopic
            }
            ErrorCode::LEADER_NOT_AVAILABLE => ErrorKind::NoLeader,
            ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => {
                ErrorKind::RecordTooLarge
            }
            ErrorCode::UNSUPPORTED_VERSION => ErrorKind::UnsupportedVersion,
            _ => ErrorKind::Broker,
        };
        let message = match detail {
            Some(text) if !text.is_empty() => format!("the broker answered {code}: {text}"),
            _ => format!("the broker answered {code}"),
        };
        Self::new(kind, message).change(|inner| inner.code = Some(code))
    }

    fn change(mut self, f: impl FnOnce(&mut Inner)) -> Self {
        f(Arc::make_mut(&mut self.0));
        self
    }

    /// Adds the cause.
    pub(crate) fn with_source(self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.change(|inner| inner.source = Some(Arc::new(source)))
    }

    /// Adds the broker, as `id (host:port)` or `host:port`, unless one is known already.
    pub(crate) fn with_broker(self, broker: impl fmt::Display) -> Self {
        self.change(|inner| {
            inner.broker.get_or_insert_with(|| broker.to_string());
        })
    }

    /// Adds the API and version of the request, unless known already.
    pub(crate) fn with_api(self, api: ApiKey, version: i16) -> Self {
        self.change(|inner| {
            inner.api.get_or_insert((api, version));
        })
    }

    /// Adds the topic, unless known already.
    pub(crate) fn with_topic(self, topic: &str) -> Self {
        self.change(|inner| {
            inner.topic.get_or_insert_with(|| topic.into());
        })
    }

    /// Adds topic and partition, unless known already.
    pub(crate) fn with_partition(self, topic: &str, partition: i32) -> Self {
        self.with_topic(topic).change(|inner| {
            inner.partition.get_or_insert(partition);
        })
    }

    /// Adds how often and for how long it was tried.
    pub(crate) fn with_attempts(self, attempts: u32, elapsed: Duration) -> Self {
        self.change(|inner| {
            // Those of a loop inside of this one are the more telling ones.
            inner.attempts = Some(attempts.max(inner.attempts.unwrap_or(0)));
            inner.elapsed = Some(elapsed);
        })
    }

    /// Says in front of the message what was being done.
    pub(crate) fn during(self, what: &str) -> Self {
        self.change(|inner| inner.message = format!("{what}: {}", inner.message))
    }

    /// Marks that it was tried again as long as that made sense: a retry loop around it ends too.
    pub(crate) fn given_up(self) -> Self {
        self.change(|inner| inner.given_up = true)
    }

    /// Marks that what was sent may have been stored all the same.
    pub(crate) fn maybe_persisted(self, possible: bool) -> Self {
        self.change(|inner| inner.possibly_persisted |= possible)
    }

    /// The class of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The broker involved: `id (host:port)`, or `host:port` while its id is unknown.
    pub fn broker(&self) -> Option<&str> {
        self.0.broker.as_deref()
    }

    /// The API and version of the request that failed.
    pub fn api(&self) -> Option<(ApiKey, i16)> {
        self.0.api
    }

    /// The topic involved.
    pub fn topic(&self) -> Option<&str> {
        self.0.topic.as_deref()
    }

    /// The partition involved.
    pub fn partition(&self) -> Option<i32> {
        self.0.partition
    }

    /// The broker's own code, if it answered with one.
    pub fn broker_code(&self) -> Option<ErrorCode> {
        self.0.code
    }

    /// How often it was tried before this error was given, when more than one try was made.
    pub fn attempts(&self) -> Option<u32> {
        self.0.attempts
    }

    /// Whether a deadline passed.
    pub fn is_timeout(&self) -> bool {
        self.0.kind == ErrorKind::Timeout
    }

    /// Whether the same call may succeed later.
    pub fn is_retriable(&self) -> bool {
        match self.0.kind {
            ErrorKind::Timeout | ErrorKind::BufferFull => true,
            _ => self.inherent_recovery() != Recovery::Fail,
        }
    }

    /// Whether the object that gave it cannot be used any more.
    pub fn is_fatal(&self) -> bool {
        self.0.kind == ErrorKind::Closed
            || matches!(
                self.0.code,
                Some(
                    ErrorCode::PRODUCER_FENCED
                        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
                        | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                        | ErrorCode::SASL_AUTHENTICATION_FAILED
                        | ErrorCode::UNSUPPORTED_SASL_MECHANISM
                )
            )
    }

    /// Whether what was sent may have been stored although the call failed.
    pub fn possibly_persisted(&self) -> bool {
        self.0.possibly_persisted
    }

    /// What to do about it.
    pub(crate) fn recovery(&self) -> Recovery {
        if self.0.given_up { Recovery::Fail } else { self.inherent_recovery() }
    }

    /// What to do about it the first time.
    fn inherent_recovery(&self) -> Recovery {
        if let Some(code) = self.0.code {
            return code.recovery();
        }
        match self.0.kind {
            ErrorKind::Resolve
            | ErrorKind::Connect
            | ErrorKind::Disconnected
            | ErrorKind::Protocol
            | ErrorKind::NotKafka
            | ErrorKind::AnswerTooLarge
            | ErrorKind::Timeout => Recovery::Reconnect,
            ErrorKind::NoLeader | ErrorKind::UnknownTopic => Recovery::RefreshMetadata,
            ErrorKind::Queue => Recovery::Retry,
            ErrorKind::Config
            | ErrorKind::InvalidInput
            | ErrorKind::UnsupportedVersion
            | ErrorKind::Broker
            | ErrorKind::Corrupt
            | ErrorKind::OffsetOutOfRange
            | ErrorKind::RecordTooLarge
            | ErrorKind::Purged
            | ErrorKind::StoredForRetry
            | ErrorKind::BufferFull
            | ErrorKind::Closed
            | ErrorKind::LeaseLost
            | ErrorKind::Handler
            | ErrorKind::Io => Recovery::Fail,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        f.write_str(&inner.message)?;
        let mut context = Vec::new();
        match (&inner.topic, inner.partition) {
            (Some(topic), Some(partition)) => {
                context.push(format!("partition {topic}-{partition}"));
            }
            (Some(topic), None) => context.push(format!("topic {topic}")),
            _ => {}
        }
        if let Some((api, version)) = inner.api {
            context.push(format!("{api} v{version}"));
        }
        if let Some(broker) = &inner.broker {
            context.push(format!("broker {broker}"));
        }
        if let (Some(attempts), Some(elapsed)) = (inner.attempts, inner.elapsed) {
            let noun = if attempts == 1 { "attempt" } else { "attempts" };
            context.push(format!("{attempts} {noun} in {} ms", elapsed.as_millis()));
        }
        if inner.possibly_persisted {
            context.push("it may have been stored".to_owned());
        }
        if !context.is_empty() {
            write!(f, " ({})", context.join(", "))?;
        }
        let mut cause = inner.source.as_deref().map(|source| source as &dyn StdError);
        while let Some(source) = cause {
            write!(f, ": {source}")?;
            cause = if source.is::<Error>() { None } else { source.source() };
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::new(ErrorKind::Protocol, "the peer's bytes could not be decoded").with_source(error)
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        Self::new(ErrorKind::InvalidInput, "the request could not be encoded").with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_carries_context_and_cause() {
        let io = std::io::Error::other("boom");
        let error = Error::from_code(ErrorCode::NOT_LEADER_OR_FOLLOWER, None)
            .with_partition("orders", 3)
            .with_api(ApiKey::PRODUCE, 9)
            .with_broker("2 (kafka2:9092)")
            .with_attempts(4, Duration::from_millis(900))
            .maybe_persisted(true)
            .with_source(io);
        assert_eq!(
            error.to_string(),
            "the broker answered NOT_LEADER_OR_FOLLOWER (6) (partition orders-3, Produce v9, \
             broker 2 (kafka2:9092), 4 attempts in 900 ms, it may have been stored): boom"
        );
        assert!(error.is_retriable());
        assert!(error.possibly_persisted());
    }

    #[test]
    fn the_first_context_stays() {
        let error = Error::new(ErrorKind::Connect, "refused").with_broker("a:1").with_broker("b:2");
        assert_eq!(error.broker(), Some("a:1"));
    }
}
