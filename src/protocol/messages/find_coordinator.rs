//! FindCoordinator, API 10: asks which broker coordinates a group or a transactional id; any
//! broker answers.

use super::super::ErrorCode;

messages! {
    /// Asks which broker coordinates a group or a transactional id; any broker answers.
    struct FindCoordinatorRequest {
        /// The key that was asked about.
        key: String [0-3];
        /// What the keys are: 0 groups, 1 transactional ids, 2 share partitions.
        key_type: i8 [1+];
        /// Batched keys.
        coordinator_keys: Vec<String> [4+];
    }

    /// Answers [`FindCoordinatorRequest`].
    struct FindCoordinatorResponse {
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [1+], ignorable;
        /// The error, 0 for none.
        error_code: ErrorCode [0-3];
        /// The broker's own words about the error.
        error_message: Option<String> [1-3] null[1-3] = Some(String::new()), ignorable;
        /// The broker's id.
        node_id: i32 [0-3];
        /// Host name or address.
        host: String [0-3];
        /// TCP port.
        port: i32 [0-3];
        /// One entry per key.
        coordinators: Vec<Coordinator> [4+];
    }

    /// An entry of [`FindCoordinatorResponse`].
    struct Coordinator {
        /// The key that was asked about.
        key: String [4+];
        /// The broker's id.
        node_id: i32 [4+];
        /// Host name or address.
        host: String [4+];
        /// TCP port.
        port: i32 [4+];
        /// The error, 0 for none.
        error_code: ErrorCode [4+];
        /// The broker's own words about the error.
        error_message: Option<String> [4+] null[4+] = Some(String::new()), ignorable;
    }
}
