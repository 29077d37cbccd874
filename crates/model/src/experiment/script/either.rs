//! Deserializes what an experiment file may give as text or as a table.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

/// Deserializes a value from text, or from a table that is read first. `expected` names both forms in the message about
/// anything else.
pub(super) fn text_or_table<'de, D: Deserializer<'de>, Table: Deserialize<'de>, Value>(
    deserializer: D,
    expected: &'static str,
    of_text: impl FnOnce(&str) -> Result<Value, String>,
    of_table: impl FnOnce(Table) -> Result<Value, String>,
) -> Result<Value, D::Error> {
    deserializer.deserialize_any(Either { expected, of_text, of_table, table: PhantomData })
}

struct Either<Text, Map, Table> {
    expected: &'static str,
    of_text: Text,
    of_table: Map,
    table: PhantomData<Table>,
}

impl<'de, Text, Map, Table, Value> Visitor<'de> for Either<Text, Map, Table>
where
    Text: FnOnce(&str) -> Result<Value, String>,
    Map: FnOnce(Table) -> Result<Value, String>,
    Table: Deserialize<'de>,
{
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        (self.of_text)(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        (self.of_table)(table).map_err(de::Error::custom)
    }
}
