//! The servers of the demo: given ones, or throw-away ones of the checkout's scripts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli::report;
use crate::error::{Error, ErrorKind, Result};

/// Kafka and Redis.
pub(super) struct Servers {
    bootstrap: String,
    redis: String,
    /// Where the throw-away ones live.
    folder: Option<PathBuf>,
}

impl Servers {
    /// Servers that run already.
    pub(super) fn given(bootstrap: &str, redis: &str) -> Self {
        Self { bootstrap: bootstrap.to_owned(), redis: redis.to_owned(), folder: None }
    }

    /// Starts three brokers and one Redis, installing what is missing first.
    pub(super) fn start() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("ottla-demo-{}", std::process::id()));
        report::line(
            "starting Apache Kafka (three brokers) and Redis; the first time they are fetched",
        );
        script("up.sh", &folder)?;
        let servers = read_env(&folder);
        if servers.is_err() {
            end(&folder);
        }
        servers
    }

    pub(super) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    pub(super) fn redis(&self) -> &str {
        &self.redis
    }

    /// Ends the throw-away ones.
    pub(super) fn end(&self) {
        if let Some(folder) = &self.folder {
            end(folder);
        }
    }
}

fn end(folder: &Path) {
    match script("down.sh", folder) {
        Ok(()) => {
            if let Err(error) = std::fs::remove_dir_all(folder) {
                report::line(&format!("ottla: {} stays: {error}", folder.display()));
            }
        }
        Err(error) => report::line(&format!("ottla: {error}")),
    }
}

fn script(name: &str, folder: &Path) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(name);
    let failed = |why: String| {
        let message = format!("{} {}: {why}", path.display(), folder.display());
        Error::new(ErrorKind::Io, message)
    };
    // Its words go to standard error: standard output is for records.
    let status = Command::new("bash")
        .arg(&path)
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(format!("ended with {status}"))) }
}

/// Reads where the script says the servers are.
fn read_env(folder: &Path) -> Result<Servers> {
    let path = folder.join("env");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Error::new(ErrorKind::Io, format!("{} cannot be read", path.display())).with_source(error)
    })?;
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(str::to_owned)
            .ok_or_else(|| Error::new(ErrorKind::Io, format!("{} lacks {name}", path.display())))
    };
    Ok(Servers {
        bootstrap: value("OTTLA_BOOTSTRAP")?,
        redis: value("OTTLA_REDIS")?,
        folder: Some(folder.to_owned()),
    })
}
