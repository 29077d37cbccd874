//! Any text as a script: it compiles, or the error points into it; a script that compiles runs a few steps. Nothing
//! panics, whatever the server answers. The same text is also read as a file of SQL.

use std::collections::BTreeMap;

use workload::script::sqlfile;
use workload::{Action, Bundle, Emulator, Fetch, Prng, Program, ScriptError};

/// Steps of one run: enough to come around every kind of command.
const STEPS_MAX: usize = 64;
/// What a `\gset` is given for each column.
const VALUES: [&[u8]; 4] = [b"7", b"-9223372036854775808", b"1e308", b"it's \xff"];

/// Tries one text.
pub fn run_one(source: &str) {
    read_as_sql(source);
    let defines = BTreeMap::from([("scale".to_string(), "3".to_string()), ("x".to_string(), "".to_string())]);
    match Bundle::compile(&[("fuzz.sql", source, 1)], &defines) {
        Err(error) => check_place(&error, source),
        Ok(bundle) => {
            let program = &bundle.programs[0];
            check_lines(program, source);
            let mut emulator = Emulator::new(&bundle, Prng::seed(source.len() as u64), 1, &defines);
            run(&mut emulator, program);
        }
    }
}

fn read_as_sql(source: &str) {
    let mut from = 0;
    for step in sqlfile::steps(source) {
        let start = match &step {
            Ok(step) => step.start,
            Err(error) => error.start,
        };
        assert!((from..=source.len()).contains(&start), "steps come in their order");
        sqlfile::line_and_column(source, start);
        from = start;
    }
}

/// An error's place is in the script.
fn check_place(error: &ScriptError, source: &str) {
    let n_lines = source.split('\n').count();
    assert!(error.line <= n_lines, "{error:?}");
    if let Some(shown) = &error.source_line {
        // The line is shown without its end, but pgbench counts that in when the end is what was not expected.
        let ends = source.match_indices(shown.as_str()).map(|(at, _)| &source[at + shown.len()..]);
        let end_bytes = ends.map(|rest| rest.len() - rest.trim_start_matches(['\r', '\n']).len()).max();
        let end_bytes = end_bytes.unwrap_or_else(|| panic!("not in the script: {error:?}"));
        let columns = 1..=shown.len() + end_bytes + 1;
        assert!(error.column.is_none_or(|column| columns.contains(&column)), "{error:?}");
    }
    assert!(error.to_string().starts_with(&error.message));
}

fn check_lines(program: &Program, source: &str) {
    let n_lines = source.split('\n').count();
    for step in &program.commands {
        assert!((1..=n_lines).contains(&step.line), "{step:?}");
    }
}

fn run(emulator: &mut Emulator, program: &Program) {
    let mut out = Vec::new();
    emulator.begin(program);
    for n in 0..STEPS_MAX {
        out.clear();
        match emulator.step(program) {
            Ok(Action::End) => {
                emulator.rewind(program);
                return;
            }
            Ok(Action::Send { statement }) => {
                // A variable without a value ends the script.
                if emulator.render(program, statement, &mut out).is_err() {
                    return;
                }
                let statement = &program.statements[statement];
                for &variable in &statement.parameters {
                    let _ = emulator.parameter(variable, &mut out);
                }
                if let Fetch::Gset { prefix } | Fetch::Aset { prefix } = &statement.fetch {
                    let name = format!("{prefix}x");
                    // A name that cannot be a variable's is refused in words.
                    let script = emulator.script_mut().expect("a script");
                    let value = (n % 7 != 6).then(|| VALUES[n % VALUES.len()]);
                    script.assign_column(program, "gset", &name, value).ok();
                }
            }
            Ok(Action::Shell | Action::SetShell) => {
                let script = emulator.script_mut().expect("a script");
                script.shell_line(program).ok();
                script.take_shell_answer(program, VALUES[n % VALUES.len()]).ok();
            }
            Ok(_) => {}
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
        emulator.take_debug_lines();
    }
}
