//! `DescribeCluster`, API 60: the brokers and the controller (KIP-700).
//!
//! Any broker answers; controllers do too, when asked for their own kind of endpoint (KIP-919).

use super::super::ErrorCode;

messages! {
    /// Asks for the brokers.
    struct DescribeClusterRequest {
        /// Whether to say what the client may do with the cluster (KIP-430).
        include_cluster_authorized_operations: bool [0+];
        /// Which addresses: 1 of brokers, 2 of controllers (KIP-919). Asked of the wrong kind it
        /// answers `MISMATCHED_ENDPOINT_TYPE`.
        endpoint_type: i8 [1+] = 1;
        /// Whether to name brokers that are fenced (KIP-1073).
        include_fenced_brokers: bool [2+];
    }

    /// Answers [`DescribeClusterRequest`].
    struct DescribeClusterResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [0+] null[0+];
        /// Which addresses: 1 of brokers, 2 of controllers (KIP-919).
        endpoint_type: i8 [1+] = 1;
        /// The cluster's id.
        cluster_id: String [0+];
        /// The controller, -1 when unknown. A KRaft broker names any live broker: it forwards what
        /// is for the controller.
        controller_id: i32 [0+] = -1;
        /// The brokers.
        brokers: Vec<DescribeClusterBroker> [0+];
        /// Bit n stands for operation n of Kafka's ACLs; `i32::MIN` when not asked for (KIP-430).
        cluster_authorized_operations: i32 [0+] = i32::MIN;
    }

    /// A broker.
    struct DescribeClusterBroker {
        /// Its id.
        broker_id: i32 [0+];
        /// Host name or address.
        host: String [0+];
        /// TCP port.
        port: i32 [0+];
        /// Its rack, if it has one.
        rack: Option<String> [0+] null[0+];
        /// Whether it is registered but fenced, not live (KIP-1073).
        is_fenced: bool [2+];
    }
}
