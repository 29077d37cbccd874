//! Unfinished builds: a killed pgdyno leaves its copy of the tree, what it had installed, and half of a mirror.

use std::path::Path;

use files::trust;

use crate::binaries::fetch::Cache;
use crate::swept::Swept;
use crate::temporary;

/// Endings of the names of directories that a build works in; the mark in them decides.
const WORK: &str = "work";
pub(super) const PART: &str = "part";

/// Removes what unfinished builds left, unless a pgdyno is working on it; returns the paths. In a directory where
/// another user could have put it, nothing is removed, and nowhere what has no mark of pgdyno.
pub fn sweep(cache: &Cache) -> Vec<Swept> {
    let builds = cache.dir.join("builds");
    let mut swept = Vec::new();
    for (dir, ending) in [(builds.clone(), WORK), (builds.join("repositories"), PART)] {
        let Ok(dir) = trust::check_directory(&dir) else { continue };
        let has_ending = |name: &str| Path::new(name).extension().is_some_and(|found| found == ending);
        swept.extend(temporary::sweep(&dir, has_ending));
    }
    swept
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::temporary::Temporary;

    /// The paths that sweeps remove until there are `n`, sorted: a child that another test forks holds a lock until its
    /// exec.
    fn sweep_up_to(n: usize, cache: &Cache) -> Vec<PathBuf> {
        let mut swept = Swept::removed(sweep(cache));
        for _ in 0..100 {
            if swept.len() >= n {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            swept.extend(Swept::removed(sweep(cache)));
        }
        swept.sort();
        swept
    }

    #[test]
    fn unfinished_builds_are_removed_unless_another_process_works_on_them() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::at(place.path());
        let builds = place.path().join("builds");
        fs::create_dir_all(builds.join("repositories")).unwrap();
        let ours =
            ["REL_15_1-ab.work", "busy-cd.work", "repositories/0123.part"].map(|name| builds.join(name));
        let [left, busy, part] = ours.map(|path| {
            let made = Temporary::make(&path, 0o755).unwrap();
            fs::create_dir_all(path.join("source/usr")).unwrap();
            made
        });
        // Such a name proves nothing.
        for name in ["mine.work/photos", "mine.stage/photos", "done-ef/bin", "repositories/mine.part/x"] {
            fs::create_dir_all(builds.join(name)).unwrap();
        }
        let paths = [left.path(), part.path()].map(Path::to_path_buf);
        for made in [left, part] {
            made.leave();
        }
        assert_eq!(sweep_up_to(2, &cache), paths);
        assert!(busy.path().join("source").exists() && builds.join("done-ef/bin").exists());
        for name in ["mine.work/photos", "mine.stage/photos", "repositories/mine.part/x"] {
            assert!(builds.join(name).exists(), "{name}");
        }
        let path = busy.path().to_path_buf();
        busy.leave();
        assert_eq!(sweep_up_to(1, &cache), [path]);
        assert_eq!(sweep(&Cache::at("/nowhere")), Vec::<Swept>::new());
    }
}
