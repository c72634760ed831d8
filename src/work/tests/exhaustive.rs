//! Every interleaving of a small group, by breadth-first search over the transitions that ship.
//!
//! Two workers, up to two organisers, one partition with two records, Kafka's place for the group's offset. Each
//! operation of the queue is one atomic step of [`Life`]; everything between two of them may be interleaved, and a few
//! faults may come at any point: a worker or an organiser is killed, an answer is lost (the caller does not know that
//! the step was made, and repeats it), every lease and lock runs out while its holder goes on unaware, the store comes
//! back empty, a handler fails. Somebody may steer at any point: redrive what failed, drop it, or
//! move the position. In every state that can be reached:
//!
//! - `[low, planned)` is tiled by outstanding units and done ranges;
//! - whatever is done was handled, or given up with its dead letter stored;
//! - Kafka's offset is behind no record that was not;
//! - and from there, without further faults, the queue drains: nothing outstanding, `low` and Kafka's offset at the end.
//!
//! What is left out: the clock. Time passes in jumps that end every lease and lock at once. A commit that is under way
//! lands, or never does, before the lock of its sender is over: that is what
//! [`Lock::commit_deadline`](crate::work::organiser) bounds. Each jump, kill and loss is counted in [`Faults`], which
//! keeps the search finite.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use crate::protocol::Uuid;
use crate::work::life::Life;
use crate::work::plan::{Decision, LogRange, Plan, PlanRules, plan};
use crate::work::queue::{
    Answer, AuditRound, Begun, Init, Outcome, PartitionState, Progress, QueueRules, Reposition,
};
use crate::work::unit::{LeaderId, LeaseToken, TopicPartition, UnitId, WorkerId};

/// Records of the partition.
const END: i64 = 2;
const TOPIC: Uuid = Uuid([7; 16]);
/// What a lease, a lock and a heartbeat last, and a jump of time.
const TIME_MS: i64 = 1000;
/// Rounds within which a queue without faults drains.
const DRAIN_ROUNDS: usize = 12;

/// What may still go wrong, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Faults {
    kills: u8,
    lost_answers: u8,
    jumps: u8,
    empty_stores: u8,
    failures: u8,
    /// No fault: somebody has everything that failed worked on again.
    redrives: u8,
    /// No fault: somebody drops everything that failed.
    drops: u8,
    /// No fault: somebody moves the position back to the start.
    resets: u8,
}

/// What is explored.
#[derive(Clone, Copy)]
struct Scope {
    organisers: usize,
    unit_size: i64,
    faults: Faults,
}

const NONE: Faults = Faults {
    kills: 0,
    lost_answers: 0,
    jumps: 0,
    empty_stores: 0,
    failures: 0,
    redrives: 0,
    drops: 0,
    resets: 0,
};
const ONE_OF_EACH: [Faults; 5] = [
    Faults { kills: 1, ..NONE },
    Faults { lost_answers: 1, ..NONE },
    Faults { jumps: 1, ..NONE },
    Faults { empty_stores: 1, ..NONE },
    Faults { failures: 1, ..NONE },
];

/// Failures enough for a dead unit, and what people do about it.
const STEERED: [Faults; 2] =
    [Faults { failures: 2, redrives: 1, ..NONE }, Faults { failures: 2, drops: 1, ..NONE }];
/// The position moves only while nobody lives, which takes a jump of time.
const MOVED: Faults = Faults { jumps: 1, resets: 1, ..NONE };

impl Faults {
    fn and(self, other: Self) -> Self {
        Self {
            kills: self.kills + other.kills,
            lost_answers: self.lost_answers + other.lost_answers,
            jumps: self.jumps + other.jumps,
            empty_stores: self.empty_stores + other.empty_stores,
            failures: self.failures + other.failures,
            redrives: self.redrives + other.redrives,
            drops: self.drops + other.drops,
            resets: self.resets + other.resets,
        }
    }
}

