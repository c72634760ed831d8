//! `IncrementalAlterConfigs`, API 44: changes single settings of topics, brokers and groups
//! (KIP-339).
//!
//! What concerns a broker goes to that broker, everything else to the controller; a KRaft broker
//! forwards it, so that any does.

use super::super::ErrorCode;

messages! {
    /// Changes settings.
    struct IncrementalAlterConfigsRequest {
        /// What to change.
        resources: Vec<AlterConfigsResource> [0+];
        /// Whether to check only, and change nothing.
        validate_only: bool [0+];
    }

    /// What to change.
    struct AlterConfigsResource {
        /// What it is: 2 a topic, 4 a broker, 8 a broker's loggers, 16 metrics of clients, 32 a
        /// group.
        resource_type: i8 [0+];
        /// Its name: of a topic or group, or a broker's id; empty for the default of all brokers.
        resource_name: String [0+];
        /// The changes.
        configs: Vec<AlterableConfig> [0+];
    }

    /// A change.
    struct AlterableConfig {
        /// The setting.
        name: String [0+];
        /// What to do: 0 set, 1 back to the default, 2 append to the list, 3 take from the list.
        config_operation: i8 [0+];
        /// The value to set, append or take away.
        value: Option<String> [0+] null[0+] = Some(String::new());
    }

    /// Answers [`IncrementalAlterConfigsRequest`].
    struct IncrementalAlterConfigsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// What became of them.
        responses: Vec<AlterConfigsResourceResponse> [0+];
    }

    /// What became of a resource.
    struct AlterConfigsResourceResponse {
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [0+] null[0+] = Some(String::new());
        /// What it is: 2 a topic, 4 a broker, 8 a broker's loggers, 16 metrics of clients, 32 a
        /// group.
        resource_type: i8 [0+];
        /// Its name: of a topic or group, or a broker's id; empty for the default of all brokers.
        resource_name: String [0+];
    }
}
