//! [`Organiser`]: for a program that plans in one process and works in others.
//!
//! The caller's threads run it; the shell's mutex is held while one of them does.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use super::shell::{Halt, Shell};
use crate::error::{Error, ErrorKind, Result};
use crate::threads::Stop;
use crate::work::session::Workshop;
use crate::work::sources::Topics;

/// The organiser of a group without workers. Made by
/// [`NodeBuilder::organiser`](crate::work::NodeBuilder::organiser).
///
/// Methods may be called from any thread. Dropped, it keeps the lock until that runs out; after
/// [`Organiser::run`] has ended the lock is free at once.
pub struct Organiser {
    shell: Mutex<Shell>,
    shop: Workshop,
}

impl Organiser {
    pub(crate) fn new(shop: Workshop, request_timeout: Duration) -> Self {
        let Workshop { queue, kafka, shared, sink, .. } = shop.clone();
        Self { shell: Mutex::new(Shell::new(queue, kafka, shared, sink, request_timeout)), shop }
    }

    /// Is a candidate, and organiser while it has the lock, until [`Organiser::stop`] is called
    /// from another thread. Blocks until then. Whatever fails, it goes on.
    pub fn run(&self) {
        let stop: &Stop = &self.shop.stop;
        self.shell.lock().run(stop);
    }

    /// Ends [`Organiser::run`], now or when it is called. The last offsets are committed and the
    /// lock is given back.
    pub fn stop(&self) {
        self.shop.stop.set();
    }

    /// Plans `topics`, names or regular expressions, once: takes up their partitions and queues what is new, in bounded portions
    /// (call it again until it gives 0). Gives the number of new units. Blocks while Kafka and the
    /// queue are asked.
    ///
    /// # Errors
    /// `Queue` when another organiser holds the lock, or the queue fails; what kept Kafka from
    /// answering.
    pub fn plan_once<T: Into<String>>(&self, topics: impl IntoIterator<Item = T>) -> Result<u64> {
        let named: Vec<String> = topics.into_iter().map(Into::into).collect();
        let named = Topics::of(named)?;
        self.shop.shared.change_topics(|topics| topics.replace(named));
        self.shell.lock().plan_now().map_err(|halt| match halt {
            Halt::Failed(error) => error,
            Halt::NotLeader => {
                Error::new(ErrorKind::Queue, "another organiser holds the lock, or none can")
            }
        })
    }
}

impl fmt::Debug for Organiser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Organiser")
            .field("group", &self.shop.shared.group)
            .field("is_leader", &self.shop.shared.leads())
            .finish_non_exhaustive()
    }
}
