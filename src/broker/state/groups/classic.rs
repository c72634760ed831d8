//! [`Group`]: one group of the classic protocol, as a state machine without a clock.
//!
//! ```text
//!            a member joins             all have joined, or the time is over
//!   Empty ------------------> Preparing --------------------> Completing
//!     ^                        |     ^  ^                         | the leader's
//!     |  nobody is left        |     |  +---- someone leaves -----+ assignments
//!     +------------------------+     |        or joins            v
//!                                    +------------------------- Stable
//! ```
//!
//! Follows `GroupMetadataManager` and `ClassicGroup` of Kafka (with
//! `group.initial.rebalance.delay.ms` = 0); Kafka's state Dead is a group that is not there. What a
//! member waits for is answered through [`Group::take_answers`], under the ticket that came with
//! the request, at once or later.
//!
//! Time comes as an argument and passes only in [`Group::advance`], which applies what has come due
//! in the order in which it came due, each at its own moment: however late it is called, the result is
//! the same. [`Group::next_event`] says when to call it.
//!
//! Invariants: the leader is a member, or there is none; in Stable and Completing every member has
//! been told the generation or is a static member that may yet come back; who waits to join waits
//! in Preparing, who waits for an assignment in Completing; every ticket is answered exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::member::{Answer, Identity, Join, Joined, Member, Sync, Synced, Ticket};
use crate::protocol::{Bytes, ErrorCode};

/// More members than that, those announced included, are refused with `GROUP_MAX_SIZE_REACHED`.
pub(in crate::broker) const MEMBERS_MAX: usize = 1_000;
/// More protocols than that in one join are refused.
const PROTOCOLS_MAX: usize = 100;
/// A member that takes more bytes than that is refused (Kafka: what fits into one record).
pub(in crate::broker) const MEMBER_BYTES_MAX: usize = 1 << 20;
/// More bytes of assignments than that are refused (Kafka: what fits into one record).
const ASSIGNMENTS_BYTES_MAX: usize = 16 << 20;
/// How long a member that joins for the first time is kept without a sign of life (Kafka's
/// `NEW_MEMBER_JOIN_TIMEOUT_MS`).
const NEW_MEMBER_TIMEOUT: Duration = Duration::from_secs(300);
/// The least time between two attempts to end a join to which nobody has come.
const JOIN_RETRY_MIN: Duration = Duration::from_secs(1);
/// The protocol type of consumers.
const CONSUMER: &str = "consumer";

/// Where a group stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::broker) enum GroupState {
    /// Without members.
    #[default]
    Empty,
    /// Members are waited for.
    Preparing,
    /// The leader's assignments are waited for.
    Completing,
    /// Everybody can work.
    Stable,
}

impl GroupState {
    /// Kafka's word.
    pub(in crate::broker) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Preparing => "PreparingRebalance",
            Self::Completing => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// The topics to which the members of a group subscribe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Subscribed {
    /// These.
    To(BTreeSet<String>),
    /// Perhaps any: a consumer's metadata cannot be read.
    Anything,
}

impl Default for Subscribed {
    fn default() -> Self {
        Self::To(BTreeSet::new())
    }
}

impl Subscribed {
    /// Whether a member may subscribe to `topic`.
    pub(in crate::broker) fn contains(&self, topic: &str) -> bool {
        match self {
            Self::To(topics) => topics.contains(topic),
            Self::Anything => true,
        }
    }
}

/// A group of the classic protocol.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Group {
    state: GroupState,
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    members: BTreeMap<String, Member>,
    /// Static names and the members that have them now.
    statics: BTreeMap<String, String>,
    /// Ids that were given away and have not come back, and until when they may.
    announced: BTreeMap<String, Instant>,
    /// How many members know each protocol.
    supported: BTreeMap<String, usize>,
    /// Members that have not asked for their assignment of this generation.
    unsynced: BTreeSet<String>,
    join_deadline: Option<Instant>,
    sync_deadline: Option<Instant>,
    answers: Vec<(Ticket, Answer)>,
}

