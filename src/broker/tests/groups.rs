//! Groups by raw frames: what a client of any kind would see.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::broker::{Cluster, Release};
use crate::protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DeleteGroupsRequest, DescribeGroupsRequest,
    DescribeTransactionsRequest, EndTxnRequest, FindCoordinatorRequest, FindCoordinatorResponse,
    HeartbeatRequest, InitProducerIdRequest, JoinGroupRequest, JoinGroupRequestProtocol,
    JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, ListTransactionsRequest,
    MemberIdentity, OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse, TxnOffsetCommitRequest,
};
use crate::protocol::{
    Bytes, ErrorCode, Message, Reader, Request, RequestHeader, ResponseHeader, TaggedFields, Uuid,
    Writer,
};

/// A client with one connection.
struct Peer(TcpStream);

impl Peer {
    /// To broker `id`.
    fn of(kafka: &Cluster, id: usize) -> Self {
        let address = kafka.bootstrap().split(',').nth(id - 1).expect("a broker");
        #[expect(clippy::disallowed_methods, reason = "a peer that is no client of ours")]
        let stream = TcpStream::connect(address).expect("a connection");
        Self(stream)
    }

    fn send<R: Request>(&mut self, request: &R, version: i16) {
        let mut writer = Writer::new();
        writer.put_be([0; 4]);
        let header = RequestHeader {
            api: R::API,
            version,
            correlation_id: 7,
            client_id: Some("peer".to_owned()),
            tagged_fields: TaggedFields::default(),
        };
        header.encode(&mut writer).expect("a header");
        request.encode(&mut writer, version).expect("a request of this version");
        writer.set_i32(0, writer.len() as i32 - 4);
        self.0.write_all(&writer.into_vec()).expect("sent");
    }

    fn receive<M: Message>(&mut self, version: i16) -> M {
        let mut size = [0; 4];
        self.0.read_exact(&mut size).expect("an answer");
        let mut body = vec![0; u32::from_be_bytes(size) as usize];
        self.0.read_exact(&mut body).expect("the whole answer");
        let body = Bytes::from(body);
        let mut reader = Reader::shared(&body);
        ResponseHeader::decode(&mut reader, M::API, version).expect("a header");
        let message = M::decode(&mut reader, version).expect("an answer of this version");
        reader.finish().expect("no more than that");
        message
    }

    fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.send(request, version);
        self.receive(version)
    }

    /// Joins as a new dynamic member; the answer is still to come.
    fn join(&mut self, topic: &str, session_ms: i32) -> String {
        let mut request = join(topic, session_ms);
        let answer = self.ask(&request, 9);
        assert_eq!(answer.error_code, ErrorCode::MEMBER_ID_REQUIRED);
        request.member_id.clone_from(&answer.member_id);
        self.send(&request, 9);
        answer.member_id
    }
}

