//! The pool over connections that are no sockets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{KeyStats, Keyed, PoolSettings, Poolable, Pooled};
use crate::clock::{self, Deadline};
use crate::error::{Error, ErrorKind, Result};
use crate::net::testing::{eventually, soon};
use crate::net::{Address, Endpoint};
use crate::threads;

const HOUR: Duration = Duration::from_secs(3600);

/// Counts itself while it is open.
#[derive(Debug)]
struct Fake {
    number: usize,
    open: Arc<AtomicUsize>,
    reusable: AtomicBool,
    alive: AtomicBool,
}

impl Poolable for Fake {
    fn is_reusable(&self) -> bool {
        self.reusable.load(Ordering::SeqCst)
    }

    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fake {
    fn spoil(&self) {
        self.reusable.store(false, Ordering::SeqCst);
    }

    fn die(&self) {
        self.alive.store(false, Ordering::SeqCst);
    }
}

/// A pool with what makes its connections.
struct Setting {
    pool: Keyed<Fake>,
    made: AtomicUsize,
    open: Arc<AtomicUsize>,
}

impl Setting {
    fn new(settings: PoolSettings) -> Self {
        Self { pool: Keyed::new(settings), made: AtomicUsize::default(), open: Arc::default() }
    }

    fn poll_by(&self, endpoint: &Endpoint, deadline: Deadline) -> Result<Pooled<Fake>> {
        self.pool.poll_by(endpoint, deadline, |_| {
            self.open.fetch_add(1, Ordering::SeqCst);
            Ok(Fake {
                number: self.made.fetch_add(1, Ordering::SeqCst),
                open: Arc::clone(&self.open),
                reusable: AtomicBool::new(true),
                alive: AtomicBool::new(true),
            })
        })
    }

    fn poll(&self, endpoint: &Endpoint) -> Pooled<Fake> {
        self.poll_by(endpoint, soon()).expect("a connection")
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    fn stats(&self, endpoint: &Endpoint) -> KeyStats {
        let all = self.pool.stats();
        all.into_iter().find(|(key, _)| key == endpoint).map(|(_, stats)| stats).unwrap_or_default()
    }
}

fn broker(id: i32) -> Endpoint {
    Endpoint { id: Some(id), address: Address::new("kafka", 9092) }
}

#[test]
fn the_last_that_came_back_is_lent_first() {
    let setting = Setting::new(PoolSettings::new());
    let (one, two) = (setting.poll(&broker(1)), setting.poll(&broker(1)));
    let (first, second) = (one.number, two.number);
    two.give_back();
    one.give_back();
    let again = setting.poll(&broker(1));
    assert_eq!(again.number, first);
    assert_eq!(setting.poll(&broker(1)).number, second);
    let stats = setting.stats(&broker(1));
    assert_eq!((stats.open, stats.idle, stats.in_use), (2, 1, 1));
    assert_eq!((stats.opened, stats.reused, stats.discarded, stats.expired), (2, 2, 0, 0));
}

#[test]
fn an_empty_place_does_not_hide_an_idle_connection() {
    let setting = Setting::new(PoolSettings::new().per_key_max(3));
    let (one, two, three) =
        (setting.poll(&broker(1)), setting.poll(&broker(1)), setting.poll(&broker(1)));
    let kept = one.number;
    one.give_back();
    two.spoil();
    two.give_back();
    three.spoil();
    three.give_back();
    assert_eq!(setting.poll(&broker(1)).number, kept);
    assert_eq!(setting.open(), 1);
}

/// djc/bb8#167, mysql-connector-python#8 (B79).
#[test]
fn failures_and_panics_cost_no_place() {
    let setting = Setting::new(PoolSettings::new().per_key_max(5));
    for _ in 0..50 {
        let refuse = |_| Err(Error::new(ErrorKind::Connect, "refused"));
        let error = setting.pool.poll_by(&broker(1), soon(), refuse).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect);
    }
    for _ in 0..50 {
        setting.poll(&broker(1)).spoil();
    }
    for _ in 0..5 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = setting.poll(&broker(1));
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            drop(setting.pool.poll_by(&broker(1), soon(), |_| panic!("while connecting")));
        }));
        assert!(panicked.is_err());
    }
    assert_eq!(setting.open(), 0);
    let held: Vec<_> = (0..5).map(|_| setting.poll(&broker(1))).collect();
    let stats = setting.stats(&broker(1));
    assert_eq!((stats.open, stats.idle, stats.in_use, stats.discarded), (5, 0, 5, 55));
    drop(held);
}

/// sfackler/r2d2#142: r2d2 wakes nobody when it discards something.
#[test]
fn a_thread_that_waits_is_woken_by_a_broken_connection() {
    let setting = Arc::new(Setting::new(PoolSettings::new().per_key_max(1)));
    let held = setting.poll(&broker(1));
    let waiting = Arc::clone(&setting);
    let thread = threads::spawn("test-waiter", move || {
        let got = waiting.poll(&broker(1));
        assert_eq!(got.number, 1);
        waiting.pool.close(&broker(1));
    })
    .expect("a thread");
    eventually("a thread waits", || setting.stats(&broker(1)).waiting == 1);
    held.spoil();
    drop(held);
    // Within less time than its deadline has, or it was not woken.
    assert!(thread.join_by(Deadline::within(Duration::from_secs(15))));
    assert!(setting.pool.stats().is_empty(), "the waiter got its connection");
}

