//! Expressions against the words of pgbench 15.18.
//!
//! `expressions.debug` is what it printed on stderr for
//! `pgbench -n -t 4 -c 1 --random-seed=42 -s 7 -D ... -f expressions.sql`, with the variables defined below.
//! Both error tables hold a script and pgbench's message per line, newlines escaped, the leading `pgbench: error: `
//! removed; they come from `pgbench -n -t 1 -D ... -f t.sql` with the script in `t.sql`.
//! `tests/against_pgbench.rs` repeats the comparison with the pgbench that is installed.

use super::{bundle, bundle_with, defines, emulator, unescape};
use crate::script::expr::DEPTH_MAX;
use crate::{Action, Bundle, Program, Seeds};

pub(super) const VARIABLES: [(&str, &str); 12] = [
    ("one", "1"),
    ("ten", "10"),
    ("half", "0.5"),
    ("yes", "yes"),
    ("y", "Y"),
    ("no", "n"),
    ("of", "of"),
    ("nothing", "NULL"),
    ("big", "9223372036854775807"),
    ("neg", "-12"),
    ("expo", "1e3"),
    ("spaced", "  42"),
];

#[test]
fn values_and_random_numbers_are_those_of_pgbench() {
    let script = include_str!("../../tests/data/expressions.sql");
    let wanted = include_str!("../../tests/data/expressions.debug");
    let seeds = Seeds::derive(42, 1, 1);
    let mut variables = defines(&VARIABLES);
    crate::insert_automatic_variables(&mut variables, 7, 42, seeds.default_seed);
    for bundle in [bundle(script), bundle_with(script, &variables)] {
        let program = &bundle.programs[0];
        let mut emulator = emulator(&bundle, 42, &variables);
        let mut lines = wanted.lines();
        for _ in 0..4 {
            emulator.begin(program);
            assert_eq!(emulator.step(program), Ok(Action::End));
            for line in emulator.take_debug_lines().drain(..) {
                let command = &program.commands[line.command].label;
                assert_eq!(Some(line.text(0).as_str()), lines.next(), "{command}");
            }
        }
        assert_eq!(lines.next(), None);
    }
}

#[test]
fn syntax_errors_are_worded_and_placed_as_by_pgbench() {
    for line in include_str!("../../tests/data/syntax_errors.tsv").lines() {
        let (script, wanted) = line.split_once('\t').expect("two columns");
        let said = Program::compile("t.sql", &unescape(script))
            .map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(said, unescape(wanted), "{script}");
    }
}

#[test]
fn failures_of_evaluation_are_worded_as_by_pgbench() {
    let mut variables =
        defines(&[("bad", "abc"), ("huge", "92233720368547758070"), ("sign", "-"), ("toolong", "1e999")]);
    crate::insert_automatic_variables(&mut variables, 1, 1, 1);
    for line in include_str!("../../tests/data/run_errors.tsv").lines() {
        let (script, wanted) = line.split_once('\t').expect("two columns");
        let source = unescape(script);
        for bundle in [bundle(&source), bundle_with(&source, &variables)] {
            let program = &bundle.programs[0];
            let mut emulator = emulator(&bundle, 1, &variables);
            emulator.begin(program);
            let error = emulator.step(program).expect_err(script);
            let said = format!(
                "{}\nclient 0 aborted in command {} ({}) of script 0; {}",
                error.cause, error.command, error.command_name, error.outcome
            );
            assert_eq!(said, unescape(wanted), "{script}");
        }
    }
}

#[test]
fn deep_nesting_is_refused_and_what_is_accepted_runs() {
    let n = DEPTH_MAX + 10;
    let too_deep = [
        format!("\\set x {}1{}", "(".repeat(n), ")".repeat(n)),
        format!("\\set x {}1", "- ".repeat(n)),
        format!("\\set x {}true", "not ".repeat(n)),
        format!("\\set x 1{}", " + 1".repeat(n)),
        format!("\\set x {}1{}", "abs(".repeat(n), ")".repeat(n)),
        format!("\\set x {}1", "case when 1 then ".repeat(n)),
    ];
    for script in too_deep {
        let error = Program::compile("t.sql", &script).expect_err("too deep");
        assert!(error.message.starts_with("t.sql:1: expression nests too deeply"), "{}", error.message);
    }
    let n = DEPTH_MAX - 10;
    let deep = format!("\\set x {}1{}\n\\set x debug(1{})", "abs(".repeat(n), ")".repeat(n), "+1".repeat(n));
    let bundle: Bundle = bundle(&deep);
    let mut emulator = emulator(&bundle, 1, &defines(&[]));
    emulator.begin(&bundle.programs[0]);
    assert_eq!(emulator.step(&bundle.programs[0]), Ok(Action::End));
    assert_eq!(emulator.take_debug_lines()[0].text(0), format!("debug(script=0,command=2): int {}", n + 1));
}
