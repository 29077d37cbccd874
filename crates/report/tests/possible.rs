//! Figures on the pages of random experiments are possible: intervals contain their point, percentiles rise, no part is
//! larger than its whole, and nothing is printed that is no number.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]
#![allow(dead_code, reason = "the tests of `analysis` use more of the random records than these")]

#[path = "../../analysis/tests/analysis/chance.rs"]
mod chance;
#[path = "../../analysis/tests/analysis/quiet.rs"]
mod quiet;

use analysis::study;
use analysis::summary::Study;
use chance::Chance;
use model::run::ExperimentData;

/// Experiments that are drawn.
const EXPERIMENTS: u64 = 12;

/// Words without what surrounds numbers in sentences and tables.
fn words(text: &str) -> Vec<&str> {
    let is_around = |c: char| "()|*,;:".contains(c);
    text.split_whitespace().map(|word| word.trim_matches(is_around)).filter(|word| !word.is_empty()).collect()
}

fn number(word: &str) -> Option<f64> {
    let is_number = word.chars().next_back()?.is_ascii_digit();
    word.replace(',', "").trim_start_matches('+').parse().ok().filter(|_| is_number)
}

/// What is impossible in a text for people.
fn in_text(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let words = words(line);
        if words.iter().any(|word| ["NaN", "inf", "-inf", "-0", "None"].contains(word)) {
            found.push(format!("no number: {line}"));
        }
        for three in words.windows(3) {
            let (Some(first), Some(last)) = (number(three[0]), number(three[2])) else { continue };
            let is_possible = match three[1] {
                // `median of 3`, `runs 1 to 3`, `interval -2 to 4`.
                "of" | "to" => first <= last,
                _ => true,
            };
            if !is_possible {
                found.push(format!("`{}`: {line}", three.join(" ")));
            }
        }
    }
    found
}

/// What is impossible in a table for programs, whose columns rise in these orders.
fn in_table(csv: &str, rising: &[&[&str]]) -> Vec<String> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut found = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        for order in rising {
            let at =
                |name: &&str| names.iter().position(|known| known == name).expect("a column of the table");
            let values: Vec<f64> = order.iter().filter_map(|name| fields[at(name)].parse().ok()).collect();
            if !values.is_sorted() {
                found.push(format!("{order:?}: {values:?}"));
            }
        }
    }
    found
}

fn impossible(study: &Study, data: &ExperimentData) -> Vec<String> {
    let input = report::Input { study, data, commands: &[], tool_version: "0.1.0" };
    let mut found = in_text(&report::markdown(&input));
    found.extend(in_text(&report::terminal_table_in_full(study, 200, false)));
    let latency = |of: &str| ["p50", "p95", "p99", "max"].map(|name| format!("{of}_{name}_ns"));
    for of in ["latency", "service"] {
        let names = latency(of);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        found.extend(in_table(&report::cases_csv(study), &[&names, &["tps_low", "tps", "tps_high"]]));
        found.extend(in_table(&report::runs_csv(study), &[&names]));
    }
    found
}

#[test]
fn the_figures_of_pages_are_possible() {
    let mut all = Vec::new();
    for seed in 100..100 + EXPERIMENTS {
        let data = Chance::new(seed).experiment();
        let study = study(&data);
        all.extend(impossible(&study, &data).into_iter().map(|words| format!("seed {seed}: {words}")));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
