//! CreateTopics, API 19: creates topics; goes to the controller, KRaft brokers forward it.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Creates topics; goes to the controller, KRaft brokers forward it.
    struct CreateTopicsRequest {
        /// One entry per topic.
        topics: Vec<CreatableTopic> [0+];
        /// How long the broker may take until the topics are complete, in milliseconds.
        timeout_ms: i32 [0+] = 60000;
        /// Whether to check only, and create nothing.
        validate_only: bool [1+];
    }

    /// An entry of [`CreateTopicsRequest`].
    struct CreatableTopic {
        /// The topic.
        name: String [0+];
        /// How many partitions.
        num_partitions: i32 [0+];
        /// How many replicas of each partition.
        replication_factor: i16 [0+];
        /// Replicas placed by hand.
        assignments: Vec<CreatableReplicaAssignment> [0+];
        /// Settings of the topic.
        configs: Vec<CreatableTopicConfig> [0+];
    }

    /// An entry of [`CreateTopicsRequest`].
    struct CreatableReplicaAssignment {
        /// The partition.
        partition_index: i32 [0+];
        /// The replicas, the preferred leader first.
        broker_ids: Vec<i32> [0+];
    }

    /// An entry of [`CreateTopicsRequest`].
    struct CreatableTopicConfig {
        /// The topic.
        name: String [0+];
        /// The value.
        value: Option<String> [0+] null[0+] = Some(String::new());
    }

    /// Answers [`CreateTopicsRequest`].
    struct CreateTopicsResponse {
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [2+], ignorable;
        /// One entry per topic.
        topics: Vec<CreatableTopicResult> [0+];
    }

    /// An entry of [`CreateTopicsResponse`].
    struct CreatableTopicResult {
        /// The topic.
        name: String [0+];
        /// The topic's id.
        topic_id: Uuid [7+], ignorable;
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [1+] null[1+] = Some(String::new()), ignorable;
        /// E.g. 29 if configs may not be described.
        topic_config_error_code: ErrorCode [5+] tag 0, ignorable;
        /// How many partitions.
        num_partitions: i32 [5+] = -1, ignorable;
        /// How many replicas of each partition.
        replication_factor: i16 [5+] = -1, ignorable;
        /// Settings of the topic.
        configs: Option<Vec<CreatableTopicConfigs>> [5+] null[5+] = Some(Vec::new()), ignorable;
    }

    /// An entry of [`CreateTopicsResponse`].
    struct CreatableTopicConfigs {
        /// The topic.
        name: String [5+];
        /// The value.
        value: Option<String> [5+] null[5+] = Some(String::new());
        /// Whether the setting cannot be changed.
        read_only: bool [5+];
        /// Where the value comes from.
        config_source: i8 [5+] = -1, ignorable;
        /// Whether the value is a secret.
        is_sensitive: bool [5+];
    }
}
