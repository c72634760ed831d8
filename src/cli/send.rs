//! `ottla send`: each line of files or of standard input becomes a record.
//!
//! The input is read on a thread of its own ("ottla-input"), because reading a terminal or a pipe
//! cannot be interrupted: the main thread waits for the end of the input or for a signal, then
//! closes the producer, which delivers what was read so far.

use std::fmt;
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
    // Half of the files sent because of a slip of the pen is worse than none.
    for file in args.files.iter().filter(|file| !is_standard_input(file)) {
        File::open(file).map_err(|error| unreadable(&name_of(file), error))?;
    }
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
    // What is longer cannot be a record: it is passed over instead of being kept in memory.
    let separator = args.key_separator.as_ref().map_or(0, |Delimiter(bytes)| bytes.len());
    let line_max = client.producer_config().max_request_size + separator;
    let input = {
        let (producer, counts, ending) =
            (Arc::clone(&producer), Arc::clone(&counts), ending.clone());
        threads::spawn("ottla-input", move || {
            if let Err(error) = send_all(&args, &producer, &counts, &ending, line_max) {
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
    line_max: usize,
) -> Result<()> {
    let standard_input = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &standard_input[..] } else { &args.files };
    for file in files {
        let name: Arc<str> = name_of(file).into();
        let source: Box<dyn Read> = if is_standard_input(file) {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(file).map_err(|error| unreadable(&name, error))?)
        };
        let mut lines = BufReader::with_capacity(READ_BYTES, source);
        let mut line = Vec::new();
        let mut number: u64 = 0;
        while !ending.is_finished() {
            line.clear();
            let bytes = read_line(&mut lines, &mut line, line_max)
                .map_err(|error| unreadable(&name, error))?;
            if bytes == 0 {
                break;
            }
            number += 1;
            counts.read.fetch_add(1, Ordering::SeqCst);
            counts.read_bytes.fetch_add(bytes, Ordering::Relaxed);
            let place = Place { name: Arc::clone(&name), number };
            if line.len() > line_max {
                let message = format!("{place}: longer than the {line_max} bytes of a request");
                counts.failures.lock().add(&message);
            } else {
                send_line(args, producer, counts, &line, &place);
            }
        }
    }
    Ok(())
}

/// Reads a line without its line feed into `line`, and gives the number of bytes that were read, 0
/// at the end. Of a line of more than `limit` bytes the first `limit + 1` are kept.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, limit: usize) -> io::Result<u64> {
    let mut read = input.by_ref().take(limit as u64 + 1).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > limit {
        read += input.skip_until(b'\n')?;
    }
    Ok(read as u64)
}

/// Where a line stands, for people.
#[derive(Clone, Debug)]
struct Place {
    name: Arc<str>,
    number: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of {}", self.number, self.name)
    }
}

fn name_of(file: &Path) -> String {
    if is_standard_input(file) { "standard input".to_owned() } else { file.display().to_string() }
}

fn unreadable(name: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{name} cannot be read")).with_source(error)
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn send_line(
    args: &SendArgs,
    producer: &Producer,
    counts: &Arc<Counts>,
    line: &[u8],
    place: &Place,
) {
    let (key, value) = split_key(line, args.key_separator.as_ref());
    let mut record = Record::to(&args.topic).value(value);
    if let Some(key) = key {
        record = record.key(key);
    }
    if let Some(partition) = args.partition {
        record = record.partition(partition);
    }
    let settled = Arc::clone(counts);
    let line = place.clone();
    let sent = producer.send_with(record, move |outcome| match outcome {
        Ok(_) => {
            settled.delivered.fetch_add(1, Ordering::SeqCst);
        }
        Err(error) => settled.failures.lock().add(&format!("{line}: not delivered: {error}")),
    });
    if let Err(error) = sent {
        counts.failures.lock().add(&format!("{place}: {error}"));
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

    /// A line at the limit is whole, a longer one is passed over to its end.
    #[test]
    fn lines_are_read_up_to_a_limit() {
        for capacity in [1, 2, 5, 100] {
            let text = &b"1234\n12345\n\n123456789\n12"[..];
            let mut input = BufReader::with_capacity(capacity, text);
            let mut lines = Vec::new();
            loop {
                let mut line = Vec::new();
                let read = read_line(&mut input, &mut line, 4).expect("memory can be read");
                if read == 0 {
                    break;
                }
                lines.push((read, String::from_utf8(line).expect("text")));
            }
            let wanted = [(5, "1234"), (6, "12345"), (1, ""), (10, "12345"), (2, "12")];
            assert_eq!(lines, wanted.map(|(read, line)| (read, line.to_owned())), "{capacity}");
        }
    }

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
