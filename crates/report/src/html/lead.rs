//! The top of the page: title, answer, key figures, banner, findings.

use std::collections::BTreeMap;

use analysis::finding::{Grade, Severity};
use analysis::summary::uncertainty::{Quality, Uncertainty};
use analysis::summary::{CaseSummary, LatencySummary, Study};
use model::experiment::plan::Plan;
use model::run::ExperimentData;

use super::comparison;
use super::escape::{escape_html, escape_prose, unbroken};
use crate::prose::condense::{self, FindingGroup};
use crate::prose::scripts::queries;
use crate::prose::variation::uncertainty;
use crate::prose::{conditions, format, headline, phrases};
use crate::{ComparisonInput, Input, terminal};

/// Title, the answer in a sentence, key figures of the best case, and why the study is partial.
pub(super) fn head(input: &Input) -> String {
    let study = input.study;
    let mut html = format!(
        "<header>\n<p class=\"over\">{}</p>\n",
        context(format::utc(study.plan.made_unix_ns), &[input.data])
    );
    html.push_str(&format!("<h1>{}</h1>\n", breakable(&headline::title(study))));
    let (question, more) = phrases::paragraphs(&study.plan.description);
    if !question.is_empty() {
        html.push_str(&format!("<p class=\"question\">{}</p>\n", escape_html(question)));
    }
    html.push_str(&answer(study));
    more.iter().for_each(|paragraph| html.push_str(&described(paragraph)));
    html.push_str(&stated(&study.plan));
    if let Some(why) = &study.partial {
        html.push_str(&partial(why));
    }
    html.push_str(&figures(study));
    html.push_str("</header>\n");
    html
}

