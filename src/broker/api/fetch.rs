//! `Fetch`, API 1, versions 0-18: reads batches.
//!
//! Partitions are served in the order of the request, or of the session, up to the limits; the first
//! that has anything gives its first batch whole (from version 3 on, KIP-74). While there is less than
//! `min_bytes`, and no error, the request waits. From version 11 on any replica serves (KIP-392).
//! Sessions: KIP-227. Leader epochs: KIP-320, KIP-595. The order of the checks is that of
//! `ReplicaManager.readFromLog`.
//!
//! The first run turns the request into the whole list of what to read, and leaves in its session fields
//! which session the answer belongs to.

use std::collections::HashMap;

use super::super::call::{Api, Call, Outcome};
use super::super::faults::Spoiled;
use super::super::state::{Range, Rules, Session, SessionKey, State, Wanted, to_messages};
use crate::protocol::messages::{
    AbortedTransaction, EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchTopic,
    FetchableTopicResponse, PartitionData,
};
use crate::protocol::{Bytes, ErrorCode};

/// `fetch.max.bytes` of the broker.
const BYTES_MAX: i32 = 55 << 20;
/// The first version with the rule of the first batch (KIP-74).
const FIRST_WHOLE_FROM: i16 = 3;
/// The first version that may read zstd (KIP-110).
const ZSTD_FROM: i16 = 10;
/// The first version whose client may read from followers (KIP-392).
const FOLLOWERS_FROM: i16 = 11;
/// The first version that names topics by id (KIP-516).
const BY_ID_FROM: i16 = 13;
/// The first version that tells who leads (KIP-951).
const TELLS_LEADER_FROM: i16 = 16;
/// The session epoch of a request without a session, and that of one which opens one.
const NO_SESSION: i32 = -1;
const NEW_SESSION: i32 = 0;

impl Api for FetchRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<FetchResponse> {
        if call.first {
            if !matches!(self.isolation_level, 0 | 1) {
                return Outcome::Answer(thrown(self, call.version));
            }
            once(&mut self.topics);
            if let Err(error_code) = begin(self, call) {
                return Outcome::Answer(FetchResponse { error_code, ..Default::default() });
            }
        }
        let limits = Limits::of(self, call.version);
        let plans = plan(self, &limits, call);
        let ready: i64 = plans.iter().map(|plan| plan.size as i64).sum();
        let until = call.deadline(self.max_wait_ms);
        let enough = ready >= i64::from(limits.min_bytes) || plans.iter().any(Plan::is_urgent);
        if !enough && !plans.is_empty() && call.now < until {
            return Outcome::Wait(until);
        }
        Outcome::Answer(answer(self, plans, call))
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> FetchResponse {
        let topic = |topic: &FetchTopic| FetchableTopicResponse {
            topic: topic.topic.clone(),
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .iter()
                .map(|wanted| failed(wanted.partition, error))
                .collect(),
            ..Default::default()
        };
        let responses = self.topics.iter().map(topic).collect();
        FetchResponse { responses, ..Default::default() }
    }

    fn topics(&self, state: &State) -> Vec<String> {
        let named = self.topics.iter().filter_map(|topic| {
            let by_id = !topic.topic_id.is_zero();
            state.resolve(&topic.topic, topic.topic_id, by_id).ok().map(str::to_owned)
        });
        named.collect()
    }

    fn throttle(response: &mut FetchResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }

    fn spoil(response: &mut FetchResponse, how: &Spoiled) {
        let rows = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        rows.filter_map(|row| row.records.as_mut()).for_each(|records| how.inflict(records));
    }
}

/// What a broker says after an exception (`FetchRequest.getErrorResponse`).
fn thrown(request: &FetchRequest, version: i16) -> FetchResponse {
    let error = ErrorCode::UNKNOWN_SERVER_ERROR;
    let mut responses = Vec::new();
    if version < BY_ID_FROM {
        responses.extend(request.topics.iter().map(|topic| {
            let row = |wanted: &FetchPartition| PartitionData {
                aborted_transactions: Some(Vec::new()),
                ..failed(wanted.partition, error)
            };
            FetchableTopicResponse {
                topic: topic.topic.clone(),
                partitions: topic.partitions.iter().map(row).collect(),
                ..Default::default()
            }
        }));
    }
    let session_id = request.session_id;
    FetchResponse { error_code: error, session_id, responses, ..Default::default() }
}

