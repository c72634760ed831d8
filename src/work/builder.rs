//! [`NodeBuilder`]: settings of a node, checked when it is started.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::config::{AutoOffsetReset, FetchConfig, IsolationLevel, WorkConfig, check_sizes};
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::ConsumerRecord;
use crate::threads::Stop;
use crate::work::crew::Crew;
use crate::work::events::EventSink;
use crate::work::handler::{Handler, HandlerResult, Sink, log_dead_letter};
use crate::work::kafka::Kafka;
use crate::work::lanes::by_key;
use crate::work::lease::Leases;
use crate::work::letters::LetterTopic;
use crate::work::memory::MemoryQueue;
use crate::work::node::{Node, threads_of};
use crate::work::organiser::Organiser;
use crate::work::pace::Pace;
use crate::work::pull::PullNode;
use crate::work::queue::{DeadUnit, QueueRules, WorkQueue, check_group};
use crate::work::records::{PortionHandler, RecordSink, by_unit_sink, in_portions};
use crate::work::remote::RemoteKafka;
use crate::work::session::Workshop;
use crate::work::shared::Shared;
use crate::work::sources::{Topics, check_topic};
use crate::work::unit_handle::Unit;

/// Where a node's queue comes from: what [`NodeBuilder::queue`] takes.
pub trait QueueSource: fmt::Debug {
    /// The queue of `group`, which works by `rules`. `prefix` begins every name in a store that
    /// others share.
    ///
    /// # Errors
    /// When it cannot be reached or is not set up as it must be.
    fn open(&self, group: &str, prefix: &str, rules: QueueRules) -> Result<Arc<dyn WorkQueue>>;
}

/// A queue that exists already; its own rules hold.
impl QueueSource for Arc<dyn WorkQueue> {
    fn open(&self, _: &str, _: &str, _: QueueRules) -> Result<Arc<dyn WorkQueue>> {
        Ok(Arc::clone(self))
    }
}

/// Clones share the queue: give one to each node of this process. Its own rules hold.
impl QueueSource for MemoryQueue {
    fn open(&self, _: &str, _: &str, _: QueueRules) -> Result<Arc<dyn WorkQueue>> {
        Ok(Arc::new(self.clone()))
    }
}

/// Collects the settings of a node. One setter per property.
///
/// ```no_run
/// use std::time::Duration;
///
/// use ottla::Client;
/// use ottla::work::Unit;
///
/// let client = Client::builder("localhost:9092").build()?;
/// let node = client.node("billing").topics(["orders"]).workers(8).run(|unit: &mut Unit| {
///     for record in unit.records()? {
///         let record = record?;
///         println!("{:?}", record.value());
///         unit.done_to(record.offset() + 1);
///     }
///     Ok(())
/// })?;
/// node.drain(Duration::from_secs(60))?;
/// node.shutdown(Duration::from_secs(20))?;
/// # Ok::<(), ottla::Error>(())
/// ```
pub struct NodeBuilder {
    client: Client,
    group: String,
    config: WorkConfig,
    fetch: FetchConfig,
    topics: BTreeSet<String>,
    queue: Option<Box<dyn QueueSource>>,
    sink: Option<Arc<Sink>>,
    letter_topic: Option<String>,
}

work_properties! { config_setters NodeBuilder }
fetch_properties! { config_setters NodeBuilder as fetch }

impl Client {
    /// Begins a node of `group`: processes that share the work of its topics. Settings are those
    /// given to [`from_properties`](Client::from_properties), or the defaults.
    pub fn node(&self, group: &str) -> NodeBuilder {
        NodeBuilder {
            group: group.to_owned(),
            config: self.work_config().clone(),
            fetch: self.fetch_config().clone(),
            client: self.clone(),
            topics: BTreeSet::new(),
            queue: None,
            sink: None,
            letter_topic: None,
        }
    }
}

