//! `ListTransactions`, API 66: the transactions that a broker coordinates (KIP-664).
//!
//! Each broker knows its own: ask them all.

use super::super::ErrorCode;

messages! {
    /// Asks for the transactions.
    struct ListTransactionsRequest {
        /// Only those in one of these states; empty for all.
        state_filters: Vec<String> [0+];
        /// Only those of these producer ids; empty for all.
        producer_id_filters: Vec<i64> [0+];
        /// Only those that have been running for longer, in milliseconds; negative for all
        /// (KIP-994).
        duration_filter: i64 [1+] = -1;
        /// Only those whose id matches this regular expression; `None` or empty for all (KIP-1152).
        transactional_id_pattern: Option<String> [2+] null[2+];
    }

    /// Answers [`ListTransactionsRequest`].
    struct ListTransactionsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The states of the request that the broker does not know.
        unknown_state_filters: Vec<String> [0+];
        /// The transactions.
        transaction_states: Vec<ListedTransaction> [0+];
    }

    /// A transaction; `TransactionState` in Kafka's schema.
    struct ListedTransaction {
        /// The transactional id (KIP-98).
        transactional_id: String [0+];
        /// The producer id.
        producer_id: i64 [0+];
        /// `Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit`, `CompleteAbort`,
        /// `PrepareEpochFence` or `Dead`.
        transaction_state: String [0+];
    }
}
