//! The ready queue of one writer: which partitions have something for it, and when it must wake.
//!
//! Records never pass through here. Callers put them into the open batch of their partition, and
//! the partition, with its whole batches, is handed over through a bounded channel: once when it
//! gets something to send, not again before the writer has emptied it. What a wake-up costs (tens
//! of microseconds) is therefore spent per batch at most, and not even then while requests are
//! under way and little has gathered: the writer says when it goes to sleep until when and for how
//! many announced bytes it wants to be woken.
//!
//! ```text
//!  callers                                   writer
//!  append, batch opened -- offer(partition) --> channel --> its list of partitions
//!  append, batch full  --- announce(bytes) ---> counter --> look, take, send
//!                          (rings only a writer that sleeps and wants that much)
//! ```
//!
//! A wake-up cannot be missed: the sleeper publishes what it sleeps for and then looks at channel
//! and counter once more; the caller changes channel or counter first and looks at what the
//! sleeper published afterwards (all sequentially consistent).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::{Condvar, Mutex};

use super::accumulator::Partition;
use crate::clock;

/// Partitions that may wait in one channel; any that find it full are found by a full scan.
const CHANNEL_PARTITIONS: usize = 4096;
/// `asleep_until` of a writer that is awake.
const AWAKE: u64 = 0;
/// `asleep_until` of a writer that waits for nothing in particular.
const FOREVER: u64 = u64::MAX;

/// Hands partitions with something to send to one thread.
#[derive(Debug)]
pub(super) struct ReadyQueue {
    /// The broker whose writer reads it; -1 for the router.
    pub(super) broker: i32,
    sender: Sender<Arc<Partition>>,
    receiver: Receiver<Arc<Partition>>,
    overflow: AtomicBool,
    announced: AtomicUsize,
    wanted: AtomicUsize,
    start: Instant,
    asleep_until: AtomicU64,
    rung: Mutex<bool>,
    bell: Condvar,
}

impl ReadyQueue {
    /// Empty, for the writer of `broker`.
    pub(super) fn new(broker: i32) -> Self {
        let (sender, receiver) = bounded(CHANNEL_PARTITIONS);
        Self {
            broker,
            sender,
            receiver,
            overflow: AtomicBool::new(false),
            announced: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            start: clock::now(),
            asleep_until: AtomicU64::new(AWAKE),
            rung: Mutex::new(false),
            bell: Condvar::new(),
        }
    }

    /// Hands a partition over. Never blocks, so it may be called under the partition's lock.
    pub(super) fn offer(&self, partition: Arc<Partition>) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(partition) {
            self.overflow.store(true, Ordering::SeqCst);
        }
    }

    /// Partitions handed over since.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = Arc<Partition>> + '_ {
        self.receiver.try_iter()
    }

    /// Whether partitions found the channel full since the last call.
    pub(super) fn take_overflow(&self) -> bool {
        self.overflow.swap(false, Ordering::SeqCst)
    }

    /// A batch opened that is due at `due`: wakes the writer if it would sleep past that.
    pub(super) fn wake_before(&self, due: Instant) {
        if self.asleep_until.load(Ordering::SeqCst) > self.nanos(due) {
            self.ring();
        }
    }

    /// `bytes` became ready: wakes the writer if it sleeps and wants that much.
    pub(super) fn announce(&self, bytes: usize) {
        let total = self.announced.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if self.asleep_until.load(Ordering::SeqCst) != AWAKE
            && total >= self.wanted.load(Ordering::SeqCst)
        {
            self.ring();
        }
    }

    /// Wakes the writer, whatever it waits for; or keeps it from going to sleep.
    pub(super) fn ring(&self) {
        let mut rung = self.rung.lock();
        if !*rung {
            *rung = true;
            self.bell.notify_one();
        }
    }

    /// The writer begins to look: what was announced before is seen by that.
    pub(super) fn begin_round(&self) {
        self.announced.store(0, Ordering::SeqCst);
    }

    /// The writer sleeps until `until` (`None`: for ever), a ring, an arrival, or `wanted`
    /// announced bytes.
    pub(super) fn sleep(&self, until: Option<Instant>, wanted: usize) {
        let until_nanos = until.map_or(FOREVER, |until| self.nanos(until).max(AWAKE + 1));
        self.wanted.store(wanted, Ordering::SeqCst);
        self.asleep_until.store(until_nanos, Ordering::SeqCst);
        let announced = self.announced.load(Ordering::SeqCst);
        let nothing_new = self.receiver.is_empty()
            && !self.overflow.load(Ordering::SeqCst)
            && (announced == 0 || announced < wanted);
        let mut rung = self.rung.lock();
        if nothing_new {
            while !*rung {
                match until {
                    None => self.bell.wait(&mut rung),
                    Some(until) => {
                        if self.bell.wait_until(&mut rung, until).timed_out() {
                            break;
                        }
                    }
                }
            }
        }
        *rung = false;
        drop(rung);
        self.asleep_until.store(AWAKE, Ordering::SeqCst);
    }

    fn nanos(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.start).as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::threads;

    #[test]
    fn an_announcement_before_sleep_keeps_the_writer_awake() {
        let queue = ReadyQueue::new(1);
        queue.begin_round();
        queue.announce(10);
        queue.sleep(None, 10);
        queue.begin_round();
        queue.ring();
        queue.sleep(None, usize::MAX);
    }

    #[test]
    fn enough_bytes_wake_the_sleeper_and_fewer_do_not() {
        let queue = Arc::new(ReadyQueue::new(1));
        let theirs = Arc::clone(&queue);
        let woken = threads::Stop::new();
        let at_end = woken.clone();
        let writer = threads::spawn("ottla-test", move || {
            theirs.sleep(None, 100);
            at_end.set();
        })
        .expect("a thread");
        while queue.asleep_until.load(Ordering::SeqCst) == AWAKE {
            threads::pause(Duration::from_millis(1));
        }
        queue.announce(60);
        assert!(!woken.is_set());
        queue.announce(60);
        writer.join();
    }

    #[test]
    fn a_sleeper_is_woken_for_an_earlier_due_time_only() {
        let queue = ReadyQueue::new(1);
        let second = Duration::from_secs(1);
        let now = clock::now();
        queue.asleep_until.store(queue.nanos(now + second), Ordering::SeqCst);
        queue.wake_before(now + second * 2);
        assert!(!*queue.rung.lock());
        queue.wake_before(now + second / 2);
        assert!(*queue.rung.lock());
    }
}
