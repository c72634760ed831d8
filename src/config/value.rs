//! How a property's value is read from text, shown and compared with its range.

use std::time::Duration;

/// A type that a property can have.
pub(crate) trait Value: Sized {
    /// What the documentation says of the type.
    const KIND: &'static str;

    /// Reads the text; the error says what is expected.
    fn parse(text: &str) -> Result<Self, String>;

    /// The text that reads back as this value.
    fn show(&self) -> String;
}

impl Value for Duration {
    const KIND: &'static str = "duration in ms";

    fn parse(text: &str) -> Result<Self, String> {
        text.trim()
            .parse()
            .map(Self::from_millis)
            .map_err(|_| "a whole number of milliseconds is expected".to_owned())
    }

    fn show(&self) -> String {
        self.as_millis().to_string()
    }
}

macro_rules! number_values {
    ($($type:ty, $kind:literal;)+) => {$(
        impl Value for $type {
            const KIND: &'static str = $kind;

            fn parse(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_| {
                    format!("a whole number from {} to {} is expected", <$type>::MIN, <$type>::MAX)
                })
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

number_values! {
    usize, "bytes";
    i32, "number";
    u32, "number";
    u64, "number";
}

impl Value for bool {
    const KIND: &'static str = "boolean";

    fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("true or false is expected".to_owned()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    const KIND: &'static str = "text";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Value for Vec<String> {
    const KIND: &'static str = "list";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect())
    }

    fn show(&self) -> String {
        self.join(",")
    }
}

/// Implements [`Value`] for an enum of words; the first word of a row is the one that is shown.
macro_rules! word_values {
    ($type:ty, $($variant:path => $word:literal $(| $other:literal)*;)+) => {
        impl $crate::config::value::Value for $type {
            const KIND: &'static str = concat!("one of:" $(, " ", $word)+);

            fn parse(text: &str) -> Result<Self, String> {
                match text.trim() {
                    $($word $(| $other)* => Ok($variant),)+
                    _ => Err(concat!("expected is one of:" $(, " ", $word)+).to_owned()),
                }
            }

            fn show(&self) -> String {
                match self {
                    $($variant => $word.to_owned(),)+
                }
            }
        }
    };
}
pub(crate) use word_values;
