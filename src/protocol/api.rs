//! The APIs this crate speaks: keys, versions, headers.
//!
//! `apis!` is the registry: one row per API with its messages and its version facts. Those of
//! `flexible` are flexible (KIP-482), no version at all where that is empty, and the two header
//! versions follow from that alone, with the one exception of the response to `ApiVersions`, whose
//! header is never flexible so that a client can read it before it knows the broker (KIP-511).
//! In those of `client throttles` the client itself waits out the throttle time (KIP-219); that is
//! empty where there is none.

use std::fmt;

use super::declare::{Message, Request, TaggedFields, Version, Wire, read_tagged, write_tagged};
use super::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, ApiVersionsRequest, ApiVersionsResponse,
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, ConsumerProtocolAssignment, ConsumerProtocolSubscription,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteGroupsRequest, DeleteGroupsResponse, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeClusterRequest, DescribeClusterResponse,
    DescribeConfigsRequest, DescribeConfigsResponse, DescribeGroupsRequest, DescribeGroupsResponse,
    DescribeProducersRequest, DescribeProducersResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse, FetchRequest, FetchResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, InitProducerIdRequest,
    InitProducerIdResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse, ListOffsetsRequest,
    ListOffsetsResponse, ListTransactionsRequest, ListTransactionsResponse, MetadataRequest,
    MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest,
    OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, ProduceRequest, ProduceResponse, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse, SyncGroupRequest,
    SyncGroupResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use super::wire::{DecodeErrorKind, Decoded, EncodeError, EncodeErrorKind, Reader, Writer};

/// The number of an API. Numbers that are not known keep their value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKey(pub i16);

/// Versions from `min` to `max`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest.
    pub min: i16,
    /// The highest.
    pub max: i16,
}

impl VersionRange {
    /// No version at all.
    pub const EMPTY: Self = Self { min: 0, max: -1 };

    /// Whether `version` is one of them.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The versions that both have, if any.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let both = Self { min: self.min.max(other.min), max: self.max.min(other.max) };
        (both.min <= both.max).then_some(both)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}

/// The facts of one API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApiFacts {
    /// Versions that released brokers treat as stable: what a client may choose from.
    pub(crate) stable: VersionRange,
    /// The flexible versions.
    pub(crate) flexible: VersionRange,
    /// The versions whose throttle time the client itself waits out (KIP-219).
    pub(crate) client_throttles: VersionRange,
}

macro_rules! apis {
    ($($key:literal $constant:ident $name:ident: $request:ident => $response:ident,
        versions $min:literal - $max:literal, stable to $stable:literal,
        flexible $flexible:tt, client throttles $throttle:tt;)+) => {
        impl ApiKey {
            $(
                #[doc = concat!("API ", stringify!($key), ", ", stringify!($name), ".")]
                pub const $constant: Self = Self($key);
            )+

            /// The APIs that this crate speaks.
            pub const ALL: &[Self] = &[$(Self::$constant),+];

            /// Kafka's name of the API, `None` when this crate does not speak it.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($key => Some(stringify!($name)),)+
                    _ => None,
                }
            }

            pub(crate) const fn facts(self) -> Option<ApiFacts> {
                match self.0 {
                    $($key => Some(ApiFacts {
                        stable: VersionRange { min: $min, max: $stable },
                        flexible: bracketed_versions!($flexible),
                        client_throttles: bracketed_versions!($throttle),
                    }),)+
                    _ => None,
                }
            }
        }

        $(
            message_impl!($request, ApiKey($key), $min - $max, $flexible);
            message_impl!($response, ApiKey($key), $min - $max, $flexible);

            impl Request for $request {
                type Response = $response;
            }
        )+

        /// Expands `$visit!(Type)` for the request and the response of each API.
        #[cfg(any(test, fuzzing))]
        macro_rules! for_each_api {
            ($visit:ident) => {$(
                $visit!($crate::protocol::messages::$request);
                $visit!($crate::protocol::messages::$response);
            )+};
        }
        #[cfg(any(test, fuzzing))]
        pub(crate) use for_each_api;
    };
}

