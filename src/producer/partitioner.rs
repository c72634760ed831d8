//! Which partition a record goes to: Java's rules.
//!
//! A record with a key goes to `(murmur2(key) & 0x7fffffff) mod partitions`, over all partitions,
//! also those without a leader, exactly as `org.apache.kafka.clients.producer.internals.
//! BuiltInPartitioner` does, so that both clients put a key in one place. A record without a key
//! goes to the topic's sticky partition, which changes after `batch.size` bytes (KIP-794), to one
//! chosen uniformly among those that have a leader. KIP-794's adaptive choice by queue length is
//! not used.
//!
//! Pure, but for the random choice; a [`Sticky`] is shared by all sending threads and only ever
//! read and replaced as a whole.

use std::sync::atomic::{AtomicU32, Ordering};

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

    /// Moves on from `from`, unless another thread has done so: to one of `available`, else to any
    /// of `count`.
    pub(super) fn move_on(&self, from: usize, available: &[u32], count: usize) {
        let next = match available {
            [] => fastrand::u32(0..(count.max(1) as u32)),
            [one] => *one,
            several => {
                let pick = several.get(fastrand::usize(..several.len())).copied();
                let pick = pick.unwrap_or_default();
                if pick as usize == from {
                    // The same again would let the batch under way grow alone; the neighbour in
                    // the list is as likely as any other over time.
                    let place = several.iter().position(|index| *index == pick).unwrap_or(0);
                    several.get((place + 1) % several.len()).copied().unwrap_or(pick)
                } else {
                    pick
                }
            }
        };
        // A lost race means that another thread moved on already, which is as good.
        let _lost =
            self.0.compare_exchange(from as u32, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            sticky.move_on(from, &available, 6);
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
        sticky.move_on(0, &[5], 6);
        assert_eq!(sticky.current(6), 5);
        assert_eq!(sticky.current(4), 0, "the topic has four partitions now");
        sticky.move_on(2, &[1], 6);
        assert_eq!(sticky.current(6), 5, "someone else moved on from 2");
    }
}
