//! Faults that users of other clients reported, each with the right result. The bytes are made here,
//! with the property that made the other client fail.

use super::*;
use crate::protocol::DecodeErrorKind;

fn kind(error: &RecordsError) -> RecordsErrorKind {
    error.kind().clone()
}

fn malformed(error: &RecordsError) -> &DecodeErrorKind {
    match error.kind() {
        RecordsErrorKind::Malformed(error) => &error.kind,
        other => panic!("another kind: {other:?}"),
    }
}

/// Three records in a batch with a codec's number and its bytes.
fn compressed(codec: i16, compress: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let plain = RawBatch::of(&[record(0, 0, b"one"), record(0, 1, b"two"), record(0, 2, b"three")]);
    RawBatch { attributes: codec, body: compress(&plain.body), ..plain }.bytes()
}

fn three() -> Vec<(i64, Vec<u8>)> {
    vec![(0, b"one".to_vec()), (1, b"two".to_vec()), (2, b"three".to_vec())]
}

/// The container of `blocks` with any version words.
fn container(blocks: &[&[u8]], versions: [u8; 8]) -> Vec<u8> {
    let mut bytes = b"\x82SNAPPY\0".to_vec();
    bytes.extend(versions);
    for block in blocks {
        let block = snappy(block);
        bytes.extend((block.len() as i32).to_be_bytes());
        bytes.extend(block);
    }
    bytes
}

const VERSION_1: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];

/// dpkp/kafka-python#2414.
#[test]
fn the_snappy_container_is_known_by_its_magic_alone() {
    let little_endian = [1, 0, 0, 0, 1, 0, 0, 0];
    let batch = compressed(2, |body| container(&[body], little_endian));
    assert_eq!(read_all(&batch), Ok(three()));
}

/// dpkp/kafka-python#126, Parsely/pykafka#165: one partition may hold all framings.
#[test]
fn snappy_is_read_bare_and_in_containers_of_any_number_of_blocks() {
    let values: Vec<Vec<u8>> = (0..20_u8).map(|at| vec![at; 500]).collect();
    let records: Vec<Vec<u8>> =
        values.iter().zip(0..).map(|(value, at)| record(0, at, value)).collect();
    let plain = RawBatch::of(&records);
    let expected: Vec<(i64, Vec<u8>)> = (0..).zip(values).collect();
    let blocks: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let concatenated =
        [container(&blocks[..7], VERSION_1), container(&blocks[7..], VERSION_1)].concat();
    for body in [
        snappy(&plain.body),
        container(&blocks, VERSION_1),
        container(&[&plain.body], VERSION_1),
        concatenated,
    ] {
        let batch = RawBatch { attributes: 2, body, ..plain.clone() };
        assert_eq!(read_all(&batch.bytes()).as_ref(), Ok(&expected));
    }
}

/// dpkp/kafka-python#126: a bare block that begins with the container's first byte.
#[test]
fn a_bare_snappy_block_is_not_taken_for_a_container() {
    // A content of 130 bytes is announced as 82 01. Both lengths in the record take one byte more.
    let empty = record(0, 0, &[]).len();
    let value: Vec<u8> = (0..130 - empty as u8 - 2).collect();
    let plain = RawBatch::of(&[record(0, 0, &value)]);
    assert_eq!(plain.body.len(), 130);
    let body = snappy(&plain.body);
    assert_eq!(body[0], 0x82);
    let batch = RawBatch { attributes: 2, body, ..plain };
    assert_eq!(read_all(&batch.bytes()), Ok(vec![(0, value)]));
}

