//! [`Node`]: organiser candidate and worker threads around a handler.
//!
//! Owns its threads through the [`Crew`]; every method may be called from any thread.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::WorkConfig;
use crate::error::Result;
use crate::work::crew::Crew;
use crate::work::events::Events;
use crate::work::handler::Handler;
use crate::work::queue::Steered;
use crate::work::stats::NodeStats;
use crate::work::steer::{self, Scope};
use crate::work::turns::Turns;
use crate::work::unit::TopicPartition;
use crate::work::worker::{Ahead, work};

/// A running node of a group: worker threads that hand units to the handler, and a candidate for
/// the group's organiser.
///
/// Made by [`Client::node`](crate::Client::node). Its threads: `ottla-u-N` for each worker (two
/// with `prefetch.max.bytes`),
/// `ottla-lease` keeps the leases, `ottla-org` is the organiser. All methods may be called from any
/// thread. Whatever fails (Kafka, the queue, the handler), it goes on until it is shut down.
///
/// Dropping it shuts it down and waits for handlers for at most five seconds;
/// [`Node::shutdown`] says how it went.
pub struct Node {
    crew: Crew,
}

impl Node {
    /// Starts a thread for each worker that the crew was made for, of which `workers` may handle a
    /// unit at a time.
    pub(crate) fn start(crew: Crew, workers: usize, handler: &Arc<Handler>) -> Result<Self> {
        let config = &crew.shop.shared.config;
        let threads = threads_of(config, workers);
        let ahead = (threads > workers)
            .then(|| Ahead { turns: Turns::new(workers), bytes: config.prefetch_max });
        let node = Self { crew };
        for index in 0..threads {
            let (handler, ahead) = (Arc::clone(handler), ahead.clone());
            node.crew.add_worker(index, move |session, stop| {
                work(session, &handler, ahead.as_ref(), stop);
            })?;
        }
        Ok(node)
    }

    /// Figures since it started, of each worker and in total.
    pub fn stats(&self) -> NodeStats {
        self.crew.stats()
    }

    /// Iterator over what happens from now on, and over what happened and nobody read.
    pub fn events(&self) -> Events {
        self.crew.events()
    }

    /// Reads `topic` too, a name or a regular expression (see [`NodeBuilder::topics`](crate::work::NodeBuilder::topics)). The organiser takes it up in its
    /// next round. Twice is the same as once.
    ///
    /// Every node of a group should read the same topics: the one that is the organiser plans its
    /// own.
    ///
    /// # Errors
    /// `InvalidInput` for a name that Kafka gives to no topic, and for what is no regular expression.
    pub fn add_topic(&self, topic: &str) -> Result<()> {
        self.crew.add_topic(topic)
    }

    /// Plans `topic` no more. Units that are planned already are still worked off.
    ///
    /// # Errors
    /// `InvalidInput` when the node does not read it.
    pub fn remove_topic(&self, topic: &str) -> Result<()> {
        self.crew.remove_topic(topic)
    }

    /// Leaves `topic` alone until [`Node::resume`]: this node plans nothing of it and gives back its
    /// units when it meets one. Handlers that run go on. Other nodes of the group go on too. It may be a topic that a
    /// regular expression of the node matches, or such an expression: then topics are left alone that it reads by
    /// paused ones only.
    ///
    /// # Errors
    /// `InvalidInput` when the node does not read it.
    pub fn pause(&self, topic: &str) -> Result<()> {
        self.crew.pause(topic)
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// `InvalidInput` when the node does not read the topic.
    pub fn resume(&self, topic: &str) -> Result<()> {
        self.crew.resume(topic)
    }

    /// Blocks until everything that was in the topics when it was called is finished, by any node
    /// of the group, at most for `timeout`. What a dead-letter sink took counts as finished. (Under
    /// `read_committed`: everything before the first open transaction.)
    ///
    /// # Errors
    /// `Timeout` with the number of offsets that are left; `Closed` when the node is shut down
    /// meanwhile; what kept Kafka or the queue from answering.
    pub fn drain(&self, timeout: Duration) -> Result<()> {
        self.crew.drain(timeout)
    }

    /// Has the failed units in `scope` worked on again, by any node of the group, see
    /// [`steer::redrive`].
    ///
    /// # Errors
    /// What the queue says.
    pub fn redrive(&self, scope: &Scope) -> Result<Vec<(TopicPartition, Steered)>> {
        steer::redrive(&*self.crew.shop.queue, scope)
    }

    /// Gives the failed units in `scope` up for good, see [`steer::drop_failed`].
    ///
    /// # Errors
    /// What the queue says.
    pub fn drop_failed(&self, scope: &Scope) -> Result<Vec<(TopicPartition, Steered)>> {
        steer::drop_failed(&*self.crew.shop.queue, scope)
    }

    /// Shuts the node down: claims nothing more, waits for the handlers that run, gives back what
    /// was not begun, commits the group's offsets, signs off. Blocks at most `timeout`, and about two
    /// seconds for what is not a handler. Again is the same as once.
    ///
    /// # Errors
    /// `Timeout` when handlers did not end in time. Their threads are left behind; their units go to
    /// other workers once their leases run out.
    pub fn shutdown(&self, timeout: Duration) -> Result<()> {
        self.crew.shut_down(timeout)
    }
}

/// How many threads `workers` need.
pub(crate) fn threads_of(config: &WorkConfig, workers: usize) -> usize {
    if config.prefetch_max == 0 { workers } else { workers * 2 }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("group", &self.crew.shop.shared.group)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
