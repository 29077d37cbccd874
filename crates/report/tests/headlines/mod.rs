//! The answer in one sentence, for made-up throughputs of levels by block.

use analysis::finding::{Finding, Grade, Severity};
use analysis::summary::capacity::{CaseCapacity, RateEstimate};
use analysis::summary::tpcc::TpccSummary;
use analysis::summary::uncertainty::{CaseUncertainty, Uncertainty};
use analysis::summary::{LatencySummary, Second, Study};
use model::load::Pace;

use crate::synthetic::{self, Shape};

/// A study of versions by clients whose runs have these throughputs: a row for each case, a column for each block.
fn study(versions: &[&str], clients: &[u32], tps: &[&[f64]]) -> Study {
    let shape = Shape {
        versions: versions.iter().map(ToString::to_string).collect(),
        clients: clients.to_vec(),
        repeats: tps[0].len() as u32,
        window: (1, 3),
        ..Shape::default()
    };
    let (mut study, _) = synthetic::make(&shape);
    assert_eq!(study.cases.len(), tps.len(), "a row for each case");
    for run in &mut study.runs {
        run.tps = Some(tps[run.case as usize - 1][run.block as usize - 1]);
        run.findings.clear();
        run.grade = Grade::Valid;
    }
    for (case, tps) in study.cases.iter_mut().zip(tps) {
        (case.tps, case.tps_median, case.tps_cv) = (tps.to_vec(), stats::median(tps), stats::cv(tps));
        (case.n_runs, case.grade, case.latency, case.uncertainty) = (tps.len(), Grade::Valid, None, None);
    }
    study.findings.clear();
    study
}

/// The second line of the Markdown report, which is the headline.
fn headline(study: &Study) -> String {
    let (_, data) = synthetic::make(&Shape { window: (1, 3), ..Shape::default() });
    let input = report::Input { study, data: &data, commands: &[], tool_version: "0.1.0" };
    let text = report::markdown(&input);
    text.lines().nth(2).unwrap_or_default().trim_matches('*').replace('\\', "")
}

fn check(study: &Study, expected: &str) {
    assert_eq!(headline(study), expected);
}

const NOISY: [f64; 6] = [3572.0, 2300.0, 4900.0, 3100.0, 3900.0, 2700.0];
const NOISY_TOO: [f64; 6] = [2400.0, 3300.0, 3650.0, 4100.0, 2900.0, 3350.0];

#[test]
fn figures_of_the_best_case_count_its_runs_and_no_others() {
    let made = synthetic::make(&Shape { clients: vec![1, 4], window: (1, 3), ..Shape::default() });
    let page = crate::page(&made);
    assert!(page.contains("which has the highest median:"), "{page}");
    assert!(page.contains("<dt>runs that count</dt><dd>3<small>of 3</small></dd>"), "not 6 of 6: {page}");
}

#[test]
fn two_versions_are_ranked_only_if_they_differ_beyond_chance() {
    let two = |a: &[f64], b: &[f64]| study(&["13", "18"], &[4], &[a, b]);
    check(
        &two(&NOISY[..3], &NOISY_TOO[..3]),
        "PostgreSQL 13 and 18 cannot be distinguished here (runs vary by 36 %), too much for more repeats to show a difference of 5 %",
    );
    check(
        &two(&[1000.0, 1030.0, 990.0], &[1010.0, 1005.0, 1020.0]),
        "PostgreSQL 13 and 18 cannot be distinguished here (runs vary by 2.1 %); 3 more blocks would settle a difference of 5 % \
         (--repeats 6)",
    );
    check(
        &two(&[1000.0, 1010.0, 990.0], &[1130.0, 1120.0, 1125.0]),
        "PostgreSQL 18 is 13 % faster than 13 (95 % interval +9.0 to +16.1 %, in 3 of 3 blocks): 1,125 tps against 1,000 \
         tps; provisional: 3 more blocks for a verdict (--repeats 6)",
    );
    check(
        &two(
            &[1000.0, 1010.0, 990.0, 1005.0, 1001.0, 999.0],
            &[1130.0, 1120.0, 1125.0, 1118.0, 1131.0, 1127.0],
        ),
        "PostgreSQL 18 is 12 % faster than 13 (95 % interval +10.9 to +13.6 %, 6 blocks): 1,126 tps against 1,000 tps",
    );
    check(
        &two(
            &[1000.0, 1002.0, 999.0, 1005.0, 1001.0, 999.0],
            &[1001.0, 1000.0, 1002.0, 1003.0, 1000.0, 1003.0],
        ),
        "PostgreSQL 13 and 18 differ by less than 2 % (95 % interval -0.20 to +0.40 %, 6 blocks)",
    );
    check(
        &two(&[100.0, 101.0, 99.0], &[310.0, 312.0, 309.0]),
        "PostgreSQL 18 is 3.10 times as fast as 13 (95 % interval 3.06 to 3.14 times, in 3 of 3 blocks): 310 tps against 100 \
         tps; provisional: 3 more blocks for a verdict (--repeats 6)",
    );
}

