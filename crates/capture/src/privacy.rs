//! What leaves the log: values as they are, letters and digits by a keyed hash, or nothing of them.

mod words;

use std::fmt;

use model::secret::hmac;
use sha2::{Digest, Sha256};

use crate::value::text_class::{TextClass, class};

/// How much of the values is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privacy {
    /// All values, but for secrets.
    Values,
    /// Texts become letters and digits of the same lengths and kinds by a keyed hash: equal values stay equal. Numbers and times stay.
    #[default]
    Hashed,
    /// Every value but true and false becomes a random one of the same length and kind; equal values do not stay equal.
    Shape,
}

impl fmt::Display for Privacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Privacy::Values => "values",
            Privacy::Hashed => "hashed",
            Privacy::Shape => "shape",
        })
    }
}

/// Where a value stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    /// The column, if it is known.
    pub column: Option<&'a str>,
    /// Whether the column holds texts; `None` if nobody knows.
    pub is_text: Option<bool>,
}

/// Masks values.
#[derive(Clone, Debug)]
pub struct Mask {
    privacy: Privacy,
    key: [u8; 32],
    n_drawn: u64,
    /// Values that were changed.
    pub n_masked: u64,
    /// Values that were changed because they are secrets.
    pub n_secrets: u64,
}

impl Mask {
    /// A mask; the same key makes equal values of equal ones.
    pub fn new(privacy: Privacy, key: [u8; 32]) -> Mask {
        Mask { privacy, key, n_drawn: 0, n_masked: 0, n_secrets: 0 }
    }

    /// A value as it is written.
    pub fn value(&mut self, text: &str, place: Place<'_>) -> String {
        if model::secret::is_secret(place.column.unwrap_or("value"), text) {
            self.n_secrets += 1;
            return self.hashed(text);
        }
        match self.privacy {
            Privacy::Values => text.to_string(),
            Privacy::Hashed if keeps(text, place) => text.to_string(),
            Privacy::Hashed => self.hashed(text),
            Privacy::Shape => self.drawn(text),
        }
    }

    /// A literal that all executions have in their text. What a program wrote there stays: in a statement that has parameters, and where
    /// no column is compared with it or takes it.
    pub fn literal(&mut self, text: &str, place: Place<'_>, is_programs: bool) -> String {
        let is_kept = is_programs || words::is_kept(text);
        if is_kept && !model::secret::is_secret(place.column.unwrap_or("value"), text) {
            return text.to_string();
        }
        if self.privacy == Privacy::Shape && keeps(text, place) {
            // A literal is the same in all executions, whatever it is.
            return self.hashed(text);
        }
        self.value(text, place)
    }

    /// A random value of the same length and kind.
    fn drawn(&mut self, text: &str) -> String {
        self.n_drawn += 1;
        self.n_masked += 1;
        let mut stream = self.stream(&format!("{}:{text}", self.n_drawn));
        match class(text) {
            TextClass::Bool => text.to_string(),
            // Any digits would be no date.
            TextClass::Time if text.len() >= 10 => {
                let time: String =
                    text[10..].chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
                format!(
                    "20{}{}-0{}-1{}{time}",
                    stream.below(3),
                    stream.below(10),
                    1 + stream.below(9),
                    stream.below(9)
                )
            }
            TextClass::Time => text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect(),
            TextClass::Uuid => shaped_uuid(text, &mut stream),
            TextClass::Json => "{}".to_string(),
            _ => shaped(text, &mut stream),
        }
    }

    fn hashed(&mut self, text: &str) -> String {
        self.n_masked += 1;
        let mut stream = self.stream(text);
        match class(text) {
            TextClass::Json => serde_json::from_str(text).map_or_else(
                |_| shaped(text, &mut stream),
                |document| self.hashed_json(document, 0).to_string(),
            ),
            TextClass::Uuid => shaped_uuid(text, &mut stream),
            _ => shaped(text, &mut stream),
        }
    }

    fn hashed_json(&self, document: serde_json::Value, depth: usize) -> serde_json::Value {
        use serde_json::Value as Json;
        let text = |text: &str| shaped(text, &mut self.stream(text));
        match document {
            Json::String(one) => Json::String(text(&one)),
            Json::Array(all) if depth < 100 => {
                Json::Array(all.into_iter().map(|one| self.hashed_json(one, depth + 1)).collect())
            }
            Json::Object(all) if depth < 100 => {
                let pair = |(name, one): (String, Json)| (text(&name), self.hashed_json(one, depth + 1));
                Json::Object(all.into_iter().map(pair).collect())
            }
            other => other,
        }
    }

    fn stream(&self, text: &str) -> Stream {
        Stream { seed: hmac(&self.key, text.as_bytes()), block: [0; 32], at: 32, n: 0 }
    }
}

/// Whether a value says nothing about a person by itself: a number, a time, true or false.
fn keeps(text: &str, place: Place<'_>) -> bool {
    match place.is_text {
        Some(true) => false,
        Some(false) => !matches!(class(text), TextClass::Json | TextClass::Uuid | TextClass::Other),
        None => matches!(class(text), TextClass::Int | TextClass::Number | TextClass::Time | TextClass::Bool),
    }
}

/// As many bytes as are needed from one digest.
struct Stream {
    seed: [u8; 32],
    block: [u8; 32],
    at: usize,
    n: u64,
}

impl Stream {
    fn below(&mut self, n: u8) -> u8 {
        if self.at == self.block.len() {
            self.block =
                Sha256::new_with_prefix(self.seed).chain_update(self.n.to_le_bytes()).finalize().into();
            self.n += 1;
            self.at = 0;
        }
        let byte = self.block[self.at];
        self.at += 1;
        byte % n
    }
}

