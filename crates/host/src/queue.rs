//! What the kernel resets when it gives a disk another I/O scheduler: the length of its queue, and the new scheduler's
//! parameters, which it always begins with their defaults (Linux, block/elevator.c).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Result, ensure};

use crate::kernel_files::KernelFiles;

const SCHEDULER: &str = "/queue/scheduler";

/// Files that are reset when `path` is written, with their values now, in the order in which they are to be restored:
/// the length of the queue decides what some parameters may be.
pub(crate) fn reset_with(machine: &KernelFiles, path: &str) -> Vec<(String, String)> {
    let Some(disk) = path.strip_suffix(SCHEDULER) else { return Vec::new() };
    let parameters = format!("{disk}/queue/iosched");
    let names = machine.names(&parameters).into_iter().map(|name| format!("{parameters}/{name}"));
    let files = std::iter::once(format!("{disk}/queue/nr_requests")).chain(names);
    files
        .filter(|file| is_setting(machine, file))
        .filter_map(|file| Some((file.clone(), machine.read(&file).ok()?)))
        .collect()
}

/// Other files there only report something.
fn is_setting(machine: &KernelFiles, path: &str) -> bool {
    fs::metadata(machine.path(path)).is_ok_and(|facts| facts.permissions().mode() & 0o200 != 0)
}

/// Restores what was reset, once the scheduler is the former one again.
///
/// # Errors
/// Names the first file that does not have its value then. The others are restored all the same.
pub(crate) fn put_back(machine: &KernelFiles, values: &[(String, String)]) -> Result<()> {
    let one = |(path, before): &(String, String)| -> Result<()> {
        let is_back = || machine.read(path).is_ok_and(|now| now == *before);
        if is_back() || !machine.exists(path) {
            return Ok(());
        }
        machine.write(path, before)?;
        ensure!(is_back(), "the kernel does not accept {before} for `{path}` any more");
        Ok(())
    };
    let results: Vec<Result<()>> = values.iter().map(one).collect();
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::path::Path;

    use super::*;
    use crate::keeper::{Keeper, undo_left};

    const JOURNAL: &str = "/run/pgdyno/os-undo.jsonl";
    const FILES: [&str; 4] = ["scheduler", "nr_requests", "iosched/read_expire", "iosched/in_flight"];

    fn path(name: &str) -> String {
        format!("/sys/block/vda/queue/{name}")
    }

    fn disk(root: &Path) -> KernelFiles {
        let machine = KernelFiles::at(root);
        fs::create_dir_all(machine.path(&path("iosched"))).unwrap();
        for (name, text) in FILES.into_iter().zip(["none\n", "1023\n", "100\n", "0\n"]) {
            fs::write(machine.path(&path(name)), text).unwrap();
        }
        fs::set_permissions(machine.path(&path(FILES[3])), Permissions::from_mode(0o444)).unwrap();
        machine
    }

    /// What the kernel does when the scheduler is written.
    fn reset(machine: &KernelFiles) {
        fs::write(machine.path(&path("nr_requests")), "256").unwrap();
        fs::write(machine.path(&path("iosched/read_expire")), "500").unwrap();
    }

    #[track_caller]
    fn expect(machine: &KernelFiles, expected: [&str; 4]) {
        assert_eq!(FILES.map(|name| machine.read(&path(name)).unwrap()), expected);
    }

    #[test]
    fn what_the_kernel_resets_with_the_scheduler_is_restored_with_it() {
        let root = tempfile::tempdir().unwrap();
        let machine = disk(root.path());
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        keeper.set(&path("scheduler"), "kyber").unwrap();
        reset(&machine);
        keeper.set(&path("scheduler"), "mq-deadline").unwrap();
        let journal = fs::read(machine.path(JOURNAL)).unwrap();
        assert_eq!(keeper.undo().unwrap()[0].problem, None);
        expect(&machine, ["none", "1023", "100", "0"]);
        drop(keeper);
        // Killed when it had restored the scheduler alone.
        reset(&machine);
        fs::write(machine.path(JOURNAL), &journal).unwrap();
        assert_eq!(undo_left(&machine).unwrap()[0].problem, None);
        expect(&machine, ["none", "1023", "100", "0"]);
        // A scheduler of somebody else keeps its parameters.
        fs::write(machine.path(JOURNAL), &journal).unwrap();
        machine.write(&path("scheduler"), "bfq").unwrap();
        reset(&machine);
        assert!(undo_left(&machine).unwrap()[0].problem.is_some());
        expect(&machine, ["bfq", "256", "500", "0"]);
        // What cannot be restored is kept, to be tried again.
        machine.write(&path("scheduler"), "mq-deadline").unwrap();
        fs::write(machine.path(JOURNAL), &journal).unwrap();
        fs::remove_file(machine.path(&path("nr_requests"))).unwrap();
        fs::create_dir(machine.path(&path("nr_requests"))).unwrap();
        let undone = undo_left(&machine).unwrap();
        assert!(
            undone[0].is_kept && undone[0].problem.as_deref().unwrap().contains("nr_requests"),
            "{undone:?}"
        );
        fs::remove_dir(machine.path(&path("nr_requests"))).unwrap();
        fs::write(machine.path(&path("nr_requests")), "256").unwrap();
        assert_eq!(undo_left(&machine).unwrap()[0].problem, None);
        expect(&machine, ["none", "1023", "100", "0"]);
    }

    /// One file stands for both, so that writing the scheduler changes the other.
    #[test]
    fn the_scheduler_is_restored_first() {
        let root = tempfile::tempdir().unwrap();
        let machine = disk(root.path());
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        keeper.set(&path("scheduler"), "kyber").unwrap();
        fs::remove_file(machine.path(&path("nr_requests"))).unwrap();
        fs::hard_link(machine.path(&path("scheduler")), machine.path(&path("nr_requests"))).unwrap();
        keeper.undo().unwrap();
        assert_eq!(machine.read(&path("nr_requests")).unwrap(), "1023");
    }
}
