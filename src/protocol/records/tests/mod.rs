//! Tests of reading and writing records: known bytes, reported faults, laws over generated batches,
//! and damage. What they share is here.

mod golden;

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
