//! [`PositionReset`]: moves the group's position, in the queue and in Kafka.
//!
//! ```text
//!   lock ─▶ bounds, places ─▶ for each: queue.reposition ─▶ OffsetCommit ─▶ noted in the queue ─▶ read back
//! ```
//!
//! The lock keeps organisers away; workers that live are refused by the queue in the same step. A crash after the
//! queue's step leaves a partition whose first offset is not in Kafka, which the next organiser commits before it plans
//! anything: the two agree at every point, or will before anybody works.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::{At, list};
use crate::protocol::Uuid;
use crate::work::builder::{QueueSource, rules_of};
use crate::work::commit::Commit;
use crate::work::kafka::Kafka;
use crate::work::memory::MemoryQueue;
use crate::work::queue::{
    Answer, Init, PartitionState, Reposition, Repositioned, Reset, WorkQueue,
};
use crate::work::remote::RemoteKafka;
use crate::work::snapshot::{PartitionSnapshot, SnapshotLimits};
use crate::work::sources::check_topic;
use crate::work::unit::{LeaderId, TopicPartition};

/// Done ranges of one partition that are looked at to count what is skipped or repeated.
const RANGES_MAX: usize = 100_000;
/// A question to Kafka may take this part of the lock's time while the lock is held.
const QUESTION_PART: u32 = 3;

/// Where a position is moved to. What lies outside of a partition's log is the nearest end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResetTo {
    /// The first offset that is still in the log.
    Earliest,
    /// The end of the log: what is there already is not read.
    Latest,
    /// This offset.
    Offset(i64),
    /// The first record with this timestamp or a later one, in milliseconds since 1970; the end if there is none.
    Time(i64),
    /// As [`ResetTo::Time`], so long ago by this machine's clock.
    Back(Duration),
}

/// How a partition's position moves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PositionMove {
    /// The partition.
    pub partition: TopicPartition,
    /// The position: everything before it is handled. `None` if the group has none yet.
    pub from: Option<i64>,
    /// Where it moves to.
    pub to: i64,
    /// Offsets that were not handled and will not be.
    pub skipped: i64,
    /// Offsets that were handled and will be again.
    pub repeated: i64,
}

/// Moves a group's position in partitions, in its queue and in Kafka. Made by
/// [`Client::reset_positions`].
///
/// ```no_run
/// use std::time::Duration;
///
/// use ottla::Client;
/// use ottla::work::Redis;
/// use ottla::work::steer::ResetTo;
///
/// let client = Client::builder("localhost:9092").build()?;
/// let reset = client
///     .reset_positions("billing", ResetTo::Back(Duration::from_secs(3600)))
///     .queue(Redis::at("redis://localhost"))
///     .topics(["orders"]);
/// for moved in reset.preview()? {
///     println!("{} to {}, {} again", moved.partition, moved.to, moved.repeated);
/// }
/// reset.execute()?;
/// # Ok::<(), ottla::Error>(())
/// ```
#[derive(Debug)]
pub struct PositionReset {
    client: Client,
    group: String,
    to: ResetTo,
    topics: BTreeSet<String>,
    partitions: BTreeSet<i32>,
    source: Option<Box<dyn QueueSource>>,
}

impl Client {
    /// Begins to move the position of `group`, in the topics that are named then.
    pub fn reset_positions(&self, group: &str, to: ResetTo) -> PositionReset {
        PositionReset {
            client: self.clone(),
            group: group.to_owned(),
            to,
            topics: BTreeSet::new(),
            partitions: BTreeSet::new(),
            source: None,
        }
    }
}

/// What is known before anything is moved.
struct Found {
    topic_id: Uuid,
    log_start: i64,
    /// The topic's id that the queue holds, if it holds the partition.
    held_id: Option<Uuid>,
    moved: PositionMove,
}

impl PositionReset {
    /// Where the group's queue is. Left out: it is in the memory of processes, which cannot be seen from here. Stop
    /// them all before; they begin at the offset in Kafka then.
    #[must_use]
    pub fn queue(mut self, source: impl QueueSource + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// The topics; adds to those named before. Defaults to those that the queue holds.
    #[must_use]
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics.extend(topics.into_iter().map(Into::into));
        self
    }

    /// These partitions of the topics alone; adds to those named before. Defaults to all.
    #[must_use]
    pub fn partitions(mut self, partitions: impl IntoIterator<Item = i32>) -> Self {
        self.partitions.extend(partitions);
        self
    }

