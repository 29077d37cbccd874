//! Unfinished builds: a killed pgdyno leaves its copy of the tree and what it had installed.

use std::fs;
use std::path::{Path, PathBuf};

use files::trust;

use crate::binaries::fetch::Cache;
use crate::user::beneath::remove_tree;

/// Endings of the directories that a build works in.
const HALF_MADE: [&str; 2] = ["work", "stage"];

/// Removes what unfinished builds left, unless a pgdyno is working on it; returns the paths. In a directory where
/// another user could have put it, nothing is removed.
pub fn sweep(cache: &Cache) -> Vec<PathBuf> {
    let Ok(builds) = trust::check_directory(&cache.dir.join("builds")) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(builds) else { return Vec::new() };
    let is_half_made = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| HALF_MADE.contains(&ending)) && !path.is_symlink() && path.is_dir()
    };
    let found = entries.flatten().map(|entry| entry.path()).filter(is_half_made);
    found.filter(|path| remove_unless_locked(path)).collect()
}

/// A build keeps its lock as long as it runs, so that whoever gets the lock is alone.
fn remove_unless_locked(path: &Path) -> bool {
    let lock = path.with_extension("lock");
    let file = files::lock_file(&lock);
    file.is_ok_and(|file| file.try_lock().is_ok() && remove_tree(path).is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The paths that sweeps remove until there are `n`, sorted: a child that another test forks holds a lock until its
    /// exec.
    fn sweep_up_to(n: usize, cache: &Cache) -> Vec<PathBuf> {
        let mut swept = sweep(cache);
        for _ in 0..100 {
            if swept.len() >= n {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            swept.extend(sweep(cache));
        }
        swept.sort();
        swept
    }

    #[test]
    fn unfinished_builds_are_removed_unless_another_process_works_on_them() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::at(place.path());
        let builds = place.path().join("builds");
        for name in ["REL_15_1-ab.work", "REL_15_1-ab.stage/usr", "busy-cd.work", "done-ef/bin"] {
            fs::create_dir_all(builds.join(name)).unwrap();
        }
        let lock = fs::File::create(builds.join("busy-cd.lock")).unwrap();
        lock.lock().unwrap();
        let half_made = ["REL_15_1-ab.stage", "REL_15_1-ab.work"].map(|name| builds.join(name));
        assert_eq!(sweep_up_to(2, &cache), half_made);
        assert!(builds.join("busy-cd.work").exists() && builds.join("done-ef/bin").exists());
        drop(lock);
        assert_eq!(sweep_up_to(1, &cache), [builds.join("busy-cd.work")]);
        assert_eq!(sweep(&Cache::at("/nowhere")), Vec::<PathBuf>::new());
    }
}
