//! A scripted Kafka cluster for tests: real sockets, brokers that answer from one shared state,
//! and a hook that can take any request out of their hands.
//!
//! Every broker answers ApiVersions, Metadata, FindCoordinator, InitProducerId, CreateTopics and
//! DeleteTopics from the [`State`], which a test may change at any time. A request of another API
//! needs a hook; without one the connection is closed. What arrived is kept in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::clock;
use crate::net::testing::{Peer, Received, ScriptedServer, all_versions};
use crate::protocol::messages::*;
use crate::protocol::{ApiKey, ErrorCode, Uuid, VersionRange};
use crate::{Client, ClientBuilder};

/// What became of a request that a hook saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hooked {
    /// The broker answers as it would without the hook.
    Pass,
    /// The hook has answered, or nobody will.
    Done,
    /// The connection is closed.
    Close,
}

type Hook = dyn Fn(i32, &Received, &mut Peer) -> Hooked + Send + Sync;

/// A topic of the cluster: leader and epoch of each partition.
#[derive(Clone, Debug)]
pub(crate) struct FakeTopic {
    pub(crate) id: Uuid,
    pub(crate) error: ErrorCode,
    pub(crate) partitions: Vec<(i32, i32)>,
}

/// What the brokers answer from.
#[derive(Default)]
pub(crate) struct State {
    /// Host and port by id, as advertised.
    pub(crate) brokers: BTreeMap<i32, (String, u16)>,
    pub(crate) topics: BTreeMap<String, FakeTopic>,
    pub(crate) controller: i32,
    /// The coordinator of every group.
    pub(crate) coordinator: i32,
    /// The versions that ApiVersions lists, where they are not all that this crate speaks; `None`
    /// leaves the API out.
    pub(crate) versions: BTreeMap<ApiKey, Option<VersionRange>>,
    topics_made: u8,
}

impl State {
    /// Adds a topic whose partitions are led by `leaders`, at epoch 1.
    pub(crate) fn add_topic(&mut self, name: &str, leaders: &[i32]) -> Uuid {
        self.topics_made += 1;
        let id = Uuid([self.topics_made; 16]);
        let partitions = leaders.iter().map(|leader| (*leader, 1)).collect();
        let topic = FakeTopic { id, error: ErrorCode::NONE, partitions };
        self.topics.insert(name.to_owned(), topic);
        id
    }

    /// Moves a partition to another leader, with the next epoch.
    pub(crate) fn move_leader(&mut self, topic: &str, partition: usize, leader: i32) {
        let entry =
            &mut self.topics.get_mut(topic).expect("a topic of the test").partitions[partition];
        *entry = (leader, entry.1 + 1);
    }

    /// What Metadata answers to `request`.
    pub(crate) fn metadata(&self, request: &MetadataRequest, version: i16) -> MetadataResponse {
        let all = || self.topics.keys().cloned().collect();
        let names: Vec<String> = match &request.topics {
            None => all(),
            Some(named) if named.is_empty() && version == 0 => all(),
            Some(named) => named.iter().filter_map(|topic| topic.name.clone()).collect(),
        };
        let broker = |(id, (host, port)): (&i32, &(String, u16))| MetadataResponseBroker {
            node_id: *id,
            host: host.clone(),
            port: i32::from(*port),
            ..Default::default()
        };
        MetadataResponse {
            brokers: self.brokers.iter().map(broker).collect(),
            cluster_id: Some("scripted".to_owned()),
            controller_id: self.controller,
            topics: names.iter().map(|name| self.topic_row(name)).collect(),
            ..Default::default()
        }
    }

    fn topic_row(&self, name: &str) -> MetadataResponseTopic {
        let mut row = MetadataResponseTopic { name: Some(name.to_owned()), ..Default::default() };
        let Some(topic) = self.topics.get(name) else {
            row.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            return row;
        };
        row.topic_id = topic.id;
        row.error_code = topic.error;
        if topic.error.is_ok() {
            let partition =
                |(index, (leader, epoch)): (usize, &(i32, i32))| MetadataResponsePartition {
                    partition_index: index as i32,
                    leader_id: *leader,
                    leader_epoch: *epoch,
                    replica_nodes: self.brokers.keys().copied().collect(),
                    isr_nodes: self.brokers.keys().copied().collect(),
                    ..Default::default()
                };
            row.partitions = topic.partitions.iter().enumerate().map(partition).collect();
        }
        row
    }

