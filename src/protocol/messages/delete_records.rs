//! `DeleteRecords`, API 21: moves the start of logs forward (KIP-107).
//!
//! Goes to each partition's leader. A topic that is only compacted refuses it
//! (`POLICY_VIOLATION`).

use super::super::ErrorCode;

messages! {
    /// Moves the start of logs forward.
    struct DeleteRecordsRequest {
        /// What to delete.
        topics: Vec<DeleteRecordsTopic> [0+];
        /// How long the broker may wait for the replicas, in milliseconds.
        timeout_ms: i32 [0+];
    }

    /// A topic to delete from.
    struct DeleteRecordsTopic {
        /// The topic.
        name: String [0+];
        /// The partitions.
        partitions: Vec<DeleteRecordsPartition> [0+];
    }

    /// A partition to delete from.
    struct DeleteRecordsPartition {
        /// The partition.
        partition_index: i32 [0+];
        /// The first offset to keep; -1 stands for the high watermark.
        offset: i64 [0+];
    }

    /// Answers [`DeleteRecordsRequest`].
    struct DeleteRecordsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// What became of it.
        topics: Vec<DeleteRecordsTopicResult> [0+];
    }

    /// What became of a topic.
    struct DeleteRecordsTopicResult {
        /// The topic.
        name: String [0+];
        /// The partitions.
        partitions: Vec<DeleteRecordsPartitionResult> [0+];
    }

    /// What became of a partition.
    struct DeleteRecordsPartitionResult {
        /// The partition.
        partition_index: i32 [0+];
        /// The first offset of the log on all replicas, -1 on error.
        low_watermark: i64 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
    }
}