/// IBM/sarama#1205.
#[test]
fn the_old_checksum_of_an_lz4_head_is_taken_in_magic_0_only() {
    let old = |body: &[u8]| lz4_frame(body, 0x60, Some(old_head_check(0x60)), &[]);
    let set = [message(0, 7, 0, -1, b"a"), message(0, 8, 0, -1, b"b")].concat();
    let wrapper = message(0, 8, 3, -1, &old(&set));
    assert_eq!(read_all(&wrapper), Ok(vec![(7, b"a".to_vec()), (8, b"b".to_vec())]));

    let refused = Err(RecordsErrorKind::BadCompression {
        codec: Compression::Lz4,
        reason: "the checksum of the frame's head is wrong",
    });
    assert_eq!(read_all(&compressed(3, old)).map_err(|error| kind(&error)), refused);
    let set = message(1, 0, 0, -1, b"a");
    assert_eq!(read_all(&message(1, 8, 3, -1, &old(&set))).map_err(|error| kind(&error)), refused);
    let right = |body: &[u8]| lz4_frame(body, 0x60, None, &[]);
    assert_eq!(read_all(&compressed(3, right)), Ok(three()));
}

/// apache/kafka#22162 (KAFKA-20528).
#[test]
fn the_checksum_of_an_lz4_frames_content_is_compared() {
    let sum = |body: &[u8]| twox_hash::XxHash32::oneshot(0, body);
    let right = compressed(3, |body| lz4_frame(body, 0x64, None, &sum(body).to_le_bytes()));
    assert_eq!(read_all(&right), Ok(three()));
    let altered = compressed(3, |body| lz4_frame(body, 0x64, None, &(sum(body) ^ 1).to_le_bytes()));
    let error = read_all(&altered).expect_err("altered");
    assert_eq!((error.base_offset(), error.last_offset()), (Some(0), Some(2)));
    assert_eq!(
        kind(&error),
        RecordsErrorKind::BadCompression {
            codec: Compression::Lz4,
            reason: "the checksum of the content is wrong",
        }
    );
}

/// kafka4beam/brod#628, `kafka_protocol#142`.
#[test]
fn zstd_needs_no_content_size_and_takes_several_frames() {
    assert_eq!(read_all(&compressed(4, zstd_stream)), Ok(three()));
    let two_frames = |body: &[u8]| {
        let (head, tail) = body.split_at(body.len() / 2);
        let honest = zstd::bulk::compress(head, 3).expect("memory");
        [honest, zstd_stream(tail)].concat()
    };
    assert_eq!(read_all(&compressed(4, two_frames)), Ok(three()));
    let two_members = |body: &[u8]| {
        let (head, tail) = body.split_at(body.len() / 2);
        [gzip(head), gzip(tail)].concat()
    };
    assert_eq!(read_all(&compressed(1, two_members)), Ok(three()));
}

/// kafka-python#1033, tulios/kafkajs#1141, restatedev/restate#4599.
#[test]
fn an_unknown_codec_is_an_error_with_its_number_and_offsets() {
    let mut batch = RawBatch::of(&[record(0, 0, b"x")]);
    (batch.attributes, batch.base_offset) = (6, 40);
    let error = read_all(&batch.bytes()).expect_err("no such codec");
    assert_eq!((error.base_offset(), error.last_offset()), (Some(40), Some(40)));
    assert_eq!(
        error.to_string(),
        "the batch of offsets 40..=40 cannot be used: its codec, number 6, is not known"
    );
    let zstd_in_magic_1 = message(1, 9, 4, -1, &zstd_stream(&message(1, 0, 0, -1, b"x")));
    let (codec, magic) = (Compression::Zstd, 1);
    assert_eq!(
        read_all(&zstd_in_magic_1).map_err(|error| kind(&error)),
        Err(RecordsErrorKind::CodecNotInFormat { codec, magic })
    );
}