/// A later paragraph of the description; a list is folded below its first line.
fn described(paragraph: &str) -> String {
    let (head, items) = phrases::list(paragraph);
    if items.is_empty() {
        return format!("<p class=\"conditions\">{}</p>\n", escape_html(paragraph));
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>", breakable(item))).collect();
    format!("<details class=\"fold\"><summary>{}</summary><ul>{items}</ul></details>\n", escape_html(&head))
}

/// Title, verdict, both sides, and why an experiment is incomplete.
pub(super) fn comparison_head(input: &ComparisonInput) -> String {
    let made = comparison::made(input);
    let data: Vec<&ExperimentData> = input.experiments.iter().map(|one| one.data).collect();
    let mut html = format!("<header>\n<p class=\"over\">{}</p>\n", context(made, &data));
    html.push_str(&format!("<h1>{}</h1>\n", breakable(&crate::comparison::title(input))));
    html.push_str(&comparison::head(input));
    if let [one] = input.experiments {
        html.push_str(&stated(&one.study.plan));
    }
    for why in input.experiments.iter().filter_map(|one| one.study.partial.as_ref()) {
        html.push_str(&partial(why));
    }
    html.push_str("</header>\n");
    html
}

/// The conditions of the study, beneath its answer.
fn stated(plan: &Plan) -> String {
    conditions::line(plan)
        .map_or(String::new(), |line| format!("<p class=\"conditions\">{}.</p>\n", escape_html(&line)))
}

fn partial(why: &str) -> String {
    format!("<p class=\"banner\" role=\"status\"><strong>Partial.</strong> {}</p>\n", escape_html(why))
}

/// Date, server and machine in one line.
fn context(made: String, data: &[&ExperimentData]) -> String {
    let mut parts = vec![unbroken(&made)];
    let records = || data.iter().flat_map(|data| &data.runs).map(|run| &run.record);
    let named = records().filter_map(|record| {
        let server = record.server.as_ref()?;
        let build = analysis::explain::fetched_build(record);
        let build = build.map_or(String::new(), |build| format!(" ({build})"));
        Some(((server.version_num, build.clone()), format!("{}{build}", server.release())))
    });
    let releases: BTreeMap<(u32, String), String> = named.collect();
    let releases: Vec<String> = releases.into_values().collect();
    if !releases.is_empty() {
        // It may break after each release: with their builds they are long.
        parts.push(escape_html(&format!("PostgreSQL {}", releases.join(", "))));
    }
    if let Some(host) = records().find_map(|record| record.host.as_ref()) {
        let processors = phrases::plural(host.n_cpus, "processor");
        parts.push(unbroken(&format!("{processors}, {} memory", format::bytes(host.memory_bytes as f64))));
    }
    parts.join(" <i>·</i> ")
}

/// The answer, with its verdict as a badge unless it is valid.
fn answer(study: &Study) -> String {
    let headline::Headline { text: sentence, grade } = headline::from_study(study);
    match grade.filter(|grade| *grade != Grade::Valid) {
        None => format!("<p class=\"answer\">{}.</p>\n", escape_html(&kept_together(&sentence))),
        Some(grade) => {
            format!("<p class=\"answer\">{} {}</p>\n", escape_html(&kept_together(&sentence)), badge(grade))
        }
    }
}

/// Keeps each number on the line of its unit.
fn kept_together(sentence: &str) -> String {
    let mut text = sentence.to_string();
    for (breaking, kept) in
        [(" tps", "\u{a0}tps"), (" ms", "\u{a0}ms"), (" %", "\u{a0}%"), ("p99 ", "p99\u{a0}")]
    {
        text = text.replace(breaking, kept);
    }
    text
}

/// A verdict with a mark that does not depend on colour.
pub(crate) fn badge(grade: Grade) -> String {
    badge_of(grade, grade.as_str())
}

/// [`badge`] in other words than the grade's own.
pub(super) fn badge_of(grade: Grade, words: &str) -> String {
    let (class, mark) = match grade {
        Grade::Valid => ("valid", "✓"),
        Grade::Doubtful => ("doubt", "▲"),
        Grade::Void => ("void", "✕"),
    };
    format!("<span class=\"badge {class}\"><i aria-hidden=\"true\">{mark}</i>{words}</span>")
}

/// How far off a case's throughput can be, in the colour of its quality; the verdict in its place if it is not valid.
pub(super) fn quality_badge(case: &CaseSummary) -> String {
    let known = case.uncertainty.as_ref().map(|known| &known.throughput);
    match (known, case.grade) {
        (Some(known), Grade::Valid) => figure_badge(known, case.precision()),
        (Some(known), Grade::Doubtful) => format!(
            "{} {}",
            uncertainty::good_to(Some(known), case.precision()),
            badge_of(case.grade, case.verdict())
        ),
        _ => badge_of(case.grade, case.verdict()),
    }
}

/// How far off the 99th percentile of a case can be, in the colour of its quality where the case is valid.
pub(super) fn tail_badge(case: &CaseSummary) -> String {
    let known = case.uncertainty.as_ref().and_then(|known| known.p99.as_ref());
    match (known, case.grade) {
        (Some(known), Grade::Valid) => figure_badge(known, case.precision()),
        _ => uncertainty::good_to(known, case.precision()),
    }
}

fn figure_badge(known: &Uncertainty, precision: f64) -> String {
    let grade = match known.quality(precision) {
        Quality::Precise => Grade::Valid,
        Quality::Fair => Grade::Doubtful,
        Quality::Rough => Grade::Void,
    };
    badge_of(grade, &uncertainty::good_to(Some(known), precision))
}

/// A text whose paths break after their slashes on a narrow screen.
fn breakable(raw: &str) -> String {
    escape_html(raw).replace('/', "/<wbr>")
}

/// The key figures of the best case, in large type.
fn figures(study: &Study) -> String {
    let Some(best) = headline::best(study) else { return String::new() };
    let ms = |of: fn(&LatencySummary) -> u64| best.latency.as_ref().map(|l| format::ms(of(l) as f64));
    // Of the same case as all other figures.
    let id = best.case.id;
    let completed = study.runs.iter().filter(|run| run.case == id && run.counts()).count();
    let of_runs = format!("of {}", study.plan.runs.iter().filter(|run| run.case == id).count());
    let median = best.tps_median.map(format::tps);
    // A search finds a rate; its latencies are those of the probes that confirmed it.
    let (throughput, throughput_name, when) = match &best.capacity {
        None if best.n_runs == 1 => ((median, queries::unit(best)), "throughput".to_string(), "latency"),
        None => ((median, queries::unit(best)), "median throughput".to_string(), "latency"),
        Some(capacity) => {
            let rate = Some(format::tps(capacity.rate.point));
            ((rate, "/s"), format!("highest rate with {}", capacity.target), "when confirmed")
        }
    };
    // An outage ends the time that these figures are of.
    let (throughput_name, when) = match best.outages {
        Some(_) => (format!("{throughput_name} before the fault"), "before the fault"),
        None => (throughput_name, when),
    };
    let [out, lost] = headline::outages::tiles(best);
    let [p50, p95, p99] = ["p50", "p95", "p99"].map(|name| format!("{name} {when}"));
    let known = best.uncertainty.as_ref().map(|known| &known.throughput);
    let good_to = known.map(|known| uncertainty::good_to(Some(known), best.precision()));
    let good_to = good_to.as_deref().map(|words| words.split_once(" %").unwrap_or((words, "")));
    let unit = good_to.map_or(String::new(), |(_, rough)| format!("%{rough}"));
    let good_to = good_to.map(|(figure, _)| figure.to_string());
    let figures = [
        (out, "s", "without writes, median"),
        (lost, "s", "of service lost, median"),
        (throughput.0, throughput.1, throughput_name.as_str()),
        (ms(|l| l.p50_ns), "ms", p50.as_str()),
        (ms(|l| l.p95_ns), "ms", p95.as_str()),
        (ms(|l| l.p99_ns), "ms", p99.as_str()),
        (good_to, unit.as_str(), "throughput good to"),
        (Some(completed.to_string()), of_runs.as_str(), "runs that count"),
    ];
    let shown = figures.into_iter().filter_map(|(value, unit, name)| Some((value?, unit, name)));
    // The headline may rank nothing: figures without a name would be taken for those of all cases.
    let whose = match study.cases.len() {
        0 | 1 => String::new(),
        _ => format!(
            "<p class=\"quiet whose\">Figures of {}, which has the highest median:</p>\n",
            escape_html(&headline::name(best))
        ),
    };
    whose + &tiles(shown)
}

/// Values, units and names in large type.
pub(crate) fn tiles<'a>(tiles: impl Iterator<Item = (String, &'a str, &'a str)>) -> String {
    let mut html = String::from("<dl class=\"tiles\">");
    for (value, unit, name) in tiles {
        html.push_str(&format!(
            "<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>",
            escape_html(name),
            escape_html(&value),
            escape_html(unit)
        ));
    }
    html.push_str("</dl>\n");
    html
}

