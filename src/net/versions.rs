//! What a broker speaks, and which version a request takes.
//!
//! The version of a request is the highest that all three allow: this crate (stable versions
//! only), the caller's own limit, and the broker on this very connection. It is never inferred
//! from an advertised minimum: brokers from 4.0 advertise Produce 0-2 and refuse them.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::messages::ApiVersionsResponse;
use crate::protocol::{ApiKey, VersionRange};

/// The answer of one broker to ApiVersions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BrokerVersions {
    apis: BTreeMap<i16, VersionRange>,
    /// Feature levels in force in the cluster, by name.
    features: BTreeMap<String, i16>,
    /// How new `features` is; -1 when unknown.
    features_epoch: i64,
}

impl BrokerVersions {
    pub(crate) fn new(response: &ApiVersionsResponse) -> Self {
        let apis = response
            .api_keys
            .iter()
            .map(|api| (api.api_key, VersionRange { min: api.min_version, max: api.max_version }));
        let features = response.finalized_features.iter();
        Self {
            apis: apis.collect(),
            features: features.map(|f| (f.name.clone(), f.max_version_level)).collect(),
            features_epoch: response.finalized_features_epoch,
        }
    }

    /// The versions that the broker lists for `api`.
    pub(crate) fn of(&self, api: ApiKey) -> Option<VersionRange> {
        self.apis.get(&api.0).copied()
    }

    /// The version to use for `api` within the caller's `cap`.
    ///
    /// # Errors
    /// `UnsupportedVersion`, naming all ranges; nothing was sent.
    pub(crate) fn choose(&self, api: ApiKey, cap: VersionRange) -> Result<i16> {
        let ours = api.facts().map_or(VersionRange::EMPTY, |facts| facts.stable);
        let wanted = ours.intersection(cap).unwrap_or(VersionRange::EMPTY);
        let Some(theirs) = self.of(api) else {
            let message = format!("the broker does not offer {api}");
            return Err(Error::new(ErrorKind::UnsupportedVersion, message));
        };
        match wanted.intersection(theirs) {
            Some(both) => Ok(both.max),
            None => Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!("the broker offers {api} {theirs}, this call needs {wanted}"),
            )),
        }
    }

    /// The level in force of a feature such as `transaction.version`, 0 when it is not listed.
    pub(crate) fn feature(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::messages::ApiVersion;

    const ANY: VersionRange = VersionRange { min: 0, max: i16::MAX };

    fn broker(apis: &[(ApiKey, i16, i16)]) -> BrokerVersions {
        let api_keys = apis.iter().map(|(api, min, max)| ApiVersion {
            api_key: api.0,
            min_version: *min,
            max_version: *max,
            ..Default::default()
        });
        BrokerVersions::new(&ApiVersionsResponse {
            api_keys: api_keys.collect(),
            ..Default::default()
        })
    }

    /// Absent keys, newer brokers, ranges that do not meet (IBM/sarama#3741).
    #[test]
    fn the_highest_common_version_is_chosen_or_the_ranges_are_named() {
        let broker = broker(&[(ApiKey::PRODUCE, 3, 99), (ApiKey::FETCH, 40, 50)]);
        assert_eq!(broker.choose(ApiKey::PRODUCE, ANY).expect("common"), 13);
        let cap = VersionRange { min: 0, max: 9 };
        assert_eq!(broker.choose(ApiKey::PRODUCE, cap).expect("common"), 9);
        let error = broker.choose(ApiKey::FETCH, ANY).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
        assert!(
            error.to_string().contains("40-50") && error.to_string().contains("0-18"),
            "{error}"
        );
        let error = broker.choose(ApiKey::INIT_PRODUCER_ID, ANY).unwrap_err();
        assert!(error.to_string().contains("does not offer InitProducerId"), "{error}");
    }
}
