//! A partition against a model of a broker that knows Kafka's rules for sequences, under random
//! interleavings of sends, writes, answers, lost answers, broken connections, refusals and time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::accumulator::{Appended, Partition};
use super::backlog::{IdentityState, Limits, Look, Taker};
use super::batch::Batch;
use super::memory::Memory;
use super::queue::ReadyQueue;
use super::record::{Plain, Record};
use super::sequence::{Identity, Stamp, Verdict};
use super::ticket::{BatchOutcome, BatchResult, Ticket, Unfinished};
use crate::clock;
use crate::error::{Error, ErrorKind};
use crate::protocol::{ErrorCode, Uuid};

const IN_FLIGHT: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
enum Step {
    Append,
    Advance(u64),
    Urge,
    Write,
    /// The broker works on the oldest request it has not worked on, in this mood.
    Deliver(Mood),
    /// The client reads the oldest answer.
    Answer,
    /// The connection breaks; the broker still works on so many of its requests.
    Break(usize),
}

#[derive(Clone, Copy, Debug)]
enum Mood {
    Fine,
    NotLeader,
    Refuse,
    StoredButTimedOut,
}

#[derive(Clone, Copy, Debug)]
enum Reply {
    Stored(i64),
    Code(ErrorCode),
}

struct OnWire {
    batch: Batch,
    stamp: Stamp,
    records: Vec<u32>,
    reply: Option<Reply>,
}

/// What a broker remembers of one producer and partition.
#[derive(Default)]
struct Broker {
    log: Vec<u32>,
    last: Option<(Identity, i32)>,
    recent: VecDeque<(Stamp, usize, i64)>,
}

