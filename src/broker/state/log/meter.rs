//! How many bytes all logs of the cluster hold together.
//!
//! Each log counts its own part through a [`Share`]; what is left of it is given back when the log
//! goes, however it goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all logs. Clones are the same meter.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Meter(Arc<AtomicUsize>);

impl Meter {
    /// The bytes of all logs.
    pub(in crate::broker) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The part of one log.
#[derive(Debug)]
pub(super) struct Share {
    bytes: usize,
    meter: Meter,
}

impl Share {
    pub(super) fn new(meter: &Meter) -> Self {
        Self { bytes: 0, meter: meter.clone() }
    }

    pub(super) fn set(&mut self, bytes: usize) {
        self.meter.0.fetch_add(bytes, Ordering::Relaxed);
        self.meter.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
