//! The settings of topics and brokers: names, types, defaults, what is a valid value (`TopicConfig`,
//! `LogConfig`, `ServerLogConfigs`).
//!
//! [`TOPIC`] is the table of the settings of topics of every release that a cluster may pose as. A
//! release has the rows whose range it falls into; where a default or a bound changed, a name has
//! several. Kept is only what was set ([`Topic::configs`](super::Topic)), in the form that Kafka gives it back
//! ([`Setting::parse`]); everything else is worked out when it is asked for.

use std::collections::{BTreeMap, BTreeSet};

use super::TopicError;
use crate::broker::release::Release::{self, V0_11, V2_1, V2_8, V3_9, V4_4};
use crate::protocol::ErrorCode;

/// The type of a setting's value, with the number that it has in `DescribeConfigs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Kind {
    Boolean = 1,
    String = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// Which values of its type a setting may have.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Valid {
    Any,
    AtLeast(i64),
    Within(i64, i64),
    /// From the first to the second, or -1.
    WithinOrDefault(i64, i64),
    OneOf(&'static [&'static str]),
    /// `*`, or pairs of a partition and a broker.
    Replicas,
}

/// A setting of topics.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Setting {
    pub(in crate::broker) name: &'static str,
    pub(in crate::broker) kind: Kind,
    pub(in crate::broker) default: &'static str,
    valid: Valid,
    /// What brokers call their default for it; they have none by default where it begins with `?`.
    broker: &'static str,
    releases: (Release, Release),
}

const MAX: &str = "9223372036854775807";
const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
const OLD_CODECS: &[&str] = &["uncompressed", "snappy", "lz4", "gzip", "producer"];

macro_rules! settings {
    ($($name:literal $kind:ident $default:expr, $valid:expr, $broker:literal, $from:ident - $to:ident;)+) => {
        &[$(Setting {
            name: $name,
            kind: Kind::$kind,
            default: $default,
            valid: $valid,
            broker: $broker,
            releases: ($from, $to),
        }),+]
    };
}

