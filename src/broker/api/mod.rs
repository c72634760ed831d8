//! One file per API; each opens with its versions and behaviour.

pub(super) mod api_versions;
mod create_topics;
mod delete_topics;
mod metadata;
