//! What is besides the primary: how many standbys, which of them a commit waits for, and what archives its WAL.

mod standbys;
mod way;

pub mod outage;
pub mod pooler;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::standbys::{
    SYNCHRONOUS_COMMIT, SYNCHRONOUS_NAMES, direct_standbys, has_relay, n_standbys, n_waited_for, synchronous,
    upstream_of,
};
pub use self::way::{ByteRate, RoundTrip};
use crate::experiment::case::Case;
use crate::experiment::keys;
pub use crate::experiment::keys::topology::TopologySection;
pub use crate::experiment::keys::topology::archive::ArchiveSection;
use crate::text::units::as_text;
use crate::text::word_enum::words;

/// How long a standby may take to replay what its primary has written before the load, seconds. Our convention.
pub const REPLAYED_S_MAX: u64 = 60;

impl TopologySection {
    /// Whether it is that of an experiment that says nothing.
    pub fn is_default(&self) -> bool {
        *self == TopologySection::default()
    }
}

words! {
    /// What archives the WAL of a server that pgdyno runs.
    ArchiveKind, "a way to archive" {
        /// Nothing.
        #[default]
        None = "none",
        /// A durable copy of each segment on this machine.
        Copy = "copy",
        /// A command of the user's.
        Command = "command",
    }
}

/// Settings that [`ArchiveKind`] decides.
pub const ARCHIVE_SETTINGS: [&str; 4] =
    ["archive_mode", "archive_command", "archive_library", "archive_timeout"];

impl ArchiveKind {
    /// That of a case, as it says or as its command implies.
    pub fn from_case(case: &Case) -> ArchiveKind {
        let implied = match case.get(keys::topology::archive::COMMAND) {
            Some(_) => ArchiveKind::Command,
            None => ArchiveKind::None,
        };
        case.get(keys::topology::archive::KIND).unwrap_or(implied)
    }
}

/// Most standbys of a case. Our convention: each is another copy of the data on this machine.
pub const STANDBYS_MAX: u32 = 9;

/// Which of the standbys that a case has a commit waits for: the value of `synchronous_standby_names` without their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Synchronous {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// So many, whichever answer first (`ANY`, PostgreSQL 10 and later).
    Any(u32),
    /// The first so many of those that are connected (`FIRST`).
    First(u32),
}

impl Synchronous {
    /// The value of `synchronous_standby_names` for these standbys of the primary; empty if a commit waits for none.
    pub fn names(self, standbys: &[String]) -> String {
        if standbys.is_empty() {
            return String::new();
        }
        let (n_standbys, all) = (standbys.len(), standbys.join(", "));
        match self {
            Synchronous::None => String::new(),
            // One of them is waited for without a number, which releases before 9.6 do not take.
            Synchronous::All if n_standbys == 1 => all,
            Synchronous::First(1) => all,
            Synchronous::All => format!("{n_standbys} ({all})"),
            Synchronous::First(n) => format!("{n} ({all})"),
            Synchronous::Any(n) => format!("ANY {n} ({all})"),
        }
    }

    /// How many standbys it takes.
    pub fn n_needed(self, n_standbys: u32) -> u32 {
        match self {
            Synchronous::None => 0,
            Synchronous::All => n_standbys,
            Synchronous::Any(n) | Synchronous::First(n) => n,
        }
    }
}

words! {
    /// Where transactions that only read go.
    Reads, "a place to read" {
        /// To the primary.
        #[default]
        Primary = "primary",
        /// To its standbys, each connection to one of them by chance.
        Standbys = "standbys",
        /// To the primary and its standbys, in the same way.
        All = "all",
    }
}

/// The name of a standby, from 1: its `application_name`, and that of its slot.
pub fn standby_name(number: u32) -> String {
    format!("s{number}")
}

impl fmt::Display for Synchronous {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Synchronous::None => f.write_str("none"),
            Synchronous::All => f.write_str("all"),
            Synchronous::Any(n) => write!(f, "any {n}"),
            Synchronous::First(n) => write!(f, "first {n}"),
        }
    }
}

impl FromStr for Synchronous {
    type Err = String;

    fn from_str(text: &str) -> Result<Synchronous, String> {
        let refused =
            || format!("`{text}` does not say which standbys a commit waits for: none, all, any N, first N");
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let number = |text: &str| {
            let n = text.parse().ok().filter(|n| (1..=STANDBYS_MAX).contains(n));
            n.ok_or_else(|| format!("`{text}` is no number of standbys: 1 to {STANDBYS_MAX}"))
        };
        match words.as_slice() {
            ["none"] => Ok(Synchronous::None),
            ["all"] => Ok(Synchronous::All),
            ["any", n] => number(n).map(Synchronous::Any),
            ["first", n] => number(n).map(Synchronous::First),
            _ => Err(refused()),
        }
    }
}

as_text!(Synchronous);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_standbys_that_there_are() {
        for (text, n, names) in [
            ("none", 2, ""),
            ("all", 0, ""),
            ("all", 1, "s1"),
            ("first 1", 2, "s1, s2"),
            ("ALL", 3, "3 (s1, s2, s3)"),
            ("any 1", 2, "ANY 1 (s1, s2)"),
            ("first  2", 3, "2 (s1, s2, s3)"),
        ] {
            let all: Vec<String> = (1..=n).map(standby_name).collect();
            assert_eq!(text.parse::<Synchronous>().unwrap().names(&all), names, "{text}");
        }
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "some", "any", "any 0", "any 10", "first x", "any 1 2"] {
            assert!(text.parse::<Synchronous>().is_err(), "{text}");
        }
    }
}