/// Of a partition that is named twice the last wish counts, at the place of the first.
fn once(topics: &mut [FetchTopic]) {
    let key = |topic: &FetchTopic, wanted: &FetchPartition| {
        (topic.topic.clone(), topic.topic_id, wanted.partition)
    };
    let mut last = HashMap::new();
    for topic in topics.iter() {
        last.extend(topic.partitions.iter().map(|wanted| (key(topic, wanted), wanted.clone())));
    }
    for topic in topics {
        let mut partitions = std::mem::take(&mut topic.partitions);
        partitions.retain_mut(|wanted| {
            let left = last.remove(&key(topic, wanted));
            left.map(|last| *wanted = last).is_some()
        });
        topic.partitions = partitions;
    }
}

/// Finds or opens the session, and makes the request name all that it reads
/// (`FetchManager.newContext`).
fn begin(request: &mut FetchRequest, call: &mut Call<'_>) -> Result<(), ErrorCode> {
    let by_id = call.version >= BY_ID_FROM;
    let (id, epoch) = (request.session_id, request.session_epoch);
    let now_ms = call.now_ms;
    let new_id = if epoch == NEW_SESSION { call.state.new_session_id() } else { 0 };
    let sessions = call.state.fetch_sessions.entry(call.broker).or_default();
    if epoch == NO_SESSION || epoch == NEW_SESSION {
        if id != 0 {
            sessions.remove(id);
        }
        let named = named(request);
        // Nothing to remember is nothing to open.
        let opens = epoch == NEW_SESSION && !named.is_empty();
        let opened = opens && sessions.open(new_id, by_id, &named, now_ms);
        request.session_id = if opened { new_id } else { 0 };
        return Ok(());
    }
    let has_room = sessions.has_room_for(request.topics.iter().map(|t| t.partitions.len()).sum());
    let session = sessions.get_mut(id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
    if session.epoch != epoch {
        return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
    }
    if session.by_id != by_id {
        return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
    }
    if !has_room {
        sessions.remove(id);
        return Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    }
    for (key, wanted) in named(request) {
        session.put(key, wanted);
    }
    for topic in &request.forgotten_topics_data {
        for partition in &topic.partitions {
            let partition = *partition;
            session.forget(&SessionKey {
                topic: topic.topic.clone(),
                id: topic.topic_id,
                partition,
            });
        }
    }
    if session.len() == 0 {
        sessions.remove(id);
        (request.session_id, request.session_epoch) = (0, NO_SESSION);
        return Ok(());
    }
    session.advance(now_ms);
    request.topics = session
        .partitions()
        .map(|cached| FetchTopic {
            topic: cached.key.topic.clone(),
            topic_id: cached.key.id,
            partitions: vec![cached.wanted.clone()],
            ..Default::default()
        })
        .collect();
    Ok(())
}

fn named(request: &FetchRequest) -> Vec<(SessionKey, FetchPartition)> {
    let named = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|wanted| {
            let partition = wanted.partition;
            (
                SessionKey { topic: topic.topic.clone(), id: topic.topic_id, partition },
                wanted.clone(),
            )
        })
    });
    named.collect()
}

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
struct Limits {
    min_bytes: i32,
    max_bytes: usize,
    first_whole: bool,
    committed: bool,
}

impl Limits {
    fn of(request: &FetchRequest, version: i16) -> Self {
        let max_bytes = request.max_bytes.min(BYTES_MAX);
        Self {
            min_bytes: request.min_bytes.min(max_bytes),
            max_bytes: usize::try_from(max_bytes).unwrap_or(0),
            first_whole: version >= FIRST_WHOLE_FROM,
            committed: request.isolation_level == 1,
        }
    }
}