/// osodevops/kafka-backup#142, thomhurst/Dekaf#645.
#[test]
fn a_cut_tail_ends_the_batches_and_says_what_it_needs() {
    let batch = RawBatch { base_offset: 5, ..RawBatch::of(&[record(0, 0, &[7; 230])]) }.bytes();
    let size = batch.len();
    for (cut, offset, needed) in [
        (1, None, 17),
        (11, Some(5), 17),
        (12, Some(5), size),
        (40, Some(5), size),
        (61, Some(5), size),
    ] {
        let mut batches = RecordBatches::new(Bytes::from(&batch[..cut]));
        assert!(batches.next().is_none());
        let incomplete = Incomplete { offset, present: cut, needed };
        assert_eq!(batches.incomplete(), Some(incomplete));
        assert!(batches.next().is_none(), "it ends at once and stays so");
    }
    let mut batches = RecordBatches::new(Bytes::from([&batch[..], &batch[..200]].concat()));
    assert_eq!(batches.next().map(|batch| batch.map(|batch| batch.last_offset())), Some(Ok(5)));
    assert!(batches.next().is_none());
    assert_eq!(batches.incomplete().map(|cut| cut.needed), Some(size));
    let mut whole = RecordBatches::new(Bytes::from(batch));
    assert_eq!(whole.by_ref().count(), 1);
    assert_eq!(whole.incomplete(), None);
}

/// tulios/kafkajs#182, platformatic/kafka#120.
#[test]
fn damage_in_the_middle_is_not_taken_for_a_cut_tail() {
    let batch = |base_offset| RawBatch { base_offset, ..RawBatch::of(&[record(0, 0, b"abc")]) };
    let mut bytes = [batch(0).bytes(), batch(1).bytes(), batch(2).bytes()].concat();
    let size = bytes.len() / 3;
    bytes[size + 70] ^= 0x10;
    let mut batches = RecordBatches::new(Bytes::from(bytes));
    assert_eq!(batches.next().expect("first").map(|batch| batch.last_offset()), Ok(0));
    let error = batches.next().expect("second").expect_err("damaged");
    assert!(matches!(error.kind(), RecordsErrorKind::BadCrc { .. }));
    assert_eq!((error.base_offset(), error.last_offset()), (Some(1), Some(1)));
    assert!(batches.next().is_none(), "nothing follows an error");
    assert_eq!(batches.incomplete(), None);

    let short = [&[0; 8][..], &[0, 0, 0, 48], &[0, 0, 0, 0, 2], &[0; 40]].concat();
    let error = read_all(&short).expect_err("shorter than its head");
    assert_eq!(malformed(&error), &DecodeErrorKind::IllegalLength(48));
}

/// IBM/sarama#2053, segmentio/kafka-go#813, KAFKA-5490; IBM/sarama#1087 (only the range counts).
#[test]
fn an_empty_batch_moves_the_position_to_its_end() {
    let empty = RawBatch { base_offset: 100, last_offset_delta: 9, ..RawBatch::of(&[]) };
    let next = RawBatch { base_offset: 110, ..RawBatch::of(&[record(0, 0, b"x")]) };
    let bytes = [empty.bytes(), next.bytes()].concat();
    let ends: Vec<i64> = RecordBatches::new(Bytes::from(&bytes[..]))
        .map(|batch| batch.expect("whole").last_offset())
        .collect();
    assert_eq!(ends, [109, 110]);
    assert_eq!(offsets(&bytes), Ok(vec![110]));
    // The same with the codec's bits left set, as brokers kept them.
    let empty = RawBatch { attributes: 4, ..empty };
    assert_eq!(offsets(&empty.bytes()), Ok(vec![]));
}

/// hupe1980/krafka#43, IBM/sarama#1005: compaction leaves gaps, inside and at the end.
#[test]
fn gaps_are_kept_and_the_range_is_that_of_the_head() {
    let records: Vec<Vec<u8>> = [0, 2, 4, 5].map(|delta| record(0, delta, b"x")).into();
    let batch = RawBatch { base_offset: 38, last_offset_delta: 9, ..RawBatch::of(&records) };
    let bytes = batch.bytes();
    assert_eq!(offsets(&bytes), Ok(vec![38, 40, 42, 43]));
    assert_eq!(only_batch(&bytes).expect("whole").last_offset(), 47);
}

