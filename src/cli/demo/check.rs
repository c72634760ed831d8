//! The demo's workers and its books: every line that came, and how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use super::LINE_HEADER;
use super::input::Line;
use crate::clock::Deadline;
use crate::threads::Stop;
use crate::work::{HandlerResult, Unit};

/// One unit in so many fails at its first attempt.
const FAILING_UNITS: u64 = 20;
/// The unit, counted from 0 as they begin, whose worker stalls.
const STALLING_UNIT: u64 = 3;
/// How often the stalled worker looks whether it still holds the unit.
const STALL_LOOK: Duration = Duration::from_millis(20);
/// Longest stall, if nobody takes the unit away.
const STALL_MAX: Duration = Duration::from_secs(30);

/// How often each line came, and whether it was the line that was sent.
pub(super) struct Check {
    lines: Arc<Vec<Line>>,
    seen: Vec<AtomicU8>,
    distinct: AtomicU64,
    damaged: AtomicU64,
    units: AtomicU64,
    taken_over: AtomicU64,
}

impl Check {
    pub(super) fn new(lines: Arc<Vec<Line>>) -> Self {
        let seen = lines.iter().map(|_| AtomicU8::new(0)).collect();
        Self {
            lines,
            seen,
            distinct: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            units: AtomicU64::new(0),
            taken_over: AtomicU64::new(0),
        }
    }

    pub(super) fn handle(&self, unit: &Unit) -> HandlerResult {
        let number = self.units.fetch_add(1, Ordering::Relaxed);
        if number == STALLING_UNIT {
            return self.stall(unit);
        }
        let range = unit.range();
        let failing = unit.attempt() == 1 && number.is_multiple_of(FAILING_UNITS);
        let half = range.start + (range.end - range.start) / 2;
        for record in unit.records()? {
            let record = record?;
            if failing && record.offset() >= half {
                return Err("made to fail, half way through".into());
            }
            let line = record
                .headers()
                .last(LINE_HEADER)
                .and_then(|header| std::str::from_utf8(header.value?).ok()?.parse::<usize>().ok());
            self.count(line, record.key(), record.value());
            unit.done_to(record.offset() + 1);
        }
        Ok(())
    }

    /// Holds the unit without doing anything until it is taken away.
    fn stall(&self, unit: &Unit) -> HandlerResult {
        let deadline = Deadline::within(STALL_MAX);
        let clock = Stop::new();
        while !unit.is_lost() {
            if clock.wait(STALL_LOOK) || deadline.left().is_zero() {
                return Err("stalled, and was not taken away".into());
            }
        }
        self.taken_over.fetch_add(1, Ordering::Relaxed);
        Err("stalled until it was taken away".into())
    }

    /// How many lines there are.
    pub(super) fn lines(&self) -> u64 {
        self.lines.len() as u64
    }

    /// How many of them have come.
    pub(super) fn distinct(&self) -> u64 {
        self.distinct.load(Ordering::Relaxed)
    }

    /// How many stalled units were taken away.
    pub(super) fn taken_over(&self) -> u64 {
        self.taken_over.load(Ordering::Relaxed)
    }

    fn count(&self, line: Option<usize>, key: Option<&[u8]>, value: Option<&[u8]>) {
        let sent = line.and_then(|index| Some((self.lines.get(index)?, self.seen.get(index)?)));
        match sent {
            Some((line, seen))
                if key == Some(line.key.as_bytes()) && value == Some(line.value.as_bytes()) =>
            {
                if seen.fetch_add(1, Ordering::Relaxed) == 0 {
                    self.distinct.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => {
                self.damaged.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Lines that came once, again, never, and records that are no line that was sent.
    pub(super) fn sum(&self) -> (u64, u64, u64, u64) {
        let (mut once, mut again, mut missing) = (0, 0, 0);
        for seen in &self.seen {
            match seen.load(Ordering::SeqCst) {
                0 => missing += 1,
                1 => once += 1,
                _ => again += 1,
            }
        }
        (once, again, missing, self.damaged.load(Ordering::SeqCst))
    }
}
