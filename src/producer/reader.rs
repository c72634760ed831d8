//! The thread `ottla-r-N`: reads the answers of one connection in order and settles their batches.
//!
//! It owns the receiving half of the connection and ends with it: at the first error, or when the
//! oldest answer is overdue, everything under way comes back to its partitions and the writer opens
//! a new connection. It holds no lock while it reads.
//!
//! What an answer means is decided in [`super::answer`] and, for sequences, in
//! [`super::sequence`]; here it is carried out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::accumulator::Partition;
use super::answer::{Meaning, meaning};
use super::batch::Batch;
use super::core::Core;
use super::flight::{Flight, Sent};
use super::monitor::Failed;
use super::queue::ReadyQueue;
use super::sequence::Verdict;
use super::ticket::{BatchResult, Piece};
use crate::clock;
use crate::error::{Error, ErrorKind};
use crate::net::ResponseReceiver;
use crate::protocol::messages::{
    NodeEndpoint, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use crate::protocol::{ApiKey, ErrorCode, Uuid};

/// First version after whose answer the client itself must pause (KIP-219).
const CLIENT_THROTTLES: i16 = 6;

/// The body of the thread.
pub(super) fn run(
    core: &Arc<Core>,
    queue: &Arc<ReadyQueue>,
    flight: &Arc<Flight>,
    mut receiver: ResponseReceiver,
    broker: &str,
) {
    let meter = core.monitor.meters.broker(queue.broker, clock::now());
    let why = loop {
        // Without a deadline: the writer watches over answers that are overdue, and ends the
        // connection, which ends this.
        let response = receiver.receive(None).and_then(|answer| answer.decode());
        match response {
            Ok::<ProduceResponse, _>(response) => {
                let Some(sent) = flight.pop() else {
                    break Error::new(ErrorKind::Protocol, "an answer came that nobody waits for");
                };
                let now = clock::now();
                let pause = Duration::from_millis(response.throttle_time_ms.max(0) as u64);
                if !pause.is_zero() && sent.version >= CLIENT_THROTTLES {
                    flight.throttle(now + pause);
                }
                core.monitor.answered(&meter, broker, sent.written, pause, now);
                answered(core, sent, response, broker, now);
                let under_way = flight.count();
                let slot_came_free = under_way + 1 >= core.config.max_in_flight as usize;
                if (under_way == 0 || slot_came_free) && flight.release_held() {
                    queue.ring();
                }
            }
            Err(error) => break error,
        }
    };
    let why = why.with_broker(broker);
    let tells = flight.is_first_to_tell();
    let under_way = flight.close();
    let lost = under_way.len();
    return_all(core, under_way, &why);
    if tells {
        core.monitor.disconnected(&meter, queue.broker, lost, &why);
    }
    queue.ring();
}

/// Brings each batch of a request its answer.
fn answered(core: &Arc<Core>, sent: Sent, response: ProduceResponse, broker: &str, now: Instant) {
    let version = sent.version;
    let mut answers = Answers { topics: response.responses, endpoints: response.node_endpoints };
    for (partition, batch) in sent.batches {
        if let Some(answer) = answers.take(&partition) {
            settle(core, &partition, batch, answer, &answers.endpoints, version, broker, now);
        } else {
            let error = Error::new(ErrorKind::Protocol, "the answer lacks the partition")
                .with_api(ApiKey::PRODUCE, version)
                .with_broker(broker);
            give_back(core, &partition, batch, error, true, now);
        }
    }
}

struct Answers {
    topics: Vec<TopicProduceResponse>,
    endpoints: Vec<NodeEndpoint>,
}

impl Answers {
    /// The answer for `partition`: by topic id where the version has ids, else by name.
    fn take(&mut self, partition: &Partition) -> Option<PartitionProduceResponse> {
        let topic = self.topics.iter_mut().find(|topic| {
            if topic.topic_id == Uuid::ZERO {
                topic.name == *partition.topic
            } else {
                topic.topic_id == partition.topic_id
            }
        })?;
        let answers = &mut topic.partition_responses;
        let index = answers.iter().position(|answer| answer.index == partition.index)?;
        Some(answers.swap_remove(index))
    }
}

#[expect(clippy::too_many_arguments, reason = "one call; the facts of one answer")]
fn settle(
    core: &Arc<Core>,
    partition: &Arc<Partition>,
    mut batch: Batch,
    answer: PartitionProduceResponse,
    endpoints: &[NodeEndpoint],
    version: i16,
    broker: &str,
    now: Instant,
) {
    let code = answer.error_code;
    let idempotent = core.config.enable_idempotence;
    let bad = answer.record_errors.len();
    let mut means = meaning(code, batch.records, bad, idempotent);
    if means == Meaning::Sequence {
        means = match partition.verdict(batch.number, code, answer.log_start_offset) {
            Verdict::Duplicate => Meaning::Stored,
            Verdict::Retry => Meaning::Again { moved: false, maybe_stored: false },
            Verdict::Fail => Meaning::Fail,
        };
    }
    if means == Meaning::Stored {
        let base_offset = (answer.base_offset >= 0).then_some(answer.base_offset);
        let last_offset = base_offset.map(|base| base + i64::from(batch.records) - 1);
        partition.acked(batch.number, last_offset);
        let append_time_ms = (answer.log_append_time_ms >= 0).then_some(answer.log_append_time_ms);
        let records = batch.records;
        core.monitor.count_acknowledged(partition, records, now);
        core.settle(batch, BatchResult::Stored { base_offset, append_time_ms });
        core.monitor.acknowledged(partition, records, base_offset, broker);
        return;
    }
    let error = Error::from_code(code, answer.error_message.as_deref())
        .with_api(ApiKey::PRODUCE, version)
        .with_broker(broker);
    match means {
        Meaning::Again { moved, maybe_stored } => {
            batch.maybe_stored |= maybe_stored;
            let leader = answer.current_leader;
            if leader.leader_id >= 0 {
                core.cluster.note_leader(&partition.topic, partition.index, &leader, endpoints);
            }
            give_back(core, partition, batch, error, moved, now);
        }
        Meaning::TooLarge => cut_in_two(core, partition, batch, &error),
        Meaning::BadRecords => {
            let bad = answer.record_errors.iter().map(|record| {
                let reason = record.batch_index_error_message.as_deref();
                let error = Error::from_code(code, reason.or(answer.error_message.as_deref()))
                    .with_api(ApiKey::PRODUCE, version)
                    .with_broker(broker);
                (record.batch_index, error)
            });
            drop_records(core, partition, batch, &bad.collect::<Vec<_>>(), &error);
        }
        Meaning::Fatal => {
            partition.failed(&batch, true);
            core.fail(batch, error.clone());
            core.refuse(&error);
        }
        Meaning::Fail => {
            // 47 was noted as a gap by the sequences.
            partition.failed(&batch, code != ErrorCode::INVALID_PRODUCER_EPOCH);
            core.fail(batch, error);
        }
        Meaning::Stored | Meaning::Sequence => unreachable!("both were dealt with above"),
    }
}

/// Gives a batch back to its partition for another attempt; one that expired on the wire is done.
fn give_back(
    core: &Arc<Core>,
    partition: &Arc<Partition>,
    mut batch: Batch,
    error: Error,
    moved: bool,
    now: Instant,
) {
    if batch.is_over() {
        batch.maybe_stored = true;
        partition.failed(&batch, false);
        core.settle(batch, BatchResult::Failed(error));
        return;
    }
    core.monitor.retried(partition, &batch, &error, now);
    batch.last_error = Some(error);
    if let Some((batch, error)) = partition.returned(batch, now, |failures| core.backoff(failures))
    {
        core.abandon(batch, &error);
        return;
    }
    if moved {
        partition.route(&core.router);
        core.cluster.request_refresh();
    }
}

/// The connection broke: nobody knows whether the broker stored these.
pub(super) fn return_all(core: &Arc<Core>, all: Vec<Sent>, why: &Error) {
    let now = clock::now();
    for sent in all {
        for (partition, mut batch) in sent.batches {
            batch.maybe_stored = true;
            give_back(core, &partition, batch, why.clone(), true, now);
        }
    }
}

/// The request was never written.
pub(super) fn return_unsent(core: &Arc<Core>, sent: Sent, why: &Error) {
    let now = clock::now();
    for (partition, batch) in sent.batches {
        give_back(core, &partition, batch, why.clone(), true, now);
    }
}

/// The broker will not take it in one piece: two halves go instead.
fn cut_in_two(core: &Arc<Core>, partition: &Arc<Partition>, batch: Batch, error: &Error) {
    if batch.is_over() {
        return give_up_expired(core, partition, batch, error);
    }
    core.monitor.split(partition, batch.records, error);
    let half = batch.records.div_ceil(2);
    replace(core, partition, batch, error, true, |index| Ok(u32::from(index >= half)));
}

/// The broker named bad records: those fail, the others go again together.
fn drop_records(
    core: &Arc<Core>,
    partition: &Arc<Partition>,
    batch: Batch,
    bad: &[(i32, Error)],
    error: &Error,
) {
    if batch.is_over() {
        return give_up_expired(core, partition, batch, error);
    }
    replace(core, partition, batch, error, false, |index| {
        let named = bad.iter().find(|(bad, _)| u32::try_from(*bad) == Ok(index));
        named.map_or(Ok(0), |(_, error)| Err(error.clone()))
    });
}

fn give_up_expired(core: &Core, partition: &Partition, batch: Batch, error: &Error) {
    partition.failed(&batch, true);
    core.settle(batch, BatchResult::Failed(error.clone()));
}

/// Puts the pieces of `batch` in its place: `piece_of` tells for each record which piece it goes
/// to, ascending, or why it fails.
fn replace(
    core: &Arc<Core>,
    partition: &Arc<Partition>,
    mut batch: Batch,
    error: &Error,
    too_large: bool,
    piece_of: impl Fn(u32) -> Result<u32, Error>,
) {
    let origin = Arc::downgrade(partition);
    core.failures.tell(&mut batch, |place| piece_of(place).err());
    match batch.cut(&origin, piece_of) {
        Ok((mut pieces, map)) => {
            for piece in &mut pieces {
                piece.last_error = Some(error.clone());
                core.unfinished.add(&piece.outcome);
            }
            partition.cut(batch.number, pieces, too_large);
            let errors = map.iter().filter_map(|piece| match piece {
                Piece::Failed(error) => Some(error),
                Piece::Moved(..) => None,
            });
            let failed = errors.clone().next().cloned().map(|error| Failed {
                topic: Arc::clone(&partition.topic),
                partition: partition.index,
                records: errors.count() as u32,
                error,
            });
            if let Some(failed) = &failed {
                core.monitor.count_failed(failed);
            }
            core.settle(batch, BatchResult::Split(map));
            if let Some(failed) = failed {
                core.monitor.failed(&failed);
            }
        }
        Err(unreadable) => {
            partition.failed(&batch, true);
            core.fail(batch, unreadable);
        }
    }
}
