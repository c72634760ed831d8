//! The job done by rskafka.
//!
//! It has a client per partition and sends what the caller has batched, so here are one task per
//! partition, with one request of about half a MiB in flight each. Reading likewise: `fetch_records` in a
//! loop, which is what its stream is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;
use peers_common::{Codec, Failure, Figures, Job, Meter, Mode, PARTITIONS, payloads};
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::record::Record;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Values of a produce request, in bytes. Below the 1 MiB that a broker takes for a batch.
const BATCH_BYTES: usize = 512 << 10;
/// Bound on a fetch response, in bytes.
const FETCH_BYTES: i32 = 1 << 20;
const FETCH_WAIT_MS: i32 = 100;

fn main() -> Result<(), Failure> {
    let job = Job::from_args()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let figures = runtime
        .block_on(async { timeout(job.limit, run(&job)).await.map_err(|_| "the time is over")? })?;
    println!("{figures}");
    Ok(())
}

async fn run(job: &Job) -> Result<Figures, Failure> {
    let client = ClientBuilder::new(vec![job.bootstrap.clone()]).build().await?;
    let mut partitions = Vec::new();
    for partition in 0..PARTITIONS {
        partitions.push(
            client.partition_client(&job.topic, partition, UnknownTopicHandling::Retry).await?,
        );
    }
    match job.mode {
        Mode::Produce => produce(job, partitions).await,
        Mode::Latency => Err("rskafka has no producer of single records".into()),
        Mode::Consume => consume(job, partitions).await,
    }
}

async fn produce(job: &Job, partitions: Vec<PartitionClient>) -> Result<Figures, Failure> {
    let pool = Arc::new(payloads(job.size));
    let compression = match job.codec {
        Codec::None => Compression::NoCompression,
        Codec::Lz4 => Compression::Lz4,
        other => return Err(format!("rskafka is not built with {other}").into()),
    };

    let meter = Meter::start();
    let mut tasks = JoinSet::new();
    let count = partitions.len() as u64;
    for (i, partition) in (0..).zip(partitions) {
        let share = job.n / count + u64::from(i < job.n % count);
        tasks.spawn(fill(partition, share, pool.clone(), compression));
    }
    let mut stored = 0;
    while let Some(done) = tasks.join_next().await {
        stored += done??;
    }
    let figures = meter.finish("rsk", stored)?;

    if stored != job.n {
        return Err(format!("{stored} of {} records were stored", job.n).into());
    }
    Ok(figures)
}

/// Writes `share` records and says how many got an offset.
async fn fill(
    partition: PartitionClient,
    share: u64,
    pool: Arc<Vec<Vec<u8>>>,
    compression: Compression,
) -> Result<u64, Failure> {
    let batch = (BATCH_BYTES / pool[0].len()) as u64;
    let mut values = pool.iter().cycle();
    let mut stored = 0;
    while stored < share {
        let timestamp = Utc::now();
        let records: Vec<Record> = (0..batch.min(share - stored))
            .zip(&mut values)
            .map(|(_, value)| Record {
                key: None,
                value: Some(value.clone()),
                headers: BTreeMap::new(),
                timestamp,
            })
            .collect();
        stored += partition.produce(records, compression).await?.len() as u64;
    }
    Ok(stored)
}

async fn consume(job: &Job, partitions: Vec<PartitionClient>) -> Result<Figures, Failure> {
    let mut ends = Vec::new();
    for partition in &partitions {
        ends.push(partition.get_offset(OffsetAt::Latest).await?);
    }

    let meter = Meter::start();
    let mut tasks = JoinSet::new();
    for (partition, end) in partitions.into_iter().zip(ends) {
        tasks.spawn(drain(partition, end));
    }
    let mut seen = 0;
    let mut bytes = 0;
    while let Some(done) = tasks.join_next().await {
        let (more_seen, more_bytes) = done??;
        seen += more_seen;
        bytes += more_bytes;
    }
    let figures = meter.finish("rsk", seen)?;

    if seen != job.n || bytes != job.n * job.size as u64 {
        return Err(format!("{seen} records of {bytes} bytes instead of {}", job.n).into());
    }
    Ok(figures)
}

/// Reads from 0 to `end` and says how many records and bytes there were.
async fn drain(partition: PartitionClient, end: i64) -> Result<(u64, u64), Failure> {
    let mut offset = 0;
    let mut seen = 0;
    let mut bytes = 0;
    while offset < end {
        let (records, _) = partition.fetch_records(offset, 1..FETCH_BYTES, FETCH_WAIT_MS).await?;
        for record in &records {
            seen += 1;
            bytes += record.record.value.as_ref().map_or(0, Vec::len) as u64;
            offset = record.offset + 1;
        }
    }
    Ok((seen, bytes))
}