impl Group {
    /// Where it stands.
    pub(in crate::broker) fn state(&self) -> GroupState {
        self.state
    }

    /// The generation.
    #[cfg(test)]
    pub(in crate::broker) fn generation(&self) -> i32 {
        self.generation
    }

    /// The kind of its members, `None` where there never was one.
    pub(in crate::broker) fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    /// The chosen protocol.
    pub(in crate::broker) fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// The members by id.
    pub(in crate::broker) fn members(&self) -> &BTreeMap<String, Member> {
        &self.members
    }

    /// The member that leads.
    #[cfg(test)]
    pub(in crate::broker) fn leader(&self) -> Option<&str> {
        self.leader.as_deref()
    }

    /// Whether its members are consumers.
    pub(in crate::broker) fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// Whether nobody is in it, nor announced.
    pub(in crate::broker) fn is_idle(&self) -> bool {
        self.state == GroupState::Empty && self.announced.is_empty()
    }

    /// The bytes that its members take.
    pub(in crate::broker) fn weight(&self) -> usize {
        let members: usize =
            self.members.iter().map(|(id, member)| id.len() + member.weight()).sum();
        members + self.announced.keys().map(String::len).sum::<usize>()
    }

    /// Takes the answers that have become known.
    pub(in crate::broker) fn take_answers(&mut self) -> Vec<(Ticket, Answer)> {
        std::mem::take(&mut self.answers)
    }

    /// A member joins, or joins again; the answer comes through its ticket.
    pub(in crate::broker) fn join(&mut self, join: &Join, now: Instant) {
        let id = join.member_id.clone();
        let refuse = |error| Answer::Join(Joined::refused(error, &id));
        let weight: usize =
            join.protocols.iter().map(|(name, metadata)| name.len() + metadata.len()).sum();
        if !self.accepts(&id) || weight > MEMBER_BYTES_MAX {
            let refused = Joined::refused(ErrorCode::GROUP_MAX_SIZE_REACHED, "");
            self.answers.push((join.ticket, Answer::Join(refused)));
        } else if !self.supports(join) {
            self.answers.push((join.ticket, refuse(ErrorCode::INCONSISTENT_GROUP_PROTOCOL)));
        } else if id.is_empty() {
            self.join_new(join, now);
        } else if self.announced.contains_key(&id) {
            if join.instance_id.is_some() {
                self.answers.push((join.ticket, refuse(ErrorCode::UNKNOWN_SERVER_ERROR)));
            } else {
                self.add(id, join, now);
            }
        } else {
            self.join_again(join, now);
        }
    }

    /// A member asks for its assignment; the answer comes through its ticket.
    pub(in crate::broker) fn sync(&mut self, sync: Sync, now: Instant) {
        let differs = |theirs: &Option<String>, ours: &Option<String>| matches!((theirs, ours), (Some(theirs), Some(ours)) if theirs != ours);
        let refusal = self.validate(&sync.identity).err().or_else(|| {
            if sync.generation != self.generation {
                Some(ErrorCode::ILLEGAL_GENERATION)
            } else if differs(&sync.protocol_type, &self.protocol_type)
                || differs(&sync.protocol, &self.protocol)
            {
                Some(ErrorCode::INCONSISTENT_GROUP_PROTOCOL)
            } else if matches!(self.state, GroupState::Preparing) {
                Some(ErrorCode::REBALANCE_IN_PROGRESS)
            } else {
                None
            }
        });
        let id = &sync.identity.member_id;
        if let Some(error) = refusal {
            let refused = Synced { error, ..Synced::default() };
            return self.answers.push((sync.ticket, Answer::Sync(refused)));
        }
        self.unsynced.remove(id);
        if self.unsynced.is_empty() {
            self.sync_deadline = None;
        }
        let member = self.members.get_mut(id).expect("validated");
        if self.state == GroupState::Stable {
            let answer = Synced {
                error: ErrorCode::NONE,
                protocol_type: self.protocol_type.clone(),
                protocol: self.protocol.clone(),
                assignment: member.assignment.clone(),
            };
            return self.answers.push((sync.ticket, Answer::Sync(answer)));
        }
        if let Some(earlier) = member.syncing.replace(sync.ticket)
            && earlier != sync.ticket
        {
            self.answers.push((earlier, superseded_sync()));
        }
        if self.leader.as_ref() == Some(id) {
            self.assign(sync.assignments, now);
        }
    }

