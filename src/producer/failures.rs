//! Failed records as a channel: for a program that wants to read what was not delivered, instead of asking each ticket.
//!
//! Empty until somebody asks for it, and then it costs nothing while records are stored. The sending side never waits: what
//! does not fit is counted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError};

use super::batch::Batch;
use super::record::Undelivered;
use crate::error::{Error, ErrorKind, Result};

/// Where failed records go.
#[derive(Debug, Default)]
pub(super) struct Failures {
    sender: OnceLock<Sender<Undelivered>>,
    untold: AtomicU64,
}

impl Failures {
    /// Opens the channel, with room for `capacity` records.
    ///
    /// # Errors
    /// `InvalidInput` for the second call, and without room.
    pub(super) fn open(&self, capacity: usize) -> Result<Receiver<Undelivered>> {
        let refuse = |why| Err(Error::new(ErrorKind::InvalidInput, why));
        if capacity == 0 {
            return refuse("a channel of failures needs room for one at least");
        }
        let (sender, receiver) = crossbeam_channel::bounded(capacity);
        match self.sender.set(sender) {
            Ok(()) => Ok(receiver),
            Err(_) => refuse("the failures of a producer go to one channel"),
        }
    }

    /// Records that failed and found no room.
    pub(super) fn untold(&self) -> u64 {
        self.untold.load(Ordering::Relaxed)
    }

    /// Tells those records of `batch`, by their place, that `reason_of` gives a reason for.
    pub(super) fn tell(&self, batch: &mut Batch, reason_of: impl Fn(u32) -> Option<Error>) {
        let Some(sender) = self.sender.get() else { return };
        let topic = batch.outcome.topic().unwrap_or_default();
        let partition = batch.outcome.partition();
        let unknown = Error::new(ErrorKind::Closed, "its reason is not known");
        let all = match batch.undelivered(&topic, partition, &unknown) {
            Ok(all) => all,
            Err(unreadable) => {
                log::error!("a batch of ours cannot be read back: {unreadable}");
                self.untold.fetch_add(u64::from(batch.records), Ordering::Relaxed);
                return;
            }
        };
        for (place, mut record) in (0..).zip(all) {
            let Some(reason) = reason_of(place) else { continue };
            record.reason = reason;
            match sender.try_send(record) {
                Ok(()) => {}
                // Nobody reads any more: nobody misses it.
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    self.untold.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}