/// An offset outside of the batch's range could be delivered twice, or never.
#[test]
fn offsets_outside_of_the_range_are_damage() {
    for delta in [-1, 2, i64::from(i32::MAX)] {
        let batch = RawBatch::of(&[record(0, 0, b"x"), record(0, delta, b"y")]);
        let error = read_all(&batch.bytes()).expect_err("outside");
        let illegal = DecodeErrorKind::IllegalValue { what: "offset_delta", value: delta };
        assert_eq!(malformed(&error), &illegal);
    }
    for (base_offset, last_offset_delta) in [(-1, 0), (0, -1), (i64::MAX, 0), (i64::MAX - 1, 1)] {
        let batch =
            RawBatch { base_offset, last_offset_delta, ..RawBatch::of(&[record(0, 0, b"x")]) };
        let error = read_all(&batch.bytes()).expect_err("no such range");
        assert!(matches!(malformed(&error), DecodeErrorKind::IllegalValue { .. }));
    }
}

/// tulios/kafkajs#403, `kafkaex/kafka_ex#557`.
#[test]
fn markers_are_told_apart_and_take_their_offset() {
    let marker = |code: u8| {
        let rest = [field(Some(&[0, 0, 0, code])), field(Some(&[0; 6])), vec![0]].concat();
        let batch = RawBatch::of(&[raw_record(0, 0, &rest)]);
        RawBatch { base_offset: 17, attributes: 0x30, ..batch }
    };
    let mut decompressor = Decompressor::new();
    for (code, expected) in
        [(0, ControlKind::Abort), (1, ControlKind::Commit), (5, ControlKind::Other(5))]
    {
        let batch = only_batch(&marker(code).bytes()).expect("whole");
        assert!(batch.is_control());
        assert_eq!(batch.last_offset(), 17);
        assert_eq!(batch.control_kind(&mut decompressor), Ok(Some(expected)));
    }
    let removed = RawBatch { record_count: 0, body: Vec::new(), ..marker(0) };
    let batch = only_batch(&removed.bytes()).expect("whole");
    assert_eq!(batch.control_kind(&mut decompressor), Ok(None));
    let data = only_batch(&RawBatch::of(&[record(0, 0, b"x")]).bytes()).expect("whole");
    assert_eq!(data.control_kind(&mut decompressor), Ok(None));
    let short_key = [field(Some(&[0, 0, 0])), field(None), vec![0]].concat();
    let batch = RawBatch { attributes: 0x30, ..RawBatch::of(&[raw_record(0, 0, &short_key)]) };
    let batch = only_batch(&batch.bytes()).expect("whole");
    assert!(batch.control_kind(&mut decompressor).is_err());
}

/// vert-x3/vertx-kafka-client#313: null header values; a null header key is damage.
#[test]
fn headers_keep_null_empty_order_and_repetition() {
    let header = |key: &[u8], value: Option<&[u8]>| [field(Some(key)), field(value)].concat();
    let rest = [
        field(None),
        field(Some(b"v")),
        varint(5),
        header(b"a", None),
        header(b"a", Some(b"")),
        header(b"", Some(b"x")),
        header(b"a", Some(b"abc")),
        header(b"\xff", None),
    ]
    .concat();
    let batch = RawBatch::of(&[raw_record(0, 0, &rest)]).bytes();
    let batch = only_batch(&batch).expect("whole");
    let records = batch.records(&mut Decompressor::new()).expect("plain");
    let record = records.iter().next().expect("one").expect("right");
    let headers: Vec<(String, Option<&[u8]>)> = record
        .headers
        .into_iter()
        .map(|header| (header.key().into_owned(), header.value))
        .collect();
    let expected: [(&str, Option<&[u8]>); 5] = [
        ("a", None),
        ("a", Some(b"")),
        ("", Some(b"x")),
        ("a", Some(b"abc")),
        // What the Java client shows of bytes that are not UTF-8.
        ("\u{fffd}", None),
    ];
    assert_eq!(headers, expected.map(|(key, value)| (key.to_owned(), value)));
    assert_eq!(record.headers.last("a").and_then(|header| header.value), Some(&b"abc"[..]));
    assert_eq!(record.headers.last("b"), None);

    let null_key = [field(None), field(None), varint(1), field(None), field(None)].concat();
    let error = read_all(&RawBatch::of(&[raw_record(0, 0, &null_key)]).bytes()).expect_err("null");
    assert_eq!(malformed(&error), &DecodeErrorKind::IllegalNull);
}

