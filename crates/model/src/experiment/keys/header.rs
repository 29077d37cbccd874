//! `[experiment]`: name, order, repeats.

use serde::{Deserialize, Serialize};

use super::option::KeyOption;
use super::row::{KeyKind, row};
use super::section;
use crate::experiment::plan::condition::Condition;
use crate::experiment::plan::{Design, RunOrder};
use crate::experiment::selector::Selector;

section! {
    /// `[experiment]`: name, order, repeats.
    #[serde(deny_unknown_fields)]
    experiment: Header {
        /// 1 to 64 letters, digits, `-`, `_`, `.`, not beginning with `.`; becomes part of the directory's name
        NAME = name: String,
            row(KeyKind::Name, "required");

        /// title of the reports
        #[serde(default, skip_serializing_if = "String::is_empty")]
        TITLE = title: String,
            row(KeyKind::Text, "workload, server, and what is measured by which factors");

        /// the question the experiment answers
        #[serde(default, skip_serializing_if = "String::is_empty")]
        DESCRIPTION = description: String,
            row(KeyKind::Text, "empty");

        /// determines the order of the runs and every random stream
        #[serde(default, skip_serializing_if = "Option::is_none")]
        SEED = seed: Option<u64>,
            row(KeyKind::Whole(0, i64::MAX as u64), "random, and recorded");

        /// number of runs of each case, 1 to 1000
        #[serde(default = "four")]
        REPEATS = repeats: u32 = four(),
            row(KeyKind::Whole(1, 1000), "4")
                .given_by(KeyOption::number("repeats", "N", "5", "How often each case is run").not_of_both());

        /// `grid`: every combination of levels; `one-factor`: the first level of every factor, then each factor varied alone
        #[serde(default)]
        DESIGN = design: Design,
            row(KeyKind::Words(&Design::WORDS), "`grid`");

        /// `randomized`: blocks of every case once, each in its own random order; `by-server`: such blocks server by server, with one
        /// embedded cluster on disk at a time; `sequential`: case by case. The last two are reported as findings
        #[serde(default)]
        ORDER = order: RunOrder,
            row(KeyKind::Words(&RunOrder::WORDS), "`randomized`");

        /// lists of factors that vary together, with equally many levels: `[["server.version", "server.settings.wal_compression"]]`. A
        /// factor may be in one list only, and no combination may occur twice
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ZIP = zip: Vec<Vec<String>>,
            row(KeyKind::List(&KeyKind::List(&KeyKind::Text)), "none");

        /// combinations to leave out: `[{server.version = "9.6", workload.clients = [256, 512]}]`; the last part of a key (`clients`) is
        /// enough if unambiguous. Levels of `workload.scale`, `workload.pace` and durations of `run` match by value (`60s` is `1min`),
        /// others as written; one that no case has is refused, here and in `baseline`
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        EXCLUDE = exclude: Vec<Selector>,
            row(KeyKind::List(&KeyKind::Table), "none");

        /// what the numbers hold under, printed next to every figure, at most 120 characters each: a setting with its value
        /// (`"fsync=off"`), which lowers no grade where runs have it and is a doubt where they do not, or other words (`"disks encrypted by
        /// LUKS"`). It sets nothing: an embedded server needs the setting too. A size or time without a unit, or in per cent, is known to
        /// be met only where `server.settings` says the same
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        CONDITIONS = conditions: Vec<Condition>,
            row(KeyKind::List(&KeyKind::Text), "none");

        /// the case that reports compare the others with: `{server.version = "12"}` selects the first case with these levels. Each case is
        /// compared with the one that differs only in these keys and what is zipped with them, if that has a number. Labels of targets are
        /// keys, too: with `{provider = "aws"}`, it is the one of this label with the same levels of all other factors and most of the same
        /// other labels (of several, the first), which the report names
        #[serde(default, skip_serializing_if = "Option::is_none")]
        BASELINE = baseline: Option<Selector>,
            row(KeyKind::Table, "the first case that has a number; with clients among several factors, the case with as many clients and the first level of the first other factor");
    }
}

/// The fewest with which two stored results can be distinguished: a rank sum test of three and three never falls below 10 %.
fn four() -> u32 {
    4
}
