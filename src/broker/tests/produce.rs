//! Produce: checks, idempotence, transactions, settings.

use super::asking::{Asking, NOW_MS, batch, of_producer, produce};
use crate::broker::Release;
use crate::broker::call::Outcome;
use crate::protocol::messages::{
    DescribeProducersRequest, InitProducerIdRequest, ListOffsetsPartition, ListOffsetsRequest,
    ListOffsetsTopic, TopicRequest,
};
use crate::protocol::records::{RecordBatches, TimestampType};
use crate::protocol::{Bytes, ErrorCode};

#[test]
fn a_batch_that_is_not_whole_is_refused_for_the_reason_that_kafka_gives() {
    let mut kafka = Asking::new(Release::V4_4);
    let good = batch(&["a", "b"]);
    let changed = |at: usize, bytes: &[u8]| {
        let mut batch = good.clone();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        Bytes::from(batch)
    };
    let with_crc = |at: usize, bytes: &[u8]| {
        let mut batch = good.clone();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        let crc = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
        Bytes::from(batch)
    };
    let twice = Bytes::from([good.clone(), good.clone()].concat());
    let cases = [
        (Bytes::new(), ErrorCode::INVALID_RECORD),
        (twice, ErrorCode::INVALID_RECORD),
        (changed(16, &[1]), ErrorCode::INVALID_RECORD),
        (changed(16, &[3]), ErrorCode::CORRUPT_MESSAGE),
        (changed(0, &[0, 0, 0, 0, 0, 0, 0, 5]), ErrorCode::INVALID_RECORD),
        (changed(60, &[9]), ErrorCode::CORRUPT_MESSAGE),
        (with_crc(57, &[0, 0, 0, 9]), ErrorCode::INVALID_RECORD),
        (with_crc(57, &[0, 0, 0, 0]), ErrorCode::INVALID_RECORD),
        (with_crc(23, &[0xff; 4]), ErrorCode::INVALID_RECORD),
        (with_crc(22, &[0x20]), ErrorCode::INVALID_RECORD),
        (with_crc(43, &[0, 0, 0, 0, 0, 0, 0, 1]), ErrorCode::INVALID_RECORD),
        (Bytes::from(&good[..40]), ErrorCode::INVALID_RECORD),
    ];
    for (index, (records, code)) in cases.into_iter().enumerate() {
        let row = kafka.produce(0, records);
        assert_eq!((row.error_code, row.base_offset), (code, -1), "case {index}");
    }
    assert_eq!(kafka.produce(0, Bytes::from(good.clone())).error_code, ErrorCode::NONE);
    let row = kafka.produce(1, Bytes::from(good.clone()));
    assert_eq!(row.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!((row.current_leader.leader_id, row.current_leader.leader_epoch), (2, 0));
    let row = kafka.produce(7, Bytes::from(good.clone()));
    assert_eq!(row.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let row = kafka.produce_as(12, 5, 0, Bytes::from(good));
    assert_eq!(row.error_code, ErrorCode::INVALID_REQUIRED_ACKS);
}

#[test]
fn without_acks_there_is_silence_or_an_end() {
    let mut kafka = Asking::new(Release::V4_4);
    let mut good = produce(0, 0, Bytes::from(batch(&["a"])));
    assert!(matches!(kafka.run(&mut good, 12, None), Outcome::Silence));
    let mut bad = produce(0, 1, Bytes::from(batch(&["a"])));
    assert!(matches!(kafka.run(&mut bad, 12, None), Outcome::Close(_)));
}

#[test]
fn a_producer_is_held_to_its_sequence() {
    let mut kafka = Asking::new(Release::V4_4);
    let id = kafka.ask(InitProducerIdRequest { transactional_id: None, ..Default::default() }, 5);
    assert_eq!((id.error_code, id.producer_epoch), (ErrorCode::NONE, 0));
    let id = id.producer_id;
    let mut send = |epoch, sequence, count| {
        let row = kafka.produce(0, of_producer((id, epoch, sequence), count, false));
        (row.error_code, row.base_offset)
    };
    let out_of_order = (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
    assert_eq!(send(1, 7, 2), (ErrorCode::NONE, 0), "an unknown producer may begin anywhere");
    assert_eq!(send(1, 9, 1), (ErrorCode::NONE, 2));
    assert_eq!(send(1, 7, 2), (ErrorCode::NONE, 0), "a repetition");
    assert_eq!(send(1, 8, 2), out_of_order);
    assert_eq!(send(1, 11, 1), out_of_order);
    for sequence in 10..14 {
        assert_eq!(send(1, sequence, 1), (ErrorCode::NONE, i64::from(sequence - 7)));
    }
    assert_eq!(send(1, 7, 2), out_of_order, "six batches ago");
    assert_eq!(send(0, 14, 1), (ErrorCode::INVALID_PRODUCER_EPOCH, -1));
    assert_eq!(send(2, 14, 1), out_of_order, "a new epoch begins at 0");
    assert_eq!(send(2, 0, 1), (ErrorCode::NONE, 7));
    let asked =
        TopicRequest { name: "t".to_owned(), partition_indexes: vec![0, 1], ..Default::default() };
    let told = kafka.ask(DescribeProducersRequest { topics: vec![asked], ..Default::default() }, 0);
    let rows = &told.topics[0].partitions;
    let producer = &rows[0].active_producers[0];
    assert_eq!((producer.producer_epoch, producer.last_sequence), (2, 0));
    // Every replica answers, not the leader alone.
    assert_eq!(rows[1].error_code, ErrorCode::NONE);
    assert_eq!(rows[1].active_producers, []);
}

#[test]
fn sequence_numbers_go_around() {
    let mut kafka = Asking::new(Release::V4_4);
    let mut send =
        |sequence, count| kafka.produce(0, of_producer((5, 0, sequence), count, false)).error_code;
    assert_eq!(send(i32::MAX - 1, 4), ErrorCode::NONE);
    assert_eq!(send(2, 1), ErrorCode::NONE);
    assert_eq!(send(2, 1), ErrorCode::NONE, "a repetition");
    assert_eq!(send(4, 1), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
}

#[test]
fn before_kip_360_an_unknown_producer_must_begin_at_0() {
    let mut kafka = Asking::new(Release::V2_1);
    let mut send =
        |sequence| kafka.produce_as(7, -1, 0, of_producer((5, 0, sequence), 1, false)).error_code;
    assert_eq!(send(3), ErrorCode::UNKNOWN_PRODUCER_ID);
    assert_eq!(send(0), ErrorCode::NONE);
}

#[test]
fn settings_of_the_topic_are_kept_to() {
    let mut kafka = Asking::with(
        Release::V4_4,
        &[
            ("message.timestamp.type", "LogAppendTime"),
            ("max.message.bytes", "200"),
            ("min.insync.replicas", "2"),
            ("retention.bytes", "150"),
        ],
    );
    let row = kafka.produce(0, Bytes::from(batch(&["a", "b"])));
    assert_eq!((row.error_code, row.log_append_time_ms), (ErrorCode::NONE, NOW_MS));
    let seen = kafka.fetch(0, false).records.expect("records");
    let stored = RecordBatches::new(seen).next().expect("one").expect("its checksum is right");
    assert_eq!(stored.timestamp_type(), TimestampType::LogAppendTime);
    let large = "x".repeat(200);
    let row = kafka.produce(0, Bytes::from(batch(&[&large])));
    assert_eq!(row.error_code, ErrorCode::MESSAGE_TOO_LARGE);
    for _ in 0..5 {
        kafka.produce(0, Bytes::from(batch(&["a"])));
    }
    let log = &kafka.state.partition("t", 0).expect("it is there").log;
    assert!((150..300).contains(&log.bytes()) && log.start() > 0, "{} bytes", log.bytes());
    kafka.state.broker_stopped(2);
    let row = kafka.produce(0, Bytes::from(batch(&["a"])));
    assert_eq!(row.error_code, ErrorCode::NOT_ENOUGH_REPLICAS);
    let row = kafka.produce_as(12, 1, 0, Bytes::from(batch(&["a"])));
    assert_eq!(row.error_code, ErrorCode::NONE);
}

#[test]
fn a_compacted_topic_names_the_records_without_a_key() {
    use crate::protocol::records::{BatchBuilder, Compression, Compressor};
    let mut kafka = Asking::with(Release::V4_4, &[("cleanup.policy", "compact")]);
    let mut builder = BatchBuilder::new(Vec::new());
    for key in [Some(&b"k"[..]), None] {
        builder.append(NOW_MS, key, Some(b"v"), &[]).expect("room");
    }
    let batch = builder.finish(Compression::Lz4, None, &mut Compressor::new()).expect("a batch");
    let row = kafka.produce(0, Bytes::from(batch));
    assert_eq!(row.error_code, ErrorCode::INVALID_RECORD);
    assert_eq!(row.record_errors.len(), 1);
    assert_eq!(row.record_errors[0].batch_index, 1);
    assert!(row.error_message.expect("words").contains("1 record errors in total"));
}

#[test]
fn records_from_the_future_are_refused_by_kafka_4_only() {
    for (release, code) in
        [(Release::V4_4, ErrorCode::INVALID_TIMESTAMP), (Release::V3_9, ErrorCode::NONE)]
    {
        let mut kafka = Asking::new(release);
        kafka.now_ms = NOW_MS - 2 * 3600 * 1000;
        let row = kafka.produce_as(11, -1, 0, Bytes::from(batch(&["a"])));
        assert_eq!(row.error_code, code);
    }
}

#[test]
fn what_goes_beyond_the_bound_of_the_cluster_is_refused_in_words() {
    let mut kafka = Asking::new(Release::V4_4);
    let large = "x".repeat(300_000);
    let codes: Vec<ErrorCode> =
        (0..4).map(|_| kafka.produce(0, Bytes::from(batch(&[&large]))).error_code).collect();
    let (none, full) = (ErrorCode::NONE, ErrorCode::POLICY_VIOLATION);
    assert_eq!(codes, [none, none, none, full]);
    kafka.state.delete_topic("t");
    assert_eq!(kafka.state.meter().bytes(), 0, "a log that goes gives its bytes back");
}

#[test]
fn an_old_client_writes_messages_and_reads_messages() {
    use crate::protocol::records::Decompressor;
    let mut kafka = Asking::new(Release::V3_9);
    let hello = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x1b, 0x94, 0x2d, 0xa3, 0x41, 1, 0, 0, 0, 0, 0, 0, 0, 3,
        0xe8, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 5, b'h', b'e', b'l', b'l', b'o',
    ];
    let row = kafka.produce_as(2, 1, 0, Bytes::from([hello, hello].concat()));
    assert_eq!((row.error_code, row.base_offset), (ErrorCode::NONE, 0));
    let stored = kafka.fetch(0, false).records.expect("records");
    let stored = RecordBatches::new(stored).next().expect("one batch").expect("well-formed");
    assert_eq!((stored.magic(), stored.record_count()), (2, Some(2)));
    let mut request = super::asking::fetch(0, 1);
    request.max_bytes = i32::MAX;
    let answer = kafka.ask(request, 3);
    let set = answer.responses[0].partitions[0].records.clone().expect("records");
    let message = RecordBatches::new(set).next().expect("one").expect("well-formed");
    assert_eq!((message.magic(), message.base_offset()), (1, 1));
    let records = message.records(&mut Decompressor::new()).expect("records");
    let record = records.iter().next().expect("one").expect("well-formed");
    assert_eq!((record.timestamp_ms, record.value), (1000, Some(&b"hello"[..])));
}

#[test]
fn offsets_are_found_by_place_and_by_time() {
    let mut kafka = Asking::new(Release::V4_4);
    kafka.produce(0, Bytes::from(batch(&["a", "b", "c"])));
    let (id, epoch) = kafka.init("x");
    assert_eq!(kafka.produce(0, of_producer((id, epoch, 0), 1, true)).base_offset, 3);
    let mut find = |timestamp, committed: bool, version| {
        let asked = ListOffsetsPartition { timestamp, ..Default::default() };
        let topic = ListOffsetsTopic {
            name: "t".to_owned(),
            partitions: vec![asked],
            ..Default::default()
        };
        let isolation_level = i8::from(committed);
        let request = ListOffsetsRequest {
            replica_id: -1,
            isolation_level,
            topics: vec![topic],
            ..Default::default()
        };
        let row = kafka.ask(request, version).topics[0].partitions[0].clone();
        (row.error_code.0, row.offset, row.timestamp, row.leader_epoch)
    };
    assert_eq!(find(-1, false, 11), (0, 4, -1, 0));
    assert_eq!(find(-1, true, 11), (0, 3, -1, 0));
    assert_eq!(find(-2, true, 11), (0, 0, -1, 0));
    assert_eq!(find(-3, false, 11), (0, 2, NOW_MS + 2, 0));
    assert_eq!(find(-4, false, 11), (0, 0, -1, 0));
    assert_eq!(find(-5, false, 11), (0, -1, -1, -1));
    assert_eq!(find(-3, false, 6), (ErrorCode::UNSUPPORTED_VERSION.0, -1, -1, -1));
    assert_eq!(find(NOW_MS + 1, false, 11), (0, 1, NOW_MS + 1, 0));
    assert_eq!(find(-1, false, 2), (0, 4, -1, -1));
    assert_eq!(find(NOW_MS + 3, false, 11), (0, -1, -1, -1));
}
