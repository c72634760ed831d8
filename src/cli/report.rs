//! Words on standard error: lines, progress on a terminal, the log.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::Result;

/// How often a progress line is drawn at most.
const DRAWS_PER_SECOND: u8 = 5;

/// Writes a line. Standard error that cannot be written to is nobody's to tell.
pub(super) fn line(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let written = stderr.write_all(text.as_bytes()).and_then(|()| stderr.write_all(b"\n"));
    drop(written);
}

/// A progress line if standard error is a terminal, else one that is never seen. `total` is in the
/// same unit as the positions, 0 when it is not known.
pub(super) fn progress(total: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
    let bar = if total == 0 {
        ProgressBar::with_draw_target(None, target)
    } else {
        ProgressBar::with_draw_target(Some(total), target)
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    bar.set_style(style);
    bar
}

/// `1.9 s`.
pub(super) fn seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

/// `50.1 MB`.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// `1 record` or `2 records`.
pub(super) fn records(count: u64) -> String {
    self::count(count, "record")
}

/// `1 unit` or `2 units`, of a `noun` whose plural has an s.
pub(super) fn count(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Sends the library's log to standard error: errors, and that the cluster cannot be reached; with
/// `-v` all that is unusual, with `-vv` every step.
pub(super) fn install_logger(verbosity: u8) {
    let level = match verbosity {
        0 => log::LevelFilter::Warn,
        1 => log::LevelFilter::Info,
        _ => log::LevelFilter::Debug,
    };
    let logger = if verbosity == 0 { &Logger { all: false } } else { &Logger { all: true } };
    if log::set_logger(logger).is_ok() {
        log::set_max_level(level);
    }
}

struct Logger {
    all: bool,
}

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        // The rest of the warnings is what the commands tell in words of their own.
        let is_told = self.all
            || metadata.level() == log::Level::Error
            || metadata.target().starts_with("ottla::cluster");
        is_told && metadata.target().starts_with(env!("CARGO_PKG_NAME"))
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            line(&format!("ottla: {}: {}", record.level().as_str().to_lowercase(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Failures to tell: the first few in full, the rest counted.
#[derive(Debug, Default)]
pub(super) struct Failures {
    told: u32,
    pub(super) count: u64,
}

impl Failures {
    /// As many are told in full.
    const TOLD_MAX: u32 = 10;

    pub(super) fn add(&mut self, text: &str) {
        self.count += 1;
        if self.told < Self::TOLD_MAX {
            self.told += 1;
            line(&format!("ottla: {text}"));
            if self.told == Self::TOLD_MAX {
                line("ottla: further failures are counted only");
            }
        }
    }
}

/// Unwraps what a command needs first, or ends it with the reason.
pub(super) fn or_tell<T>(result: Result<T>, what: &str) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            line(&format!("ottla: {what}: {error}"));
            None
        }
    }
}
