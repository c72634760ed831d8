//! [`RangeReader`]: reads `[start, end)` of one partition.
//!
//! Runs on the caller's thread and blocks it within the time each call is given. Decides nothing
//! itself: [`RangePosition`] knows where it stands,
//! [`AbortedCursor`] what must not be seen, the cluster's retry loop
//! what to do about a failure.
//!
//! ```text
//!   answer ──▶ batches ──▶ wanted? aborted? ──▶ ready ──▶ next_batch() decompresses, hands out
//!                 └─ damage: kept until everything before it was handed out
//! ```
//!
//! A topic that is deleted and made again under its name is another topic: a reader that was given
//! a topic id never reads the new one. From Fetch version 13 on the broker is asked by id; before,
//! the id that metadata knows is compared.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::aborted::{AbortedCursor, BatchRole};
use super::offsets::{At, list_one};
use super::position::{AnswerHead, Next, OutOfRange, RangePosition, is_out_of_range};
use super::record::{ConsumerRecord, FetchedBatch, OwnedIter};
use crate::clock::{self, Deadline};
use crate::cluster::{Cluster, Target};
use crate::config::{FetchConfig, IsolationLevel};
use crate::error::{Error, ErrorKind, Recovery, Result};
use crate::protocol::messages::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse, PartitionData,
};
use crate::protocol::records::{
    ControlKind, Decompressor, RecordBatch, RecordBatches, RecordsError,
};
use crate::protocol::{Bytes, ErrorCode, Uuid, VersionRange};

/// From this version on a fetch names topics by id.
const TOPIC_IDS_FROM: i16 = 13;

/// What a reader does when its position is no longer in the log because the log starts later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// Gives an error that names the offsets.
    #[default]
    Fail,
    /// Goes on at the start of the log and tells what was passed over.
    Skip,
}

/// Reads a range of offsets of one partition, in order.
///
/// As an iterator it gives one record after the other and ends behind the range; each `next` blocks
/// for at most `default.api.timeout.ms`. [`RangeReader::next_batch`] gives whole batches and takes
/// a time-out.
///
/// ```no_run
/// # let client = ottla::Client::builder("localhost:9092").build()?;
/// for record in client.read("orders", 0, 100..200)? {
///     let record = record?;
///     println!("{}: {:?}", record.offset(), record.value());
/// }
/// # Ok::<(), ottla::Error>(())
/// ```
#[derive(Debug)]
pub struct RangeReader {
    cluster: Arc<Cluster>,
    config: FetchConfig,
    topic: Arc<str>,
    partition: i32,
    /// The topic that is meant, whatever bears its name.
    topic_id: Option<Uuid>,
    missing: Missing,
    position: RangePosition,
    decompressor: Decompressor,
    /// Batches of the last answer that are not handed out yet.
    ready: VecDeque<(RecordBatch, Range<i64>)>,
    /// What follows them.
    damage: Option<Error>,
    /// The caller knows of damage at the position: the broker is not asked for it again at once.
    told_damage: bool,
    skipped: Vec<Range<i64>>,
    /// The end of what was handed out.
    handed_out: i64,
    /// The batch whose records the iterator is giving.
    current: Option<OwnedIter>,
    /// How far the broker let us read, by its last answer.
    readable_end: Option<i64>,
}

impl RangeReader {
    /// The partition it reads.
    pub fn partition_index(&self) -> i32 {
        self.partition
    }

    pub(crate) fn new(
        cluster: Arc<Cluster>,
        config: FetchConfig,
        topic: &str,
        partition: i32,
        range: Range<i64>,
    ) -> Self {
        let limit = config.max_partition_fetch.min(config.fetch_max);
        Self {
            decompressor: Decompressor::with_limit(config.decompressed_batch_max),
            position: RangePosition::new(range.start, range.end, limit),
            handed_out: range.start,
            cluster,
            config,
            topic: topic.into(),
            partition,
            topic_id: None,
            missing: Missing::default(),
            ready: VecDeque::new(),
            damage: None,
            told_damage: false,
            skipped: Vec::new(),
            current: None,
            readable_end: None,
        }
    }

    /// Reads the topic of this id alone.
    #[must_use]
    pub(crate) fn pinned_to(mut self, topic_id: Option<Uuid>) -> Self {
        self.topic_id = topic_id.filter(|id| !id.is_zero());
        self
    }

    /// What to do when offsets of the range are gone. Defaults to [`Missing::Fail`].
    #[must_use]
    pub fn on_missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Whether everything of the range was handed out.
    pub fn is_finished(&self) -> bool {
        self.position.is_finished()
            && self.ready.is_empty()
            && self.damage.is_none()
            && self.current.is_none()
    }

