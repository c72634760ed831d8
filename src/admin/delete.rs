//! Deleting topics: the request to the controller, then the wait until they are gone.

use super::handle::{Admin, is_absent};
use super::items::{Items, recovery};
use super::topic::{check_name, duplicates};
use crate::clock::Deadline;
use crate::cluster::Target;
use crate::error::{Error, ErrorKind, Recovery, Result};
use crate::protocol::messages::{DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest};
use crate::protocol::{ErrorCode, Message};

/// From this version of DeleteTopics on topics are structs, by name or by id.
const STRUCTS_FROM: i16 = 6;

/// What became of one topic of [`Admin::delete_topics`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TopicDeletion {
    /// The topic's name.
    pub name: String,
    /// Nothing, or why it is still there; with the broker's own words.
    pub result: Result<()>,
}

impl Admin {
    /// Deletes topics with all their records. One result per topic, in order.
    ///
    /// Blocks until one broker says that the topics are gone, unless [`Admin::without_waiting`] was
    /// called: at most for the time-out.
    ///
    /// # Errors
    /// What kept the cluster from being asked at all. An error in a result is marked
    /// [`possibly_persisted`](Error::possibly_persisted) when the topic may have been deleted, or
    /// still may be.
    pub fn delete_topics<N: Into<String>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Vec<TopicDeletion>> {
        let deadline = self.deadline();
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let twice = duplicates(names.iter().map(String::as_str));
        let rows = names
            .iter()
            .zip(twice)
            .map(|(name, twice)| (name.clone(), check_name(name).err().or(twice)));
        let mut items = Items::new(rows);
        let asked = self.cluster().retry_by(
            "delete topics",
            deadline,
            |_| self.delete_attempt(&mut items, deadline),
            recovery,
        );
        if let Err(error) = asked {
            if !items.any_word() {
                return Err(error.maybe_persisted(items.lost_answer()));
            }
            items.give_up(&error);
        }
        if self.wait {
            self.wait_until_gone(&names, &mut items, deadline);
        }
        let deletion = |(name, result): (String, Result<()>)| {
            if result.is_ok() {
                self.cluster().forget_topic(&name);
            }
            TopicDeletion { name, result }
        };
        Ok(items.into_results().map(deletion).collect())
    }

    fn delete_attempt(&self, items: &mut Items<()>, deadline: Deadline) -> Result<()> {
        let names = items.open_names();
        if names.is_empty() {
            return Ok(());
        }
        let answer = self.cluster().attempt::<DeleteTopicsRequest, _>(
            Target::Controller,
            DeleteTopicsRequest::VERSIONS,
            deadline,
            |version| {
                let timeout_ms = self.broker_time_ms(deadline);
                let state = |name: &String| DeleteTopicState {
                    name: Some(name.clone()),
                    ..Default::default()
                };
                Ok(if version < STRUCTS_FROM {
                    DeleteTopicsRequest {
                        topic_names: names.clone(),
                        timeout_ms,
                        ..Default::default()
                    }
                } else {
                    let topics = names.iter().map(state).collect();
                    DeleteTopicsRequest { topics, timeout_ms, ..Default::default() }
                })
            },
        );
        let answer = answer.inspect_err(|error| items.attempt_failed(error))?;
        for row in &answer.response.responses {
            take(row, items);
        }
        match items.reason() {
            Some(error) => Err(error.with_broker(&answer.endpoint)),
            None => Ok(()),
        }
    }

    /// Waits until what was deleted, or may have been, is gone.
    fn wait_until_gone(&self, names: &[String], items: &mut Items<()>, deadline: Deadline) {
        let mut timed_out: Vec<Option<Error>> = vec![None; names.len()];
        items.revise(|index, result| match (result, timed_out.get_mut(index)) {
            (Ok(()), _) => None,
            (Err(error), Some(slot))
                if error.broker_code() == Some(ErrorCode::REQUEST_TIMED_OUT) =>
            {
                *slot = Some(error);
                None
            }
            (result, _) => Some(result),
        });
        let waited = self.cluster().retry("wait for topics to be gone", deadline, |_| {
            let open = items.open_names();
            if open.is_empty() {
                return Ok(());
            }
            let seen = self.look_at(&open, deadline)?;
            for name in &open {
                if is_absent(&seen, name) {
                    items.settle(name, Ok(()));
                } else {
                    items.postpone(name, not_gone_yet());
                }
            }
            items.reason().map_or(Ok(()), Err)
        });
        if let Err(error) = waited {
            let open = items.open();
            items.give_up(&error);
            items.revise(|index, result| {
                let own = timed_out.get_mut(index).and_then(Option::take);
                Some(match own {
                    Some(own) if result.is_err() => Err(own),
                    _ if open.contains(&index) => result.map_err(|e| e.maybe_persisted(true)),
                    _ => result,
                })
            });
        }
    }
}

/// Takes in what an answer says of one topic.
fn take(row: &DeletableTopicResult, items: &mut Items<()>) {
    let Some(name) = row.name.as_deref() else { return };
    let error = Error::from_code(row.error_code, row.error_message.as_deref());
    match row.error_code {
        ErrorCode::NONE => items.settle(name, Ok(())),
        ErrorCode::REQUEST_TIMED_OUT => items.settle(name, Err(error.maybe_persisted(true))),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => {
            // It may be the fruit of an attempt of ours whose answer was lost.
            let lost_answer = items.lost_answer();
            items.settle(name, Err(error.maybe_persisted(lost_answer)));
        }
        _ if recovery(&error) == Recovery::Fail => items.settle(name, Err(error)),
        _ => items.postpone(name, error),
    }
}

fn not_gone_yet() -> Error {
    Error::new(ErrorKind::NoLeader, "the deletion was accepted, but the topic is still there")
}
