//! Which partition a record goes to.
//!
//! The rule, unless a [`Partitioner`] is set, is that of Java's `BuiltInPartitioner`, so that both clients put a key in one
//! place. A record with a key goes to `(murmur2(key) & 0x7fffffff) mod partitions`, over all partitions, also those without a
//! leader: keys never move because a leader is missing. A record without a key goes to the topic's sticky partition, which
//! changes after `batch.size` bytes to one of those that have a leader (KIP-794). With
//! `partitioner.adaptive.partitioning.enable` the shorter a partition's queue, the likelier it is next; where
//! `partitioner.availability.timeout.ms` is set, partitions of a broker that takes nothing for so long are passed over.
//!
//! Pure, but for the random choice; a [`Sticky`] is shared by all sending threads and only ever read and replaced as a whole.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::record::Plain;
use super::topics::Topic;
use crate::protocol::records::Header;

/// Of so many partitions the queues are looked at when the sticky partition moves; a topic that has more is sampled.
const SAMPLE_MAX: usize = 64;

/// Picks the partition of records for which the caller set none.
///
/// Runs on the sending thread with no lock held, once for each record, so it should take microseconds at most. A panic is
/// caught: the record is refused with an error of kind `Handler`. Implemented for closures.
///
/// ```no_run
/// use std::time::Duration;
/// use ottla::Client;
/// use ottla::producer::{PartitionRequest, Record};
///
/// # fn main() -> ottla::Result<()> {
/// let client = Client::builder("localhost:9092").build()?;
/// // Keys that begin with a '!' have partition 0 for themselves.
/// let producer = client
///     .producer()
///     .partitioner(|record: &PartitionRequest<'_>| {
///         record.key().is_some_and(|key| key.starts_with(b"!")).then_some(0)
///     })
///     .build()?;
/// producer.send(Record::to("orders").key("!7").value("{}"))?.wait()?;
/// # Ok(())
/// # }
/// ```
pub trait Partitioner: Send + Sync {
    /// The partition of a record, from 0; `None` leaves it to the built-in rule. One that the topic does not have is an
    /// error of kind `InvalidInput` to the sender.
    fn partition(&self, record: &PartitionRequest<'_>) -> Option<i32>;
}

impl<F: Fn(&PartitionRequest<'_>) -> Option<i32> + Send + Sync> Partitioner for F {
    fn partition(&self, record: &PartitionRequest<'_>) -> Option<i32> {
        self(record)
    }
}

/// What a [`Partitioner`] is told: the record, serialized, and its topic as it is known now.
pub struct PartitionRequest<'a> {
    record: &'a Plain<'a>,
    topic: &'a Topic,
}

impl fmt::Debug for PartitionRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionRequest")
            .field("topic", &self.topic())
            .field("partitions", &self.partitions())
            .finish_non_exhaustive()
    }
}

impl<'a> PartitionRequest<'a> {
    pub(super) fn new(record: &'a Plain<'a>, topic: &'a Topic) -> Self {
        Self { record, topic }
    }

    /// The topic's name.
    pub fn topic(&self) -> &'a str {
        self.record.topic
    }

    /// The key's bytes.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.record.key
    }

    /// The value's bytes.
    pub fn value(&self) -> Option<&'a [u8]> {
        self.record.value
    }

    /// The headers, in their order.
    pub fn headers(&self) -> &'a [Header<'a>] {
        self.record.headers
    }

    /// How many partitions the topic has; more than none.
    pub fn partitions(&self) -> usize {
        self.topic.partitions.len()
    }

    /// The partitions that have a leader, in their order; may be empty.
    pub fn available(&self) -> &'a [u32] {
        &self.topic.available
    }

    /// The partition that Java's rule gives to this key: murmur2 over all partitions.
    pub fn of_key(&self, key: &[u8]) -> i32 {
        partition_of_key(key, self.partitions().max(1)) as i32
    }
}

/// Each partition that has a leader in its turn, whatever the key, for each topic by itself; all of them while none has.
/// Batches get small where there are many partitions. Java's `RoundRobinPartitioner`, property
/// `partitioner.class=RoundRobinPartitioner`.
#[derive(Debug, Default)]
pub struct RoundRobin {
    turns: RwLock<HashMap<String, AtomicUsize>>,
}

