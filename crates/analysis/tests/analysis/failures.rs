//! Transactions that failed: when a script is missing from the mix, and how their errors are reported.

use analysis::finding::{Finding, Grade, Severity};
use analysis::study;
use model::load::ScriptSpec;
use model::load::interval::Counts;
use model::run::RunData;

use crate::quiet;

/// A run of two scripts, of which the second one's transactions end so.
fn two_scripts(counts: Counts) -> RunData {
    let mut data = quiet::run(1);
    let load = data.record.load.as_mut().unwrap();
    let script = |name: &str| ScriptSpec {
        name: name.to_string(),
        tag: name.to_string(),
        weight: 1,
        source: "SELECT 1;".to_string(),
    };
    load.scripts.push(script("other"));
    let mut second = data.intervals.clone();
    second.iter_mut().for_each(|interval| (interval.script, interval.counts) = (1, counts));
    data.intervals.extend(second);
    quiet::finish(&mut data);
    tell(&mut data);
    data
}

/// What the driver says of the failures.
fn tell(data: &mut RunData) {
    let done = data.record.done.as_mut().unwrap();
    done.errors.insert("22012".to_string(), done.counts.failed);
    done.messages.insert("22012".to_string(), "ERROR 22012: division by zero".to_string());
}

fn findings_of(data: RunData) -> (Grade, Vec<Finding>) {
    let run = study(&quiet::experiment(1, vec![data])).runs.remove(0);
    (run.grade, run.findings)
}

fn ended(committed: u64, failed: u64) -> Counts {
    let n = committed + failed;
    Counts { due: n, started: n, committed, failed, ..Counts::default() }
}

#[test]
fn a_mix_without_one_of_its_scripts_is_void() {
    let (grade, findings) = findings_of(two_scripts(ended(0, 2)));
    assert_eq!((grade, findings[0].id), (Grade::Void, "transactions-failed"));
    assert_eq!(
        findings[0].evidence,
        "60 transactions (0.2 %) failed; most often 22012 division by zero; none of other was committed: the mix is not \
         the requested one"
    );
    let (grade, findings) = findings_of(two_scripts(ended(1, 2)));
    assert_eq!((grade, findings[0].severity), (Grade::Valid, Severity::Note), "{findings:?}");
    let (grade, _) = findings_of(two_scripts(ended(0, 0)));
    assert_eq!(grade, Grade::Valid, "it was never chosen, or outlived the measurement");
}

#[test]
fn where_all_transactions_fail_their_error_is_the_cause() {
    let mut data = quiet::run(1);
    data.intervals.iter_mut().for_each(|interval| interval.counts = ended(0, 1000));
    data.histograms.clear();
    quiet::finish(&mut data);
    tell(&mut data);
    let (grade, findings) = findings_of(data);
    assert_eq!((grade, findings[0].id), (Grade::Void, "transactions-failed"));
    assert_eq!(
        findings[0].evidence,
        "30000 transactions (100 %) failed; most often 22012 division by zero; none was committed"
    );
    assert!(!findings.iter().any(|finding| finding.id == "too-few-transactions"), "{findings:?}");
}

#[test]
fn an_error_is_reported_without_the_code_next_to_it() {
    let mut data = two_scripts(ended(1, 2));
    let messages = &mut data.record.done.as_mut().unwrap().messages;
    messages.insert("lost".to_string(), "server closed the connection: 57P01: going down".to_string());
    data.record.done.as_mut().unwrap().errors.insert("lost".to_string(), 1);
    let run = study(&quiet::experiment(1, vec![data])).runs.remove(0);
    let told: Vec<(&str, &str)> =
        run.errors.iter().map(|error| (error.sqlstate.as_str(), error.message.as_str())).collect();
    assert_eq!(
        told,
        [("22012", "division by zero"), ("lost", "server closed the connection: 57P01: going down")]
    );
}

#[test]
fn transactions_that_stood_in_each_others_way_can_be_tried_again_and_others_cannot() {
    let advice = |sqlstate: &str, max_tries: Option<u32>| {
        let mut data = two_scripts(ended(1, 2));
        let done = data.record.done.as_mut().unwrap();
        done.errors = [(sqlstate.to_string(), 10)].into();
        done.messages = [(sqlstate.to_string(), "could not serialize".to_string())].into();
        data.record.case.workload.max_tries = max_tries;
        let (_, findings) = findings_of(data);
        findings.into_iter().find(|finding| finding.id == "transactions-failed").unwrap().advice
    };
    assert!(advice("40001", None).contains("--max-tries 0"));
    assert!(advice("40P01", Some(1)).contains("--max-tries 0"));
    assert!(!advice("40001", Some(3)).contains("--max-tries"), "they were tried again");
    assert!(!advice("22012", None).contains("--max-tries"));
}
