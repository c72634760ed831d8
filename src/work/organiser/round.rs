//! What the organiser does next about a partition: pure decisions over what it was told.
//!
//! ```text
//!   queue holds nothing ───────────────▶ Init (then FirstCommit, then Ready)
//!   the topic has another id, twice ───▶ Reset (then FirstCommit, then Ready)
//!   first offset not in Kafka yet ─────▶ FirstCommit
//!   else ──────────────────────────────▶ Ready: the planner decides
//! ```
//!
//! The organiser's thread calls it with `states` from the queue and facts from Kafka, carries out
//! what it says, and asks again. A step that the queue refuses (because another organiser was
//! faster) is simply decided anew from fresh facts.

use std::collections::{HashMap, VecDeque};

use crate::config::AutoOffsetReset;
use crate::protocol::Uuid;
use crate::work::commit::Commit;
use crate::work::plan::{CommittedOffset, LogRange, StartFacts, first_offset};
use crate::work::queue::PartitionState;
use crate::work::unit::TopicPartition;

/// Earlier ids that are remembered of each topic.
const EARLIER_IDS_MAX: usize = 16;

/// What to do about a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Kafka was not asked yet what it holds of the group's offset.
    AskCommitted,
    /// The queue shall take the partition up.
    Init {
        /// The group's offset, or where the policy points.
        offset: i64,
    },
    /// The queue shall begin the partition anew, for the topic with the id of the log.
    Reset {
        /// The id it holds.
        old: Uuid,
    },
    /// Commit this offset, and note in the queue that this was done.
    FirstCommit(Commit),
    /// The planner may be asked.
    Ready,
    /// Nothing this time: the topic's id is in doubt.
    Wait,
    /// There is no saved offset, and the policy is to begin nowhere.
    NoOffset,
}

/// The group's offset in Kafka, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// Nobody asked.
    Unknown,
    /// There is none.
    Nothing,
    /// This one.
    At(CommittedOffset),
}

/// What is known about a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) partition: &'a TopicPartition,
    /// What the queue holds.
    pub(crate) state: Option<&'a PartitionState>,
    /// The log, and the topic's id by the latest metadata.
    pub(crate) log: LogRange,
    /// What Kafka holds of the group's offset.
    pub(crate) committed: Committed,
    /// Whether Kafka holds an offset of any partition of the topic.
    pub(crate) sisters_committed: bool,
}

/// Decides about one partition.
pub(crate) fn decide(facts: Facts<'_>, ids: &TopicIds, policy: AutoOffsetReset) -> Step {
    let log = facts.log;
    let Some(state) = facts.state else {
        if ids.is_earlier(facts.partition.topic(), log.topic_id) {
            return Step::Wait;
        }
        let committed = match facts.committed {
            Committed::Unknown => return Step::AskCommitted,
            Committed::Nothing => None,
            Committed::At(offset) => Some(offset),
        };
        let reset_to = match policy {
            AutoOffsetReset::None if committed.is_none() && !facts.sisters_committed => {
                return Step::NoOffset;
            }
            AutoOffsetReset::Earliest | AutoOffsetReset::None => log.start,
            AutoOffsetReset::Latest => log.end,
        };
        let start = StartFacts { committed, sisters_committed: facts.sisters_committed, reset_to };
        return Step::Init { offset: first_offset(start, log) };
    };
    if state.topic_id != log.topic_id {
        return if ids.is_confirmed(facts.partition.topic(), log.topic_id) {
            Step::Reset { old: state.topic_id }
        } else {
            Step::Wait
        };
    }
    if !state.committed {
        return Step::FirstCommit(commit_of(facts.partition, state));
    }
    Step::Ready
}

/// The commit of a partition's low watermark.
pub(crate) fn commit_of(partition: &TopicPartition, state: &PartitionState) -> Commit {
    Commit { partition: partition.clone(), topic_id: state.topic_id, offset: state.low }
}

/// The ids that topics had and have, so that a broker whose metadata is stale resets nothing.
///
/// A new id counts once two readings of the metadata in a row gave it: by the second one, a planning
/// interval later, the partition's leader has the new log too, so that the log start that comes
/// with it is not the old one's. An id that was replaced never counts again.
#[derive(Debug, Default)]
pub(crate) struct TopicIds {
    topics: HashMap<String, History>,
}

#[derive(Debug, Default)]
struct History {
    latest: Option<Uuid>,
    readings: u32,
    earlier: VecDeque<Uuid>,
}

impl TopicIds {
    /// Metadata gave `id` for `topic`.
    pub(crate) fn read(&mut self, topic: &str, id: Uuid) {
        let history = self.topics.entry(topic.to_owned()).or_default();
        if history.latest == Some(id) {
            history.readings = history.readings.saturating_add(1);
        } else {
            history.latest = Some(id);
            history.readings = 1;
        }
    }