#[test]
fn a_direction_that_all_blocks_agree_on_is_stated_with_what_a_verdict_needs() {
    let (slow, fast): (&[f64], &[f64]) = (&[120.0, 188.0], &[900.0, 628.0]);
    let verdict = "two runs each give no verdict: it takes 4 more blocks at least (--repeats 6)";
    check(
        &study(&["13", "18"], &[4], &[slow, fast]),
        &format!(
            "PostgreSQL 18 is 5.0 times as fast as 13 in 2 of 2 blocks: 764 tps against 154 tps; {verdict}"
        ),
    );
    check(
        &study(&["13", "18"], &[4], &[&[1000.0, 1010.0, 1020.0], &[1050.0, 1400.0, 1900.0]]),
        "PostgreSQL 18 is 39.4 % faster than 13 in 3 of 3 blocks: 1,400 tps against 1,010 tps; three runs each give no verdict: it \
         takes 3 more blocks at least (--repeats 6)",
    );
    check(
        &study(&["13", "15", "18"], &[4], &[slow, &[700.0, 500.0], fast]),
        &format!(
            "PostgreSQL 18 is fastest in 2 of 2 blocks: 764 tps, 27.1 % faster than 15 and 5.0 times as fast as 13; {verdict}"
        ),
    );
    check(
        &study(&["13", "15", "18"], &[4], &[slow, &[1000.0, 500.0], fast]),
        &format!(
            "PostgreSQL 15 and 18 cannot be distinguished here (runs vary by 47 %), too much for more repeats to show a \
             difference of 5 %; PostgreSQL 18 is 5.0 times as fast as 13 in 2 of 2 blocks; {verdict}"
        ),
    );
    check(
        &study(&["18"], &[1, 16], &[slow, fast]),
        &format!(
            "Peak: 764 tps with 16 clients (median of 2 runs, CV 25 %); it is 5.0 times as fast as 1 client in 2 of 2 blocks; {verdict}"
        ),
    );
    check(
        &study(&["13", "18"], &[4], &[&[150.0, 158.0, 800.0], &[760.0, 768.0, 790.0]]),
        "PostgreSQL 13 and 18 cannot be distinguished here: 18 is 2.9 times as fast in 2 of 3 blocks (runs vary by 101 %), too much for \
         more repeats to show a difference of 5 %",
    );
}

#[test]
fn only_a_difference_that_more_blocks_would_settle_is_named() {
    let two = |logs: &[f64]| {
        let b: Vec<f64> = logs.iter().map(|log| 1000.0 * log.exp()).collect();
        headline(&study(&["13", "18"], &[4], &[&vec![1000.0; logs.len()], &b]))
    };
    // The interval is narrower than 1 % to either side, and neither excludes 0 nor lies within 2 %.
    let settled = two(&[-0.002, 0.004, 0.006, 0.008, 0.010, 0.0205]);
    assert_eq!(settled, "PostgreSQL 13 and 18 cannot be distinguished here (runs vary by 0.7 %)");
    // 40 blocks are enough for 5 %.
    let wide = two(&(0..40).map(|n| 0.0125 * f64::from(n) - 0.244).collect::<Vec<f64>>());
    assert!(wide.ends_with(", too much for more repeats to show a difference of 2 %"), "{wide}");
}

