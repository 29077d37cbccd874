//! Which processes hold huge pages, as far as they can be seen.

use model::text::visible::on_one_line;

use crate::kernel_files::{KernelFiles, with_surplus};

/// Processes that are named.
const N_NAMED: usize = 3;

/// Pages that the kernel could not free when the pool of `path` got its previous value, because processes use them.
pub(crate) fn lent(machine: &KernelFiles, path: &str) -> Option<String> {
    let (_, surplus) = with_surplus(machine, path)?;
    let by = words(machine).map_or_else(String::new, |words| format!(": {words}"));
    (surplus > 0).then(|| {
        format!("processes use {surplus} more huge pages, which the kernel frees when these end{by}")
    })
}

/// The processes that have touched most of the huge pages, with how much; `None` if none can be seen. What one has mapped and not touched
/// does not count (Documentation/filesystems/proc.rst, `HugetlbPages`).
pub(crate) fn words(machine: &KernelFiles) -> Option<String> {
    let names = machine.names("/proc");
    let pids = names.iter().filter_map(|name| name.parse::<u32>().ok());
    let mut found: Vec<(u64, u32, String)> = pids.filter_map(|pid| held(machine, pid)).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    let mut words: Vec<String> = found
        .iter()
        .take(N_NAMED)
        .map(|(kb, pid, name)| format!("{name} (process {pid}) with {} MiB", kb.div_ceil(1024)))
        .collect();
    if found.len() > N_NAMED {
        words.push(format!("{} more", found.len() - N_NAMED));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// How many kB of huge pages a process has touched, and its name; `None` if it has none.
fn held(machine: &KernelFiles, pid: u32) -> Option<(u64, u32, String)> {
    // One that has ended since has none.
    let status = machine.text(&format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kb: u64 = field("HugetlbPages")?.split_whitespace().next()?.parse().ok()?;
    let name = on_one_line(field("Name")?.trim()).into_owned();
    (kb > 0).then_some((kb, pid, name))
}
