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
//! The types themselves know the two forms of the wire (classic and flexible) through [`Wire`], see
//! `types`.

#[cfg(any(test, fuzzing))]
use super::generate::Values;
use super::wire::{DecodeErrorKind, Decoded, EncodeError, EncodeErrorKind, Reader, Writer};
use super::{ApiKey, Bytes, VersionRange};

/// A message that stands alone: the body of a request or of a response.
pub trait Message: Sized + Default {
    /// Kafka's name of the message.
    const NAME: &'static str;
    /// The API it belongs to.
    const API: ApiKey;
    /// The versions that can be encoded and decoded.
    const VERSIONS: VersionRange;

    /// Whether `version` is flexible (KIP-482).
    fn is_flexible(version: i16) -> bool;

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

/// The fields of a struct as declared, for the comparison with Kafka's own schemas.
#[cfg(all(test, feature = "real-servers"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct StructSchema {
    pub(crate) fields: &'static [FieldSchema],
}

/// One field as declared.
#[cfg(all(test, feature = "real-servers"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldSchema {
    pub(crate) name: &'static str,
    pub(crate) type_name: &'static str,
    pub(crate) nested: Option<&'static StructSchema>,
    pub(crate) versions: VersionRange,
    pub(crate) nullable: VersionRange,
    pub(crate) tag: Option<u32>,
    /// As written in the declaration; `None` stands for the type's own.
    pub(crate) default: Option<&'static str>,
    pub(crate) ignorable: bool,
}

/// A version of a message, and whether it is flexible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) number: i16,
    pub(crate) flexible: bool,
}

impl Version {
    /// A version of that message.
    pub(crate) fn of<M: Message>(number: i16) -> Self {
        Self { number, flexible: M::is_flexible(number) }
    }
}

/// A struct of the declarations. In a nullable field a byte before it says whether it is there: see
/// `types`.
pub(crate) trait Struct: Wire {}

/// A type of the wire in both of its forms.
pub(crate) trait Wire: Sized {
    /// The declaration of the struct inside, if there is one.
    #[cfg(all(test, feature = "real-servers"))]
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

    /// Null, for a type that has it.
    #[cfg(any(test, fuzzing))]
    fn null() -> Option<Self> {
        None
    }

    /// A random value, not null, that `version` can carry.
    #[cfg(any(test, fuzzing))]
    fn generate(values: &mut Values, version: Version) -> Self;
}

/// Tagged fields that the declaration does not know, as tag and content, kept so that a proxy loses
/// nothing (KIP-482). They are written ascending by tag; a tag that occurs twice is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedFields(pub Vec<(u32, Bytes)>);

/// Collects and writes the tagged-field section of a struct: known fields and unknown ones,
/// ascending by tag. `declared` are the tags that this version knows.
pub(crate) fn write_tagged(
    writer: &mut Writer,
    mut known: Vec<(u32, Writer)>,
    declared: &[Option<u32>],
    unknown: &TaggedFields,
) -> Result<(), EncodeError> {
    for (tag, content) in &unknown.0 {
        // Also a declared field that has its default and is not written: read again, the content
        // would be taken for that field.
        if declared.contains(&Some(*tag)) || known.iter().any(|(other, _)| other == tag) {
            return Err(EncodeErrorKind::RepeatedTag(*tag).error());
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
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! ignorable {
    () => {
        false
    };
    (ignorable) => {
        true
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
            #[cfg(all(test, feature = "real-servers"))]
            use $crate::protocol::declare::{FieldSchema, StructSchema};
            use $crate::protocol::declare::{Struct, Version, Wire, read_tagged, write_tagged};
            #[cfg(any(test, fuzzing))]
            use $crate::protocol::generate::{Values, check_minimum};
            use $crate::protocol::wire::{
                DecodeErrorKind, Decoded, EncodeError, EncodeErrorKind, Reader, Writer,
            };

            impl Struct for $name {}

            impl Wire for $name {
                #[cfg(all(test, feature = "real-servers"))]
                const NESTED: Option<&'static StructSchema> = Some(&StructSchema {
                    fields: &[$(FieldSchema {
                        name: stringify!($field),
                        type_name: stringify!($type),
                        nested: <$type as Wire>::NESTED,
                        versions: versions!($($versions)+),
                        nullable: versions!($($($null)+)?),
                        tag: optional!($($tag)?),
                        default: optional!($(stringify!($default))?),
                        ignorable: ignorable!($($ignorable)?),
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
                        let ignorable = ignorable!($($ignorable)?);
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
                        let declared: &[Option<u32>] = &[$(
                            optional!($($tag)?)
                                .filter(|_| versions!($($versions)+).contains(version.number)),
                        )*];
                        write_tagged(writer, tagged, declared, &self.tagged_fields)
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
                                    let value = <$type as Wire>::read(reader, version)
                                        .map_err(|e| e.in_field(FIELD))?;
                                    if value.is_null()
                                        && !versions!($($($null)+)?).contains(version.number)
                                    {
                                        let error = reader.error(DecodeErrorKind::IllegalNull);
                                        return Err(error.in_field(FIELD));
                                    }
                                    message.$field = value;
                                    return Ok(true);
                                }
                            )*
                            let _ = (tag, &reader);
                            Ok(false)
                        })?;
                    }
                    Ok(message)
                }

                #[cfg(any(test, fuzzing))]
                fn generate(values: &mut Values, version: Version) -> Self {
                    let mut message = Self::default();
                    $(
                        if versions!($($versions)+).contains(version.number) {
                            let nullable = versions!($($($null)+)?).contains(version.number);
                            message.$field = values.field(version, nullable, &message.$field);
                        }
                    )*
                    if version.flexible {
                        message.tagged_fields = values.unknown_tagged_fields();
                    }
                    check_minimum(&message, version);
                    message
                }
            }
        };
    )+};
}
