//! Claim, begin, renew, finish, give back, and how a unit is settled.

use crate::work::life::state::{Completed, Failure, Life, Unit};
use crate::work::queue::{
    Begun, Finished, Lease, NextUnit, Outcome, Progress, Settled, SkipReason,
    UNREADABLE_PER_CLAIM_MAX, stored_text,
};
use crate::work::snapshot::UnitState;
use crate::work::unit::{LeaseToken, UnitId, WorkerId};

/// How the handling of a unit ended, for settling it.
pub(super) enum End {
    Handled,
    Failed(String),
    DeadLettered(String),
}

impl Life {
    pub(crate) fn heartbeat(&mut self, worker: &WorkerId, now: i64) {
        self.workers.set(worker.as_str(), now);
    }

    pub(crate) fn unregister(&mut self, worker: &WorkerId) {
        self.reap_list(worker.as_str());
        self.workers.remove(worker.as_str());
    }

    /// The id to begin next, without waiting.
    pub(crate) fn claim(&mut self, worker: &WorkerId, now: i64) -> Option<UnitId> {
        for _ in 0..UNREADABLE_PER_CLAIM_MAX {
            let own = self.lists.get(worker.as_str()).and_then(|list| list.back()).cloned();
            let entry = if let Some(entry) = own {
                entry
            } else {
                let entry = self.work.pop_back()?;
                let list = self.lists.entry(worker.as_str().to_owned()).or_default();
                list.push_front(entry.clone());
                entry
            };
            match entry.parse() {
                Ok(unit) => return Some(unit),
                Err(_) => self.discard(worker, &entry, now),
            }
        }
        None
    }

    /// What follows a finish in the same step. The unit that a former call, whose answer was lost, began under
    /// `token`; else the next one if it is queued. Any other entry stays in the own list: claim and begin judge it.
    pub(crate) fn next(
        &mut self,
        token: LeaseToken,
        worker: &WorkerId,
        now: i64,
    ) -> Option<NextUnit> {
        let own = self.lists.get(worker.as_str()).cloned().unwrap_or_default();
        let begun = own.iter().find(|id| {
            self.units
                .get(*id)
                .is_some_and(|unit| unit.state == UnitState::Leased && unit.token == Some(token))
        });
        let entry = if let Some(entry) = begun.or(own.back()) {
            entry.clone()
        } else {
            let entry = self.work.pop_back()?;
            let list = self.lists.entry(worker.as_str().to_owned()).or_default();
            list.push_front(entry.clone());
            entry
        };
        let state = self.units.get(&entry)?;
        let may_begin = begun.is_some() || state.state == UnitState::Queued;
        let unit: UnitId = entry.parse().ok()?;
        if !may_begin || !self.is_out(&unit) || !self.parts.contains_key(unit.topic_partition()) {
            return None;
        }
        match self.lease(&unit, token, worker, now) {
            Begun::Leased(lease) => Some(NextUnit { unit, lease }),
            Begun::Gone | Begun::Taken => None,
        }
    }

    /// Moves an entry that is no unit to the log of errors.
    fn discard(&mut self, worker: &WorkerId, entry: &str, now: i64) {
        self.remove_hint(worker.as_str(), entry);
        self.log_error(Failure {
            at: now,
            unit: stored_text(entry),
            worker: worker.to_string(),
            attempts: 0,
            error: "the entry is no unit".to_owned(),
            topic_id: None,
        });
    }

    pub(crate) fn begin(
        &mut self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        now: i64,
    ) -> Begun {
        self.heartbeat(worker, now);
        self.lease(unit, token, worker, now)
    }

    fn lease(&mut self, unit: &UnitId, token: LeaseToken, worker: &WorkerId, now: i64) -> Begun {
        let id = unit.to_string();
        let topic_id = self.parts.get(unit.topic_partition()).map(|part| part.topic_id);
        let (Some(topic_id), true) = (topic_id, self.is_out(unit)) else {
            if !self.is_out(unit) {
                self.units.remove(&id);
            }
            self.remove_hint(worker.as_str(), &id);
            return Begun::Gone;
        };
        let limit = self.rules.attempt_limit();
        let lease = |attempt| Begun::Leased(Lease { attempt, is_last: attempt >= limit, topic_id });
        let until = now + self.rules.lease.as_millis() as i64;
        match self.units.get_mut(&id) {
            Some(state) if state.state == UnitState::Leased && state.token == Some(token) => {
                lease(state.attempts)
            }
            Some(state) if state.state == UnitState::Queued => {
                state.state = UnitState::Leased;
                state.since = now;
                state.token = Some(token);
                state.attempts += 1;
                worker.as_str().clone_into(&mut state.owner);
                self.leases.set(&id, until);
                lease(state.attempts)
            }
            _ => {
                self.remove_hint(worker.as_str(), &id);
                Begun::Taken
            }
        }
    }

    /// The unit's state if `token` holds its lease.
    fn held(&self, unit: &UnitId, token: LeaseToken) -> Option<Unit> {
        let state = self.units.get(&unit.to_string())?;
        let held = state.state == UnitState::Leased && state.token == Some(token);
        (held && self.is_out(unit)).then(|| state.clone())
    }

    pub(crate) fn renew(
        &mut self,
        unit: &UnitId,
        token: LeaseToken,
        progress: &Progress,
        now: i64,
    ) -> bool {
        let Some(state) = self.held(unit, token) else { return false };
        let id = unit.to_string();
        let position = self.advance(unit, &state, progress, now);
        self.units.get_mut(&id).expect("the unit is held").position = position;
        self.leases.set(&id, now + self.rules.lease.as_millis() as i64);
        true
    }