    /// The offset after what was handed out, in whole batches or record by record, and after what is
    /// known to hold no record: a reader that starts there misses nothing.
    pub fn position(&self) -> i64 {
        if let Some(current) = &self.current {
            return current.position();
        }
        match self.ready.front() {
            Some((_, window)) => window.start,
            None if self.damage.is_some() => self.handed_out,
            None => self.position.next().min(self.position.end()),
        }
    }

    /// How far the broker let read when it last answered: its high watermark, or the last stable
    /// offset under `read_committed`.
    pub fn readable_end(&self) -> Option<i64> {
        self.readable_end
    }

    /// Goes on at `offset`, after damage for example; what was fetched before it is dropped.
    pub fn skip_to(&mut self, offset: i64) {
        self.ready.clear();
        self.damage = None;
        self.told_damage = false;
        self.current = None;
        self.position.skip_to(offset);
        self.handed_out = self.position.next();
    }

    /// The ranges that were passed over because the log starts behind them, since the last call.
    pub fn take_skipped(&mut self) -> Vec<Range<i64>> {
        std::mem::take(&mut self.skipped)
    }

    /// The next batch with records in the range. `None` when the range is finished, and when
    /// nothing came within `timeout`; [`RangeReader::is_finished`] tells which.
    ///
    /// Blocks for `timeout` at most.
    ///
    /// # Errors
    /// `Corrupt` for damage, with the offsets concerned: the position stays before it, so that a
    /// further call gives the error again and nothing is skipped unasked
    /// ([`RangeReader::skip_to`]); that call waits `retry.backoff.max.ms` before it asks the broker anew.
    /// `OffsetOutOfRange` under [`Missing::Fail`]. Whatever kept the
    /// broker from answering.
    pub fn next_batch(&mut self, timeout: Duration) -> Result<Option<FetchedBatch>> {
        self.next_batch_by(Deadline::within(timeout))
    }

    pub(crate) fn next_batch_by(&mut self, deadline: Deadline) -> Result<Option<FetchedBatch>> {
        loop {
            if let Some((batch, window)) = self.ready.pop_front() {
                let records = batch.records(&mut self.decompressor).map_err(|error| {
                    // It stays first, for a caller that asks again.
                    let error = damaged(error, &self.topic, self.partition);
                    self.ready.push_front((batch.clone(), window.clone()));
                    error
                })?;
                self.handed_out = window.end;
                return Ok(Some(FetchedBatch {
                    topic: Arc::clone(&self.topic),
                    partition: self.partition,
                    records,
                    window,
                }));
            }
            if let Some(error) = self.damage.take() {
                self.told_damage = true;
                return Err(error);
            }
            if self.position.is_finished() {
                return Ok(None);
            }
            let now = clock::now();
            if deadline.has_passed(now) {
                return Ok(None);
            }
            if std::mem::take(&mut self.told_damage) {
                self.pause(deadline);
            }
            self.fetch(deadline)?;
        }
    }

    /// One answered fetch, retried over failures.
    fn fetch(&mut self, deadline: Deadline) -> Result<()> {
        let wait = self.config.fetch_max_wait.min(deadline.left());
        // A caller with little time still gives the broker its chance to answer.
        let patience = Deadline::within(wait + self.cluster.config().request_timeout);
        let cluster = Arc::clone(&self.cluster);
        let pinned = self.topic_id;
        let (answer, readable_end, held_back) = cluster
            .retry_by(
                "fetch",
                deadline.max(patience),
                |_| self.fetch_once(wait, patience),
                |error| match error.broker_code() {
                    // The topic that is meant has gone for good once metadata say so.
                    Some(ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::INCONSISTENT_TOPIC_ID)
                        if pinned.is_some() && replaced(&cluster, error.topic(), pinned) =>
                    {
                        Recovery::Fail
                    }
                    _ => error.recovery(),
                },
            )
            .map_err(|error| error.with_partition(&self.topic, self.partition))?;
        if is_out_of_range(answer.error_code) {
            return self.out_of_range(deadline.max(patience));
        }
        self.readable_end = (readable_end >= 0).then_some(readable_end);
        if answer.preferred_read_replica >= 0 {
            // Such an answer has no records and does not wait for any (KIP-392).
            self.pause(deadline.max(patience));
        }
        self.take_in(answer, AnswerHead { readable_end, held_back })
    }

