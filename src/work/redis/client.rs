//! The operations of the queue, each a script.
//!
//! Any thread; no lock is held while one waits. The rules stand at the trait; here arguments are spelled and
//! answers read.

use std::time::Duration;

use r2d2_redis::redis::{self, Value};

use crate::error::Result;
use crate::work::plan::Plan;
use crate::work::queue::{
    Answer, AuditRound, Audited, Begun, CLAIM_WAIT_MAX, DeadUnit, Finished, Init, Lease, NextUnit,
    Outcome, PartitionState, Progress, QueueRules, Reaped, Reposition, Repositioned, Reset,
    Steered, UNREADABLE_PER_CLAIM_MAX, WorkQueue, stored_text,
};
use crate::work::redis::keys::Keys;
use crate::work::redis::link::Link;
use crate::work::redis::reply::{Fields, topic_id, topic_id_text, unexpected};
use crate::work::redis::scripts::{Script, ScriptClock, Scripts};
use crate::work::snapshot::{Snapshot, SnapshotLimits};
use crate::work::unit::{LeaderId, LeaseToken, TopicPartition, UnitId, WorkerId};

/// The work queue of one group on Redis. Made by [`Redis::open`](crate::work::Redis::connect). Share it by reference or `Arc`.
#[derive(Debug)]
pub struct RedisQueue {
    link: Link,
    keys: Keys,
    rules: QueueRules,
    scripts: Scripts,
}

/// Arguments of a script, as texts.
struct Arguments(Vec<String>);

impl Arguments {
    #[expect(clippy::needless_pass_by_value, reason = "values and references alike")]
    fn new(first: impl ToString) -> Self {
        Self(vec![first.to_string()])
    }

    #[expect(clippy::needless_pass_by_value, reason = "values and references alike")]
    fn and(mut self, next: impl ToString) -> Self {
        self.0.push(next.to_string());
        self
    }

    fn and_ms(self, duration: Duration) -> Self {
        self.and(duration.as_millis())
    }

    fn and_skips(mut self, progress: &Progress) -> Self {
        for skip in &progress.skips {
            self = self.and(skip.start).and(skip.end).and(skip.why);
        }
        self
    }
}

