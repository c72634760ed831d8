//! The transaction coordinator: transactional ids, their producers and open transactions.
//!
//! ```text
//! machine   Transaction: the state machine of one transactional id
//! ```
//!
//! Which broker coordinates an id is told by `coordinators`; what is coordinated is one thing to all of
//! them. Markers are written in the moment in which a transaction is decided, so Prepare states are
//! never seen from outside. The offsets of a group belong to a partition of `__consumer_offsets`, as in
//! Kafka; it exists in name only.
//!
//! A transaction that takes too long is aborted by [`State::expire_transactions`], which whoever serves a
//! request calls before anybody looks, and whoever waits calls at [`State::next_expiry`].
//!
//! Bounded: [`TRANSACTIONS_MAX`] ids and [`BYTES_MAX`]; an id without an open transaction gives way to a
//! new one, the one that was of no use for longest first.

mod machine;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use machine::{End, Ending, Init, Status};
pub(in crate::broker) use machine::{Place, Producer, Protocol, Transaction};

use super::State;
use super::coordinators::java_hash;
use super::log::Marker;
use crate::protocol::ErrorCode;

/// Transactional ids that are known at one time.
const TRANSACTIONS_MAX: usize = 10_000;
/// What they and their partitions may take.
const BYTES_MAX: usize = 64 << 20;
/// What an id or a partition takes besides its name.
const OVERHEAD_BYTES: usize = 200;
/// The topic that offsets of groups are stored in.
pub(in crate::broker) const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// `offsets.topic.num.partitions`.
const OFFSETS_PARTITIONS: u32 = 50;

/// All transactional ids.
#[derive(Debug, Default)]
pub(in crate::broker) struct Transactions {
    by_id: BTreeMap<String, Transaction>,
    /// No open transaction is due before; there may be none any more that is due then.
    due: Option<Instant>,
    bytes: usize,
}

/// Where the offsets of a group are stored.
pub(in crate::broker) fn offsets_place(group: &str) -> Place {
    (OFFSETS_TOPIC.to_owned(), (java_hash(group) % OFFSETS_PARTITIONS) as i32)
}

