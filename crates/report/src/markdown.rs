//! The report for an issue or a chat: headline, table of cases, findings, host and server.

pub(crate) mod comparison;

use std::collections::BTreeSet;

use analysis::summary::{CaseSummary, Study};
use model::run::RunRecord;
use model::run::host::HostRecord;
use model::run::server::ServerRecord;
use model::text::visible::{is_hidden, visible};

use crate::prose::condense::{self, FindingGroup};
use crate::prose::factors::{self, AgainstBaseline, CaseRow};
use crate::prose::variation::{costs, uncertainty};
use crate::prose::{
    capacity, conditions, format, headline, limiter, phrases, scripts, statements, variation,
};
use crate::{Input, terminal};

pub(crate) fn text(input: &Input) -> String {
    let study = input.study;
    let mut text = format!("## {}\n\n", escape(&headline::title(study)));
    text.push_str(&format!("**{}**\n\n", escape(&headline::sentence(study))));
    if let Some(line) = conditions::line(&study.plan) {
        text.push_str(&format!("{}\n\n", escape(&line)));
    }
    let (question, more) = phrases::paragraphs(&study.plan.description);
    for paragraph in std::iter::once(question).chain(more).filter(|paragraph| !paragraph.is_empty()) {
        let (head, items) = phrases::list(paragraph);
        text.push_str(&format!("{}\n\n", escape(&phrases::one_line(&head))));
        let items: String =
            items.iter().map(|item| format!("- {}\n", escape(&phrases::one_line(item)))).collect();
        text.push_str(&items);
        text.push_str(if items.is_empty() { "" } else { "\n" });
    }
    if let Some(why) = &study.partial {
        text.push_str(&format!("> **Partial:** {}\n\n", escape(&phrases::one_line(why))));
    }
    text.push_str(&cases(input));
    text.push_str(&outages_of(study));
    for line in scripts::queries::lines(study) {
        text.push_str(&format!("\n{}\n", escape(&phrases::capital(&line))));
    }
    for line in scripts::measures(study) {
        text.push_str(&format!("\n{}\n", escape(&line)));
    }
    for line in terminal::tpcc(study) {
        text.push_str(&format!("\nTPC-C-like, {}\n", escape(&line)));
    }
    let below = capacity::below_table(study).into_iter();
    for line in below.chain(capacity::offered::below_table(study)) {
        text.push_str(&format!("\n{}\n", escape(&line)));
    }
    text.push_str(&tried(study));
    let limits = limiter::lines(study);
    if !limits.is_empty() {
        text.push_str("\n### Limited by\n\n");
        limits.iter().for_each(|line| text.push_str(&format!("- {}\n", escape(line))));
    }
    if let Some(statements) = statements::from_study(study) {
        text.push_str(&format!("\n### {}\n\n", escape(&statements.title)));
        for line in statements.lines {
            let figures = if line.figures.is_empty() { line.figures } else { format!("{}: ", line.figures) };
            text.push_str(&format!("- {}{}\n", escape(&figures), code(&line.text)));
        }
    }
    text.push_str(&findings(study));
    text.push_str(&against_baseline(input.study));
    text.push_str(&money(input.study));
    for line in crate::prose::scalability::lines(study) {
        text.push_str(&format!("\n{}\n", escape(&line)));
    }
    text.push_str(&costs_of(study));
    let spreads = variation::lines(&study.cases);
    if !spreads.is_empty() {
        text.push_str("\n### Variation\n\n");
        spreads.iter().for_each(|line| text.push_str(&format!("- {}\n", escape(line))));
    }
    text.push_str(&scripts_of_best(input));
    text.push_str(&setting(input.data.runs.iter().map(|run| &run.record)));
    text.push_str(&format!(
        "\nMade by pgdyno {}, measured by pgdyno {} ({}), seed {}.\n",
        escape(input.tool_version),
        escape(&study.plan.tool_version),
        format::utc(study.plan.made_unix_ns),
        study.plan.seed
    ));
    text
}

fn cases(input: &Input) -> String {
    let mut text = String::from(
        "| case | runs | median UNIT | good to | p50 ms | p99 ms | good to | limiter | mostly from |\n\
         |:-----|-----:|-----------:|--------:|-------:|-------:|--------:|:--------|:------------|\n",
    )
    .replace("UNIT", scripts::queries::unit_of_study(input.study));
    for case in &input.study.cases {
        let cells = terminal::cells(input.study, case).map(|cell| escape(&cell));
        let remarks = escape(&uncertainty::remarks(input.study, case));
        text.push_str(&format!("| {} | {} | {remarks} |\n", cells.join(" | "), terminal::limiter_name(case)));
    }
    text
}

