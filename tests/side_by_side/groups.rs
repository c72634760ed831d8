//! Groups of the classic protocol, and their offsets.

use ottla::protocol::messages::*;
use ottla::protocol::{Bytes, Uuid};

use crate::common::{servers, unique};
use crate::sides::{Both, Side, To};
use crate::{both, cluster};

/// Member ids end with 36 random characters.
fn same_member(id: &mut String) {
    let random = id.len().saturating_sub(36);
    if id.len() >= 36 {
        id.truncate(random);
    }
}

fn some(message: &mut Option<String>) {
    if let Some(text) = message {
        text.clear();
    }
}

#[test]
fn coordinators() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("coordinators"));
    let mut both = both(&kafka, &name);
    // Both have the topics that keep groups and transactions, once their coordinators were found.
    for to in [To::Group("some"), To::Transaction("some")] {
        both.ask("ready", to, [0], |_, _| ListGroupsRequest::default(), |all| all.groups.clear());
    }
    for (what, key, kind) in [
        ("a group", "some", 0),
        ("a transaction", "some", 1),
        ("no key", "", 0),
        ("no transactional id", "", 1),
        ("a share group", "some", 2),
        ("an unknown kind", "some", 9),
    ] {
        let request = |_: &Side, version: i16| {
            let mut request = one_key(key, kind);
            if version < 4 {
                request.coordinator_keys.clear();
            } else {
                request.key.clear();
            }
            request
        };
        let versions = if kind == 0 { 0..=6 } else { 1..=6 };
        both.ask(what, To::Any, versions, request, same_coordinators);
    }
    let none = |_: &Side, _| FindCoordinatorRequest::default();
    both.ask("no keys", To::Any, [4, 6], none, same_coordinators);
    both.finish();
}

fn one_key(key: &str, key_type: i8) -> FindCoordinatorRequest {
    FindCoordinatorRequest {
        key: key.to_owned(),
        key_type,
        coordinator_keys: vec![key.to_owned()],
        ..Default::default()
    }
}

fn same_coordinators(answer: &mut FindCoordinatorResponse) {
    some(&mut answer.error_message);
    (answer.node_id, answer.port) = (answer.node_id.min(0), answer.port.min(0));
    for row in &mut answer.coordinators {
        some(&mut row.error_message);
        (row.node_id, row.port) = (row.node_id.min(0), row.port.min(0));
    }
}

