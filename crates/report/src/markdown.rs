//! The report for an issue or a chat: headline, table of cases, findings, host and server.

pub(crate) mod comparison;

use model::run::RunRecord;

use crate::condense::{self, FindingGroup};
use crate::{Input, format, headline, scripts, terminal, variation, words};

/// The whole text.
pub(crate) fn text(input: &Input) -> String {
    let study = input.study;
    let mut text = format!("## {}\n\n", escape(&headline::title(study)));
    text.push_str(&format!("**{}**\n\n", escape(&headline::sentence(study))));
    if !study.plan.description.trim().is_empty() {
        text.push_str(&format!("{}\n\n", escape(&words::one_line(&study.plan.description))));
    }
    if let Some(why) = &study.partial {
        text.push_str(&format!("> **Partial:** {}\n\n", escape(&words::one_line(why))));
    }
    text.push_str(&cases(input));
    for line in terminal::tpcc(study) {
        text.push_str(&format!("\nTPC-C-like, {}\n", escape(&line)));
    }
    for line in crate::capacity::lines(study).into_iter().chain(crate::scalability::lines(study)) {
        text.push_str(&format!("\n{}\n", escape(&line)));
    }
    let spreads = variation::lines(&study.cases);
    if !spreads.is_empty() {
        text.push_str("\n### Variation\n\n");
        spreads.iter().for_each(|line| text.push_str(&format!("- {}\n", escape(line))));
    }
    text.push_str(&scripts_of_best(input));
    let groups = condense::findings(study);
    if !groups.is_empty() {
        text.push_str("\n### Findings\n\n");
        for group in &groups {
            text.push_str(&finding(group, study.runs.len()));
        }
    }
    if let Some(record) = input.data.runs.iter().map(|run| &run.record).find(|record| record.server.is_some())
    {
        text.push_str(&setting(record));
    }
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
        "| case | runs | median tps | CV | p50 ms | p95 ms | p99 ms | verdict |\n\
         |:-----|-----:|-----------:|---:|-------:|-------:|-------:|:--------|\n",
    );
    for case in &input.study.cases {
        let cells = terminal::cells(case).map(|cell| escape(&cell));
        let reasons = condense::reasons(input.study, case).join("; ");
        let verdict = match reasons.as_str() {
            "" => case.grade.as_str().to_string(),
            reasons => format!("**{}**: {}", case.grade.as_str(), escape(reasons)),
        };
        text.push_str(&format!("| {} | {verdict} |\n", cells.join(" | ")));
    }
    text
}

fn scripts_of_best(input: &Input) -> String {
    let Some(case) = scripts::of_best(input.study) else { return String::new() };
    let mut text =
        format!("\n### Scripts of {}\n\n| {} |\n|:---", escape(&case.label), scripts::HEADS.join(" | "));
    text.push_str(&"|---:".repeat(scripts::HEADS.len() - 1));
    text.push_str("|\n");
    for script in &case.scripts {
        text.push_str(&format!("| {} |\n", scripts::cells(script).map(|cell| escape(&cell)).join(" | ")));
    }
    text
}

fn finding(group: &FindingGroup, n_runs: usize) -> String {
    format!(
        "- **{}: {}** in {}: {}. _{}_\n",
        words::capital(terminal::severity_word(group.severity)),
        escape(&group.title()),
        escape(&group.where_found(n_runs)),
        escape(&terminal::evidence(group)),
        escape(&words::one_line(&group.example().finding.advice)),
    )
}

fn setting(record: &RunRecord) -> String {
    let mut text = String::from("\n### Host and server\n\n");
    if let Some(host) = &record.host {
        text.push_str(&format!(
            "- Host: {}, {} processors, {} memory, {}, Linux {}\n",
            escape(&host.cpu_model),
            host.n_cpus,
            format::bytes(host.memory_bytes as f64),
            escape(&host.os),
            escape(&host.kernel)
        ));
    }
    if let Some(server) = &record.server {
        text.push_str(&format!("- Server: {}\n", escape(&words::one_line(&server.version))));
        text.push_str(&format!("- Database: {}\n", format::bytes(server.database_bytes as f64)));
        let settings: Vec<String> = crate::html::not_default(server)
            .map(|(name, setting)| format!("{} = {}", escape(name), escape(&words::one_line(&setting.value))))
            .collect();
        if !settings.is_empty() {
            text.push_str(&format!("- Settings: {}\n", settings.join(", ")));
        }
    }
    text
}

/// Characters that Markdown, or the HTML inside it, would take for markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // Keeps `@name` and `#12` from calling people and issues.
            '@' | '#' => {
                escaped.push(c);
                escaped.push_str("&#8203;");
            }
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_becomes_markup() {
        for (text, expected) in [
            ("a|b", "a\\|b"),
            ("<img src=x>", "&lt;img src=x&gt;"),
            ("shared_buffers", "shared\\_buffers"),
            ("@here #1", "@&#8203;here #&#8203;1"),
            ("two\nlines", "two lines"),
        ] {
            assert_eq!(escape(text), expected);
        }
    }
}
