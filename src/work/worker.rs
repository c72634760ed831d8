//! A worker thread ("ottla-u-N"): unit after unit until the node stops.
//!
//! Owns its [`Session`]. Whatever happens to a unit (the queue is away, Kafka is away, the handler
//! fails or panics) the thread goes on; it ends only when it is told to, and then signs off.

use std::sync::Arc;
use std::time::Duration;

use crate::threads::Stop;
use crate::work::handler::{Handler, call};
use crate::work::session::{Session, ending};
use crate::work::turns::{Turn, Turns};
use crate::work::unit_handle::Unit;

/// How long one claim waits for a unit: the most that a stop is late.
const CLAIM_WAIT: Duration = Duration::from_secs(1);

/// How a worker reads ahead.
#[derive(Clone)]
pub(crate) struct Ahead {
    pub(crate) turns: Turns,
    pub(crate) bytes: usize,
}

impl Ahead {
    /// Waits for a turn, and reads meanwhile; `None` when the node stops first.
    fn wait(&self, unit: &Unit, stop: &Stop) -> Option<Turn<'_>> {
        // Asked for first: one that looks whether it is free, and does not take it, may find it gone.
        self.turns.take().or_else(|| {
            unit.read_ahead(self.bytes, || self.turns.is_free());
            self.turns.wait(stop)
        })
    }
}

/// Body of the thread.
pub(crate) fn work(
    mut session: Session,
    handler: &Arc<Handler>,
    turns: Option<&Ahead>,
    stop: &Stop,
) {
    while !stop.is_set() {
        match session.next(CLAIM_WAIT) {
            Ok(Some(mut unit)) => {
                let turn = turns.map(|ahead| ahead.wait(&unit, stop));
                if let Some(None) = turn {
                    unit.give_back("the node stops");
                    session.settle(&unit, ending(Ok(()), &unit));
                    continue;
                }
                let result = call(&**handler, &mut unit);
                drop(turn);
                let ending = ending(result, &unit);
                session.settle_and_go_on(&unit, ending);
            }
            Ok(None) => {}
            Err((_, pause)) => {
                stop.wait(pause);
            }
        }
    }
    session.close();
}
