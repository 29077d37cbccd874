//! What the judge says of analytical workloads: queries without an answer, at their longest time, with a wrong answer, with several plans.

use analysis::finding::{Finding, Severity};
use analysis::study;
use model::directory::AnalyticalSpec;
use model::experiment::case::directory::WorkloadDirectory;
use model::load::execution::{AnswerRecord, Execution, ExecutionEnd, QueryPlan};
use model::run::RunData;
use serde_json::json;

use crate::quiet;
use crate::scripts::mixed;

/// A run of two queries, `take` and `find` of one stream, each answered in a second.
fn analytical(number: u32) -> RunData {
    let mut run = mixed(4);
    run.record.spec.run = number;
    let spec = AnalyticalSpec {
        passes: 1,
        n_queries: 2,
        timeouts_ms: [("take".to_string(), 1000)].into(),
        ..AnalyticalSpec::default()
    };
    let directory = WorkloadDirectory { analytical: Some(spec), ..WorkloadDirectory::default() };
    run.record.case.workload.directory = Some(Box::new(directory));
    if let Some(load) = &mut run.record.load {
        load.n_clients = 1;
    }
    let second = |script: u32| Execution {
        script,
        start_ns: u64::from(script) * 1_000_000_000,
        length_ns: 1_000_000_000,
        ..Execution::default()
    };
    let n_scripts = run.record.load.as_ref().map_or(0, |load| load.scripts.len()) as u32;
    run.executions = (0..n_scripts).map(second).collect();
    quiet::finish(&mut run);
    run
}

fn of_run(change: impl Fn(&mut RunData), id: &str) -> Option<Finding> {
    let mut run = analytical(1);
    change(&mut run);
    let study = study(&quiet::experiment(1, vec![run]));
    study.runs[0].findings.iter().find(|finding| finding.id == id).cloned()
}

#[track_caller]
fn expect(found: Option<Finding>, severity: Severity, words: &str) {
    let found = found.expect("the rule finds it");
    assert!(found.severity == severity && found.evidence.contains(words), "{found:?}");
}

#[test]
fn a_query_without_an_answer_voids_a_run() {
    assert_eq!(of_run(|_| {}, "query-failed"), None);
    let missing = |run: &mut RunData| drop(run.executions.pop());
    expect(of_run(missing, "query-failed"), Severity::Void, "0 executions recorded");
    let failed = |run: &mut RunData| {
        run.executions[0].end = ExecutionEnd::Failed;
        run.executions[0].sqlstate = Some("53200".to_string());
    };
    expect(of_run(failed, "query-failed"), Severity::Void, "1 failed");
}

#[test]
fn a_query_counts_as_often_as_the_order_of_a_pass_names_it() {
    let mut run = analytical(1);
    if let Some(spec) =
        run.record.case.workload.directory.as_mut().and_then(|directory| directory.analytical.as_mut())
    {
        spec.n_queries = 3;
    }
    let study = study(&quiet::experiment(1, vec![run]));
    let found = study.runs[0].analytical.as_ref().expect("it is analytical");
    assert_eq!((found.n_queries, found.queries.len()), (3, 2));
}

#[test]
fn a_query_at_its_longest_time_is_a_note() {
    assert_eq!(of_run(|_| {}, "query-stopped"), None);
    let stopped = |run: &mut RunData| {
        let index = run.record.load.iter().flat_map(|load| &load.scripts).position(|one| one.name == "take");
        let execution = &mut run.executions[index.expect("there is `take`")];
        execution.end = ExecutionEnd::Failed;
        execution.sqlstate = Some("57014".to_string());
    };
    expect(of_run(stopped, "query-stopped"), Severity::Note, "take (1 of 1)");
    assert_eq!(of_run(stopped, "query-failed"), None);
}

#[test]
fn an_answer_that_differs_voids_a_run_and_one_that_could_not_be_compared_is_a_note() {
    let with = |difference: Option<&str>, unfinished: Option<&str>| AnswerRecord {
        transaction: "take".to_string(),
        difference: difference.map(str::to_string),
        unfinished: unfinished.map(str::to_string),
        ..AnswerRecord::default()
    };
    let answered = |answer: AnswerRecord| move |run: &mut RunData| run.record.answers = vec![answer.clone()];
    assert_eq!(of_run(answered(with(None, None)), "answer-wrong"), None);
    expect(
        of_run(answered(with(Some("row 1: 2, not 3"), None)), "answer-wrong"),
        Severity::Void,
        "row 1: 2, not 3",
    );
    expect(
        of_run(answered(with(None, Some("it took too long"))), "answer-wrong"),
        Severity::Note,
        "it took too long",
    );
}

#[test]
fn plans_that_vary_between_runs_are_a_note() {
    let planned = |number: u32, node: &str| {
        let mut run = analytical(number);
        run.plans = vec![QueryPlan {
            transaction: "take".to_string(),
            plan: Some(json!([{"Plan": {"Node Type": node, "Relation Name": "item"}}])),
            ..QueryPlan::default()
        }];
        run
    };
    let found = |nodes: [&str; 2]| {
        let runs = vec![planned(1, nodes[0]), planned(2, nodes[1])];
        let study = study(&quiet::experiment(2, runs));
        study.cases[0].findings.iter().find(|finding| finding.id == "plans-vary").cloned()
    };
    assert_eq!(found(["Seq Scan", "Seq Scan"]), None);
    expect(found(["Seq Scan", "Index Scan"]), Severity::Note, "take (2)");
}