    /// One attempt. `OFFSET_OUT_OF_RANGE` is an answer here, every other code an error.
    fn fetch_once(
        &mut self,
        wait: Duration,
        deadline: Deadline,
    ) -> Result<(PartitionData, i64, bool)> {
        let info = self.cluster.topic(&self.topic, deadline)?;
        if self.topic_id.is_some() && info.id.is_some() && info.id != self.topic_id {
            let error = Error::from_code(ErrorCode::INCONSISTENT_TOPIC_ID, None);
            return Err(error.with_partition(&self.topic, self.partition));
        }
        let topic_id = self.topic_id.or(info.id);
        let versions = match topic_id {
            // Zstandard needs version 10; brokers that lack it have no such batches.
            Some(_) => VersionRange { min: 0, max: i16::MAX },
            None => VersionRange { min: 0, max: TOPIC_IDS_FROM - 1 },
        };
        let epoch = info.partition(self.partition).and_then(|partition| partition.leader_epoch);
        let answer = self.cluster.attempt::<FetchRequest, _>(
            Target::Leader(&self.topic, self.partition),
            versions,
            deadline,
            |version| Ok(self.request(version, topic_id, epoch, wait)),
        )?;
        let held_back = answer.response.throttle_time_ms > 0;
        let version = answer.version;
        let described = |error: Error| {
            error
                .with_partition(&self.topic, self.partition)
                .with_api(crate::protocol::ApiKey::FETCH, version)
                .with_broker(&answer.endpoint)
        };
        if !answer.response.error_code.is_ok() {
            return Err(described(Error::from_code(answer.response.error_code, None)));
        }
        let endpoints = answer.response.node_endpoints.clone();
        let Some(data) = self.own_part(answer.response, version, topic_id) else {
            // A throttled answer (version 8 and later) names no partition.
            let nothing = PartitionData { high_watermark: -1, ..PartitionData::default() };
            return Ok((nothing, -1, true));
        };
        if !data.error_code.is_ok() && !is_out_of_range(data.error_code) {
            if data.current_leader.leader_id >= 0 {
                let leader = &data.current_leader;
                self.cluster.note_leader(&self.topic, self.partition, leader, &endpoints);
            }
            return Err(described(Error::from_code(data.error_code, None)));
        }
        let readable_end = match self.config.isolation_level {
            IsolationLevel::ReadCommitted if data.last_stable_offset >= 0 => {
                data.last_stable_offset
            }
            _ => data.high_watermark,
        };
        let held_back = held_back || data.preferred_read_replica >= 0;
        Ok((data, readable_end, held_back))
    }

