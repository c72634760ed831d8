//! Identities: a partition, a unit, a worker, a lease, a leader.
//!
//! Everything here is written into a store that other programs share (list entries and key names
//! in Redis) and read back from it, so each has one exact spelling and a strict parser: what
//! `Display` writes, `FromStr` reads, and nothing else. A list entry is removed by its exact
//! string, so two spellings of one unit would be two units.
//!
//! Owns no state; any thread. Values are cheap to clone (names are shared).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Largest offset that a unit may end at: 2^53 - 1, the largest integer that Lua's numbers and
/// Redis's scores hold exactly. At a million records a second it is reached after 285 years.
pub const OFFSET_MAX: i64 = (1 << 53) - 1;

/// Longest topic name that Kafka allows (`org.apache.kafka.common.internals.Topic`).
const TOPIC_BYTES_MAX: usize = 249;

/// Longest name of a worker.
const WORKER_BYTES_MAX: usize = 200;

/// Why a text or a set of numbers is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidId {
    /// Not a name that Kafka gives to a topic.
    #[error("`{0}` is no topic name: 1 to 249 of a-z, A-Z, 0-9, dot, underscore, hyphen")]
    Topic(String),
    /// A negative partition.
    #[error("partition {0} is negative")]
    Partition(i32),
    /// The range is empty, runs backwards, is negative or passes [`OFFSET_MAX`].
    #[error("offsets {start}-{end} are no range of a unit")]
    Range {
        /// First offset.
        start: i64,
        /// End, exclusive.
        end: i64,
    },
    /// Not `topic/partition` or `topic/partition/start-end`, each number in plain decimal.
    #[error("`{0}` is not of the form topic/partition/start-end")]
    Form(String),
    /// Not 1 to 200 visible ASCII characters.
    #[error("`{0}` is no worker name: 1 to 200 visible ASCII characters, no braces")]
    Worker(String),
    /// Not 32 hexadecimal digits in lower case.
    #[error("a token is 32 hexadecimal digits")]
    Token,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    topic: Arc<str>,
    partition: i32,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    ///
    /// # Errors
    /// If Kafka would not give a topic that name, or the number is negative.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Result<Self, InvalidId> {
        let topic = topic.into();
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if topic.is_empty()
            || topic.len() > TOPIC_BYTES_MAX
            || !topic.bytes().all(legal)
            || matches!(&*topic, "." | "..")
        {
            return Err(InvalidId::Topic(topic.chars().take(TOPIC_BYTES_MAX).collect()));
        }
        if partition < 0 {
            return Err(InvalidId::Partition(partition));
        }
        Ok(Self { topic, partition })
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition's number.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The unit `[start, end)` of this partition.
    ///
    /// # Errors
    /// If the range is empty, backwards, negative or passes [`OFFSET_MAX`].
    pub fn unit(&self, start: i64, end: i64) -> Result<UnitId, InvalidId> {
        if start < 0 || end <= start || end > OFFSET_MAX {
            return Err(InvalidId::Range { start, end });
        }
        Ok(UnitId { of: self.clone(), start, end })
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

impl FromStr for TopicPartition {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let form = || InvalidId::Form(shown(text));
        let (topic, partition) = text.split_once('/').ok_or_else(form)?;
        let number = decimal(partition).and_then(|n| i32::try_from(n).ok()).ok_or_else(form)?;
        Self::new(topic, number)
    }
}

/// A work unit: the offsets `[start, end)` of one partition, written `topic/partition/start-end`.
///
/// Immutable: what remains of a unit that was handled in part is another unit. A sink can use its
/// text as the key that makes writing idempotent.
///
/// ```
/// use ottla::work::UnitId;
///
/// let unit: UnitId = "orders/3/5000-10000".parse().unwrap();
/// assert_eq!((unit.topic(), unit.partition(), unit.len()), ("orders", 3, 5000));
/// assert_eq!(unit.to_string(), "orders/3/5000-10000");
/// assert!("orders/3/5000-05001".parse::<UnitId>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitId {
    of: TopicPartition,
    start: i64,
    end: i64,
}

#[expect(clippy::len_without_is_empty, reason = "a unit is never empty")]
impl UnitId {
    /// The partition it is a range of.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.of
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.of.topic
    }

    /// The partition's number.
    pub fn partition(&self) -> i32 {
        self.of.partition
    }

    /// The first offset.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// The end, exclusive.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// How many offsets it spans; never zero. Fewer records may be there (compaction, markers).
    pub fn len(&self) -> i64 {
        self.end - self.start
    }

    /// What remains from `position` on; `None` at or after the end. A position before the start
    /// is the start.
    pub fn from_position(&self, position: i64) -> Option<Self> {
        (position < self.end).then(|| Self {
            of: self.of.clone(),
            start: position.max(self.start),
            end: self.end,
        })
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}-{}", self.of, self.start, self.end)
    }
}

impl FromStr for UnitId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let form = || InvalidId::Form(shown(text));
        let (of, range) = text.rsplit_once('/').ok_or_else(form)?;
        let (start, end) = range.split_once('-').ok_or_else(form)?;
        let (start, end) = decimal(start).zip(decimal(end)).ok_or_else(form)?;
        of.parse::<TopicPartition>()?.unit(start, end)
    }
}

