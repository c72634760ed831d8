//! The one declaration behind each message.
//!
//! `messages!` takes a message field by field, in wire order, in the notation of Kafka's own
//! schemas: `[3+]`, `[0-12]` or `[7]` are the versions that carry the field, `null[..]` those in
//! which null is legal, `tag n` makes it a tagged field (KIP-482), `= value` is the default where
//! it is not the type's own, `ignorable` lets encoding drop the value where the version lacks the
//! field. From that one declaration come the struct, its default, encoding, decoding, the schema
//! that a test compares with Kafka's own, and the generator of test values.
//!
//! ```text
//! messages! {
//!     struct FindCoordinatorRequest {
//!         key: String [0-3];
//!         key_type: i8 [1+];
//!         coordinator_keys: Vec<String> [4+];
//!     }
//! }
//! ```
//!
//! The types themselves know the two forms of the wire (classic and flexible) through [`Wire`].

use super::wire::{
    DecodeErrorKind, Decoded, EncodeError, EncodeErrorKind, Reader, STRING_BYTES_MAX, Writer,
};
use super::{ApiKey, Bytes, ErrorCode, VersionRange};

/// A message that stands alone: the body of a request or of a response.
pub trait Message: Sized + Default {
    /// Kafka's name of the message.
    const NAME: &'static str;
    /// The API it belongs to.
    const API: ApiKey;
    /// The versions that can be encoded and decoded.
    const VERSIONS: VersionRange;

    /// Appends the body in `version`.
    ///
    /// # Errors
    /// When the version does not exist or cannot carry a value.
    fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError>;

    /// Reads the body in `version`; the reader stands behind it afterwards.
    ///
    /// # Errors
    /// When the version does not exist or the bytes are not such a message.
    fn decode(reader: &mut Reader<'_>, version: i16) -> Decoded<Self>;

    /// Reads the body in `version` from the whole of `bytes`; payloads become pieces of it.
    ///
    /// # Errors
    /// As [`Message::decode`], and when bytes are left over.
    fn decode_all(bytes: &Bytes, version: i16) -> Decoded<Self> {
        let mut reader = Reader::shared(bytes);
        let message = Self::decode(&mut reader, version)?;
        reader.finish()?;
        Ok(message)
    }
}

/// A message that a client sends, with the one a broker answers.
pub trait Request: Message {
    /// What the broker answers.
    type Response: Message;
}

/// The fields of a struct as declared, for tests and tools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StructSchema {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "read by the comparison with Kafka's schemas")
    )]
    pub(crate) fields: &'static [FieldSchema],
}

/// One field as declared.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "read by the comparison with Kafka's schemas"))]
pub(crate) struct FieldSchema {
    pub(crate) name: &'static str,
    pub(crate) type_name: &'static str,
    pub(crate) nested: Option<&'static StructSchema>,
    pub(crate) versions: VersionRange,
    pub(crate) nullable: VersionRange,
    pub(crate) tag: Option<u32>,
    pub(crate) ignorable: bool,
}

/// A version of a message, and whether it is flexible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) number: i16,
    pub(crate) flexible: bool,
}

/// A type of the wire in both of its forms.
pub(crate) trait Wire: Sized {
    /// The declaration of the struct inside, if there is one.
    const NESTED: Option<&'static StructSchema> = None;

    /// The fewest bytes that a value takes.
    fn wire_bytes_min(version: Version) -> usize;

    /// Whether the value is null.
    fn is_null(&self) -> bool {
        false
    }

    /// Appends the value.
    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError>;

    /// Reads a value.
    fn read(reader: &mut Reader<'_>, version: Version) -> Decoded<Self>;
}

macro_rules! wire_integer {
    ($($type:ident)+) => {$(
        impl Wire for $type {
            fn wire_bytes_min(_: Version) -> usize {
                size_of::<$type>()
            }

            fn write(&self, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
                writer.put_be(self.to_be_bytes());
                Ok(())
            }

            fn read(reader: &mut Reader<'_>, _: Version) -> Decoded<Self> {
                reader.$type()
            }
        }
    )+};
}

wire_integer!(i8 i16 i32 i64);

impl Wire for ErrorCode {
    fn wire_bytes_min(version: Version) -> usize {
        i16::wire_bytes_min(version)
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        self.0.write(writer, version)
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Decoded<Self> {
        i16::read(reader, version).map(Self)
    }
}

impl Wire for bool {
    fn wire_bytes_min(_: Version) -> usize {
        1
    }

