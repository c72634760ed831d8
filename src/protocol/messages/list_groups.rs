//! `ListGroups`, API 16: the groups that a broker coordinates.
//!
//! Each broker knows its own: ask them all.

use super::super::ErrorCode;

messages! {
    /// Asks for the groups.
    struct ListGroupsRequest {
        /// Only groups in one of these states; empty for all (KIP-518).
        states_filter: Vec<String> [4+];
        /// Only groups of these types; empty for all (KIP-848).
        types_filter: Vec<String> [5+];
    }

    /// Answers [`ListGroupsRequest`].
    struct ListGroupsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [1+], ignorable;
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The groups.
        groups: Vec<ListedGroup> [0+];
    }

    /// A group.
    struct ListedGroup {
        /// The group.
        group_id: String [0+];
        /// The kind of protocol, `consumer` for consumers.
        protocol_type: String [0+];
        /// The state of the group (KIP-518).
        group_state: String [4+], ignorable;
        /// `classic`, `consumer`, `share` or `streams` (KIP-848).
        group_type: String [5+], ignorable;
    }
}
