//! Faults: what a real broker cannot be told to do.
//!
//! A [`Fault`] says which requests it strikes (an API, a broker, a topic, a client), how often, and what
//! becomes of them. [`Cluster::fault`] puts it in force and gives a
//! [`FaultHandle`], which counts the strikes. A request is struck by one fault at most: the oldest in
//! force that names it, so that two faults of one request each are met by two requests in order.
//!
//! The choice is made once, when a request is first run; it is pure and happens under the lock of the
//! state. What is done to the answer's bytes ([`Damage`]) is done after the lock.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::cluster::Cluster;
use super::server::Shared;
use crate::clock::Deadline;
use crate::protocol::{ApiKey, Bytes, ErrorCode};

/// More faults than that at a time are more than a test can mean; the oldest goes.
const FAULTS_MAX: usize = 10_000;
/// Bytes of an answer that are never changed by [`Fault::corrupt`]: its size and its correlation id.
const ENVELOPE_BYTES: usize = 8;
/// Where a batch of records says how many bytes follow.
const BATCH_SIZE: Range<usize> = 8..12;
/// One byte in that many is changed by [`Fault::corrupt`], and at least one.
const CORRUPT_ONE_IN: usize = 64;
/// What [`Fault::wrong_correlation_id`] adds: further than any client's requests in flight.
const CORRELATION_OFF_BY: i32 = 1_000_000;

/// Requests, and what becomes of them. One that says nothing more than which requests lets them be
/// served as ever and only counts them.
///
/// ```
/// use std::time::Duration;
/// use ottla::broker::{Cluster, Fault};
/// use ottla::protocol::{ApiKey, ErrorCode};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let kafka = Cluster::builder().brokers(2).topic("t", 1).start()?;
/// let moved = Fault::on(ApiKey::PRODUCE).broker(2).topic("t").times(3);
/// let struck = kafka.fault(moved.answer(ErrorCode::NOT_LEADER_OR_FOLLOWER));
/// kafka.fault(Fault::on(ApiKey::METADATA).delay(Duration::from_millis(5)));
/// assert_eq!(struck.count(), 0);
/// kafka.clear_faults();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Fault {
    api: Option<ApiKey>,
    broker: Option<i32>,
    topic: Option<String>,
    client_id: Option<String>,
    skip: u64,
    times: u64,
    delay: Duration,
    action: Action,
}

/// What becomes of a request that was struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It is served as ever.
    Serve,
    /// It is not served; the answer gives this error for everything in it.
    Answer(ErrorCode),
    /// It is not served; the connection ends.
    DropBefore,
    /// It is served; its answer suffers.
    Damage(Damage),
    /// It is served; the answer says that the client shall wait, or comes late where the version leaves
    /// the waiting to the broker (KIP-219).
    Throttle(Duration),
    /// It is served; the records in its answer suffer.
    Spoil(Spoiled),
}

/// What is done to the records of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spoiled {
    /// One byte of the first batch is changed, behind its head, so that its checksum is wrong.
    Corrupt,
    /// These bytes stand in their place.
    Replaced(Bytes),
}

/// What is done to the answer of a request that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// It is not sent, and the connection ends.
    Drop,
    /// That many of its bytes are sent, and the connection ends.
    Truncate(usize),
    /// Bytes are changed, chosen by this seed.
    Corrupt(u64),
    /// It bears the id of another request.
    WrongCorrelationId,
}

impl Fault {
    /// Strikes requests of `api`, all of them until more is said.
    pub fn on(api: ApiKey) -> Self {
        Self { api: Some(api), ..Self::any() }
    }

    /// Strikes requests of every API, `ApiVersions` and `SaslHandshake` included.
    pub fn any() -> Self {
        Self {
            api: None,
            broker: None,
            topic: None,
            client_id: None,
            skip: 0,
            times: u64::MAX,
            delay: Duration::ZERO,
            action: Action::Serve,
        }
    }

    /// Only those that this broker gets.
    pub fn broker(mut self, broker: i32) -> Self {
        self.broker = Some(broker);
        self
    }

    /// Only those that name this topic, alone or among others. A topic that is named by its id counts, as
    /// long as it exists.
    pub fn topic(mut self, topic: &str) -> Self {
        self.topic = Some(topic.to_owned());
        self
    }

