//! `AddPartitionsToTxn`, API 24: partitions that a transaction is about to write to (KIP-98).
//!
//! Goes to the transaction's coordinator. Versions up to 3 are for clients; later ones ask for
//! several transactions at once and are sent by brokers (KIP-890). All or nothing: where one
//! partition fails, the others answer `OPERATION_NOT_ATTEMPTED`. Not needed by the newer
//! transaction protocol (KIP-890): there the first Produce adds the partition.

use super::super::ErrorCode;

messages! {
    /// Adds partitions to transactions.
    struct AddPartitionsToTxnRequest {
        /// The transactions, from version 4 on.
        transactions: Vec<AddPartitionsToTxnTransaction> [4+];
        /// The transactional id, up to version 3.
        v3_and_below_transactional_id: String [0-3];
        /// The producer id, up to version 3.
        v3_and_below_producer_id: i64 [0-3];
        /// The producer's epoch, up to version 3.
        v3_and_below_producer_epoch: i16 [0-3];
        /// The partitions, up to version 3.
        v3_and_below_topics: Vec<AddPartitionsToTxnTopic> [0-3];
    }

    /// A transaction and its new partitions.
    struct AddPartitionsToTxnTransaction {
        /// The transactional id (KIP-98).
        transactional_id: String [4+];
        /// The producer id.
        producer_id: i64 [4+];
        /// The producer's epoch.
        producer_epoch: i16 [4+];
        /// Whether to check only that the partitions belong to the transaction.
        verify_only: bool [4+];
        /// By topic.
        topics: Vec<AddPartitionsToTxnTopic> [4+];
    }

    /// New partitions of a topic.
    struct AddPartitionsToTxnTopic {
        /// The topic.
        name: String [0+];
        /// The partitions.
        partitions: Vec<i32> [0+];
    }

    /// Answers [`AddPartitionsToTxnRequest`].
    struct AddPartitionsToTxnResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [4+], ignorable;
        /// What became of them by transaction, from version 4 on.
        results_by_transaction: Vec<AddPartitionsToTxnResult> [4+];
        /// What became of them, up to version 3.
        results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult> [0-3];
    }

    /// What became of a transaction's partitions.
    struct AddPartitionsToTxnResult {
        /// The transactional id (KIP-98).
        transactional_id: String [4+];
        /// By topic.
        topic_results: Vec<AddPartitionsToTxnTopicResult> [4+];
    }

    /// What became of a topic's partitions.
    struct AddPartitionsToTxnTopicResult {
        /// The topic.
        name: String [0+];
        /// By partition.
        results_by_partition: Vec<AddPartitionsToTxnPartitionResult> [0+];
    }

    /// What became of a partition.
    struct AddPartitionsToTxnPartitionResult {
        /// The partition.
        partition_index: i32 [0+];
        /// 0, or why it failed.
        partition_error_code: ErrorCode [0+];
    }
}
