//! Connections to Redis: the one seam through which it is reached.
//!
//! A pool of r2d2 holds them. What it pools is a slot; the caller that gets an empty one connects on its own
//! thread, so a failure is told at once with its reason, and nothing is opened before it is needed.
//!
//! Every wait is bounded. Connecting has a time-out per address; the time-outs of the socket are set before the
//! first byte is sent, also before AUTH, so that a Redis that accepts and stands still hangs nobody. The
//! read time-out of a blocking pop is its blocking time and the time-out of a command: Redis may answer late.
//!
//! Scripts that several threads run at a time share one write and one read (see [`super::batches`]); a blocking pop has a
//! connection of its own.
//!
//! A connection is dropped after any error and after any exchange that did not finish: the client would
//! otherwise give the late answer of one command to the next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use r2d2_redis::r2d2::{self, ManageConnection, Pool};
use r2d2_redis::redis::{
    self, Client, Cmd, Connection, ConnectionInfo, ErrorKind as RedisErrorKind, FromRedisValue,
    RedisError, RedisResult, Value,
};
use scheduled_thread_pool::ScheduledThreadPool;

use crate::error::{Error, ErrorKind, Result};
use crate::work::redis::batches::Batches;
use crate::work::redis::scripts::Script;

/// An idle connection is closed after this long.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// How Redis is reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkSettings {
    pub(super) connections_max: u32,
    pub(super) connect_timeout: Duration,
    pub(super) command_timeout: Duration,
}

/// The pool. Shared between threads by reference.
pub(super) struct Link {
    server: ConnectionInfo,
    settings: LinkSettings,
    /// Where it is, without what is secret.
    address: String,
    pool: Pool<Slots>,
    batches: Batches<Vec<u8>, Reply>,
}

/// What a script's call came to.
#[derive(Debug)]
pub(super) enum Reply {
    Value(Value),
    /// Redis does not know it by its name.
    NoScript,
    Failed(Error),
}

/// Place for one connection; empty until its first user connects.
#[derive(Default)]
struct Slot {
    open: Option<Wire>,
    /// Whether an exchange began and did not finish.
    unfinished: bool,
}

struct Wire {
    connection: Connection,
    read_timeout: Duration,
}

struct Slots;

impl ManageConnection for Slots {
    type Connection = Slot;
    type Error = std::convert::Infallible;

    fn connect(&self) -> Result<Slot, Self::Error> {
        Ok(Slot::default())
    }

    fn is_valid(&self, _: &mut Slot) -> Result<(), Self::Error> {
        Ok(())
    }

    fn has_broken(&self, slot: &mut Slot) -> bool {
        slot.unfinished
    }
}

impl Link {
    /// A pool that has not connected yet.
    pub(super) fn new(server: ConnectionInfo, settings: LinkSettings) -> Self {
        let scheduler = ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern("ottla-redis")
            .build();
        let pool = Pool::builder()
            .max_size(settings.connections_max.max(1))
            .min_idle(Some(0))
            .test_on_check_out(false)
            .idle_timeout(Some(IDLE_MAX))
            .max_lifetime(None)
            .error_handler(Box::new(r2d2::NopErrorHandler))
            .thread_pool(Arc::new(scheduler))
            .build_unchecked(Slots);
        let address = server.addr.to_string();
        Self { server, settings, address, pool, batches: Batches::new() }
    }

