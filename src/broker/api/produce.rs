//! `Produce`, API 0, versions 0-13: appends batches.
//!
//! Only a partition's leader takes them; another replica names it (from version 10 on, KIP-951).
//! Replication is perfect, so acks 1 and -1 differ only in `min.insync.replicas`. With acks 0 there is
//! no answer, and an error closes the connection. The checks and their order are those of
//! `KafkaApis.handleProduceRequest`, `Partition.appendRecordsToLeader` and `UnifiedLog.append`.

use std::collections::BTreeSet;

use super::super::call::{Api, Call, Outcome};
use super::super::release::Release;
use super::super::state::{
    Appended, Checked, Log, Refusal, Rules, Sent, State, Wanted, accept, check_form,
};
use crate::protocol::messages::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, PartitionProduceData, PartitionProduceResponse,
    ProduceRequest, ProduceResponse, TopicProduceData, TopicProduceResponse,
};
use crate::protocol::records::{RecordBatch, RecordBatches};
use crate::protocol::{Bytes, ErrorCode};

/// The first version that names topics by id (KIP-516).
const BY_ID_FROM: i16 = 13;
/// The first version that tells who leads (KIP-951).
const TELLS_LEADER_FROM: i16 = 10;
/// The first version that knows `TRANSACTION_ABORTABLE`.
const ABORTABLE_FROM: i16 = 11;
/// The first version of the present transaction protocol (KIP-890).
const TRANSACTION_V2_FROM: i16 = 12;

impl Api for ProduceRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<ProduceResponse> {
        let all = self.topic_data.iter().flat_map(|topic| &topic.partition_data);
        if all.clone().any(|partition| partition.records.is_none()) {
            return Outcome::Silence;
        }
        if self.transactional_id.is_none() && all.clone().any(is_transactional) {
            let code = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
            return self.end(self.refuse(code, call));
        }
        let batches = all.filter_map(first_batch).filter(RecordBatch::is_transactional);
        let producers: BTreeSet<_> =
            batches.map(|batch| (batch.producer_id(), batch.producer_epoch())).collect();
        if call.state.release.verifies_transactions() && producers.len() > 1 {
            let code = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
            return self.end(self.refuse(code, call));
        }
        let responses = self.topic_data.iter().map(|topic| append_topic(self, topic, call));
        let responses: Vec<TopicProduceResponse> = responses.collect();
        let mut response = ProduceResponse { responses, ..Default::default() };
        if call.version >= TELLS_LEADER_FROM {
            response.node_endpoints = endpoints(&response, call.state);
        }
        self.end(response)
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> ProduceResponse {
        let row =
            |partition: &PartitionProduceData| refused(partition.index, Refusal::bare(error), -1);
        let topic = |topic: &TopicProduceData| TopicProduceResponse {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partition_responses: topic.partition_data.iter().map(row).collect(),
            ..Default::default()
        };
        let responses = self.topic_data.iter().map(topic).collect();
        ProduceResponse { responses, ..Default::default() }
    }

    fn has_answer(&self) -> bool {
        self.acks != 0
    }

    fn topics(&self, state: &State) -> Vec<String> {
        let named = self.topic_data.iter().filter_map(|topic| {
            let by_id = !topic.topic_id.is_zero();
            state.resolve(&topic.name, topic.topic_id, by_id).ok().map(str::to_owned)
        });
        named.collect()
    }

