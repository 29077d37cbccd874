//! Copies of programs that `--upload` has left on this machine, for drivers and eyes of experiments elsewhere.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// A copy, and the process that runs it, which keeps it from being removed.
#[derive(Debug, PartialEq, Eq)]
pub struct UploadedCopy {
    /// Its file, which was removed unless a process runs it.
    pub path: PathBuf,
    /// Process id.
    pub run_by: Option<u32>,
}

/// Removes the copies below the user's directory of caches (XDG base directories), except those that run. A file there is one if its name is
/// the SHA-256 of its bytes and it is this user's: nobody else names files so, and no other file is touched.
pub fn remove_copies(caches: &Path) -> Vec<UploadedCopy> {
    // Processes have their programs by names without links.
    let Ok(dir) = fs::canonicalize(caches.join("pgdyno/drivers")) else { return Vec::new() };
    if files::trust::check_directory(&dir).is_err() {
        return Vec::new();
    }
    let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_copy(path)).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let run_by = runner(&path);
        if run_by.is_some() || fs::remove_file(&path).is_ok() {
            found.push(UploadedCopy { path, run_by });
        }
    }
    // Only if it is empty.
    fs::remove_dir(&dir).ok();
    found
}

fn is_copy(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_named = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_ours =
        || fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file() && facts.uid() == geteuid().as_raw());
    is_named && is_ours() && files::sha256(path).is_ok_and(|sha256| sha256 == name)
}

/// A process that runs the file, of those whose program this user may know.
fn runner(path: &Path) -> Option<u32> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == path))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn copies_are_removed_unless_they_run_and_no_other_file_is() {
        let caches = tempfile::tempdir().unwrap();
        assert_eq!(remove_copies(caches.path()), []);
        // As the kernel names it.
        let dir = fs::canonicalize(caches.path()).unwrap().join("pgdyno/drivers");
        fs::create_dir_all(&dir).unwrap();
        let put = |bytes: &[u8]| {
            let path = dir.join(files::sha256_of(bytes).unwrap());
            fs::write(&path, bytes).unwrap();
            path
        };
        let idle = put(b"a program");
        let altered = put(b"another");
        fs::write(&altered, "of somebody").unwrap();
        let named = dir.join("README");
        fs::write(&named, "of somebody").unwrap();
        let sleep = put(&fs::read("/bin/sleep").unwrap());
        fs::set_permissions(&sleep, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let mut running = Command::new(&sleep).arg("60").stdin(Stdio::null()).spawn().unwrap();
        let caches = dir.parent().unwrap().parent().unwrap();
        let found = remove_copies(caches);
        let pid = running.id();
        running.kill().unwrap();
        running.wait().unwrap();
        let of = |path: &PathBuf, run_by| UploadedCopy { path: path.clone(), run_by };
        let mut expected = vec![of(&idle, None), of(&sleep, Some(pid))];
        expected.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(found, expected);
        assert!(!idle.exists() && altered.exists() && named.exists() && sleep.exists());
        assert_eq!(remove_copies(caches), [of(&sleep, None)]);
        fs::remove_file(&altered).unwrap();
        fs::remove_file(&named).unwrap();
        remove_copies(caches);
        assert!(!dir.exists());
    }
}
