//! Test values for every message and version, made from the declarations.
//!
//! [`Values`] is the source: one seed gives the same values for ever. What it makes is legal in the
//! version asked for and likes the edges: null, empty, the first length that takes two or three
//! bytes, the longest string, letters of one to four bytes, the ends of each integer, tagged fields
//! that no declaration knows. Compiled into unit tests and, for the seeds of the corpus, into
//! fuzzers only.

use super::api::for_each_api;
use super::declare::{Message, TaggedFields, Version, Wire};
use super::types::Uuid;
use super::wire::{STRING_BYTES_MAX, Writer};
use super::{ApiKey, Bytes};

/// Array elements in one message, all levels together: keeps nested arrays from multiplying.
const ELEMENTS_MAX: usize = 200;
/// Array elements in one small message.
const SMALL_ELEMENTS_MAX: usize = 8;
/// An array of this length has a count of two bytes in the compact form.
const LONG_ARRAY: usize = 130;
/// Elements of more bytes than this do not come in long arrays.
const LONG_ARRAY_ELEMENT_BYTES_MAX: usize = 16;

/// A source of random values.
#[derive(Debug)]
pub struct Values {
    random: fastrand::Rng,
    small: bool,
    elements_left: usize,
}

macro_rules! integers {
    ($($type:ident)+) => {$(
        pub(crate) fn $type(&mut self) -> $type {
            match self.random.u8(..8) {
                0 => 0,
                1 => -1,
                2 => $type::MIN,
                3 => $type::MAX,
                4 => 1,
                _ => self.random.$type(..),
            }
        }
    )+};
}

impl Values {
    /// Values of every size.
    pub fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { random, small: false, elements_left: ELEMENTS_MAX }
    }

    /// Values that make messages of some hundred bytes.
    pub fn small(seed: u64) -> Self {
        Self { small: true, elements_left: SMALL_ELEMENTS_MAX, ..Self::new(seed) }
    }

    /// A message that `version` can carry.
    #[cfg(test)]
    pub(crate) fn message<M: Message + Wire>(&mut self, version: i16) -> M {
        self.elements_left = if self.small { SMALL_ELEMENTS_MAX } else { ELEMENTS_MAX };
        M::generate(self, Version::of::<M>(version))
    }

    integers!(i8 i16 i32 i64);

    pub(crate) fn coin(&mut self) -> bool {
        self.random.bool()
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        match self.random.u8(..4) {
            0 => Uuid::ZERO,
            1 => Uuid([0xff; 16]),
            _ => Uuid(self.random.u128(..).to_be_bytes()),
        }
    }

    pub(crate) fn string(&mut self) -> String {
        const LETTERS: [char; 8] = ['a', 'Z', '\0', '"', 'é', 'ÿ', '水', '🦦'];
        let length = match self.random.u8(..16) {
            0 | 1 => 0,
            // The compact length goes from one byte to two, and from two to three.
            2 if !self.small => self.random.usize(125..=129),
            3 if !self.small => self.random.usize(16_381..=16_385),
            4 if !self.small => STRING_BYTES_MAX,
            _ => self.random.usize(1..12),
        };
        let mut text = String::with_capacity(length);
        while text.len() < length {
            let letter = LETTERS[self.random.usize(..LETTERS.len())];
            text.push(if text.len() + letter.len_utf8() > length { 'x' } else { letter });
        }
        text
    }

    pub(crate) fn bytes(&mut self) -> Bytes {
        let length = match self.random.u8(..8) {
            0 => 0,
            1 if !self.small => self.random.usize(1000..1100),
            2 if !self.small => self.random.usize(16_381..=16_385),
            _ => self.random.usize(1..20),
        };
        let mut bytes = vec![0; length];
        self.random.fill(&mut bytes);
        Bytes::from(bytes)
    }

    pub(crate) fn element_count(&mut self, element_bytes_min: usize) -> usize {
        let count = match self.random.u8(..16) {
            0 | 1 => 0,
            2 if element_bytes_min <= LONG_ARRAY_ELEMENT_BYTES_MAX => LONG_ARRAY,
            _ => self.random.usize(1..4),
        };
        let count = count.min(self.elements_left);
        self.elements_left -= count;
        count
    }

    /// A field's value: often its default, null where that is legal, else anything.
    pub(crate) fn field<T: Wire + Clone>(
        &mut self,
        version: Version,
        nullable: bool,
        default: &T,
    ) -> T {
        match (self.random.u8(..8), T::null()) {
            (0, _) if nullable || !default.is_null() => default.clone(),
            (1, Some(null)) if nullable => null,
            _ => T::generate(self, version),
        }
    }

    /// Tagged fields that no declaration knows, ascending by tag.
    pub(crate) fn unknown_tagged_fields(&mut self) -> TaggedFields {
        if self.random.u8(..4) > 0 {
            return TaggedFields::default();
        }
        let mut fields = Vec::new();
        // No message has known tags from 90 on. Java keeps tags in an int.
        let mut tag = self.random.u32(90..200);
        for _ in 0..self.random.usize(1..4) {
            fields.push((tag, self.bytes()));
            tag += self.random.u32(1..i32::MAX as u32 / 4);
        }
        TaggedFields(fields)
    }
}

/// Asserts that a value takes at least the bytes that its type promises: decoding relies on it when
/// it bounds the memory of arrays.
pub(crate) fn check_minimum<T: Wire>(value: &T, version: Version) {
    let mut writer = Writer::new();
    value.write(&mut writer, version).expect("a generated value can be written");
    let (bytes, promised) = (writer.len(), T::wire_bytes_min(version));
    assert!(promised <= bytes, "{bytes} bytes, at least {promised} were promised");
}

/// One encoded message per version of every message: the seeds of the fuzzers' corpus. Calls `take`
/// with the API, whether it is the response, the version and the body.
pub fn seed_messages(seed: u64, mut take: impl FnMut(ApiKey, bool, i16, &[u8])) {
    let mut values = Values::small(seed);
    macro_rules! seed {
        ($type:ty) => {
            for version in <$type>::VERSIONS.min..=<$type>::VERSIONS.max {
                values.elements_left = SMALL_ELEMENTS_MAX;
                let wire_version = Version::of::<$type>(version);
                let message = <$type as Wire>::generate(&mut values, wire_version);
                let mut writer = Writer::new();
                message.encode(&mut writer, version).expect("a generated message can be encoded");
                let is_response = <$type>::NAME.ends_with("Response");
                take(<$type>::API, is_response, version, &writer.into_vec());
            }
        };
    }
    for_each_api!(seed);
}

#[cfg(test)]
thread_local! {
    static RESERVED_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts memory that decoding reserved for an array.
#[cfg(test)]
pub(crate) fn note_reserved(bytes: usize) {
    RESERVED_BYTES.set(RESERVED_BYTES.get() + bytes);
}

/// The memory counted on this thread since it asked last.
#[cfg(test)]
pub(crate) fn take_reserved() -> usize {
    RESERVED_BYTES.take()
}
