//! The release of pgbench to imitate, and how the releases differ.

use std::str::FromStr;

/// A release of pgbench. Options, output and a few statements differ between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
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

    /// `-d` is the database, and debugging has only a long option; `--exit-on-abort` exists (17).
    pub(crate) fn has_dbname_option(self) -> bool {
        self >= Compat::V17
    }

    /// Scripts may use `\syncpipeline` (17).
    pub(crate) fn has_syncpipeline(self) -> bool {
        self >= Compat::V17
    }

    /// The soft limit of open files is raised as far as needed (18).
    pub(crate) fn raises_file_limit(self) -> bool {
        self >= Compat::V18
    }

    /// Branches and tellers are also loaded by COPY, and progress names the table (17).
    pub(crate) fn copies_all_tables(self) -> bool {
        self >= Compat::V17
    }

    /// Asks the server for each table whether it allows COPY FREEZE (18). Earlier releases derive it from the options,
    /// so 17 tries in vain on a partitioned table if the options do not mention partitions.
    pub(crate) fn asks_relkind(self) -> bool {
        self >= Compat::V18
    }

    /// The setting's name in a message is quoted (17).
    pub(crate) fn quotes_search_path(self) -> bool {
        self >= Compat::V17
    }

    /// With partitions, `--unlogged-tables` applies to the partitions only (18).
    pub(crate) fn keeps_parents_logged(self) -> bool {
        self >= Compat::V18
    }

    /// Per script, the number of all transactions comes before that of processed ones (18).
    pub(crate) fn counts_all_per_script(self) -> bool {
        self >= Compat::V18
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
