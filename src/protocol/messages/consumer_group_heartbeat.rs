//! `ConsumerGroupHeartbeat`, API 68: joins, keeps and leaves a group of KIP-848.
//!
//! Goes to the group's coordinator, which assigns the partitions itself. The first heartbeat of a
//! member has epoch 0 and says everything; later ones say what changed. `FENCED_MEMBER_EPOCH` and
//! `UNKNOWN_MEMBER_ID` ask the member to give up its partitions and to join again.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Shows that a member lives, and what changed with it.
    struct ConsumerGroupHeartbeatRequest {
        /// The group.
        group_id: String [0+];
        /// The member's id, a UUID in text; from version 1 on the member chooses it itself
        /// (KIP-1082), in version 0 it is empty for the first time.
        member_id: String [0+];
        /// The member's epoch: 0 to join, -1 to leave, -2 for a static member that will come back.
        member_epoch: i32 [0+];
        /// The static member's own name (KIP-345); `None` for none, or no change.
        instance_id: Option<String> [0+] null[0+];
        /// The rack that the member is in (KIP-881); `None` for none, or no change.
        rack_id: Option<String> [0+] null[0+];
        /// How long the member may take to give up partitions, in milliseconds; -1 for no change.
        rebalance_timeout_ms: i32 [0+] = -1;
        /// The topics that it subscribes to; `None` for no change.
        subscribed_topic_names: Option<Vec<String>> [0+] null[0+];
        /// The regular expression that it subscribes to, in RE2's syntax; `None` for no change.
        subscribed_topic_regex: Option<String> [1+] null[1+];
        /// The coordinator's assignor that it wants, such as `uniform`; `None` for no matter, or no
        /// change.
        server_assignor: Option<String> [0+] null[0+];
        /// The partitions that it has; `None` for no change.
        topic_partitions: Option<Vec<ConsumerGroupHeartbeatTopicPartitions>> [0+] null[0+];
    }

    /// Partitions of a topic.
    struct ConsumerGroupHeartbeatTopicPartitions {
        /// The topic's id (KIP-516).
        topic_id: Uuid [0+];
        /// The partitions.
        partitions: Vec<i32> [0+];
    }

    /// Answers [`ConsumerGroupHeartbeatRequest`].
    struct ConsumerGroupHeartbeatResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [0+] null[0+];
        /// The member's id; in version 0 the coordinator may have given it.
        member_id: Option<String> [0+] null[0+];
        /// The member's epoch.
        member_epoch: i32 [0+];
        /// When the next heartbeat is due, in milliseconds.
        heartbeat_interval_ms: i32 [0+];
        /// The partitions that the member is to have now; `None` for no change.
        assignment: Option<ConsumerGroupHeartbeatAssignment> [0+] null[0+];
    }

    /// All partitions that a member is to have now.
    struct ConsumerGroupHeartbeatAssignment {
        /// The partitions by topic.
        topic_partitions: Vec<ConsumerGroupHeartbeatTopicPartitions> [0+];
    }
}
