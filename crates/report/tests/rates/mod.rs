//! The rates that a search for the highest rate tried, in every form of the report.

use analysis::summary::capacity::{Capacity, ProbeSummary, ProbeVerdict, RateEstimate, SearchOutcome};
use report::Input;

use crate::synthetic::{self, Shape};

/// A search that tried 2,000/s, which held, and 2,400/s, at which transactions piled up.
fn search() -> Capacity {
    let probe = |rate_per_s: f64, verdict: ProbeVerdict| ProbeSummary {
        from_s: 0.0,
        to_s: 2.0,
        rate_per_s,
        achieved_per_s: rate_per_s - 10.0,
        late: 0.0,
        latency_ns: Some(8_100_000),
        latency_low_ns: None,
        latency_high_ns: None,
        verdict,
        piles_up: verdict == ProbeVerdict::Misses,
        confirms: false,
    };
    Capacity {
        target: "p99 <= 10ms".parse().unwrap(),
        outcome: SearchOutcome::Found,
        rate: Some(RateEstimate { point: 2340.0, low: 2250.0, high: 2410.0 }),
        ceiling_per_s: 4000.0,
        probes: vec![probe(2000.0, ProbeVerdict::Holds), probe(2400.0, ProbeVerdict::Misses)],
    }
}

#[test]
fn the_rates_that_a_search_tried_are_on_the_terminal_and_in_markdown() {
    let (mut study, data) = synthetic::make(&Shape { clients: vec![8], repeats: 5, ..Shape::default() });
    study.runs.iter_mut().for_each(|run| run.capacity = Some(search()));
    let input = Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" };
    let markdown = report::markdown(&input).replace('\\', "");
    for row in [
        "### Rates that run 1 tried for p99 &lt;= 10ms",
        "| offered | achieved | p99 | verdict |",
        "| 2,000/s | 1,990/s | 8.10 ms | holds |",
        "| 2,400/s | 2,390/s | 8.10 ms | misses: transactions pile up |",
        "the page has the rates that 2 more runs tried",
    ] {
        assert!(markdown.contains(row), "{row} is not in {markdown}");
    }
    let terminal = report::terminal_table(&study, 200, false);
    for row in [
        "rates that run 1 tried for p99 <= 10ms",
        "     offered    achieved         p99  verdict",
        "     2,400/s     2,390/s     8.10 ms  misses: transactions pile up",
        "the page has the rates that 2 more runs tried",
    ] {
        assert!(terminal.contains(row), "{row} is not in {terminal}");
    }
}
