//! The two clients at their work. The clock runs from just before the first send or fetch until
//! the last record is confirmed or seen; connecting and closing are outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ottla::fetch::At;
use ottla::{Client, Record};
use peers_common::{Failure, Figures, Meter, payloads};
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};

use crate::{BLOCK, PARTITIONS, SIZE};

/// Bound on each wait.
const LIMIT: Duration = Duration::from_secs(120);
/// Bound on what Ottla's client learns before the clock starts; it does not understand every cluster.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
const LINGER_MS: u64 = 5;

pub fn run(client: &str, work: &str, bootstrap: &str, n: u64) -> Result<Figures, Failure> {
    let (figures, done) = match (client, work) {
        ("rdk", "produce") => rdk_produce(bootstrap, n)?,
        ("rdk", _) => rdk_read(bootstrap, n)?,
        (_, "produce") => ott_produce(bootstrap, n)?,
        _ => ott_read(bootstrap)?,
    };
    if done != n {
        return Err(format!("{client} {work}: {done} of {n} records").into());
    }
    Ok(figures)
}

/// Blocks of records to each partition in turn.
fn partition(i: u64) -> i32 {
    let turn = i / BLOCK % u64::from(PARTITIONS.unsigned_abs());
    i32::try_from(turn).expect("below the number of partitions")
}

#[derive(Clone, Default)]
struct Deliveries {
    stored: Arc<AtomicU64>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.stored.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn rdk_produce(bootstrap: &str, n: u64) -> Result<(Figures, u64), Failure> {
    let deliveries = Deliveries::default();
    let producer: BaseProducer<Deliveries> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .set("linger.ms", LINGER_MS.to_string())
        .set("message.timeout.ms", LIMIT.as_millis().to_string())
        .create_with_context(deliveries.clone())?;
    producer.client().fetch_metadata(Some("rdk"), LIMIT)?;
    let values = payloads(SIZE);

    let meter = Meter::start();
    for (i, value) in (0..n).zip(values.iter().cycle()) {
        let mut record = BaseRecord::<[u8], [u8]>::to("rdk").partition(partition(i)).payload(value);
        while let Err((error, back)) = producer.send(record) {
            let KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) = error else {
                return Err(error.into());
            };
            record = back;
            producer.poll(Duration::from_millis(100));
        }
        if i % 1024 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(LIMIT)?;
    let stored = deliveries.stored.load(Ordering::Relaxed);
    Ok((meter.finish("rdk", stored)?, stored))
}

fn rdk_read(bootstrap: &str, n: u64) -> Result<(Figures, u64), Failure> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "figures")
        .set("enable.auto.commit", "false")
        // By default a partition whose queue was full is left alone for a second.
        .set("fetch.queue.backoff.ms", "1")
        .create()?;
    consumer.fetch_metadata(Some("rdk"), LIMIT)?;
    let mut partitions = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        partitions.add_partition_offset("rdk", partition, Offset::Offset(0))?;
    }

    let meter = Meter::start();
    consumer.assign(&partitions)?;
    let (mut seen, mut bytes) = (0, 0);
    while seen < n && meter.elapsed() < LIMIT {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            bytes += message?.payload().map_or(0, <[u8]>::len);
            seen += 1;
        }
    }
    let figures = meter.finish("rdk", seen)?;
    Ok((figures, (bytes / SIZE) as u64))
}

fn ott_produce(bootstrap: &str, n: u64) -> Result<(Figures, u64), Failure> {
    static STORED: AtomicU64 = AtomicU64::new(0);
    let client = Client::builder(bootstrap).default_api_timeout(KNOWN_WITHIN).build()?;
    let linger = Duration::from_millis(LINGER_MS);
    let producer =
        client.producer().linger(linger).delivery_timeout(LIMIT).max_block(KNOWN_WITHIN).build()?;
    producer.partitions("ott")?;
    let values = payloads(SIZE);

    let meter = Meter::start();
    for (i, value) in (0..n).zip(values.iter().cycle()) {
        let record = Record::to("ott").partition(partition(i)).value(value);
        producer.send_with(record, |outcome| {
            if outcome.is_ok() {
                STORED.fetch_add(1, Ordering::Relaxed);
            }
        })?;
    }
    producer.flush(LIMIT)?;
    let stored = STORED.load(Ordering::Relaxed);
    Ok((meter.finish("ott", stored)?, stored))
}

fn ott_read(bootstrap: &str) -> Result<(Figures, u64), Failure> {
    let client = Client::builder(bootstrap).default_api_timeout(KNOWN_WITHIN).build()?;
    client.topic("ott")?;

    let meter = Meter::start();
    let (mut seen, mut bytes) = (0, 0);
    for end in client.offsets("ott", At::Latest)? {
        let end = end?;
        let mut reader = client.read("ott", end.partition, 0..end.offset.unwrap_or(0))?;
        while !reader.is_finished() {
            let Some(batch) = reader.next_batch(LIMIT)? else { continue };
            for record in &batch {
                bytes += record?.value.map_or(0, <[u8]>::len);
                seen += 1;
            }
        }
    }
    let figures = meter.finish("ott", seen)?;
    Ok((figures, (bytes / SIZE) as u64))
}
