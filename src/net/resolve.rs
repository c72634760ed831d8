//! From a host name to socket addresses, anew for every connection.
//!
//! Nothing is remembered here: a broker that moved is found by the next connect (KAFKA-12193). The
//! system's resolver takes no time-out and may block for a minute, so it runs on a thread of its
//! own (`ottla-dns`) that is left behind when the deadline comes first; how many may be left behind
//! is bounded. An IP address needs no thread. In tests, names under `.test` (RFC 2606) are looked up
//! in a table.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::address::Address;
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::threads;

/// Most look-ups at a time in this process; a look-up that the system does not end stays counted.
const LOOK_UPS_MAX: usize = 64;
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 32;

static LOOK_UPS: AtomicUsize = AtomicUsize::new(0);

/// The addresses of `address`, however long the system's resolver takes.
pub(super) fn unbounded(address: &Address) -> Result<Vec<SocketAddr>> {
    checked(address, look_up(address.host(), address.port()))
}

/// The addresses of `address`. Blocks until `deadline`.
///
/// # Errors
/// `Resolve` when there is none, or none in time.
pub(super) fn by_deadline(address: &Address, deadline: Deadline) -> Result<Vec<SocketAddr>> {
    if let Ok(ip) = address.host().parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, address.port())]);
    }
    let turn = Turn::take().ok_or_else(|| {
        cannot(address, &format!("{LOOK_UPS_MAX} names are being looked up already"))
    })?;
    let (answer, answered) = crossbeam_channel::bounded(1);
    let (host, port) = (address.host().to_owned(), address.port());
    let thread = threads::spawn("ottla-dns", move || {
        let found = look_up(&host, port);
        drop(turn);
        if answer.send(found).is_err() {
            log::debug!("the addresses of {host} came too late");
        }
    })?;
    match answered.recv_deadline(deadline.instant()) {
        Ok(found) => {
            thread.join();
            checked(address, found)
        }
        // Dropping the thread leaves it behind; its turn ends when the system lets it go.
        Err(_) => Err(cannot(address, "the resolver did not answer in time")),
    }
}

fn checked(address: &Address, found: io::Result<Vec<SocketAddr>>) -> Result<Vec<SocketAddr>> {
    match found {
        Ok(mut addresses) if !addresses.is_empty() => {
            addresses.truncate(ADDRESSES_MAX);
            Ok(addresses)
        }
        Ok(_) => Err(cannot(address, "the name has no address")),
        Err(error) => Err(Error::new(
            ErrorKind::Resolve,
            format!("cannot resolve the host name {}", address.host()),
        )
        .with_source(error)),
    }
}

fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    #[cfg(test)]
    if let Some(found) = super::testing::names::look_up(host) {
        return found;
    }
    Ok((host, port).to_socket_addrs()?.collect())
}

fn cannot(address: &Address, reason: &str) -> Error {
    let text = format!("cannot resolve the host name {}: {reason}", address.host());
    Error::new(ErrorKind::Resolve, text)
}

/// One of the look-ups that may run at a time.
struct Turn;

impl Turn {
    fn take() -> Option<Self> {
        let turn = LOOK_UPS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < LOOK_UPS_MAX).then_some(count + 1)
        });
        turn.is_ok().then_some(Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        LOOK_UPS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net::testing::{names, soon};
    use crate::threads::Stop;

    #[test]
    fn a_resolver_that_hangs_ends_with_the_deadline() {
        let stop = Stop::new();
        let hangs = stop.clone();
        names::set_with("hangs.test", move || {
            hangs.wait_until(soon());
            Ok(Vec::new())
        });
        let address = Address::new("hangs.test", 9092);
        let error =
            by_deadline(&address, Deadline::within(Duration::from_millis(20))).expect_err("late");
        assert_eq!(error.kind(), ErrorKind::Resolve);
        assert!(error.to_string().contains("cannot resolve the host name hangs.test"), "{error}");
        stop.set();
        let error = by_deadline(&address, soon()).expect_err("no address");
        assert!(error.to_string().contains("no address"), "{error}");
    }

    #[test]
    fn ip_addresses_are_taken_as_they_are() {
        for (host, shown) in [("127.0.0.1", "127.0.0.1:9"), ("::1", "[::1]:9")] {
            let found = by_deadline(&Address::new(host, 9), soon()).expect("itself");
            assert_eq!(found, [shown.parse().expect("an address")]);
        }
    }
}