    fn write(&self, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        writer.put(&[u8::from(*self)]);
        Ok(())
    }

    fn read(reader: &mut Reader<'_>, _: Version) -> Decoded<Self> {
        Ok(reader.u8()? != 0)
    }
}

/// A 128-bit identifier; all zero stands for none. Kafka's tools write it as URL-safe base64
/// without padding, and so does `Display`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All zero: no id.
    pub const ZERO: Self = Self([0; 16]);

    /// Whether it is all zero.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let bits = u128::from_be_bytes(self.0);
        for index in 0..22_u32 {
            // 22 digits of 6 bits are 132 bits: the last digit holds the low two, shifted up.
            let shift = 122_u32.checked_sub(index * 6);
            let digit = match shift {
                Some(shift) => (bits >> shift) & 63,
                None => (bits << 4) & 63,
            };
            let letter = ALPHABET.get(digit as usize).expect("six bits index 64 letters");
            std::fmt::Write::write_char(f, *letter as char)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Wire for Uuid {
    fn wire_bytes_min(_: Version) -> usize {
        16
    }

    fn write(&self, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        writer.put(&self.0);
        Ok(())
    }

    fn read(reader: &mut Reader<'_>, _: Version) -> Decoded<Self> {
        Ok(Self(reader.uuid_bytes()?))
    }
}

/// Writes the length of a string, with `None` for null.
fn write_string_length(writer: &mut Writer, length: Option<usize>, version: Version) {
    match (version.flexible, length) {
        (true, None) => writer.put_uvarint(0),
        (true, Some(length)) => writer.put_uvarint(length as u32 + 1),
        (false, None) => writer.put_be((-1_i16).to_be_bytes()),
        (false, Some(length)) => writer.put_be((length as i16).to_be_bytes()),
    }
}

/// Writes the length of bytes or an array, with `None` for null.
fn write_length(
    writer: &mut Writer,
    length: Option<usize>,
    version: Version,
) -> Result<(), EncodeError> {
    let Some(length) = length else {
        match version.flexible {
            true => writer.put_uvarint(0),
            false => writer.put_be((-1_i32).to_be_bytes()),
        }
        return Ok(());
    };
    let count = i32::try_from(length).map_err(|_| EncodeErrorKind::TooLong(length).error())?;
    match version.flexible {
        true => writer.put_uvarint(count as u32 + 1),
        false => writer.put_be(count.to_be_bytes()),
    }
    Ok(())
}

/// Reads a string's length; `None` is null.
fn read_string_length(reader: &mut Reader<'_>, version: Version) -> Decoded<Option<usize>> {
    let length =
        if version.flexible { i64::from(reader.uvarint()?) - 1 } else { i64::from(reader.i16()?) };
    match length {
        -1 => Ok(None),
        0.. if length <= STRING_BYTES_MAX as i64 => Ok(Some(length as usize)),
        _ => Err(reader.error(DecodeErrorKind::IllegalLength(length))),
    }
}

/// Reads the length of bytes or an array; `None` is null.
fn read_length(reader: &mut Reader<'_>, version: Version) -> Decoded<Option<u64>> {
    let length =
        if version.flexible { i64::from(reader.uvarint()?) - 1 } else { i64::from(reader.i32()?) };
    match length {
        -1 => Ok(None),
        0.. => Ok(Some(length as u64)),
        _ => Err(reader.error(DecodeErrorKind::IllegalLength(length))),
    }
}

/// Implements [`Wire`] for a type through its nullable form.
macro_rules! wire_through_option {
    ($type:ty $(, $generic:ident)?) => {
        impl $(<$generic: Wire>)? Wire for $type {
            const NESTED: Option<&'static StructSchema> = <Option<$type> as Wire>::NESTED;

            fn wire_bytes_min(version: Version) -> usize {
                <Option<$type> as Wire>::wire_bytes_min(version)
            }

            fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
                write_some(Some(self), writer, version)
            }

            fn read(reader: &mut Reader<'_>, version: Version) -> Decoded<Self> {
                <Option<$type> as Wire>::read(reader, version)?
                    .ok_or_else(|| reader.error(DecodeErrorKind::IllegalNull))
            }
        }

        impl $(<$generic: Wire>)? Wire for Option<$type> {
            const NESTED: Option<&'static StructSchema> = <$type as Nullable>::INNER;

            fn wire_bytes_min(version: Version) -> usize {
                <$type as Nullable>::length_bytes_min(version)
            }

            fn is_null(&self) -> bool {
                self.is_none()
            }

            fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
                write_some(self.as_ref(), writer, version)
            }

            fn read(reader: &mut Reader<'_>, version: Version) -> Decoded<Self> {
                <$type as Nullable>::read_nullable(reader, version)
            }
        }
    };
}

/// A type whose length can say null.
trait Nullable: Sized {
    const INNER: Option<&'static StructSchema> = None;
    fn length_bytes_min(version: Version) -> usize {
        if version.flexible { 1 } else { 4 }
    }
    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        version: Version,
    ) -> Result<(), EncodeError>;
    fn read_nullable(reader: &mut Reader<'_>, version: Version) -> Decoded<Option<Self>>;
}

fn write_some<T: Nullable>(
    value: Option<&T>,
    writer: &mut Writer,
    version: Version,
) -> Result<(), EncodeError> {
    T::write_nullable(value, writer, version)
}

impl Nullable for String {
    fn length_bytes_min(version: Version) -> usize {
        if version.flexible { 1 } else { 2 }
    }

    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        version: Version,
    ) -> Result<(), EncodeError> {
        let length = value.map(String::len);
        if let Some(length) = length
            && length > STRING_BYTES_MAX
        {
            return Err(EncodeErrorKind::StringTooLong(length).error());
        }
        write_string_length(writer, length, version);
        writer.put(value.map(String::as_bytes).unwrap_or_default());
        Ok(())
    }

