//! The work queue: the trait, and every rule that an implementation keeps.
//!
//! The rules were found by exploring a model of two workers, two organisers, a store and Kafka's offset
//! store under crashes, lost answers, paused processes, expired leases, a lost organiser's lock, an
//! emptied or rolled-back store, retention, and a topic made anew. Change one only with such a
//! model at hand: the natural reading of a queue fails in twenty ways.
//!
//! **The principle.** The outstanding set (*out*), the units' own state and the partitions' state are
//! the truth. The lists that units are popped from are hints: an id in them may be missing, stale or doubled.
//! [`WorkQueue::begin`] decides.
//!
//! **The invariant.** Per partition, `[low, planned)` is tiled exactly by outstanding units and done ranges.
//! Everything below `low` was handled, or is recorded as skipped with the reason.
//!
//! **Atomic.** Each operation is one step on the queue's own clock: all of it happens, or nothing. When
//! an operation gives an error it may have happened all the same; every operation can be repeated.
//!
//! **Who calls what.** Workers: `heartbeat`, `claim`, `begin`, `renew`, `finish`, `finish_next`, `give_back`,
//! `unregister`. The organiser that holds the lock: everything that takes a [`LeaderId`]. Tools: `snapshot`,
//! `redrive`, `drop_failed`.
//!
//! **Dead letters.** A unit that failed [`QueueRules::max_attempts`] times without progress must leave a trace
//! outside the queue before the low watermark passes it, since a queue that is lost is rebuilt from Kafka's
//! committed offset, and what lies below that is never looked at again. Two ways lead there:
//!
//! 1. The worker. [`Lease::is_last`] tells it that this attempt is the last. If it stores the dead letter
//!    itself (it has the records at hand), it finishes with [`Outcome::DeadLettered`]: done at once.
//! 2. The organiser. A unit that reaches the limit otherwise (the worker did not store it, or died: a
//!    record that kills the process) becomes *dead*: still outstanding, so `low` stays below it, but never
//!    given to a worker again. [`WorkQueue::dead`] hands it to the organiser, which stores the dead letter and
//!    then says so with [`WorkQueue::bury`]: only now it is done. If either of the two steps is lost it
//!    comes back after [`QueueRules::retry_backoff_max`]: a dead letter may be stored twice, never not at all.
//!    A sink that is down holds `low` and, by the planner's bound on outstanding units, stops planning.
//!
//! This adds a state to the modelled rules, in which a unit at its limit was settled at once. It keeps their
//! shape: for the invariant a dead unit is a delayed one whose turn is the organiser's.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::Uuid;
use crate::work::plan::Plan;
use crate::work::snapshot::{Snapshot, SnapshotLimits};
use crate::work::unit::{LeaderId, LeaseToken, TopicPartition, UnitId, WorkerId};

/// Longest time that one [`WorkQueue::claim`] blocks: a worker looks at its own stop this often.
pub const CLAIM_WAIT_MAX: Duration = Duration::from_secs(1);
/// Entries that the log of finished units keeps, give or take a hundred.
pub const COMPLETE_LOG_MAX: usize = 1_000;
/// Entries that the log of dead-lettered units and unreadable entries keeps.
pub const ERROR_LOG_MAX: usize = 10_000;
/// Entries that the log of skipped ranges keeps; totals per partition are kept for ever.
pub const SKIPPED_LOG_MAX: usize = 10_000;
/// Entries that are no unit and that one claim clears away at most.
pub(crate) const UNREADABLE_PER_CLAIM_MAX: usize = 100;
/// Bytes of an error's text that the queue keeps.
pub const ERROR_TEXT_BYTES_MAX: usize = 1_024;

/// The numbers that every process of a group shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRules {
    /// How long a begun unit belongs to its worker without a renewal. Defaults to 30 s.
    pub lease: Duration,
    /// How long a worker is taken for alive after its last heartbeat. Defaults to 30 s.
    pub worker_timeout: Duration,
    /// How long the organiser's lock lasts without renewal. Defaults to 15 s.
    pub leader_lock: Duration,
    /// Attempts without progress before a unit is dead. At least 1 is used. Defaults to 5.
    pub max_attempts: u32,
    /// Wait before the second attempt; it doubles with each further one. Defaults to 1 s.
    pub retry_backoff: Duration,
    /// Longest wait between attempts, also of storing a dead letter. Defaults to 60 s.
    pub retry_backoff_max: Duration,
}

