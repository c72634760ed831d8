//! [`Links`]: the way to the brokers. Whom to ask, may it be asked now, one exchange with it.
//!
//! Shared by every thread that calls and by the refresher; knows addresses, not topics. One lock
//! guards the book-keeping (blacklist, throttles) and is never held while a socket is used or a
//! wait is on. Each exchange is one attempt: retries are the business of [`super::Cluster::retry`].
//!
//! ```text
//! exchange: wait until the broker may be asked (throttle, reconnect pause)
//!           -> connection from the pool -> version -> build -> send, receive
//!           -> success: off the blacklist, throttle noted
//!           -> failure: on the blacklist, idle connections to it closed, cause kept
//! ```

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::backoff::Backoff;
use super::blacklist::Blacklist;
use super::metadata::{BrokerInfo, Metadata};
use super::throttle::{Throttled, Throttles};
use crate::clock::{self, Deadline};
use crate::config::ClientConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::net::pool::PoolSettings;
use crate::net::{Address, Closer, Connection, Connections, Endpoint, Settings};
use crate::protocol::{ApiKey, Request, VersionRange};
use crate::threads::Stop;

/// The way to the brokers.
#[derive(Debug)]
pub(crate) struct Links {
    config: Arc<ClientConfig>,
    bootstrap: Vec<Address>,
    pool: Connections,
    stop: Stop,
    books: Mutex<Books>,
    /// The connections on which an exchange is under way: a close ends them.
    busy: Mutex<Busy>,
}

#[derive(Debug, Default)]
struct Busy {
    next: u64,
    closers: HashMap<u64, Closer>,
}

#[derive(Debug)]
struct Books {
    blacklist: Blacklist<Address>,
    throttles: Throttles<Address>,
    /// Why an address is on the blacklist.
    causes: HashMap<Address, Error>,
    /// Who answered last when anyone could be asked: it has a connection.
    favourite: Option<Address>,
    rng: fastrand::Rng,
}

/// What an answer came with.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) response: T,
    pub(crate) version: i16,
    pub(crate) endpoint: Endpoint,
}

impl Links {
    /// Knows the `bootstrap` addresses; connects to nobody.
    pub(crate) fn new(config: Arc<ClientConfig>, bootstrap: Vec<Address>) -> Self {
        let pause = Backoff::new(config.reconnect_backoff, config.reconnect_backoff_max);
        let books = Books {
            blacklist: Blacklist::new(pause, config.broker_blacklist_max),
            throttles: Throttles::new(),
            causes: HashMap::new(),
            favourite: None,
            rng: fastrand::Rng::new(),
        };
        let limits = PoolSettings::new()
            .per_key_max(config.connections_per_broker_max)
            .idle_max(config.connections_max_idle);
        let settings = Settings {
            client_id: config.client_id.clone(),
            connect_timeout: config.socket_connection_setup_timeout,
            receive_max: config.receive_message_max,
            send_buffer: usize::try_from(config.send_buffer).ok(),
            receive_buffer: usize::try_from(config.receive_buffer).ok(),
        };
        Self {
            config,
            bootstrap,
            pool: Connections::new(settings, limits),
            stop: Stop::new(),
            books: Mutex::new(books),
            busy: Mutex::default(),
        }
    }

    /// The settings.
    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Set when the client is closed.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Refuses everything from now on, wakes who waits and ends what is under way.
    pub(crate) fn close(&self) {
        self.stop.set();
        // Who registers from now on sees the flag (see `on_loan`), so nobody is missed.
        for closer in self.busy.lock().closers.values() {
            closer.shutdown();
        }
        self.pool.close_all();
    }

