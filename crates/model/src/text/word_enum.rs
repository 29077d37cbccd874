//! Enums whose variants are words in files and on the command line.

use std::fmt;

use serde::de::{Deserializer, Visitor};

/// Defines such an enum: its words, `FromStr`, `Display`, and serde by the same words. Further words of a variant, which other programs
/// use, are read and never written.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal {
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal $(| $alias:literal)*,)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// The words of all of them.
            pub const WORDS: [&'static str; [$($word),+].len()] = [$($word),+];

            /// The word used in files and on the command line.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                let text = $crate::text::word_enum::word_or_number(from)?;
                text.parse().map_err(|_| serde::de::Error::unknown_variant(&text, &$name::WORDS))
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                const ALIASES: &[(&str, $name)] = &[$($(($alias, $name::$variant),)*)+];
                let by_alias = || ALIASES.iter().find(|(alias, _)| *alias == text).map(|(_, of)| *of);
                $name::ALL.into_iter().find(|word| word.as_str() == text).or_else(by_alias).ok_or_else(|| {
                    format!("`{text}` is not {}; use one of: {}", $what, [$($word),+].join(", "))
                })
            }
        }
    };
}

pub(crate) use words;

/// A word, or what stands in its place in a file, as text: a message about a number says which words there are.
pub(crate) fn word_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    struct Word;
    impl Visitor<'_> for Word {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a word")
        }

        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.to_string())
        }

        fn visit_bool<E>(self, value: bool) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_i64<E>(self, value: i64) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_u64<E>(self, value: u64) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_f64<E>(self, value: f64) -> Result<String, E> {
            Ok(value.to_string())
        }
    }
    from.deserialize_any(Word)
}

#[cfg(test)]
mod tests {
    use crate::experiment::os::HugePages;

    #[test]
    fn a_number_or_a_boolean_in_place_of_a_word_is_refused_with_the_words() {
        let read = |text: &str| serde_json::from_str::<HugePages>(text);
        assert_eq!(read("\"on\"").unwrap(), HugePages::On);
        for (text, shown) in [("100", "100"), ("true", "true"), ("\"yes\"", "yes"), ("-1.5", "-1.5")] {
            let why = read(text).unwrap_err().to_string();
            assert!(why.starts_with(&format!("unknown variant `{shown}`, expected `off` or `on`")), "{why}");
        }
    }
}
