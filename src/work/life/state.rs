//! The state, and the small steps that the operations share.
//!
//! The invariant per partition: `[low, planned)` is tiled by `out` and `done`. Done ranges that touch
//! are one range, so there is at most one more of them than there are outstanding units.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::protocol::Uuid;
use crate::work::queue::{
    COMPLETE_LOG_MAX, ERROR_LOG_MAX, PartitionState, QueueRules, SKIPPED_LOG_MAX, SkipReason,
};
use crate::work::snapshot::UnitState;
use crate::work::unit::{LeaderId, LeaseToken, TopicPartition, UnitId};

/// Everything that a queue holds.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(super) rules: QueueRules,
    pub(super) leader: Option<(LeaderId, i64)>,
    /// Pushed at the front, popped at the back.
    pub(super) work: VecDeque<String>,
    pub(super) lists: BTreeMap<String, VecDeque<String>>,
    pub(super) workers: Times,
    pub(super) leases: Times,
    pub(super) delayed: Times,
    pub(super) dead: Times,
    pub(super) units: HashMap<String, Unit>,
    pub(super) parts: BTreeMap<TopicPartition, Part>,
    pub(super) out: BTreeMap<TopicPartition, BTreeSet<UnitId>>,
    pub(super) done: BTreeMap<TopicPartition, BTreeMap<i64, i64>>,
    pub(super) complete: VecDeque<Completed>,
    pub(super) errors: VecDeque<Failure>,
    pub(super) skipped: VecDeque<Skipped>,
}

/// Names by time, as a sorted set of Redis orders them: by time, then by bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    of: HashMap<String, i64>,
    ordered: BTreeSet<(i64, String)>,
}

impl Times {
    pub(super) fn set(&mut self, name: &str, at: i64) {
        if let Some(before) = self.of.insert(name.to_owned(), at) {
            self.ordered.remove(&(before, name.to_owned()));
        }
        self.ordered.insert((at, name.to_owned()));
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(before) = self.of.remove(name) {
            self.ordered.remove(&(before, name.to_owned()));
        }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.of.contains_key(name)
    }

    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// At most `limit` names whose time is `now` or earlier.
    pub(super) fn due(&self, now: i64, limit: usize) -> Vec<String> {
        let passed = self.ordered.iter().take_while(|(at, _)| *at <= now);
        passed.take(limit).map(|(_, name)| name.clone()).collect()
    }

    /// Every name with its time, ordered by name.
    pub(super) fn by_name(&self) -> BTreeMap<&str, i64> {
        self.of.iter().map(|(name, at)| (name.as_str(), *at)).collect()
    }
}

/// The state of an outstanding unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) state: UnitState,
    pub(super) since: i64,
    pub(super) token: Option<LeaseToken>,
    pub(super) attempts: u32,
    pub(super) owner: String,
    pub(super) position: i64,
    pub(super) error: String,
}

impl Unit {
    /// One that nobody has begun.
    pub(super) fn new(state: UnitState, position: i64, now: i64) -> Self {
        Self {
            state,
            since: now,
            token: None,
            attempts: 0,
            owner: String::new(),
            position,
            error: String::new(),
        }
    }
}

/// The state of a partition.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) topic_id: Uuid,
    pub(super) planned: i64,
    pub(super) low: i64,
    pub(super) committed: bool,
    pub(super) leader_epoch: i32,
    pub(super) skipped: BTreeMap<SkipReason, i64>,
}

impl Part {
    /// Nothing is planned yet, nor is the first offset in Kafka.
    pub(super) fn begin_at(&mut self, offset: i64) {
        self.planned = offset;
        self.low = offset;
        self.committed = false;
        self.leader_epoch = -1;
    }
}

/// An entry of the log of finished units.
#[derive(Clone, Debug)]
pub(super) struct Completed {
    pub(super) at: i64,
    pub(super) unit: String,
    pub(super) worker: String,
    pub(super) attempts: u32,
    pub(super) position: i64,
}

/// An entry of the log of errors.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) at: i64,
    pub(super) unit: String,
    pub(super) worker: String,
    pub(super) attempts: u32,
    pub(super) error: String,
    /// The topic that the unit is of; `None` for an entry that is no unit.
    pub(super) topic_id: Option<Uuid>,
}

/// An entry of the log of skipped ranges.
#[derive(Clone, Debug)]
pub(super) struct Skipped {
    pub(super) at: i64,
    pub(super) range: String,
    pub(super) why: SkipReason,
}

