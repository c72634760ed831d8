//! One run of one client: a process of its own, so that CPU time and peak memory are the client's alone.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use peers_common::{Failure, Figures, Mode};

use crate::{Case, Client};

/// What a run may take by its own clock.
const RUN_LIMIT: Duration = Duration::from_secs(120);
/// What it may take longer until it is killed.
const RUN_GRACE: Duration = Duration::from_secs(15);

/// The clients' programs and where they find the broker.
pub struct Programs {
    folder: PathBuf,
    bootstrap: String,
}

impl Programs {
    /// Those that were built with this one.
    pub fn beside_this(bootstrap: &str) -> Result<Programs, Failure> {
        let mut folder = std::env::current_exe()?;
        folder.pop();
        Ok(Programs { folder, bootstrap: bootstrap.to_owned() })
    }

    /// The program of a client.
    pub fn path_of(&self, client: &Client) -> PathBuf {
        self.folder.join(client.program)
    }

    /// What it is to do, within so many seconds.
    pub fn arguments(
        &self,
        client: &Client,
        case: &Case,
        topic: &str,
        n: u64,
        limit: u64,
    ) -> [String; 11] {
        [
            case.mode.to_string(),
            format!("bootstrap={}", self.bootstrap),
            format!("topic={topic}"),
            format!("n={n}"),
            format!("size={}", case.size),
            format!("codec={}", case.codec),
            format!("idempotent={}", u8::from(client.idempotent)),
            format!("limit={limit}"),
            format!("keys={}", u8::from(case.keys)),
            format!("threads={}", case.threads),
            format!("linger={}", if case.mode == Mode::Latency { 0 } else { 5 }),
        ]
    }

    /// Waits at most [`RUN_LIMIT`] and [`RUN_GRACE`] for the figures.
    pub fn run(
        &self,
        client: &Client,
        case: &Case,
        topic: &str,
        n: u64,
    ) -> Result<Figures, Failure> {
        let limit = RUN_LIMIT.as_secs();
        let mut child = Command::new(self.path_of(client))
            .args(self.arguments(client, case, topic, n, limit))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{} does not start: {e}", client.program))?;
        let mut output = child.stdout.take().ok_or("no pipe")?;
        let (send, receive) = mpsc::channel();
        // Ends with the child, whose end closes the pipe.
        let reader = thread::spawn(move || {
            let mut text = String::new();
            let outcome = output.read_to_string(&mut text).map(|_| text);
            // The receiver left only if the time was over.
            drop(send.send(outcome));
        });
        let text = receive.recv_timeout(RUN_LIMIT + RUN_GRACE);
        if text.is_err() {
            child.kill()?;
        }
        let status = child.wait()?;
        reader.join().map_err(|_| "the reader panicked")?;
        let text = text.map_err(|_| format!("{} was killed: out of time", client.program))??;
        if !status.success() {
            return Err(format!("{} ended with {status}", client.program).into());
        }
        text.trim().parse()
    }
}