impl NodeBuilder {
    /// The topics to read; adds to those named before.
    ///
    /// One that begins with `^` is a regular expression, as for librdkafka: it matches every topic that it matches at
    /// the start of the name (`$` ends it). The organiser takes new topics that match up within two seconds
    /// or `planning.interval.ms`, whichever is longer. Kafka's internal topics never match, nor does the dead-letter
    /// topic. The syntax is that of the crate `regex-lite`: no look-around, linear in time.
    #[must_use]
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics.extend(topics.into_iter().map(Into::into));
        self
    }

    /// Where the units are kept. Left out: in this process's memory, for this node alone.
    #[must_use]
    pub fn queue(mut self, source: impl QueueSource + 'static) -> Self {
        self.queue = Some(Box::new(source));
        self
    }

    /// Takes units that failed `max.attempts` times. It must store what it needs outside of the
    /// queue before it returns `Ok`; on an error or a panic it is called again later, and the group's
    /// offset stays below the unit. It may be called twice for one unit. The range can be read again
    /// with [`Client::read`].
    ///
    /// Defaults to a line in the log. The queue keeps a list of errors for people in any case.
    #[must_use]
    pub fn dead_letter(
        mut self,
        sink: impl Fn(&DeadUnit) -> HandlerResult + Send + Sync + 'static,
    ) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Stores what failed `max.attempts` times in `topic`: the record with its key, value, headers and
    /// time, and headers that say why, each as text: `ottla.topic`, `ottla.partition`, `ottla.offset`,
    /// `ottla.error`, `ottla.attempts`, `ottla.group`, `ottla.unit`.
    ///
    /// [`NodeBuilder::run_records`] and [`NodeBuilder::run_batches`] store the one bad record and go on
    /// after it. A unit that fails as a whole ([`NodeBuilder::run`], or a worker that dies of it) is
    /// stored record by record, unless [`NodeBuilder::dead_letter`] is given too: that takes units
    /// then. What cannot be read any more becomes one letter without a value.
    ///
    /// The group's offset passes a record only after its letter is acknowledged by all replicas in
    /// sync. While the topic cannot be written the unit is given back and tried again, without end. A
    /// letter may be stored twice. The topic must exist, or brokers must make it by themselves; settings
    /// of the producer are the client's, with `acks=all`.
    #[must_use]
    pub fn dead_letter_topic(mut self, topic: &str) -> Self {
        self.letter_topic = Some(topic.to_owned());
        self
    }

    /// Starts a node that hands every record to `handler`, on `workers` threads: the records of a unit
    /// one after the other, those of different units at the same time.
    ///
    /// Each record that was handled is credited. After an error or a panic the unit is tried again from
    /// that record on, later. When that record begins the unit and `max.attempts` are used up, it goes
    /// to the dead-letter topic or sink (a unit of one offset to it), and the unit goes on after it: a
    /// bad record inside of a unit is tried once more than that.
    ///
    /// With `key.threads` above 1 the records of a unit are shared by so many threads of each worker:
    /// those of one key are handled one after the other and in their order, others at the same time.
    /// After a failure what came after the record is tried again too, although some of it was handled.
    ///
    /// A shutdown waits for the records that
    /// are being handled, not for the rest of their units.
    ///
    /// # Errors
    /// As [`NodeBuilder::run`].
    pub fn run_records(
        self,
        handler: impl Fn(&ConsumerRecord) -> HandlerResult + Send + Sync + 'static,
    ) -> Result<Node> {
        let handler = move |records: &[ConsumerRecord]| records.iter().try_for_each(&handler);
        match self.config.key_threads as usize {
            1 => self.run_portions(1, Arc::new(handler)),
            lanes => self.run_made(|sink| by_key(lanes, Arc::new(handler), sink)),
        }
    }

    /// Starts a node that hands records to `handler` by batches of at most `max.poll.records`, in order
    /// and all of one unit; else like [`NodeBuilder::run_records`]. A batch is credited as a whole. On
    /// the last attempt it has one record, so that only bad ones are given up.
    ///
    /// # Errors
    /// As [`NodeBuilder::run`].
    pub fn run_batches(
        self,
        handler: impl Fn(&[ConsumerRecord]) -> HandlerResult + Send + Sync + 'static,
    ) -> Result<Node> {
        let most = self.config.max_poll_records as usize;
        self.run_portions(most, Arc::new(handler))
    }

    fn run_portions(self, most: usize, handler: Arc<PortionHandler>) -> Result<Node> {
        self.run_made(|sink| in_portions(most, handler, sink))
    }

    fn run_made(self, make: impl FnOnce(Arc<RecordSink>) -> Arc<Handler>) -> Result<Node> {
        let workers = self.config.workers as usize;
        let threads = threads_of(&self.config, workers);
        let crew = self.crew(threads)?;
        let handler = make(Arc::clone(&crew.shop.record_sink));
        Node::start(crew, workers, &handler)
    }

    /// Starts a node that hands every unit to `handler`, on `workers` threads.
    ///
    /// The handler is called by all of them at the same time. A unit is acknowledged after it
    /// returned `Ok`; after an error or a panic the unit is tried again, see [`Unit::done_to`].
    ///
    /// # Errors
    /// `Config` and `InvalidInput` for illegal settings, group and topic names; `Queue` when the queue
    /// cannot be reached; `Io` when the system has no thread to give. Kafka is not asked: the node
    /// waits for it.
    pub fn run(
        self,
        handler: impl Fn(&mut Unit) -> HandlerResult + Send + Sync + 'static,
    ) -> Result<Node> {
        let workers = self.config.workers as usize;
        let handler: Arc<Handler> = Arc::new(handler);
        let threads = threads_of(&self.config, workers);
        Node::start(self.crew(threads)?, workers, &handler)
    }

    /// Starts a node that is asked for one record after the other. `workers` means nothing to it:
    /// make more of them for more threads.
    ///
    /// # Errors
    /// As [`NodeBuilder::run`].
    pub fn pull(self) -> Result<PullNode> {
        Ok(PullNode::start(self.crew(1)?))
    }

    /// Makes the organiser alone, without workers. It is a candidate like that of any node.
    ///
    /// # Errors
    /// As [`NodeBuilder::run`].
    pub fn organiser(self) -> Result<Organiser> {
        let request_timeout = self.client.cluster().config().request_timeout;
        Ok(Organiser::new(self.workshop()?, request_timeout))
    }

    fn crew(self, workers: usize) -> Result<Crew> {
        let request_timeout = self.client.cluster().config().request_timeout;
        Crew::start(self.workshop()?, workers, request_timeout)
    }

    /// Checks everything and makes what the threads share.
    pub(crate) fn workshop(self) -> Result<Workshop> {
        self.check()?;
        let topics = Topics::of(&self.topics)?.except(self.letter_topic.clone());
        let letters = match &self.letter_topic {
            None => None,
            Some(topic) => {
                let letters = LetterTopic::open(&self.client, &self.fetch, topic, &self.group)?;
                Some(Arc::new(letters))
            }
        };
        let kafka = RemoteKafka::new(Arc::clone(self.client.cluster()), Arc::new(self.fetch));
        let rules = rules_of(&self.config);
        let queue = match self.queue {
            Some(source) => source.open(&self.group, &self.config.queue_prefix, rules)?,
            None => Arc::new(MemoryQueue::new(rules)),
        };
        let shared = Shared::new(self.group, self.config, EventSink::new(), topics);
        let sink = match (self.sink, &letters) {
            (Some(sink), _) => sink,
            (None, Some(letters)) => {
                let letters = Arc::clone(letters);
                Arc::new(move |dead: &DeadUnit| Ok(letters.unit(dead)?))
            }
            (None, None) => Arc::new(log_dead_letter),
        };
        let mut shop = assemble(queue, Arc::new(kafka), shared, sink);
        if let Some(letters) = letters {
            shop.record_sink =
                Arc::new(move |record, dead, stop| letters.record(record, dead, stop));
        }
        Ok(shop)
    }

    fn check(&self) -> Result<()> {
        self.config.validate()?;
        self.fetch.validate()?;
        check_sizes(self.client.cluster().config(), &self.fetch)?;
        check_group(&self.group)?;
        if self.topics.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "the node has no topics"));
        }
        if let Some(topic) = &self.letter_topic {
            check_topic(topic)?;
            if self.topics.contains(topic) {
                let message = "a node does not read its own dead letters";
                return Err(Error::new(ErrorKind::InvalidInput, message).with_topic(topic));
            }
        }
        check_together(&self.config)
    }
}

