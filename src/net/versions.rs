//! What a broker speaks, and which version a request takes.
//!
//! The version of a request is the highest that all three have: this crate (stable versions only),
//! the caller's own limit, and the broker on this very connection. It is never inferred from an
//! advertised minimum: brokers from 4.0 advertise Produce 0-2 and refuse them (KAFKA-18659).

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::messages::ApiVersionsResponse;
use crate::protocol::{ApiKey, VersionRange};

/// What a broker said about itself on one connection. Brokers of one cluster differ during an
/// upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BrokerVersions {
    /// Ascending by API.
    ranges: Vec<(ApiKey, VersionRange)>,
    /// Finalized features and their levels.
    features: Vec<(String, i16)>,
}

impl BrokerVersions {
    pub(crate) fn new(response: &ApiVersionsResponse) -> Self {
        let mut ranges: Vec<_> = response
            .api_keys
            .iter()
            .map(|row| {
                let range = VersionRange { min: row.min_version, max: row.max_version };
                (ApiKey(row.api_key), range)
            })
            .filter(|(_, range)| range.min <= range.max)
            .collect();
        // Stable, so that of two rows for one API the first holds.
        ranges.sort_by_key(|(api, _)| *api);
        ranges.dedup_by_key(|(api, _)| *api);
        let features = response
            .finalized_features
            .iter()
            .map(|feature| (feature.name.clone(), feature.max_version_level))
            .collect();
        Self { ranges, features }
    }

    /// The versions of `api` that the broker offers, `None` when it lacks the API.
    pub(crate) fn of(&self, api: ApiKey) -> Option<VersionRange> {
        let index = self.ranges.binary_search_by_key(&api, |(key, _)| *key).ok()?;
        self.ranges.get(index).map(|(_, range)| *range)
    }

    /// The level of a finalized feature, such as `transaction.version`; 0 when it is not in force.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "transactions will ask for transaction.version")
    )]
    pub(crate) fn feature(&self, name: &str) -> i16 {
        self.features.iter().find(|(known, _)| known == name).map_or(0, |(_, level)| *level)
    }

    /// The version to use for `api`: the highest that this crate has as stable, `cap` allows and
    /// the broker offers.
    ///
    /// # Errors
    /// `UnsupportedVersion`, naming the ranges, when there is none.
    pub(crate) fn choose(&self, api: ApiKey, cap: VersionRange) -> Result<i16> {
        let unsupported = |text| Err(Error::new(ErrorKind::UnsupportedVersion, text));
        let Some(ours) = own_versions(api) else {
            return unsupported(format!("this client does not speak {api}"));
        };
        let Some(wanted) = ours.intersection(cap) else {
            return unsupported(format!(
                "this client has {api} {ours}, but {cap} is needed for what was asked"
            ));
        };
        match self.of(api) {
            None => unsupported(format!("the broker does not offer {api}")),
            Some(offered) => match offered.intersection(wanted) {
                Some(common) => Ok(common.max),
                None => unsupported(format!(
                    "the broker offers {api} {offered}, this client needs {wanted}"
                )),
            },
        }
    }
}

fn own_versions(api: ApiKey) -> Option<VersionRange> {
    api.facts().map(|facts| facts.stable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::messages::ApiVersion;

    const ANY: VersionRange = VersionRange { min: 0, max: i16::MAX };

    fn table(rows: &[(ApiKey, i16, i16)]) -> ApiVersionsResponse {
        let row = |(api, min_version, max_version): &(ApiKey, i16, i16)| ApiVersion {
            api_key: api.0,
            min_version: *min_version,
            max_version: *max_version,
            ..ApiVersion::default()
        };
        ApiVersionsResponse {
            api_keys: rows.iter().map(row).collect(),
            ..ApiVersionsResponse::default()
        }
    }

    /// IBM/sarama#3741 (B71): the highest common version, or an error that names both ranges.
    #[test]
    fn versions_come_from_what_all_three_have() {
        let versions = BrokerVersions::new(&table(&[
            (ApiKey::PRODUCE, 3, 99),
            (ApiKey::FETCH, 90, 99),
            (ApiKey::METADATA, 5, 4),
            (ApiKey::LIST_OFFSETS, 1, 6),
            (ApiKey::LIST_OFFSETS, 8, 9),
            (ApiKey(999), 0, 1),
        ]));
        let cap = |min, max| VersionRange { min, max };
        assert_eq!(versions.choose(ApiKey::PRODUCE, ANY).expect("common"), 13);
        assert_eq!(versions.choose(ApiKey::PRODUCE, cap(0, 9)).expect("common"), 9);
        assert_eq!(versions.choose(ApiKey::LIST_OFFSETS, ANY).expect("the first row"), 6);
        for (api, cap, text) in [
            (ApiKey::FETCH, ANY, "the broker offers Fetch 90-99, this client needs 0-18"),
            (ApiKey::PRODUCE, cap(0, 2), "the broker offers Produce 3-99, this client needs 0-2"),
            (ApiKey::PRODUCE, cap(20, 21), "this client has Produce 0-13, but 20-21 is needed"),
            (ApiKey::INIT_PRODUCER_ID, ANY, "the broker does not offer InitProducerId"),
            (ApiKey::METADATA, ANY, "the broker does not offer Metadata"),
            (ApiKey(999), ANY, "this client does not speak API 999"),
        ] {
            let error = versions.choose(api, cap).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    /// The registry marks `InitProducerId` 6 as unstable: brokers hang up on it.
    #[test]
    fn unstable_versions_are_not_chosen() {
        let versions = BrokerVersions::new(&table(&[(ApiKey::INIT_PRODUCER_ID, 0, 6)]));
        assert_eq!(versions.choose(ApiKey::INIT_PRODUCER_ID, ANY).expect("common"), 5);
    }
}
