//! What holds for every message in every version: tests over generated values.

use std::fmt::Debug;

use super::api::for_each_message;
use super::declare::{Message, Wire};
use super::generate::{Values, take_reserved};
use super::wire::{DecodeErrorKind, EncodeErrorKind, Writer};
use super::{ApiKey, Bytes, RequestHeader, ResponseHeader, TaggedFields};

/// Small generated values per message and version.
const SMALL_VALUES: u64 = 40;
/// Values of every size per message and version.
const VALUES: u64 = 10;
/// Memory that decoding may reserve for arrays, per byte that it is given. The worst case is an
/// array of strings in the compact form: one byte each on the wire, 24 in memory.
const RESERVED_PER_BYTE_MAX: usize = 64;

trait Tested: Message + Wire + PartialEq + Clone + Debug {}
impl<M: Message + Wire + PartialEq + Clone + Debug> Tested for M {}

fn encoded<M: Message>(message: &M, version: i16) -> Bytes {
    let mut writer = Writer::new();
    if let Err(error) = message.encode(&mut writer, version) {
        panic!("{} v{version}: {error}", M::NAME);
    }
    Bytes::from(writer.into_vec())
}

/// Runs `law` for generated values of every version; `seed` tells the laws' values apart.
fn for_each_value<M: Tested>(small: bool, seed: u64, mut law: impl FnMut(M, i16, &Bytes)) {
    for version in M::VERSIONS.min..=M::VERSIONS.max {
        let seed = seed << 32 | u64::from(M::API.0 as u16) << 16 | version as u64;
        let (mut values, count) =
            if small { (Values::small(seed), SMALL_VALUES) } else { (Values::new(seed), VALUES) };
        for _ in 0..count {
            let message: M = values.message(version);
            let bytes = encoded(&message, version);
            law(message, version, &bytes);
        }
    }
}

/// Decodes bytes that may be anything: a value or an error, and bounded memory.
fn decodes_or_refuses<M: Tested>(bytes: &Bytes, version: i16) {
    take_reserved();
    let decoded = M::decode_all(bytes, version);
    let (reserved, limit) = (take_reserved(), bytes.len() * RESERVED_PER_BYTE_MAX);
    assert!(reserved <= limit, "{} v{version}: {reserved} bytes for {bytes:?}", M::NAME);
    if let Ok(message) = decoded {
        let again = M::decode_all(&encoded(&message, version), version);
        assert_eq!(again.as_ref(), Ok(&message), "{} v{version}", M::NAME);
    }
}

#[test]
fn every_message_survives_the_wire_in_every_version() {
    macro_rules! law {
        ($message:ty) => {
            for_each_value::<$message>(false, 1, |message, version, bytes| {
                let decoded = <$message>::decode_all(bytes, version);
                assert_eq!(decoded.as_ref(), Ok(&message), "{} v{version}", <$message>::NAME);
                let plain = <$message>::decode(&mut super::Reader::new(bytes), version);
                assert_eq!(plain, decoded, "from plain bytes");
                assert_eq!(&encoded(&message, version), bytes);
            });
        };
    }
    for_each_message!(law);
}

#[test]
fn a_message_cut_short_at_any_byte_is_refused() {
    macro_rules! law {
        ($message:ty) => {
            for_each_value::<$message>(true, 2, |_, version, bytes| {
                for end in 0..bytes.len() {
                    let cut = bytes.slice(0..end).expect("inside");
                    take_reserved();
                    let decoded = <$message>::decode_all(&cut, version);
                    assert!(decoded.is_err(), "{} v{version}, {end} bytes", <$message>::NAME);
                    assert!(take_reserved() <= end * RESERVED_PER_BYTE_MAX);
                }
            });
        };
    }
    for_each_message!(law);
}

#[test]
fn bytes_after_a_message_are_refused() {
    macro_rules! law {
        ($message:ty) => {
            for_each_value::<$message>(true, 3, |_, version, bytes| {
                let mut longer = bytes.to_vec();
                longer.push(0);
                let kind = <$message>::decode_all(&longer.into(), version).map_err(|e| e.kind);
                assert_eq!(kind, Err(DecodeErrorKind::TrailingBytes(1)));
            });
        };
    }
    for_each_message!(law);
}

#[test]
fn damaged_messages_give_a_value_or_an_error_in_bounded_memory() {
    let mut random = fastrand::Rng::with_seed(4);
    macro_rules! law {
        ($message:ty) => {
            for_each_value::<$message>(true, 4, |_, version, bytes| {
                for _ in 0..20 {
                    let mut damaged = bytes.to_vec();
                    for _ in 0..random.usize(1..4) {
                        let at = random.usize(..damaged.len().max(1));
                        match (random.u8(..4), damaged.get_mut(at)) {
                            (0, _) => damaged.insert(at, random.u8(..)),
                            (1, Some(_)) => drop(damaged.remove(at)),
                            (2, Some(byte)) => *byte = [0x00, 0x7f, 0x80, 0xff][at % 4],
                            (_, Some(byte)) => *byte ^= 1 << random.u8(..8),
                            (_, None) => {}
                        }
                    }
                    decodes_or_refuses::<$message>(&damaged.into(), version);
                }
            });
        };
    }
    for_each_message!(law);
}

