//! `Metadata`, API 3: brokers, topics, partitions and their leaders.
//!
//! Any broker answers, from what it knows. Leader epochs are trustworthy from version 9 on (Kafka
//! 2.4); asking by topic id works from version 12 on, and never mixed with names (KIP-516).

use super::super::{ErrorCode, Uuid};

messages! {
    /// Asks for brokers, topics, partitions and leaders.
    struct MetadataRequest {
        /// The topics; from version 1 on `None` for all and empty for none, in version 0 empty for
        /// all.
        topics: Option<Vec<MetadataRequestTopic>> [0+] null[1+] = Some(Vec::new());
        /// Whether the broker may create a topic that does not exist, if its own settings let it
        /// (KIP-204). Up to version 3 it may.
        allow_auto_topic_creation: bool [4+] = true;
        /// Whether to tell what the client may do with the cluster (KIP-430).
        include_cluster_authorized_operations: bool [8-10];
        /// Whether to tell what the client may do with each topic (KIP-430).
        include_topic_authorized_operations: bool [8+];
    }

    /// A topic to ask about.
    struct MetadataRequestTopic {
        /// Its id, zero when the name says it; works from version 12 on.
        topic_id: Uuid [10+], ignorable;
        /// Its name, `None` when the id says it.
        name: Option<String> [0+] null[10+] = Some(String::new());
    }

    /// Answers [`MetadataRequest`].
    struct MetadataResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [3+], ignorable;
        /// The live brokers, as they can be reached on the listener that was asked.
        brokers: Vec<MetadataResponseBroker> [0+];
        /// The cluster's id (KIP-78).
        cluster_id: Option<String> [2+] null[2+], ignorable;
        /// The controller, -1 when unknown. A KRaft broker names any live broker: it forwards what
        /// is for the controller.
        controller_id: i32 [1+] = -1, ignorable;
        /// The topics that were asked about.
        topics: Vec<MetadataResponseTopic> [0+];
        /// Bit n stands for operation n of Kafka's ACLs; `i32::MIN` when not asked for.
        cluster_authorized_operations: i32 [8-10] = i32::MIN;
        /// 0, or why the whole request failed; `REBOOTSTRAP_REQUIRED` asks to start over from the
        /// bootstrap servers (KIP-1102).
        error_code: ErrorCode [13+], ignorable;
    }

    /// A live broker.
    struct MetadataResponseBroker {
        /// The broker's id.
        node_id: i32 [0+];
        /// Host name or address.
        host: String [0+];
        /// TCP port.
        port: i32 [0+];
        /// Its rack, if it has one.
        rack: Option<String> [1+] null[1+], ignorable;
    }

    /// A topic.
    struct MetadataResponseTopic {
        /// 0, or why it failed. A topic that is being created answers `UNKNOWN_TOPIC_OR_PARTITION`
        /// or `LEADER_NOT_AVAILABLE` at first.
        error_code: ErrorCode [0+];
        /// Its name, `None` for an id that is not known.
        name: Option<String> [0+] null[12+] = Some(String::new());
        /// Its id, zero for a name that is not known (KIP-516).
        topic_id: Uuid [10+], ignorable;
        /// Whether it is one of Kafka's own.
        is_internal: bool [1+], ignorable;
        /// Its partitions, in no certain order.
        partitions: Vec<MetadataResponsePartition> [0+];
        /// Bit n stands for operation n of Kafka's ACLs; `i32::MIN` when not asked for.
        topic_authorized_operations: i32 [8+] = i32::MIN;
    }

    /// A partition.
    struct MetadataResponsePartition {
        /// 0, or `LEADER_NOT_AVAILABLE` while it has no leader; others are for information.
        error_code: ErrorCode [0+];
        /// The partition.
        partition_index: i32 [0+];
        /// The leader's id, -1 for none.
        leader_id: i32 [0+];
        /// Its leader epoch, -1 when unknown (KIP-320).
        leader_epoch: i32 [7+] = -1, ignorable;
        /// All replicas, the preferred leader first.
        replica_nodes: Vec<i32> [0+];
        /// The replicas in sync.
        isr_nodes: Vec<i32> [0+];
        /// The replicas that are offline (KIP-112).
        offline_replicas: Vec<i32> [5+], ignorable;
    }
}