/// Each outage.
fn outages_of(study: &Study) -> String {
    let rows = headline::outages::rows(study);
    if rows.is_empty() {
        return String::new();
    }
    let (first, heads) = headline::outages::HEADS.split_at(1);
    let mut text = format!(
        "\n### Outages\n\n| {} | {} |\n|:--|{}\n",
        first[0],
        heads.join(" | "),
        "--:|".repeat(heads.len())
    );
    for cells in rows {
        text.push_str(&format!("| {} |\n", cells.map(|cell| escape(&cell)).join(" | ")));
    }
    text.push_str(&format!("\n{}.\n", headline::outages::NOTE));
    text
}

fn costs_of(study: &Study) -> String {
    let rows = costs::rows(study);
    if rows.is_empty() {
        return String::new();
    }
    let heads: Vec<&str> = rows.iter().map(|row| row.title).collect();
    let cells = |case: &CaseSummary| {
        (case.label.clone(), rows.iter().map(|row| costs::cell(row, case)).collect::<Vec<String>>())
    };
    let table = table(&heads, study.cases.iter().map(cells));
    format!("\n### What a transaction costs\n\n{}.\n\n{table}", phrases::capital(costs::BLIND))
}

/// Cases in per cent of a baseline, if the experiment names one.
fn against_baseline(study: &Study) -> String {
    let is_named = study.plan.baseline != 0;
    let Some(AgainstBaseline { what, of, rows, ipc }) = factors::against(study).filter(|_| is_named) else {
        return String::new();
    };
    let remark = factors::about_cycles(study).map_or_else(String::new, |why| format!("\n{why}\n"));
    let by_label = factors::is_by_label(study);
    let mut heads = vec![what, "of baseline", "difference"];
    heads.extend(by_label.then_some("compared with"));
    if !ipc.is_empty() {
        heads.extend(factors::IPC_HEADS);
    }
    let n = if by_label { 4 } else { 3 };
    let cells = |(n_row, row): (usize, &CaseRow<4>)| {
        let ipc = ipc.get(n_row).into_iter().flatten().cloned();
        (row.case.label.clone(), row.cells[..n].iter().cloned().chain(ipc).collect())
    };
    let table = self::table(&heads, rows.iter().enumerate().map(cells));
    format!("\n### Against a baseline\n\nIn per cent of {}.\n\n{table}{remark}", escape(&of))
}

fn money(study: &Study) -> String {
    let rows = factors::money(study);
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "\n### Throughput against price\n\n{}",
        table(
            &factors::MONEY_HEADS,
            rows.into_iter().map(|row| (row.case.label.clone(), row.cells.to_vec()))
        )
    )
}

/// A table of cases; `heads` are those of the cells.
fn table(heads: &[&str], rows: impl Iterator<Item = (String, Vec<String>)>) -> String {
    let mut text = format!("| case | {} |\n|:---|{}\n", heads.join(" | "), "---:|".repeat(heads.len()));
    for (label, cells) in rows {
        let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
        text.push_str(&format!("| {} | {} |\n", escape(&label), cells.join(" | ")));
    }
    text
}

