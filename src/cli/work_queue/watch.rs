//! `work-queue --watch`: what the queue holds, again and again until a signal.
//!
//! On a terminal the tables are drawn over each other, cut to its size; elsewhere they follow each other, and as JSON
//! each is one line. What cannot be asked for a while is told and asked again.

use std::io::IsTerminal;
use std::time::Duration;

use super::super::args::WorkQueueArgs;
use super::super::output::Output;
use super::super::signals::Ending;
use super::super::{End, report, topics};
use super::{Ends, cluster, counts, ends, open, text_of};
use crate::error::Result;
use crate::work::WorkQueue;
use crate::work::snapshot::{Snapshot, SnapshotLimits};

/// Empties the screen.
const CLEAR: &str = "\x1b[2J";
/// To the first row and column.
const HOME: &str = "\x1b[H";
/// Empties the rest of a row.
const CLEAR_ROW: &str = "\x1b[K";
/// Empties everything from here on.
const CLEAR_BELOW: &str = "\x1b[J";

pub(super) fn run(args: &WorkQueueArgs, every: Duration) -> Result<End> {
    let ending = Ending::watch()?;
    let (queue, mut snapshot) = open(args)?;
    let client = cluster(args).map(|cluster| topics::client(&cluster)).transpose()?;
    let on_terminal = std::io::stdout().is_terminal() && !args.json;
    let output = Output::default();
    if on_terminal && output.write(CLEAR.as_bytes()).is_err() {
        return Ok(output.verdict(End::Complete));
    }
    let mut trouble = None;
    loop {
        let ends = client.as_ref().map_or_else(Ends::new, |client| ends(client, &snapshot));
        let text = if on_terminal {
            let head = head(args, every, &snapshot, trouble.as_deref());
            frame(&(head + &text_of(args, &snapshot, &ends)), size())
        } else if args.json {
            text_of(args, &snapshot, &ends)
        } else {
            text_of(args, &snapshot, &ends) + "\n"
        };
        // After a failure nothing new is known, which people see and programs do not need twice.
        let is_written =
            (trouble.is_some() && !on_terminal) || output.write(text.as_bytes()).is_ok();
        if !is_written || ending.wait(every) {
            break;
        }
        trouble = match queue.snapshot(SnapshotLimits::default()) {
            Ok(now) => {
                snapshot = now;
                None
            }
            Err(error) if error.is_retriable() => {
                if !on_terminal {
                    report::line(&format!("ottla: {error}; trying again"));
                }
                Some(error.to_string())
            }
            Err(error) => return Err(error),
        };
    }
    if let Some(failure) = output.failure() {
        report::line(&format!("ottla: {failure}"));
    }
    report::line(&counts(&snapshot));
    Ok(output.verdict(End::Complete))
}

/// What stands above the tables on a terminal.
fn head(args: &WorkQueueArgs, every: Duration, held: &Snapshot, trouble: Option<&str>) -> String {
    let state = match trouble {
        Some(error) => format!("not asked: {error}"),
        None => counts(held),
    };
    format!("group {}, every {}: {state}\n\n", args.group, report::seconds(every))
}

/// Rows and columns of the terminal; as many as one likes where it does not tell.
fn size() -> (usize, usize) {
    let told = rustix::termios::tcgetwinsize(std::io::stdout());
    let or_any = |count: u16| if count == 0 { usize::MAX } else { usize::from(count) };
    told.map_or((usize::MAX, usize::MAX), |size| (or_any(size.ws_row), or_any(size.ws_col)))
}

/// `text` drawn over what is on the screen: no more than fits, so that nothing scrolls.
fn frame(text: &str, (rows, columns): (usize, usize)) -> String {
    let mut frame = HOME.to_owned();
    // The last row stays empty for the cursor.
    for line in text.lines().take(rows.saturating_sub(1)) {
        frame.extend(line.chars().take(columns));
        frame.push_str(CLEAR_ROW);
        frame.push('\n');
    }
    frame + CLEAR_BELOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_its_screen_and_leaves_nothing_of_the_one_before() {
        let text = "one\ntwo, which is longer\nthree\n";
        assert_eq!(frame(text, (9, 5)), "\x1b[Hone\x1b[K\ntwo, \x1b[K\nthree\x1b[K\n\x1b[J");
        assert_eq!(frame(text, (2, 99)), "\x1b[Hone\x1b[K\n\x1b[J");
        assert_eq!(frame("ä\u{1F600}b", (9, 2)), "\x1b[Hä\u{1F600}\x1b[K\n\x1b[J");
        for size in [(0, 0), (1, 1), (usize::MAX, usize::MAX)] {
            assert!(frame(text, size).lines().count() <= text.lines().count() + 1);
        }
    }
}
