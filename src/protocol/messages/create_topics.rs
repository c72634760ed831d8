//! `CreateTopics`, API 19: creates topics.
//!
//! Goes to the controller; a KRaft broker forwards it, so that any does. Success does not mean that
//! the partitions have leaders yet.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Creates topics.
    struct CreateTopicsRequest {
        /// The topics. A name that occurs twice is refused for both.
        topics: Vec<CreatableTopic> [0+];
        /// How long the broker may take until the topics are complete on all brokers, in
        /// milliseconds.
        timeout_ms: i32 [0+] = 60000;
        /// Whether to check only, and create nothing.
        validate_only: bool [1+];
    }

    /// A topic to create.
    struct CreatableTopic {
        /// Its name: letters, digits, `.`, `_` and `-`, at most 249.
        name: String [0+];
        /// How many partitions; -1 with `assignments`, and from version 4 on for the broker's
        /// default (KIP-464).
        num_partitions: i32 [0+];
        /// How many replicas of each partition; -1 as for `num_partitions`.
        replication_factor: i16 [0+];
        /// Replicas placed by hand, one entry per partition; empty to let the broker place them.
        assignments: Vec<CreatableReplicaAssignment> [0+];
        /// Settings that differ from the broker's.
        configs: Vec<CreatableTopicConfig> [0+];
    }

    /// Where the replicas of a partition go.
    struct CreatableReplicaAssignment {
        /// The partition.
        partition_index: i32 [0+];
        /// The brokers, the preferred leader first.
        broker_ids: Vec<i32> [0+];
    }

    /// A setting of a topic to create.
    struct CreatableTopicConfig {
        /// The setting, such as `retention.ms`.
        name: String [0+];
        /// Its value.
        value: Option<String> [0+] null[0+] = Some(String::new());
    }

    /// Answers [`CreateTopicsRequest`].
    struct CreateTopicsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [2+], ignorable;
        /// What became of each topic.
        topics: Vec<CreatableTopicResult> [0+];
    }

    /// What became of a topic.
    struct CreatableTopicResult {
        /// The topic.
        name: String [0+];
        /// The id that it got (KIP-516), zero on error.
        topic_id: Uuid [7+], ignorable;
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [1+] null[1+] = Some(String::new()), ignorable;
        /// Why `configs` is missing: 29 when the client may not read them.
        topic_config_error_code: ErrorCode [5+] tag 0, ignorable;
        /// How many partitions it got, -1 when not told.
        num_partitions: i32 [5+] = -1, ignorable;
        /// How many replicas of each partition, -1 when not told.
        replication_factor: i16 [5+] = -1, ignorable;
        /// All settings in force (KIP-525), `None` when not told.
        configs: Option<Vec<CreatableTopicConfigs>> [5+] null[5+] = Some(Vec::new()), ignorable;
    }

    /// A setting in force.
    struct CreatableTopicConfigs {
        /// The setting.
        name: String [5+];
        /// Its value, `None` for a secret.
        value: Option<String> [5+] null[5+] = Some(String::new());
        /// Whether it cannot be changed while the broker runs.
        read_only: bool [5+];
        /// Where the value comes from: 1 the topic, 2 this broker's settings, 3 all brokers'
        /// settings, 4 the broker's file, 5 the default; -1 when not told.
        config_source: i8 [5+] = -1, ignorable;
        /// Whether the value is a secret.
        is_sensitive: bool [5+];
    }
}
