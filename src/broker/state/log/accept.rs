//! Whether a leader takes what a producer sent: Kafka's `ProduceRequest.validateRecords`,
//! `UnifiedLog.analyzeAndValidateRecords` and `LogValidator`, in that order.
//!
//! The records inside a batch are looked at only where a rule asks for it: a compacted topic (keys),
//! timestamps that may be out of bounds. Otherwise checksum and head decide, so nothing is
//! decompressed.

use super::convert::to_batch;
use super::{Rules, code_of};
use crate::broker::release::Release;
use crate::protocol::records::{
    Compression, Decompressor, RecordBatch, RecordBatches, RecordView, TimestampType,
};
use crate::protocol::{Bytes, ErrorCode};

/// Records whose errors are told one by one (`LogValidator`).
const RECORD_ERRORS_MAX: usize = 10_000;
/// The first version of Produce that takes one batch of the present format only.
const ONE_BATCH_FROM: i16 = 3;
/// The first version of Produce that takes zstd (KIP-110).
const ZSTD_FROM: i16 = 7;

/// Why a batch is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Refusal {
    pub(in crate::broker) code: ErrorCode,
    /// What Kafka says about it, where it says anything.
    pub(in crate::broker) message: Option<String>,
    /// The records at fault, by their place in the batch.
    pub(in crate::broker) records: Vec<(i32, String)>,
    /// Whether Kafka tells the start of the log with it.
    pub(in crate::broker) tells_start: bool,
}

impl Refusal {
    /// One of which the code says all.
    pub(in crate::broker) fn bare(code: ErrorCode) -> Self {
        Self { code, message: None, records: Vec::new(), tells_start: false }
    }

    /// One that came from the log itself.
    pub(in crate::broker) fn by_log(code: ErrorCode) -> Self {
        Self { tells_start: true, ..Self::bare(code) }
    }
}

/// What was sent to a partition.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Sent<'a> {
    pub(in crate::broker) records: &'a Bytes,
    /// That of the Produce request.
    pub(in crate::broker) version: i16,
    /// The topic and partition, for words.
    pub(in crate::broker) place: (&'a str, i32),
    pub(in crate::broker) now_ms: i64,
}

/// The batch in it, whose form was checked, if a leader takes it.
///
/// # Errors
/// When it does not.
pub(in crate::broker) fn accept(sent: Sent<'_>, rules: &Rules) -> Result<RecordBatch, Refusal> {
    if is_legacy(sent) {
        let converted = to_batch(sent.records, rules)?;
        return accept(Sent { records: &converted, version: ONE_BATCH_FROM, ..sent }, rules);
    }
    let corrupt = Refusal::bare(ErrorCode::CORRUPT_MESSAGE);
    let base_offset = sent.records.first_chunk::<8>().ok_or_else(|| corrupt.clone())?;
    if *base_offset != [0; 8] {
        return Err(Refusal::by_log(ErrorCode::INVALID_RECORD));
    }
    let length = sent.records.get(8..12).and_then(<[u8]>::first_chunk::<4>).ok_or(corrupt)?;
    let size = i64::from(i32::from_be_bytes(*length)) + 12;
    if size > i64::try_from(rules.message_bytes_max).unwrap_or(i64::MAX) {
        return Err(Refusal::bare(ErrorCode::MESSAGE_TOO_LARGE));
    }
    let batch = match RecordBatches::new(sent.records.clone()).next() {
        Some(Ok(batch)) => batch,
        Some(Err(error)) => {
            let code = code_of(error.kind());
            let tells_start = code != ErrorCode::CORRUPT_MESSAGE;
            return Err(Refusal { tells_start, ..Refusal::bare(code) });
        }
        None => return Err(Refusal::bare(ErrorCode::INVALID_RECORD)),
    };
    check_head(&batch)?;
    check_records(&batch, sent, rules)?;
    Ok(batch)
}

/// Checks the form, before anything else is known: from version 3 on one batch, and of magic 2.
///
/// # Errors
/// When it has another one.
pub(in crate::broker) fn check_form(sent: Sent<'_>) -> Result<(), Refusal> {
    if is_legacy(sent) {
        return Ok(());
    }
    let mut batches = RecordBatches::new(sent.records.clone()).without_crc_check();
    let invalid = Err(Refusal::bare(ErrorCode::INVALID_RECORD));
    let codec = match batches.next() {
        None => return invalid,
        Some(Ok(batch)) if batch.magic() != 2 => return invalid,
        Some(Ok(batch)) => batch.compression(),
        // What is wrong with it is said once its checksum was compared.
        Some(Err(_)) if sent.records.get(16) == Some(&2) => return Ok(()),
        Some(Err(error)) => {
            // Of a format that it knows Kafka says no more than the code.
            let is_unknown = !matches!(sent.records.get(16), Some(0 | 1));
            let message = is_unknown.then(|| error.to_string());
            return Err(Refusal { message, ..Refusal::bare(code_of(error.kind())) });
        }
    };
    if sent.version < ZSTD_FROM && codec == Compression::Zstd {
        return Err(Refusal::bare(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE));
    }
    if batches.next().is_some() && sent.version >= ONE_BATCH_FROM {
        return invalid;
    }
    Ok(())
}