/// `[9+]` as a [`VersionRange`], `[]` as an empty one.
macro_rules! bracketed_versions {
    ([$($versions:tt)*]) => {
        versions!($($versions)*)
    };
}

macro_rules! message_impl {
    ($type:ident, $api:expr, $min:literal - $max:literal, $flexible:tt) => {
        impl Message for $type {
            const NAME: &'static str = stringify!($type);
            const API: ApiKey = $api;
            const VERSIONS: VersionRange = VersionRange { min: $min, max: $max };

            fn is_flexible(version: i16) -> bool {
                bracketed_versions!($flexible).contains(version)
            }

            fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
                if !Self::VERSIONS.contains(version) {
                    let kind = EncodeErrorKind::UnknownVersion(version);
                    return Err(kind.error().in_field(Self::NAME));
                }
                self.write(writer, Version::of::<Self>(version))
            }

            fn decode(reader: &mut Reader<'_>, version: i16) -> Decoded<Self> {
                if !Self::VERSIONS.contains(version) {
                    let error = reader.error(DecodeErrorKind::UnknownVersion(version));
                    return Err(error.in_field(Self::NAME));
                }
                Self::read(reader, Version::of::<Self>(version))
            }
        }
    };
}

/// Expands `$visit!(Type)` for every message, those inside of others too: the loop behind everything
/// that must hold for all.
#[cfg(test)]
macro_rules! for_each_message {
    ($visit:ident) => {
        $crate::protocol::api::for_each_api!($visit);
        $visit!($crate::protocol::messages::ConsumerProtocolSubscription);
        $visit!($crate::protocol::messages::ConsumerProtocolAssignment);
    };
}
#[cfg(test)]
pub(crate) use for_each_message;

message_impl!(ConsumerProtocolSubscription, ApiKey::JOIN_GROUP, 0 - 3, []);
message_impl!(ConsumerProtocolAssignment, ApiKey::SYNC_GROUP, 0 - 3, []);

