//! How texts name attempts that do not count: of runs that were repeated, and repeats that were no better.

use analysis::finding::{Finding, Severity};
use analysis::summary::Study;
use model::experiment::plan::RunState;

use crate::synthetic::{self, Shape};

#[test]
fn findings_of_an_attempt_that_was_repeated_are_notes() {
    let (mut study, _) = synthetic::make(&Shape::default());
    let (id, severity, advice) = ("run-incomplete", Severity::Void, String::new());
    let evidence = "the run ended early".to_string();
    study.runs[0].findings.push(Finding { id, severity, evidence, advice, effect: None });
    let line_of = |study: &Study| {
        let table = report::terminal_table_in_full(study, 100, false);
        table.lines().find(|line| line.contains("planned end")).unwrap_or_default().to_string()
    };
    assert!(line_of(&study).starts_with("void"));
    study.runs[0].replaced_by = Some(2);
    assert!(line_of(&study).starts_with("note"));
    let has = |study: &Study, words| report::terminal_table(study, 200, false).contains(words);
    assert!(has(&study, "run 1 replaced by run 2"));
    (study.runs[0].replaced_by, study.runs[1].replaced_by) = (None, Some(1));
    assert!(has(&study, "run 2 was no better than run 1, which it repeats"));
    (study.runs[1].state, study.runs[1].reason) = (RunState::Partial, "stopped on request".to_string());
    let stopped =
        "run 2 was to repeat run 1, which counts because this one did not end (partial: stopped on request)";
    assert!(has(&study, stopped));
}
