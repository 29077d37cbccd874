//! Names of transactions: what their slowest statement does with which table.

use std::collections::BTreeSet;

use crate::forms::Forms;
use crate::statement::lexer::{Backslash, TokenKind, tokens};
use crate::statement::{Kind, StatementRole};
use crate::template::store::Template;

/// Longest name, without its number.
const NAME_MAX: usize = 40;

/// A name that none of these is.
pub(super) fn name(template: &Template, forms: &Forms, taken: &mut BTreeSet<String>) -> String {
    let mut shares: Vec<(u64, u64, u32)> = template
        .shares
        .iter()
        .filter(|(form, _)| matches!(forms.form(**form).role, StatementRole::Work(_)))
        .map(|(form, share)| (share.time_us, share.calls, *form))
        .collect();
    shares.sort_unstable_by(|a, b| b.cmp(a));
    // Work that changes rows says more about a transaction than what it reads.
    let changes =
        |form: &u32| !matches!(forms.form(*form).role, StatementRole::Work(Kind::Select | Kind::Other));
    let best = shares.iter().map(|(_, _, form)| *form).find(changes).or(shares.first().map(|one| one.2));
    let base = best.map_or_else(|| "other".to_string(), |form| described(forms, form));
    let mut name = base.clone();
    let mut n = 1;
    while !taken.insert(name.clone()) {
        n += 1;
        name = format!("{base}-{n}");
    }
    name
}

fn described(forms: &Forms, form: u32) -> String {
    let form = forms.form(form);
    let kind = match form.role {
        StatementRole::Work(kind) => kind.word(),
        _ => "other",
    };
    let text = form.numbered();
    let tokens = tokens(&text, Backslash::Plain);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text(&text));
    let is_table = |at: &usize| {
        let is_before =
            ["from", "into", "update"].iter().any(|before| word(*at - 1).eq_ignore_ascii_case(before));
        is_before && matches!(tokens[*at].kind, TokenKind::Word | TokenKind::QuotedName)
    };
    let table = (1..tokens.len()).find(is_table).map(|mut at| {
        while word(at + 1) == "." && at + 2 < tokens.len() {
            at += 2;
        }
        word(at).trim_matches('"').to_lowercase()
    });
    let table: String = table
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(NAME_MAX)
        .collect();
    let table = table.trim_matches('-');
    if table.is_empty() { kind.to_string() } else { format!("{kind}-{table}") }
}