/// A worker: one thread of one process. The name is unique for each, also over restarts: it
/// carries a random part, so a restarted process never takes its predecessor's list for its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    /// A name that no other worker has: `label`, a hyphen and 64 random bits.
    ///
    /// # Errors
    /// If `label` holds other than visible ASCII characters, braces, or is longer than 180 bytes.
    pub fn unique(label: &str) -> Result<Self, InvalidId> {
        let [high, _] = random();
        format!("{label}-{high:016x}").parse()
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for WorkerId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let legal = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
        if text.is_empty() || text.len() > WORKER_BYTES_MAX || !text.bytes().all(legal) {
            return Err(InvalidId::Worker(shown(text)));
        }
        Ok(Self(text.into()))
    }
}

/// Proof of one lease: 128 random bits, drawn by the worker before it begins a unit and repeated
/// until the queue has answered. Only its holder can renew or finish that lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken(u128);

impl LeaseToken {
    /// A new one.
    pub fn random() -> Self {
        let [high, low] = random();
        Self((u128::from(high) << 64) | u128::from(low))
    }
}

/// A candidate for organiser: 128 random bits, drawn once per process. Every operation of an
/// organiser carries it and is refused when another holds the lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaderId(u128);

impl LeaderId {
    /// A new one.
    pub fn random() -> Self {
        let [high, low] = random();
        Self((u128::from(high) << 64) | u128::from(low))
    }
}

macro_rules! token_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                if text.len() != 32 || !text.bytes().all(lower) {
                    return Err(InvalidId::Token);
                }
                u128::from_str_radix(text, 16).map(Self).map_err(|_| InvalidId::Token)
            }
        }
    };
}

token_text!(LeaseToken);
token_text!(LeaderId);

/// 128 bits from the operating system.
///
/// # Panics
/// If the system has no randomness to give: nothing that must be unique could be made.
fn random() -> [u64; 2] {
    let draw = || getrandom::u64().expect("the operating system gives random numbers");
    [draw(), draw()]
}

/// A number in its one decimal spelling: digits only, no leading zero.
fn decimal(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if text.len() > 1 && text.starts_with('0') {
        return None;
    }
    text.parse().ok()
}

/// `text`, cut for a message.
fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_spellings_of_a_unit_are_refused() {
        for text in [
            "",
            "a",
            "a/0",
            "a/0/",
            "a/0/1",
            "a/0/1-",
            "a/0/-1-2",
            "a/0/2-1",
            "a/0/1-1",
            "a/00/0-1",
            "a/0/01-2",
            "a/0/0-+1",
            "a/0/0-1 ",
            " a/0/0-1",
            "a/b/0/0-1",
            "/0/0-1",
            "a/-1/0-1",
            "a/2147483648/0-1",
            "a/0/0-9007199254740992",
            "a/0/0-99999999999999999999",
            "../0/0-1",
            "a/0/0-1-2",
            "ä/0/0-1",
        ] {
            assert!(text.parse::<UnitId>().is_err(), "{text}");
        }
        let long = "x".repeat(250);
        assert!(format!("{long}/0/0-1").parse::<UnitId>().is_err());
        assert!(format!("{}/0/0-1", &long[1..]).parse::<UnitId>().is_ok());
    }

    #[test]
    fn workers_of_one_label_differ() {
        let (one, other) =
            (WorkerId::unique("host-1").unwrap(), WorkerId::unique("host-1").unwrap());
        assert_ne!(one, other);
        for bad in ["", "a b", "a\tb", "{a}", "ä"] {
            assert!(bad.parse::<WorkerId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_remains_is_another_unit() {
        let unit: UnitId = "t/0/10-20".parse().unwrap();
        assert_eq!(unit.from_position(13).unwrap().to_string(), "t/0/13-20");
        assert_eq!(unit.from_position(5), Some(unit.clone()));
        assert_eq!(unit.from_position(20), None);
    }

    proptest! {
        #[test]
        fn units_read_back_what_they_write(
            topic in "[a-zA-Z0-9._-]{3,249}",
            partition in 0..=i32::MAX,
            start in 0..OFFSET_MAX,
            length in 1..1_000_000_i64,
        ) {
            let end = start.saturating_add(length).min(OFFSET_MAX);
            let unit = TopicPartition::new(topic, partition).unwrap().unit(start, end).unwrap();
            prop_assert_eq!(unit.to_string().parse::<UnitId>(), Ok(unit));
        }

        #[test]
        fn tokens_read_back_what_they_write(bits in any::<u128>()) {
            prop_assert_eq!(LeaseToken(bits).to_string().parse::<LeaseToken>(), Ok(LeaseToken(bits)));
            prop_assert_eq!(LeaderId(bits).to_string().parse::<LeaderId>(), Ok(LeaderId(bits)));
        }

        #[test]
        fn what_parses_is_spelled_that_way(text in ".{0,40}|[a-c/0-9-]{0,20}") {
            if let Ok(unit) = text.parse::<UnitId>() {
                prop_assert_eq!(unit.to_string(), text);
            }
        }
    }
}
