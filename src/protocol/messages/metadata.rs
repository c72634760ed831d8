//! Metadata, API 3: asks for brokers, topics, partitions and leaders; any broker answers.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Asks for brokers, topics, partitions and leaders; any broker answers.
    struct MetadataRequest {
        /// One entry per topic.
        topics: Option<Vec<MetadataRequestTopic>> [0+] null[1+] = Some(Vec::new());
        /// Whether the broker may create a topic that does not exist.
        allow_auto_topic_creation: bool [4+] = true;
        /// Whether to tell what the client may do with the cluster.
        include_cluster_authorized_operations: bool [8-10];
        /// Whether to tell what the client may do with each topic.
        include_topic_authorized_operations: bool [8+];
    }

    /// An entry of [`MetadataRequest`].
    struct MetadataRequestTopic {
        /// The topic's id.
        topic_id: Uuid [10+], ignorable;
        /// The topic.
        name: Option<String> [0+] null[10+] = Some(String::new());
    }

    /// Answers [`MetadataRequest`].
    struct MetadataResponse {
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [3+], ignorable;
        /// The live brokers.
        brokers: Vec<MetadataResponseBroker> [0+];
        /// The cluster's id.
        cluster_id: Option<String> [2+] null[2+], ignorable;
        /// The controller's id; a KRaft broker names any live broker.
        controller_id: i32 [1+] = -1, ignorable;
        /// One entry per topic.
        topics: Vec<MetadataResponseTopic> [0+];
        /// Bit n stands for ACL operation n; i32::MIN when not asked for.
        cluster_authorized_operations: i32 [8-10] = i32::MIN;
        /// The error, 0 for none.
        error_code: ErrorCode [13+], ignorable;
    }

    /// An entry of [`MetadataResponse`].
    struct MetadataResponseBroker {
        /// The broker's id.
        node_id: i32 [0+];
        /// Host name or address.
        host: String [0+];
        /// TCP port.
        port: i32 [0+];
        /// The rack, if known.
        rack: Option<String> [1+] null[1+], ignorable;
    }

    /// An entry of [`MetadataResponse`].
    struct MetadataResponseTopic {
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
        /// The topic.
        name: Option<String> [0+] null[12+] = Some(String::new());
        /// The topic's id.
        topic_id: Uuid [10+], ignorable;
        /// Whether the topic is one of Kafka's own.
        is_internal: bool [1+], ignorable;
        /// One entry per partition.
        partitions: Vec<MetadataResponsePartition> [0+];
        /// Bit n stands for ACL operation n; i32::MIN when not asked for.
        topic_authorized_operations: i32 [8+] = i32::MIN;
    }

    /// An entry of [`MetadataResponse`].
    struct MetadataResponsePartition {
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
        /// The partition.
        partition_index: i32 [0+];
        /// The leader's id, -1 for none.
        leader_id: i32 [0+];
        /// The leader epoch, -1 when unknown.
        leader_epoch: i32 [7+] = -1, ignorable;
        /// All replicas.
        replica_nodes: Vec<i32> [0+];
        /// The replicas in sync.
        isr_nodes: Vec<i32> [0+];
        /// The replicas that are offline.
        offline_replicas: Vec<i32> [5+], ignorable;
    }
}
