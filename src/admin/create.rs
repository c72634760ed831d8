//! Creating topics: the request to the controller, then the wait until they can be used.
//!
//! ```text
//! check locally -> CreateTopics -> per topic: created | exists | final error
//!                      ^                     | may pass (41, 89, ...): again, after a pause
//!                      +---------------------+
//!               -> Metadata until every partition has a leader (also after code 7: it may still
//!                  be created)
//! ```

use super::handle::{Admin, is_absent};
use super::items::{Items, recovery};
use super::topic::{Topic, duplicates};
use crate::clock::Deadline;
use crate::cluster::{Metadata, Target, is_unknown_topic, may_pass};
use crate::error::{Error, ErrorKind, Recovery, Result};
use crate::protocol::messages::{CreatableTopicResult, CreateTopicsRequest};
use crate::protocol::{ErrorCode, Message, Uuid};

/// From this version of CreateTopics on a count of -1 means the broker's default (KIP-464).
const BROKER_DEFAULTS_FROM: i16 = 4;

/// What became of one topic of [`Admin::create_topics`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TopicCreation {
    /// The topic's name.
    pub name: String,
    /// The topic, or why it is not there or not usable yet; with the broker's own words.
    pub result: Result<CreatedTopic>,
}

/// A topic that was created, or found with [`Admin::if_not_exists`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreatedTopic {
    /// Its id, from Kafka 2.8 on; `None` for one that was only checked.
    pub id: Option<Uuid>,
    /// How many partitions it has, where the broker tells (from 2.4 on).
    pub partitions: Option<i32>,
    /// How many replicas each has, where the broker tells (from 2.4 on).
    pub replication: Option<i32>,
    /// Whether it existed before.
    pub existed: bool,
}

impl Admin {
    /// Creates topics. One result per topic, in order.
    ///
    /// Names that are illegal or occur twice and counts that cannot be are refused before anything
    /// is sent; the other topics are created all the same. Blocks until the topics can be used,
    /// unless [`Admin::without_waiting`] or [`Admin::validate_only`] was called: at most for the
    /// time-out.
    ///
    /// # Errors
    /// What kept the cluster from being asked at all. An error in a result is marked
    /// [`possibly_persisted`](Error::possibly_persisted) when the topic may have been created, or
    /// still may be.
    pub fn create_topics(
        &self,
        topics: impl IntoIterator<Item = Topic>,
    ) -> Result<Vec<TopicCreation>> {
        let deadline = self.deadline();
        let topics: Vec<Topic> = topics.into_iter().collect();
        let twice = duplicates(topics.iter().map(Topic::name));
        let rows = topics
            .iter()
            .zip(twice)
            .map(|(topic, twice)| (topic.name().to_owned(), topic.check().err().or(twice)));
        let mut items = Items::new(rows);
        let asked = self.cluster().retry_by(
            "create topics",
            deadline,
            |_| self.create_attempt(&topics, &mut items, deadline),
            recovery,
        );
        if let Err(error) = asked {
            if !items.any_word() {
                return Err(error.maybe_persisted(items.lost_answer()));
            }
            items.give_up(&error);
        }
        if self.wait && !self.validate_only {
            self.wait_until_usable(&topics, &mut items, deadline);
        }
        let creation = |(name, result)| TopicCreation { name, result };
        Ok(items.into_results().map(creation).collect())
    }

    fn create_attempt(
        &self,
        topics: &[Topic],
        items: &mut Items<CreatedTopic>,
        deadline: Deadline,
    ) -> Result<()> {
        let open: Vec<&Topic> =
            items.open().into_iter().filter_map(|index| topics.get(index)).collect();
        if open.is_empty() {
            return Ok(());
        }
        let answer = self.cluster().attempt::<CreateTopicsRequest, _>(
            Target::Controller,
            CreateTopicsRequest::VERSIONS,
            deadline,
            |version| {
                if version < BROKER_DEFAULTS_FROM
                    && let Some(topic) = open.iter().find(|topic| topic.uses_broker_default())
                {
                    return Err(no_defaults(topic.name(), version));
                }
                Ok(CreateTopicsRequest {
                    topics: open.iter().map(|topic| topic.entry()).collect(),
                    timeout_ms: self.broker_time_ms(deadline),
                    validate_only: self.validate_only,
                    ..Default::default()
                })
            },
        );
        let answer = answer.inspect_err(|error| items.attempt_failed(error))?;
        for row in &answer.response.topics {
            self.take(row, items, deadline);
        }
        match items.reason() {
            Some(error) => Err(error.with_broker(&answer.endpoint)),
            None => Ok(()),
        }
    }

    /// Takes in what an answer says of one topic.
    fn take(
        &self,
        row: &CreatableTopicResult,
        items: &mut Items<CreatedTopic>,
        deadline: Deadline,
    ) {
        let name = row.name.as_str();
        let error = || Error::from_code(row.error_code, row.error_message.as_deref());
        match row.error_code {
            ErrorCode::NONE => items.settle(name, Ok(created(row))),
            // Created perhaps, perhaps later. With a wait, Metadata shows it.
            ErrorCode::REQUEST_TIMED_OUT => items.settle(name, Err(error().maybe_persisted(true))),
            ErrorCode::TOPIC_ALREADY_EXISTS if self.is_being_deleted(name, deadline) => {
                items.postpone(name, error());
            }
            ErrorCode::TOPIC_ALREADY_EXISTS if self.if_not_exists => {
                items.settle(name, Ok(CreatedTopic { existed: true, ..created(row) }));
            }
            ErrorCode::TOPIC_ALREADY_EXISTS => {
                // It may be the fruit of an attempt of ours whose answer was lost.
                let lost_answer = items.lost_answer();
                items.settle(name, Err(error().maybe_persisted(lost_answer)));
            }
            _ if recovery(&error()) == Recovery::Fail => items.settle(name, Err(error())),
            _ => items.postpone(name, error()),
        }
    }

