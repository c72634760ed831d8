//! Settings: one table row per property.
//!
//! A row of [`tables`] has the property's name as Kafka's Java client has it (or one of our own,
//! where Java has none), the field, its type, its default, its range and its text. From that row
//! come the field, the typed setter of the builder, the parser behind `from_properties`, the range
//! check and the listing that [`properties`] gives: nothing is stated twice.
//!
//! ```text
//! tables   the rows: client, producer, fetch, work
//! value    how each type is read from text and shown
//! macros   what a table becomes (struct, setters)
//! document      the tables as the page CONFIGURATION.md     (test)
//! unsupported   what Kafka's Java producer has and Ottla has not, with the reason
//! ```
//!
//! An unknown key is an error that suggests the nearest known one. Values that are secrets never
//! print; none of the present ones is.

#[cfg(test)]
mod document;
#[macro_use]
mod macros;
#[macro_use]
mod tables;
mod unsupported;
mod value;

#[cfg_attr(not(feature = "cli"), expect(unused_imports, reason = "read by the command"))]
pub(crate) use value::Value;

pub use tables::{Acks, AutoOffsetReset, IsolationLevel, PartitionerClass};
pub(crate) use tables::{ClientConfig, FetchConfig, ProducerConfig, WorkConfig};

use std::collections::BTreeMap;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// One property as the documentation lists it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Property {
    /// Its name, as Kafka's Java client has it where it has it.
    pub name: &'static str,
    /// Its type: `duration in ms`, `bytes`, `number`, `boolean`, `text`, `list`, or the words allowed.
    pub kind: &'static str,
    /// Its default, as it would be written.
    pub default: String,
    /// The least and the greatest value, where there is a range.
    pub range: Option<(String, String)>,
    /// What it does.
    pub text: &'static str,
}

/// Which table a property belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Section {
    /// Of every client.
    Client,
    /// Of producers.
    Producer,
    /// Of reading.
    Fetch,
    /// Of work units.
    Work,
}

/// All properties of a section, in the order of the documentation.
///
/// ```
/// use ottla::config::{Section, properties};
///
/// let linger = properties(Section::Producer).into_iter().find(|p| p.name == "linger.ms").unwrap();
/// assert_eq!(linger.default, "5");
/// ```
pub fn properties(section: Section) -> Vec<Property> {
    match section {
        Section::Client => ClientConfig::table(),
        Section::Producer => ProducerConfig::table(),
        Section::Fetch => FetchConfig::table(),
        Section::Work => WorkConfig::table(),
    }
}

/// Every setting of a program by its name, sorted to its section: what `from_properties` reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllConfig {
    pub(crate) client: ClientConfig,
    pub(crate) producer: ProducerConfig,
    pub(crate) fetch: FetchConfig,
    pub(crate) work: WorkConfig,
}

impl AllConfig {
    /// Reads properties by name; all sections may be mixed.
    ///
    /// # Errors
    /// `Config` for an unknown name (with the nearest known one) and for a value that cannot be
    /// read or is out of range.
    pub(crate) fn from_properties<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut all = Self::default();
        for (name, text) in pairs {
            let (name, text) = (name.as_ref().trim(), text.as_ref());
            let known = all.client.set(name, text)?
                || all.producer.set(name, text)?
                || all.fetch.set(name, text)?
                || all.work.set(name, text)?;
            if !known {
                return Err(unknown(name));
            }
        }
        Ok(all)
    }
}

/// Reads the text of a properties file: `name=value` lines, `#` and `!` start a comment line.
/// The value is everything after the first `=`, byte for byte but for surrounding blanks.
///
/// # Errors
/// `Config` for a line without `=` and for a name that occurs twice.
pub fn parse_properties(text: &str) -> Result<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err(config_error(format!("line {} has no '='", index + 1)));
        };
        if pairs.insert(name.trim().to_owned(), value.trim().to_owned()).is_some() {
            return Err(config_error(format!("{} is set twice", name.trim())));
        }
    }
    Ok(pairs)
}

/// What an answer may have beside the records that `fetch.max.bytes` counts: its own frame.
const FETCH_OVERHEAD_BYTES: usize = 512;

/// Checks that a full answer to a fetch would be accepted.
///
/// # Errors
/// `Config`, naming both properties.
pub(crate) fn check_sizes(client: &ClientConfig, fetch: &FetchConfig) -> Result<()> {
    let least = fetch.fetch_max.saturating_add(FETCH_OVERHEAD_BYTES);
    if client.receive_message_max < least {
        return Err(config_error(format!(
            "receive.message.max.bytes ({}) must be at least fetch.max.bytes ({}) + {FETCH_OVERHEAD_BYTES}",
            client.receive_message_max, fetch.fetch_max
        )));
    }
    Ok(())
}

fn config_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

