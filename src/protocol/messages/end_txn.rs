//! `EndTxn`, API 26: commits or aborts a transaction (KIP-98).
//!
//! Goes to the transaction's coordinator. From version 5 on the answer raises the producer's epoch
//! (KIP-890): only for the newer transaction protocol, an older one must stay below. Asked again,
//! it answers the same; with the opposite wish `INVALID_TXN_STATE`.

use super::super::ErrorCode;

messages! {
    /// Ends a transaction.
    struct EndTxnRequest {
        /// The transactional id (KIP-98).
        transactional_id: String [0+];
        /// The producer id.
        producer_id: i64 [0+];
        /// The producer's epoch.
        producer_epoch: i16 [0+];
        /// Whether to commit; else the transaction is aborted.
        committed: bool [0+];
    }

    /// Answers [`EndTxnRequest`].
    struct EndTxnResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The producer id from now on, -1 when it does not change.
        producer_id: i64 [5+] = -1, ignorable;
        /// The producer's epoch from now on, -1 when it does not change.
        producer_epoch: i16 [5+] = -1, ignorable;
    }
}
