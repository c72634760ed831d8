//! `LeaveGroup`, API 13: takes members out of a group (classic protocol).
//!
//! Goes to the group's coordinator. Several members at once from version 3 on (KIP-345).

use super::super::ErrorCode;

messages! {
    /// Takes members out.
    struct LeaveGroupRequest {
        /// The group.
        group_id: String [0+];
        /// The member's id, up to version 2.
        member_id: String [0-2];
        /// The members, from version 3 on.
        members: Vec<MemberIdentity> [3+];
    }

    /// A member that leaves.
    struct MemberIdentity {
        /// The member's id, empty to name a static member by its instance id alone.
        member_id: String [3+];
        /// The id of a static member, `None` for a dynamic one (KIP-345).
        group_instance_id: Option<String> [3+] null[3+];
        /// Why, for the broker's log (KIP-800).
        reason: Option<String> [5+] null[5+], ignorable;
    }

    /// Answers [`LeaveGroupRequest`].
    struct LeaveGroupResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [1+], ignorable;
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// What became of them.
        members: Vec<MemberResponse> [3+];
    }

    /// What became of a member.
    struct MemberResponse {
        /// The member's id.
        member_id: String [3+];
        /// The id of a static member, `None` for a dynamic one (KIP-345).
        group_instance_id: Option<String> [3+] null[3+] = Some(String::new());
        /// 0, or why it failed.
        error_code: ErrorCode [3+];
    }
}
