//! The command line that every client's program understands.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Failure;

/// Partitions of every topic here.
pub const PARTITIONS: i32 = 6;

const USAGE: &str = "produce|latency|consume bootstrap=HOST:PORT topic=T n=N size=BYTES \
                     codec=none|gzip|snappy|lz4|zstd [idempotent=0|1] [keys=0|1] [threads=N] \
                     [linger=MS] [limit=SECONDS]";

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Write `n` records and see each confirmed.
    Produce,
    /// Write `n` records, each when the one before is confirmed.
    Latency,
    /// Read `n` records that are there already, from the start of every partition.
    Consume,
}

/// How batches are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Codec {
    /// Not at all.
    None,
    /// Deflate, in gzip's frame.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// One run of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What to do.
    pub mode: Mode,
    /// `host:port` of a broker.
    pub bootstrap: String,
    /// A topic of [`PARTITIONS`] partitions.
    pub topic: String,
    /// Records to write or read.
    pub n: u64,
    /// Bytes of each value; there are no headers.
    pub size: usize,
    /// For a consumer only a label: what it reads says so itself.
    pub codec: Codec,
    /// Whether to produce with sequence numbers. Defaults to no.
    pub idempotent: bool,
    /// Whether each record has one of [`KEYS`](crate::KEYS) keys. Defaults to no.
    pub keys: bool,
    /// Threads that send, each its part. Defaults to 1.
    pub threads: usize,
    /// How long an open batch waits for more. Defaults to 5 ms.
    pub linger: Duration,
    /// Bound on the run. Defaults to 120 s.
    pub limit: Duration,
}

impl Job {
    /// Reads the arguments of this process.
    pub fn from_args() -> Result<Job, Failure> {
        Job::parse(std::env::args().skip(1)).map_err(|e| format!("{e}\nusage: {USAGE}").into())
    }

    fn parse(args: impl Iterator<Item = String>) -> Result<Job, Failure> {
        let (mut mode, mut bootstrap, mut topic, mut n, mut size) = (None, None, None, None, None);
        let mut codec = Codec::None;
        let mut idempotent = false;
        let mut keys = false;
        let mut threads = 1;
        let mut linger = Duration::from_millis(5);
        let mut limit = Duration::from_secs(120);
        for arg in args {
            let Some((name, value)) = arg.split_once('=') else {
                mode = Some(arg.parse()?);
                continue;
            };
            match name {
                "bootstrap" => bootstrap = Some(value.to_owned()),
                "topic" => topic = Some(value.to_owned()),
                "n" => n = Some(value.parse()?),
                "size" => size = Some(value.parse()?),
                "codec" => codec = value.parse()?,
                "idempotent" => idempotent = value.parse::<u8>()? != 0,
                "keys" => keys = value.parse::<u8>()? != 0,
                "threads" => threads = value.parse()?,
                "linger" => linger = Duration::from_millis(value.parse()?),
                "limit" => limit = Duration::from_secs(value.parse()?),
                _ => return Err(format!("unknown argument {name}").into()),
            }
        }
        Ok(Job {
            mode: mode.ok_or("produce, latency or consume?")?,
            bootstrap: bootstrap.ok_or("bootstrap is missing")?,
            topic: topic.ok_or("topic is missing")?,
            n: n.filter(|n| *n > 0).ok_or("n is missing")?,
            size: size.ok_or("size is missing")?,
            codec,
            idempotent,
            keys,
            threads: Some(threads).filter(|n| *n > 0).ok_or("no threads")?,
            linger,
            limit,
        })
    }
}

impl FromStr for Mode {
    type Err = Failure;

    fn from_str(word: &str) -> Result<Mode, Failure> {
        match word {
            "produce" => Ok(Mode::Produce),
            "latency" => Ok(Mode::Latency),
            "consume" => Ok(Mode::Consume),
            _ => Err(format!("{word} is neither produce, latency nor consume").into()),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Produce => "produce",
            Mode::Latency => "latency",
            Mode::Consume => "consume",
        })
    }
}

impl FromStr for Codec {
    type Err = Failure;

    fn from_str(word: &str) -> Result<Codec, Failure> {
        match word {
            "none" => Ok(Codec::None),
            "gzip" => Ok(Codec::Gzip),
            "snappy" => Ok(Codec::Snappy),
            "zstd" => Ok(Codec::Zstd),
            "lz4" => Ok(Codec::Lz4),
            _ => Err(format!("{word} is no codec").into()),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Zstd => "zstd",
            Codec::Lz4 => "lz4",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Job, Failure> {
        Job::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn defaults_fill_what_is_not_said() {
        let job = parse("produce bootstrap=h:1 topic=t n=10 size=100").unwrap();
        assert_eq!((job.mode, job.codec, job.idempotent), (Mode::Produce, Codec::None, false));
        assert_eq!(job.linger, Duration::from_millis(5));
    }

    #[test]
    fn unknown_or_missing_arguments_are_refused() {
        for line in ["produce", "consume bootstrap=h:1 topic=t n=0 size=1", "watch", "consume x=1"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
