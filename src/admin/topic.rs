//! [`Topic`]: what is to be created. Checked here, by the rules of Kafka's
//! `org.apache.kafka.common.internals.Topic`, before anything is sent: a broker's answer to a slip
//! is less clear than ours, and for a name that occurs twice it refuses both without a reason.

use std::collections::HashMap;

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::messages::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};

/// The longest name: with the suffix of a partition it must fit a file name.
const NAME_BYTES_MAX: usize = 249;

/// "As the broker is configured", on the wire.
const BROKER_DEFAULT: i32 = -1;

/// A topic to create.
///
/// Partitions and replicas default to the broker's own settings, which needs Kafka 2.4.
///
/// ```
/// use ottla::admin::Topic;
///
/// let topic = Topic::new("orders").partitions(6).replication(3).config("retention.ms", "3600000");
/// assert_eq!(topic.name(), "orders");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    name: String,
    partitions: i32,
    replication: i32,
    assignment: Vec<Vec<i32>>,
    configs: Vec<(String, String)>,
}

impl Topic {
    /// A topic called `name`, with the broker's own counts.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partitions: BROKER_DEFAULT,
            replication: BROKER_DEFAULT,
            assignment: Vec::new(),
            configs: Vec::new(),
        }
    }

    /// How many partitions; -1, the default, leaves it to the broker.
    #[must_use]
    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = count;
        self
    }

    /// How many replicas of each partition; -1, the default, leaves it to the broker.
    #[must_use]
    pub fn replication(mut self, count: i32) -> Self {
        self.replication = count;
        self
    }

    /// Places the replicas by hand: one list of broker ids per partition, the preferred leader
    /// first. Takes the place of both counts.
    #[must_use]
    pub fn assignment<P, B>(mut self, partitions: P) -> Self
    where
        P: IntoIterator<Item = B>,
        B: IntoIterator<Item = i32>,
    {
        self.assignment = partitions.into_iter().map(|ids| ids.into_iter().collect()).collect();
        self
    }

    /// Sets a property of the topic, such as `cleanup.policy`.
    #[must_use]
    pub fn config(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.configs.push((name.into(), value.into()));
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many partitions it will have, if that is not left to the broker.
    pub(super) fn expected_partitions(&self) -> Option<usize> {
        match self.assignment.len() {
            0 => usize::try_from(self.partitions).ok(),
            count => Some(count),
        }
    }

    /// Whether a count is left to the broker.
    pub(super) fn uses_broker_default(&self) -> bool {
        self.assignment.is_empty()
            && (self.partitions == BROKER_DEFAULT || self.replication == BROKER_DEFAULT)
    }

    /// Refuses what a broker would refuse, with the reason.
    ///
    /// # Errors
    /// `InvalidInput`.
    pub(super) fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        let refuse = |why: String| Err(refused(&self.name, why));
        if self.assignment.is_empty() {
            if self.partitions < 1 && self.partitions != BROKER_DEFAULT {
                return refuse(format!(
                    "a topic has one partition at least, not {}",
                    self.partitions
                ));
            }
            let replicas = i16::try_from(self.replication);
            if replicas.is_err() || (self.replication < 1 && self.replication != BROKER_DEFAULT) {
                return refuse(format!("{} replicas are not possible", self.replication));
            }
        } else {
            if self.partitions != BROKER_DEFAULT || self.replication != BROKER_DEFAULT {
                return refuse("counts cannot be set beside an assignment".to_owned());
            }
            if let Some(partition) = self.assignment.iter().position(Vec::is_empty) {
                return refuse(format!("partition {partition} is assigned to no broker"));
            }
        }
        Ok(())
    }

    /// The entry of a request.
    pub(super) fn entry(&self) -> CreatableTopic {
        let assignment = |(index, ids): (usize, &Vec<i32>)| CreatableReplicaAssignment {
            partition_index: index as i32,
            broker_ids: ids.clone(),
            ..Default::default()
        };
        let config = |(name, value): &(String, String)| CreatableTopicConfig {
            name: name.clone(),
            value: Some(value.clone()),
            ..Default::default()
        };
        CreatableTopic {
            name: self.name.clone(),
            num_partitions: self.partitions,
            replication_factor: i16::try_from(self.replication)
                .expect("the count was checked before anything is sent"),
            assignments: self.assignment.iter().enumerate().map(assignment).collect(),
            configs: self.configs.iter().map(config).collect(),
            ..Default::default()
        }
    }
}

