//! The scripts of a load: how often each ran, how long its transactions took, and for disclosure their source.

pub(super) mod fidelity;
pub(super) mod statements;

use analysis::comparison::CaseComparison;
use analysis::summary::{CaseSummary, Study};
use model::experiment::script::CaseData;
use model::run::RunRecord;

use super::escape::escape_html;
use super::table;
use super::tables::case_name;
use crate::axis::Axis;
use crate::comparison;
use crate::prose::scripts::compared as prose;
use crate::prose::{format, headline, phrases, scripts};

/// A table for each case with several scripts; that of the best case is open.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    let best = headline::best(study).map(|case| case.case.id);
    let several: Vec<&CaseSummary> = study.cases.iter().filter(|case| scripts::are_shown(case)).collect();
    if several.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<p class=\"quiet\">Latency of committed transactions in milliseconds, over all runs that count. The share \
         is that of transactions that were committed or ended with an expected error, next to the one that the weights ask for; facts are means of one transaction.</p>\n",
    );
    if study.cases.iter().any(|case| case.analytical.is_some()) {
        html =
            format!("<p class=\"quiet\">{}.</p>\n", escape_html(&phrases::capital(scripts::queries::WHAT)));
    }
    for line in scripts::queries::lines(study) {
        html.push_str(&format!("<p>{}</p>\n", escape_html(&phrases::capital(&line))));
    }
    for line in scripts::measures(study) {
        html.push_str(&format!("<p>{}</p>\n", escape_html(&phrases::capital(&line))));
    }
    for case in several {
        let open = if best == Some(case.case.id) { " open" } else { "" };
        let scripts::ScriptRows { heads, rows } = scripts::table(case);
        let cells = |row: &Vec<String>| row.iter().map(|cell| escape_html(cell)).collect::<Vec<String>>();
        let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
        let note = scripts::note(case)
            .map_or(String::new(), |note| format!("<p class=\"quiet\">{}</p>", escape_html(&note)));
        let below =
            scripts::below(case).iter().map(|line| escape_html(line)).collect::<Vec<String>>().join("<br>");
        let below = if below.is_empty() { below } else { format!("<p>{below}</p>") };
        html.push_str(&format!(
            "<details class=\"fold\"{open}><summary>{}</summary>{}{note}{below}</details>\n",
            case_name(axis, case),
            table("plain", &heads, &rows)
        ));
    }
    html
}

/// The table of a comparison, of which all but the first rows are folded; empty if there are not several scripts.
pub(super) fn compared(case: &CaseComparison) -> String {
    let heads = prose::heads(case, &comparison::medians(case.purpose), &comparison::ratio_head(case.purpose));
    FoldedTable {
        what: prose::what(case),
        heads,
        rows: prose::table_of(case, usize::MAX),
        n_open: prose::ROWS_MAX,
        folded: prose::left_out(case, prose::ROWS_MAX),
    }
    .html()
}

/// Rows of a comparison, of which all but the first ones are folded.
struct FoldedTable {
    /// What the rows are, for above them.
    what: &'static str,
    heads: [String; 7],
    rows: Vec<[String; 7]>,
    /// Rows that are not folded.
    n_open: usize,
    /// What the others are; `None` without any.
    folded: Option<String>,
}

impl FoldedTable {
    /// Empty without rows.
    fn html(self) -> String {
        let row = |cells: [String; 7]| cells.map(|cell| escape_html(&cell)).to_vec();
        let mut rows: Vec<Vec<String>> = self.rows.into_iter().map(row).collect();
        if rows.is_empty() {
            return String::new();
        }
        let heads = self.heads.each_ref().map(String::as_str);
        let rest = rows.split_off(rows.len().min(self.n_open));
        let open = table("figures", &heads, &rows);
        let mut html = format!("<p class=\"quiet\">{}.</p>\n{open}", phrases::capital(self.what));
        if let Some(more) = self.folded {
            html.push_str(&format!(
                "<details class=\"fold\"><summary>{}</summary>{}</details>\n",
                escape_html(&more),
                table("figures", &heads, &rest)
            ));
        }
        html
    }
}

/// The user's own scripts and their data, for the disclosure: heads and cells.
pub(super) fn disclosed(records: &[&RunRecord]) -> Option<String> {
    let workload = records.iter().map(|record| &record.case.workload).find(|w| !w.scripts.is_empty())?;
    let rows: Vec<Vec<String>> = workload
        .scripts
        .iter()
        .map(|script| {
            vec![
                escape_html(&script.name),
                format::count(u64::from(script.weight)),
                format!("<code>{}</code>", escape_html(&script.sha256)),
            ]
        })
        .collect();
    let mut html = table("text", &["Script", "Weight", "SHA-256"], &rows);
    for script in &workload.scripts {
        html.push_str(&format!(
            "<details class=\"fold\"><summary>{}</summary><pre>{}</pre></details>",
            escape_html(&script.name),
            escape_html(&script.source)
        ));
    }
    if let CaseData::Files(files) = &workload.data {
        let rows: Vec<Vec<String>> = files
            .iter()
            .map(|file| {
                vec![
                    escape_html(&file.name),
                    escape_html(&format::bytes(file.bytes as f64)),
                    format!("<code>{}</code>", escape_html(&file.sha256)),
                ]
            })
            .collect();
        html.push_str(&table("text", &["Data created by", "Size", "SHA-256"], &rows));
    }
    if let CaseData::Archive(archive) = &workload.data {
        let row = vec![
            escape_html(&archive.words()),
            escape_html(&format::bytes(archive.bytes as f64)),
            format!("<code>{}</code>", escape_html(&archive.identity)),
        ];
        html.push_str(&table("text", &["Data", "Size of the archive", "Identity"], &[row]));
    }
    Some(html)
}
