//! `OffsetDelete`, API 47: deletes offsets of a group (KIP-496).
//!
//! Goes to the group's coordinator. Offsets of topics that a member subscribes to stay, with
//! `GROUP_SUBSCRIBED_TO_TOPIC`.

use super::super::ErrorCode;

messages! {
    /// Deletes offsets.
    struct OffsetDeleteRequest {
        /// The group.
        group_id: String [0+];
        /// By topic.
        topics: Vec<OffsetDeleteRequestTopic> [0+];
    }

    /// Offsets of a topic.
    struct OffsetDeleteRequestTopic {
        /// The topic.
        name: String [0+];
        /// The partitions.
        partitions: Vec<OffsetDeleteRequestPartition> [0+];
    }

    /// The offset of a partition.
    struct OffsetDeleteRequestPartition {
        /// The partition.
        partition_index: i32 [0+];
    }

    /// Answers [`OffsetDeleteRequest`].
    struct OffsetDeleteResponse {
        /// 0, or why all of it failed.
        error_code: ErrorCode [0+];
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+], ignorable;
        /// By topic.
        topics: Vec<OffsetDeleteResponseTopic> [0+];
    }

    /// What became of a topic's offsets.
    struct OffsetDeleteResponseTopic {
        /// The topic.
        name: String [0+];
        /// The partitions.
        partitions: Vec<OffsetDeleteResponsePartition> [0+];
    }

    /// What became of a partition's offset.
    struct OffsetDeleteResponsePartition {
        /// The partition.
        partition_index: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
    }
}
