//! Scripts named by options: built in or from files, with weights.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use model::release::pgbench;
use model::text::encoding::not_text;
use workload::script::SCRIPT_BYTES_MAX;
use workload::tpcb::TpcbScript;
use workload::{Program, ScriptError};

use crate::cnum;
use crate::compat::Compat;
use crate::messages::{Complaint, system_text};

/// Most scripts that pgbench takes.
const SCRIPTS_MAX: usize = 128;

/// A script of the load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GivenScript {
    /// Name in reports: a file's name as given, or a built-in script's description.
    pub(crate) name: String,
    pub(crate) source: String,
    /// Weight, relative to the sum of all weights.
    pub(crate) weight: u32,
    /// The commands; the script compiled for the load has the same.
    pub(crate) program: Program,
}

/// The name of a script's histograms.
pub(crate) fn script_tag(number: usize) -> String {
    format!("script{number}")
}

/// Splits `NAME@WEIGHT` at the last `@`.
pub(crate) fn split_weight(text: &str) -> Result<(&str, u32), Complaint> {
    let Some(at) = text.rfind('@') else { return Ok((text, 1)) };
    let digits = &text[at + 1..];
    let invalid = || Complaint::new(format!("invalid weight specification: {}", &text[at..]));
    let weight = cnum::whole_int(digits).ok_or_else(invalid)?;
    match i32::try_from(weight) {
        Ok(weight) if weight >= 0 => Ok((&text[..at], weight.unsigned_abs())),
        _ => {
            let message = format!("weight specification out of range (0 .. {}): {weight}", i32::MAX);
            Err(Complaint::new(message))
        }
    }
}

/// The built-in script whose name begins with `prefix`.
pub(crate) fn find_builtin(prefix: &str) -> Result<TpcbScript, Complaint> {
    TpcbScript::parse_pgbench_prefix(prefix)
        .map_err(|message| Complaint::new(message).and_raw(list_builtins()))
}

/// The list of built-in scripts.
pub(crate) fn list_builtins() -> String {
    let mut text = "Available builtin scripts:\n".to_string();
    for builtin in TpcbScript::ALL {
        text += &format!("  {:>13}: {}\n", builtin.pgbench_name(), builtin.description());
    }
    text + "\n"
}

/// A built-in script as `--show-script` shows it.
pub(crate) fn show_builtin(builtin: TpcbScript) -> String {
    format!("-- {}: {}\n{}\n", builtin.pgbench_name(), builtin.description(), builtin.source())
}

/// Reads a script's file; `-` is standard input.
pub(crate) fn read_file(name: &str) -> Result<String, Complaint> {
    // No signal is handled yet: each ends this process.
    let never = AtomicBool::new(false);
    let read = match name {
        "-" => files::read_standard_input(SCRIPT_BYTES_MAX, &never),
        _ => files::read_named(Path::new(name), SCRIPT_BYTES_MAX, &never),
    };
    let bytes = read.map_err(|error| unreadable(name, &error))?;
    // C strings end at the first zero byte.
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let whole = |_| Complaint::new(format!("script file \"{name}\" {}", not_text(&bytes)));
    String::from_utf8(bytes[..end].to_vec()).map_err(whole)
}

/// The error in pgbench's words, which distinguish a directory and an endless file from one that cannot be opened.
fn unreadable(name: &str, error: &io::Error) -> Complaint {
    let is_open = matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::FileTooLarge);
    let what = if is_open { "read" } else { "open" };
    Complaint::new(format!("could not {what} file \"{name}\": {}", system_text(error)))
}

/// Compiles a script of `compat`'s language and adds it to the list.
pub(crate) fn add(
    scripts: &mut Vec<GivenScript>,
    name: &str,
    source: &str,
    weight: u32,
    compat: Compat,
) -> Result<(), Complaint> {
    let without: &[&str] = if compat.has(pgbench::SYNCPIPELINE) { &[] } else { &["syncpipeline"] };
    let program = Program::compile_without(name, source, without).map_err(complaint)?;
    if scripts.len() >= SCRIPTS_MAX {
        return Err(Complaint::new(format!("at most {SCRIPTS_MAX} SQL scripts are allowed")));
    }
    let (name, source) = (name.to_string(), source.to_string());
    scripts.push(GivenScript { name, source, weight, program });
    Ok(())
}

/// A script's error as pgbench shows it, with the line at fault and the caret.
pub(crate) fn complaint(error: ScriptError) -> Complaint {
    Complaint::new(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::MessageLog;

    fn text_of(complaint: &Complaint) -> String {
        let mut log = MessageLog::to_text();
        log.complain(complaint);
        log.text().to_string()
    }

    #[test]
    fn weights_are_split_off_at_the_last_sign() {
        let check = |text, expected: Result<(&str, u32), &str>| match (split_weight(text), expected) {
            (Ok(split), Ok(expected)) => assert_eq!(split, expected),
            (Err(complaint), Err(expected)) => {
                assert_eq!(text_of(&complaint), format!("pgbench: error: {expected}\n"));
            }
            (got, _) => panic!("{text}: {got:?}"),
        };
        check("a.sql", Ok(("a.sql", 1)));
        check("a@b.sql@7", Ok(("a@b.sql", 7)));
        check("se@0", Ok(("se", 0)));
        check("se@one", Err("invalid weight specification: @one"));
        check("se@", Err("invalid weight specification: @"));
        check("se@-1", Err("weight specification out of range (0 .. 2147483647): -1"));
        check("se@2147483648", Err("weight specification out of range (0 .. 2147483647): 2147483648"));
    }

    #[test]
    fn faulty_scripts_are_refused_with_their_place() {
        let check = |source, expected| {
            let complaint = add(&mut Vec::new(), "x.sql", source, 1, Compat::V18).unwrap_err();
            assert_eq!(text_of(&complaint), expected);
        };
        check("", "pgbench: error: empty command list for script \"x.sql\"\n");
        check(
            "SELECT 1;\n\\set i 1 +\n",
            "pgbench: error: x.sql:2: syntax error in command \"set\"\n\\set i 1 +\n          ^ error found here\n",
        );
    }

    #[test]
    fn commands_of_later_releases_are_refused() {
        let add = |source: &str, compat| add(&mut Vec::new(), "x.sql", source, 1, compat);
        let expected =
            "pgbench: error: x.sql:3: invalid command in command \"syncpipeline\"\n\\syncpipeline\n";
        let source = "\\startpipeline\nSELECT 1;\n \\syncpipeline\n\\endpipeline";
        // Reported before errors that come later in the text.
        for source in [source, &format!("{source}\n\\endif\n")] {
            assert_eq!(text_of(&add(source, Compat::V15).unwrap_err()), expected);
        }
        assert_eq!(add(source, Compat::V17), Ok(()));
    }
}
