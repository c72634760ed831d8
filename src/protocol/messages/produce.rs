//! Produce, API 0: appends record batches to partitions; goes to each partition's leader.

use super::super::{Bytes, ErrorCode, Uuid};
use super::leaders::{LeaderIdAndEpoch, NodeEndpoint};

messages! {
    /// Appends record batches to partitions; goes to each partition's leader.
    struct ProduceRequest {
        /// The transactional id.
        transactional_id: Option<String> [3+] null[3+];
        /// −1 all ISR, 1 leader, 0 none.
        acks: i16 [0+];
        /// How long the broker may take, in milliseconds.
        timeout_ms: i32 [0+];
        /// One entry per topic.
        topic_data: Vec<TopicProduceData> [0+];
    }

    /// An entry of [`ProduceRequest`].
    struct TopicProduceData {
        /// The topic.
        name: String [0-12], ignorable;
        /// The topic's id.
        topic_id: Uuid [13+], ignorable;
        /// One entry per partition.
        partition_data: Vec<PartitionProduceData> [0+];
    }

    /// An entry of [`ProduceRequest`].
    struct PartitionProduceData {
        /// The partition.
        index: i32 [0+];
        /// The record batches.
        records: Option<Bytes> [0+] null[0+] = Some(Bytes::new());
    }

    /// Answers [`ProduceRequest`]. With acks 0 there is none.
    struct ProduceResponse {
        /// One entry per topic.
        responses: Vec<TopicProduceResponse> [0+];
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [1+], ignorable;
        /// Where the leaders named in this response can be reached (KIP-951).
        node_endpoints: Vec<NodeEndpoint> [10+] tag 0;
    }

    /// An entry of [`ProduceResponse`].
    struct TopicProduceResponse {
        /// The topic.
        name: String [0-12], ignorable;
        /// The topic's id.
        topic_id: Uuid [13+], ignorable;
        /// One entry per partition.
        partition_responses: Vec<PartitionProduceResponse> [0+];
    }

    /// An entry of [`ProduceResponse`].
    struct PartitionProduceResponse {
        /// The partition.
        index: i32 [0+];
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
        /// −1 on error.
        base_offset: i64 [0+];
        /// −1 unless topic uses LogAppendTime.
        log_append_time_ms: i64 [2+] = -1, ignorable;
        /// The first offset of the log, -1 when unknown.
        log_start_offset: i64 [5+] = -1, ignorable;
        /// Records that made the batch fail (KIP-467).
        record_errors: Vec<BatchIndexAndErrorMessage> [8+], ignorable;
        /// The broker's own words about the error.
        error_message: Option<String> [8+] null[8+], ignorable;
        /// The leader that the broker knows, when it is not itself (KIP-951).
        current_leader: LeaderIdAndEpoch [10+] tag 0;
    }

    /// An entry of [`ProduceResponse`].
    struct BatchIndexAndErrorMessage {
        /// Index of the record within its batch.
        batch_index: i32 [8+];
        /// Why that record was refused.
        batch_index_error_message: Option<String> [8+] null[8+];
    }
}
