//! What each fuzz target does with its bytes: one function per decoder.
//!
//! Any bytes must give a value or an error: no panic, no memory beyond a multiple of the input. A value
//! must survive the wire: encoded and decoded again it is the same, and its bytes are the same. The
//! targets in `fuzz_targets/` call these functions; so does a test of the crate itself, which replays
//! the kept corpus without libFuzzer.

use std::fmt::Debug;

use ottla::net::Address;
use ottla::protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiVersionsRequest,
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ConsumerProtocolAssignment,
    ConsumerProtocolSubscription, CreatePartitionsRequest, CreateTopicsRequest,
    DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeClusterRequest,
    DescribeConfigsRequest, DescribeGroupsRequest, DescribeProducersRequest,
    DescribeTransactionsRequest, EndTxnRequest, FetchRequest, FindCoordinatorRequest,
    HeartbeatRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest,
    LeaveGroupRequest, ListGroupsRequest, ListOffsetsRequest, ListTransactionsRequest,
    MetadataRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
    SyncGroupRequest, TxnOffsetCommitRequest,
};
use ottla::protocol::records::{
    BATCH_HEAD_BYTES, BatchBuilder, Compression, Compressor, Decompressor, Header, RecordBatch,
    RecordBatches, RecordView, Records,
};
use ottla::protocol::{
    ApiKey, Bytes, Decoded, Message, Reader, Request, RequestHeader, ResponseHeader, Writer,
};
use ottla::work::{TopicPartition, UnitId, WorkerId};

/// A target: its name, which is also that of its corpus, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// An API of a target that takes several: its key, and what decodes it.
type Member = (ApiKey, fn(&[u8]));

/// The targets that take several APIs. The first byte of an input says which, the rest is as for [`api`].
const FAMILIES: &[(&str, &[Member])] =
    &[("groups", GROUPS), ("transactions", TRANSACTIONS), ("administration", ADMINISTRATION)];

const GROUPS: &[Member] = &[
    member::<JoinGroupRequest>(),
    member::<SyncGroupRequest>(),
    member::<HeartbeatRequest>(),
    member::<LeaveGroupRequest>(),
    member::<DescribeGroupsRequest>(),
    member::<ListGroupsRequest>(),
    member::<DeleteGroupsRequest>(),
    member::<OffsetDeleteRequest>(),
    member::<ConsumerGroupHeartbeatRequest>(),
    member::<ConsumerGroupDescribeRequest>(),
];

const TRANSACTIONS: &[Member] = &[
    member::<AddPartitionsToTxnRequest>(),
    member::<AddOffsetsToTxnRequest>(),
    member::<TxnOffsetCommitRequest>(),
    member::<EndTxnRequest>(),
    member::<DescribeProducersRequest>(),
    member::<ListTransactionsRequest>(),
    member::<DescribeTransactionsRequest>(),
];

const ADMINISTRATION: &[Member] = &[
    member::<CreatePartitionsRequest>(),
    member::<DeleteRecordsRequest>(),
    member::<DescribeConfigsRequest>(),
    member::<IncrementalAlterConfigsRequest>(),
    member::<DescribeClusterRequest>(),
    member::<OffsetForLeaderEpochRequest>(),
    member::<SaslHandshakeRequest>(),
    member::<SaslAuthenticateRequest>(),
];

