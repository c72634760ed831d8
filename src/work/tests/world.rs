//! Kafka, organisers and workers around the queues under test, driven step by step.
//!
//! A [`World`] holds one queue or several. Each operation is done on all of them, with the same names and tokens, and must
//! give the same answer; after every step their snapshots must be equal, and then:
//!
//! - `[low, planned)` is tiled exactly by outstanding units and done ranges (but between the loss of a key that holds
//!   that and the audit that finds it),
//! - every offset below `low` or in a done range was handled by some worker, or is recorded as skipped,
//! - what is recorded as dead-lettered was stored outside before,
//! - a finish or renewal is accepted only from the last worker that began an overlapping unit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::time::Duration;

use crate::error::Result;
use crate::protocol::Uuid;
use crate::work::plan::{
    CommittedOffset, Decision, LogRange, Plan, PlanRules, StartFacts, first_offset, plan,
};
use crate::work::queue::{
    Answer, AuditRound, Audited, Begun, Finished, Init, Lease, NextUnit, Outcome, PartitionState,
    Progress, Reposition, Repositioned, Reset, Skip, SkipReason, WorkQueue,
};
use crate::work::snapshot::{Snapshot, SnapshotLimits};
use crate::work::tests::rig::{Loss, Rig};
use crate::work::unit::{LeaderId, LeaseToken, TopicPartition, UnitId, WorkerId};

pub(super) const PARTITIONS: usize = 2;
pub(super) const WORKERS: usize = 3;
pub(super) const ORGANISERS: usize = 2;
/// Entries that one call of an organiser looks at.
const LIMIT: usize = 100_000;

const EVERYTHING: SnapshotLimits = SnapshotLimits { units: 100_000, entries: 100_000 };

/// A partition as Kafka has it.
struct Log {
    topic_id: Uuid,
    start: i64,
    end: i64,
    committed: Option<CommittedOffset>,
}

/// A worker of one incarnation.
#[derive(Clone)]
struct Worker {
    name: WorkerId,
    claimed: Option<UnitId>,
    /// Drawn before the first try and kept until there is an answer.
    token: Option<LeaseToken>,
    /// The same for a unit that is begun with the end of another.
    next_token: Option<LeaseToken>,
    held: Option<Held>,
}

/// What a worker believes to hold.
#[derive(Clone)]
struct Held {
    unit: UnitId,
    token: LeaseToken,
    lease: Lease,
    progress: Progress,
    begun: u64,
}

pub(super) struct World<'a> {
    rigs: Vec<&'a dyn Rig>,
    saved: Option<Vec<Box<dyn Fn() + 'a>>>,
    leaders: Vec<LeaderId>,
    pending: Vec<Option<Plan>>,
    sent: Vec<Option<Plan>>,
    workers: Vec<Worker>,
    zombies: Vec<Worker>,
    logs: Vec<Log>,
    /// Draws names and tokens that are the same on every queue.
    counter: u128,
    begins: HashMap<UnitId, u64>,
    handled: HashSet<(usize, Uuid, i64)>,
    skipped: HashSet<(usize, Uuid, i64)>,
    stored: HashSet<(usize, Uuid, i64)>,
    skips_seen: usize,
    /// Tiling may be broken: a key that holds it was lost and nothing audited since.
    injured: bool,
}

pub(super) fn partition(index: usize) -> TopicPartition {
    TopicPartition::new("topic", index as i32).expect("a name")
}

impl<'a> World<'a> {
    pub(super) fn new(rigs: Vec<&'a dyn Rig>) -> Self {
        let mut world = Self {
            rigs,
            saved: None,
            leaders: Vec::new(),
            pending: vec![None; ORGANISERS],
            sent: vec![None; ORGANISERS],
            workers: Vec::new(),
            zombies: Vec::new(),
            logs: Vec::new(),
            counter: 0,
            begins: HashMap::new(),
            handled: HashSet::new(),
            skipped: HashSet::new(),
            stored: HashSet::new(),
            skips_seen: 0,
            injured: false,
        };
        for _ in 0..ORGANISERS {
            let text = world.draw();
            world.leaders.push(text.parse().expect("a token"));
        }
        for index in 0..WORKERS {
            let worker = world.new_worker(index);
            world.workers.push(worker);
        }
        for _ in 0..PARTITIONS {
            let topic_id = world.new_topic_id();
            world.logs.push(Log { topic_id, start: 0, end: 0, committed: None });
        }
        world
    }

