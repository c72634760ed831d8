//! When the low watermark is sent to Kafka as the group's offset.
//!
//! Pure: compares what the queue holds with what Kafka was *read back* to hold. Comparing with
//! what was sent last would not do: an older value that a slow request brings late would stay for
//! ever. The label (the commit's metadata text) says which topic id the offset belongs to, since a
//! topic that is made anew keeps its name and the group's old offset.
//!
//! Run by the organiser's thread, which sends a commit only while its lock outlasts the request.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::clock::Deadline;
use crate::protocol::Uuid;
use crate::work::plan::CommittedOffset;
use crate::work::unit::TopicPartition;

/// An offset is committed again after this time although nothing changed: a broker forgets the
/// offsets of a group without members after `offsets.retention.minutes` (a week by default, often
/// set to a day; a day was the default before Kafka 2.0, KIP-186).
const REFRESH_AFTER: Duration = Duration::from_secs(4 * 3600);

/// First characters of a label, so that another tool's text is not taken for one.
const LABEL_PREFIX: &str = "ottla:";

/// One offset to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// The partition.
    pub(crate) partition: TopicPartition,
    /// The topic's id, zero where brokers know none.
    pub(crate) topic_id: Uuid,
    /// The low watermark.
    pub(crate) offset: i64,
}

/// The text that is stored with an offset of the topic called `topic_id`.
pub(crate) fn label(topic_id: Uuid) -> String {
    format!("{LABEL_PREFIX}{topic_id}")
}

/// The topic id of a label; `None` for a text that is none (another tool's commit).
pub(crate) fn topic_id_of(label: Option<&str>) -> Option<Uuid> {
    const DIGITS: usize = 22;
    let text = label?.strip_prefix(LABEL_PREFIX)?;
    if text.len() != DIGITS {
        return None;
    }
    let mut bits: u128 = 0;
    for (index, byte) in text.bytes().enumerate() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        // 22 digits of 6 bits are 132 bits: the last digit holds two, shifted up by four.
        bits = if index + 1 < DIGITS {
            (bits << 6) | u128::from(digit)
        } else {
            (bits << 2) | u128::from(digit >> 4)
        };
    }
    let id = Uuid(bits.to_be_bytes());
    (id.to_string() == text).then_some(id)
}

/// When each partition's offset was last sent, and thereby what to send next.
#[derive(Debug, Default)]
pub(crate) struct CommitLog {
    sent: HashMap<TopicPartition, Deadline>,
}

impl CommitLog {
    /// Which of `wanted` to send, given what Kafka holds (`None`: nothing).
    pub(crate) fn due<'a>(
        &self,
        now: Instant,
        wanted: impl IntoIterator<Item = &'a Commit>,
        held: &HashMap<TopicPartition, Option<CommittedOffset>>,
    ) -> Vec<Commit> {
        let differs = |commit: &Commit| match held.get(&commit.partition) {
            // Not answered for: it is unknown what Kafka holds.
            None => false,
            Some(None) => true,
            Some(Some(held)) => {
                held.offset != commit.offset || held.topic_id != Some(commit.topic_id)
            }
        };
        let stale = |commit: &Commit| {
            held.contains_key(&commit.partition)
                && self.sent.get(&commit.partition).is_none_or(|refresh| refresh.has_passed(now))
        };
        wanted.into_iter().filter(|commit| differs(commit) || stale(commit)).cloned().collect()
    }

    /// Kafka stored the offset of `partition`.
    pub(crate) fn stored(&mut self, now: Instant, partition: &TopicPartition) {
        self.sent.insert(partition.clone(), Deadline::after(now, REFRESH_AFTER));
    }

    /// Forgets everything, as after the lock was lost.
    pub(crate) fn clear(&mut self) {
        self.sent.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock;

    const ID: Uuid = Uuid([7; 16]);

    fn wanted(offset: i64) -> Commit {
        let partition = TopicPartition::new("t", 0).expect("legal");
        Commit { partition, topic_id: ID, offset }
    }

    fn held(
        value: Option<(i64, Option<Uuid>)>,
    ) -> HashMap<TopicPartition, Option<CommittedOffset>> {
        let value = value.map(|(offset, topic_id)| CommittedOffset { offset, topic_id });
        HashMap::from([(wanted(0).partition, value)])
    }

    fn log_sent_at(now: Instant) -> CommitLog {
        let mut log = CommitLog::default();
        log.stored(now, &wanted(0).partition);
        log
    }

    /// An older value that lands late is noticed, because Kafka's value is read back.
    #[test]
    fn what_kafka_holds_decides_and_not_what_was_sent() {
        let now = clock::now();
        let log = log_sent_at(now);
        assert_eq!(log.due(now, [&wanted(50)], &held(Some((50, Some(ID))))), []);
        assert_eq!(log.due(now, [&wanted(50)], &held(Some((30, Some(ID))))), [wanted(50)]);
        assert_eq!(log.due(now, [&wanted(50)], &held(Some((70, Some(ID))))), [wanted(50)]);
        assert_eq!(log.due(now, [&wanted(50)], &held(None)), [wanted(50)]);
    }

    #[test]
    fn a_label_of_another_topic_is_replaced() {
        let now = clock::now();
        let log = log_sent_at(now);
        let other = held(Some((50, Some(Uuid([8; 16])))));
        assert_eq!(log.due(now, [&wanted(50)], &other), [wanted(50)]);
        assert_eq!(log.due(now, [&wanted(50)], &held(Some((50, None)))), [wanted(50)]);
    }

    #[test]
    fn an_unread_partition_is_left_alone() {
        assert_eq!(CommitLog::default().due(clock::now(), [&wanted(50)], &HashMap::new()), []);
    }

    #[test]
    fn an_idle_offset_is_sent_again_before_it_expires() {
        let now = clock::now();
        let log = log_sent_at(now);
        let same = held(Some((50, Some(ID))));
        assert_eq!(log.due(now + REFRESH_AFTER / 2, [&wanted(50)], &same), []);
        assert_eq!(log.due(now + REFRESH_AFTER, [&wanted(50)], &same), [wanted(50)]);
        assert_eq!(CommitLog::default().due(now, [&wanted(50)], &same), [wanted(50)]);
    }

    #[test]
    fn texts_of_others_are_no_labels() {
        for text in ["", "ottla:", "ottla:x", "ottla:_____________________z", "mine"] {
            assert_eq!(topic_id_of(Some(text)), None, "{text}");
        }
        assert_eq!(topic_id_of(None), None);
    }

    proptest! {
        #[test]
        fn a_label_gives_back_its_id(bytes in any::<[u8; 16]>()) {
            prop_assert_eq!(topic_id_of(Some(&label(Uuid(bytes)))), Some(Uuid(bytes)));
        }

        #[test]
        fn no_text_breaks_the_reader(text in ".{0,40}|ottla:[A-Za-z0-9_-]{22}") {
            if let Some(id) = topic_id_of(Some(&text)) {
                prop_assert_eq!(label(id), text);
            }
        }
    }
}
