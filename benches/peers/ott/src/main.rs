//! The job done by Ottla.
//!
//! Produce: idempotent (as it is by default), a callback per record (it counts); without keys by the
//! sticky partitioner. Latency: a ticket, waited for. Consume: one thread reads the partitions one after the other,
//! each from offset 0 to its end, by batches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ottla::fetch::At;
use ottla::{Client, Compression, Producer, Record};
use peers_common::{Codec, Failure, Figures, Job, Meter, Mode, keys, payloads};

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

/// Records whose callback told that they are stored.
static STORED: AtomicU64 = AtomicU64::new(0);

fn producer(job: &Job) -> Result<Producer, Failure> {
    let client = Client::builder(&job.bootstrap).build()?;
    let producer = client
        .producer()
        .enable_idempotence(job.idempotent)
        .linger(job.linger)
        .compression(match job.codec {
            Codec::None => Compression::None,
            Codec::Gzip => Compression::Gzip,
            Codec::Snappy => Compression::Snappy,
            Codec::Lz4 => Compression::Lz4,
            Codec::Zstd => Compression::Zstd,
        })
        .delivery_timeout(job.limit)
        .build()?;
    producer.partitions(&job.topic)?;
    Ok(producer)
}

fn produce(job: &Job) -> Result<Figures, Failure> {
    let producer = producer(job)?;
    let (pool, keys) = (payloads(job.size), keys());

    let meter = Meter::start();
    let send = |part: u64| -> ottla::Result<()> {
        let mine = (part..job.n).step_by(job.threads);
        let values = pool.iter().cycle();
        for ((_, value), key) in mine.zip(values).zip(keys.iter().cycle()) {
            let record = Record::to(&job.topic).value(value);
            let record = if job.keys { record.key(key) } else { record };
            producer.send_with(record, |outcome| {
                if outcome.is_ok() {
                    STORED.fetch_add(1, Ordering::Relaxed);
                }
            })?;
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
    let stored = STORED.load(Ordering::Relaxed);
    let figures = meter.finish("ott", stored)?;

    if stored != job.n {
        return Err(format!("{stored} of {} records were stored", job.n).into());
    }
    Ok(figures)
}

fn latency(job: &Job) -> Result<Figures, Failure> {
    let producer = producer(job)?;
    let pool = payloads(job.size);

    let meter = Meter::start();
    let mut times = Vec::new();
    for (_, value) in (0..job.n).zip(pool.iter().cycle()) {
        let begin = meter.elapsed();
        producer.send(Record::to(&job.topic).value(value))?.wait()?;
        times.push(meter.elapsed().saturating_sub(begin));
    }
    Ok(meter.finish("ott", job.n)?.with_times(times))
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
