//! `FindCoordinator`, API 10: which broker coordinates a group or a transactional id.
//!
//! Any broker answers. `COORDINATOR_NOT_AVAILABLE` is usual while the internal topic behind it is
//! being created: ask again after a while. From version 4 on one request asks about many keys
//! (KIP-699).

use super::super::ErrorCode;

messages! {
    /// Asks who coordinates.
    struct FindCoordinatorRequest {
        /// The key, up to version 3.
        key: String [0-3];
        /// What the keys are: 0 groups, 1 transactional ids (KIP-98), 2 share partitions (KIP-932).
        key_type: i8 [1+];
        /// The keys, from version 4 on.
        coordinator_keys: Vec<String> [4+];
    }

    /// Answers [`FindCoordinatorRequest`]: in the fields themselves up to version 3, in
    /// `coordinators` from version 4 on.
    struct FindCoordinatorResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [1+], ignorable;
        /// 0, or why it failed.
        error_code: ErrorCode [0-3];
        /// The broker's own words about the error.
        error_message: Option<String> [1-3] null[1-3] = Some(String::new()), ignorable;
        /// The coordinator's id, -1 on error.
        node_id: i32 [0-3];
        /// Where it can be reached: a host name or address.
        host: String [0-3];
        /// Where it can be reached: the TCP port.
        port: i32 [0-3];
        /// The coordinator of each key.
        coordinators: Vec<Coordinator> [4+];
    }

    /// Who coordinates a key.
    struct Coordinator {
        /// The key.
        key: String [4+];
        /// The coordinator's id, -1 on error.
        node_id: i32 [4+];
        /// Where it can be reached: a host name or address.
        host: String [4+];
        /// Where it can be reached: the TCP port.
        port: i32 [4+];
        /// 0, or why it failed.
        error_code: ErrorCode [4+];
        /// The broker's own words about the error.
        error_message: Option<String> [4+] null[4+] = Some(String::new()), ignorable;
    }
}
