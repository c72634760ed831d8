//! What a topic's settings say about its log, by Kafka's names and defaults (`TopicConfig`).

use std::collections::BTreeMap;

use crate::broker::release::Release;

/// `message.max.bytes`: 1 MiB and the length field's twelve bytes.
const MESSAGE_BYTES_MAX: usize = (1 << 20) + 12;
/// `log.retention.hours`, a week.
const RETENTION_MS: i64 = 7 * 24 * 3600 * 1000;
/// `log.retention.check.interval.ms`.
const RETENTION_INTERVAL_MS: i64 = 5 * 60 * 1000;
/// `log.message.timestamp.after.max.ms` since 4.0: an hour.
const AFTER_MAX_MS: i64 = 3600 * 1000;

/// The settings of a log.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Rules {
    /// `max.message.bytes`.
    pub(in crate::broker) message_bytes_max: usize,
    /// `message.timestamp.type` is `LogAppendTime`.
    pub(in crate::broker) append_time: bool,
    /// `message.timestamp.after.max.ms`, or `message.timestamp.difference.max.ms`.
    pub(in crate::broker) after_max_ms: i64,
    /// `message.timestamp.before.max.ms`, or `message.timestamp.difference.max.ms`.
    pub(in crate::broker) before_max_ms: i64,
    /// `min.insync.replicas`.
    pub(in crate::broker) in_sync_min: usize,
    /// `cleanup.policy` has `compact`: every record needs a key.
    pub(in crate::broker) compacts: bool,
    /// `cleanup.policy` has `delete`.
    pub(in crate::broker) deletes: bool,
    /// `retention.bytes`.
    pub(in crate::broker) retention_bytes: Option<usize>,
    /// `retention.ms`.
    pub(in crate::broker) retention_ms: Option<i64>,
    /// How often the two are looked after: at each append where the topic sets one itself, else as
    /// `log.retention.check.interval.ms` says.
    pub(in crate::broker) retention_interval_ms: i64,
    /// `delete.retention.ms`: how long compaction keeps tombstones.
    pub(in crate::broker) tombstones_ms: i64,
    /// `compression.type`, unless it is `producer`.
    pub(in crate::broker) compression: Option<String>,
    /// `message.format.version` or what the release writes: the magic.
    pub(in crate::broker) release: Release,
}

impl Rules {
    /// The rules that `configs` set, the rest by default. What does not read counts as not set.
    pub(in crate::broker) fn of(configs: &BTreeMap<String, String>, release: Release) -> Self {
        let number =
            |name: &str| configs.get(name).and_then(|value| value.trim().parse::<i64>().ok());
        let limit = |value: Option<i64>| value.filter(|value| *value >= 0);
        let difference = number("message.timestamp.difference.max.ms");
        let after = if release >= Release::V4_4 { AFTER_MAX_MS } else { i64::MAX };
        let policy = configs.get("cleanup.policy").map_or("delete", String::as_str);
        let has = |name: &str| policy.split(',').any(|one| one.trim() == name);
        let retention_bytes = limit(number("retention.bytes"));
        let retention_ms = number("retention.ms");
        let own_retention = retention_bytes.is_some() || retention_ms.is_some();
        let kind = configs.get("message.timestamp.type");
        let compression = configs.get("compression.type").filter(|name| *name != "producer");
        Self {
            message_bytes_max: number("max.message.bytes")
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or(MESSAGE_BYTES_MAX),
            append_time: kind.is_some_and(|kind| kind == "LogAppendTime"),
            after_max_ms: number("message.timestamp.after.max.ms").or(difference).unwrap_or(after),
            before_max_ms: number("message.timestamp.before.max.ms")
                .or(difference)
                .unwrap_or(i64::MAX),
            in_sync_min: number("min.insync.replicas")
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(1),
            compacts: has("compact"),
            deletes: has("delete"),
            retention_bytes: retention_bytes.and_then(|bytes| usize::try_from(bytes).ok()),
            retention_ms: limit(Some(retention_ms.unwrap_or(RETENTION_MS))),
            retention_interval_ms: if own_retention { 0 } else { RETENTION_INTERVAL_MS },
            tombstones_ms: number("delete.retention.ms").unwrap_or(24 * 3600 * 1000),
            compression: compression.cloned(),
            release,
        }
    }
}
