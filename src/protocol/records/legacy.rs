//! Messages of magic 0 and 1, and compressed sets of them: only read, never written.
//!
//! ```text
//! offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | [timestamp i64, magic 1] |
//! key i32 + bytes | value i32 + bytes
//! ```
//!
//! A message with a codec is a wrapper: its value is a compressed set of messages of the same magic,
//! which are not compressed themselves. The inner offsets of magic 0 are those of the log. Those of
//! magic 1 count from the first message, and the wrapper carries the offset of the last one (KIP-31),
//! so the set is gone through once for its last offset before records are given. Checksums are those
//! of the entries of the log: a wrapper's covers the compressed set.

use super::batch::codec;
use super::record::Layout;
use super::{Compression, Decompressor, Headers, RecordBatch, RecordView, Records, RecordsError};
use super::{RecordsErrorKind, at};
use crate::protocol::{DecodeErrorKind, Decoded, Reader};

/// What magic 0 has for a timestamp.
const NO_TIMESTAMP: i64 = -1;

/// One entry of a message set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) offset: i64,
    pub(super) magic: i8,
    pub(super) attributes: i8,
    pub(super) timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Reads the next entry of a set.
    pub(super) fn read(set: &mut Reader<'a>) -> Decoded<Self> {
        let offset = set.i64()?;
        let size = set.i32()?;
        let size = usize::try_from(size)
            .map_err(|_| set.error(DecodeErrorKind::IllegalLength(i64::from(size))))?;
        let start = set.position();
        let mut fields = Reader::new(set.take(size)?);
        Self::read_fields(offset, &mut fields).map_err(|mut error| {
            error.position += start;
            error
        })
    }

    fn read_fields(offset: i64, fields: &mut Reader<'a>) -> Decoded<Self> {
        fields.u32()?;
        let magic = fields.i8()?;
        let attributes = fields.i8()?;
        let timestamp = match magic {
            0 => NO_TIMESTAMP,
            1 => fields.i64()?,
            _ => {
                let (what, value) = ("magic of a message", i64::from(magic));
                return Err(fields.error(DecodeErrorKind::IllegalValue { what, value }));
            }
        };
        let key = nullable(fields)?;
        let value = nullable(fields)?;
        fields.clone().finish()?;
        Ok(Self { offset, magic, attributes, timestamp, key, value })
    }
}

/// A key or value: length -1 is null, anything below it is damage.
fn nullable<'a>(fields: &mut Reader<'a>) -> Decoded<Option<&'a [u8]>> {
    let length = fields.i32()?;
    match usize::try_from(length) {
        Ok(length) => fields.take(length).map(Some),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(fields.error(DecodeErrorKind::IllegalLength(i64::from(length)))),
    }
}

/// The checksum that the entry carries, and that of its bytes from the magic on.
pub(super) fn crcs(entry: &[u8]) -> Decoded<(u32, u32)> {
    let mut reader = Reader::new(entry);
    reader.take(at::LENGTH.end)?;
    let stored = reader.u32()?;
    let covered = reader.take(reader.remaining())?;
    Ok((stored, crc32fast::hash(covered)))
}

/// The records of an entry: the one message, or those of the set in it.
pub(super) fn records(
    batch: &RecordBatch,
    decompressor: &mut Decompressor,
) -> Result<Records, RecordsError> {
    let layout = Layout { base_shift: 0, ..Layout::of(batch) };
    if batch.compression == Compression::None {
        return Ok(Records::new(batch.bytes.clone(), 1, layout));
    }
    let wrapper = Message::read(&mut Reader::new(&batch.bytes))?;
    let Some(value) = wrapper.value else {
        let null = Reader::new(&batch.bytes).error(DecodeErrorKind::IllegalNull);
        return Err(null.in_field("Message.value").into());
    };
    let start = batch.bytes.len() - value.len();
    let stored = batch.bytes.slice(start..batch.bytes.len()).expect("the value ends the message");
    let body = decompressor.decompress(batch.compression, batch.magic, &stored)?;
    let (count, last) = scan(&body, batch.magic)?;
    let base_shift = match last {
        Some(last) if batch.magic == 1 => shift(batch.last_offset, last)?,
        _ => 0,
    };
    Ok(Records::new(body, count, Layout { base_shift, ..layout }))
}

/// Goes through an inner set: how many messages, and the offset that the last one carries.
fn scan(set: &[u8], magic: i8) -> Result<(u32, Option<i64>), RecordsError> {
    let mut reader = Reader::new(set);
    let (mut count, mut last) = (0_u32, None);
    while reader.remaining() > 0 {
        let position = reader.position();
        let message = Message::read(&mut reader)?;
        if message.magic != magic {
            let value = i64::from(message.magic);
            return Err(RecordsError::illegal("magic of an inner message", value, position));
        }
        if codec(i16::from(message.attributes), magic)? != Compression::None {
            let value = i64::from(message.attributes);
            return Err(RecordsError::illegal("attributes of an inner message", value, position));
        }
        count = count.checked_add(1).ok_or(RecordsErrorKind::TooLarge { limit: set.len() })?;
        last = Some(message.offset);
    }
    Ok((count, last))
}

/// What to add to inner offsets of magic 1 so that the last one becomes the wrapper's.
fn shift(wrapper_offset: i64, last: i64) -> Result<i64, RecordsError> {
    // As a producer sent it, before a broker gave it an offset: the inner ones are what there is.
    if wrapper_offset == 0 {
        return Ok(0);
    }
    let shift = wrapper_offset.wrapping_sub(last);
    if last < 0 || shift < 0 {
        return Err(RecordsError::illegal("offset of an inner message", last, 0));
    }
    Ok(shift)
}

/// One message as a record.
pub(super) fn read_record<'a>(reader: &mut Reader<'a>, layout: &Layout) -> Decoded<RecordView<'a>> {
    let message = Message::read(reader)?;
    let offset = message.offset.wrapping_add(layout.base_shift);
    if message.offset < 0 || offset < 0 {
        let (what, value) = ("offset of a message", message.offset);
        return Err(reader.error(DecodeErrorKind::IllegalValue { what, value }));
    }
    let timestamp_ms = layout.append_timestamp.unwrap_or(message.timestamp);
    let (key, value) = (message.key, message.value);
    Ok(RecordView { offset, timestamp_ms, key, value, headers: Headers::default() })
}
