//! The organiser's lock, and what changes a partition's range.

use std::collections::BTreeMap;

use crate::work::life::state::{Life, Part};
use crate::work::plan::Plan;
use crate::work::queue::{Answer, Init, PartitionState, Reset, SkipReason};
use crate::work::unit::{LeaderId, TopicPartition, UnitId};

impl Life {
    pub(crate) fn elect(&mut self, me: LeaderId, now: i64) -> bool {
        if self.leader.is_some_and(|(id, until)| id != me && until > now) {
            return false;
        }
        self.leader = Some((me, now + self.rules.leader_lock.as_millis() as i64));
        true
    }

    pub(crate) fn resign(&mut self, me: LeaderId) {
        if self.leader.is_some_and(|(id, _)| id == me) {
            self.leader = None;
        }
    }

    pub(crate) fn is_leader(&self, me: LeaderId, now: i64) -> bool {
        self.leader.is_some_and(|(id, until)| id == me && until > now)
    }

    pub(crate) fn partitions(
        &self,
        me: LeaderId,
        of: &[TopicPartition],
        now: i64,
    ) -> Answer<Vec<Option<PartitionState>>> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        Answer::Done(of.iter().map(|partition| self.partition_state(partition)).collect())
    }

    pub(crate) fn init(&mut self, me: LeaderId, init: &Init, now: i64) -> Answer<PartitionState> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        if self.parts.contains_key(&init.partition) {
            return Answer::Stale;
        }
        self.clear_partition(&init.partition);
        let start = init.first.max(init.log_start);
        self.parts.insert(
            init.partition.clone(),
            Part {
                topic_id: init.topic_id,
                planned: start,
                low: start,
                committed: false,
                leader_epoch: -1,
                skipped: BTreeMap::new(),
            },
        );
        self.record_skip(&init.partition, init.first, start, SkipReason::Retention, now);
        self.present(&init.partition)
    }

    pub(crate) fn note_committed(
        &mut self,
        me: LeaderId,
        of: &TopicPartition,
        low: i64,
        now: i64,
    ) -> Answer<()> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        match self.parts.get_mut(of) {
            Some(part) if part.low == low => {
                part.committed = true;
                Answer::Done(())
            }
            _ => Answer::Stale,
        }
    }

    pub(crate) fn plan(&mut self, me: LeaderId, plan: &Plan, now: i64) -> Answer<PartitionState> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        let of = plan.partition();
        match self.parts.get_mut(of) {
            Some(part)
                if part.committed
                    && part.topic_id == plan.topic_id()
                    && part.planned == plan.from() =>
            {
                part.planned = plan.planned();
                part.leader_epoch = plan.leader_epoch();
            }
            _ => return Answer::Stale,
        }
        if let Some(to) = plan.skip_to() {
            self.record_skip(of, plan.from(), to, SkipReason::Retention, now);
        }
        for unit in plan.units() {
            self.add_queued(unit, now);
        }
        if let Some(to) = plan.skip_to() {
            self.add_done(of, plan.from(), to);
        }
        self.present(of)
    }

    pub(crate) fn reset(
        &mut self,
        me: LeaderId,
        reset: &Reset,
        now: i64,
    ) -> Answer<PartitionState> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        let of = &reset.partition;
        let (mut at, planned) = match self.parts.get(of) {
            Some(part) if part.topic_id == reset.old_topic_id => (part.low, part.planned),
            _ => return Answer::Stale,
        };
        for (start, end) in self.done.get(of).cloned().unwrap_or_default() {
            self.record_skip(of, at, start, SkipReason::TopicRecreated, now);
            at = end;
        }
        self.record_skip(of, at, planned, SkipReason::TopicRecreated, now);
        self.clear_partition(of);
        let part = self.parts.get_mut(of).expect("the partition was there a moment ago");
        part.topic_id = reset.new_topic_id;
        part.begin_at(reset.log_start);
        self.present(of)
    }

    /// The state of a partition that is there.
    pub(super) fn present(&self, of: &TopicPartition) -> Answer<PartitionState> {
        self.partition_state(of).map_or(Answer::Stale, Answer::Done)
    }

    /// Whether `[low, planned)` is tiled by outstanding units and done ranges.
    pub(crate) fn is_tiled(&self, of: &TopicPartition) -> bool {
        let Some(part) = self.parts.get(of) else { return true };
        let out = self.out.get(of).into_iter().flatten().map(|u: &UnitId| (u.start(), u.end()));
        let done = self.done.get(of).into_iter().flatten().map(|(&start, &end)| (start, end));
        let tiles: BTreeMap<i64, i64> = out.clone().chain(done.clone()).collect();
        let overlaid = tiles.len() != out.count() + done.count();
        let mut at = part.low;
        for (start, end) in tiles {
            if start != at {
                return false;
            }
            at = end;
        }
        !overlaid && at == part.planned
    }
}