impl Default for QueueRules {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            worker_timeout: Duration::from_secs(30),
            leader_lock: Duration::from_secs(15),
            max_attempts: 5,
            retry_backoff: Duration::from_secs(1),
            retry_backoff_max: Duration::from_secs(60),
        }
    }
}

/// What an organiser's operation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// It was done.
    Done(T),
    /// Another process holds the lock, or none does: nothing was done. Drop what is pending, elect anew.
    NotLeader,
    /// What the operation was made from has changed: nothing was done. Read again.
    Stale,
}

impl<T> Answer<T> {
    /// What was done, if it was.
    pub fn done(self) -> Option<T> {
        match self {
            Self::Done(value) => Some(value),
            Self::NotLeader | Self::Stale => None,
        }
    }

    /// The same answer about another value.
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Self::Done(value) => Answer::Done(f(value)),
            Self::NotLeader => Answer::NotLeader,
            Self::Stale => Answer::Stale,
        }
    }
}

/// What the queue holds of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// The id of the topic; zero where brokers know none.
    pub topic_id: Uuid,
    /// Units were made up to here.
    pub planned: i64,
    /// Everything below is handled: what is committed to Kafka.
    pub low: i64,
    /// Whether Kafka holds the first offset, see [`WorkQueue::note_committed`].
    pub committed: bool,
    /// The leader's epoch of the last plan, or -1.
    pub leader_epoch: i32,
    /// Units outstanding.
    pub outstanding: usize,
}

/// A partition that the queue is to take up, see [`WorkQueue::init`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// The partition.
    pub partition: TopicPartition,
    /// The topic's id.
    pub topic_id: Uuid,
    /// The offset to start at, see [`first_offset`](crate::work::plan::first_offset).
    pub first: i64,
    /// The log's first offset.
    pub log_start: i64,
}

/// A partition whose topic was made anew, see [`WorkQueue::reset`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The partition.
    pub partition: TopicPartition,
    /// The id that the queue holds.
    pub old_topic_id: Uuid,
    /// The id of the topic that is there now.
    pub new_topic_id: Uuid,
    /// The new log's first offset.
    pub log_start: i64,
}

/// A partition whose position is to be moved, see [`WorkQueue::reposition`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reposition {
    /// The partition.
    pub partition: TopicPartition,
    /// The topic's id.
    pub topic_id: Uuid,
    /// The offset at which the group is to go on.
    pub to: i64,
}

/// What [`WorkQueue::reposition`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repositioned {
    /// The partition is there.
    Moved(PartitionState),
    /// Nothing was done, since so many workers gave a sign of life within [`QueueRules::worker_timeout`].
    WorkersLive(usize),
}

/// What [`WorkQueue::begin`] answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The unit is the caller's.
    Leased(Lease),
    /// It is not outstanding: a stale hint. Claim the next one.
    Gone,
    /// Another worker has it, or it waits for a retry. Claim the next one.
    Taken,
}

/// A worker's right to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Whether a failure without progress makes the unit dead.
    pub is_last: bool,
    /// The topic's id when the unit was planned: the id to fetch by, or to compare.
    pub topic_id: Uuid,
}

/// A unit that was begun in one step with the end of another, see [`WorkQueue::finish_next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextUnit {
    /// The unit.
    pub unit: UnitId,
    /// The right to it.
    pub lease: Lease,
}

/// How far a unit was handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The next position to fetch from: everything before it in the unit was handled or skipped.
    /// It only grows: a position before one that was reported earlier changes nothing.
    pub position: i64,
    /// Ranges before `position` that were not handled.
    pub skips: Vec<Skip>,
}

impl Progress {
    /// Everything before `position` was handled.
    pub fn to(position: i64) -> Self {
        Self { position, skips: Vec::new() }
    }
}

