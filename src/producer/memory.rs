//! `buffer.memory`: how many bytes of batches may exist, and the buffers they live in.
//!
//! Every byte of capacity of a batch's buffer is reserved here before the buffer is there and
//! given back when the fate of the batch is known, on every path. A caller that finds no space
//! waits for at most `max.block.ms`; it holds no partition's lock meanwhile, because the thread
//! that frees space may need that lock ([`Memory::try_reserve`] never waits and may be called
//! under one).
//!
//! Waking a caller for every buffer that comes back would cost more than the records that fit in:
//! at first it waits until a good part of the memory is free, for at most [`CALM`]. Only then it
//! is in a hurry: the writers are told to send open batches at once, since those may be what holds
//! the memory, and every buffer that comes back wakes it.
//!
//! While anybody waits, `try_reserve` refuses everybody, so that the threads that wait are not
//! overtaken for ever by those that do not.
//!
//! Freed buffers go on a small stack: the one used last is taken next, because it is still in the
//! processor's cache.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::{self, Deadline};

/// How long a caller waits for a good part of the memory before it takes what comes.
const CALM: Duration = Duration::from_millis(5);
/// The good part: an eighth.
const GOOD_PART: usize = 8;
/// Bytes of buffers kept for the next batches.
const POOL_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Buffers kept for the next batches.
const POOL_BUFFERS_MAX: usize = 256;

/// The account and the pool. All methods may be called from any thread.
#[derive(Debug)]
pub(super) struct Memory {
    limit: usize,
    used: AtomicUsize,
    /// Callers that wait for space; changed under `gate`.
    waiting: AtomicUsize,
    /// Those of them that take what comes; changed under `gate`.
    hurried: AtomicUsize,
    gate: Mutex<()>,
    freed: Condvar,
    pool: Mutex<Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Memory {
    /// An account of `limit` bytes, all free.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            hurried: AtomicUsize::new(0),
            gate: Mutex::new(()),
            freed: Condvar::new(),
            pool: Mutex::default(),
        }
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// All bytes there are.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether somebody waits for space and takes what comes.
    pub(super) fn is_wanted(&self) -> bool {
        self.hurried.load(Ordering::SeqCst) > 0
    }

