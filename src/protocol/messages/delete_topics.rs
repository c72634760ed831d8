//! `DeleteTopics`, API 20: deletes topics with all their records.
//!
//! Goes to the controller; a KRaft broker forwards it, so that any does. The brokers delete in
//! their own time after the answer.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Deletes topics.
    struct DeleteTopicsRequest {
        /// The topics by name or by id, from version 6 on.
        topics: Vec<DeleteTopicState> [6+];
        /// The topics' names, up to version 5.
        topic_names: Vec<String> [0-5], ignorable;
        /// How long the broker may take until the topics are gone from the metadata, in
        /// milliseconds.
        timeout_ms: i32 [0+];
    }

    /// A topic to delete, by name or by id: exactly one of them.
    struct DeleteTopicState {
        /// The topic's name, `None` when the id says it.
        name: Option<String> [6+] null[6+];
        /// The topic's id, zero when the name says it.
        topic_id: Uuid [6+];
    }

    /// Answers [`DeleteTopicsRequest`].
    struct DeleteTopicsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [1+], ignorable;
        /// What became of each topic.
        responses: Vec<DeletableTopicResult> [0+];
    }

    /// What became of a topic.
    struct DeletableTopicResult {
        /// The topic's name, `None` for an id that is not known.
        name: Option<String> [0+] null[6+] = Some(String::new());
        /// The topic's id.
        topic_id: Uuid [6+], ignorable;
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [5+] null[5+], ignorable;
    }
}
