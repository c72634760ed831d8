//! What a broker writes into a batch of magic 2 that a producer sent: its place in the log and, if
//! the topic says so, the time of appending. Everything else stays as it was sent.

use super::{BATCH_HEAD_BYTES, at, attribute};

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
