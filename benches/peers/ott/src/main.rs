//! The job done by Ottla.
//!
//! Produce: one calling thread, idempotent (as it is by default), a callback per record (it counts),
//! no key, so the sticky partitioner. Consume: one thread reads the partitions one after the other,
//! each from offset 0 to its end, by batches.

use std::sync::atomic::{AtomicU64, Ordering};

use ottla::fetch::At;
use ottla::{Client, Compression, Record};
use peers_common::{Codec, Failure, Figures, Job, Meter, Mode, payloads};

fn main() -> Result<(), Failure> {
    let job = Job::from_args()?;
    let figures = match job.mode {
        Mode::Produce => produce(&job)?,
        Mode::Consume => consume(&job)?,
    };
    println!("{figures}");
    Ok(())
}

/// Records whose callback told that they are stored.
static STORED: AtomicU64 = AtomicU64::new(0);

fn produce(job: &Job) -> Result<Figures, Failure> {
    let client = Client::builder(&job.bootstrap).build()?;
    let producer = client
        .producer()
        .enable_idempotence(job.idempotent)
        .linger(job.linger)
        .compression(match job.codec {
            Codec::None => Compression::None,
            Codec::Lz4 => Compression::Lz4,
        })
        .delivery_timeout(job.limit)
        .build()?;
    producer.partitions(&job.topic)?;
    let pool = payloads(job.size);

    let meter = Meter::start();
    for (_, value) in (0..job.n).zip(pool.iter().cycle()) {
        producer.send_with(Record::to(&job.topic).value(value), |outcome| {
            if outcome.is_ok() {
                STORED.fetch_add(1, Ordering::Relaxed);
            }
        })?;
    }
    producer.flush(job.limit)?;
    let stored = STORED.load(Ordering::Relaxed);
    let figures = meter.finish("ott", stored)?;

    if stored != job.n {
        return Err(format!("{stored} of {} records were stored", job.n).into());
    }
    Ok(figures)
}

fn consume(job: &Job) -> Result<Figures, Failure> {
    let client = Client::builder(&job.bootstrap).build()?;
    client.topic(&job.topic)?;

    let meter = Meter::start();
    let mut seen = 0;
    let mut bytes = 0;
    for end in client.offsets(&job.topic, At::Latest)? {
        let end = end?;
        let mut reader = client.read(&job.topic, end.partition, 0..end.offset.unwrap_or(0))?;
        while !reader.is_finished() {
            let Some(batch) = reader.next_batch(job.limit)? else { continue };
            for record in &batch {
                bytes += record?.value.map_or(0, <[u8]>::len);
                seen += 1;
            }
        }
    }
    let figures = meter.finish("ott", seen)?;

    if seen != job.n || bytes as u64 != job.n * job.size as u64 {
        return Err(format!("{seen} of {} records were read, with {bytes} bytes", job.n).into());
    }
    Ok(figures)
}
