//! `ListOffsets`, API 2: finds offsets by time or by place.
//!
//! Goes to each partition's leader. The timestamps below 0 stand for places: -1 the end (with
//! isolation level 1 the last stable offset), -2 the start, from version 7 on -3 the record with
//! the highest timestamp (KIP-734), from 8 on -4 the start of what is on the broker's own disks
//! (KIP-405), from 9 on -5 the end of what is in remote storage (KIP-1005), from 11 on -6 the first
//! not yet copied there (KIP-1023). No match is no error: offset and timestamp are -1.

use super::super::ErrorCode;

messages! {
    /// Finds offsets.
    struct ListOffsetsRequest {
        /// -1 for clients.
        replica_id: i32 [0+];
        /// 0 takes all records into account, 1 only up to the last stable offset.
        isolation_level: i8 [2+];
        /// What to look for, and where.
        topics: Vec<ListOffsetsTopic> [0+];
        /// How long the broker may take for offsets in remote storage, in milliseconds (KIP-1075).
        timeout_ms: i32 [10+], ignorable;
    }

    /// A topic to look into.
    struct ListOffsetsTopic {
        /// The topic.
        name: String [0+];
        /// The partitions.
        partitions: Vec<ListOffsetsPartition> [0+];
    }

    /// A partition to look into.
    struct ListOffsetsPartition {
        /// The partition.
        partition_index: i32 [0+];
        /// The leader epoch that the client knows, -1 for none (KIP-320).
        current_leader_epoch: i32 [4+] = -1, ignorable;
        /// Milliseconds since 1970: the first record at that time or later is looked for. Below 0 a
        /// place, see the module.
        timestamp: i64 [0+];
        /// How many offsets to give, in version 0.
        max_num_offsets: i32 [0] = 1;
    }

    /// Answers [`ListOffsetsRequest`].
    struct ListOffsetsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [2+], ignorable;
        /// What was found.
        topics: Vec<ListOffsetsTopicResponse> [0+];
    }

    /// What was found in a topic.
    struct ListOffsetsTopicResponse {
        /// The topic.
        name: String [0+];
        /// What was found in each partition.
        partitions: Vec<ListOffsetsPartitionResponse> [0+];
    }

    /// What was found in a partition.
    struct ListOffsetsPartitionResponse {
        /// The partition.
        partition_index: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The answer of version 0: offsets where segments start, newest first.
        old_style_offsets: Vec<i64> [0];
        /// The timestamp of the record that was found; -1 for none and for most places.
        timestamp: i64 [1+] = -1;
        /// The offset, -1 for none.
        offset: i64 [1+] = -1;
        /// The leader epoch of that record, -1 when unknown.
        leader_epoch: i32 [4+] = -1;
    }
}
