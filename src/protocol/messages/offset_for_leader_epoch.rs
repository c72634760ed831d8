//! `OffsetForLeaderEpoch`, API 23: where a leader epoch ends in the log (KIP-101, KIP-320).
//!
//! Goes to each partition's leader. Clients use it to find out whether the log that they read was
//! cut off behind their position.

use super::super::ErrorCode;

messages! {
    /// Asks where leader epochs end.
    struct OffsetForLeaderEpochRequest {
        /// -1 for clients, -2 for debugging.
        replica_id: i32 [3+] = -2, ignorable;
        /// Which epochs, and where.
        topics: Vec<OffsetForLeaderTopic> [0+];
    }

    /// A topic to look into.
    struct OffsetForLeaderTopic {
        /// The topic.
        topic: String [0+];
        /// The partitions.
        partitions: Vec<OffsetForLeaderPartition> [0+];
    }

    /// A partition to look into.
    struct OffsetForLeaderPartition {
        /// The partition.
        partition: i32 [0+];
        /// The leader epoch that the client knows, -1 for none (KIP-320).
        current_leader_epoch: i32 [2+] = -1, ignorable;
        /// The epoch whose end is looked for.
        leader_epoch: i32 [0+];
    }

    /// Answers [`OffsetForLeaderEpochRequest`].
    struct OffsetForLeaderEpochResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [2+], ignorable;
        /// The ends.
        topics: Vec<OffsetForLeaderTopicResult> [0+];
    }

    /// The ends in a topic.
    struct OffsetForLeaderTopicResult {
        /// The topic.
        topic: String [0+];
        /// By partition.
        partitions: Vec<LeaderEpochEndOffset> [0+];
    }

    /// The end in a partition; `EpochEndOffset` in Kafka's schema.
    struct LeaderEpochEndOffset {
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The partition.
        partition: i32 [0+];
        /// The largest epoch that is known and not above the one asked for, -1 for none.
        leader_epoch: i32 [1+] = -1, ignorable;
        /// Where it ends: the offset behind its last record, -1 for none.
        end_offset: i64 [0+] = -1;
    }
}