#[test]
fn a_full_key_gives_up_at_the_deadline_and_says_so() {
    let setting = Setting::new(PoolSettings::new().per_key_max(2));
    let held = (setting.poll(&broker(1)), setting.poll(&broker(1)));
    let error =
        setting.poll_by(&broker(1), Deadline::within(Duration::from_millis(10))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("2 of 2 are in use"), "{error}");
    assert_eq!(error.broker(), Some("1 (kafka:9092)"));
    // Other keys are not concerned.
    setting.poll(&broker(2));
    drop(held);
    setting.poll(&broker(1));
}

#[test]
fn what_died_while_idle_is_replaced() {
    let setting = Setting::new(PoolSettings::new());
    let held = setting.poll(&broker(1));
    held.die();
    drop(held);
    assert_eq!(setting.poll(&broker(1)).number, 1);
    assert_eq!(setting.open(), 1);
    assert_eq!(setting.stats(&broker(1)).discarded, 1);
}

#[test]
fn idle_connections_are_closed_by_age_and_number() {
    let settings = PoolSettings::new().idle_max(HOUR).ttl(Some(2 * HOUR)).idle_per_key_max(2);
    let setting = Setting::new(settings);
    let held: Vec<_> = (0..3).map(|_| setting.poll(&broker(1))).collect();
    drop(held);
    let stats = setting.stats(&broker(1));
    assert_eq!((stats.idle, stats.expired, setting.open()), (2, 1, 2));
    let now = clock::now();
    setting.pool.reap(now + HOUR / 2);
    assert_eq!(setting.open(), 2);
    let used = setting.poll(&broker(1));
    setting.pool.reap(now + HOUR);
    assert_eq!(setting.stats(&broker(1)).idle, 0, "what is lent stays");
    assert_eq!(setting.open(), 1);
    drop(used);
    setting.pool.reap(now + 3 * HOUR);
    assert_eq!(setting.open(), 0);
    assert!(setting.pool.stats().is_empty(), "an endpoint without connections is forgotten");
}

#[test]
fn the_pool_looks_at_the_ages_by_itself() {
    let setting = Setting::new(PoolSettings::new().idle_max(Duration::from_millis(20)));
    setting.poll(&broker(1)).give_back();
    eventually("the idle connection is closed", || setting.open() == 0);
    eventually("its endpoint is forgotten", || setting.pool.stats().is_empty());
}

#[test]
fn expired_connections_are_not_lent() {
    let setting = Setting::new(PoolSettings::new().ttl(Some(Duration::ZERO)));
    setting.poll(&broker(1)).give_back();
    assert_eq!(setting.poll(&broker(1)).number, 1);
}

#[test]
fn closing_a_key_closes_what_is_idle_and_later_what_is_lent() {
    let setting = Setting::new(PoolSettings::new());
    let (lent, idle, other) =
        (setting.poll(&broker(1)), setting.poll(&broker(1)), setting.poll(&broker(2)));
    idle.give_back();
    other.give_back();
    setting.pool.close(&broker(1));
    assert_eq!(setting.open(), 2, "the idle one is closed, another key's is not");
    lent.give_back();
    assert_eq!(setting.open(), 1);
    let lent = setting.poll(&broker(1));
    setting.pool.close_all();
    assert_eq!(setting.open(), 1);
    drop(setting.pool);
    drop(lent);
    assert_eq!(setting.open.load(Ordering::SeqCst), 0);
}

/// Many threads, few places: nobody is lost, and never more than the limit are open.
#[test]
fn many_threads_share_few_places() {
    const PLACES: u32 = 3;
    let setting = Arc::new(Setting::new(PoolSettings::new().per_key_max(PLACES)));
    let (most, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..8)
        .map(|index| {
            let (setting, most) = (Arc::clone(&setting), Arc::clone(&most));
            let finished = Arc::clone(&finished);
            threads::spawn("test-borrower", move || {
                for round in 0..100 {
                    let held = setting.poll(&broker(1));
                    most.fetch_max(setting.open(), Ordering::SeqCst);
                    if (round + index) % 3 == 0 {
                        held.spoil();
                    }
                }
                finished.fetch_add(1, Ordering::SeqCst);
            })
            .expect("a thread")
        })
        .collect();
    for thread in threads {
        assert!(thread.join_by(soon()));
    }
    assert_eq!(finished.load(Ordering::SeqCst), 8, "no thread failed");
    assert!(most.load(Ordering::SeqCst) <= PLACES as usize);
    let stats = setting.stats(&broker(1));
    assert_eq!((stats.in_use, stats.waiting), (0, 0));
    assert_eq!(stats.open as usize, setting.open());
    assert_eq!(stats.opened + stats.reused, 800);
}
