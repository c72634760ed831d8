//! [`RecordBatch`]: one entry of a log with its head read and its checksum compared.
//!
//! In the present format (magic 2) that is a batch; in the older ones it is one message, or a
//! wrapper message whose value is a compressed set of messages. The head is enough to keep the
//! reader's position and to decide by producer and transaction; records come from
//! [`RecordBatch::records`], which decompresses.
//!
//! Knows nothing of answers and partitions. Invariant: offsets are not negative, and `last_offset`
//! is neither below `base_offset` nor the highest there is, so that a next one exists.

use super::legacy::{self, Message};
use super::{Compression, Decompressor, Records, RecordsError, RecordsErrorKind, at, attribute};
use crate::protocol::{Bytes, Decoded, Reader};

/// Which time a batch's timestamps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimestampType {
    /// Set by the producer, record by record. Also of magic 0, which has no timestamps.
    CreateTime,
    /// Set by the broker, one for all records of a batch.
    LogAppendTime,
}

/// What a control batch says. Its record is never given to applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ControlKind {
    /// The producer's transaction in this partition was aborted.
    Abort,
    /// The producer's transaction in this partition was committed.
    Commit,
    /// Something else, for the brokers themselves.
    Other(i16),
}

/// One batch of a log (or one message of the older formats). Cheap to clone.
#[derive(Clone, Debug)]
pub struct RecordBatch {
    pub(super) bytes: Bytes,
    pub(super) magic: i8,
    pub(super) attributes: i16,
    pub(super) compression: Compression,
    pub(super) base_offset: i64,
    pub(super) last_offset: i64,
    leader_epoch: i32,
    pub(super) base_timestamp: i64,
    pub(super) max_timestamp: i64,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    pub(super) record_count: Option<u32>,
}

impl RecordBatch {
    /// Reads the head of the entry that `bytes` are exactly; magic and length were looked at.
    pub(super) fn read(bytes: Bytes, check_crc: bool) -> Result<Self, RecordsError> {
        let magic = bytes.get(at::MAGIC).map_or(-1, |byte| *byte as i8);
        match magic {
            2 => Self::read_v2(bytes, check_crc),
            _ => Self::read_legacy(bytes, magic, check_crc),
        }
    }

    fn read_v2(bytes: Bytes, check_crc: bool) -> Result<Self, RecordsError> {
        let (batch, crc, last_offset_delta, count) = Self::head(bytes)?;
        let base_offset = batch.base_offset;
        let last_offset = u32::try_from(last_offset_delta)
            .ok()
            .and_then(|delta| base_offset.checked_add(i64::from(delta)))
            .filter(|last| base_offset >= 0 && *last < i64::MAX);
        let fail = |error: RecordsError| Err(error.at(base_offset, last_offset));
        if check_crc {
            let computed = crc32c::crc32c(batch.bytes.get(at::CHECKED..).unwrap_or_default());
            if computed != crc {
                return fail(RecordsErrorKind::BadCrc { stored: crc, computed }.into());
            }
        }
        let Some(last_offset) = last_offset else {
            return fail(if base_offset < 0 {
                RecordsError::illegal("base_offset", base_offset, 0)
            } else {
                let delta = i64::from(last_offset_delta);
                RecordsError::illegal("last_offset_delta", delta, at::LAST_OFFSET_DELTA.start)
            });
        };
        let Ok(record_count) = u32::try_from(count) else {
            let position = at::RECORD_COUNT.start;
            return fail(RecordsError::illegal("record_count", i64::from(count), position));
        };
        match codec(batch.attributes, 2) {
            Ok(compression) => {
                Ok(Self { last_offset, compression, record_count: Some(record_count), ..batch })
            }
            Err(error) => fail(error),
        }
    }

    /// The fields of a magic 2 head, with those apart that are checked later: checksum, last offset
    /// delta and record count.
    fn head(bytes: Bytes) -> Decoded<(Self, u32, i32, i32)> {
        let mut reader = Reader::new(&bytes);
        let base_offset = reader.i64()?;
        reader.i32()?;
        let leader_epoch = reader.i32()?;
        let magic = reader.i8()?;
        let crc = reader.u32()?;
        let attributes = reader.i16()?;
        let last_offset_delta = reader.i32()?;
        let base_timestamp = reader.i64()?;
        let max_timestamp = reader.i64()?;
        let producer_id = reader.i64()?;
        let producer_epoch = reader.i16()?;
        let base_sequence = reader.i32()?;
        let record_count = reader.i32()?;
        let batch = Self {
            bytes,
            magic,
            attributes,
            compression: Compression::None,
            base_offset,
            last_offset: base_offset,
            leader_epoch,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count: None,
        };
        Ok((batch, crc, last_offset_delta, record_count))
    }