#[derive(Clone)]
struct World {
    life: Life,
    now: i64,
    /// The group's offset in Kafka.
    committed: Option<i64>,
    /// A commit that was sent and has not landed.
    in_flight: Option<i64>,
    organisers: Vec<Organiser>,
    workers: [Worker; 2],
    /// Records, as bits: those whose handler returned, those whose dead letter is stored.
    handled: u8,
    given_up: u8,
    faults: Faults,
}

/// What an organiser is about to do.
#[derive(Clone, Debug, PartialEq)]
enum Organiser {
    Candidate,
    Leader,
    Looked(Option<PartitionState>),
    Init(i64),
    Commit { low: i64, first: bool },
    Sent { low: i64, first: bool },
    Note(i64),
    Plan(Plan),
}

/// Where a worker is.
#[derive(Clone, Debug, PartialEq)]
struct Worker {
    /// How often it was started.
    life: u8,
    drawn: u8,
    at: At,
}

#[derive(Clone, Debug, PartialEq)]
enum At {
    Idle,
    Claimed { unit: UnitId, token: u8 },
    Running { unit: UnitId, token: u8, position: i64 },
}

fn partition() -> TopicPartition {
    TopicPartition::new("t", 0).expect("legal")
}

fn leader(number: usize) -> LeaderId {
    format!("{:032x}", number + 1).parse().expect("legal")
}

fn name(worker: usize, life: u8) -> WorkerId {
    format!("w{worker}-{life:016x}").parse().expect("legal")
}

/// A token that nobody else ever draws.
fn token(worker: usize, life: u8, drawn: u8) -> LeaseToken {
    format!("{:032x}", (worker << 16) | (usize::from(life) << 8) | usize::from(drawn))
        .parse()
        .expect("legal")
}

fn log() -> LogRange {
    LogRange { topic_id: TOPIC, start: 0, end: END, leader_epoch: 0 }
}

fn rules() -> QueueRules {
    let time = Duration::from_millis(TIME_MS as u64);
    QueueRules {
        lease: time,
        worker_timeout: time,
        leader_lock: time,
        max_attempts: 2,
        retry_backoff: Duration::ZERO,
        retry_backoff_max: Duration::ZERO,
    }
}

fn bits(start: i64, end: i64) -> u8 {
    (start..end).fold(0, |bits, offset| bits | 1 << offset)
}

impl World {
    fn new(scope: Scope) -> Self {
        let worker = Worker { life: 0, drawn: 0, at: At::Idle };
        Self {
            life: Life::new(rules()),
            now: TIME_MS,
            committed: None,
            in_flight: None,
            organisers: vec![Organiser::Candidate; scope.organisers],
            workers: [worker.clone(), worker],
            handled: 0,
            given_up: 0,
            faults: scope.faults,
        }
    }

    /// What two worlds have in common when no step can ever tell them apart.
    fn key(&self) -> String {
        let holder = |held: LeaseToken| {
            let is_his = |&index: &usize| match &self.workers[index] {
                Worker { life, at: At::Claimed { token: own, .. }, .. }
                | Worker { life, at: At::Running { token: own, .. }, .. } => {
                    token(index, *life, *own) == held
                }
                Worker { at: At::Idle, .. } => false,
            };
            (0..self.workers.len()).find(is_his)
        };
        let workers = self.workers.each_ref().map(|worker| match &worker.at {
            At::Idle => format!("{}", worker.life),
            At::Claimed { unit, .. } => format!("{} {unit}?", worker.life),
            At::Running { unit, position, .. } => format!("{} {unit}@{position}", worker.life),
        });
        format!(
            "{} {:?} {:?} {:?} {workers:?} {} {} {:?}",
            self.life.fingerprint(self.now, holder),
            self.committed,
            self.in_flight,
            self.organisers,
            self.handled,
            self.given_up,
            self.faults
        )
    }

