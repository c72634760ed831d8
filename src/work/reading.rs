//! Reads a unit with the range reader of [`crate::fetch`].
//!
//! By the topic's id: a unit that was planned before its topic was made anew never reads the new
//! one. What retention took is passed over and told; an offset beyond the log's end is waited for.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::clock::Deadline;
use crate::cluster::Cluster;
use crate::config::FetchConfig;
use crate::error::Result;
use crate::fetch::{Missing, RangeReader};
use crate::protocol::Uuid;
use crate::work::kafka::{Portion, UnitReader};
use crate::work::unit::UnitId;

/// The reader of a unit.
struct RangeOfUnit {
    reader: RangeReader,
    skipped: VecDeque<Range<i64>>,
}

/// Begins to read `unit` from its start. Asks nobody yet.
pub(crate) fn open(
    cluster: &Arc<Cluster>,
    config: &FetchConfig,
    unit: &UnitId,
    topic_id: Uuid,
) -> Box<dyn UnitReader> {
    let range = unit.start()..unit.end();
    let (cluster, config) = (Arc::clone(cluster), config.clone());
    let reader = RangeReader::new(cluster, config, unit.topic(), unit.partition(), range)
        .pinned_to(Some(topic_id))
        .on_missing(Missing::Skip);
    Box::new(RangeOfUnit { reader, skipped: VecDeque::new() })
}

impl UnitReader for RangeOfUnit {
    fn next(&mut self, deadline: Deadline) -> Result<Portion> {
        if let Some(Range { start: from, end: to }) = self.skipped.pop_front() {
            return Ok(Portion::Skipped { from, to });
        }
        let next = self.reader.next_batch_by(deadline);
        self.skipped.extend(self.reader.take_skipped());
        match next? {
            // A skip comes before every batch of its answer, so it is told next and the order of
            // what the handler sees does not change.
            Some(batch) => Ok(Portion::Batch(batch)),
            None if !self.skipped.is_empty() => self.next(deadline),
            None if self.reader.is_finished() => Ok(Portion::End),
            None => Ok(Portion::Nothing),
        }
    }
}
