//! Brokers for the producer's tests: real sockets, Kafka's rules for sequences, faults on demand.
//!
//! Each broker listens on a port of its own; all share one state. A fault is queued per partition
//! and consumed by the next batch for it. What was seen and what was stored is kept for asserts.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::Deadline;
use crate::protocol::messages::{
    ApiVersion, ApiVersionsResponse, InitProducerIdResponse, LeaderIdAndEpoch, MetadataRequest,
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use crate::protocol::{
    ApiKey, Bytes, ErrorCode, Message, Reader, RequestHeader, ResponseHeader, TaggedFields, Uuid,
    Writer,
};
use crate::threads;

/// Batches a broker remembers per producer and partition.
const REMEMBERED: usize = 5;
/// Longest wait of a test for something to happen.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What happens to the next batch of a partition.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It is refused with this code.
    Code(ErrorCode),
    /// It is stored, but the answer says this.
    StoredBut(ErrorCode),
    /// It is refused because of these records.
    BadRecords(Vec<i32>),
    /// It is not stored; the connection is closed without an answer.
    Close,
    /// It is stored; the connection is closed without an answer.
    StoreAndClose,
    /// The broker forgets the partition's producers first, and answers 59 with this log start.
    Forget(i64),
}

/// A batch as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) broker: i32,
    pub(super) partition: i32,
    pub(super) topic_id: Uuid,
    pub(super) version: i16,
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
    pub(super) sequence: i32,
    pub(super) count: i32,
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Part {
    leader: i32,
    epoch: i32,
    /// Stored batches with their first offsets.
    log: Vec<(i64, Vec<u8>)>,
    next_offset: i64,
    producers: HashMap<i64, Producers>,
    faults: VecDeque<Fault>,
}

#[derive(Clone, Debug)]
struct Producers {
    epoch: i16,
    last: i32,
    recent: VecDeque<(i16, i32, i32, i64)>,
}

#[derive(Debug)]
pub(super) struct State {
    brokers: Vec<(i32, u16)>,
    topic: String,
    pub(super) topic_id: Uuid,
    parts: Vec<Part>,
    next_producer_id: i64,
    pub(super) first_epoch: i16,
    pub(super) init_errors: VecDeque<ErrorCode>,
    pub(super) init_requests: usize,
    pub(super) produce_max: i16,
    pub(super) knows_init: bool,
    pub(super) batch_bytes_max: usize,
    pub(super) seen: Vec<Seen>,
    pub(super) metadata_requests: usize,
    /// Brokers that accept nothing and answer nothing.
    frozen: bool,
    down: Vec<i32>,
    /// Most microseconds that an answer is held back, at random.
    pub(super) jitter_us: u64,
    pub(super) max_produce_bytes: usize,
    streams: Vec<(i32, TcpStream)>,
}

/// A cluster of brokers in this process.
#[derive(Debug)]
pub(super) struct FakeKafka {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// What to do after a request.
enum Reply {
    Answer(Vec<u8>),
    Nothing,
    Close,
}

impl FakeKafka {
    /// Brokers 1 to `brokers` with one topic `t`; partition `p` is led by broker `p % brokers + 1`.
    pub(super) fn start(brokers: i32, partitions: i32) -> Self {
        let state = State {
            brokers: Vec::new(),
            topic: "t".to_owned(),
            topic_id: Uuid([7; 16]),
            parts: (0..partitions)
                .map(|index| Part { leader: index % brokers + 1, ..Part::default() })
                .collect(),
            next_producer_id: 1000,
            first_epoch: 0,
            init_errors: VecDeque::new(),
            init_requests: 0,
            produce_max: 13,
            knows_init: true,
            batch_bytes_max: usize::MAX,
            seen: Vec::new(),
            metadata_requests: 0,
            frozen: false,
            down: Vec::new(),
            jitter_us: 0,
            max_produce_bytes: 0,
            streams: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        for id in 1..=brokers {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = listener.local_addr().expect("an address").port();
            shared.state.lock().brokers.push((id, port));
            let theirs = Arc::clone(&shared);
            threads::spawn("fake-listen", move || listen(&theirs, id, &listener)).expect("thread");
        }
        Self { shared }
    }

    /// For `bootstrap.servers`.
    pub(super) fn bootstrap(&self) -> String {
        let state = self.shared.state.lock();
        let all: Vec<_> =
            state.brokers.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
        all.join(",")
    }

    /// Changes or reads the state.
    pub(super) fn with<T>(&self, body: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.state.lock();
        let result = body(&mut state);
        drop(state);
        self.shared.changed.notify_all();
        result
    }

    /// Waits until `ready` says so.
    pub(super) fn wait_until(&self, what: &str, mut ready: impl FnMut(&State) -> bool) {
        let deadline = Deadline::within(PATIENCE);
        let mut state = self.shared.state.lock();
        while !ready(&state) {
            let timed_out = self.shared.changed.wait_until(&mut state, deadline.instant());
            assert!(!timed_out.timed_out() || ready(&state), "not in time: {what}");
        }
    }

    /// No broker answers any request until thawed.
    pub(super) fn freeze(&self, frozen: bool) {
        self.with(|state| state.frozen = frozen);
    }

    /// Closes all connections of a broker and accepts none.
    pub(super) fn stop(&self, broker: i32) {
        self.with(|state| {
            state.down.push(broker);
            state.cut(broker);
        });
    }

    /// Accepts connections again.
    pub(super) fn restart(&self, broker: i32) {
        self.with(|state| state.down.retain(|down| *down != broker));
    }
}

impl State {
    pub(super) fn fault(&mut self, partition: usize, fault: Fault) {
        self.parts[partition].faults.push_back(fault);
    }

