//! The table of keys: a key of the experiment file exists if and only if it is a row of its section here.
//!
//! A row is the documentation, the name and the type of a key with its default, what its value may be, and the default in
//! words. The section that serde reads, the levels that the plan varies, the JSON Schema and the tables of the documents
//! are made from the rows.

pub mod bounds;
pub mod header;
pub mod hooks;
pub mod key;
pub mod levels;
pub mod limits;
pub mod option;
pub mod os;
pub mod prepare;
pub mod row;
pub mod run;
pub mod server;
pub mod topology;
pub mod value;
pub mod workload;

use crate::experiment::keys::key::Key;
use crate::experiment::keys::option::KeyOption;
use crate::experiment::keys::row::{KeyRow, NAME};
use crate::experiment::keys::value::{KeyValue, Named};
pub use topology::pooler;

/// Declares a section: its type, a name for each row, and the rows.
macro_rules! section {
    ($(#[$about:meta])* $section:ident: $name:ident {
        $(
            $(#[doc = $what:literal])+
            $(#[serde($($serde:tt)*)])*
            $key:ident = $field:ident: $type:ty $(= $default:expr)?, $row:expr;
        )+
    }) => {
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        $(#[$about])*
        pub struct $name {
            $($(#[doc = $what])+ $(#[serde($($serde)*)])* pub $field: $type,)+
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: super::default_of!($($default)?),)+ }
            }
        }

        $(
            $(#[doc = $what])+
            pub const $key: super::key::Key<$type> = super::key::Key {
                name: concat!(stringify!($section), ".", stringify!($field)),
                read: |experiment| &experiment.$section.$field,
                is_carried: {
                    const ROW: super::row::KeyRow = $row;
                    ROW.carried.is_some()
                },
            };
        )+

        /// The keys of the section.
        pub const ROWS: &[super::row::KeyRow] = &[$(super::row::KeyRow {
            name: super::value::name::<$type>(
                concat!(stringify!($section), ".", stringify!($field)),
                concat!(stringify!($section), ".", stringify!($field), ".NAME"),
            ),
            what: concat!($($what),+),
            may_vary: <$type as super::value::KeyValue>::MAY_VARY,
            dimensions: |experiment| super::value::KeyValue::dimensions($key.of(experiment), $key.name),
            keep: |experiment, is_kept| {
                super::value::KeyValue::keep(&mut experiment.$section.$field, is_kept)
            },
            chosen: |experiment, level| super::value::value_of(&$key.chosen(experiment, level)),
            reads: super::value::reads::<$type>,
            as_cases_write: <$type as super::value::KeyValue>::as_cases_write,
            ..$row
        }),+];
    };
}
pub(crate) use section;

/// The default of a key: the one that its row names, else that of its type.
macro_rules! default_of {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}
pub(crate) use default_of;

/// Servers in different places, which are a factor by their names.
pub const TARGET: &str = "target";

const TARGETS: &[KeyRow] = &[KeyRow {
    name: TARGET,
    what: "servers in different places (see *Targets*)",
    may_vary: true,
    is_of_place: true,
    dimensions: |experiment| {
        let names: Vec<String> = experiment.target.iter().map(|target| target.name.clone()).collect();
        if names.is_empty() { Vec::new() } else { vec![(TARGET.to_string(), names)] }
    },
    ..row::row(row::KeyKind::Table, "none")
}];

/// Faults that are injected while the load runs, which are a factor by their names.
pub const OUTAGE: &str = "outage";

const OUTAGES: &[KeyRow] = &[KeyRow {
    name: OUTAGE,
    what: "a fault that is injected while the load runs, and what follows it: tables `[[outage]]`, or faults alone such as `\"kill-primary\"`",
    may_vary: true,
    keeps_all: true,
    is_of_place: true,
    dimensions: |experiment| {
        let names: Vec<String> = experiment.outage.levels().into_iter().map(|level| level.name).collect();
        if names.is_empty() { Vec::new() } else { vec![(OUTAGE.to_string(), names)] }
    },
    option: Some(
        KeyOption::text(
            "outage",
            "FAULT,...",
            "Fault that is injected while the load runs: kill-primary, kill-standby, stop-primary, switchover, freeze s1, cut s1, slow s1 20ms, throttle s1 1MB/s, load s1 FILE.sql, hook:PROGRAM (called with do, check and undo); several make a factor; needs a rate (--pace)",
        )
        .both("Fault that is injected on both sides while the load runs, as for `run`"),
    ),
    ..row::row(row::KeyKind::Outages, "none")
}];

/// What only the user's hooks know, by name.
pub const FACTORS: Key<Named> =
    Key { name: "factors", read: |experiment| &experiment.factors, is_carried: false };

const FREE: &[KeyRow] = &[KeyRow {
    name: "factors.NAME",
    what: "a value that pgdyno does not know and your hooks set (see *Hooks*)",
    may_vary: true,
    keeps_all: true,
    dimensions: |experiment| FACTORS.of(experiment).dimensions(FACTORS.name),
    ..row::row(row::SETTING, "")
}];

/// The table of keys, section by section.
pub const KEYS: [&[KeyRow]; 14] = [
    header::ROWS,
    TARGETS,
    server::ROWS,
    topology::ROWS,
    topology::archive::ROWS,
    pooler::ROWS,
    OUTAGES,
    workload::ROWS,
    run::ROWS,
    limits::ROWS,
    prepare::ROWS,
    os::ROWS,
    FREE,
    hooks::ROWS,
];

/// All rows, in the order of the documents.
pub fn all() -> impl Iterator<Item = &'static KeyRow> {
    KEYS.into_iter().flatten()
}

/// The row of a key; of a name of the user's, that which stands for all.
pub fn find(key: &str) -> Option<&'static KeyRow> {
    all().find(|row| match row.name.strip_suffix(NAME) {
        Some(start) => key.strip_prefix(start).is_some_and(|name| !name.is_empty()),
        None => row.name == key,
    })
}

#[cfg(test)]
mod tests {
    use super::row::KeyKind;
    use super::*;
    use crate::experiment::Experiment;
    use crate::experiment::selector::is_level;

    #[test]
    fn each_key_is_one_row() {
        let mut names: Vec<&str> = all().map(|row| row.name).collect();
        names.sort_unstable();
        let n = names.len();
        names.dedup();
        assert_eq!(names.len(), n);
        let named = |key: &str| find(key).map(|row| row.name);
        assert_eq!(named("run.measure"), Some("run.measure"));
        assert_eq!(named("server.settings.auto_explain.log_min_duration"), Some("server.settings.NAME"));
        assert_eq!((named("server.settings."), named("run.mesure")), (None, None));
        for row in all() {
            assert!(!row.what().is_empty() && !row.what().ends_with('.'), "{}", row.name);
            assert!(!row.what().contains(['|', '\n']) && !row.what().contains("  "), "{}", row.name);
        }
    }

    #[test]
    fn bounds_that_a_row_says_are_those_of_its_kind() {
        let number = |word: &str| word.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().ok();
        let mut n = 0;
        for row in all() {
            let words: Vec<&str> = row.what().split(' ').collect();
            let ranges = words.windows(3).filter(|words| words[1] == "to");
            let said = ranges.filter_map(|words| number(words[0]).zip(number(words[2]))).next();
            let least_s = row.what().split_once("at least `").and_then(|(_, rest)| rest.split_once("s`"));
            let seconds = row.kinds().iter().find_map(|kind| match kind {
                KeyKind::Seconds(least) => Some(least.to_string()),
                _ => None,
            });
            let whole = row.kinds().iter().find_map(|kind| match kind {
                KeyKind::Whole(least, most) => Some((*least, *most)),
                _ => None,
            });
            if let Some(bounds) = whole.and(said) {
                assert_eq!(Some(bounds), whole, "{}", row.name);
                n += 1;
            }
            if let Some((least, _)) = seconds.as_ref().and(least_s) {
                assert_eq!(Some(least), seconds.as_deref(), "{}", row.name);
                n += 1;
            }
        }
        assert!(n > 10, "{n}");
    }

    #[test]
    fn the_default_that_is_documented_is_the_one_of_the_code() {
        let experiment: Experiment = toml::from_str("[experiment]\nname = \"x\"\n").unwrap();
        let mut n = 0;
        for row in all() {
            for (name, levels) in (row.dimensions)(&experiment) {
                let default = row.default.replace(['`', '"'], "");
                assert!(
                    levels.len() == 1 && is_level(&name, &default, &levels[0]),
                    "{name}: {default}, {levels:?}"
                );
                n += 1;
            }
        }
        assert!(n > 20, "{n}");
        assert_eq!(experiment.experiment.repeats.to_string(), find(header::REPEATS.name).unwrap().default);
        assert_eq!(
            experiment,
            Experiment { experiment: experiment.experiment.clone(), ..Experiment::default() }
        );
    }

    #[test]
    fn levels_are_those_of_the_file() {
        let text = "[experiment]\nname = \"x\"\n[run]\nmeasure = [\"60s\", \"2min\"]\n[server.settings]\nwork_mem = 4096\n";
        let experiment: Experiment = toml::from_str(text).unwrap();
        let dimensions = |key: &str| (find(key).unwrap().dimensions)(&experiment);
        assert_eq!(
            dimensions("run.measure"),
            [("run.measure".to_string(), vec!["1min".to_string(), "2min".to_string()])]
        );
        let of_settings = [("server.settings.work_mem".to_string(), vec!["4096".to_string()])];
        assert_eq!(dimensions("server.settings.NAME"), of_settings);
        assert!(dimensions("run.perf").is_empty());
    }
}