#[test]
fn a_ratio_that_the_medians_contradict_says_where_it_comes_from() {
    check(
        &study(&["13", "18"], &[4], &[&[654.0, 885.0, 1100.0], &[1560.0, 2555.0, 2369.0]]),
        "PostgreSQL 18 is 2.46 times as fast as 13 (95 % interval 1.70 to 3.56 times, in 3 of 3 blocks), block by block; the \
         medians are 2,369 tps and 885 tps; provisional: 3 more blocks for a verdict (--repeats 6)",
    );
}

#[test]
fn the_best_level_is_that_of_the_blocks_not_of_the_medians() {
    // Of the fast blocks, the runs of 18 are void.
    let a = [1000.0, 1003.0, 999.0, 1100.0, 1101.0, 1098.0, 1200.0, 1201.0];
    let b = a.map(|tps| 1.03 * tps);
    let fast = |study: &mut Study, case: u32| {
        let is_void = |run: &analysis::summary::RunSummary| run.case == case && run.block > 6;
        study.runs.iter_mut().filter(|run| is_void(run)).for_each(|run| run.grade = Grade::Void);
    };
    let mut two = study(&["17", "18"], &[4], &[&a, &b]);
    fast(&mut two, 2);
    check(
        &two,
        "PostgreSQL 18 is 3.0 % faster than 17 (95 % interval +3.0 to +3.0 %, 6 blocks), block by block; the medians are 1,082 \
         tps and 1,099 tps",
    );
    let mut three = study(&["16", "17", "18"], &[4], &[&a.map(|tps| 0.5 * tps), &a, &b]);
    fast(&mut three, 3);
    let text = headline(&three);
    assert!(
        text.starts_with("PostgreSQL 18 is fastest block by block: 1,082 tps, 3.0 % above 17, the next"),
        "{text}"
    );
}

#[test]
fn one_run_of_each_level_ranks_nothing() {
    check(
        &study(&["13", "18"], &[4], &[&[3572.0], &[2400.0]]),
        "One run each ranks nothing: 2,400 tps with PostgreSQL 18, 3,572 tps with PostgreSQL 13, which is 48.8 % faster than PostgreSQL 18 in 1 of 1 block; a verdict takes 6 blocks (--repeats 6)",
    );
    check(
        &study(&["18"], &[1, 8, 64], &[&[500.0], &[4812.0], &[4700.0]]),
        "One run each ranks nothing: 500 tps with 1 client, 4,812 tps with 8 clients, which is 9.6 times as fast as 1 client in 1 of 1 block; a verdict takes 6 blocks (--repeats 6)",
    );
}

#[test]
fn several_versions_have_a_fastest_group() {
    let row = |level: f64| [level, 1.004 * level, 0.997 * level];
    let rows = [row(800.0), row(900.0), row(1000.0), [1001.0, 1000.0, 1002.0]];
    let of: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
    check(
        &study(&["13", "14", "17", "18"], &[4], &of),
        "PostgreSQL 17 and 18 are fastest and cannot be distinguished here (runs vary by 0.4 %); 3 more blocks would settle a difference of \
         5 % (--repeats 6); PostgreSQL 13 and 14 are lower",
    );
    let rows = [row(800.0), row(900.0), row(1000.0)];
    let of: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
    check(
        &study(&["13", "14", "18"], &[4], &of),
        "PostgreSQL 18 is fastest: 1,000 tps, 11 % above 14, the next (95 % interval +11.1 to +11.1 %, in 3 of 3 blocks); \
         provisional: 3 more blocks for a verdict (--repeats 6)",
    );
}

