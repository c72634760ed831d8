//! The planner: where a partition starts, and how what is new in it is cut into units.
//!
//! Pure: it is given what the queue holds of a partition and what the broker says about its log,
//! and returns a [`Plan`] for the queue to accept or refuse. It knows no queue, no broker and no
//! clock. The organiser's thread runs it.
//!
//! Every plan is a tiling: its units follow each other without gap or overlap from the planned
//! offset (or from the log start, when retention passed that) to the new planned offset. A plan
//! cannot be made otherwise, since only [`plan`] makes one.
//!
//! Bounds: no unit is longer than [`PlanRules::unit_size`]; no call makes more than
//! [`PlanRules::units_per_plan_max`] units; no partition has more than
//! [`PlanRules::outstanding_max`] units outstanding, so that the queue's size does not follow the
//! backlog.

use crate::protocol::Uuid;
use crate::work::queue::PartitionState;
use crate::work::unit::{InvalidId, OFFSET_MAX, TopicPartition, UnitId};

/// Records a unit spans at most, unless configured.
pub const UNIT_SIZE_DEFAULT: i64 = 10_000;
/// Units of a partition that may be outstanding, unless configured.
pub const OUTSTANDING_MAX_DEFAULT: usize = 1_000;
/// Units that one plan makes at most, unless configured: what one script pushes.
pub const UNITS_PER_PLAN_MAX_DEFAULT: usize = 200;

/// How the planner cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRules {
    /// Offsets that a unit spans at most; at least 1 is used. Defaults to 10,000.
    pub unit_size: i64,
    /// Whether units end at multiples of `unit_size`, so that the same log is always cut at the same
    /// offsets: what a sink needs that uses unit ids as keys over a lost queue. Defaults to no.
    pub aligned: bool,
    /// Units of one partition outstanding at most. Defaults to 1,000.
    pub outstanding_max: usize,
    /// Units made by one plan at most. Defaults to 200.
    pub units_per_plan_max: usize,
}

impl Default for PlanRules {
    fn default() -> Self {
        Self {
            unit_size: UNIT_SIZE_DEFAULT,
            aligned: false,
            outstanding_max: OUTSTANDING_MAX_DEFAULT,
            units_per_plan_max: UNITS_PER_PLAN_MAX_DEFAULT,
        }
    }
}

/// What the broker says about a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRange {
    /// The id of the topic that was asked; zero where brokers know none (before 2.8).
    pub topic_id: Uuid,
    /// The first offset that retention has left.
    pub start: i64,
    /// One past the last offset to read: the high watermark, or the last stable offset.
    pub end: i64,
    /// The leader's epoch, or -1.
    pub leader_epoch: i32,
}

/// Units to add to a partition. Made by [`plan`] only; the queue accepts it if nothing that it was
/// made from has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    partition: TopicPartition,
    topic_id: Uuid,
    leader_epoch: i32,
    from: i64,
    skip_to: Option<i64>,
    units: Vec<UnitId>,
}

impl Plan {
    /// The partition.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The topic's id when it was made.
    pub fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// The leader's epoch when it was made, or -1.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// The planned offset that it starts from.
    pub fn from(&self) -> i64 {
        self.from
    }

    /// The log start, if retention passed the planned offset: `[from, skip_to)` is gone.
    pub fn skip_to(&self) -> Option<i64> {
        self.skip_to
    }

    /// The new units, in order.
    pub fn units(&self) -> &[UnitId] {
        &self.units
    }

    /// The planned offset afterwards.
    pub fn planned(&self) -> i64 {
        self.units.last().map_or(self.skip_to.unwrap_or(self.from), UnitId::end)
    }
}

/// What [`plan`] decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Give this to the queue.
    Plan(Plan),
    /// Nothing is new.
    UpToDate,
    /// As many units are outstanding as may be.
    Full,
    /// Kafka does not hold the group's first offset yet: commit it, note that, then plan.
    FirstCommitMissing,
    /// The topic was made anew under the same name: reset the partition.
    OtherTopic,
    /// The log ends before what is planned already, as after an unclean election. Nothing is
    /// planned until it has grown past that; worth a warning.
    EndBehind {
        /// Planned up to here.
        planned: i64,
        /// The log's end.
        end: i64,
    },
}