/// A commit of `offset` for partition `index`.
fn commit(
    side: &Side,
    version: i16,
    group: &str,
    topic: &str,
    index: i32,
    offset: i64,
) -> OffsetCommitRequest {
    let topic_id = if version >= 10 && topic != "missing-here" {
        side.topic(topic).topic_id
    } else {
        Uuid::ZERO
    };
    OffsetCommitRequest {
        group_id: group.to_owned(),
        topics: vec![OffsetCommitRequestTopic {
            name: topic.to_owned(),
            topic_id,
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: index,
                committed_offset: offset,
                committed_metadata: Some("note".to_owned()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn same_committed(answer: &mut OffsetCommitResponse) {
    for topic in &mut answer.topics {
        topic.topic_id = if topic.topic_id.is_zero() { Uuid::ZERO } else { Uuid([1; 16]) };
    }
}

fn offsets(
    side: &Side,
    version: i16,
    group: &str,
    topics: Option<&[(&str, i32)]>,
) -> OffsetFetchRequest {
    let old = topics.map(|topics| {
        let topic = |(name, index): &(&str, i32)| OffsetFetchRequestTopic {
            name: (*name).to_owned(),
            partition_indexes: vec![*index],
            ..Default::default()
        };
        topics.iter().map(topic).collect()
    });
    let new = topics.map(|topics| {
        let topic = |(name, index): &(&str, i32)| OffsetFetchRequestTopics {
            name: (*name).to_owned(),
            topic_id: if version >= 10 && *name != "missing-here" {
                side.topic(name).topic_id
            } else {
                Uuid::ZERO
            },
            partition_indexes: vec![*index],
            ..Default::default()
        };
        topics.iter().map(topic).collect()
    });
    let mut request = OffsetFetchRequest::default();
    if version < 8 {
        (request.group_id, request.topics) = (group.to_owned(), old);
    } else {
        let group_id = group.to_owned();
        request.groups =
            vec![OffsetFetchRequestGroup { group_id, topics: new, ..Default::default() }];
    }
    request
}

fn same_offsets(answer: &mut OffsetFetchResponse) {
    for group in &mut answer.groups {
        for topic in &mut group.topics {
            topic.topic_id = if topic.topic_id.is_zero() { Uuid::ZERO } else { Uuid([1; 16]) };
        }
    }
}

#[test]
fn committed() {
    let _calm = servers().calm();
    let (kafka, name, group) = (cluster(), unique("committed"), unique("group"));
    let mut both = both(&kafka, &name);
    let to = To::Group(&group);
    let all: Vec<i16> = (2..=10).collect();
    let ask = |both: &mut Both,
               what: &str,
               versions: &[i16],
               change: &dyn Fn(&mut OffsetCommitRequest)| {
        let request = |side: &Side, version: i16| {
            let mut request = commit(side, version, &group, &name, 0, i64::from(version));
            change(&mut request);
            request
        };
        both.ask(what, to, versions.iter().copied(), request, same_committed);
    };
    ask(&mut both, "an offset", &all, &|_| ());
    ask(&mut both, "a wrong partition", &all, &|request| {
        request.topics[0].partitions[0].partition_index = 9;
    });
    ask(&mut both, "a negative offset", &[2, 8, 10], &|request| {
        request.topics[0].partitions[0].committed_offset = -3;
    });
    ask(&mut both, "a long note", &[2, 8, 10], &|request| {
        request.topics[0].partitions[0].committed_metadata = Some("x".repeat(5000));
    });
    ask(&mut both, "no note", &[2, 8, 10], &|request| {
        request.topics[0].partitions[0].committed_metadata = None;
    });
    ask(&mut both, "a member that is none", &all, &|request| {
        (request.member_id, request.generation_id_or_member_epoch) = ("nobody".to_owned(), 3);
    });
    ask(&mut both, "a generation without a member", &[2, 8, 10], &|request| {
        request.generation_id_or_member_epoch = 3;
    });
    ask(&mut both, "no topics", &[2, 8, 10], &|request| request.topics.clear());
    let missing = |side: &Side, version| commit(side, version, &group, "missing-here", 0, 3);
    both.ask("no such topic", to, all.iter().copied(), missing, same_committed);
    let nameless = |side: &Side, version| commit(side, version, "", &name, 0, 3);
    both.ask("a group without a name", To::Group(""), [2, 8, 10], nameless, same_committed);
    both.ask(
        "an unknown id",
        to,
        [10],
        |side, version| {
            let mut request = commit(side, version, &group, &name, 0, 3);
            request.topics[0].topic_id = Uuid([9; 16]);
            request
        },
        same_committed,
    );
    let read = |both: &mut Both, what: &str, group: &str, topics: Option<&[(&str, i32)]>| {
        let request = |side: &Side, version| offsets(side, version, group, topics);
        both.ask(
            what,
            To::Group(group),
            if topics.is_none() { 2..=9 } else { 1..=10 },
            request,
            same_offsets,
        );
    };
    read(&mut both, "the offset", &group, Some(&[(&name, 0)]));
    read(&mut both, "none there", &group, Some(&[(&name, 7), ("missing-here", 0)]));
    read(&mut both, "all", &group, None);
    read(&mut both, "nothing", &group, Some(&[]));
    read(&mut both, "an unknown group", "unknown-here", Some(&[(&name, 0)]));
    read(&mut both, "all of an unknown group", "unknown-here", None);
    let member = |side: &Side, version| {
        let mut request = offsets(side, version, &group, Some(&[(&name, 0)]));
        request.groups[0].member_id = Some("nobody".to_owned());
        request.groups[0].member_epoch = 4;
        request
    };
    both.ask("of a member that is none", to, 9..=10, member, same_offsets);
    let delete = |group: &str, topic: &str, index| OffsetDeleteRequest {
        group_id: group.to_owned(),
        topics: vec![OffsetDeleteRequestTopic {
            name: topic.to_owned(),
            partitions: vec![OffsetDeleteRequestPartition {
                partition_index: index,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    for (what, group, topic, index) in [
        ("deleted", group.as_str(), name.as_str(), 0),
        ("deleted again", &group, &name, 0),
        ("no such topic", &group, "missing-here", 0),
        ("no such partition", &group, &name, 9),
        ("no such group", "unknown-here", &name, 0),
        ("no name", "", &name, 0),
    ] {
        both.ask(what, To::Group(group), [0], |_, _| delete(group, topic, index), |_| ());
    }
    both.finish();
}

fn join(group: &str, member: &str, instance: Option<&str>, protocols: &[&str]) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: group.to_owned(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        member_id: member.to_owned(),
        group_instance_id: instance.map(str::to_owned),
        protocol_type: "consumer".to_owned(),
        protocols: protocols
            .iter()
            .map(|name| JoinGroupRequestProtocol {
                name: (*name).to_owned(),
                metadata: Bytes::from(vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn same_joined(answer: &mut JoinGroupResponse) {
    same_member(&mut answer.member_id);
    same_member(&mut answer.leader);
    answer.members.iter_mut().for_each(|row| same_member(&mut row.member_id));
}

fn sync(group: &str, member: &str, generation: i32) -> SyncGroupRequest {
    SyncGroupRequest {
        group_id: group.to_owned(),
        generation_id: generation,
        member_id: member.to_owned(),
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("range".to_owned()),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: member.to_owned(),
            assignment: Bytes::from(vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn beat(group: &str, member: &str, generation: i32) -> HeartbeatRequest {
    HeartbeatRequest {
        group_id: group.to_owned(),
        generation_id: generation,
        member_id: member.to_owned(),
        ..Default::default()
    }
}

fn leave(version: i16, group: &str, member: &str, instance: Option<&str>) -> LeaveGroupRequest {
    let mut request = LeaveGroupRequest { group_id: group.to_owned(), ..Default::default() };
    if version < 3 {
        member.clone_into(&mut request.member_id);
    } else {
        request.members = vec![MemberIdentity {
            member_id: member.to_owned(),
            group_instance_id: instance.map(str::to_owned),
            ..Default::default()
        }];
    }
    request
}

fn same_left(answer: &mut LeaveGroupResponse) {
    answer.members.iter_mut().for_each(|row| same_member(&mut row.member_id));
}

fn same_described(answer: &mut DescribeGroupsResponse) {
    for group in &mut answer.groups {
        some(&mut group.error_message);
        for member in &mut group.members {
            same_member(&mut member.member_id);
        }
    }
}

/// Describes and lists the group at its coordinator.
fn look(both: &mut Both, what: &str, group: &str) {
    let describe = |_: &Side, _| DescribeGroupsRequest {
        groups: vec![group.to_owned()],
        ..Default::default()
    };
    both.ask(what, To::Group(group), 0..=6, describe, same_described);
    let list = |_: &Side, _| ListGroupsRequest::default();
    let same = |answer: &mut ListGroupsResponse| {
        answer.groups.retain(|row| row.group_id == group);
    };
    both.ask(what, To::Group(group), 0..=5, list, same);
}

#[test]
fn a_member_comes_and_goes() {
    let _calm = servers().calm();
    let (kafka, name, group) = (cluster(), unique("member"), unique("group"));
    let mut both = both(&kafka, &name);
    let (group, to) = (group.as_str(), To::Group(&group));
    look(&mut both, "no group", group);
    // An id is given first from version 4 on (KIP-394).
    let first = |_: &Side| join(group, "", None, &["range", "roundrobin"]);
    let ids = both
        .ask_once("without an id", to, 9, first, same_joined)
        .map(|answer| answer.expect("an answer").member_id);
    let again = |side: &Side| join(group, &ids[side.place], None, &["range", "roundrobin"]);
    both.ask_once("with its id", to, 9, again, same_joined);
    look(&mut both, "before the sync", group);
    let early = |side: &Side, _| beat(group, &ids[side.place], 1);
    both.ask("a beat before the sync", to, 0..=4, early, |_| ());
    for (what, generation) in [("another generation", 7), ("the sync", 1), ("again", 1)] {
        let request = |side: &Side, _| sync(group, &ids[side.place], generation);
        both.ask(what, to, 0..=5, request, |_| ());
    }
    let other_protocol = |side: &Side, _| SyncGroupRequest {
        protocol_name: Some("sticky".to_owned()),
        ..sync(group, &ids[side.place], 1)
    };
    both.ask("another protocol", to, [5], other_protocol, |_| ());
    look(&mut both, "stable", group);
    for (what, generation) in [("a beat", 1), ("of another generation", 5), ("of none", -1)] {
        let request = |side: &Side, _| beat(group, &ids[side.place], generation);
        both.ask(what, to, 0..=4, request, |_| ());
    }
    let stranger = |_: &Side, _| beat(group, "nobody", 1);
    both.ask("a stranger's beat", to, 0..=4, stranger, |_| ());
    for generation in [1, 9, -1] {
        let request = |side: &Side, version| OffsetCommitRequest {
            member_id: ids[side.place].clone(),
            generation_id_or_member_epoch: generation,
            ..commit(side, version, group, &name, 0, 77)
        };
        both.ask("a member's commit", to, [2, 8, 10], request, same_committed);
    }
    let simple = |side: &Side, version| commit(side, version, group, &name, 0, 77);
    both.ask("a commit of no member", to, [2, 8, 10], simple, same_committed);
    let delete = |_: &Side, _| DeleteGroupsRequest {
        groups_names: vec![group.to_owned()],
        ..Default::default()
    };
    let same_deleted = |answer: &mut DeleteGroupsResponse| {
        answer.results.iter_mut().for_each(|row| some(&mut row.error_message));
    };
    both.ask("a group that is not empty", to, 0..=3, delete, same_deleted);
    let without = |_: &Side, _| join(group, "", None, &["other"]);
    both.ask("no protocol in common", to, 0..=9, without, same_joined);
    let none = |_: &Side, _| join(group, "", None, &[]);
    both.ask("no protocols", to, [0, 3, 9], none, same_joined);
    let other_type = |_: &Side, _| JoinGroupRequest {
        protocol_type: "connect".to_owned(),
        ..join(group, "", None, &["range"])
    };
    both.ask("another type", to, [0, 9], other_type, same_joined);
    for session_timeout_ms in [0, 1, 10_000_000] {
        let request = |_: &Side, _| JoinGroupRequest {
            session_timeout_ms,
            ..join(group, "", None, &["range"])
        };
        both.ask("a wrong time-out", to, [0, 3], request, same_joined);
    }
    let stranger = |_: &Side, _| join(group, "nobody", None, &["range"]);
    both.ask("a stranger joins", to, 0..=9, stranger, same_joined);
    let nameless = |_: &Side, _| join("", "", None, &["range"]);
    both.ask("no name", to, [0, 9], nameless, same_joined);
    let stranger = |_: &Side, version| leave(version, group, "nobody", None);
    both.ask("a stranger leaves", to, 0..=5, stranger, same_left);
    let gone = |side: &Side, version| leave(version, group, &ids[side.place], None);
    both.ask("it leaves", to, [5, 5, 2], gone, same_left);
    look(&mut both, "empty", group);
    both.ask("deleted", to, [3, 3, 1], delete, same_deleted);
    look(&mut both, "gone", group);
    both.finish();
}

#[test]
fn a_static_member_is_known_by_its_name() {
    let _calm = servers().calm();
    let (kafka, name, group) = (cluster(), unique("static"), unique("group"));
    let mut both = both(&kafka, &name);
    let (group, to, it) = (group.as_str(), To::Group(&group), Some("instance"));
    let fresh = |_: &Side| join(group, "", it, &["range"]);
    let enter = |both: &mut Both, what: &str| {
        both.ask_once(what, to, 9, fresh, same_joined)
            .map(|answer| answer.expect("an answer").member_id)
    };
    let old = enter(&mut both, "it comes");
    both.ask_once("its sync", to, 5, |side| sync(group, &old[side.place], 1), |_| ());
    look(&mut both, "stable", group);
    let new = enter(&mut both, "it comes again");
    look(&mut both, "replaced", group);
    for (what, ids) in [("the old", &old), ("the new", &new)] {
        let beat = |side: &Side, _| HeartbeatRequest {
            group_instance_id: Some("instance".to_owned()),
            ..beat(group, &ids[side.place], 1)
        };
        both.ask(what, to, 3..=4, beat, |_| ());
        let unnamed = |side: &Side, _| crate::groups::beat(group, &ids[side.place], 1);
        both.ask(what, to, 3..=4, unnamed, |_| ());
        let commit = |side: &Side, version| OffsetCommitRequest {
            member_id: ids[side.place].clone(),
            generation_id_or_member_epoch: 1,
            group_instance_id: Some("instance".to_owned()),
            ..commit(side, version, group, &name, 0, 5)
        };
        both.ask(what, to, 7..=10, commit, same_committed);
        let sync = |side: &Side, _| SyncGroupRequest {
            group_instance_id: Some("instance".to_owned()),
            ..sync(group, &ids[side.place], 1)
        };
        both.ask(what, to, 3..=5, sync, |_| ());
        let join = |side: &Side, _| join(group, &ids[side.place], it, &["range"]);
        both.ask(what, to, [5, 9], join, same_joined);
    }
    let unknown = |_: &Side, version| leave(version, group, "", Some("unknown"));
    both.ask("an unknown name leaves", to, 3..=5, unknown, same_left);
    let fenced = |side: &Side, version| leave(version, group, &old[side.place], it);
    both.ask("the old one leaves", to, 3..=5, fenced, same_left);
    let gone = |_: &Side, version| leave(version, group, "", it);
    both.ask("it leaves by name", to, 3..=5, gone, same_left);
    look(&mut both, "empty", group);
    both.finish();
}
