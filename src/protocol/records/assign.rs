//! What a broker writes. Into a batch of magic 2 that a producer sent: its place in the log and, if
//! the topic says so, the time of appending; everything else stays as it was sent. In place of one:
//! what compaction leaves of it. For old clients: messages of the older formats.
//!
//! Only the in-process broker uses it.

use super::{
    BATCH_HEAD_BYTES, Compression, Compressor, RecordBatch, RecordView, TimestampType, at,
    attribute,
};

/// A copy of `batch` with its offset and the leader's epoch, which no checksum covers; `None` when
/// it has no whole head.
pub(crate) fn placed(batch: &[u8], base_offset: i64, leader_epoch: i32) -> Option<Vec<u8>> {
    if batch.len() < BATCH_HEAD_BYTES {
        return None;
    }
    let mut copy = batch.to_vec();
    copy.get_mut(..at::LENGTH.start)?.copy_from_slice(&base_offset.to_be_bytes());
    copy.get_mut(at::LEADER_EPOCH)?.copy_from_slice(&leader_epoch.to_be_bytes());
    Some(copy)
}

/// Gives the batch the time of its appending, for all of its records, and a new checksum; `None`
/// when it has no whole head.
pub(crate) fn set_append_time(batch: &mut [u8], append_ms: i64) -> Option<()> {
    let low = batch.get_mut(at::ATTRIBUTES)?.last_mut()?;
    *low |= attribute::LOG_APPEND_TIME as u8;
    batch.get_mut(at::MAX_TIMESTAMP)?.copy_from_slice(&append_ms.to_be_bytes());
    update_crc(batch)
}

/// Makes a marker of a finished batch of one record: the attributes, and the checksum again.
pub(crate) fn set_control(batch: &mut [u8]) -> Option<()> {
    let low = batch.get_mut(at::ATTRIBUTES)?.last_mut()?;
    *low |= (attribute::TRANSACTIONAL | attribute::CONTROL) as u8;
    update_crc(batch)
}

fn update_crc(batch: &mut [u8]) -> Option<()> {
    let crc = crc32c::crc32c(batch.get(at::CHECKED..)?);
    batch.get_mut(at::CRC)?.copy_from_slice(&crc.to_be_bytes());
    Some(())
}

/// The batch with `kept` of its records only, as compaction leaves it: offsets, producer and codec stay.
/// With `delete_horizon` that becomes the base of its timestamps (KIP-534). `None` when it does not
/// compress, or has grown beyond what the format can say.
pub(crate) fn with_records(
    batch: &RecordBatch,
    kept: &[RecordView<'_>],
    delete_horizon: Option<i64>,
    compressor: &mut Compressor,
) -> Option<Vec<u8>> {
    let first_time = kept.first().map_or(-1, |record| record.timestamp_ms);
    let base_timestamp = delete_horizon.unwrap_or(first_time);
    let mut body = Vec::new();
    for record in kept {
        put_record(&mut body, record, batch.base_offset(), base_timestamp);
    }
    let codec = if kept.is_empty() { Compression::None } else { batch.compression() };
    let stored = match codec {
        Compression::None => body.as_slice(),
        codec => compressor.compress(codec, None, &body).ok()?,
    };
    let mut copy = batch.bytes().get(..BATCH_HEAD_BYTES)?.to_vec();
    copy.extend_from_slice(stored);
    let length = i32::try_from(copy.len() - at::LENGTH.end).ok()?;
    let latest = match batch.timestamp_type() {
        TimestampType::LogAppendTime => batch.max_timestamp(),
        TimestampType::CreateTime => {
            let times = kept.iter().map(|record| record.timestamp_ms);
            times.max().unwrap_or(batch.max_timestamp())
        }
    };
    let mut attributes = batch.attributes & !(attribute::CODEC | attribute::DELETE_HORIZON);
    attributes |= i16::from(codec.id());
    if delete_horizon.is_some() && !kept.is_empty() {
        attributes |= attribute::DELETE_HORIZON;
    }
    let count = i32::try_from(kept.len()).ok()?;
    copy.get_mut(at::LENGTH)?.copy_from_slice(&length.to_be_bytes());
    copy.get_mut(at::ATTRIBUTES)?.copy_from_slice(&attributes.to_be_bytes());
    copy.get_mut(at::BASE_TIMESTAMP)?.copy_from_slice(&base_timestamp.to_be_bytes());
    copy.get_mut(at::MAX_TIMESTAMP)?.copy_from_slice(&latest.to_be_bytes());
    copy.get_mut(at::RECORD_COUNT)?.copy_from_slice(&count.to_be_bytes());
    update_crc(&mut copy)?;
    Some(copy)
}

fn put_record(body: &mut Vec<u8>, record: &RecordView<'_>, base_offset: i64, base_timestamp: i64) {
    let mut fields = vec![0];
    put_varlong(&mut fields, record.timestamp_ms.wrapping_sub(base_timestamp));
    put_varlong(&mut fields, record.offset - base_offset);
    for field in [record.key, record.value] {
        put_varlong(&mut fields, field.map_or(-1, |bytes| bytes.len() as i64));
        fields.extend_from_slice(field.unwrap_or_default());
    }
    let (headers, count) = record.headers.raw();
    put_varlong(&mut fields, i64::from(count));
    fields.extend_from_slice(headers);
    put_varlong(body, fields.len() as i64);
    body.extend_from_slice(&fields);
}

/// Zig-zag and variable in length.
fn put_varlong(bytes: &mut Vec<u8>, value: i64) {
    let mut code = ((value << 1) ^ (value >> 63)) as u64;
    while code >= 0x80 {
        bytes.push(code as u8 | 0x80);
        code >>= 7;
    }
    bytes.push(code as u8);
}

/// Appends a message of magic 0 or 1, not compressed, to a set of such: what a broker before 4.0 makes
/// for clients that know nothing newer. Headers are lost, as there.
pub(crate) fn put_message(
    set: &mut Vec<u8>,
    magic: i8,
    record: &RecordView<'_>,
    kind: TimestampType,
) {
    let appended = magic == 1 && kind == TimestampType::LogAppendTime;
    let mut checked =
        vec![magic as u8, if appended { attribute::LOG_APPEND_TIME as u8 } else { 0 }];
    if magic == 1 {
        checked.extend_from_slice(&record.timestamp_ms.to_be_bytes());
    }
    for field in [record.key, record.value] {
        let length = field.map_or(-1, |bytes| bytes.len() as i32);
        checked.extend_from_slice(&length.to_be_bytes());
        checked.extend_from_slice(field.unwrap_or_default());
    }
    set.extend_from_slice(&record.offset.to_be_bytes());
    set.extend_from_slice(&(checked.len() as i32 + 4).to_be_bytes());
    set.extend_from_slice(&crc32fast::hash(&checked).to_be_bytes());
    set.extend_from_slice(&checked);
}
