//! Files that a command names: they decide what it does, and its words do not show what they contain. Whoever consents to a command
//! has to hear that.

use std::collections::BTreeSet;
use std::path::Path;

use crate::front::shell;

/// Begins of lines of scripts that call a shell.
const CALLS: [&str; 2] = ["\\shell", "\\setshell"];
/// Besides blanks, what divides the words of a command within a word: of shells, of options and of lists.
const DIVIDERS: &str = ";|&<>()\"'`$={},@";

/// A command as it would be typed, with the files that it names.
pub(super) fn command(words: &[String]) -> String {
    shell::command(words) + &note(words.iter().map(String::as_str))
}

/// The same of the commands in a script, without the script.
pub(super) fn of_script(source: &str) -> String {
    let joined = source.replace("\\\n", " ");
    let is_call = |line: &&str| CALLS.iter().any(|call| line.to_ascii_lowercase().starts_with(call));
    // Its first word is ours, not a path.
    note(joined.lines().map(str::trim).filter(is_call).map(|line| line.trim_start_matches('\\')))
}

fn note<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let files: BTreeSet<String> = words.flat_map(files).map(shell::quoted).collect();
    if files.is_empty() {
        return String::new();
    }
    format!(" (the contents of these files are not shown: {})", Vec::from_iter(files).join(", "))
}

/// The files in a word, which may be a whole script of a shell, or an option with its value. Too many are better than too few.
fn files(word: &str) -> Vec<&str> {
    let parts = word.split(|c: char| c.is_whitespace() || DIVIDERS.contains(c));
    // `-fFILE`
    let values = parts.clone().filter_map(|part| part.strip_prefix('-')?.strip_prefix(|c: char| c != '-'));
    [word].into_iter().chain(parts).chain(values).filter(|text| is_file(text)).collect()
}

/// Whether it is a file here, or looks like one that will be.
fn is_file(text: &str) -> bool {
    match Path::new(text).metadata() {
        Ok(facts) => !facts.is_dir(),
        Err(_) => {
            let is_plain = |c: char| !c.is_whitespace() && !DIVIDERS.contains(c);
            let is_address = text.contains("://") || text.starts_with('-') || text.ends_with('/');
            text.contains('/') && !is_address && text.chars().all(is_plain)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_command_names_are_named_next_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().join("here");
        std::fs::write(&here, "").unwrap();
        let (here, place) = (here.to_str().unwrap(), dir.path().to_str().unwrap());
        let check = |words: &[&str], expected: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            let expected = match expected {
                [] => String::new(),
                files => format!(" (the contents of these files are not shown: {})", files.join(", ")),
            };
            assert_eq!(command(&words), shell::command(&words) + &expected);
        };
        check(&["systemctl", "restart", "postgresql"], &[]);
        check(&["rman", "cmdfile", "scripts/x.rcv"], &["scripts/x.rcv"]);
        check(&["rman", "cmdfile=scripts/x.rcv"], &["scripts/x.rcv"]);
        check(&["sqlplus", "-s", "/nolog", "@scripts/x.sql"], &["/nolog", "scripts/x.sql"]);
        check(&["psql", "-f", here], &[here]);
        check(&["psql", &format!("-f{here}")], &[here]);
        check(&["psql", &format!("--file={here}")], &[here]);
        check(&["bash", "-c", "set -e; . ./lib.sh && make -f ../other.mk"], &["../other.mk", "./lib.sh"]);
        check(&["env", "-S", "sh ./x.sh"], &["./x.sh"]);
        check(&["xargs", "-a", "./list", "sh"], &["./list"]);
        check(&["/opt/run"], &["/opt/run"]);
        check(&["curl", "https://db.example/x", "-o", place], &[]);
        // A name without a directory, of a file that is here.
        check(&["make", "-f", "Cargo.toml"], &["Cargo.toml"]);
        check(&["sh", "no-such-file"], &[]);
    }

    #[test]
    fn files_that_a_script_gives_to_a_shell_are_named_too() {
        let script = "SELECT 'a/b';\n\\shell sh ./x.sh\n\\setshell y cat \\\n ./y";
        assert_eq!(of_script(script), " (the contents of these files are not shown: ./x.sh, ./y)");
        assert_eq!(of_script("SELECT 'a/b';"), "");
    }
}