    /// The controller says that the topic exists while a broker does not know it: it is being
    /// deleted (or was created a moment ago, which the next look shows).
    fn is_being_deleted(&self, topic: &str, deadline: Deadline) -> bool {
        match self.look_at(&[topic.to_owned()], deadline) {
            Ok(seen) => is_absent(&seen, topic),
            Err(error) => {
                log::debug!("whether {topic} is being deleted is not known: {error}");
                false
            }
        }
    }

    /// Waits until what was created, or may have been, can be used.
    fn wait_until_usable(
        &self,
        topics: &[Topic],
        items: &mut Items<CreatedTopic>,
        deadline: Deadline,
    ) {
        let mut accepted: Vec<Option<Result<CreatedTopic>>> = vec![None; topics.len()];
        items.revise(|index, result| {
            let waits = match &result {
                Ok(_) => true,
                Err(error) => error.broker_code() == Some(ErrorCode::REQUEST_TIMED_OUT),
            };
            match accepted.get_mut(index) {
                Some(slot) if waits => {
                    *slot = Some(result);
                    None
                }
                _ => Some(result),
            }
        });
        let waited = self.cluster().retry("wait for topics", deadline, |_| {
            let open = items.open();
            if open.is_empty() {
                return Ok(());
            }
            let seen = self.look_at(&items.open_names(), deadline)?;
            for (index, topic) in open.into_iter().filter_map(|i| Some((i, topics.get(i)?))) {
                let known = accepted.get(index).and_then(Option::as_ref);
                match usable(topic, known, &seen) {
                    Ok(Some(usable)) => items.settle(topic.name(), Ok(usable)),
                    Ok(None) => items.postpone(topic.name(), not_usable_yet()),
                    Err(error) => items.settle(topic.name(), Err(error.maybe_persisted(true))),
                }
            }
            items.reason().map_or(Ok(()), Err)
        });
        if let Err(error) = waited {
            items.give_up(&error);
            items.revise(|index, result| {
                let waited = accepted.get(index).is_some_and(Option::is_some);
                let timed_out = accepted.get(index).and_then(Option::as_ref);
                Some(match (result, timed_out) {
                    // The controller's own word stands: it did not finish in time.
                    (Err(_), Some(Err(error))) => Err(error.clone()),
                    (result, _) if waited => result.map_err(|error| error.maybe_persisted(true)),
                    (result, _) => result,
                })
            });
        }
    }
}

/// The topic as `seen`, once it can be used; what the controller said of it is kept.
///
/// # Errors
/// What Metadata says of it, when that is final.
fn usable(
    topic: &Topic,
    accepted: Option<&Result<CreatedTopic>>,
    seen: &Metadata,
) -> Result<Option<CreatedTopic>> {
    let Some(info) = seen.topic(topic.name()) else {
        return match seen.failures.get(topic.name()) {
            Some(code) if !may_pass(*code) && !is_unknown_topic(*code) => {
                Err(Error::from_code(*code, None))
            }
            _ => Ok(None),
        };
    };
    let accepted = accepted.and_then(|accepted| accepted.as_ref().ok());
    let existed = accepted.is_some_and(|accepted| accepted.existed);
    let expected = topic.expected_partitions().filter(|_| !existed);
    let complete = match expected {
        Some(count) => info.partitions.len() == count,
        None => !info.partitions.is_empty(),
    };
    let of_old = match (accepted.and_then(|accepted| accepted.id), info.id) {
        (Some(new), Some(seen)) => new != seen,
        _ => false,
    };
    if of_old || !complete || info.partitions.iter().any(|partition| partition.leader.is_none()) {
        return Ok(None);
    }
    let replicas = info.partitions.first().map(|partition| partition.replicas.len() as i32);
    Ok(Some(CreatedTopic {
        id: info.id,
        partitions: Some(info.partitions.len() as i32),
        replication: replicas,
        existed,
    }))
}

fn created(row: &CreatableTopicResult) -> CreatedTopic {
    CreatedTopic {
        id: Some(row.topic_id).filter(|id| !id.is_zero()),
        partitions: Some(row.num_partitions).filter(|count| *count > 0),
        replication: Some(i32::from(row.replication_factor)).filter(|count| *count > 0),
        existed: false,
    }
}

fn not_usable_yet() -> Error {
    Error::new(
        ErrorKind::NoLeader,
        "the topic was accepted, but not every partition has a leader yet",
    )
}

fn no_defaults(topic: &str, version: i16) -> Error {
    let message = format!(
        "the number of partitions or replicas is left to the broker, which needs CreateTopics \
         v{BROKER_DEFAULTS_FROM} (Kafka 2.4); the broker speaks v{version}"
    );
    Error::new(ErrorKind::UnsupportedVersion, message).with_topic(topic)
}