    /// Runs a script with `base` as its key. Scripts that several threads run at a time go out together.
    pub(super) fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        base: &str,
        arguments: &[&[u8]],
    ) -> Result<T> {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&script.hash).arg(1).arg(base);
        for argument in arguments {
            call.arg(*argument);
        }
        let call = call.get_packed_command();
        let mut reply = self.together(call.clone());
        if let Reply::NoScript = reply {
            self.load(script)?;
            reply = self.together(call);
        }
        let value = match reply {
            Reply::Value(value) => value,
            Reply::Failed(error) => return Err(error),
            Reply::NoScript => {
                return Err(self.failure("Redis forgets scripts as they are loaded".to_owned()));
            }
        };
        redis::from_redis_value(&value)
            .map_err(|error| self.refused("Redis's answer is not of this queue's form", error))
    }

    /// Has Redis know the script by its name.
    fn load(&self, script: &Script) -> Result<()> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&script.text);
        self.command::<Value>(&load, Duration::ZERO)?;
        Ok(())
    }

    fn together(&self, call: Vec<u8>) -> Reply {
        let answer = self.batches.ask(call, |calls| self.ask_all(&calls));
        let panicked =
            || self.failure("the thread that asked Redis for this one panicked".to_owned());
        answer.unwrap_or_else(|| Reply::Failed(panicked()))
    }

    /// Sends `calls` in one write and reads the answers.
    pub(super) fn ask_all(&self, calls: &[Vec<u8>]) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(calls.len());
        let ended = self.exchange(Duration::ZERO, |connection| {
            connection.send_packed_command(&calls.concat())?;
            let mut refusal = None;
            for _ in calls {
                match connection.recv_response() {
                    Ok(value) => replies.push(Reply::Value(value)),
                    Err(error) if error.kind() == RedisErrorKind::NoScriptError => {
                        replies.push(Reply::NoScript);
                    }
                    Err(error) if is_answer(&error) => {
                        refusal = Some(error.category().to_owned());
                        replies.push(Reply::Failed(self.refused("Redis failed", error)));
                    }
                    Err(error) => return Err(error),
                }
            }
            // A connection on which something was refused is not used again.
            refusal.map_or(Ok(()), |what| {
                Err(RedisError::from((RedisErrorKind::ResponseError, "refused", what)))
            })
        });
        if let Err(error) = ended {
            replies.resize_with(calls.len(), || Reply::Failed(error.clone()));
        }
        replies
    }

    /// Sends one command. `blocking`: how long the command itself may block.
    pub(super) fn command<T: FromRedisValue>(
        &self,
        command: &Cmd,
        blocking: Duration,
    ) -> Result<T> {
        self.exchange(blocking, |connection| command.query(connection))
    }

    fn exchange<T>(
        &self,
        blocking: Duration,
        exchange: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T> {
        let mut slot = self.pool.get_timeout(self.settings.command_timeout).map_err(|_| {
            self.failure(format!(
                "no connection to Redis was free; at most {} are used",
                self.settings.connections_max
            ))
        })?;
        let slot = &mut *slot;
        // Until the exchange is over, the connection is not to be used by anybody else, come what may.
        slot.unfinished = true;
        let wire = match &mut slot.open {
            Some(wire) => wire,
            None => slot.open.insert(self.connect()?),
        };
        let read_timeout = self.settings.command_timeout.saturating_add(blocking);
        if wire.read_timeout != read_timeout {
            wire.connection
                .set_read_timeout(Some(read_timeout))
                .map_err(|error| self.refused("Redis could not be reached", error))?;
            wire.read_timeout = read_timeout;
        }
        match exchange(&mut wire.connection) {
            Ok(value) => {
                slot.unfinished = false;
                Ok(value)
            }
            Err(error) if error.is_timeout() => {
                Err(self.refused("Redis did not answer in time", error))
            }
            Err(error) => Err(self.refused("Redis failed", error)),
        }
    }

    /// Opens a connection. AUTH and SELECT are sent here and not by the client, which would send them before
    /// a time-out can be set.
    fn connect(&self) -> Result<Wire> {
        let settings = &self.settings;
        let server =
            ConnectionInfo { addr: self.server.addr.clone(), db: 0, username: None, passwd: None };
        let open = || -> RedisResult<Connection> {
            let mut connection =
                Client::open(server)?.get_connection_with_timeout(settings.connect_timeout)?;
            connection.set_read_timeout(Some(settings.command_timeout))?;
            connection.set_write_timeout(Some(settings.command_timeout))?;
            if let Some(password) = &self.server.passwd {
                let mut auth = redis::cmd("AUTH");
                if let Some(user) = &self.server.username {
                    auth.arg(user);
                }
                auth.arg(password).query::<Value>(&mut connection)?;
            }
            if self.server.db != 0 {
                redis::cmd("SELECT").arg(self.server.db).query::<Value>(&mut connection)?;
            }
            Ok(connection)
        };
        let connection =
            open().map_err(|error| self.refused("no connection to Redis could be made", error))?;
        Ok(Wire { connection, read_timeout: settings.command_timeout })
    }

    fn failure(&self, message: String) -> Error {
        Error::new(ErrorKind::Queue, message).with_broker(format_args!("redis {}", self.address))
    }

    /// The crate's error for what the client gave. Everything may pass (a fail-over, a restart, memory that is full)
    /// but what is said about who we are.
    fn refused(&self, what: &str, error: RedisError) -> Error {
        let denied = error.kind() == RedisErrorKind::AuthenticationFailed
            || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"));
        let kind = if denied { ErrorKind::Config } else { ErrorKind::Queue };
        Error::new(kind, what)
            .with_broker(format_args!("redis {}", self.address))
            .with_source(error)
    }
}

/// Whether the error is what Redis said, so that the next answer follows. The client gives bytes that it cannot read the
/// same kind and another text; what follows those is worth nothing.
fn is_answer(error: &RedisError) -> bool {
    error.code().is_some() && !error.to_string().starts_with("parse error")
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}
