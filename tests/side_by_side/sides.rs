//! Two clusters, one request: real Kafka and the one in the process, asked the same over plain sockets.
//!
//! A side finds leaders and coordinators by itself, and knows the answers' parts that must differ (ids, ports, times), so
//! that a case compares what is left.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use ottla::protocol::messages::{
    DescribeGroupsRequest, DescribeTransactionsRequest, FindCoordinatorRequest, MetadataRequest,
    MetadataRequestTopic, MetadataResponse,
};
use ottla::protocol::{ErrorCode, Request};

use crate::common::wait_until;
use crate::wire::ask_at;

/// What the sides are called.
const NAMES: [&str; 2] = ["Kafka", "ours"];
/// Longest wait for one answer, and for a leader.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// What a broker answers that is not ready yet.
const LOADING: [ErrorCode; 2] =
    [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, ErrorCode::COORDINATOR_NOT_AVAILABLE];

/// Which broker a request goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To<'a> {
    /// The one with the lowest id.
    Any,
    /// The leader of partition 0.
    Leader(&'a str),
    /// A broker that does not lead partition 0.
    NotLeader(&'a str),
    /// The coordinator of a group.
    Group(&'a str),
    /// The coordinator of a transactional id.
    Transaction(&'a str),
}

/// A cluster.
#[derive(Debug)]
pub(crate) struct Side {
    /// 0 of the real one, 1 of ours.
    pub(crate) place: usize,
    name: &'static str,
    brokers: BTreeMap<i32, String>,
}

impl Side {
    /// The cluster behind `bootstrap`.
    pub(crate) fn new(place: usize, bootstrap: &str) -> Self {
        let name = NAMES[place];
        let first = bootstrap.split(',').next().expect("a broker").to_owned();
        let mut side = Self { place, name, brokers: BTreeMap::from([(-1, first)]) };
        let metadata = side.metadata(&[]);
        side.brokers = metadata
            .brokers
            .iter()
            .map(|broker| (broker.node_id, format!("{}:{}", broker.host, broker.port)))
            .collect();
        side
    }

    fn metadata(&self, topics: &[&str]) -> MetadataResponse {
        let topics = topics
            .iter()
            .map(|name| MetadataRequestTopic {
                name: Some((*name).to_owned()),
                ..Default::default()
            })
            .collect();
        let request = MetadataRequest {
            topics: Some(topics),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let address = self.brokers.values().next().expect("a broker");
        ask_at(address, 12, &request).expect("metadata")
    }

    /// The topic's metadata, once it has a leader and an id.
    pub(crate) fn topic(&self, topic: &str) -> ottla::protocol::messages::MetadataResponseTopic {
        let mut row = self.metadata(&[topic]).topics.remove(0);
        wait_until(&format!("{}: {topic} has a leader", self.name), PATIENCE, || {
            row = self.metadata(&[topic]).topics.remove(0);
            row.error_code.is_ok() && row.partitions.iter().all(|part| part.leader_id > 0)
        });
        row
    }

    fn coordinator(&self, key: &str, key_type: i8) -> i32 {
        let request =
            FindCoordinatorRequest { key: key.to_owned(), key_type, ..Default::default() };
        let address = self.brokers.values().next().expect("a broker");
        let mut node = -1;
        wait_until(&format!("{}: {key} has a coordinator", self.name), PATIENCE, || {
            let answer = ask_at(address, 3, &request).expect("an answer");
            node = answer.node_id;
            answer.error_code.is_ok() && self.is_ready(node, key, key_type)
        });
        node
    }

    /// Whether the coordinator has loaded what it keeps.
    fn is_ready(&self, node: i32, key: &str, key_type: i8) -> bool {
        let key = vec![key.to_owned()];
        let address = &self.brokers[&node];
        let code = if key_type == 0 {
            let request = DescribeGroupsRequest { groups: key, ..Default::default() };
            ask_at(address, 5, &request).expect("an answer").groups[0].error_code
        } else {
            let request =
                DescribeTransactionsRequest { transactional_ids: key, ..Default::default() };
            ask_at(address, 0, &request).expect("an answer").transaction_states[0].error_code
        };
        !matches!(code, ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)
    }

    fn broker(&self, to: To<'_>) -> i32 {
        match to {
            To::Any => *self.brokers.keys().next().expect("a broker"),
            To::Leader(topic) => self.topic(topic).partitions[0].leader_id,
            To::NotLeader(topic) => {
                let leader = self.topic(topic).partitions[0].leader_id;
                *self.brokers.keys().find(|id| **id != leader).expect("several brokers")
            }
            To::Group(group) => self.coordinator(group, 0),
            To::Transaction(id) => self.coordinator(id, 1),
        }
    }

    /// The answer, `None` when the broker closes the connection instead. Asked again, until [`PATIENCE`] ends, while the
    /// broker refuses it because it is loading: such a request changed nothing, and how long that lasts depends on the machine.
    pub(crate) fn ask<R: Request>(
        &self,
        to: To<'_>,
        version: i16,
        request: &R,
    ) -> Option<R::Response>
    where
        R::Response: Debug,
    {
        let mut last = None;
        wait_until(&format!("{}: an answer to {}", self.name, R::NAME), PATIENCE, || {
            last = ask_at(&self.brokers[&self.broker(to)], version, request);
            !last.as_ref().is_some_and(is_loading)
        });
        last
    }
}

/// Whether a broker says that it is not ready yet: a coordinator that loads, or a block of producer ids that it waits for.
/// Seen in the answer's text, since each message has its codes in other places.
fn is_loading<T: Debug>(answer: &T) -> bool {
    let text = format!("{answer:?}");
    LOADING.iter().any(|code| text.contains(&format!("{code:?}")))
}

#[expect(clippy::print_stdout, reason = "shown when the test fails, or is asked to show it")]
fn tell(what: &str) {
    println!("{what}");
}

/// The lines of two values that are not the same in both, without those that begin or end both.
fn differing<T: Debug>(real: &T, ours: &T) -> String {
    let (real, ours) = (format!("{real:#?}"), format!("{ours:#?}"));
    let (mut real, mut ours): (Vec<&str>, Vec<&str>) =
        (real.lines().collect(), ours.lines().collect());
    while real.len() > 1 && ours.len() > 1 && real.last() == ours.last() {
        real.pop();
        ours.pop();
    }
    let mut told = String::new();
    let mut add = |name: &str, line: &str| told.extend(["  ", name, " ", line, "\n"]);
    if real.len() == ours.len() {
        for (real, ours) in real.iter().zip(&ours).filter(|(real, ours)| real != ours) {
            add("Kafka", real);
            add("ours ", ours);
        }
        return told;
    }
    let begin = real.iter().zip(&ours).take_while(|(a, b)| a == b).count();
    real.iter().skip(begin).for_each(|line| add("Kafka", line));
    ours.iter().skip(begin).for_each(|line| add("ours ", line));
    told
}

/// Both clusters, and what differed.
#[derive(Debug)]
pub(crate) struct Both {
    real: Side,
    ours: Side,
    compared: usize,
    differences: Vec<String>,
}

impl Both {
    pub(crate) fn new(real: &str, ours: &str) -> Self {
        Self {
            real: Side::new(0, real),
            ours: Side::new(1, ours),
            compared: 0,
            differences: Vec::new(),
        }
    }

    /// The real one, and ours.
    pub(crate) fn sides(&self) -> [&Side; 2] {
        [&self.real, &self.ours]
    }

    /// Asks both in each of `versions`. `request` is given the side, for ids that differ; `same` makes equal what may
    /// differ. Gives the last answer of the real one.
    pub(crate) fn ask<R: Request>(
        &mut self,
        what: &str,
        to: To<'_>,
        versions: impl IntoIterator<Item = i16>,
        request: impl Fn(&Side, i16) -> R,
        same: impl Fn(&mut R::Response),
    ) -> Option<R::Response>
    where
        R::Response: Clone + PartialEq + Debug,
    {
        let mut last = None;
        for version in versions {
            [last, _] = self.ask_once(what, to, version, |side| request(side, version), &same);
        }
        last
    }

    /// Asks both once; gives the answers of both, with what may differ.
    pub(crate) fn ask_once<R: Request>(
        &mut self,
        what: &str,
        to: To<'_>,
        version: i16,
        request: impl Fn(&Side) -> R,
        same: impl Fn(&mut R::Response),
    ) -> [Option<R::Response>; 2]
    where
        R::Response: Clone + PartialEq + Debug,
    {
        tell(&format!("(asked {what}: {} v{version})", R::NAME));
        let answers = [&self.real, &self.ours].map(|side| side.ask(to, version, &request(side)));
        let [real, ours] = answers.clone().map(|mut answer| {
            if let Some(answer) = &mut answer {
                same(answer);
            }
            answer
        });
        self.compared += 1;
        if real != ours {
            let name = format!("{what}: {} v{version}", R::NAME);
            self.differences.push(format!("{name}\n{}", differing(&real, &ours)));
        }
        answers
    }

    /// # Panics
    /// When something differed.
    pub(crate) fn finish(self) {
        let count = self.differences.len();
        assert!(
            count == 0,
            "{count} of {} differ:\n{}",
            self.compared,
            self.differences.join("\n")
        );
        tell(&format!("{} answers compared", self.compared));
    }
}