impl State {
    /// Gives a producer with a transactional id its id and epoch; `as_known` when it has been there.
    ///
    /// # Errors
    /// `INVALID_TRANSACTION_TIMEOUT`, `PRODUCER_FENCED`, `CONCURRENT_TRANSACTIONS` while a transaction
    /// is aborted first, `COORDINATOR_NOT_AVAILABLE` when there are too many.
    pub(in crate::broker) fn init_transactions(
        &mut self,
        id: &str,
        as_known: Option<Producer>,
        timeout_ms: i32,
        (now, now_ms): (Instant, i64),
    ) -> Result<Producer, ErrorCode> {
        if !Transaction::may_take(timeout_ms) {
            return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        }
        if !self.transactions.by_id.contains_key(id) {
            let bytes = id.len() + OVERHEAD_BYTES;
            if !self.transactions.make_room(1, bytes) {
                return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            }
            let new = Transaction::new(self.new_producer_id(), now);
            self.transactions.by_id.insert(id.to_owned(), new);
            self.transactions.bytes += bytes;
        }
        let (next_id, known) = (&mut self.next_producer_id, &mut self.transactions.by_id);
        let transaction = known.get_mut(id).expect("it was put there if it was not");
        match transaction.init(as_known, timeout_ms, now, || take_id(next_id))? {
            Init::Ready(producer) => Ok(producer),
            Init::Abort(ending) => {
                self.carry_out(id, &ending, now_ms);
                Err(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
        }
    }

    /// Adds partitions to the transaction of a producer, which begins if it has not.
    ///
    /// # Errors
    /// `INVALID_PRODUCER_ID_MAPPING`, `PRODUCER_FENCED`, `CONCURRENT_TRANSACTIONS`,
    /// `COORDINATOR_NOT_AVAILABLE` when there are too many.
    pub(in crate::broker) fn add_to_transaction(
        &mut self,
        id: &str,
        producer: Producer,
        places: &BTreeSet<Place>,
        (now, now_ms): (Instant, i64),
    ) -> Result<(), ErrorCode> {
        let transaction = self.transactions.get(id)?;
        transaction.admit(producer)?;
        let new = places.difference(transaction.partitions());
        let bytes = new.map(weigh).sum();
        if !self.transactions.make_room(0, bytes) {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        // It may have given way itself while it was idle.
        let transaction = self.transactions.get_mut(id)?;
        transaction.add(producer, places.iter().cloned(), now, now_ms)?;
        let deadline = transaction.deadline();
        self.transactions.bytes += bytes;
        self.transactions.due = self.transactions.due.into_iter().chain(deadline).min();
        // Whoever waits has to know how long at most.
        self.changed();
        Ok(())
    }

    /// Whether a partition is part of the transaction of a producer.
    ///
    /// # Errors
    /// `TRANSACTION_ABORTABLE` when it is not, `INVALID_PRODUCER_ID_MAPPING`, `PRODUCER_FENCED`,
    /// `CONCURRENT_TRANSACTIONS`.
    pub(in crate::broker) fn verify_in_transaction(
        &self,
        id: &str,
        producer: Producer,
        place: &Place,
    ) -> Result<(), ErrorCode> {
        let transaction = self.transactions.get(id)?;
        transaction.admit(producer)?;
        if transaction.partitions().contains(place) {
            Ok(())
        } else {
            Err(ErrorCode::TRANSACTION_ABORTABLE)
        }
    }

    /// Commits or aborts the transaction of a producer; gives the producer as it goes on.
    ///
    /// # Errors
    /// `INVALID_PRODUCER_ID_MAPPING`, `PRODUCER_FENCED`, `CONCURRENT_TRANSACTIONS`, `INVALID_TXN_STATE`.
    pub(in crate::broker) fn end_transaction(
        &mut self,
        id: &str,
        producer: Producer,
        commit: bool,
        protocol: Protocol,
        (now, now_ms): (Instant, i64),
    ) -> Result<Producer, ErrorCode> {
        let next_id = &mut self.next_producer_id;
        let transaction = self.transactions.by_id.get_mut(id);
        let transaction = transaction.ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
        let new_id = || take_id(next_id);
        match transaction.end(producer, commit, protocol, (now, now_ms), new_id)? {
            End::Before(producer) => Ok(producer),
            End::Now(ending) => {
                self.carry_out(id, &ending, now_ms);
                Ok(ending.next)
            }
        }
    }

    /// Aborts the transactions that take too long, and fences their producers.
    pub(in crate::broker) fn expire_transactions(&mut self, now: Instant, now_ms: i64) {
        if self.transactions.due.is_none_or(|due| now < due) {
            return;
        }
        let mut endings = Vec::new();
        for (id, transaction) in &mut self.transactions.by_id {
            if transaction.deadline().is_some_and(|deadline| deadline <= now) {
                endings.push((id.clone(), transaction.fence(now)));
            }
        }
        for (id, ending) in endings {
            self.carry_out(&id, &ending, now_ms);
        }
        let open = self.transactions.by_id.values();
        self.transactions.due = open.filter_map(Transaction::deadline).min();
    }

    /// When the next transaction may have to be aborted.
    pub(in crate::broker) fn next_expiry(&self) -> Option<Instant> {
        self.transactions.due
    }

    /// What is known of a transactional id.
    pub(in crate::broker) fn transaction(&self, id: &str) -> Option<&Transaction> {
        self.transactions.by_id.get(id)
    }

    /// All transactional ids.
    pub(in crate::broker) fn transactions(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.transactions.by_id.iter().map(|(id, transaction)| (id.as_str(), transaction))
    }

    /// Tells the partitions of a transaction how it ends.
    fn carry_out(&mut self, id: &str, ending: &Ending, now_ms: i64) {
        let (producer_id, epoch) = ending.producer;
        let commit = ending.commit;
        let marker = Marker { producer_id, epoch, commit, coordinator_epoch: 0, now_ms };
        for (topic, partition) in &ending.partitions {
            if topic == OFFSETS_TOPIC {
                continue;
            }
            if let Err(why) = self.append_marker(topic, *partition, marker) {
                // As in Kafka: a partition that was deleted needs none, and one that knows a later
                // epoch of the producer has had its end.
                log::debug!("no marker of {id} for {topic}-{partition}: {why}");
            }
        }
        self.end_pending_offsets(producer_id, commit, |group| {
            ending.partitions.contains(&offsets_place(group))
        });
        if let Some(transaction) = self.transactions.by_id.get_mut(id) {
            transaction.complete();
        }
        let freed: usize = ending.partitions.iter().map(weigh).sum();
        self.transactions.bytes = self.transactions.bytes.saturating_sub(freed);
        self.changed();
    }
}

impl Transactions {
    fn get(&self, id: &str) -> Result<&Transaction, ErrorCode> {
        self.by_id.get(id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
    }

    fn get_mut(&mut self, id: &str) -> Result<&mut Transaction, ErrorCode> {
        self.by_id.get_mut(id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
    }

    /// Whether so many ids and bytes more have room, which idle ids make.
    fn make_room(&mut self, ids: usize, bytes: usize) -> bool {
        while self.by_id.len() + ids > TRANSACTIONS_MAX || self.bytes + bytes > BYTES_MAX {
            let idle = self.by_id.iter().filter(|(_, known)| known.status() != Status::Ongoing);
            let Some(id) = idle.min_by_key(|(_, known)| known.used()).map(|(id, _)| id.clone())
            else {
                return false;
            };
            self.by_id.remove(&id);
            self.bytes = self.bytes.saturating_sub(id.len() + OVERHEAD_BYTES);
        }
        true
    }
}

fn weigh((topic, _): &Place) -> usize {
    topic.len() + OVERHEAD_BYTES
}

fn take_id(next: &mut i64) -> i64 {
    let id = *next;
    *next += 1;
    id
}
