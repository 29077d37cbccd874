//! `workload.toml` of a captured directory.

use std::collections::BTreeSet;

use crate::directory::summary::Summary;
use crate::log::is_sql_state;
use crate::role::variables::{Variables, loop_name};
use crate::session::classes::SessionKind;

/// A transaction of the file.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) rate: f64,
    pub(super) variables: &'a Variables,
    /// SQLSTATEs that the source had in such transactions.
    pub(super) errors: BTreeSet<[u8; 5]>,
}

/// Facts about the source.
pub(super) struct SourceFacts<'a> {
    pub(super) server: Option<&'a str>,
    pub(super) system_identifier: Option<&'a str>,
    pub(super) log: &'a str,
}

/// Least weight that a transaction can have: weights with fractions count in thousandths.
const WEIGHT_MIN: f64 = 0.001;
/// Sum of the weights of a class of clients: rates of rare transactions would have too few digits.
const WEIGHT_SUM: f64 = 100_000.0;

/// The text of the file.
pub(super) fn text(
    summary: &Summary,
    source: &SourceFacts<'_>,
    entries: &[Entry<'_>],
    sessions: &[SessionKind],
    settings: &[(String, String)],
) -> String {
    let mut out = head(summary, source);
    for entry in entries {
        transaction(entry, &mut out);
    }
    let total: f64 = entries.iter().map(|entry| entry.rate).sum();
    let share = |rate: f64| if total > 0.0 { WEIGHT_SUM * rate / total } else { 1.0 };
    let weights: Vec<String> =
        entries.iter().map(|entry| format!("{} = {}", entry.name, weight(share(entry.rate)))).collect();
    out.push_str("\n# Of 100,000 transactions of the source.\n[variants.source]\nabout = \"the mix of the source\"\n[variants.source.weights]\n");
    out.push_str(&(weights.join("\n") + "\n"));
    if sessions.is_empty() && !settings.is_empty() {
        out.push_str("\n[[session]]\nname = \"all\"\nshare = 1.0\n");
        out.push_str(&settings_text(settings));
    }
    for (n, kind) in sessions.iter().enumerate() {
        let total: u64 = kind.n.iter().sum();
        let weights = kind.n.iter().zip(entries).filter(|(n, _)| **n > 0);
        let weights: Vec<String> = weights
            .map(|(n, entry)| format!("{} = {}", entry.name, weight(WEIGHT_SUM * *n as f64 / total as f64)))
            .collect();
        out.push_str(&format!(
            "\n# {}\n[[session]]\nname = \"class{}\"\nshare = {:.4}\nweights = {{{}}}\n",
            one_line(&kind.name),
            n + 1,
            // Rounded down: the shares are at most 1 together.
            ((kind.share * 1e4).floor() / 1e4).max(1e-4),
            weights.join(", ")
        ));
        out.push_str(&settings_text(settings));
    }
    out
}

fn head(summary: &Summary, source: &SourceFacts<'_>) -> String {
    let from = if summary.is_counted { "counters" } else { "log" };
    let mut out = format!(
        "# Captured from a server's {from}; README.md says what it is and what it lacks.\nformat = 1\n"
    );
    let mut key = |name: &str, value: &str| out.push_str(&format!("{name} = {}\n", quoted(value)));
    key("name", &summary.name);
    key("title", &format!("Captured: {}", summary.name));
    key(
        "about",
        &if summary.is_counted {
            format!(
                "{} statements by themselves, as often as they were called in {} s.",
                summary.templates.len(),
                summary.length_s.round()
            )
        } else {
            format!(
                "{} kinds of transactions, drawn whole from {} s of a log.",
                summary.templates.len(),
                summary.length_s.round()
            )
        },
    );
    key("licence", "of whoever captured it");
    key("data", "existing");
    if summary.privacy != "values" {
        key(
            "notice",
            &format!(
                "Values are masked ({}): statements by them find other rows than the source's, mostly none.",
                summary.privacy
            ),
        );
    }
    out.push_str("\n[source]\n");
    let mut key = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            out.push_str(&format!("{name} = {}\n", quoted(value)));
        }
    };
    key("server", source.server);
    key("system_identifier", source.system_identifier);
    key("began", Some(&summary.began));
    key("log", Some(source.log));
    key("grade", Some(summary.grade()));
    out.push_str(&format!("rate = {}\n", number(summary.rate.max(0.001))));
    out.push_str(&format!("length_s = {}\n", number(summary.length_s.max(0.001))));
    out.push_str(&format!("clients = {}\n", summary.n_clients.max(1)));
    out.push_str(&format!("\n[defaults]\nprotocol = \"{}\"\n", summary.protocol));
    out
}

fn transaction(entry: &Entry<'_>, out: &mut String) {
    out.push_str(&format!("\n[[transaction]]\nname = {}\n", quoted(entry.name)));
    let variables = entry.variables;
    if !variables.columns.is_empty() {
        out.push_str(&format!("draws = {}\n", quoted(entry.name)));
        // Without a column of its own there is no file to deal from.
        if variables.deals_once && variables.columns.iter().any(|column| column.in_loop.is_none()) {
            out.push_str("draws_order = \"once\"\n");
        }
    }
    let mut expected: Vec<String> =
        entry.errors.iter().filter_map(|state| String::from_utf8(state.to_vec()).ok()).collect();
    expected.retain(|state| is_sql_state(state.as_bytes()));
    if variables.may_collide && !expected.iter().any(|state| state == "23505") {
        expected.push("23505".to_string());
    }
    if !expected.is_empty() {
        let expected: Vec<String> = expected.iter().map(|state| quoted(state)).collect();
        out.push_str(&format!("expected = [{}]\n", expected.join(", ")));
    }
    let tables = std::iter::once((None, "[transaction.params]".to_string()));
    let loops = (0..variables.rounds.len())
        .map(|number| (Some(number), format!("[transaction.each.{}]", loop_name(number))));
    for (in_loop, head) in tables.chain(loops) {
        let of_table = variables.all.iter().filter(|one| one.in_loop == in_loop);
        let lines: Vec<String> = of_table
            .filter_map(|one| {
                let expression = one.expression.as_ref()?;
                Some(format!("{} = {}  # {}\n", one.name, quoted(expression), one.role.word()))
            })
            .collect();
        if !lines.is_empty() || in_loop.is_some() {
            out.push_str(&format!("{head}\n{}", lines.concat()));
        }
    }
}

fn settings_text(settings: &[(String, String)]) -> String {
    if settings.is_empty() {
        return String::new();
    }
    let all: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
    format!("settings = {{{}}}\n", all.join(", "))
}

fn weight(rate: f64) -> String {
    number(rate.max(WEIGHT_MIN))
}

/// A number with a point, so that it is read as one with fractions.
fn number(value: f64) -> String {
    format!("{value:.3}")
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect()
}

/// A text as TOML's basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a\"b\\c\nd\u{1}"), "\"a\\\"b\\\\c\\nd\\u0001\"");
        assert_eq!(weight(0.0), "0.001");
        assert_eq!(one_line("a\nb"), "a b");
    }
}