macro_rules! targets {
    ($($(#[$doc:meta])* $name:ident: $decode:expr;)+) => {
        /// Every target.
        pub const TARGETS: &[Target] = &[$((stringify!($name), $name)),+];

        $(
            $(#[$doc])*
            pub fn $name(data: &[u8]) {
                ($decode)(data);
            }
        )+
    };
}

targets! {
    /// Produce, both directions, every version.
    produce: api::<ProduceRequest>;
    /// Fetch, both directions, every version.
    fetch: api::<FetchRequest>;
    /// `ListOffsets`, both directions, every version.
    list_offsets: api::<ListOffsetsRequest>;
    /// Metadata, both directions, every version.
    metadata: api::<MetadataRequest>;
    /// `OffsetCommit`, both directions, every version.
    offset_commit: api::<OffsetCommitRequest>;
    /// `OffsetFetch`, both directions, every version.
    offset_fetch: api::<OffsetFetchRequest>;
    /// `FindCoordinator`, both directions, every version.
    find_coordinator: api::<FindCoordinatorRequest>;
    /// `ApiVersions`, both directions, every version.
    api_versions: api::<ApiVersionsRequest>;
    /// `CreateTopics`, both directions, every version.
    create_topics: api::<CreateTopicsRequest>;
    /// `DeleteTopics`, both directions, every version.
    delete_topics: api::<DeleteTopicsRequest>;
    /// `InitProducerId`, both directions, every version.
    init_producer_id: api::<InitProducerIdRequest>;
    /// The APIs of groups, both directions, every version.
    groups: |data| one_of(GROUPS, data);
    /// The APIs of transactions, both directions, every version.
    transactions: |data| one_of(TRANSACTIONS, data);
    /// The other APIs of administrators, leader epochs and SASL, both directions, every version.
    administration: |data| one_of(ADMINISTRATION, data);
    /// What consumers put into the opaque bytes of the classic group protocol.
    consumer_protocol: read_consumer_protocol;
    /// The header of any request.
    request_header: read_request_header;
    /// The header of any response.
    response_header: read_response_header;
    /// A record set of any formats.
    record_set: read_record_set;
    /// A record batch whose records are gzip data.
    gzip: |data| read_compressed(Compression::Gzip, data);
    /// A record batch whose records are snappy data.
    snappy: |data| read_compressed(Compression::Snappy, data);
    /// A record batch whose records are an LZ4 frame.
    lz4: |data| read_compressed(Compression::Lz4, data);
    /// A record batch whose records are zstd data.
    zstd: |data| read_compressed(Compression::Zstd, data);
    /// A broker's address, and a list of them.
    address: read_address;
    /// Identities in the work queue: units, partitions, workers.
    unit_id: read_unit_id;
}

/// The target of an API, and the input that makes it decode this body.
///
/// # Panics
/// When the API has no target.
pub fn seed(api: ApiKey, is_response: bool, version: i16, body: &[u8]) -> (&'static str, Vec<u8>) {
    let family = FAMILIES.iter().find_map(|(target, members)| {
        let index = members.iter().position(|(member, _)| *member == api)?;
        Some((*target, vec![index as u8]))
    });
    let (target, mut input) = family.unwrap_or_else(|| {
        // `ListOffsets` and `list_offsets`.
        let name = api.to_string().to_lowercase();
        let same = |target: &&Target| target.0.replace('_', "") == name;
        (TARGETS.iter().find(same).expect("every API has a target").0, Vec::new())
    });
    input.push((version as u8) << 1 | u8::from(is_response));
    input.extend_from_slice(body);
    (target, input)
}

const fn member<R>() -> Member
where
    R: Request + PartialEq + Debug,
    R::Response: PartialEq + Debug,
{
    (R::API, api::<R>)
}

fn one_of(members: &[Member], data: &[u8]) {
    let Some((index, rest)) = data.split_first() else { return };
    if let Some((_, decode)) = members.get(usize::from(*index) % members.len()) {
        decode(rest);
    }
}

/// A peer's bytes at the in-process broker: the first byte chooses the broker, frames follow.
#[cfg(feature = "broker")]
pub const BROKER: Target = ("broker", broker);

/// See [`BROKER`].
#[cfg(feature = "broker")]
pub fn broker(data: &[u8]) {
    ottla::broker::replay(data);
}

/// The first byte says direction and version, the rest is the body.
fn api<R>(data: &[u8])
where
    R: Request + PartialEq + Debug,
    R::Response: PartialEq + Debug,
{
    let Some((selector, body)) = data.split_first() else { return };
    let versions = R::VERSIONS.max - R::VERSIONS.min + 1;
    let version = R::VERSIONS.min + i16::from(selector >> 1) % versions;
    if selector & 1 == 0 {
        message::<R>(body, version);
    } else {
        message::<R::Response>(body, version);
    }
}

fn message<M: Message + PartialEq + Debug>(body: &[u8], version: i16) {
    let shared = M::decode_all(&Bytes::from(body), version);
    let mut reader = Reader::new(body);
    let copied = M::decode(&mut reader, version).and_then(|m| reader.finish().map(|()| m));
    assert_eq!(shared, copied, "whether payloads are shared or copied");
    match shared {
        Ok(message) => {
            let bytes = encoded(&message, version);
            let again = M::decode_all(&bytes, version);
            assert_eq!(again.as_ref(), Ok(&message));
            assert_eq!(encoded(&message, version), bytes);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn encoded<M: Message>(message: &M, version: i16) -> Bytes {
    let mut writer = Writer::new();
    message.encode(&mut writer, version).expect("what was decoded can be encoded");
    Bytes::from(writer.into_vec())
}

/// A payload of a newer version is read as the newest known one, so only what was read survives.
fn read_consumer_protocol(data: &[u8]) {
    let data = Bytes::from(data);
    if let Ok(read) = ConsumerProtocolSubscription::from_payload(&data) {
        let payload = read.to_payload(ConsumerProtocolSubscription::VERSIONS.max);
        let again = payload.map(|payload| ConsumerProtocolSubscription::from_payload(&payload));
        assert_eq!(again, Ok(Ok(read)));
    }
    if let Ok(read) = ConsumerProtocolAssignment::from_payload(&data) {
        let payload = read.to_payload(ConsumerProtocolAssignment::VERSIONS.max);
        let again = payload.map(|payload| ConsumerProtocolAssignment::from_payload(&payload));
        assert_eq!(again, Ok(Ok(read)));
    }
}

fn read_request_header(data: &[u8]) {
    header(data, RequestHeader::decode, |header, writer| {
        header.encode(writer).expect("what was decoded can be encoded");
    });
}

/// The first two bytes are the API, the next the version.
fn read_response_header(data: &[u8]) {
    let Some(([high, low, version], rest)) = data.split_first_chunk() else { return };
    let (api, version) = (ApiKey(i16::from_be_bytes([*high, *low])), i16::from(*version));
    header(
        rest,
        |reader| ResponseHeader::decode(reader, api, version),
        |header, writer| {
            header.encode(writer, api, version).expect("what was decoded can be encoded");
        },
    );
}

fn header<H: PartialEq + Debug>(
    data: &[u8],
    decode: impl Fn(&mut Reader<'_>) -> Decoded<H>,
    encode: impl Fn(&H, &mut Writer),
) {
    let Ok(header) = decode(&mut Reader::new(data)) else { return };
    let mut writer = Writer::new();
    encode(&header, &mut writer);
    let bytes = writer.into_vec();
    let mut reader = Reader::new(&bytes);
    assert_eq!(decode(&mut reader), Ok(header));
    assert_eq!(reader.remaining(), 0);
}

/// What a batch may have when decompressed.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;

/// Checksums are not checked: hardly any input would get further.
fn read_record_set(data: &[u8]) {
    let mut decompressor = Decompressor::with_limit(DECOMPRESSED_BYTES_MAX);
    let mut batches = RecordBatches::new(Bytes::from(data)).without_crc_check();
    for batch in &mut batches {
        let Ok(batch) = batch else { continue };
        let _ = batch.control_kind(&mut decompressor);
        if let Ok(records) = batch.records(&mut decompressor) {
            assert!(records.bytes().len() <= data.len().max(DECOMPRESSED_BYTES_MAX));
            read_records(&batch, &records);
        }
    }
    if let Some(incomplete) = batches.incomplete() {
        assert!(incomplete.present < incomplete.needed);
    }
}

fn read_records(batch: &RecordBatch, records: &Records) {
    // That offsets ascend is the broker's to see to; Kafka's own reader does not check it either.
    for record in records.iter().map_while(Result::ok) {
        assert!(record.offset <= batch.last_offset());
        survives_writing(&record);
    }
}

/// A record that was read can be written and is the same when read again.
fn survives_writing(record: &RecordView<'_>) {
    let mut headers = Vec::new();
    for header in record.headers {
        let Ok(key) = std::str::from_utf8(header.key_bytes) else { return };
        headers.push(Header { key, value: header.value });
    }
    let mut builder = BatchBuilder::new(Vec::new());
    builder
        .append(record.timestamp_ms, record.key, record.value, &headers)
        .expect("what was read can be written");
    let batch = builder
        .finish(Compression::None, None, &mut Compressor::new())
        .expect("nothing to compress");
    let mut batches = RecordBatches::new(Bytes::from(batch));
    let batch = batches.next().expect("one batch").expect("a good one");
    let records = batch.records(&mut Decompressor::new()).expect("good records");
    let again = records.iter().next().expect("one record").expect("a good one");
    assert_eq!(again.timestamp_ms, record.timestamp_ms);
    assert_eq!((again.key, again.value), (record.key, record.value));
    assert!(again.headers.iter().eq(record.headers.iter()));
}

/// Bytes of the number of records, which the seeds of [`read_compressed`] begin with.
const COUNT_BYTES: usize = 2;

/// The first two bytes are the number of records, the rest is what the codec is to decompress.
fn read_compressed(codec: Compression, data: &[u8]) {
    let Some((count, data)) = data.split_first_chunk::<COUNT_BYTES>() else { return };
    let count = i32::from(u16::from_be_bytes(*count));
    let mut batch = vec![0; BATCH_HEAD_BYTES];
    let length = BATCH_HEAD_BYTES - 12 + data.len();
    batch[8..12].copy_from_slice(&(length as i32).to_be_bytes());
    batch[16] = 2;
    batch[22] = codec.id();
    batch[23..27].copy_from_slice(&(count - 1).max(0).to_be_bytes());
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    batch.extend_from_slice(data);
    read_record_set(&batch);
}

fn read_address(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string().parse().ok(), Some(address));
    }
    if let Ok(addresses) = Address::parse_list(text) {
        let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(Address::parse_list(&list.join(",")).ok(), Some(addresses));
    }
}

/// An identity has one spelling only: the queue removes entries by their text.
fn read_unit_id(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(unit) = text.parse::<UnitId>() {
        assert_eq!(unit.to_string(), text);
        assert!(unit.len() > 0);
        let partition = unit.topic_partition();
        assert_eq!(partition.to_string().parse().as_ref(), Ok(partition));
        assert_eq!(partition.unit(unit.start(), unit.end()).as_ref(), Ok(&unit));
    }
    if let Ok(partition) = text.parse::<TopicPartition>() {
        assert_eq!(partition.to_string(), text);
    }
    if let Ok(worker) = text.parse::<WorkerId>() {
        assert_eq!(worker.to_string(), text);
    }
}