/// Offsets that nobody handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// First offset.
    pub start: i64,
    /// End, exclusive.
    pub end: i64,
    /// Why.
    pub why: SkipReason,
}

/// Why offsets were skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SkipReason {
    /// The log does not have them any more.
    Retention,
    /// They failed too often; a dead letter was stored.
    DeadLetter,
    /// The topic was deleted and made anew before they were handled.
    TopicRecreated,
    /// Somebody dropped them, see [`WorkQueue::drop_failed`].
    Dropped,
    /// Somebody moved the group's position past them, see [`WorkQueue::reposition`].
    Reset,
}

impl SkipReason {
    /// Its name in the queue.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::DeadLetter => "dead-letter",
            Self::TopicRecreated => "topic-recreated",
            Self::Dropped => "dropped",
            Self::Reset => "reset",
        }
    }

    /// The reason of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let reasons =
            [Self::Retention, Self::DeadLetter, Self::TopicRecreated, Self::Dropped, Self::Reset];
        reasons.into_iter().find(|reason| reason.name() == name)
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the handling of a unit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well, as far as the position says. What remains is a new unit at once. No progress at all
    /// counts as a failure, so that it cannot go on for ever.
    Handled,
    /// The record at the position failed. What remains waits for the back-off.
    Failed {
        /// The failure, for people.
        why: String,
    },
    /// What remains was given up and its dead letter is stored outside the queue.
    DeadLettered {
        /// The failure, for people.
        why: String,
    },
}

/// What [`WorkQueue::finish`] answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It counts, and this is what became of the unit.
    Settled(Settled),
    /// The lease was lost, or this finish was counted before and its answer was lost: nothing was changed. What
    /// the caller did may be done again by another.
    Refused,
}

/// What became of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// All of it is done.
    Complete,
    /// What remains is this unit, with its attempts counted from zero.
    Remainder(UnitId),
    /// It waits for another attempt.
    Delayed,
    /// It waits for its dead letter to be stored.
    Dead,
}

/// A unit whose lease was over, see [`WorkQueue::reap_leases`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The unit.
    pub unit: UnitId,
    /// The worker that lost it.
    pub owner: String,
    /// What became of it.
    pub settled: Settled,
}

/// A unit whose dead letter is to be stored, see [`WorkQueue::dead`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadUnit {
    /// The unit. Its text is the key by which a sink recognises a repetition.
    pub unit: UnitId,
    /// The topic's id.
    pub topic_id: Uuid,
    /// How often it was tried.
    pub attempts: u32,
    /// The worker of the last attempt.
    pub owner: String,
    /// The last failure, for people.
    pub error: String,
}

/// What a call that steers did, see [`WorkQueue::redrive`] and [`WorkQueue::drop_failed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steered {
    /// Units, those of the list of errors included.
    pub units: usize,
    /// Offsets of them.
    pub records: i64,
}

impl Steered {
    /// Adds what another call did.
    pub fn add(&mut self, other: Self) {
        self.units += other.units;
        self.records += other.records;
    }
}

/// One round of [`WorkQueue::audit`] over the whole queue, done in bounded slices. Start with
/// [`AuditRound::new`] and pass it until [`AuditRound::is_complete`].
#[derive(Debug, Default)]
pub struct AuditRound {
    pub(crate) phase: AuditPhase,
    pub(crate) began_ms: i64,
    /// Ids that a list held when the round read it.
    pub(crate) seen: HashSet<String>,
    pub(crate) workers: Vec<String>,
    pub(crate) partitions: Vec<TopicPartition>,
}

/// How far a round got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AuditPhase {
    #[default]
    Begin,
    /// Reads `work` from this index on.
    Work {
        index: usize,
    },
    /// Reads the list of this one of the registered workers.
    Workers {
        index: usize,
    },
    /// Looks at this partition's units from this start on.
    Units {
        index: usize,
        start: i64,
    },
    /// Looks for lists of unregistered workers, with a scan's cursor.
    Lists {
        cursor: u64,
    },
    Complete,
}