    fn check(&self) {
        assert!(self.life.is_tiled(&partition()), "tiled");
        let settled = self.handled | self.given_up;
        for (start, end) in self.life.settled(&partition()) {
            assert_eq!(bits(start, end) & !settled, 0, "{start}..{end} is done, but nobody did it");
        }
        let committed = bits(0, self.committed.unwrap_or(0));
        assert_eq!(committed & !settled, 0, "Kafka's offset passed what nobody did");
    }
}

impl World {
    /// Every world that is one step away.
    fn steps(&self, scope: Scope) -> Vec<(String, Self)> {
        let mut next = Vec::new();
        for organiser in 0..self.organisers.len() {
            self.organise(organiser, scope, &mut next);
        }
        for worker in 0..self.workers.len() {
            self.work(worker, &mut next);
        }
        if let Some(low) = self.in_flight {
            self.step("the commit lands", &mut next, |w| {
                w.committed = Some(low);
                w.in_flight = None;
            });
        } else if self.faults.jumps > 0 {
            self.step("time passes", &mut next, |w| {
                w.faults.jumps -= 1;
                w.pass_time();
            });
        }
        if self.faults.empty_stores > 0 {
            self.step("the store comes back empty", &mut next, |w| {
                w.faults.empty_stores -= 1;
                w.life = Life::new(rules());
            });
        }
        let (now, of) = (self.now, partition());
        if self.faults.redrives > 0 {
            self.step("somebody redrives", &mut next, |w| {
                w.faults.redrives -= 1;
                w.life.redrive(&of, usize::MAX, now);
            });
        }
        if self.faults.drops > 0 {
            self.step("somebody drops what failed", &mut next, |w| {
                w.faults.drops -= 1;
                let dead = w.life.dead_ranges(&of);
                w.given_up |= dead.into_iter().fold(0, |all, (start, end)| all | bits(start, end));
                w.life.drop_failed(&of, usize::MAX, now);
            });
        }
        let tool = leader(self.organisers.len() + 1);
        if self.faults.resets > 0 && self.life.clone().elect(tool, now) {
            self.step("somebody moves the position back", &mut next, |w| {
                w.faults.resets -= 1;
                assert!(w.life.elect(tool, now), "the lock is free");
                let to = Reposition { partition: of.clone(), topic_id: TOPIC, to: 0 };
                w.life.reposition(tool, &to, now);
                w.life.resign(tool);
            });
        }
        next
    }

    fn step(&self, what: &str, next: &mut Vec<(String, Self)>, change: impl FnOnce(&mut Self)) {
        let mut world = self.clone();
        change(&mut world);
        next.push((what.to_owned(), world));
    }

    /// Every lease, lock and heartbeat is over. Who was about to ask the queue goes on unaware; a commit is not sent
    /// after its lock.
    fn pass_time(&mut self) {
        self.now += TIME_MS;
        for organiser in &mut self.organisers {
            if matches!(organiser, Organiser::Commit { .. } | Organiser::Sent { .. }) {
                *organiser = Organiser::Candidate;
            }
        }
    }