fn join(topic: &str, session_ms: i32) -> JoinGroupRequest {
    // A subscription of the consumer protocol, version 0.
    let mut metadata = vec![0, 0, 0, 0, 0, 1, 0, topic.len() as u8];
    metadata.extend_from_slice(topic.as_bytes());
    metadata.extend_from_slice(&[255; 4]);
    JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: session_ms,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from(metadata),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Asks for an assignment; the leader assigns to each its own id.
fn sync(joined: &JoinGroupResponse) -> SyncGroupRequest {
    let assign =
        |member: &crate::protocol::messages::JoinGroupResponseMember| SyncGroupRequestAssignment {
            member_id: member.member_id.clone(),
            assignment: Bytes::from(member.member_id.clone().into_bytes()),
            ..Default::default()
        };
    SyncGroupRequest {
        group_id: "g".to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: joined.protocol_type.clone(),
        protocol_name: joined.protocol_name.clone(),
        assignments: joined.members.iter().map(assign).collect(),
        ..Default::default()
    }
}

fn beat(member_id: &str, generation_id: i32) -> HeartbeatRequest {
    HeartbeatRequest {
        group_id: "g".to_owned(),
        generation_id,
        member_id: member_id.to_owned(),
        ..Default::default()
    }
}

fn describe() -> DescribeGroupsRequest {
    DescribeGroupsRequest { groups: vec!["g".to_owned()], ..Default::default() }
}

/// A commit of `offset` for partition 0 of `t`, by name and by id.
fn commit(offset: i64, id: Uuid) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: "g".to_owned(),
        topics: vec![OffsetCommitRequestTopic {
            name: "t".to_owned(),
            topic_id: id,
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: offset,
                committed_metadata: Some(format!("at {offset}")),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Asks for partition 0 of `t`.
fn fetch(version: i16, id: Uuid) -> OffsetFetchRequest {
    let mut request = OffsetFetchRequest { group_id: "g".to_owned(), ..Default::default() };
    if version < 8 {
        request.topics = Some(vec![OffsetFetchRequestTopic {
            name: "t".to_owned(),
            partition_indexes: vec![0],
            ..Default::default()
        }]);
        return request;
    }
    request.group_id = String::new();
    request.groups = vec![OffsetFetchRequestGroup {
        group_id: "g".to_owned(),
        topics: Some(vec![OffsetFetchRequestTopics {
            name: "t".to_owned(),
            topic_id: id,
            partition_indexes: vec![0],
            ..Default::default()
        }]),
        ..Default::default()
    }];
    request
}

/// What is committed for partition 0 of `t`, and its error.
fn committed(peer: &mut Peer, version: i16, id: Uuid) -> (i64, ErrorCode) {
    let answer = peer.ask(&fetch(version, id), version);
    if version < 8 {
        let row = &answer.topics[0].partitions[0];
        return (row.committed_offset, row.error_code);
    }
    let row = &answer.groups[0].topics[0].partitions[0];
    (row.committed_offset, row.error_code)
}

fn topic_id(kafka: &Cluster) -> Uuid {
    kafka.shared.state.lock().topics()["t"].id
}

#[test]
fn two_members_join_work_and_leave() {
    let kafka = Cluster::builder().topic("t", 2).topic("u", 1).start().expect("a cluster");
    let (mut one, mut two, mut admin) =
        (Peer::of(&kafka, 1), Peer::of(&kafka, 1), Peer::of(&kafka, 1));
    one.join("t", 10_000);
    let joined: JoinGroupResponse = one.receive(9);
    assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::NONE, 1));
    assert_eq!((&joined.leader, joined.members.len()), (&joined.member_id, 1));
    let first = joined.member_id.clone();
    assert_eq!(&*one.ask(&sync(&joined), 5).assignment, first.as_bytes());
    let second = two.join("t", 10_000);
    // The first request of the second on the way, the first member learns it from its heartbeat.
    while one.ask(&beat(&first, 1), 4).error_code == ErrorCode::NONE {}
    let mut again = join("t", 10_000);
    again.member_id.clone_from(&first);
    let leads = one.ask(&again, 9);
    let follows: JoinGroupResponse = two.receive(9);
    assert_eq!((leads.generation_id, follows.generation_id), (2, 2));
    assert_eq!((leads.members.len(), follows.members.len()), (2, 0));
    two.send(&sync(&follows), 5);
    let code = admin.ask(&commit(1, Uuid::ZERO), 9).topics[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::UNKNOWN_MEMBER_ID, "it is no member");
    one.ask(&sync(&leads), 5);
    assert_eq!(&*two.receive::<SyncGroupResponse>(5).assignment, second.as_bytes());

    let group = &admin.ask(&describe(), 6).groups[0];
    assert_eq!((group.group_state.as_str(), group.protocol_data.as_str()), ("Stable", "range"));
    assert_eq!(group.members.len(), 2);
    assert!(group.members.iter().all(|member| member.client_host == "/127.0.0.1"));
    let list = |admin: &mut Peer, state: &str| {
        let states_filter = vec![state.to_owned()];
        admin.ask(&ListGroupsRequest { states_filter, ..Default::default() }, 5).groups.len()
    };
    assert_eq!((list(&mut admin, "stable"), list(&mut admin, "Empty")), (1, 0));

    let mut mine = commit(5, Uuid::ZERO);
    (mine.generation_id_or_member_epoch, mine.member_id) = (2, first.clone());
    assert!(one.ask(&mine, 9).topics[0].partitions[0].error_code.is_ok());
    let delete = |name: &str| OffsetDeleteRequest {
        group_id: "g".to_owned(),
        topics: vec![OffsetDeleteRequestTopic {
            name: name.to_owned(),
            partitions: vec![OffsetDeleteRequestPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let deleted = |admin: &mut Peer, name: &str| {
        admin.ask(&delete(name), 0).topics[0].partitions[0].error_code
    };
    assert_eq!(deleted(&mut admin, "t"), ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC);
    assert_eq!(deleted(&mut admin, "u"), ErrorCode::NONE);
    assert_eq!(deleted(&mut admin, "none"), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);

    let drop_group = DeleteGroupsRequest { groups_names: vec!["g".into()], ..Default::default() };
    assert_eq!(admin.ask(&drop_group, 2).results[0].error_code, ErrorCode::NON_EMPTY_GROUP);
    let leave = LeaveGroupRequest {
        group_id: "g".to_owned(),
        members: [first.as_str(), second.as_str(), "stranger"]
            .map(|id| MemberIdentity { member_id: id.to_owned(), ..Default::default() })
            .into(),
        ..Default::default()
    };
    let codes: Vec<ErrorCode> =
        admin.ask(&leave, 5).members.iter().map(|member| member.error_code).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(one.ask(&beat(&first, 2), 4).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(admin.ask(&describe(), 6).groups[0].group_state, "Empty");
    assert_eq!(committed(&mut admin, 9, Uuid::ZERO), (5, ErrorCode::NONE));
    assert_eq!(deleted(&mut admin, "t"), ErrorCode::NONE);
    assert_eq!(committed(&mut admin, 9, Uuid::ZERO), (-1, ErrorCode::NONE));
    assert!(admin.ask(&drop_group, 2).results[0].error_code.is_ok());
    let gone = &admin.ask(&describe(), 6).groups[0];
    assert_eq!(
        (gone.group_state.as_str(), gone.error_code),
        ("Dead", ErrorCode::GROUP_ID_NOT_FOUND)
    );
    assert!(admin.ask(&describe(), 5).groups[0].error_code.is_ok());
}

#[test]
fn a_member_that_dies_does_not_hold_up_the_others() {
    let kafka = Cluster::builder()
        .topic("t", 1)
        .group_session_timeout_min(Duration::from_millis(50))
        .start()
        .expect("a cluster");
    let (mut dies, mut stays) = (Peer::of(&kafka, 1), Peer::of(&kafka, 1));
    dies.join("t", 50);
    let joined: JoinGroupResponse = dies.receive(9);
    dies.ask(&sync(&joined), 5);
    stays.join("t", 60_000);
    let joined: JoinGroupResponse = stays.receive(9);
    assert_eq!((joined.error_code, joined.members.len()), (ErrorCode::NONE, 1));
    assert_eq!(joined.leader, joined.member_id);
    let too_short = dies.ask(&join("t", 49), 9);
    assert_eq!(too_short.error_code, ErrorCode::INVALID_SESSION_TIMEOUT);
}

#[test]
fn a_coordinator_can_be_found_moved_and_lost() {
    let kafka = Cluster::builder().brokers(2).topic("t", 1).start().expect("a cluster");
    let (mut one, mut two) = (Peer::of(&kafka, 1), Peer::of(&kafka, 2));
    let find = FindCoordinatorRequest {
        coordinator_keys: vec!["g".to_owned(), "other".to_owned()],
        ..Default::default()
    };
    kafka.move_coordinator("g", 2).expect("it runs");
    let found: FindCoordinatorResponse = one.ask(&find, 4);
    assert_eq!((found.coordinators.len(), found.coordinators[0].node_id), (2, 2));
    let code = one.ask(&beat("m", 1), 4).error_code;
    assert_eq!(code, ErrorCode::NOT_COORDINATOR);
    let member = two.join("t", 10_000);
    let joined: JoinGroupResponse = two.receive(9);
    two.ask(&sync(&joined), 5);
    // The second waits at broker 2 until the coordinator moves to broker 1, where it goes on.
    let mut waits = Peer::of(&kafka, 2);
    let second = waits.join("t", 10_000);
    while two.ask(&beat(&member, 1), 4).error_code == ErrorCode::NONE {}
    kafka.move_coordinator("g", 1).expect("it runs");
    assert_eq!(waits.receive::<JoinGroupResponse>(9).error_code, ErrorCode::NOT_COORDINATOR);
    let mut there = Peer::of(&kafka, 1);
    for (peer, id) in [(&mut there, &second), (&mut one, &member)] {
        let mut again = join("t", 10_000);
        again.member_id.clone_from(id);
        peer.send(&again, 9);
    }
    assert_eq!(there.receive::<JoinGroupResponse>(9).generation_id, 2);
    assert_eq!(one.receive::<JoinGroupResponse>(9).generation_id, 2);
    kafka.stop_broker(1);
    let found: FindCoordinatorResponse = two.ask(&find, 4);
    assert!(found.coordinators.iter().all(|row| row.node_id == 2));
    assert!(kafka.move_coordinator("g", 1).is_err(), "it does not run");
}

#[test]
fn offsets_are_kept_by_name_and_by_id_in_every_version() {
    let kafka =
        Cluster::builder().as_kafka(Release::V4_4).topic("t", 1).start().expect("a cluster");
    let mut peer = Peer::of(&kafka, 1);
    let id = topic_id(&kafka);
    for version in 2..=10 {
        let offset = i64::from(version);
        let code = peer.ask(&commit(offset, id), version).topics[0].partitions[0].error_code;
        assert!(code.is_ok(), "{code}");
        for version in 1..=10 {
            assert_eq!(committed(&mut peer, version, id), (offset, ErrorCode::NONE));
        }
    }
    let strange = Uuid([7; 16]);
    let code = peer.ask(&commit(1, strange), 10).topics[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(committed(&mut peer, 10, strange), (-1, ErrorCode::UNKNOWN_TOPIC_ID));
    let mut wrong = commit(1, id);
    wrong.topics[0].partitions[0].partition_index = 1;
    let code = peer.ask(&wrong, 9).topics[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let mut long = commit(1, id);
    long.topics[0].partitions[0].committed_metadata = Some("x".repeat(4097));
    let code = peer.ask(&long, 9).topics[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::OFFSET_METADATA_TOO_LARGE);

    let mut all = fetch(9, id);
    all.groups[0].topics = None;
    let rows = peer.ask(&all, 9).groups.remove(0).topics;
    assert_eq!((rows.len(), rows[0].name.as_str()), (1, "t"));
    let text = rows[0].partitions[0].metadata.as_deref();
    assert_eq!(text, Some("at 10"), "the last commit that was taken");

    let mut unknown = commit(1, id);
    (unknown.group_id, unknown.generation_id_or_member_epoch) = ("none".to_owned(), 3);
    let code =
        |peer: &mut Peer, version| peer.ask(&unknown, version).topics[0].partitions[0].error_code;
    assert_eq!(code(&mut peer, 8), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(code(&mut peer, 9), ErrorCode::GROUP_ID_NOT_FOUND);

    kafka.shared.change(|state| state.delete_topic("t"));
    kafka.create_topic("t", 1).expect("again");
    assert_eq!(committed(&mut peer, 9, Uuid::ZERO), (-1, ErrorCode::NONE), "gone with the topic");
}

#[test]
fn an_open_transaction_makes_offsets_unstable() {
    let kafka = Cluster::builder().topic("t", 1).start().expect("a cluster");
    let mut peer = Peer::of(&kafka, 1);
    peer.ask(&commit(1, Uuid::ZERO), 9);
    let pending =
        crate::broker::state::Committed { offset: 9, leader_epoch: -1, metadata: String::new() };
    kafka.shared.change(|state| {
        state.offsets_mut("g").expect("the group").add_pending(4, "t", 0, pending);
    });
    let mut stable = fetch(9, Uuid::ZERO);
    stable.require_stable = true;
    let row = |peer: &mut Peer, request: &OffsetFetchRequest| {
        let answer = peer.ask(request, 9);
        let row = &answer.groups[0].topics[0].partitions[0];
        (row.committed_offset, row.error_code)
    };
    assert_eq!(row(&mut peer, &stable), (-1, ErrorCode::UNSTABLE_OFFSET_COMMIT));
    assert_eq!(row(&mut peer, &fetch(9, Uuid::ZERO)), (1, ErrorCode::NONE));
    kafka.shared.change(|state| state.end_pending_offsets(4, true, |_| true));
    assert_eq!(row(&mut peer, &stable), (9, ErrorCode::NONE));
}

#[test]
fn every_version_of_every_release_has_an_answer() {
    fn all<R: Request>(release: Release, request: &R) {
        let kafka = Cluster::builder().as_kafka(release).start().expect("a cluster");
        let Some(range) = release.versions(R::API) else { return };
        let mut peer = Peer::of(&kafka, 1);
        for version in range.min..=range.max {
            peer.ask(request, version);
        }
    }
    for release in [Release::V0_11, Release::V2_1, Release::V2_8, Release::V3_9, Release::V4_4] {
        all(release, &JoinGroupRequest::default());
        all(release, &SyncGroupRequest::default());
        all(release, &HeartbeatRequest::default());
        all(release, &LeaveGroupRequest::default());
        all(release, &DescribeGroupsRequest::default());
        all(release, &ListGroupsRequest::default());
        all(release, &DeleteGroupsRequest::default());
        all(release, &OffsetDeleteRequest::default());
        all(release, &OffsetCommitRequest::default());
        all(release, &OffsetFetchRequest::default());
        all(release, &FindCoordinatorRequest::default());
        all(release, &InitProducerIdRequest::default());
        all(release, &AddPartitionsToTxnRequest::default());
        all(release, &AddOffsetsToTxnRequest::default());
        all(release, &TxnOffsetCommitRequest::default());
        all(release, &EndTxnRequest::default());
        all(release, &ListTransactionsRequest::default());
        all(release, &DescribeTransactionsRequest::default());
    }
}