/// Cuts what is new in `partition` into units.
///
/// # Errors
/// If the log's offsets pass [`OFFSET_MAX`].
pub fn plan(
    rules: PlanRules,
    partition: &TopicPartition,
    state: &PartitionState,
    log: LogRange,
) -> Result<Decision, InvalidId> {
    if state.topic_id != log.topic_id {
        return Ok(Decision::OtherTopic);
    }
    if !state.committed {
        return Ok(Decision::FirstCommitMissing);
    }
    if log.end < state.planned {
        return Ok(Decision::EndBehind { planned: state.planned, end: log.end });
    }
    if log.start > OFFSET_MAX {
        return Err(InvalidId::Range { start: log.start, end: log.end });
    }
    let skip_to = (log.start > state.planned).then_some(log.start);
    let room = rules.outstanding_max.saturating_sub(state.outstanding);
    let count_max = room.min(rules.units_per_plan_max.max(1));
    let mut start = skip_to.unwrap_or(state.planned);
    let mut units = Vec::new();
    while start < log.end && units.len() < count_max {
        let end = cut_end(rules, start).min(log.end);
        units.push(partition.unit(start, end)?);
        start = end;
    }
    if units.is_empty() && skip_to.is_none() {
        return Ok(if start < log.end { Decision::Full } else { Decision::UpToDate });
    }
    Ok(Decision::Plan(Plan {
        partition: partition.clone(),
        topic_id: log.topic_id,
        leader_epoch: log.leader_epoch,
        from: state.planned,
        skip_to,
        units,
    }))
}

/// Where a unit that starts at `start` ends if the log goes on.
fn cut_end(rules: PlanRules, start: i64) -> i64 {
    let size = rules.unit_size.max(1);
    let length = if rules.aligned { size - start.rem_euclid(size) } else { size };
    start.saturating_add(length)
}

/// The group's offset of a partition as Kafka holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: i64,
    /// The topic id that the commit was labelled with; `None` if another tool wrote it.
    pub topic_id: Option<Uuid>,
}

/// What is known about a partition that the queue does not hold yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartFacts {
    /// The group's offset, if it has one.
    pub committed: Option<CommittedOffset>,
    /// Whether another partition of the topic has one: this partition is then new, and
    /// everything in it is yet to be read.
    pub sisters_committed: bool,
    /// Where `auto.offset.reset` points, for a group that never read the topic.
    pub reset_to: i64,
}

