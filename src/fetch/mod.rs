//! Reading: ranges of a partition, and the offsets that bound them.
//!
//! ```text
//! reader     RangeReader: [start, end) of one partition, batch by batch or record by record
//! record     FetchedBatch, ConsumerRecord: pieces of the answer's buffer
//! offsets    earliest, latest, by time; many partitions at once
//! position   where a range reader stands                      (pure)
//! aborted    what a read_committed reader must not see        (pure)
//! ```
//!
//! All of it runs on the caller's threads.

mod aborted;
mod offsets;
mod position;
mod reader;
mod record;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

pub use offsets::{At, PartitionOffset};
pub(crate) use offsets::{list, list_now};
pub use reader::{Missing, RangeReader};
pub use record::{BatchIter, ConsumerRecord, FetchedBatch};

use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};

impl Client {
    /// Reads the offsets `range` of a partition, in order. `start..i64::MAX` follows the log.
    ///
    /// Asks nobody yet; the reader's calls block. Settings are those given to
    /// [`from_properties`](Client::from_properties), or the defaults.
    ///
    /// # Errors
    /// `InvalidInput` when the range is none.
    pub fn read(&self, topic: &str, partition: i32, range: Range<i64>) -> Result<RangeReader> {
        if range.start < 0 || range.end < range.start {
            let message = format!("{}..{} is no range of offsets", range.start, range.end);
            let error = Error::new(ErrorKind::InvalidInput, message);
            return Err(error.with_partition(topic, partition));
        }
        let cluster = Arc::clone(self.cluster());
        Ok(RangeReader::new(cluster, self.fetch_config().clone(), topic, partition, range))
    }

    /// An offset of every partition of `topic`, one result each: a leader that does not answer
    /// costs its own partitions only.
    ///
    /// Blocks for `default.api.timeout.ms` at most.
    ///
    /// # Errors
    /// When the topic cannot be looked up.
    pub fn offsets(&self, topic: &str, at: At) -> Result<Vec<Result<PartitionOffset>>> {
        let deadline = self.cluster().default_deadline();
        let info = self.cluster().topic(topic, deadline)?;
        let wanted: Vec<_> =
            info.partitions.iter().map(|p| (Arc::clone(&info.name), p.index)).collect();
        let isolation = self.fetch_config().isolation_level;
        let found = list(self.cluster(), &wanted, at, isolation, deadline);
        let pairs = found.into_iter().zip(wanted);
        Ok(pairs
            .map(|(offset, (_, partition))| {
                offset.map(|offset| PartitionOffset { partition, offset })
            })
            .collect())
    }
}