/// All findings, each once: doubts and voids, then the notes folded into one line.
pub(super) fn findings(study: &Study) -> String {
    let groups = condense::findings(study);
    let (notes, weighty): (Vec<&FindingGroup>, Vec<&FindingGroup>) =
        groups.iter().partition(|group| group.is_aside());
    let list = |groups: &[&FindingGroup]| -> String {
        let items: String = groups.iter().map(|group| finding(group, study.runs.len())).collect();
        format!("<ul class=\"findings\">\n{items}</ul>\n")
    };
    let mut html = match weighty.as_slice() {
        [] => "<p class=\"quiet\">No finding casts doubt on these numbers beyond the range that they state.</p>\n".to_string(),
        weighty => list(weighty),
    };
    if !notes.is_empty() {
        html.push_str(&format!(
            "<details class=\"fold notes\"><summary>{}</summary>{}</details>\n",
            phrases::plural(notes.len(), "note"),
            list(&notes)
        ));
    }
    html
}

/// Most places of one finding that are listed. Those of a thousand runs took megabytes.
const DETAILS_MAX: usize = 60;

pub(crate) fn finding(group: &FindingGroup, n_runs: usize) -> String {
    let (class, mark) = match group.severity {
        Severity::Note => ("note", "i"),
        Severity::Doubt => ("doubt", "▲"),
        Severity::Void => ("void", "✕"),
    };
    let mut html = format!(
        "<li class=\"{class}\"><div class=\"mark\" aria-hidden=\"true\">{mark}</div><div>\
         <h3>{} <code class=\"id\">[{}]</code> <span class=\"severity\">{}</span> <span class=\"scope\">{}</span></h3>\
         <p>{}</p><p class=\"advice\">{}</p>",
        escape_html(&group.title()),
        escape_html(group.id),
        terminal::severity_word(group.severity),
        escape_html(&group.where_found(n_runs)),
        escape_prose(&phrases::capital(&terminal::evidence(group))),
        escape_prose(&group.example().finding.advice),
    );
    html.push_str(&format!(
        "<details><summary aria-label=\"Details: {}\">Details</summary>",
        escape_html(&group.title())
    ));
    if group.found.len() > 1 {
        html.push_str("<ul>");
        for found in group.found.iter().take(DETAILS_MAX) {
            html.push_str(&format!(
                "<li><b>{}</b> {}</li>",
                escape_html(&phrases::capital(&found.about.words())),
                escape_prose(&found.finding.evidence)
            ));
        }
        if let n @ 1.. = group.found.len().saturating_sub(DETAILS_MAX) {
            html.push_str(&format!(
                "<li>and {n} more, which <code>pgdyno report DIR --json</code> prints</li>"
            ));
        }
        html.push_str("</ul>");
    }
    if let Some(rule) = analysis::findings::rule(group.id) {
        html.push_str(&format!(
            "<p class=\"rule\">Rule <code>{}</code>: {}. Source: {}.</p>",
            escape_html(rule.id),
            escape_html(rule.severity),
            escape_html(rule.source)
        ));
    }
    html.push_str("</details>");
    html.push_str("</div></li>\n");
    html
}
