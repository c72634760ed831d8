//! The rows. Names are those of Kafka's Java client; a name of our own says so in its text.
//!
//! Each `*_properties!` macro is one table; it hands its rows to the macro it is given
//! (`config_struct` for the struct, `config_setters` for a builder).

use std::time::Duration;

use super::value::word_values;
use crate::protocol::records::Compression;

/// Whole milliseconds, for the rows.
const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A day: longer waits are surely a slip of the pen.
const DAY: Duration = ms(24 * 3600 * 1000);
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// The longest frame that Kafka's 32-bit size can announce.
const FRAME_BYTES_MAX: usize = i32::MAX as usize;

/// The partitioners that have a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionerClass {
    /// Java's built-in rule: murmur2 for keys, a sticky partition for none.
    #[default]
    BuiltIn,
    /// Each partition that has a leader in its turn, whatever the key.
    RoundRobin,
}

word_values! { PartitionerClass,
    PartitionerClass::BuiltIn => "built-in" | "";
    PartitionerClass::RoundRobin => "RoundRobinPartitioner"
        | "org.apache.kafka.clients.producer.RoundRobinPartitioner";
}

/// How many replicas must have stored a record before the broker acknowledges it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acks {
    /// No acknowledgement: the broker does not answer, a loss goes unseen.
    None,
    /// The leader alone.
    Leader,
    /// All replicas in sync.
    #[default]
    All,
}

word_values! {
    Acks,
    Acks::All => "all" | "-1";
    Acks::Leader => "1";
    Acks::None => "0";
}

/// Which records a reader sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolationLevel {
    /// All, also those of open and aborted transactions.
    #[default]
    ReadUncommitted,
    /// Those of committed transactions, and those without one.
    ReadCommitted,
}

word_values! {
    IsolationLevel,
    IsolationLevel::ReadUncommitted => "read_uncommitted";
    IsolationLevel::ReadCommitted => "read_committed";
}

/// Where a group starts in a partition for which it has no saved offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AutoOffsetReset {
    /// At the first record that is still there: nothing is skipped unasked.
    #[default]
    Earliest,
    /// After the last record at that moment.
    Latest,
    /// Nowhere: an error.
    None,
}

word_values! {
    AutoOffsetReset,
    AutoOffsetReset::Earliest => "earliest";
    AutoOffsetReset::Latest => "latest";
    AutoOffsetReset::None => "none";
}

word_values! {
    Compression,
    Compression::None => "none";
    Compression::Gzip => "gzip";
    Compression::Snappy => "snappy";
    Compression::Lz4 => "lz4";
    Compression::Zstd => "zstd";
}

macro_rules! client_properties {
    ($then:ident $($head:tt)*) => {
        $then! { $($head)*;
            /// Brokers to begin with, as `host:port`; the others are learnt from them.
            "bootstrap.servers" bootstrap_servers: Vec<String> = Vec::new();
            /// The name that brokers show in logs and use for quotas.
            "client.id" client_id: String = "ottla".to_owned();
            /// Longest wait for one answer of a broker. A request that takes longer is given up
            /// and its connection closed.
            "request.timeout.ms" request_timeout: Duration = ms(30_000), (ms(1)) to DAY;
            /// Longest time that a call may take with all its retries, unless the call has a
            /// time-out of its own.
            "default.api.timeout.ms" default_api_timeout: Duration = ms(60_000), (ms(1)) to DAY;
            /// Longest wait for one connection to be established, per address.
            "socket.connection.setup.timeout.ms" socket_connection_setup_timeout: Duration
                = ms(10_000), (ms(1)) to DAY;
            /// First pause before a broker that could not be reached is tried again; it doubles
            /// up to `reconnect.backoff.max.ms`, with jitter.
            "reconnect.backoff.ms" reconnect_backoff: Duration = ms(50), (ms(1)) to DAY;
            /// Longest pause before a broker that could not be reached is tried again.
            "reconnect.backoff.max.ms" reconnect_backoff_max: Duration = ms(1000), (ms(1)) to DAY;
            /// First pause before a failed request is repeated; it doubles up to
            /// `retry.backoff.max.ms`, with jitter.
            "retry.backoff.ms" retry_backoff: Duration = ms(100), (ms(1)) to DAY;
            /// Longest pause before a failed request is repeated.
            "retry.backoff.max.ms" retry_backoff_max: Duration = ms(1000), (ms(1)) to DAY;
            /// A connection that was idle for this long is closed; below the broker's own limit
            /// of ten minutes.
            "connections.max.idle.ms" connections_max_idle: Duration = ms(540_000), (ms(1)) to DAY;
            /// Metadata older than this is fetched anew, so that new partitions are noticed.
            "metadata.max.age.ms" metadata_max_age: Duration = ms(300_000), (ms(1)) to DAY;
            /// Size of the socket's send buffer; -1 leaves it to the system.
            "send.buffer.bytes" send_buffer: i32 = -1, (-1) to (i32::MAX);
            /// Size of the socket's receive buffer; -1 leaves it to the system.
            "receive.buffer.bytes" receive_buffer: i32 = -1, (-1) to (i32::MAX);
            /// Most connections to one broker in the pool, without those of producers. A property
            /// of Ottla.
            "connections.per.broker.max" connections_per_broker_max: u32 = 32, 1 to 10_000;
            /// Longest answer that is accepted from a broker. A property of Ottla (librdkafka has
            /// one of this name).
            "receive.message.max.bytes" receive_message_max: usize = (128 * MIB),
                KIB to FRAME_BYTES_MAX;
            /// Longest time for which a broker that does not answer is left alone while others
            /// can be asked. A property of Ottla.
            "broker.blacklist.max.ms" broker_blacklist_max: Duration = ms(10_000), (ms(1)) to DAY;
        }
    };
}