/// platformatic/kafka#216, hupe1980/krafka#45, tulios/kafkajs#326.
#[test]
fn null_and_empty_differ_when_written_and_when_read() {
    let mut builder = BatchBuilder::new(Vec::new());
    builder.append(0, Some(b"k"), None, &[]).expect("fits");
    builder.append(0, None, Some(b""), &[]).expect("fits");
    let bytes = builder.finish(Compression::None, None, &mut Compressor::new()).expect("plain");
    // length, attributes, deltas, key, value, headers
    assert_eq!(bytes[BATCH_HEAD_BYTES..], hex("0e 00 00 00 02 6b 01 00  0c 00 00 02 01 00 00"));
    let records = plain(&only_batch(&bytes).expect("whole")).expect("right");
    assert_eq!((records[0].key.as_deref(), records[0].value.as_deref()), (Some(&b"k"[..]), None));
    assert_eq!((records[1].key.as_deref(), records[1].value.as_deref()), (None, Some(&b""[..])));
}

/// kafka-protocol-rs#152, segmentio/kafka-go#1439: counts are not believed.
#[test]
fn impossible_counts_are_refused() {
    for record_count in [i32::MAX, 3] {
        let batch = RawBatch { record_count, ..RawBatch::of(&[record(0, 0, b"")]) };
        let error = read_all(&batch.bytes()).expect_err("too many");
        let count = record_count as u64;
        assert_eq!(malformed(&error), &DecodeErrorKind::ImpossibleCount { count, remaining: 7 });
    }
    let batch = RawBatch { record_count: -1, ..RawBatch::of(&[record(0, 0, b"")]) };
    assert!(matches!(
        malformed(&read_all(&batch.bytes()).expect_err("negative")),
        DecodeErrorKind::IllegalValue { value: -1, .. }
    ));
    for headers in [i64::from(i32::MAX), -1] {
        let rest = [field(None), field(None), varint(headers)].concat();
        let error = read_all(&RawBatch::of(&[raw_record(0, 0, &rest)]).bytes()).expect_err("many");
        assert!(matches!(
            malformed(&error),
            DecodeErrorKind::ImpossibleCount { .. } | DecodeErrorKind::IllegalLength(-1)
        ));
    }
    let fewer =
        RawBatch { record_count: 1, ..RawBatch::of(&[record(0, 0, b""), record(0, 1, b"")]) };
    let error = read_all(&fewer.bytes()).expect_err("bytes are left");
    assert_eq!(malformed(&error), &DecodeErrorKind::TrailingBytes(7));
}

/// tulios/kafkajs#1793.
#[test]
fn lengths_that_cannot_be_are_refused() {
    let of = |body: Vec<u8>| RawBatch { body, ..RawBatch::of(&[record(0, 0, b"")]) }.bytes();
    let endless = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    let error = read_all(&of(endless.to_vec())).expect_err("endless");
    assert_eq!(malformed(&error), &DecodeErrorKind::VarintTooLong);
    let below_null = [&field(None)[..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0]].concat();
    let error = read_all(&of(raw_record(0, 0, &below_null))).expect_err("below null");
    assert_eq!(malformed(&error), &DecodeErrorKind::IllegalLength(i64::from(i32::MIN)));
    let beyond = [varint(100), vec![0; 10]].concat();
    let error = read_all(&of(beyond)).expect_err("beyond the batch");
    assert_eq!(malformed(&error), &DecodeErrorKind::Truncated { needed: 100, remaining: 10 });
    let negative = [varint(-5), vec![0; 10]].concat();
    let error = read_all(&of(negative)).expect_err("negative");
    assert_eq!(malformed(&error), &DecodeErrorKind::IllegalLength(-5));
    // The record says one byte more than its fields have.
    let mut longer = record(0, 0, b"");
    longer[0] += 2;
    longer.push(0);
    let error = read_all(&of(longer)).expect_err("longer than its fields");
    assert_eq!(malformed(&error), &DecodeErrorKind::TrailingBytes(1));
}

