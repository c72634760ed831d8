//! `DescribeProducers`, API 61: what a leader remembers of the producers of a partition (KIP-664).
//!
//! Goes to each partition's leader.

use super::super::ErrorCode;

messages! {
    /// Asks for the producers of partitions.
    struct DescribeProducersRequest {
        /// Of what.
        topics: Vec<TopicRequest> [0+];
    }

    /// Partitions of a topic.
    struct TopicRequest {
        /// The topic.
        name: String [0+];
        /// The partitions.
        partition_indexes: Vec<i32> [0+];
    }

    /// Answers [`DescribeProducersRequest`].
    struct DescribeProducersResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// The producers.
        topics: Vec<TopicResponse> [0+];
    }

    /// The producers of a topic.
    struct TopicResponse {
        /// The topic.
        name: String [0+];
        /// By partition.
        partitions: Vec<PartitionResponse> [0+];
    }

    /// The producers of a partition.
    struct PartitionResponse {
        /// The partition.
        partition_index: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [0+] null[0+];
        /// The producers that it remembers.
        active_producers: Vec<ProducerState> [0+];
    }

    /// A producer of a partition.
    struct ProducerState {
        /// Its id.
        producer_id: i64 [0+];
        /// Its epoch.
        producer_epoch: i32 [0+];
        /// The sequence number of its last record, -1 for none.
        last_sequence: i32 [0+] = -1;
        /// When it wrote last, in milliseconds, -1 for never.
        last_timestamp: i64 [0+] = -1;
        /// The epoch of the coordinator of its last marker.
        coordinator_epoch: i32 [0+];
        /// The first offset of its open transaction, -1 for none.
        current_txn_start_offset: i64 [0+] = -1;
    }
}
