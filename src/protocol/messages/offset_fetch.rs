//! OffsetFetch, API 9: reads a group's stored offsets; goes to the group's coordinator.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Reads a group's stored offsets; goes to the group's coordinator.
    struct OffsetFetchRequest {
        /// The consumer group.
        group_id: String [0-7];
        /// One entry per topic.
        topics: Option<Vec<OffsetFetchRequestTopic>> [0-7] null[2-7] = Some(Vec::new());
        /// One entry per group.
        groups: Vec<OffsetFetchRequestGroup> [8+];
        /// Whether to refuse offsets of open transactions (KIP-447).
        require_stable: bool [7+];
    }

    /// An entry of [`OffsetFetchRequest`].
    struct OffsetFetchRequestTopic {
        /// The topic.
        name: String [0-7];
        /// The partitions.
        partition_indexes: Vec<i32> [0-7];
    }

    /// An entry of [`OffsetFetchRequest`].
    struct OffsetFetchRequestGroup {
        /// The consumer group.
        group_id: String [8+];
        /// The member of the group.
        member_id: Option<String> [9+] null[9+], ignorable;
        /// The member's epoch.
        member_epoch: i32 [9+] = -1, ignorable;
        /// One entry per topic.
        topics: Option<Vec<OffsetFetchRequestTopics>> [8+] null[8+] = Some(Vec::new());
    }

    /// An entry of [`OffsetFetchRequest`].
    struct OffsetFetchRequestTopics {
        /// The topic.
        name: String [8-9], ignorable;
        /// The topic's id.
        topic_id: Uuid [10+], ignorable;
        /// The partitions.
        partition_indexes: Vec<i32> [8+];
    }

    /// Answers [`OffsetFetchRequest`].
    struct OffsetFetchResponse {
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [3+], ignorable;
        /// One entry per topic.
        topics: Vec<OffsetFetchResponseTopic> [0-7];
        /// The error, 0 for none.
        error_code: ErrorCode [2-7], ignorable;
        /// One entry per group.
        groups: Vec<OffsetFetchResponseGroup> [8+];
    }

    /// An entry of [`OffsetFetchResponse`].
    struct OffsetFetchResponseTopic {
        /// The topic.
        name: String [0-7];
        /// One entry per partition.
        partitions: Vec<OffsetFetchResponsePartition> [0-7];
    }

    /// An entry of [`OffsetFetchResponse`].
    struct OffsetFetchResponsePartition {
        /// The partition.
        partition_index: i32 [0-7];
        /// The committed offset.
        committed_offset: i64 [0-7];
        /// Leader epoch of the last consumed record, -1 when unknown.
        committed_leader_epoch: i32 [5-7] = -1, ignorable;
        /// Free text kept with the offset.
        metadata: Option<String> [0-7] null[0-7] = Some(String::new());
        /// The error, 0 for none.
        error_code: ErrorCode [0-7];
    }

    /// An entry of [`OffsetFetchResponse`].
    struct OffsetFetchResponseGroup {
        /// The consumer group.
        group_id: String [8+];
        /// One entry per topic.
        topics: Vec<OffsetFetchResponseTopics> [8+];
        /// The error, 0 for none.
        error_code: ErrorCode [8+];
    }

    /// An entry of [`OffsetFetchResponse`].
    struct OffsetFetchResponseTopics {
        /// The topic.
        name: String [8-9], ignorable;
        /// The topic's id.
        topic_id: Uuid [10+], ignorable;
        /// One entry per partition.
        partitions: Vec<OffsetFetchResponsePartitions> [8+];
    }

    /// An entry of [`OffsetFetchResponse`].
    struct OffsetFetchResponsePartitions {
        /// The partition.
        partition_index: i32 [8+];
        /// The committed offset.
        committed_offset: i64 [8+];
        /// Leader epoch of the last consumed record, -1 when unknown.
        committed_leader_epoch: i32 [8+] = -1, ignorable;
        /// Free text kept with the offset.
        metadata: Option<String> [8+] null[8+] = Some(String::new());
        /// The error, 0 for none.
        error_code: ErrorCode [8+];
    }
}