#[test]
fn random_bytes_give_a_value_or_an_error_in_bounded_memory() {
    let mut random = fastrand::Rng::with_seed(5);
    macro_rules! law {
        ($message:ty) => {
            for version in <$message>::VERSIONS.min..=<$message>::VERSIONS.max {
                for _ in 0..200 {
                    // Random bytes soon say an absurd length; small ones get further.
                    let ceiling = [255, 127, 3, 1][random.usize(..4)];
                    let length = random.usize(..200);
                    let bytes: Vec<u8> = (0..length).map(|_| random.u8(..=ceiling)).collect();
                    decodes_or_refuses::<$message>(&bytes.into(), version);
                }
            }
        };
    }
    for_each_message!(law);
}

/// A value of the newest version goes into an older one or is refused; it never loses what is not
/// marked as ignorable, and never gives bytes that the older version cannot read.
#[test]
fn an_older_version_refuses_what_it_cannot_carry() {
    let mut refused = 0;
    macro_rules! law {
        ($message:ty) => {
            for_each_value::<$message>(true, 6, |message, from, _| {
                for version in <$message>::VERSIONS.min..=<$message>::VERSIONS.max {
                    let mut writer = Writer::new();
                    match message.encode(&mut writer, version) {
                        Ok(()) => {
                            let bytes = Bytes::from(writer.into_vec());
                            let read = <$message>::decode_all(&bytes, version).expect("ours");
                            assert_eq!(encoded(&read, version), bytes);
                        }
                        Err(error) => {
                            assert_ne!(version, from);
                            assert!(error.field.is_some());
                            assert!(
                                matches!(
                                    error.kind,
                                    EncodeErrorKind::NotInVersion(_)
                                        | EncodeErrorKind::IllegalNull(_)
                                ),
                                "{error}"
                            );
                            refused += 1;
                        }
                    }
                }
            });
        };
    }
    for_each_message!(law);
    assert!(refused > 0);
}

#[test]
fn versions_outside_of_the_declaration_are_refused() {
    macro_rules! law {
        ($message:ty) => {
            for version in
                [<$message>::VERSIONS.min - 1, <$message>::VERSIONS.max + 1, i16::MIN, i16::MAX]
            {
                let message = <$message>::default();
                let refused = message.encode(&mut Writer::new(), version).map_err(|e| e.kind);
                assert_eq!(refused, Err(EncodeErrorKind::UnknownVersion(version)));
                let refused = <$message>::decode_all(&Bytes::new(), version).map_err(|e| e.kind);
                assert_eq!(refused, Err(DecodeErrorKind::UnknownVersion(version)));
            }
        };
    }
    for_each_message!(law);
}

#[test]
fn headers_survive_the_wire_and_refuse_cuts() {
    let mut values = Values::small(7);
    for api in ApiKey::ALL.iter().copied().chain([ApiKey(-1), ApiKey(4711)]) {
        for version in 0..20 {
            let tagged_fields = if api.is_flexible(version) {
                values.unknown_tagged_fields()
            } else {
                TaggedFields::default()
            };
            let client_id = values.coin().then(|| values.string());
            let correlation_id = values.i32();
            let header = RequestHeader { api, version, correlation_id, client_id, tagged_fields };
            let mut writer = Writer::new();
            header.encode(&mut writer).expect("legal");
            let bytes = writer.into_vec();
            let decoded = RequestHeader::decode(&mut super::Reader::new(&bytes));
            assert_eq!(decoded, Ok(header));
            for end in 0..bytes.len() {
                assert!(RequestHeader::decode(&mut super::Reader::new(&bytes[..end])).is_err());
            }
        }
    }
}

