//! `Produce`, API 0: appends record batches.
//!
//! Goes to each partition's leader. From version 3 on a partition takes exactly one batch of the
//! present format per request, zstd from version 7 on (KIP-110). With acks 0 there is no answer: on
//! an error the broker closes the connection. From version 12 on the leader itself adds the
//! partition to the transaction (KIP-890), so a transaction of the older kind must stay below.

use super::super::{Bytes, ErrorCode, Uuid};
use super::leaders::{LeaderIdAndEpoch, NodeEndpoint};

messages! {
    /// Appends record batches.
    struct ProduceRequest {
        /// The transactional id, `None` outside of a transaction (KIP-98).
        transactional_id: Option<String> [3+] null[3+];
        /// When the broker answers: -1 when all replicas in sync have the records, 1 when the
        /// leader has, 0 never.
        acks: i16 [0+];
        /// How long the broker may wait for the replicas, in milliseconds.
        timeout_ms: i32 [0+];
        /// The batches by topic.
        topic_data: Vec<TopicProduceData> [0+];
    }

    /// The batches of a topic.
    struct TopicProduceData {
        /// The topic's name; versions from 13 on name it by id (KIP-516).
        name: String [0-12], ignorable;
        /// The topic's id, which replaces the name from version 13 on (KIP-516).
        topic_id: Uuid [13+], ignorable;
        /// The batches by partition.
        partition_data: Vec<PartitionProduceData> [0+];
    }

    /// The batch of a partition.
    struct PartitionProduceData {
        /// The partition.
        index: i32 [0+];
        /// The record batch; a message set of the older formats up to version 2. `None` is legal on
        /// the wire, but Kafka then answers nothing at all.
        records: Option<Bytes> [0+] null[0+] = Some(Bytes::new());
    }

    /// Answers [`ProduceRequest`], unless that has acks 0.
    struct ProduceResponse {
        /// What became of the batches, by topic.
        responses: Vec<TopicProduceResponse> [0+];
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [1+], ignorable;
        /// Where the leaders named in this response can be reached (KIP-951).
        node_endpoints: Vec<NodeEndpoint> [10+] tag 0;
    }

    /// What became of the batches of a topic.
    struct TopicProduceResponse {
        /// The topic's name; versions from 13 on name it by id (KIP-516).
        name: String [0-12], ignorable;
        /// The topic's id, which replaces the name from version 13 on (KIP-516).
        topic_id: Uuid [13+], ignorable;
        /// What became of them, by partition.
        partition_responses: Vec<PartitionProduceResponse> [0+];
    }

    /// What became of the batch of a partition.
    struct PartitionProduceResponse {
        /// The partition.
        index: i32 [0+];
        /// 0, or why it failed. `DUPLICATE_SEQUENCE_NUMBER` means that the records are stored
        /// already.
        error_code: ErrorCode [0+];
        /// The offset of the first record, -1 on error.
        base_offset: i64 [0+];
        /// The time that the broker gave the records, in milliseconds since 1970; -1 where they
        /// keep their own (KIP-32).
        log_append_time_ms: i64 [2+] = -1, ignorable;
        /// The first offset of the log, -1 when unknown.
        log_start_offset: i64 [5+] = -1, ignorable;
        /// The records that made the whole batch fail (KIP-467).
        record_errors: Vec<BatchIndexAndErrorMessage> [8+], ignorable;
        /// The broker's own words about the error (KIP-467).
        error_message: Option<String> [8+] null[8+], ignorable;
        /// The leader that the broker knows, with `NOT_LEADER_OR_FOLLOWER` (KIP-951).
        current_leader: LeaderIdAndEpoch [10+] tag 0;
    }

    /// A record that made its batch fail.
    struct BatchIndexAndErrorMessage {
        /// Its place in the batch, from 0.
        batch_index: i32 [8+];
        /// Why it was refused, if told.
        batch_index_error_message: Option<String> [8+] null[8+];
    }
}
