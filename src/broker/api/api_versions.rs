//! `ApiVersions`, API 18, versions 0-5: what the broker serves, and its features.
//!
//! Lists exactly the versions that the dispatcher lets through, but for Produce of Kafka 4.x (see
//! [`Release`]). Software name and version must be of Kafka's form (KIP-511), cluster and broker id
//! must be this broker's when they are given (KIP-1242).

use super::super::call::{Api, Call, Outcome};
use super::super::dispatch::SERVED;
use super::super::release::Release;
use crate::protocol::messages::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use crate::protocol::{ApiKey, ErrorCode};

/// First version that tells features whose lowest level is 0.
const LEVEL_ZERO_SINCE: i16 = 4;

impl Api for ApiVersionsRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<ApiVersionsResponse> {
        let named = |text: &str| is_software_name(text);
        if call.version >= 3
            && !(named(&self.client_software_name) && named(&self.client_software_version))
        {
            return Outcome::Answer(refusal(ErrorCode::INVALID_REQUEST));
        }
        if self.cluster_id.is_some() != (self.node_id >= 0) {
            return Outcome::Answer(refusal(ErrorCode::INVALID_REQUEST));
        }
        if let Some(cluster_id) = &self.cluster_id
            && (*cluster_id != call.state.cluster_id || self.node_id != call.broker)
        {
            return Outcome::Answer(refusal(ErrorCode::REBOOTSTRAP_REQUIRED));
        }
        Outcome::Answer(offer(call.state.release, call.version))
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> ApiVersionsResponse {
        refusal(error)
    }

    fn throttle(response: &mut ApiVersionsResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

/// The answer to a version that the broker does not know.
pub(in crate::broker) fn unsupported(release: Release) -> ApiVersionsResponse {
    let own = release.tells_its_api_versions().then(|| row(release, ApiKey::API_VERSIONS));
    ApiVersionsResponse {
        api_keys: own.flatten().into_iter().collect(),
        ..refusal(ErrorCode::UNSUPPORTED_VERSION)
    }
}

fn refusal(error_code: ErrorCode) -> ApiVersionsResponse {
    ApiVersionsResponse { error_code, ..Default::default() }
}

fn row(release: Release, api: ApiKey) -> Option<ApiVersion> {
    let range = release.advertised(api)?;
    Some(ApiVersion {
        api_key: api.0,
        min_version: range.min,
        max_version: range.max,
        ..Default::default()
    })
}

fn offer(release: Release, version: i16) -> ApiVersionsResponse {
    let mut answer = ApiVersionsResponse {
        api_keys: SERVED.iter().filter_map(|api| row(release, *api)).collect(),
        ..Default::default()
    };
    let level = release.transaction_version();
    if level > 0 {
        let name = || "transaction.version".to_owned();
        // Clients of earlier versions take a lowest level of 0 for a fault (KIP-1022).
        if version >= LEVEL_ZERO_SINCE {
            answer.supported_features = vec![SupportedFeatureKey {
                name: name(),
                min_version: 0,
                max_version: level,
                ..Default::default()
            }];
        }
        answer.finalized_features_epoch = 0;
        answer.finalized_features = vec![FinalizedFeatureKey {
            name: name(),
            max_version_level: level,
            min_version_level: level,
            ..Default::default()
        }];
    }
    answer
}

/// Whether it has the form `[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?`.
fn is_software_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte))
}
