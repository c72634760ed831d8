//! `Fetch`, API 1: reads record batches.
//!
//! Goes to each partition's leader, or to the replica that the leader prefers for the client's rack
//! (KIP-392). The broker fills the answer in the order of the request up to the limits; the first
//! partition that has anything gets its first batch whole, however large (KIP-74), and the last
//! batch of a partition may be cut. Batches come compressed as they were stored, and whole: the
//! first may begin before the offset that was asked for. Sessions (KIP-227) save repeating
//! unchanged partitions; session 0 with epoch -1 does without.

use super::super::{Bytes, ErrorCode, Uuid};
use super::leaders::{LeaderIdAndEpoch, NodeEndpoint};

messages! {
    /// Reads record batches.
    struct FetchRequest {
        /// For KRaft replication only: the cluster.
        cluster_id: Option<String> [12+] null[12+] tag 0, ignorable;
        /// -1 for clients, a broker's id for followers; moved into `replica_state` with version 15.
        replica_id: i32 [0-14] = -1;
        /// Who follows, from version 15 on (KIP-903); clients leave it alone.
        replica_state: ReplicaState [15+] tag 1;
        /// How long the broker may wait for `min_bytes`, in milliseconds.
        max_wait_ms: i32 [0+];
        /// How many bytes of records the broker waits for.
        min_bytes: i32 [0+];
        /// Bytes of records to answer with at most; the first batch comes whole all the same
        /// (KIP-74).
        max_bytes: i32 [3+] = i32::MAX, ignorable;
        /// 0 reads all records, 1 only up to the last stable offset (KIP-98).
        isolation_level: i8 [4+], ignorable;
        /// The fetch session; 0 for none, or to open one with epoch 0 (KIP-227).
        session_id: i32 [7+], ignorable;
        /// The request's number within its session; 0 opens one, -1 stands for none or closes it.
        session_epoch: i32 [7+] = -1, ignorable;
        /// What to read. Within a session only what changed.
        topics: Vec<FetchTopic> [0+];
        /// Partitions to drop from the session.
        forgotten_topics_data: Vec<ForgottenTopic> [7+];
        /// The client's rack, empty when unknown (KIP-392).
        rack_id: String [11+], ignorable;
    }

    /// Who follows. Not for clients.
    struct ReplicaState {
        /// The follower's id, -1 for clients.
        replica_id: i32 [15+] = -1;
        /// The follower's epoch, -1 when unknown.
        replica_epoch: i64 [15+] = -1;
    }

    /// A topic to read from.
    struct FetchTopic {
        /// The topic's name; versions from 13 on name it by id (KIP-516).
        topic: String [0-12], ignorable;
        /// The topic's id, which replaces the name from version 13 on (KIP-516).
        topic_id: Uuid [13+], ignorable;
        /// The partitions, in the order of their turn.
        partitions: Vec<FetchPartition> [0+];
    }

    /// A partition to read from.
    struct FetchPartition {
        /// The partition.
        partition: i32 [0+];
        /// The leader epoch that the client knows, -1 for none: a broker with another one answers
        /// `FENCED_LEADER_EPOCH` or `UNKNOWN_LEADER_EPOCH` (KIP-320).
        current_leader_epoch: i32 [9+] = -1, ignorable;
        /// The offset to read from.
        fetch_offset: i64 [0+];
        /// The leader epoch of the last record read; a value makes the broker tell
        /// `diverging_epoch` (KIP-595). Java's consumer leaves it at -1.
        last_fetched_epoch: i32 [12+] = -1;
        /// For followers only: the first offset of their log.
        log_start_offset: i64 [5+] = -1, ignorable;
        /// Bytes of this partition to answer with at most; the first batch comes whole all the
        /// same.
        partition_max_bytes: i32 [0+];
        /// For KRaft replication only (KIP-853).
        replica_directory_id: Uuid [17+] tag 0, ignorable;
        /// For followers only: the high watermark that they know (KIP-1166).
        high_watermark: i64 [18+] tag 1 = i64::MAX, ignorable;
    }

    /// Partitions to drop from the session.
    struct ForgottenTopic {
        /// The topic's name; versions from 13 on name it by id (KIP-516).
        topic: String [7-12], ignorable;
        /// The topic's id, which replaces the name from version 13 on (KIP-516).
        topic_id: Uuid [13+], ignorable;
        /// The partitions.
        partitions: Vec<i32> [7+];
    }

    /// Answers [`FetchRequest`].
    struct FetchResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it. A
        /// throttled answer may be empty: then it says nothing about the partitions.
        throttle_time_ms: i32 [1+], ignorable;
        /// 0, or why the whole request failed, such as `FETCH_SESSION_ID_NOT_FOUND`.
        error_code: ErrorCode [7+], ignorable;
        /// The session from now on, 0 for none.
        session_id: i32 [7+];
        /// What was read. Within a session only what changed.
        responses: Vec<FetchableTopicResponse> [0+];
        /// Where the leaders named in this response can be reached (KIP-951).
        node_endpoints: Vec<NodeEndpoint> [16+] tag 0;
    }

    /// What was read from a topic.
    struct FetchableTopicResponse {
        /// The topic's name; versions from 13 on name it by id (KIP-516).
        topic: String [0-12], ignorable;
        /// The topic's id, which replaces the name from version 13 on (KIP-516).
        topic_id: Uuid [13+], ignorable;
        /// What was read from each partition.
        partitions: Vec<PartitionData> [0+];
    }

    /// What was read from a partition.
    struct PartitionData {
        /// The partition.
        partition_index: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The offset behind the last record that all replicas in sync have, -1 on error.
        high_watermark: i64 [0+];
        /// The offset before which every transaction is decided: the end for isolation level 1; -1
        /// when unknown (KIP-98).
        last_stable_offset: i64 [4+] = -1, ignorable;
        /// The first offset of the log, -1 when unknown (KIP-107).
        log_start_offset: i64 [5+] = -1, ignorable;
        /// Where the log parts from the one that was read, if it does (KIP-595).
        diverging_epoch: EpochEndOffset [12+] tag 0;
        /// The leader that the broker knows, with `NOT_LEADER_OR_FOLLOWER` and
        /// `FENCED_LEADER_EPOCH` (KIP-951).
        current_leader: LeaderIdAndEpoch [12+] tag 1;
        /// For KRaft replication only: the snapshot to load instead (KIP-630).
        snapshot_id: SnapshotId [12+] tag 2;
        /// The aborted transactions that reach into the records, in no certain order; `None` with
        /// isolation level 0.
        aborted_transactions: Option<Vec<AbortedTransaction>> [4+] null[4+]
            = Some(Vec::new()), ignorable;
        /// The broker to read from next; there are no records then. -1 for this one (KIP-392).
        preferred_read_replica: i32 [11+] = -1;
        /// The record batches, as they lie in the log; the last may be cut.
        records: Option<Bytes> [0+] null[0+] = Some(Bytes::new());
    }

    /// The end of a leader epoch in the log.
    struct EpochEndOffset {
        /// The leader epoch, -1 for none.
        epoch: i32 [12+] = -1;
        /// The offset behind its last record, -1 for none.
        end_offset: i64 [12+] = -1;
    }

    /// A snapshot. For KRaft replication only.
    struct SnapshotId {
        /// The offset behind its last record, -1 for none.
        end_offset: i64 [12+] = -1;
        /// Its leader epoch, -1 for none.
        epoch: i32 [12+] = -1;
    }

    /// An aborted transaction: records of the producer from `first_offset` on, up to its next abort
    /// marker, do not count.
    struct AbortedTransaction {
        /// The producer.
        producer_id: i64 [4+];
        /// The offset of its first record.
        first_offset: i64 [4+];
    }
}
