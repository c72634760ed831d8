//! [`Offsets`]: what a group has committed, and what open transactions are about to commit (KIP-447).
//!
//! Offsets do not expire here; they go with their topic, with their group, or on demand. A transaction's
//! offsets are kept apart until it ends; while it is open, who asks for stable offsets is told so.

use std::collections::BTreeMap;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Committed {
    pub(in crate::broker) offset: i64,
    /// -1 when unknown.
    pub(in crate::broker) leader_epoch: i32,
    pub(in crate::broker) metadata: String,
}

/// Offsets by topic and partition.
type ByPartition = BTreeMap<(String, i32), Committed>;

/// A group's offsets.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Offsets {
    committed: ByPartition,
    /// By producer id.
    pending: BTreeMap<i64, ByPartition>,
}

impl Offsets {
    /// How many there are, the pending ones included.
    pub(in crate::broker) fn len(&self) -> usize {
        self.committed.len() + self.pending.values().map(BTreeMap::len).sum::<usize>()
    }

    /// The bytes of their names and metadata, the pending ones included.
    pub(in crate::broker) fn weight(&self) -> usize {
        let one = |((topic, _), offset): (&(String, i32), &Committed)| {
            topic.len() + offset.metadata.len()
        };
        let pending = self.pending.values().flatten();
        self.committed.iter().chain(pending).map(one).sum()
    }

    /// Commits.
    pub(in crate::broker) fn commit(&mut self, topic: &str, partition: i32, offset: Committed) {
        self.committed.insert((topic.to_owned(), partition), offset);
    }

    /// What is committed for a partition.
    pub(in crate::broker) fn get(&self, topic: &str, partition: i32) -> Option<&Committed> {
        self.committed.get(&(topic.to_owned(), partition))
    }

    /// All that is committed, by topic and partition.
    pub(in crate::broker) fn iter(&self) -> impl Iterator<Item = (&str, i32, &Committed)> {
        self.committed.iter().map(|((topic, index), offset)| (topic.as_str(), *index, offset))
    }

    /// Deletes what is committed and what is pending for a partition.
    pub(in crate::broker) fn delete(&mut self, topic: &str, partition: i32) {
        self.retain(|name, index| name != topic || index != partition);
    }

    /// Deletes all offsets of a topic.
    pub(in crate::broker) fn delete_topic(&mut self, topic: &str) {
        self.retain(|name, _| name != topic);
    }

    /// Whether an open transaction may change the offset of a partition.
    pub(in crate::broker) fn is_unstable(&self, topic: &str, partition: i32) -> bool {
        let key = (topic.to_owned(), partition);
        self.pending.values().any(|offsets| offsets.contains_key(&key))
    }

    /// Notes what the open transaction of a producer commits when it is committed.
    pub(in crate::broker) fn add_pending(
        &mut self,
        producer_id: i64,
        topic: &str,
        partition: i32,
        offset: Committed,
    ) {
        let offsets = self.pending.entry(producer_id).or_default();
        offsets.insert((topic.to_owned(), partition), offset);
    }

    /// The transaction of a producer has ended. Says whether it had offsets here.
    pub(in crate::broker) fn end_transaction(&mut self, producer_id: i64, commit: bool) -> bool {
        let Some(offsets) = self.pending.remove(&producer_id) else {
            return false;
        };
        if commit {
            self.committed.extend(offsets);
        }
        true
    }

    fn retain(&mut self, keep: impl Fn(&str, i32) -> bool) {
        let kept = |(topic, index): &(String, i32), _: &mut Committed| keep(topic, *index);
        self.committed.retain(kept);
        self.pending.retain(|_, offsets| {
            offsets.retain(kept);
            !offsets.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Committed {
        Committed { offset, leader_epoch: -1, metadata: String::new() }
    }

    #[test]
    fn a_transaction_commits_at_its_end_or_not_at_all() {
        let mut offsets = Offsets::default();
        offsets.commit("t", 0, at(1));
        offsets.add_pending(7, "t", 0, at(5));
        offsets.add_pending(8, "t", 1, at(6));
        assert!(offsets.is_unstable("t", 0) && offsets.is_unstable("t", 1));
        assert_eq!(offsets.get("t", 0), Some(&at(1)));
        assert!(offsets.end_transaction(7, true) && offsets.end_transaction(8, false));
        assert!(!offsets.end_transaction(7, true), "it has ended");
        assert_eq!((offsets.get("t", 0), offsets.get("t", 1)), (Some(&at(5)), None));
        assert!(!offsets.is_unstable("t", 0));
    }

    #[test]
    fn offsets_go_with_their_topic() {
        let mut offsets = Offsets::default();
        offsets.commit("gone", 0, at(1));
        offsets.commit("kept", 0, at(2));
        offsets.add_pending(7, "gone", 1, at(3));
        offsets.delete_topic("gone");
        assert_eq!(offsets.iter().collect::<Vec<_>>(), [("kept", 0, &at(2))]);
        assert!(!offsets.end_transaction(7, true), "nothing is left of it");
        assert_eq!(offsets.len(), 1);
    }
}