    /// Only those of clients with this client id.
    pub fn client_id(mut self, client_id: &str) -> Self {
        self.client_id = Some(client_id.to_owned());
        self
    }

    /// Lets the first `count` of those requests pass; 0 unless set.
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Strikes `count` requests and no more; without a bound unless set.
    pub fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    /// Holds the request back for `time` before anything else; no other connection is held up. Ended by
    /// the stop of the broker and when the fault is taken back.
    pub fn delay(mut self, time: Duration) -> Self {
        self.delay = time;
        self
    }

    /// Answers with `error`, for every topic, partition or resource that the request names, without
    /// serving it. The connection ends where a request has no answer (Produce with acks 0), as Kafka's does.
    pub fn answer(mut self, error: ErrorCode) -> Self {
        self.action = Action::Answer(error);
        self
    }

    /// Ends the connection; the request is not served.
    pub fn drop_before(mut self) -> Self {
        self.action = Action::DropBefore;
        self
    }

    /// Serves the request and ends the connection in place of the answer.
    pub fn drop_after(mut self) -> Self {
        self.action = Action::Damage(Damage::Drop);
        self
    }

    /// Serves the request, sends the first `bytes` of the answer (its size, 4 bytes, counts), and ends the
    /// connection.
    pub fn truncate(mut self, bytes: usize) -> Self {
        self.action = Action::Damage(Damage::Truncate(bytes));
        self
    }

    /// Serves the request and changes bytes of the answer behind its correlation id: one in 64 and at
    /// least one. Which and how follows from `seed`.
    pub fn corrupt(mut self, seed: u64) -> Self {
        self.action = Action::Damage(Damage::Corrupt(seed));
        self
    }

    /// Serves the request and changes the last byte of the first batch of every partition in the answer, which the batch's
    /// checksum finds. Fetch alone has such answers; those without records stay whole.
    pub fn corrupt_records(mut self) -> Self {
        self.action = Action::Spoil(Spoiled::Corrupt);
        self
    }

    /// Serves the request and puts `bytes` in the place of the records of every partition in the answer that has some (Fetch).
    pub fn replace_records(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.action = Action::Spoil(Spoiled::Replaced(Bytes::from(bytes.into())));
        self
    }

    /// Serves the request and answers with a correlation id that the client never used.
    pub fn wrong_correlation_id(mut self) -> Self {
        self.action = Action::Damage(Damage::WrongCorrelationId);
        self
    }

    /// Serves the request as a broker whose quota is used up: the answer says that the client shall wait
    /// for `time`, and comes that late in the versions in which the broker does the waiting (KIP-219).
    /// A client that does not wait goes unpunished.
    pub fn throttle(mut self, time: Duration) -> Self {
        self.action = Action::Throttle(time);
        self
    }

    fn names(&self, request: &Asked<'_>) -> bool {
        self.api.is_none_or(|api| api == request.api)
            && self.broker.is_none_or(|broker| broker == request.broker)
            && self.client_id.as_deref().is_none_or(|id| Some(id) == request.client_id)
            && self.topic.as_ref().is_none_or(|topic| request.topics.contains(topic))
    }
}

impl Cluster {
    /// Puts a fault in force, until it has struck as often as it shall or is taken back.
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        let shared = &self.shared;
        shared.change(|state| state.faults.add(fault, shared))
    }

    /// Takes all faults back; requests that one of them delays go on at once.
    pub fn clear_faults(&self) {
        self.shared.change(|state| state.faults.clear());
    }
}

/// A fault in force. Dropping it changes nothing: the fault goes on.
#[derive(Clone, Debug)]
pub struct FaultHandle {
    rule: Arc<Rule>,
    shared: Arc<Shared>,
}

impl FaultHandle {
    /// How many requests it has struck.
    pub fn count(&self) -> u64 {
        self.rule.struck()
    }

    /// Takes the fault back; a request that it delays goes on at once.
    pub fn remove(&self) {
        self.shared.change(|state| {
            self.rule.removed.store(true, Ordering::SeqCst);
            state.faults.drop_removed();
        });
    }

