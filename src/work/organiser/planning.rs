//! What the organiser asks and does about partitions: take up, begin anew, plan, commit.
//!
//! Decisions are those of [`super::round`], the planner and [`CommitLog`](crate::work::commit::CommitLog);
//! here they are given facts and carried out. Runs on the organiser's thread.
//!
//! ```text
//!   topics ─▶ bounds of their logs ─▶ states ─▶ take up / reset ─▶ first commit ─▶ plan
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::round::{Committed, Facts, Step, commit_of, decide};
use super::shell::{Halt, Shell};
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind};
use crate::protocol::Uuid;
use crate::work::commit::Commit;
use crate::work::events::Event;
use crate::work::kafka::TopicFacts;
use crate::work::plan::{CommittedOffset, Decision, LogRange, Plan, PlanRules, plan};
use crate::work::queue::{Init, PartitionState, Reset};
use crate::work::snapshot::SnapshotLimits;
use crate::work::unit::TopicPartition;

/// Metadata of the topics are older than this at most when the organiser plans.
const FACTS_AGE_MAX: Duration = Duration::from_secs(2);
/// Portions of one partition that are planned in a round.
const PORTIONS_MAX: usize = 16;

type Logs = BTreeMap<TopicPartition, LogRange>;
type States = BTreeMap<TopicPartition, PartitionState>;
type Done<T> = Result<T, Halt>;

impl Shell {
    /// One round over all topics that are not paused.
    pub(super) fn plan_round(&mut self) -> Done<()> {
        let facts = self.topic_facts()?;
        let mut partitions = Vec::new();
        for topic in &facts {
            for index in 0..topic.partitions {
                match TopicPartition::new(topic.name.clone(), index) {
                    Ok(partition) => partitions.push((partition, topic.id)),
                    Err(error) => log::warn!("a partition cannot be read: {error}"),
                }
            }
        }
        if partitions.is_empty() {
            return Ok(());
        }
        let logs = self.logs(&partitions);
        self.lead()?;
        let mut states = self.states(logs.keys().cloned().collect())?;
        self.take_up(&logs, &mut states)?;
        self.commit_first(&logs, &mut states)?;
        self.plan_logs(&logs, &mut states)
    }

    /// The topics as the cluster describes them; those it cannot describe are left out this time.
    fn topic_facts(&mut self) -> Done<Vec<TopicFacts>> {
        let topics = self.shared.topics();
        let mut names = topics.planned(&self.listed);
        let fresh = self.facts_until.is_some_and(|until| !until.has_passed(clock::now()));
        if !fresh || self.facts_of != names {
            if topics.has_patterns() {
                self.listed = self.kafka.names(self.question())?;
                names = topics.planned(&self.listed);
            }
            let answer = match names.as_slice() {
                [] => HashMap::new(),
                names => self.kafka.topics(names, self.question())?,
            };
            self.facts.clear();
            let mut failure = None;
            for (name, described) in answer {
                match described {
                    Ok(facts) => {
                        self.ids.read(&name, facts.id);
                        self.facts.insert(name, facts);
                    }
                    Err(error) => failure = Some(error),
                }
            }
            self.troubles.topics.report(failure.as_ref());
            self.facts_of = names;
            self.facts_until = Some(Deadline::within(FACTS_AGE_MAX));
        }
        Ok(self.facts.values().cloned().collect())
    }

    /// Where each log starts and ends; those without an answer are left out this time.
    fn logs(&mut self, partitions: &[(TopicPartition, Uuid)]) -> Logs {
        let asked: Vec<TopicPartition> = partitions.iter().map(|(of, _)| of.clone()).collect();
        let mut answer = self.kafka.bounds(&asked, self.question());
        let (mut logs, mut failure) = (Logs::new(), None);
        for (partition, topic_id) in partitions {
            match answer.remove(partition) {
                Some(Ok(bounds)) => {
                    let log = LogRange {
                        topic_id: *topic_id,
                        start: bounds.start,
                        end: bounds.end,
                        leader_epoch: bounds.leader_epoch,
                    };
                    logs.insert(partition.clone(), log);
                }
                Some(Err(error)) => failure = Some(error),
                None => {}
            }
        }
        if failure.is_some() {
            self.facts_until = None;
        }
        self.troubles.offsets.report(failure.as_ref());
        logs
    }

    /// What the queue holds of `partitions`; those that it does not hold are left out.
    fn states(&mut self, partitions: Vec<TopicPartition>) -> Done<States> {
        let answer = self.queue.partitions(self.me, &partitions)?;
        let held = self.answered(answer)?.unwrap_or_default();
        let pairs = partitions.into_iter().zip(held);
        let states: States = pairs.filter_map(|(of, state)| Some((of, state?))).collect();
        self.taken_up.extend(states.keys().cloned());
        Ok(states)
    }

