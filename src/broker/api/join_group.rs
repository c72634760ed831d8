//! `JoinGroup`, API 11, versions 0-9: becomes or stays a member of a group of the classic protocol.
//!
//! Waits until all members have joined or their time is over. From version 4 on a dynamic member
//! without an id is given one with `MEMBER_ID_REQUIRED` and comes again (KIP-394); from 5 on members
//! may be static (KIP-345); from 9 on a static leader that comes back may be told to assign nothing
//! (KIP-814). Version 0 has one time-out for both. A coordinator that is moved away answers
//! `NOT_COORDINATOR` to who waits. `group.initial.rebalance.delay.ms` is 0: a first member joins at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::call::{Api, Call, Outcome};
use super::super::state::{Answer, Join, Joined};
use super::group_wait::{Waited, group_wait};
use crate::protocol::messages::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};
use crate::protocol::{Bytes, ErrorCode};

/// `group.max.session.timeout.ms`.
const SESSION_TIMEOUT_MS_MAX: i32 = 1_800_000;

impl Api for JoinGroupRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<JoinGroupResponse> {
        if call.first {
            if let Err((error, member_id)) = enter(self, call) {
                return Outcome::Answer(response(Joined::refused(error, member_id), call.version));
            }
            call.state.await_group(call.peer.connection);
            let join = join_of(self, call);
            let now = call.now;
            call.state.with_group(&self.group_id, now, |group| group.join(&join, now));
        }
        match group_wait(&self.group_id, call) {
            Waited::Answer(Answer::Join(joined)) => Outcome::Answer(response(joined, call.version)),
            Waited::Until(until) => Outcome::Wait(until),
            Waited::Refused(error) => Outcome::Answer(self.refuse(error, call)),
            Waited::Answer(Answer::Sync(_)) => {
                Outcome::Answer(self.refuse(ErrorCode::UNKNOWN_SERVER_ERROR, call))
            }
        }
    }

    fn refuse(&self, error: ErrorCode, call: &mut Call<'_>) -> JoinGroupResponse {
        response(Joined::refused(error, ""), call.version)
    }

    fn throttle(response: &mut JoinGroupResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

/// Whether it may come before the group: the error and the id to answer with.
fn enter<'a>(
    request: &'a JoinGroupRequest,
    call: &mut Call<'_>,
) -> Result<(), (ErrorCode, &'a str)> {
    let (id, member_id) = (&request.group_id, request.member_id.as_str());
    if id.is_empty() {
        return Err((ErrorCode::INVALID_GROUP_ID, member_id));
    }
    let sessions = call.state.settings.group_session_timeout_ms_min..=SESSION_TIMEOUT_MS_MAX;
    if !sessions.contains(&request.session_timeout_ms) {
        return Err((ErrorCode::INVALID_SESSION_TIMEOUT, member_id));
    }
    if !call.state.coordinates(call.broker, id) {
        return Err((ErrorCode::NOT_COORDINATOR, ""));
    }
    let known = call.state.group(id, call.now).is_some();
    if !known && !member_id.is_empty() {
        return Err((ErrorCode::UNKNOWN_MEMBER_ID, member_id));
    }
    let protocols = request.protocols.iter();
    let weight: usize = protocols.map(|p| p.name.len() + p.metadata.len()).sum();
    if !call.state.has_room_for_member(weight) {
        return Err((ErrorCode::GROUP_MAX_SIZE_REACHED, ""));
    }
    if !call.state.ensure_group(id, call.now) {
        return Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, ""));
    }
    Ok(())
}

fn join_of(request: &JoinGroupRequest, call: &mut Call<'_>) -> Join {
    let duration = |ms: i32| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    let client_id = call.peer.client_id.clone().unwrap_or_default();
    let stem = request.group_instance_id.as_ref().unwrap_or(&client_id);
    let new_member_id = format!("{stem}-{}", call.state.new_uuid_text());
    let rebalance_ms =
        if call.version == 0 { request.session_timeout_ms } else { request.rebalance_timeout_ms };
    let mut seen = BTreeSet::new();
    let protocols = request.protocols.iter().filter(|protocol| seen.insert(protocol.name.as_str()));
    // Without the frame behind them.
    let protocols = protocols.map(|p| (p.name.clone(), Bytes::from(p.metadata.to_vec())));
    Join {
        ticket: call.peer.connection,
        member_id: request.member_id.clone(),
        new_member_id,
        instance_id: request.group_instance_id.clone(),
        client_id,
        client_host: call.peer.host.clone(),
        session_timeout: duration(request.session_timeout_ms),
        rebalance_timeout: duration(rebalance_ms),
        protocol_type: request.protocol_type.clone(),
        protocols: protocols.collect(),
        comes_again: call.version >= 4,
        may_skip_assignment: call.version >= 9,
    }
}

fn response(joined: Joined, version: i16) -> JoinGroupResponse {
    let member = |(member_id, group_instance_id, metadata)| JoinGroupResponseMember {
        member_id,
        group_instance_id,
        metadata,
        ..Default::default()
    };
    JoinGroupResponse {
        error_code: joined.error,
        generation_id: joined.generation,
        protocol_type: joined.protocol_type,
        protocol_name: if version < 7 {
            Some(joined.protocol.unwrap_or_default())
        } else {
            joined.protocol
        },
        leader: joined.leader,
        skip_assignment: joined.skip_assignment,
        member_id: joined.member_id,
        members: joined.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}
