//! Handlers of single records and of batches of records, made into a handler of units.
//!
//! Runs on the worker's thread, inside the handler's call. It hands out the unit's records portion
//! by portion and credits each portion that was handled, so a failure repeats only what follows.
//!
//! ```text
//!   records ─▶ portion ─▶ handler ── Ok ───────────────────────────▶ done_to(end of portion)
//!                           └─ Err ─┬─ attempts are left ─▶ unit failed from here on
//!                                   └─ last attempt: letter stored ─▶ done_to(record + 1), go on
//! ```
//!
//! On the last attempt a portion is one record, so that only bad ones are given up. Invariant: the
//! position passes a record that was given up only after its dead letter is stored; if that fails
//! the unit is given back, and no attempt is used up.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::fetch::ConsumerRecord;
use crate::threads::Stop;
use crate::work::handler::{Handler, HandlerResult, Sink, bury_by, settle};
use crate::work::queue::DeadUnit;
use crate::work::unit_handle::Unit;

/// Room that a portion begins with, whatever the setting.
const PORTION_ROOM_FIRST: usize = 64;

/// Stores the dead letter of one record. Ends early when the flag is set.
pub(crate) type RecordSink = dyn Fn(&ConsumerRecord, &DeadUnit, &Stop) -> Result<()> + Send + Sync;

/// What handles a portion: one record or more, in order.
pub(crate) type PortionHandler = dyn Fn(&[ConsumerRecord]) -> HandlerResult + Send + Sync;

/// The sink of records of a node that has only one for units: a record is a unit of one offset to
/// it.
pub(crate) fn by_unit_sink(sink: Arc<Sink>) -> Arc<RecordSink> {
    Arc::new(move |_, dead, _| bury_by(&*sink, dead))
}

/// A handler of units that gives `handler` at most `most` records at a time.
pub(crate) fn in_portions(
    most: usize,
    handler: Arc<PortionHandler>,
    sink: Arc<RecordSink>,
) -> Arc<Handler> {
    Arc::new(move |unit: &mut Unit| take(unit, most, &*handler, &*sink))
}

fn take(unit: &Unit, most: usize, handler: &PortionHandler, sink: &RecordSink) -> HandlerResult {
    let most = if unit.is_last_attempt() { 1 } else { most.max(1) };
    let mut portion = Vec::with_capacity(most.min(PORTION_ROOM_FIRST));
    let mut records = unit.records()?;
    loop {
        if unit.is_stopping() {
            unit.give_back("the node stops");
            return Ok(());
        }
        portion.clear();
        let mut failure = None;
        while portion.len() < most && failure.is_none() {
            match records.next() {
                Some(Ok(record)) => portion.push(record),
                Some(Err(error)) => failure = Some(error),
                None => break,
            }
        }
        if unit.is_lost() {
            return Err(failure.unwrap_or_else(|| lost(unit)).into());
        }
        if let Some(last) = portion.last() {
            handle(unit, &portion, handler, sink)?;
            unit.done_to(last.offset() + 1);
        }
        match failure {
            Some(error) => return Err(error.into()),
            None if portion.len() < most => return Ok(()),
            None => {}
        }
    }
}

/// Hands a portion to the handler; `Ok` when it is handled, or given up with its letter stored.
pub(crate) fn handle(
    unit: &Unit,
    portion: &[ConsumerRecord],
    handler: &PortionHandler,
    sink: &RecordSink,
) -> Result<()> {
    let failed = match settle("the handler", || handler(portion)) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let ([record], true) = (portion, unit.is_last_attempt()) else { return Err(failed) };
    if unit.is_stopping() && failed.kind() == ErrorKind::Closed {
        return Err(failed);
    }
    give_up(unit, record, &failed, sink)
}

/// Stores the dead letter of `record`, and says that it is given up.
fn give_up(unit: &Unit, record: &ConsumerRecord, why: &Error, sink: &RecordSink) -> Result<()> {
    let (start, end) = (record.offset(), record.offset() + 1);
    let of = unit.id().topic_partition();
    let dead = DeadUnit {
        unit: of.unit(start, end)?,
        topic_id: unit.topic_id(),
        attempts: unit.attempt(),
        owner: unit.worker().to_string(),
        error: why.to_string(),
    };
    if let Err(error) = sink(record, &dead, unit.abandoned()) {
        log::error!("the dead letter of {} was not stored: {error}", dead.unit);
        let message = format!("the dead letter of {} was not stored", dead.unit);
        let error = Error::new(ErrorKind::Handler, message).with_source(error);
        unit.give_back_for(error.clone());
        return Err(error);
    }
    log::warn!("record {} failed {} times and is given up: {why}", dead.unit, dead.attempts);
    unit.record_given_up(start, dead.error);
    Ok(())
}

fn lost(unit: &Unit) -> Error {
    Error::new(ErrorKind::LeaseLost, format!("the lease went to another worker: {}", unit.id()))
}
