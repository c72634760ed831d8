//! What the threads of one node share: settings, the set of topics, counters, events.
//!
//! Any thread reads; the node's owner changes the topics. Its lock is held for moments.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::config::WorkConfig;
use crate::work::events::{Event, EventSink};
use crate::work::sources::Topics;

/// The common state of a node.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The group.
    pub(crate) group: String,
    /// The settings, checked.
    pub(crate) config: WorkConfig,
    /// Where events go.
    pub(crate) events: EventSink,
    topics: RwLock<Topics>,
    planned: AtomicU64,
    leads: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        group: String,
        config: WorkConfig,
        events: EventSink,
        topics: Topics,
    ) -> Self {
        let topics = RwLock::new(topics);
        let (planned, leads) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { group, config, events, topics, planned, leads }
    }

    /// All topics.
    pub(crate) fn topics(&self) -> Topics {
        self.topics.read().clone()
    }

    /// Changes the topics.
    pub(crate) fn change_topics<T>(&self, change: impl FnOnce(&mut Topics) -> T) -> T {
        change(&mut self.topics.write())
    }

    /// Whether workers leave units of `topic` alone.
    pub(crate) fn is_paused(&self, topic: &str) -> bool {
        self.topics.read().is_paused(topic)
    }

    /// `count` units were planned.
    pub(crate) fn add_planned(&self, count: u64) {
        self.planned.fetch_add(count, Ordering::Relaxed);
    }

    /// How many units were planned.
    pub(crate) fn planned(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    /// The organiser got or lost the lock.
    pub(crate) fn set_leads(&self, leads: bool) {
        if self.leads.swap(leads, Ordering::Relaxed) != leads {
            self.events.tell(if leads { Event::BecameLeader } else { Event::LostLeadership });
        }
    }

    /// Whether the organiser holds the lock.
    pub(crate) fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }
}
