//! The state machine of the classic protocol: its rules one by one, and random lives of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::classic::{Group, GroupState};
use super::member::{Answer, Identity, Join, Joined, Sync, Synced, Ticket};
use crate::clock;
use crate::protocol::{Bytes, ErrorCode};

const SESSION: Duration = Duration::from_secs(10);
const REBALANCE: Duration = Duration::from_secs(30);

/// A group, its time and the answers so far.
struct World {
    group: Group,
    now: Instant,
    answers: BTreeMap<Ticket, Answer>,
    tickets: Ticket,
}

impl World {
    fn new() -> Self {
        let (group, now) = (Group::default(), clock::now());
        Self { group, now, answers: BTreeMap::new(), tickets: 0 }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.group.advance(self.now);
        self.collect();
    }

    fn collect(&mut self) {
        for (ticket, answer) in self.group.take_answers() {
            assert!(self.answers.insert(ticket, answer).is_none(), "answered twice");
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.tickets
    }

    fn join_as(
        &mut self,
        member_id: &str,
        instance_id: Option<&str>,
        protocols: &[&str],
    ) -> Ticket {
        let ticket = self.ticket();
        let protocols = protocols.iter().map(|name| ((*name).to_owned(), Bytes::new())).collect();
        let join = Join {
            ticket,
            member_id: member_id.to_owned(),
            new_member_id: format!("m{ticket}"),
            instance_id: instance_id.map(str::to_owned),
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            session_timeout: SESSION,
            rebalance_timeout: REBALANCE,
            protocol_type: "consumer".to_owned(),
            protocols,
            comes_again: false,
            may_skip_assignment: true,
        };
        self.group.join(&join, self.now);
        self.collect();
        ticket
    }

    fn join(&mut self, member_id: &str) -> Ticket {
        self.join_as(member_id, None, &["range"])
    }

    fn sync(&mut self, member_id: &str, generation: i32) -> Ticket {
        let ticket = self.ticket();
        let leads = self.group.leader() == Some(member_id);
        let all = self.group.members().keys().filter(|_| leads);
        // What is assigned says to whom and when.
        let assignment = |id: &String| Bytes::from(format!("{id} in {generation}").into_bytes());
        let sync = Sync {
            ticket,
            identity: identity(member_id, None),
            generation,
            assignments: all.map(|id| (id.clone(), assignment(id))).collect(),
            ..Sync::default()
        };
        self.group.sync(sync, self.now);
        self.collect();
        ticket
    }

    fn joined(&self, ticket: Ticket) -> &Joined {
        match self.answers.get(&ticket) {
            Some(Answer::Join(joined)) => joined,
            other => panic!("no answer to a join: {other:?}"),
        }
    }

    fn synced(&self, ticket: Ticket) -> &Synced {
        match self.answers.get(&ticket) {
            Some(Answer::Sync(synced)) => synced,
            other => panic!("no answer to a sync: {other:?}"),
        }
    }

    fn beat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        self.group.heartbeat(&identity(member_id, None), generation, self.now)
    }

    /// Two members in a stable group of generation 2.
    fn of_two() -> (Self, String, String) {
        let mut world = Self::new();
        let first = world.join("");
        let first = world.joined(first).member_id.clone();
        world.sync(&first, 1);
        let second = world.join("");
        assert!(!world.answers.contains_key(&second), "the first has not joined");
        assert_eq!(world.beat(&first, 1), ErrorCode::REBALANCE_IN_PROGRESS);
        world.join(&first);
        let second = world.joined(second).member_id.clone();
        world.sync(&second, 2);
        world.sync(&first, 2);
        assert_eq!(world.group.state(), GroupState::Stable);
        (world, first, second)
    }
}

fn identity(member_id: &str, instance_id: Option<&str>) -> Identity {
    Identity { member_id: member_id.to_owned(), instance_id: instance_id.map(str::to_owned) }
}

