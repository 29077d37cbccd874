//! `source.json` of a workload directory: what each statement did at the source, for fidelity. It has no values of the users' rows: texts are
//! normalised, and shortened.

use anyhow::{Context, Result, ensure};
use model::run::fidelity::{STATEMENTS_MAX, WorkloadFigures};
use serde::{Deserialize, Serialize};

/// The file's name.
pub const SOURCE_FILE: &str = "source.json";
/// Version of the format.
const SOURCE_FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct SourceFile {
    format: u32,
    #[serde(flatten)]
    figures: WorkloadFigures,
}

/// The text of the file, a line per statement.
pub fn text(figures: &WorkloadFigures) -> String {
    let whole = SourceFile { format: SOURCE_FORMAT, figures: figures.clone() };
    let text = serde_json::to_string_pretty(&whole)
        .expect("its maps have texts as keys, and its numbers are finite");
    format!("{text}\n")
}

/// Reads the file.
///
/// # Errors
/// When it is none, or beyond bounds.
pub fn parse(text: &str) -> Result<WorkloadFigures> {
    let SourceFile { format, figures } =
        serde_json::from_str(text).with_context(|| format!("{SOURCE_FILE} cannot be read"))?;
    ensure!(format <= SOURCE_FORMAT, "{SOURCE_FILE} has format {format}; use a newer pgdyno");
    ensure!(
        figures.statements.len() <= STATEMENTS_MAX,
        "{SOURCE_FILE} has {} statements, more than {STATEMENTS_MAX}",
        figures.statements.len()
    );
    let is_sane = |us: f64| us.is_finite() && us >= 0.0;
    let times = figures.statements.values().map(|one| one.figures.time_us);
    let is_all_sane = times.chain([figures.others.time_us, figures.length_s]).all(is_sane);
    ensure!(is_all_sane, "{SOURCE_FILE} has times that are negative");
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use model::run::fidelity::{CountedStatement, StatementFigures};

    use super::*;

    #[test]
    fn what_is_written_is_read_and_nonsense_is_refused() {
        let mut figures = WorkloadFigures { length_s: 3600.0, dispersion: Some(1.2), ..Default::default() };
        let one = StatementFigures { calls: 3, time_us: 4.5, rows: Some(0), ..StatementFigures::default() };
        figures.add(
            "00000000000000ff".to_string(),
            CountedStatement { text: "select $1".to_string(), is_reproduced: Some(true), figures: one },
        );
        assert_eq!(parse(&text(&figures)).unwrap(), figures);
        for (bad, expected) in [
            ("{", "cannot be read"),
            (r#"{"format": 2, "length_s": 1, "statements": {}}"#, "use a newer pgdyno"),
            (r#"{"format": 1, "length_s": -1, "statements": {}}"#, "negative"),
        ] {
            let error = format!("{:#}", parse(bad).unwrap_err());
            assert!(error.contains(expected), "{bad}: {error}");
        }
    }
}