    /// A sign of life.
    pub(in crate::broker) fn heartbeat(
        &mut self,
        identity: &Identity,
        generation: i32,
        now: Instant,
    ) -> ErrorCode {
        if let Err(error) = self.validate(identity) {
            return error;
        }
        if generation != self.generation {
            return ErrorCode::ILLEGAL_GENERATION;
        }
        self.renew(&identity.member_id, now);
        match self.state {
            GroupState::Empty => ErrorCode::UNKNOWN_MEMBER_ID,
            GroupState::Preparing => ErrorCode::REBALANCE_IN_PROGRESS,
            GroupState::Completing | GroupState::Stable => ErrorCode::NONE,
        }
    }

    /// Members leave; one error each.
    pub(in crate::broker) fn leave(
        &mut self,
        members: &[Identity],
        now: Instant,
    ) -> Vec<ErrorCode> {
        let results: Vec<ErrorCode> = members.iter().map(|member| self.leave_one(member)).collect();
        if results.contains(&ErrorCode::NONE) && self.state != GroupState::Empty {
            self.rebalance(now);
        }
        results
    }

    /// Whether a member may commit offsets; `transactional` ones are not held up by a rebalance.
    pub(in crate::broker) fn may_commit(
        &self,
        identity: &Identity,
        generation: i32,
        transactional: bool,
    ) -> Result<(), ErrorCode> {
        if generation < 0 && self.state == GroupState::Empty {
            return Ok(());
        }
        if generation >= 0 || !identity.member_id.is_empty() || identity.instance_id.is_some() {
            self.validate(identity)?;
            if generation != self.generation {
                return Err(ErrorCode::ILLEGAL_GENERATION);
            }
        } else if !transactional && self.state != GroupState::Empty {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        if !transactional && self.state == GroupState::Completing {
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        Ok(())
    }

    /// A member has shown that it lives: its session begins anew.
    pub(in crate::broker) fn renew(&mut self, member_id: &str, now: Instant) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.expires = Some(now + member.session_timeout);
        }
    }

    /// Who waited with `ticket` waits no more, for the coordinator has moved: the member may come back
    /// with its id while its session lasts.
    pub(in crate::broker) fn cancel(&mut self, ticket: Ticket, now: Instant) {
        for member in self.members.values_mut() {
            let waits = member.joining == Some(ticket) || member.syncing == Some(ticket);
            if waits {
                member.joining.take_if(|joining| *joining == ticket);
                member.syncing.take_if(|syncing| *syncing == ticket);
                member.expires = Some(now + member.session_timeout);
            }
        }
        self.answers.retain(|(other, _)| *other != ticket);
    }

