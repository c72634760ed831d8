//! `SyncGroup`, API 14: the assignment of a generation, from the leader to all (classic protocol).
//!
//! Goes to the group's coordinator. The leader sends the assignments, the others none; each gets
//! its own when the leader's have come.

use super::super::{Bytes, ErrorCode};

messages! {
    /// Brings or fetches the assignment.
    struct SyncGroupRequest {
        /// The group.
        group_id: String [0+];
        /// The generation of the group that the member knows.
        generation_id: i32 [0+];
        /// The member's id.
        member_id: String [0+];
        /// The id of a static member, `None` for a dynamic one (KIP-345).
        group_instance_id: Option<String> [3+] null[3+];
        /// The kind of protocol, `consumer` for consumers: the broker checks it (KIP-559).
        protocol_type: Option<String> [5+] null[5+], ignorable;
        /// The name of the chosen protocol, an assignor's for consumers, checked too.
        protocol_name: Option<String> [5+] null[5+], ignorable;
        /// The assignments, from the leader; empty from the others.
        assignments: Vec<SyncGroupRequestAssignment> [0+];
    }

    /// The assignment of a member.
    struct SyncGroupRequestAssignment {
        /// The member's id.
        member_id: String [0+];
        /// What the member gets: for consumers a [`ConsumerProtocolAssignment`] behind its version.
        ///
        /// [`ConsumerProtocolAssignment`]: super::ConsumerProtocolAssignment
        assignment: Bytes [0+];
    }

    /// Answers [`SyncGroupRequest`].
    struct SyncGroupResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [1+], ignorable;
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The kind of protocol, `consumer` for consumers.
        protocol_type: Option<String> [5+] null[5+], ignorable;
        /// The name of the chosen protocol, an assignor's for consumers.
        protocol_name: Option<String> [5+] null[5+], ignorable;
        /// What this member gets, empty on error.
        assignment: Bytes [0+];
    }
}
