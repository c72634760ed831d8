//! Record batches: what we write is read by Kafka's own reader, what Kafka's own writer writes is read
//! by us, in every format and codec.

use super::oracle::Oracle;
use super::releases;
use crate::protocol::Bytes;
use crate::protocol::generate::Values;
use crate::protocol::records::{
    BatchBuilder, Compression, Compressor, Decompressor, Header, RecordBatches, RecordsError,
    TimestampType, stamp,
};

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];
/// Sets per format, codec and direction; the first has long strings and bytes.
const SETS: usize = 8;
/// Records of the largest set.
const RECORDS_MAX: usize = 200;

/// A record without its offset.
#[derive(Debug)]
struct Record {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

fn generate(values: &mut Values, with_headers: bool) -> Vec<Record> {
    let count = 1 + values.i16().unsigned_abs() as usize % RECORDS_MAX;
    let bytes = |values: &mut Values| match values.i8() {
        0 => None,
        // Something that compresses.
        1..50 => Some(b"the same again ".repeat(20)),
        _ => Some(values.bytes().to_vec()),
    };
    let record = |_| {
        let timestamp = 1_700_000_000_000 + i64::from(values.i32());
        let (key, value) = (bytes(values), bytes(values));
        let headers = if with_headers { values.i8().rem_euclid(4) } else { 0 };
        let headers = (0..headers).map(|_| (values.string(), bytes(values))).collect();
        Record { timestamp, key, value, headers }
    };
    (0..count).map(record).collect()
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.extend_from_slice(&bytes.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn put_record(out: &mut Vec<u8>, record: &Record) {
    out.extend_from_slice(&record.timestamp.to_be_bytes());
    put_bytes(out, record.key.as_deref());
    put_bytes(out, record.value.as_deref());
    out.extend_from_slice(&(record.headers.len() as i32).to_be_bytes());
    for (key, value) in &record.headers {
        put_bytes(out, Some(key.as_bytes()));
        put_bytes(out, value.as_deref());
    }
}

/// What we find in a set, in the oracle's form.
fn found(set: &[u8]) -> Result<Vec<u8>, RecordsError> {
    let mut out = Vec::new();
    let mut decompressor = Decompressor::new();
    let mut batches = RecordBatches::new(Bytes::from(set));
    for batch in &mut batches {
        let batch = batch?;
        let records = batch.records(&mut decompressor)?;
        let records = records.iter().collect::<Result<Vec<_>, _>>()?;
        // A compressed set of the older formats says its last offset only.
        let base_offset = match batch.magic() {
            2 => batch.base_offset(),
            _ => records.first().expect("not empty").offset,
        };
        let timestamp_type = match (batch.magic(), batch.timestamp_type()) {
            (0, _) => -1_i8,
            (_, TimestampType::CreateTime) => 0,
            (_, TimestampType::LogAppendTime) => 1,
        };
        out.extend_from_slice(&batch.magic().to_be_bytes());
        out.extend_from_slice(&base_offset.to_be_bytes());
        out.extend_from_slice(&batch.last_offset().to_be_bytes());
        out.extend_from_slice(&batch.leader_epoch().unwrap_or(-1).to_be_bytes());
        out.extend_from_slice(&batch.max_timestamp().to_be_bytes());
        out.extend_from_slice(&batch.producer_id().unwrap_or(-1).to_be_bytes());
        out.extend_from_slice(&batch.producer_epoch().unwrap_or(-1).to_be_bytes());
        out.extend_from_slice(&batch.base_sequence().unwrap_or(-1).to_be_bytes());
        out.push(batch.compression().id());
        out.push(u8::from(batch.is_transactional()));
        out.push(u8::from(batch.is_control()));
        out.extend_from_slice(&timestamp_type.to_be_bytes());
        out.extend_from_slice(&(records.len() as i32).to_be_bytes());
        for record in records {
            out.extend_from_slice(&record.offset.to_be_bytes());
            out.extend_from_slice(&record.timestamp_ms.to_be_bytes());
            put_bytes(&mut out, record.key);
            put_bytes(&mut out, record.value);
            out.extend_from_slice(&(record.headers.len() as i32).to_be_bytes());
            for header in record.headers {
                put_bytes(&mut out, Some(header.key_bytes));
                put_bytes(&mut out, header.value);
            }
        }
    }
    assert!(batches.incomplete().is_none(), "the set is whole");
    Ok(out)
}

fn answer(oracle: &mut Oracle, question: &[u8]) -> Vec<u8> {
    oracle.ask(question);
    let status = oracle.byte();
    let bytes = oracle.bytes();
    assert_eq!(status, 0, "{}", String::from_utf8_lossy(&bytes));
    bytes
}

/// What Kafka's reader finds in a set.
fn found_by_java(oracle: &mut Oracle, set: &[u8]) -> Vec<u8> {
    let mut question = vec![b'R'];
    put_bytes(&mut question, Some(set));
    answer(oracle, &question)
}

#[test]
fn java_reads_the_batches_that_we_write() {
    let [newest, _] = releases();
    let mut oracle = Oracle::start(&newest, "Records.java");
    let mut sources = [Values::new(9), Values::small(9)];
    let mut compressor = Compressor::new();
    for codec in CODECS {
        for set in 0..SETS {
            let records = generate(&mut sources[set.min(1)], true);
            let mut builder = BatchBuilder::new(Vec::new());
            let mut expected = Vec::new();
            for (offset, record) in records.iter().enumerate() {
                let headers = record
                    .headers
                    .iter()
                    .map(|(key, value)| Header { key, value: value.as_deref() });
                let headers: Vec<Header<'_>> = headers.collect();
                let Record { timestamp, key, value, .. } = record;
                builder
                    .append(*timestamp, key.as_deref(), value.as_deref(), &headers)
                    .expect("a legal record");
                expected.extend_from_slice(&(offset as i64).to_be_bytes());
                put_record(&mut expected, record);
            }
            let mut batch = builder.finish(codec, None, &mut compressor).expect("compressed");
            let (producer, epoch, sequence, transactional) = match set % 3 {
                0 => (-1_i64, -1_i16, -1_i32, false),
                1 => (4711, 3, 0, false),
                _ => (i64::MAX, i16::MAX, i32::MAX - RECORDS_MAX as i32, true),
            };
            if producer >= 0 {
                stamp(&mut batch, producer, epoch, sequence, transactional);
            }
            let mut head = vec![2];
            head.extend_from_slice(&0_i64.to_be_bytes());
            head.extend_from_slice(&(records.len() as i64 - 1).to_be_bytes());
            head.extend_from_slice(&(-1_i32).to_be_bytes());
            let max_timestamp = records.iter().map(|record| record.timestamp).max();
            head.extend_from_slice(&max_timestamp.expect("not empty").to_be_bytes());
            head.extend_from_slice(&producer.to_be_bytes());
            head.extend_from_slice(&epoch.to_be_bytes());
            head.extend_from_slice(&sequence.to_be_bytes());
            head.extend_from_slice(&[codec.id(), u8::from(transactional), 0, 0]);
            head.extend_from_slice(&(records.len() as i32).to_be_bytes());
            head.extend_from_slice(&expected);
            assert!(found_by_java(&mut oracle, &batch) == head, "{codec}, set {set}");
            assert!(found(&batch).expect("ours") == head, "{codec}, set {set}, read by us");
        }
    }
}

#[test]
fn we_read_the_sets_that_java_writes() {
    let [newest, _] = releases();
    let mut oracle = Oracle::start(&newest, "Records.java");
    let mut sources = [Values::new(10), Values::small(10)];
    for magic in 0..=2_u8 {
        for codec in CODECS {
            // Neither older format has zstd, and magic 0 has no timestamps.
            if magic < 2 && codec == Compression::Zstd {
                continue;
            }
            for set in 0..SETS {
                let timestamp_type = if magic == 0 { 0 } else { (set % 2) as u8 };
                let values = &mut sources[set.min(1)];
                let base_offset = values.i64() & (i64::MAX >> 1);
                let records = generate(values, magic == 2);
                let mut question = vec![b'W', magic, codec.id(), timestamp_type];
                question.extend_from_slice(&base_offset.to_be_bytes());
                question.extend_from_slice(&(records.len() as i32).to_be_bytes());
                for record in &records {
                    put_record(&mut question, record);
                }
                let written = answer(&mut oracle, &question);
                let javas = found_by_java(&mut oracle, &written);
                let ours = found(&written).expect("written by Kafka");
                assert!(ours == javas, "magic {magic}, {codec}, set {set}: {records:?}");
            }
        }
    }
}
