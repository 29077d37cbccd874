//! Marks that say what pgdyno made: comments, so that the layout stays pgbench's own.
//!
//! Each begins with the word `pgdyno`, `key=value` pairs follow. One table of a workload has the [`Marker`]: what was
//! loaded, how much of it, and whether loading finished; without it an interrupted load would pass for a small one.
//! Every other table, partition and routine has a [`part_mark`] that names it: only what has its own mark may be
//! dropped without asking. A table's mark also names its OID, and a routine's its body by a digest: on another table, to which
//! somebody copied the comment or a dump restored it, or on a routine that somebody changed, it proves nothing.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The word that a marker starts with.
const PREFIX: &str = "pgdyno";

/// Which object of a database a mark is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkedObject<'a> {
    /// The OID of a table.
    Oid(u32),
    /// A digest of a routine's body.
    Body(&'a str),
}

/// The key of the OID in marks.
const OID: &str = "oid";

/// The comment on an object that belongs to a workload's tables: `part` is the object's name, so that the mark is
/// invalid elsewhere. Without an identity it is that of a table that only pgdyno's own tests use, or of an older version.
pub fn part_mark(workload: &str, part: &str, identity: Option<MarkedObject>) -> String {
    let pair = match identity {
        Some(MarkedObject::Oid(oid)) => Some((OID, oid.to_string())),
        Some(MarkedObject::Body(digest)) => Some(("body", digest.to_owned())),
        None => None,
    };
    let pair = pair.as_ref().map(|(key, value)| (*key, value.as_str()));
    pairs_text([("workload", workload), ("part", part)].into_iter().chain(pair))
}

/// Whether a mark names this OID; those of older versions name none.
pub fn names_oid(mark: &str, oid: u32) -> bool {
    let pair = format!("{OID}={oid}");
    mark.split_ascii_whitespace().any(|word| word == pair)
}

/// The workload that a mark names, whether it is a [`Marker`] or a [`part_mark`]: a dataset's name, which needs no escape.
pub fn workload_of(mark: &str) -> Option<&str> {
    mark.split_ascii_whitespace().find_map(|word| word.strip_prefix("workload="))
}

/// Whether a comment is what [`part_mark`] gives for this object.
pub fn is_part_mark(comment: &str, workload: &str, part: &str, identity: MarkedObject) -> bool {
    [None, Some(identity)].into_iter().any(|identity| comment == part_mark(workload, part, identity))
}

/// The contents of a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The workload that the tables are for.
    pub workload: String,
    /// Size of the data.
    pub scale: u32,
    /// Version of the program that loaded them.
    pub tool_version: String,
    /// Whether they are complete.
    pub state: MarkerState,
    /// OID of the table that it is on; older versions did not say.
    pub oid: Option<u32>,
    /// Further pairs, kept unchanged, including those that a newer version wrote.
    pub extra: BTreeMap<String, String>,
}

/// How far loading got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkerState {
    /// Loading began and did not finish.
    Loading,
    /// The tables are complete.
    Finished {
        /// The time, as the caller writes it.
        at: String,
    },
}

/// Why a text that starts like a marker is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// A pair is missing.
    #[error("load marker has no `{0}`; load the tables again")]
    Missing(&'static str),
    /// A value is not understood.
    #[error("load marker has `{key}={value}`, which this version does not know; load the tables again")]
    Unknown {
        /// The pair's key.
        key: &'static str,
        /// The pair's value.
        value: String,
    },
}

impl Marker {
    /// The statement that writes this marker on a table of the workload, by its name in SQL.
    pub fn comment_sql_on(&self, table: &str) -> String {
        format!("comment on table {table} is {}", comment_literal(&self.text()))
    }

    /// The marker on the table with this OID.
    #[must_use]
    pub fn on(mut self, oid: u32) -> Marker {
        self.oid = Some(oid);
        self
    }

    /// Whether it may have been written on the table with this OID.
    pub fn is_on(&self, oid: u32) -> bool {
        self.oid.is_none_or(|own| own == oid)
    }

    /// The text of the comment.
    pub fn text(&self) -> String {
        let scale = self.scale.to_string();
        let oid = self.oid.map(|oid| oid.to_string());
        let (state, finished_at) = match &self.state {
            MarkerState::Loading => ("loading", None),
            MarkerState::Finished { at } => ("finished", Some(at.as_str())),
        };
        let known = [
            ("workload", Some(self.workload.as_str())),
            ("scale", Some(scale.as_str())),
            ("tool_version", Some(self.tool_version.as_str())),
            ("state", Some(state)),
            ("finished_at", finished_at),
            (OID, oid.as_deref()),
        ];
        let known = known.into_iter().filter_map(|(key, value)| value.map(|value| (key, value)));
        let extra = self.extra.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        pairs_text(known.chain(extra))
    }

    /// Reads a comment; `None` if it is not a marker.
    pub fn parse(comment: &str) -> Result<Option<Marker>, MarkerError> {
        let mut words = comment.split_ascii_whitespace();
        if words.next() != Some(PREFIX) {
            return Ok(None);
        }
        let pair = |word: &str| word.split_once('=').map(|(key, value)| (unescape(key), unescape(value)));
        let mut pairs: BTreeMap<String, String> = words.filter_map(pair).collect();
        let mut take = |key: &'static str| pairs.remove(key).ok_or(MarkerError::Missing(key));
        let workload = take("workload")?;
        let scale = take("scale")?;
        let tool_version = take("tool_version")?;
        let state = match take("state")?.as_str() {
            "loading" => MarkerState::Loading,
            "finished" => MarkerState::Finished { at: take("finished_at")? },
            other => return Err(MarkerError::Unknown { key: "state", value: other.to_owned() }),
        };
        let scale = scale.parse().map_err(|_| MarkerError::Unknown { key: "scale", value: scale })?;
        let oid = pairs
            .remove(OID)
            .map(|text| text.parse().map_err(|_| MarkerError::Unknown { key: OID, value: text }));
        Ok(Some(Marker { workload, scale, tool_version, state, oid: oid.transpose()?, extra: pairs }))
    }
}

