//! [`Client`] and its builder: the door to everything else.
//!
//! A client owns the cluster handle (metadata, connections, one thread) and the defaults of what
//! is made from it. It holds no lock of its own; clones share everything.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Deadline;
use crate::cluster::{BrokerInfo, Cluster, Metadata, TopicInfo};
use crate::config::{
    AllConfig, ClientConfig, FetchConfig, ProducerConfig, WorkConfig, check_sizes,
};
use crate::error::Result;

/// A Kafka cluster as a program uses it: metadata, connection pools, settings.
///
/// Cloning is cheap and shares everything; all methods may be called from any thread. Calls block,
/// at most for `default.api.timeout.ms` where they take no time-out of their own, with all their
/// retries; [`Client::close`] from another thread wakes them. Producers, nodes and the like that
/// were made from a client keep what it shares alive.
///
/// A client never lets a broker create a topic by looking it up: topics are made by
/// [`Client::admin`](crate::admin). (Brokers before 0.11 cannot be told so.)
///
/// Dropping the last clone, and everything made from it, closes it and waits for its thread for at
/// most two seconds.
///
/// ```no_run
/// use ottla::Client;
///
/// let client = Client::builder("kafka1:9092,kafka2:9092").build()?;
/// for broker in client.brokers()? {
///     println!("{} at {}:{}", broker.id, broker.host, broker.port);
/// }
/// # Ok::<(), ottla::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cluster: Arc<Cluster>,
    producer: ProducerConfig,
    fetch: FetchConfig,
    work: WorkConfig,
}

impl Client {
    /// Begins with the brokers to ask first, as `host:port`, separated by commas.
    pub fn builder(bootstrap_servers: &str) -> ClientBuilder {
        let servers = bootstrap_servers.split(',').map(str::trim).filter(|name| !name.is_empty());
        let bootstrap_servers = servers.map(str::to_owned).collect();
        ClientBuilder {
            config: ClientConfig { bootstrap_servers, ..Default::default() },
            producer: ProducerConfig::default(),
            fetch: FetchConfig::default(),
            work: WorkConfig::default(),
        }
    }

    /// Begins with properties by the names of Kafka's Java client and those of Ottla, see
    /// [`crate::config`]. Those of producers, readers and nodes become the defaults of what is made
    /// from the client.
    ///
    /// ```
    /// use ottla::{Client, ErrorKind};
    ///
    /// let builder = Client::from_properties([("bootstrap.servers", "kafka1:9092"), ("linger.ms", "20")])?;
    /// let client = builder.build()?;
    /// let error = Client::from_properties([("linger.sm", "20")]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Config);
    /// # Ok::<(), ottla::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Config` for an unknown name, with the nearest known one, and for an illegal value.
    pub fn from_properties<K, V>(
        properties: impl IntoIterator<Item = (K, V)>,
    ) -> Result<ClientBuilder>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let AllConfig { client, producer, fetch, work } = AllConfig::from_properties(properties)?;
        Ok(ClientBuilder { config: client, producer, fetch, work })
    }

    /// The live brokers, by id. The first call on a client asks the cluster; later ones answer
    /// from memory. Blocks at most `default.api.timeout.ms`.
    ///
    /// # Errors
    /// What kept every broker from answering.
    pub fn brokers(&self) -> Result<Vec<BrokerInfo>> {
        let known = self.cluster().known(self.cluster().default_deadline())?;
        Ok(known.brokers().cloned().collect())
    }

    /// A topic with its partitions and their leaders, as last seen. Blocks while it is not known:
    /// at most `default.api.timeout.ms`, and for a topic that no broker knows about five seconds.
    ///
    /// # Errors
    /// `UnknownTopic`; the broker's own code for a topic that may not be seen or has an illegal
    /// name; what kept every broker from answering.
    pub fn topic(&self, name: &str) -> Result<TopicInfo> {
        let topic = self.cluster().topic(name, self.cluster().default_deadline())?;
        Ok((*topic).clone())
    }

    /// What is known of the cluster at present: nothing before the first call that asked it.
    /// Never blocks.
    pub fn metadata(&self) -> Arc<Metadata> {
        self.cluster().metadata()
    }

    /// Asks the cluster now, whatever is known. Blocks at most `default.api.timeout.ms`.
    ///
    /// # Errors
    /// What kept every broker from answering.
    pub fn refresh(&self) -> Result<Arc<Metadata>> {
        self.cluster().refresh_now(&[], self.cluster().default_deadline())
    }

    /// Closes the client and all its clones: waiting calls end with `Closed`, and so does every
    /// later one. Blocks until its thread has ended, at most for `timeout`. Again is the same as
    /// once.
    ///
    /// # Errors
    /// `Timeout` when the thread was still busy with a request; it ends by itself.
    pub fn close(&self, timeout: Duration) -> Result<()> {
        self.cluster().close(Deadline::within(timeout))
    }

    /// What all modules share.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.shared.cluster
    }

    /// What a producer of this client starts from.
    pub(crate) fn producer_config(&self) -> &ProducerConfig {
        &self.shared.producer
    }

    /// What a reader of this client starts from.
    pub(crate) fn fetch_config(&self) -> &FetchConfig {
        &self.shared.fetch
    }

    /// What a node of this client starts from.
    pub(crate) fn work_config(&self) -> &WorkConfig {
        &self.shared.work
    }
}

/// Collects the settings of a [`Client`]. One setter per property.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    config: ClientConfig,
    producer: ProducerConfig,
    fetch: FetchConfig,
    work: WorkConfig,
}

client_properties! { config_setters ClientBuilder }

impl ClientBuilder {
    /// Makes the client: checks every setting and starts the metadata thread. It does not connect;
    /// the first call that needs the cluster does.
    ///
    /// # Errors
    /// `Config` for a setting out of range or an address that is none; `Io` when the system has no
    /// thread to give.
    pub fn build(self) -> Result<Client> {
        self.config.validate()?;
        check_sizes(&self.config, &self.fetch)?;
        let cluster = Arc::new(Cluster::new(Arc::new(self.config))?);
        let (producer, fetch, work) = (self.producer, self.fetch, self.work);
        Ok(Client { shared: Arc::new(Shared { cluster, producer, fetch, work }) })
    }
}
