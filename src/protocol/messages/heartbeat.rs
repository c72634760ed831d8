//! `Heartbeat`, API 12: keeps a member in its group (classic protocol).
//!
//! Goes to the group's coordinator. `REBALANCE_IN_PROGRESS` asks the member to join again.

use super::super::ErrorCode;

messages! {
    /// Shows that a member lives.
    struct HeartbeatRequest {
        /// The group.
        group_id: String [0+];
        /// The generation of the group that the member knows.
        generation_id: i32 [0+];
        /// The member's id.
        member_id: String [0+];
        /// The id of a static member, `None` for a dynamic one (KIP-345).
        group_instance_id: Option<String> [3+] null[3+];
    }

    /// Answers [`HeartbeatRequest`].
    struct HeartbeatResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [1+], ignorable;
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
    }
}
