//! What `workload.kind` names: a workload that this program knows, or a directory that says what a workload is.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::experiment::case::workload::{WorkloadKind, directories};
use crate::text::nearest::nearest;
use crate::text::word_enum::word_or_number;

/// The words that `workload.kind` takes, besides paths and pgbench's names.
pub const NAMES: [&str; WorkloadKind::WORDS.len() + directories::BUILTIN.len()] = {
    let mut names = [""; WorkloadKind::WORDS.len() + directories::BUILTIN.len()];
    let mut n = 0;
    while n < names.len() {
        let n_kinds = WorkloadKind::WORDS.len();
        names[n] = if n < n_kinds { WorkloadKind::WORDS[n] } else { directories::BUILTIN[n - n_kinds] };
        n += 1;
    }
    names
};

/// A workload as an experiment names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadName {
    /// One that this program knows.
    Kind(WorkloadKind),
    /// A directory.
    Directory(DirectoryName),
}

/// The name of a directory, perhaps with a variant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryName {
    /// The word of a built-in one, or a path, which has a `/`.
    pub place: String,
    /// The variant.
    pub variant: Option<String>,
}

impl DirectoryName {
    /// Whether it is the word of a built-in one.
    pub fn is_builtin(&self) -> bool {
        !self.place.contains('/')
    }
}

impl WorkloadName {
    /// The kind of the workload: that of own scripts for a directory.
    pub fn kind(&self) -> WorkloadKind {
        match self {
            WorkloadName::Kind(kind) => *kind,
            WorkloadName::Directory(_) => WorkloadKind::OWN,
        }
    }

    /// The directory, if it is one.
    pub fn directory(&self) -> Option<&DirectoryName> {
        match self {
            WorkloadName::Kind(_) => None,
            WorkloadName::Directory(directory) => Some(directory),
        }
    }

    /// Whether scripts that the experiment names are the workload.
    pub fn is_own(&self) -> bool {
        matches!(self, WorkloadName::Kind(kind) if kind.is_own())
    }
}

impl Default for WorkloadName {
    fn default() -> WorkloadName {
        WorkloadName::Kind(WorkloadKind::default())
    }
}

impl From<WorkloadKind> for WorkloadName {
    fn from(kind: WorkloadKind) -> WorkloadName {
        WorkloadName::Kind(kind)
    }
}

impl fmt::Display for DirectoryName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.variant {
            Some(variant) => write!(f, "{}:{variant}", self.place),
            None => f.write_str(&self.place),
        }
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            WorkloadName::Kind(kind) => kind.fmt(f),
            WorkloadName::Directory(directory) => directory.fmt(f),
        }
    }
}

impl FromStr for WorkloadName {
    type Err = String;

    fn from_str(text: &str) -> Result<WorkloadName, String> {
        if let Ok(kind) = text.parse::<WorkloadKind>() {
            return Ok(WorkloadName::Kind(kind));
        }
        // A colon in a directory above belongs to the path.
        let last = text.rfind('/').map_or(0, |at| at + 1);
        let (place, variant) = match text[last..].split_once(':') {
            Some((_, "")) => return Err(format!("`{text}`: no variant follows the colon")),
            Some((name, variant)) => (&text[..last + name.len()], Some(variant.to_string())),
            None => (text, None),
        };
        if place.contains('/') || directories::BUILTIN.contains(&place) {
            return Ok(WorkloadName::Directory(DirectoryName { place: place.to_string(), variant }));
        }
        match place.parse::<WorkloadKind>() {
            Ok(kind) => Err(format!("workload `{kind}` has no variants; directories have ({})", listed())),
            Err(_) => Err(unknown(place)),
        }
    }
}

fn listed() -> String {
    directories::BUILTIN.join(", ")
}

fn unknown(word: &str) -> String {
    let there_are = match nearest(word, NAMES) {
        Some(name) => format!("did you mean `{name}`? There are"),
        None => "there are".to_string(),
    };
    format!(
        "`{word}` is no workload; {there_are} {}; the directories {}; and your own directory by its path, which has a `/`: `./{}`",
        WorkloadKind::WORDS.join(", "),
        listed(),
        if word.is_empty() { "shop.workload" } else { word },
    )
}

impl Serialize for WorkloadName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for WorkloadName {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<WorkloadName, D::Error> {
        word_or_number(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_kind_a_word_or_a_path() {
        let directory = |place: &str, variant: Option<&str>| {
            WorkloadName::Directory(DirectoryName {
                place: place.to_string(),
                variant: variant.map(str::to_string),
            })
        };
        for (text, expected) in [
            ("tpcb", WorkloadName::Kind(WorkloadKind::Tpcb)),
            ("select-only", WorkloadName::Kind(WorkloadKind::TpcbSelect)),
            ("scripts", WorkloadName::Kind(WorkloadKind::Scripts)),
            ("ycsb", directory("ycsb", None)),
            ("ycsb:b", directory("ycsb", Some("b"))),
            ("./shop.workload", directory("./shop.workload", None)),
            ("a:b/shop:read", directory("a:b/shop", Some("read"))),
            ("/x/shop", directory("/x/shop", None)),
            ("shop/", directory("shop/", None)),
        ] {
            let read: WorkloadName = text.parse().unwrap();
            assert_eq!(read, expected, "{text}");
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<WorkloadName>(&written).unwrap(), read, "{text}");
            assert_eq!(read.directory().is_some(), text.contains("ycsb") || text.contains('/'), "{text}");
            assert_eq!(read.is_own(), text == "scripts", "{text}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        for (text, expected) in [
            ("ycbs", "`ycbs` is no workload; did you mean `ycsb`? There are tpcb, "),
            ("nosuch", "`nosuch` is no workload; there are tpcb, "),
            ("nosuch", "directories oltp, ycsb, "),
            ("shop.workload:a", "by its path, which has a `/`: `./shop.workload`"),
            ("tpcb:b", "workload `tpcb` has no variants"),
            ("ycsb:", "no variant follows the colon"),
            ("", "`` is no workload"),
        ] {
            let refused = text.parse::<WorkloadName>().unwrap_err();
            assert!(refused.contains(expected), "{refused}\nexpected: {expected}");
        }
        let refused = serde_json::from_str::<WorkloadName>("3").unwrap_err().to_string();
        assert!(refused.contains("`3` is no workload"), "{refused}");
    }
}