    /// What [`PositionReset::execute`] would do now. Changes nothing; others may work meanwhile.
    ///
    /// Blocks at most for a few times `default.api.timeout.ms`.
    ///
    /// # Errors
    /// What kept Kafka or the queue from answering; `UnknownTopic` for a topic or partition that is not there;
    /// `InvalidInput` when no topic is named and the queue holds none.
    pub fn preview(&self) -> Result<Vec<PositionMove>> {
        let queue = self.open()?;
        Ok(self.find(&*queue)?.into_iter().map(|found| found.moved).collect())
    }

    /// Moves the position in every partition, and gives what was done. Units of them that are under way are dropped: who
    /// holds one is refused. What is skipped is recorded in the queue.
    ///
    /// Blocks like [`PositionReset::preview`].
    ///
    /// # Errors
    /// As `preview`. `Queue` when an organiser or workers of the group live, or lived until within `organiser.lease.ms`
    /// and `worker.timeout.ms`: stop them first; then nothing is changed, unless they were started meanwhile: the
    /// message says how many partitions were moved. `Broker` when Kafka refused an offset (a consumer of another kind
    /// is a member of the group): those partitions are moved in the queue, and the next organiser commits their offsets
    /// before it plans them. To call it again is safe in every case.
    pub fn execute(&self) -> Result<Vec<PositionMove>> {
        let queue = self.open()?;
        let me = LeaderId::random();
        if !queue.elect(me)? {
            let message = format!(
                "group {}: an organiser holds the lock: stop every process of the group, or wait until \
                 the lock of one that died is over ({} s)",
                self.group,
                queue.rules().leader_lock.as_secs()
            );
            return Err(Error::new(ErrorKind::Queue, message));
        }
        let moved = self.execute_as(me, &*queue);
        // After an error of the queue the lock runs out by itself.
        let resigned = queue.resign(me);
        let moved = moved?;
        resigned?;
        Ok(moved)
    }

    fn open(&self) -> Result<Arc<dyn WorkQueue>> {
        let config = self.client.work_config();
        config.validate()?;
        self.topics.iter().try_for_each(|topic| check_topic(topic))?;
        let rules = rules_of(config);
        match &self.source {
            Some(source) => source.open(&self.group, &config.queue_prefix, rules),
            None => Ok(Arc::new(MemoryQueue::new(rules))),
        }
    }

    fn execute_as(&self, me: LeaderId, queue: &dyn WorkQueue) -> Result<Vec<PositionMove>> {
        let timeout = queue.rules().worker_timeout;
        let snapshot = queue.snapshot(SnapshotLimits { units: 0, entries: 0 })?;
        let live = snapshot.workers.iter().filter(|worker| worker.heartbeat_age < timeout).count();
        if live > 0 {
            return Err(self.workers_live(queue, live, 0));
        }
        let found = self.find(queue)?;
        let mut commits = Vec::new();
        for found in &found {
            let low = self.move_one(me, queue, found, commits.len())?;
            commits.push(Commit {
                partition: found.moved.partition.clone(),
                topic_id: found.topic_id,
                offset: low,
            });
        }
        self.commit(me, queue, &commits)?;
        Ok(found.into_iter().map(|found| found.moved).collect())
    }

    /// Moves the position in the queue, and gives where it is.
    fn move_one(
        &self,
        me: LeaderId,
        queue: &dyn WorkQueue,
        found: &Found,
        moved: usize,
    ) -> Result<i64> {
        let of = &found.moved.partition;
        let lost = |what| {
            let message = format!("group {}: {what}; {moved} partitions were moved", self.group);
            Error::new(ErrorKind::Queue, message).with_partition(of.topic(), of.partition())
        };
        if !queue.elect(me)? {
            return Err(lost("the organiser's lock was lost"));
        }
        let (topic_id, to) = (found.topic_id, found.moved.to);
        if let Some(old) = found.held_id.filter(|held| *held != topic_id) {
            let reset = Reset {
                partition: of.clone(),
                old_topic_id: old,
                new_topic_id: topic_id,
                log_start: found.log_start,
            };
            // Any answer but this shows in the next one.
            queue.reset(me, &reset)?;
        }
        let answer = if found.held_id.is_some() {
            let to = Reposition { partition: of.clone(), topic_id, to };
            match queue.reposition(me, &to)? {
                Answer::Done(Repositioned::Moved(state)) => Answer::Done(state),
                Answer::Done(Repositioned::WorkersLive(live)) => {
                    return Err(self.workers_live(queue, live, moved));
                }
                Answer::NotLeader => Answer::NotLeader,
                Answer::Stale => Answer::Stale,
            }
        } else {
            let log_start = found.log_start;
            queue.init(me, &Init { partition: of.clone(), topic_id, first: to, log_start })?
        };
        match answer {
            Answer::Done(state) => Ok(state.low),
            Answer::NotLeader => Err(lost("the organiser's lock was lost")),
            Answer::Stale => Err(lost("the topic was made anew, or the partition was taken up")),
        }
    }