    /// Whom to ask when any broker will do.
    ///
    /// # Errors
    /// `Config` when neither a broker nor a bootstrap address is known.
    pub(crate) fn any(&self, metadata: &Metadata, bootstrap_first: bool) -> Result<Endpoint> {
        let brokers: Vec<Endpoint> = metadata.brokers().map(endpoint_of).collect();
        let now = clock::now();
        let books = &mut *self.books.lock();
        let mut addresses: Vec<Address> =
            brokers.iter().map(|known| known.address.clone()).collect();
        if addresses.iter().any(|address| books.throttles.until(address, now).is_none()) {
            addresses.retain(|address| books.throttles.until(address, now).is_none());
        }
        let favourite = books.favourite.as_ref();
        let chosen = books
            .blacklist
            .choose(&addresses, &self.bootstrap, favourite, bootstrap_first, now, &mut books.rng)
            .ok_or_else(|| Error::new(ErrorKind::Config, "there is no broker to ask"))?;
        let known = brokers.into_iter().find(|known| known.address == *chosen);
        Ok(known.unwrap_or_else(|| Endpoint { id: None, address: chosen.clone() }))
    }

    /// The addresses to begin with.
    pub(crate) fn bootstrap(&self) -> &[Address] {
        &self.bootstrap
    }

    /// Makes `endpoint` the first choice when anyone will do. A bootstrap address has served its
    /// turn then: the broker behind it is connected to under its own id.
    pub(crate) fn favour(&self, endpoint: &Endpoint) {
        self.books.lock().favourite = Some(endpoint.address.clone());
        if endpoint.id.is_none() {
            self.pool.close(endpoint);
        }
    }

    /// Forgets and disconnects brokers that are not in `after` any more.
    pub(crate) fn brokers_changed(&self, before: &Metadata, after: &Metadata) {
        if before.brokers == after.brokers {
            return;
        }
        let kept: Vec<Address> = after
            .brokers()
            .map(|broker| endpoint_of(broker).address)
            .chain(self.bootstrap.iter().cloned())
            .collect();
        let books = &mut *self.books.lock();
        books.blacklist.retain(|address| kept.contains(address));
        books.causes.retain(|address, _| kept.contains(address));
        for gone in before.brokers().filter(|broker| after.broker(broker.id) != Some(broker)) {
            self.pool.close(&endpoint_of(gone));
        }
    }

    /// Closes idle connections to every broker: the cluster asked to start over (KIP-1102).
    pub(crate) fn disconnect_all(&self) {
        self.pool.close_all();
        self.books.lock().favourite = None;
    }

    /// A connection of one's own, outside the pool. Blocks until `deadline`.
    pub(crate) fn dedicated(&self, endpoint: &Endpoint, deadline: Deadline) -> Result<Connection> {
        self.wait_for_turn(endpoint, deadline)?;
        let whole = Deadline::within(self.config.request_timeout);
        match self.pool.open(endpoint, deadline.min(whole)) {
            Ok(connection) => {
                self.succeeded(endpoint);
                Ok(connection)
            }
            Err(error) => Err(self.failed(endpoint, error, deadline >= whole)),
        }
    }

    /// One request and its answer: one attempt, bounded by `request.timeout.ms` and `deadline`.
    pub(crate) fn exchange<R, B>(
        &self,
        endpoint: &Endpoint,
        versions: VersionRange,
        deadline: Deadline,
        build: impl FnOnce(i16) -> Result<B>,
    ) -> Result<Answer<R::Response>>
    where
        R: Request,
        R::Response: Throttled,
        B: Borrow<R>,
    {
        self.wait_for_turn(endpoint, deadline)?;
        let whole = Deadline::within(self.config.request_timeout);
        let attempt = deadline.min(whole);
        let mut connection = self
            .pool
            .poll(endpoint, attempt)
            .map_err(|error| self.failed(endpoint, error, deadline >= whole))?;
        let version = connection
            .version_for(R::API, versions)
            .map_err(|error| error.with_broker(endpoint))?;
        let request = build(version)?;
        let outcome = self
            .on_loan(&connection)
            .and_then(|_loan| connection.call(request.borrow(), version, attempt));
        match outcome {
            Ok(response) => {
                self.succeeded(endpoint);
                self.note_throttle(endpoint, R::API, version, response.throttle_time_ms());
                Ok(Answer { response, version, endpoint: endpoint.clone() })
            }
            Err(error) => {
                drop(connection);
                let error = error.with_api(R::API, version);
                Err(self.failed(endpoint, error, deadline >= whole))
            }
        }
    }