    /// Takes up what the queue does not hold, and begins anew what was made anew.
    fn take_up(&mut self, logs: &Logs, states: &mut States) -> Done<()> {
        let policy = self.shared.config.auto_offset_reset;
        let unknown: BTreeSet<&str> =
            logs.keys().filter(|of| !states.contains_key(of)).map(TopicPartition::topic).collect();
        let committed = self.committed_of(logs, &unknown)?;
        let mut failure = None;
        for (partition, log) in logs {
            let topic = partition.topic();
            let sisters_committed =
                committed.iter().any(|(of, held)| of.topic() == topic && held.is_some());
            let facts = Facts {
                partition,
                state: states.get(partition),
                log: *log,
                committed: match committed.get(partition) {
                    None => Committed::Unknown,
                    Some(None) => Committed::Nothing,
                    Some(Some(offset)) => Committed::At(*offset),
                },
                sisters_committed,
            };
            let changed = match decide(facts, &self.ids, policy) {
                Step::Init { offset } => self.init(partition, *log, offset)?,
                Step::Reset { old } => self.reset(partition, *log, old)?,
                Step::NoOffset => {
                    let message = "the group has no offset, and auto.offset.reset is none";
                    let error = Error::new(ErrorKind::Config, message);
                    failure = Some(error.with_partition(topic, partition.partition()));
                    None
                }
                Step::AskCommitted | Step::FirstCommit(_) | Step::Ready | Step::Wait => None,
            };
            if let Some(state) = changed {
                states.insert(partition.clone(), state);
                self.taken_up.insert(partition.clone());
            }
        }
        self.troubles.start.report(failure.as_ref());
        Ok(())
    }

    fn init(
        &mut self,
        partition: &TopicPartition,
        log: LogRange,
        first: i64,
    ) -> Done<Option<PartitionState>> {
        self.lead()?;
        let (topic_id, log_start) = (log.topic_id, log.start);
        let init = Init { partition: partition.clone(), topic_id, first, log_start };
        let answer = self.queue.init(self.me, &init)?;
        let state = self.answered(answer)?;
        if state.is_some() {
            log::info!("{partition} is taken up at offset {}", first.max(log_start));
            if first < log_start {
                self.skipped(partition, first, log_start);
            }
        }
        Ok(state)
    }

    fn reset(
        &mut self,
        partition: &TopicPartition,
        log: LogRange,
        old: Uuid,
    ) -> Done<Option<PartitionState>> {
        self.lead()?;
        let reset = Reset {
            partition: partition.clone(),
            old_topic_id: old,
            new_topic_id: log.topic_id,
            log_start: log.start,
        };
        let answer = self.queue.reset(self.me, &reset)?;
        let state = self.answered(answer)?;
        if state.is_some() {
            log::warn!("{partition} is of a topic that was made anew, and starts over");
            self.ids.replaced(partition.topic(), old);
            self.shared.events.tell(Event::TopicReset { partition: partition.clone() });
        }
        Ok(state)
    }

    /// What Kafka holds of the group's offsets in `topics`, whole topics at a time.
    fn committed_of(
        &self,
        logs: &Logs,
        topics: &BTreeSet<&str>,
    ) -> Done<HashMap<TopicPartition, Option<CommittedOffset>>> {
        let asked: Vec<TopicPartition> =
            logs.keys().filter(|of| topics.contains(of.topic())).cloned().collect();
        if asked.is_empty() {
            return Ok(HashMap::new());
        }
        let answer = self.kafka.committed(&self.shared.group, &asked, self.question())?;
        // All or nothing: with one partition unknown, whether it has sisters would be a guess.
        answer.into_iter().map(|(of, held)| Ok((of, held?))).collect()
    }

    /// Puts the first offset of partitions into Kafka, and notes that in the queue.
    fn commit_first(&mut self, logs: &Logs, states: &mut States) -> Done<()> {
        let policy = self.shared.config.auto_offset_reset;
        let mut first = Vec::new();
        for (partition, log) in logs {
            let state = states.get(partition);
            let facts = Facts {
                partition,
                state,
                log: *log,
                committed: Committed::Unknown,
                sisters_committed: false,
            };
            if let Step::FirstCommit(commit) = decide(facts, &self.ids, policy) {
                first.push(commit);
            }
        }
        if first.is_empty() {
            return Ok(());
        }
        for commit in self.store(&first)? {
            let answer = self.queue.note_committed(self.me, &commit.partition, commit.offset)?;
            if self.answered(answer)?.is_some()
                && let Some(state) = states.get_mut(&commit.partition)
            {
                state.committed = true;
            }
        }
        Ok(())
    }