    pub(super) fn lead(&mut self, partition: usize, broker: i32) {
        self.parts[partition].leader = broker;
        self.parts[partition].epoch += 1;
    }

    pub(super) fn add_partition(&mut self, leader: i32) {
        self.parts.push(Part { leader, ..Part::default() });
    }

    /// Deletes the topic and makes it again with so many partitions.
    pub(super) fn recreate(&mut self, partitions: usize) {
        self.topic_id = Uuid([self.topic_id.0[0] + 1; 16]);
        self.parts = vec![Part { leader: 1, ..Part::default() }; partitions];
    }

    pub(super) fn cut(&mut self, broker: i32) {
        for (id, stream) in &self.streams {
            if *id == broker {
                // Fails only when the client has closed it already.
                let _closed = stream.shutdown(Shutdown::Both);
            }
        }
        self.streams.retain(|(id, _)| *id != broker);
    }

    /// Batches stored in a partition, in order.
    pub(super) fn log(&self, partition: usize) -> &[(i64, Vec<u8>)] {
        &self.parts[partition].log
    }

    fn metadata(&mut self, request: &MetadataRequest) -> MetadataResponse {
        self.metadata_requests += 1;
        let up = self.brokers.iter().filter(|(id, _)| !self.down.contains(id));
        let brokers = up
            .map(|(id, port)| MetadataResponseBroker {
                node_id: *id,
                host: "127.0.0.1".to_owned(),
                port: i32::from(*port),
                ..MetadataResponseBroker::default()
            })
            .collect();
        let wanted: Vec<String> = match &request.topics {
            None => vec![self.topic.clone()],
            Some(topics) => topics.iter().filter_map(|topic| topic.name.clone()).collect(),
        };
        let topics = wanted
            .into_iter()
            .map(|name| {
                if name != self.topic {
                    return MetadataResponseTopic {
                        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                        name: Some(name),
                        ..MetadataResponseTopic::default()
                    };
                }
                let partitions = self.parts.iter().enumerate().map(|(index, part)| {
                    let leaderless = part.leader < 0;
                    MetadataResponsePartition {
                        error_code: if leaderless {
                            ErrorCode::LEADER_NOT_AVAILABLE
                        } else {
                            ErrorCode::NONE
                        },
                        partition_index: index as i32,
                        leader_id: part.leader,
                        leader_epoch: part.epoch,
                        replica_nodes: vec![1],
                        isr_nodes: vec![1],
                        ..MetadataResponsePartition::default()
                    }
                });
                MetadataResponseTopic {
                    name: Some(name),
                    topic_id: self.topic_id,
                    partitions: partitions.collect(),
                    ..MetadataResponseTopic::default()
                }
            })
            .collect();
        MetadataResponse {
            brokers,
            cluster_id: Some("fake".to_owned()),
            controller_id: 1,
            topics,
            ..MetadataResponse::default()
        }
    }

    fn init_producer_id(&mut self) -> InitProducerIdResponse {
        self.init_requests += 1;
        if let Some(error_code) = self.init_errors.pop_front() {
            return InitProducerIdResponse {
                error_code,
                producer_id: -1,
                producer_epoch: -1,
                ..InitProducerIdResponse::default()
            };
        }
        self.next_producer_id += 1;
        InitProducerIdResponse {
            producer_id: self.next_producer_id,
            producer_epoch: std::mem::take(&mut self.first_epoch),
            ..InitProducerIdResponse::default()
        }
    }