impl AuditRound {
    /// A round that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether everything was looked at.
    pub fn is_complete(&self) -> bool {
        self.phase == AuditPhase::Complete
    }
}

/// What one slice of an audit mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audited {
    /// Units that no list held and that were pushed again.
    pub requeued: usize,
    /// Units or index entries that were missing and were made anew.
    pub restored: usize,
    /// Lists of workers that nobody registered, now empty.
    pub lists_reaped: usize,
    /// Partitions that were not tiled any more and were dropped: take them up from Kafka's offset.
    pub dropped: Vec<TopicPartition>,
}

impl Audited {
    /// Adds what another slice mended.
    pub fn add(&mut self, other: Self) {
        self.requeued += other.requeued;
        self.restored += other.restored;
        self.lists_reaped += other.lists_reaped;
        self.dropped.extend(other.dropped);
    }
}

/// The work queue of one group. All methods may be called from any thread at the same time.
///
/// # Errors
/// Every method fails with kind `Queue` when the store cannot be reached or refuses (it is
/// loading, read-only, out of memory): repeat it later. With `InvalidInput` when an argument cannot be
/// stored.
#[expect(clippy::missing_errors_doc, reason = "they are the same for every method")]
pub trait WorkQueue: Send + Sync + fmt::Debug {
    /// The numbers it works with.
    fn rules(&self) -> &QueueRules;

    // ---- the organiser's lock

    /// Takes the lock if it is free, renews it if it is the caller's; tells whether it is the caller's now. It lasts
    /// [`QueueRules::leader_lock`] from this moment on the queue's clock.
    fn elect(&self, me: LeaderId) -> Result<bool>;

    /// Gives the lock up, if it is the caller's.
    fn resign(&self, me: LeaderId) -> Result<()>;

    // ---- the organiser: partitions

    /// What the queue holds of each of `of`; `None` for one that it does not hold: [`init`](Self::init) it.
    fn partitions(
        &self,
        me: LeaderId,
        of: &[TopicPartition],
    ) -> Result<Answer<Vec<Option<PartitionState>>>>;

    /// Takes up a partition that the queue does not hold: both `low` and `planned` become the later of `first` and
    /// `log_start`; `[first, log_start)` is recorded as skipped; left-over units and ranges are dropped. Nothing
    /// is planned before the first offset is in Kafka: commit `low`, then [`note_committed`](Self::note_committed).
    /// `Stale` if the queue holds the partition.
    fn init(&self, me: LeaderId, init: &Init) -> Result<Answer<PartitionState>>;

    /// Notes that `low` was committed to Kafka for the first time. `Stale` if `low` is another by now.
    ///
    /// Why it gates planning: with `auto.offset.reset` at the latest offset, a queue that is lost before the first
    /// commit would start anew at a later offset and skip what lies between.
    fn note_committed(
        &self,
        me: LeaderId,
        partition: &TopicPartition,
        low: i64,
    ) -> Result<Answer<()>>;

    /// Adds the plan's units. What retention took is done, and recorded as skipped. `Stale` if the partition's planned
    /// offset or topic id is not the plan's, or the first offset is not in Kafka.
    fn plan(&self, me: LeaderId, plan: &Plan) -> Result<Answer<PartitionState>>;

    /// Starts a partition over because its topic was made anew: its units and ranges are dropped, what was not
    /// handled is recorded, `low` and `planned` become the new log's start. `Stale` if it is not of `old_topic_id`.
    fn reset(&self, me: LeaderId, reset: &Reset) -> Result<Answer<PartitionState>>;

    // ---- the organiser: mending

    /// Queues at most `limit` units whose retry is due; tells how many.
    fn promote(&self, me: LeaderId, limit: usize) -> Result<Answer<usize>>;

    /// Settles at most `limit` units whose lease is over, as failed at the last renewed position and under the same
    /// attempt limit: a record that kills its process does not come back for ever.
    fn reap_leases(&self, me: LeaderId, limit: usize) -> Result<Answer<Vec<Reaped>>>;