/// What the threads of a node share.
pub(crate) fn assemble(
    queue: Arc<dyn WorkQueue>,
    kafka: Arc<dyn Kafka>,
    shared: Shared,
    sink: Arc<Sink>,
) -> Workshop {
    let config = &shared.config;
    let (records, bytes) = (config.records_per_second_max, config.bytes_per_second_max);
    Workshop {
        pace: Arc::new(Pace::new(u64::from(records), bytes as u64)),
        queue,
        kafka,
        shared: Arc::new(shared),
        leases: Arc::new(Leases::default()),
        record_sink: by_unit_sink(Arc::clone(&sink)),
        sink,
        stop: Stop::new(),
        abandon: Stop::new(),
    }
}

/// The rules that a node's settings make.
pub(crate) fn rules_of(config: &WorkConfig) -> QueueRules {
    QueueRules {
        lease: config.unit_lease,
        worker_timeout: config.worker_timeout,
        leader_lock: config.organiser_lease,
        max_attempts: config.max_attempts,
        retry_backoff: config.unit_retry_backoff,
        retry_backoff_max: config.unit_retry_backoff_max,
    }
}

/// Settings that must fit each other.
fn check_together(config: &WorkConfig) -> Result<()> {
    let pairs = [
        ("unit.lease.ms", config.unit_lease, "unit.max.ms", config.unit_max),
        (
            "unit.retry.backoff.ms",
            config.unit_retry_backoff,
            "unit.retry.backoff.max.ms",
            config.unit_retry_backoff_max,
        ),
        (
            "planning.interval.ms",
            config.planning_interval,
            "organiser.lease.ms",
            config.organiser_lease,
        ),
    ];
    for (less, low, more, high) in pairs {
        if low > high {
            let message = format!(
                "{less}={} must not be more than {more}={}",
                low.as_millis(),
                high.as_millis()
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
    }
    Ok(())
}

impl fmt::Debug for NodeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBuilder")
            .field("group", &self.group)
            .field("topics", &self.topics)
            .field("config", &self.config)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
