//! `InitProducerId`, API 22: gives a producer its id and epoch (KIP-98).
//!
//! Without a transactional id any broker answers, with a fresh id; `COORDINATOR_LOAD_IN_PROGRESS`
//! is usual for the first call after a broker's start. With one its coordinator answers: it fences
//! whoever used the transactional id before, and ends their transaction first
//! (`CONCURRENT_TRANSACTIONS` until then). Version 6 (KIP-939) is unstable: a broker closes the
//! connection on it unless told otherwise.

use super::super::ErrorCode;

messages! {
    /// Asks for a producer id and epoch.
    struct InitProducerIdRequest {
        /// The transactional id, `None` for a producer that is idempotent only; empty is illegal.
        transactional_id: Option<String> [0+] null[0+] = Some(String::new());
        /// After how many milliseconds the coordinator aborts a transaction that is not ended;
        /// ignored without a transactional id.
        transaction_timeout_ms: i32 [0+];
        /// The present id, to get its next epoch while it is still the present one (KIP-360); -1
        /// for the first time.
        producer_id: i64 [3+] = -1;
        /// The present epoch, -1 for the first time.
        producer_epoch: i16 [3+] = -1;
        /// Whether two-phase commit is wanted (KIP-939).
        enable_2pc: bool [6+];
        /// Whether to keep a prepared transaction instead of aborting it (KIP-939).
        keep_prepared_txn: bool [6+];
    }

    /// Answers [`InitProducerIdRequest`].
    struct InitProducerIdResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+], ignorable;
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The producer id, -1 on error.
        producer_id: i64 [0+] = -1;
        /// The producer epoch.
        producer_epoch: i16 [0+];
        /// The producer id of the prepared transaction, -1 for none (KIP-939).
        ongoing_txn_producer_id: i64 [6+] = -1;
        /// The epoch of the prepared transaction, -1 for none (KIP-939).
        ongoing_txn_producer_epoch: i16 [6+] = -1;
    }
}