    fn draw(&mut self) -> String {
        self.counter += 1;
        format!("{:032x}", self.counter)
    }

    fn new_topic_id(&mut self) -> Uuid {
        self.counter += 1;
        Uuid(self.counter.to_be_bytes())
    }

    fn new_worker(&mut self, index: usize) -> Worker {
        self.counter += 1;
        let name = format!("w-{index}-{}", self.counter).parse().expect("a name");
        Worker { name, claimed: None, token: None, next_token: None, held: None }
    }

    /// Does one operation on every queue; all must answer the same.
    fn each<T: PartialEq + Debug>(&self, call: impl Fn(&dyn WorkQueue) -> Result<T>) -> T {
        let mut answers = self.rigs.iter().map(|rig| call(rig.queue()).expect("the queue answers"));
        let first = answers.next().expect("a queue");
        for other in answers {
            assert_eq!(first, other, "the queues differ");
        }
        first
    }

    // ---- Kafka

    pub(super) fn produce(&mut self, index: usize, records: i64) {
        self.logs[index].end += records;
    }

    pub(super) fn retain(&mut self, index: usize, records: i64) {
        let log = &mut self.logs[index];
        log.start = (log.start + records).min(log.end);
    }

    pub(super) fn recreate(&mut self, index: usize) {
        let topic_id = self.new_topic_id();
        let log = &mut self.logs[index];
        (log.topic_id, log.start, log.end) = (topic_id, 0, 7);
    }

    // ---- organisers

    pub(super) fn elect(&mut self, organiser: usize) {
        let me = self.leaders[organiser];
        self.each(|queue| queue.elect(me));
    }

    pub(super) fn resign(&mut self, organiser: usize) {
        let me = self.leaders[organiser];
        self.each(|queue| queue.resign(me));
    }

    fn state(&self, organiser: usize, index: usize) -> Answer<Option<PartitionState>> {
        let me = self.leaders[organiser];
        let states = self.each(|queue| queue.partitions(me, &[partition(index)]));
        states.map(|states| states[0])
    }

    fn log_range(&self, index: usize) -> LogRange {
        let log = &self.logs[index];
        LogRange { topic_id: log.topic_id, start: log.start, end: log.end, leader_epoch: 3 }
    }

    /// Looks at a partition and makes ready what it needs: takes it up, resets it, or leaves a plan to send.
    pub(super) fn prepare(&mut self, organiser: usize, index: usize) {
        let me = self.leaders[organiser];
        let of = partition(index);
        let log = self.log_range(index);
        match self.state(organiser, index) {
            Answer::NotLeader | Answer::Stale => {}
            Answer::Done(None) => {
                let facts = StartFacts {
                    committed: self.logs[index].committed,
                    sisters_committed: false,
                    reset_to: log.start,
                };
                let init = Init {
                    partition: of,
                    topic_id: log.topic_id,
                    first: first_offset(facts, log),
                    log_start: log.start,
                };
                let committed = self.logs[index].committed;
                if committed.is_none_or(|offset| offset.topic_id != Some(log.topic_id)) {
                    self.excuse(index, log);
                }
                self.each(|queue| queue.init(me, &init));
            }
            Answer::Done(Some(state)) => {
                let rules = PlanRules {
                    unit_size: 5,
                    outstanding_max: 6,
                    units_per_plan_max: 3,
                    aligned: false,
                };
                match plan(rules, &of, &state, log).expect("offsets are small") {
                    Decision::Plan(plan) => self.pending[organiser] = Some(plan),
                    Decision::OtherTopic => {
                        let reset = Reset {
                            partition: of,
                            old_topic_id: state.topic_id,
                            new_topic_id: log.topic_id,
                            log_start: log.start,
                        };
                        self.excuse(index, log);
                        self.each(|queue| queue.reset(me, &reset));
                    }
                    Decision::FirstCommitMissing => {
                        self.commit(organiser, index);
                        self.each(|queue| queue.note_committed(me, &of, state.low));
                    }
                    _ => {}
                }
            }
        }
    }