impl RedisQueue {
    pub(super) fn new(link: Link, keys: Keys, rules: QueueRules, clock: ScriptClock) -> Self {
        Self { link, keys, rules, scripts: Scripts::new(clock) }
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(super) fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// Runs a script of this group.
    pub(super) fn run<T: redis::FromRedisValue>(
        &self,
        script: &Script,
        arguments: &[String],
    ) -> Result<T> {
        let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
        self.link.run(script, self.keys.base(), &arguments)
    }

    /// Runs an organiser's script and reads its verdict.
    fn led(&self, script: &Script, arguments: &Arguments) -> Result<Answer<Fields>> {
        Fields::of(self.run(script, &arguments.0)?)?.answer()
    }

    /// Runs an organiser's script that answers a partition's state.
    fn led_state(&self, script: &Script, arguments: &Arguments) -> Result<Answer<PartitionState>> {
        transpose(self.led(script, arguments)?, |mut fields| {
            fields.fields()?.partition_state()?.ok_or_else(|| unexpected("no partition"))
        })
    }

    /// The bytes of the next entry, if there is one at once.
    fn next_entry(&self, worker: &WorkerId) -> Result<Option<Vec<u8>>> {
        self.run(&self.scripts.claim, &[worker.to_string()])
    }

    /// Waits for the next entry. Redis may be told whole seconds or decimals; zero would be for ever.
    fn await_entry(&self, worker: &WorkerId, wait: Duration) -> Result<Option<Vec<u8>>> {
        let mut command = redis::cmd("BRPOPLPUSH");
        command.arg(self.keys.work()).arg(self.keys.working(worker.as_str()));
        if wait.subsec_millis() == 0 {
            command.arg(wait.as_secs());
        } else {
            command.arg(format!("{:.3}", wait.as_secs_f64()));
        }
        self.link.command(&command, wait)
    }

    /// What the scripts that finish a unit begin with.
    fn finishing(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        progress: &Progress,
        outcome: &Outcome,
    ) -> Arguments {
        let (how, why) = match outcome {
            Outcome::Handled => ("handled", ""),
            Outcome::Failed { why } => ("failed", why.as_str()),
            Outcome::DeadLettered { why } => ("dead-lettered", why.as_str()),
        };
        Arguments::new(unit)
            .and(token)
            .and(worker)
            .and(progress.position.min(unit.end()))
            .and(how)
            .and(stored_text(why))
            .and(self.rules.attempt_limit())
            .and_ms(self.rules.retry_backoff)
            .and_ms(self.rules.retry_backoff_max)
    }

    /// Attempt and topic id of a lease.
    fn lease(&self, fields: &mut Fields) -> Result<Lease> {
        let attempt = fields.parse()?;
        let topic_id = topic_id(&fields.text()?)?;
        Ok(Lease { attempt, is_last: attempt >= self.rules.attempt_limit(), topic_id })
    }

    /// Moves an entry that is no unit to the log of errors.
    fn discard(&self, worker: &WorkerId, entry: &[u8]) -> Result<()> {
        let shown = stored_text(&String::from_utf8_lossy(entry));
        log::warn!("an entry of the work queue is no unit and was set aside: {shown}");
        let arguments: [&[u8]; 3] = [worker.as_str().as_bytes(), entry, shown.as_bytes()];
        self.link.run::<Value>(&self.scripts.discard, self.keys.base(), &arguments)?;
        Ok(())
    }
}

/// Reads what was done, if it was.
pub(super) fn transpose<T, U>(
    answer: Answer<T>,
    read: impl FnOnce(T) -> Result<U>,
) -> Result<Answer<U>> {
    match answer.map(read) {
        Answer::Done(value) => value.map(Answer::Done),
        Answer::NotLeader => Ok(Answer::NotLeader),
        Answer::Stale => Ok(Answer::Stale),
    }
}

/// What became of a unit that was finished.
fn finished(mut fields: Fields) -> Result<Finished> {
    match fields.text()?.as_str() {
        "refused" => Ok(Finished::Refused),
        verdict => Ok(Finished::Settled(fields.settled(verdict)?)),
    }
}

/// What a script that steers did.
fn steered(mut fields: Fields) -> Result<Steered> {
    Ok(Steered { units: fields.parse()?, records: fields.parse()? })
}

/// The unit that an entry spells.
fn unit_of(entry: &[u8]) -> Option<UnitId> {
    std::str::from_utf8(entry).ok()?.parse().ok()
}

impl WorkQueue for RedisQueue {
    fn rules(&self) -> &QueueRules {
        &self.rules
    }

    fn elect(&self, me: LeaderId) -> Result<bool> {
        let arguments = Arguments::new(me).and_ms(self.rules.leader_lock);
        self.run(&self.scripts.elect, &arguments.0)
    }

    fn resign(&self, me: LeaderId) -> Result<()> {
        self.run::<Value>(&self.scripts.resign, &Arguments::new(me).0)?;
        Ok(())
    }

    fn partitions(
        &self,
        me: LeaderId,
        of: &[TopicPartition],
    ) -> Result<Answer<Vec<Option<PartitionState>>>> {
        let arguments = of.iter().fold(Arguments::new(me), Arguments::and);
        transpose(self.led(&self.scripts.partitions, &arguments)?, |fields| {
            let states: Result<Vec<_>> =
                fields.lists().map(|state| state?.partition_state()).collect();
            states.and_then(|states| {
                if states.len() == of.len() {
                    Ok(states)
                } else {
                    Err(unexpected("too few partitions"))
                }
            })
        })
    }

    fn init(&self, me: LeaderId, init: &Init) -> Result<Answer<PartitionState>> {
        let arguments = Arguments::new(me)
            .and(&init.partition)
            .and(topic_id_text(init.topic_id))
            .and(init.first)
            .and(init.log_start);
        self.led_state(&self.scripts.init, &arguments)
    }

    fn note_committed(
        &self,
        me: LeaderId,
        partition: &TopicPartition,
        low: i64,
    ) -> Result<Answer<()>> {
        let arguments = Arguments::new(me).and(partition).and(low);
        Ok(self.led(&self.scripts.note_committed, &arguments)?.map(|_| ()))
    }

    fn plan(&self, me: LeaderId, plan: &Plan) -> Result<Answer<PartitionState>> {
        let arguments = Arguments::new(me)
            .and(plan.partition())
            .and(topic_id_text(plan.topic_id()))
            .and(plan.leader_epoch())
            .and(plan.from())
            .and(plan.skip_to().map_or_else(String::new, |to| to.to_string()))
            .and(plan.planned());
        let arguments = plan.units().iter().fold(arguments, Arguments::and);
        self.led_state(&self.scripts.plan, &arguments)
    }