    fn api_versions(&self) -> ApiVersionsResponse {
        let mut keys = vec![
            (ApiKey::PRODUCE, 0, self.produce_max),
            (ApiKey::METADATA, 0, 13),
            (ApiKey::API_VERSIONS, 0, 3),
        ];
        if self.knows_init {
            keys.push((ApiKey::INIT_PRODUCER_ID, 0, 5));
        }
        ApiVersionsResponse {
            api_keys: keys
                .into_iter()
                .map(|(key, min_version, max_version)| ApiVersion {
                    api_key: key.0,
                    min_version,
                    max_version,
                    ..ApiVersion::default()
                })
                .collect(),
            ..ApiVersionsResponse::default()
        }
    }

    /// `None`: the connection is to be closed.
    fn produce(
        &mut self,
        broker: i32,
        version: i16,
        request: &ProduceRequest,
    ) -> Option<ProduceResponse> {
        let mut close = false;
        let responses = request
            .topic_data
            .iter()
            .map(|topic| {
                let partition_responses = topic
                    .partition_data
                    .iter()
                    .map(|data| {
                        let records: &[u8] = data.records.as_deref().unwrap_or_default();
                        let seen = Seen {
                            broker,
                            partition: data.index,
                            topic_id: topic.topic_id,
                            version,
                            producer_id: be(records, 43, 8),
                            epoch: be(records, 51, 2) as i16,
                            sequence: be(records, 53, 4) as i32,
                            count: be(records, 57, 4) as i32,
                            bytes: records.to_vec(),
                        };
                        self.seen.push(seen.clone());
                        self.max_produce_bytes = self.max_produce_bytes.max(records.len());
                        let named = version < 13 && topic.name == self.topic
                            || version >= 13 && topic.topic_id == self.topic_id;
                        let (code, base_offset, bad, log_start) = if named {
                            self.append(broker, seen, &mut close)
                        } else {
                            let code = if version >= 13 {
                                ErrorCode::UNKNOWN_TOPIC_ID
                            } else {
                                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                            };
                            (code, -1, Vec::new(), -1)
                        };
                        let part = self.parts.get(data.index as usize);
                        let current_leader = match part {
                            Some(part)
                                if code == ErrorCode::NOT_LEADER_OR_FOLLOWER && version >= 10 =>
                            {
                                LeaderIdAndEpoch {
                                    leader_id: part.leader,
                                    leader_epoch: part.epoch,
                                    ..LeaderIdAndEpoch::default()
                                }
                            }
                            _ => LeaderIdAndEpoch::default(),
                        };
                        PartitionProduceResponse {
                            index: data.index,
                            error_code: code,
                            base_offset,
                            log_start_offset: log_start,
                            record_errors: bad
                                .into_iter()
                                .map(|batch_index| {
                                    crate::protocol::messages::BatchIndexAndErrorMessage {
                                        batch_index,
                                        batch_index_error_message: Some("bad record".to_owned()),
                                        ..Default::default()
                                    }
                                })
                                .collect(),
                            current_leader,
                            ..PartitionProduceResponse::default()
                        }
                    })
                    .collect();
                TopicProduceResponse {
                    name: if version < 13 { topic.name.clone() } else { String::new() },
                    topic_id: topic.topic_id,
                    partition_responses,
                    ..TopicProduceResponse::default()
                }
            })
            .collect();
        (!close).then(|| ProduceResponse { responses, ..ProduceResponse::default() })
    }