impl Life {
    /// An empty queue.
    pub(crate) fn new(rules: QueueRules) -> Self {
        Self {
            rules,
            leader: None,
            work: VecDeque::new(),
            lists: BTreeMap::new(),
            workers: Times::default(),
            leases: Times::default(),
            delayed: Times::default(),
            dead: Times::default(),
            units: HashMap::new(),
            parts: BTreeMap::new(),
            out: BTreeMap::new(),
            done: BTreeMap::new(),
            complete: VecDeque::new(),
            errors: VecDeque::new(),
            skipped: VecDeque::new(),
        }
    }

    /// Whether something can be popped.
    pub(crate) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    pub(super) fn is_out(&self, unit: &UnitId) -> bool {
        self.out.get(unit.topic_partition()).is_some_and(|out| out.contains(unit))
    }

    pub(super) fn partition_state(&self, of: &TopicPartition) -> Option<PartitionState> {
        let part = self.parts.get(of)?;
        Some(PartitionState {
            topic_id: part.topic_id,
            planned: part.planned,
            low: part.low,
            committed: part.committed,
            leader_epoch: part.leader_epoch,
            outstanding: self.out.get(of).map_or(0, BTreeSet::len),
        })
    }

    /// Adds an outstanding unit that can be begun.
    pub(super) fn add_queued(&mut self, unit: &UnitId, now: i64) {
        self.add_out(unit, Unit::new(UnitState::Queued, unit.start(), now));
        self.work.push_front(unit.to_string());
    }

    /// Adds an outstanding unit.
    pub(super) fn add_out(&mut self, unit: &UnitId, state: Unit) {
        self.out.entry(unit.topic_partition().clone()).or_default().insert(unit.clone());
        self.units.insert(unit.to_string(), state);
    }

    /// Takes a unit out of everything but the hints.
    pub(super) fn remove_out(&mut self, unit: &UnitId) {
        if let Some(out) = self.out.get_mut(unit.topic_partition()) {
            out.remove(unit);
        }
        self.units.remove(&unit.to_string());
    }

    /// Drops every unit and done range of a partition.
    pub(super) fn clear_partition(&mut self, of: &TopicPartition) {
        for unit in self.out.remove(of).unwrap_or_default() {
            self.units.remove(&unit.to_string());
        }
        self.done.remove(of);
    }

    /// Notes that `[start, end)` is done, and moves `low` over what is done from there on.
    pub(super) fn add_done(&mut self, of: &TopicPartition, start: i64, end: i64) {
        if start >= end {
            return;
        }
        let done = self.done.entry(of.clone()).or_default();
        if let Some(part) = self.parts.get_mut(of)
            && part.low == start
        {
            part.low = end;
            while let Some(next) = done.remove(&part.low) {
                part.low = next;
            }
            return;
        }
        let before = done.range(..start).next_back().filter(|&(_, &e)| e == start).map(|(&s, _)| s);
        let end = done.remove(&end).unwrap_or(end);
        done.insert(before.unwrap_or(start), end);
    }

    /// Whether all of `[start, end)` is done.
    pub(super) fn is_done(&self, of: &TopicPartition, start: i64, end: i64) -> bool {
        let Some(part) = self.parts.get(of) else { return false };
        let around = self.done.get(of).and_then(|done| done.range(..=start).next_back());
        end <= part.low || around.is_some_and(|(_, &stop)| end <= stop)
    }

    /// Takes `[start, end)`, which is done, out of what is done. `low` goes back to it if it lies below.
    pub(super) fn take_back(&mut self, of: &TopicPartition, start: i64, end: i64) {
        let part = self.parts.get_mut(of).expect("what is done is of a partition");
        let done = self.done.entry(of.clone()).or_default();
        let (from, to) = if end <= part.low {
            (start, std::mem::replace(&mut part.low, start))
        } else {
            let (&from, &to) = done.range(..=start).next_back().expect("the range is done");
            done.remove(&from);
            (from, to)
        };
        if from < start {
            done.insert(from, start);
        }
        if end < to {
            done.insert(end, to);
        }
    }

    /// Removes an id from a worker's list.
    pub(super) fn remove_hint(&mut self, list: &str, id: &str) {
        if let Some(entries) = self.lists.get_mut(list) {
            entries.retain(|entry| entry != id);
            if entries.is_empty() {
                self.lists.remove(list);
            }
        }
    }

    /// Empties a worker's list: what is queued goes back, in the order it was popped.
    pub(super) fn reap_list(&mut self, list: &str) {
        for id in self.lists.remove(list).unwrap_or_default().into_iter().rev() {
            if self.units.get(&id).is_some_and(|unit| unit.state == UnitState::Queued) {
                self.work.push_front(id);
            }
        }
    }