fn illegal(name: &str, text: &dyn fmt::Display, why: &str) -> Error {
    config_error(format!("{name}={text} is illegal: {why}"))
}

/// The error for a name nobody knows, with the nearest known name.
fn unknown(name: &str) -> Error {
    /// How many edits a misspelt name may be away from the one that is suggested.
    const EDITS_MAX: usize = 5;
    if let Some(reason) = unsupported::reason(name) {
        return config_error(format!("there is no property {name} here: {reason}"));
    }
    let sections = [Section::Client, Section::Producer, Section::Fetch, Section::Work];
    let nearest = sections
        .into_iter()
        .flat_map(properties)
        .map(|property| (edit_distance(name, property.name), property.name))
        .min();
    match nearest {
        Some((edits, near)) if edits <= EDITS_MAX => {
            config_error(format!("there is no property {name}; did you mean {near}?"))
        }
        _ => config_error(format!("there is no property {name}")),
    }
}

/// Levenshtein's distance.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, a) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn properties_are_read_by_their_java_names() {
        let all = AllConfig::from_properties([
            ("bootstrap.servers", "a:1, b:2"),
            ("linger.ms", "20"),
            ("compression.type", "zstd"),
            ("acks", "-1"),
            ("isolation.level", "read_committed"),
        ])
        .expect("legal");
        assert_eq!(all.client.bootstrap_servers, ["a:1", "b:2"]);
        assert_eq!(all.producer.linger, Duration::from_millis(20));
        assert_eq!(all.producer.acks, Acks::All);
        assert_eq!(all.fetch.isolation_level, IsolationLevel::ReadCommitted);
    }

    #[test]
    fn a_misspelt_name_gets_a_suggestion() {
        let error = AllConfig::from_properties([("linger.sm", "5")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(error.to_string(), "there is no property linger.sm; did you mean linger.ms?");
        let error = AllConfig::from_properties([("utterly.unlike.anything", "5")]).unwrap_err();
        assert_eq!(error.to_string(), "there is no property utterly.unlike.anything");
    }

    #[test]
    fn a_property_of_java_that_is_not_here_gets_the_reason() {
        for (name, word) in [("retries", "delivery.timeout.ms"), ("ssl.key.password", "TLS")] {
            let error = AllConfig::from_properties([(name, "5")]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(word), "{error}");
        }
        let here = [Section::Client, Section::Producer, Section::Fetch, Section::Work];
        for property in here.into_iter().flat_map(properties) {
            assert_eq!(unsupported::reason(property.name), None, "{} is here", property.name);
        }
    }

    /// Every name that Kafka's own producer knows is known here, or why it is not.
    #[cfg(feature = "real-servers")]
    #[test]
    fn every_property_of_javas_producer_is_known_or_explained() {
        let output = std::process::Command::new("java")
            .arg("-cp")
            .arg(format!("{}/*", std::env::var("OTTLA_KAFKA_LIB").expect("the servers' env")))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/ProducerProperties.java"))
            .output()
            .expect("java");
        let names = String::from_utf8(output.stdout).expect("text");
        assert!(names.lines().count() > 50, "{}", String::from_utf8_lossy(&output.stderr));
        for name in names.lines() {
            let known = properties(Section::Client)
                .into_iter()
                .chain(properties(Section::Producer))
                .any(|property| property.name == name);
            assert!(known || unsupported::reason(name).is_some(), "{name}");
        }
    }

    #[test]
    fn values_out_of_range_and_nonsense_are_refused_with_the_reason() {
        for (name, text, word) in [
            ("linger.ms", "-1", "number of milliseconds"),
            ("linger.ms", "5ms", "number of milliseconds"),
            ("max.in.flight.requests.per.connection", "0", "at least 1"),
            ("acks", "2", "all"),
            ("enable.idempotence", "yes", "true"),
            ("compression.type", "rar", "zstd"),
        ] {
            let error = AllConfig::from_properties([(name, text)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(word), "{error}");
        }
    }

    #[test]
    fn every_default_is_in_its_range_and_reads_back() {
        for section in [Section::Client, Section::Producer, Section::Fetch, Section::Work] {
            for property in properties(section) {
                if property.default.is_empty() {
                    continue;
                }
                let pair = [(property.name, property.default.as_str())];
                AllConfig::from_properties(pair).expect(property.name);
            }
        }
    }

    #[test]
    fn property_files_keep_the_value_after_the_first_equals_sign() {
        let pairs = parse_properties("# c\n! c\n\n a.b = x=y;\"z \nc=\n").expect("legal");
        assert_eq!(pairs["a.b"], "x=y;\"z");
        assert_eq!(pairs["c"], "");
        assert!(parse_properties("nonsense").is_err());
        assert!(parse_properties("a=1\na=2").is_err());
    }
}
