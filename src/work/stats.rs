//! Counters of a node and of each of its workers.
//!
//! Each worker thread writes its own counters, with relaxed atomics; [`Counters::read`] sums them. A
//! reading is not one moment: a unit that is finished in between may be counted in one figure and
//! not yet in another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::work::unit::WorkerId;

/// What a node did since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The sum over all workers.
    pub total: WorkerStats,
    /// Each worker by its name in the queue.
    pub workers: Vec<(String, WorkerStats)>,
    /// Units that this node's organiser planned.
    pub planned: u64,
    /// Whether this node's organiser holds the group's lock.
    pub is_leader: bool,
    /// Events that nobody read in time.
    pub events_dropped: u64,
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What a worker did since it started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerStats {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl std::ops::AddAssign for WorkerStats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)+
            }
        }

        /// The counters behind [`WorkerStats`]: written by one worker.
        #[derive(Debug, Default)]
        pub(crate) struct WorkerCounters {
            $(pub(crate) $name: Counter,)+
        }

        impl WorkerCounters {
            pub(crate) fn read(&self) -> WorkerStats {
                WorkerStats { $($name: self.$name.read(),)+ }
            }
        }
    };
}

counters! {
    /// Units finished.
    units,
    /// Records that handlers took one by one, by `Unit::records` or the pull way. Those in batches
    /// that were taken whole (`Unit::batches`) are not counted.
    records,
    /// Attempts that failed: the handler gave an error or panicked.
    failed,
    /// Units that used up their attempts.
    dead_lettered,
    /// Records that used up their attempts: `run_records` and `run_batches` go on after them.
    records_dead_lettered,
    /// Units given back unhandled: the topic's leader could not be read, or the node stopped.
    given_back,
    /// Leases lost to another worker.
    lost,
    /// Records that were handled under a lease that was lost: another worker handles them too.
    duplicates,
}

/// One number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counters of a node.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    workers: Vec<(WorkerId, Arc<WorkerCounters>)>,
}

impl Counters {
    /// Counters for `workers`.
    pub(crate) fn new(workers: impl IntoIterator<Item = WorkerId>) -> Self {
        Self { workers: workers.into_iter().map(|id| (id, Arc::default())).collect() }
    }

    /// The counters of the worker at `index`.
    pub(crate) fn worker(&self, index: usize) -> Option<(WorkerId, Arc<WorkerCounters>)> {
        self.workers.get(index).cloned()
    }

    /// The figures of each worker and their sum.
    pub(crate) fn read(&self) -> NodeStats {
        let mut stats = NodeStats::default();
        for (id, counters) in &self.workers {
            let worker = counters.read();
            stats.total += worker;
            stats.workers.push((id.to_string(), worker));
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_sum_of_the_workers() {
        let ids = ["a", "b"].map(|label| WorkerId::unique(label).expect("legal"));
        let counters = Counters::new(ids);
        counters.worker(0).expect("a worker").1.records.add(3);
        counters.worker(1).expect("a worker").1.records.add(4);
        counters.worker(1).expect("a worker").1.lost.add(1);
        let stats = counters.read();
        assert_eq!((stats.total.records, stats.total.lost), (7, 1));
        assert_eq!(stats.workers.len(), 2);
        assert!(counters.worker(2).is_none());
    }
}
