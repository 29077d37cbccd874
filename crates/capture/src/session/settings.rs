//! `SET` of sessions: what most sessions set to the same value is a setting of the workload's sessions.

use std::collections::{BTreeMap, BTreeSet};

use crate::statement::lexer::{LexedToken, TokenKind};
use crate::statement::literal::text_value;

/// Settings that are remembered.
const NAMES_MAX: usize = 100;
/// Values of one of them.
const VALUES_MAX: usize = 100;
/// Sessions that are counted.
const SESSIONS_MAX: usize = 100_000;
/// What belongs to the client, or is a state that is not the load's.
const IGNORED: [&str; 6] = [
    "application_name",
    "standard_conforming_strings",
    "escape_string_warning",
    "role",
    "session_authorization",
    "seed",
];
/// The share of the sessions that set it, and that set it to this value.
const SHARE_MIN: f64 = 0.9;

/// Settings and the sessions that set them.
#[derive(Clone, Debug, Default)]
pub struct SettingsSeen {
    by_name: BTreeMap<String, BTreeMap<String, BTreeSet<u32>>>,
}

impl SettingsSeen {
    /// Counts `SET name = value`.
    pub(crate) fn add(&mut self, session: u32, text: &str, tokens: &[LexedToken]) {
        let word = |n: usize| tokens.get(n).map_or("", |token| token.text(text));
        let unquoted = |n: usize| word(n).trim_matches('"');
        let first = if word(1).eq_ignore_ascii_case("session") { 2 } else { 1 };
        let mut name = unquoted(first).to_ascii_lowercase();
        let mut next = first + 1;
        while word(next) == "." {
            name = format!("{name}.{}", unquoted(next + 1).to_ascii_lowercase());
            next += 2;
        }
        if name == "time" && word(next).eq_ignore_ascii_case("zone") {
            name = "timezone".to_string();
        } else if !(word(next) == "=" || word(next).eq_ignore_ascii_case("to")) {
            return;
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if word(next + 1).eq_ignore_ascii_case("default") || !name.chars().all(is_name) {
            return;
        }
        let values: Vec<String> = tokens
            .get(next + 1..)
            .unwrap_or_default()
            .iter()
            .filter_map(|token| {
                let word = token.text(text);
                match token.kind {
                    TokenKind::Text => text_value(word, false),
                    TokenKind::Word | TokenKind::Number | TokenKind::QuotedName => {
                        Some(word.trim_matches('"').to_string())
                    }
                    _ => None,
                }
            })
            .collect();
        let value = values.join(", ");
        if IGNORED.contains(&name.as_str()) || value.is_empty() || model::secret::is_secret(&name, &value) {
            return;
        }
        if self.by_name.len() >= NAMES_MAX && !self.by_name.contains_key(&name) {
            return;
        }
        let values = self.by_name.entry(name).or_default();
        if values.len() >= VALUES_MAX && !values.contains_key(&value) {
            return;
        }
        let sessions = values.entry(value).or_default();
        if sessions.len() < SESSIONS_MAX {
            sessions.insert(session);
        }
    }

    /// Settings that nearly all of so many sessions set to one value. Those with a point in their name are an application's own,
    /// and can hold anything.
    pub fn common(&self, n_sessions: usize) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (name, values) in &self.by_name {
            let Some((value, sessions)) = values.iter().max_by_key(|(_, sessions)| sessions.len()) else {
                continue;
            };
            let is_common = sessions.len() as f64 >= SHARE_MIN * n_sessions as f64;
            if is_common && !name.contains('.') {
                found.push((name.clone(), value.clone()));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::lexer::{Backslash, tokens};

    #[test]
    fn what_nearly_all_sessions_set_is_common() {
        let mut seen = SettingsSeen::default();
        for session in 0..20 {
            for text in [
                "SET extra_float_digits = 3",
                "set session work_mem to '64MB'",
                "set time zone 'UTC'",
                "SET application_name = 'x'",
                "set app.user = '1'",
                "set search_path = a, \"b\"",
            ] {
                seen.add(session, text, &tokens(text, Backslash::Plain));
            }
        }
        let text = "set jit = off";
        seen.add(1, text, &tokens(text, Backslash::Plain));
        let found: Vec<String> =
            seen.common(20).iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found, ["extra_float_digits=3", "search_path=a, b", "timezone=UTC", "work_mem=64MB"]);
    }
}