// InitProducerId v6 (KIP-939) is declared but unstable: brokers close the connection on it.
apis! {
    0 PRODUCE Produce: ProduceRequest => ProduceResponse,
        versions 0-13, stable to 13, flexible [9+], client throttles [6+];
    1 FETCH Fetch: FetchRequest => FetchResponse,
        versions 0-18, stable to 18, flexible [12+], client throttles [8+];
    2 LIST_OFFSETS ListOffsets: ListOffsetsRequest => ListOffsetsResponse,
        versions 0-11, stable to 11, flexible [6+], client throttles [3+];
    3 METADATA Metadata: MetadataRequest => MetadataResponse,
        versions 0-13, stable to 13, flexible [9+], client throttles [6+];
    8 OFFSET_COMMIT OffsetCommit: OffsetCommitRequest => OffsetCommitResponse,
        versions 0-10, stable to 10, flexible [8+], client throttles [4+];
    9 OFFSET_FETCH OffsetFetch: OffsetFetchRequest => OffsetFetchResponse,
        versions 0-10, stable to 10, flexible [6+], client throttles [4+];
    10 FIND_COORDINATOR FindCoordinator: FindCoordinatorRequest => FindCoordinatorResponse,
        versions 0-6, stable to 6, flexible [3+], client throttles [2+];
    11 JOIN_GROUP JoinGroup: JoinGroupRequest => JoinGroupResponse,
        versions 0-9, stable to 9, flexible [6+], client throttles [3+];
    12 HEARTBEAT Heartbeat: HeartbeatRequest => HeartbeatResponse,
        versions 0-4, stable to 4, flexible [4+], client throttles [2+];
    13 LEAVE_GROUP LeaveGroup: LeaveGroupRequest => LeaveGroupResponse,
        versions 0-5, stable to 5, flexible [4+], client throttles [2+];
    14 SYNC_GROUP SyncGroup: SyncGroupRequest => SyncGroupResponse,
        versions 0-5, stable to 5, flexible [4+], client throttles [2+];
    15 DESCRIBE_GROUPS DescribeGroups: DescribeGroupsRequest => DescribeGroupsResponse,
        versions 0-6, stable to 6, flexible [5+], client throttles [2+];
    16 LIST_GROUPS ListGroups: ListGroupsRequest => ListGroupsResponse,
        versions 0-5, stable to 5, flexible [3+], client throttles [2+];
    17 SASL_HANDSHAKE SaslHandshake: SaslHandshakeRequest => SaslHandshakeResponse,
        versions 0-1, stable to 1, flexible [], client throttles [];
    18 API_VERSIONS ApiVersions: ApiVersionsRequest => ApiVersionsResponse,
        versions 0-5, stable to 5, flexible [3+], client throttles [2+];
    19 CREATE_TOPICS CreateTopics: CreateTopicsRequest => CreateTopicsResponse,
        versions 0-7, stable to 7, flexible [5+], client throttles [3+];
    20 DELETE_TOPICS DeleteTopics: DeleteTopicsRequest => DeleteTopicsResponse,
        versions 0-6, stable to 6, flexible [4+], client throttles [2+];
    21 DELETE_RECORDS DeleteRecords: DeleteRecordsRequest => DeleteRecordsResponse,
        versions 0-2, stable to 2, flexible [2+], client throttles [1+];
    22 INIT_PRODUCER_ID InitProducerId: InitProducerIdRequest => InitProducerIdResponse,
        versions 0-6, stable to 5, flexible [2+], client throttles [1+];
    23 OFFSET_FOR_LEADER_EPOCH OffsetForLeaderEpoch:
        OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse,
        versions 0-4, stable to 4, flexible [4+], client throttles [2+];
    24 ADD_PARTITIONS_TO_TXN AddPartitionsToTxn:
        AddPartitionsToTxnRequest => AddPartitionsToTxnResponse,
        versions 0-5, stable to 5, flexible [3+], client throttles [1+];
    25 ADD_OFFSETS_TO_TXN AddOffsetsToTxn: AddOffsetsToTxnRequest => AddOffsetsToTxnResponse,
        versions 0-4, stable to 4, flexible [3+], client throttles [1+];
    26 END_TXN EndTxn: EndTxnRequest => EndTxnResponse,
        versions 0-5, stable to 5, flexible [3+], client throttles [1+];
    28 TXN_OFFSET_COMMIT TxnOffsetCommit: TxnOffsetCommitRequest => TxnOffsetCommitResponse,
        versions 0-6, stable to 6, flexible [3+], client throttles [1+];
    32 DESCRIBE_CONFIGS DescribeConfigs: DescribeConfigsRequest => DescribeConfigsResponse,
        versions 0-4, stable to 4, flexible [4+], client throttles [2+];
    36 SASL_AUTHENTICATE SaslAuthenticate: SaslAuthenticateRequest => SaslAuthenticateResponse,
        versions 0-2, stable to 2, flexible [2+], client throttles [];
    37 CREATE_PARTITIONS CreatePartitions: CreatePartitionsRequest => CreatePartitionsResponse,
        versions 0-3, stable to 3, flexible [2+], client throttles [1+];
    42 DELETE_GROUPS DeleteGroups: DeleteGroupsRequest => DeleteGroupsResponse,
        versions 0-3, stable to 3, flexible [2+], client throttles [1+];
    44 INCREMENTAL_ALTER_CONFIGS IncrementalAlterConfigs:
        IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse,
        versions 0-1, stable to 1, flexible [1+], client throttles [0+];
    47 OFFSET_DELETE OffsetDelete: OffsetDeleteRequest => OffsetDeleteResponse,
        versions 0-0, stable to 0, flexible [], client throttles [0+];
    60 DESCRIBE_CLUSTER DescribeCluster: DescribeClusterRequest => DescribeClusterResponse,
        versions 0-2, stable to 2, flexible [0+], client throttles [0+];
    61 DESCRIBE_PRODUCERS DescribeProducers: DescribeProducersRequest => DescribeProducersResponse,
        versions 0-0, stable to 0, flexible [0+], client throttles [0+];
    65 DESCRIBE_TRANSACTIONS DescribeTransactions:
        DescribeTransactionsRequest => DescribeTransactionsResponse,
        versions 0-0, stable to 0, flexible [0+], client throttles [0+];
    66 LIST_TRANSACTIONS ListTransactions: ListTransactionsRequest => ListTransactionsResponse,
        versions 0-2, stable to 2, flexible [0+], client throttles [0+];
    68 CONSUMER_GROUP_HEARTBEAT ConsumerGroupHeartbeat:
        ConsumerGroupHeartbeatRequest => ConsumerGroupHeartbeatResponse,
        versions 0-1, stable to 1, flexible [0+], client throttles [0+];
    69 CONSUMER_GROUP_DESCRIBE ConsumerGroupDescribe:
        ConsumerGroupDescribeRequest => ConsumerGroupDescribeResponse,
        versions 0-1, stable to 1, flexible [0+], client throttles [0+];
}

