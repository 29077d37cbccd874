//! The page of histories: each case's runs in order of time, and where their level changed.

use analysis::history::{DifferingCondition, History, HistoryPoint, LevelChange};

use super::{BarLink, Page, Site, encoded, links};
use crate::escape::escape_html;
use crate::html::data::{self, HistoryData};
use crate::html::{ChartFigure, table};
use crate::prose::format;
use crate::prose::phrases::plural;

/// Fewest runs among which a change of level can be found: four on each side.
const RUNS_MIN: usize = 8;
/// Most results of which the page says that they are left out.
const LEFT_OUT_MAX: usize = 20;
/// Most runs that a table lists, the newest.
const ROWS_MAX: usize = 200;
/// Most conditions that are listed for a change.
const CONDITIONS_MAX: usize = 20;
/// Most histories that are drawn: as many as a page of one result has cases.
const HISTORIES_MAX: usize = 500;

/// The page of the experiment called `name`. Points name their experiments by the directories by which results are addressed.
/// `left_out` says which results cannot be read, and why.
pub fn history(
    name: &str,
    histories: &[History],
    left_out: &[String],
    back: &[BarLink],
    tool_version: &str,
) -> Page {
    let mut main = format!(
        "<header class=\"small\">\n<p class=\"over\">History</p>\n<h1>{}</h1>\n<p class=\"question\">Runs of the same case on the \
         same machine over time. A level has changed where the means before and after differ by at least 2 %, with p below 0.001 and \
         four runs on each side; shown are medians.</p>\n</header>\n",
        escape_html(name)
    );
    if histories.is_empty() {
        main.push_str("<p>No run of it counts yet.</p>\n");
    }
    for words in left_out.iter().take(LEFT_OUT_MAX) {
        main.push_str(&format!(
            "<p class=\"quiet\">Left out, because it cannot be read: {}</p>\n",
            escape_html(words)
        ));
    }
    let n_all = histories.len();
    let histories = &histories[..n_all.min(HISTORIES_MAX)];
    if histories.len() < n_all {
        main.push_str(&format!(
            "<p class=\"quiet\">It has {n_all} histories, and this page shows the first {HISTORIES_MAX} of them. <code>pgdyno \
             history</code> shows all.</p>\n"
        ));
    }
    for (n, history) in histories.iter().enumerate() {
        main.push_str(&section(n, history));
    }
    Site {
        title: &format!("pgdyno: history of {name}"),
        tool_version,
        links: &links(back),
        main: &main,
        script: "",
        data: data::of_histories(histories.iter().map(chart).collect()),
        has_charts: true,
    }
    .page()
}

fn section(n: usize, history: &History) -> String {
    let on = if history.hostname.is_empty() { String::new() } else { format!(" on {}", history.hostname) };
    let pending = history.pending.as_ref();
    let pending = pending.map(|found| {
        let lead = found.lead().replacen('n', "N", 1);
        let differing =
            if found.conditions.is_empty() { String::new() } else { listed(&found.conditions) + "\n" };
        format!("<p class=\"changes\">{lead}: {}.</p>\n{differing}", escape_html(&found.words()))
    });
    let changes = match history.changes.as_slice() {
        [] if pending.is_some() => String::new(),
        [] if history.points.len() < RUNS_MIN => {
            "<p class=\"quiet\">Too few runs to tell whether the level changed.</p>\n".to_string()
        }
        [] => "<p class=\"quiet\">No change beyond chance was found (2 % or more, with p below 0.001).</p>\n"
            .to_string(),
        changes => {
            let items: String = changes
                .iter()
                .map(|change| {
                    let within = change.within_words().map_or(String::new(), |words| format!("; {words}"));
                    format!("<li>{}{}</li>", escape_html(&(words(change) + &within)), conditions(change))
                })
                .collect();
            format!("<ul class=\"changes\">{items}</ul>\n")
        }
    };
    let of_costs: String = history
        .cost_changes
        .iter()
        .map(|change| format!("<li>{}</li>", escape_html(&crate::cost_change(change))))
        .collect();
    let of_costs = if of_costs.is_empty() {
        of_costs
    } else {
        format!(
            "<p class=\"quiet\">What a transaction costs changed:</p>\n<ul class=\"changes\">{of_costs}</ul>\n"
        )
    };
    let figure = ChartFigure {
        id: &format!("history-{n}"),
        title: "Throughput of each run",
        note: "tps, in order of time; line: the median of a level",
        height: "mid",
        table: &rows(history),
    };
    format!(
        "<section aria-labelledby=\"h{n}\">\n<h2 id=\"h{n}\">{}</h2>\n<p class=\"quiet\">{}{}</p>\n{changes}{of_costs}{}{}</section>\n",
        escape_html(&history.label),
        plural(history.points.len(), "run"),
        escape_html(&on),
        pending.unwrap_or_default(),
        figure.html()
    )
}