    fn organise(&self, number: usize, scope: Scope, next: &mut Vec<(String, Self)>) {
        let me = leader(number);
        let now = self.now;
        let state = &self.organisers[number];
        let mut to = |what: &str, change: &dyn Fn(&mut Self) -> Option<Organiser>| {
            self.step(&format!("organiser {number} {what}"), next, |w| {
                w.organisers[number] = change(w).unwrap_or(Organiser::Candidate);
            });
        };
        if self.faults.kills > 0 && *state != Organiser::Candidate {
            to("is killed", &|w| {
                w.faults.kills -= 1;
                None
            });
        }
        match state {
            Organiser::Candidate => {
                to("asks for the lock", &|w| w.life.elect(me, now).then_some(Organiser::Leader));
            }
            Organiser::Leader => {
                to("looks", &|w| {
                    let looked = w.life.partitions(me, &[partition()], now).done()?;
                    Some(Organiser::Looked(looked[0]))
                });
                for (which, mending) in MENDINGS.iter().enumerate() {
                    to(mending, &|w| w.mend(which, me).then_some(Organiser::Leader));
                }
            }
            Organiser::Looked(None) => {
                to("reads Kafka's offset", &|w| Some(Organiser::Init(w.committed.unwrap_or(0))));
            }
            Organiser::Looked(Some(held)) => {
                let first = !held.committed;
                to("reads Kafka's offset", &|w| {
                    // Read back, so that nothing is sent that is there already.
                    let differs = first || w.committed != Some(held.low);
                    let commit = Organiser::Commit { low: held.low, first };
                    Some(if differs { commit } else { Organiser::Leader })
                });
                let rules = PlanRules { unit_size: scope.unit_size, ..PlanRules::default() };
                if let Ok(Decision::Plan(made)) = plan(rules, &partition(), held, log()) {
                    to("plans", &|_| Some(Organiser::Plan(made.clone())));
                }
            }
            Organiser::Init(first) => to("takes the partition up", &|w| {
                let init =
                    Init { partition: partition(), topic_id: TOPIC, first: *first, log_start: 0 };
                asked(&w.life.init(me, &init, now))
            }),
            Organiser::Commit { low, first } => {
                // A lock that is over by the local clock sends nothing; and one commit at a time.
                if self.in_flight.is_none() {
                    to("sends a commit", &|w| {
                        w.in_flight = Some(*low);
                        Some(Organiser::Sent { low: *low, first: *first })
                    });
                }
            }
            Organiser::Sent { low, first } => {
                if self.in_flight.is_none() {
                    to("is told that it landed", &|_| {
                        Some(if *first { Organiser::Note(*low) } else { Organiser::Leader })
                    });
                }
            }
            Organiser::Note(low) => to("notes the first commit", &|w| {
                asked(&w.life.note_committed(me, &partition(), *low, now))
            }),
            Organiser::Plan(made) => {
                to("queues units", &|w| asked(&w.life.plan(me, made, now)));
            }
        }
    }

    /// One of [`MENDINGS`]; `false` without the lock.
    fn mend(&mut self, which: usize, me: LeaderId) -> bool {
        const ALL: usize = 9;
        let now = self.now;
        match which {
            0 => self.life.reap_leases(me, ALL, now).done().is_some(),
            1 => self.life.reap_workers(me, ALL, now).done().is_some(),
            2 => self.life.promote(me, ALL, now).done().is_some(),
            3 => self.life.audit(me, &mut AuditRound::new(), now).done().is_some(),
            _ => {
                let Some(dead) = self.life.dead(me, ALL, now).done() else { return false };
                dead.into_iter().all(|dead| {
                    // The sink is called before the queue forgets.
                    self.given_up |= bits(dead.unit.start(), dead.unit.end());
                    asked(&self.life.bury(me, &dead, now)).is_some()
                })
            }
        }
    }

    fn work(&self, number: usize, next: &mut Vec<(String, Self)>) {
        let calls: &[Call] = match &self.workers[number].at {
            At::Idle => &[Call::Claim],
            At::Claimed { .. } => &[Call::Begin],
            At::Running { unit, position, .. } if *position == unit.end() => {
                &[Call::Renew, Call::Finish, Call::FinishNext]
            }
            At::Running { unit, position, .. } if *position > unit.start() => {
                &[Call::Handle, Call::Renew, Call::Fail]
            }
            At::Running { .. } => &[Call::Handle, Call::Fail],
        };
        for call in calls {
            if *call == Call::Fail && self.faults.failures == 0 {
                continue;
            }
            self.step(&format!("worker {number}: {call:?}"), next, |w| {
                let at = w.call(number, *call);
                let worker = &mut w.workers[number];
                worker.drawn += u8::from(worker.at != at);
                worker.at = at;
            });
            // The step is made, and its caller does not know: it will be made again.
            if self.faults.lost_answers > 0 && *call != Call::Handle {
                self.step(&format!("worker {number}: {call:?}, unaware"), next, |w| {
                    w.faults.lost_answers -= 1;
                    w.call(number, *call);
                });
            }
        }
        if self.faults.kills > 0 && self.workers[number].at != At::Idle {
            self.step(&format!("worker {number} is killed"), next, |w| {
                w.faults.kills -= 1;
                let life = w.workers[number].life + 1;
                w.workers[number] = Worker { life, drawn: 0, at: At::Idle };
            });
        }
    }

