//! ListOffsets, API 2: looks offsets up by time or by place; goes to each partition's leader.

use super::super::ErrorCode;

messages! {
    /// Looks offsets up by time or by place; goes to each partition's leader.
    struct ListOffsetsRequest {
        /// -1 for clients.
        replica_id: i32 [0+];
        /// 0 reads uncommitted, 1 committed records only.
        isolation_level: i8 [2+];
        /// One entry per topic.
        topics: Vec<ListOffsetsTopic> [0+];
        /// How long the broker may take, in milliseconds.
        timeout_ms: i32 [10+], ignorable;
    }

    /// An entry of [`ListOffsetsRequest`].
    struct ListOffsetsTopic {
        /// The topic.
        name: String [0+];
        /// One entry per partition.
        partitions: Vec<ListOffsetsPartition> [0+];
    }

    /// An entry of [`ListOffsetsRequest`].
    struct ListOffsetsPartition {
        /// The partition.
        partition_index: i32 [0+];
        /// The leader epoch that the client knows, -1 for none (KIP-320).
        current_leader_epoch: i32 [4+] = -1, ignorable;
        /// The timestamp in milliseconds, or a special value.
        timestamp: i64 [0+];
        /// How many offsets to give.
        max_num_offsets: i32 [0] = 1;
    }

    /// Answers [`ListOffsetsRequest`].
    struct ListOffsetsResponse {
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [2+], ignorable;
        /// One entry per topic.
        topics: Vec<ListOffsetsTopicResponse> [0+];
    }

    /// An entry of [`ListOffsetsResponse`].
    struct ListOffsetsTopicResponse {
        /// The topic.
        name: String [0+];
        /// One entry per partition.
        partitions: Vec<ListOffsetsPartitionResponse> [0+];
    }

    /// An entry of [`ListOffsetsResponse`].
    struct ListOffsetsPartitionResponse {
        /// The partition.
        partition_index: i32 [0+];
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
        /// Start offsets of segments, newest first.
        old_style_offsets: Vec<i64> [0];
        /// The timestamp in milliseconds, or a special value.
        timestamp: i64 [1+] = -1;
        /// The offset.
        offset: i64 [1+] = -1;
        /// The leader epoch, -1 when unknown.
        leader_epoch: i32 [4+] = -1;
    }
}
