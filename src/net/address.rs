//! Where a broker listens: [`Address`], and [`Endpoint`], the address with the broker's id.
//!
//! Pure values. Parsing takes what Kafka's `bootstrap.servers` takes (`host:port`, IPv6 addresses
//! in brackets) and refuses the rest with the reason, because a host and a port cut at the wrong
//! colon fail much later and far from the cause. A scheme (`SSL://`) is refused and not skipped:
//! who wrote it expects something that a plain connection does not give.
//!
//! An address keeps the name, not what it resolved to: see [`super::resolve`].

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// Longest host name of the DNS, RFC 1035.
const HOST_BYTES_MAX: usize = 253;

/// A host and a port.
///
/// ```
/// use ottla::net::Address;
///
/// let address: Address = "[::1]:9092".parse()?;
/// assert_eq!((address.host(), address.port()), ("::1", 9092));
/// assert_eq!(address.to_string(), "[::1]:9092");
/// assert!("::1".parse::<Address>().is_err());
/// # Ok::<(), ottla::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// A host (a name, an IPv4 address, or an IPv6 address without brackets) and a port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Name or address of the host; an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Parses a list, separated by commas; blanks around an entry and empty entries are skipped.
    ///
    /// # Errors
    /// `Config` when an entry is no address, or when there is none.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let addresses = entries.map(str::parse).collect::<Result<Vec<_>>>()?;
        if addresses.is_empty() {
            return Err(Error::new(ErrorKind::Config, "the list of addresses is empty"));
        }
        Ok(addresses)
    }

    /// The socket addresses that the host has at this moment, in the order in which the system's
    /// resolver prefers them.
    ///
    /// Blocks as long as the system's resolver does.
    ///
    /// # Errors
    /// `Resolve` when the name is unknown or has no address.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>> {
        super::resolve::unbounded(self).map_err(|error| error.with_broker(self))
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text.trim()).map_err(|reason| {
            Error::new(ErrorKind::Config, format!("{text:?} is no address: {reason}"))
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A broker as it can be reached: its id, where it is known, and its address.
///
/// It is the key of the pool: a broker that moved has another endpoint, and so has another broker
/// that took over its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The broker's id; `None` for an address to begin with, whose broker is not known yet.
    pub id: Option<i32>,
    /// Where it listens.
    pub address: Address,
}

impl From<Address> for Endpoint {
    fn from(address: Address) -> Self {
        Self { id: None, address }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{id} ({})", self.address),
            None => fmt::Display::fmt(&self.address, f),
        }
    }
}

fn parse(text: &str) -> Result<Address, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.contains("://") {
        return Err("write host:port, without a scheme");
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("the closing bracket is missing")?;
        let number = host.split('%').next().unwrap_or_default();
        if number.parse::<Ipv6Addr>().is_err() {
            return Err("what stands in brackets is no IPv6 address");
        }
        (host, after.strip_prefix(':').ok_or("the port is missing, write [address]:9092")?)
    } else {
        let (host, port) = text.rsplit_once(':').ok_or("the port is missing")?;
        if host.contains(':') {
            return Err("an IPv6 address needs brackets and a port, write [::1]:9092");
        }
        (host, port)
    };
    let illegal = |c: char| c.is_whitespace() || c.is_control() || "/@?#[]\"'\\,".contains(c);
    if host.is_empty() {
        return Err("the host is missing");
    }
    if host.len() > HOST_BYTES_MAX || host.contains(illegal) {
        return Err("the host is no host name");
    }
    if port.is_empty() {
        return Err("the port is missing");
    }
    match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|b| b.is_ascii_digit()) => {
            Ok(Address { host: host.to_owned(), port: number })
        }
        _ => Err("the port is not a number from 1 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Address {
        text.parse().expect(text)
    }

    /// The forms of librdkafka#1722, kafka-python#616 and platformatic/kafka#364 (B73).
    #[test]
    fn hosts_ports_and_brackets_are_told_apart() {
        assert_eq!(parsed("[::1]:9092"), Address::new("::1", 9092));
        assert_eq!(
            parsed(" kafka-2.example.org:19092 "),
            Address::new("kafka-2.example.org", 19092)
        );
        assert_eq!(parsed("10.0.0.1:1"), Address::new("10.0.0.1", 1));
        assert_eq!(parsed("[fe80::1%eth0]:9092"), Address::new("fe80::1%eth0", 9092));
        assert_eq!(
            Address::parse_list("host:9092, [::1]:9093,").expect("two"),
            [Address::new("host", 9092), Address::new("::1", 9093)]
        );
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (text, reason) in [
            ("::1", "brackets"),
            ("2001:db8::1", "brackets"),
            ("host:", "port is missing"),
            ("host", "port is missing"),
            ("[::1]", "port is missing"),
            ("[::1", "closing bracket"),
            ("[host]:9092", "no IPv6 address"),
            ("host:99999", "1 to 65535"),
            ("host:0", "1 to 65535"),
            ("host:+1", "1 to 65535"),
            ("host:-1", "1 to 65535"),
            (":9092", "host is missing"),
            ("SSL://host:9092", "scheme"),
            ("a b:9092", "no host name"),
            ("", "empty"),
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
        assert!(Address::parse_list(" , ").is_err());
        assert!(Address::parse_list("a:1,b").is_err());
    }

    #[test]
    fn an_endpoint_shows_the_id_it_knows() {
        let address = Address::new("kafka2", 9092);
        assert_eq!(Endpoint::from(address.clone()).to_string(), "kafka2:9092");
        assert_eq!(Endpoint { id: Some(2), address }.to_string(), "2 (kafka2:9092)");
    }
}
