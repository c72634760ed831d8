//! Which Kafka the cluster poses as: the versions of every API, and the features.
//!
//! The ranges are those that brokers of 0.11.0.3, 2.1.1, 2.8.2, 3.9.2 and 4.4.0 answered to ApiVersions,
//! each asked with its own settings; an API that is not implemented here is left out. Kafka 4.x lists Produce from version 0 on (KAFKA-18659) and closes the
//! connection on versions 0 to 2: so does [`Release::V4_4`].

use super::dispatch::SERVED;
use crate::protocol::{ApiKey, VersionRange};

/// A release of Apache Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Release {
    /// 0.11.0, the first with idempotence, transactions and the present record format.
    V0_11,
    /// 2.1, the first with zstd.
    V2_1,
    /// 2.8, the first with topic ids in Metadata.
    V2_8,
    /// 3.9, the last of the third line.
    V3_9,
    /// 4.4.
    V4_4,
}

macro_rules! ranges {
    ($($key:ident: $v0_11:tt $v2_1:tt $v2_8:tt $v3_9:tt $v4_4:tt;)+) => {
        fn range(release: Release, api: ApiKey) -> Option<VersionRange> {
            match api {
                $(ApiKey::$key => match release {
                    Release::V0_11 => ranges!(@ $v0_11),
                    Release::V2_1 => ranges!(@ $v2_1),
                    Release::V2_8 => ranges!(@ $v2_8),
                    Release::V3_9 => ranges!(@ $v3_9),
                    Release::V4_4 => ranges!(@ $v4_4),
                },)+
                _ => None,
            }
        }
    };
    (@ -) => { None };
    (@ ($min:literal, $max:literal)) => { Some(VersionRange { min: $min, max: $max }) };
}

ranges! {
    PRODUCE: (0, 3) (0, 7) (0, 9) (0, 11) (3, 13);
    FETCH: (0, 5) (0, 10) (0, 12) (0, 17) (4, 18);
    LIST_OFFSETS: (0, 2) (0, 4) (0, 6) (0, 9) (1, 11);
    METADATA: (0, 4) (0, 7) (0, 11) (0, 12) (0, 13);
    OFFSET_COMMIT: (0, 3) (0, 6) (0, 8) (0, 9) (2, 10);
    OFFSET_FETCH: (0, 3) (0, 5) (0, 7) (0, 9) (1, 10);
    FIND_COORDINATOR: (0, 1) (0, 2) (0, 3) (0, 6) (0, 6);
    JOIN_GROUP: (0, 2) (0, 3) (0, 7) (0, 9) (0, 9);
    HEARTBEAT: (0, 1) (0, 2) (0, 4) (0, 4) (0, 4);
    LEAVE_GROUP: (0, 1) (0, 2) (0, 4) (0, 5) (0, 5);
    SYNC_GROUP: (0, 1) (0, 2) (0, 5) (0, 5) (0, 5);
    DESCRIBE_GROUPS: (0, 1) (0, 2) (0, 5) (0, 5) (0, 6);
    LIST_GROUPS: (0, 1) (0, 2) (0, 4) (0, 5) (0, 5);
    SASL_HANDSHAKE: (0, 0) (0, 1) (0, 1) (0, 1) (0, 1);
    API_VERSIONS: (0, 1) (0, 2) (0, 3) (0, 4) (0, 5);
    CREATE_TOPICS: (0, 2) (0, 3) (0, 7) (0, 7) (2, 7);
    DELETE_TOPICS: (0, 1) (0, 3) (0, 6) (0, 6) (1, 6);
    DELETE_RECORDS: (0, 0) (0, 1) (0, 2) (0, 2) (0, 2);
    INIT_PRODUCER_ID: (0, 0) (0, 1) (0, 4) (0, 5) (0, 5);
    OFFSET_FOR_LEADER_EPOCH: (0, 0) (0, 2) (0, 4) (0, 4) (2, 4);
    ADD_PARTITIONS_TO_TXN: (0, 0) (0, 1) (0, 3) (0, 5) (0, 5);
    ADD_OFFSETS_TO_TXN: (0, 0) (0, 1) (0, 3) (0, 4) (0, 4);
    END_TXN: (0, 0) (0, 1) (0, 3) (0, 4) (0, 5);
    TXN_OFFSET_COMMIT: (0, 0) (0, 2) (0, 3) (0, 4) (0, 6);
    DESCRIBE_CONFIGS: (0, 0) (0, 2) (0, 4) (0, 4) (1, 4);
    SASL_AUTHENTICATE: - (0, 0) (0, 2) (0, 2) (0, 2);
    CREATE_PARTITIONS: - (0, 1) (0, 3) (0, 3) (0, 3);
    DELETE_GROUPS: - (0, 1) (0, 2) (0, 2) (0, 3);
    INCREMENTAL_ALTER_CONFIGS: - - (0, 1) (0, 1) (0, 1);
    OFFSET_DELETE: - - (0, 0) (0, 0) (0, 0);
    DESCRIBE_CLUSTER: - - (0, 0) (0, 1) (0, 2);
    DESCRIBE_PRODUCERS: - - (0, 0) (0, 0) (0, 0);
    DESCRIBE_TRANSACTIONS: - - - (0, 0) (0, 0);
    LIST_TRANSACTIONS: - - - (0, 1) (0, 2);
    CONSUMER_GROUP_HEARTBEAT: - - - (0, 0) (0, 1);
    CONSUMER_GROUP_DESCRIBE: - - - (0, 0) (0, 1);
}

impl Release {
    /// The versions of `api` that brokers of the release serve, `None` when they do not know it or
    /// it is not implemented here.
    pub(super) fn versions(self, api: ApiKey) -> Option<VersionRange> {
        SERVED.contains(&api).then(|| range(self, api)).flatten()
    }

    /// The versions that they advertise.
    pub(super) fn advertised(self, api: ApiKey) -> Option<VersionRange> {
        let range = self.versions(api)?;
        let from_zero = api == ApiKey::PRODUCE && self == Self::V4_4;
        Some(if from_zero { VersionRange { min: 0, ..range } } else { range })
    }

    /// Whether an unknown version of ApiVersions is answered with the known range of that API
    /// (KIP-511).
    pub(super) fn tells_its_api_versions(self) -> bool {
        self >= Self::V2_8
    }

    /// Whether topics have ids (KIP-516).
    pub(super) fn has_topic_ids(self) -> bool {
        self >= Self::V2_8
    }

    /// Whether leaders ask whether a partition is part of the transaction whose records come (KIP-890,
    /// first part, Kafka 3.6).
    pub(super) fn verifies_transactions(self) -> bool {
        self >= Self::V3_9
    }

    /// The finalized level of `transaction.version` (KIP-890): 2 is the present protocol.
    pub(super) fn transaction_version(self) -> i16 {
        if self >= Self::V4_4 { 2 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_is_served_as_some_release_does_and_can_be_encoded() {
        let releases = [Release::V0_11, Release::V2_1, Release::V2_8, Release::V3_9, Release::V4_4];
        for api in SERVED {
            assert!(range(Release::V4_4, *api).is_some(), "{api}");
            let known = api.facts().expect("an API of this crate").stable;
            for range in releases.iter().filter_map(|release| range(*release, *api)) {
                let both = range.intersection(known);
                assert_eq!(both, Some(range), "{api}");
            }
        }
    }
}