/// Refuses an illegal name.
///
/// # Errors
/// `InvalidInput`, with the rule.
pub(super) fn check_name(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let why = if name.is_empty() {
        "the name is empty".to_owned()
    } else if name == "." || name == ".." {
        "the names '.' and '..' are reserved".to_owned()
    } else if name.len() > NAME_BYTES_MAX {
        format!("the name has {} characters, more than {NAME_BYTES_MAX}", name.len())
    } else if let Some(illegal) = name.chars().find(|c| !legal(*c)) {
        format!("the name contains {illegal:?}; letters, digits, '.', '_' and '-' are allowed")
    } else {
        return Ok(());
    };
    Err(refused(name, why))
}

/// For each name, the refusal if it occurs more than once.
pub(super) fn duplicates<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<Option<Error>> {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for name in names.clone() {
        *counts.entry(name).or_default() += 1;
    }
    let twice = |name: &str| counts.get(name).is_some_and(|count| *count > 1);
    names
        .map(|name| twice(name).then(|| refused(name, "the name occurs more than once".to_owned())))
        .collect()
}

fn refused(topic: &str, why: String) -> Error {
    Error::new(ErrorKind::InvalidInput, why).with_topic(topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    // KAFKA-2945.
    #[test]
    fn illegal_names_are_refused_with_the_reason() {
        for (name, reason) in [
            ("", "empty"),
            (".", "reserved"),
            ("..", "reserved"),
            ("a b", "contains ' '"),
            ("ä", "contains 'ä'"),
            (&"x".repeat(250), "250 characters"),
        ] {
            let error = Topic::new(name).check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(reason), "{error}");
        }
        for name in ["a", "a.b", "a_b", "A-9", &"x".repeat(249)] {
            Topic::new(name).check().expect(name);
        }
    }

    // kafka-python#1382, kafkajs#1162, KAFKA-8305.
    #[test]
    fn counts_that_cannot_be_are_refused() {
        for (partitions, replication, legal) in [
            (-1, -1, true),
            (6, 3, true),
            (0, 1, false),
            (-2, 1, false),
            (1, 0, false),
            (1, -2, false),
            (1, 40_000, false),
        ] {
            let topic = Topic::new("t").partitions(partitions).replication(replication);
            assert_eq!(topic.check().is_ok(), legal, "{partitions} {replication}");
        }
        assert!(Topic::new("t").assignment([[1, 2]]).partitions(1).check().is_err());
        assert!(Topic::new("t").assignment([vec![1], vec![]]).check().is_err());
    }

    // KAFKA-8305.
    #[test]
    fn an_assignment_goes_without_counts() {
        let topic = Topic::new("t").assignment([[1, 2], [2, 1]]);
        topic.check().expect("legal");
        assert!(!topic.uses_broker_default());
        assert_eq!(topic.expected_partitions(), Some(2));
        let entry = topic.entry();
        assert_eq!((entry.num_partitions, entry.replication_factor), (-1, -1));
        assert_eq!(entry.assignments[1].broker_ids, [2, 1]);
    }

    #[test]
    fn all_that_share_a_name_are_refused() {
        let found = duplicates(["a", "b", "a"].into_iter());
        let refused: Vec<bool> = found.iter().map(Option::is_some).collect();
        assert_eq!(refused, [true, false, true]);
    }
}
