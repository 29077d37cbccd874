//! A workload directory that a command writes.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// Others may read a workload, and change it as the umask lets them.
const MODE: u32 = 0o666;

/// Writes files, whose names have only directories below `dir`, into a directory that does not exist or is empty.
///
/// # Errors
/// When there is anything in the directory, or it cannot be made or written.
pub(super) fn write<'a>(dir: &Path, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<usize> {
    expect_empty(dir)?;
    if nix::unistd::geteuid().is_root() {
        files::trust::check_output(dir)?;
    }
    let mut n_files = 0;
    for (name, text) in files {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot create the directory `{}`", parent.display()))?;
        let written = files::create_new(&path, MODE).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write `{}`", path.display()))?;
        n_files += 1;
    }
    Ok(n_files)
}

/// Fails if there is something that a new directory would mix with.
fn expect_empty(dir: &Path) -> Result<()> {
    let shown = dir.display();
    match std::fs::read_dir(dir) {
        Ok(mut entries) => {
            ensure!(
                entries.next().is_none(),
                "directory `{shown}` is not empty; choose another one, or remove it"
            );
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            bail!("`{shown}` is no directory; choose another name")
        }
        Err(error) => Err(error).with_context(|| format!("cannot read the directory `{shown}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_only_into_a_new_or_empty_directory() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("a/shop");
        let files = [("workload.toml", "x"), ("transactions/a.sql", "select 1;")];
        assert_eq!(write(&dir, files).unwrap(), 2);
        assert_eq!(std::fs::read_to_string(dir.join("transactions/a.sql")).unwrap(), "select 1;");
        let refused = write(&dir, files).unwrap_err().to_string();
        assert!(refused.ends_with("shop` is not empty; choose another one, or remove it"), "{refused}");
        let file = place.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        let refused = write(&file, files).unwrap_err().to_string();
        assert!(refused.contains("is no directory"), "{refused}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }
}
