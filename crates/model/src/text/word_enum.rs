//! Enums whose variants are words in files and on the command line.

/// Defines such an enum: its words, `FromStr`, `Display`, and serde by the same words. Further words of a variant, which other programs
/// use, are read and never written.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal {
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal $(| $alias:literal)*,)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word $(, alias = $alias)*)] $variant,)+
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
