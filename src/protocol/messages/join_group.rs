//! `JoinGroup`, API 11: joins a group of the classic protocol, or joins it again for the next
//! generation.
//!
//! Goes to the group's coordinator. The answer comes when all known members have joined or the
//! rebalance time-out has passed. From version 4 on a new member is sent away once, with
//! `MEMBER_ID_REQUIRED` and its id (KIP-394).

use super::super::{Bytes, ErrorCode};

messages! {
    /// Joins a group.
    struct JoinGroupRequest {
        /// The group.
        group_id: String [0+];
        /// How long the member may be silent before the group goes on without it, in milliseconds.
        session_timeout_ms: i32 [0+];
        /// How long the group waits for the member to join again, in milliseconds; -1 stands for
        /// the session time-out (KIP-62).
        rebalance_timeout_ms: i32 [1+] = -1, ignorable;
        /// The member's id, empty when it has none yet.
        member_id: String [0+];
        /// The id of a static member, `None` for a dynamic one (KIP-345).
        group_instance_id: Option<String> [5+] null[5+];
        /// The kind of protocol, `consumer` for consumers.
        protocol_type: String [0+];
        /// The protocols, the favourite first.
        protocols: Vec<JoinGroupRequestProtocol> [0+];
        /// Why, for the broker's log (KIP-800).
        reason: Option<String> [8+] null[8+], ignorable;
    }

    /// A protocol that the member speaks.
    struct JoinGroupRequestProtocol {
        /// Its name, an assignor's for consumers.
        name: String [0+];
        /// What the member tells the leader: for consumers a [`ConsumerProtocolSubscription`]
        /// behind its version.
        ///
        /// [`ConsumerProtocolSubscription`]: super::ConsumerProtocolSubscription
        metadata: Bytes [0+];
    }

    /// Answers [`JoinGroupRequest`].
    struct JoinGroupResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [2+], ignorable;
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The generation that begins.
        generation_id: i32 [0+] = -1;
        /// The kind of protocol, `consumer` for consumers (KIP-559).
        protocol_type: Option<String> [7+] null[7+], ignorable;
        /// The chosen protocol.
        protocol_name: Option<String> [0+] null[7+] = Some(String::new());
        /// The member that makes the assignment.
        leader: String [0+];
        /// Whether the leader has nothing to assign, since static members came back (KIP-814).
        skip_assignment: bool [9+];
        /// The member's id, which `MEMBER_ID_REQUIRED` brings too.
        member_id: String [0+];
        /// All members, for the leader; empty for the others.
        members: Vec<JoinGroupResponseMember> [0+];
    }

    /// A member, as the leader sees it.
    struct JoinGroupResponseMember {
        /// The member's id.
        member_id: String [0+];
        /// The id of a static member, `None` for a dynamic one (KIP-345).
        group_instance_id: Option<String> [5+] null[5+], ignorable;
        /// What the member tells the leader: for consumers a [`ConsumerProtocolSubscription`]
        /// behind its version.
        ///
        /// [`ConsumerProtocolSubscription`]: super::ConsumerProtocolSubscription
        metadata: Bytes [0+];
    }
}