/// The settings of topics.
pub(in crate::broker) const TOPIC: &[Setting] = settings! {
    "cleanup.policy" List "delete", Valid::OneOf(&["compact", "delete"]), "log.cleanup.policy", V0_11 - V4_4;
    "compression.gzip.level" Int "-1", Valid::WithinOrDefault(1, 9), "compression.gzip.level", V3_9 - V4_4;
    "compression.lz4.level" Int "9", Valid::Within(1, 17), "compression.lz4.level", V3_9 - V4_4;
    "compression.type" String "producer", Valid::OneOf(OLD_CODECS), "compression.type", V0_11 - V0_11;
    "compression.type" String "producer", Valid::OneOf(CODECS), "compression.type", V2_1 - V4_4;
    "compression.zstd.level" Int "3", Valid::Within(-131_072, 22), "compression.zstd.level", V3_9 - V4_4;
    "delete.retention.ms" Long "86400000", Valid::AtLeast(0), "log.cleaner.delete.retention.ms", V0_11 - V4_4;
    "errors.deadletterqueue.group.enable" Boolean "false", Valid::Any, "", V4_4 - V4_4;
    "file.delete.delay.ms" Long "60000", Valid::AtLeast(0), "log.segment.delete.delay.ms", V0_11 - V4_4;
    "flush.messages" Long MAX, Valid::AtLeast(0), "log.flush.interval.messages", V0_11 - V2_8;
    "flush.messages" Long MAX, Valid::AtLeast(1), "log.flush.interval.messages", V3_9 - V4_4;
    "flush.ms" Long MAX, Valid::AtLeast(0), "?log.flush.interval.ms", V0_11 - V4_4;
    "follower.replication.throttled.replicas" List "", Valid::Replicas, "", V0_11 - V4_4;
    "index.interval.bytes" Int "4096", Valid::AtLeast(0), "log.index.interval.bytes", V0_11 - V4_4;
    "leader.replication.throttled.replicas" List "", Valid::Replicas, "", V0_11 - V4_4;
    "local.retention.bytes" Long "-2", Valid::AtLeast(-2), "log.local.retention.bytes", V3_9 - V4_4;
    "local.retention.ms" Long "-2", Valid::AtLeast(-2), "log.local.retention.ms", V3_9 - V4_4;
    "max.compaction.lag.ms" Long MAX, Valid::AtLeast(1), "log.cleaner.max.compaction.lag.ms", V2_8 - V4_4;
    "max.decompressed.message.bytes" Int "2147483639", Valid::Within(1, 2_147_483_639), "max.decompressed.message.bytes", V4_4 - V4_4;
    "max.message.bytes" Int "1000012", Valid::AtLeast(0), "message.max.bytes", V0_11 - V2_1;
    "max.message.bytes" Int "1048588", Valid::AtLeast(0), "message.max.bytes", V2_8 - V4_4;
    "message.downconversion.enable" Boolean "true", Valid::Any, "log.message.downconversion.enable", V2_1 - V3_9;
    "message.format.version" String "0.11.0-IV2", Valid::Any, "log.message.format.version", V0_11 - V0_11;
    "message.format.version" String "2.1-IV2", Valid::Any, "log.message.format.version", V2_1 - V2_1;
    "message.format.version" String "2.8-IV1", Valid::Any, "log.message.format.version", V2_8 - V2_8;
    "message.format.version" String "3.0-IV1", Valid::Any, "log.message.format.version", V3_9 - V3_9;
    "message.timestamp.after.max.ms" Long MAX, Valid::AtLeast(0), "log.message.timestamp.after.max.ms", V3_9 - V3_9;
    "message.timestamp.after.max.ms" Long "3600000", Valid::AtLeast(0), "log.message.timestamp.after.max.ms", V4_4 - V4_4;
    "message.timestamp.before.max.ms" Long MAX, Valid::AtLeast(0), "log.message.timestamp.before.max.ms", V3_9 - V4_4;
    "message.timestamp.difference.max.ms" Long MAX, Valid::AtLeast(0), "log.message.timestamp.difference.max.ms", V0_11 - V3_9;
    "message.timestamp.type" String "CreateTime", Valid::OneOf(&["CreateTime", "LogAppendTime"]), "log.message.timestamp.type", V0_11 - V4_4;
    "min.cleanable.dirty.ratio" Double "0.5", Valid::Within(0, 1), "log.cleaner.min.cleanable.ratio", V0_11 - V4_4;
    "min.compaction.lag.ms" Long "0", Valid::AtLeast(0), "log.cleaner.min.compaction.lag.ms", V0_11 - V4_4;
    "min.insync.replicas" Int "1", Valid::AtLeast(1), "min.insync.replicas", V0_11 - V4_4;
    "preallocate" Boolean "false", Valid::Any, "log.preallocate", V0_11 - V4_4;
    "remote.copy.lag.bytes" Long "-1", Valid::AtLeast(-1), "log.remote.copy.lag.bytes", V4_4 - V4_4;
    "remote.copy.lag.ms" Long "0", Valid::AtLeast(-1), "log.remote.copy.lag.ms", V4_4 - V4_4;
    "remote.log.copy.disable" Boolean "false", Valid::Any, "", V3_9 - V4_4;
    "remote.log.delete.on.disable" Boolean "false", Valid::Any, "", V3_9 - V4_4;
    "remote.storage.enable" Boolean "false", Valid::Any, "", V3_9 - V4_4;
    "retention.bytes" Long "-1", Valid::Any, "log.retention.bytes", V0_11 - V4_4;
    "retention.ms" Long "604800000", Valid::Any, "?log.retention.ms", V0_11 - V2_1;
    "retention.ms" Long "604800000", Valid::AtLeast(-1), "?log.retention.ms", V2_8 - V4_4;
    "segment.bytes" Int "1073741824", Valid::AtLeast(14), "log.segment.bytes", V0_11 - V3_9;
    "segment.bytes" Int "1073741824", Valid::AtLeast(1 << 20), "log.segment.bytes", V4_4 - V4_4;
    "segment.index.bytes" Int "10485760", Valid::AtLeast(0), "log.index.size.max.bytes", V0_11 - V2_8;
    "segment.index.bytes" Int "10485760", Valid::AtLeast(4), "log.index.size.max.bytes", V3_9 - V4_4;
    "segment.jitter.ms" Long "0", Valid::AtLeast(0), "?log.roll.jitter.ms", V0_11 - V4_4;
    "segment.ms" Long "604800000", Valid::AtLeast(0), "?log.roll.ms", V0_11 - V0_11;
    "segment.ms" Long "604800000", Valid::AtLeast(1), "?log.roll.ms", V2_1 - V4_4;
    "unclean.leader.election.enable" Boolean "false", Valid::Any, "unclean.leader.election.enable", V0_11 - V4_4;
};

