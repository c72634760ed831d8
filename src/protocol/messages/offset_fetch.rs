//! `OffsetFetch`, API 9: reads stored offsets of a group.
//!
//! Goes to the group's coordinator. A partition without a stored offset, and a group that nobody
//! knows, answer offset -1 and no error. From version 8 on one request asks about many groups
//! (KIP-709): the fields for one group and those for many exclude each other.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Reads stored offsets.
    struct OffsetFetchRequest {
        /// The group, up to version 7.
        group_id: String [0-7];
        /// Its topics, up to version 7; `None` for all from version 2 on.
        topics: Option<Vec<OffsetFetchRequestTopic>> [0-7] null[2-7] = Some(Vec::new());
        /// The groups, from version 8 on.
        groups: Vec<OffsetFetchRequestGroup> [8+];
        /// Whether to answer `UNSTABLE_OFFSET_COMMIT` where an open transaction may change the
        /// offset (KIP-447).
        require_stable: bool [7+];
    }

    /// A topic to ask about, up to version 7.
    struct OffsetFetchRequestTopic {
        /// The topic.
        name: String [0-7];
        /// The partitions.
        partition_indexes: Vec<i32> [0-7];
    }

    /// A group to ask about.
    struct OffsetFetchRequestGroup {
        /// The group.
        group_id: String [8+];
        /// The member that asks, `None` outside of a group of KIP-848.
        member_id: Option<String> [9+] null[9+], ignorable;
        /// The member's epoch, -1 outside of a group of KIP-848.
        member_epoch: i32 [9+] = -1, ignorable;
        /// Its topics; `None` for all.
        topics: Option<Vec<OffsetFetchRequestTopics>> [8+] null[8+] = Some(Vec::new());
    }

    /// A topic to ask about, from version 8 on.
    struct OffsetFetchRequestTopics {
        /// The topic's name; versions from 10 on name it by id (KIP-516).
        name: String [8-9], ignorable;
        /// The topic's id, which replaces the name from version 10 on (KIP-516).
        topic_id: Uuid [10+], ignorable;
        /// The partitions.
        partition_indexes: Vec<i32> [8+];
    }

    /// Answers [`OffsetFetchRequest`].
    struct OffsetFetchResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [3+], ignorable;
        /// The offsets by topic, up to version 7.
        topics: Vec<OffsetFetchResponseTopic> [0-7];
        /// 0, or why the group's offsets could not be read, up to version 7.
        error_code: ErrorCode [2-7], ignorable;
        /// The offsets by group, from version 8 on.
        groups: Vec<OffsetFetchResponseGroup> [8+];
    }

    /// The offsets of a topic, up to version 7.
    struct OffsetFetchResponseTopic {
        /// The topic.
        name: String [0-7];
        /// The offsets by partition.
        partitions: Vec<OffsetFetchResponsePartition> [0-7];
    }

    /// The offset of a partition, up to version 7.
    struct OffsetFetchResponsePartition {
        /// The partition.
        partition_index: i32 [0-7];
        /// The offset of the next record to read, -1 when none is stored.
        committed_offset: i64 [0-7];
        /// The leader epoch of the last record that was read, -1 when unknown (KIP-320).
        committed_leader_epoch: i32 [5-7] = -1, ignorable;
        /// The free text that is kept with the offset.
        metadata: Option<String> [0-7] null[0-7] = Some(String::new());
        /// 0, or why it failed.
        error_code: ErrorCode [0-7];
    }

    /// The offsets of a group.
    struct OffsetFetchResponseGroup {
        /// The group.
        group_id: String [8+];
        /// The offsets by topic.
        topics: Vec<OffsetFetchResponseTopics> [8+];
        /// 0, or why the group's offsets could not be read.
        error_code: ErrorCode [8+];
    }

    /// The offsets of a topic, from version 8 on.
    struct OffsetFetchResponseTopics {
        /// The topic's name; versions from 10 on name it by id (KIP-516).
        name: String [8-9], ignorable;
        /// The topic's id, which replaces the name from version 10 on (KIP-516).
        topic_id: Uuid [10+], ignorable;
        /// The offsets by partition.
        partitions: Vec<OffsetFetchResponsePartitions> [8+];
    }

    /// The offset of a partition, from version 8 on.
    struct OffsetFetchResponsePartitions {
        /// The partition.
        partition_index: i32 [8+];
        /// The offset of the next record to read, -1 when none is stored.
        committed_offset: i64 [8+];
        /// The leader epoch of the last record that was read, -1 when unknown (KIP-320).
        committed_leader_epoch: i32 [8+] = -1, ignorable;
        /// The free text that is kept with the offset.
        metadata: Option<String> [8+] null[8+] = Some(String::new());
        /// 0, or why it failed.
        error_code: ErrorCode [8+];
    }
}