    fn read_nullable(reader: &mut Reader<'_>, version: Version) -> Decoded<Option<Self>> {
        let Some(length) = read_string_length(reader, version)? else { return Ok(None) };
        let bytes = reader.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(reader.error(DecodeErrorKind::NotUtf8)),
        }
    }
}

impl Nullable for Bytes {
    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        version: Version,
    ) -> Result<(), EncodeError> {
        write_length(writer, value.map(|bytes| bytes.len()), version)?;
        if let Some(bytes) = value {
            writer.put_payload(bytes);
        }
        Ok(())
    }

    fn read_nullable(reader: &mut Reader<'_>, version: Version) -> Decoded<Option<Self>> {
        let Some(length) = read_length(reader, version)? else { return Ok(None) };
        reader.payload(usize::try_from(length).unwrap_or(usize::MAX)).map(Some)
    }
}

impl<T: Wire> Nullable for Vec<T> {
    const INNER: Option<&'static StructSchema> = T::NESTED;

    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        version: Version,
    ) -> Result<(), EncodeError> {
        write_length(writer, value.map(Vec::len), version)?;
        value.into_iter().flatten().try_for_each(|element| element.write(writer, version))
    }

    fn read_nullable(reader: &mut Reader<'_>, version: Version) -> Decoded<Option<Self>> {
        let Some(count) = read_length(reader, version)? else { return Ok(None) };
        let count = reader.check_count(count, T::wire_bytes_min(version))?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(T::read(reader, version)?);
        }
        Ok(Some(elements))
    }
}

wire_through_option!(String);
wire_through_option!(Bytes);
wire_through_option!(Vec<T>, T);

/// Tagged fields that the declaration does not know, kept so that a proxy loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedFields(pub Vec<(u32, Bytes)>);

