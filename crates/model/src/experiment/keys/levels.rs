//! A value of an experiment file that may be given once or as a list: one level, or a factor.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// The levels of one key: at least one; a list of two or more makes the key a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels<T>(Vec<T>);

impl<T> Levels<T> {
    /// A key with the single level `value`.
    pub fn one(value: T) -> Levels<T> {
        Levels(vec![value])
    }

    /// A key with these levels; `None` when the list is empty.
    pub fn many(values: Vec<T>) -> Option<Levels<T>> {
        if values.is_empty() { None } else { Some(Levels(values)) }
    }

    /// All levels in the order given.
    pub fn all(&self) -> &[T] {
        &self.0
    }

    /// Whether the key varies.
    pub fn is_factor(&self) -> bool {
        self.0.len() > 1
    }
}

impl Levels<bool> {
    /// Whether the one level is `false`, which needs no mention.
    pub(super) fn are_off(&self) -> bool {
        self.0 == [false]
    }
}

impl<T: Serialize> Serialize for Levels<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [single] => single.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Levels<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LevelsVisitor(PhantomData))
    }
}

/// Accepts a list, or passes a scalar to `T`, so that `T`'s own message reaches the user.
struct LevelsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for LevelsVisitor<T> {
    type Value = Levels<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a value or a list of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element()? {
            values.push(value);
        }
        Levels::many(values)
            .ok_or_else(|| de::Error::custom("an empty list has no levels; give at least one value"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Levels::one)
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Levels::one)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Levels::one)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Levels::one)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Levels::one)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Levels::one)
    }
}