    /// Makes a worker's call; gives where its answer leads.
    fn call(&mut self, number: usize, call: Call) -> At {
        let Worker { life, drawn, at } = self.workers[number].clone();
        let (me, now) = (name(number, life), self.now);
        let (unit, own, position) = match at {
            At::Idle => {
                let claimed = self.life.claim(&me, now);
                return claimed.map_or(At::Idle, |unit| At::Claimed { unit, token: drawn });
            }
            At::Claimed { unit, token: own } => {
                let begun = self.life.begin(&unit, token(number, life, own), &me, now);
                let is_mine = matches!(begun, Begun::Leased(_));
                let position = unit.start();
                return if is_mine { At::Running { unit, token: own, position } } else { At::Idle };
            }
            At::Running { unit, token: own, position } => (unit, own, position),
        };
        let held = token(number, life, own);
        let progress = Progress::to(position);
        match call {
            Call::Handle => {
                self.handled |= bits(position, position + 1);
                At::Running { unit, token: own, position: position + 1 }
            }
            Call::Renew if self.life.renew(&unit, held, &progress, now) => {
                At::Running { unit, token: own, position }
            }
            Call::Renew => At::Idle,
            Call::Fail => {
                self.faults.failures = self.faults.failures.saturating_sub(1);
                let outcome = Outcome::Failed { why: "on purpose".to_owned() };
                self.life.finish(&unit, held, &me, &progress, &outcome, now);
                At::Idle
            }
            Call::Finish | Call::FinishNext => {
                self.life.finish(&unit, held, &me, &progress, &Outcome::Handled, now);
                let next = (call == Call::FinishNext)
                    .then(|| self.life.next(token(number, life, drawn), &me, now))
                    .flatten();
                next.map_or(At::Idle, |begun| {
                    let position = begun.unit.start();
                    At::Running { unit: begun.unit, token: drawn, position }
                })
            }
            Call::Claim | Call::Begin => unreachable!("made above"),
        }
    }

    /// Goes on without faults: a new organiser and a new worker do what is to be done, and nothing is left.
    fn check_drains(mut self, scope: Scope) {
        let (me, worker) = (leader(self.organisers.len()), name(self.workers.len(), 0));
        let rules = PlanRules { unit_size: scope.unit_size, ..PlanRules::default() };
        self.committed = self.in_flight.take().or(self.committed);
        for round in 0..DRAIN_ROUNDS {
            self.pass_time();
            let now = self.now;
            assert!(self.life.elect(me, now), "every lock is over");
            (0..MENDINGS.len()).for_each(|which| assert!(self.mend(which, me)));
            let first = self.committed.unwrap_or(0);
            let init = Init { partition: partition(), topic_id: TOPIC, first, log_start: 0 };
            // Stale when it is there already.
            self.life.init(me, &init, now);
            self.commit_low(me);
            let looked = self.life.partitions(me, &[partition()], now).done().expect("it leads");
            let held = looked[0].expect("it is taken up");
            if let Ok(Decision::Plan(made)) = plan(rules, &partition(), &held, log()) {
                assert!(self.life.plan(me, &made, now).done().is_some(), "nobody came between");
            }
            for drawn in 0..u8::MAX {
                let Some(unit) = self.life.claim(&worker, now) else { break };
                let held = token(self.workers.len(), round as u8, drawn);
                let Begun::Leased(_) = self.life.begin(&unit, held, &worker, now) else { continue };
                self.handled |= bits(unit.start(), unit.end());
                let progress = Progress::to(unit.end());
                self.life.finish(&unit, held, &worker, &progress, &Outcome::Handled, now);
            }
            self.commit_low(me);
            self.check();
            if self.committed == Some(END) && self.life.is_empty_of_units() {
                return;
            }
        }
        panic!("it does not drain");
    }

