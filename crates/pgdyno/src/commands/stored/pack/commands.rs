//! The commands that packed results contain. Whoever shares them has to see them: no program knows every way to write a secret
//! into a command.

use std::collections::BTreeSet;

use experiment::run::hooks::levels_for_hooks;
use model::experiment::case::Case;
use model::experiment::hooks::Hook;
use model::experiment::keys;
use model::experiment::plan::Plan;
use model::experiment::script::CaseData;
use toml::Value;

use crate::front::shell;

/// Beginnings of lines of scripts that call a shell.
const CALLS: [&str; 3] = ["\\shell", "\\setshell", "\\!"];
/// Words of SQL that do: of COPY, and the languages of functions that may.
const WORDS: [&str; 8] =
    ["program", "plpython3u", "plpython2u", "plpythonu", "plperlu", "pltclu", "plsh", "pljavau"];
/// Beginnings of lines for psql that call a shell if there is a bar.
const PIPES: [&str; 6] = ["\\o", "\\out", "\\g", "\\gx", "\\w", "\\write"];
/// Keys of the experiment file whose values are the words of a command.
const COMMANDS: [&str; 6] = ["after_case", "after_run", "before_case", "before_run", "restart", "via"];
/// Most lines of a statement that are shown.
const LINES_MAX: usize = 20;

/// Every command of the plan and of the text of its experiment, once, with the key or the script that has it.
pub(super) fn commands(plan: &Plan, text: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = plan.cases.iter().flat_map(of_case).collect();
    found.extend(of_text(text, &found));
    found
}

/// Commands of the text that no case of the plan has: an option of whoever measures it may give them an effect.
fn of_text(text: &str, known: &BTreeSet<String>) -> Vec<String> {
    let name = store::names::EXPERIMENT;
    let Ok(table) = text.parse::<toml::Table>() else {
        return vec![format!("{name}: not read, and not looked through")];
    };
    let mut found = Vec::new();
    look_through("", &Value::Table(table), &mut found);

    let known: Vec<&str> = known.iter().flat_map(|found| found.lines()).collect();
    found.retain(|(_, call)| !known.iter().any(|line| line.ends_with(&format!(": {call}"))));
    found.into_iter().map(|(key, call)| format!("{name}, {key}: {call}")).collect()
}