    /// Empties the lists of at most `limit` workers whose heartbeat is over: what is queued there can be claimed by
    /// others. Begun units are left to their lease.
    fn reap_workers(&self, me: LeaderId, limit: usize) -> Result<Answer<Vec<WorkerId>>>;

    /// Looks at one slice of about `limit` entries and mends what faults of the store left:
    ///
    /// - a queued unit that no list holds is pushed again,
    /// - an outstanding unit without state is queued anew; one without its place in an index of times gets it back,
    /// - a list of a worker that is not registered is emptied as [`reap_workers`](Self::reap_workers) does,
    /// - a partition that is not tiled any more is dropped, so that it is taken up from Kafka's offset again.
    fn audit(&self, me: LeaderId, round: &mut AuditRound, limit: usize) -> Result<Answer<Audited>>;

    /// At most `limit` dead units whose dead letter is to be stored now. Each that is not buried comes
    /// again after [`QueueRules::retry_backoff_max`].
    fn dead(&self, me: LeaderId, limit: usize) -> Result<Answer<Vec<DeadUnit>>>;

    /// Notes that the unit's dead letter is stored outside the queue: it is done, recorded as skipped and logged.
    /// `Stale` if it is not dead any more or its topic was made anew.
    fn bury(&self, me: LeaderId, dead: &DeadUnit) -> Result<Answer<()>>;

    // ---- workers

    /// Registers the worker, or says that it is alive.
    fn heartbeat(&self, worker: &WorkerId) -> Result<()>;

    /// Ends a worker: what its list holds unbegun can be claimed by others. A [`claim`](Self::claim) of it must have ended before.
    fn unregister(&self, worker: &WorkerId) -> Result<()>;

    /// The next id to [`begin`](Self::begin): the one in the worker's own list if a former answer was lost, else the oldest of
    /// the queue. `None` if there was none in time.
    ///
    /// Blocks at most `wait` or [`CLAIM_WAIT_MAX`], whichever is shorter; a store that does not answer is given
    /// up a bounded time later. A worker has one claim or unit at a time.
    fn claim(&self, worker: &WorkerId, wait: Duration) -> Result<Option<UnitId>>;

    /// Begins a claimed unit. Draw `token` before the first try and repeat the call with it until there is an answer: the
    /// same token gets the same answer and uses up no further attempt. Also a heartbeat.
    fn begin(&self, unit: &UnitId, token: LeaseToken, worker: &WorkerId) -> Result<Begun>;

    /// Extends the lease and stores the progress; `false` if the lease was lost. A later crash costs only what lies
    /// after the position.
    fn renew(&self, unit: &UnitId, token: LeaseToken, progress: &Progress) -> Result<bool>;

    /// Ends a lease and settles the unit, in one step.
    ///
    /// - `[start, position)` is done.
    /// - Progress, but not to the end: what remains is a new unit with no attempts; delayed after a failure.
    /// - No progress: delayed by the back-off, or dead at the attempt limit.
    fn finish(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        progress: &Progress,
        outcome: &Outcome,
    ) -> Result<Finished>;

    /// [`finish`](Self::finish), and then [`claim`](Self::claim) without waiting and [`begin`](Self::begin) under `next_token`,
    /// all in one step: one round trip a unit while there are units. No next unit: claim one, which waits, and which
    /// clears away what this left in the own list because it was not queued.
    ///
    /// Draw `next_token` before the first try, as for `begin`: repeated because its answer was lost, the call finds
    /// the unit that it began under that token, and pops no other. (The finish is then refused: it was counted.)
    ///
    /// Unlike `begin` it is no heartbeat.
    fn finish_next(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        progress: &Progress,
        outcome: &Outcome,
        next_token: LeaseToken,
    ) -> Result<(Finished, Option<NextUnit>)>;

    /// Ends a lease without an attempt being counted, for a reason that is not the unit's: the worker stops, or
    /// the topic's id is another. It can be begun again after `delay`. `false` if the lease was lost.
    /// Renewed progress is kept.
    fn give_back(&self, unit: &UnitId, token: LeaseToken, delay: Duration) -> Result<bool>;

    // ---- tools