fn rows(history: &History) -> String {
    let row = |point: &HistoryPoint| {
        vec![
            escape_html(&format::utc(point.t_unix_ns)),
            escape_html(&format!("{} {}", format::tps(point.tps), crate::good_to(point.range))),
            escape_html(&point.revision),
            format!(
                "<a href=\"/result/{}\">{}</a> run {}",
                encoded(&point.experiment),
                escape_html(&point.experiment),
                point.run
            ),
        ]
    };
    let rows: Vec<Vec<String>> = history.points.iter().rev().take(ROWS_MAX).map(row).collect();
    table("text", &["When", "tps", "Server", "Result"], &rows)
}

/// `2026-11-20 11:49 UTC: median 4,800 to 5,000 tps (+4.2 %, p = 1.2e-5), 18.1 to 18.2`.
fn words(change: &LevelChange) -> String {
    let (from, to) = (&change.last_before.revision, &change.first_after.revision);
    let revisions = if from == to { String::new() } else { format!(", server {from} to {to}") };
    format!(
        "{}: median {} to {} tps ({}, p = {:.1e}){revisions}",
        format::utc(change.first_after.t_unix_ns),
        format::tps(change.before),
        format::tps(change.after),
        percent(change),
        change.p
    )
}

/// The conditions that differ around a change, one a line.
fn conditions(change: &LevelChange) -> String {
    if change.conditions.is_empty() {
        return format!("<br>{}.", escape_html(&change.no_condition()));
    }
    listed(&change.conditions)
}

fn listed(conditions: &[DifferingCondition]) -> String {
    let shown = conditions.iter().take(CONDITIONS_MAX);
    let mut items: String =
        shown.map(|condition| format!("<li>{}</li>", escape_html(&condition.words()))).collect();
    if let n_more @ 1.. = conditions.len().saturating_sub(CONDITIONS_MAX) {
        items
            .push_str(&format!("<li>and {n_more} more, which <code>pgdyno history --json</code> lists</li>"));
    }
    format!("<ul>{items}</ul>")
}

fn percent(change: &LevelChange) -> String {
    format::signed(change.after / change.before - 1.0)
}

