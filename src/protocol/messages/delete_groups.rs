//! `DeleteGroups`, API 42: deletes groups that have no members, with their offsets (KIP-229).
//!
//! Goes to each group's coordinator.

use super::super::ErrorCode;

messages! {
    /// Deletes groups.
    struct DeleteGroupsRequest {
        /// The groups.
        groups_names: Vec<String> [0+];
    }

    /// Answers [`DeleteGroupsRequest`].
    struct DeleteGroupsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// What became of them.
        results: Vec<DeletableGroupResult> [0+];
    }

    /// What became of a group.
    struct DeletableGroupResult {
        /// The group.
        group_id: String [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [3+] null[3+], ignorable;
    }
}