    /// A group that starts at the log's beginning never had what was gone by then.
    fn excuse(&mut self, index: usize, log: LogRange) {
        self.skipped.extend((0..log.start).map(|offset| (index, log.topic_id, offset)));
    }

    /// Sends the plan that was left, however old it is; without one, the last one again, as if its answer had been lost.
    pub(super) fn send_plan(&mut self, organiser: usize) {
        let me = self.leaders[organiser];
        if let Some(plan) = self.pending[organiser].take().or(self.sent[organiser].take()) {
            self.each(|queue| queue.plan(me, &plan));
            self.sent[organiser] = Some(plan);
        }
    }

    /// Commits `low`, labelled with the topic's id, if Kafka holds another value.
    pub(super) fn commit(&mut self, organiser: usize, index: usize) {
        if let Answer::Done(Some(state)) = self.state(organiser, index) {
            let now = CommittedOffset { offset: state.low, topic_id: Some(state.topic_id) };
            self.logs[index].committed = Some(now);
        }
    }

    pub(super) fn promote(&mut self, organiser: usize) {
        let me = self.leaders[organiser];
        self.each(|queue| queue.promote(me, LIMIT));
    }

    pub(super) fn reap(&mut self, organiser: usize) {
        let me = self.leaders[organiser];
        self.each(|queue| queue.reap_leases(me, LIMIT));
        self.each(|queue| queue.reap_workers(me, LIMIT));
    }

    /// Stores dead letters and buries the units; `buries`: or dies between the two.
    pub(super) fn dead(&mut self, organiser: usize, buries: bool) {
        let me = self.leaders[organiser];
        let Answer::Done(dead) = self.each(|queue| queue.dead(me, LIMIT)) else { return };
        for dead in dead {
            self.store(&dead.unit, dead.topic_id, dead.unit.start());
            if buries {
                self.each(|queue| queue.bury(me, &dead));
            }
        }
    }

    /// A dead letter reaches its place outside the queue.
    fn store(&mut self, unit: &UnitId, topic_id: Uuid, from: i64) {
        let index = unit.partition() as usize;
        self.stored.extend((from..unit.end()).map(|offset| (index, topic_id, offset)));
    }

    pub(super) fn audit(&mut self, organiser: usize) {
        let me = self.leaders[organiser];
        let answer = self.each(|queue| {
            let mut round = AuditRound::new();
            let mut audited = Audited::default();
            while !round.is_complete() {
                match queue.audit(me, &mut round, LIMIT)? {
                    Answer::Done(slice) => audited.add(slice),
                    other => return Ok(other),
                }
            }
            Ok(Answer::Done(audited))
        });
        if answer.done().is_some() {
            self.injured = false;
        }
    }

    /// People have at most `most` failed units worked on again.
    pub(super) fn redrive(&mut self, index: usize, most: usize) {
        self.each(|queue| queue.redrive(&partition(index), most));
    }

    /// People drop at most `most` failed units.
    pub(super) fn drop_failed(&mut self, index: usize, most: usize) {
        self.each(|queue| queue.drop_failed(&partition(index), most));
    }

    /// Somebody who holds the lock moves the position to a place in the log.
    pub(super) fn reposition(&mut self, organiser: usize, index: usize, place: i64) {
        let me = self.leaders[organiser];
        let log = self.log_range(index);
        let to = log.start + place % (log.end - log.start + 1);
        let to = Reposition { partition: partition(index), topic_id: log.topic_id, to };
        let answer = self.each(|queue| queue.reposition(me, &to));
        if let Answer::Done(Repositioned::Moved(state)) = answer {
            assert_eq!((state.low, state.planned, state.outstanding), (to.to, to.to, 0));
        }
    }

    // ---- workers

    /// `hears`: or the answer is lost.
    pub(super) fn claim(&mut self, worker: usize, hears: bool) {
        let name = self.workers[worker].name.clone();
        if self.workers[worker].held.is_some() || self.workers[worker].claimed.is_some() {
            return;
        }
        let unit = self.each(|queue| queue.claim(&name, Duration::ZERO));
        if hears {
            self.workers[worker].claimed = unit;
        }
    }

