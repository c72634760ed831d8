//! The `ottla` command: one file per subcommand.
//!
//! ```text
//! args        what can be written on the command line
//! topics      create, list, delete
//! send        lines to records
//! consume     partitions read directly
//! workers     consume -g: organiser candidate and workers
//! work_queue  what the queue holds
//! demo        the main job on real input, checked at the end
//! broker      brokers in the process, for development
//! format      the -f language; output: standard output, shared and flushed
//! signals     SIGINT and SIGTERM; report: words on standard error
//! ```
//!
//! Records alone go to standard output, words to standard error. Every command ends with a line of
//! counts there, and with code 0 only if everything was delivered or processed.
//!
//! Not an interface of the library: the command's own code, public only so that the binary can
//! reach it.

mod args;
mod broker;
mod consume;
mod demo;
mod format;
mod output;
mod report;
mod send;
mod signals;
mod topics;
mod work_queue;
mod workers;

use std::process::ExitCode;

use clap::Parser;

use self::args::{Args, Command};
use crate::error::Result;

/// The exit code of a command that could not do all of its work.
const FAILED: u8 = 1;
/// The exit code when the reader of standard output went away, as a death by SIGPIPE shows in a
/// shell.
const OUTPUT_CLOSED: u8 = 141;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All was delivered or processed.
    Complete,
    /// Something was not; it was told on standard error.
    Incomplete,
    /// Standard output was closed by its reader.
    OutputClosed,
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let args = Args::parse();
    report::install_logger(args.verbose);
    match run(args.command) {
        Ok(End::Complete) => ExitCode::SUCCESS,
        Ok(End::Incomplete) => ExitCode::from(FAILED),
        Ok(End::OutputClosed) => ExitCode::from(OUTPUT_CLOSED),
        Err(error) => {
            report::line(&format!("ottla: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

fn run(command: Command) -> Result<End> {
    match command {
        Command::Topics(args) => topics::run(args),
        Command::Send(args) => send::run(args),
        Command::Consume(args) => consume::run(&args),
        Command::WorkQueue(args) => work_queue::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Broker(args) => broker::run(&args),
    }
}
