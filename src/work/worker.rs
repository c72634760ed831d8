//! A worker thread ("ottla-u-N"): unit after unit until the node stops.
//!
//! Owns its [`Session`]. Whatever happens to a unit (the queue is away, Kafka is away, the handler
//! fails or panics) the thread goes on; it ends only when it is told to, and then signs off.

use std::sync::Arc;
use std::time::Duration;

use crate::threads::Stop;
use crate::work::handler::{Handler, call};
use crate::work::session::{Session, ending};

/// How long one claim waits for a unit: the most that a stop is late.
const CLAIM_WAIT: Duration = Duration::from_secs(1);

/// Body of the thread.
pub(crate) fn work(mut session: Session, handler: &Arc<Handler>, stop: &Stop) {
    while !stop.is_set() {
        match session.next(CLAIM_WAIT) {
            Ok(Some(mut unit)) => {
                let result = call(&**handler, &mut unit);
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
