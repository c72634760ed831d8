//! The declarations: a request beside its response, one file per API.
//!
//! Field names are those of Kafka's schemas in Rust's spelling; the entries of arrays are structs
//! of their own, under the names that Kafka's schemas give them.

mod api_versions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_producers;
mod fetch;
mod find_coordinator;
mod init_producer_id;
mod leaders;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;

pub use api_versions::*;
pub use create_topics::*;
pub use delete_records::*;
pub use delete_topics::*;
pub use describe_producers::*;
pub use fetch::*;
pub use find_coordinator::*;
pub use init_producer_id::*;
pub use leaders::*;
pub use list_offsets::*;
pub use metadata::*;
pub use offset_commit::*;
pub use offset_fetch::*;
pub use offset_for_leader_epoch::{
    EpochEndOffset as LeaderEpochEndOffset, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, OffsetForLeaderPartition, OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
};
pub use produce::*;
