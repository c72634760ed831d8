//! The audit, slice by slice.
//!
//! A round reads every list first and then looks at every unit. A unit that has been queued since before the round
//! and was in no list when that was read is in none: the work list is read from the end at which ids are pushed, so one that is
//! popped meanwhile is found in its worker's list, read later, and one that is pushed meanwhile is queued since then only
//! (or was moved between lists; then it is pushed twice, which harms nobody).
//!
//! Memory: the ids of all queued units, which the planner bounds.

use std::time::Duration;

use r2d2_redis::redis;

use crate::error::Result;
use crate::work::queue::{Answer, AuditPhase, AuditRound, Audited};
use crate::work::redis::client::{RedisQueue, transpose};
use crate::work::redis::reply::Fields;
use crate::work::unit::{LeaderId, TopicPartition};

impl RedisQueue {
    /// One slice: the next step of the phase that the round is in.
    pub(super) fn audit_slice(
        &self,
        me: LeaderId,
        round: &mut AuditRound,
        limit: usize,
    ) -> Result<Answer<Audited>> {
        match round.phase {
            AuditPhase::Begin => self.audit_begin(me, round),
            AuditPhase::Work { index } => {
                let ids = self.list(&self.keys().work(), index, limit)?;
                let full = ids.len() == limit;
                round.seen.extend(ids);
                round.phase = if full {
                    AuditPhase::Work { index: index + limit }
                } else {
                    AuditPhase::Workers { index: 0 }
                };
                Ok(Answer::Done(Audited::default()))
            }
            AuditPhase::Workers { index } => {
                if index == 0 {
                    let mut command = redis::cmd("ZRANGE");
                    command.arg(self.keys().workers()).arg(0).arg(-1);
                    round.workers = self.link().command(&command, Duration::ZERO)?;
                }
                match round.workers.get(index) {
                    Some(name) => {
                        let ids = self.list(&self.keys().working(name), 0, limit)?;
                        round.seen.extend(ids);
                        round.phase = AuditPhase::Workers { index: index + 1 };
                    }
                    None => round.phase = AuditPhase::Units { index: 0, start: 0 },
                }
                Ok(Answer::Done(Audited::default()))
            }
            AuditPhase::Units { index, start } => self.audit_units(me, round, index, start, limit),
            AuditPhase::Lists { cursor } => self.audit_lists(me, round, cursor, limit),
            AuditPhase::Complete => Ok(Answer::Done(Audited::default())),
        }
    }

    fn audit_begin(&self, me: LeaderId, round: &mut AuditRound) -> Result<Answer<Audited>> {
        let answer = self.run(&self.scripts().audit_begin, &[me.to_string()])?;
        transpose(Fields::of(answer)?.answer()?, |mut fields| {
            round.began_ms = fields.parse()?;
            let names = fields.fields()?.texts()?;
            round.partitions = names.iter().filter_map(|name| name.parse().ok()).collect();
            round.partitions.sort();
            round.phase = AuditPhase::Work { index: 0 };
            Ok(Audited::default())
        })
    }

    fn audit_units(
        &self,
        me: LeaderId,
        round: &mut AuditRound,
        index: usize,
        start: i64,
        limit: usize,
    ) -> Result<Answer<Audited>> {
        let Some(of) = round.partitions.get(index).cloned() else {
            round.phase = AuditPhase::Lists { cursor: 0 };
            return Ok(Answer::Done(Audited::default()));
        };
        let arguments = [
            me.to_string(),
            of.to_string(),
            start.to_string(),
            limit.to_string(),
            round.began_ms.to_string(),
            self.lease_ms(),
        ];
        let answer = Fields::of(self.run(&self.scripts().audit_units, &arguments)?)?.answer()?;
        let slice = match transpose(answer, UnitsSlice::read)? {
            Answer::Done(slice) => slice,
            Answer::NotLeader => return Ok(Answer::NotLeader),
            Answer::Stale => return Ok(Answer::Stale),
        };
        let mut audited = slice.audited(&of);
        let unseen: Vec<String> =
            slice.queued.into_iter().filter(|id| !round.seen.contains(id)).collect();
        if !unseen.is_empty() {
            let mut arguments = vec![me.to_string(), round.began_ms.to_string()];
            arguments.extend(unseen);
            let answer = self.run(&self.scripts().audit_requeue, &arguments)?;
            match transpose(Fields::of(answer)?.answer()?, |mut fields| fields.parse())? {
                Answer::Done(requeued) => audited.requeued = requeued,
                Answer::NotLeader => return Ok(Answer::NotLeader),
                Answer::Stale => return Ok(Answer::Stale),
            }
        }
        round.phase = match slice.next_start {
            Some(start) => AuditPhase::Units { index, start },
            None => AuditPhase::Units { index: index + 1, start: 0 },
        };
        Ok(Answer::Done(audited))
    }

    fn audit_lists(
        &self,
        me: LeaderId,
        round: &mut AuditRound,
        cursor: u64,
        limit: usize,
    ) -> Result<Answer<Audited>> {
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg(self.keys().working_pattern());
        command.arg("COUNT").arg(limit);
        let (cursor, mut keys): (u64, Vec<String>) =
            self.link().command(&command, Duration::ZERO)?;
        keys.sort();
        let names = keys.iter().filter_map(|key| self.keys().worker_of(key));
        let arguments: Vec<String> =
            std::iter::once(me.to_string()).chain(names.map(str::to_owned)).collect();
        let answer = self.run(&self.scripts().audit_lists, &arguments)?;
        transpose(Fields::of(answer)?.answer()?, |mut fields| {
            let lists_reaped = fields.parse()?;
            round.phase =
                if cursor == 0 { AuditPhase::Complete } else { AuditPhase::Lists { cursor } };
            Ok(Audited { lists_reaped, ..Audited::default() })
        })
    }

    /// A page of a list.
    fn list(&self, key: &str, index: usize, limit: usize) -> Result<Vec<String>> {
        let mut command = redis::cmd("LRANGE");
        command.arg(key).arg(index).arg(index + limit - 1);
        let entries: Vec<Vec<u8>> = self.link().command(&command, Duration::ZERO)?;
        Ok(entries.iter().map(|entry| String::from_utf8_lossy(entry).into_owned()).collect())
    }

    fn lease_ms(&self) -> String {
        use crate::work::queue::WorkQueue;
        self.rules().lease.as_millis().to_string()
    }
}

/// What the script said about some units of a partition.
struct UnitsSlice {
    is_dropped: bool,
    restored: usize,
    next_start: Option<i64>,
    /// Units queued since before the round.
    queued: Vec<String>,
}

impl UnitsSlice {
    fn read(mut fields: Fields) -> Result<Self> {
        Ok(Self {
            is_dropped: fields.text()? == "1",
            restored: fields.parse()?,
            next_start: fields.text()?.parse().ok(),
            queued: fields.fields()?.texts()?,
        })
    }

    fn audited(&self, of: &TopicPartition) -> Audited {
        let dropped = if self.is_dropped { vec![of.clone()] } else { Vec::new() };
        Audited { restored: self.restored, dropped, ..Audited::default() }
    }
}
