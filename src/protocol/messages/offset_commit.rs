//! OffsetCommit, API 8: stores a group's offsets; goes to the group's coordinator.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Stores a group's offsets; goes to the group's coordinator.
    struct OffsetCommitRequest {
        /// The consumer group.
        group_id: String [0+];
        /// The member's generation or epoch; -1 outside a group.
        generation_id_or_member_epoch: i32 [1+] = -1, ignorable;
        /// The member of the group.
        member_id: String [1+], ignorable;
        /// The static member's id (KIP-345).
        group_instance_id: Option<String> [7+] null[7+];
        /// How long to keep the offset, in milliseconds; -1 is the broker's setting.
        retention_time_ms: i64 [2-4] = -1, ignorable;
        /// One entry per topic.
        topics: Vec<OffsetCommitRequestTopic> [0+];
    }

    /// An entry of [`OffsetCommitRequest`].
    struct OffsetCommitRequestTopic {
        /// The topic.
        name: String [0-9], ignorable;
        /// The topic's id.
        topic_id: Uuid [10+], ignorable;
        /// One entry per partition.
        partitions: Vec<OffsetCommitRequestPartition> [0+];
    }

    /// An entry of [`OffsetCommitRequest`].
    struct OffsetCommitRequestPartition {
        /// The partition.
        partition_index: i32 [0+];
        /// The committed offset.
        committed_offset: i64 [0+];
        /// Leader epoch of the last consumed record, -1 when unknown.
        committed_leader_epoch: i32 [6+] = -1, ignorable;
        /// Time of the commit in milliseconds.
        commit_timestamp: i64 [1] = -1;
        /// Free text kept with the offset.
        committed_metadata: Option<String> [0+] null[0+] = Some(String::new());
    }

    /// Answers [`OffsetCommitRequest`].
    struct OffsetCommitResponse {
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [3+], ignorable;
        /// One entry per topic.
        topics: Vec<OffsetCommitResponseTopic> [0+];
    }

    /// An entry of [`OffsetCommitResponse`].
    struct OffsetCommitResponseTopic {
        /// The topic.
        name: String [0-9], ignorable;
        /// The topic's id.
        topic_id: Uuid [10+], ignorable;
        /// One entry per partition.
        partitions: Vec<OffsetCommitResponsePartition> [0+];
    }

    /// An entry of [`OffsetCommitResponse`].
    struct OffsetCommitResponsePartition {
        /// The partition.
        partition_index: i32 [0+];
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
    }
}
