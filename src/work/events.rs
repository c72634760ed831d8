//! What a node tells about itself while it runs: leases lost, units that failed, ranges skipped,
//! the organiser's lock won and lost, servers that went and came.
//!
//! Written by every thread of a node, read by whoever asked for [`Events`]. The queue between
//! them is bounded and a writer never waits: an event that finds it full is dropped and counted,
//! since a program that does not read its events must not stop its own work. Nothing in the crate
//! reads events to decide something.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::Deadline;
use crate::error::Error;
use crate::work::unit::{TopicPartition, UnitId};

/// Events that may wait to be read.
const EVENTS_MAX: usize = 1024;

/// Something that happened in a node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// This node's organiser got the lock of the group and plans from now on.
    BecameLeader,
    /// This node's organiser lost or gave back the lock.
    LostLeadership,
    /// The handler failed or panicked; the unit is tried again later.
    UnitFailed {
        /// The unit.
        unit: UnitId,
        /// Which attempt it was, from 1.
        attempt: u32,
        /// Why.
        error: Error,
    },
    /// A unit used up its attempts: it was handed to the dead-letter sink and is not tried again.
    DeadLettered {
        /// The unit.
        unit: UnitId,
        /// The last failure.
        error: String,
    },
    /// A record used up its attempts: its dead letter is stored, and the unit goes on after it.
    RecordDeadLettered {
        /// The partition.
        partition: TopicPartition,
        /// The record's offset.
        offset: i64,
        /// The last failure.
        error: String,
    },
    /// The lease of a unit went to another worker while this one had it: its records may be
    /// handled twice.
    LeaseLost {
        /// The unit.
        unit: UnitId,
    },
    /// A unit is held for longer than `unit.max.ms` and is not renewed any more.
    UnitOverdue {
        /// The unit.
        unit: UnitId,
    },
    /// Offsets that no handler will see: retention or a deletion took them before they were read.
    Skipped {
        /// The partition.
        partition: TopicPartition,
        /// The first offset that is gone.
        from: i64,
        /// The first offset that is there.
        to: i64,
    },
    /// A topic was deleted and made anew: its partition starts over at the new log's start.
    TopicReset {
        /// The partition.
        partition: TopicPartition,
    },
    /// Something that the node needs does not answer, or refuses; it goes on trying.
    Trouble {
        /// What the node was doing.
        doing: &'static str,
        /// The failure.
        error: Error,
    },
    /// What was in trouble works again.
    Recovered {
        /// What the node was doing.
        doing: &'static str,
    },
}

/// Iterator over a node's events, in the order they happened.
///
/// Blocks until the next one, ends when the node has ended. Of several made by one node each
/// event reaches one. At most 1,024 events wait; later ones are dropped and counted
/// ([`Events::dropped`]).
#[derive(Clone, Debug)]
pub struct Events(Arc<Channel>);

#[derive(Debug)]
struct Channel {
    state: Mutex<State>,
    changed: Condvar,
    room: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Event>,
    dropped: u64,
    closed: bool,
}

impl Events {
    /// The next event, waiting for it at most `timeout`; `None` when none came, or the node has
    /// ended.
    pub fn next_within(&self, timeout: Duration) -> Option<Event> {
        let until = Deadline::within(timeout).instant();
        let mut state = self.0.state.lock();
        loop {
            if let Some(event) = state.waiting.pop_front() {
                return Some(event);
            }
            if state.closed || self.0.changed.wait_until(&mut state, until).timed_out() {
                return state.waiting.pop_front();
            }
        }
    }

    /// How many events found no room and were dropped.
    pub fn dropped(&self) -> u64 {
        self.0.state.lock().dropped
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut state = self.0.state.lock();
        while state.waiting.is_empty() && !state.closed {
            self.0.changed.wait(&mut state);
        }
        state.waiting.pop_front()
    }
}

/// The writing end; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct EventSink(Arc<Channel>);

impl EventSink {
    /// A sink with room for so many events as a node keeps.
    pub(crate) fn new() -> Self {
        Self::with_room(EVENTS_MAX)
    }

    fn with_room(room: usize) -> Self {
        Self(Arc::new(Channel { state: Mutex::default(), changed: Condvar::new(), room }))
    }

    /// The reading end.
    pub(crate) fn events(&self) -> Events {
        Events(Arc::clone(&self.0))
    }

    /// Puts `event` where readers find it, or counts it as dropped.
    pub(crate) fn tell(&self, event: Event) {
        let mut state = self.0.state.lock();
        if state.waiting.len() < self.0.room {
            state.waiting.push_back(event);
            drop(state);
            self.0.changed.notify_one();
        } else {
            state.dropped += 1;
        }
    }

    /// Nothing follows: readers end once they have read what waits.
    pub(crate) fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_room_are_dropped_and_counted() {
        let sink = EventSink::with_room(2);
        for _ in 0..5 {
            sink.tell(Event::BecameLeader);
        }
        let events = sink.events();
        assert_eq!(events.dropped(), 3);
        sink.close();
        assert_eq!(events.count(), 2);
    }

    #[test]
    fn a_reader_that_waits_ends_with_the_node() {
        let sink = EventSink::new();
        let events = sink.events();
        let (told, reader) = crossbeam_channel::bounded(2);
        let thread = crate::threads::spawn("ottla-test", move || {
            for event in events {
                told.send(matches!(event, Event::LostLeadership)).expect("the test listens");
            }
        })
        .expect("a thread");
        sink.tell(Event::LostLeadership);
        assert_eq!(reader.recv(), Ok(true));
        sink.close();
        thread.join();
        assert!(sink.events().next_within(Duration::from_secs(60)).is_none());
    }
}
