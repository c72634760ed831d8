//! Tests of reading and writing records: known bytes, reported faults, laws over generated batches,
//! and damage. What they share is here.

mod damage;
mod golden;
mod laws;
mod reports;

use super::*;
use crate::protocol::Bytes;

/// A record as plain values, to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain {
    offset: i64,
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

impl From<RecordView<'_>> for Plain {
    fn from(record: RecordView<'_>) -> Self {
        let headers = record.headers.iter();
        Self {
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: headers
                .map(|header| (header.key().into_owned(), header.value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}

/// All records of a batch.
fn plain(batch: &RecordBatch) -> Result<Vec<Plain>, RecordsError> {
    let records = batch.records(&mut Decompressor::new())?;
    records.iter().map(|record| record.map(Plain::from)).collect()
}

/// The only batch in `bytes`.
fn only_batch(bytes: &[u8]) -> Result<RecordBatch, RecordsError> {
    let mut batches = RecordBatches::new(Bytes::from(bytes));
    let batch = batches.next().expect("a batch")?;
    assert!(batches.next().is_none(), "more than one batch");
    Ok(batch)
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// A batch of magic 2 with any fields, right or wrong; the length and the checksum are right.
#[derive(Clone, Debug)]
struct RawBatch {
    base_offset: i64,
    attributes: i16,
    last_offset_delta: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    record_count: i32,
    body: Vec<u8>,
}

impl RawBatch {
    /// Plain records, one per offset.
    fn of(records: &[Vec<u8>]) -> Self {
        Self {
            base_offset: 0,
            attributes: 0,
            last_offset_delta: records.len() as i32 - 1,
            base_timestamp: 0,
            max_timestamp: 0,
            record_count: records.len() as i32,
            body: records.concat(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.base_offset.to_be_bytes().to_vec();
        bytes.extend((49 + self.body.len() as i32).to_be_bytes());
        bytes.extend((-1_i32).to_be_bytes());
        bytes.push(2);
        bytes.extend([0; 4]);
        bytes.extend(self.attributes.to_be_bytes());
        bytes.extend(self.last_offset_delta.to_be_bytes());
        bytes.extend(self.base_timestamp.to_be_bytes());
        bytes.extend(self.max_timestamp.to_be_bytes());
        bytes.extend((-1_i64).to_be_bytes());
        bytes.extend((-1_i16).to_be_bytes());
        bytes.extend((-1_i32).to_be_bytes());
        bytes.extend(self.record_count.to_be_bytes());
        bytes.extend(&self.body);
        seal(&mut bytes);
        bytes
    }
}

/// Makes the checksum of a magic 2 batch right.
fn seal(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[at::CHECKED..]);
    batch[at::CRC].copy_from_slice(&crc.to_be_bytes());
}

fn varint(value: i64) -> Vec<u8> {
    let mut code = ((value << 1) ^ (value >> 63)) as u64;
    let mut bytes = Vec::new();
    while code >= 0x80 {
        bytes.push(code as u8 | 0x80);
        code >>= 7;
    }
    bytes.push(code as u8);
    bytes
}

fn field(bytes: Option<&[u8]>) -> Vec<u8> {
    let mut field = varint(bytes.map_or(-1, |bytes| bytes.len() as i64));
    field.extend(bytes.unwrap_or_default());
    field
}

/// A record of magic 2 whose fields from the key on are `rest`.
fn raw_record(timestamp_delta: i64, offset_delta: i64, rest: &[u8]) -> Vec<u8> {
    let body = [&[0][..], &varint(timestamp_delta), &varint(offset_delta), rest].concat();
    [varint(body.len() as i64), body].concat()
}

/// A record of magic 2 with a value alone.
fn record(timestamp_delta: i64, offset_delta: i64, value: &[u8]) -> Vec<u8> {
    let rest = [field(None), field(Some(value)), vec![0]].concat();
    raw_record(timestamp_delta, offset_delta, &rest)
}

/// A message of magic 0 or 1 with a value alone.
fn message(magic: u8, offset: i64, attributes: u8, timestamp: i64, value: &[u8]) -> Vec<u8> {
    let mut covered = vec![magic, attributes];
    if magic == 1 {
        covered.extend(timestamp.to_be_bytes());
    }
    covered.extend((-1_i32).to_be_bytes());
    covered.extend((value.len() as i32).to_be_bytes());
    covered.extend(value);
    let mut entry = offset.to_be_bytes().to_vec();
    entry.extend((covered.len() as i32 + 4).to_be_bytes());
    entry.extend(crc32fast::hash(&covered).to_be_bytes());
    entry.extend(covered);
    entry
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).expect("small")
}

/// One frame that does not say how long its content is.
fn zstd_stream(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).expect("memory");
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

/// An LZ4 frame of one block, with any flags and any checksum of the head and after the end mark.
fn lz4_frame(bytes: &[u8], flags: u8, head_check: Option<u8>, end: &[u8]) -> Vec<u8> {
    let block = lz4_flex::block::compress(bytes);
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, flags, 0x40];
    let made = (twox_hash::XxHash32::oneshot(0, &frame[4..6]) >> 8) as u8;
    frame.push(head_check.unwrap_or(made));
    frame.extend((block.len() as u32).to_le_bytes());
    frame.extend(block);
    frame.extend([0; 4]);
    frame.extend(end);
    frame
}

/// The checksum of an LZ4 frame's head as old clients made it: over the magic too.
fn old_head_check(flags: u8) -> u8 {
    (twox_hash::XxHash32::oneshot(0, &[0x04, 0x22, 0x4d, 0x18, flags, 0x40]) >> 8) as u8
}

/// Offsets and values of all records in `bytes`.
fn read_all(bytes: &[u8]) -> Result<Vec<(i64, Vec<u8>)>, RecordsError> {
    let mut all = Vec::new();
    for batch in RecordBatches::new(Bytes::from(bytes)) {
        let records = plain(&batch?)?;
        all.extend(
            records.into_iter().map(|record| (record.offset, record.value.unwrap_or_default())),
        );
    }
    Ok(all)
}

/// The offsets of all records in `bytes`.
fn offsets(bytes: &[u8]) -> Result<Vec<i64>, RecordsError> {
    Ok(read_all(bytes)?.into_iter().map(|(offset, _)| offset).collect())
}
