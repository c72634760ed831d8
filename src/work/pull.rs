//! [`PullNode`]: one record at a time, on the caller's thread.
//!
//! Owns one [`Session`]; claims, reads and settles happen inside the caller's `read`. The lease
//! thread keeps the unit in between, and tells the queue how far the caller came.
//!
//! Invariant: a record counts as done when the next one is asked for, never before.

use std::fmt;
use std::time::Duration;

use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::ConsumerRecord;
use crate::work::crew::Crew;
use crate::work::events::Events;
use crate::work::session::{Ending, Session, ending};
use crate::work::stats::NodeStats;
use crate::work::unit_handle::{Reached, Unit};

/// How long dropping it waits for the queue.
const DROP_WAIT: Duration = Duration::from_secs(5);
/// How long the iterator waits in one piece.
const ITERATE_WAIT: Duration = Duration::from_secs(1);

/// A node that is asked for one record after the other, instead of handing units to a handler.
///
/// Made by [`NodeBuilder::pull`](super::NodeBuilder::pull). A record is acknowledged when the next
/// one is asked for, or by [`PullNode::acknowledge`]. Records of one unit come in order; units come
/// in any. As an iterator it waits for records for ever.
///
/// The caller's pace is its own: the lease is kept by a thread. But a unit that is held for longer
/// than `unit.max.ms` goes to another worker, with what was not acknowledged.
pub struct PullNode {
    session: Session,
    crew: Crew,
    current: Option<Unit>,
    /// Where the record that was given out last ends.
    given_out: Option<i64>,
    closed: bool,
}

impl PullNode {
    pub(crate) fn start(crew: Crew) -> Self {
        Self { session: crew.session(0), crew, current: None, given_out: None, closed: false }
    }

    /// The next record; acknowledges the one before. `None` when there was none in time. Blocks at
    /// most for `timeout`, and a little longer while a broker does not answer.
    ///
    /// # Errors
    /// `Queue` while the queue does not answer; it comes back by itself. `Closed` after
    /// [`PullNode::close`]. `Corrupt` and the like when a unit cannot be read: it is tried again
    /// `max.attempts` times, here or elsewhere.
    pub fn read(&mut self, timeout: Duration) -> Result<Option<ConsumerRecord>> {
        let deadline = Deadline::within(timeout);
        if self.closed {
            return Err(Error::new(ErrorKind::Closed, "the node was closed"));
        }
        self.acknowledge();
        loop {
            let Some(unit) = self.current.take() else {
                match self.next_unit(deadline)? {
                    Some(unit) => self.current = Some(unit),
                    None => return Ok(None),
                }
                continue;
            };
            match unit.next_within(deadline) {
                Ok(Reached::Next(record)) => {
                    self.given_out = Some(record.offset() + 1);
                    self.current = Some(unit);
                    return Ok(Some(record));
                }
                Ok(Reached::End) => self.session.settle(&unit, Ending::Done),
                Ok(Reached::NotYet) => {
                    self.current = Some(unit);
                    return Ok(None);
                }
                Err(error) => {
                    let ended = ending(Err(error.clone()), &unit);
                    let report = matches!(ended, Ending::Failed(_));
                    self.session.settle(&unit, ended);
                    if report {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn next_unit(&mut self, deadline: Deadline) -> Result<Option<Unit>> {
        loop {
            match self.session.next(deadline.left()) {
                Ok(Some(unit)) => return Ok(Some(unit)),
                Ok(None) if deadline.left().is_zero() => return Ok(None),
                Ok(None) => {}
                Err((error, _)) if deadline.left().is_zero() => return Err(error),
                Err((_, pause)) => {
                    self.crew.shop.stop.wait(pause.min(deadline.left()));
                }
            }
        }
    }

    /// The record that was given out last is done. [`PullNode::read`] does that by itself; a caller
    /// that is about to stop says so.
    pub fn acknowledge(&mut self) {
        if let (Some(unit), Some(done)) = (&self.current, self.given_out.take()) {
            unit.done_to(done);
        }
    }

    /// Figures since it started.
    pub fn stats(&self) -> NodeStats {
        self.crew.stats()
    }

    /// Iterator over what happens.
    pub fn events(&self) -> Events {
        self.crew.events()
    }

    /// Reads `topic` too, see [`Node::add_topic`](super::Node::add_topic).
    ///
    /// # Errors
    /// `InvalidInput` for a name that Kafka gives to no topic.
    pub fn add_topic(&self, topic: &str) -> Result<()> {
        self.crew.add_topic(topic)
    }

    /// Plans `topic` no more, see [`Node::remove_topic`](super::Node::remove_topic).
    ///
    /// # Errors
    /// `InvalidInput` when the node does not read it.
    pub fn remove_topic(&self, topic: &str) -> Result<()> {
        self.crew.remove_topic(topic)
    }

    /// Gives the rest of the present unit back, so that another worker has it at once, and ends the
    /// node's threads. What was acknowledged stays so; the last record is not, unless
    /// [`PullNode::acknowledge`] was called. Blocks at most `timeout`, and about two seconds.
    ///
    /// # Errors
    /// None at present; the unit's lease runs out if the queue does not answer.
    pub fn close(&mut self, timeout: Duration) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        let deadline = Deadline::within(timeout);
        self.session.hurry(deadline);
        self.crew.shop.stop.set();
        if let Some(unit) = self.current.take() {
            let closed = Error::new(ErrorKind::Closed, "the node was closed");
            self.session.settle(&unit, Ending::GivenBack(closed));
        }
        self.session.close();
        self.crew.shut_down(deadline.left())
    }
}

impl Iterator for PullNode {
    type Item = Result<ConsumerRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.closed {
            match self.read(ITERATE_WAIT) {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}

impl Drop for PullNode {
    fn drop(&mut self) {
        if let Err(error) = self.close(DROP_WAIT) {
            log::warn!("a node was dropped: {error}");
        }
    }
}

impl fmt::Debug for PullNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullNode")
            .field("group", &self.crew.shop.shared.group)
            .field("unit", &self.current)
            .finish_non_exhaustive()
    }
}