    /// What its members subscribe to, as far as can be known.
    pub(in crate::broker) fn subscribed(&self) -> Subscribed {
        if !self.is_of_consumers() {
            return Subscribed::default();
        }
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            match subscribed_topics(&member.metadata(protocol)) {
                Some(names) => topics.extend(names),
                None => return Subscribed::Anything,
            }
        }
        Subscribed::To(topics)
    }

    /// The next moment at which something happens by itself.
    pub(in crate::broker) fn next_event(&self) -> Option<Instant> {
        let members = self.members.values().filter_map(|member| member.expires);
        let announced = self.announced.values().copied();
        members.chain(announced).chain(self.join_deadline).chain(self.sync_deadline).min()
    }

    /// Lets the time pass until `now`.
    pub(in crate::broker) fn advance(&mut self, now: Instant) {
        // Ends: every step removes a member or an announcement, takes a deadline away or puts it off by
        // at least JOIN_RETRY_MIN, and sessions are not renewed in it without a new generation.
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.step(at);
        }
    }

    /// Does one thing that is due at `at`.
    fn step(&mut self, at: Instant) {
        let due = |expires: &Instant| *expires <= at;
        if let Some(id) =
            self.announced.iter().find(|(_, until)| due(until)).map(|(id, _)| id.clone())
        {
            self.announced.remove(&id);
            self.complete_join_if_all(at);
            return;
        }
        let expired =
            self.members.iter().find(|(_, member)| member.expires.as_ref().is_some_and(due));
        if let Some((id, member)) = expired {
            let id = id.clone();
            if !member.new && (member.joining.is_some() || member.syncing.is_some()) {
                // The broker keeps it waiting: its session begins with the answer.
                self.members.get_mut(&id).expect("was found").expires = None;
                return;
            }
            self.remove(&id);
            if self.state != GroupState::Empty {
                self.rebalance(at);
            }
        } else if self.join_deadline.as_ref().is_some_and(due) {
            self.complete_join(at);
        } else if self.sync_deadline.take_if(|deadline| due(deadline)).is_some()
            && !self.unsynced.is_empty()
        {
            for id in std::mem::take(&mut self.unsynced) {
                self.remove(&id);
            }
            self.prepare(at);
        }
    }

    /// Whether there is room for one more, or it is in already.
    fn accepts(&self, member_id: &str) -> bool {
        let known = self.members.contains_key(member_id) || self.announced.contains_key(member_id);
        known || self.members.len() + self.announced.len() < MEMBERS_MAX
    }

    /// Whether the join names a protocol that all know.
    fn supports(&self, join: &Join) -> bool {
        if join.protocols.len() > PROTOCOLS_MAX {
            return false;
        }
        if self.state == GroupState::Empty {
            return !join.protocol_type.is_empty() && !join.protocols.is_empty();
        }
        let by_all =
            |name: &String| self.supported.get(name).copied().unwrap_or(0) == self.members.len();
        self.protocol_type.as_ref() == Some(&join.protocol_type)
            && join.protocols.iter().any(|(name, _)| by_all(name))
    }

    /// Whether the member is in the group and, for a static one, its name's present holder.
    fn validate(&self, identity: &Identity) -> Result<(), ErrorCode> {
        if let Some(instance_id) = &identity.instance_id {
            match self.statics.get(instance_id) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(holder) if *holder != identity.member_id => {
                    return Err(ErrorCode::FENCED_INSTANCE_ID);
                }
                Some(_) => {}
            }
        }
        if self.members.contains_key(&identity.member_id) {
            Ok(())
        } else {
            Err(ErrorCode::UNKNOWN_MEMBER_ID)
        }
    }

    /// One without an id.
    fn join_new(&mut self, join: &Join, now: Instant) {
        let id = join.new_member_id.clone();
        match &join.instance_id {
            Some(instance_id) => match self.statics.get(instance_id).cloned() {
                Some(earlier) => self.replace_static(&earlier, join, now),
                None => self.add(id, join, now),
            },
            None if join.comes_again => {
                self.announced.insert(id.clone(), now + join.session_timeout);
                let answer = Joined::refused(ErrorCode::MEMBER_ID_REQUIRED, &id);
                self.answers.push((join.ticket, Answer::Join(answer)));
            }
            None => self.add(id, join, now),
        }
    }

    /// One that is in the group, or says so.
    fn join_again(&mut self, join: &Join, now: Instant) {
        let id = &join.member_id;
        let identity = Identity { member_id: id.clone(), instance_id: join.instance_id.clone() };
        if let Err(error) = self.validate(&identity) {
            let refused = Joined::refused(error, id);
            return self.answers.push((join.ticket, Answer::Join(refused)));
        }
        let same = self.members.get(id).is_some_and(|member| member.protocols == join.protocols);
        let leads = self.leader.as_ref() == Some(id);
        let told_again = match self.state {
            // The answer was lost on the way, it seems.
            GroupState::Completing => same,
            // The leader's join makes the others join too: it has reasons that nobody sees here.
            GroupState::Stable => same && !leads,
            GroupState::Empty | GroupState::Preparing => false,
        };
        if told_again {
            let answer = self.joined(id);
            self.answers.push((join.ticket, Answer::Join(answer)));
        } else {
            self.update(id, join);
            self.rebalance(now);
        }
    }

    /// A new process takes over the name of a static member (KIP-345): the earlier one is fenced, and a
    /// stable group stays as it is unless the protocol would change.
    fn replace_static(&mut self, earlier: &str, join: &Join, now: Instant) {
        let id = &join.new_member_id;
        let instance_id = join.instance_id.clone().expect("static");
        let led_before = self.leader.clone().unwrap_or_default();
        let mut member = self.members.remove(earlier).expect("a name's holder is a member");
        if let Some(ticket) = member.joining.take() {
            let error = ErrorCode::FENCED_INSTANCE_ID;
            let fenced = Joined::refused(error, earlier);
            self.answers.push((ticket, Answer::Join(fenced)));
        }
        if let Some(ticket) = member.syncing.take() {
            let fenced = Synced { error: ErrorCode::FENCED_INSTANCE_ID, ..Synced::default() };
            self.answers.push((ticket, Answer::Sync(fenced)));
        }
        member.new = false;
        member.expires = Some(now + member.session_timeout);
        self.members.insert(id.clone(), member);
        if self.unsynced.remove(earlier) {
            self.unsynced.insert(id.clone());
        }
        if led_before == earlier {
            self.leader = Some(id.clone());
        }
        self.statics.insert(instance_id, id.clone());
        self.update(id, join);
        match self.state {
            GroupState::Stable if self.protocol == self.select_protocol() => {
                let answer = if join.may_skip_assignment {
                    Joined { skip_assignment: self.leader.as_ref() == Some(id), ..self.joined(id) }
                } else {
                    Joined { leader: led_before, members: Vec::new(), ..self.joined(id) }
                };
                self.answer_join(id, answer);
            }
            GroupState::Stable | GroupState::Completing => self.prepare(now),
            GroupState::Empty | GroupState::Preparing => self.complete_join_if_all(now),
        }
    }

    /// Adds a member; everybody joins anew.
    fn add(&mut self, id: String, join: &Join, now: Instant) {
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        if let Some(instance_id) = &join.instance_id {
            self.statics.insert(instance_id.clone(), id.clone());
        }
        self.announced.remove(&id);
        self.leader.get_or_insert_with(|| id.clone());
        self.count_protocols(&join.protocols, true);
        self.members.insert(id, Member::new(join, now + NEW_MEMBER_TIMEOUT));
        self.rebalance(now);
    }

    /// Takes over what a member says of itself when it joins again.
    fn update(&mut self, id: &str, join: &Join) {
        let member = self.members.get_mut(id).expect("a member");
        let before = std::mem::replace(&mut member.protocols, join.protocols.clone());
        member.rebalance_timeout = join.rebalance_timeout;
        member.session_timeout = join.session_timeout;
        // Two joins of one member: the earlier one's client has given it up.
        if let Some(earlier) = member.joining.replace(join.ticket)
            && earlier != join.ticket
        {
            let refused = Joined::refused(ErrorCode::REBALANCE_IN_PROGRESS, id);
            self.answers.push((earlier, Answer::Join(refused)));
        }
        self.count_protocols(&before, false);
        self.count_protocols(&join.protocols, true);
    }

    /// Takes a member out. Who waits for it is told that it is unknown.
    fn remove(&mut self, id: &str) {
        let Some(member) = self.members.remove(id) else {
            return;
        };
        if let Some(ticket) = member.joining {
            let refused = Joined::refused(ErrorCode::UNKNOWN_MEMBER_ID, "");
            self.answers.push((ticket, Answer::Join(refused)));
        }
        if let Some(ticket) = member.syncing {
            let refused = Synced { error: ErrorCode::UNKNOWN_MEMBER_ID, ..Synced::default() };
            self.answers.push((ticket, Answer::Sync(refused)));
        }
        self.count_protocols(&member.protocols, false);
        if let Some(instance_id) = &member.instance_id {
            self.statics.remove(instance_id);
        }
        self.unsynced.remove(id);
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    fn leave_one(&mut self, identity: &Identity) -> ErrorCode {
        let id = &identity.member_id;
        if id.is_empty() {
            // By its static name alone, as admin clients do.
            let held =
                identity.instance_id.as_ref().and_then(|name| self.statics.get(name)).cloned();
            return match held {
                Some(id) => {
                    self.remove(&id);
                    ErrorCode::NONE
                }
                None => ErrorCode::UNKNOWN_MEMBER_ID,
            };
        }
        if self.announced.remove(id).is_some() {
            return ErrorCode::NONE;
        }
        match self.validate(identity) {
            Ok(()) => {
                self.remove(id);
                ErrorCode::NONE
            }
            Err(error) => error,
        }
    }

    /// Something has changed that asks for a new generation.
    fn rebalance(&mut self, now: Instant) {
        match self.state {
            GroupState::Preparing => self.complete_join_if_all(now),
            GroupState::Empty | GroupState::Completing | GroupState::Stable => self.prepare(now),
        }
    }

    /// Everybody has to join.
    fn prepare(&mut self, now: Instant) {
        if self.state == GroupState::Completing {
            self.propagate(ErrorCode::REBALANCE_IN_PROGRESS, now);
        }
        self.unsynced.clear();
        self.sync_deadline = None;
        let initial = self.state == GroupState::Empty;
        self.state = GroupState::Preparing;
        if initial || self.all_joined() {
            self.complete_join(now);
        } else {
            self.join_deadline = Some(now + self.rebalance_timeout());
        }
    }

    fn all_joined(&self) -> bool {
        self.announced.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    fn complete_join_if_all(&mut self, now: Instant) {
        if self.state == GroupState::Preparing && self.all_joined() {
            self.complete_join(now);
        }
    }

    /// The next generation begins with who has joined, and the static members.
    fn complete_join(&mut self, now: Instant) {
        self.join_deadline = None;
        let late = |member: &Member| member.joining.is_none() && member.instance_id.is_none();
        let late: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| late(member))
            .map(|(id, _)| id.clone())
            .collect();
        for id in late {
            self.remove(&id);
        }
        if !self.elect_joined_leader() && !self.members.is_empty() {
            // Static members that are all away.
            self.join_deadline = Some(now + self.rebalance_timeout().max(JOIN_RETRY_MIN));
            return;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.unsynced.clear();
        self.protocol = self.select_protocol();
        if self.members.is_empty() {
            self.state = GroupState::Empty;
            return;
        }
        self.state = GroupState::Completing;
        self.sync_deadline = Some(now + self.rebalance_timeout());
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.joined(&id);
            self.answer_join(&id, answer);
            self.renew(&id, now);
            self.members.get_mut(&id).expect("a member").new = false;
            self.unsynced.insert(id);
        }
    }

    /// Whether the leader has joined, or another that has could be made the leader.
    fn elect_joined_leader(&mut self) -> bool {
        let joined =
            |id: &String| self.members.get(id).is_some_and(|member| member.joining.is_some());
        if self.leader.as_ref().is_some_and(joined) {
            return true;
        }
        let next = self.members.keys().find(|id| joined(id)).cloned();
        let found = next.is_some();
        if found {
            self.leader = next;
        }
        found
    }

    /// The protocol with the most votes among those that all know; with as many votes, the one that the
    /// leader likes better.
    fn select_protocol(&self) -> Option<String> {
        let by_all =
            |name: &str| self.supported.get(name).copied().unwrap_or(0) == self.members.len();
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some((name, _)) = member.protocols.iter().find(|(name, _)| by_all(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        let leader = self.leader.as_ref().and_then(|id| self.members.get(id))?;
        let candidates = leader.protocols.iter().map(|(name, _)| name.as_str());
        let mut best: Option<(&str, usize)> = None;
        for name in candidates {
            let count = votes.get(name).copied().unwrap_or(0);
            if count > best.map_or(0, |(_, most)| most) {
                best = Some((name, count));
            }
        }
        best.map(|(name, _)| name.to_owned())
    }

    /// What a member is told about the present generation.
    fn joined(&self, id: &str) -> Joined {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let row = |(id, member): (&String, &Member)| {
            (id.clone(), member.instance_id.clone(), member.metadata(protocol))
        };
        let leads = self.leader.as_deref() == Some(id);
        Joined {
            error: ErrorCode::NONE,
            member_id: id.to_owned(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            members: if leads { self.members.iter().map(row).collect() } else { Vec::new() },
        }
    }

    fn answer_join(&mut self, id: &str, answer: Joined) {
        if let Some(ticket) = self.members.get_mut(id).and_then(|member| member.joining.take()) {
            self.answers.push((ticket, Answer::Join(answer)));
        }
    }

    /// The leader's assignments are there: the group is stable.
    fn assign(&mut self, assignments: Vec<(String, Bytes)>, now: Instant) {
        let mut by_id: BTreeMap<String, Bytes> =
            assignments.into_iter().filter(|(id, _)| self.members.contains_key(id)).collect();
        if by_id.values().map(|bytes| bytes.len()).sum::<usize>() > ASSIGNMENTS_BYTES_MAX {
            self.propagate(ErrorCode::UNKNOWN_SERVER_ERROR, now);
            return self.prepare(now);
        }
        for (id, member) in &mut self.members {
            // Without the frame behind it.
            member.assignment = Bytes::from(by_id.remove(id).unwrap_or_default().to_vec());
        }
        self.propagate(ErrorCode::NONE, now);
        self.state = GroupState::Stable;
    }

    /// Answers everybody who waits for an assignment.
    fn propagate(&mut self, error: ErrorCode, now: Instant) {
        for member in self.members.values_mut() {
            let mut answer = Synced { error, ..Synced::default() };
            if error == ErrorCode::NONE {
                answer.protocol_type.clone_from(&self.protocol_type);
                answer.protocol.clone_from(&self.protocol);
                answer.assignment = member.assignment.clone();
            } else {
                member.assignment = Bytes::new();
            }
            if let Some(ticket) = member.syncing.take() {
                self.answers.push((ticket, Answer::Sync(answer)));
                member.expires = Some(now + member.session_timeout);
            }
        }
    }

    fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }

    fn count_protocols(&mut self, protocols: &[(String, Bytes)], more: bool) {
        for (name, _) in protocols {
            let count = self.supported.entry(name.clone()).or_default();
            *count = if more { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.supported.remove(name);
            }
        }
    }
}

fn superseded_sync() -> Answer {
    Answer::Sync(Synced { error: ErrorCode::REBALANCE_IN_PROGRESS, ..Synced::default() })
}

/// The topics in a consumer's metadata: the part that all versions of the consumer protocol share
/// (`ConsumerProtocolSubscription`). `None` when it is something else.
fn subscribed_topics(metadata: &[u8]) -> Option<Vec<String>> {
    let (_version, rest) = metadata.split_first_chunk::<2>()?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut topics = Vec::new();
    for _ in 0..i32::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let length = usize::try_from(i16::from_be_bytes(*length)).ok()?;
        let (name, after) = after.split_at_checked(length)?;
        topics.push(String::from_utf8(name.to_vec()).ok()?);
        rest = after;
    }
    Some(topics)
}
