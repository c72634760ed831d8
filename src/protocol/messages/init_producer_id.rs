//! InitProducerId, API 22: asks for a producer id and epoch; any broker answers, with a
//! transactional id its coordinator.

use super::super::ErrorCode;

messages! {
    /// Asks for a producer id and epoch; any broker answers, with a transactional id its
    /// coordinator.
    struct InitProducerIdRequest {
        /// The transactional id.
        transactional_id: Option<String> [0+] null[0+] = Some(String::new());
        /// Ignored without transactional id (Java sends i32::MAX).
        transaction_timeout_ms: i32 [0+];
        /// The producer's id.
        producer_id: i64 [3+] = -1;
        /// The producer's epoch.
        producer_epoch: i16 [3+] = -1;
        /// Whether two-phase commit is wanted (KIP-939).
        enable_2pc: bool [6+];
        /// Whether to keep a prepared transaction (KIP-939).
        keep_prepared_txn: bool [6+];
    }

    /// Answers [`InitProducerIdRequest`].
    struct InitProducerIdResponse {
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [0+], ignorable;
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
        /// The producer's id.
        producer_id: i64 [0+] = -1;
        /// The producer's epoch.
        producer_epoch: i16 [0+];
        /// The producer id of the ongoing transaction, -1 for none.
        ongoing_txn_producer_id: i64 [6+] = -1;
        /// The epoch of the ongoing transaction, -1 for none.
        ongoing_txn_producer_epoch: i16 [6+] = -1;
    }
}