    fn read_legacy(bytes: Bytes, magic: i8, check_crc: bool) -> Result<Self, RecordsError> {
        let mut reader = Reader::new(&bytes);
        let offset = reader.i64()?;
        let fail = |error: RecordsError| Err(error.at(offset, Some(offset)));
        if check_crc {
            let (stored, computed) = legacy::crcs(&bytes)?;
            if stored != computed {
                return fail(RecordsErrorKind::BadCrc { stored, computed }.into());
            }
        }
        let message = match Message::read(&mut Reader::new(&bytes)) {
            Ok(message) => message,
            Err(error) => return fail(error.into()),
        };
        if !(0..i64::MAX).contains(&offset) {
            return fail(RecordsError::illegal("offset", offset, 0));
        }
        let (attributes, timestamp) = (i16::from(message.attributes), message.timestamp);
        let compression = match codec(attributes, magic) {
            Ok(compression) => compression,
            Err(error) => return fail(error),
        };
        let record_count = if compression == Compression::None { Some(1) } else { None };
        // Magic 0 has no such bit, and neither format has those of transactions.
        let kept = attribute::CODEC | if magic == 1 { attribute::LOG_APPEND_TIME } else { 0 };
        Ok(Self {
            bytes,
            magic,
            attributes: attributes & kept,
            compression,
            base_offset: offset,
            last_offset: offset,
            leader_epoch: -1,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count,
        })
    }

    /// The offset of the first record, as the batch was written; compaction may have removed it.
    ///
    /// Of a compressed set of the older formats it is the last offset: the first is known only
    /// after decompression.
    pub fn base_offset(&self) -> i64 {
        self.base_offset
    }

    /// The last offset that the batch takes, whether or not its record is still there: reading
    /// goes on at the next one, whatever the batch contains.
    pub fn last_offset(&self) -> i64 {
        self.last_offset
    }

    /// The epoch of the leader that appended it.
    pub fn leader_epoch(&self) -> Option<i32> {
        (self.leader_epoch >= 0).then_some(self.leader_epoch)
    }

    /// The latest timestamp of its records in milliseconds, or the time of appending; -1 where
    /// there is none.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Who produced it, if idempotent or transactional.
    pub fn producer_id(&self) -> Option<i64> {
        (self.producer_id >= 0).then_some(self.producer_id)
    }

    /// The producer's epoch.
    pub fn producer_epoch(&self) -> Option<i16> {
        (self.producer_id >= 0).then_some(self.producer_epoch)
    }

    /// The sequence number of its first record.
    pub fn base_sequence(&self) -> Option<i32> {
        (self.producer_id >= 0 && self.base_sequence >= 0).then_some(self.base_sequence)
    }

    /// How many records it has; unknown for a compressed set of the older formats.
    ///
    /// A number that a peer announced: reserve nothing for it unseen.
    pub fn record_count(&self) -> Option<u32> {
        self.record_count
    }

    /// The record format: 0, 1 or 2.
    pub fn magic(&self) -> i8 {
        self.magic
    }

    /// The codec.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Its size in the log in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Its bytes as they are in the log.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Which time its timestamps are.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & attribute::LOG_APPEND_TIME != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// Whether it belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & attribute::TRANSACTIONAL != 0
    }

    /// Whether it is a marker, not data: see [`RecordBatch::control_kind`].
    pub fn is_control(&self) -> bool {
        self.attributes & attribute::CONTROL != 0
    }

    /// When the tombstones and markers in it may go, in milliseconds (KIP-534).
    pub fn delete_horizon(&self) -> Option<i64> {
        (self.attributes & attribute::DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    /// What a control batch says; `None` for a batch of data, and for a marker whose record was
    /// removed by compaction.
    ///
    /// # Errors
    /// When its record is damaged.
    pub fn control_kind(
        &self,
        decompressor: &mut Decompressor,
    ) -> Result<Option<ControlKind>, RecordsError> {
        if !self.is_control() {
            return Ok(None);
        }
        let records = self.records(decompressor)?;
        let Some(marker) = records.iter().next().transpose()? else {
            return Ok(None);
        };
        // Newer versions of the key are read as version 0: fields are only added.
        let mut key = Reader::new(marker.key.unwrap_or_default());
        let code = key.i16().and_then(|_version| key.i16()).map_err(|error| {
            RecordsError::from(error.in_field("ControlRecord.type"))
                .at(self.base_offset, Some(self.last_offset))
        })?;
        Ok(Some(match code {
            0 => ControlKind::Abort,
            1 => ControlKind::Commit,
            other => ControlKind::Other(other),
        }))
    }

    /// The records, decompressed if need be. Records that are not compressed are not copied.
    ///
    /// # Errors
    /// When the compressed data is damaged or larger than the decompressor's limit, when the number
    /// of records cannot be true, and, in the older formats, when a message in a set is damaged.
    pub fn records(&self, decompressor: &mut Decompressor) -> Result<Records, RecordsError> {
        let records = match self.magic {
            2 => Records::of_batch(self, decompressor),
            _ => legacy::records(self, decompressor),
        };
        records.map_err(|error| error.at(self.base_offset, Some(self.last_offset)))
    }
}

/// The codec that the attributes of a batch name, if its format has it.
pub(super) fn codec(attributes: i16, magic: i8) -> Result<Compression, RecordsError> {
    let id = (attributes & attribute::CODEC) as u8;
    match Compression::from_id(id) {
        None => Err(RecordsErrorKind::UnknownCodec(id).into()),
        Some(codec @ Compression::Zstd) if magic < 2 => {
            Err(RecordsErrorKind::CodecNotInFormat { codec, magic }.into())
        }
        Some(codec) => Ok(codec),
    }
}