    /// A partition of `topic` was reset from the id `old`.
    pub(crate) fn replaced(&mut self, topic: &str, old: Uuid) {
        let history = self.topics.entry(topic.to_owned()).or_default();
        if history.earlier.contains(&old) {
            return;
        }
        if history.earlier.len() == EARLIER_IDS_MAX {
            history.earlier.pop_front();
        }
        history.earlier.push_back(old);
    }

    fn is_earlier(&self, topic: &str, id: Uuid) -> bool {
        self.topics.get(topic).is_some_and(|history| history.earlier.contains(&id))
    }

    fn is_confirmed(&self, topic: &str, id: Uuid) -> bool {
        self.topics.get(topic).is_some_and(|history| {
            history.latest == Some(id) && history.readings >= 2 && !history.earlier.contains(&id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Uuid = Uuid([1; 16]);
    const NEW: Uuid = Uuid([2; 16]);

    fn partition() -> TopicPartition {
        TopicPartition::new("t", 0).expect("legal")
    }

    fn state(topic_id: Uuid, committed: bool) -> PartitionState {
        PartitionState {
            topic_id,
            planned: 30,
            low: 20,
            committed,
            leader_epoch: 3,
            outstanding: 1,
        }
    }

    fn log(topic_id: Uuid) -> LogRange {
        LogRange { topic_id, start: 10, end: 90, leader_epoch: 3 }
    }

    fn known(state: Option<&PartitionState>, topic_id: Uuid, ids: &TopicIds) -> Step {
        let facts = Facts {
            partition: &partition(),
            state,
            log: log(topic_id),
            committed: Committed::Unknown,
            sisters_committed: false,
        };
        decide(facts, ids, AutoOffsetReset::Earliest)
    }

    fn fresh(
        committed: Option<CommittedOffset>,
        sisters_committed: bool,
        policy: AutoOffsetReset,
    ) -> Step {
        let facts = Facts {
            partition: &partition(),
            state: None,
            log: log(NEW),
            committed: committed.map_or(Committed::Nothing, Committed::At),
            sisters_committed,
        };
        decide(facts, &TopicIds::default(), policy)
    }

    #[test]
    fn a_partition_that_the_queue_does_not_hold_begins_where_its_history_says() {
        use AutoOffsetReset::{Earliest, Latest, None as Nowhere};
        assert_eq!(known(None, NEW, &TopicIds::default()), Step::AskCommitted);
        let at = |offset, topic_id| Some(CommittedOffset { offset, topic_id });
        for policy in [Earliest, Latest, Nowhere] {
            let ours = at(40, Some(NEW));
            assert_eq!(fresh(ours, true, policy), Step::Init { offset: 40 });
            assert_eq!(fresh(at(40, None), true, policy), Step::Init { offset: 40 });
            assert_eq!(fresh(at(40, Some(OLD)), true, policy), Step::Init { offset: 10 });
            assert_eq!(fresh(None, true, policy), Step::Init { offset: 10 }, "a new partition");
        }
        assert_eq!(fresh(None, false, Earliest), Step::Init { offset: 10 });
        assert_eq!(fresh(None, false, Latest), Step::Init { offset: 90 });
        assert_eq!(fresh(None, false, Nowhere), Step::NoOffset);
    }

    #[test]
    fn nothing_is_planned_before_the_first_offset_is_in_kafka() {
        let ids = TopicIds::default();
        let Step::FirstCommit(commit) = known(Some(&state(OLD, false)), OLD, &ids) else {
            panic!("no commit")
        };
        assert_eq!((commit.offset, commit.topic_id), (20, OLD));
        assert_eq!(known(Some(&state(OLD, true)), OLD, &ids), Step::Ready);
    }

    #[test]
    fn a_topic_made_anew_resets_once_it_was_seen_twice() {
        let mut ids = TopicIds::default();
        ids.read("t", NEW);
        assert_eq!(known(Some(&state(OLD, true)), NEW, &ids), Step::Wait);
        ids.read("t", NEW);
        assert_eq!(known(Some(&state(OLD, true)), NEW, &ids), Step::Reset { old: OLD });
    }

    #[test]
    fn stale_metadata_never_resets_back() {
        let mut ids = TopicIds::default();
        ids.replaced("t", OLD);
        for _ in 0..5 {
            ids.read("t", OLD);
            assert_eq!(known(Some(&state(NEW, true)), OLD, &ids), Step::Wait);
        }
        assert_eq!(known(None, OLD, &ids), Step::Wait);
        ids.read("t", NEW);
        ids.read("t", OLD);
        ids.read("t", NEW);
        assert_eq!(known(Some(&state(NEW, true)), NEW, &ids), Step::Ready);
    }

    #[test]
    fn brokers_that_disagree_reset_nothing() {
        let mut ids = TopicIds::default();
        for id in [NEW, OLD, NEW, OLD, NEW] {
            ids.read("t", id);
            assert_ne!(
                known(Some(&state(OLD, true)), id, &ids),
                Step::Reset { old: OLD },
                "each was seen once in a row"
            );
        }
    }
}