    fn append(
        &mut self,
        broker: i32,
        seen: Seen,
        close: &mut bool,
    ) -> (ErrorCode, i64, Vec<i32>, i64) {
        let refuse = |code| (code, -1, Vec::new(), -1);
        let batch_bytes_max = self.batch_bytes_max;
        let Some(part) = self.parts.get_mut(seen.partition as usize) else {
            return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        };
        if part.leader != broker {
            return refuse(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        if seen.bytes.len() > batch_bytes_max {
            return refuse(ErrorCode::MESSAGE_TOO_LARGE);
        }
        let fault = part.faults.pop_front();
        match &fault {
            Some(Fault::Code(code)) => return refuse(*code),
            Some(Fault::BadRecords(bad)) => {
                return (ErrorCode::INVALID_RECORD, -1, bad.clone(), -1);
            }
            Some(Fault::Close) => {
                *close = true;
                return refuse(ErrorCode::NONE);
            }
            Some(Fault::Forget(log_start)) => {
                part.producers.clear();
                return (ErrorCode::UNKNOWN_PRODUCER_ID, -1, Vec::new(), *log_start);
            }
            Some(Fault::StoreAndClose) => *close = true,
            Some(Fault::StoredBut(_)) | None => {}
        }
        let base = match part.store(seen) {
            Ok(base) => base,
            Err(code) => return refuse(code),
        };
        match fault {
            Some(Fault::StoredBut(code)) => refuse(code),
            _ => (ErrorCode::NONE, base, Vec::new(), 0),
        }
    }
}

impl Part {
    fn store(&mut self, seen: Seen) -> Result<i64, ErrorCode> {
        let last = seen.sequence.wrapping_add(seen.count - 1);
        if seen.producer_id >= 0 {
            if let Some(known) = self.producers.get(&seen.producer_id) {
                let entry = (seen.epoch, seen.sequence, last);
                let same = known.recent.iter().find(|(e, f, l, _)| (*e, *f, *l) == entry);
                if let Some((_, _, _, base)) = same {
                    return Ok(*base);
                }
                if seen.epoch < known.epoch {
                    return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
                }
                let expected = if seen.epoch > known.epoch { 0 } else { known.last + 1 };
                if seen.sequence != expected {
                    return Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
                }
            }
            let known = self.producers.entry(seen.producer_id).or_insert_with(|| Producers {
                epoch: seen.epoch,
                last,
                recent: VecDeque::new(),
            });
            (known.epoch, known.last) = (seen.epoch, last);
            known.recent.push_back((seen.epoch, seen.sequence, last, self.next_offset));
            if known.recent.len() > REMEMBERED {
                known.recent.pop_front();
            }
        }
        let base = self.next_offset;
        self.next_offset += i64::from(seen.count);
        self.log.push((base, seen.bytes));
        Ok(base)
    }
}

/// The big-endian integer of `size` bytes at `at`; the caller's cast makes the sign.
fn be(bytes: &[u8], at: usize, size: usize) -> i64 {
    bytes[at..at + size].iter().fold(0, |all, byte| all << 8 | i64::from(*byte))
}

fn listen(shared: &Arc<Shared>, broker: i32, listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        let mut state = shared.state.lock();
        if state.down.contains(&broker) {
            continue;
        }
        state.streams.push((broker, stream.try_clone().expect("a second handle")));
        drop(state);
        let theirs = Arc::clone(shared);
        threads::spawn("fake-serve", move || serve(&theirs, broker, stream)).expect("thread");
    }
}

fn serve(shared: &Shared, broker: i32, mut stream: TcpStream) {
    stream.set_nodelay(true).expect("an option");
    loop {
        let mut size = [0; 4];
        if stream.read_exact(&mut size).is_err() {
            return;
        }
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        if stream.read_exact(&mut frame).is_err() {
            return;
        }
        match handle(shared, broker, &Bytes::from(frame)) {
            Reply::Answer(bytes) => {
                if stream.write_all(&bytes).is_err() {
                    return;
                }
            }
            Reply::Nothing => {}
            Reply::Close => {
                // Fails only when the client has closed it already.
                let _closed = stream.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}

fn handle(shared: &Shared, broker: i32, frame: &Bytes) -> Reply {
    let mut reader = Reader::shared(frame);
    let header = RequestHeader::decode(&mut reader).expect("a request header");
    let version = header.version;
    let mut state = shared.state.lock();
    let jitter = state.jitter_us;
    if jitter > 0 && header.api == ApiKey::PRODUCE {
        drop(state);
        threads::pause(Duration::from_micros(fastrand::u64(..jitter)));
        state = shared.state.lock();
    }
    while state.frozen && header.api != ApiKey::API_VERSIONS {
        shared.changed.wait(&mut state);
    }
    let reply = match header.api {
        ApiKey::API_VERSIONS => answer(&header, &state.api_versions()),
        ApiKey::METADATA => {
            let request = MetadataRequest::decode(&mut reader, version).expect("a request");
            let response = state.metadata(&request);
            answer(&header, &response)
        }
        ApiKey::INIT_PRODUCER_ID => {
            let response = state.init_producer_id();
            answer(&header, &response)
        }
        ApiKey::PRODUCE => {
            let request = ProduceRequest::decode(&mut reader, version).expect("a request");
            match state.produce(broker, version, &request) {
                None => Reply::Close,
                Some(_) if request.acks == 0 => Reply::Nothing,
                Some(response) => answer(&header, &response),
            }
        }
        _ => Reply::Close,
    };
    drop(state);
    shared.changed.notify_all();
    reply
}

fn answer<M: Message>(header: &RequestHeader, response: &M) -> Reply {
    let mut writer = Writer::new();
    writer.put_be(0_i32.to_be_bytes());
    ResponseHeader {
        correlation_id: header.correlation_id,
        tagged_fields: TaggedFields::default(),
    }
    .encode(&mut writer, header.api, header.version)
    .expect("a header");
    response.encode(&mut writer, header.version).expect("a response");
    let size = writer.len() as i32 - 4;
    writer.set_i32(0, size);
    Reply::Answer(writer.into_vec())
}
