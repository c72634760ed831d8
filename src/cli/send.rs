//! `ottla send`: each line of files or of standard input becomes a record.
//!
//! The input is read on a thread of its own ("ottla-input"), because reading a terminal or a pipe
//! cannot be interrupted: the main thread waits for the end of the input or for a signal, then
//! closes the producer, which delivers what was read so far.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::args::{Delimiter, SendArgs};
use super::report::{self, Failures};
use super::signals::Ending;
use super::{End, topics};
use crate::clock;
use crate::config::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::producer::{Producer, Record};
use crate::protocol::records::Compression;
use crate::threads;

/// Input is read in pieces of this size.
const READ_BYTES: usize = 256 * 1024;
/// A line longer than this cannot be a record: it is refused instead of being kept in memory.
const LINE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How often the progress line is brought up to date.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// How long a signal leaves for what was read to be delivered.
const INTERRUPTED_CLOSE: Duration = Duration::from_secs(10);

/// What has happened so far; shared with callbacks.
#[derive(Debug, Default)]
struct Counts {
    read: AtomicU64,
    read_bytes: AtomicU64,
    delivered: AtomicU64,
    failures: Mutex<Failures>,
}

pub(super) fn run(args: SendArgs) -> Result<End> {
    let ending = Ending::watch()?;
    let client = topics::client(&args.cluster)?;
    let mut builder = client.producer();
    if let Some(codec) = &args.compression {
        let codec = <Compression as Value>::parse(codec)
            .map_err(|why| Error::new(ErrorKind::Config, format!("-z {codec}: {why}")))?;
        builder = builder.compression(codec);
    }
    let producer = Arc::new(builder.build()?);
    // An unknown topic is told once, not for every line.
    producer.partitions(&args.topic)?;

    let started = clock::now();
    let counts = Arc::new(Counts::default());
    let total = total_bytes(&args.files);
    let bar = report::progress(
        total,
        if total == 0 { "{spinner} {msg}" } else { "{wide_bar} {percent}% {msg}" },
    );
    let input = {
        let (producer, counts, ending) =
            (Arc::clone(&producer), Arc::clone(&counts), ending.clone());
        threads::spawn("ottla-input", move || {
            if let Err(error) = send_all(&args, &producer, &counts, &ending) {
                counts.failures.lock().add(&error.to_string());
            }
            ending.finish();
        })?
    };
    while !ending.wait(PROGRESS_EVERY) {
        bar.set_position(counts.read_bytes.load(Ordering::Relaxed));
        bar.set_message(format!("{} delivered", counts.delivered.load(Ordering::Relaxed)));
    }
    let interrupted = ending.is_interrupted();
    let patience =
        if interrupted { INTERRUPTED_CLOSE } else { client.producer_config().delivery_timeout };
    producer.close(patience)?;
    bar.finish_and_clear();
    if !interrupted {
        input.join();
    }

    let (read, delivered) =
        (counts.read.load(Ordering::SeqCst), counts.delivered.load(Ordering::SeqCst));
    let failed = counts.failures.lock().count;
    report::line(&format!(
        "delivered {delivered} of {}, {failed} failed, {} in {}{}",
        report::records(read),
        report::megabytes(counts.read_bytes.load(Ordering::SeqCst)),
        report::seconds(clock::now() - started),
        if interrupted { ", interrupted" } else { "" },
    ));
    Ok(if failed == 0 && delivered == read && !interrupted {
        End::Complete
    } else {
        End::Incomplete
    })
}

/// The size of all files together, 0 when one of them has none.
fn total_bytes(files: &[PathBuf]) -> u64 {
    let sizes = files.iter().map(|file| {
        let metadata = std::fs::metadata(file).ok()?;
        metadata.is_file().then_some(metadata.len())
    });
    sizes.sum::<Option<u64>>().unwrap_or(0)
}

fn send_all(
    args: &SendArgs,
    producer: &Producer,
    counts: &Arc<Counts>,
    ending: &Ending,
) -> Result<()> {
    let standard_input = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &standard_input[..] } else { &args.files };
    for file in files {
        let name = if is_standard_input(file) {
            "standard input".into()
        } else {
            file.display().to_string()
        };
        let told = |error: io::Error| {
            Error::new(ErrorKind::Io, format!("{name} cannot be read")).with_source(error)
        };
        let source: Box<dyn Read> = if is_standard_input(file) {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(file).map_err(told)?)
        };
        let mut lines = BufReader::with_capacity(READ_BYTES, source);
        let mut line = Vec::new();
        let mut number: u64 = 0;
        while !ending.is_finished() {
            line.clear();
            let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if read.map_err(told)? == 0 {
                break;
            }
            number += 1;
            counts.read_bytes.fetch_add(line.len() as u64, Ordering::Relaxed);
            if line.last() == Some(&b'\n') {
                line.pop();
            } else if line.len() as u64 == LINE_BYTES_MAX {
                let message =
                    format!("line {number} of {name} has more than {LINE_BYTES_MAX} bytes");
                return Err(Error::new(ErrorKind::InvalidInput, message));
            }
            send_line(args, producer, counts, &line, &name, number);
        }
    }
    Ok(())
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn send_line(
    args: &SendArgs,
    producer: &Producer,
    counts: &Arc<Counts>,
    line: &[u8],
    name: &str,
    number: u64,
) {
    counts.read.fetch_add(1, Ordering::SeqCst);
    let (key, value) = split_key(line, args.key_separator.as_ref());
    let mut record = Record::to(&args.topic).value(value);
    if let Some(key) = key {
        record = record.key(key);
    }
    if let Some(partition) = args.partition {
        record = record.partition(partition);
    }
    let settled = Arc::clone(counts);
    let sent = producer.send_with(record, move |outcome| match outcome {
        Ok(_) => {
            settled.delivered.fetch_add(1, Ordering::SeqCst);
        }
        Err(error) => settled.failures.lock().add(&format!("not delivered: {error}")),
    });
    if let Err(error) = sent {
        counts.failures.lock().add(&format!("line {number} of {name}: {error}"));
    }
}

/// Key and value of a line: the key stands before the first separator.
fn split_key<'a>(line: &'a [u8], separator: Option<&Delimiter>) -> (Option<&'a [u8]>, &'a [u8]) {
    let Some(Delimiter(separator)) = separator else { return (None, line) };
    let Some(at) = line.windows(separator.len()).position(|window| window == separator) else {
        return (None, line);
    };
    let (key, rest) = line.split_at(at);
    (Some(key), rest.get(separator.len()..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Separators of several bytes, none in the line, the first of several (edenhill/kcat#140).
    #[test]
    fn the_first_separator_splits_and_none_means_no_key() {
        let split = |line: &'static str, separator: &str| {
            let delimiter = Delimiter(separator.as_bytes().to_vec());
            let (key, value) = split_key(line.as_bytes(), Some(&delimiter));
            let text = |bytes| String::from_utf8(<[u8]>::to_vec(bytes)).expect("text");
            (key.map(text), text(value))
        };
        assert_eq!(split("k::v::w", "::"), (Some("k".into()), "v::w".into()));
        assert_eq!(split("k±v", "±"), (Some("k".into()), "v".into()));
        assert_eq!(split("\0v", "\0"), (Some(String::new()), "v".into()));
        assert_eq!(split("plain", "::"), (None, "plain".into()));
        assert_eq!(split_key(b"a:b", None), (None, &b"a:b"[..]));
    }
}
