//! What consumers put into the opaque bytes of the classic group protocol: the subscription that a
//! member sends with `JoinGroup`, and the assignment that the leader sends with `SyncGroup`. The
//! coordinator passes them on unread; `DescribeGroups` shows them.
//!
//! Each stands behind its version: [`ConsumerProtocolSubscription::from_payload`] and
//! [`ConsumerProtocolAssignment::from_payload`] read both. A later version may only append fields,
//! so a newer payload is read as the newest version known here, and what follows is left alone
//! (KIP-429). Never flexible.

use super::super::wire::{DecodeErrorKind, Decoded, EncodeError, Reader, Writer};
use super::super::{Bytes, Message};

messages! {
    /// What a member subscribes to: `metadata` of a `JoinGroup`.
    struct ConsumerProtocolSubscription {
        /// The topics.
        topics: Vec<String> [0+];
        /// The assignor's own data.
        user_data: Option<Bytes> [0+] null[0+];
        /// The partitions that the member has and would like to keep (KIP-429).
        owned_partitions: Vec<ConsumerProtocolTopicPartition> [1+], ignorable;
        /// The generation that it has them from, -1 for none: an older one does not count
        /// (KIP-792).
        generation_id: i32 [2+] = -1, ignorable;
        /// The rack that the member is in (KIP-881).
        rack_id: Option<String> [3+] null[3+], ignorable;
    }

    /// What the leader assigns to a member: `assignment` of a `SyncGroup`.
    struct ConsumerProtocolAssignment {
        /// The partitions by topic.
        assigned_partitions: Vec<ConsumerProtocolTopicPartition> [0+];
        /// The assignor's own data.
        user_data: Option<Bytes> [0+] null[0+];
    }

    /// Partitions of a topic; `TopicPartition` in Kafka's schema.
    struct ConsumerProtocolTopicPartition {
        /// The topic.
        topic: String [0+];
        /// The partitions.
        partitions: Vec<i32> [0+];
    }
}

macro_rules! payload {
    ($($type:ident)+) => {$(
        impl $type {
            /// Reads a payload: its version, then the fields of that version. Empty bytes, which
            /// brokers give for a member without one, are none.
            ///
            /// # Errors
            /// When the bytes are not such a payload.
            pub fn from_payload(payload: &Bytes) -> Decoded<Self> {
                let mut reader = Reader::shared(payload);
                let version = reader.i16()?;
                if version < Self::VERSIONS.min {
                    let error = reader.error(DecodeErrorKind::UnknownVersion(version));
                    return Err(error.in_field(Self::NAME));
                }
                Self::decode(&mut reader, version.min(Self::VERSIONS.max))
            }

            /// Writes a payload of `version`, behind the version itself.
            ///
            /// # Errors
            /// When the version does not exist or cannot carry a value.
            pub fn to_payload(&self, version: i16) -> Result<Bytes, EncodeError> {
                let mut writer = Writer::new();
                writer.put_be(version.to_be_bytes());
                self.encode(&mut writer, version)?;
                Ok(Bytes::from(writer.into_vec()))
            }
        }
    )+};
}

payload! { ConsumerProtocolSubscription ConsumerProtocolAssignment }

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription() -> ConsumerProtocolSubscription {
        ConsumerProtocolSubscription {
            topics: vec!["t".to_owned()],
            owned_partitions: vec![ConsumerProtocolTopicPartition {
                topic: "t".to_owned(),
                partitions: vec![7],
                ..Default::default()
            }],
            generation_id: 2,
            ..Default::default()
        }
    }

    #[test]
    fn a_subscription_has_known_bytes() {
        let payload = subscription().to_payload(2).expect("legal");
        let known: &[u8] = b"\0\x02\0\0\0\x01\0\x01t\xff\xff\xff\xff\
            \0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x07\0\0\0\x02";
        assert_eq!(*payload, *known);
        assert_eq!(ConsumerProtocolSubscription::from_payload(&payload), Ok(subscription()));
    }

    #[test]
    fn a_newer_payload_is_read_as_far_as_it_is_known() {
        let mut newer = subscription().to_payload(3).expect("legal").to_vec();
        newer.splice(0..2, 9_i16.to_be_bytes());
        newer.extend_from_slice(b"of a later version");
        let read = ConsumerProtocolSubscription::from_payload(&newer.into());
        assert_eq!(read, Ok(subscription()));
    }

    #[test]
    fn what_is_no_payload_is_refused() {
        assert!(ConsumerProtocolAssignment::from_payload(&Bytes::new()).is_err());
        let negative = Bytes::from(b"\xff\xff\0\0\0\0\xff\xff\xff\xff".to_vec());
        let refused = ConsumerProtocolAssignment::from_payload(&negative).map_err(|e| e.kind);
        assert_eq!(refused, Err(DecodeErrorKind::UnknownVersion(-1)));
    }
}
