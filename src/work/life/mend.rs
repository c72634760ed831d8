//! What mends the traces of faults: promote, reap, audit, and the way of dead letters.

use std::collections::HashSet;

use crate::work::life::state::{Life, Unit};
use crate::work::life::worker::End;
use crate::work::queue::{Answer, AuditPhase, AuditRound, Audited, DeadUnit, Reaped};
use crate::work::snapshot::UnitState;
use crate::work::unit::{LeaderId, UnitId, WorkerId};

impl Life {
    pub(crate) fn promote(&mut self, me: LeaderId, limit: usize, now: i64) -> Answer<usize> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        let mut promoted = 0;
        for id in self.delayed.due(now, limit) {
            self.delayed.remove(&id);
            if !self.keep_if_out(&id) {
                continue;
            }
            if let Some(unit) = self.units.get_mut(&id)
                && unit.state == UnitState::Delayed
            {
                unit.state = UnitState::Queued;
                unit.since = now;
                self.work.push_front(id);
                promoted += 1;
            }
        }
        Answer::Done(promoted)
    }

    /// Whether the unit is outstanding; the state of one that is not is dropped.
    fn keep_if_out(&mut self, id: &str) -> bool {
        let out = id.parse().is_ok_and(|unit: UnitId| self.is_out(&unit));
        if !out {
            self.units.remove(id);
        }
        out
    }

    pub(crate) fn reap_leases(
        &mut self,
        me: LeaderId,
        limit: usize,
        now: i64,
    ) -> Answer<Vec<Reaped>> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        let mut reaped = Vec::new();
        for id in self.leases.due(now, limit) {
            self.leases.remove(&id);
            if !self.keep_if_out(&id) {
                continue;
            }
            let Some(state) = self.units.get(&id).filter(|unit| unit.state == UnitState::Leased)
            else {
                continue;
            };
            let state = state.clone();
            let unit: UnitId = id.parse().expect("what is outstanding is a unit");
            self.release(&id, &state.owner);
            let owner = state.owner.clone();
            let position = state.position;
            let why = format!("the lease of worker {owner} ran out");
            let settled = self.settle(&unit, state, position, End::Failed(why), now);
            reaped.push(Reaped { unit, owner, settled });
        }
        Answer::Done(reaped)
    }

    pub(crate) fn reap_workers(
        &mut self,
        me: LeaderId,
        limit: usize,
        now: i64,
    ) -> Answer<Vec<WorkerId>> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        let silent_since = now - self.rules.worker_timeout.as_millis() as i64;
        let mut reaped = Vec::new();
        for name in self.workers.due(silent_since, limit) {
            self.reap_list(&name);
            self.workers.remove(&name);
            reaped.extend(name.parse::<WorkerId>());
        }
        Answer::Done(reaped)
    }

    /// A whole round at once: here nothing is far away.
    pub(crate) fn audit(
        &mut self,
        me: LeaderId,
        round: &mut AuditRound,
        now: i64,
    ) -> Answer<Audited> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        round.phase = AuditPhase::Complete;
        let mut audited = Audited::default();
        let registered = self.lists.iter().filter(|(name, _)| self.workers.contains(name));
        let seen: HashSet<String> =
            registered.flat_map(|(_, list)| list).chain(&self.work).cloned().collect();
        let partitions: Vec<_> = self.parts.keys().cloned().collect();
        for of in partitions {
            if !self.is_tiled(&of) {
                self.clear_partition(&of);
                self.parts.remove(&of);
                audited.dropped.push(of);
                continue;
            }
            let mut unseen = Vec::new();
            for unit in self.out.get(&of).cloned().unwrap_or_default() {
                if self.audit_unit(&unit, &mut audited, now) && !seen.contains(&unit.to_string()) {
                    unseen.push(unit.to_string());
                }
            }
            for id in unseen {
                self.units.get_mut(&id).expect("it was queued a moment ago").since = now;
                self.work.push_front(id);
                audited.requeued += 1;
            }
        }
        let unregistered: Vec<String> =
            self.lists.keys().filter(|name| !self.workers.contains(name)).cloned().collect();
        for name in unregistered {
            self.reap_list(&name);
            audited.lists_reaped += 1;
        }
        Answer::Done(audited)
    }

    /// Restores what the unit lost; tells whether it has been queued.
    fn audit_unit(&mut self, unit: &UnitId, audited: &mut Audited, now: i64) -> bool {
        let id = unit.to_string();
        match self.units.get(&id).map(|state| state.state) {
            None => {
                self.units.insert(id.clone(), Unit::new(UnitState::Queued, unit.start(), now));
                self.work.push_front(id);
                audited.restored += 1;
            }
            Some(UnitState::Queued) => return true,
            Some(UnitState::Leased) if !self.leases.contains(&id) => {
                self.leases.set(&id, now + self.rules.lease.as_millis() as i64);
                audited.restored += 1;
            }
            Some(UnitState::Delayed) if !self.delayed.contains(&id) => {
                self.delayed.set(&id, now);
                audited.restored += 1;
            }
            Some(UnitState::Dead) if !self.dead.contains(&id) => {
                self.dead.set(&id, now);
                audited.restored += 1;
            }
            Some(_) => {}
        }
        false
    }

    pub(crate) fn dead(&mut self, me: LeaderId, limit: usize, now: i64) -> Answer<Vec<DeadUnit>> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        let again = now + self.rules.retry_backoff_max.as_millis() as i64;
        let mut dead = Vec::new();
        for id in self.dead.due(now, limit) {
            self.dead.remove(&id);
            if !self.keep_if_out(&id) {
                continue;
            }
            let unit: UnitId = id.parse().expect("what is outstanding is a unit");
            let topic_id = self.parts.get(unit.topic_partition()).map(|part| part.topic_id);
            if let Some(state) = self.units.get(&id)
                && state.state == UnitState::Dead
                && let Some(topic_id) = topic_id
            {
                self.dead.set(&id, again);
                dead.push(DeadUnit {
                    unit,
                    topic_id,
                    attempts: state.attempts,
                    owner: state.owner.clone(),
                    error: state.error.clone(),
                });
            }
        }
        Answer::Done(dead)
    }

    pub(crate) fn bury(&mut self, me: LeaderId, dead: &DeadUnit, now: i64) -> Answer<()> {
        if !self.is_leader(me, now) {
            return Answer::NotLeader;
        }
        let unit = &dead.unit;
        let id = unit.to_string();
        let same_topic = self
            .parts
            .get(unit.topic_partition())
            .is_some_and(|part| part.topic_id == dead.topic_id);
        match self.units.get(&id) {
            Some(state) if state.state == UnitState::Dead && same_topic && self.is_out(unit) => {
                let state = state.clone();
                let why = state.error.clone();
                self.dead.remove(&id);
                self.remove_out(unit);
                self.give_up(unit, state, why, now);
                self.add_done(unit.topic_partition(), unit.start(), unit.end());
                Answer::Done(())
            }
            _ => Answer::Stale,
        }
    }
}