    fn workers_live(&self, queue: &dyn WorkQueue, live: usize, moved: usize) -> Error {
        let message = format!(
            "group {}: {live} workers live: stop every process of the group, or wait until the heartbeat of those \
             that died is over ({} s); {moved} partitions were moved",
            self.group,
            queue.rules().worker_timeout.as_secs()
        );
        Error::new(ErrorKind::Queue, message)
    }

    /// Puts the positions into Kafka, notes that in the queue, and reads them back.
    fn commit(&self, me: LeaderId, queue: &dyn WorkQueue, commits: &[Commit]) -> Result<()> {
        if commits.is_empty() {
            return Ok(());
        }
        let kafka = self.kafka();
        let lock = queue.rules().leader_lock;
        let question = || {
            Deadline::within(
                (lock / QUESTION_PART).min(self.client.cluster().config().request_timeout),
            )
        };
        if !queue.elect(me)? {
            let message = "the organiser's lock was lost before Kafka's offsets were set: the next organiser sets them";
            return Err(Error::new(ErrorKind::Queue, message));
        }
        // Read first: it finds the coordinator, for which a commit is not repeated.
        let asked: Vec<_> = commits.iter().map(|commit| commit.partition.clone()).collect();
        drop(kafka.committed(&self.group, &asked, question())?);
        let mut stored = kafka.commit(&self.group, commits, question())?;
        for commit in commits {
            let of = &commit.partition;
            stored.remove(of).unwrap_or_else(|| Err(no_answer(of)))?;
            if queue.note_committed(me, of, commit.offset)? != Answer::Done(()) {
                let message = "the organiser's lock was lost before the offset in Kafka was noted";
                let error = Error::new(ErrorKind::Queue, message);
                return Err(error.with_partition(of.topic(), of.partition()));
            }
        }
        let mut held = kafka.committed(&self.group, &asked, question())?;
        for commit in commits {
            let of = &commit.partition;
            let held = held.remove(of).unwrap_or_else(|| Err(no_answer(of)))?;
            if held.map(|held| held.offset) != Some(commit.offset) {
                let message = format!(
                    "Kafka's offset was changed by another to {:?}: the next organiser sets it to {}",
                    held.map(|held| held.offset),
                    commit.offset
                );
                let error = Error::new(ErrorKind::Queue, message);
                return Err(error.with_partition(of.topic(), of.partition()));
            }
        }
        Ok(())
    }

    fn kafka(&self) -> RemoteKafka {
        let fetch = Arc::new(self.client.fetch_config().clone());
        RemoteKafka::new(Arc::clone(self.client.cluster()), fetch)
    }
}

fn no_answer(of: &TopicPartition) -> Error {
    let error = Error::new(ErrorKind::Timeout, "Kafka did not answer for the partition");
    error.with_partition(of.topic(), of.partition())
}

