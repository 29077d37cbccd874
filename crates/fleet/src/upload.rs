//! Copies of this program on drivers' machines: which file is for which machine, and the two scripts that keep a copy
//! there and run it. The logins themselves are in `greet.rs`.
//!
//! A copy is named by its SHA-256 and lies in a directory that only its user can change. It is hashed each time before it
//! is run, so a file that was cut off or put there by somebody else is not. What arrives is written under another name, and takes
//! its own only when it is whole and has started once.

mod copies;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use model::experiment::driver::DriverSpec;
use model::load::hello::Build;

use crate::remote_command::script_there;

pub use copies::{UploadedCopy, remove_copies};

/// The list of what one `./package` built, in the format of sha256sum(1).
const SUMS: &str = "SHA256SUMS";
/// Where copies are kept.
const DIRECTORY: &str = "d=${XDG_CACHE_HOME:-${HOME:?}/.cache}/pgdyno/drivers";
/// Receives a copy, and says with its last line how far it came. `$hex` are 64 hexadecimal digits for find(1): copies that were
/// not used for a month are removed.
const RECEIVE: &str = r#"umask 077; s=home; p=; q() { [ -z "$p" ] || rm -f "$p"; echo "{\"failed\":{\"message\":\"$s\"}}"; }; trap q EXIT; trap exit HUP INT TERM; read -r nonce; echo "{\"hello\":{\"nonce\":\"$nonce\",\"build\":{\"version\":\"\",\"sha256\":\"\",\"architecture\":\"$(uname -m)\"},\"host\":\"\",\"processors\":0,\"pid\":$$,\"clock\":{\"is_synchronised\":false,\"error_max_us\":0}}}"; read -r h n || exit; $directory; s=directory; mkdir -p "$d" && p=$(mktemp "$d/part.XXXXXX") || exit; s=bytes; head -c "$n" >"$p" || exit; s=hash; [ "$(sha256sum <"$p")" = "$h  -" ] || exit; s=start; chmod 700 "$p"; "$p" --version >/dev/null || exit; s=name; mv -f "$p" "$d/$h" || exit; s=kept; p=; find "$d" -type f -name "$hex" -mtime +30 -exec rm -f {} +; find "$d" -type f -name "part.??????" -mtime +1 -exec rm -f {} +"#;

/// A program's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramFile {
    pub(crate) architecture: String,
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
}

/// This program, and the same for other architectures.
#[derive(Debug)]
pub(crate) struct ProgramFiles {
    own: ProgramFile,
    siblings: Vec<ProgramFile>,
}

impl ProgramFiles {
    /// The file of this program, and those that `./package` built with it.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn next_to(own: &Path) -> Result<ProgramFiles> {
        let sha256 = files::sha256(own).with_context(|| format!("cannot read `{}`", own.display()))?;
        // Most programs have no list next to them.
        let sums = std::fs::read_to_string(own.with_file_name(SUMS)).unwrap_or_default();
        let own =
            ProgramFile { architecture: std::env::consts::ARCH.to_string(), path: own.to_path_buf(), sha256 };
        Ok(ProgramFiles { siblings: siblings(&sums, &own), own })
    }

    /// This program's file.
    pub(crate) fn own(&self) -> &ProgramFile {
        &self.own
    }

    /// Whether a driver is of the same build as we are.
    pub(crate) fn is_ours(&self, build: &Build) -> bool {
        self.all().any(|program| program.sha256 == build.sha256)
    }

    /// The file for an architecture.
    pub(crate) fn of(&self, architecture: &str) -> Option<&ProgramFile> {
        self.all().find(|program| program.architecture == architecture)
    }

    fn all(&self) -> impl Iterator<Item = &ProgramFile> {
        std::iter::once(&self.own).chain(&self.siblings)
    }

    /// The words that run a command of the copy there, or else of `program`.
    pub(crate) fn words_to_run(&self, spec: &DriverSpec, command: &str) -> Vec<String> {
        let case = |program: &ProgramFile| format!("{}) h={};; ", program.architecture, program.sha256);
        let cases: String = self.all().map(case).collect();
        script_there(
            spec,
            &format!(
                "h=; case $(uname -m) in {cases}esac; {DIRECTORY}; f=$d/$h; \
             if [ -f \"$f\" ] && [ -O \"$f\" ] && [ \"$(sha256sum <\"$f\")\" = \"$h  -\" ]; \
             then touch -c \"$f\"; exec \"$f\" {command}; fi; exec {} {command}",
                spec.program
            ),
        )
    }
}

