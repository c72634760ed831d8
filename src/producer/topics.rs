//! The topics that were sent to, each as an immutable snapshot that a refresh replaces.
//!
//! A send looks its topic up once. A snapshot holds the partitions (kept from one snapshot to the
//! next, with all their batches), those that have a leader, and the sticky partition. It is
//! replaced when the cluster's metadata is newer: new partitions come in, and a topic that was
//! deleted and made again (another topic id, KIP-516) starts afresh, with batches of the old one
//! given up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};

use super::accumulator::Partition;
use super::partitioner::Sticky;
use crate::protocol::Uuid;

/// A topic at one point of time.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) id: Uuid,
    /// The generation of the metadata that it was made from.
    pub(super) generation: u64,
    pub(super) partitions: Vec<Arc<Partition>>,
    /// Partitions that have a leader.
    pub(super) available: Vec<u32>,
    pub(super) sticky: Arc<Sticky>,
}

/// All topics by name.
#[derive(Debug, Default)]
pub(super) struct Topics {
    by_name: RwLock<Map>,
    /// Set once, under the lock of `by_name`: no topic comes in any more.
    closed: AtomicBool,
    /// Partitions of topics that were replaced, until nothing of them is under way.
    replaced: RwLock<Vec<Arc<Partition>>>,
}

type Map = HashMap<Arc<str>, Arc<Topic>, BuildHasherDefault<NameHasher>>;

impl Topics {
    /// The present snapshot.
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<Arc<Topic>> {
        self.by_name.read().get(name).map(Arc::clone)
    }

    /// The present snapshot, which stays that while it is held: for as long as an append takes.
    /// Cheaper than a share of it.
    #[inline]
    pub(super) fn read(&self, name: &str) -> Option<MappedRwLockReadGuard<'_, Topic>> {
        let by_name = self.by_name.read();
        RwLockReadGuard::try_map(by_name, |map| map.get(name).map(|topic| &**topic)).ok()
    }

    /// Replaces the snapshot of `name` by what `make` builds from the present one; partitions that
    /// are in the old one only are kept aside until [`Topics::all_partitions`] has no more use for
    /// them. The lock makes concurrent refreshes queue up.
    pub(super) fn replace(
        &self,
        name: &str,
        make: impl FnOnce(Option<&Arc<Topic>>) -> Option<Topic>,
    ) -> Option<Arc<Topic>> {
        let mut by_name = self.by_name.write();
        if self.closed.load(Ordering::SeqCst) {
            return None;
        }
        let old = by_name.get(name).map(Arc::clone);
        let Some(new) = make(old.as_ref()).map(Arc::new) else { return old };
        by_name.insert(Arc::from(name), Arc::clone(&new));
        drop(by_name);
        if let Some(old) = old {
            let gone = old.partitions.iter().filter(|partition| {
                !new.partitions.iter().any(|other| Arc::ptr_eq(partition, other))
            });
            let mut replaced = self.replaced.write();
            replaced.retain(|partition| partition.is_busy());
            replaced.extend(gone.map(Arc::clone));
        }
        Some(new)
    }

    /// Forgets all topics, lets none in any more, and gives every partition that may have batches.
    pub(super) fn close(&self) -> Vec<Arc<Partition>> {
        let mut by_name = self.by_name.write();
        self.closed.store(true, Ordering::SeqCst);
        let topics = std::mem::take(&mut *by_name);
        drop(by_name);
        let present = topics.into_values().flat_map(|topic| topic.partitions.clone());
        present.chain(self.replaced.write().drain(..)).collect()
    }

    /// Every partition that may have batches.
    pub(super) fn all_partitions(&self) -> Vec<Arc<Partition>> {
        let by_name = self.by_name.read();
        let present = by_name.values().flat_map(|topic| topic.partitions.iter());
        let mut all: Vec<_> = present.map(Arc::clone).collect();
        drop(by_name);
        all.extend(self.replaced.read().iter().map(Arc::clone));
        all
    }
}

/// A quick hash for topic names. They come from the program itself, so nobody can choose them to
/// collide.
#[derive(Debug, Default)]
struct NameHasher(u64);

impl NameHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        /// The odd number nearest to 2^64 divided by the golden ratio.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(GOLDEN);
    }
}

impl Hasher for NameHasher {
    /// What is left behind whole words is read as a word that overlaps the one before, or as two
    /// halves that overlap: gathering single bytes takes longer than all the rest of the hash.
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if tail.is_empty() {
            return;
        }
        if let Some(last) = bytes.last_chunk::<8>() {
            self.mix(u64::from_le_bytes(*last));
        } else if let (Some(first), Some(last)) =
            (bytes.first_chunk::<4>(), bytes.last_chunk::<4>())
        {
            self.mix(
                u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)),
            );
        } else {
            for byte in tail {
                self.mix(u64::from(*byte));
            }
        }
        self.mix(bytes.len() as u64);
    }

    /// The mark that ends a string: the map has no other keys.
    #[inline]
    fn write_u8(&mut self, _end: u8) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