    /// Records a range that nobody handled.
    pub(super) fn record_skip(
        &mut self,
        of: &TopicPartition,
        start: i64,
        end: i64,
        why: SkipReason,
        now: i64,
    ) {
        if start >= end {
            return;
        }
        if let Some(part) = self.parts.get_mut(of) {
            *part.skipped.entry(why).or_default() += end - start;
        }
        log(
            &mut self.skipped,
            SKIPPED_LOG_MAX,
            Skipped { at: now, range: format!("{of}/{start}-{end}"), why },
        );
    }

    pub(super) fn log_complete(&mut self, entry: Completed) {
        log(&mut self.complete, COMPLETE_LOG_MAX, entry);
    }

    pub(super) fn log_error(&mut self, entry: Failure) {
        log(&mut self.errors, ERROR_LOG_MAX, entry);
    }
}

/// Adds the newest entry and drops what is over the limit.
fn log<T>(entries: &mut VecDeque<T>, limit: usize, entry: T) {
    entries.push_front(entry);
    entries.truncate(limit);
}

#[cfg(test)]
impl Life {
    /// What no later step can tell apart is one text: times are over or not, a token is that of the `holder` who has
    /// it, and logs are for people.
    pub(crate) fn fingerprint<T: std::fmt::Debug>(
        &self,
        now: i64,
        holder: impl Fn(LeaseToken) -> Option<T>,
    ) -> String {
        let over = |times: &Times| -> Vec<(String, bool)> {
            times.ordered.iter().map(|(at, name)| (name.clone(), *at <= now)).collect()
        };
        let units: BTreeMap<&String, _> = self
            .units
            .iter()
            .map(|(id, unit)| {
                let held = unit.token.map(&holder);
                (id, (unit.state, held, unit.attempts, &unit.owner, unit.position))
            })
            .collect();
        let parts: Vec<_> =
            self.parts.values().map(|part| (part.planned, part.low, part.committed)).collect();
        // The one log that is not only for people: what it names can be redriven.
        let failed: Vec<_> =
            self.errors.iter().map(|failure| (&failure.unit, failure.topic_id)).collect();
        let silent_since = now - self.rules.worker_timeout.as_millis() as i64;
        let silent: Vec<_> =
            self.workers.by_name().into_iter().map(|(n, at)| (n, at <= silent_since)).collect();
        format!(
            "{:?} {:?} {:?} {silent:?} {:?} {:?} {:?} {units:?} {parts:?} {failed:?} {:?} {:?}",
            self.leader.map(|(id, until)| (id, until > now)),
            self.work,
            self.lists,
            over(&self.leases),
            over(&self.delayed),
            over(&self.dead),
            self.out,
            self.done
        )
    }

    /// What was finished of a partition that was taken up at 0: ranges.
    pub(crate) fn settled(&self, of: &TopicPartition) -> Vec<(i64, i64)> {
        let low = self.parts.get(of).map(|part| (0, part.low));
        let done = self.done.get(of).into_iter().flatten().map(|(&start, &end)| (start, end));
        low.into_iter().chain(done).collect()
    }

    /// Whether no unit is outstanding, and no hint of one left.
    pub(crate) fn is_empty_of_units(&self) -> bool {
        self.units.is_empty() && self.work.is_empty() && self.lists.is_empty()
    }

    /// A partition's key is gone, as if evicted.
    pub(crate) fn lose_part(&mut self, of: &TopicPartition) {
        self.parts.remove(of);
    }

    /// A partition's outstanding set is gone.
    pub(crate) fn lose_out(&mut self, of: &TopicPartition) {
        self.out.remove(of);
    }

    /// A partition's done ranges are gone.
    pub(crate) fn lose_done(&mut self, of: &TopicPartition) {
        self.done.remove(of);
    }

    /// A unit's state is gone.
    pub(crate) fn lose_unit(&mut self, unit: &UnitId) {
        self.units.remove(&unit.to_string());
    }

    /// The list that units are popped from is gone.
    pub(crate) fn lose_work(&mut self) {
        self.work.clear();
    }

    /// A worker's list is gone.
    pub(crate) fn lose_list(&mut self, list: &str) {
        self.lists.remove(list);
    }

    /// The register of workers is gone.
    pub(crate) fn lose_workers(&mut self) {
        self.workers = Times::default();
    }

    /// The times of leases, retries and dead letters are gone.
    pub(crate) fn lose_times(&mut self) {
        self.leases = Times::default();
        self.delayed = Times::default();
        self.dead = Times::default();
    }

    /// The lock is gone.
    pub(crate) fn lose_leader(&mut self) {
        self.leader = None;
    }

    /// Something that is no unit, or a second copy, is to be popped next.
    pub(crate) fn push_hint(&mut self, entry: &str) {
        self.work.push_back(entry.to_owned());
    }
}
