//! Asks binaries whether they know settings and take their values, without a cluster and without starting a server.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use model::text::nearest::nearest;

use crate::binaries::Binaries;
use crate::process::command::{run_logged, server_command};
use crate::process::socket;
use crate::process::start_error::{StartFault, fault_of};
use crate::settings::{check_text, configuration_text};
use crate::user::account::Account;

/// `postgres -C` reads the configuration, prints one setting and ends.
const DEADLINE: Duration = Duration::from_secs(20);

/// What these binaries say against each of `settings`, one sentence for each that they refuse. Whether several settings
/// fit together and fit the machine is found only by starting the server.
///
/// # Errors
/// When the binaries cannot be run.
pub fn refused_settings(binaries: &Binaries, settings: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let account = Account::choose()?;
    let scratch = socket::scratch(&account)?;
    let (dir, log) = (&scratch.given, scratch.outer.join("log"));
    let mut refused = Vec::new();
    for (name, value) in settings {
        if let Err(error) = check_text(name, value) {
            refused.push(error.to_string());
            continue;
        }
        configure(&account, dir, &BTreeMap::from([(name.clone(), value.clone())]))?;
        let mut command = server_command(&binaries.program("postgres"), &account, dir);
        command.args(["-C", name, "-D"]).arg(dir);
        let Err(error) = run_logged(command, &log, DEADLINE) else { continue };
        let said = format!("{error:#}");
        let Some(why) = complaint(&said) else {
            refused.push(said);
            continue;
        };
        let fault = fault_of(&said);
        let advice = match fault {
            StartFault::UnknownSetting => like(binaries, &account, dir, &log, name),
            _ => None,
        };
        let advice = advice.unwrap_or_else(|| fault.advice().to_string());
        refused.push(format!("FATAL: {why}; {advice}"));
    }
    Ok(refused)
}

/// Makes `dir` a data directory with nothing but a configuration. Settings may hold passwords, and everybody on the machine can
/// read the arguments of a process, but not this file.
fn configure(account: &Account, dir: &Path, settings: &BTreeMap<String, String>) -> Result<()> {
    let path = dir.join("postgresql.conf");
    account
        .act(|| files::create(&path, 0o600)?.write_all(configuration_text(settings).as_bytes()))
        .with_context(|| format!("write `{}`", path.display()))
}

/// Why the server gave up: what it says against a line of its configuration, which its last words do not repeat, or else
/// these.
fn complaint(said: &str) -> Option<String> {
    let after = |label: &str, line: &str| Some(line.split_once(label)?.1.trim().to_string());
    let last = said.lines().position(|line| after("FATAL:", line).is_some())?;
    let fatal = after("FATAL:", said.lines().nth(last)?)?;
    let of_line = || said.lines().take(last).filter_map(|line| after("LOG:", line)).last();
    let why = if fatal.ends_with("contains errors") { of_line().unwrap_or(fatal) } else { fatal };
    // Our file and its line say nothing to the user.
    let why = why.split_once(" in file \"").map_or(why.as_str(), |(why, _)| why);
    let hint = said.lines().find_map(|line| after("HINT:", line));
    let hint = hint.map(|hint| format!(" ({})", hint.trim_end_matches('.')));
    Some(format!("{why}{}", hint.unwrap_or_default()))
}

/// The question whether the setting of the binaries that is spelt most like `name` was meant, if one is like it.
fn like(binaries: &Binaries, account: &Account, dir: &Path, log: &Path, name: &str) -> Option<String> {
    let mut command = server_command(&binaries.program("postgres"), account, dir);
    command.arg("--describe-config");
    let text = run_logged(command, log, DEADLINE).ok()?;
    let names = text.lines().filter_map(|line| line.split('\t').next());
    nearest(&name.to_lowercase(), names).map(|known| format!("did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;
    use crate::binaries::write_program;

    const TEST: &str = "binaries::verify::tests::settings_are_tried_from_a_file_that_is_reached_wherever_temporary_files_are";
    const BINARIES: &str = "PGDYNO_TEST_BINARIES";

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn expect_refusals(binaries: &Binaries) {
        let fine = map(&[
            ("primary_conninfo", "host=x password=canary"),
            ("x.y", r"it's \n canary"),
            ("work_mem", "5MB"),
        ]);
        assert_eq!(refused_settings(binaries, &fine).unwrap(), Vec::<String>::new());
        let bad = map(&[
            ("max_connections", "-7"),
            ("shared_bufers", "canary"),
            ("wal_sync_method", "canary"),
            ("include", "/etc/passwd"),
            ("work_mem", "1\nfsync = off"),
        ]);
        let refused = refused_settings(binaries, &bad).unwrap();
        let expected = [
            "`include` is not the name of a setting",
            "FATAL: -7 is outside the valid range for parameter \"max_connections\" (1 .. 262143); correct",
            "FATAL: unrecognized configuration parameter \"shared_bufers\"; did you mean `shared_buffers`?",
            "FATAL: invalid value for parameter \"wal_sync_method\": \"canary\" (Available values: ",
            "setting `work_mem` has a line break in its value",
        ];
        assert_eq!(refused.len(), expected.len(), "{refused:?}");
        for (refused, expected) in refused.iter().zip(expected) {
            assert!(refused.starts_with(expected), "{refused}");
        }
    }

    /// In a process of its own, whose directory for temporary files is closed to the server's user if we are root.
    #[test]
    fn settings_are_tried_from_a_file_that_is_reached_wherever_temporary_files_are() {
        if let Some(dir) = env::var_os(BINARIES) {
            let installed = Binaries::from_bin_dir(&testbed::bin_dir()).unwrap();
            return expect_refusals(&Binaries { bin_dir: dir.into(), ..installed });
        }
        let (place, closed) = (testbed::place(), tempfile::tempdir().unwrap());
        let log = place.path().join("arguments");
        fs::write(&log, "").unwrap();
        fs::set_permissions(&log, Permissions::from_mode(0o666)).unwrap();
        let real = testbed::bin_dir().join("postgres");
        let text = format!("#!/bin/sh\necho \"$@\" >>{}\nexec {} \"$@\"\n", log.display(), real.display());
        write_program(&place.path().join("postgres"), &text);
        let mut again = Command::new(env::current_exe().unwrap());
        again.args([TEST, "--exact"]).env(BINARIES, place.path()).env("TMPDIR", closed.path());
        let ended = again.output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        let arguments = fs::read_to_string(&log).unwrap();
        assert!(arguments.contains("-C work_mem"), "{arguments}");
        assert!(!arguments.contains("canary") && !arguments.contains("5MB"), "{arguments}");
    }
}