/// Letters for letters and digits for digits; all else stays.
fn shaped(text: &str, stream: &mut Stream) -> String {
    let mut is_first = true;
    text.chars()
        .map(|c| {
            let new = match c {
                // A number keeps its number of digits, and one of 64 bits stays one.
                '1'..='9' if is_first => char::from(b'1' + stream.below(8)),
                '0'..='9' => char::from(b'0' + stream.below(10)),
                'A'..='Z' => char::from(b'A' + stream.below(26)),
                _ if c.is_alphabetic() => char::from(b'a' + stream.below(26)),
                other => other,
            };
            is_first &= !c.is_ascii_digit();
            new
        })
        .collect()
}

/// Hexadecimal digits for those of a UUID; version and variant stay.
fn shaped_uuid(text: &str, stream: &mut Stream) -> String {
    let one = |(at, c): (usize, char)| match c {
        '-' | '{' | '}' => c,
        _ if matches!(at, 14 | 19) => c,
        _ => char::from(b"0123456789abcdef"[usize::from(stream.below(16))]),
    };
    text.char_indices().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::times::timestamp_us;

    fn mask(privacy: Privacy) -> Mask {
        Mask::new(privacy, [7; 32])
    }

    #[test]
    fn hashed_texts_keep_length_and_kind_and_equality() {
        let mut hashed = mask(Privacy::Hashed);
        let place = Place::default();
        for text in
            ["Joe.Smith@example.com", "Straße 12", "", "ORD-0012/a", "%smith%", "{a,\"b c\"}", "+49 170 123"]
        {
            let found = hashed.value(text, place);
            assert_eq!(found, hashed.value(text, place), "{text}");
            assert_eq!(found.chars().count(), text.chars().count(), "{text}");
            let kinds = |text: &str| -> String {
                text.chars()
                    .map(|c| {
                        if c.is_ascii_digit() {
                            '0'
                        } else if c.is_ascii_uppercase() {
                            'A'
                        } else if c.is_alphabetic() {
                            'a'
                        } else {
                            c
                        }
                    })
                    .collect()
            };
            assert_eq!(kinds(&found), kinds(text));
            assert!(text.len() < 5 || found != text, "{text}");
        }
        let uuid = "6f1c2f6e-7c42-4b5c-9d2e-0a1b2c3d4e5f";
        let found = hashed.value(uuid, place);
        assert!(
            found != uuid && found.len() == 36 && &found[14..15] == "4" && &found[19..20] == "9",
            "{found}"
        );
        assert_ne!(Mask::new(Privacy::Hashed, [8; 32]).value(uuid, place), found, "the key decides");
    }

    #[test]
    fn a_key_makes_the_same_masks_in_all_releases() {
        // Python: hmac.new(bytes([7])*32, text, 'sha256') as the seed of SHA-256 in counter mode.
        let mut hashed = mask(Privacy::Hashed);
        assert_eq!(hashed.value("Joe.Smith@example.com", Place::default()), "Xls.Fkyzo@rixujac.twl");
        assert_eq!(hashed.value("ORD-0012/a", Place::default()), "TYU-9408/e");
    }

    #[test]
    fn numbers_and_times_stay_unless_their_column_has_texts() {
        let mut hashed = mask(Privacy::Hashed);
        for text in ["42", "-1.5", "2024-01-31 10:00:00+00", "t", "false"] {
            assert_eq!(hashed.value(text, Place::default()), text);
        }
        let of_text = Place { column: Some("phone"), is_text: Some(true) };
        assert_ne!(
            hashed.value("01701234567", Place::default()),
            "01701234567",
            "a leading zero is no number"
        );
        assert_ne!(hashed.value("4917012345", of_text), "4917012345");
    }

    #[test]
    fn json_stays_json() {
        let found = mask(Privacy::Hashed).value(r#"{"name": "Joe \"x\"", "n": [1, null]}"#, Place::default());
        let document: serde_json::Value = serde_json::from_str(&found).unwrap();
        assert!(!found.contains("Joe") && !found.contains("name"), "{found}");
        assert_eq!(document.as_object().unwrap().len(), 2);
    }

    #[test]
    fn secrets_are_never_kept() {
        let place = Place { column: Some("password"), is_text: None };
        let mut values = mask(Privacy::Values);
        assert_ne!(values.value("hunter2xyz", place), "hunter2xyz");
        assert_eq!(values.n_secrets, 1);
        assert_eq!(values.value("hunter2xyz", Place::default()), "hunter2xyz");
        assert!(!values.literal("postgres://joe:geheim42@db/x", Place::default(), true).contains("geheim42"));
    }

    #[test]
    fn shapes_are_drawn_again_for_each_value() {
        let mut shape = mask(Privacy::Shape);
        let all: std::collections::BTreeSet<String> =
            (0..20).map(|_| shape.value("12345678", Place::default())).collect();
        assert!(all.len() > 15, "{all:?}");
        assert!(all.iter().all(|text| text.len() == 8 && !text.starts_with('0')), "{all:?}");
        let time = shape.value("2024-01-31 10:00:00+02", Place::default());
        assert!(
            time.len() == 22 && timestamp_us(&time).is_some() && !time.starts_with("2024-01-31"),
            "{time}"
        );
    }

    #[test]
    fn literals_of_programs_stay() {
        let mut hashed = mask(Privacy::Hashed);
        assert_eq!(hashed.literal("day", Place::default(), false), "day");
        assert_eq!(hashed.literal("active", Place::default(), true), "active");
        assert_ne!(hashed.literal("active", Place::default(), false), "active");
    }
}