    fn api_versions(&self) -> ApiVersionsResponse {
        let mut answer = all_versions();
        answer.api_keys.retain_mut(|row| match self.versions.get(&ApiKey(row.api_key)) {
            None => true,
            Some(None) => false,
            Some(Some(range)) => {
                (row.min_version, row.max_version) = (range.min, range.max);
                true
            }
        });
        answer
    }

    fn create(&mut self, request: &CreateTopicsRequest) -> CreateTopicsResponse {
        let first = self.brokers.keys().next().copied().unwrap_or(-1);
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut row = CreatableTopicResult { name: topic.name.clone(), ..Default::default() };
            if self.topics.contains_key(&topic.name) {
                row.error_code = ErrorCode::TOPIC_ALREADY_EXISTS;
                row.error_message = Some(format!("Topic '{}' already exists.", topic.name));
            } else if !request.validate_only {
                let count = match topic.assignments.len() {
                    0 => topic.num_partitions.max(1) as usize,
                    placed => placed,
                };
                row.topic_id = self.add_topic(&topic.name, &vec![first; count]);
                row.num_partitions = count as i32;
            }
            topics.push(row);
        }
        CreateTopicsResponse { topics, ..Default::default() }
    }

    fn delete(&mut self, request: &DeleteTopicsRequest) -> DeleteTopicsResponse {
        let structs = request.topics.iter().filter_map(|topic| topic.name.clone());
        let names = request.topic_names.iter().cloned().chain(structs);
        let row = |name: String| DeletableTopicResult {
            error_code: match self.topics.remove(&name) {
                Some(_) => ErrorCode::NONE,
                None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            },
            name: Some(name),
            ..Default::default()
        };
        DeleteTopicsResponse { responses: names.map(row).collect(), ..Default::default() }
    }

    fn coordinator(
        &self,
        request: &FindCoordinatorRequest,
        version: i16,
    ) -> FindCoordinatorResponse {
        let none = (String::new(), 0);
        let (host, port) = self.brokers.get(&self.coordinator).unwrap_or(&none);
        let code = match port {
            0 => ErrorCode::COORDINATOR_NOT_AVAILABLE,
            _ => ErrorCode::NONE,
        };
        if version < 4 {
            return FindCoordinatorResponse {
                error_code: code,
                node_id: self.coordinator,
                host: host.clone(),
                port: i32::from(*port),
                ..Default::default()
            };
        }
        let row = |key: &String| Coordinator {
            key: key.clone(),
            error_code: code,
            node_id: self.coordinator,
            host: host.clone(),
            port: i32::from(*port),
            ..Default::default()
        };
        let coordinators = request.coordinator_keys.iter().map(row).collect();
        FindCoordinatorResponse { coordinators, ..Default::default() }
    }
}

/// A request that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) broker: i32,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) at: Instant,
}

struct Shared {
    state: Mutex<State>,
    seen: Mutex<Vec<Seen>>,
    hook: Mutex<Option<Arc<Hook>>>,
}

/// The cluster. Ends with the value.
pub(crate) struct FakeKafka {
    shared: Arc<Shared>,
    servers: Mutex<BTreeMap<i32, ScriptedServer>>,
}

impl FakeKafka {
    /// Starts brokers 1 to `count`; broker 1 is controller and coordinator.
    pub(crate) fn start(count: i32) -> Self {
        let state = State { controller: 1, coordinator: 1, ..Default::default() };
        let shared =
            Shared { state: Mutex::new(state), seen: Mutex::default(), hook: Mutex::default() };
        let kafka = Self { shared: Arc::new(shared), servers: Mutex::default() };
        for id in 1..=count {
            kafka.start_broker(id);
        }
        kafka
    }

