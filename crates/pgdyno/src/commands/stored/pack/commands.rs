//! The commands that packed results contain. Whoever shares them has to see them: no program knows every way to write a secret
//! into a command.

use std::collections::BTreeSet;

use model::experiment::case::Case;
use model::experiment::hooks::Hook;
use model::experiment::plan::Plan;
use model::experiment::script::CaseData;

use crate::front::shell;

/// Beginnings of lines of scripts that call a shell, and the words of SQL that do.
const CALLS: [&str; 2] = ["\\shell", "\\setshell"];
const PROGRAM: &str = "program";

/// Every command of the plan, once, with the key or the script that has it.
pub(super) fn commands(plan: &Plan) -> BTreeSet<String> {
    plan.cases.iter().flat_map(of_case).collect()
}

fn of_case(case: &Case) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |key: String, words: &[String]| {
        if !words.is_empty() {
            found.push(format!("{key}: {}", shell::command(words)));
        }
    };
    for hook in Hook::ALL {
        add(format!("hooks.{hook}"), case.hooks.words(hook));
    }
    add("server.restart".to_string(), &case.server.restart);
    for driver in &case.workload.drivers {
        add("driver.via".to_string(), &driver.via);
    }
    if let Some(host) = &case.server.host {
        add("server.host.via".to_string(), &host.via);
    }
    for script in &case.workload.scripts {
        found.extend(calls(&script.name, &script.source));
    }
    if let CaseData::Files(files) = &case.workload.data {
        let with_text = files.iter().filter_map(|file| Some((&file.name, file.text.as_ref()?)));
        found.extend(with_text.flat_map(|(name, text)| calls(name, text)));
    }
    found
}

/// The lines of a script that call a program.
fn calls(name: &str, text: &str) -> Vec<String> {
    let is_call = |line: &&str| {
        let mut words = line.split(|c: char| c.is_whitespace() || c == '\'' || c == '(');
        CALLS.iter().any(|call| line.starts_with(call))
            || words.any(|word| word.eq_ignore_ascii_case(PROGRAM))
    };
    text.lines().map(str::trim).filter(is_call).map(|line| format!("{name}: {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_call_a_program_are_found() {
        let script = "\\set x 1\n  \\shell echo a\nSELECT 1;\n\\setshell y date +%s\ncopy t from PROGRAM 'cat x';\n-- programs";
        let expected = ["s: \\shell echo a", "s: \\setshell y date +%s", "s: copy t from PROGRAM 'cat x';"];
        assert_eq!(calls("s", script), expected);
    }
}