    /// The position that `progress` leads to, its skips recorded. What lies before the position that is stored was
    /// recorded before: a repeated call counts once.
    fn advance(&mut self, unit: &UnitId, state: &Unit, progress: &Progress, now: i64) -> i64 {
        let position = progress.position.clamp(state.position, unit.end());
        for skip in &progress.skips {
            let (start, end) = (skip.start.max(state.position), skip.end.min(position));
            self.record_skip(unit.topic_partition(), start, end, skip.why, now);
        }
        position
    }

    pub(crate) fn finish(
        &mut self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        progress: &Progress,
        outcome: &Outcome,
        now: i64,
    ) -> Finished {
        let id = unit.to_string();
        let Some(state) = self.held(unit, token) else {
            let queued = self.units.get(&id).is_some_and(|u| u.state == UnitState::Queued);
            // The hint may be all that leads to a queued unit, after the store went back in time.
            if !queued {
                self.remove_hint(worker.as_str(), &id);
            }
            return Finished::Refused;
        };
        let position = self.advance(unit, &state, progress, now);
        self.release(&id, &state.owner);
        let end = match outcome {
            Outcome::Handled => End::Handled,
            Outcome::Failed { why } => End::Failed(stored_text(why)),
            Outcome::DeadLettered { why } => End::DeadLettered(stored_text(why)),
        };
        Finished::Settled(self.settle(unit, state, position, end, now))
    }

    /// Takes the hint and the lease's end away.
    pub(super) fn release(&mut self, id: &str, owner: &str) {
        self.remove_hint(owner, id);
        self.leases.remove(id);
    }

    /// Decides what becomes of a unit whose lease ended at `position`.
    pub(super) fn settle(
        &mut self,
        unit: &UnitId,
        mut state: Unit,
        position: i64,
        end: End,
        now: i64,
    ) -> Settled {
        let of = unit.topic_partition();
        let gave_up = matches!(end, End::DeadLettered(_));
        if position > unit.start() || gave_up {
            self.remove_out(unit);
            if position > unit.start() {
                self.log_progress(unit, &state, position, now);
            }
            let rest = unit.from_position(position);
            let settled = match (rest, end) {
                (None, _) => Settled::Complete,
                (Some(rest), End::Handled) => {
                    self.add_queued(&rest, now);
                    Settled::Remainder(rest)
                }
                (Some(rest), End::Failed(why)) => {
                    let mut fresh = Unit::new(UnitState::Delayed, rest.start(), now);
                    fresh.error = why;
                    self.add_out(&rest, fresh);
                    let wait = self.rules.backoff(1).as_millis() as i64;
                    self.delayed.set(&rest.to_string(), now + wait);
                    Settled::Remainder(rest)
                }
                (Some(rest), End::DeadLettered(why)) => {
                    self.give_up(&rest, state, why, now);
                    self.add_done(of, unit.start(), unit.end());
                    return Settled::Complete;
                }
            };
            self.add_done(of, unit.start(), position);
            return settled;
        }
        state.error = match end {
            End::Failed(why) | End::DeadLettered(why) => why,
            End::Handled => "it was handed back without progress".to_owned(),
        };
        let id = unit.to_string();
        state.token = None;
        state.since = now;
        let settled = if state.attempts >= self.rules.attempt_limit() {
            state.state = UnitState::Dead;
            self.dead.set(&id, now);
            Settled::Dead
        } else {
            state.state = UnitState::Delayed;
            self.delayed.set(&id, now + self.rules.backoff(state.attempts).as_millis() as i64);
            Settled::Delayed
        };
        self.units.insert(id, state);
        settled
    }

    /// Logs that `unit` was handled up to `position`.
    fn log_progress(&mut self, unit: &UnitId, state: &Unit, position: i64, now: i64) {
        self.log_complete(Completed {
            at: now,
            unit: unit.to_string(),
            worker: state.owner.clone(),
            attempts: state.attempts,
            position,
        });
    }

    /// Records that `rest` was given up.
    pub(super) fn give_up(&mut self, rest: &UnitId, state: Unit, why: String, now: i64) {
        let of = rest.topic_partition();
        self.record_skip(of, rest.start(), rest.end(), SkipReason::DeadLetter, now);
        self.log_error(Failure {
            at: now,
            unit: rest.to_string(),
            worker: state.owner,
            attempts: state.attempts,
            error: why,
            topic_id: self.parts.get(of).map(|part| part.topic_id),
        });
    }

    pub(crate) fn give_back(
        &mut self,
        unit: &UnitId,
        token: LeaseToken,
        delay_ms: i64,
        now: i64,
    ) -> bool {
        let Some(mut state) = self.held(unit, token) else { return false };
        let id = unit.to_string();
        self.release(&id, &state.owner);
        let position = state.position;
        let rest = unit.from_position(position);
        let back = match rest {
            None => {
                self.settle(unit, state, position, End::Handled, now);
                return true;
            }
            Some(_) if position == unit.start() => {
                state.attempts = state.attempts.saturating_sub(1);
                unit.clone()
            }
            Some(rest) => {
                self.remove_out(unit);
                self.log_progress(unit, &state, position, now);
                state = Unit::new(UnitState::Queued, position, now);
                rest
            }
        };
        state.token = None;
        state.since = now;
        state.state = if delay_ms > 0 { UnitState::Delayed } else { UnitState::Queued };
        self.add_out(&back, state);
        if delay_ms > 0 {
            self.delayed.set(&back.to_string(), now + delay_ms);
        } else {
            self.work.push_front(back.to_string());
        }
        self.add_done(unit.topic_partition(), unit.start(), position);
        true
    }
}
