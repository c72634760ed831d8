//! What a node needs of Kafka, as one seam: the organiser's questions and the workers' reading.
//!
//! [`Kafka`] is implemented over the client's cluster ([`super::remote`]) and, for tests of
//! organiser and workers, by a log in memory. It knows no queue and takes no decisions.
//! A call answers for each partition by itself, so that one partition without a leader stops none of
//! its sisters. A partition that is missing in an answer was not answered for.

use std::collections::HashMap;
use std::sync::Arc;

use crate::clock::Deadline;
use crate::error::Result;
use crate::fetch::FetchedBatch;
use crate::protocol::Uuid;
use crate::work::commit::Commit;
use crate::work::plan::CommittedOffset;
use crate::work::unit::{TopicPartition, UnitId};

/// An answer for each partition.
pub(crate) type Each<T> = HashMap<TopicPartition, Result<T>>;

/// A topic as the cluster describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicFacts {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// Its id, zero where brokers know none (before 2.8).
    pub(crate) id: Uuid,
    /// How many partitions it has.
    pub(crate) partitions: i32,
}

/// Where a partition's log starts and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogBounds {
    /// The first offset that is there.
    pub(crate) start: i64,
    /// One past the last that may be read.
    pub(crate) end: i64,
    /// The leader's epoch, or -1.
    pub(crate) leader_epoch: i32,
}

/// The cluster, as organiser and workers see it.
pub(crate) trait Kafka: Send + Sync + 'static {
    /// Describes `names`, asking the cluster anew. An unknown topic is an error of its own name.
    fn topics(
        &self,
        names: &[String],
        deadline: Deadline,
    ) -> Result<HashMap<String, Result<TopicFacts>>>;

    /// The names of every topic of the cluster but internal ones, asking it anew.
    fn names(&self, deadline: Deadline) -> Result<Vec<String>>;

    /// The bounds of each log, one request per leader and kind.
    fn bounds(&self, partitions: &[TopicPartition], deadline: Deadline) -> Each<LogBounds>;

    /// What Kafka holds of the group's offsets; `None`: nothing.
    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        deadline: Deadline,
    ) -> Result<Each<Option<CommittedOffset>>>;

    /// Stores offsets of the group, outside of any membership. Sent once and not repeated: the
    /// caller's right to commit ends with `deadline`.
    fn commit(&self, group: &str, commits: &[Commit], deadline: Deadline) -> Result<Each<()>>;

    /// Begins to read `unit` from its start, from the topic called `topic_id`.
    fn open(&self, unit: &UnitId, topic_id: Uuid) -> Result<Box<dyn UnitReader>>;
}

/// What a reader of a unit gives next.
#[derive(Debug)]
pub(crate) enum Portion {
    /// Records, in order.
    Batch(FetchedBatch),
    /// Retention or a deletion took `[from, to)`; reading goes on at `to`.
    Skipped {
        /// First offset that is gone.
        from: i64,
        /// First that is there, or the unit's end.
        to: i64,
    },
    /// Nothing within the time: the log does not reach the position yet.
    Nothing,
    /// The unit is read.
    End,
}

/// Reads one unit.
pub(crate) trait UnitReader: Send {
    /// The next portion, waiting for it until `deadline` at most.
    fn next(&mut self, deadline: Deadline) -> Result<Portion>;
}