fn scripts_of_best(input: &Input) -> String {
    let Some(case) = scripts::of_best(input.study) else { return String::new() };
    let (table, nouns) = (scripts::table(case), phrases::capital(&scripts::plural_noun(case)));
    let mut text =
        format!("\n### {nouns} of {}\n\n| {} |\n|:---", escape(&case.label), table.heads.join(" | "));
    text.push_str(&"|---:".repeat(table.heads.len() - 1));
    text.push_str("|\n");
    for row in table.rows {
        let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    if let Some(note) = scripts::note(case) {
        text.push_str(&format!("\n{}\n", escape(&note)));
    }
    let below = scripts::below(case);
    text.push_str(if below.is_empty() { "" } else { "\n" });
    below.iter().for_each(|line| text.push_str(&format!("- {}\n", escape(line))));
    text
}

/// Doubts and voids, then the notes folded into one line.
fn findings(study: &Study) -> String {
    let groups = condense::findings(study);
    let (notes, weighty): (Vec<&FindingGroup>, Vec<&FindingGroup>) =
        groups.iter().partition(|group| group.is_aside());
    let list = |groups: &[&FindingGroup]| {
        groups.iter().map(|group| finding(group, study.runs.len())).collect::<String>()
    };
    let mut text = String::new();
    if !groups.is_empty() {
        text.push_str(&format!("\n### Findings\n\n{}", list(&weighty)));
    }
    if !notes.is_empty() {
        text.push_str(&format!(
            "\n<details><summary>{}</summary>\n\n{}\n</details>\n",
            phrases::plural(notes.len(), "note"),
            list(&notes)
        ));
    }
    text
}

fn finding(group: &FindingGroup, n_runs: usize) -> String {
    format!(
        "- **{}: {}** \\[{}\\], in {}: {}. _{}_\n",
        phrases::capital(terminal::severity_word(group.severity)),
        escape(&group.title()),
        group.id,
        escape(&group.where_found(n_runs)),
        escape(&terminal::evidence(group)),
        escape(&phrases::one_line(&group.example().finding.advice)),
    )
}

/// All hosts and servers of the runs; for settings that differ, all values.
fn setting<'a>(records: impl Iterator<Item = &'a RunRecord> + Clone) -> String {
    let servers: Vec<&ServerRecord> = records.clone().filter_map(|record| record.server.as_ref()).collect();
    let hosts = distinct(records.clone().filter_map(|record| record.host.as_ref()).map(host_words));
    if servers.is_empty() && hosts.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n### Host and server\n\n");
    hosts.iter().for_each(|host| text.push_str(&format!("- Host: {host}\n")));
    let builds = records.filter_map(|record| {
        let version = escape(&phrases::one_line(&record.server.as_ref()?.version));
        let build = analysis::explain::fetched_build(record);
        Some(build.map_or(version.clone(), |build| format!("{version} ({build})")))
    });
    for version in distinct(builds) {
        text.push_str(&format!("- Server: {version}\n"));
    }
    let known = servers.iter().filter(|server| server.database_bytes > 0);
    let sizes = distinct(known.map(|server| format::bytes(server.database_bytes as f64)));
    if !sizes.is_empty() {
        text.push_str(&format!("- Database: {}\n", sizes.join(", ")));
    }
    let names: BTreeSet<&String> =
        servers.iter().flat_map(|server| crate::html::not_default(server)).map(|(name, _)| name).collect();
    let settings: Vec<String> = names
        .into_iter()
        // It differs with each start.
        .filter(|name| *name != "unix_socket_directories")
        .map(|name| {
            let values = servers.iter().filter_map(|server| server.settings.get(name));
            let values = distinct(values.map(|setting| escape(&phrases::one_line(&setting.value))));
            format!("{} = {}", escape(name), values.join(" or "))
        })
        .collect();
    if !settings.is_empty() {
        text.push_str(&format!("- Settings: {}\n", settings.join(", ")));
    }
    text
}

fn host_words(host: &HostRecord) -> String {
    format!(
        "{}, {}, {} memory, {}, Linux {}",
        escape(&host.cpu_model),
        phrases::plural(host.n_cpus, "processor"),
        format::bytes(host.memory_bytes as f64),
        escape(&host.os),
        escape(&host.kernel)
    )
}

/// Each distinct text, in the order of first appearance.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    texts.for_each(|text| {
        if !list.contains(&text) {
            list.push(text);
        }
    });
    list
}

/// A span of code, in which only its own fence is markup: one backtick more than it holds in a row.
fn code(text: &str) -> String {
    let visible = visible(text);
    let longest = visible.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if visible.starts_with('`') || visible.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{visible}{pad}{fence}")
}

/// Escapes characters that Markdown, or HTML inside it, would treat as markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // Keeps `@name` and `#12` from linking people and issues.
            '@' | '#' => {
                escaped.push(c);
                escaped.push_str("&#8203;");
            }
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\n' | '\t' => escaped.push(' '),
            // Shown as on the terminal, with the backslash escaped for Markdown.
            c if is_hidden(c) => {
                escaped.push('\\');
                escaped.extend(c.escape_default());
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// The rates that searches tried, a table for each run.
fn tried(study: &Study) -> String {
    let mut text = String::new();
    for rates in capacity::tried(study) {
        text.push_str(&format!("\n### {}\n\n", escape(&phrases::capital(&rates.title))));
        text.push_str(&format!("| {} |\n|---:|---:|---:|---|\n", rates.heads.join(" | ")));
        for cells in &rates.rows {
            let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
    text.push_str(&capacity::not_shown(study).map_or(String::new(), |line| format!("\n{}\n", escape(&line))));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_ends_at_its_own_fence() {
        assert_eq!(code("select @a_b"), "`select @a_b`");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code("`a`\u{1b}"), "`` `a`\\u{1b} ``");
    }

    #[test]
    fn nothing_becomes_markup() {
        for (text, expected) in [
            ("a|b", "a\\|b"),
            ("<img src=x>", "&lt;img src=x&gt;"),
            ("shared_buffers", "shared\\_buffers"),
            ("@here #1", "@&#8203;here #&#8203;1"),
            ("two\nlines", "two lines"),
            ("\u{1b}[2J\u{202e}", "\\\\u{1b}\\[2J\\\\u{202e}"),
        ] {
            assert_eq!(escape(text), expected);
        }
    }
}
