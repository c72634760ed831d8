//! What people do: have failed units worked on again, drop them, move the group's position.

use crate::work::life::state::{Failure, Life};
use crate::work::queue::{Answer, Reposition, Repositioned, SkipReason, Steered};
use crate::work::snapshot::UnitState;
use crate::work::unit::{LeaderId, TopicPartition, UnitId};

impl Life {
    pub(crate) fn redrive(&mut self, of: &TopicPartition, limit: usize, now: i64) -> Steered {
        let mut steered = Steered::default();
        for unit in self.dead_of(of, limit) {
            self.dead.remove(&unit.to_string());
            self.add_queued(&unit, now);
            count(&mut steered, &unit);
        }
        let topic_id = self.parts.get(of).map(|part| part.topic_id);
        let mut kept = Vec::new();
        for failure in std::mem::take(&mut self.errors).into_iter().rev() {
            match unit_in(of, &failure) {
                Some(unit)
                    if steered.units < limit
                        && failure.topic_id == topic_id
                        && self.is_done(of, unit.start(), unit.end()) =>
                {
                    self.take_back(of, unit.start(), unit.end());
                    self.add_queued(&unit, now);
                    count(&mut steered, &unit);
                }
                _ => kept.push(failure),
            }
        }
        self.errors.extend(kept.into_iter().rev());
        steered
    }

    pub(crate) fn drop_failed(&mut self, of: &TopicPartition, limit: usize, now: i64) -> Steered {
        let mut steered = Steered::default();
        for unit in self.dead_of(of, limit) {
            self.dead.remove(&unit.to_string());
            self.remove_out(&unit);
            self.record_skip(of, unit.start(), unit.end(), SkipReason::Dropped, now);
            self.add_done(of, unit.start(), unit.end());
            count(&mut steered, &unit);
        }
        let mut kept = Vec::new();
        for failure in std::mem::take(&mut self.errors).into_iter().rev() {
            match unit_in(of, &failure) {
                Some(unit) if steered.units < limit => count(&mut steered, &unit),
                _ => kept.push(failure),
            }
        }
        self.errors.extend(kept.into_iter().rev());
        steered
    }

    pub(crate) fn reposition(
        &mut self,
        me: LeaderId,
        reposition: &Reposition,
        now: i64,
    ) -> Answer<Repositioned> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        let Reposition { partition: of, topic_id, to } = reposition;
        let mut at = match self.parts.get(of) {
            Some(part) if part.topic_id == *topic_id => part.low,
            _ => return Answer::Stale,
        };
        let silent_since = now - self.rules.worker_timeout.as_millis() as i64;
        let live = self.workers.by_name().values().filter(|at| **at > silent_since).count();
        if live > 0 {
            return Answer::Done(Repositioned::WorkersLive(live));
        }
        for (start, end) in self.done.get(of).cloned().unwrap_or_default() {
            self.record_skip(of, at, start.min(*to), SkipReason::Reset, now);
            at = end;
        }
        self.record_skip(of, at, *to, SkipReason::Reset, now);
        self.clear_partition(of);
        self.parts.get_mut(of).expect("the partition was there a moment ago").begin_at(*to);
        self.present(of).map(Repositioned::Moved)
    }

    /// At most `limit` dead units of a partition, from the lowest on.
    fn dead_of(&self, of: &TopicPartition, limit: usize) -> Vec<UnitId> {
        let is_dead = |unit: &&UnitId| {
            self.units.get(&unit.to_string()).is_some_and(|state| state.state == UnitState::Dead)
        };
        let out = if self.parts.contains_key(of) { self.out.get(of) } else { None };
        out.into_iter().flatten().filter(is_dead).take(limit).cloned().collect()
    }
}

#[cfg(test)]
impl Life {
    /// The ranges of a partition's dead units.
    pub(crate) fn dead_ranges(&self, of: &TopicPartition) -> Vec<(i64, i64)> {
        let dead = self.dead_of(of, usize::MAX);
        dead.iter().map(|unit| (unit.start(), unit.end())).collect()
    }
}

/// The unit of an entry of the list of errors, if it is one of `of`.
fn unit_in(of: &TopicPartition, failure: &Failure) -> Option<UnitId> {
    failure.topic_id?;
    failure.unit.parse().ok().filter(|unit: &UnitId| unit.topic_partition() == of)
}

fn count(steered: &mut Steered, unit: &UnitId) {
    steered.add(Steered { units: 1, records: unit.end() - unit.start() });
}
