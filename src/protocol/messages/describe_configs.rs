//! `DescribeConfigs`, API 32: reads the configuration of topics, brokers and groups (KIP-133).
//!
//! What concerns a broker goes to that broker, everything else to any.

use super::super::ErrorCode;

messages! {
    /// Asks for configurations.
    struct DescribeConfigsRequest {
        /// What to describe.
        resources: Vec<DescribeConfigsResource> [0+];
        /// Whether to name all places that a value may come from (KIP-226).
        include_synonyms: bool [1+];
        /// Whether to explain each setting (KIP-569).
        include_documentation: bool [3+];
    }

    /// What to describe.
    struct DescribeConfigsResource {
        /// What it is: 2 a topic, 4 a broker, 8 a broker's loggers, 16 metrics of clients, 32 a
        /// group.
        resource_type: i8 [0+];
        /// Its name: of a topic or group, or a broker's id; empty for the default of all brokers.
        resource_name: String [0+];
        /// The names of the settings, `None` for all.
        configuration_keys: Option<Vec<String>> [0+] null[0+] = Some(Vec::new());
    }

    /// Answers [`DescribeConfigsRequest`].
    struct DescribeConfigsResponse {
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [0+];
        /// The configurations.
        results: Vec<DescribeConfigsResult> [0+];
    }

    /// The configuration of a resource.
    struct DescribeConfigsResult {
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [0+] null[0+] = Some(String::new());
        /// What it is: 2 a topic, 4 a broker, 8 a broker's loggers, 16 metrics of clients, 32 a
        /// group.
        resource_type: i8 [0+];
        /// Its name: of a topic or group, or a broker's id; empty for the default of all brokers.
        resource_name: String [0+];
        /// The settings.
        configs: Vec<DescribeConfigsResourceResult> [0+];
    }

    /// A setting.
    struct DescribeConfigsResourceResult {
        /// The name.
        name: String [0+];
        /// The value, `None` when it is secret or there is none.
        value: Option<String> [0+] null[0+] = Some(String::new());
        /// Whether it cannot be changed while the broker runs.
        read_only: bool [0+];
        /// Whether it is the default, in version 0; later ones give the source.
        is_default: bool [0];
        /// Where the value comes from: 1 the topic, 2 this broker, 3 the default of all brokers, 4
        /// the broker's file, 5 the built-in default, 6 this broker's loggers, 7 metrics of
        /// clients, 8 the group; -1 when not told.
        config_source: i8 [1+] = -1, ignorable;
        /// Whether it is secret.
        is_sensitive: bool [0+];
        /// Where a value was looked for, the setting itself first: the first that has one holds.
        synonyms: Vec<DescribeConfigsSynonym> [1+], ignorable;
        /// Its type: 1 bool, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9
        /// password, 0 unknown (KIP-569).
        config_type: i8 [3+], ignorable;
        /// What it does.
        documentation: Option<String> [3+] null[0+] = Some(String::new()), ignorable;
    }

    /// A place where the value of a setting was looked for (KIP-226).
    struct DescribeConfigsSynonym {
        /// The name.
        name: String [1+];
        /// The value, `None` when it is secret or there is none.
        value: Option<String> [1+] null[0+] = Some(String::new());
        /// Where that value comes from, in the numbers of `config_source`.
        source: i8 [1+];
    }
}
