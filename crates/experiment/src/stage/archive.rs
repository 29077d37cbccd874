//! What archives the WAL of our own server while the load runs.

use std::path::Path;

use anyhow::{Context, Result};
use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::topology::ArchiveKind;
use model::text::shell::single_quoted;
use server::Cluster;

/// Archived WAL of a cluster, which goes with this value.
#[derive(Debug, Default)]
pub(super) struct ArchivedWal(Option<Cluster>);

impl Drop for ArchivedWal {
    fn drop(&mut self) {
        // What stays is emptied before the next run.
        self.0.take().map(|cluster| cluster.remove_archive().ok());
    }
}

impl ArchivedWal {
    /// Removes what the last server has archived, and returns the settings with which that of a case archives.
    ///
    /// # Errors
    /// When the directory of copies cannot be made or emptied.
    pub(super) fn begin(&mut self, case: &Case, cluster: &Cluster) -> Result<Vec<(String, String)>> {
        *self = ArchivedWal::default();
        let command = match ArchiveKind::from_case(case) {
            ArchiveKind::None => return Ok(Vec::new()),
            ArchiveKind::Copy => {
                let directory = cluster.empty_archive().context(keys::topology::archive::KIND.name)?;
                *self = ArchivedWal(Some(cluster.clone()));
                copy_to(&directory)
            }
            ArchiveKind::Command => case.get(keys::topology::archive::COMMAND).unwrap_or_default(),
        };
        let of_case = [("archive_mode", "on".to_string()), ("archive_command", command)];
        Ok(of_case.map(|(name, value)| (name.to_string(), value)).into())
    }
}

/// A command that makes a durable copy of a segment: under another name until it is whole, never over another one, and synced with its
/// directory. A server that was killed before it noted that a segment was archived gives it again: one that is there and equal is archived
/// (PostgreSQL documentation, continuous archiving). It takes coreutils alone, which `cmp` is not of.
fn copy_to(directory: &Path) -> String {
    let directory = quoted(directory);
    format!(
        "if test -f {directory}/%f; then given=$(sha256sum < %p) && kept=$(sha256sum < {directory}/%f) && test \"$given\" = \"$kept\"; \
         else dd if=%p of={directory}/%f.part bs=1048576 conv=fsync status=none && mv {directory}/%f.part {directory}/%f; fi && \
         sync {directory}"
    )
}

/// A path as one word of a shell, in a setting in which `%` begins a placeholder.
fn quoted(path: &Path) -> String {
    single_quoted(&path.to_string_lossy().replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// A directory of programs that has no others than the command may use.
    fn coreutils(place: &Path) -> PathBuf {
        let programs = place.join("bin");
        fs::create_dir(&programs).unwrap();
        for name in ["dd", "mv", "sha256sum", "sync"] {
            let found = ["/usr/bin", "/bin"]
                .map(|dir| Path::new(dir).join(name))
                .into_iter()
                .find(|path| path.exists());
            symlink(found.unwrap(), programs.join(name)).unwrap();
        }
        programs
    }

    #[test]
    fn a_segment_is_archived_once_and_never_over_another_one() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("it's 100%");
        fs::create_dir(&directory).unwrap();
        let segment = place.path().join("segment");
        let programs = coreutils(place.path());
        let is_archived = |text: &str| {
            fs::write(&segment, text).unwrap();
            let command = copy_to(&directory).replace("%p", &segment.display().to_string());
            let command = command.replace("%f", "1").replace("%%", "%");
            let status =
                Command::new("/bin/sh").args(["-c", &command]).env("PATH", &programs).status().unwrap();
            (status.success(), fs::read_to_string(directory.join("1")).unwrap())
        };
        // What a copy that was cut off has left.
        fs::write(directory.join("1.part"), "a longer beginning").unwrap();
        assert_eq!(is_archived("whole"), (true, "whole".to_string()));
        assert_eq!(is_archived("whole"), (true, "whole".to_string()), "given again after a kill");
        assert_eq!(is_archived("other"), (false, "whole".to_string()));
        fs::write(directory.join("1"), "").unwrap();
        assert_eq!(is_archived("whole"), (false, String::new()), "an empty one is not over-written either");
        assert!(!directory.join("1.part").exists());
    }

    #[test]
    fn any_path_is_one_word_of_the_command() {
        for (path, word) in [
            ("/a/b", "'/a/b'"),
            ("/a b/c", "'/a b/c'"),
            ("/100%f/x", "'/100%%f/x'"),
            ("/it's", "'/it'\\''s'"),
            ("/$(id)", "'/$(id)'"),
        ] {
            assert_eq!(quoted(Path::new(path)), word, "{path}");
        }
    }
}
