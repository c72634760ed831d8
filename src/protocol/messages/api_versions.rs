//! ApiVersions, API 18: asks which APIs and versions the broker speaks; the first request on a
//! connection.

use super::super::ErrorCode;

messages! {
    /// Asks which APIs and versions the broker speaks; the first request on a connection.
    struct ApiVersionsRequest {
        /// The client library.
        client_software_name: String [3+], ignorable;
        /// The client library's version.
        client_software_version: String [3+], ignorable;
        /// The cluster's id.
        cluster_id: Option<String> [5+] null[5+], ignorable;
        /// The broker's id.
        node_id: i32 [5+] = -1, ignorable;
    }

    /// Answers [`ApiVersionsRequest`].
    struct ApiVersionsResponse {
        /// The error, 0 for none.
        error_code: ErrorCode [0+];
        /// One entry per API.
        api_keys: Vec<ApiVersion> [0+];
        /// How long the broker asks the client to wait before its next request, in milliseconds
        /// (KIP-219).
        throttle_time_ms: i32 [1+], ignorable;
        /// Features the broker could use.
        supported_features: Vec<SupportedFeatureKey> [3+] tag 0, ignorable;
        /// −1 unknown; use the entry with the highest epoch.
        finalized_features_epoch: i64 [3+] tag 1 = -1, ignorable;
        /// Feature levels in force in the cluster.
        finalized_features: Vec<FinalizedFeatureKey> [3+] tag 2, ignorable;
        /// 3.4+.
        zk_migration_ready: bool [3+] tag 3, ignorable;
    }

    /// An entry of [`ApiVersionsResponse`].
    struct ApiVersion {
        /// The API's number.
        api_key: i16 [0+];
        /// The lowest version.
        min_version: i16 [0+];
        /// The highest version.
        max_version: i16 [0+];
    }

    /// An entry of [`ApiVersionsResponse`].
    struct SupportedFeatureKey {
        /// The topic.
        name: String [3+];
        /// The lowest version.
        min_version: i16 [3+];
        /// The highest version.
        max_version: i16 [3+];
    }

    /// An entry of [`ApiVersionsResponse`].
    struct FinalizedFeatureKey {
        /// The topic.
        name: String [3+];
        /// Active level.
        max_version_level: i16 [3+];
        /// The lowest level in force.
        min_version_level: i16 [3+];
    }
}