#[test]
fn clients_have_a_peak_with_its_plateau() {
    let rows = [
        [500.0, 505.0, 498.0],
        [4000.0, 4050.0, 3990.0],
        [4812.0, 4790.0, 4840.0],
        [4780.0, 4800.0, 4795.0],
        [3000.0, 3010.0, 2990.0],
    ];
    let of: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
    check(
        &study(&["18"], &[1, 4, 16, 32, 64], &of),
        "Peak: 4,812 tps with 16 clients (95 % interval 4,752 to 4,877, median of 3 runs, CV 0.5 %); 32 clients cannot be \
         distinguished from it here (runs vary by 0.5 %); 3 more blocks would settle a difference of 5 % (--repeats 6)",
    );
    check(
        &study(&["18"], &[1, 4, 16], &of[..3]),
        "Peak: 4,812 tps with 16 clients (95 % interval 4,752 to 4,877, median of 3 runs, CV 0.5 %); more clients were not \
         measured, and may be faster",
    );
    check(
        &study(&["18"], &[1, 16, 64], &[of[0], of[2], of[4]]),
        "Peak: 4,812 tps with 16 clients (95 % interval 4,752 to 4,877, median of 3 runs, CV 0.5 %); all others are lower so \
         far (3 blocks)",
    );
}

#[test]
fn with_clients_as_second_factor_the_first_is_answered_at_each_client_count() {
    let rows =
        [[500.0, 505.0, 498.0], [4000.0, 4010.0, 3990.0], [501.0, 500.0, 503.0], [4400.0, 4420.0, 4390.0]];
    let of: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
    check(
        &study(&["13", "18"], &[1, 16], &of),
        "At 16 clients, PostgreSQL 18 is 10 % faster than 13 (95 % interval +9.8 to +10.4 %, in 3 of 3 blocks): 4,400 tps \
         against 4,000 tps; provisional: 3 more blocks for a verdict (--repeats 6); not distinguished at 1 client",
    );
    let mut doubtful = study(&["13", "18"], &[1, 16], &of);
    doubtful.cases[0].grade = Grade::Doubtful;
    let text = headline(&doubtful);
    assert!(text.ends_with("not distinguished at 1 client - doubtful"), "{text}");
}

#[test]
fn where_the_rate_is_given_latency_is_ranked() {
    let mut study = study(&["13", "18"], &[4], &[&[1000.0; 3], &[1000.0; 3]]);
    for case in &mut study.cases {
        case.case.workload.pace = Pace::Poisson { rate_per_s: 1000.0 };
    }
    for run in &mut study.runs {
        let ms = if run.case == 1 { 8.0 } else { 4.0 };
        run.counts.committed = (1000.0 * run.measured_s) as u64;
        run.latency.as_mut().unwrap().p99_ns = (ms * 1e6 * (1.0 + 0.01 * f64::from(run.block))) as u64;
    }
    check(
        &study,
        "PostgreSQL 18 has a p99 50 % lower than 13 (95 % interval -50.0 to -50.0 %, in 3 of 3 blocks): p99 4.08 ms against \
         p99 8.16 ms; provisional: 3 more blocks for a verdict (--repeats 6)",
    );
}

