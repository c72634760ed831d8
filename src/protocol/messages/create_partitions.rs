//! `CreatePartitions`, API 37: adds partitions to topics (KIP-195).
//!
//! Goes to the controller; a KRaft broker forwards it, so that any does. Keys of records map to
//! other partitions afterwards.

use super::super::ErrorCode;

messages! {
    /// Adds partitions to topics.
    struct CreatePartitionsRequest {
        /// The topics that grow.
        topics: Vec<CreatePartitionsTopic> [0+];
        /// How long the broker may take, in milliseconds.
        timeout_ms: i32 [0+];
        /// Whether to check only, and change nothing.
        validate_only: bool [0+];
    }

    /// A topic that grows.
    struct CreatePartitionsTopic {
        /// The topic.
        name: String [0+];
        /// How many partitions it has afterwards: more than now, else `INVALID_PARTITIONS`.
        count: i32 [0+];
        /// The replicas of each new partition, `None` to leave that to the controller.
        assignments: Option<Vec<CreatePartitionsAssignment>> [0+] null[0+] = Some(Vec::new());
    }

    /// The replicas of a new partition.
    struct CreatePartitionsAssignment {
        /// The brokers, the preferred leader first.
        broker_ids: Vec<i32> [0+];
    }

    /// Answers [`CreatePartitionsRequest`].
    struct CreatePartitionsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// What became of them.
        results: Vec<CreatePartitionsTopicResult> [0+];
    }

    /// What became of a topic.
    struct CreatePartitionsTopicResult {
        /// The topic.
        name: String [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [0+] null[0+];
    }
}