/// Whether it is a set of messages of the formats before 0.11.
fn is_legacy(sent: Sent<'_>) -> bool {
    sent.version < ONE_BATCH_FROM && matches!(sent.records.get(16), Some(0 | 1))
}

/// `LogValidator.validateBatch`.
fn check_head(batch: &RecordBatch) -> Result<(), Refusal> {
    let count = i64::from(batch.record_count().unwrap_or(0));
    let span = batch.last_offset() - batch.base_offset() + 1;
    let without_sequence = batch.producer_id().is_some() && batch.base_sequence().is_none();
    if count == 0 || span != count || batch.is_control() || without_sequence {
        return Err(Refusal::by_log(ErrorCode::INVALID_RECORD));
    }
    Ok(())
}

/// `LogValidator.validateRecord` for each record, where the head leaves it open.
fn check_records(batch: &RecordBatch, sent: Sent<'_>, rules: &Rules) -> Result<(), Refusal> {
    let (after, before) = (rules.after_max_ms, rules.before_max_ms);
    let latest = sent.now_ms.saturating_add(after);
    let earliest = sent.now_ms.saturating_sub(before);
    let own_time = !rules.append_time;
    if own_time && batch.timestamp_type() == TimestampType::LogAppendTime {
        let place = format!("{}-{}", sent.place.0, sent.place.1);
        let why = format!(
            "Invalid timestamp type in message of topic partition {place}. The producer should not \
             set timestamp type to LogAppendTime."
        );
        return Err(rejected(ErrorCode::INVALID_TIMESTAMP, vec![(0, why)]));
    }
    let by_time = own_time && (batch.max_timestamp() > latest || before != i64::MAX);
    if !by_time && !rules.compacts {
        return Ok(());
    }
    let by_log = |kind: &_| Refusal::by_log(code_of(kind));
    let records = batch.records(&mut Decompressor::new()).map_err(|error| by_log(error.kind()))?;
    let mut errors = Vec::new();
    let mut code = ErrorCode::INVALID_RECORD;
    for (index, record) in (0..).zip(&records) {
        let record = record.map_err(|error| by_log(error.kind()))?;
        let time = record.timestamp_ms;
        if rules.compacts && record.key.is_none() {
            errors.push((index, keyless(sent)));
        } else if by_time && time >= 0 && !(earliest..=latest).contains(&time) {
            code = ErrorCode::INVALID_TIMESTAMP;
            errors.push((index, out_of_time(&record, rules.release, (earliest, latest))));
        }
        if errors.len() == RECORD_ERRORS_MAX {
            break;
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(rejected(code, errors)) }
}

fn keyless(sent: Sent<'_>) -> String {
    let (topic, partition) = sent.place;
    format!(
        "Compacted topic cannot accept message without key in topic partition {topic}-{partition}."
    )
}

fn out_of_time(record: &RecordView<'_>, release: Release, range: (i64, i64)) -> String {
    let (time, offset, (earliest, latest)) = (record.timestamp_ms, record.offset, range);
    let should = if release >= Release::V2_8 { "should be" } else { "is required to be" };
    format!(
        "Timestamp {time} of message with offset {offset} is out of range. The timestamp {should} \
         within [{earliest}, {latest}]"
    )
}

fn rejected(code: ErrorCode, records: Vec<(i32, String)>) -> Refusal {
    let message = if code == ErrorCode::INVALID_TIMESTAMP {
        "One or more records have been rejected due to invalid timestamp".to_owned()
    } else {
        let shown: Vec<String> = records
            .iter()
            .take(3)
            .map(|(index, why)| format!("RecordError(batchIndex={index}, message='{why}')"))
            .collect();
        format!(
            "One or more records have been rejected due to {} record errors in total, and only \
             showing the first three errors at most: [{}]",
            records.len(),
            shown.join(", ")
        )
    };
    Refusal { code, message: Some(message), records, tells_start: true }
}
