//! Several results next to each other: the same facts and figures of each, in columns.

use analysis::summary::{CaseSummary, Study};

use super::{BarLink, Page, Site, encoded, links};
use crate::escape::escape_html;
use crate::html::lead::badge;
use crate::html::{named, table};
use crate::prose::format;
use crate::prose::headline::{self, Headline};

/// One of several results.
#[derive(Debug, Clone, Copy)]
pub struct Several<'a> {
    /// Name of its directory.
    pub name: &'a str,
    /// Name of its machine.
    pub machine: &'a str,
    /// The explained experiment.
    pub study: &'a Study,
}

/// The page; each result but the first is compared with the first by a link.
pub fn several(results: &[Several], back: &[BarLink], tool_version: &str) -> Page {
    let heads: Vec<String> = results.iter().map(|one| headline::title(one.study)).collect();
    let heads: Vec<&str> = [""].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let mut rows = vec![
        row("Result", results, |one| {
            format!("<a href=\"/result/{}\">{}</a>", encoded(one.name), escape_html(one.name))
        }),
        row("When", results, |one| escape_html(&format::utc(one.study.plan.made_unix_ns))),
        row("Machine", results, |one| escape_html(one.machine)),
        row("Answer", results, answer),
    ];
    let mut labels: Vec<&str> = Vec::new();
    for case in results.iter().flat_map(|one| &one.study.cases) {
        if !labels.contains(&case.label.as_str()) {
            labels.push(&case.label);
        }
    }
    for label in labels {
        rows.push(row(label, results, |one| {
            one.study.cases.iter().find(|case| case.label == label).map_or("-".to_string(), figures)
        }));
    }
    if results.iter().any(|one| one.study.partial.is_some()) {
        rows.push(row("Left out", results, |one| {
            escape_html(one.study.partial.as_deref().unwrap_or("nothing"))
        }));
    }
    let first = results.first().map_or("", |one| one.name);
    rows.push(row("In pairs", results, |one| {
        if one.name == first {
            "A".to_string()
        } else {
            format!(
                "<a href=\"/compare?r={}&amp;r={}\">compare with the first</a>",
                encoded(first),
                encoded(one.name)
            )
        }
    }));
    let main = format!(
        "<header class=\"small\">\n<p class=\"over\">Next to each other</p>\n<h1>{} results</h1>\n\
         <p class=\"question\">Figures of each result by itself. Whether two differ is judged by a comparison of both.</p>\n</header>\n{}",
        results.len(),
        named(&table("several", &heads, &rows), "Results next to each other")
    );
    Site::plain("pgdyno: several results", tool_version, &links(back), &main).page()
}

fn row(name: &str, results: &[Several], cell: impl Fn(&Several) -> String) -> Vec<String> {
    [escape_html(name)].into_iter().chain(results.iter().map(cell)).collect()
}

fn answer(one: &Several) -> String {
    let Headline { text: sentence, grade } = headline::from_study(one.study);
    format!("{} {}", escape_html(&sentence), grade.map(badge).unwrap_or_default())
}

fn figures(case: &CaseSummary) -> String {
    let tps = case.tps_median.map_or("no number".to_string(), |tps| format!("{} tps", format::tps(tps)));
    let p99 = case.latency.map_or(String::new(), |l| format!(", p99 {} ms", format::ms(l.p99_ns as f64)));
    let limiter = case.limiter.as_ref().map_or(String::new(), |one| format!(", {}", one.name.as_str()));
    format!(
        "<b>{}</b>{}{} {}",
        escape_html(&tps),
        escape_html(&p99),
        escape_html(&limiter),
        badge(case.grade)
    )
}
