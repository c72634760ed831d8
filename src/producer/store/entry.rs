//! One batch on disk, as bytes. Pure.
//!
//! ```text
//! segment   magic "OTTLAST" | version 1 | entry ...
//! entry     length u32 | CRC-32C u32 | body            the checksum covers length and body
//! body      topic id 16 | partition i32 | records u32 | topic length u16 | topic | record batch
//! ```
//!
//! All numbers big-endian. The record batch is Kafka's format 2, as it would have gone to the broker. [`read`] takes
//! bytes that nobody vouches for: it never panics, and gives what is whole from the beginning on.

use crate::protocol::{Bytes, Uuid};

/// How each segment begins; the last byte is the version.
pub(super) const HEAD: [u8; 8] = *b"OTTLAST\x01";
/// What stands before a body.
const FRAME: usize = 8;
/// What a body has besides topic and batch.
const FIXED: usize = 26;

/// A batch that could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) topic: String,
    /// [`Uuid::ZERO`] where the broker has none.
    pub(super) topic_id: Uuid,
    pub(super) partition: i32,
    pub(super) records: u32,
    pub(super) batch: Bytes,
}

/// Where the whole entries of a segment end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At the end of the bytes.
    Clean,
    /// Here: what follows is torn or damaged.
    TornAt(usize),
    /// It does not begin like a segment of this version.
    Foreign,
}

/// Appends an entry to `buffer`.
pub(super) fn write(entry: &Entry, buffer: &mut Vec<u8>) {
    let length = FIXED + entry.topic.len() + entry.batch.len();
    let length = u32::try_from(length).expect("a batch is bounded by max.request.size");
    let topic_length = u16::try_from(entry.topic.len()).expect("a topic's name has 249 bytes");
    let start = buffer.len();
    buffer.extend(length.to_be_bytes());
    buffer.extend([0; 4]);
    buffer.extend(entry.topic_id.0);
    buffer.extend(entry.partition.to_be_bytes());
    buffer.extend(entry.records.to_be_bytes());
    buffer.extend(topic_length.to_be_bytes());
    buffer.extend(entry.topic.as_bytes());
    buffer.extend_from_slice(&entry.batch);
    if let Some((frame, body)) =
        buffer.get_mut(start..).and_then(|entry| entry.split_at_mut_checked(FRAME))
        && let Some((length, crc)) = frame.split_at_mut_checked(4)
    {
        crc.copy_from_slice(&checksum(length, body).to_be_bytes());
    }
}

fn checksum(length: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(length), body)
}

/// The whole entries at the beginning of a segment, and where they end.
pub(super) fn read(segment: &Bytes) -> (Vec<Entry>, End) {
    let mut entries = Vec::new();
    let Some(mut rest) = segment.strip_prefix(&HEAD) else {
        // A head that was cut is a torn write; another one is none of ours.
        let torn = HEAD.starts_with(segment);
        return (entries, if torn { End::TornAt(0) } else { End::Foreign });
    };
    while !rest.is_empty() {
        let at = segment.len() - rest.len();
        let Some((entry, after)) = read_one(segment, rest) else {
            return (entries, End::TornAt(at));
        };
        entries.push(entry);
        rest = after;
    }
    (entries, End::Clean)
}

fn read_one<'a>(segment: &Bytes, bytes: &'a [u8]) -> Option<(Entry, &'a [u8])> {
    let (length, rest) = bytes.split_at_checked(4)?;
    let (crc, rest) = rest.split_at_checked(4)?;
    let (body, after) = rest.split_at_checked(u32_of(length)? as usize)?;
    if u32_of(crc)? != checksum(length, body) {
        return None;
    }
    let (topic_id, body) = body.split_first_chunk::<16>()?;
    let (partition, body) = body.split_first_chunk::<4>()?;
    let (records, body) = body.split_first_chunk::<4>()?;
    let (topic_length, body) = body.split_first_chunk::<2>()?;
    let (topic, batch) = body.split_at_checked(u16::from_be_bytes(*topic_length).into())?;
    let end = segment.len() - after.len();
    let entry = Entry {
        topic: std::str::from_utf8(topic).ok()?.to_owned(),
        topic_id: Uuid(*topic_id),
        partition: i32::from_be_bytes(*partition),
        records: u32::from_be_bytes(*records),
        batch: segment.slice(end - batch.len()..end)?,
    };
    Some((entry, after))
}

fn u32_of(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let entry =
            ("[a-z]{1,20}", any::<[u8; 16]>(), any::<i32>(), any::<u32>(), any::<Vec<u8>>());
        let entry = entry.prop_map(|(topic, id, partition, records, batch)| Entry {
            topic,
            topic_id: Uuid(id),
            partition,
            records,
            batch: Bytes::from(batch),
        });
        proptest::collection::vec(entry, 0..8)
    }

    /// The bytes of a segment, and where each entry ends.
    fn segment(entries: &[Entry]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = HEAD.to_vec();
        let mut ends = vec![bytes.len()];
        for entry in entries {
            write(entry, &mut bytes);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    proptest! {
        #[test]
        fn a_cut_at_any_byte_leaves_what_was_whole_before_it(entries in entries(), cut in any::<prop::sample::Index>()) {
            let (bytes, ends) = segment(&entries);
            let cut = cut.index(bytes.len() + 1);
            let (read, end) = read(&Bytes::from(bytes[..cut].to_vec()));
            let whole = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
            prop_assert_eq!(&read[..], &entries[..whole]);
            let clean = ends.contains(&cut);
            let torn_at = if cut < HEAD.len() { 0 } else { ends[whole] };
            prop_assert_eq!(end, if clean { End::Clean } else { End::TornAt(torn_at) });
        }

        #[test]
        fn a_changed_byte_ends_the_segment_before_its_entry(
            entries in entries(), place in any::<prop::sample::Index>(), change in 1_u8..,
        ) {
            let (mut bytes, ends) = segment(&entries);
            prop_assume!(!entries.is_empty());
            let place = HEAD.len() + place.index(bytes.len() - HEAD.len());
            bytes[place] ^= change;
            let (read, end) = read(&Bytes::from(bytes));
            let whole = ends.iter().filter(|end| **end <= place).count() - 1;
            prop_assert_eq!(&read[..], &entries[..whole]);
            prop_assert_eq!(end, End::TornAt(ends[whole]));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in any::<Vec<u8>>(), headed in any::<bool>()) {
            let mut segment = if headed { HEAD.to_vec() } else { Vec::new() };
            segment.extend(bytes);
            read(&Bytes::from(segment));
        }
    }

    #[test]
    fn zeros_that_a_file_system_left_are_no_entries() {
        let mut bytes = HEAD.to_vec();
        bytes.extend([0; 4096]);
        assert_eq!(read(&Bytes::from(bytes)), (Vec::new(), End::TornAt(HEAD.len())));
    }

    #[test]
    fn a_segment_of_another_version_is_foreign() {
        assert_eq!(read(&Bytes::from(b"OTTLAST\x02".to_vec())).1, End::Foreign);
    }
}
