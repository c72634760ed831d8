//! Fetch, API 1: reads records; goes to each partition's leader, or to the replica that the leader
//! prefers.

use super::super::{Bytes, ErrorCode, Uuid};
use super::leaders::{LeaderIdAndEpoch, NodeEndpoint};

messages! {
    /// Reads records; goes to each partition's leader, or to the replica that the leader prefers.
    struct FetchRequest {
        /// The cluster's id.
        cluster_id: Option<String> [12+] null[12+] tag 0, ignorable;
        /// -1 for clients.
        replica_id: i32 [0-14] = -1;
        /// V15+ replacement of ReplicaId; consumers omit it.
        replica_state: ReplicaState [15+] tag 1;
        /// Long-poll limit.
        max_wait_ms: i32 [0+];
        /// Reply early when this many bytes are ready.
        min_bytes: i32 [0+];
        /// Bytes to answer with at most; the first batch comes whole all the same (KIP-74).
        max_bytes: i32 [3+] = i32::MAX, ignorable;
        /// 0 reads uncommitted, 1 committed records only.
        isolation_level: i8 [4+], ignorable;
        /// The fetch session, 0 for none (KIP-227).
        session_id: i32 [7+], ignorable;
        /// The request's number within its session, -1 without one.
        session_epoch: i32 [7+] = -1, ignorable;
        /// One entry per topic.
        topics: Vec<FetchTopic> [0+];
        /// Partitions to drop from the session.
        forgotten_topics_data: Vec<ForgottenTopic> [7+];
        /// KIP-392.
        rack_id: String [11+], ignorable;
    }

    /// An entry of [`FetchRequest`].
    struct ReplicaState {
        /// -1 for clients.
        replica_id: i32 [15+] = -1;
        /// Of KRaft replication only.
        replica_epoch: i64 [15+] = -1;
    }

    /// An entry of [`FetchRequest`].
    struct FetchTopic {
        /// The topic.
        topic: String [0-12], ignorable;
        /// The topic's id.
        topic_id: Uuid [13+], ignorable;
        /// One entry per partition.
        partitions: Vec<FetchPartition> [0+];
    }

    /// An entry of [`FetchRequest`].
    struct FetchPartition {
        /// The partition.
        partition: i32 [0+];
        /// The leader epoch that the client knows, -1 for none (KIP-320).
        current_leader_epoch: i32 [9+] = -1, ignorable;
        /// The offset to read from.
        fetch_offset: i64 [0+];
        /// Followers; Java consumers send −1 (sending the position epoch enables DivergingEpoch).
        last_fetched_epoch: i32 [12+] = -1;
        /// The first offset of the log, -1 when unknown.
        log_start_offset: i64 [5+] = -1, ignorable;
        /// Bytes of this partition to answer with at most.
        partition_max_bytes: i32 [0+];
        /// Of KRaft replication only.
        replica_directory_id: Uuid [17+] tag 0, ignorable;
        /// The high watermark.
        high_watermark: i64 [18+] tag 1 = i64::MAX, ignorable;
    }

    /// An entry of [`FetchRequest`].
    struct ForgottenTopic {
        /// The topic.
        topic: String [7-12], ignorable;
        /// The topic's id.
        topic_id: Uuid [13+], ignorable;
        /// One entry per partition.
        partitions: Vec<i32> [7+];
    }

    /// Answers [`FetchRequest`].
    struct FetchResponse {
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [1+], ignorable;
        /// The error, 0 for none.
        error_code: ErrorCode [7+], ignorable;
        /// The fetch session, 0 for none (KIP-227).
        session_id: i32 [7+];
        /// One entry per topic.
        responses: Vec<FetchableTopicResponse> [0+];
        /// Where the leaders named in this response can be reached (KIP-951).
        node_endpoints: Vec<NodeEndpoint> [16+] tag 0;
    }

    /// An entry of [`FetchResponse`].
    struct FetchableTopicResponse {
        /// The topic.
        topic: String [0-12], ignorable;
        /// The topic's id.
        topic_id: Uuid [13+], ignorable;
        /// One entry per partition.
        partitions: Vec<PartitionData> [0+];
    }

    /// An entry of [`FetchResponse`].
    struct PartitionData {
        /// The partition.
        partition_index: i32 [0+];
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
        /// The high watermark.
        high_watermark: i64 [0+];
        /// Read limit for read_committed.
        last_stable_offset: i64 [4+] = -1, ignorable;
        /// The first offset of the log, -1 when unknown.
        log_start_offset: i64 [5+] = -1, ignorable;
        /// Where the log parts from the one the client read, if it does.
        diverging_epoch: EpochEndOffset [12+] tag 0;
        /// The leader that the broker knows, when it is not itself (KIP-951).
        current_leader: LeaderIdAndEpoch [12+] tag 1;
        /// Of KRaft replication only.
        snapshot_id: SnapshotId [12+] tag 2;
        /// The aborted transactions within the records.
        aborted_transactions: Option<Vec<AbortedTransaction>> [4+] null[4+] = Some(Vec::new()), ignorable;
        /// The broker to fetch from next (KIP-392), -1 for this one.
        preferred_read_replica: i32 [11+] = -1;
        /// The record batches.
        records: Option<Bytes> [0+] null[0+] = Some(Bytes::new());
    }

    /// An entry of [`FetchResponse`].
    struct EpochEndOffset {
        /// The epoch.
        epoch: i32 [12+] = -1;
        /// The end offset.
        end_offset: i64 [12+] = -1;
    }

    /// An entry of [`FetchResponse`].
    struct SnapshotId {
        /// The end offset.
        end_offset: i64 [12+] = -1;
        /// The epoch.
        epoch: i32 [12+] = -1;
    }

    /// An entry of [`FetchResponse`].
    struct AbortedTransaction {
        /// The producer's id.
        producer_id: i64 [4+];
        /// The first offset of the aborted transaction.
        first_offset: i64 [4+];
    }
}
