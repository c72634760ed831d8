//! [`Admin`]: the options of a call, and what needs no controller.

use std::sync::Arc;
use std::time::Duration;

use crate::Client;
use crate::clock::{self, Deadline};
use crate::cluster::{Cluster, METADATA_VERSIONS, Metadata, Target, TopicInfo, metadata_request};
use crate::cluster::{describe, is_unknown_topic};
use crate::error::Result;
use crate::protocol::messages::MetadataRequest;

/// Creates, deletes and lists topics. Made by [`Client::admin`]; cheap to clone.
///
/// Every call blocks, at most for its time-out: `default.api.timeout.ms` of the client unless
/// [`Admin::timeout`] sets another.
#[derive(Clone, Debug)]
pub struct Admin {
    pub(super) client: Client,
    pub(super) timeout: Option<Duration>,
    pub(super) if_not_exists: bool,
    pub(super) validate_only: bool,
    pub(super) wait: bool,
}

impl Client {
    /// Creates, deletes and lists topics.
    ///
    /// ```no_run
    /// use ottla::{Client, admin::Topic};
    ///
    /// let client = Client::builder("localhost:9092").build()?;
    /// let topics = [Topic::new("orders").partitions(6).replication(3)];
    /// for topic in client.admin().if_not_exists().create_topics(topics)? {
    ///     match topic.result {
    ///         Ok(created) => println!("{} has the id {:?}", topic.name, created.id),
    ///         Err(error) => println!("{}: {error}", topic.name),
    ///     }
    /// }
    /// # Ok::<(), ottla::Error>(())
    /// ```
    pub fn admin(&self) -> Admin {
        let client = self.clone();
        Admin { client, timeout: None, if_not_exists: false, validate_only: false, wait: true }
    }
}

impl Admin {
    /// The time within which a call ends. Defaults to `default.api.timeout.ms` of the client.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Takes a topic that exists already for created. Defaults to an error (36,
    /// `TOPIC_ALREADY_EXISTS`). The topic that exists may have other settings.
    #[must_use]
    pub fn if_not_exists(mut self) -> Self {
        self.if_not_exists = true;
        self
    }

    /// Has the broker check a creation without carrying it out. Defaults to carrying it out.
    #[must_use]
    pub fn validate_only(mut self) -> Self {
        self.validate_only = true;
        self
    }

    /// Returns as soon as the controller has accepted. By default a creation waits until every
    /// partition has a leader and a deletion until the topic is gone, as one broker sees it, because
    /// the controller's word takes a while to reach the brokers.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.wait = false;
        self
    }

    /// All topics that this client may see, by name, Kafka's own included. A topic that the broker
    /// cannot describe at present comes without partitions.
    ///
    /// # Errors
    /// What kept every broker from answering.
    pub fn list_topics(&self) -> Result<Vec<TopicInfo>> {
        let deadline = self.deadline();
        let mut topics = self.cluster().retry("list topics", deadline, |_| {
            let answer = self.cluster().attempt::<MetadataRequest, _>(
                Target::Any,
                METADATA_VERSIONS,
                deadline,
                |version| Ok(metadata_request(version, None)),
            )?;
            let names: Vec<Arc<str>> = answer
                .response
                .topics
                .iter()
                .filter_map(|topic| topic.name.as_deref().map(Arc::from))
                .collect();
            let seen = describe(&answer.response, answer.version, &names, clock::now())?;
            let topic = |name: &Arc<str>| match seen.topic(name) {
                Some(topic) => topic.clone(),
                None => TopicInfo {
                    name: Arc::clone(name),
                    id: None,
                    is_internal: false,
                    partitions: Vec::new(),
                },
            };
            Ok(names.iter().map(topic).collect::<Vec<_>>())
        })?;
        topics.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(topics)
    }

    pub(super) fn cluster(&self) -> &Cluster {
        self.client.cluster()
    }

    pub(super) fn deadline(&self) -> Deadline {
        let default = self.cluster().config().default_api_timeout;
        Deadline::within(self.timeout.unwrap_or(default))
    }

    /// How long the broker may take within `deadline`, in milliseconds: a little less than what
    /// this side waits, so that its answer arrives.
    pub(super) fn broker_time_ms(&self, deadline: Deadline) -> i32 {
        let left = deadline.left().min(self.cluster().config().request_timeout);
        i32::try_from(left.mul_f64(0.9).as_millis()).unwrap_or(i32::MAX)
    }

    /// What one broker says of `topics` now, asked afresh and kept by nobody: one attempt.
    pub(super) fn look_at(&self, topics: &[String], deadline: Deadline) -> Result<Arc<Metadata>> {
        let names: Vec<Arc<str>> = topics.iter().map(|name| Arc::from(name.as_str())).collect();
        let answer = self.cluster().attempt::<MetadataRequest, _>(
            Target::Any,
            METADATA_VERSIONS,
            deadline,
            |version| Ok(metadata_request(version, Some(&names))),
        )?;
        describe(&answer.response, answer.version, &names, clock::now())
    }
}

/// Whether `seen` says that there is no topic of this name.
pub(super) fn is_absent(seen: &Metadata, topic: &str) -> bool {
    seen.failures.get(topic).is_some_and(|code| is_unknown_topic(*code))
}