    /// Waits until it has struck `count` requests in all, at most for `timeout`; tells whether it has.
    pub fn wait(&self, count: u64, timeout: Duration) -> bool {
        let deadline = Deadline::within(timeout).instant();
        let mut state = self.shared.state.lock();
        while self.rule.struck() < count {
            if self.shared.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        self.rule.struck() >= count
    }
}

/// A request, as far as faults tell requests apart.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) api: ApiKey,
    pub(super) broker: i32,
    pub(super) client_id: Option<&'a str>,
    pub(super) topics: Vec<String>,
}

/// What strikes a request.
#[derive(Clone, Debug)]
pub(super) struct Strike {
    pub(super) delay: Duration,
    pub(super) action: Action,
    rule: Arc<Rule>,
}

impl Strike {
    /// Whether the fault was taken back since.
    pub(super) fn is_over(&self) -> bool {
        self.rule.removed.load(Ordering::SeqCst)
    }
}

/// The faults in force, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: VecDeque<Arc<Rule>>,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    /// Requests that it names: those that it let pass and those that it struck.
    met: AtomicU64,
    removed: AtomicBool,
}

impl Rule {
    fn struck(&self) -> u64 {
        let met = self.met.load(Ordering::SeqCst);
        met.saturating_sub(self.fault.skip).min(self.fault.times)
    }
}

impl Faults {
    /// Puts `fault` in force.
    pub(super) fn add(&mut self, fault: Fault, shared: &Arc<Shared>) -> FaultHandle {
        let rule =
            Arc::new(Rule { fault, met: AtomicU64::new(0), removed: AtomicBool::new(false) });
        if self.rules.len() >= FAULTS_MAX {
            self.rules.pop_front();
        }
        self.rules.push_back(Arc::clone(&rule));
        FaultHandle { rule, shared: Arc::clone(shared) }
    }

    /// Takes all back.
    pub(super) fn clear(&mut self) {
        for rule in self.rules.drain(..) {
            rule.removed.store(true, Ordering::SeqCst);
        }
    }

    /// Whether there are none, so that nobody need ask for topics.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What strikes `request`, counted.
    pub(super) fn strike(&self, request: &Asked<'_>) -> Option<Strike> {
        for rule in &self.rules {
            if rule.struck() == rule.fault.times || !rule.fault.names(request) {
                continue;
            }
            if rule.met.fetch_add(1, Ordering::SeqCst) >= rule.fault.skip {
                let (delay, action) = (rule.fault.delay, rule.fault.action.clone());
                return Some(Strike { delay, action, rule: Arc::clone(rule) });
            }
        }
        None
    }

    fn drop_removed(&mut self) {
        self.rules.retain(|rule| !rule.removed.load(Ordering::SeqCst));
    }
}

impl Spoiled {
    /// Does it to the records of one partition.
    pub(super) fn inflict(&self, records: &mut Bytes) {
        if records.is_empty() {
            return;
        }
        match self {
            Self::Corrupt => {
                let mut bytes = records.to_vec();
                // Of either format: the base offset, the size of what follows it, and that.
                let size = bytes.get(BATCH_SIZE).and_then(|size| <[u8; 4]>::try_from(size).ok());
                let rest = size.and_then(|size| usize::try_from(i32::from_be_bytes(size)).ok());
                let end = rest.map_or(bytes.len(), |rest| bytes.len().min(BATCH_SIZE.end + rest));
                if let Some(last) = bytes.get_mut(end - 1) {
                    *last ^= 0xff;
                }
                *records = Bytes::from(bytes);
            }
            Self::Replaced(bytes) => records.clone_from(bytes),
        }
    }
}

impl Damage {
    /// Does it to an answer, size included; `false` when the connection ends behind what is left.
    pub(super) fn inflict(self, answer: &mut Vec<u8>) -> bool {
        match self {
            Self::Drop => answer.clear(),
            Self::Truncate(bytes) => answer.truncate(bytes),
            Self::Corrupt(seed) => corrupt(answer, seed),
            Self::WrongCorrelationId => misname(answer),
        }
        matches!(self, Self::Corrupt(_) | Self::WrongCorrelationId)
    }
}