    /// Moves the group's position in a partition, forwards or backwards, while nobody works: its units and done ranges
    /// are dropped, so that who still holds one is refused; `low` and `planned` become `to`; what lies before `to` from
    /// `low` on and is not done is recorded as skipped. Nothing is planned before `to` is in Kafka, as after
    /// [`init`](Self::init): Kafka's offset and the queue cannot come apart. `Stale` if the queue does not hold
    /// the partition, or it is of another topic id.
    ///
    /// The caller holds the organiser's lock, so that no organiser works.
    fn reposition(&self, me: LeaderId, to: &Reposition) -> Result<Answer<Repositioned>>;

    /// Puts at most `limit` failed units of a partition back to be worked on, with their attempts counted from zero: first
    /// those that are dead, then those that the list of errors names, the oldest first. Fewer than `limit`: there are no more.
    ///
    /// A unit of the list of errors is done, so its range is taken out of what is done, and `low`, with it the
    /// group's offset in Kafka, goes back to it if it lies below: it is as safe as any other unit again. It
    /// leaves the list. An entry stays and nothing happens if its topic was made anew since, or if not all of its range
    /// is done (it is planned again anyway).
    ///
    /// Needs no lock and may be called while everybody works. Who still holds an old lease of such a unit is refused. A
    /// dead unit whose letter is just being stored may be handled and have a letter.
    fn redrive(&self, of: &TopicPartition, limit: usize) -> Result<Steered>;

    /// Gives at most `limit` failed units of a partition up for good. A dead unit is done without a dead letter, recorded
    /// as skipped, so that `low` may pass it; an entry of the list of errors, which is done already, leaves the list and
    /// cannot be redriven any more. Fewer than `limit`: there are no more.
    ///
    /// Needs no lock and may be called while everybody works.
    fn drop_failed(&self, of: &TopicPartition, limit: usize) -> Result<Steered>;

    /// What the queue holds, for people and tools. Not one moment: each partition is consistent in itself.
    fn snapshot(&self, limits: SnapshotLimits) -> Result<Snapshot>;
}

/// Longest name of a group.
const GROUP_BYTES_MAX: usize = 249;

/// A group's name is part of key names in Redis, where braces have a meaning.
pub(crate) fn check_group(group: &str) -> Result<()> {
    let legal = |letter: char| !letter.is_control() && !matches!(letter, '{' | '}');
    if group.is_empty() || group.len() > GROUP_BYTES_MAX || !group.chars().all(legal) {
        let message = format!(
            "the group's name must have 1 to {GROUP_BYTES_MAX} bytes, without braces and control \
             characters"
        );
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

impl QueueRules {
    /// The wait after failed attempt number `attempt`, counted from 1.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(30);
        self.retry_backoff.saturating_mul(1 << doublings).min(self.retry_backoff_max)
    }

    /// Attempts before a unit is dead.
    pub(crate) fn attempt_limit(&self) -> u32 {
        self.max_attempts.max(1)
    }
}

/// An error's text as the queue stores it: one line of bounded length.
pub(crate) fn stored_text(text: &str) -> String {
    let mut line = String::new();
    for letter in text.chars() {
        let letter = if letter.is_control() { ' ' } else { letter };
        if line.len() + letter.len_utf8() > ERROR_TEXT_BYTES_MAX {
            break;
        }
        line.push(letter);
    }
    line
}

impl From<crate::work::unit::InvalidId> for Error {
    fn from(error: crate::work::unit::InvalidId) -> Self {
        Self::new(ErrorKind::InvalidInput, "the work queue refused a name or range")
            .with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_doubles_up_to_its_limit() {
        let rules = QueueRules::default();
        let seconds: Vec<u64> = (0..9).map(|n| rules.backoff(n).as_secs()).collect();
        assert_eq!(seconds, [1, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(rules.backoff(u32::MAX).as_secs(), 60);
    }

    #[test]
    fn an_error_is_stored_as_one_short_line() {
        assert_eq!(stored_text("a\tb\nc"), "a b c");
        assert_eq!(stored_text(&"ä".repeat(2_000)).len(), ERROR_TEXT_BYTES_MAX);
    }
}
