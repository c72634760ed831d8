//! DeleteTopics, API 20: deletes topics; goes to the controller, KRaft brokers forward it.

use super::super::{ErrorCode, Uuid};

messages! {
    /// Deletes topics; goes to the controller, KRaft brokers forward it.
    struct DeleteTopicsRequest {
        /// One entry per topic.
        topics: Vec<DeleteTopicState> [6+];
        /// The topics.
        topic_names: Vec<String> [0-5], ignorable;
        /// How long the broker may take, in milliseconds.
        timeout_ms: i32 [0+];
    }

    /// An entry of [`DeleteTopicsRequest`].
    struct DeleteTopicState {
        /// The topic.
        name: Option<String> [6+] null[6+];
        /// The topic's id.
        topic_id: Uuid [6+];
    }

    /// Answers [`DeleteTopicsRequest`].
    struct DeleteTopicsResponse {
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [1+], ignorable;
        /// One entry per topic.
        responses: Vec<DeletableTopicResult> [0+];
    }

    /// An entry of [`DeleteTopicsResponse`].
    struct DeletableTopicResult {
        /// The topic.
        name: Option<String> [0+] null[6+] = Some(String::new());
        /// The topic's id.
        topic_id: Uuid [6+], ignorable;
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [5+] null[5+], ignorable;
    }
}
