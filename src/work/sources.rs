//! [`Topics`]: which topics a node reads, by name and by regular expression.
//!
//! A text that begins with `^`, which no name of a topic can, is a regular expression, as for librdkafka and kcat: it matches
//! names that it matches at their start (`$` ends it). What matches is decided anew from the names that the cluster
//! has whenever the organiser describes the topics; this module only answers for names that it is given. Internal topics
//! are not among them, and the node's own dead-letter topic never matches.
//!
//! Pure. Lives behind the lock of [`Shared`](super::shared::Shared).

use std::collections::{BTreeMap, BTreeSet};

use regex_lite::Regex;

use crate::error::{Error, ErrorKind, Result};
use crate::work::unit::TopicPartition;

/// Longest regular expression.
const PATTERN_BYTES_MAX: usize = 1_000;

/// The topics of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topics {
    names: BTreeSet<String>,
    patterns: BTreeMap<String, Regex>,
    /// Names and patterns that are paused, and names that match one.
    paused: BTreeSet<String>,
    /// What no pattern matches.
    except: Option<String>,
}

/// Whether the text stands for many topics.
pub(crate) fn is_pattern(source: &str) -> bool {
    source.starts_with('^')
}

/// Refuses what is no name of a topic.
pub(crate) fn check_topic(topic: &str) -> Result<()> {
    TopicPartition::new(topic, 0)?;
    Ok(())
}

impl Topics {
    /// Those, each a name or a pattern.
    pub(crate) fn of<T: AsRef<str>>(sources: impl IntoIterator<Item = T>) -> Result<Self> {
        let mut topics = Self::default();
        for source in sources {
            topics.add(source.as_ref())?;
        }
        Ok(topics)
    }

    /// A topic that no pattern matches.
    pub(crate) fn except(mut self, topic: Option<String>) -> Self {
        self.except = topic;
        self
    }

    /// These others, with the same exception.
    pub(crate) fn replace(&mut self, other: Self) {
        *self = other.except(self.except.take());
    }

    pub(crate) fn add(&mut self, source: &str) -> Result<()> {
        if !is_pattern(source) {
            check_topic(source)?;
            self.names.insert(source.to_owned());
            return Ok(());
        }
        let refused = || {
            let shown: String = source.chars().take(PATTERN_BYTES_MAX).collect();
            Error::new(ErrorKind::InvalidInput, format!("`{shown}` is no regular expression"))
        };
        if source.len() > PATTERN_BYTES_MAX {
            return Err(refused());
        }
        let regex = Regex::new(source).map_err(|error| refused().with_source(error))?;
        self.patterns.insert(source.to_owned(), regex);
        Ok(())
    }

    /// `false` if there is no such name or pattern.
    pub(crate) fn remove(&mut self, source: &str) -> bool {
        self.paused.remove(source);
        self.names.remove(source) || self.patterns.remove(source).is_some()
    }

    /// `false` if it is neither a name nor a pattern of this node, nor a topic that one matches.
    pub(crate) fn pause(&mut self, source: &str) -> bool {
        self.knows(source) && {
            self.paused.insert(source.to_owned());
            true
        }
    }

    /// As [`Topics::pause`].
    pub(crate) fn resume(&mut self, source: &str) -> bool {
        self.paused.remove(source);
        self.knows(source)
    }

    fn knows(&self, source: &str) -> bool {
        self.names.contains(source)
            || self.patterns.contains_key(source)
            || self.matching(source).next().is_some()
    }

    /// The patterns that a topic matches.
    fn matching(&self, topic: &str) -> impl Iterator<Item = &str> {
        let is_excepted = self.except.as_deref() == Some(topic);
        let of_topic = move |(_, regex): &(&String, &Regex)| !is_excepted && regex.is_match(topic);
        self.patterns.iter().filter(of_topic).map(|(pattern, _)| pattern.as_str())
    }

    /// Whether a topic is paused: itself, or every pattern that it is read by.
    pub(crate) fn is_paused(&self, topic: &str) -> bool {
        if self.paused.is_empty() {
            return false;
        }
        let by_patterns = || {
            let mut matching = self.matching(topic).peekable();
            matching.peek().is_some() && matching.all(|pattern| self.paused.contains(pattern))
        };
        self.paused.contains(topic) || (!self.names.contains(topic) && by_patterns())
    }

    /// Whether the cluster's topics must be known.
    pub(crate) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Every name, with those of the cluster's that match.
    pub(crate) fn read(&self, cluster: &[String]) -> BTreeSet<String> {
        let matched = cluster.iter().filter(|topic| self.matching(topic).next().is_some());
        self.names.iter().chain(matched).cloned().collect()
    }

    /// Those of [`Topics::read`] that are not paused.
    pub(crate) fn planned(&self, cluster: &[String]) -> Vec<String> {
        self.read(cluster).into_iter().filter(|topic| !self.is_paused(topic)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(sources: &[&str]) -> Topics {
        Topics::of(sources).unwrap()
    }

    fn cluster() -> Vec<String> {
        ["a", "orders-1", "orders-2", "old-orders-1", "letters"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_pattern_matches_at_the_start_of_a_name() {
        assert_eq!(topics(&["^orders-"]).planned(&cluster()), ["orders-1", "orders-2"]);
        assert_eq!(topics(&["^orders-.*", "^ord"]).planned(&cluster()), ["orders-1", "orders-2"]);
        assert_eq!(topics(&["^orders$"]).planned(&cluster()), [""; 0]);
        assert_eq!(
            topics(&["^(.*-)?orders-1$", "new"]).planned(&cluster()),
            ["new", "old-orders-1", "orders-1"]
        );
        assert_eq!(topics(&["a"]).planned(&[]), ["a"]);
        assert!(topics(&["a", "^b"]).has_patterns() && !topics(&["a"]).has_patterns());
    }

    #[test]
    fn the_excepted_topic_matches_nothing_but_its_name() {
        let except = |sources| topics(sources).except(Some("letters".to_owned()));
        assert_eq!(except(&["^l"]).planned(&cluster()), [""; 0]);
        let mut replaced = except(&["^a"]);
        replaced.replace(topics(&["^[al]"]));
        assert_eq!(replaced.planned(&cluster()), ["a"]);
    }

    #[test]
    fn what_is_neither_a_name_nor_a_pattern_is_refused() {
        let long = format!("^{}", "a".repeat(PATTERN_BYTES_MAX));
        for source in ["", "a*", "^[", "^(", "^a{2,1}", &long] {
            let error = Topics::of([source]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{source}");
        }
    }

    #[test]
    fn a_topic_is_paused_by_its_name_or_by_all_its_patterns() {
        let mut topics = topics(&["a", "^orders-", "^.*-1$"]);
        assert!(!topics.pause("unknown") && !topics.pause("^unknown"));
        assert!(topics.pause("orders-2"));
        assert_eq!(topics.planned(&cluster()), ["a", "old-orders-1", "orders-1"]);
        assert!(topics.pause("^.*-1$"));
        assert_eq!(topics.planned(&cluster()), ["a", "orders-1"]);
        assert!(topics.pause("^orders-") && topics.resume("orders-2"));
        assert_eq!(topics.planned(&cluster()), ["a"]);
        assert!(topics.is_paused("orders-1") && !topics.is_paused("letters"));
        assert!(topics.remove("^.*-1$") && topics.resume("^orders-"));
        assert_eq!(topics.planned(&cluster()), ["a", "orders-1", "orders-2"]);
        assert!(topics.remove("a") && !topics.remove("a"));
    }
}
