//! Standard output for records: many threads, whole pieces, flushed when it matters.
//!
//! A piece (the text of a batch or of a unit) is written under one lock, so that pieces of
//! different threads never mix. A reader that goes away (`| head`) shows as `BrokenPipe`: that ends
//! the command quietly. Any other failure (a full disk) ends it with the reason.

use std::io::{self, Write};

use parking_lot::Mutex;

use super::{End, report};
use crate::error::{Error, ErrorKind, Result};

/// Standard output, shared by threads.
#[derive(Debug, Default)]
pub(super) struct Output {
    lost: Mutex<Option<Lost>>,
}

/// Why nothing can be written any more.
#[derive(Clone, Debug)]
enum Lost {
    /// Its reader went away.
    Closed,
    /// The first failure.
    Failed(Error),
}

impl Output {
    /// Writes `piece` whole and flushes it.
    ///
    /// # Errors
    /// `Io` when it cannot be written; after that nothing is tried, since what follows a gap would
    /// look whole.
    pub(super) fn write(&self, piece: &[u8]) -> Result<()> {
        let mut stdout = io::stdout().lock();
        let refused = |source: Option<io::Error>| {
            let error = Error::new(ErrorKind::Io, "standard output cannot be written");
            source.into_iter().fold(error, Error::with_source)
        };
        // Not locked over the write, which may never end: the others ask for it meanwhile.
        if self.is_lost() {
            return Err(refused(None));
        }
        stdout.write_all(piece).and_then(|()| stdout.flush()).map_err(|error| {
            let is_closed = error.kind() == io::ErrorKind::BrokenPipe;
            let error = refused(Some(error));
            *self.lost.lock() =
                Some(if is_closed { Lost::Closed } else { Lost::Failed(error.clone()) });
            error
        })
    }

    /// Writes all that a command has to say, and tells how it ends.
    pub(super) fn print(text: &str) -> End {
        let output = Self::default();
        if output.write(text.as_bytes()).is_err()
            && let Some(failure) = output.failure()
        {
            report::line(&format!("ottla: {failure}"));
        }
        output.verdict(End::Complete)
    }

    /// Whether nothing can be written any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.lock().is_some()
    }

    /// What kept it from being written, unless that is its reader, who knows.
    pub(super) fn failure(&self) -> Option<Error> {
        match &*self.lost.lock() {
            Some(Lost::Failed(error)) => Some(error.clone()),
            Some(Lost::Closed) | None => None,
        }
    }

    /// How a command ends that would end with `end` if all of its output had been written.
    pub(super) fn verdict(&self, end: End) -> End {
        match &*self.lost.lock() {
            Some(Lost::Closed) => End::OutputClosed,
            Some(Lost::Failed(_)) => End::Incomplete,
            None => end,
        }
    }
}
