//! The catalogue of findings: every rule is tested, worded and explained.

use std::collections::BTreeSet;

use analysis::findings::{CATALOGUE, pages};

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
        // In tests of their own there, and in `capacity.rs`.
        .chain(["not-interleaved", "took-turns", "turns-weigh", "too-few-rounds", "runs-repeated"])
        .chain(["target-unreachable", "target-not-limiting", "capacity-unsure"])
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
fn every_rule_has_a_page() {
    let of_pages: Vec<&str> = pages::PAGES.iter().map(|page| page.id).collect();
    assert_eq!(of_pages, CATALOGUE.iter().map(|rule| rule.id).collect::<Vec<&str>>());
    for rule in CATALOGUE {
        let text = pages::text(rule);
        for part in
            ["\nwhen\n", "\nevidence\n", "\nwhy\n", "\nadvice\n", "\nsource\n", rule.advice, rule.title]
        {
            assert!(text.contains(part), "{text}");
        }
        let page = pages::page(rule.id).unwrap();
        assert!(page.evidence.ends_with('.') && page.why.ends_with('.'), "{}", rule.id);
    }
}
