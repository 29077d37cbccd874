//! Which release a bare series means, and the SHA-256 that its archive must have.
//!
//! A pin makes `18` the same bytes everywhere, and lets a cached release be used without asking the network.
//! Other exact releases can be fetched; nothing vouches for them but the source's own checksum.

use model::text::units::PgVersion;
use semver::{Comparator, Op, Prerelease, VersionReq};

/// One pinned archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// Processor architecture as Rust names it.
    pub arch: &'static str,
    /// Release series: `18`, `9.6`.
    pub series: &'static str,
    /// Release: `18.6`, `9.6.24`.
    pub release: &'static str,
    /// Number that the archive is published under. From 10 on its third part counts packagings of one release:
    /// `11.22.1` is PostgreSQL 11.22, packaged a second time.
    pub archive: &'static str,
    /// SHA-256 of the archive as published, hexadecimal.
    pub sha256: &'static str,
}

/// Series that pgdyno knows, oldest first.
pub const SERIES: [&str; 10] = ["9.6", "10", "11", "12", "13", "14", "15", "16", "17", "18"];

/// The newest release of each series when this table was made.
#[rustfmt::skip]
pub const PINS: &[Pin] = &[
    pin("x86_64", "9.6", "9.6.24", "9.6.24", "3d4bdb64d4bb0a8757f1efacfed3994aa4a0a37002d5222d7be6c3ddea95e474"),
    pin("x86_64", "10", "10.23", "10.23.0", "e55e42533e1c2f135a4ef0c9e2cde634ff891dc71160483c12951fd611d8bc7c"),
    pin("x86_64", "11", "11.22", "11.22.1", "89af78cc2c4dd05f7b7a665100b12cf9ec6c8d77e00e08c186e598730a0d4adf"),
    pin("x86_64", "12", "12.22", "12.22.0", "f50ddff3308a65e2423ecfd94aefc200d7fe7e2a24d45c6aadb0a6cfbe9284c4"),
    pin("x86_64", "13", "13.23", "13.23.0", "0713b8a6dbe13440718ea789eefca6ae562b004bc0541d9c21d20300529c1db2"),
    pin("x86_64", "14", "14.24", "14.24.0", "2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4"),
    pin("x86_64", "15", "15.19", "15.19.0", "95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f"),
    pin("x86_64", "16", "16.15", "16.15.0", "653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2"),
    pin("x86_64", "17", "17.11", "17.11.0", "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d"),
    pin("x86_64", "18", "18.6", "18.6.0", "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1"),
];

const fn pin(
    arch: &'static str,
    series: &'static str,
    release: &'static str,
    archive: &'static str,
    sha256: &'static str,
) -> Pin {
    Pin { arch, series, release, archive, sha256 }
}

/// The pin of a series on an architecture.
pub fn pin_of_series(arch: &str, series: &str) -> Option<&'static Pin> {
    PINS.iter().find(|pin| pin.arch == arch && pin.series == series)
}

/// The pin of an exact release on an architecture.
pub fn pin_of_release(arch: &str, release: &str) -> Option<&'static Pin> {
    PINS.iter().find(|pin| pin.arch == arch && pin.release == release)
}

/// Whether the text names a series rather than one release.
pub fn is_series(version: &PgVersion) -> bool {
    version.as_str() == version.series()
}

/// Which archives hold a release: one number for 9.6, any packaging from 10 on. `None` if the text names no release.
pub fn archives_of_release(release: &str) -> Option<VersionReq> {
    let parts: Option<Vec<u64>> = release.split('.').map(|part| part.parse().ok()).collect();
    match *parts?.as_slice() {
        [major, minor, patch] if major == 9 => Some(request(Op::Exact, major, Some(minor), Some(patch))),
        [major, minor] if major > 9 => Some(request(Op::Tilde, major, Some(minor), None)),
        _ => None,
    }
}

/// Which archives hold releases of a series. `None` if the text names no series.
pub fn archives_of_series(series: &str) -> Option<VersionReq> {
    let parts: Option<Vec<u64>> = series.split('.').map(|part| part.parse().ok()).collect();
    match *parts?.as_slice() {
        [major, minor] if major == 9 => Some(request(Op::Tilde, major, Some(minor), None)),
        [major] if major > 9 => Some(request(Op::Tilde, major, None, None)),
        _ => None,
    }
}

/// The one archive of this number. `None` if it is not made of three numbers.
pub fn archive_exactly(archive: &str) -> Option<VersionReq> {
    let version = semver::Version::parse(archive).ok()?;
    Some(request(Op::Exact, version.major, Some(version.minor), Some(version.patch)))
}

fn request(op: Op, major: u64, minor: Option<u64>, patch: Option<u64>) -> VersionReq {
    VersionReq { comparators: vec![Comparator { op, major, minor, patch, pre: Prerelease::EMPTY }] }
}

/// PostgreSQL's name of the release in an archive.
pub fn semver_to_release(version: &semver::Version) -> String {
    if version.major == 9 {
        format!("{}.{}.{}", version.major, version.minor, version.patch)
    } else {
        format!("{}.{}", version.major, version.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_in_any_of_its_packagings_and_in_no_other_archive() {
        for (release, archives, others) in [
            ("11.22", &["11.22.0", "11.22.1"][..], &["11.21.0", "11.2.0", "12.22.0"][..]),
            ("9.6.2", &["9.6.2"], &["9.6.24", "9.6.1"]),
        ] {
            let request = archives_of_release(release).unwrap();
            for archive in archives {
                let version = archive.parse().unwrap();
                assert!(request.matches(&version), "{archive}");
                assert_eq!(semver_to_release(&version), release);
            }
            for archive in others {
                assert!(!request.matches(&archive.parse().unwrap()), "{archive}");
            }
        }
        for release in ["18", "9.6", "18.6.0", "x", ""] {
            assert_eq!(archives_of_release(release), None, "{release}");
        }
        for (series, archive) in [("9.6", "9.6.24"), ("10", "10.23.0"), ("18", "18.6.0")] {
            assert!(archives_of_series(series).unwrap().matches(&archive.parse().unwrap()));
        }
    }

    #[test]
    fn every_pin_belongs_to_its_series_and_has_a_whole_hash() {
        for pin in PINS {
            let version: PgVersion = pin.release.parse().unwrap();
            assert_eq!(version.series(), pin.series);
            let archive = pin.archive.parse().unwrap();
            assert!(archives_of_release(pin.release).unwrap().matches(&archive), "{}", pin.archive);
            assert!(archive_exactly(pin.archive).unwrap().matches(&archive), "{}", pin.archive);
            assert!(SERIES.contains(&pin.series));
            assert_eq!(pin.sha256.len(), 64, "{}", pin.release);
            assert!(pin.sha256.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase()));
        }
    }

    #[test]
    fn every_series_has_a_pin_on_the_usual_architecture() {
        for series in SERIES {
            assert!(pin_of_series("x86_64", series).is_some(), "{series}");
        }
    }
}
