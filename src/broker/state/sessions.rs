//! Fetch sessions of one broker: Kafka's `FetchSessionCache` (KIP-227).
//!
//! A session keeps, in the order of their turn, the partitions that its client reads, so that requests
//! name only what changed and answers tell only what is new.
//!
//! Bounded: [`SESSIONS_MAX`] sessions with [`PARTITIONS_MAX`] partitions in all. A session makes room
//! when it was idle for [`IDLE_MS_MIN`]; where there is no room none is opened, which is no error.

use std::collections::BTreeMap;

use crate::protocol::Uuid;
use crate::protocol::messages::FetchPartition;

/// `max.incremental.fetch.session.cache.slots`.
const SESSIONS_MAX: usize = 1000;
/// Partitions that the sessions of a broker keep in all.
const PARTITIONS_MAX: usize = 1_000_000;
/// How long a session is safe from others that want its place
/// (`min.incremental.fetch.session.eviction.ms`).
const IDLE_MS_MIN: i64 = 120_000;

/// A partition as requests name it: by the topic's name or, from version 13 on, by its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::broker) struct SessionKey {
    pub(in crate::broker) topic: String,
    pub(in crate::broker) id: Uuid,
    pub(in crate::broker) partition: i32,
}

/// What a session keeps of a partition.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Cached {
    pub(in crate::broker) key: SessionKey,
    /// As it was asked for last.
    pub(in crate::broker) wanted: FetchPartition,
    /// As they were told last; -1 for never, or to tell them again.
    pub(in crate::broker) high_watermark: i64,
    pub(in crate::broker) log_start: i64,
}

/// A fetch session.
#[derive(Debug)]
pub(in crate::broker) struct Session {
    /// That of its next request.
    pub(in crate::broker) epoch: i32,
    /// Whether its requests name topics by id.
    pub(in crate::broker) by_id: bool,
    used_ms: i64,
    turns: BTreeMap<SessionKey, u64>,
    partitions: BTreeMap<u64, Cached>,
    next_turn: u64,
}

/// The sessions of a broker.
#[derive(Debug, Default)]
pub(in crate::broker) struct Sessions {
    by_id: BTreeMap<i32, Session>,
}

impl Session {
    fn new(by_id: bool, now_ms: i64) -> Self {
        Self {
            epoch: 1,
            by_id,
            used_ms: now_ms,
            turns: BTreeMap::new(),
            partitions: BTreeMap::new(),
            next_turn: 0,
        }
    }

    /// Its partitions, in the order of their turn.
    pub(in crate::broker) fn partitions(&self) -> impl Iterator<Item = &Cached> {
        self.partitions.values()
    }

    /// How many partitions it has.
    pub(in crate::broker) fn len(&self) -> usize {
        self.partitions.len()
    }

    /// A partition of it.
    pub(in crate::broker) fn get_mut(&mut self, key: &SessionKey) -> Option<&mut Cached> {
        self.partitions.get_mut(self.turns.get(key)?)
    }

    /// Adds a partition, or changes what is asked of one.
    pub(in crate::broker) fn put(&mut self, key: SessionKey, wanted: FetchPartition) {
        if let Some(cached) = self.get_mut(&key) {
            cached.wanted = wanted;
            return;
        }
        self.turns.insert(key.clone(), self.next_turn);
        let cached = Cached { key, wanted, high_watermark: -1, log_start: -1 };
        self.partitions.insert(self.next_turn, cached);
        self.next_turn += 1;
    }

    /// Drops a partition.
    pub(in crate::broker) fn forget(&mut self, key: &SessionKey) {
        if let Some(turn) = self.turns.remove(key) {
            self.partitions.remove(&turn);
        }
    }

    /// Puts a partition at the end of the order: it had its turn.
    pub(in crate::broker) fn move_to_end(&mut self, key: &SessionKey) {
        if let Some(turn) = self.turns.get_mut(key)
            && let Some(cached) = self.partitions.remove(turn)
        {
            *turn = self.next_turn;
            self.partitions.insert(self.next_turn, cached);
            self.next_turn += 1;
        }
    }

    /// Its next request was taken.
    pub(in crate::broker) fn advance(&mut self, now_ms: i64) {
        self.used_ms = now_ms;
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
    }
}

impl Sessions {
    /// Opens a session under `id`, unless that is taken or there is no room.
    pub(in crate::broker) fn open(
        &mut self,
        id: i32,
        by_id: bool,
        partitions: &[(SessionKey, FetchPartition)],
        now_ms: i64,
    ) -> bool {
        if self.by_id.len() >= SESSIONS_MAX {
            self.evict(now_ms);
        }
        let kept: usize = self.by_id.values().map(Session::len).sum();
        if self.by_id.len() >= SESSIONS_MAX
            || self.by_id.contains_key(&id)
            || kept + partitions.len() > PARTITIONS_MAX
        {
            return false;
        }
        let mut session = Session::new(by_id, now_ms);
        for (key, wanted) in partitions {
            session.put(key.clone(), wanted.clone());
        }
        self.by_id.insert(id, session);
        true
    }

    fn evict(&mut self, now_ms: i64) {
        let oldest = self.by_id.iter().min_by_key(|(_, session)| session.used_ms);
        let idle = oldest.filter(|(_, session)| now_ms - session.used_ms > IDLE_MS_MIN);
        if let Some(id) = idle.map(|(id, _)| *id) {
            self.by_id.remove(&id);
        }
    }

    /// The session with `id`.
    pub(in crate::broker) fn get_mut(&mut self, id: i32) -> Option<&mut Session> {
        self.by_id.get_mut(&id)
    }

    /// Ends a session.
    pub(in crate::broker) fn remove(&mut self, id: i32) {
        self.by_id.remove(&id);
    }

    /// Whether `more` partitions have room.
    pub(in crate::broker) fn has_room_for(&self, more: usize) -> bool {
        let kept: usize = self.by_id.values().map(Session::len).sum();
        kept + more <= PARTITIONS_MAX
    }

    /// How many there are.
    #[cfg(test)]
    pub(in crate::broker) fn len(&self) -> usize {
        self.by_id.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(partition: i32) -> SessionKey {
        SessionKey { topic: "t".to_owned(), id: Uuid::ZERO, partition }
    }

    fn order(session: &Session) -> Vec<i32> {
        session.partitions().map(|cached| cached.key.partition).collect()
    }

    #[test]
    fn partitions_keep_their_turn_until_they_had_it() {
        let mut session = Session::new(false, 0);
        (0..3).for_each(|partition| session.put(key(partition), FetchPartition::default()));
        session.move_to_end(&key(0));
        assert_eq!(order(&session), [1, 2, 0]);
        let wanted = FetchPartition { fetch_offset: 7, ..Default::default() };
        session.put(key(2), wanted);
        assert_eq!(order(&session), [1, 2, 0]);
        session.forget(&key(1));
        session.forget(&key(9));
        assert_eq!(order(&session), [2, 0]);
        assert_eq!(session.get_mut(&key(2)).expect("it is there").wanted.fetch_offset, 7);
    }

    #[test]
    fn a_full_cache_opens_a_session_only_in_place_of_an_idle_one() {
        let mut sessions = Sessions::default();
        for id in 1..=SESSIONS_MAX as i32 {
            assert!(sessions.open(id, false, &[], i64::from(id)));
        }
        assert!(!sessions.open(-5, false, &[], IDLE_MS_MIN));
        assert!(sessions.open(-5, false, &[], IDLE_MS_MIN + 2));
        assert!(sessions.get_mut(1).is_none(), "the oldest made room");
        assert_eq!(sessions.len(), SESSIONS_MAX);
    }
}
