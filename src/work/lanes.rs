//! One unit's records by several threads, those of a key in order.
//!
//! ```text
//!   worker: records ─▶ lane of the key (murmur2) ─▶ ottla-k-0: handler ─┐
//!                                              └──▶ ottla-k-1: handler ─┴▶ done_to(lowest open)
//! ```
//!
//! The threads live as long as the unit is handled; the worker joins them. A lane holds a bounded
//! number of records, and a full one holds the reading up. After a failure no lane begins another
//! record. Invariant: the position passes a record only after it and all before it are handled, or
//! given up with their letters stored.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::error::Error;
use crate::fetch::ConsumerRecord;
use crate::producer::partitioner::murmur2;
use crate::threads;
use crate::work::handler::{Handler, HandlerResult};
use crate::work::records::{PortionHandler, RecordSink, handle};
use crate::work::unit_handle::Unit;

/// Records that wait in a lane.
const LANE_RECORDS_MAX: usize = 256;

/// A handler of units that shares each among `lanes` threads.
pub(crate) fn by_key(
    lanes: usize,
    handler: Arc<PortionHandler>,
    sink: Arc<RecordSink>,
) -> Arc<Handler> {
    Arc::new(move |unit: &mut Unit| {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..lanes.max(1)).map(|_| bounded(LANE_RECORDS_MAX)).unzip();
        let race = Race::new(unit, &*handler, &*sink);
        let lanes = receivers.into_iter().map(|records| || race.run(records)).collect();
        let running = &race;
        // Dropping the senders ends the lanes.
        let fed = threads::beside("ottla-k", lanes, move || running.feed(&senders))?;
        match race.failure.into_inner() {
            Some(error) => Err(error.into()),
            None => fed,
        }
    })
}

/// A unit in the lanes.
struct Race<'a> {
    unit: &'a Unit,
    handler: &'a PortionHandler,
    sink: &'a RecordSink,
    open: Mutex<Open>,
    failure: Mutex<Option<Error>>,
    over: AtomicBool,
}

impl<'a> Race<'a> {
    fn new(unit: &'a Unit, handler: &'a PortionHandler, sink: &'a RecordSink) -> Self {
        let open = Mutex::new(Open { offsets: BTreeSet::new(), end: unit.range().start });
        let (failure, over) = (Mutex::default(), AtomicBool::new(false));
        Self { unit, handler, sink, open, failure, over }
    }

    /// Reads, and gives each record to its lane.
    fn feed(&self, lanes: &[Sender<ConsumerRecord>]) -> HandlerResult {
        for record in self.unit.records()? {
            let record = record?;
            if self.is_over() {
                return Ok(());
            }
            self.open.lock().begin(record.offset());
            // A lane takes records until its sender is gone.
            let _ = lanes[lane_of(&record, lanes.len())].send(record);
        }
        Ok(())
    }

    /// Body of a lane. It empties its channel even when all is over, so that the reader never waits
    /// in vain.
    fn run(&self, records: Receiver<ConsumerRecord>) {
        for record in records {
            if self.is_over() {
                continue;
            }
            match handle(self.unit, slice::from_ref(&record), self.handler, self.sink) {
                Ok(()) => {
                    let done = self.open.lock().end(record.offset());
                    self.unit.done_to(done);
                }
                Err(error) => self.fail(error),
            }
        }
    }

    fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
        self.over.store(true, Ordering::SeqCst);
    }

    /// Whether no other record is to be begun.
    fn is_over(&self) -> bool {
        if self.unit.is_stopping() {
            self.unit.give_back("the node stops");
            self.over.store(true, Ordering::SeqCst);
        }
        self.over.load(Ordering::SeqCst) || self.unit.is_lost()
    }
}

/// Which lane a record goes to. By the hash's upper bits: the lower ones are much the same for all
/// keys of a partition, since they chose it. Records without a key go anywhere.
fn lane_of(record: &ConsumerRecord, lanes: usize) -> usize {
    match record.key() {
        Some(key) => ((u64::from(murmur2(key)) * lanes as u64) >> 32) as usize,
        None => record.offset().unsigned_abs() as usize % lanes,
    }
}

/// The records that were begun and did not end.
struct Open {
    offsets: BTreeSet<i64>,
    /// Behind the last one that was begun.
    end: i64,
}

impl Open {
    fn begin(&mut self, offset: i64) {
        self.offsets.insert(offset);
        self.end = offset + 1;
    }

    /// Everything before the result has ended.
    fn end(&mut self, offset: i64) -> i64 {
        self.offsets.remove(&offset);
        self.offsets.first().copied().unwrap_or(self.end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In whatever order records end: the position is the lowest that did not, and at last the end.
        #[test]
        fn the_position_is_the_lowest_open_record(
            offsets in prop::collection::btree_set(0_i64..1000, 1..50),
            order in prop::collection::vec(any::<prop::sample::Index>(), 50),
        ) {
            let mut open = Open { offsets: BTreeSet::new(), end: 0 };
            let mut running: Vec<i64> = Vec::new();
            for offset in &offsets {
                open.begin(*offset);
                running.push(*offset);
            }
            for pick in order {
                if running.is_empty() {
                    break;
                }
                let done = open.end(running.remove(pick.index(running.len())));
                let expected = running.iter().min().copied();
                prop_assert_eq!(done, expected.unwrap_or(offsets.last().expect("one") + 1));
            }
        }
    }
}