#[test]
fn the_verdict_on_a_rate_is_the_headline() {
    let mut one = study(&["18"], &[8], &[&[476.0]]);
    one.cases[0].case.workload.pace = Pace::Poisson { rate_per_s: 500.0 };
    let mut offer = |achieved: f64, p99_ms: [u64; 3]| {
        let run = &mut one.runs[0];
        run.counts = Default::default();
        run.counts.committed = (achieved * run.measured_s) as u64;
        let second = run.seconds.iter().find(|second| second.measured).unwrap().clone();
        run.seconds =
            p99_ms.iter().map(|ms| Second { p99_ns: Some(ms * 1_000_000), ..second.clone() }).collect();
        let mut latency = run.latency.unwrap();
        latency.p99_ns = p99_ms[2] * 1_000_000;
        one.cases[0].latency = Some(latency);
        let (text, html) = (headline(&one), {
            let (_, data) = synthetic::make(&Shape { window: (1, 3), ..Shape::default() });
            report::html(&report::Input { study: &one, data: &data, commands: &[], tool_version: "0.1.0" })
        });
        let first = html.split("<p class=\"answer\">").nth(1).unwrap().replace('\u{a0}', " ");
        let words = text.trim_end_matches(" - doubtful").to_string();
        assert!(first.starts_with(&words), "{first}");
        let terminal = report::terminal_table(&one, 100, false);
        assert!(terminal.contains(&words), "{terminal}");
        words
    };
    assert_eq!(
        offer(400.0, [200, 1300, 2400]),
        "8 clients: 500/s was not sustained: 400/s; p99 2,400 ms and growing"
    );
    assert_eq!(offer(400.0, [2000, 2100, 2050]), "8 clients: 500/s was not sustained: 400/s; p99 2,050 ms");
    assert_eq!(offer(500.0, [4, 9, 8]), "8 clients: 500/s was sustained; p99 8.00 ms");
    let run = &mut one.runs[0];
    let lag = run.service.map(|service| LatencySummary { p50_ns: 774_000_000, ..service });
    run.service.as_mut().unwrap().p50_ns = 15_000_000;
    let before = std::mem::replace(&mut run.lag, lag);
    assert_eq!(
        headline(&one),
        "8 clients: 500/s was sustained, but transactions queued: half of them waited 774 ms or longer for a free client; p99 8.00 ms"
    );
    one.runs[0].lag = before;
    let kept = |pace: &str| {
        one.cases[0].case.workload.pace = pace.parse().unwrap();
        headline(&one).trim_start_matches("8 clients: ").to_string()
    };
    let [within, beyond] = ["500/s with p99 <= 20ms", "500/s with p99 <= 7ms"].map(kept);
    assert_eq!(within, "500/s was sustained; p99 8.00 ms, within 20.0 ms");
    assert_eq!(beyond, "500/s was sustained; p99 8.00 ms, not within 7.00 ms");
    // A limit within the range of the figure is neither kept nor broken, and what was replaced is said.
    let range = Uncertainty { low: 0.6, high: 1.9, budget: Vec::new() };
    one.cases[0].uncertainty =
        Some(CaseUncertainty { throughput: range.clone(), p50: None, p99: Some(range) });
    let mut replaced = one.runs[0].clone();
    (replaced.run, replaced.replaced_by) = (99, Some(replaced.run));
    replaced.latency.as_mut().unwrap().p99_ns = 53_000_000;
    one.runs.push(replaced);
    one.cases[0].case.workload.pace = "500/s with p99 <= 14ms".parse().unwrap();
    assert_eq!(
        headline(&one).trim_start_matches("8 clients: "),
        "500/s was sustained; p99 8.00 ms, good to ±90 %: no verdict on 14.0 ms, and beyond it in 1 replaced run"
    );
}

#[test]
fn clients_that_wait_for_each_others_rows_are_the_first_finding_and_never_folded_away() {
    let mut one = study(&["18"], &[64], &[&[700.0, 710.0, 690.0]]);
    let finding = |id, severity, evidence: &str| Finding {
        id,
        severity,
        evidence: evidence.to_string(),
        advice: "Do something.".to_string(),
        effect: None,
    };
    one.runs[0].findings.push(finding("foreign-cpu", Severity::Doubt, "others used 12 % of the processors"));
    one.cases[0].findings = vec![
        finding("cache-fit", Severity::Note, "the data fits in memory"),
        finding(
            "row-contention",
            Severity::Note,
            "64 clients share 10 branches: 44.0 of them waited for locks",
        ),
    ];
    let (_, data) = synthetic::make(&Shape { window: (1, 3), ..Shape::default() });
    let input = report::Input { study: &one, data: &data, commands: &[], tool_version: "0.1.0" };
    for text in [report::terminal_table(&one, 200, false), report::markdown(&input), report::html(&input)] {
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} is not in {text}"));
        let first = at("64 clients share 10 branches: 44.0 of them");
        assert!(first < at("thers used 12 % of the processors") && first < at("1 note"), "{text}");
    }
}

#[test]
fn an_answer_says_where_the_rate_was_not_sustained() {
    let mut two = study(&["13", "18"], &[4], &[&[1000.0; 3], &[800.0; 3]]);
    for case in &mut two.cases {
        case.case.workload.pace = Pace::Poisson { rate_per_s: 1000.0 };
    }
    for run in &mut two.runs {
        run.counts = Default::default();
        run.counts.committed = (run.tps.unwrap() * run.measured_s) as u64;
    }
    assert!(headline(&two).contains("; 1,000/s was not sustained in 1 of 2 cases"), "{}", headline(&two));
    let terminal = report::terminal_table(&two, 120, false);
    assert!(terminal.contains("was not sustained: 800/s (median of 3 runs)"), "{terminal}");
}

