//! Between the formats: what brokers before 4.0 do for clients that know only magic 0 or 1.
//!
//! On arrival their messages become one batch of magic 2 with the codec they had
//! (`LogValidator.convertAndAssignOffsetsNonCompressed`). On the way out batches become messages
//! (`RecordsUtil.downConvert`), which are not compressed here; markers are left out, headers are lost.

use super::{Refusal, Rules, code_of};
use crate::protocol::records::{
    BatchBuilder, Compression, Compressor, Decompressor, RecordBatches, assign,
};
use crate::protocol::{Bytes, ErrorCode};

/// The messages of a set as one batch.
pub(super) fn to_batch(set: &Bytes, rules: &Rules) -> Result<Bytes, Refusal> {
    let refused = |code| Err(Refusal::by_log(code));
    let mut builder = BatchBuilder::new(Vec::new());
    let mut decompressor = Decompressor::new();
    let mut codec = None;
    for entry in RecordBatches::new(set.clone()) {
        let entry = entry.map_err(|error| Refusal::bare(code_of(error.kind())))?;
        if entry.magic() == 2 {
            return refused(ErrorCode::INVALID_RECORD);
        }
        if entry.size() > rules.message_bytes_max {
            return Err(Refusal::bare(ErrorCode::MESSAGE_TOO_LARGE));
        }
        codec.get_or_insert(entry.compression());
        let records = entry.records(&mut decompressor);
        let records = records.map_err(|error| Refusal::by_log(code_of(error.kind())))?;
        for record in &records {
            let record = record.map_err(|error| Refusal::by_log(code_of(error.kind())))?;
            let appended = builder.append(record.timestamp_ms, record.key, record.value, &[]);
            if appended.is_err() {
                return refused(ErrorCode::MESSAGE_TOO_LARGE);
            }
        }
    }
    let codec = codec.unwrap_or(Compression::None);
    match builder.finish(codec, None, &mut Compressor::new()) {
        Ok(batch) => Ok(Bytes::from(batch)),
        Err(error) => refused(code_of(error.kind())),
    }
}

/// The batches as messages for a Fetch of version 0 to 3, from offset `from` on.
///
/// # Errors
/// `UNSUPPORTED_COMPRESSION_TYPE` for zstd, which the older formats do not have.
pub(in crate::broker) fn to_messages(
    batches: Bytes,
    from: i64,
    version: i16,
) -> Result<Bytes, ErrorCode> {
    let magic = i8::from(version >= 2);
    let mut decompressor = Decompressor::new();
    let mut set = Vec::new();
    let mut whole = 0;
    for batch in RecordBatches::new(batches.clone()).without_crc_check() {
        let batch = batch.map_err(|error| code_of(error.kind()))?;
        whole += 1;
        if batch.compression() == Compression::Zstd {
            return Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
        }
        if batch.is_control() {
            continue;
        }
        let records = batch.records(&mut decompressor).map_err(|error| code_of(error.kind()))?;
        for record in &records {
            let record = record.map_err(|error| code_of(error.kind()))?;
            if record.offset >= from {
                assign::put_message(&mut set, magic, &record, batch.timestamp_type());
            }
        }
    }
    // A first batch that is cut tells the client that it must ask for more bytes.
    Ok(if whole == 0 { batches } else { Bytes::from(set) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::records::{RecordView, TimestampType};

    fn batch(codec: Compression) -> Bytes {
        let mut builder = BatchBuilder::new(Vec::new());
        for index in 0..3_i64 {
            let value = format!("value {index}");
            builder.append(1000 + index, Some(b"k"), Some(value.as_bytes()), &[]).expect("room");
        }
        let batch = builder.finish(codec, None, &mut Compressor::new()).expect("a batch");
        Bytes::from(batch)
    }

    fn rules() -> Rules {
        Rules::of(&std::collections::BTreeMap::new(), crate::broker::Release::V2_1)
    }

    #[test]
    fn records_survive_the_way_down_and_up_again() {
        for codec in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4] {
            let down = to_messages(batch(codec), 1, 3).expect("converted");
            let up = to_batch(&down, &rules()).expect("converted");
            let batch = RecordBatches::new(up).next().expect("one").expect("well-formed");
            assert_eq!((batch.magic(), batch.record_count()), (2, Some(2)));
            let records = batch.records(&mut Decompressor::new()).expect("records");
            let values: Vec<_> =
                records.iter().map(|r| r.expect("read").value.map(<[u8]>::to_vec)).collect();
            assert_eq!(values, [Some(b"value 1".to_vec()), Some(b"value 2".to_vec())]);
        }
        assert_eq!(
            to_messages(batch(Compression::Zstd), 0, 3),
            Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE)
        );
    }

    #[test]
    fn messages_have_the_bytes_that_old_brokers_wrote() {
        let message = |magic, offset, timestamp_ms, key, value| {
            let mut set = Vec::new();
            let headers = crate::protocol::records::Headers::default();
            let record = RecordView { offset, timestamp_ms, key, value, headers };
            assign::put_message(&mut set, magic, &record, TimestampType::CreateTime);
            set
        };
        let hello = b"\0\0\0\0\0\0\0\0\0\0\0\x1b\x94\x2d\xa3\x41\x01\0\0\0\0\0\0\0\x03\xe8\
                      \xff\xff\xff\xff\0\0\0\x05hello";
        assert_eq!(message(1, 0, 1000, None, Some(b"hello")), hello);
        let short = b"\0\0\0\0\0\0\0\x05\0\0\0\x10\x1f\xec\xd7\x0a\0\0\0\0\0\x01k\0\0\0\x01v";
        assert_eq!(message(0, 5, 7, Some(b"k"), Some(b"v")), short);
    }
}