    /// Commits to Kafka, if the lock lasts long enough; gives what was stored.
    fn store(&mut self, commits: &[Commit]) -> Done<Vec<Commit>> {
        self.lead()?;
        let limit = self.lock.commit_deadline(clock::now(), self.request_timeout);
        let Some(limit) = limit else { return Ok(Vec::new()) };
        let mut answer = self.kafka.commit(&self.shared.group, commits, limit)?;
        let (mut stored, mut failure) = (Vec::new(), None);
        for commit in commits {
            match answer.remove(&commit.partition) {
                Some(Ok(())) => {
                    self.commits.stored(clock::now(), &commit.partition);
                    stored.push(commit.clone());
                }
                Some(Err(error)) => failure = Some(error),
                None => {}
            }
        }
        self.troubles.store.report(failure.as_ref());
        Ok(stored)
    }

    /// Plans portion by portion, all partitions in turn, so that a long backlog of one does not
    /// keep the others waiting.
    fn plan_logs(&mut self, logs: &Logs, states: &mut States) -> Done<()> {
        let rules = self.rules();
        let behind = logs.iter().find_map(|(partition, log)| {
            let state = states.get(partition)?;
            (state.topic_id == log.topic_id).then(|| end_behind(partition, state, *log)).flatten()
        });
        self.troubles.behind.report(behind.as_ref());
        for _ in 0..PORTIONS_MAX {
            let mut progress = false;
            for (partition, log) in logs {
                let Some(state) = states.get(partition) else { continue };
                let Some(made) = portion(rules, partition, state, *log) else { continue };
                self.lead()?;
                let answer = self.queue.plan(self.me, &made)?;
                let Some(state) = self.answered(answer)? else {
                    // Someone else changed the partition: decided anew in the next round.
                    states.remove(partition);
                    continue;
                };
                if let Some(to) = made.skip_to() {
                    self.skipped(partition, made.from(), to);
                }
                self.shared.add_planned(made.units().len() as u64);
                states.insert(partition.clone(), state);
                progress = true;
            }
            if !progress {
                break;
            }
        }
        Ok(())
    }

    /// Brings the group's offsets in Kafka to the low watermarks.
    pub(super) fn commit_round(&mut self) -> Done<()> {
        self.lead()?;
        self.inherit()?;
        let states = self.states(self.taken_up.iter().cloned().collect())?;
        let wanted: Vec<Commit> = states
            .iter()
            .filter(|(_, state)| state.committed)
            .map(|(partition, state)| commit_of(partition, state))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let asked: Vec<TopicPartition> =
            wanted.iter().map(|commit| commit.partition.clone()).collect();
        let answer = self.kafka.committed(&self.shared.group, &asked, self.question())?;
        let (mut held, mut failure) = (HashMap::new(), None);
        for (of, offset) in answer {
            match offset {
                Ok(offset) => drop(held.insert(of, offset)),
                // It is unknown what Kafka holds: left for the next round.
                Err(error) => failure = Some(error),
            }
        }
        self.troubles.held.report(failure.as_ref());
        let due = self.commits.due(clock::now(), &wanted, &held);
        if !due.is_empty() {
            self.store(&due)?;
        }
        Ok(())
    }

    /// Makes the partitions its own that the organiser before had taken up.
    fn inherit(&mut self) -> Done<()> {
        if !self.inherited {
            let held = self.queue.snapshot(SnapshotLimits { units: 0, entries: 0 })?;
            self.taken_up.extend(held.partitions.into_iter().map(|held| held.partition));
            self.inherited = true;
        }
        Ok(())
    }

    fn skipped(&self, partition: &TopicPartition, from: i64, to: i64) {
        log::warn!("offsets {from} to {to} of {partition} are gone before they were planned");
        self.shared.events.tell(Event::Skipped { partition: partition.clone(), from, to });
    }

    fn rules(&self) -> PlanRules {
        PlanRules {
            unit_size: i64::from(self.shared.config.unit_size),
            outstanding_max: self.shared.config.units_per_partition_max as usize,
            ..PlanRules::default()
        }
    }
}

/// The next portion of a partition, if there is one.
fn portion(
    rules: PlanRules,
    partition: &TopicPartition,
    state: &PartitionState,
    log: LogRange,
) -> Option<Plan> {
    match plan(rules, partition, state, log) {
        Ok(Decision::Plan(made)) => Some(made),
        Ok(_) => None,
        Err(error) => {
            log::error!("{partition} cannot be planned: {error}");
            None
        }
    }
}

/// The error of a log that ends before what is planned, as after an unclean election: nothing is
/// planned until it has grown past that.
fn end_behind(partition: &TopicPartition, state: &PartitionState, log: LogRange) -> Option<Error> {
    let (planned, end) = (state.planned, log.end);
    (end < planned).then(|| {
        let message = format!("the log ends at {end}, but {planned} is planned already");
        Error::new(ErrorKind::OffsetOutOfRange, message)
            .with_partition(partition.topic(), partition.partition())
    })
}