    fn request(
        &self,
        version: i16,
        topic_id: Option<Uuid>,
        epoch: Option<i32>,
        wait: Duration,
    ) -> FetchRequest {
        let bytes = self.position.fetch_bytes() as i32;
        let mut partition = FetchPartition {
            partition: self.partition,
            fetch_offset: self.position.next(),
            partition_max_bytes: bytes,
            ..FetchPartition::default()
        };
        if let Some(epoch) = epoch
            && version >= 9
        {
            partition.current_leader_epoch = epoch;
        }
        let mut topic = FetchTopic { partitions: vec![partition], ..FetchTopic::default() };
        if version >= TOPIC_IDS_FROM {
            topic.topic_id = topic_id.unwrap_or_default();
        } else {
            topic.topic = self.topic.to_string();
        }
        let committed = self.config.isolation_level == IsolationLevel::ReadCommitted;
        let mut request = FetchRequest {
            max_wait_ms: i32::try_from(wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.config.fetch_min.min(bytes as usize) as i32,
            topics: vec![topic],
            ..FetchRequest::default()
        };
        if version >= 3 {
            request.max_bytes = bytes;
        }
        if version >= 4 {
            request.isolation_level = i8::from(committed);
        }
        request
    }

    /// Our partition's part of the answer.
    fn own_part(
        &self,
        response: FetchResponse,
        version: i16,
        topic_id: Option<Uuid>,
    ) -> Option<PartitionData> {
        let ours = |topic: &FetchableTopicResponse| {
            if version >= TOPIC_IDS_FROM {
                Some(topic.topic_id) == topic_id
            } else {
                *topic.topic == *self.topic
            }
        };
        let topic = response.responses.into_iter().find(ours)?;
        topic.partitions.into_iter().find(|data| data.partition_index == self.partition)
    }

    /// Takes an answer in: what is wanted of it becomes ready.
    fn take_in(&mut self, answer: PartitionData, head: AnswerHead) -> Result<()> {
        let committed = self.config.isolation_level == IsolationLevel::ReadCommitted;
        let aborted = answer.aborted_transactions.filter(|_| committed).unwrap_or_default();
        let mut cursor = AbortedCursor::new(aborted);
        let bytes: Bytes = answer.records.unwrap_or_default();
        let total = bytes.len();
        let mut batches = RecordBatches::new(bytes);
        let mut count = 0;
        for batch in batches.by_ref() {
            let taken = batch.and_then(|batch| self.take_batch(batch, &mut cursor));
            match taken {
                Ok(()) => count += 1,
                Err(error) => {
                    self.damage = Some(damaged(error, &self.topic, self.partition));
                    return Ok(());
                }
            }
            if self.position.is_finished() {
                return Ok(());
            }
        }
        let cut_off = batches.incomplete();
        let needed = cut_off.map(|incomplete| incomplete.needed);
        match self.position.answered(head, count, total, needed) {
            Next::Finished | Next::Fetch | Next::Wait => Ok(()),
            Next::TooLarge { needed } => {
                let offset = self.position.next();
                let limit = self.config.max_partition_fetch.min(self.config.fetch_max);
                let message = format!(
                    "the batch at offset {offset} has {needed} bytes, more than \
                     max.partition.fetch.bytes allows ({limit})"
                );
                Err(Error::new(ErrorKind::RecordTooLarge, message)
                    .with_partition(&self.topic, self.partition))
            }
        }
    }

    fn take_batch(
        &mut self,
        batch: RecordBatch,
        cursor: &mut AbortedCursor,
    ) -> Result<(), RecordsError> {
        let role = if batch.is_control() {
            match batch.control_kind(&mut self.decompressor)? {
                Some(ControlKind::Abort) => BatchRole::AbortMarker,
                _ => BatchRole::OtherControl,
            }
        } else if batch.is_transactional() {
            BatchRole::Transactional
        } else {
            BatchRole::Plain
        };
        let delivers =
            cursor.delivers(batch.producer_id().unwrap_or(-1), batch.last_offset(), role);
        let from = self.position.next();
        // The first offset of a compressed set of the older formats is not known here.
        let base = if batch.record_count().is_some() { batch.base_offset() } else { from };
        if self.position.wants(base, batch.last_offset()) {
            let last = batch.last_offset();
            self.position.passed(last);
            let window = from..self.position.next().min(self.position.end());
            if delivers && batch.record_count() != Some(0) {
                self.ready.push_back((batch, window));
            }
        }
        Ok(())
    }

    /// Finds out where the log is and does what [`Missing`] says.
    fn out_of_range(&mut self, deadline: Deadline) -> Result<()> {
        let isolation = self.config.isolation_level;
        let list =
            |at| list_one(&self.cluster, &self.topic, self.partition, at, isolation, deadline);
        let start = list(At::Earliest)?.unwrap_or(0);
        let end = list(At::Latest)?.unwrap_or(start);
        match self.position.out_of_range(start, end) {
            OutOfRange::Gone { from, to } if self.missing == Missing::Skip => {
                log::warn!(
                    "{}-{}: offsets {from}..{to} are gone, the log starts at {start}",
                    self.topic,
                    self.partition
                );
                self.skipped.push(from..to);
                self.position.skip_to(to);
                self.handed_out = self.position.next();
                Ok(())
            }
            OutOfRange::Gone { from, to } => {
                let message = format!(
                    "offsets {from}..{to} are gone: the log holds offsets {start}..{end} now"
                );
                Err(Error::new(ErrorKind::OffsetOutOfRange, message)
                    .with_partition(&self.topic, self.partition))
            }
            OutOfRange::NotYet => {
                let next = self.position.next();
                log::warn!(
                    "{}-{}: offset {next} is beyond the end of the log ({end}), waiting",
                    self.topic,
                    self.partition
                );
                self.cluster.request_refresh();
                self.pause(deadline);
                Ok(())
            }
            OutOfRange::Again => {
                self.pause(deadline);
                Ok(())
            }
        }
    }

    fn pause(&self, deadline: Deadline) {
        let wait = self.cluster.config().retry_backoff_max.min(deadline.left());
        self.cluster.pause(wait);
    }
}

impl Iterator for RangeReader {
    type Item = Result<ConsumerRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(current) = &mut self.current {
                match current.next() {
                    Some(record) => return Some(record),
                    None => self.current = None,
                }
            }
            let deadline = self.cluster.default_deadline();
            match self.next_batch_by(deadline) {
                Ok(Some(batch)) => self.current = Some(OwnedIter::new(batch)),
                Ok(None) if self.is_finished() => return None,
                Ok(None) => {
                    let next = self.position.next();
                    let message = format!("nothing came at offset {next} in time");
                    return Some(Err(Error::new(ErrorKind::Timeout, message)
                        .with_partition(&self.topic, self.partition)));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Whether metadata know another topic of that name by now.
fn replaced(cluster: &Cluster, topic: Option<&str>, pinned: Option<Uuid>) -> bool {
    let known = topic.and_then(|topic| cluster.cached_topic(topic)).and_then(|info| info.id);
    known.is_some() && known != pinned
}

/// The error for damage in a partition.
pub(super) fn damaged(error: RecordsError, topic: &str, partition: i32) -> Error {
    let place = match (error.base_offset(), error.last_offset()) {
        (Some(base), Some(last)) => format!("offsets {base} to {last} cannot be read"),
        (Some(base), None) => format!("the batch at offset {base} cannot be read"),
        _ => "a batch cannot be read".to_owned(),
    };
    Error::new(ErrorKind::Corrupt, place).with_partition(topic, partition).with_source(error)
}
