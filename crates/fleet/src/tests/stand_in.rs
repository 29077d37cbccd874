//! A shell script in the place of this program: it says hello with its own hash, and says where it was started.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use model::experiment::driver::DriverSpec;
use model::run::driver::DriverRecord;

use crate::Fleet;

/// The script; `$sha` and `$host` in it are words of the shell.
const SCRIPT: &str = r#"#!/bin/sh
case $1 in --version) exit 0 ;; esac
read -r greeting
nonce=${greeting#*nonce\":\"}
nonce=${nonce%%\"*}
sha=$sha
host=$host
echo "{\"hello\":{\"nonce\":\"$nonce\",\"build\":{\"version\":\"1\",\"sha256\":\"$sha\",\"architecture\":\"x\"},\"host\":\"$host\",\"boot_id\":\"$(cat /proc/sys/kernel/random/boot_id)\",\"processors\":1,\"pid\":$$,\"pid_namespace\":\"$(readlink /proc/self/ns/pid)\",\"clock\":{\"is_synchronised\":false,\"error_max_us\":0}}}"
exec cat >/dev/null
"#;

/// A program in `dir`; `mark` makes it another build than those with other marks.
pub(crate) fn program(dir: &Path, name: &str, mark: &str) -> PathBuf {
    write(dir, name, &format!("{}# {mark}\n", script("$(sha256sum <\"$0\" | cut -c -64)", "$0")))
}

/// A program that goes on as `script` says after its hello.
pub(crate) fn speaker(dir: &Path, name: &str, then: &str) -> PathBuf {
    write(dir, name, &script("$(sha256sum <\"$0\" | cut -c -64)", "$0").replace("exec cat >/dev/null", then))
}

/// A program that claims to have another one's hash.
pub(crate) fn liar(dir: &Path, name: &str, sha256: &str) -> PathBuf {
    write(dir, name, &script(sha256, "planted"))
}

fn script(sha: &str, host: &str) -> String {
    SCRIPT.replace("sha=$sha", &format!("sha={sha}")).replace("host=$host", &format!("host={host}"))
}

/// An executable file.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

/// A driver behind these words.
pub(crate) fn spec(name: &str, via: &[String], program: &Path) -> DriverSpec {
    DriverSpec {
        name: name.to_string(),
        via: via.to_vec(),
        program: program.display().to_string(),
        upload: false,
        ..DriverSpec::default()
    }
}

/// Greets drivers, and ends them.
pub(crate) fn greet(specs: &[DriverSpec], own: &Path) -> Result<Vec<DriverRecord>> {
    Ok(greeted(specs, own)?.records())
}

/// Greets drivers.
pub(crate) fn greeted(specs: &[DriverSpec], own: &Path) -> Result<Fleet> {
    Fleet::greeted(specs, &super::order("select 1"), own, &|_| Ok(()), &AtomicBool::new(false))
}

/// The error of a greeting that fails.
pub(crate) fn error(specs: &[DriverSpec], own: &Path) -> String {
    format!("{:#}", greet(specs, own).map(|records| records.len()).unwrap_err())
}
