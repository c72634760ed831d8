//! Who gets a request: any broker, the controller, a partition's leader, a group's coordinator.
//!
//! Each call here is one attempt against what is known now, so that the retry loop around it
//! decides what to do about a failure. [`Cluster::topic`] and [`Cluster::leader`] are look-ups
//! with the loop inside.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use super::handle::{Cluster, unknown_broker};
use super::links::{Answer, endpoint_of};
use super::merge::{is_unknown_topic, may_pass};
use super::metadata::{Metadata, TopicInfo};
use super::throttle::Throttled;
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Recovery, Result};
use crate::net::{Address, Endpoint};
use crate::protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use crate::protocol::{ErrorCode, Message, Request, VersionRange};

/// How long a topic or partition that no broker knows is asked for again: brokers learn of a new
/// one at different times. Then it counts as absent.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(5);

/// Who a request is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// Any broker that answers.
    Any,
    /// The controller, or any broker while none is known: KRaft brokers forward.
    Controller,
    /// The broker of this id.
    Broker(i32),
    /// The leader of a partition.
    Leader(&'a str, i32),
    /// The coordinator of a group.
    Coordinator(&'a str),
}

impl Cluster {
    /// One attempt: `build` gets the version that the broker and this client share within
    /// `versions`. Bounded by `request.timeout.ms` and `deadline`.
    ///
    /// # Errors
    /// What kept the answer from coming; error codes inside the answer are the caller's.
    pub(crate) fn call<R>(
        &self,
        target: Target<'_>,
        versions: VersionRange,
        deadline: Deadline,
        build: impl FnOnce(i16) -> Result<R>,
    ) -> Result<R::Response>
    where
        R: Request,
        R::Response: Throttled,
    {
        Ok(self.attempt::<R, R>(target, versions, deadline, build)?.response)
    }

    /// One attempt with any broker.
    pub(crate) fn call_any<R>(
        &self,
        request: &R,
        versions: VersionRange,
        deadline: Deadline,
    ) -> Result<R::Response>
    where
        R: Request,
        R::Response: Throttled,
    {
        Ok(self.attempt::<R, &R>(Target::Any, versions, deadline, |_| Ok(request))?.response)
    }

    /// One attempt, with the version and the broker of the answer.
    pub(crate) fn attempt<R, B>(
        &self,
        target: Target<'_>,
        versions: VersionRange,
        deadline: Deadline,
        build: impl FnOnce(i16) -> Result<B>,
    ) -> Result<Answer<R::Response>>
    where
        R: Request,
        R::Response: Throttled,
        B: Borrow<R>,
    {
        let endpoint = self.locate(target, deadline)?;
        let answer = self.links.exchange::<R, B>(&endpoint, versions, deadline, build);
        match (target, &answer) {
            (Target::Any, Ok(answer)) => self.links.favour(&answer.endpoint),
            (Target::Coordinator(_), Err(error)) if error.recovery() == Recovery::Reconnect => {
                self.coordinators.lock().retain(|_, known| *known != endpoint);
            }
            _ => {}
        }
        answer
    }

    /// Where `target` is, by what is known now; only a coordinator is asked for.
    fn locate(&self, target: Target<'_>, deadline: Deadline) -> Result<Endpoint> {
        match target {
            Target::Any => self.links.any(&self.metadata(), false),
            Target::Controller => {
                let metadata = self.known(deadline)?;
                match metadata.controller() {
                    Some(controller) => Ok(endpoint_of(controller)),
                    None => self.links.any(&metadata, false),
                }
            }
            Target::Broker(id) => {
                let metadata = self.known(deadline)?;
                metadata.broker(id).map(endpoint_of).ok_or_else(|| unknown_broker(id))
            }
            Target::Leader(topic, partition) => {
                let info = self.topic(topic, deadline)?;
                Ok(leader_in(&self.metadata(), &info, partition)?.0)
            }
            Target::Coordinator(group) => self.coordinator(group, deadline),
        }
    }

    /// The topic. Blocks while it is not known: until `deadline`, and when every answer says that
    /// it does not exist, for at most five seconds.
    ///
    /// # Errors
    /// `UnknownTopic`; the broker's code when it is final for this topic (an illegal name, no
    /// permission); what kept every broker from answering.
    pub(crate) fn topic(&self, topic: &str, deadline: Deadline) -> Result<Arc<TopicInfo>> {
        self.topic_while(topic, deadline, &|| true)
    }

    /// As [`topic`](Self::topic), and `Closed` once `go_on` does not hold any more: at once if somebody calls
    /// [`wake_all`](Self::wake_all) then, else after `retry.backoff.max.ms`.
    pub(crate) fn topic_while(
        &self,
        topic: &str,
        deadline: Deadline,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Arc<TopicInfo>> {
        if let Some(known) = self.cached_topic(topic) {
            return Ok(known);
        }
        let mut patience = None;
        let found = self.retry_by(
            "look up a topic",
            deadline,
            |_| {
                let metadata = self.refresher.refresh_while(&[topic], deadline, go_on)?;
                if let Some(found) = metadata.topics.get(topic) {
                    return Ok(Arc::clone(found));
                }
                let code = metadata.failures.get(topic).copied();
                let code = code.unwrap_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
                Err(Error::from_code(code, None).with_topic(topic))
            },
            |error| match error.broker_code() {
                Some(code) if is_unknown_topic(code) && is_over(&mut patience) => Recovery::Fail,
                // The next attempt asks anew, as each does.
                Some(code) if may_pass(code) => Recovery::Retry,
                _ => error.recovery(),
            },
        );
        if found.is_err() && self.cached_topic(topic).is_none() {
            self.refresher.forget(topic);
        }
        found
    }

    /// The leader of a partition and its epoch (-1 when unknown). Blocks while there is none:
    /// until `deadline`, or for at most five seconds when the topic has no such partition.
    ///
    /// # Errors
    /// `NoLeader`, `UnknownTopic`, and what [`Cluster::topic`] gives.
    pub(crate) fn leader(
        &self,
        topic: &str,
        partition: i32,
        deadline: Deadline,
    ) -> Result<(Endpoint, i32)> {
        let mut patience = None;
        self.retry_by(
            "look up a leader",
            deadline,
            |_| {
                let info = self.topic(topic, deadline)?;
                leader_in(&self.metadata(), &info, partition)
            },
            |error| match error.kind() {
                ErrorKind::UnknownTopic if is_over(&mut patience) => Recovery::Fail,
                _ => error.recovery(),
            },
        )
    }

    /// Asks anew who coordinates `group` the next time: an answer said that it is another.
    pub(crate) fn forget_coordinator(&self, group: &str) {
        self.coordinators.lock().remove(group);
    }

    /// The coordinator of a group, from the cache or asked for: one attempt.
    fn coordinator(&self, group: &str, deadline: Deadline) -> Result<Endpoint> {
        if let Some(known) = self.coordinators.lock().get(group) {
            return Ok(known.clone());
        }
        let versions = FindCoordinatorRequest::VERSIONS;
        let answer = self.attempt::<FindCoordinatorRequest, _>(
            Target::Any,
            versions,
            deadline,
            |version| {
                let key = group.to_owned();
                Ok(if version < 4 {
                    FindCoordinatorRequest { key, ..Default::default() }
                } else {
                    FindCoordinatorRequest { coordinator_keys: vec![key], ..Default::default() }
                })
            },
        )?;
        let found = found_coordinator(&answer.response, group)
            .map_err(|error| error.with_broker(&answer.endpoint))?;
        // The bound: a client works for few groups; whoever looks for more asks anew.
        let mut known = self.coordinators.lock();
        if known.len() >= COORDINATORS_MAX {
            known.clear();
        }
        known.insert(group.to_owned(), found.clone());
        Ok(found)
    }
}

/// Whether [`UNKNOWN_PATIENCE`] has passed since the first call.
fn is_over(patience: &mut Option<Deadline>) -> bool {
    let now = clock::now();
    patience.get_or_insert(Deadline::after(now, UNKNOWN_PATIENCE)).has_passed(now)
}

/// Most coordinators that are remembered.
const COORDINATORS_MAX: usize = 1000;

/// What a FindCoordinator answer says about `group`, in either of its forms.
fn found_coordinator(response: &FindCoordinatorResponse, group: &str) -> Result<Endpoint> {
    let row = response.coordinators.iter().find(|row| row.key == group);
    let (code, text, id, host, port) = match row {
        Some(row) => (row.error_code, &row.error_message, row.node_id, &row.host, row.port),
        None => (
            response.error_code,
            &response.error_message,
            response.node_id,
            &response.host,
            response.port,
        ),
    };
    if !code.is_ok() {
        return Err(Error::from_code(code, text.as_deref()));
    }
    match u16::try_from(port) {
        Ok(port @ 1..) if !host.is_empty() => {
            Ok(Endpoint { id: Some(id), address: Address::new(host.as_str(), port) })
        }
        _ => Err(Error::from_code(
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            Some("it names no address of the coordinator"),
        )),
    }
}

/// The leader of a partition by `metadata`, and its epoch.
fn leader_in(metadata: &Metadata, topic: &TopicInfo, partition: i32) -> Result<(Endpoint, i32)> {
    let Some(info) = topic.partition(partition) else {
        let count = topic.partitions.len();
        let message = format!("the topic has no such partition, only {count}");
        return Err(
            Error::new(ErrorKind::UnknownTopic, message).with_partition(&topic.name, partition)
        );
    };
    let leader = info.leader.and_then(|id| metadata.broker(id));
    let Some(leader) = leader else {
        return Err(Error::new(ErrorKind::NoLeader, "the partition has no leader at present")
            .with_partition(&topic.name, partition));
    };
    Ok((endpoint_of(leader), info.leader_epoch.unwrap_or(-1)))
}
