//! The release of pgbench to imitate. How the releases differ: `model::release::pgbench`.

use std::str::FromStr;

use model::release::{Feature, Release};

/// A release of pgbench. Options, output and a few statements differ between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Compat {
    /// PostgreSQL 15 (and 16, which reads and prints the same).
    V15,
    /// PostgreSQL 17.
    V17,
    /// PostgreSQL 18.
    #[default]
    V18,
}

impl Compat {
    /// Sets the release when no option does.
    pub(crate) const ENVIRONMENT: &'static str = "PGDYNO_COMPAT";

    /// The version as a program of that release prints it, plus the name of the real program.
    pub(crate) fn version(self) -> String {
        let release = match self {
            Compat::V15 => "15.18",
            Compat::V17 => "17.11",
            Compat::V18 => "18.6",
        };
        // In the place where distributors put their own name: `15.18 (Debian 15.18-0+deb12u1)`.
        format!("{release} (pgdyno {})", env!("CARGO_PKG_VERSION"))
    }

    /// Whether this release has a feature.
    pub(crate) fn has(self, feature: Feature) -> bool {
        let version_num = match self {
            Compat::V15 => 150_000,
            Compat::V17 => 170_000,
            Compat::V18 => 180_000,
        };
        Release::new(version_num).has(feature)
    }
}

impl FromStr for Compat {
    type Err = String;

    fn from_str(text: &str) -> Result<Compat, String> {
        match text {
            "15" | "16" => Ok(Compat::V15),
            "17" => Ok(Compat::V17),
            "18" => Ok(Compat::V18),
            _ => Err(format!("unrecognized release \"{text}\": use 15, 17 or 18")),
        }
    }
}