#[test]
fn a_second_member_waits_for_the_first_and_both_get_their_assignments() {
    let (mut world, first, second) = World::of_two();
    let ticket = world.sync(&second, 2);
    assert_eq!(&*world.synced(ticket).assignment, format!("{second} in 2").as_bytes());
    assert_eq!(world.beat(&first, 2), ErrorCode::NONE);
    assert_eq!(world.beat(&first, 1), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(world.beat("stranger", 2), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_member_that_dies_while_the_others_join_is_left_behind() {
    let (mut world, first, second) = World::of_two();
    let ticket = world.join(&first);
    assert!(!world.answers.contains_key(&ticket));
    assert_eq!(world.group.next_event(), Some(world.now + SESSION));
    world.pass(SESSION);
    let joined = world.joined(ticket);
    assert_eq!((joined.generation, joined.error), (3, ErrorCode::NONE));
    assert_eq!(joined.members.len(), 1);
    assert_eq!(world.beat(&second, 3), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_member_that_only_beats_is_left_behind_after_the_rebalance_timeout() {
    let (mut world, first, second) = World::of_two();
    let ticket = world.join(&first);
    for _ in 0..5 {
        world.pass(SESSION / 2);
        assert_eq!(world.beat(&second, 2), ErrorCode::REBALANCE_IN_PROGRESS);
    }
    assert!(!world.answers.contains_key(&ticket));
    world.pass(SESSION / 2);
    assert_eq!(world.joined(ticket).generation, 3);
    assert_eq!(world.group.members().len(), 1);
}

#[test]
fn a_leader_that_never_assigns_is_removed_and_the_others_join_again() {
    let mut world = World::new();
    let first = world.join("");
    let first = world.joined(first).member_id.clone();
    world.sync(&first, 1);
    let second = world.join("");
    world.join(&first);
    let second = world.joined(second).member_id.clone();
    let waits = world.sync(&second, 2);
    assert!(!world.answers.contains_key(&waits), "the leader has not assigned");
    world.pass(SESSION);
    assert_eq!(world.synced(waits).error, ErrorCode::REBALANCE_IN_PROGRESS);
    let ticket = world.join(&second);
    assert_eq!(world.joined(ticket).leader, second);
}

#[test]
fn the_last_to_leave_leaves_an_empty_group() {
    let (mut world, first, second) = World::of_two();
    let leave = [identity(&first, None), identity("stranger", None)];
    let codes = world.group.leave(&leave, world.now);
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(world.beat(&second, 2), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(world.group.leave(&[identity(&second, None)], world.now), [ErrorCode::NONE]);
    assert_eq!(world.group.state(), GroupState::Empty);
    assert_eq!((world.group.generation(), world.group.next_event()), (3, None));
}

#[test]
fn the_protocol_is_one_that_all_know_and_most_prefer() {
    let mut world = World::new();
    let first = world.join_as("", None, &["a", "b", "c"]);
    let first = world.joined(first).member_id.clone();
    assert_eq!(world.group.protocol(), Some("a"));
    let strange = world.join_as("", None, &["d"]);
    assert_eq!(world.joined(strange).error, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    world.join_as("", None, &["c", "b"]);
    world.join_as("", None, &["c", "b"]);
    world.join_as(&first, None, &["a", "b", "c"]);
    assert_eq!(world.group.protocol(), Some("c"));
    assert_eq!(world.group.members().len(), 3);
}

#[test]
fn who_is_to_come_again_holds_the_join_up_until_it_does_or_its_time_is_over() {
    let (mut world, first, second) = World::of_two();
    let join = |world: &mut World, id: &str| {
        let ticket = world.ticket();
        let join = Join {
            ticket,
            member_id: id.to_owned(),
            new_member_id: "announced".to_owned(),
            instance_id: None,
            client_id: String::new(),
            client_host: String::new(),
            session_timeout: SESSION,
            rebalance_timeout: REBALANCE,
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), Bytes::new())],
            comes_again: true,
            may_skip_assignment: true,
        };
        world.group.join(&join, world.now);
        world.collect();
        ticket
    };
    let ticket = join(&mut world, "");
    assert_eq!(world.joined(ticket).error, ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(world.joined(ticket).member_id, "announced");
    assert_eq!(world.group.state(), GroupState::Stable, "nobody is disturbed yet");
    let (one, two) = (world.join(&first), world.join(&second));
    assert!(!world.answers.contains_key(&one) && !world.answers.contains_key(&two));
    let ticket = join(&mut world, "announced");
    assert_eq!(world.joined(ticket).generation, 3);
    assert_eq!(world.joined(one).generation, 3);
    assert_eq!(world.group.members().len(), 3);
    join(&mut world, "");
    assert_eq!(world.group.leave(&[identity("announced", None)], world.now), [ErrorCode::NONE]);
}

#[test]
fn a_new_process_takes_over_a_static_name_and_its_assignment_without_a_rebalance() {
    let mut world = World::new();
    let first = world.join_as("", Some("one"), &["range"]);
    let first = world.joined(first).member_id.clone();
    world.sync(&first, 1);
    let taken = world.join_as("", Some("one"), &["range"]);
    let joined = world.joined(taken).clone();
    assert_eq!((joined.generation, joined.skip_assignment), (1, true));
    assert_ne!(joined.member_id, first);
    let ticket = world.sync(&joined.member_id, 1);
    assert_eq!(&*world.synced(ticket).assignment, format!("{first} in 1").as_bytes());
    let fenced = world.group.heartbeat(&identity(&first, Some("one")), 1, world.now);
    assert_eq!(fenced, ErrorCode::FENCED_INSTANCE_ID);
    let again = world.join_as(&first, Some("one"), &["range"]);
    assert_eq!(world.joined(again).error, ErrorCode::FENCED_INSTANCE_ID);
}

#[test]
fn a_static_member_that_is_away_stays_in_the_group_until_its_session_ends() {
    let mut world = World::new();
    let away = world.join_as("", Some("one"), &["range"]);
    let away = world.joined(away).member_id.clone();
    world.sync(&away, 1);
    let here = world.join_as("", Some("two"), &["range"]);
    // Beats, but does not join.
    for _ in 0..6 {
        world.pass(SESSION / 2);
        let identity = identity(&away, Some("one"));
        world.group.heartbeat(&identity, 1, world.now);
    }
    let joined = world.joined(here).clone();
    assert_eq!((joined.generation, joined.members.len()), (2, 2));
    world.sync(&joined.member_id, 2);
    world.pass(SESSION / 2);
    let here = identity(&joined.member_id, Some("two"));
    assert_eq!(world.group.heartbeat(&here, 2, world.now), ErrorCode::NONE);
    world.pass(SESSION / 2);
    assert_eq!(world.group.state(), GroupState::Preparing);
    assert!(world.group.members().keys().eq([&joined.member_id]));
}

#[test]
fn who_waits_at_a_coordinator_that_moves_keeps_its_place() {
    let (mut world, first, second) = World::of_two();
    let ticket = world.join(&first);
    world.group.cancel(ticket, world.now);
    world.join(&second);
    assert_eq!(world.group.state(), GroupState::Preparing);
    let again = world.join(&first);
    assert_eq!((world.joined(again).generation, world.group.members().len()), (3, 2));
    assert!(!world.answers.contains_key(&ticket), "nobody waits with it");
}

#[test]
fn commits_are_for_members_of_this_generation_and_for_empty_groups() {
    let empty = Group::default();
    assert_eq!(empty.may_commit(&identity("", None), -1, false), Ok(()));
    let (mut world, first, _) = World::of_two();
    let may = |world: &World, id: &str, generation, transactional| {
        world.group.may_commit(&identity(id, None), generation, transactional)
    };
    assert_eq!(may(&world, &first, 2, false), Ok(()));
    assert_eq!(may(&world, &first, 1, false), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(may(&world, "", -1, false), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(may(&world, "", -1, true), Ok(()));
    world.pass(SESSION);
    assert_eq!(world.group.state(), GroupState::Empty);
    assert_eq!(may(&world, &first, 2, false), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}

/// What happens to a group. Members are meant by a number: those that were ever told an id.
#[derive(Clone, Debug)]
enum Event {
    JoinNew(bool),
    JoinStatic(u8),
    JoinAgain(u8),
    Sync(u8),
    Beat(u8),
    Leave(u8),
    Pass(u16),
    Cancel(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => any::<bool>().prop_map(Event::JoinNew),
        1 => (0..3_u8).prop_map(Event::JoinStatic),
        4 => any::<u8>().prop_map(Event::JoinAgain),
        4 => any::<u8>().prop_map(Event::Sync),
        4 => any::<u8>().prop_map(Event::Beat),
        1 => any::<u8>().prop_map(Event::Leave),
        3 => (0..20_000_u16).prop_map(Event::Pass),
        1 => any::<u8>().prop_map(Event::Cancel),
    ]
}

/// The ids that were given away, with their static names.
fn ids(world: &World) -> Vec<(String, Option<String>)> {
    let mut ids = BTreeSet::new();
    for answer in world.answers.values() {
        if let Answer::Join(joined) = answer
            && !joined.member_id.is_empty()
        {
            let held = world.group.members().get(&joined.member_id);
            let name = held.and_then(|member| member.instance_id.clone());
            ids.insert((joined.member_id.clone(), name));
        }
    }
    ids.into_iter().collect()
}

fn check(world: &World, open: &BTreeSet<Ticket>) {
    let group = &world.group;
    let leads = group.leader().is_some();
    assert_eq!(leads, !group.members().is_empty(), "a leader, if there is anyone");
    assert!(group.leader().is_none_or(|id| group.members().contains_key(id)));
    assert!(group.state() != GroupState::Empty || group.members().is_empty());
    for member in group.members().values() {
        assert!(member.joining.is_none() || group.state() == GroupState::Preparing);
        assert!(member.syncing.is_none() || group.state() == GroupState::Completing);
        let waits = member.joining.is_some() || member.syncing.is_some();
        assert!(waits || member.expires.is_some(), "nobody stays for ever without a sign of life");
    }
    let waiting: BTreeSet<Ticket> = group
        .members()
        .values()
        .flat_map(|member| member.joining.into_iter().chain(member.syncing))
        .collect();
    let unanswered: BTreeSet<Ticket> =
        open.iter().copied().filter(|ticket| !world.answers.contains_key(ticket)).collect();
    assert_eq!(waiting, unanswered, "who waits is known to the group, and nobody is forgotten");
    assert!(waiting.is_empty() || group.next_event().is_some(), "a wait has an end");
}

proptest! {
    #[test]
    fn random_lives_of_a_group(events in prop::collection::vec(event(), 1..60)) {
        let mut world = World::new();
        let mut open = BTreeSet::new();
        for event in events {
            let known = ids(&world);
            let pick = |number: u8| known.get(usize::from(number) % known.len().max(1)).cloned();
            match event {
                Event::JoinNew(other) => {
                    let protocols: &[&str] = if other { &["a", "b"] } else { &["b", "c"] };
                    open.insert(world.join_as("", None, protocols));
                }
                Event::JoinStatic(name) => {
                    let name = format!("static-{name}");
                    open.insert(world.join_as("", Some(&name), &["a", "b"]));
                }
                Event::JoinAgain(number) => if let Some((id, name)) = pick(number) {
                    open.insert(world.join_as(&id, name.as_deref(), &["b", "a"]));
                },
                Event::Sync(number) => if let Some((id, _)) = pick(number) {
                    let generation = world.group.generation();
                    open.insert(world.sync(&id, generation));
                },
                Event::Beat(number) => if let Some((id, _)) = pick(number) {
                    let generation = world.group.generation();
                    world.beat(&id, generation);
                },
                Event::Leave(number) => if let Some((id, _)) = pick(number) {
                    world.group.leave(&[identity(&id, None)], world.now);
                    world.collect();
                },
                Event::Pass(ms) => world.pass(Duration::from_millis(u64::from(ms))),
                Event::Cancel(number) => {
                    let waiting = open.iter().copied().filter(|t| !world.answers.contains_key(t));
                    let waiting: Vec<Ticket> = waiting.collect();
                    if let Some(ticket) = waiting.get(usize::from(number) % waiting.len().max(1)) {
                        world.group.cancel(*ticket, world.now);
                        open.remove(ticket);
                    }
                }
            }
            check(&world, &open);
            let generation = world.group.generation();
            if world.group.state() == GroupState::Stable {
                for (id, member) in world.group.members() {
                    let assigned = String::from_utf8_lossy(&member.assignment).into_owned();
                    let (to, when) = assigned.split_once(" in ").expect("everyone was assigned something");
                    prop_assert_eq!(when, generation.to_string());
                    prop_assert!(to == id || member.instance_id.is_some());
                }
            }
        }
        // In the end all time-outs remove the dead, and nobody waits.
        let longest = Duration::from_secs(300) + REBALANCE * 8 + SESSION;
        let deadline = world.now + longest;
        while let Some(at) = world.group.next_event() {
            prop_assert!(at <= deadline, "it ends");
            let step = at.saturating_duration_since(world.now);
            world.pass(step);
            check(&world, &open);
        }
        prop_assert_eq!(world.group.state(), GroupState::Empty);
        prop_assert!(open.iter().all(|ticket| world.answers.contains_key(ticket)));
    }

    /// Whether time passes in one step or in many makes no difference.
    #[test]
    fn time_may_pass_in_any_steps(steps in prop::collection::vec(1..9_000_u64, 1..12), joins in 0..4_u8) {
        let (mut world, first, _) = World::of_two();
        if joins > 0 {
            world.join(&first);
        }
        if joins > 1 {
            world.join_as("", Some("static"), &["range"]);
        }
        let mut late = Group::clone(&world.group);
        let total: u64 = steps.iter().sum();
        let end = world.now + Duration::from_millis(total);
        for step in steps {
            world.pass(Duration::from_millis(step));
        }
        late.advance(end);
        prop_assert_eq!(late.generation(), world.group.generation());
        prop_assert_eq!(late.state(), world.group.state());
        prop_assert_eq!(late.next_event(), world.group.next_event());
        prop_assert!(late.members().keys().eq(world.group.members().keys()));
    }
}