fn chart(history: &History) -> HistoryData {
    let at = |point: &HistoryPoint| history.points.iter().position(|known| known == point);
    let starts: Vec<usize> = history.changes.iter().filter_map(|change| at(&change.first_after)).collect();
    let ends = starts.iter().copied().chain([history.points.len()]);
    let levels = [0].into_iter().chain(starts.iter().copied()).zip(ends).filter(|(from, to)| from < to);
    let median = |from: usize, to: usize| {
        let tps: Vec<f64> = history.points[from..to].iter().map(|point| point.tps).collect();
        stats::quantile(&tps, 0.5).unwrap_or(0.0)
    };
    HistoryData {
        label: history.label.clone(),
        when: history.points.iter().map(|point| format::utc(point.t_unix_ns)).collect(),
        tps: history.points.iter().map(|point| point.tps).collect(),
        revision: history.points.iter().map(|point| point.revision.clone()).collect(),
        levels: levels.map(|(from, to)| (from, to - 1, median(from, to))).collect(),
        changes: history
            .changes
            .iter()
            .filter_map(|change| Some((at(&change.first_after)?, percent(change))))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use analysis::history::{DifferingCondition, Pending};

    use super::*;

    #[test]
    fn of_many_histories_a_page_shows_the_first_and_says_so() {
        let one = History {
            label: "8 clients".to_string(),
            hostname: String::new(),
            points: Vec::new(),
            changes: Vec::new(),
            cost_changes: Vec::new(),
            pending: None,
        };
        let page = |n: usize| super::history("x", &vec![one.clone(); n], &[], &[], "0").html;
        let html = page(3000);
        assert!(html.contains("has 3000 histories, and this page shows the first 500"), "{}", html.len());
        assert_eq!(html.matches("<section").count(), 500);
        assert!(!page(500).contains("this page shows the first"));
    }

    #[test]
    fn conditions_that_differ_around_a_change_have_a_line_each() {
        let point = HistoryPoint {
            experiment: "day 1".to_string(),
            run: 1,
            t_unix_ns: 1,
            revision: "18.1".to_string(),
            tps: 1000.0,
            range: None,
            costs: Default::default(),
        };
        let condition = DifferingCondition {
            what: "table <t>".to_string(),
            before: "heap".to_string(),
            after: "UNLOGGED".to_string(),
            n_before: [8, 8],
            n_after: [7, 8],
        };
        let change = |conditions: Vec<DifferingCondition>| LevelChange {
            last_before: point.clone(),
            first_after: point.clone(),
            before: 1000.0,
            after: 900.0,
            p: 1e-5,
            within: None,
            conditions,
            unrecorded: Vec::new(),
        };
        let one = conditions(&change(vec![condition.clone()]));
        assert_eq!(one, "<ul><li>table &lt;t&gt;: heap before, UNLOGGED after (in 7 of 8 runs)</li></ul>");
        assert!(conditions(&change(Vec::new())).contains("<br>no recorded condition differs"));
        assert!(conditions(&change(vec![condition; 22])).contains("and 2 more"));
    }

    #[test]
    fn a_change_that_was_not_found_is_not_denied() {
        let point = |run: u32| HistoryPoint {
            experiment: "day 1".to_string(),
            run,
            t_unix_ns: u64::from(run),
            revision: "18.1".to_string(),
            tps: 1000.0,
            range: None,
            costs: Default::default(),
        };
        let of = |n: u32| History {
            label: "8 clients".to_string(),
            hostname: String::new(),
            points: (0..n).map(point).collect(),
            changes: Vec::new(),
            cost_changes: Vec::new(),
            pending: None,
        };
        let mut known = of(8);
        known.points[0].range = Some([0.95, 1.11]);
        known.changes.push(LevelChange {
            last_before: point(1),
            first_after: point(2),
            before: 1000.0,
            after: 960.0,
            p: 1e-5,
            within: Some([[0.95, 1.11], [0.91, 1.02]]),
            conditions: Vec::new(),
            unrecorded: Vec::new(),
        });
        let html = section(0, &known);
        assert!(
            html.contains("; one run alone can be off by more (±11 % before, ±9.0 % after); all runs together show it<br>"),
            "{html}"
        );
        assert!(html.contains("±11 %"), "{html}");
        assert!(section(0, &of(8)).contains("No change beyond chance was found"));
        assert!(section(0, &of(7)).contains("Too few runs to tell"));
        let pending = Some(Pending::new(point(6), [5, 5], [1000.0, 540.0], 0.008, Some(4)));
        let html = section(0, &History { pending, ..of(10) });
        let words = "No verdict yet: the last 5 are 46 % below the first 5; 4 more runs would decide.</p>";
        assert!(html.contains(words) && !html.contains("No change beyond chance"), "{html}");
    }
}