#[test]
fn levels_without_a_number_are_named_and_grades_are_the_worst() {
    let same: &[f64] = &[1000.0, 1001.0, 999.0];
    let mut study = study(&["13", "14", "18"], &[4], &[same; 3]);
    study.cases[1].tps_median = None;
    study.runs.retain(|run| run.case != 2);
    study.cases[0].grade = Grade::Doubtful;
    let text = headline(&study);
    assert!(text.ends_with("; no number for PostgreSQL 14 - doubtful"), "{text}");
}

#[test]
fn a_single_run_says_that_it_is_one() {
    check(&study(&["18"], &[8], &[&[4812.0]]), "8 clients: 4,812 tps (one run)");
    let mut doubtful = study(&["18"], &[8], &[&[4812.0]]);
    doubtful.cases[0].grade = Grade::Doubtful;
    check(&doubtful, "8 clients: 4,812 tps (one run) - doubtful");
    check(
        &study(&["18"], &[8], &[&[4812.0, 4790.0, 4840.0]]),
        "8 clients: 4,812 tps (median of 3 runs, CV 0.5 %)",
    );
}

#[test]
fn a_setting_keeps_its_name_at_the_start_of_a_sentence() {
    let on: &[f64] = &[598.0, 601.0, 595.0, 600.0, 597.0, 599.0];
    let off: &[f64] = &[1640.0, 1650.0, 1632.0, 1644.0, 1639.0, 1641.0];
    let mut study = study(&["13", "18"], &[4], &[on, off]);
    study.plan.factors = vec!["server.settings.synchronous_commit".to_string()];
    for (case, level) in study.cases.iter_mut().zip(["on", "off"]) {
        case.case.levels = [("server.settings.synchronous_commit".to_string(), level.to_string())].into();
        case.label = case.case.label();
    }
    check(
        &study,
        "synchronous_commit off is 2.74 times as fast as on (95 % interval 2.74 to 2.75 times, 6 blocks): 1,640 tps against \
         598 tps",
    );
}

#[test]
fn a_search_gives_its_rate_with_its_interval() {
    let target = "max with p99 <= 10ms".parse::<Pace>().unwrap().target().unwrap();
    let mut study = study(&["18"], &[8], &[&[2340.0, 2310.0, 2360.0]]);
    let mut search = |n_not_limiting, n_unconfirmed| {
        study.cases[0].capacity = Some(CaseCapacity {
            target,
            rate: RateEstimate { point: 2340.0, low: 2250.0, high: 2410.0 },
            n_runs: 3,
            n_unreachable: 0,
            n_not_limiting,
            n_unconfirmed,
            held_per_s: Some(2300.0),
        });
        headline(&study)
    };
    let found = "8 clients: highest rate with p99 <= 10ms: 2,340/s (interval 2,250 to 2,410/s, 3 runs; of the rates tried, 2,300/s held)";
    assert_eq!(search(0, 0).replace("&lt;", "<"), found);
    let of_rate = |words: &str| found.replace("2,340/s", &format!("2,340/s, {words}"));
    assert_eq!(search(0, 3).replace("&lt;", "<"), of_rate("not confirmed"));
    assert_eq!(search(0, 1).replace("&lt;", "<"), of_rate("confirmed in 2 of 3 runs"));
    assert_eq!(
        search(3, 0).replace("&lt;", "<"),
        format!("{found}; throughput is the limit, not the latency")
    );
}