impl Setting {
    /// The settings of topics in `release`.
    pub(in crate::broker) fn all(release: Release) -> impl Iterator<Item = &'static Self> {
        let within =
            move |setting: &&Self| (setting.releases.0..=setting.releases.1).contains(&release);
        TOPIC.iter().filter(within)
    }

    /// The setting of topics called `name`.
    pub(in crate::broker) fn find(name: &str, release: Release) -> Option<&'static Self> {
        Self::all(release).find(|setting| setting.name == name)
    }

    /// The setting of topics for which brokers have a default called `name`.
    pub(in crate::broker) fn of_brokers(name: &str, release: Release) -> Option<&'static Self> {
        Self::all(release).find(|setting| setting.broker() == Some(name))
    }

    /// Whether its value is a list, that can be appended to.
    pub(in crate::broker) fn is_list(&self) -> bool {
        self.kind == Kind::List
    }

    /// What brokers call their default for it.
    pub(in crate::broker) fn broker(&self) -> Option<&'static str> {
        let name = self.broker.trim_start_matches('?');
        (!name.is_empty()).then_some(name)
    }

    /// What brokers have for it unless it is set, as far as they tell.
    pub(in crate::broker) fn broker_default(&self) -> Option<&'static str> {
        let told = !self.broker.is_empty() && !self.broker.starts_with('?');
        told.then_some(self.default)
    }

    /// The value as Kafka gives it back; else why it cannot be one, in Kafka's words.
    pub(in crate::broker) fn parse(&self, value: &str) -> Result<String, String> {
        self.parse_as(self.name, value)
    }

    /// The same, for the name that brokers have for it.
    pub(in crate::broker) fn parse_as(&self, name: &str, value: &str) -> Result<String, String> {
        let trimmed = value.trim();
        let invalid = |value: &str, why: &str| {
            Err(format!("Invalid value {value} for configuration {name}: {why}"))
        };
        let not_a = |kind: &str| invalid(value, &format!("Not a number of type {kind}"));
        match self.kind {
            Kind::Boolean => match trimmed.to_ascii_lowercase().as_str() {
                known @ ("true" | "false") => Ok(known.to_owned()),
                _ => invalid(value, "Expected value to be either true or false"),
            },
            Kind::Int => match trimmed.parse::<i32>() {
                Ok(number) => self.in_range(name, &number.to_string(), f64::from(number)),
                Err(_) => not_a("INT"),
            },
            Kind::Long => match trimmed.parse::<i64>() {
                Ok(number) => self.in_range(name, &number.to_string(), number as f64),
                Err(_) => not_a("LONG"),
            },
            Kind::Double => match trimmed.parse::<f64>() {
                Ok(number) => self.in_range(name, &format!("{number:?}"), number),
                Err(_) => not_a("DOUBLE"),
            },
            Kind::String => match self.valid {
                Valid::OneOf(known) if !known.contains(&trimmed) => {
                    invalid(trimmed, &one_of(known))
                }
                _ => Ok(trimmed.to_owned()),
            },
            Kind::List => {
                let parts = parts(trimmed);
                let known = |part: &&str| match self.valid {
                    Valid::OneOf(known) => known.contains(part),
                    _ => true,
                };
                if let (Some(part), Valid::OneOf(names)) =
                    (parts.iter().find(|part| !known(part)), self.valid)
                {
                    return invalid(part, &one_of(names));
                }
                if self.valid == Valid::Replicas && !are_replicas(&parts) {
                    return invalid(
                        &format!("[{}]", parts.join(", ")),
                        &format!(
                            "{name} must be the literal '*' or a list of replicas in the following format: \
                             [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                        ),
                    );
                }
                Ok(parts.join(","))
            }
        }
    }

    fn in_range(&self, name: &str, shown: &str, number: f64) -> Result<String, String> {
        let why = match self.valid {
            Valid::AtLeast(min) | Valid::Within(min, _) if number < min as f64 => {
                format!("Value must be at least {min}")
            }
            Valid::Within(_, max) if number > max as f64 => {
                format!("Value must be no more than {max}")
            }
            Valid::WithinOrDefault(min, max)
                if number > max as f64 || (number < min as f64 && shown != "-1") =>
            {
                format!("Value must be between {min} and {max} or equal to -1")
            }
            _ => return Ok(shown.to_owned()),
        };
        Err(format!("Invalid value {shown} for configuration {name}: {why}"))
    }
}

/// The parts of a list, each once.
pub(in crate::broker) fn parts(list: &str) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let parts = list.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty() && seen.insert(*part)).collect()
}

fn one_of(known: &[&str]) -> String {
    format!("String must be one of: {}", known.join(", "))
}

