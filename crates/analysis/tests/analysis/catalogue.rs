//! The catalogue of findings: every rule is tested, worded and explained.

use std::collections::BTreeSet;

use analysis::findings::CATALOGUE;
use analysis::summary::limiter::Bottleneck;
use model::secret::hide_text;

use crate::comparison;
use crate::experiments::STUDY_TABLE;
use crate::findings::RUN_TABLE;
use crate::quiet::WINDOW;

#[test]
fn every_rule_of_the_catalogue_is_tested_and_worded() {
    let tested: BTreeSet<&str> = RUN_TABLE
        .iter()
        .map(|row| row.0)
        .chain(STUDY_TABLE.iter().map(|row| row.0))
        .chain(comparison::TABLE.iter().map(|row| row.0))
        // In tests of their own there, in `analytical.rs`, by `fidelity`, in `captured.rs`, in `conditions.rs`, in `counters.rs`, in `standby.rs`, in `outages.rs` and in `capacity.rs`.
        .chain(["new-errors", "draws-reused", "left-out-by-reading", "not-your-workload"])
        .chain(["trace-pace", "trace-diverged"])
        .chain(["query-failed", "query-stopped", "answer-wrong", "plans-vary"])
        .chain(["condition-unmet", "waits-for-standby", "archiving-failed", "allowance-exceeded"])
        .chain(["replay-stalled", "archiver-behind"])
        .chain(["not-interleaved", "took-turns", "turns-weigh", "too-few-rounds", "runs-repeated"])
        .chain(["target-unreachable", "target-not-limiting", "capacity-unsure"])
        .chain(["not-synchronous", "standby-falls-behind", "same-machine", "stale-reads"])
        .chain([
            "outage-not-proved",
            "outage-step-failed",
            "commits-lost",
            "lost-in-spite-of-sync",
            "two-primaries",
        ])
        .chain(["outage-outlasts-load", "service-not-lost", "loss-unknown"])
        .collect();
    let listed: BTreeSet<&str> = CATALOGUE.iter().map(|rule| rule.id).collect();
    assert_eq!(tested, listed);
    assert_eq!(listed.len(), CATALOGUE.len(), "an identifier is listed twice");
    for rule in CATALOGUE {
        assert!(rule.advice.ends_with('.') && !rule.advice.contains(". "), "{}: one sentence", rule.id);
        assert!(!rule.title.is_empty() && !rule.severity.is_empty() && !rule.source.is_empty());
    }
    assert_eq!(WINDOW.measure_s, 30, "the tables' figures are for 30 s");
}

#[test]
fn no_text_of_the_catalogue_is_taken_for_one_with_a_secret() {
    for rule in CATALOGUE {
        for text in [rule.page().as_str(), rule.title, rule.severity, rule.source, rule.advice, rule.why] {
            assert_eq!(hide_text(text), text, "{}", rule.id);
        }
    }
    for limiter in Bottleneck::ALL {
        assert_eq!(hide_text(limiter.advice()), limiter.advice());
    }
}

#[test]
fn every_rule_has_a_page() {
    for rule in CATALOGUE {
        let text = rule.page();
        let headings = ["when", "evidence", "why", "advice", "source", "tested with"];
        for part in headings
            .map(|heading| format!("\n{heading}\n"))
            .iter()
            .map(String::as_str)
            .chain([rule.advice, rule.title])
        {
            assert!(text.contains(part), "{text}");
        }
        for sentence in [rule.evidence, rule.why, rule.tested] {
            assert!(sentence.ends_with('.'), "{}: {sentence}", rule.id);
        }
    }
}