fn hex(text: &str) -> Bytes {
    let digits = text.as_bytes().chunks_exact(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    Bytes::from(digits.map(|pair| byte(pair).expect("hexadecimal")).collect::<Vec<u8>>())
}

/// The header's version follows from the API and the version alone (KIP-482); the response to
/// `ApiVersions` keeps the oldest header for ever (KIP-511).
#[test]
fn header_versions_are_those_of_kafka() {
    const CLASSIC: (usize, usize) = (14, 4);
    const FLEXIBLE: (usize, usize) = (15, 5);
    let lengths = |api, version| {
        let request = RequestHeader {
            api,
            version,
            correlation_id: 7,
            client_id: Some("test".to_owned()),
            tagged_fields: TaggedFields::default(),
        };
        let response = ResponseHeader { correlation_id: 7, tagged_fields: TaggedFields::default() };
        let (mut writer, mut answer) = (Writer::new(), Writer::new());
        request.encode(&mut writer).expect("legal");
        response.encode(&mut answer, api, version).expect("legal");
        (writer.len(), answer.len())
    };
    assert_eq!(lengths(ApiKey::METADATA, 8), CLASSIC);
    assert_eq!(lengths(ApiKey::METADATA, 9), FLEXIBLE);
    assert_eq!(lengths(ApiKey::PRODUCE, 8), CLASSIC);
    assert_eq!(lengths(ApiKey::PRODUCE, 9), FLEXIBLE);
    assert_eq!(lengths(ApiKey::API_VERSIONS, 2), CLASSIC);
    assert_eq!(lengths(ApiKey::API_VERSIONS, 3), (15, 4));
    assert_eq!(lengths(ApiKey::API_VERSIONS, 4), (15, 4));
    assert_eq!(lengths(ApiKey::SASL_HANDSHAKE, 1), CLASSIC);
    // Not one of ours: the classic form.
    assert_eq!(lengths(ApiKey(4711), 1), CLASSIC);
}

#[test]
fn an_api_versions_request_has_known_bytes() {
    let frame = hex("000000190012000300000001000474657374000564656d6f04312e3000");
    let header = RequestHeader {
        api: ApiKey::API_VERSIONS,
        version: 3,
        correlation_id: 1,
        client_id: Some("test".to_owned()),
        tagged_fields: TaggedFields::default(),
    };
    let body = super::messages::ApiVersionsRequest {
        client_software_name: "demo".to_owned(),
        client_software_version: "1.0".to_owned(),
        ..Default::default()
    };
    let mut writer = Writer::new();
    writer.put_be([0; 4]);
    header.encode(&mut writer).expect("legal");
    body.encode(&mut writer, 3).expect("legal");
    writer.set_i32(0, writer.len() as i32 - 4);
    assert_eq!(writer.into_vec(), *frame);
}

#[test]
fn metadata_responses_have_known_bytes() {
    use super::messages::{
        MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    let partition = MetadataResponsePartition {
        leader_id: 1,
        leader_epoch: 0,
        replica_nodes: vec![1],
        isr_nodes: vec![1],
        ..Default::default()
    };
    let topic = MetadataResponseTopic {
        name: Some("t".to_owned()),
        partitions: vec![partition],
        ..Default::default()
    };
    let broker = MetadataResponseBroker {
        node_id: 1,
        host: "h".to_owned(),
        port: 9092,
        ..Default::default()
    };
    let response = MetadataResponse {
        brokers: vec![broker],
        cluster_id: Some("c1".to_owned()),
        controller_id: 1,
        topics: vec![topic],
        ..Default::default()
    };
    let with_header = hex(
        "000000070000000000020000000102680000238400000363310000000102000002740000000000000000000000\
         000000000000020000000000000000000100000000020000000102000000010100800000000000",
    );
    let mut writer = Writer::new();
    let header = ResponseHeader { correlation_id: 7, tagged_fields: TaggedFields::default() };
    header.encode(&mut writer, ApiKey::METADATA, 12).expect("legal");
    response.encode(&mut writer, 12).expect("legal");
    assert_eq!(writer.into_vec(), *with_header);

    let version_1 = hex(
        "000000010000000100016800002384ffff00000001000000010000000174000000000100000000000000000001\
         00000001000000010000000100000001",
    );
    assert_eq!(encoded(&response, 1), version_1);
    let mut read = MetadataResponse::decode_all(&version_1, 1).expect("known bytes");
    read.cluster_id = Some("c1".to_owned());
    read.topics[0].partitions[0].leader_epoch = 0;
    assert_eq!(read, response);
}

/// kafka-protocol-rs#152 and #161: a count from the wire must not become memory.
#[test]
fn absurd_counts_cost_no_memory() {
    use super::messages::MetadataResponse;
    for (version, body) in [
        (1, "033c0c00b6"),
        (1, "7fffffff00"),
        (9, "00000000ffffffff0f00"),
        (12, "00000000ffffffff0f00"),
    ] {
        take_reserved();
        let error = MetadataResponse::decode_all(&hex(body), version).expect_err("absurd");
        assert!(matches!(error.kind, DecodeErrorKind::ImpossibleCount { .. }), "{error}");
        assert_eq!(error.field, Some("MetadataResponse.brokers"));
        assert_eq!(take_reserved(), 0);
    }
}

#[test]
fn a_tag_that_occurs_twice_is_refused() {
    use super::messages::{FetchRequest, ReplicaState};
    let content = Bytes::from(b"x".to_vec());
    let mut request = FetchRequest {
        tagged_fields: TaggedFields(vec![(7, content.clone()), (7, content.clone())]),
        ..Default::default()
    };
    let refused = |request: &FetchRequest, version| {
        request.encode(&mut Writer::new(), version).map_err(|error| error.kind)
    };
    assert_eq!(refused(&request, 15), Err(EncodeErrorKind::RepeatedTag(7)));
    // Tag 1 is `replica_state`, from version 15 on.
    request.tagged_fields = TaggedFields(vec![(1, content)]);
    assert_eq!(refused(&request, 14), Ok(()));
    assert_eq!(refused(&request, 15), Err(EncodeErrorKind::RepeatedTag(1)));
    request.replica_state = ReplicaState { replica_id: 3, ..Default::default() };
    assert_eq!(refused(&request, 15), Err(EncodeErrorKind::RepeatedTag(1)));
}