    fn commit_low(&mut self, me: LeaderId) {
        let looked = self.life.partitions(me, &[partition()], self.now).done().expect("it leads");
        let low = looked[0].expect("it is taken up").low;
        self.committed = Some(low);
        self.life.note_committed(me, &partition(), low, self.now);
    }
}

/// What a worker asks of the queue, or does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Claim,
    Begin,
    Handle,
    Renew,
    Finish,
    FinishNext,
    Fail,
}

/// What an organiser does beside planning.
const MENDINGS: [&str; 5] =
    ["reaps leases", "reaps workers", "puts back what waited", "audits", "stores dead letters"];

/// Back to the lead after an answer; `None` when there is none.
fn asked<T>(answer: &Answer<T>) -> Option<Organiser> {
    (!matches!(answer, Answer::NotLeader)).then_some(Organiser::Leader)
}

/// Explores everything in `scope`; gives how many states there are.
///
/// # Panics
/// In a state that breaks the invariant, with the steps that lead there.
fn explore(scope: Scope) -> usize {
    let first = World::new(scope);
    let mut seen = HashSet::from([first.key()]);
    // The way to each state that was found: the state before it, and the step.
    let mut ways: Vec<(usize, String)> = vec![(0, "the beginning".to_owned())];
    let mut open = VecDeque::from([(0, first)]);
    while let Some((from, world)) = open.pop_front() {
        for (step, next) in world.steps(scope) {
            if !seen.insert(next.key()) {
                continue;
            }
            ways.push((from, step));
            let at = ways.len() - 1;
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                next.check();
                next.clone().check_drains(scope);
            }));
            let way = || way_to(at, &ways);
            assert!(checked.is_ok(), "after these steps: {:#?}\n{}", way(), next.key());
            open.push_back((at, next));
        }
    }
    ways.len()
}

/// The steps that lead to a state, from the first on.
fn way_to(mut at: usize, ways: &[(usize, String)]) -> Vec<&str> {
    let mut steps = Vec::new();
    while at != 0 {
        let (before, step) = &ways[at];
        steps.push(step.as_str());
        at = *before;
    }
    steps.reverse();
    steps
}

#[test]
fn no_interleaving_without_faults_breaks_anything() {
    for (organisers, unit_size) in [(1, 1), (2, 2)] {
        tell(Scope { organisers, unit_size, faults: NONE });
    }
}

/// Each fault once, at any point. With `OTTLA_EXHAUSTIVE=1` any two faults at any two points (a kill and a jump of time alone are
/// 242,031 states), and each of them among two organisers and two units: minutes, in a release build.
#[test]
fn no_interleaving_with_faults_breaks_anything() {
    let all = std::env::var_os("OTTLA_EXHAUSTIVE").is_some();
    let mut scopes = [&ONE_OF_EACH[..], &STEERED].concat();
    if all {
        scopes.clear();
        scopes.push(MOVED);
        for steered in STEERED {
            scopes.extend(ONE_OF_EACH.iter().map(|other| steered.and(*other)));
        }
        for (place, one) in ONE_OF_EACH.iter().enumerate() {
            scopes.extend(ONE_OF_EACH.iter().take(place + 1).map(|other| one.and(*other)));
        }
    }
    for faults in scopes {
        tell(Scope { organisers: 1, unit_size: 2, faults });
    }
    for faults in ONE_OF_EACH.iter().filter(|_| all) {
        tell(Scope { organisers: 2, unit_size: 1, faults: *faults });
    }
}

fn tell(scope: Scope) {
    let Scope { organisers, unit_size, faults } = scope;
    println!(
        "{organisers} organisers, units of {unit_size}, {faults:?}: {} states",
        explore(scope)
    );
}