    fn reset(&self, me: LeaderId, reset: &Reset) -> Result<Answer<PartitionState>> {
        let arguments = Arguments::new(me)
            .and(&reset.partition)
            .and(topic_id_text(reset.old_topic_id))
            .and(topic_id_text(reset.new_topic_id))
            .and(reset.log_start);
        self.led_state(&self.scripts.reset, &arguments)
    }

    fn promote(&self, me: LeaderId, limit: usize) -> Result<Answer<usize>> {
        let arguments = Arguments::new(me).and(limit);
        transpose(self.led(&self.scripts.promote, &arguments)?, |mut fields| fields.parse())
    }

    fn reap_leases(&self, me: LeaderId, limit: usize) -> Result<Answer<Vec<Reaped>>> {
        let arguments = Arguments::new(me)
            .and(limit)
            .and(self.rules.attempt_limit())
            .and_ms(self.rules.retry_backoff)
            .and_ms(self.rules.retry_backoff_max);
        transpose(self.led(&self.scripts.reap_leases, &arguments)?, |fields| {
            let reaped = |fields: Result<Fields>| {
                let mut fields = fields?;
                let (unit, owner) = (fields.parse()?, fields.text()?);
                let mut settled = fields.fields()?;
                let verdict = settled.text()?;
                Ok(Reaped { unit, owner, settled: settled.settled(&verdict)? })
            };
            fields.lists().map(reaped).collect()
        })
    }

    fn reap_workers(&self, me: LeaderId, limit: usize) -> Result<Answer<Vec<WorkerId>>> {
        let arguments = Arguments::new(me).and(limit).and_ms(self.rules.worker_timeout);
        transpose(self.led(&self.scripts.reap_workers, &arguments)?, |fields| {
            // A name that no worker of ours has was put there by another program: gone all the same.
            Ok(fields.texts()?.iter().filter_map(|name| name.parse().ok()).collect())
        })
    }

    fn audit(&self, me: LeaderId, round: &mut AuditRound, limit: usize) -> Result<Answer<Audited>> {
        self.audit_slice(me, round, limit.max(1))
    }

    fn dead(&self, me: LeaderId, limit: usize) -> Result<Answer<Vec<DeadUnit>>> {
        let arguments = Arguments::new(me).and(limit).and_ms(self.rules.retry_backoff_max);
        transpose(self.led(&self.scripts.dead, &arguments)?, |fields| {
            let dead = |fields: Result<Fields>| {
                let mut fields = fields?;
                Ok(DeadUnit {
                    unit: fields.parse()?,
                    topic_id: topic_id(&fields.text()?)?,
                    attempts: fields.parse()?,
                    owner: fields.text()?,
                    error: fields.text()?,
                })
            };
            fields.lists().map(dead).collect()
        })
    }

    fn bury(&self, me: LeaderId, dead: &DeadUnit) -> Result<Answer<()>> {
        let arguments = Arguments::new(me).and(&dead.unit).and(topic_id_text(dead.topic_id));
        Ok(self.led(&self.scripts.bury, &arguments)?.map(|_| ()))
    }

    fn heartbeat(&self, worker: &WorkerId) -> Result<()> {
        self.run::<Value>(&self.scripts.heartbeat, &[worker.to_string()])?;
        Ok(())
    }

    fn unregister(&self, worker: &WorkerId) -> Result<()> {
        self.run::<Value>(&self.scripts.unregister, &[worker.to_string()])?;
        Ok(())
    }

    fn claim(&self, worker: &WorkerId, wait: Duration) -> Result<Option<UnitId>> {
        for _ in 0..UNREADABLE_PER_CLAIM_MAX {
            let Some(entry) = self.next_entry(worker)? else { break };
            match unit_of(&entry) {
                Some(unit) => return Ok(Some(unit)),
                None => self.discard(worker, &entry)?,
            }
        }
        let wait = wait.min(CLAIM_WAIT_MAX);
        if wait.as_millis() == 0 {
            return Ok(None);
        }
        let Some(entry) = self.await_entry(worker, wait)? else { return Ok(None) };
        let unit = unit_of(&entry);
        if unit.is_none() {
            self.discard(worker, &entry)?;
        }
        Ok(unit)
    }

