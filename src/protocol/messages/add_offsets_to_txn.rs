//! `AddOffsetsToTxn`, API 25: a group whose offsets a transaction is about to commit (KIP-98).
//!
//! Goes to the transaction's coordinator. Not needed by the newer transaction protocol (KIP-890).

use super::super::ErrorCode;

messages! {
    /// Adds a group to a transaction.
    struct AddOffsetsToTxnRequest {
        /// The transactional id (KIP-98).
        transactional_id: String [0+];
        /// The producer id.
        producer_id: i64 [0+];
        /// The producer's epoch.
        producer_epoch: i16 [0+];
        /// The group.
        group_id: String [0+];
    }

    /// Answers [`AddOffsetsToTxnRequest`].
    struct AddOffsetsToTxnResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
    }
}