macro_rules! producer_properties {
    ($then:ident $($head:tt)*) => {
        $then! { $($head)*;
            /// How many replicas must have stored a record: `all`, `1` or `0`.
            "acks" acks: Acks = Acks::All;
            /// Bytes of a batch, before compression, at which it is sent without waiting for
            /// `linger.ms`; a batch grows past it only while its writer is busy.
            "batch.size" batch_size: usize = (64 * KIB), 0 to (512 * MIB);
            /// How long a batch waits for more records before it is sent; a caller that waits on
            /// a ticket or flushes does not sit it out.
            "linger.ms" linger: Duration = ms(5), (ms(0)) to DAY;
            /// Bytes of records that may wait in the producer.
            "buffer.memory" buffer_memory: usize = (32 * MIB), KIB to (usize::MAX);
            /// Longest time that `send` blocks for space or for metadata.
            "max.block.ms" max_block: Duration = ms(60_000), (ms(0)) to DAY;
            /// Largest request, and largest record.
            "max.request.size" max_request_size: usize = MIB, KIB to FRAME_BYTES_MAX;
            /// Most requests that wait for their answer on one connection; at most 5 with
            /// idempotence, which is what a broker remembers.
            "max.in.flight.requests.per.connection" max_in_flight: u32 = 5, 1 to 1000;
            /// Codec of new batches: `none`, `gzip`, `snappy`, `lz4` or `zstd` (brokers from 2.1).
            "compression.type" compression: Compression = Compression::None;
            /// Level of gzip, 1 (fast) to 9 (small).
            "compression.gzip.level" compression_gzip_level: i32 = 6, 1 to 9;
            /// Level of zstd, 1 (fast) to 22 (small), negative for faster still.
            "compression.zstd.level" compression_zstd_level: i32 = 3, (-131_072) to 22;
            /// Longest time from `send` until a record is acknowledged or reported as failed.
            "delivery.timeout.ms" delivery_timeout: Duration = ms(120_000), (ms(1)) to DAY;
            /// Whether the broker removes duplicates that retries make. Needs `acks=all`.
            "enable.idempotence" enable_idempotence: bool = true;
            /// Whether records with a key go to any partition, as those without one do.
            "partitioner.ignore.keys" partitioner_ignore_keys: bool = false;
            /// Who picks partitions: `built-in` (murmur2 of the key, a sticky partition without one) or
            /// `RoundRobinPartitioner` (each in its turn, whatever the key). Others are set in the program.
            "partitioner.class" partitioner_class: PartitionerClass = PartitionerClass::BuiltIn;
            /// Whether records without a key go to partitions with shorter queues more often (KIP-794).
            "partitioner.adaptive.partitioning.enable" partitioner_adaptive_partitioning_enable: bool = true;
            /// Records without a key go to no partition of a broker that left batches waiting for so long; 0 turns that
            /// off. Needs `partitioner.adaptive.partitioning.enable`.
            "partitioner.availability.timeout.ms" partitioner_availability_timeout: Duration = ms(0), (ms(0)) to DAY;
            /// Folder in which records that could not be delivered in time are kept on disk and sent again, also after a
            /// restart: at least once. One producer at a time may use it. Empty: such records fail. A property of Ottla.
            "retry.store.path" retry_store_path: String = String::new();
            /// Most bytes that the folder of `retry.store.path` may take; records that find no space fail. A property of
            /// Ottla.
            "retry.store.max.bytes" retry_store_max: usize = (1024 * MIB), KIB to (usize::MAX);
        }
    };
}

