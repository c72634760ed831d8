//! The output format of `consume`: kcat's `-f` language.
//!
//! | token | stands for |
//! |---|---|
//! | `%t` `%p` `%o` | topic, partition, offset |
//! | `%k` `%s` | key, value as they are (nothing for null) |
//! | `%K` `%S` | their lengths in bytes, -1 for null |
//! | `%T` | timestamp in ms since 1970, -1 for none |
//! | `%h` | headers as `name=value,name=value`, a null value as `NULL` |
//! | `%%` | a percent sign |
//! | `\n` `\r` `\t` `\\` `\0` `\xNN` | those bytes |
//!
//! Values are written byte for byte: a value that holds the separator cannot be told apart from
//! two records. With the lengths in front (`%K %S %k%s`) any bytes can be read back.

use std::fmt;
use std::str::FromStr;

/// What a record shows of itself to a format.
pub(crate) trait Fields {
    fn topic(&self) -> &str;
    fn partition(&self) -> i32;
    fn offset(&self) -> i64;
    fn timestamp_ms(&self) -> i64;
    fn key(&self) -> Option<&[u8]>;
    fn value(&self) -> Option<&[u8]>;
    /// Calls `each` with every header in order.
    fn headers(&self, each: &mut dyn FnMut(&str, Option<&[u8]>));
}

/// A parsed format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    Value,
    KeyLength,
    ValueLength,
    Timestamp,
    Headers,
}

/// Why a format could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FormatError(String);

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            let part = match letter {
                '%' => match letters.next() {
                    Some('%') => {
                        literal.push(b'%');
                        continue;
                    }
                    Some('t') => Part::Topic,
                    Some('p') => Part::Partition,
                    Some('o') => Part::Offset,
                    Some('k') => Part::Key,
                    Some('s') => Part::Value,
                    Some('K') => Part::KeyLength,
                    Some('S') => Part::ValueLength,
                    Some('T') => Part::Timestamp,
                    Some('h') => Part::Headers,
                    Some(other) => return Err(FormatError(format!("%{other} is not known"))),
                    None => return Err(FormatError("a lone % at the end".to_owned())),
                },
                '\\' => {
                    literal.push(escaped(&mut letters)?);
                    continue;
                }
                plain => {
                    literal.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes());
                    continue;
                }
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(part);
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self(parts))
    }
}

/// The byte that the letters after a backslash stand for.
fn escaped(letters: &mut std::str::Chars<'_>) -> Result<u8, FormatError> {
    match letters.next() {
        Some('n') => Ok(b'\n'),
        Some('r') => Ok(b'\r'),
        Some('t') => Ok(b'\t'),
        Some('0') => Ok(0),
        Some('\\') => Ok(b'\\'),
        Some('x') => {
            let digits: String = letters.by_ref().take(2).collect();
            if digits.len() == 2
                && let Ok(byte) = u8::from_str_radix(&digits, 16)
            {
                return Ok(byte);
            }
            Err(FormatError(format!("\\x{digits} is not followed by two hexadecimal digits")))
        }
        Some(other) => Err(FormatError(format!("\\{other} is not known"))),
        None => Err(FormatError("a lone backslash at the end".to_owned())),
    }
}

/// A delimiter given on the command line: the escapes of a format, without its tokens.
pub(crate) fn parse_delimiter(text: &str) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            bytes.push(escaped(&mut letters)?);
        } else {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(bytes)
}

impl Format {
    /// The value and a line feed.
    pub(crate) fn value_line() -> Self {
        Self(vec![Part::Value, Part::Literal(b"\n".to_vec())])
    }

    /// Appends a record's text to `out`.
    pub(crate) fn render(&self, record: &dyn Fields, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Literal(bytes) => out.extend_from_slice(bytes),
                Part::Topic => out.extend_from_slice(record.topic().as_bytes()),
                Part::Partition => append_number(out, i64::from(record.partition())),
                Part::Offset => append_number(out, record.offset()),
                Part::Key => out.extend_from_slice(record.key().unwrap_or_default()),
                Part::Value => out.extend_from_slice(record.value().unwrap_or_default()),
                Part::KeyLength => append_number(out, length(record.key())),
                Part::ValueLength => append_number(out, length(record.value())),
                Part::Timestamp => append_number(out, record.timestamp_ms()),
                Part::Headers => append_headers(out, record),
            }
        }
    }
}

fn length(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

fn append_number(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(number.to_string().as_bytes());
}

fn append_headers(out: &mut Vec<u8>, record: &dyn Fields) {
    let mut first = true;
    record.headers(&mut |name, value| {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        out.extend_from_slice(value.unwrap_or(b"NULL"));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sample {
        key: Option<&'static [u8]>,
        value: Option<&'static [u8]>,
    }

    impl Fields for Sample {
        fn topic(&self) -> &'static str {
            "orders"
        }

        fn partition(&self) -> i32 {
            3
        }

        fn offset(&self) -> i64 {
            17
        }

        fn timestamp_ms(&self) -> i64 {
            -1
        }

        fn key(&self) -> Option<&[u8]> {
            self.key
        }

        fn value(&self) -> Option<&[u8]> {
            self.value
        }

        fn headers(&self, each: &mut dyn FnMut(&str, Option<&[u8]>)) {
            each("a", Some(b"1"));
            each("a", None);
        }
    }

    fn shown(format: &str, sample: &Sample) -> String {
        let mut out = Vec::new();
        format.parse::<Format>().expect("legal").render(sample, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn every_token_shows_its_field() {
        let sample = Sample { key: Some(b"k"), value: Some(b"v=w") };
        assert_eq!(
            shown(r"%t-%p@%o %T %K:%k %S:%s %h 100%%\t\x41\n", &sample),
            "orders-3@17 -1 1:k 3:v=w a=1,a=NULL 100%\tA\n"
        );
    }

    /// Null and empty differ in their lengths (edenhill/kcat#29).
    #[test]
    fn null_and_empty_are_told_apart_by_length() {
        assert_eq!(shown("%K%k %S%s|", &Sample { key: None, value: Some(b"") }), "-1 0|");
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        for (format, words) in [
            ("%", "lone %"),
            ("%q", "%q"),
            ("\\", "lone backslash"),
            (r"\q", r"\q"),
            (r"\x4", r"\x4"),
            (r"\xzz", r"\xzz"),
        ] {
            let error = format.parse::<Format>().unwrap_err().to_string();
            assert!(error.contains(words), "{format}: {error}");
        }
    }

    #[test]
    fn delimiters_may_have_many_bytes() {
        assert_eq!(parse_delimiter("::"), Ok(b"::".to_vec()));
        assert_eq!(parse_delimiter("±"), Ok("±".as_bytes().to_vec()));
        assert_eq!(parse_delimiter(r"\x00\t"), Ok(vec![0, b'\t']));
    }
}
