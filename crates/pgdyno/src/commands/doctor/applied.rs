//! Values of this machine that rows want: set through the journal of crate `host`, and kept until they are undone.

use analysis::doctor::{self, Diagnosis, DoctorOutcome, DoctorVerdict, Knob, ROWS};
use anyhow::{Context, Result, ensure};
use experiment::stage::os;
use host::{Disk, Keeper, KernelFiles};
use serde::Serialize;

use super::seen::SeenHere;
use crate::restore_report::report_undone;
use crate::say;

/// What was set, and what could not be.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub(super) set: Vec<SetValue>,
    pub(super) refused: Vec<Refused>,
}

/// A value that is now in force.
#[derive(Debug, Serialize)]
pub(super) struct SetValue {
    row: &'static str,
    path: String,
    before: String,
    now: String,
}

/// A row whose value could not be set.
#[derive(Debug, Serialize)]
pub(super) struct Refused {
    row: &'static str,
    reason: String,
}

impl Applied {
    /// Reports it.
    pub(super) fn tell(&self) {
        for SetValue { row, path, before, now } in &self.set {
            say(&format!("{row}: set `{path}` to {now} (it was {before})"));
        }
        self.refused.iter().for_each(|refused| say(&format!("{}: not set: {}", refused.row, refused.reason)));
        match (self.set.is_empty(), self.refused.is_empty()) {
            (false, _) => say("these values stay until `pgdyno doctor --undo`, `pgdyno clean` or a reboot"),
            (true, true) => say("no row of this machine asks for a value that pgdyno can set"),
            (true, false) => {}
        }
    }
}

/// The rows that `--apply` names: all that pgdyno can set if it names none.
///
/// # Errors
/// When a row does not exist, or pgdyno can set nothing for it.
pub(super) fn rows(text: &str) -> Result<Vec<&str>> {
    let all: Vec<&str> = ROWS.iter().filter(|row| row.knob.is_some()).map(|row| row.id).collect();
    if text.is_empty() {
        return Ok(all);
    }
    let wanted: Vec<&str> = text.split(',').map(str::trim).collect();
    for row in &wanted {
        ensure!(
            all.contains(row),
            "--apply={row}: pgdyno sets nothing for such a row; it can set {}",
            all.join(", ")
        );
    }
    Ok(wanted)
}

/// Sets what rows want and this machine allows.
///
/// # Errors
/// When another pgdyno sets values, or the journal cannot be written.
pub(super) fn apply(diagnosis: &Diagnosis, wanted: &[&str], seen: &SeenHere) -> Result<Applied> {
    ensure!(
        seen.is_here,
        "--apply sets values of this machine, and the host that was looked at is another one"
    );
    let machine = KernelFiles::this();
    let disks = os::disks_of(seen.host.mounts.clone());
    let mut applied = Applied::default();
    let mut chosen = Vec::new();
    let is_wanted = |row: &&DoctorOutcome| row.verdict > DoctorVerdict::Unseen && wanted.contains(&row.id);
    for row in diagnosis.rows.iter().filter(is_wanted) {
        let Some(knob @ (key, values)) = row.knob else { continue };
        let refusal = |value: &str| host::refusal(&machine, key, value, &disks);
        match values.iter().find(|value| refusal(value).is_none()) {
            Some(value) => chosen.push((row.id, to_set(&machine, knob, value, &disks))),
            None => {
                let reason = values.first().and_then(|value| refusal(value)).unwrap_or_default();
                applied.refused.push(Refused { row: row.id, reason });
            }
        }
    }
    if chosen.is_empty() {
        return Ok(applied);
    }
    let (mut keeper, undone) = Keeper::take(&machine).context("cannot set values of the operating system")?;
    report_undone(&undone);
    for (row, path, value) in
        chosen.into_iter().flat_map(|(row, all)| all.into_iter().map(move |(path, value)| (row, path, value)))
    {
        match keeper.set_to_stay(&path, &value) {
            Ok(before) if before == value => {}
            Ok(before) => applied.set.push(SetValue { row, path, before, now: value }),
            Err(error) => applied.refused.push(Refused { row, reason: format!("{error:#}") }),
        }
    }
    Ok(applied)
}

/// Kernel files that do not have a value that the row wants, and the value to set.
fn to_set(machine: &KernelFiles, knob: Knob, value: &str, disks: &[Disk]) -> Vec<(String, String)> {
    let mut files = host::settings(machine, knob.0, value, disks);
    files.retain(|(path, _)| !machine.read(path).is_ok_and(|now| doctor::is_as_wanted(knob, &now)));
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn devices_that_are_as_a_row_wants_them_stay_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        let disk = |device: &str, read_ahead: &str, scheduler: &str| {
            let queue = root.path().join(format!("sys/block/{device}/queue"));
            fs::create_dir_all(&queue).unwrap();
            fs::write(queue.join("read_ahead_kb"), read_ahead).unwrap();
            fs::write(queue.join("scheduler"), scheduler).unwrap();
            Disk { device: device.to_string(), ..Disk::default() }
        };
        let disks = [
            disk("sda", "128\n", "none mq-deadline [bfq]\n"),
            disk("sdb", "8192\n", "none [mq-deadline] bfq\n"),
            disk("sdc", "4096\n", "[none] mq-deadline bfq\n"),
        ];
        for (row, value, file) in
            [("read-ahead", "4096", "read_ahead_kb"), ("io-scheduler", "none", "scheduler")]
        {
            let knob = ROWS.iter().find(|known| known.id == row).unwrap().knob.unwrap();
            let set = to_set(&KernelFiles::at(root.path()), knob, value, &disks);
            assert_eq!(set, [(format!("/sys/block/sda/queue/{file}"), value.to_string())]);
        }
    }

    #[test]
    fn rows_are_named_or_all_that_can_be_set() {
        let all = rows("").unwrap();
        assert!(all.contains(&"swappiness") && !all.contains(&"overcommit"), "{all:?}");
        assert_eq!(rows("thp, swappiness").unwrap(), ["thp", "swappiness"]);
        let refused = rows("thp,overcommit").unwrap_err().to_string();
        assert!(refused.starts_with("--apply=overcommit: pgdyno sets nothing for such a row"), "{refused}");
    }

    #[test]
    fn what_can_be_set_are_keys_of_crate_host() {
        for (key, values) in ROWS.iter().filter_map(|row| row.knob) {
            assert!(host::KEYS.contains(&key) && !values.is_empty(), "{key}");
        }
    }
}