fn are_replicas(parts: &[&str]) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let pair = |part: &&str| part.split_once(':').is_some_and(|(a, b)| number(a) && number(b));
    parts == ["*"] || parts.iter().all(pair)
}

/// Checks settings that a topic is to have, all of them; gives them in the form that is kept.
///
/// # Errors
/// `INVALID_CONFIG` with Kafka's words.
pub(in crate::broker) fn check(
    wanted: &BTreeMap<String, String>,
    release: Release,
) -> Result<BTreeMap<String, String>, TopicError> {
    let invalid = |why: String| TopicError::new(ErrorCode::INVALID_CONFIG, why);
    if let Some(name) = wanted.keys().find(|name| Setting::find(name, release).is_none()) {
        return Err(invalid(format!("Unknown topic config name: {name}")));
    }
    let mut checked = BTreeMap::new();
    for (name, value) in wanted {
        let setting = Setting::find(name, release).expect("every name was looked up above");
        checked.insert(name.clone(), setting.parse(value).map_err(invalid)?);
    }
    let number = |name: &str| {
        let default = Setting::find(name, release).map(|setting| setting.default);
        checked
            .get(name)
            .map(String::as_str)
            .or(default)
            .and_then(|value| value.parse::<i64>().ok())
    };
    if let (Some(min), Some(max)) =
        (number("min.compaction.lag.ms"), number("max.compaction.lag.ms"))
        && min > max
    {
        return Err(invalid(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        )));
    }
    if checked.get("remote.storage.enable").is_some_and(|value| value == "true") {
        return Err(invalid(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
                .to_owned(),
        ));
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASES: [Release; 5] = [V0_11, V2_1, V2_8, V3_9, V4_4];

    #[test]
    fn every_release_has_each_of_its_settings_once_with_a_valid_default() {
        // How many `LogConfig` of the release has, without those it keeps to itself.
        for (release, count) in RELEASES.into_iter().zip([24, 25, 26, 36, 37]) {
            let mut names = BTreeSet::new();
            for setting in Setting::all(release) {
                assert!(names.insert(setting.name), "{} twice in {release:?}", setting.name);
                assert_eq!(setting.parse(setting.default).as_deref(), Ok(setting.default));
            }
            assert_eq!(names.len(), count, "{release:?}");
        }
    }

    fn refused(name: &str, value: &str) -> String {
        let wanted = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let error = check(&wanted, V4_4).expect_err("not valid");
        assert_eq!(error.code, ErrorCode::INVALID_CONFIG);
        error.message
    }

    #[test]
    fn a_wrong_value_is_refused_in_kafkas_words() {
        // As Kafka 4.4.0 answered.
        for (name, value, why) in [
            (
                "retention.ms",
                "abc",
                "Invalid value abc for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "retention.ms",
                "-5",
                "Invalid value -5 for configuration retention.ms: Value must be at least -1",
            ),
            (
                "cleanup.policy",
                "foo",
                "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            (
                "compression.type",
                "foo",
                "Invalid value foo for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
            ),
            (
                "min.cleanable.dirty.ratio",
                "2",
                "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
            ),
            (
                "preallocate",
                "maybe",
                "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
            ),
            (
                "max.message.bytes",
                "99999999999",
                "Invalid value 99999999999 for configuration max.message.bytes: Not a number of type INT",
            ),
            (
                "compression.gzip.level",
                "0",
                "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
            ),
            (
                "leader.replication.throttled.replicas",
                "x",
                "Invalid value [x] for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas \
                 must be the literal '*' or a list of replicas in the following format: \
                 [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            ),
            (
                "segment.bytes",
                "5",
                "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576",
            ),
            ("nope", "1", "Unknown topic config name: nope"),
        ] {
            assert_eq!(refused(name, value), why);
        }
    }

    #[test]
    fn values_are_kept_as_kafka_gives_them_back() {
        let wanted = [
            ("retention.ms", " 5000 ", "5000"),
            ("cleanup.policy", "compact, delete,compact", "compact,delete"),
            ("min.cleanable.dirty.ratio", "0.50", "0.5"),
            ("preallocate", "TRUE", "true"),
            ("leader.replication.throttled.replicas", "0:1,1:2", "0:1,1:2"),
        ];
        for (name, value, kept) in wanted {
            let setting = Setting::find(name, V4_4).expect("known");
            assert_eq!(setting.parse(value).as_deref(), Ok(kept));
        }
        let lags = [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")];
        let wanted = lags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let error = check(&BTreeMap::from(wanted), V4_4).expect_err("they conflict");
        assert!(error.message.starts_with("conflict topic config setting"));
    }
}