    /// Registers a connection for [`Links::close`] while an exchange is under way on it.
    fn on_loan(&self, connection: &Connection) -> Result<Loan<'_>> {
        let mut busy = self.busy.lock();
        busy.next += 1;
        let key = busy.next;
        busy.closers.insert(key, connection.closer());
        drop(busy);
        let loan = Loan { links: self, key };
        if self.stop.is_set() { Err(closed()) } else { Ok(loan) }
    }

    /// An answer asked that nothing be sent to `endpoint` for `throttle_time_ms`.
    pub(crate) fn note_throttle(
        &self,
        endpoint: &Endpoint,
        api: ApiKey,
        version: i16,
        throttle_time_ms: i32,
    ) {
        if throttle_time_ms > 0 {
            let throttles = &mut self.books.lock().throttles;
            throttles.note(&endpoint.address, api, version, throttle_time_ms, clock::now());
        }
    }

    /// Waits until `endpoint` may be turned to: it throttles, or it failed a moment ago.
    fn wait_for_turn(&self, endpoint: &Endpoint, deadline: Deadline) -> Result<()> {
        loop {
            if self.stop.is_set() {
                return Err(closed());
            }
            let now = clock::now();
            let (throttled, paused, cause) = {
                let books = self.books.lock();
                let address = &endpoint.address;
                (
                    books.throttles.until(address, now),
                    books.blacklist.paused_until(address, now),
                    books.causes.get(address).cloned(),
                )
            };
            let Some(until) = throttled.max(paused) else { return Ok(()) };
            if deadline.has_passed(now) {
                return Err(match (throttled, cause) {
                    (None, Some(cause)) => cause,
                    _ => Error::new(
                        ErrorKind::Timeout,
                        "the broker throttles this client for longer than there was time",
                    )
                    .with_broker(endpoint),
                });
            }
            self.stop.wait_until(deadline.min(Deadline::after(until, std::time::Duration::ZERO)));
        }
    }

    fn succeeded(&self, endpoint: &Endpoint) {
        let books = &mut *self.books.lock();
        books.blacklist.succeeded(&endpoint.address);
        books.causes.remove(&endpoint.address);
    }

    /// Notes a failure that speaks against the broker. A time-out does only when the attempt had
    /// all of `request.timeout.ms`: a caller in a hurry proves nothing.
    fn failed(&self, endpoint: &Endpoint, error: Error, had_whole_time: bool) -> Error {
        if self.stop.is_set() {
            return closed();
        }
        let error = error.with_broker(endpoint);
        {
            let favourite = &mut self.books.lock().favourite;
            favourite.take_if(|address| *address == endpoint.address);
        }
        let against_broker = match error.kind() {
            ErrorKind::Resolve
            | ErrorKind::Connect
            | ErrorKind::Disconnected
            | ErrorKind::Protocol
            | ErrorKind::NotKafka => true,
            ErrorKind::Timeout => had_whole_time,
            _ => false,
        };
        if against_broker {
            {
                let books = &mut *self.books.lock();
                books.blacklist.failed(&endpoint.address, clock::now(), &mut books.rng);
                books.causes.insert(endpoint.address.clone(), error.clone());
            }
            // What is idle is as dead as the one that failed: else each retry would meet the next.
            self.pool.close(endpoint);
        }
        error
    }
}

/// An exchange under way; ends with it, also by a panic.
#[derive(Debug)]
struct Loan<'a> {
    links: &'a Links,
    key: u64,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.links.busy.lock().closers.remove(&self.key);
    }
}

/// Where a broker of the metadata can be reached.
pub(crate) fn endpoint_of(broker: &BrokerInfo) -> Endpoint {
    Endpoint { id: Some(broker.id), address: Address::new(broker.host.as_str(), broker.port) }
}

/// The error of everything that is asked of a closed client.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the client is closed")
}