impl RoundRobin {
    /// Begins with the first partition of each topic.
    pub fn new() -> Self {
        Self::default()
    }

    fn turn(&self, topic: &str) -> usize {
        if let Some(turn) = self.turns.read().get(topic) {
            return turn.fetch_add(1, Ordering::Relaxed);
        }
        self.turns.write().entry(topic.to_owned()).or_default().fetch_add(1, Ordering::Relaxed)
    }
}

impl Partitioner for RoundRobin {
    fn partition(&self, record: &PartitionRequest<'_>) -> Option<i32> {
        let turn = self.turn(record.topic());
        let index = match record.available() {
            [] => turn.checked_rem(record.partitions())? as u32,
            available => *available.get(turn % available.len())?,
        };
        i32::try_from(index).ok()
    }
}

/// The 32-bit murmur2 hash with Kafka's seed (`org.apache.kafka.common.utils.Utils.murmur2`).
pub(crate) fn murmur2(key: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ key.len() as u32;
    let (words, tail) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of a key among `count` partitions; `count` is not zero.
pub(super) fn partition_of_key(key: &[u8], count: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % count
}

/// The partition that records without a key go to at present.
#[derive(Debug)]
pub(super) struct Sticky(AtomicU32);

impl Sticky {
    /// Starts at a random partition of `count`.
    pub(super) fn new(count: usize) -> Self {
        Self(AtomicU32::new(fastrand::u32(0..(count.max(1) as u32))))
    }

    /// The present partition, forced into `count`.
    #[inline]
    pub(super) fn current(&self, count: usize) -> usize {
        let index = self.0.load(Ordering::Relaxed) as usize;
        if index < count { index } else { 0 }
    }

    /// Moves on from `from`, unless another thread has done so: to one of `available`, else to any of `count`. `load` tells
    /// how much waits in a partition; without it all are alike.
    pub(super) fn move_on(
        &self,
        from: usize,
        available: &[u32],
        count: usize,
        load: Option<impl Fn(u32) -> Load>,
    ) {
        let next = match (available, load) {
            ([], _) => fastrand::u32(0..(count.max(1) as u32)),
            ([one], _) => *one,
            (several, None) => another(several, from as u32),
            (several, Some(load)) => lighter(several, from as u32, load),
        };
        // A lost race means that another thread moved on already, which is as good.
        let _lost =
            self.0.compare_exchange(from as u32, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// What waits in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Batches that wait, the open one too.
    pub(super) batches: usize,
    /// Whose writer takes them: equal for partitions of one broker.
    pub(super) queue: usize,
    /// Whether one of them is due for longer than `partitioner.availability.timeout.ms`.
    pub(super) is_late: bool,
}

/// One of several, each as likely, but not `from` again: the batch under way there would grow alone.
fn another(several: &[u32], from: u32) -> u32 {
    let place = fastrand::usize(..several.len());
    match several.get(place) {
        Some(pick) if *pick != from => *pick,
        // Its neighbour in the list is as likely as any other over time.
        _ => several.get((place + 1) % several.len()).copied().unwrap_or(from),
    }
}

/// One of several, the likelier the less waits in it (KIP-794: by the longest queue and one, less its own), not one of a
/// broker that takes nothing, nor `from` again.
fn lighter(several: &[u32], from: u32, load: impl Fn(u32) -> Load) -> u32 {
    let begin = fastrand::usize(..several.len());
    let sample = (0..several.len().min(SAMPLE_MAX))
        .filter_map(|step| several.get((begin + step) % several.len()).copied());
    let loads: Vec<(u32, Load)> = sample.map(|index| (index, load(index))).collect();
    let stuck = |queue| loads.iter().any(|(_, load)| load.is_late && load.queue == queue);
    let fit: Vec<(u32, usize)> = loads
        .iter()
        .filter(|(index, load)| *index != from && !stuck(load.queue))
        .map(|(index, load)| (*index, load.batches))
        .collect();
    let Some(longest) = fit.iter().map(|(_, batches)| *batches).max() else {
        return another(several, from);
    };
    let weight = |batches: usize| longest + 1 - batches;
    let total: usize = fit.iter().map(|(_, batches)| weight(*batches)).sum();
    let mut ticket = fastrand::usize(..total);
    for (index, batches) in &fit {
        match ticket.checked_sub(weight(*batches)) {
            Some(rest) => ticket = rest,
            None => return *index,
        }
    }
    another(several, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIKE: Option<fn(u32) -> Load> = None;

    fn waits(batches: usize, queue: usize) -> Load {
        Load { batches, queue, is_late: false }
    }

    #[test]
    fn the_less_waits_the_likelier_is_a_partition_next() {
        let mut seen = [0; 4];
        for _ in 0..6000 {
            // Weights 1, 5 and 6 of 12; partition 0 is the present one.
            seen[lighter(&[0, 1, 2, 3], 0, |index| waits([0, 5, 1, 0][index as usize], 1))
                as usize] += 1;
        }
        assert_eq!(seen[0], 0);
        assert!((300..=700).contains(&seen[1]), "{seen:?}");
        assert!((2200..=2800).contains(&seen[2]), "{seen:?}");
        assert!((2700..=3300).contains(&seen[3]), "{seen:?}");
    }

    #[test]
    fn partitions_of_a_broker_that_takes_nothing_are_passed_over() {
        for _ in 0..200 {
            // 1 is late; 2 is of the same broker.
            let load =
                |index: u32| Load { is_late: index == 1, ..waits(0, [7, 8, 8, 7][index as usize]) };
            assert_eq!(lighter(&[0, 1, 2, 3], 0, load), 3);
            // All are: better one of them than none.
            let next = lighter(&[0, 1, 2], 0, |_| Load { is_late: true, ..waits(1, 7) });
            assert!([1, 2].contains(&next));
        }
    }

    #[test]
    fn all_partitions_of_a_large_topic_are_reached() {
        let many: Vec<u32> = (0..1000).collect();
        let looks = std::cell::Cell::new(0);
        let load = |_| {
            looks.set(looks.get() + 1);
            waits(0, 1)
        };
        let seen: std::collections::HashSet<u32> =
            (0..20_000).map(|_| lighter(&many, 0, load)).collect();
        assert_eq!(seen.len(), 999);
        assert_eq!(looks.get(), 20_000 * SAMPLE_MAX);
    }

    #[test]
    fn hashes_are_those_of_the_java_client() {
        for (key, hash) in [
            ("", 0x106e_08d9),
            ("21", 0xc5f2_f8ec),
            ("abc", 0x1c94_221b),
            ("foobar", 0xd0e4_7bbe),
            ("a-little-bit-long-string", 0xc53b_1da0),
            ("a-little-bit-longer-string", 0xa768_c9c3),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", 0xfc7d_49cd),
        ] {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
        }
    }

    /// tulios/kafkajs#357, thomhurst/Dekaf#1336: a sign that is not masked lands elsewhere.
    #[test]
    fn keys_land_where_the_java_client_puts_them() {
        for (key, count, partition) in [
            (&b"foobar"[..], 10, 6),
            (b"21", 10, 0),
            (b"wu", 10, 0),
            (b"100:48069", 12, 9),
            (b"\xff\xfe\x00", 12, 4),
            (b"", 10, 1),
        ] {
            assert_eq!(partition_of_key(key, count), partition, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn the_sticky_partition_moves_among_the_available_and_never_stays() {
        let sticky = Sticky::new(6);
        let available = [1, 3, 4];
        let mut seen = [0; 6];
        for _ in 0..600 {
            let from = sticky.current(6);
            sticky.move_on(from, &available, 6, ALIKE);
            let to = sticky.current(6);
            assert_ne!(from, to);
            seen[to] += 1;
        }
        assert_eq!([seen[0], seen[2], seen[5]], [0, 0, 0]);
        assert!(available.iter().all(|index| seen[*index as usize] > 100), "{seen:?}");
    }

    #[test]
    fn a_shrunk_topic_and_a_lost_race_do_no_harm() {
        let sticky = Sticky::new(1);
        assert_eq!(sticky.current(1), 0);
        sticky.move_on(0, &[5], 6, ALIKE);
        assert_eq!(sticky.current(6), 5);
        assert_eq!(sticky.current(4), 0, "the topic has four partitions now");
        sticky.move_on(2, &[1], 6, ALIKE);
        assert_eq!(sticky.current(6), 5, "someone else moved on from 2");
    }
}