    pub(super) fn begin(&mut self, worker: usize, hears: bool) {
        let Some(unit) = self.workers[worker].claimed.clone() else { return };
        let token = match self.workers[worker].token {
            Some(token) => token,
            None => self.draw().parse().expect("a token"),
        };
        self.workers[worker].token = Some(token);
        let name = self.workers[worker].name.clone();
        let begun = self.each(|queue| queue.begin(&unit, token, &name));
        if let Begun::Leased(_) = begun {
            self.counter += 1;
            self.begins.insert(unit.clone(), self.counter as u64);
        }
        if !hears {
            return;
        }
        let state = &mut self.workers[worker];
        (state.claimed, state.token) = (None, None);
        if let Begun::Leased(lease) = begun {
            let begun = self.counter as u64;
            let progress = Progress::to(unit.start());
            state.held = Some(Held { unit, token, lease, progress, begun });
        }
    }

    /// Fetches by topic id and handles some records; what retention took is skipped.
    pub(super) fn handle(&mut self, worker: usize, records: i64) {
        let Some(held) = &mut self.workers[worker].held else { return };
        let index = held.unit.partition() as usize;
        let log = &self.logs[index];
        if log.topic_id != held.lease.topic_id {
            return;
        }
        let progress = &mut held.progress;
        if progress.position < log.start {
            let end = log.start.min(held.unit.end());
            if progress.position < end {
                let why = SkipReason::Retention;
                progress.skips.push(Skip { start: progress.position, end, why });
                progress.position = end;
            }
        }
        let end = (progress.position + records).min(held.unit.end()).min(log.end);
        for offset in progress.position..end {
            self.handled.insert((index, held.lease.topic_id, offset));
        }
        progress.position = progress.position.max(end);
    }

    /// Whether the queue may accept what this holder says: nobody began an overlapping unit after it.
    fn may_be_accepted(&self, held: &Held) -> bool {
        !self.begins.iter().any(|(unit, &at)| {
            at > held.begun
                && unit.topic_partition() == held.unit.topic_partition()
                && unit.start() < held.unit.end()
                && held.unit.start() < unit.end()
        })
    }

    pub(super) fn renew(&mut self, worker: usize) {
        let Some(held) = self.workers[worker].held.clone() else { return };
        let accepted = self.each(|queue| queue.renew(&held.unit, held.token, &held.progress));
        assert!(!accepted || self.may_be_accepted(&held), "a zombie's renewal was accepted");
        if !accepted {
            self.workers[worker].held = None;
        }
    }

    /// `hears`: or the answer is lost, and it is said again by the next finish.
    pub(super) fn finish(&mut self, worker: usize, how: Ending, hears: bool) {
        let Some(held) = self.workers[worker].held.clone() else { return };
        let name = self.workers[worker].name.clone();
        self.end(&name, &held, how);
        if hears {
            let state = &mut self.workers[worker];
            (state.held, state.next_token) = (None, None);
        }
    }

    /// The end of a unit and the begin of another in one step. `hears`: or the answer is lost, and it is said again
    /// by the next one.
    pub(super) fn finish_next(&mut self, worker: usize, how: Ending, hears: bool) {
        let Some(held) = self.workers[worker].held.clone() else { return };
        let foreign = self.logs[held.unit.partition() as usize].topic_id != held.lease.topic_id;
        let outcome = match how {
            Ending::Handled if !foreign => Outcome::Handled,
            Ending::Failed => Outcome::Failed { why: "on purpose".to_owned() },
            _ => return self.finish(worker, how, hears),
        };
        let name = self.workers[worker].name.clone();
        let token = match self.workers[worker].next_token {
            Some(token) => token,
            None => self.draw().parse().expect("a token"),
        };
        self.workers[worker].next_token = Some(token);
        let (finished, next) = self.each(|queue| {
            queue.finish_next(&held.unit, held.token, &name, &held.progress, &outcome, token)
        });
        let accepted = finished != Finished::Refused;
        assert!(!accepted || self.may_be_accepted(&held), "a zombie's finish was accepted");
        if let Some(next) = &next {
            self.counter += 1;
            self.begins.insert(next.unit.clone(), self.counter as u64);
        }
        if !hears {
            return;
        }
        let begun = self.counter as u64;
        let state = &mut self.workers[worker];
        state.next_token = None;
        state.held = next.map(|NextUnit { unit, lease }| {
            let progress = Progress::to(unit.start());
            Held { unit, token, lease, progress, begun }
        });
    }

