//! A queue under test: its clock stands still but for [`Rig::advance`], and its store can be injured.

use std::time::Duration;

use crate::work::memory::MemoryQueue;
use crate::work::queue::{QueueRules, WorkQueue};
use crate::work::unit::{TopicPartition, UnitId, WorkerId};

/// Rules with which times are easy to count: no sum of multiples of 5 s lies near the lock's end.
pub(super) fn rules() -> QueueRules {
    QueueRules {
        lease: Duration::from_secs(30),
        worker_timeout: Duration::from_secs(60),
        leader_lock: Duration::from_secs(19),
        max_attempts: 3,
        retry_backoff: Duration::from_secs(5),
        retry_backoff_max: Duration::from_secs(40),
    }
}

/// A key, or all of them, that the store loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Everything,
    Part(TopicPartition),
    Out(TopicPartition),
    Done(TopicPartition),
    Unit(UnitId),
    Work,
    List(WorkerId),
    Workers,
    Times,
    Leader,
}

pub(super) trait Rig {
    fn queue(&self) -> &dyn WorkQueue;

    fn advance(&self, by: Duration);

    fn lose(&self, loss: &Loss);

    /// Puts an entry where the next pop finds it.
    fn push_hint(&self, entry: &str);

    /// Remembers the state; calling the answer brings it back.
    fn save(&self) -> Box<dyn Fn() + '_>;
}

pub(super) struct MemoryRig(MemoryQueue);

impl MemoryRig {
    pub(super) fn new() -> Self {
        Self(MemoryQueue::with_manual_clock(rules()))
    }
}

impl Rig for MemoryRig {
    fn queue(&self) -> &dyn WorkQueue {
        &self.0
    }

    fn advance(&self, by: Duration) {
        self.0.advance(by);
    }

    fn lose(&self, loss: &Loss) {
        self.0.with_life(|life| match loss {
            Loss::Everything => *life = crate::work::life::Life::new(rules()),
            Loss::Part(of) => life.lose_part(of),
            Loss::Out(of) => life.lose_out(of),
            Loss::Done(of) => life.lose_done(of),
            Loss::Unit(unit) => life.lose_unit(unit),
            Loss::Work => life.lose_work(),
            Loss::List(worker) => life.lose_list(worker.as_str()),
            Loss::Workers => life.lose_workers(),
            Loss::Times => life.lose_times(),
            Loss::Leader => life.lose_leader(),
        });
    }

    fn push_hint(&self, entry: &str) {
        self.0.with_life(|life| life.push_hint(entry));
    }

    fn save(&self) -> Box<dyn Fn() + '_> {
        let saved = self.0.with_life(|life| life.clone());
        Box::new(move || self.0.with_life(|life| *life = saved.clone()))
    }
}

#[cfg(feature = "real-servers")]
pub(super) use on_redis::RedisRig;

#[cfg(feature = "real-servers")]
mod on_redis {
    use r2d2_redis::redis::Value;

    use super::*;
    use crate::work::redis::{Redis, RedisQueue};
    use crate::work::unit::LeaderId;

    /// A group of its own on the Redis of this test run; it leaves nothing behind.
    pub(in crate::work::tests) struct RedisRig(RedisQueue);

    impl RedisRig {
        pub(in crate::work::tests) fn new() -> Self {
            let url = std::env::var("OTTLA_REDIS").unwrap_or_else(|_| {
                panic!("OTTLA_REDIS is not set: this test needs Redis; run tests/all.sh, which starts it")
            });
            let group = format!("rig-{}", LeaderId::random());
            let queue = Redis::at(&url).on_manual_clock(&group, rules()).expect("a URL");
            let rig = Self(queue);
            rig.set("clock", b"1000000");
            rig
        }

        fn key(&self, name: &str) -> Vec<u8> {
            format!("{}{name}", self.0.base()).into_bytes()
        }

        fn set(&self, name: &str, value: &[u8]) {
            self.raw(&[b"SET", &self.key(name), value]);
        }

        fn delete(&self, name: &str) {
            self.raw(&[b"DEL", &self.key(name)]);
        }

        fn raw(&self, arguments: &[&[u8]]) -> Value {
            self.0.raw(arguments).expect("Redis answers")
        }

        fn number(&self, arguments: &[&[u8]]) -> i64 {
            match self.raw(arguments) {
                Value::Int(number) => number,
                Value::Data(text) => String::from_utf8(text).unwrap().parse().unwrap(),
                other => panic!("{other:?}"),
            }
        }

        /// Every key of the group but the clock.
        fn keys(&self) -> Vec<Vec<u8>> {
            let pattern = [self.0.base().as_bytes(), b"*"].concat();
            let Value::Bulk(keys) = self.raw(&[b"KEYS", &pattern]) else { panic!("no list") };
            let keys = keys.into_iter().map(|key| match key {
                Value::Data(key) => key,
                other => panic!("{other:?}"),
            });
            keys.filter(|key| *key != self.key("clock")).collect()
        }

        fn clear(&self) {
            for key in self.keys() {
                self.raw(&[b"DEL", &key]);
            }
        }
    }

    impl Drop for RedisRig {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                self.clear();
                self.delete("clock");
            }
        }
    }

    impl Rig for RedisRig {
        fn queue(&self) -> &dyn WorkQueue {
            &self.0
        }

        fn advance(&self, by: Duration) {
            let by = by.as_millis() as i64;
            self.raw(&[b"INCRBY", &self.key("clock"), by.to_string().as_bytes()]);
            let left = self.number(&[b"PTTL", &self.key("leader")]);
            if left > by {
                let left = (left - by).to_string();
                self.raw(&[b"PEXPIRE", &self.key("leader"), left.as_bytes()]);
            } else {
                self.delete("leader");
            }
        }

        fn lose(&self, loss: &Loss) {
            match loss {
                Loss::Everything => self.clear(),
                Loss::Part(of) => self.delete(&format!("part:{of}")),
                Loss::Out(of) => self.delete(&format!("out:{of}")),
                Loss::Done(of) => self.delete(&format!("done:{of}")),
                Loss::Unit(unit) => self.delete(&format!("u:{unit}")),
                Loss::Work => self.delete("work"),
                Loss::List(worker) => self.delete(&format!("working:{worker}")),
                Loss::Workers => self.delete("workers"),
                Loss::Times => {
                    for name in ["leases", "delayed", "dead"] {
                        self.delete(name);
                    }
                }
                Loss::Leader => self.delete("leader"),
            }
        }

        fn push_hint(&self, entry: &str) {
            self.raw(&[b"RPUSH", &self.key("work"), entry.as_bytes()]);
        }

        fn save(&self) -> Box<dyn Fn() + '_> {
            let dump = |key: Vec<u8>| {
                let Value::Data(value) = self.raw(&[b"DUMP", &key]) else { panic!("no dump") };
                let ttl = self.number(&[b"PTTL", &key]).max(0);
                (key, value, ttl)
            };
            let saved: Vec<_> = self.keys().into_iter().map(dump).collect();
            let then = self.number(&[b"GET", &self.key("clock")]);
            Box::new(move || {
                self.clear();
                let elapsed = self.number(&[b"GET", &self.key("clock")]) - then;
                for (key, value, ttl) in &saved {
                    // Redis stores the moment at which a key expires, not what is left.
                    if (1..=elapsed).contains(ttl) {
                        continue;
                    }
                    let ttl = if *ttl == 0 { 0 } else { ttl - elapsed };
                    self.raw(&[b"RESTORE", key, ttl.to_string().as_bytes(), value]);
                }
            })
        }
    }
}