impl Broker {
    fn work(&mut self, stamp: Stamp, records: &[u32], mood: Mood) -> Reply {
        match mood {
            Mood::NotLeader => return Reply::Code(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            Mood::Refuse => return Reply::Code(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
            Mood::Fine | Mood::StoredButTimedOut => {}
        }
        let known = self.recent.iter().find(|(s, count, _)| *s == stamp && *count == records.len());
        if let Some((_, _, base)) = known {
            return Reply::Stored(*base);
        }
        let expected = match self.last {
            Some((identity, last)) if identity == stamp.identity => last + 1,
            Some((identity, _)) => {
                assert!(identity.epoch < stamp.identity.epoch, "an old epoch on the wire");
                0
            }
            None => stamp.first,
        };
        if stamp.first != expected {
            return Reply::Code(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        }
        let base = self.log.len() as i64;
        self.log.extend(records);
        self.last = Some((stamp.identity, stamp.first + records.len() as i32 - 1));
        self.recent.push_back((stamp, records.len(), base));
        if self.recent.len() > IN_FLIGHT {
            self.recent.pop_front();
        }
        match mood {
            Mood::StoredButTimedOut => Reply::Code(ErrorCode::REQUEST_TIMED_OUT),
            _ => Reply::Stored(base),
        }
    }
}

struct Model {
    now: Instant,
    queue: Arc<ReadyQueue>,
    partition: Arc<Partition>,
    memory: Memory,
    unfinished: Unfinished,
    identity: Identity,
    connection: u64,
    request: u64,
    wire: VecDeque<OnWire>,
    broker: Broker,
    tickets: Vec<Ticket>,
    content: HashMap<usize, Vec<u32>>,
    resolved: usize,
}

impl Model {
    fn new() -> Self {
        let limits = Limits {
            batch_size: 400,
            batch_max: 800,
            linger: Duration::from_millis(20),
            plain: true,
            delivery_timeout: TIMEOUT,
        };
        let queue = Arc::new(ReadyQueue::new(1));
        let partition = Partition::new(Arc::from("t"), Uuid::ZERO, 0, limits, Arc::clone(&queue));
        Self {
            now: clock::now(),
            queue,
            partition,
            memory: Memory::new(6000),
            unfinished: Unfinished::default(),
            identity: Identity { id: 1, epoch: 0, serial: 1 },
            connection: 1,
            request: 0,
            wire: VecDeque::new(),
            broker: Broker::default(),
            tickets: Vec::new(),
            content: HashMap::new(),
            resolved: 0,
        }
    }

    fn append(&mut self) {
        let value = [7; 60];
        let record = Record::to("t");
        let record = Plain::of(&record, None, Some(&value));
        let id = self.tickets.len() as u32;
        let mut grant = 0;
        let appended = self.partition.append(
            &record,
            1000,
            120,
            &mut None,
            &self.memory,
            &self.unfinished,
            &mut grant,
            || self.now,
        );
        match appended {
            Appended::Done { ticket, .. } => {
                let content = self.content.entry(Arc::as_ptr(&ticket.outcome) as usize);
                content.or_default().push(id);
                self.tickets.push(ticket);
            }
            Appended::NoMemory(bytes) => {
                assert!(self.memory.used() + bytes > self.memory.limit());
            }
            Appended::Retired(error) => panic!("{error}"),
        }
    }

    fn taker(&self, request: u64, identity: Identity) -> Taker<'_> {
        Taker {
            queue: &self.queue,
            connection: self.connection,
            request,
            identity: IdentityState::Known(identity),
            hurry: false,
        }
    }

    fn end(&mut self, batch: &Batch, result: BatchResult) {
        self.memory.release(batch.reserved);
        self.resolve(&batch.outcome, result);
    }

    fn resolve(&mut self, outcome: &Arc<BatchOutcome>, result: BatchResult) {
        if outcome.is_resolved() {
            return;
        }
        assert!(outcome.resolve(result));
        self.unfinished.finish(outcome);
        self.resolved += 1;
    }

    fn late() -> BatchResult {
        BatchResult::Failed(Error::new(ErrorKind::Timeout, "late"))
    }

    fn write(&mut self) {
        if self.wire.len() >= IN_FLIGHT {
            return;
        }
        self.request += 1;
        // What the writer read at the start of its round stays in use after an epoch changed.
        let identity = self.identity;
        let mut expired = Vec::new();
        let mut look =
            self.partition.look(&self.taker(self.request, identity), self.now, &mut expired);
        if let Look::NeedsEpoch(old) = look {
            assert!(self.wire.is_empty(), "an epoch changes with nothing on the wire");
            assert_eq!(old.epoch, self.identity.epoch);
            self.identity.epoch += 1;
            self.identity.serial += 1;
            self.partition.restart(old, self.identity);
            look = self.partition.look(&self.taker(self.request, identity), self.now, &mut expired);
        }
        for batch in expired {
            self.end(&batch, Self::late());
        }
        if let Look::Ready { .. } = look {
            let taker = self.taker(self.request, identity);
            let (batch, stamp) =
                self.partition.take(&taker, self.now, usize::MAX).expect("look found it");
            assert!(self.partition.take(&taker, self.now, usize::MAX).is_none(), "one a request");
            let records = self.content[&(Arc::as_ptr(&batch.outcome) as usize)].clone();
            assert_eq!(records.len(), batch.records as usize);
            let stamp = stamp.expect("idempotent");
            self.wire.push_back(OnWire { batch, stamp, records, reply: None });
        }
    }

    fn deliver(&mut self, mood: Mood) {
        if let Some(on_wire) = self.wire.iter_mut().find(|on_wire| on_wire.reply.is_none()) {
            on_wire.reply = Some(self.broker.work(on_wire.stamp, &on_wire.records, mood));
        }
    }

    fn answer(&mut self) {
        if self.wire.front().is_none_or(|on_wire| on_wire.reply.is_none()) {
            return;
        }
        let OnWire { mut batch, reply, .. } = self.wire.pop_front().expect("it is there");
        match reply.expect("it was answered") {
            Reply::Stored(base) => {
                let last = base + i64::from(batch.records) - 1;
                self.partition.acked(batch.number, Some(last));
                let stored = BatchResult::Stored { base_offset: Some(base), append_time_ms: None };
                self.end(&batch, stored);
            }
            Reply::Code(code @ ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER) => {
                let verdict = self.partition.verdict(batch.number, code, -1);
                assert_eq!(verdict, Verdict::Retry);
                self.give_back(batch);
            }
            Reply::Code(ErrorCode::TOPIC_AUTHORIZATION_FAILED) => {
                self.partition.failed(&batch, true);
                let error = Error::from_code(ErrorCode::TOPIC_AUTHORIZATION_FAILED, None);
                self.end(&batch, BatchResult::Failed(error));
            }
            Reply::Code(code) => {
                batch.maybe_stored |= code == ErrorCode::REQUEST_TIMED_OUT;
                self.give_back(batch);
            }
        }
    }

    fn give_back(&mut self, mut batch: Batch) {
        if batch.outcome.is_resolved() {
            batch.maybe_stored = true;
            self.partition.failed(&batch, false);
            self.end(&batch, Self::late());
            return;
        }
        let pause = |failures: u32| Duration::from_millis(u64::from(failures.min(10)) * 10);
        assert!(self.partition.returned(batch, self.now, pause).is_none());
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append => self.append(),
            Step::Urge => self.partition.urge(),
            Step::Write => self.write(),
            Step::Deliver(mood) => self.deliver(mood),
            Step::Answer => self.answer(),
            Step::Advance(ms) => {
                self.now += Duration::from_millis(ms);
                let late: Vec<_> = self
                    .wire
                    .iter()
                    .filter(|on_wire| on_wire.batch.opened + TIMEOUT <= self.now)
                    .map(|on_wire| Arc::clone(&on_wire.batch.outcome))
                    .collect();
                for outcome in late {
                    self.resolve(&outcome, Self::late());
                }
            }
            Step::Break(still) => {
                for _ in 0..still {
                    self.deliver(Mood::Fine);
                }
                self.connection += 1;
                for mut on_wire in std::mem::take(&mut self.wire) {
                    on_wire.batch.maybe_stored = true;
                    self.give_back(on_wire.batch);
                }
            }
        }
        assert!(self.memory.used() <= self.memory.limit());
    }

    fn run_dry(&mut self) {
        /// Enough rounds for every batch to be sent or to run out of time.
        const ROUNDS_MAX: usize = 2000;
        for _ in 0..ROUNDS_MAX {
            if !self.partition.is_busy() {
                return;
            }
            self.step(Step::Advance(15));
            self.write();
            self.deliver(Mood::Fine);
            self.answer();
        }
        panic!("batches are stuck: {:?}", self.partition);
    }

    /// Log order is send order without a duplicate; tickets tell the truth; memory is free.
    fn check(&self) {
        assert!(self.broker.log.is_sorted_by(|a, b| a < b), "{:?}", self.broker.log);
        assert_eq!(self.memory.used(), 0);
        assert!(self.unfinished.all().is_empty());
        assert_eq!(self.resolved, self.content.len());
        for (id, ticket) in self.tickets.iter().enumerate() {
            match ticket.try_get().expect("each ticket is resolved") {
                Ok(stored) => {
                    let offset = stored.offset.expect("the broker told the offset");
                    assert_eq!(self.broker.log[offset as usize], id as u32);
                }
                Err(error) => assert!(
                    error.kind() == ErrorKind::Timeout
                        || !self.broker.log.contains(&(id as u32))
                        || error.broker_code().is_some(),
                    "record {id}: {error}"
                ),
            }
        }
    }
}

fn steps(with_failures: bool) -> impl Strategy<Value = Vec<Step>> {
    let mood = if with_failures {
        prop_oneof![
            6 => Just(Mood::Fine),
            2 => Just(Mood::NotLeader),
            1 => Just(Mood::Refuse),
            1 => Just(Mood::StoredButTimedOut),
        ]
        .boxed()
    } else {
        prop_oneof![6 => Just(Mood::Fine), 2 => Just(Mood::NotLeader)].boxed()
    };
    let step = prop_oneof![
        12 => Just(Step::Append),
        3 => (0_u64..if with_failures { 400 } else { 20 }).prop_map(Step::Advance),
        1 => Just(Step::Urge),
        6 => Just(Step::Write),
        6 => mood.prop_map(Step::Deliver),
        6 => Just(Step::Answer),
        1 => (0_usize..4).prop_map(Step::Break),
    ];
    proptest::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn order_is_kept_and_nothing_comes_twice_whatever_happens(steps in steps(true)) {
        let mut model = Model::new();
        for step in steps {
            model.step(step);
        }
        model.run_dry();
        model.check();
    }

    #[test]
    fn without_refusals_and_expiry_nothing_is_lost(steps in steps(false)) {
        let mut model = Model::new();
        for step in steps {
            model.step(step);
            if model.now > clock::now() + Duration::from_secs(1) {
                break;
            }
        }
        model.run_dry();
        model.check();
        prop_assert_eq!(model.broker.log.len(), model.tickets.len());
    }
}

/// Its capacity was not free but what the caller was told to wait for was: it came back with that
/// over and over, at full speed, until an answer of the broker freed more.
#[test]
fn a_pooled_buffer_that_is_too_large_does_not_stand_in_the_way() {
    let mut model = Model::new();
    model.memory.recycle(Vec::with_capacity(800));
    assert!(model.memory.try_reserve(6000 - 500));
    model.append();
    assert_eq!(model.tickets.len(), 1);
    assert_eq!(model.memory.used(), 6000 - 100);
}