    fn end(&mut self, name: &WorkerId, held: &Held, how: Ending) {
        let foreign = self.logs[held.unit.partition() as usize].topic_id != held.lease.topic_id;
        if foreign && how != Ending::Failed {
            let wait = Duration::from_secs(5);
            self.each(|queue| queue.give_back(&held.unit, held.token, wait));
            return;
        }
        let why = "on purpose".to_owned();
        let outcome = match how {
            Ending::Handled => Outcome::Handled,
            Ending::Failed => Outcome::Failed { why },
            Ending::DeadLettered => {
                self.store(&held.unit, held.lease.topic_id, held.progress.position);
                Outcome::DeadLettered { why }
            }
            Ending::GivenBack => {
                let accepted =
                    self.each(|queue| queue.give_back(&held.unit, held.token, Duration::ZERO));
                assert!(!accepted || self.may_be_accepted(held), "a zombie gave a unit back");
                return;
            }
        };
        let finished =
            self.each(|queue| queue.finish(&held.unit, held.token, name, &held.progress, &outcome));
        let accepted = finished != Finished::Refused;
        assert!(!accepted || self.may_be_accepted(held), "a zombie's finish was accepted");
    }

    pub(super) fn heartbeat(&mut self, worker: usize) {
        let name = self.workers[worker].name.clone();
        self.each(|queue| queue.heartbeat(&name));
    }

    /// The process stands still and is replaced; it may wake later.
    pub(super) fn crash(&mut self, worker: usize) {
        let fresh = self.new_worker(worker);
        let old = std::mem::replace(&mut self.workers[worker], fresh);
        self.zombies.push(old);
    }

    /// The oldest process that stood still wakes and says what it believes.
    pub(super) fn wake(&mut self, how: Ending) {
        if self.zombies.is_empty() {
            return;
        }
        let zombie = self.zombies.remove(0);
        if let Some(held) = &zombie.held {
            self.end(&zombie.name, held, how);
        } else {
            // Its parked pop is served although nobody listens any more.
            self.each(|queue| queue.claim(&zombie.name, Duration::ZERO));
        }
    }

    pub(super) fn unregister(&mut self, worker: usize) {
        let state = &self.workers[worker];
        let name = state.name.clone();
        self.each(|queue| queue.unregister(&name));
        self.crash(worker);
    }

    // ---- faults and time

    pub(super) fn advance(&mut self, seconds: u64) {
        for rig in &self.rigs {
            rig.advance(Duration::from_secs(seconds));
        }
    }

    pub(super) fn lose(&mut self, loss: &Loss) {
        for rig in &self.rigs {
            rig.lose(loss);
        }
        self.injured |= matches!(loss, Loss::Out(_) | Loss::Done(_) | Loss::Part(_));
        if *loss == Loss::Everything {
            self.injured = false;
        }
        self.skips_seen = self.snapshot().skipped.len();
    }

    /// The `n`th outstanding unit, the `n`th key of its kind.
    pub(super) fn any_unit(&self, n: usize) -> Option<UnitId> {
        let snapshot = self.snapshot();
        let units: Vec<_> = snapshot.partitions.iter().flat_map(|p| &p.units).collect();
        (!units.is_empty()).then(|| units[n % units.len()].unit.clone())
    }

    pub(super) fn worker_name(&self, worker: usize) -> WorkerId {
        self.workers[worker].name.clone()
    }

    /// A second copy of a hint.
    pub(super) fn double(&mut self, n: usize) {
        if let Some(unit) = self.any_unit(n) {
            for rig in &self.rigs {
                rig.push_hint(&unit.to_string());
            }
        }
    }