/// Collects and writes the tagged-field section of a struct: known fields and unknown ones,
/// ascending by tag.
pub(crate) fn write_tagged(
    writer: &mut Writer,
    mut known: Vec<(u32, Writer)>,
    unknown: &TaggedFields,
) -> Result<(), EncodeError> {
    for (tag, content) in &unknown.0 {
        if known.iter().any(|(other, _)| other == tag) {
            return Err(EncodeErrorKind::KnownTag(*tag).error());
        }
        let mut field = Writer::new();
        field.put_payload(content);
        known.push((*tag, field));
    }
    known.sort_by_key(|(tag, _)| *tag);
    writer.put_uvarint(known.len() as u32);
    for (tag, content) in known {
        writer.put_uvarint(tag);
        let length = content.len();
        writer.put_uvarint(
            u32::try_from(length).map_err(|_| EncodeErrorKind::TooLong(length).error())?,
        );
        writer.put_writer(content);
    }
    Ok(())
}

/// Reads a tagged-field section; `known` reads a field and answers `true` if it knows the tag.
pub(crate) fn read_tagged(
    reader: &mut Reader<'_>,
    mut known: impl FnMut(u32, &mut Reader<'_>) -> Decoded<bool>,
) -> Decoded<TaggedFields> {
    /// A tag and a size of one byte each.
    const FIELD_BYTES_MIN: usize = 2;
    let count = u64::from(reader.uvarint()?);
    let count = reader.check_count(count, FIELD_BYTES_MIN)?;
    let mut unknown = TaggedFields::default();
    let mut last: Option<u32> = None;
    for _ in 0..count {
        let tag = reader.uvarint()?;
        if last.is_some_and(|last| last >= tag) {
            return Err(reader.error(DecodeErrorKind::TagOrder(tag)));
        }
        last = Some(tag);
        let size = reader.uvarint()? as usize;
        if size > reader.remaining() {
            let remaining = reader.remaining();
            return Err(reader.error(DecodeErrorKind::Truncated { needed: size, remaining }));
        }
        let end = reader.position() + size;
        if !known(tag, reader)? {
            unknown.0.push((tag, reader.payload(size)?));
        }
        if reader.position() != end {
            return Err(reader.error(DecodeErrorKind::TagSize(tag)));
        }
    }
    Ok(unknown)
}

/// `[3+]`, `[0-12]`, `[7]` as a [`VersionRange`]; nothing as an empty one.
macro_rules! versions {
    () => {
        $crate::protocol::VersionRange::EMPTY
    };
    ($min:literal +) => {
        $crate::protocol::VersionRange { min: $min, max: i16::MAX }
    };
    ($min:literal - $max:literal) => {
        $crate::protocol::VersionRange { min: $min, max: $max }
    };
    ($only:literal) => {
        $crate::protocol::VersionRange { min: $only, max: $only }
    };
}

macro_rules! default_of {
    ($type:ty) => {
        <$type>::default()
    };
    ($type:ty, $default:expr) => {
        $default
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:literal) => {
        Some($value)
    };
}

/// Declares messages and the structs inside them; see the module's text.
macro_rules! messages {
    ($(
        $(#[$meta:meta])*
        struct $name:ident {$(
            $(#[$field_meta:meta])*
            $field:ident: $type:ty [$($versions:tt)+] $(null[$($null:tt)+])? $(tag $tag:literal)?
                $(= $default:expr)? $(, $ignorable:ident)?;
        )*}
    )+) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// Tagged fields that this version of Ottla does not know.
            pub tagged_fields: $crate::protocol::TaggedFields,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: default_of!($type $(, $default)?),)*
                    tagged_fields: $crate::protocol::TaggedFields::default(),
                }
            }
        }

        const _: () = {
            use $crate::protocol::declare::{
                FieldSchema, StructSchema, Version, Wire, read_tagged, write_tagged,
            };
            use $crate::protocol::wire::{
                DecodeErrorKind, Decoded, EncodeError, EncodeErrorKind, Reader, Writer,
            };

            impl Wire for $name {
                const NESTED: Option<&'static StructSchema> = Some(&StructSchema {
                    fields: &[$(FieldSchema {
                        name: stringify!($field),
                        type_name: stringify!($type),
                        nested: <$type as Wire>::NESTED,
                        versions: versions!($($versions)+),
                        nullable: versions!($($($null)+)?),
                        tag: optional!($($tag)?),
                        ignorable: [$(stringify!($ignorable),)? ""].len() == 2,
                    },)*],
                });

                #[allow(unused_mut, reason = "a struct may have tagged fields only")]
                fn wire_bytes_min(version: Version) -> usize {
                    let mut bytes = usize::from(version.flexible);
                    $(
                        let tagged = optional!($($tag)?).is_some_and(|_: u32| true);
                        if !tagged && versions!($($versions)+).contains(version.number) {
                            bytes += <$type as Wire>::wire_bytes_min(version);
                        }
                    )*
                    bytes
                }

                fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
                    #[allow(unused_mut, reason = "not every struct has tagged fields")]
                    let mut tagged: Vec<(u32, Writer)> = Vec::new();
                    $({
                        const FIELD: &str = concat!(stringify!($name), ".", stringify!($field));
                        let tag: Option<u32> = optional!($($tag)?);
                        let ignorable = [$(stringify!($ignorable),)? ""].len() == 2;
                        let value = &self.$field;
                        if !versions!($($versions)+).contains(version.number) {
                            if !ignorable && *value != default_of!($type $(, $default)?) {
                                let kind = EncodeErrorKind::NotInVersion(version.number);
                                return Err(kind.error().in_field(FIELD));
                            }
                        } else if value.is_null()
                            && !versions!($($($null)+)?).contains(version.number)
                        {
                            let kind = EncodeErrorKind::IllegalNull(version.number);
                            return Err(kind.error().in_field(FIELD));
                        } else if let Some(tag) = tag {
                            if *value != default_of!($type $(, $default)?) {
                                let mut content = Writer::new();
                                value.write(&mut content, version).map_err(|e| e.in_field(FIELD))?;
                                tagged.push((tag, content));
                            }
                        } else {
                            value.write(writer, version).map_err(|e| e.in_field(FIELD))?;
                        }
                    })*
                    if version.flexible {
                        write_tagged(writer, tagged, &self.tagged_fields)
                            .map_err(|e| e.in_field(stringify!($name)))?;
                    } else if !self.tagged_fields.0.is_empty() {
                        let kind = EncodeErrorKind::NotInVersion(version.number);
                        return Err(kind.error().in_field(stringify!($name)));
                    }
                    Ok(())
                }

                fn read(reader: &mut Reader<'_>, version: Version) -> Decoded<Self> {
                    let mut message = Self::default();
                    $({
                        let tag: Option<u32> = optional!($($tag)?);
                        if tag.is_none() && versions!($($versions)+).contains(version.number) {
                            const FIELD: &str = concat!(stringify!($name), ".", stringify!($field));
                            let value = <$type as Wire>::read(reader, version)
                                .map_err(|e| e.in_field(FIELD))?;
                            if value.is_null() && !versions!($($($null)+)?).contains(version.number)
                            {
                                let error = reader.error(DecodeErrorKind::IllegalNull);
                                return Err(error.in_field(FIELD));
                            }
                            message.$field = value;
                        }
                    })*
                    if version.flexible {
                        message.tagged_fields = read_tagged(reader, |tag, reader| {
                            $(
                                let known: Option<u32> = optional!($($tag)?);
                                if known == Some(tag)
                                    && versions!($($versions)+).contains(version.number)
                                {
                                    const FIELD: &str =
                                        concat!(stringify!($name), ".", stringify!($field));
                                    message.$field = <$type as Wire>::read(reader, version)
                                        .map_err(|e| e.in_field(FIELD))?;
                                    return Ok(true);
                                }
                            )*
                            let _ = (tag, &reader);
                            Ok(false)
                        })?;
                    }
                    Ok(message)
                }
            }
        };
    )+};
}