/// Adds the commands of a value and of all that is in it, each with its key.
fn look_through(key: &str, value: &Value, found: &mut Vec<(String, String)>) {
    let last = key.rsplit('.').next().unwrap_or_default();
    match value {
        Value::String(text) => {
            found.extend(lines_of_calls(text).into_iter().map(|line| (key.to_string(), line)))
        }
        Value::Array(values) => {
            let words: Vec<String> = values.iter().filter_map(Value::as_str).map(str::to_string).collect();
            if COMMANDS.contains(&last) && !words.is_empty() {
                return found.push((key.to_string(), shell::command(&words)));
            }
            values.iter().for_each(|value| look_through(key, value, found));
        }
        Value::Table(table) => {
            for (name, value) in table {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                look_through(&key, value, found);
            }
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
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
    let has_hooks = Hook::ALL.iter().any(|hook| !case.hooks.words(*hook).is_empty());
    add(keys::server::RESTART.name.to_string(), &case.server.restart);
    for driver in &case.workload.drivers {
        add("driver.via".to_string(), &driver.via);
    }
    if let Some(host) = &case.server.host {
        add("server.host.via".to_string(), &host.via);
    }
    if has_hooks {
        found.extend(
            levels_for_hooks(case).into_iter().map(|(name, level)| format!("hooks, {name}: {level}")),
        );
    }
    for script in &case.workload.scripts {
        found.extend(calls(&script.name, &script.source));
    }
    for (name, value) in &case.workload.defines {
        if case.workload.scripts.iter().any(|script| is_part_of_call(name, &script.source)) {
            found.push(format!("variable {name}: {value}"));
        } else {
            found.extend(calls(&format!("variable {name}"), value));
        }
    }
    if let CaseData::Files(files) = &case.workload.data {
        for file in files {
            match &file.text {
                Some(text) => found.extend(calls(&file.name, text)),
                None => found.push(format!("{}: too long to be in it, and not looked through", file.name)),
            }
        }
    }
    // Transactions are among the scripts.
    let texts = case.workload.directory.iter().flat_map(|directory| &directory.texts);
    for (name, text) in texts.filter(|(name, _)| !name.starts_with("transactions/")) {
        found.extend(calls(name, text));
    }
    found
}

/// The lines of a script that call a program, as one text with its name: they are shown in the order of their texts.
fn calls(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<String> = lines_of_calls(text).into_iter().map(|line| format!("{name}: {line}")).collect();
    if lines.len() > 1 { vec![lines.join("\n")] } else { lines }
}

/// The statements and lines of a script that call a program, from the line that says so. Too many are better than too few.
fn lines_of_calls(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        if !is_call(line) {
            continue;
        }
        found.push(line.to_string());
        let (is_meta, mut last, mut n) = (line.starts_with('\\'), line, 1);
        let goes_on = |last: &str| if is_meta { last.ends_with('\\') } else { !last.contains(';') };
        while goes_on(last)
            && n < LINES_MAX
            && let Some(next) = lines.next()
        {
            found.push(next.to_string());
            (last, n) = (next, n + 1);
        }
    }
    found
}

/// Whether the value of a variable may become a part of what a script calls: by its name there, or by another variable that the
/// script sets from it, also by way of the server.
fn is_part_of_call(variable: &str, script: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_used = |line: &str| {
        let mut after = line.split(':').skip(1);
        after.any(|text| text.strip_prefix(variable).is_some_and(|rest| !rest.starts_with(is_word)))
    };
    let called = calls("", script).concat();
    let lower = script.to_ascii_lowercase();
    let keeps_answers = ["\\gset", "\\aset"].iter().any(|meta| lower.contains(meta));
    let setting = script.lines().map(str::trim).filter(|line| keeps_answers || line.starts_with('\\'));
    !called.is_empty() && called.lines().chain(setting).any(is_used)
}

/// Whether a line calls a program, or begins to.
fn is_call(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let command = lower.split_whitespace().next().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    CALLS.iter().any(|call| lower.starts_with(call))
        || (PIPES.contains(&command) && lower.contains('|'))
        || lower.split(|c| !is_word(c)).any(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_call_a_program_are_found() {
        let check =
            |script: &str, expected: &[&str]| assert_eq!(calls("s", script).join("\n"), expected.join("\n"));
        check(
            "\\set x 1\n  \\shell echo a\nSELECT 1;\n\\setshell y date +%s\ncopy t from PROGRAM 'cat x';\n-- programs",
            &["s: \\shell echo a", "s: \\setshell y date +%s", "s: copy t from PROGRAM 'cat x';"],
        );
        check("COPY t TO/**/PROGRAM/**/'rm x';", &["s: COPY t TO/**/PROGRAM/**/'rm x';"]);
        check("copy t from program\n 'rm x'\n;\nselect 1;", &["s: copy t from program", "s: 'rm x'", "s: ;"]);
        check("copy (select 1) to\nprogram$$rm x$$;", &["s: program$$rm x$$;"]);
        check("\\SHELL a \\\n b\nselect 1;", &["s: \\SHELL a \\", "s: b"]);
        check("\\! rm x\nselect 1 \\g x\n\\o | rm x", &["s: \\! rm x", "s: \\o | rm x"]);
        check(
            "create function f() returns int language plperlu as $$system('rm')$$;",
            &["s: create function f() returns int language plperlu as $$system('rm')$$;"],
        );
        check("select programs, a_program from t where x | 1 = 2;\n\\set y 1 | 2", &[]);
    }

    #[test]
    fn variables_that_become_part_of_a_command_are_found() {
        for (script, expected) in [
            ("\\shell notify :token", true),
            ("\\setshell x notify\\\n :token", true),
            ("COPY t TO PROGRAM 'x'\n':token';", true),
            ("\\set y :token\n\\shell notify :y", true),
            ("SELECT :token AS y\n\\gset\n\\shell notify :y", true),
            ("\\shell notify :tokens :other", false),
            ("\\shell notify token", false),
            ("SELECT :token;\n\\shell date", false),
            ("SELECT :token;", false),
        ] {
            assert_eq!(is_part_of_call("token", script), expected, "{script}");
        }
    }

    #[test]
    fn files_of_data_and_variables_are_looked_through() {
        use model::experiment::case::{ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
        use model::experiment::script::{CaseScript, SqlFile};
        use model::load::Window;

        let server = ServerSpec::new(ServerSource::Version("15".parse().unwrap()));
        let window = Window { ramp_up_s: 1, measure_s: 9, grace_s: 1 };
        let mut case = Case::new(server, WorkloadSpec::new(WorkloadKind::Tpcb, 1), window);
        let file = |name: &str, text: Option<&str>| SqlFile {
            name: name.to_string(),
            sha256: String::new(),
            bytes: 1,
            file: None,
            text: text.map(str::to_string),
        };
        case.workload.data = CaseData::Files(vec![
            file("a.sql", Some("create table t (a int);\ncopy t from/*x*/program'cat x';")),
            file("b.sql", None),
        ]);
        let script = |name: &str, source: &str| CaseScript {
            name: name.to_string(),
            weight: 1,
            sha256: String::new(),
            source: source.to_string(),
            to: None,
        };
        case.workload.scripts = vec![script("s", "\\shell notify :token")];
        case.workload.defines = [("what", "t to program 'rm x'"), ("token", "hush"), ("n", "7")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into();
        let expected = [
            "a.sql: copy t from/*x*/program'cat x';",
            "b.sql: too long to be in it, and not looked through",
            "s: \\shell notify :token",
            "variable token: hush",
            "variable what: t to program 'rm x'",
        ];
        let plan = Plan { cases: vec![case], ..Plan::default() };
        assert_eq!(Vec::from_iter(commands(&plan, "")), expected);

        // What no case has, because it is excluded.
        let text = "[hooks]\nbefore_run = [\"rm\", \"x\"]\n[[target]]\nname = \"a\"\nrestart = [\"ssh\", \"a\"]\n\
                    [workload]\nscripts = [{name = \"s\", text = \"\\\\shell notify :token\\n\\\\shell evil\\nselect 1;\"}]\n";
        let mut expected = Vec::from(expected);
        expected.extend([
            "experiment.toml, hooks.before_run: rm x",
            "experiment.toml, target.restart: ssh a",
            "experiment.toml, workload.scripts.text: \\shell evil",
        ]);
        expected.sort_unstable();
        assert_eq!(Vec::from_iter(commands(&plan, text)), expected);
        assert_eq!(commands(&Plan::default(), "= x").len(), 1);
    }
}