    pub(super) fn save(&mut self) {
        self.saved = Some(self.rigs.iter().map(|rig| rig.save()).collect());
    }

    /// The store goes back to where it was when it was saved. Who began since then is forgotten there, so those
    /// who began before may be accepted again.
    pub(super) fn go_back(&mut self) {
        let Some(saved) = self.saved.take() else { return };
        for restore in saved {
            restore();
        }
        self.begins.clear();
        self.injured = true;
        self.skips_seen = self.snapshot().skipped.len();
    }

    // ---- what must hold

    fn snapshot(&self) -> Snapshot {
        self.each(|queue| queue.snapshot(EVERYTHING))
    }

    /// The invariant, after a step.
    pub(super) fn check(&mut self) {
        let snapshot = self.snapshot();
        let news = snapshot.skipped.len() - self.skips_seen;
        self.skips_seen = snapshot.skipped.len();
        for entry in
            snapshot.skipped.iter().take(news).filter(|e| e.why != SkipReason::TopicRecreated)
        {
            let range: UnitId = entry.range.parse().expect("spelled as a unit is");
            let index = range.partition() as usize;
            let of = range.topic_partition();
            let Some(part) = snapshot.partitions.iter().find(|p| p.partition == *of) else {
                continue;
            };
            for offset in range.start()..range.end() {
                let key = (index, part.state.topic_id, offset);
                assert!(
                    entry.why != SkipReason::DeadLetter || self.stored.contains(&key),
                    "{entry:?} is recorded and was not stored"
                );
                self.skipped.insert(key);
            }
        }
        for part in &snapshot.partitions {
            let index = part.partition.partition() as usize;
            let (low, planned) = (part.state.low, part.state.planned);
            let done = part.done.iter().copied().chain([(0, low)]);
            for offset in done.flat_map(|(start, end)| start..end) {
                let key = (index, part.state.topic_id, offset);
                assert!(
                    self.handled.contains(&key) || self.skipped.contains(&key),
                    "{}/{offset} counts as done, and nobody handled it or recorded why not",
                    part.partition
                );
            }
            if self.injured {
                continue;
            }
            let units = part.units.iter().map(|unit| (unit.unit.start(), unit.unit.end()));
            let tiles: BTreeMap<i64, i64> = units.chain(part.done.iter().copied()).collect();
            assert_eq!(tiles.len(), part.units.len() + part.done.len(), "{part:?}");
            let mut at = low;
            for (start, end) in tiles {
                assert_eq!(start, at, "not tiled: {part:?}");
                at = end;
            }
            assert_eq!(at, planned, "not tiled: {part:?}");
        }
    }

    /// After the faults: whatever happened, everything is handled in a bounded number of rounds.
    pub(super) fn drain(&mut self) {
        self.saved = None;
        self.zombies.clear();
        for round in 0..60 {
            self.advance(100);
            self.elect(0);
            self.audit(0);
            self.reap(0);
            self.promote(0);
            self.dead(0, true);
            self.check();
            for index in 0..PARTITIONS {
                self.prepare(0, index);
                self.send_plan(0);
                self.commit(0, index);
            }
            self.check();
            for worker in 0..WORKERS {
                for _ in 0..20 {
                    self.claim(worker, true);
                    self.begin(worker, true);
                    self.handle(worker, 1_000);
                    if round % 2 == 0 {
                        self.finish_next(worker, Ending::Handled, true);
                    } else {
                        self.finish(worker, Ending::Handled, true);
                    }
                    self.check();
                }
            }
            self.check();
            if round > 2 && self.is_drained() {
                return;
            }
        }
        panic!("not drained: {:#?}", self.snapshot());
    }

    fn is_drained(&self) -> bool {
        let snapshot = self.snapshot();
        self.logs.iter().enumerate().all(|(index, log)| {
            let committed = CommittedOffset { offset: log.end, topic_id: Some(log.topic_id) };
            let part = snapshot.partitions.iter().find(|p| p.partition == partition(index));
            part.is_some_and(|p| p.state.low == log.end && p.state.planned == log.end)
                && log.committed == Some(committed)
        })
    }
}

/// How a worker ends a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Handled,
    Failed,
    DeadLettered,
    GivenBack,
}