/// thomhurst/Dekaf#1727, confluentinc/librdkafka#1056 and #5581 (the range, to be able to go on).
#[test]
fn a_flipped_bit_is_an_error_with_both_checksums_and_the_range() {
    let records: Vec<Vec<u8>> = (0..10).map(|delta| record(0, delta, b"value")).collect();
    let mut batch = RawBatch { base_offset: 193, ..RawBatch::of(&records) }.bytes();
    let stored = u32::from_be_bytes(batch[at::CRC].try_into().expect("four bytes"));
    *batch.last_mut().expect("not empty") ^= 2;
    let computed = crc32c::crc32c(&batch[at::CHECKED..]);
    let error = read_all(&batch).expect_err("flipped");
    assert_eq!((error.base_offset(), error.last_offset()), (Some(193), Some(202)));
    assert_eq!(kind(&error), RecordsErrorKind::BadCrc { stored, computed });

    let mut message = message(0, 4, 0, -1, b"value");
    *message.last_mut().expect("not empty") ^= 2;
    let error = read_all(&message).expect_err("flipped");
    assert_eq!((error.base_offset(), error.last_offset()), (Some(4), Some(4)));
    assert!(matches!(error.kind(), RecordsErrorKind::BadCrc { .. }));
    let unchecked = RecordBatches::new(Bytes::from(message)).without_crc_check();
    let batches: Vec<RecordBatch> = unchecked.collect::<Result<_, _>>().expect("not looked at");
    assert_eq!(plain(&batches[0]).expect("whole")[0].value.as_deref(), Some(&b"valug"[..]));
}

/// redpanda-data/redpanda#5685.
#[test]
fn the_checksum_of_a_message_ends_with_it() {
    let two = [message(1, 0, 0, 5, b"a"), message(1, 1, 0, 6, b"b")].concat();
    assert_eq!(offsets(&two), Ok(vec![0, 1]));
    assert_eq!(offsets(&two[..two.len() / 2]), Ok(vec![0]));
}

/// zendesk/ruby-kafka#706, tulios/kafkajs#838.
#[test]
fn log_append_time_is_that_of_all_records() {
    let mut batch = RawBatch::of(&[record(0, 0, b"a"), record(7, 1, b"b")]);
    (batch.attributes, batch.base_timestamp, batch.max_timestamp) = (0x08, 1000, 1034);
    let batch = only_batch(&batch.bytes()).expect("whole");
    assert_eq!(batch.timestamp_type(), TimestampType::LogAppendTime);
    let times: Vec<i64> = plain(&batch).expect("right").iter().map(|r| r.timestamp_ms).collect();
    assert_eq!(times, [1034, 1034]);

    let set = [message(1, 0, 0, 5, b"a"), message(1, 1, 0, 6, b"b")].concat();
    for (attributes, expected) in [(1, [5, 6]), (1 | 0x08, [99, 99])] {
        let wrapper = only_batch(&message(1, 1, attributes, 99, &gzip(&set))).expect("whole");
        let times: Vec<i64> =
            plain(&wrapper).expect("right").iter().map(|record| record.timestamp_ms).collect();
        assert_eq!(times, expected);
    }
}