/// The offset that a partition starts at when the queue holds nothing of it.
///
/// A commit that is labelled with another topic's id tells nothing about this one: the log start
/// is taken, since its offsets may lie anywhere in the new log. A commit without a label was written
/// by a person with another tool, and is taken as it is.
pub fn first_offset(facts: StartFacts, log: LogRange) -> i64 {
    match facts.committed {
        Some(CommittedOffset { topic_id: Some(label), .. }) if label != log.topic_id => log.start,
        Some(committed) => committed.offset.max(0),
        None if facts.sisters_committed => log.start,
        None => facts.reset_to.max(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn partition() -> TopicPartition {
        TopicPartition::new("t", 0).unwrap()
    }

    fn state(planned: i64) -> PartitionState {
        PartitionState {
            topic_id: Uuid([1; 16]),
            planned,
            low: planned,
            committed: true,
            leader_epoch: 0,
            outstanding: 0,
        }
    }

    fn log(start: i64, end: i64) -> LogRange {
        LogRange { topic_id: Uuid([1; 16]), start, end, leader_epoch: 0 }
    }

    fn rules(unit_size: i64) -> PlanRules {
        PlanRules { unit_size, ..PlanRules::default() }
    }

    fn cuts(decision: Result<Decision, InvalidId>) -> Vec<(i64, i64)> {
        match decision.unwrap() {
            Decision::Plan(plan) => plan.units().iter().map(|u| (u.start(), u.end())).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn units_have_the_size_and_the_last_is_what_is_left() {
        let cut = plan(rules(10), &partition(), &state(5), log(0, 28));
        assert_eq!(cuts(cut), [(5, 15), (15, 25), (25, 28)]);
        let aligned = PlanRules { aligned: true, ..rules(10) };
        let cut = plan(aligned, &partition(), &state(5), log(0, 28));
        assert_eq!(cuts(cut), [(5, 10), (10, 20), (20, 28)]);
    }

    #[test]
    fn what_retention_took_is_skipped_and_said() {
        let Decision::Plan(made) = plan(rules(10), &partition(), &state(5), log(7, 9)).unwrap()
        else {
            panic!("no plan")
        };
        assert_eq!((made.from(), made.skip_to(), made.planned()), (5, Some(7), 9));
        let Decision::Plan(made) = plan(rules(10), &partition(), &state(5), log(7, 7)).unwrap()
        else {
            panic!("no plan")
        };
        assert_eq!((made.units().len(), made.planned()), (0, 7));
    }

    /// gerritjvv/kafka-fast#10: a saved offset above the broker's end.
    #[test]
    fn an_end_that_went_back_is_waited_for() {
        let behind = Decision::EndBehind { planned: 200, end: 150 };
        assert_eq!(plan(rules(100), &partition(), &state(200), log(0, 150)), Ok(behind));
        assert_eq!(
            plan(rules(100), &partition(), &state(200), log(0, 200)),
            Ok(Decision::UpToDate)
        );
        assert_eq!(cuts(plan(rules(100), &partition(), &state(200), log(0, 260))), [(200, 260)]);
    }

    #[test]
    fn no_more_units_than_may_be_outstanding() {
        let narrow = PlanRules { outstanding_max: 5, units_per_plan_max: 3, ..rules(1) };
        assert_eq!(cuts(plan(narrow, &partition(), &state(0), log(0, 100))).len(), 3);
        let four = PartitionState { outstanding: 4, ..state(0) };
        assert_eq!(cuts(plan(narrow, &partition(), &four, log(0, 100))).len(), 1);
        let five = PartitionState { outstanding: 5, ..state(0) };
        assert_eq!(plan(narrow, &partition(), &five, log(0, 100)), Ok(Decision::Full));
    }

    #[test]
    fn another_topic_or_a_missing_first_commit_stops_it() {
        let other = LogRange { topic_id: Uuid([2; 16]), ..log(0, 9) };
        assert_eq!(plan(rules(1), &partition(), &state(0), other), Ok(Decision::OtherTopic));
        let fresh = PartitionState { committed: false, ..state(0) };
        assert_eq!(
            plan(rules(1), &partition(), &fresh, log(0, 9)),
            Ok(Decision::FirstCommitMissing)
        );
    }

    #[test]
    fn a_partition_starts_where_its_history_says() {
        let ours = CommittedOffset { offset: 40, topic_id: Some(Uuid([1; 16])) };
        let facts = StartFacts { committed: Some(ours), sisters_committed: true, reset_to: 100 };
        assert_eq!(first_offset(facts, log(10, 100)), 40);
        let foreign = CommittedOffset { topic_id: Some(Uuid([9; 16])), ..ours };
        let facts_of_other = StartFacts { committed: Some(foreign), ..facts };
        assert_eq!(first_offset(facts_of_other, log(10, 100)), 10);
        let by_hand = CommittedOffset { topic_id: None, ..ours };
        assert_eq!(
            first_offset(StartFacts { committed: Some(by_hand), ..facts }, log(10, 100)),
            40
        );
        let new = StartFacts { committed: None, ..facts };
        assert_eq!(first_offset(new, log(10, 100)), 10);
        let never = StartFacts { sisters_committed: false, ..new };
        assert_eq!(first_offset(never, log(10, 100)), 100);
    }

    proptest! {
        #[test]
        fn every_plan_is_a_tiling_within_its_bounds(
            unit_size in 1..50_i64,
            aligned in any::<bool>(),
            outstanding_max in 0..20_usize,
            units_per_plan_max in 1..20_usize,
            planned in 0..500_i64,
            outstanding in 0..25_usize,
            start in 0..700_i64,
            length in 0..500_i64,
        ) {
            let rules = PlanRules { unit_size, aligned, outstanding_max, units_per_plan_max };
            let state = PartitionState { outstanding, ..state(planned) };
            let log = log(start, start + length);
            match plan(rules, &partition(), &state, log).unwrap() {
                Decision::Plan(plan) => {
                    let mut at = planned;
                    if let Some(to) = plan.skip_to() {
                        prop_assert_eq!(to, log.start);
                        prop_assert!(to > at);
                        at = to;
                    }
                    for unit in plan.units() {
                        prop_assert_eq!(unit.start(), at);
                        prop_assert!(unit.len() <= unit_size);
                        prop_assert!(!aligned || unit.end() % unit_size == 0 || unit.end() == log.end);
                        at = unit.end();
                    }
                    prop_assert_eq!(at, plan.planned());
                    prop_assert!(at > planned && at <= log.end);
                    prop_assert!(plan.units().len() <= units_per_plan_max);
                    prop_assert!(plan.units().is_empty() || plan.units().len() + outstanding <= outstanding_max);
                }
                Decision::UpToDate => prop_assert_eq!(planned, log.end),
                Decision::Full => prop_assert!(outstanding >= outstanding_max && planned < log.end),
                Decision::EndBehind { .. } => prop_assert!(log.end < planned),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