    fn begin(&self, unit: &UnitId, token: LeaseToken, worker: &WorkerId) -> Result<Begun> {
        let arguments = Arguments::new(unit).and(token).and(worker).and_ms(self.rules.lease);
        let mut fields = Fields::of(self.run(&self.scripts.begin, &arguments.0)?)?;
        match fields.text()?.as_str() {
            "leased" => Ok(Begun::Leased(self.lease(&mut fields)?)),
            "gone" => Ok(Begun::Gone),
            "taken" => Ok(Begun::Taken),
            other => Err(unexpected(other)),
        }
    }

    fn renew(&self, unit: &UnitId, token: LeaseToken, progress: &Progress) -> Result<bool> {
        let arguments = Arguments::new(unit)
            .and(token)
            .and(progress.position)
            .and_ms(self.rules.lease)
            .and_skips(progress);
        self.run(&self.scripts.renew, &arguments.0)
    }

    fn finish(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        progress: &Progress,
        outcome: &Outcome,
    ) -> Result<Finished> {
        let arguments = self.finishing(unit, token, worker, progress, outcome).and_skips(progress);
        finished(Fields::of(self.run(&self.scripts.finish, &arguments.0)?)?)
    }

    fn finish_next(
        &self,
        unit: &UnitId,
        token: LeaseToken,
        worker: &WorkerId,
        progress: &Progress,
        outcome: &Outcome,
        next_token: LeaseToken,
    ) -> Result<(Finished, Option<NextUnit>)> {
        let arguments = self
            .finishing(unit, token, worker, progress, outcome)
            .and(next_token)
            .and_ms(self.rules.lease)
            .and(unit.topic_partition())
            .and(unit.start())
            .and(unit.end())
            .and_skips(progress);
        let mut fields = Fields::of(self.run(&self.scripts.finish_next, &arguments.0)?)?;
        let finished = finished(fields.fields()?)?;
        let mut next = fields.fields()?;
        if next.is_empty() {
            return Ok((finished, None));
        }
        let unit = next.parse()?;
        Ok((finished, Some(NextUnit { unit, lease: self.lease(&mut next)? })))
    }

    fn give_back(&self, unit: &UnitId, token: LeaseToken, delay: Duration) -> Result<bool> {
        let arguments = Arguments::new(unit).and(token).and_ms(delay);
        self.run(&self.scripts.give_back, &arguments.0)
    }

    fn reposition(&self, me: LeaderId, to: &Reposition) -> Result<Answer<Repositioned>> {
        let arguments = Arguments::new(me)
            .and(&to.partition)
            .and(topic_id_text(to.topic_id))
            .and(to.to)
            .and_ms(self.rules.worker_timeout);
        transpose(self.led(&self.scripts.reposition, &arguments)?, |mut fields| {
            match fields.text()?.as_str() {
                "moved" => {
                    let state = fields.fields()?.partition_state()?;
                    Ok(Repositioned::Moved(state.ok_or_else(|| unexpected("no partition"))?))
                }
                "live" => Ok(Repositioned::WorkersLive(fields.parse()?)),
                other => Err(unexpected(other)),
            }
        })
    }

    fn redrive(&self, of: &TopicPartition, limit: usize) -> Result<Steered> {
        let arguments = Arguments::new(of).and(limit);
        steered(Fields::of(self.run(&self.scripts.redrive, &arguments.0)?)?)
    }

    fn drop_failed(&self, of: &TopicPartition, limit: usize) -> Result<Steered> {
        let arguments = Arguments::new(of).and(limit);
        steered(Fields::of(self.run(&self.scripts.drop_failed, &arguments.0)?)?)
    }

    fn snapshot(&self, limits: SnapshotLimits) -> Result<Snapshot> {
        self.view(limits)
    }
}

#[cfg(all(test, feature = "real-servers"))]
impl RedisQueue {
    /// What all keys of the group begin with.
    pub(crate) fn base(&self) -> &str {
        self.keys.base()
    }

    /// Any command, for tests that injure the store.
    pub(crate) fn raw(&self, arguments: &[&[u8]]) -> Result<Value> {
        let mut command = redis::Cmd::new();
        for argument in arguments {
            command.arg(*argument);
        }
        self.link.command(&command, Duration::ZERO)
    }
}