/// SOHU-Co/kafka-node#812, edenhill/kcat#105, redpanda#4010.
#[test]
fn timestamps_are_signed_and_64_bits_wide() {
    let mut batch = RawBatch::of(&[record(0, 0, b"a"), record(-5000, 1, b"b")]);
    batch.base_timestamp = 1000;
    let records = plain(&only_batch(&batch.bytes()).expect("whole")).expect("right");
    assert_eq!((records[0].timestamp_ms, records[1].timestamp_ms), (1000, -4000));

    let times = [-1, 0, 1 << 40, i64::MIN, i64::MAX, -1];
    let mut builder = BatchBuilder::new(Vec::new());
    for time in times {
        builder.append(time, None, None, &[]).expect("fits");
    }
    let bytes = builder.finish(Compression::None, None, &mut Compressor::new()).expect("plain");
    let batch = only_batch(&bytes).expect("whole");
    assert_eq!(batch.max_timestamp(), i64::MAX);
    let read: Vec<i64> = plain(&batch).expect("right").iter().map(|r| r.timestamp_ms).collect();
    assert_eq!(read, times);
}

/// zendesk/ruby-kafka#505, SOHU-Co/kafka-node#1225.
#[test]
fn inner_offsets_of_compressed_sets_are_made_those_of_the_log() {
    let set = |magic: u8, inner: &[i64]| -> Vec<u8> {
        inner.iter().flat_map(|offset| message(magic, *offset, 0, -1, b"x")).collect()
    };
    let wrapped = |magic, offset, inner: &[i64]| {
        offsets(&message(magic, offset, 1, -1, &gzip(&set(magic, inner))))
    };
    assert_eq!(wrapped(1, 42, &[0, 1, 2]), Ok(vec![40, 41, 42]));
    assert_eq!(wrapped(1, 42, &[0, 2]), Ok(vec![40, 42]));
    assert_eq!(wrapped(1, 42, &[40, 41, 42]), Ok(vec![40, 41, 42]));
    assert_eq!(wrapped(0, 42, &[40, 41, 42]), Ok(vec![40, 41, 42]));
    assert_eq!(wrapped(1, 0, &[0, 1, 2]), Ok(vec![0, 1, 2]));
    assert!(wrapped(1, 1, &[0, 1, 2]).is_err(), "before the log's start");
    assert_eq!(wrapped(1, 42, &[]), Ok(vec![]));
}

/// Sets in sets and mixed formats are nowhere written.
#[test]
fn an_inner_message_is_plain_and_of_the_wrappers_magic() {
    let inner = message(1, 0, 1, -1, &gzip(&message(1, 0, 0, -1, b"x")));
    assert!(offsets(&message(1, 0, 1, -1, &gzip(&inner))).is_err());
    assert!(offsets(&message(1, 0, 1, -1, &gzip(&message(0, 0, 0, -1, b"x")))).is_err());
    let set = message(1, 0, 0, -1, b"x");
    assert!(offsets(&message(1, 0, 1, -1, &gzip(&set[..set.len() - 1]))).is_err(), "cut inside");
}

/// flier/tokio-kafka#15: the request's version says nothing about the format.
#[test]
fn each_entry_is_read_by_its_own_magic() {
    let last = RawBatch { base_offset: 4, ..RawBatch::of(&[record(0, 0, b"d")]) };
    let set = [message(1, 0, 0, 6, b"b"), message(1, 1, 0, 6, b"c")].concat();
    let mut bytes = [
        message(0, 1, 0, -1, b"a"),
        message(1, 3, 2, 6, &container(&[&set], VERSION_1)),
        last.bytes(),
    ]
    .concat();
    assert_eq!(offsets(&bytes), Ok(vec![1, 2, 3, 4]));
    let mut future = last.bytes();
    future[at::MAGIC] = 3;
    bytes.extend(&future[..30]);
    let error = offsets(&bytes).expect_err("from the future");
    assert_eq!(error.base_offset(), Some(4));
    assert_eq!(kind(&error), RecordsErrorKind::UnknownMagic(3));
}
