//! `[archive]`: where WAL is archived while the load runs.

use serde::{Deserialize, Serialize};

use super::row::{Differs, KeyKind, of_place, row};
use crate::experiment::keys::levels::Levels;
use crate::experiment::keys::section;
use crate::experiment::topology::ArchiveKind;

section! {
    /// `[archive]`: where WAL is archived while the load runs.
    #[serde(deny_unknown_fields, default)]
    archive: ArchiveSection {
        /// what archives the WAL of a server that pgdyno runs: `none`, `copy` (a durable copy of each segment in a directory of the cluster
        /// that is emptied before each run), or `command`. Each run starts with `archive_mode = on` and nothing to archive
        #[serde(skip_serializing_if = "Option::is_none")]
        KIND = kind: Option<Levels<ArchiveKind>>,
            row(KeyKind::Words(&ArchiveKind::WORDS), "`command` if `archive.command` is given, else `none`")
                .carried(Differs::Question).whole();

        /// the `archive_command` of `kind = "command"`, with `%p` and `%f`; it runs as the server's user
        #[serde(skip_serializing_if = "Option::is_none")]
        COMMAND = command: Option<String>,
            of_place(KeyKind::Text, "").carried(Differs::Figures);
    }
}

impl ArchiveSection {
    /// Whether it is that of an experiment that says nothing.
    pub fn is_default(&self) -> bool {
        *self == ArchiveSection::default()
    }
}