impl PositionReset {
    /// Looks up every partition that is meant.
    fn find(&self, queue: &dyn WorkQueue) -> Result<Vec<Found>> {
        let limits = SnapshotLimits { units: RANGES_MAX, entries: 0 };
        let snapshot = queue.snapshot(limits)?;
        let held: BTreeMap<TopicPartition, PartitionSnapshot> =
            snapshot.partitions.into_iter().map(|part| (part.partition.clone(), part)).collect();
        let mut topics = self.topics.clone();
        if topics.is_empty() {
            topics.extend(held.keys().map(|of| of.topic().to_owned()));
        }
        if topics.is_empty() {
            let message = "no topic is named, and the queue holds none";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let ids = self.described(topics)?;
        let partitions: Vec<TopicPartition> = ids.keys().cloned().collect();
        let (starts, ends) =
            (self.places(&partitions, At::Earliest)?, self.places(&partitions, At::Latest)?);
        let wanted = match self.to {
            ResetTo::Earliest => starts.clone(),
            ResetTo::Latest => ends.clone(),
            ResetTo::Offset(offset) => vec![Some(offset); partitions.len()],
            ResetTo::Time(ms) => self.places(&partitions, At::Time(ms.max(0)))?,
            ResetTo::Back(by) => {
                let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
                let ms = clock::unix_ms().saturating_sub(by).max(0);
                self.places(&partitions, At::Time(ms))?
            }
        };
        let deadline = self.client.cluster().default_deadline();
        let committed = self.kafka().committed(&self.group, &partitions, deadline)?;
        let committed: HashMap<TopicPartition, Option<i64>> = committed
            .into_iter()
            .map(|(of, offset)| Ok((of, offset?.map(|held| held.offset))))
            .collect::<Result<_>>()?;
        let bounds = starts.into_iter().zip(ends).zip(wanted);
        let found = partitions.into_iter().zip(bounds).map(|(of, ((start, end), wanted))| {
            let log_start = start.unwrap_or(0);
            let end = end.unwrap_or(0).max(log_start);
            let to = wanted.unwrap_or(end).clamp(log_start, end);
            let topic_id = ids.get(&of).copied().unwrap_or(Uuid::ZERO);
            // What is held of a topic that was made anew counts for nothing.
            let part = held.get(&of);
            let held_id = part.map(|part| part.state.topic_id);
            let moved = match part.filter(|part| part.state.topic_id == topic_id) {
                Some(part) => moved(of, &part.state, &part.done, to),
                None => moved_in_kafka(of.clone(), committed.get(&of).copied().flatten(), to),
            };
            Found { topic_id, log_start, held_id, moved }
        });
        Ok(found.collect())
    }

    /// The partitions that are meant, each with its topic's id.
    fn described(&self, topics: BTreeSet<String>) -> Result<BTreeMap<TopicPartition, Uuid>> {
        let names: Vec<String> = topics.into_iter().collect();
        let cluster = self.client.cluster();
        let described = self.kafka().topics(&names, cluster.default_deadline())?;
        let mut ids = BTreeMap::new();
        for (name, facts) in described {
            let facts = facts?;
            for index in 0..facts.partitions {
                if self.partitions.is_empty() || self.partitions.contains(&index) {
                    ids.insert(TopicPartition::new(name.as_str(), index)?, facts.id);
                }
            }
            let missing =
                self.partitions.iter().find(|index| !(0..facts.partitions).contains(*index));
            if let Some(index) = missing {
                let error = Error::new(ErrorKind::UnknownTopic, "the topic has no such partition");
                return Err(error.with_partition(&name, *index));
            }
        }
        Ok(ids)
    }

    fn places(&self, partitions: &[TopicPartition], at: At) -> Result<Vec<Option<i64>>> {
        let wanted: Vec<(Arc<str>, i32)> =
            partitions.iter().map(|of| (Arc::from(of.topic()), of.partition())).collect();
        let cluster = self.client.cluster();
        let isolation = self.client.fetch_config().isolation_level;
        list(cluster, &wanted, at, isolation, cluster.default_deadline()).into_iter().collect()
    }
}

/// What a move means for a partition that the queue holds.
fn moved(of: TopicPartition, state: &PartitionState, done: &[(i64, i64)], to: i64) -> PositionMove {
    let done_before: i64 = done.iter().map(|&(start, end)| (end.min(to) - start).max(0)).sum();
    let done_after: i64 = done.iter().map(|&(start, end)| (end - start.max(to)).max(0)).sum();
    PositionMove {
        partition: of,
        from: Some(state.low),
        to,
        skipped: (to - state.low).max(0) - done_before,
        repeated: (state.low - to).max(0) + done_after,
    }
}

/// What a move means for a partition that Kafka alone knows.
fn moved_in_kafka(of: TopicPartition, from: Option<i64>, to: i64) -> PositionMove {
    let by = from.map_or(0, |from| to - from);
    PositionMove { partition: of, from, to, skipped: by.max(0), repeated: (-by).max(0) }
}

#[cfg(test)]
mod counts {
    use super::*;

    #[test]
    fn what_is_done_is_neither_skipped_nor_forgotten() {
        let of = TopicPartition::new("t", 0).unwrap();
        let state = PartitionState {
            topic_id: Uuid::ZERO,
            planned: 60,
            low: 10,
            committed: true,
            leader_epoch: 0,
            outstanding: 3,
        };
        let done = [(20, 30), (40, 50)];
        let counts = |to| {
            let moved = moved(of.clone(), &state, &done, to);
            (moved.skipped, moved.repeated)
        };
        assert_eq!(counts(0), (0, 30));
        assert_eq!(counts(10), (0, 20));
        assert_eq!(counts(25), (10, 15));
        assert_eq!(counts(35), (15, 10));
        assert_eq!(counts(70), (40, 0));
        assert_eq!(moved_in_kafka(of.clone(), Some(7), 3).repeated, 4);
        assert_eq!(moved_in_kafka(of.clone(), Some(3), 7).skipped, 4);
        assert_eq!(moved_in_kafka(of, None, 7).skipped, 0);
    }
}
