//! The groups of the cluster: their members, their offsets, and who waits for them.
//!
//! ```text
//! classic   Group, the state machine of the classic protocol
//! member    what goes into and out of it
//! offsets   Offsets of a group
//! ```
//!
//! A group is one thing to all brokers; which of them coordinates it is told by `coordinators`. Every
//! access to a group's members goes through [`State::group`] or [`State::with_group`], which first let
//! its time pass: what has expired is gone before anybody looks.
//!
//! A request that waits announces itself with [`State::await_group`] under the number of its connection;
//! its answer is kept until it takes it or its connection ends. What the groups take is bounded:
//! [`GROUPS_MAX`], [`GROUPS_BYTES_MAX`], [`OFFSETS_MAX`].

mod classic;
mod member;
mod offsets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Instant;

pub(in crate::broker) use classic::{Group, GroupState, Subscribed};
pub(in crate::broker) use member::{Answer, Identity, Join, Joined, Sync, Synced, Ticket};
pub(in crate::broker) use offsets::{Committed, Offsets};

use super::State;

/// More groups than that are refused.
pub(in crate::broker) const GROUPS_MAX: usize = 10_000;
/// What all members of all groups may take; a join beyond it is refused.
pub(in crate::broker) const GROUPS_BYTES_MAX: usize = 256 << 20;
/// More committed offsets than that are refused.
pub(in crate::broker) const OFFSETS_MAX: usize = 1_000_000;
/// What committed metadata may take altogether.
pub(in crate::broker) const OFFSETS_BYTES_MAX: usize = 256 << 20;

/// All groups.
#[derive(Debug, Default)]
pub(in crate::broker) struct Groups {
    by_id: BTreeMap<String, Entry>,
    /// Who waits, and what they are to be told.
    waiting: BTreeMap<Ticket, Option<Answer>>,
}

/// A group with its offsets.
#[derive(Debug, Default)]
struct Entry {
    group: Group,
    offsets: Offsets,
    /// The bytes of the members when they were last counted.
    weight: usize,
}

impl State {
    /// The group, as it is at `now`.
    pub(in crate::broker) fn group(&mut self, id: &str, now: Instant) -> Option<&Group> {
        self.with_group(id, now, |_| ());
        self.groups.by_id.get(id).map(|entry| &entry.group)
    }

    /// Does something to a group, as it is at `now`; `None` when there is no such group.
    pub(in crate::broker) fn with_group<T>(
        &mut self,
        id: &str,
        now: Instant,
        action: impl FnOnce(&mut Group) -> T,
    ) -> Option<T> {
        let entry = self.groups.by_id.get_mut(id)?;
        entry.group.advance(now);
        let result = action(&mut entry.group);
        // What the action made due at once, as a time-out of zero.
        entry.group.advance(now);
        entry.weight = id.len() + entry.group.weight();
        let answers = entry.group.take_answers();
        if !answers.is_empty() {
            for (ticket, answer) in answers {
                if let Some(place) = self.groups.waiting.get_mut(&ticket) {
                    *place = Some(answer);
                }
            }
            self.changed();
        }
        Some(result)
    }

    /// Makes a group unless it is there. `false` when there are too many already; those that hold
    /// nothing give way.
    pub(in crate::broker) fn ensure_group(&mut self, id: &str, now: Instant) -> bool {
        if self.groups.by_id.contains_key(id) {
            return true;
        }
        let full = |groups: &Groups| {
            groups.by_id.len() >= GROUPS_MAX || groups.weight() + id.len() > GROUPS_BYTES_MAX
        };
        if full(&self.groups) {
            for id in self.groups.by_id.keys().cloned().collect::<Vec<_>>() {
                self.with_group(&id, now, |_| ());
            }
            self.groups.by_id.retain(|_, entry| !entry.group.is_idle() || entry.offsets.len() > 0);
        }
        if full(&self.groups) {
            return false;
        }
        let entry = Entry { weight: id.len(), ..Entry::default() };
        self.groups.by_id.insert(id.to_owned(), entry);
        true
    }

    /// Whether a member with so many bytes has room.
    pub(in crate::broker) fn has_room_for_member(&self, bytes: usize) -> bool {
        self.groups.weight() + bytes <= GROUPS_BYTES_MAX
    }

    /// Whether `count` more offsets with so many bytes of metadata have room.
    pub(in crate::broker) fn has_room_for_offsets(&self, count: usize, bytes: usize) -> bool {
        let offsets = || self.groups.by_id.values().map(|entry| &entry.offsets);
        let held: usize = offsets().map(Offsets::len).sum();
        let weight: usize = offsets().map(Offsets::weight).sum();
        held + count <= OFFSETS_MAX && weight + bytes <= OFFSETS_BYTES_MAX
    }

    /// Deletes a group with its offsets; it must have no members.
    pub(in crate::broker) fn delete_group(&mut self, id: &str) {
        self.groups.by_id.remove(id);
    }

    /// All groups as they are at `now`, by id.
    pub(in crate::broker) fn all_groups(&mut self, now: Instant) -> Vec<(&str, &Group)> {
        for id in self.groups.by_id.keys().cloned().collect::<Vec<_>>() {
            self.with_group(&id, now, |_| ());
        }
        self.groups.by_id.iter().map(|(id, entry)| (id.as_str(), &entry.group)).collect()
    }

    /// A group's offsets.
    pub(in crate::broker) fn offsets(&self, group: &str) -> Option<&Offsets> {
        self.groups.by_id.get(group).map(|entry| &entry.offsets)
    }

    /// A group's offsets, to change them.
    pub(in crate::broker) fn offsets_mut(&mut self, group: &str) -> Option<&mut Offsets> {
        self.groups.by_id.get_mut(group).map(|entry| &mut entry.offsets)
    }

    /// The transaction of a producer has ended for some groups: its offsets count, or go.
    pub(in crate::broker) fn end_pending_offsets(
        &mut self,
        producer_id: i64,
        commit: bool,
        is_part: impl Fn(&str) -> bool,
    ) {
        let mut any = false;
        for (_, entry) in self.groups.by_id.iter_mut().filter(|(id, _)| is_part(id)) {
            any |= entry.offsets.end_transaction(producer_id, commit);
        }
        if any {
            self.changed();
        }
    }

    /// A topic has been deleted: its offsets go.
    pub(in crate::broker) fn forget_offsets_of(&mut self, topic: &str) {
        for entry in self.groups.by_id.values_mut() {
            entry.offsets.delete_topic(topic);
        }
    }

    /// The connection with this number waits for an answer from a group.
    pub(in crate::broker) fn await_group(&mut self, ticket: Ticket) {
        self.groups.waiting.insert(ticket, None);
    }

    /// The answer for who waits, if it is known; then it waits no more.
    pub(in crate::broker) fn take_group_answer(&mut self, ticket: Ticket) -> Option<Answer> {
        let answer = self.groups.waiting.get_mut(&ticket)?.take()?;
        self.groups.waiting.remove(&ticket);
        Some(answer)
    }

    /// Nobody waits under this number any more.
    pub(in crate::broker) fn forget_group_answer(&mut self, ticket: Ticket) {
        self.groups.waiting.remove(&ticket);
    }
}

impl Groups {
    fn weight(&self) -> usize {
        self.by_id.values().map(|entry| entry.weight).sum()
    }
}
