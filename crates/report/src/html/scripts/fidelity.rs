//! How faithful the replay of a captured workload is: measures with their grades, and the statements.

use analysis::summary::Study;

use super::super::table;
use crate::escape::escape_html;
use crate::prose::phrases;
use crate::prose::scripts::fidelity as prose;

/// The run of each case that is furthest from its source.
pub(in super::super) fn section(study: &Study) -> String {
    let mut html = String::new();
    for (run, fidelity) in prose::shown(study) {
        let sentence = format!("run {}: {}", run.run, prose::sentence(fidelity));
        html.push_str(&format!(
            "<p>{}</p>\n{}",
            escape_html(&phrases::capital(&sentence)),
            table("plain", &prose::MEASURES, &cells(prose::measures(fidelity)))
        ));
        let rows = cells(prose::statements(fidelity));
        if !rows.is_empty() {
            html.push_str(&format!(
                "<details class=\"fold\"><summary>Statements</summary><p class=\"quiet\">{}.</p>{}</details>\n",
                phrases::capital(prose::WHAT),
                table("plain", &prose::STATEMENTS, &rows)
            ));
        }
    }
    html
}

fn cells<const N: usize>(rows: Vec<[String; N]>) -> Vec<Vec<String>> {
    rows.into_iter().map(|row| row.map(|cell| escape_html(&cell)).to_vec()).collect()
}