/// The programs of a list that names this one: they were built at once, from the same sources, for other architectures.
pub(crate) fn siblings(sums: &str, own: &ProgramFile) -> Vec<ProgramFile> {
    let (start, end) = (format!("pgdyno-{}-", env!("CARGO_PKG_VERSION")), "-linux");
    let lines: Vec<(&str, &str)> = sums.lines().filter_map(|line| line.split_once("  ")).collect();
    if !lines.iter().any(|(sha256, _)| *sha256 == own.sha256) {
        return Vec::new();
    }
    let is_word =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let program = |(sha256, name): &(&str, &str)| {
        let architecture = name.strip_prefix(&start)?.strip_suffix(end)?;
        let is_sibling = *sha256 != own.sha256 && is_word(sha256) && is_word(architecture);
        is_sibling.then(|| ProgramFile {
            architecture: architecture.to_string(),
            path: own.path.with_file_name(name),
            sha256: sha256.to_string(),
        })
    };
    lines.iter().filter_map(program).collect()
}

/// The words that receive a copy there. Its first line is the nonce, which a hello with nothing but the architecture repeats;
/// the second one is of [`header`]; then the bytes follow.
pub(crate) fn words_to_receive(spec: &DriverSpec) -> Vec<String> {
    let script = RECEIVE.replace("$directory", DIRECTORY).replace("$hex", &"[0-9a-f]".repeat(64));
    script_there(spec, &script)
}

/// The line before the bytes of a program, and the bytes.
///
/// # Errors
/// When its file cannot be read, or is another one by now.
pub(crate) fn header_and_bytes(program: &ProgramFile) -> Result<(String, Vec<u8>)> {
    let path = program.path.display();
    let bytes = std::fs::read(&program.path).with_context(|| format!("cannot read `{path}`"))?;
    let is_same = files::sha256_of(bytes.as_slice()).is_ok_and(|sha256| sha256 == program.sha256);
    ensure!(is_same, "`{path}` has another SHA-256 than it should have; build it again with `./package`");
    Ok((format!("{} {}\n", program.sha256, bytes.len()), bytes))
}

/// The last line of a copy that arrived.
pub(crate) const KEPT: &str = "kept";

/// What it means that receiving ended in `step`.
pub(crate) fn explain(step: &str) -> &'static str {
    match step {
        "directory" => {
            "a copy of pgdyno is kept in ~/.cache/pgdyno/drivers there (XDG_CACHE_HOME instead of ~/.cache), and that \
             directory cannot be written"
        }
        "bytes" => "the copy of pgdyno cannot be written there; is the file system of ~/.cache full?",
        "hash" => "the copy of pgdyno did not arrive as it was sent (sha256sum)",
        "start" => {
            "the copy of pgdyno does not start there; a file system that is mounted noexec needs XDG_CACHE_HOME to name \
             another, and an older C library needs the program that `./package` builds"
        }
        "name" => "the copy of pgdyno cannot get its name in ~/.cache/pgdyno/drivers there",
        _ => "the copy of pgdyno did not arrive",
    }
}

/// What `./package` calls the program for an architecture.
pub(crate) fn file_name(architecture: &str) -> String {
    format!("pgdyno-{}-{architecture}-linux", env!("CARGO_PKG_VERSION"))
}
