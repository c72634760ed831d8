//! Standard output for records: many threads, whole pieces, flushed when it matters.
//!
//! A piece (the text of a batch or of a unit) is written under one lock, so that pieces of
//! different threads never mix. A reader that goes away (`| head`) shows as `BrokenPipe`: that ends
//! the command quietly.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Standard output, shared by threads.
#[derive(Debug, Default)]
pub(super) struct Output {
    closed: AtomicBool,
}

impl Output {
    /// Writes `piece` whole and flushes it.
    ///
    /// # Errors
    /// `Io` when it cannot be written; [`Output::is_closed`] tells whether its reader went away.
    pub(super) fn write(&self, piece: &[u8]) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(piece).and_then(|()| stdout.flush()).map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                self.closed.store(true, Ordering::SeqCst);
            }
            Error::new(ErrorKind::Io, "standard output cannot be written").with_source(error)
        })
    }

    /// Whether the reader of standard output went away.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}
