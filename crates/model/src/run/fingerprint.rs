//! The state of a run's data before vacuum and analyze: the proof that every run began from the same data.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Sizes, indexes and optionally checksums of the workload's relations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Tables, their partitions and their indexes, by name.
    pub relations: BTreeMap<String, RelationPrint>,
    /// Checksum over the rows of each table, in any order; empty unless asked for. Ends in [`Fingerprint::BY_SHA256`] where the server
    /// refuses MD5.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checksums: BTreeMap<String, String>,
    /// Definitions by table, then by kind and name of the object: `index t_pkey`, `trigger audit`; the table itself is
    /// `table`. Names of schemas are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, BTreeMap<String, String>>,
    /// Time to take the fingerprint, seconds.
    pub seconds: f64,
}

/// One relation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationPrint {
    /// Bytes of the main fork.
    pub bytes: u64,
    /// Definition of an index; empty for a table.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub index: String,
}

impl Fingerprint {
    /// Marks checksums that were computed by SHA-256 in place of MD5, with which they cannot be compared.
    pub const BY_SHA256: &str = ":sha256";

    /// Describes the first difference in contents from `other`: indexes or rows.
    pub fn contents_differ(&self, other: &Fingerprint) -> Option<String> {
        let indexes = |print: &Fingerprint| -> BTreeMap<String, String> {
            let all = print.relations.iter().filter(|(_, relation)| !relation.index.is_empty());
            all.map(|(name, relation)| (name.clone(), relation.index.clone())).collect()
        };
        let differing = |what: &str, ours: &BTreeMap<String, String>, theirs: &BTreeMap<String, String>| {
            let names = ours.keys().chain(theirs.keys());
            let mut named = names.filter(|name| ours.get(*name) != theirs.get(*name));
            named.next().map(|name| format!("{what} `{name}`"))
        };
        differing("index", &indexes(self), &indexes(other)).or_else(|| {
            let both_have = !self.checksums.is_empty() && !other.checksums.is_empty();
            let is_by_sha256 = |print: &Fingerprint| {
                print.checksums.values().any(|checksum| checksum.ends_with(Fingerprint::BY_SHA256))
            };
            let is_comparable = both_have && is_by_sha256(self) == is_by_sha256(other);
            is_comparable.then(|| differing("the rows of", &self.checksums, &other.checksums))?
        })
    }

    /// Objects with different definitions, of tables that both fingerprints contain: the object with its table, and both
    /// definitions.
    pub fn definitions_differ<'a>(
        &'a self,
        other: &'a Fingerprint,
    ) -> impl Iterator<Item = (String, Option<&'a str>, Option<&'a str>)> {
        let both = self
            .definitions
            .iter()
            .filter_map(|(table, ours)| Some((table, ours, other.definitions.get(table)?)));
        both.flat_map(|(table, ours, theirs)| {
            let objects: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            objects.into_iter().filter_map(move |object| {
                let of = |all: &'a BTreeMap<String, String>| all.get(object).map(String::as_str);
                let name = match object.as_str() {
                    "table" => format!("table {table}"),
                    object => format!("{object} of {table}"),
                };
                (of(ours) != of(theirs)).then(|| (name, of(ours), of(theirs)))
            })
        })
    }

    /// The first relation whose size differs, with both sizes in bytes.
    pub fn sizes_differ(&self, other: &Fingerprint) -> Option<(String, u64, u64)> {
        let bytes = |print: &Fingerprint, name: &str| print.relations.get(name).map_or(0, |r| r.bytes);
        let names = self.relations.keys().chain(other.relations.keys());
        let mut named = names.filter(|name| bytes(self, name) != bytes(other, name));
        named.next().map(|name| (name.clone(), bytes(self, name), bytes(other, name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(relations: &[(&str, u64, &str)], checksums: &[(&str, &str)]) -> Fingerprint {
        let relation = |&(name, bytes, index): &(&str, u64, &str)| {
            (name.into(), RelationPrint { bytes, index: index.into() })
        };
        Fingerprint {
            relations: relations.iter().map(relation).collect(),
            checksums: checksums.iter().map(|(name, sum)| (name.to_string(), sum.to_string())).collect(),
            seconds: 0.1,
            ..Fingerprint::default()
        }
    }

    #[test]
    fn definitions_are_compared_by_name_where_both_have_the_table() {
        let of = |table: &str, objects: &[(&str, &str)]| {
            let objects = objects.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
            Fingerprint { definitions: [(table.to_string(), objects)].into(), ..Fingerprint::default() }
        };
        let one = of("t", &[("table", "logged"), ("index t_pkey", "(a)")]);
        let other = of("t", &[("table", "UNLOGGED"), ("trigger x", "f()")]);
        let found: Vec<_> = one.definitions_differ(&other).collect();
        let expected = [
            ("index t_pkey of t", Some("(a)"), None),
            ("table t", Some("logged"), Some("UNLOGGED")),
            ("trigger x of t", None, Some("f()")),
        ];
        assert_eq!(found, expected.map(|(name, a, b)| (name.to_string(), a, b)));
        assert_eq!(one.definitions_differ(&of("u", &[("table", "logged")])).count(), 0);
    }

    #[test]
    fn differences_are_named() {
        let one = print(&[("t", 8192, ""), ("t_pkey", 16384, "unique (a)")], &[("t", "1")]);
        assert_eq!((one.contents_differ(&one), one.sizes_differ(&one)), (None, None));
        for (other, contents, sizes) in [
            (print(&[("t", 8192, ""), ("t_pkey", 16384, "unique (b)")], &[]), Some("index `t_pkey`"), None),
            (print(&[("t", 8192, "")], &[]), Some("index `t_pkey`"), Some(("t_pkey", 16384, 0))),
            (
                print(&[("t", 0, ""), ("t_pkey", 16384, "unique (a)")], &[("t", "2")]),
                Some("the rows of `t`"),
                Some(("t", 8192, 0)),
            ),
            // Checksums are compared only if both have them, by the same function.
            (print(&[("t", 8192, ""), ("t_pkey", 16384, "unique (a)")], &[("t", "2:sha256")]), None, None),
            (print(&[("t", 8192, ""), ("t_pkey", 16384, "unique (a)")], &[]), None, None),
        ] {
            assert_eq!(one.contents_differ(&other).as_deref(), contents);
            let sizes = sizes.map(|(name, ours, theirs)| (name.to_string(), ours, theirs));
            assert_eq!(one.sizes_differ(&other), sizes);
        }
    }
}
