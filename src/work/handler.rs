//! The user's code that a node calls: the handler of units and the dead-letter sink.
//!
//! Both may fail with any error and may panic; either way the worker lives on. What they give back
//! becomes an [`Error`] here and nowhere else.

use std::error::Error as StdError;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::threads::guard;
use crate::work::queue::DeadUnit;
use crate::work::unit_handle::Unit;

/// What a handler returns. Any error can be returned with `?`.
pub type HandlerResult = std::result::Result<(), Box<dyn StdError + Send + Sync>>;

/// A node's handler.
pub(crate) type Handler = dyn Fn(&mut Unit) -> HandlerResult + Send + Sync;

/// A node's dead-letter sink.
pub(crate) type Sink = dyn Fn(&DeadUnit) -> HandlerResult + Send + Sync;

/// The sink of a node that was given none: a line in the log. The queue keeps its own list of errors.
#[expect(clippy::unnecessary_wraps, reason = "it is a sink like any other")]
pub(crate) fn log_dead_letter(dead: &DeadUnit) -> HandlerResult {
    log::error!(
        "unit {} failed {} times and is given up: {}",
        dead.unit,
        dead.attempts,
        dead.error
    );
    Ok(())
}

/// Hands a dead unit to the sink.
pub(crate) fn bury_by(sink: &Sink, dead: &DeadUnit) -> Result<()> {
    settle("the dead-letter sink", || sink(dead))
}

/// Calls the handler; a panic is an error.
pub(crate) fn call(handler: &Handler, unit: &mut Unit) -> Result<()> {
    settle("the handler", || handler(unit))
}

/// Runs user code and makes one error of whatever goes wrong.
pub(crate) fn settle(what: &str, body: impl FnOnce() -> HandlerResult) -> Result<()> {
    match guard(body) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(match error.downcast::<Error>() {
            Ok(own) => *own,
            Err(error) => Error::new(ErrorKind::Handler, format!("{what} failed"))
                .with_source(UserError(error)),
        }),
        Err(panic) => Err(Error::new(ErrorKind::Handler, format!("{what} panicked: {panic}"))),
    }
}

/// A user's error as a cause.
#[derive(Debug)]
struct UserError(Box<dyn StdError + Send + Sync>);

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for UserError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_and_any_panic_becomes_one_error() {
        let failed = settle("the handler", || Err("no money".into())).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Handler);
        assert_eq!(failed.to_string(), "the handler failed: no money");
        let own = Error::new(ErrorKind::Timeout, "late");
        let passed_on = settle("the handler", || Err(own.into())).unwrap_err();
        assert_eq!(passed_on.kind(), ErrorKind::Timeout);
        let panicked = settle("the handler", || panic!("oh {}", "no")).unwrap_err();
        assert_eq!(panicked.to_string(), "the handler panicked: oh no");
        assert!(settle("the handler", || Ok(())).is_ok());
    }
}