/// What a partition is going to give.
#[derive(Debug)]
struct Plan {
    key: SessionKey,
    /// The topic's name, when there is one.
    name: Option<String>,
    size: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// An error of the partition; `read` when it came up while reading.
    Fails {
        code: ErrorCode,
        read: bool,
    },
    /// Its log parts from the one that was read.
    Diverges(EpochEndOffset),
    Gives(Range),
}

impl Plan {
    /// Whether it is no use to wait.
    fn is_urgent(&self) -> bool {
        !matches!(self.kind, Kind::Gives(_))
    }
}

/// Looks at every partition, in their order, and divides the limit among them.
fn plan(request: &FetchRequest, limits: &Limits, call: &Call<'_>) -> Vec<Plan> {
    let mut left = *limits;
    let mut plans = Vec::new();
    for topic in &request.topics {
        let by_id = call.version >= BY_ID_FROM;
        let name = call.state.resolve(&topic.topic, topic.topic_id, by_id);
        for wanted in &topic.partitions {
            let partition = wanted.partition;
            let kind = match name {
                Ok(name) => look(name, wanted, &left, call),
                Err(code) => Kind::Fails { code, read: false },
            };
            let mut size = 0;
            if let (Kind::Gives(range), Ok(name)) = (&kind, name) {
                size = readable(call.state, name, partition, *range, call.version);
            }
            left.first_whole &= size == 0;
            left.max_bytes = left.max_bytes.saturating_sub(size);
            let key = SessionKey { topic: topic.topic.clone(), id: topic.topic_id, partition };
            plans.push(Plan { key, name: name.ok().map(str::to_owned), size, kind });
        }
    }
    plans
}

fn readable(state: &State, name: &str, partition: i32, range: Range, version: i16) -> usize {
    let Some(partition) = state.partition(name, partition) else { return 0 };
    let size = partition.log.readable(range);
    // A batch that does not fit is left for the next request, which may give it whole.
    let cut = version >= FIRST_WHOLE_FROM && !partition.log.gives_whole_batch(range);
    if cut { 0 } else { size }
}