fn corrupt(answer: &mut [u8], seed: u64) {
    let Some(body) = answer.get_mut(ENVELOPE_BYTES..) else { return };
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..body.len().div_ceil(CORRUPT_ONE_IN) {
        let place = random.usize(..body.len());
        if let Some(byte) = body.get_mut(place) {
            *byte ^= random.u8(1..);
        }
    }
}

fn misname(answer: &mut [u8]) {
    if let Some(id) = answer.get_mut(4..ENVELOPE_BYTES)
        && let Ok(bytes) = <[u8; 4]>::try_from(&*id)
    {
        let other = i32::from_be_bytes(bytes).wrapping_add(CORRELATION_OFF_BY);
        id.copy_from_slice(&other.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(api: ApiKey, topics: &[&str]) -> Asked<'static> {
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        Asked { api, broker: 1, client_id: Some("c"), topics }
    }

    fn in_force(faults: Vec<Fault>) -> Faults {
        let rule = |fault| {
            Arc::new(Rule { fault, met: AtomicU64::new(0), removed: AtomicBool::new(false) })
        };
        Faults { rules: faults.into_iter().map(rule).collect() }
    }

    fn action(faults: &Faults, request: &Asked<'_>) -> Option<Action> {
        faults.strike(request).map(|strike| strike.action)
    }

    #[test]
    fn the_oldest_fault_that_names_a_request_strikes_as_often_as_it_shall() {
        let first = Fault::on(ApiKey::PRODUCE).topic("t").skip(1).times(2);
        let faults = in_force(vec![first.drop_before(), Fault::any().drop_after()]);
        let (before, after) = (Action::DropBefore, Action::Damage(Damage::Drop));
        let produce = asked(ApiKey::PRODUCE, &["s", "t"]);
        let struck: Vec<Option<Action>> = (0..4).map(|_| action(&faults, &produce)).collect();
        assert_eq!(struck, [after.clone(), before.clone(), before, after.clone()].map(Some));
        assert_eq!(action(&faults, &asked(ApiKey::PRODUCE, &["s"])), Some(after));
        assert_eq!(faults.rules[0].struck(), 2);
        assert_eq!(faults.rules[1].struck(), 3);
    }

    #[test]
    fn a_fault_strikes_only_what_it_names() {
        let request = asked(ApiKey::FETCH, &["t"]);
        for other in [
            Fault::on(ApiKey::PRODUCE),
            Fault::on(ApiKey::FETCH).broker(2),
            Fault::on(ApiKey::FETCH).topic("s"),
            Fault::on(ApiKey::FETCH).client_id("d"),
            Fault::any().times(0),
        ] {
            assert_eq!(action(&in_force(vec![other.drop_before()]), &request), None);
        }
        let own = Fault::on(ApiKey::FETCH).broker(1).topic("t").client_id("c");
        assert_eq!(action(&in_force(vec![own]), &request), Some(Action::Serve));
    }

    #[test]
    fn damage_keeps_the_size_that_was_promised_unless_the_connection_ends() {
        let whole: Vec<u8> = (0..200).collect();
        let damaged = |damage: Damage| {
            let mut answer = whole.clone();
            (damage.inflict(&mut answer), answer)
        };
        assert_eq!(damaged(Damage::Drop), (false, Vec::new()));
        assert_eq!(damaged(Damage::Truncate(7)), (false, whole[..7].to_vec()));
        assert_eq!(damaged(Damage::Truncate(700)), (false, whole.clone()));
        let (goes_on, answer) = damaged(Damage::Corrupt(7));
        assert!(goes_on && answer[..8] == whole[..8] && answer[8..] != whole[8..]);
        assert_eq!(answer.len(), whole.len());
        assert_eq!(damaged(Damage::Corrupt(7)).1, answer, "by the seed alone");
        let (goes_on, answer) = damaged(Damage::WrongCorrelationId);
        assert!(goes_on && answer[4..8] != whole[4..8] && answer[8..] == whole[8..]);
        for damage in [Damage::Corrupt(1), Damage::WrongCorrelationId] {
            for length in 0..10 {
                damage.inflict(&mut whole[..length].to_vec());
            }
        }
    }
}
