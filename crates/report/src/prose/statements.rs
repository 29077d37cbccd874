//! The statements that sessions spent most time in, as text: a few, shortened.

pub(crate) mod applied;
pub(crate) mod compared;

use std::fmt;

use analysis::summary::{Study, TopStatement};

use crate::prose::{format, headline, phrases};

/// Statements that are shown; the page and the JSON have more.
const SHOWN: usize = 3;
/// Characters of a statement, and the kinds of what its sessions did.
const CHARS: usize = 100;
const KINDS: usize = 3;

/// The statements of a case.
pub(crate) struct OfCase {
    /// `Top statements (16 clients)`; without the case where there is only one.
    pub(crate) title: String,
    pub(crate) lines: Vec<StatementLine>,
}

/// One statement.
pub(crate) struct StatementLine {
    /// `1.30 sessions (WAL 1.10, CPU 0.20), 4.1 ms`; empty if nothing is known.
    pub(crate) figures: String,
    /// In one line, shortened.
    pub(crate) text: String,
}

impl fmt::Display for StatementLine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.figures.as_str() {
            "" => f.write_str(&self.text),
            figures => write!(f, "{figures}: {}", self.text),
        }
    }
}

/// The statements of the best case, or of the first one that has some. None if nothing was seen.
pub(crate) fn from_study(study: &Study) -> Option<OfCase> {
    let mut seen = study.cases.iter().filter(|case| !case.top_statements.is_empty());
    let best = headline::best(study).filter(|case| !case.top_statements.is_empty());
    let case = best.or_else(|| seen.next())?;
    let of =
        if study.cases.len() > 1 { format!(" ({})", phrases::one_line(&case.label)) } else { String::new() };
    Some(OfCase {
        title: format!("Top statements{of}"),
        lines: case.top_statements.iter().take(SHOWN).map(line).collect(),
    })
}

fn line(statement: &TopStatement) -> StatementLine {
    let text = short(&phrases::one_line(&statement.text), CHARS);
    let mean = statement.mean_s().map(|s| format!("{} ms", format::ms(1e9 * s)));
    let sessions = statement.sessions.map(|n| {
        let mut by = statement.by.clone();
        by.sort_by(|a, b| b.1.total_cmp(&a.1));
        // Samples are too few for more than two decimals.
        let shown = by.iter().filter(|(_, n)| *n >= 0.005).take(KINDS);
        let parts: Vec<String> = shown.map(|(kind, n)| format!("{kind} {n:.2}")).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        format!("{n:.2} sessions{parts}")
    });
    let figures: Vec<String> = sessions.into_iter().chain(mean).collect();
    StatementLine { figures: figures.join(", "), text }
}

/// At most so many characters of a text.
fn short(text: &str, n_max: usize) -> String {
    if text.chars().count() <= n_max {
        return text.to_string();
    }
    let kept: String = text.chars().take(n_max - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_a_line_with_what_is_known_of_it() {
        let known = TopStatement {
            text: "update pgbench_accounts\nset abalance = abalance + $1 where aid = $2".to_string(),
            sessions: Some(1.3),
            by: vec![("CPU", 0.15), ("WAL", 1.1), ("locks", 0.05)],
            calls_per_s: Some(1000.0),
            time: Some(0.5),
            ..TopStatement::default()
        };
        assert_eq!(
            line(&known).to_string(),
            "1.30 sessions (WAL 1.10, CPU 0.15, locks 0.05), 0.500 ms: update pgbench_accounts set abalance = \
             abalance + $1 where aid = $2"
        );
        let long = TopStatement { text: "select ".repeat(60), ..TopStatement::default() };
        assert_eq!(line(&long).to_string().chars().count(), CHARS);
    }
}
