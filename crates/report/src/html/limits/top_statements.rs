//! The statements that sessions were in, by what they did there, with what pg_stat_statements counted of them.

use std::collections::BTreeSet;

use analysis::summary::{CaseSummary, Study, TopStatement};

use crate::axis::Axis;
use crate::html::escape::escape_html;
use crate::html::table;
use crate::html::tables::case_name;
use crate::prose::{format, headline};

/// What sessions do in a statement, in the order of bars, with the colour that it has in charts over time.
const KINDS: [(&str, usize); 6] =
    [("CPU", 2), ("LWLocks", 5), ("other", 6), ("I/O", 0), ("WAL", 1), ("locks", 3)];

/// The best case's statements, and in folds those of the others; empty if none were seen.
pub(super) fn tables(study: &Study, axis: &Axis) -> String {
    let seen: Vec<&CaseSummary> = study.cases.iter().filter(|case| !case.top_statements.is_empty()).collect();
    let best = headline::best(study).map(|case| case.case.id);
    let Some(first) = seen.iter().find(|case| best == Some(case.case.id)).or(seen.first()) else {
        return String::new();
    };
    let whose = if study.cases.len() > 1 { format!(" {}", case_name(axis, first)) } else { String::new() };
    let mut html = format!("<h3 class=\"top\">Top statements{whose}</h3>\n{}", keys(&seen));
    html.push_str(&of_case(first));
    if seen.len() > 1 {
        html.push_str(
            "<details class=\"fold\"><summary>Top statements of each case</summary><div class=\"each\">\n",
        );
        for case in seen {
            html.push_str(&format!("<h4>{}</h4>\n{}", case_name(axis, case), of_case(case)));
        }
        html.push_str("</div></details>\n");
    }
    html.push_str(
        "<p class=\"quiet\">Sessions: the mean number that was in the statement, as the server saw it, literals left out.</p>\n",
    );
    html
}

/// The colours of the kinds that occur.
fn keys(cases: &[&CaseSummary]) -> String {
    let statements = cases.iter().flat_map(|case| &case.top_statements);
    let seen: BTreeSet<&str> = statements.flat_map(|one| &one.by).map(|(kind, _)| *kind).collect();
    let keys: String = KINDS
        .iter()
        .filter(|(kind, _)| seen.contains(kind))
        .map(|(kind, colour)| {
            format!("<span><i class=\"area c{colour}\" aria-hidden=\"true\"></i>{kind}</span>")
        })
        .collect();
    if keys.is_empty() { keys } else { format!("<p class=\"keys\">{keys}</p>\n") }
}

fn of_case(case: &CaseSummary) -> String {
    let statements = &case.top_statements;
    let most = statements.iter().map(TopStatement::weight).fold(0.0, f64::max);
    let is_sampled = statements.iter().any(|one| one.sessions.is_some());
    let is_counted = statements.iter().any(|one| one.calls_per_s.is_some());
    let mut heads = vec!["Statement"];
    if is_sampled {
        heads.extend(["By what they did", "Sessions"]);
    }
    if is_counted {
        heads.extend(["Calls/s", "Mean ms", "Rows", "Blocks read", "WAL"]);
    }
    let rows: Vec<Vec<String>> =
        statements.iter().map(|one| row(one, most, is_sampled, is_counted)).collect();
    table(if is_sampled { "spent" } else { "" }, &heads, &rows)
}

fn row(statement: &TopStatement, most: f64, is_sampled: bool, is_counted: bool) -> Vec<String> {
    let mut row = vec![format!("<code>{}</code>", escape_html(&statement.text))];
    if is_sampled {
        row.push(bar(&statement.by, most));
        row.push(statement.sessions.map_or("-".to_string(), format::significant));
    }
    if is_counted {
        let each = |rate: Option<f64>| {
            statement
                .per_call(rate)
                .map_or("-".to_string(), |n| if n == 0.0 { "0".to_string() } else { format::significant(n) })
        };
        let calls = statement.calls_per_s.filter(|calls| *calls > 0.0);
        row.push(calls.map_or("-".to_string(), format::tps));
        row.push(statement.mean_s().map_or("-".to_string(), |s| format::ms(1e9 * s)));
        row.push(each(statement.rows_per_s));
        row.push(each(statement.blocks_read_per_s));
        let wal = statement.per_call(statement.wal_bytes_per_s);
        row.push(wal.map_or("-".to_string(), format::bytes));
    }
    row
}

/// Sessions by kind, on a scale that ends at `most`.
fn bar(by: &[(&str, f64)], most: f64) -> String {
    let mut at = 0.0;
    let mut rects = String::new();
    for (kind, colour) in KINDS {
        let n = by.iter().find(|(one, _)| *one == kind).map_or(0.0, |(_, n)| *n);
        let width = 100.0 * n / most.max(f64::MIN_POSITIVE);
        if n > 0.0 {
            rects.push_str(&format!(
                "<rect class=\"c{colour}\" x=\"{at:.1}\" width=\"{:.1}\" height=\"10\"><title>{kind} {}</title></rect>",
                width.max(0.4),
                format::significant(n)
            ));
        }
        at += width;
    }
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{rects}</svg>",
        words(by)
    )
}

fn words(by: &[(&str, f64)]) -> String {
    let parts: Vec<String> =
        by.iter().map(|(kind, n)| format!("{kind} {}", format::significant(*n))).collect();
    escape_html(&parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_follow_each_other_and_figures_are_per_call() {
        let statement = TopStatement {
            text: "select <x>".to_string(),
            sessions: Some(3.0),
            by: vec![("CPU", 1.0), ("WAL", 2.0)],
            calls_per_s: Some(200.0),
            time: Some(1.0),
            rows_per_s: Some(400.0),
            wal_bytes_per_s: Some(204_800.0),
            ..TopStatement::default()
        };
        let row = row(&statement, 4.0, true, true);
        assert_eq!(row[0], "<code>select &lt;x&gt;</code>");
        assert!(row[1].contains("class=\"c2\" x=\"0.0\" width=\"25.0\""), "{}", row[1]);
        assert!(row[1].contains("class=\"c1\" x=\"25.0\" width=\"50.0\""), "{}", row[1]);
        assert_eq!(row[2..], ["3.00", "200", "5.00", "2.00", "-", "1.00 KiB"]);
    }
}
