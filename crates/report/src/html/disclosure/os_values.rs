//! The values of the operating system that an experiment asked for: asked, found before the run, and in force during it.

use std::collections::BTreeMap;

use model::run::RunRecord;
use model::run::phase::Phase;

use crate::html::escape::escape_html;
use crate::html::table;
use crate::prose::phrases;

/// What the file of a key's value ends with, for keys whose files are recorded.
const FILES: [(&str, &str); 11] = [
    ("transparent_huge_pages", "transparent_hugepage/enabled"),
    ("transparent_huge_pages_defrag", "transparent_hugepage/defrag"),
    ("shmmax", "kernel/shmmax"),
    ("shmall", "kernel/shmall"),
    ("swappiness", "vm/swappiness"),
    ("overcommit_memory", "vm/overcommit_memory"),
    ("somaxconn", "core/somaxconn"),
    ("max_map_count", "vm/max_map_count"),
    ("read_ahead_kb", "queue/read_ahead_kb"),
    ("io_scheduler", "queue/scheduler"),
    ("cpu_governor", "cpufreq/scaling_governor"),
];

/// A value: key, file, asked, found, in force.
type Row = [String; 5];

/// The table; `None` if nothing was asked.
pub(super) fn disclosed(records: &[&RunRecord]) -> Option<String> {
    let mut runs_by_row: BTreeMap<Row, Vec<u32>> = BTreeMap::new();
    for record in records {
        for row in rows(record) {
            runs_by_row.entry(row).or_default().push(record.spec.run);
        }
    }
    let rows: Vec<Vec<String>> = runs_by_row
        .iter()
        .map(|([key, file, asked, found, applied], runs)| {
            let file =
                if file.is_empty() { String::new() } else { format!("<code>{}</code>", escape_html(file)) };
            vec![
                escape_html(&phrases::of_id(key)),
                file,
                escape_html(asked),
                escape_html(found),
                escape_html(applied),
                escape_html(&phrases::ranges(runs)),
            ]
        })
        .collect();
    let heads = ["Value", "File", "Asked", "Found", "In force", "Runs"];
    (!rows.is_empty()).then(|| table("text", &heads, &rows))
}

/// The values of one run, one row for each file; a run that did not come so far has them with what was asked only.
fn rows(record: &RunRecord) -> Vec<Row> {
    let restored = record.phase(Phase::Restore).map(|phase| &phase.detail);
    let mut rows = Vec::new();
    for (key, asked) in &record.case.os {
        let ending = FILES.iter().find(|(known, _)| known == key).map(|(_, ending)| *ending);
        let of_key = restored.into_iter().flatten().filter(|(name, _)| match ending {
            Some(ending) => name.ends_with(ending),
            None => *name == key,
        });
        let before = rows.len();
        rows.extend(of_key.map(|(name, words)| {
            let (words, file) =
                if ending.is_some() { (words.as_str(), name.as_str()) } else { of_group(words) };
            let (applied, found) = applied_and_found(words);
            [key.clone(), file.to_string(), asked.clone(), found, applied]
        }));
        if rows.len() == before {
            rows.push([key.clone(), String::new(), asked.clone(), String::new(), String::new()]);
        }
    }
    rows
}

/// Limit and file of `254:0 200 in /sys/fs/cgroup/…`, a limit of a control group; other words have no file.
fn of_group(words: &str) -> (&str, &str) {
    words.split_once(" in ").filter(|(_, file)| file.starts_with('/')).unwrap_or((words, ""))
}

/// The two values of `1 (was 60)`; other words say what is in force.
fn applied_and_found(words: &str) -> (String, String) {
    let parts = words.strip_suffix(')').and_then(|words| words.rsplit_once(" (was "));
    let (applied, found) = parts.unwrap_or((words, ""));
    (applied.to_string(), found.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_before_is_separated_from_the_value_in_force() {
        let check = |words: &str, applied: &str, found: &str| {
            assert_eq!(applied_and_found(words), (applied.to_string(), found.to_string()));
        };
        check("1 (was 60)", "1", "60");
        check("never (was madvise)", "never", "madvise");
        check("on: 3092 of 2048 kB", "on: 3092 of 2048 kB", "");
    }

    #[test]
    fn limits_of_control_groups_have_their_file() {
        let file = "/sys/fs/cgroup/cpu/pgdyno-7/cpu.cfs_quota_us";
        assert_eq!(of_group(&format!("150000 in {file}")), ("150000", file));
        assert_eq!(of_group("on: 3092 in all"), ("on: 3092 in all", ""));
    }
}