    /// Starts broker `id`, at a new port if it ran before.
    pub(crate) fn start_broker(&self, id: i32) {
        let shared = Arc::clone(&self.shared);
        let server = ScriptedServer::start(move |peer| shared.play(id, peer));
        let address = server.endpoint().address;
        let advertised = (address.host().to_owned(), address.port());
        self.shared.state.lock().brokers.insert(id, advertised);
        self.servers.lock().insert(id, server);
    }

    /// Ends broker `id`: its port refuses from now on. The others still advertise it, unless
    /// `state` is changed too.
    pub(crate) fn stop_broker(&self, id: i32) {
        let server = self.servers.lock().remove(&id);
        drop(server.expect("a broker that runs"));
    }

    /// Ends all connections of broker `id`; it goes on accepting.
    pub(crate) fn drop_connections(&self, id: i32) {
        self.servers.lock()[&id].drop_connections();
    }

    /// How many connections broker `id` has accepted.
    pub(crate) fn accepted(&self, id: i32) -> usize {
        self.servers.lock()[&id].accepted()
    }

    /// What the brokers answer from, to look at or to change.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.shared.state.lock())
    }

    /// Shows every request to `hook` first, with the id of the broker; in the place of an earlier
    /// hook.
    pub(crate) fn hook(
        &self,
        hook: impl Fn(i32, &Received, &mut Peer) -> Hooked + Send + Sync + 'static,
    ) {
        *self.shared.hook.lock() = Some(Arc::new(hook));
    }

    /// The requests of `api` so far, in order.
    pub(crate) fn seen(&self, api: ApiKey) -> Vec<Seen> {
        self.shared.seen.lock().iter().filter(|seen| seen.api == api).copied().collect()
    }

    /// Every broker, as `host:port`, separated by commas.
    pub(crate) fn bootstrap(&self) -> String {
        let servers = self.servers.lock();
        let addresses = servers.values().map(|server| server.endpoint().to_string());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// A client of it, with settings that make a test quick.
    pub(crate) fn client(&self) -> Client {
        self.builder().build().expect("legal settings")
    }

    /// As [`FakeKafka::client`], to change settings.
    pub(crate) fn builder(&self) -> ClientBuilder {
        use std::time::Duration;
        Client::builder(&self.bootstrap())
            .retry_backoff(Duration::from_millis(5))
            .retry_backoff_max(Duration::from_millis(50))
            .reconnect_backoff(Duration::from_millis(5))
            .reconnect_backoff_max(Duration::from_millis(50))
    }
}

impl Drop for FakeKafka {
    fn drop(&mut self) {
        // The hook may hold what the test waits for.
        *self.shared.hook.lock() = None;
    }
}

impl Shared {
    fn play(&self, id: i32, mut peer: Peer) {
        while let Some(request) = peer.receive() {
            let (api, version) = (request.header.api, request.header.version);
            self.seen.lock().push(Seen { broker: id, api, version, at: clock::now() });
            let hook = self.hook.lock().clone();
            match hook.map_or(Hooked::Pass, |hook| hook(id, &request, &mut peer)) {
                Hooked::Pass => {}
                Hooked::Done => continue,
                Hooked::Close => return,
            }
            let mut state = self.state.lock();
            match api {
                ApiKey::API_VERSIONS => peer.answer(&request, &state.api_versions()),
                ApiKey::METADATA => {
                    let answer = state.metadata(&request.decode(), version);
                    peer.answer(&request, &answer);
                }
                ApiKey::FIND_COORDINATOR => {
                    let answer = state.coordinator(&request.decode(), version);
                    peer.answer(&request, &answer);
                }
                ApiKey::INIT_PRODUCER_ID => {
                    let answer = InitProducerIdResponse { producer_id: 1000, ..Default::default() };
                    peer.answer(&request, &answer);
                }
                ApiKey::CREATE_TOPICS => {
                    let answer = state.create(&request.decode());
                    peer.answer(&request, &answer);
                }
                ApiKey::DELETE_TOPICS => {
                    let answer = state.delete(&request.decode());
                    peer.answer(&request, &answer);
                }
                _ => return,
            }
        }
    }
}