    fn throttle(response: &mut ProduceResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

trait End {
    fn end(&self, response: ProduceResponse) -> Outcome<ProduceResponse>;
}

impl End for ProduceRequest {
    /// With acks 0 nobody waits for an answer; an error can only be told by closing.
    fn end(&self, response: ProduceResponse) -> Outcome<ProduceResponse> {
        if self.acks != 0 {
            return Outcome::Answer(response);
        }
        let mut rows = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        if rows.all(|row| row.error_code == ErrorCode::NONE) {
            Outcome::Silence
        } else {
            Outcome::Close("records with acks 0 could not be appended")
        }
    }
}

fn first_batch(partition: &PartitionProduceData) -> Option<RecordBatch> {
    let records = partition.records.clone()?;
    RecordBatches::new(records).without_crc_check().next()?.ok()
}

fn is_transactional(partition: &PartitionProduceData) -> bool {
    first_batch(partition).is_some_and(|batch| batch.is_transactional())
}

fn append_topic(
    request: &ProduceRequest,
    topic: &TopicProduceData,
    call: &mut Call<'_>,
) -> TopicProduceResponse {
    let by_id = call.version >= BY_ID_FROM;
    let name = call.state.resolve(&topic.name, topic.topic_id, by_id).map(str::to_owned);
    let rows = topic.partition_data.iter().map(|partition| match &name {
        Ok(name) => append_partition(request, name, partition, call),
        Err(code) => refused(partition.index, Refusal::bare(*code), -1),
    });
    TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: rows.collect(),
        ..Default::default()
    }
}

fn append_partition(
    request: &ProduceRequest,
    topic: &str,
    partition: &PartitionProduceData,
    call: &mut Call<'_>,
) -> PartitionProduceResponse {
    let index = partition.index;
    let none = Bytes::new();
    let sent = Sent {
        records: partition.records.as_ref().unwrap_or(&none),
        version: call.version,
        place: (topic, index),
        now_ms: call.now_ms,
    };
    let appended = append(request, sent, call);
    let log_start = |state: &mut State| {
        state.partition_mut(topic, index).map_or(-1, |partition| partition.log.start())
    };
    match appended {
        Ok(appended) => PartitionProduceResponse {
            index,
            error_code: ErrorCode::NONE,
            base_offset: appended.base_offset,
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: log_start(call.state),
            ..Default::default()
        },
        Err(refusal) => {
            let log_start = if refusal.tells_start { log_start(call.state) } else { -1 };
            let code = refusal.code;
            let mut row = refused(index, refusal, log_start);
            if call.version >= TELLS_LEADER_FROM && code == ErrorCode::NOT_LEADER_OR_FOLLOWER {
                row.current_leader = call.state.leader_of(topic, index);
            }
            row
        }
    }
}

fn append(
    request: &ProduceRequest,
    sent: Sent<'_>,
    call: &mut Call<'_>,
) -> Result<Appended, Refusal> {
    let (acks, (topic, index)) = (request.acks, sent.place);
    let wanted = Wanted::of_leader(topic, index);
    let reached = call.state.replica(call.broker, wanted).map(|_| ());
    if reached == Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) {
        return Err(Refusal::bare(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    }
    check_form(sent)?;
    if !(-1..=1).contains(&acks) {
        return Err(Refusal::bare(ErrorCode::INVALID_REQUIRED_ACKS));
    }
    if topic.starts_with("__") && call.peer.client_id.as_deref() != Some("__admin_client") {
        return Err(Refusal::by_log(ErrorCode::INVALID_TOPIC_EXCEPTION));
    }
    reached.map_err(Refusal::bare)?;
    join_transaction(request.transactional_id.as_deref(), sent, call)?;
    let (rules, in_sync) = situation(call.state, topic, index, call.broker)?;
    if acks == -1 && in_sync < rules.in_sync_min {
        return Err(Refusal::by_log(ErrorCode::NOT_ENOUGH_REPLICAS));
    }
    let batch = accept(sent, &rules)?;
    store(&batch, sent, &rules, call)
}

/// Whether a transactional batch is part of the transaction of its producer; the present protocol makes
/// it one (KIP-890). Where the partition has records of the transaction, the coordinator is not asked:
/// `ReplicaManager.maybeSendPartitionsToTransactionCoordinator`.
fn join_transaction(id: Option<&str>, sent: Sent<'_>, call: &mut Call<'_>) -> Result<(), Refusal> {
    let first = RecordBatches::new(sent.records.clone()).without_crc_check().next();
    let (Some(id), Some(Ok(batch))) = (id, first) else { return Ok(()) };
    let (Some(producer_id), Some(epoch)) = (batch.producer_id(), batch.producer_epoch()) else {
        return Ok(());
    };
    if !batch.is_transactional() || !call.state.release.verifies_transactions() {
        return Ok(());
    }
    let (topic, index) = sent.place;
    if call.state.has_ongoing(topic, index, (producer_id, epoch)) {
        return Ok(());
    }
    let (producer, place) = ((producer_id, epoch), (topic.to_owned(), index));
    let adds = sent.version >= TRANSACTION_V2_FROM;
    let joined = if adds {
        let times = (call.now, call.now_ms);
        call.state.add_to_transaction(id, producer, &BTreeSet::from([place]), times)
    } else {
        call.state.verify_in_transaction(id, producer, &place)
    };
    joined.map_err(|error| {
        let (code, message) = match error {
            ErrorCode::PRODUCER_FENCED => (ErrorCode::INVALID_PRODUCER_EPOCH, None),
            ErrorCode::TRANSACTION_ABORTABLE if sent.version < ABORTABLE_FROM => {
                let why = "Partition was not added to the transaction";
                (ErrorCode::INVALID_TXN_STATE, Some(why.to_owned()))
            }
            ErrorCode::CONCURRENT_TRANSACTIONS if adds => (error, None),
            // What an older client cannot repeat becomes what it can.
            ErrorCode::CONCURRENT_TRANSACTIONS | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                let why = format!(
                    "Unable to verify the partition has been added to the transaction. Underlying \
                     error: {error}"
                );
                (ErrorCode::NOT_ENOUGH_REPLICAS, Some(why))
            }
            other => (other, None),
        };
        Refusal { message, ..Refusal::bare(code) }
    })
}

/// The rules of the partition's topic, and how many replicas are in sync.
fn situation(
    state: &State,
    topic: &str,
    index: i32,
    broker: i32,
) -> Result<(Rules, usize), Refusal> {
    let wanted = Wanted::of_leader(topic, index);
    let (topic, partition) = state.replica(broker, wanted).map_err(Refusal::bare)?;
    let mut rules = Rules::of(&topic.configs, state.release);
    if state.release >= Release::V3_9 {
        // No more than there are (KIP-966).
        rules.in_sync_min = rules.in_sync_min.min(partition.replicas.len());
    }
    Ok((rules, state.in_sync(partition).len()))
}

/// Appends a batch that was accepted, unless it is there already.
fn store(
    batch: &RecordBatch,
    sent: Sent<'_>,
    rules: &Rules,
    call: &mut Call<'_>,
) -> Result<Appended, Refusal> {
    let state = &mut *call.state;
    let (release, bytes_max, now_ms) = (state.release, state.settings.bytes_max, call.now_ms);
    let held = state.meter().bytes();
    let (topic, index) = sent.place;
    let partition = state.partition_mut(topic, index).expect("it was found under the same lock");
    let from_0 = sent.version >= TRANSACTION_V2_FROM;
    let checked = partition.log.producers.check(batch, release, from_0).map_err(Refusal::by_log)?;
    if let Checked::Duplicate { base_offset, timestamp } = checked {
        return Ok(Appended { base_offset, log_append_time_ms: timestamp });
    }
    if held + Log::cost(batch) > bytes_max {
        let message = format!(
            "the in-process cluster holds {held} bytes of records and may hold {bytes_max}: this \
             batch has no room"
        );
        let full = Refusal::by_log(ErrorCode::POLICY_VIOLATION);
        return Err(Refusal { message: Some(message), ..full });
    }
    let append_ms = rules.append_time.then_some(now_ms);
    let epoch = partition.leader_epoch;
    let appended = partition.log.append(batch, epoch, append_ms, now_ms);
    partition.log.retain_after_append(rules, now_ms, release);
    state.changed();
    Ok(appended)
}

fn refused(index: i32, refusal: Refusal, log_start_offset: i64) -> PartitionProduceResponse {
    let record_errors =
        refusal.records.into_iter().map(|(batch_index, why)| BatchIndexAndErrorMessage {
            batch_index,
            batch_index_error_message: Some(why),
            ..Default::default()
        });
    PartitionProduceResponse {
        index,
        error_code: refusal.code,
        base_offset: -1,
        log_start_offset,
        record_errors: record_errors.collect(),
        error_message: refusal.message,
        ..Default::default()
    }
}

/// Where the leaders that the rows name can be reached.
fn endpoints(
    response: &ProduceResponse,
    state: &State,
) -> Vec<crate::protocol::messages::NodeEndpoint> {
    let rows = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    let leaders = rows.map(|row| &row.current_leader);
    state.endpoints(leaders.map(|leader: &LeaderIdAndEpoch| leader.leader_id))
}
