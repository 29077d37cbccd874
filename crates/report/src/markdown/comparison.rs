//! A comparison for an issue or a chat: the verdict, the figures, what differs, and how to repeat it.

use analysis::comparison::{CaseComparison, Difference};
use analysis::summary::Study;

use super::escape;
use crate::prose::headline::outages;
use crate::prose::scripts::compared;
use crate::prose::statements::compared as statements;
use crate::prose::variation::costs;
use crate::prose::{condense, phrases};
use crate::{ComparisonInput, comparison, terminal};

pub(crate) fn text(input: &ComparisonInput) -> String {
    let mut text = format!("## {}\n\n", escape(&comparison::title(input)));
    for case in input.cases {
        // The list below one comparison would go on in the next.
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        text.push_str(&of_case(case));
    }
    if let Some(floor) = input.floor {
        text.push_str(&format!("- {}\n", escape(&phrases::capital(&comparison::noise_floor(floor)))));
    }
    for (n, one) in input.experiments.iter().enumerate() {
        let findings = findings(one.study);
        if !findings.is_empty() {
            text.push_str(&format!("\n### Findings {}\n\n{findings}", escape(&name(input, n))));
        }
    }
    if !input.commands.is_empty() {
        text.push_str(&format!(
            "\n### Repeat this comparison\n\n```sh\n{}\n```\n",
            input.commands.join("\n")
        ));
    }
    for one in input.experiments {
        text.push_str(&super::setting(one.data.runs.iter().map(|run| &run.record)));
    }
    text.push_str(&format!("\nMade by pgdyno {}.\n", escape(input.tool_version)));
    text
}

/// Name of the experiment, for the heading of its findings.
fn name(input: &ComparisonInput, n: usize) -> String {
    match input.experiments {
        [_] => "of the runs".to_string(),
        several => format!("{} ({})", input.purpose().owners()[n.min(1)], several[n].name),
    }
}

fn of_case(case: &CaseComparison) -> String {
    let [a, b] = [&case.a, &case.b].map(|side| escape(&phrases::one_line(side)));
    let verdict = escape(&phrases::capital(&comparison::verdict(case)));
    let [name_a, name_b] = case.purpose.names();
    let sentences: String = comparison::sentences(case)
        .map(|words| format!("{}.\n\n", escape(&phrases::capital(&words))))
        .collect();
    let mut text = format!("**{verdict}**\n\n{sentences}{name_a}: {a}; {name_b}: {b}\n\n");
    text.push_str(&format!(
        "| figure | {} | {} | verdict |\n|:--|--:|--:|--:|:--|\n",
        comparison::medians(case.purpose).join(" | "),
        comparison::ratio_head(case.purpose)
    ));
    for figure in &case.figures {
        let [a, b] = [figure.a_median, figure.b_median].map(|v| comparison::value(case, figure.figure, v));
        let [change, word] = comparison::change(figure, case);
        text.push_str(&format!("| {} | {a} | {b} | {change} | {word} |\n", figure.figure.as_str()));
    }
    text.push_str(&outages_table(case));
    text.push_str(&costs_table(case));
    text.push('\n');
    text.push_str(&scripts_table(case));
    text.push_str(&statements_table(case));
    if let Some(why) = comparison::why_otherwise(case) {
        text.push_str(&format!("- {why}\n"));
    }
    if let Some(detectable) = case.leading().and_then(|ratio| ratio.detectable) {
        let seen = comparison::percent(detectable);
        text.push_str(&format!("- Smallest detectable difference: {seen}\n"));
    }
    for (what, value) in comparison::supplement(case) {
        text.push_str(&format!("- {}: {value}\n", phrases::capital(&what)));
    }
    let listed = |word: &str, list: &[Difference]| {
        let line = |d: &Difference| {
            let [what, a, b] = [&d.what, &d.a, &d.b].map(|part| escape(&phrases::one_line(part)));
            format!("- {word}: {what}: {a} and {b}\n")
        };
        list.iter().map(line).collect::<String>()
    };
    text.push_str(&listed("Declared", &case.declared));
    if !case.defaults.is_empty() {
        let all = phrases::one_line(&comparison::defaults(case, usize::MAX));
        text.push_str(&format!("- {}: {}\n", phrases::capital(comparison::DEFAULTS), escape(&all)));
    }
    text.push_str(&listed("Not declared", &case.undeclared));
    for finding in &case.findings {
        text.push_str(&format!(
            "- **{}: {}**: {}. _{}_\n",
            phrases::capital(terminal::severity_word(finding.severity)),
            escape(&phrases::of_id(finding.id)),
            escape(&phrases::one_line(&finding.evidence)),
            escape(&phrases::one_line(&finding.advice))
        ));
    }
    text
}

/// Outages, as rows that go on the table of figures.
fn outages_table(case: &CaseComparison) -> String {
    let row = |cells: [String; 5]| format!("| {} |\n", cells.join(" | "));
    outages::table_of(case).into_iter().map(row).collect()
}

/// What a transaction costs, as rows that go on the table of figures.
fn costs_table(case: &CaseComparison) -> String {
    let row = |[title, a, b, change, word]: [String; 5]| {
        format!("| {title} per transaction | {a} | {b} | {change} | {word} |\n")
    };
    costs::table_of(case).into_iter().map(row).collect()
}

/// How long the transactions of each script take; empty if there are not several.
fn scripts_table(case: &CaseComparison) -> String {
    let rows = compared::table_of(case, compared::ROWS_MAX);
    if rows.is_empty() {
        return String::new();
    }
    let heads =
        compared::heads(case, &comparison::medians(case.purpose), &comparison::ratio_head(case.purpose));
    let left_out = compared::left_out(case, compared::ROWS_MAX);
    first_rows(compared::what(case), &heads, rows, left_out) + "\n"
}

/// The first rows of a comparison's table, below what they are, and above what it leaves out.
fn first_rows(what: &str, heads: &[String; 7], rows: Vec<[String; 7]>, left_out: Option<String>) -> String {
    let mut text = format!("{}:\n\n", phrases::capital(what));
    text.push_str(&format!("| {} |\n|:--|--:|--:|--:|:--|--:|--:|\n", heads.join(" | ")));
    for row in rows {
        text.push_str(&format!("| {} |\n", row.map(|cell| escape(&cell)).join(" | ")));
    }
    if let Some(more) = left_out {
        text.push_str(&format!("\n{}.\n", phrases::capital(&more)));
    }
    text
}

/// How long each statement takes, and what they add up to; empty if there are not several.
fn statements_table(case: &CaseComparison) -> String {
    let rows = statements::table_of(case, statements::ROWS_MAX);
    if rows.is_empty() {
        return String::new();
    }
    let heads = statements::heads(&comparison::medians(case.purpose), &comparison::ratio_head(case.purpose));
    let left_out = statements::left_out(case, statements::ROWS_MAX);
    let mut text = first_rows(statements::WHAT, &heads, rows, left_out);
    if let Some(whole) = statements::whole(case) {
        text.push_str(&format!("\n{}; {}:\n\n", phrases::capital(&whole), statements::SUM));
        text.push_str("| Part | Of the mean transaction (95 % interval) |\n|:--|--:|\n");
        for step in statements::steps(case) {
            let part = statements::with_interval(&step.part);
            text.push_str(&format!("| {} | {} |\n", escape(&step.name), escape(&part)));
        }
    }
    text + "\n"
}

fn findings(study: &Study) -> String {
    condense::findings(study).iter().map(|group| super::finding(group, study.runs.len())).collect()
}
