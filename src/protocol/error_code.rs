//! Kafka's error codes: an open set of named integers, each with the one recovery a client applies.
//!
//! A code is a number on the wire and the set grows with every release, so [`ErrorCode`] is a
//! newtype over the integer with named constants: a code of a newer broker keeps its number and
//! is treated as a final server error. The retriable classification is that of the exception
//! hierarchy in Kafka's Java client (`org.apache.kafka.common.protocol.Errors`); what differs is
//! noted beside the row.
//!
//! The table is the only place that knows what a code asks for. A caller that needs another
//! answer in its own context (the producer's sequence errors, an offset out of range in a fetch)
//! matches the constant before it falls back on [`ErrorCode::recovery`].

use std::fmt;

use crate::error::Recovery;

/// An error code from a broker's answer; zero is success.
///
/// Unknown codes keep their number.
///
/// ```
/// use ottla::protocol::ErrorCode;
///
/// assert_eq!(ErrorCode::NOT_LEADER_OR_FOLLOWER.to_string(), "NOT_LEADER_OR_FOLLOWER (6)");
/// assert!(ErrorCode::NOT_LEADER_OR_FOLLOWER.is_retriable());
/// assert_eq!(ErrorCode(4711).to_string(), "unknown error code 4711");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ErrorCode(pub i16);

