//! `statements.jsonl` and `left-out.jsonl`: statements without values, with what the source spent on them.

use std::collections::BTreeMap;

use serde_json::json;

use crate::balance::{OmissionReason, TimeShare};
use crate::forms::{Forms, protocol_word};
use crate::role::FormFacts;
use crate::statement::lexer::{Backslash, TokenKind, tokens};
use crate::statement::{Form, StatementRole};

/// A statement of several forms: texts that differ in lists or in literals that stay.
#[derive(Default)]
struct Gathered {
    form: u32,
    share: TimeShare,
    by_protocol: [u64; 3],
    transactions: BTreeMap<String, f64>,
    reproduced: TimeShare,
    left_out: BTreeMap<OmissionReason, TimeShare>,
}

/// What is reproduced of each form, and the executions per transaction of each template.
#[derive(Default)]
pub(super) struct Reproduced {
    pub(super) shares: BTreeMap<u32, TimeShare>,
    pub(super) per_transaction: BTreeMap<u32, BTreeMap<String, f64>>,
}

/// Both files.
pub(super) fn files(
    forms: &Forms,
    reproduced: &Reproduced,
    facts: &BTreeMap<u32, FormFacts>,
) -> (String, String) {
    let mut all: BTreeMap<u64, Gathered> = BTreeMap::new();
    for (number, known) in (0u32..).zip(&forms.all) {
        if known.share.calls == 0 {
            continue;
        }
        let gathered = all.entry(known.form.identity).or_default();
        if known.share.calls > gathered.share.calls || gathered.share.calls == 0 {
            gathered.form = number;
        }
        gathered.share.add(known.share);
        gathered.by_protocol.iter_mut().zip(known.by_protocol).for_each(|(sum, n)| *sum += n);
        if let Some(share) = reproduced.shares.get(&number) {
            gathered.reproduced.add(*share);
        }
        for (name, n) in reproduced.per_transaction.get(&number).into_iter().flatten() {
            *gathered.transactions.entry(name.clone()).or_default() += n;
        }
    }
    for ((reason, number), share) in &forms.left_out {
        if let Some(gathered) = all.get_mut(&forms.form(*number).identity) {
            gathered.left_out.entry(*reason).or_default().add(*share);
        }
    }
    let (mut statements, mut left_out) = (String::new(), String::new());
    for (identity, one) in &all {
        let form = forms.form(one.form);
        let text = shown(forms, one.form);
        let kind = match form.role {
            StatementRole::Work(kind) => kind.word(),
            _ => "other",
        };
        let protocol = protocol_word(one.by_protocol);
        let reason =
            one.left_out.iter().max_by_key(|(_, share)| share.calls).map(|(reason, _)| reason.word());
        let is_reproduced = one.reproduced.calls > 0;
        let columns: Vec<String> = facts
            .get(&one.form)
            .into_iter()
            .flat_map(|facts| &facts.slots)
            .filter_map(|slot| slot.column.as_ref())
            .map(|column| format!("{}.{}", column.table, column.column))
            .collect();
        let line = json!({
            "id": format!("{identity:016x}"), "text": text, "kind": kind, "columns": columns, "protocol": protocol,
            "calls": one.share.calls, "time_us": one.share.time_us, "rows": null, "transactions": one.transactions,
            "reproduced": is_reproduced, "reason": if is_reproduced { None } else { reason },
        });
        statements.push_str(&format!("{line}\n"));
        for (reason, share) in &one.left_out {
            let line = json!({
                "reason": reason.word(), "id": format!("{identity:016x}"), "text": text, "calls": share.calls, "time_us": share.time_us,
            });
            left_out.push_str(&format!("{line}\n"));
        }
    }
    (statements, left_out)
}

/// The text of a form as it is shown: without values, and without secrets.
pub(super) fn shown(forms: &Forms, number: u32) -> String {
    let form = forms.form(number);
    if form.role == StatementRole::Refused(OmissionReason::Secret) {
        return "(a text that holds a secret)".to_string();
    }
    if form.role == StatementRole::Refused(OmissionReason::Rare) && form.pieces.is_empty() {
        return "(statements beyond the number that is kept)".to_string();
    }
    let text = form.numbered();
    let text = if form.role == StatementRole::Fixed { without_literals(&text) } else { text };
    model::secret::hide_text(&text).into_owned()
}

/// Whether a form that is replayed as it is has a literal that could be somebody's: bodies of `DO` are programs.
pub(super) fn has_literals(form: &Form) -> bool {
    let text = form.numbered();
    let is_program = text.get(..2).is_some_and(|word| word.eq_ignore_ascii_case("do"));
    form.role == StatementRole::Fixed
        && !is_program
        && tokens(&text, Backslash::Plain).iter().any(|token| token.kind == TokenKind::Text)
}

fn without_literals(text: &str) -> String {
    let (mut out, mut end) = (String::new(), 0);
    for token in tokens(text, Backslash::Plain).iter().filter(|token| token.kind == TokenKind::Text) {
        out.push_str(&text[end..token.start]);
        out.push_str("'?'");
        end = token.end;
    }
    out.push_str(&text[end..]);
    out
}
