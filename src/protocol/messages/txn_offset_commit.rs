//! `TxnOffsetCommit`, API 28: commits offsets of a group within a transaction (KIP-98).
//!
//! Goes to the group's coordinator. From version 3 on it also checks the member (KIP-447); from
//! version 5 on the coordinator itself adds the group to the transaction (KIP-890), so a
//! transaction of the older kind must stay below.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Commits offsets with a transaction.
    struct TxnOffsetCommitRequest {
        /// The transactional id (KIP-98).
        transactional_id: String [0+];
        /// The group.
        group_id: String [0+];
        /// The producer id.
        producer_id: i64 [0+];
        /// The producer's epoch.
        producer_epoch: i16 [0+];
        /// The member's generation, or epoch in a group of KIP-848; -1 outside of membership.
        generation_id_or_member_epoch: i32 [3+] = -1;
        /// The member's id, empty outside of membership.
        member_id: String [3+];
        /// The id of a static member, `None` for a dynamic one (KIP-345).
        group_instance_id: Option<String> [3+] null[3+];
        /// By topic.
        topics: Vec<TxnOffsetCommitRequestTopic> [0+];
    }

    /// Offsets of a topic.
    struct TxnOffsetCommitRequestTopic {
        /// The topic's name; versions from 6 on name it by id (KIP-1319).
        name: String [0-5], ignorable;
        /// The topic's id, which replaces the name from version 6 on (KIP-1319).
        topic_id: Uuid [6+], ignorable;
        /// The partitions.
        partitions: Vec<TxnOffsetCommitRequestPartition> [0+];
    }

    /// The offset of a partition.
    struct TxnOffsetCommitRequestPartition {
        /// The partition.
        partition_index: i32 [0+];
        /// The offset of the next record to read.
        committed_offset: i64 [0+];
        /// The leader epoch of the last record that was read, -1 when unknown (KIP-320).
        committed_leader_epoch: i32 [2+] = -1, ignorable;
        /// Free text that is kept with the offset, by default at most 4096 bytes.
        committed_metadata: Option<String> [0+] null[0+] = Some(String::new());
    }

    /// Answers [`TxnOffsetCommitRequest`].
    struct TxnOffsetCommitResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// By topic.
        topics: Vec<TxnOffsetCommitResponseTopic> [0+];
    }

    /// What became of a topic's offsets.
    struct TxnOffsetCommitResponseTopic {
        /// The topic's name; versions from 6 on name it by id (KIP-1319).
        name: String [0-5], ignorable;
        /// The topic's id, which replaces the name from version 6 on (KIP-1319).
        topic_id: Uuid [6+], ignorable;
        /// The partitions.
        partitions: Vec<TxnOffsetCommitResponsePartition> [0+];
    }

    /// What became of a partition's offset.
    struct TxnOffsetCommitResponsePartition {
        /// The partition.
        partition_index: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
    }
}