/// The text of a mark as a string literal. It holds no backslash.
pub fn comment_literal(mark: &str) -> String {
    format!("'{}'", mark.replace('\'', "''"))
}

fn pairs_text<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    pairs.fold(PREFIX.to_owned(), |mut text, (key, value)| {
        text.push(' ');
        escape(key, &mut text);
        text.push('=');
        escape(value, &mut text);
        text
    })
}

/// Percent-escapes what would end a key or a value, and backslashes, which some servers read in literals.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        if c.is_ascii_whitespace() || c.is_ascii_control() || matches!(c, '=' | '%' | '\\') {
            write!(out, "%{:02X}", u32::from(c)).expect("writing to a string cannot fail");
        } else {
            out.push(c);
        }
    }
}

fn unescape(text: &str) -> String {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[2..]);
            }
            None => {
                plain.push('%');
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(workload: &str, state: MarkerState) -> Marker {
        let extra = BTreeMap::from([("fillfactor".to_owned(), "90 %".to_owned())]);
        Marker {
            workload: workload.to_owned(),
            scale: 300,
            tool_version: "0.1.0".to_owned(),
            state,
            oid: None,
            extra,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for workload in ["tpcb", "it's", "a b=c%20\\ \n", "größe", "%", ""] {
            for state in
                [MarkerState::Loading, MarkerState::Finished { at: "2026-11-20 10:00:00+00".to_owned() }]
            {
                let written = marker(workload, state);
                assert_eq!(Marker::parse(&written.text()), Ok(Some(written.clone())));
                let on_one = written.on(16400);
                assert_eq!(Marker::parse(&on_one.text()), Ok(Some(on_one)));
            }
        }
    }

    #[test]
    fn the_statement_quotes_the_text() {
        let sql = marker("it's", MarkerState::Loading).comment_sql_on("pgbench_branches");
        let wanted = "comment on table pgbench_branches is 'pgdyno workload=it''s scale=300 tool_version=0.1.0 \
                      state=loading fillfactor=90%20%25'";
        assert_eq!(sql, wanted);
    }

    #[test]
    fn a_mark_of_a_part_is_worth_nothing_elsewhere() {
        let here = MarkedObject::Body("d4f0");
        let mark = part_mark("tpcc", "payment(integer, text)", Some(here));
        assert_eq!(mark, "pgdyno workload=tpcc part=payment(integer,%20text) body=d4f0");
        let table = part_mark("tpcc", "stock", Some(MarkedObject::Oid(16400)));
        assert_eq!(table, "pgdyno workload=tpcc part=stock oid=16400");
        let older = part_mark("tpcc", "payment(integer, text)", None);
        for mark in [&mark, &older] {
            assert!(is_part_mark(mark, "tpcc", "payment(integer, text)", here));
        }
        for (comment, workload, part, identity) in [
            (mark.as_str(), "tpcc", "payment(integer)", here),
            (mark.as_str(), "tproc-c", "payment(integer, text)", here),
            (mark.as_str(), "tpcc", "payment(integer, text)", MarkedObject::Body("d4f1")),
            (table.as_str(), "tpcc", "stock", MarkedObject::Oid(16401)),
            ("pgdyno test data, keep", "tpcc", "stock", here),
            ("pgdyno", "tpcc", "stock", here),
        ] {
            assert!(!is_part_mark(comment, workload, part, identity), "{comment}");
        }
        let loaded = marker("tpcb", MarkerState::Loading);
        assert!(names_oid(&table, 16400) && !names_oid(&table, 1640) && !names_oid(&older, 16400));
        assert!(names_oid(&loaded.clone().on(7).text(), 7));
        assert!(loaded.is_on(7) && loaded.clone().on(7).is_on(7) && !loaded.clone().on(7).is_on(8));
        assert_eq!((workload_of(&mark), workload_of(&loaded.text())), (Some("tpcc"), Some("tpcb")));
        assert!(Marker::parse(&mark).is_err(), "it does not say what was loaded");
    }

    #[test]
    fn other_texts_are_no_markers_or_bad_ones() {
        let check =
            |text: &str, wanted| assert_eq!(Marker::parse(text).map_err(|e| e.to_string()), wanted, "{text}");
        check("", Ok(None));
        check("branches of the bank", Ok(None));
        check("pgdynox workload=tpcb", Ok(None));
        check("pgdyno", Err("load marker has no `workload`; load the tables again".to_owned()));
        check(
            "pgdyno workload=tpcb scale=many tool_version=1 state=loading",
            Err("load marker has `scale=many`, which this version does not know; load the tables again"
                .to_owned()),
        );
        check(
            "pgdyno workload=tpcb scale=1 tool_version=1 state=dreaming",
            Err("load marker has `state=dreaming`, which this version does not know; load the tables again"
                .to_owned()),
        );
    }
}
