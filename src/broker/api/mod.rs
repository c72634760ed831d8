//! One file per API; each opens with its versions and behaviour.

pub(super) mod api_versions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_producers;
mod fetch;
mod find_coordinator;
mod init_producer_id;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
