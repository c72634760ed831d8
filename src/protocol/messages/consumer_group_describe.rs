//! `ConsumerGroupDescribe`, API 69: state and members of groups of KIP-848.
//!
//! Goes to each group's coordinator. A group of the classic protocol answers `GROUP_ID_NOT_FOUND`:
//! `DescribeGroups` is for those.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Asks for groups.
    struct ConsumerGroupDescribeRequest {
        /// The groups.
        group_ids: Vec<String> [0+];
        /// Whether to tell what the client may do with each group (KIP-430).
        include_authorized_operations: bool [0+];
    }

    /// Answers [`ConsumerGroupDescribeRequest`].
    struct ConsumerGroupDescribeResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// The groups.
        groups: Vec<DescribedConsumerGroup> [0+];
    }

    /// A group; `DescribedGroup` in Kafka's schema.
    struct DescribedConsumerGroup {
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [0+] null[0+];
        /// The group.
        group_id: String [0+];
        /// `Empty`, `Assigning`, `Reconciling`, `Stable` or `Dead`; empty on error.
        group_state: String [0+];
        /// Grows with each change of members or subscriptions.
        group_epoch: i32 [0+];
        /// The group epoch that the target assignment was made for.
        assignment_epoch: i32 [0+];
        /// The coordinator's assignor in use.
        assignor_name: String [0+];
        /// The members.
        members: Vec<DescribedConsumerGroupMember> [0+];
        /// Bit n stands for operation n of Kafka's ACLs; `i32::MIN` when not asked for.
        authorized_operations: i32 [0+] = i32::MIN;
    }

    /// A member; `Member` in Kafka's schema.
    struct DescribedConsumerGroupMember {
        /// The member's id.
        member_id: String [0+];
        /// The static member's own name, `None` for a dynamic one (KIP-345).
        instance_id: Option<String> [0+] null[0+];
        /// The rack that it is in, if it said so (KIP-881).
        rack_id: Option<String> [0+] null[0+];
        /// The member's epoch: the assignment epoch that it has reached.
        member_epoch: i32 [0+];
        /// The client id of its heartbeats.
        client_id: String [0+];
        /// The address that it sends them from.
        client_host: String [0+];
        /// The topics that it subscribes to.
        subscribed_topic_names: Vec<String> [0+];
        /// The regular expression that it subscribes to, if it does.
        subscribed_topic_regex: Option<String> [0+] null[0+];
        /// The partitions that it has.
        assignment: ConsumerGroupDescribeAssignment [0+];
        /// The partitions that it is to have in the end.
        target_assignment: ConsumerGroupDescribeAssignment [0+];
        /// 0 for a member that still speaks the classic protocol, 1 for one of KIP-848, -1 when not
        /// told (KIP-1099).
        member_type: i8 [1+] = -1, ignorable;
    }

    /// Partitions of a member.
    struct ConsumerGroupDescribeAssignment {
        /// The partitions by topic.
        topic_partitions: Vec<ConsumerGroupDescribeTopicPartitions> [0+];
    }

    /// Partitions of a topic.
    struct ConsumerGroupDescribeTopicPartitions {
        /// The topic's id (KIP-516).
        topic_id: Uuid [0+];
        /// The topic's name.
        topic_name: String [0+];
        /// The partitions.
        partitions: Vec<i32> [0+];
    }
}
