//! `OffsetCommit`, API 8: stores offsets of a group.
//!
//! Goes to the group's coordinator. Outside of a group's membership (a group that only stores
//! offsets) the generation is -1 and the member is empty. Version 0 stored in ZooKeeper, later ones
//! in the topic `__consumer_offsets`.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Stores offsets of a group.
    struct OffsetCommitRequest {
        /// The group.
        group_id: String [0+];
        /// The member's generation, or epoch in a group of KIP-848; -1 outside of membership.
        generation_id_or_member_epoch: i32 [1+] = -1, ignorable;
        /// The member, empty outside of membership.
        member_id: String [1+], ignorable;
        /// The static member's own name (KIP-345).
        group_instance_id: Option<String> [7+] null[7+];
        /// How long to keep the offsets, in milliseconds; -1 for the broker's setting. Later
        /// versions leave it to the broker (KIP-211).
        retention_time_ms: i64 [2-4] = -1, ignorable;
        /// The offsets by topic.
        topics: Vec<OffsetCommitRequestTopic> [0+];
    }

    /// The offsets of a topic.
    struct OffsetCommitRequestTopic {
        /// The topic's name; versions from 10 on name it by id (KIP-516).
        name: String [0-9], ignorable;
        /// The topic's id, which replaces the name from version 10 on (KIP-516).
        topic_id: Uuid [10+], ignorable;
        /// The offsets by partition.
        partitions: Vec<OffsetCommitRequestPartition> [0+];
    }

    /// The offset of a partition.
    struct OffsetCommitRequestPartition {
        /// The partition.
        partition_index: i32 [0+];
        /// The offset of the next record to read.
        committed_offset: i64 [0+];
        /// The leader epoch of the last record that was read, -1 when unknown (KIP-320).
        committed_leader_epoch: i32 [6+] = -1, ignorable;
        /// The time of the commit in milliseconds since 1970, -1 for the broker's; in version 1.
        commit_timestamp: i64 [1] = -1;
        /// Free text that is kept with the offset, by default at most 4096 bytes.
        committed_metadata: Option<String> [0+] null[0+] = Some(String::new());
    }

    /// Answers [`OffsetCommitRequest`].
    struct OffsetCommitResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [3+], ignorable;
        /// What became of the offsets, by topic.
        topics: Vec<OffsetCommitResponseTopic> [0+];
    }

    /// What became of the offsets of a topic.
    struct OffsetCommitResponseTopic {
        /// The topic's name; versions from 10 on name it by id (KIP-516).
        name: String [0-9], ignorable;
        /// The topic's id, which replaces the name from version 10 on (KIP-516).
        topic_id: Uuid [10+], ignorable;
        /// What became of them, by partition.
        partitions: Vec<OffsetCommitResponsePartition> [0+];
    }

    /// What became of the offset of a partition.
    struct OffsetCommitResponsePartition {
        /// The partition.
        partition_index: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
    }
}
