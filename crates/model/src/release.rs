//! What each release of PostgreSQL has, renamed or dropped, as far as it concerns pgdyno: the one place that compares versions.
//! All other code asks by name: `Release::new(version_num).has(privileges::MAINTAIN)`.
//!
//! A row is a constant of a file here, with its release. Not here: which archives are
//! fetched, and their hashes, which are `server`'s.

use std::fmt;

pub mod catalogs;
pub mod functions;
pub mod pgbench;
pub mod privileges;
pub mod programs;
pub mod settings;
pub mod statistics;

/// A release, as `server_version_num` counts it: 180006 for 18.6, 90624 for 9.6.24. A beta is its first release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release(u32);

/// A thing that a range of releases has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// `server_version_num` of the first release that has it.
    since: u32,
    /// That of the first release that no longer has it.
    until: Option<u32>,
}

/// A thing that one release renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renamed {
    /// `server_version_num` of the first release with the new name.
    since: u32,
    before: &'static str,
    after: &'static str,
}

/// A row of a list that is not the same for all releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given<T> {
    when: Feature,
    what: T,
}

impl Feature {
    /// What all releases have that pgdyno measures.
    pub const ALWAYS: Feature = since(0);

    /// The same feature, dropped by a release.
    const fn until(self, version_num: u32) -> Feature {
        Feature { until: Some(version_num), ..self }
    }

    /// The first release with it, as people write it: `10`, `9.6`.
    pub fn first(self) -> String {
        Release(self.since).series()
    }
}

/// A feature of this release and all later ones.
const fn since(version_num: u32) -> Feature {
    Feature { since: version_num, until: None }
}

/// A feature of all releases before this one.
const fn until(version_num: u32) -> Feature {
    Feature::ALWAYS.until(version_num)
}

const fn renamed(version_num: u32, before: &'static str, after: &'static str) -> Renamed {
    Renamed { since: version_num, before, after }
}

const fn given<T: Copy>(when: Feature, what: T) -> Given<T> {
    Given { when, what }
}

impl Release {
    /// The oldest one that pgdyno measures: 9.4 brought ALTER SYSTEM, replication slots and `pg_stat_activity.backend_xmin`.
    pub const OLDEST: Release = Release(90_400);
    /// The newest series that pgdyno's tests measure. What is known of later ones is in the tables all the same.
    pub const NEWEST: Release = Release(180_000);

    /// That of a `server_version_num`.
    pub const fn new(version_num: u32) -> Release {
        Release(version_num)
    }

    /// Whether it has a feature.
    pub const fn has(self, feature: Feature) -> bool {
        let is_dropped = match feature.until {
            Some(until) => self.0 >= until,
            None => false,
        };
        feature.since <= self.0 && !is_dropped
    }

    /// The name that it has for a thing.
    pub const fn name(self, thing: Renamed) -> &'static str {
        if self.0 < thing.since { thing.before } else { thing.after }
    }

    /// The rows of a list that it has, in order.
    pub fn of<T: Copy>(self, list: &[Given<T>]) -> Vec<T> {
        list.iter().filter(|row| self.has(row.when)).map(|row| row.what).collect()
    }

    /// Whether pgdyno measures it.
    pub const fn is_supported(self) -> bool {
        self.0 >= Release::OLDEST.0
    }

    /// What to say of a release that is newer than this pgdyno.
    pub fn note_if_newer(self) -> Option<String> {
        (self.major() > Release::NEWEST.major()).then(|| {
            format!(
                "PostgreSQL {} is newer than what this pgdyno knows: it measures it like {}; statistics, settings and wait events \
                 that are new or renamed since may be missing",
                self.series(),
                Release::NEWEST.series()
            )
        })
    }

    /// Whether its series is newer than that of another: `18` than `17`, `9.6` than `9.5`.
    pub const fn is_of_newer_series(self, other: Release) -> bool {
        self.0 / 100 > other.0 / 100
    }

    /// Major version: 18, 10, or 9 for 9.6.
    pub const fn major(self) -> u32 {
        self.0 / 10_000
    }

    /// Series as people write it: `18`, `9.6`.
    pub fn series(self) -> String {
        if self.has(TWO_PART_NUMBERS) {
            self.major().to_string()
        } else {
            format!("{}.{}", self.major(), self.0 / 100 % 100)
        }
    }
}

/// From 10 on, a release has two numbers instead of three.
const TWO_PART_NUMBERS: Feature = since(100_000);

impl fmt::Display for Release {
    /// As people write it: `18.6`, `9.6.24`.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let last = if self.has(TWO_PART_NUMBERS) { self.0 % 10_000 } else { self.0 % 100 };
        write!(f, "{}.{last}", self.series())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_written_as_people_do() {
        for (version_num, release, series) in [
            (180_006, "18.6", "18"),
            (100_023, "10.23", "10"),
            (90_624, "9.6.24", "9.6"),
            (90_426, "9.4.26", "9.4"),
        ] {
            let found = Release::new(version_num);
            assert_eq!((found.to_string().as_str(), found.series().as_str()), (release, series));
        }
    }

    #[test]
    fn a_feature_begins_and_ends_with_a_release() {
        let had =
            |feature: Feature| [90_624, 100_000, 109_999, 110_000].map(|n| Release::new(n).has(feature));
        assert_eq!(had(since(100_000)), [false, true, true, true]);
        assert_eq!(had(until(110_000)), [true, true, true, false]);
        assert_eq!(had(since(100_000).until(110_000)), [false, true, true, false]);
        // What any release may have made is asked for so.
        assert!(Release::new(u32::MAX).has(since(110_000)) && !Release::new(u32::MAX).has(until(110_000)));
        assert_eq!(had(Feature::ALWAYS), [true; 4]);
        let name = |n: u32| Release::new(n).name(functions::WAL_DIRECTORY);
        assert_eq!([name(90_624), name(100_000)], ["pg_xlog", "pg_wal"]);
        let list = [given(until(100_000), "a"), given(Feature::ALWAYS, "b"), given(since(100_000), "c")];
        assert_eq!(Release::new(90_624).of(&list), ["a", "b"]);
        assert_eq!(Release::new(180_006).of(&list), ["b", "c"]);
        assert_eq!([since(90_600).first(), since(170_000).first()], ["9.6", "17"]);
    }

    #[test]
    fn a_release_that_is_newer_than_pgdyno_gets_a_note() {
        for n in [90_426, 180_006] {
            assert_eq!(Release::new(n).note_if_newer(), None);
        }
        let note = Release::new(190_000).note_if_newer().unwrap();
        assert!(
            note.starts_with("PostgreSQL 19 is newer than what this pgdyno knows: it measures it like 18"),
            "{note}"
        );
        assert!(Release::new(90_400).is_supported() && !Release::new(90_325).is_supported());
    }
}
