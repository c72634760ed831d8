//! Turns at the handler: so many threads may handle a unit at a time, while the others fetch theirs.
//!
//! With `prefetch.max.bytes` a node has two threads for each worker. Each begins a unit, reads its
//! first records, waits for a turn, calls the handler, settles. So while one handles, the other has
//! the next unit at hand, and no more than one.
//!
//! ```text
//!   ottla-u-0   begin, read │ handler │ settle, begin, read │   wait   │ handler
//!   ottla-u-1   begin, read │  wait   │ handler             │ settle, begin, read
//! ```
//!
//! A stop ends the wait within [`LOOK_EVERY`]; the unit goes back, and no attempt is used up.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::threads::Stop;

/// Between two looks at the stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The turns of a node; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    free: Receiver<()>,
    back: Sender<()>,
}

/// One's turn, until it is dropped.
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// So many at a time.
    pub(crate) fn new(count: usize) -> Self {
        let (back, free) = bounded(count);
        let turns = Self { free, back };
        (0..count).for_each(|_| drop(Turn(&turns)));
        turns
    }

    /// Whether one could begin at once.
    pub(crate) fn is_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// A turn, if one is free.
    pub(crate) fn take(&self) -> Option<Turn<'_>> {
        self.free.try_recv().ok().map(|()| Turn(self))
    }

    /// Waits for a turn; `None` when `stop` was set first.
    pub(crate) fn wait(&self, stop: &Stop) -> Option<Turn<'_>> {
        while !stop.is_set() {
            if self.free.recv_timeout(LOOK_EVERY).is_ok() {
                return Some(Turn(self));
            }
        }
        None
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.back.try_send(()).expect("there is room for every turn");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_turns_and_a_stop_ends_the_wait() {
        let (turns, stop) = (Turns::new(2), Stop::new());
        let first = turns.wait(&stop).expect("free");
        assert!(turns.is_free());
        let second = turns.wait(&stop).expect("free");
        assert!(!turns.is_free());
        drop(first);
        let third = turns.wait(&stop).expect("given back");
        let (waiting, told) = (turns.clone(), stop.clone());
        let thread = crate::threads::spawn("ottla-test", move || {
            assert!(waiting.wait(&told).is_none());
        })
        .expect("a thread");
        stop.set();
        thread.join();
        drop((second, third));
    }
}
