//! `ApiVersions`, API 18: which APIs and versions the broker speaks. The first request on a
//! connection.
//!
//! Any broker answers. A broker that does not know the request's version answers
//! `UNSUPPORTED_VERSION` (35) in the form of version 0, since Kafka 2.4 with its own range for this
//! API (KIP-511); the header of the response is the classic one in every version. Features came
//! with KIP-584, their names for clients with KIP-1022; cluster and broker id, by which a client
//! finds that it reached another cluster, with KIP-1242.

use super::super::ErrorCode;

messages! {
    /// Asks which APIs and versions the broker speaks.
    struct ApiVersionsRequest {
        /// The client library, of letters, digits, `.` and `-`, neither of them at an end; else the
        /// broker answers `INVALID_REQUEST` (KIP-511).
        client_software_name: String [3+], ignorable;
        /// The client library's version, in the same letters.
        client_software_version: String [3+], ignorable;
        /// The cluster that the client takes this one for, `None` with `node_id` -1 only. Another
        /// one answers `REBOOTSTRAP_REQUIRED`.
        cluster_id: Option<String> [5+] null[5+], ignorable;
        /// The broker that the client takes this one for, -1 for no matter.
        node_id: i32 [5+] = -1, ignorable;
    }

    /// Answers [`ApiVersionsRequest`].
    struct ApiVersionsResponse {
        /// 0, or why it failed; 35 when the version of the request is unknown.
        error_code: ErrorCode [0+];
        /// The APIs that the broker speaks. With error 35 only this API, or none at all.
        api_keys: Vec<ApiVersion> [0+];
        /// How long the broker wants the client to wait before its next request, in milliseconds.
        /// From the version on that KIP-219 names, the broker relies on the client for it.
        throttle_time_ms: i32 [1+], ignorable;
        /// The levels of each feature that this broker could run at.
        supported_features: Vec<SupportedFeatureKey> [3+] tag 0, ignorable;
        /// Grows with each change of the finalized features, -1 when unknown: of several answers
        /// the one with the highest epoch holds.
        finalized_features_epoch: i64 [3+] tag 1 = -1, ignorable;
        /// The level of each feature that is in force in the cluster; a feature at level 0 is left
        /// out. Level 2 of `transaction.version` means transactions of KIP-890, for example.
        finalized_features: Vec<FinalizedFeatureKey> [3+] tag 2, ignorable;
        /// Whether a controller is ready to migrate from ZooKeeper. Of Kafka 3.4 to 3.9.
        zk_migration_ready: bool [3+] tag 3, ignorable;
    }

    /// An API that the broker speaks.
    struct ApiVersion {
        /// The API's number.
        api_key: i16 [0+];
        /// The lowest version. Kafka 4 lists Produce from 0 on but takes it from 3 on only
        /// (KAFKA-18659).
        min_version: i16 [0+];
        /// The highest version.
        max_version: i16 [0+];
    }

    /// A feature and the levels that the broker could run at.
    struct SupportedFeatureKey {
        /// The feature.
        name: String [3+];
        /// The lowest level.
        min_version: i16 [3+];
        /// The highest level.
        max_version: i16 [3+];
    }

    /// A feature and its level in force.
    struct FinalizedFeatureKey {
        /// The feature.
        name: String [3+];
        /// The level in force.
        max_version_level: i16 [3+];
        /// The lowest level that a broker must know.
        min_version_level: i16 [3+];
    }
}
