//! The field types of the messages, each in both forms of the wire: [`Wire`] for integers,
//! [`Uuid`], strings, bytes and arrays.
//!
//! The classic form counts a string with an `int16`, bytes and arrays with an `int32`, and writes
//! null as -1. The compact form of flexible versions (KIP-482) counts all of them with an unsigned
//! varint that is one higher, so that 0 is null. `T` is written like a present `Option<T>` and
//! refuses null; whether null is legal in a version is for the struct around it to say.
//!
//! A struct has no length: where it is nullable, one byte before it is 1, or -1 for null.
//!
//! An array reserves memory only for as many elements as the remaining bytes can hold, at the
//! fewest bytes that one takes ([`Wire::wire_bytes_min`]). Elements that were read have consumed
//! their bytes, and of those that were not there is one array per level of nesting: the memory of a
//! message stays within a small multiple of its bytes, whatever they are.

#[cfg(all(test, feature = "real-servers"))]
use super::declare::StructSchema;
use super::declare::{Struct, Version, Wire};
#[cfg(any(test, fuzzing))]
use super::generate::Values;
use super::wire::{
    DecodeErrorKind, Decoded, EncodeError, EncodeErrorKind, Reader, STRING_BYTES_MAX, Writer,
};
use super::{Bytes, ErrorCode};

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

            #[cfg(any(test, fuzzing))]
            fn generate(values: &mut Values, _: Version) -> Self {
                values.$type()
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

    #[cfg(any(test, fuzzing))]
    fn generate(values: &mut Values, _: Version) -> Self {
        Self(values.i16())
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

    #[cfg(any(test, fuzzing))]
    fn generate(values: &mut Values, _: Version) -> Self {
        values.coin()
    }
}

/// A 128-bit identifier (KIP-516 gives every topic one); all zero stands for none.
///
/// `Display` writes it as Kafka's tools do: URL-safe base64 without padding, 22 letters.
///
/// ```
/// use ottla::protocol::Uuid;
///
/// assert!(Uuid::ZERO.is_zero());
/// assert_eq!(Uuid([0xff; 16]).to_string(), "_____________________w");
/// ```
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

    #[cfg(any(test, fuzzing))]
    fn generate(values: &mut Values, _: Version) -> Self {
        values.uuid()
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
    // The classic form has -1 for null, the compact form 0, and everything else one higher.
    let count = match length {
        None => -1,
        Some(length) => {
            i32::try_from(length).map_err(|_| EncodeErrorKind::TooLong(length).error())?
        }
    };
    if version.flexible {
        writer.put_uvarint((i64::from(count) + 1) as u32);
    } else {
        writer.put_be(count.to_be_bytes());
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
            #[cfg(all(test, feature = "real-servers"))]
            const NESTED: Option<&'static StructSchema> = <Option<$type> as Wire>::NESTED;

            fn wire_bytes_min(version: Version) -> usize {
                <Option<$type> as Wire>::wire_bytes_min(version)
            }

            fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
                <$type as Nullable>::write_nullable(Some(self), writer, version)
            }

            fn read(reader: &mut Reader<'_>, version: Version) -> Decoded<Self> {
                <Option<$type> as Wire>::read(reader, version)?
                    .ok_or_else(|| reader.error(DecodeErrorKind::IllegalNull))
            }

            #[cfg(any(test, fuzzing))]
            fn generate(values: &mut Values, version: Version) -> Self {
                <$type as Nullable>::generate_some(values, version)
            }
        }
    };
}

impl<T: Nullable> Wire for Option<T> {
    #[cfg(all(test, feature = "real-servers"))]
    const NESTED: Option<&'static StructSchema> = T::INNER;

    fn wire_bytes_min(version: Version) -> usize {
        T::null_bytes(version)
    }

    fn is_null(&self) -> bool {
        self.is_none()
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        T::write_nullable(self.as_ref(), writer, version)
    }

    fn read(reader: &mut Reader<'_>, version: Version) -> Decoded<Self> {
        T::read_nullable(reader, version)
    }

    #[cfg(any(test, fuzzing))]
    fn null() -> Option<Self> {
        Some(None)
    }

    #[cfg(any(test, fuzzing))]
    fn generate(values: &mut Values, version: Version) -> Self {
        Some(T::generate_some(values, version))
    }
}

/// A type that has a form for null: in its length, or for a struct in a byte before it.
trait Nullable: Sized {
    #[cfg(all(test, feature = "real-servers"))]
    const INNER: Option<&'static StructSchema> = None;

    /// The bytes that null takes, which is the fewest.
    fn null_bytes(version: Version) -> usize {
        if version.flexible { 1 } else { 4 }
    }

    /// Appends the value, or null.
    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        version: Version,
    ) -> Result<(), EncodeError>;

    /// Reads a value, or null.
    fn read_nullable(reader: &mut Reader<'_>, version: Version) -> Decoded<Option<Self>>;

    /// A test value that is not null.
    #[cfg(any(test, fuzzing))]
    fn generate_some(values: &mut Values, version: Version) -> Self;
}

impl Nullable for String {
    fn null_bytes(version: Version) -> usize {
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

    #[cfg(any(test, fuzzing))]
    fn generate_some(values: &mut Values, _: Version) -> Self {
        values.string()
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

    #[cfg(any(test, fuzzing))]
    fn generate_some(values: &mut Values, _: Version) -> Self {
        values.bytes()
    }
}

/// What stands before a nullable struct that is null; below 0 is enough for Kafka.
const STRUCT_IS_NULL: i8 = -1;
/// What stands before a nullable struct that is there.
const STRUCT_IS_THERE: i8 = 1;

impl<T: Struct> Nullable for T {
    #[cfg(all(test, feature = "real-servers"))]
    const INNER: Option<&'static StructSchema> = T::NESTED;

    fn null_bytes(_: Version) -> usize {
        size_of::<i8>()
    }

    fn write_nullable(
        value: Option<&Self>,
        writer: &mut Writer,
        version: Version,
    ) -> Result<(), EncodeError> {
        let Some(value) = value else { return STRUCT_IS_NULL.write(writer, version) };
        STRUCT_IS_THERE.write(writer, version)?;
        value.write(writer, version)
    }

    fn read_nullable(reader: &mut Reader<'_>, version: Version) -> Decoded<Option<Self>> {
        if reader.i8()? < 0 { Ok(None) } else { T::read(reader, version).map(Some) }
    }

    #[cfg(any(test, fuzzing))]
    fn generate_some(values: &mut Values, version: Version) -> Self {
        T::generate(values, version)
    }
}

impl<T: Wire> Nullable for Vec<T> {
    #[cfg(all(test, feature = "real-servers"))]
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
        #[cfg(test)]
        super::generate::note_reserved(count * size_of::<T>());
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(T::read(reader, version)?);
        }
        Ok(Some(elements))
    }

    #[cfg(any(test, fuzzing))]
    fn generate_some(values: &mut Values, version: Version) -> Self {
        let count = values.element_count(T::wire_bytes_min(version));
        (0..count).map(|_| T::generate(values, version)).collect()
    }
}

wire_through_option!(String);
wire_through_option!(Bytes);
wire_through_option!(Vec<T>, T);
