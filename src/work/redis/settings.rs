//! Where Redis is and how it is reached.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use r2d2_redis::redis::{self, ConnectionInfo, IntoConnectionInfo};

use crate::error::{Error, ErrorKind, Result};
use crate::work::builder::QueueSource;
use crate::work::queue::{QueueRules, WorkQueue, check_group};
use crate::work::redis::client::RedisQueue;
use crate::work::redis::keys::Keys;
use crate::work::redis::link::{Link, LinkSettings};
use crate::work::redis::scripts::ScriptClock;

/// Connections at most, unless set.
const CONNECTIONS_MAX_DEFAULT: u32 = 256;
/// Longest time-out that can be set; a longer one is cut.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// A Redis server, and how a queue on it is reached.
///
/// ```no_run
/// use ottla::work::{QueueSource, Redis};
///
/// # fn main() -> ottla::Result<()> {
/// let queue = Redis::at("redis://localhost:6379").open("billing", "ottla", Default::default())?;
/// let snapshot = queue.snapshot(Default::default())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redis {
    server: Result<ConnectionInfo>,
    timing: LinkSettings,
}

impl Redis {
    /// The server at `url`: `redis://[[user]:password@]host[:port][/database]`, or `redis+unix:///path`. Nothing is
    /// opened yet; a URL that is none is told when a queue is opened. What it holds of user and password is never shown.
    pub fn at(url: &str) -> Self {
        let server = url.into_connection_info().map_err(|error| {
            // The cause names what is wrong, and never the text.
            Error::new(
                ErrorKind::Config,
                "the address of Redis is not of the form redis://[[user]:password@]host[:port][/database]",
            )
            .with_source(error)
        });
        let timing = LinkSettings {
            connections_max: CONNECTIONS_MAX_DEFAULT,
            connect_timeout: Duration::from_secs(5),
            command_timeout: Duration::from_secs(5),
        };
        Self { server, timing }
    }

    /// Connections at most; each waiting worker uses one. Opened when needed. Defaults to 256.
    #[must_use]
    pub fn connections_max(mut self, connections: u32) -> Self {
        self.timing.connections_max = connections.max(1);
        self
    }

    /// How long connecting may take, per address. Defaults to 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.timing.connect_timeout = timeout.clamp(Duration::from_millis(1), TIMEOUT_MAX);
        self
    }

    /// How long a command may take, beyond the time for which it blocks by itself. Defaults to 5 s.
    #[must_use]
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.timing.command_timeout = timeout.clamp(Duration::from_millis(1), TIMEOUT_MAX);
        self
    }

    /// The queue of `group`, which every process of the group opens with the same rules; every key begins with `prefix`.
    ///
    /// Connects, and looks at Redis's `maxmemory-policy`. Blocks for about the connect and command time-outs at most.
    ///
    /// # Errors
    /// - `InvalidInput` if `group` is no name for a group.
    /// - `Config` if the URL is none; if Redis would evict keys when its memory is full, since a queue
    ///   cannot lose keys; if Redis refuses the user or password.
    /// - `Queue` if it cannot be reached: try again later.
    pub fn connect(&self, group: &str, prefix: &str, rules: QueueRules) -> Result<RedisQueue> {
        check_group(group)?;
        let queue = self.queue(group, prefix, rules, ScriptClock::Server)?;
        check_eviction(&queue)?;
        Ok(queue)
    }

    /// A queue whose time stands still but for what a test does to the key `clock`.
    #[cfg(test)]
    pub(crate) fn on_manual_clock(&self, group: &str, rules: QueueRules) -> Result<RedisQueue> {
        self.queue(group, "ottla-test", rules, ScriptClock::Manual)
    }

    fn queue(
        &self,
        group: &str,
        prefix: &str,
        rules: QueueRules,
        clock: ScriptClock,
    ) -> Result<RedisQueue> {
        let link = Link::new(self.server.clone()?, self.timing);
        Ok(RedisQueue::new(link, Keys::new(prefix, group), rules, clock))
    }
}

impl QueueSource for Redis {
    fn open(&self, group: &str, prefix: &str, rules: QueueRules) -> Result<Arc<dyn WorkQueue>> {
        Ok(Arc::new(self.connect(group, prefix, rules)?))
    }
}

/// Refuses a server that would throw keys away.
fn check_eviction(queue: &RedisQueue) -> Result<()> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("maxmemory-policy");
    queue.link().command::<redis::Value>(&redis::cmd("PING"), Duration::ZERO)?;
    let policy: Vec<String> = match queue.link().command(&command, Duration::ZERO) {
        Ok(answer) => answer,
        Err(error) => {
            log::warn!("whether Redis evicts keys could not be read, it must not: {error}");
            return Ok(());
        }
    };
    match policy.get(1).map(String::as_str) {
        Some(policy) if policy.starts_with("allkeys-") => Err(Error::new(
            ErrorKind::Config,
            format!(
                "Redis's maxmemory-policy is {policy}: it would evict keys of the queue; set it to noeviction"
            ),
        )),
        Some(policy) if policy != "noeviction" => {
            log::warn!(
                "Redis's maxmemory-policy is {policy}: it may evict the organiser's lock; noeviction is better"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("address", &self.server.as_ref().map(|server| server.addr.to_string()))
            .field("connections_max", &self.timing.connections_max)
            .field("connect_timeout", &self.timing.connect_timeout)
            .field("command_timeout", &self.timing.command_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let redis = Redis::at("redis://alice:hunter2@host:7000/3");
        let shown = format!("{redis:?}");
        assert!(shown.contains("host:7000"), "{shown}");
        assert!(!shown.contains("alice") && !shown.contains("hunter2"), "{shown}");
        for bad in ["redis://alice:hunter2@host:port/", "http://alice:hunter2@host", "hunter2", ""]
        {
            let redis = Redis::at(bad);
            assert!(!format!("{redis:?}").contains("hunter2"), "{redis:?}");
            let error = redis.connect("group", "ottla", QueueRules::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
