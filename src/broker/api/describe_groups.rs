//! `DescribeGroups`, API 15, versions 0-6: state and members of groups of the classic protocol.
//!
//! The coordinator answers. A group that is not there is "Dead", without an error before version 6 and with
//! `GROUP_ID_NOT_FOUND` from then on. Metadata and assignments are shown of a stable group only.

use super::super::call::{Api, Call, Outcome};
use super::super::release::Release;
use super::super::state::{Group, GroupState};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

/// Bits of READ, DELETE and DESCRIBE (`AclOperation`): all that can be done to a group up to Kafka 3.9.
const OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8;
/// Bits of `DESCRIBE_CONFIGS` and `ALTER_CONFIGS`, which came with Kafka 4.
const CONFIG_OPERATIONS: i32 = 1 << 10 | 1 << 11;

impl Api for DescribeGroupsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<DescribeGroupsResponse> {
        let mut groups = Vec::new();
        for id in &self.groups {
            let mut row = describe(id, call);
            if self.include_authorized_operations && row.error_code.is_ok() {
                let more = if call.state.release >= Release::V4_4 { CONFIG_OPERATIONS } else { 0 };
                row.authorized_operations = OPERATIONS | more;
            }
            groups.push(row);
        }
        Outcome::Answer(DescribeGroupsResponse { groups, ..Default::default() })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> DescribeGroupsResponse {
        let groups = self.groups.iter().map(|id| refused(id, error)).collect();
        DescribeGroupsResponse { groups, ..Default::default() }
    }

    fn throttle(response: &mut DescribeGroupsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

fn refused(id: &str, error_code: ErrorCode) -> DescribedGroup {
    DescribedGroup { group_id: id.to_owned(), error_code, ..Default::default() }
}

fn describe(id: &str, call: &mut Call<'_>) -> DescribedGroup {
    if !call.state.coordinates(call.broker, id) {
        return refused(id, ErrorCode::NOT_COORDINATOR);
    }
    if let Some(group) = call.state.group(id, call.now) {
        return row(id, group);
    }
    let dead = DescribedGroup { group_state: "Dead".to_owned(), ..refused(id, ErrorCode::NONE) };
    if call.version < 6 {
        return dead;
    }
    DescribedGroup {
        error_code: ErrorCode::GROUP_ID_NOT_FOUND,
        error_message: Some(format!("Group {id} not found.")),
        ..dead
    }
}

fn row(id: &str, group: &Group) -> DescribedGroup {
    let protocol = group.protocol().filter(|_| group.state() == GroupState::Stable);
    let members = group.members().iter().map(|(member_id, member)| DescribedGroupMember {
        member_id: member_id.clone(),
        group_instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        member_metadata: protocol.map(|name| member.metadata(name)).unwrap_or_default(),
        member_assignment: protocol.map(|_| member.assignment.clone()).unwrap_or_default(),
        ..Default::default()
    });
    DescribedGroup {
        group_id: id.to_owned(),
        group_state: group.state().name().to_owned(),
        protocol_type: group.protocol_type().unwrap_or_default().to_owned(),
        protocol_data: protocol.unwrap_or_default().to_owned(),
        members: members.collect(),
        ..Default::default()
    }
}
