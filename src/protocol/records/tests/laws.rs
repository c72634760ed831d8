//! What holds for all records: what is written is read again, with every codec.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

type Headers = Vec<(String, Option<Vec<u8>>)>;

fn bytes(size_max: usize) -> impl Strategy<Value = Option<Vec<u8>>> {
    let compressible = (any::<u8>(), 0..size_max).prop_map(|(byte, size)| vec![byte; size]);
    option::weighted(0.9, prop_oneof![vec(any::<u8>(), 0..200), compressible])
}

fn headers() -> impl Strategy<Value = Headers> {
    // Few names, so that they repeat.
    vec(("[a-c]{0,2}|.{0,5}", bytes(50)), 0..4)
}

fn timestamp() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => 1_600_000_000_000..1_800_000_000_000_i64,
        1 => any::<i64>(),
        1 => Just(-1),
    ]
}

fn records() -> impl Strategy<Value = Vec<Plain>> {
    let record = (timestamp(), bytes(300), bytes(30_000), headers()).prop_map(
        |(timestamp_ms, key, value, headers)| Plain {
            offset: 0,
            timestamp_ms,
            key,
            value,
            headers,
        },
    );
    vec(record, 0..25).prop_map(|mut records| {
        for (offset, record) in (0..).zip(&mut records) {
            record.offset = offset;
        }
        records
    })
}

pub(super) fn codec() -> impl Strategy<Value = Compression> {
    proptest::sample::select(Compression::ALL.to_vec())
}

fn write(records: &[Plain], buffer: Vec<u8>) -> BatchBuilder {
    let mut builder = BatchBuilder::new(buffer);
    for record in records {
        let headers: Vec<Header<'_>> = record
            .headers
            .iter()
            .map(|(key, value)| Header { key, value: value.as_deref() })
            .collect();
        let before = builder.len();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        builder.append(record.timestamp_ms, key, value, &headers).expect("fits");
        let bound = BatchBuilder::upper_bound(
            key.map_or(0, <[u8]>::len),
            value.map_or(0, <[u8]>::len),
            &headers,
        );
        assert!(builder.len() - before <= bound);
    }
    builder
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_written_is_read(
        batches in vec((records(), codec(), option::of(-3..12_i32)), 0..4),
        sequence in 0..1000_i32,
        transactional: bool,
    ) {
        let mut compressor = Compressor::new();
        let mut decompressor = Decompressor::new();
        let mut answer = Vec::new();
        for (records, codec, level) in &batches {
            let builder = write(records, Vec::new());
            prop_assert_eq!(builder.record_count(), records.len());
            let mut batch = builder.finish(*codec, *level, &mut compressor).expect("memory");
            stamp(&mut batch, 7, 3, sequence, transactional);
            answer.extend(batch);
        }
        let read: Vec<RecordBatch> = RecordBatches::new(Bytes::from(answer))
            .collect::<Result<_, _>>()
            .expect("what was written");
        prop_assert_eq!(read.len(), batches.len());
        for (batch, (expected, codec, _)) in read.iter().zip(&batches) {
            prop_assert_eq!(batch.compression(), *codec);
            prop_assert_eq!(batch.is_transactional(), transactional);
            let producer = (batch.producer_id(), batch.producer_epoch(), batch.base_sequence());
            prop_assert_eq!(producer, (Some(7), Some(3), Some(sequence)));
            let latest = expected.iter().map(|record| record.timestamp_ms).max();
            prop_assert_eq!(batch.max_timestamp(), latest.unwrap_or(-1));
            prop_assert_eq!(batch.last_offset(), (expected.len() as i64 - 1).max(0));
            let records = batch.records(&mut decompressor).expect("what was written");
            prop_assert_eq!(records.len(), expected.len());
            let plain: Vec<Plain> = records
                .iter()
                .map(|record| record.map(Plain::from))
                .collect::<Result<_, _>>()
                .expect("what was written");
            prop_assert_eq!(&plain, expected);
            decompressor.recycle(records.into_bytes());
        }
    }

    /// The quick way of reading gives what the careful one gives, on right and on damaged bytes.
    #[test]
    fn the_quick_way_decides_nothing_itself(
        records in records(),
        flips in vec((any::<proptest::sample::Index>(), 1..=u8::MAX), 0..3),
    ) {
        let bytes = write(&records, Vec::new());
        let bytes = bytes.finish(Compression::None, None, &mut Compressor::new()).expect("plain");
        let mut body = bytes[BATCH_HEAD_BYTES..].to_vec();
        for (place, mask) in flips {
            if !body.is_empty() {
                let place = place.index(body.len());
                body[place] ^= mask;
            }
        }
        record::check_quick_way(&body, records.len());
    }

    /// Contexts and buffers that were used before leave no trace in what is written.
    #[test]
    fn used_buffers_and_contexts_make_the_same_bytes(
        first in records(),
        second in records(),
        codec in codec(),
    ) {
        let mut used = Compressor::new();
        let buffer = write(&first, Vec::new()).finish(codec, None, &mut used).expect("memory");
        let again = write(&second, buffer).finish(codec, None, &mut used).expect("memory");
        let fresh = write(&second, Vec::new());
        let fresh = fresh.finish(codec, None, &mut Compressor::new()).expect("memory");
        prop_assert_eq!(again, fresh);
    }
}

/// The builder's buffer grows where its owner says so, and no record is lost on the way.
#[test]
fn a_buffer_does_not_grow_before_the_stated_size() {
    let value = [3; 100];
    let record_bytes = BatchBuilder::upper_bound(0, value.len(), &[]);
    let mut builder = BatchBuilder::new(Vec::with_capacity(200));
    builder.reserve_total(5000);
    while builder.len() + record_bytes <= 5000 {
        builder.append(7, None, Some(&value), &[]).expect("fits");
    }
    let count = builder.record_count();
    let batch = builder.finish(Compression::None, None, &mut Compressor::new()).expect("plain");
    assert_eq!(batch.capacity(), 5000);
    assert_eq!(read_all(&batch), Ok((0..count as i64).map(|at| (at, value.to_vec())).collect()));
}

#[test]
fn names_of_codecs_are_kafkas() {
    for codec in Compression::ALL {
        assert_eq!(codec.to_string().parse::<Compression>().ok(), Some(codec));
        assert_eq!(Compression::from_id(codec.id()), Some(codec));
    }
    assert!("LZ4 ".parse::<Compression>().is_err());
    assert_eq!(Compression::from_id(5), None);
}