#[test]
fn a_search_counts_the_runs_without_a_rate() {
    let target = "max with p99 <= 10ms".parse::<Pace>().unwrap().target().unwrap();
    let mut study = study(&["18"], &[8, 16], &[&[0.0, 1000.0, 1200.0], &[500.0, 501.0, 499.0]]);
    study.runs.iter_mut().filter(|run| run.tps == Some(0.0)).for_each(|run| run.grade = Grade::Void);
    for (case, (rate, n_unreachable)) in study.cases.iter_mut().zip([
        (RateEstimate { point: 1000.0, low: 0.0, high: 1250.0 }, 1),
        (RateEstimate { point: 500.0, low: 480.0, high: 520.0 }, 0),
    ]) {
        case.case.workload.pace = Pace::Highest { target };
        case.tps_median = Some(rate.point);
        case.capacity = Some(CaseCapacity {
            target,
            rate,
            n_runs: 3,
            n_unreachable,
            n_not_limiting: 0,
            n_unconfirmed: 0,
            held_per_s: None,
        });
    }
    let text = headline(&study).replace("&lt;", "<");
    let expected = "Peak: 1,000/s (p99 <= 10ms) with 8 clients (interval 0 to 1,250, median of 3 runs)";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn tpcc_is_answered_in_new_orders() {
    let tpcc = |nopm: f64| TpccSummary {
        nopm,
        nopm_runs: vec![nopm],
        orders_per_min: 0.99 * nopm,
        tpm: 2.3 * nopm,
        server_tpm: None,
        driver_cpu_s: None,
        server_cpu_s: None,
        nopm_per_warehouse: nopm / 10.0,
        profiles: Vec::new(),
        inputs: Vec::new(),
        unmet: Vec::new(),
    };
    let mut one = study(&["18"], &[8], &[&[362.0, 361.0, 363.0]]);
    one.cases[0].tpcc = Some(tpcc(10_833.0));
    check(&one, "8 clients: 10,833 NOPM, 362 tps (median of 3 runs, CV 0.3 %)");
    let mut two = study(&["13", "18"], &[8], &[&[362.0, 361.0, 363.0], &[402.0, 401.0, 403.0]]);
    for case in &mut two.cases {
        case.tpcc = Some(tpcc(10_833.0));
    }
    for run in &mut two.runs {
        let level = if run.case == 1 { 9453.0 } else { 10_833.0 };
        run.tpcc = Some(tpcc(level * (1.0 + 0.001 * f64::from(run.block))));
    }
    check(
        &two,
        "PostgreSQL 18 is 15 % faster than 13 (95 % interval +14.6 to +14.6 %, in 3 of 3 blocks): 10,855 NOPM against 9,472 \
         NOPM; provisional: 3 more blocks for a verdict (--repeats 6)",
    );
}

#[test]
fn without_a_number_the_headline_says_why() {
    let mut study = study(&["18"], &[8], &[&[100.0, 100.0, 100.0]]);
    for run in &mut study.runs {
        run.findings.push(Finding {
            id: "transactions-failed",
            severity: Severity::Void,
            evidence: "618 transactions (26 %) failed".to_string(),
            advice: "See the errors.".to_string(),
            effect: None,
        });
        run.grade = Grade::Void;
    }
    (study.cases[0].tps_median, study.cases[0].grade) = (None, Grade::Void);
    check(&study, "No number: all 3 runs are void (transactions failed)");
    study.runs.truncate(1);
    check(&study, "No number: the only run is void (transactions failed)");
    study.runs.clear();
    check(&study, "No number: no run was started");
}

#[test]
fn figures_are_marked_by_the_precision_that_was_asked_for() {
    let texts = |precision: Option<&str>| {
        let (mut study, data) = synthetic::make(&Shape::default());
        for case in &mut study.cases {
            case.case
                .set(model::experiment::keys::run::PRECISION, precision.map(|text| text.parse().unwrap()));
        }
        let input = report::Input { study: &study, data: &data, commands: &[], tool_version: "0.1.0" };
        (report::terminal_table(&study, 140, true), report::markdown(&input), report::html(&input))
    };
    // The throughput is good to ±5 %, the tail to ±9 %.
    for (precision, rough, colour, badge) in [
        (None, false, "\u{1b}[32mruns differ", "badge valid"),
        (Some("4%"), false, "\u{1b}[33mruns differ", "badge doubt"),
        (Some("1%"), true, "\u{1b}[31mruns differ", "badge void"),
    ] {
        let (terminal, markdown, html) = texts(precision);
        assert!(terminal.contains(colour), "{precision:?}: {terminal}");
        assert!(html.contains(badge), "{precision:?}");
        for text in [&terminal, &markdown, &html] {
            assert_eq!(text.contains("%, rough"), rough, "{precision:?}: {text}");
        }
    }
    assert!(texts(Some("1%")).0.contains("median of 3 runs, good to ±5 %, rough)"));
}
