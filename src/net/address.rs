//! Where a broker is: host and port, read from text, resolved anew at each use.
//!
//! A name is never resolved once and for all: brokers move (apache/kafka#9902), so the addresses
//! behind a name are asked for at every connect, and all of them are tried.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// Host and port of a broker.
///
/// ```
/// use ottla::net::Address;
///
/// let address: Address = "[::1]:9092".parse()?;
/// assert_eq!((address.host(), address.port()), ("::1", 9092));
/// assert!("kafka".parse::<Address>().is_err());
/// # Ok::<(), ottla::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// A host name or IP address (without brackets) and a port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Host name or IP address, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads a list, each entry as `host:port`, entries separated by commas.
    ///
    /// # Errors
    /// `Config` when the list is empty or an entry is no address.
    pub fn parse_list(list: &str) -> Result<Vec<Self>> {
        let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let addresses = entries.map(str::parse).collect::<Result<Vec<Self>>>()?;
        if addresses.is_empty() {
            return Err(Error::new(
                ErrorKind::Config,
                "no address is given, expected is host:port",
            ));
        }
        Ok(addresses)
    }

    /// All addresses behind the name, as the system's resolver has them now. Blocks as long as
    /// that resolver does.
    ///
    /// # Errors
    /// `Resolve` when there is none.
    pub(crate) fn resolve(&self) -> Result<Vec<SocketAddr>> {
        let unresolved = || Error::new(ErrorKind::Resolve, format!("cannot resolve {self}"));
        let found: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| unresolved().with_source(error))?
            .collect();
        if found.is_empty() { Err(unresolved()) } else { Ok(found) }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let illegal =
            |why: &str| Error::new(ErrorKind::Config, format!("{text:?} is no address: {why}"));
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or_else(|| illegal("']' is missing"))?;
            let port = after.strip_prefix(':').ok_or_else(|| illegal("the port is missing"))?;
            (host, port)
        } else {
            let (host, port) =
                text.rsplit_once(':').ok_or_else(|| illegal("the port is missing"))?;
            if host.contains(':') {
                return Err(illegal("an IPv6 address is written in brackets, as [::1]:9092"));
            }
            (host, port)
        };
        // Brackets and commas would be read as something else when the address is written and read again.
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || "/[],".contains(c)) {
            return Err(illegal("the host is missing or illegal"));
        }
        match port.parse::<u16>() {
            Ok(port) if port != 0 => Ok(Self::new(host, port)),
            _ => Err(illegal("the port must be a number from 1 to 65535")),
        }
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

/// A broker as a target: its address, and its id once metadata has told it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The broker's id, `None` for a bootstrap address.
    pub id: Option<i32>,
    /// Where it is.
    pub address: Address,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{id} ({})", self.address),
            None => self.address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes of tulios and librdkafka reports (platformatic/kafka#364, librdkafka#1722).
    #[test]
    fn addresses_are_read_or_refused_with_the_reason() {
        for (text, host, port) in [
            ("kafka:9092", "kafka", 9092),
            ("[::1]:9092", "::1", 9092),
            ("[2001:db8::1]:1", "2001:db8::1", 1),
            ("10.0.0.1:65535", "10.0.0.1", 65535),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!((address.host(), address.port()), (host, port));
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "::1",
            "2001:db8::1",
            "host:",
            "host:99999",
            "host",
            ":1",
            "[::1]",
            "[::1:2",
            "h h:1",
            "host:0",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{text}");
            assert!(error.to_string().contains(text), "{error}");
        }
        assert_eq!(Address::parse_list("host:9092, [::1]:9093,").expect("legal").len(), 2);
        assert!(Address::parse_list(" , ").is_err());
    }
}