macro_rules! fetch_properties {
    ($then:ident $($head:tt)*) => {
        $then! { $($head)*;
            /// Most bytes of one answer to a fetch; a first batch that is larger comes whole.
            "fetch.max.bytes" fetch_max: usize = (50 * MIB), 1 to FRAME_BYTES_MAX;
            /// Bytes that must be there before the broker answers a fetch early.
            "fetch.min.bytes" fetch_min: usize = 1, 0 to FRAME_BYTES_MAX;
            /// Longest time that the broker waits for `fetch.min.bytes`.
            "fetch.max.wait.ms" fetch_max_wait: Duration = ms(500), (ms(0)) to DAY;
            /// Most bytes of one partition in an answer. A reader of a range starts lower and
            /// grows up to it.
            "max.partition.fetch.bytes" max_partition_fetch: usize = MIB, 1 to FRAME_BYTES_MAX;
            /// Whether records of open and aborted transactions are seen.
            "isolation.level" isolation_level: IsolationLevel = IsolationLevel::ReadUncommitted;
            /// Most bytes that one compressed batch may unpack to. A property of Ottla.
            "decompressed.batch.max.bytes" decompressed_batch_max: usize = (128 * MIB),
                KIB to FRAME_BYTES_MAX;
        }
    };
}

macro_rules! work_properties {
    ($then:ident $($head:tt)*) => {
        $then! { $($head)*;
            /// Most offsets of one unit.
            "unit.size" unit_size: u32 = 10_000, 1 to 100_000_000;
            /// Worker threads of the node.
            "workers" workers: u32 = 1, 0 to 1024;
            /// Most records that a handler of batches is given at once.
            "max.poll.records" max_poll_records: u32 = 500, 1 to 1_000_000;
            /// Most records that the node gives to its handlers in a second, a tenth of a second's worth at
            /// once; 0 is no limit.
            "records.per.second.max" records_per_second_max: u32 = 0, 0 to (u32::MAX);
            /// Most bytes of keys and values that the node gives to its handlers in a second, a tenth
            /// of a second's worth at once; 0 is no limit.
            "bytes.per.second.max" bytes_per_second_max: usize = 0, 0 to (1 << 40);
            /// Threads per worker that share a unit's records by key, for a handler of records.
            "key.threads" key_threads: u32 = 1, 1 to 256;
            /// Bytes of the next unit that each worker reads while it handles one, to the end of the
            /// portion that passes them; 0 reads nothing ahead. A unit read ahead is held from then on.
            "prefetch.max.bytes" prefetch_max: usize = 0, 0 to (1 << 30);
            /// How long a unit belongs to a worker that does not renew it.
            "unit.lease.ms" unit_lease: Duration = ms(60_000), (ms(100)) to DAY;
            /// Longest time that one unit may be held, renewed or not: the bound on a handler
            /// that hangs.
            "unit.max.ms" unit_max: Duration = ms(3_600_000), (ms(100)) to (DAY * 30);
            /// A worker that gave no sign of life for this long is dead and its list is taken
            /// over.
            "worker.timeout.ms" worker_timeout: Duration = ms(30_000), (ms(100)) to DAY;
            /// How often a unit is tried before it is put on the `error` list.
            "max.attempts" max_attempts: u32 = 5, 1 to 1_000_000;
            /// First pause before a failed unit is tried again; it doubles with each attempt up
            /// to `unit.retry.backoff.max.ms`.
            "unit.retry.backoff.ms" unit_retry_backoff: Duration = ms(1000), (ms(0)) to DAY;
            /// Longest pause before a failed unit is tried again.
            "unit.retry.backoff.max.ms" unit_retry_backoff_max: Duration = ms(60_000),
                (ms(0)) to DAY;
            /// How often the organiser looks for new offsets.
            "planning.interval.ms" planning_interval: Duration = ms(500), (ms(1)) to DAY;
            /// How many units of one partition may be open at a time.
            "units.per.partition.max" units_per_partition_max: u32 = 1000, 1 to 1_000_000;
            /// How long an organiser that does not renew its lock stays the leader.
            "organiser.lease.ms" organiser_lease: Duration = ms(15_000), (ms(100)) to DAY;
            /// How often the organiser compares the hints with the truth.
            "audit.interval.ms" audit_interval: Duration = ms(30_000), (ms(10)) to DAY;
            /// How often the low watermark is committed to Kafka as the group's offset.
            "commit.interval.ms" commit_interval: Duration = ms(1000), (ms(1)) to DAY;
            /// Where a group starts in a partition without a saved offset.
            "auto.offset.reset" auto_offset_reset: AutoOffsetReset = AutoOffsetReset::Earliest;
            /// First part of every key in Redis.
            "queue.prefix" queue_prefix: String = "ottla".to_owned();
        }
    };
}

client_properties! { config_struct
    /// Settings of a client.
    ClientConfig
}
producer_properties! { config_struct
    /// Settings of a producer.
    ProducerConfig
}
fetch_properties! { config_struct
    /// Settings of reading.
    FetchConfig
}
work_properties! { config_struct
    /// Settings of work units; those without a Java name are properties of Ottla.
    WorkConfig
}
