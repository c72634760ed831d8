//! Which batches go to the store, and what their tickets tell then.

use super::entry::Entry;
use crate::error::{Error, ErrorKind, Result};
use crate::producer::batch::Batch;
use crate::producer::core::Core;
use crate::protocol::records::Compressor;

impl Core {
    /// Stores those of `failed` that another time may deliver; their errors are of kind `StoredForRetry` then. Blocks on the disk.
    pub(in crate::producer) fn keep(&self, failed: &mut [(Batch, Error)]) {
        let Some(log) = &self.store else { return };
        let (mut entries, mut places) = (Vec::new(), Vec::new());
        let mut compressor = Compressor::new();
        for (place, (batch, error)) in failed.iter_mut().enumerate() {
            if batch.is_over() || !is_passing(error) {
                continue;
            }
            if batch.is_from_store {
                *error = stored(error);
                continue;
            }
            match self.entry_of(batch, &mut compressor) {
                Ok(entry) => {
                    entries.push(entry);
                    places.push(place);
                }
                Err(unreadable) => {
                    ::log::error!("producer: a batch cannot be stored: {unreadable}");
                }
            }
        }
        if entries.is_empty() {
            return;
        }
        let count = match log.append(&entries) {
            Ok(count) => count,
            Err(error) => {
                ::log::error!("producer: {error}");
                return;
            }
        };
        if count < entries.len() {
            ::log::warn!(
                "producer: the retry store is full ({} bytes): {} batches are lost",
                log.bytes(),
                entries.len() - count
            );
        }
        for place in places.into_iter().take(count) {
            if let Some((_, error)) = failed.get_mut(place) {
                *error = stored(error);
            }
        }
    }

    fn entry_of(&self, batch: &mut Batch, compressor: &mut Compressor) -> Result<Entry> {
        let partition = batch.outcome.origin();
        let partition = partition.ok_or_else(|| {
            Error::new(ErrorKind::Closed, "the batch's partition is gone before the batch")
        })?;
        Ok(Entry {
            topic: partition.topic.to_string(),
            topic_id: partition.topic_id,
            partition: partition.index,
            records: batch.records,
            batch: batch.encode(self.codec, None, compressor)?,
        })
    }
}

/// Whether a later attempt may end better.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Closed) && error.broker_code().is_none()
}

fn stored(error: &Error) -> Error {
    let message = "the record was not delivered; it is in the retry store and will be sent again";
    let possibly = error.possibly_persisted();
    let topic = error.topic().unwrap_or_default().to_owned();
    Error::new(ErrorKind::StoredForRetry, message)
        .with_partition(&topic, error.partition().unwrap_or(-1))
        .maybe_persisted(possibly)
        .with_source(error.clone())
}