/// `Partition.readRecords`, but for the reading.
fn look(name: &str, wanted: &FetchPartition, limits: &Limits, call: &Call<'_>) -> Kind {
    let leader_only = call.version < FOLLOWERS_FROM;
    let (partition, epoch) = (wanted.partition, wanted.current_leader_epoch);
    let asked = Wanted { topic: name, partition, epoch, leader_only };
    let (topic, partition) = match call.state.replica(call.broker, asked) {
        Ok(found) => found,
        Err(code @ ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {
            return Kind::Fails { code, read: false };
        }
        Err(code) => return Kind::Fails { code, read: true },
    };
    let rules = Rules::of(&topic.configs, call.state.release);
    if call.version < ZSTD_FROM && rules.compression.as_deref() == Some("zstd") {
        return Kind::Fails { code: ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, read: false };
    }
    let (log, from) = (&partition.log, wanted.fetch_offset);
    let out_of_range = Kind::Fails { code: ErrorCode::OFFSET_OUT_OF_RANGE, read: true };
    if wanted.last_fetched_epoch >= 0 {
        let (epoch, end_offset) = log.epochs.end_of(wanted.last_fetched_epoch, log.end());
        if epoch < 0 || end_offset < 0 || from < log.start() {
            return out_of_range;
        }
        if epoch < wanted.last_fetched_epoch || end_offset < from {
            return Kind::Diverges(EpochEndOffset { epoch, end_offset, ..Default::default() });
        }
    }
    if !(log.start()..=log.end()).contains(&from) {
        return out_of_range;
    }
    let Ok(partition_max) = usize::try_from(wanted.partition_max_bytes) else {
        // An exception, of which the client learns no more.
        return Kind::Fails { code: ErrorCode::UNKNOWN_SERVER_ERROR, read: true };
    };
    Kind::Gives(Range {
        from,
        until: if limits.committed { log.last_stable() } else { log.end() },
        bytes_max: partition_max.min(limits.max_bytes),
        first_whole: limits.first_whole,
    })
}

fn answer(request: &FetchRequest, plans: Vec<Plan>, call: &mut Call<'_>) -> FetchResponse {
    let incremental = request.session_id != 0 && request.session_epoch > 0;
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut leaders = Vec::new();
    for plan in plans {
        let row = row(&plan, request.isolation_level == 1, call);
        leaders.push(row.current_leader.leader_id);
        if request.session_id != 0 {
            let sessions = call.state.fetch_sessions.entry(call.broker).or_default();
            let session = sessions.get_mut(request.session_id);
            // Without one (it was closed meanwhile) everything is told.
            let news = session.is_none_or(|session| is_news(session, &plan.key, &row));
            if incremental && !news {
                continue;
            }
        }
        let SessionKey { topic, id, .. } = plan.key;
        match responses.last_mut() {
            Some(last) if last.topic == topic && last.topic_id == id => last.partitions.push(row),
            _ => responses.push(FetchableTopicResponse {
                topic,
                topic_id: id,
                partitions: vec![row],
                ..Default::default()
            }),
        }
    }
    let mut response =
        FetchResponse { session_id: request.session_id, responses, ..Default::default() };
    if call.version >= TELLS_LEADER_FROM {
        response.node_endpoints = call.state.endpoints(leaders);
    }
    response
}

/// Notes in the session what the row tells; whether any of it is new
/// (`CachedPartition.maybeUpdateResponseData`).
fn is_news(session: &mut Session, key: &SessionKey, row: &PartitionData) -> bool {
    let has_records = row.records.as_ref().is_some_and(|records| !records.is_empty());
    let Some(cached) = session.get_mut(key) else { return true };
    let moved =
        cached.high_watermark != row.high_watermark || cached.log_start != row.log_start_offset;
    let failed = row.error_code != ErrorCode::NONE;
    // After an error the watermark is told again.
    cached.high_watermark = if failed { -1 } else { row.high_watermark };
    cached.log_start = row.log_start_offset;
    let diverges = row.diverging_epoch.epoch >= 0;
    if has_records {
        session.move_to_end(key);
    }
    has_records || moved || failed || diverges
}

fn row(plan: &Plan, committed: bool, call: &Call<'_>) -> PartitionData {
    let index = plan.key.partition;
    let found = plan.name.as_deref().and_then(|name| call.state.partition(name, index));
    let (range, partition) = match (&plan.kind, found) {
        (Kind::Gives(range), Some(partition)) => (*range, partition),
        (Kind::Diverges(diverging_epoch), Some(partition)) => {
            return PartitionData {
                partition_index: index,
                high_watermark: partition.log.end(),
                last_stable_offset: partition.log.last_stable(),
                log_start_offset: partition.log.start(),
                diverging_epoch: diverging_epoch.clone(),
                aborted_transactions: None,
                ..Default::default()
            };
        }
        (Kind::Fails { code, read }, _) => {
            let mut row = failed(index, *code);
            if *read {
                row.aborted_transactions = None;
            }
            let tells = [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::FENCED_LEADER_EPOCH];
            if let Some(name) = &plan.name
                && call.version >= TELLS_LEADER_FROM
                && tells.contains(code)
            {
                row.current_leader = call.state.leader_of(name, index);
            }
            return row;
        }
        // Planned under the same lock: what was found is there.
        (_, None) => return failed(index, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    };
    let log = &partition.log;
    let (records, upper) =
        if plan.size == 0 { (Bytes::new(), range.from) } else { log.read(range) };
    let records = match call.version {
        0..=3 => match to_messages(records, range.from, call.version) {
            Ok(records) => records,
            Err(code) => return failed(index, code),
        },
        _ => records,
    };
    let aborted = log.producers.aborted(range.from, upper).map(|aborted| AbortedTransaction {
        producer_id: aborted.producer_id,
        first_offset: aborted.first_offset,
        ..Default::default()
    });
    PartitionData {
        partition_index: index,
        high_watermark: log.end(),
        last_stable_offset: log.last_stable(),
        log_start_offset: log.start(),
        aborted_transactions: committed.then(|| aborted.collect()),
        records: Some(records),
        ..Default::default()
    }
}

fn failed(partition_index: i32, error_code: ErrorCode) -> PartitionData {
    PartitionData { partition_index, error_code, high_watermark: -1, ..Default::default() }
}