    /// Takes `bytes` if they are free and nobody waits.
    pub(super) fn try_reserve(&self, bytes: usize) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0 && self.take(bytes)
    }

    fn take(&self, bytes: usize) -> bool {
        self.used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |used| {
                used.checked_add(bytes).filter(|total| *total <= self.limit)
            })
            .is_ok()
    }

    /// Takes `bytes`, waiting until they are free; `false` at the deadline, when `stopped` says
    /// so, and for more than there will ever be. Calls `on_hurry` when it begins to take what comes.
    pub(super) fn reserve(
        &self,
        bytes: usize,
        deadline: Deadline,
        stopped: impl Fn() -> bool,
        on_hurry: impl FnOnce(),
    ) -> bool {
        if self.try_reserve(bytes) {
            return true;
        }
        if bytes > self.limit {
            return false;
        }
        // The count of waiters is raised before the first look, and `release` looks at it after
        // it lowered `used`: one of the two sees the other.
        let mut gate = self.gate.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let calm = deadline.at_most(clock::now(), CALM);
        let mut taken = false;
        while !taken && !stopped() {
            taken = self.has_good_part() && self.take(bytes);
            if !taken && self.freed.wait_until(&mut gate, calm.instant()).timed_out() {
                break;
            }
        }
        if taken {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            self.freed.notify_one();
            return true;
        }
        self.hurried.fetch_add(1, Ordering::SeqCst);
        drop(gate);
        on_hurry();
        let mut gate = self.gate.lock();
        let taken = loop {
            if self.take(bytes) {
                break true;
            }
            if stopped() || self.freed.wait_until(&mut gate, deadline.instant()).timed_out() {
                break self.take(bytes);
            }
        };
        self.hurried.fetch_sub(1, Ordering::SeqCst);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        // What this one left may be enough for the next.
        self.freed.notify_one();
        taken
    }

    /// Gives `bytes` back.
    pub(super) fn release(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        debug_assert!(before >= bytes, "released {bytes} of {before} bytes");
        if self.waiting.load(Ordering::SeqCst) > 0 && (self.is_wanted() || self.has_good_part()) {
            let _gate = self.gate.lock();
            self.freed.notify_all();
        }
    }

    fn has_good_part(&self) -> bool {
        self.limit - self.used().min(self.limit) >= self.limit / GOOD_PART
    }

    /// Wakes everyone who waits, to look at `stopped` again.
    pub(super) fn wake_all(&self) {
        let _gate = self.gate.lock();
        self.freed.notify_all();
    }

    /// The buffer used last, if it has at most `capacity_max` and at least `capacity_min` bytes.
    pub(super) fn pooled(&self, capacity_min: usize, capacity_max: usize) -> Option<Vec<u8>> {
        let mut pool = self.pool.lock();
        let buffer = pool
            .buffers
            .pop_if(|buffer| (capacity_min..=capacity_max).contains(&buffer.capacity()))?;
        pool.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps a buffer for the next batch, or frees it.
    pub(super) fn recycle(&self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let mut pool = self.pool.lock();
        if capacity > 0
            && pool.bytes + capacity <= POOL_BYTES_MAX
            && pool.buffers.len() < POOL_BUFFERS_MAX
        {
            pool.bytes += capacity;
            pool.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::threads;

    #[test]
    fn a_waiter_gets_what_is_released() {
        let memory = Arc::new(Memory::new(100));
        assert!(memory.try_reserve(80));
        let theirs = Arc::clone(&memory);
        let waiter = threads::spawn("ottla-test", move || {
            assert!(theirs.reserve(60, Deadline::within(Duration::from_secs(60)), || false, || ()));
            theirs.release(60);
        })
        .expect("a thread");
        memory.release(80);
        waiter.join();
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_full_account_refuses_at_the_deadline_and_at_a_stop() {
        let memory = Memory::new(100);
        assert!(memory.try_reserve(100));
        let now = Deadline::after(clock::now(), Duration::ZERO);
        assert!(!memory.reserve(1, now, || false, || ()));
        assert!(!memory.reserve(1, Deadline::within(Duration::from_secs(60)), || true, || ()));
        assert!(!memory.reserve(101, Deadline::within(Duration::from_secs(60)), || false, || ()));
        assert_eq!(memory.used(), 100);
    }

    #[test]
    fn the_buffer_used_last_comes_first() {
        let memory = Memory::new(100);
        memory.recycle(Vec::with_capacity(1000));
        memory.recycle(Vec::with_capacity(2000));
        assert!(memory.pooled(0, 1500).is_none(), "the one on top is too large");
        assert_eq!(memory.pooled(0, 4000).map(|buffer| buffer.capacity()), Some(2000));
        assert_eq!(memory.pooled(0, 4000).map(|buffer| buffer.capacity()), Some(1000));
        assert!(memory.pooled(0, 4000).is_none());
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit_and_all_comes_back(
            steps in proptest::collection::vec((0_usize..60, any::<bool>()), 1..200)
        ) {
            let memory = Memory::new(100);
            let mut held = Vec::new();
            for (bytes, give_back) in steps {
                if give_back && let Some(bytes) = held.pop() {
                    memory.release(bytes);
                } else {
                    let free = 100 - held.iter().sum::<usize>();
                    let taken = memory.try_reserve(bytes);
                    prop_assert_eq!(taken, bytes <= free);
                    if taken {
                        held.push(bytes);
                    }
                }
                prop_assert_eq!(memory.used(), held.iter().sum::<usize>());
            }
            for bytes in held {
                memory.release(bytes);
            }
            prop_assert_eq!(memory.used(), 0);
        }
    }
}
