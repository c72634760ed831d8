//! What a table of properties becomes. A table is a macro that hands its rows to one of these.

/// The struct with its defaults, `set` by name, `validate` and the listing.
macro_rules! config_struct {
    ($(#[$meta:meta])* $config:ident; $(
        $(#[doc = $doc:literal])+
        $name:literal $field:ident: $type:ty = $default:expr $(, $min:tt to $max:tt)?;
    )+) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub(crate) struct $config {$(
            $(#[doc = $doc])+
            pub(crate) $field: $type,
        )+}

        impl Default for $config {
            fn default() -> Self {
                Self {$($field: $default,)+}
            }
        }

        impl $config {
            /// Sets the property called `name`; `false` when this table has none of that name.
            pub(crate) fn set(&mut self, name: &str, text: &str) -> $crate::error::Result<bool> {
                match name {
                    $($name => {
                        self.$field = <$type as $crate::config::value::Value>::parse(text)
                            .map_err(|why| $crate::config::illegal(name, &text, &why))?;
                    })+
                    _ => return Ok(false),
                }
                self.validate()?;
                Ok(true)
            }

            /// Checks every value against its range.
            ///
            /// # Errors
            /// `Config`, naming the property and the bound.
            pub(crate) fn validate(&self) -> $crate::error::Result<()> {
                $($(
                    let (least, most): ($type, $type) = ($min, $max);
                    if self.$field < least || self.$field > most {
                        use $crate::config::value::Value;
                        let why = format!(
                            "it must be at least {} and at most {}",
                            least.show(),
                            most.show()
                        );
                        return Err($crate::config::illegal($name, &self.$field.show(), &why));
                    }
                )?)+
                Ok(())
            }

            /// The rows for the documentation.
            pub(crate) fn table() -> Vec<$crate::config::Property> {
                use $crate::config::value::Value;
                let defaults = Self::default();
                vec![$($crate::config::Property {
                    name: $name,
                    kind: <$type as Value>::KIND,
                    default: defaults.$field.show(),
                    range: {
                        #[allow(unused_mut, unused_assignments, reason = "rows without a range")]
                        let mut range = None;
                        $(
                            let (least, most): ($type, $type) = ($min, $max);
                            range = Some((least.show(), most.show()));
                        )?
                        range
                    },
                    text: concat!($($doc, "\n"),+),
                },)+]
            }
        }
    };
}

/// The typed setters of a builder that holds the struct in its field `config`, or in the one that
/// is named.
///
/// ```text
/// producer_properties! { config_setters ProducerBuilder }
/// fetch_properties! { config_setters NodeBuilder as fetch }
/// ```
macro_rules! config_setters {
    ($builder:ty; $($rows:tt)+) => {
        config_setters! { $builder as config; $($rows)+ }
    };
    ($builder:ty as $part:ident; $(
        $(#[doc = $doc:literal])+
        $name:literal $field:ident: $type:ty = $default:expr $(, $min:tt to $max:tt)?;
    )+) => {
        impl $builder {$(
            $(#[doc = $doc])+
            ///
            #[doc = concat!("Property `", $name, "`; defaults to `", stringify!($default), "`.")]
            #[must_use]
            pub fn $field(mut self, value: $type) -> Self {
                self.$part.$field = value;
                self
            }
        )+}
    };
}
