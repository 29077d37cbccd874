//! The statements that sessions spent most time in, as text: a few, shortened.

use analysis::summary::{CaseSummary, Study, TopStatement};

use crate::prose::{format, headline, phrases};

/// Statements that are shown; the page and the JSON have more.
const SHOWN: usize = 3;
/// Characters of a statement, and the kinds of what its sessions did.
const CHARS: usize = 72;
const KINDS: usize = 3;

/// The statements of the best case, or of the first one that has some: `1.3 sessions (WAL 1.1, CPU 0.2), 4.1 ms: update …`. None if
/// nothing was seen.
pub(crate) fn lines(study: &Study) -> Vec<String> {
    let mut seen = study.cases.iter().filter(|case| !case.top_statements.is_empty());
    let best = headline::best(study).filter(|case| !case.top_statements.is_empty());
    best.or_else(|| seen.next()).map_or(Vec::new(), of_case)
}

fn of_case(case: &CaseSummary) -> Vec<String> {
    case.top_statements.iter().take(SHOWN).map(line).collect()
}

fn line(statement: &TopStatement) -> String {
    let text = short(&phrases::one_line(&statement.text));
    let mean = statement.mean_s().map(|s| format!("{} ms", format::ms(1e9 * s)));
    let sessions = statement.sessions.map(|n| {
        let mut by = statement.by.clone();
        by.sort_by(|a, b| b.1.total_cmp(&a.1));
        let parts: Vec<String> =
            by.iter().take(KINDS).map(|(kind, n)| format!("{kind} {}", format::significant(*n))).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        format!("{} sessions{parts}", format::significant(n))
    });
    let figures: Vec<String> = sessions.into_iter().chain(mean).collect();
    if figures.is_empty() { text } else { format!("{}: {text}", figures.join(", ")) }
}

fn short(text: &str) -> String {
    if text.chars().count() <= CHARS {
        return text.to_string();
    }
    let kept: String = text.chars().take(CHARS - 1).collect();
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
            line(&known),
            "1.30 sessions (WAL 1.10, CPU 0.150, locks 0.0500), 0.500 ms: update pgbench_accounts set abalance = \
             abalance + $1 where aid = $2"
        );
        let long = TopStatement { text: "select ".repeat(60), ..TopStatement::default() };
        assert_eq!(line(&long).chars().count(), CHARS);
    }
}