macro_rules! error_codes {
    ($($(#[$doc:meta])* $code:literal $name:ident $recovery:ident,)+) => {
        impl ErrorCode {
            $(
                #[doc = concat!("Code ", stringify!($code), ", `", stringify!($name), "`.")]
                $(#[$doc])*
                pub const $name: Self = Self($code);
            )+

            /// Kafka's name of the code, `None` when it is not known to this version of Ottla.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)+
                    _ => None,
                }
            }

            /// What a client does about it.
            pub(crate) const fn recovery(self) -> Recovery {
                match self.0 {
                    $($code => Recovery::$recovery,)+
                    _ => Recovery::Fail,
                }
            }
        }

        #[cfg(test)]
        const ALL: &[ErrorCode] = &[$(ErrorCode($code),)+];
    };
}

error_codes! {
    -1 UNKNOWN_SERVER_ERROR Fail,
    0 NONE Fail,
    1 OFFSET_OUT_OF_RANGE Fail,
    2 CORRUPT_MESSAGE Retry,
    3 UNKNOWN_TOPIC_OR_PARTITION RefreshMetadata,
    4 INVALID_FETCH_SIZE Fail,
    5 LEADER_NOT_AVAILABLE RefreshMetadata,
    6 NOT_LEADER_OR_FOLLOWER RefreshMetadata,
    7 REQUEST_TIMED_OUT Retry,
    8 BROKER_NOT_AVAILABLE Fail,
    9 REPLICA_NOT_AVAILABLE RefreshMetadata,
    10 MESSAGE_TOO_LARGE Fail,
    11 STALE_CONTROLLER_EPOCH Fail,
    12 OFFSET_METADATA_TOO_LARGE Fail,
    13 NETWORK_EXCEPTION RefreshMetadata,
    14 COORDINATOR_LOAD_IN_PROGRESS Retry,
    15 COORDINATOR_NOT_AVAILABLE FindCoordinator,
    16 NOT_COORDINATOR FindCoordinator,
    17 INVALID_TOPIC_EXCEPTION Fail,
    18 RECORD_LIST_TOO_LARGE Fail,
    19 NOT_ENOUGH_REPLICAS Retry,
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND Retry,
    21 INVALID_REQUIRED_ACKS Fail,
    22 ILLEGAL_GENERATION Fail,
    23 INCONSISTENT_GROUP_PROTOCOL Fail,
    24 INVALID_GROUP_ID Fail,
    25 UNKNOWN_MEMBER_ID Fail,
    26 INVALID_SESSION_TIMEOUT Fail,
    27 REBALANCE_IN_PROGRESS Fail,
    28 INVALID_COMMIT_OFFSET_SIZE Fail,
    29 TOPIC_AUTHORIZATION_FAILED Fail,
    30 GROUP_AUTHORIZATION_FAILED Fail,
    31 CLUSTER_AUTHORIZATION_FAILED Fail,
    32 INVALID_TIMESTAMP Fail,
    33 UNSUPPORTED_SASL_MECHANISM Fail,
    34 ILLEGAL_SASL_STATE Fail,
    35 UNSUPPORTED_VERSION Fail,
    36 TOPIC_ALREADY_EXISTS Fail,
    37 INVALID_PARTITIONS Fail,
    38 INVALID_REPLICATION_FACTOR Fail,
    39 INVALID_REPLICA_ASSIGNMENT Fail,
    40 INVALID_CONFIG Fail,
    41 NOT_CONTROLLER Retry,
    42 INVALID_REQUEST Fail,
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT Fail,
    44 POLICY_VIOLATION Fail,
    45 OUT_OF_ORDER_SEQUENCE_NUMBER Fail,
    46 DUPLICATE_SEQUENCE_NUMBER Fail,
    47 INVALID_PRODUCER_EPOCH Fail,
    48 INVALID_TXN_STATE Fail,
    49 INVALID_PRODUCER_ID_MAPPING Fail,
    50 INVALID_TRANSACTION_TIMEOUT Fail,
    51 CONCURRENT_TRANSACTIONS Retry,
    52 TRANSACTION_COORDINATOR_FENCED Fail,
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED Fail,
    54 SECURITY_DISABLED Fail,
    55 OPERATION_NOT_ATTEMPTED Fail,
    56 KAFKA_STORAGE_ERROR RefreshMetadata,
    57 LOG_DIR_NOT_FOUND Fail,
    58 SASL_AUTHENTICATION_FAILED Fail,
    59 UNKNOWN_PRODUCER_ID Fail,
    60 REASSIGNMENT_IN_PROGRESS Fail,
    61 DELEGATION_TOKEN_AUTH_DISABLED Fail,
    62 DELEGATION_TOKEN_NOT_FOUND Fail,
    63 DELEGATION_TOKEN_OWNER_MISMATCH Fail,
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED Fail,
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED Fail,
    66 DELEGATION_TOKEN_EXPIRED Fail,
    67 INVALID_PRINCIPAL_TYPE Fail,
    68 NON_EMPTY_GROUP Fail,
    69 GROUP_ID_NOT_FOUND Fail,
    70 FETCH_SESSION_ID_NOT_FOUND Retry,
    71 INVALID_FETCH_SESSION_EPOCH Retry,
    72 LISTENER_NOT_FOUND RefreshMetadata,
    73 TOPIC_DELETION_DISABLED Fail,
    74 FENCED_LEADER_EPOCH RefreshMetadata,
    75 UNKNOWN_LEADER_EPOCH RefreshMetadata,
    76 UNSUPPORTED_COMPRESSION_TYPE Fail,
    77 STALE_BROKER_EPOCH Fail,
    78 OFFSET_NOT_AVAILABLE Retry,
    79 MEMBER_ID_REQUIRED Fail,
    80 PREFERRED_LEADER_NOT_AVAILABLE RefreshMetadata,
    81 GROUP_MAX_SIZE_REACHED Fail,
    82 FENCED_INSTANCE_ID Fail,
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE RefreshMetadata,
    84 ELECTION_NOT_NEEDED RefreshMetadata,
    85 NO_REASSIGNMENT_IN_PROGRESS Fail,
    86 GROUP_SUBSCRIBED_TO_TOPIC Fail,
    87 INVALID_RECORD Fail,
    88 UNSTABLE_OFFSET_COMMIT Retry,
    89 THROTTLING_QUOTA_EXCEEDED Retry,
    90 PRODUCER_FENCED Fail,
    91 RESOURCE_NOT_FOUND Fail,
    92 DUPLICATE_RESOURCE Fail,
    93 UNACCEPTABLE_CREDENTIAL Fail,
    94 INCONSISTENT_VOTER_SET Fail,
    95 INVALID_UPDATE_VERSION Fail,
    96 FEATURE_UPDATE_FAILED Fail,
    97 PRINCIPAL_DESERIALIZATION_FAILURE Fail,
    98 SNAPSHOT_NOT_FOUND Fail,
    99 POSITION_OUT_OF_RANGE Fail,
    100 UNKNOWN_TOPIC_ID RefreshMetadata,
    101 DUPLICATE_BROKER_REGISTRATION Fail,
    102 BROKER_ID_NOT_REGISTERED Fail,
    103 INCONSISTENT_TOPIC_ID RefreshMetadata,
    104 INCONSISTENT_CLUSTER_ID Fail,
    105 TRANSACTIONAL_ID_NOT_FOUND Fail,
    106 FETCH_SESSION_TOPIC_ID_ERROR Retry,
    107 INELIGIBLE_REPLICA Fail,
    108 NEW_LEADER_ELECTED Fail,
    109 OFFSET_MOVED_TO_TIERED_STORAGE Fail,
    110 FENCED_MEMBER_EPOCH Fail,
    111 UNRELEASED_INSTANCE_ID Fail,
    112 UNSUPPORTED_ASSIGNOR Fail,
    113 STALE_MEMBER_EPOCH Fail,
    114 MISMATCHED_ENDPOINT_TYPE Fail,
    115 UNSUPPORTED_ENDPOINT_TYPE Fail,
    116 UNKNOWN_CONTROLLER_ID Fail,
    117 UNKNOWN_SUBSCRIPTION_ID Fail,
    118 TELEMETRY_TOO_LARGE Fail,
    119 INVALID_REGISTRATION Fail,
    120 TRANSACTION_ABORTABLE Fail,
    121 INVALID_RECORD_STATE Fail,
    122 SHARE_SESSION_NOT_FOUND Retry,
    123 INVALID_SHARE_SESSION_EPOCH Retry,
    124 FENCED_STATE_EPOCH Fail,
    125 INVALID_VOTER_KEY Fail,
    126 DUPLICATE_VOTER Fail,
    127 VOTER_NOT_FOUND Fail,
    128 INVALID_REGULAR_EXPRESSION Fail,
    129 REBOOTSTRAP_REQUIRED Fail,
    130 STREAMS_INVALID_TOPOLOGY Fail,
    131 STREAMS_INVALID_TOPOLOGY_EPOCH Fail,
    132 STREAMS_TOPOLOGY_FENCED Fail,
    133 SHARE_SESSION_LIMIT_REACHED Retry,
    134 GROUP_DELETION_FAILED Fail,
    135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED Fail,
    136 CONTROLLER_ID_NOT_REGISTERED Fail,
}

impl ErrorCode {
    /// Whether the code is zero, success.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Whether the same request may succeed later, perhaps at another broker.
    pub const fn is_retriable(self) -> bool {
        !matches!(self.recovery(), Recovery::Fail)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "unknown error code {}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_run_without_a_gap_from_minus_one_to_the_newest() {
        let numbers: Vec<i16> = ALL.iter().map(|code| code.0).collect();
        assert_eq!(numbers, (-1..=136).collect::<Vec<i16>>());
    }

    #[test]
    fn success_is_no_retriable_error() {
        assert!(ErrorCode::NONE.is_ok());
        assert!(!ErrorCode::NONE.is_retriable());
    }
}
