//! `DescribeGroups`, API 15: state and members of groups of the classic protocol.
//!
//! Goes to each group's coordinator. A group that does not exist is `Dead` without an error up to
//! version 5, an error from version 6 on (KIP-1043).

use super::super::{Bytes, ErrorCode};

messages! {
    /// Asks for groups.
    struct DescribeGroupsRequest {
        /// The groups.
        groups: Vec<String> [0+];
        /// Whether to say what the client may do (KIP-430).
        include_authorized_operations: bool [3+];
    }

    /// Answers [`DescribeGroupsRequest`].
    struct DescribeGroupsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [1+], ignorable;
        /// The groups.
        groups: Vec<DescribedGroup> [0+];
    }

    /// A group.
    struct DescribedGroup {
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [6+] null[6+];
        /// The group.
        group_id: String [0+];
        /// `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable` or `Dead`.
        group_state: String [0+];
        /// The kind of protocol, `consumer` for consumers.
        protocol_type: String [0+];
        /// The chosen protocol, an assignor's name for consumers; empty unless the group is
        /// `Stable`.
        protocol_data: String [0+];
        /// The members.
        members: Vec<DescribedGroupMember> [0+];
        /// Bit n stands for operation n of Kafka's ACLs; `i32::MIN` when not asked for (KIP-430).
        authorized_operations: i32 [3+] = i32::MIN;
    }

    /// A member.
    struct DescribedGroupMember {
        /// The member's id.
        member_id: String [0+];
        /// The id of a static member, `None` for a dynamic one (KIP-345).
        group_instance_id: Option<String> [4+] null[4+], ignorable;
        /// The client id of the member's last join.
        client_id: String [0+];
        /// The address that the member joined from.
        client_host: String [0+];
        /// What the member told the leader: for consumers a [`ConsumerProtocolSubscription`] behind
        /// its version. Empty unless the group is `Stable`.
        ///
        /// [`ConsumerProtocolSubscription`]: super::ConsumerProtocolSubscription
        member_metadata: Bytes [0+];
        /// What the leader assigned to it: for consumers a [`ConsumerProtocolAssignment`] behind
        /// its version. Empty unless the group is `Stable`.
        ///
        /// [`ConsumerProtocolAssignment`]: super::ConsumerProtocolAssignment
        member_assignment: Bytes [0+];
    }
}
