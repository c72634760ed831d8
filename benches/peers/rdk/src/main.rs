//! The job done by librdkafka, through crate rdkafka.
//!
//! Produce: `BaseProducer`, a delivery callback per record (it counts); without keys by librdkafka's sticky
//! partitioner. The calling threads poll in their send loops, which costs less than the
//! extra thread of `ThreadedProducer`. Consume: `BaseConsumer` with every partition assigned at offset 0.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use peers_common::{Failure, Figures, Job, Meter, Mode, PARTITIONS, keys, payloads};
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

/// Sends between two looks at the queue of delivery reports.
const SENDS_PER_POLL: u64 = 1024;

fn main() -> Result<(), Failure> {
    let job = Job::from_args()?;
    let figures = match job.mode {
        Mode::Produce => produce(&job)?,
        Mode::Latency => latency(&job)?,
        Mode::Consume => consume(&job)?,
    };
    println!("{figures}");
    Ok(())
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

/// Tells whether each record was stored.
struct Told(mpsc::Sender<bool>);

impl ClientContext for Told {}

impl ProducerContext for Told {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        // Nobody listens after a failure.
        self.0.send(result.is_ok()).ok();
    }
}

fn config(job: &Job) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &job.bootstrap)
        .set("acks", "all")
        .set("enable.idempotence", job.idempotent.to_string())
        .set("linger.ms", job.linger.as_millis().to_string())
        .set("compression.type", job.codec.to_string())
        // Ends the loop below when the broker is gone: what is not delivered by then fails.
        .set("message.timeout.ms", job.limit.as_millis().to_string());
    config
}

fn produce(job: &Job) -> Result<Figures, Failure> {
    let deliveries = Deliveries::default();
    let producer: BaseProducer<Deliveries> = config(job).create_with_context(deliveries.clone())?;
    producer.client().fetch_metadata(Some(&job.topic), Duration::from_secs(10))?;
    let (pool, keys) = (payloads(job.size), keys());

    let meter = Meter::start();
    let send = |part: u64| -> Result<(), Failure> {
        let mine = (part..job.n).step_by(job.threads);
        let values = pool.iter().cycle();
        for ((i, value), key) in mine.zip(values).zip(keys.iter().cycle()) {
            let mut record = BaseRecord::<[u8], [u8]>::to(&job.topic).payload(value);
            if job.keys {
                record = record.key(key);
            }
            while let Err((error, back)) = producer.send(record) {
                match error {
                    KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) => record = back,
                    error => return Err(error.into()),
                }
                producer.poll(Duration::from_millis(100));
            }
            if i % SENDS_PER_POLL < job.threads as u64 {
                producer.poll(Duration::ZERO);
            }
        }
        Ok(())
    };
    let send = &send;
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..job.threads as u64).map(|part| scope.spawn(move || send(part))).collect();
        send(0)?;
        others.into_iter().try_for_each(|other| other.join().expect("no panic"))
    })?;
    producer.flush(job.limit)?;
    let stored = deliveries.stored.load(Ordering::Relaxed);
    let figures = meter.finish("rdk", stored)?;

    if stored != job.n {
        return Err(format!("{stored} of {} records were stored", job.n).into());
    }
    Ok(figures)
}

/// A producer's thread that polls tells each delivery on: `poll` of the caller's own thread would always
/// sit out its time.
fn latency(job: &Job) -> Result<Figures, Failure> {
    let (told, deliveries) = mpsc::channel();
    let producer: ThreadedProducer<Told> = config(job).create_with_context(Told(told))?;
    producer.client().fetch_metadata(Some(&job.topic), Duration::from_secs(10))?;
    let pool = payloads(job.size);

    let meter = Meter::start();
    let mut times = Vec::new();
    for (_, value) in (0..job.n).zip(pool.iter().cycle()) {
        let begin = meter.elapsed();
        let record = BaseRecord::<[u8], [u8]>::to(&job.topic).payload(value);
        producer.send(record).map_err(|(error, _)| error)?;
        if !deliveries.recv_timeout(job.limit)? {
            return Err("a record was not stored".into());
        }
        times.push(meter.elapsed().saturating_sub(begin));
    }
    Ok(meter.finish("rdk", job.n)?.with_times(times))
}

fn consume(job: &Job) -> Result<Figures, Failure> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &job.bootstrap)
        .set("group.id", "peers")
        .set("enable.auto.commit", "false")
        // By default a partition whose queue was full is left alone for a second, which makes
        // librdkafka several times slower in this job without being cheaper.
        .set("fetch.queue.backoff.ms", "1")
        .create()?;
    consumer.fetch_metadata(Some(&job.topic), Duration::from_secs(10))?;
    let mut partitions = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        partitions.add_partition_offset(&job.topic, partition, Offset::Offset(0))?;
    }

    let meter = Meter::start();
    consumer.assign(&partitions)?;
    let mut seen = 0;
    let mut bytes = 0;
    while seen < job.n {
        match consumer.poll(Duration::from_millis(100)) {
            Some(message) => {
                bytes += message?.payload().map_or(0, <[u8]>::len);
                seen += 1;
            }
            None if meter.elapsed() > job.limit => {
                return Err(format!("{seen} of {} records were read in time", job.n).into());
            }
            None => {}
        }
    }
    let figures = meter.finish("rdk", seen)?;

    if bytes as u64 != job.n * job.size as u64 {
        return Err(format!("{seen} records had {bytes} bytes").into());
    }
    Ok(figures)
}