impl ApiKey {
    /// Whether `version` of the API is flexible. APIs that are not known count as not flexible.
    pub fn is_flexible(self, version: i16) -> bool {
        self.facts().is_some_and(|facts| facts.flexible.contains(version))
    }

    /// Whether the response to `version` has the header with tagged fields.
    fn response_header_is_flexible(self, version: i16) -> bool {
        self != Self::API_VERSIONS && self.is_flexible(version)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "API {}", self.0),
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What stands before the body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API.
    pub api: ApiKey,
    /// The version of the body.
    pub version: i16,
    /// Repeated in the response.
    pub correlation_id: i32,
    /// The client's name for logs and quotas.
    pub client_id: Option<String>,
    /// Tagged fields of a flexible version.
    pub tagged_fields: TaggedFields,
}

impl RequestHeader {
    /// Appends the header: version 2 for a flexible body, else version 1. The client id has the
    /// classic form in both.
    ///
    /// # Errors
    /// When the client id is too long.
    pub fn encode(&self, writer: &mut Writer) -> Result<(), EncodeError> {
        writer.put_be(self.api.0.to_be_bytes());
        writer.put_be(self.version.to_be_bytes());
        writer.put_be(self.correlation_id.to_be_bytes());
        let classic = Version { number: 1, flexible: false };
        self.client_id.write(writer, classic).map_err(|e| e.in_field("RequestHeader.client_id"))?;
        if self.api.is_flexible(self.version) {
            write_tagged(writer, Vec::new(), &[], &self.tagged_fields)?;
        }
        Ok(())
    }

    /// Reads a header of version 1 or 2, as the API and version in it say.
    ///
    /// # Errors
    /// When the bytes are no such header.
    pub fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let api = ApiKey(reader.i16()?);
        let version = reader.i16()?;
        let correlation_id = reader.i32()?;
        let classic = Version { number: 1, flexible: false };
        let client_id = <Option<String>>::read(reader, classic)
            .map_err(|e| e.in_field("RequestHeader.client_id"))?;
        let tagged_fields = if api.is_flexible(version) {
            read_tagged(reader, |_, _| Ok(false))?
        } else {
            TaggedFields::default()
        };
        Ok(Self { api, version, correlation_id, client_id, tagged_fields })
    }
}

/// What stands before the body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// That of the request.
    pub correlation_id: i32,
    /// Tagged fields of a flexible version.
    pub tagged_fields: TaggedFields,
}

impl ResponseHeader {
    /// Appends the header of a response to `version` of `api`.
    ///
    /// # Errors
    /// When a tagged field is too long.
    pub fn encode(
        &self,
        writer: &mut Writer,
        api: ApiKey,
        version: i16,
    ) -> Result<(), EncodeError> {
        writer.put_be(self.correlation_id.to_be_bytes());
        if api.response_header_is_flexible(version) {
            write_tagged(writer, Vec::new(), &[], &self.tagged_fields)?;
        }
        Ok(())
    }

    /// Reads the header of a response to `version` of `api`.
    ///
    /// # Errors
    /// When the bytes are no such header.
    pub fn decode(reader: &mut Reader<'_>, api: ApiKey, version: i16) -> Decoded<Self> {
        let correlation_id = reader.i32()?;
        let tagged_fields = if api.response_header_is_flexible(version) {
            read_tagged(reader, |_, _| Ok(false))?
        } else {
            TaggedFields::default()
        };
        Ok(Self { correlation_id, tagged_fields })
    }
}
