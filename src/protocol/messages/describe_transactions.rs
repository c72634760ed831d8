//! `DescribeTransactions`, API 65: state and partitions of transactions (KIP-664).
//!
//! Goes to each transaction's coordinator.

use super::super::ErrorCode;

messages! {
    /// Asks for transactions.
    struct DescribeTransactionsRequest {
        /// The transactional ids.
        transactional_ids: Vec<String> [0+];
    }

    /// Answers [`DescribeTransactionsRequest`].
    struct DescribeTransactionsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// The transactions.
        transaction_states: Vec<DescribedTransaction> [0+];
    }

    /// A transaction; `TransactionState` in Kafka's schema.
    struct DescribedTransaction {
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The transactional id (KIP-98).
        transactional_id: String [0+];
        /// Its state, in the words of `ListTransactions`.
        transaction_state: String [0+];
        /// After how long the coordinator aborts it, in milliseconds.
        transaction_timeout_ms: i32 [0+];
        /// When it began, in milliseconds since 1970; -1 when none is open.
        transaction_start_time_ms: i64 [0+];
        /// The producer id.
        producer_id: i64 [0+];
        /// The producer's epoch.
        producer_epoch: i16 [0+];
        /// The partitions in it; once it ends, those that still lack a marker.
        topics: Vec<DescribedTransactionTopic> [0+];
    }

    /// Partitions of a topic; `TopicData` in Kafka's schema.
    struct DescribedTransactionTopic {
        /// The topic.
        topic: String [0+];
        /// The partitions.
        partitions: Vec<i32> [0+];
    }
}
