//! What writes wait for: where two transactions wrote one key, the later one took effect after the earlier one had ended. The log shows it
//! for statements that name their row by equality; others have no gate.

use std::collections::{BTreeMap, HashMap};

use crate::forms::Forms;
use crate::role::FormFacts;
use crate::statement::identity::Fnv;
use crate::statement::places::SlotUse;
use crate::statement::{Form, Kind, StatementRole};
use crate::transaction::{CutStep, CutTransaction};

/// How long after a write its predecessor's end may be logged: a session is awake before the other has written its line.
const LATE_US: i64 = 5_000;

/// The last writer of a key.
#[derive(Clone, Copy)]
struct Writer {
    transaction: u32,
    is_delete: bool,
}

/// What a statement does to the rows that it names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// Adds one: it waits only for those who removed it before.
    Adds,
    /// Changes or locks them.
    Changes,
    /// Removes them.
    Removes,
}

/// The transactions that each statement of each transaction waits for.
pub(super) fn gates(
    transactions: &[CutTransaction],
    forms: &Forms,
    facts: &BTreeMap<u32, FormFacts>,
) -> Vec<Vec<Vec<u32>>> {
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (number, one) in transactions.iter().enumerate() {
        order.extend(one.steps.iter().enumerate().map(|(at, step)| (step.number, number, at)));
    }
    order.sort_unstable();
    let ends = |number: usize| transactions[number].steps.last().map_or(0, |step| step.number);
    let mut writers: HashMap<u64, Writer> = HashMap::new();
    let mut found: Vec<Vec<Vec<u32>>> =
        transactions.iter().map(|one| vec![Vec::new(); one.steps.len()]).collect();
    for (_, number, at) in order {
        let step = &transactions[number].steps[at];
        let form = forms.form(step.form);
        let Some(write) = write(form) else { continue };
        for key in keys(step, form, facts.get(&step.form), write) {
            let before = writers
                .insert(key, Writer { transaction: number as u32, is_delete: write == Write::Removes });
            let Some(before) = before.filter(|one| write != Write::Adds || one.is_delete) else { continue };
            let other = before.transaction as usize;
            // A session keeps its own order.
            if transactions[other].session == transactions[number].session {
                continue;
            }
            // Who ended later was no writer of the same row, whatever the statement says.
            let had_ended = ends(other) < ends(number)
                && transactions[other].ended_us()
                    <= step.start_us.saturating_add_unsigned(step.time_us) + LATE_US;
            if had_ended && !found[number][at].contains(&before.transaction) {
                found[number][at].push(before.transaction);
            }
        }
    }
    found
}

fn write(form: &Form) -> Option<Write> {
    let has = |words: &str| form.numbered().to_ascii_lowercase().contains(words);
    match form.role {
        StatementRole::Work(Kind::Insert) if has("on conflict") => Some(Write::Changes),
        StatementRole::Work(Kind::Insert) => Some(Write::Adds),
        StatementRole::Work(Kind::Update) => Some(Write::Changes),
        StatementRole::Work(Kind::Delete) => Some(Write::Removes),
        StatementRole::Work(Kind::Select) if has("for update") || has("for no key update") => {
            Some(Write::Changes)
        }
        _ => None,
    }
}

/// Hashes of the keys that a statement names. A row that is added has each of its values as one; otherwise it is the unique column, or all
/// that are compared together.
fn keys(step: &CutStep, form: &Form, facts: Option<&FormFacts>, write: Write) -> Vec<u64> {
    let Some(table) = table(&form.numbered()) else { return Vec::new() };
    let is_insert = form.role == StatementRole::Work(Kind::Insert);
    let wanted = if is_insert { SlotUse::Inserted } else { SlotUse::Equality };
    let mut parts: Vec<(String, &str, bool)> = Vec::new();
    for (at, (slot, value)) in form.slots.iter().zip(&step.values).enumerate() {
        let known = facts.and_then(|facts| facts.slots.get(at)).and_then(|facts| facts.column.as_ref());
        let (usage, column) = match known {
            Some(known) => (known.usage, Some(&known.column)),
            None => (slot.hint.usage, slot.hint.column.as_ref()),
        };
        if let (true, Some(column), Some(text)) = (usage == wanted, column, value.text()) {
            let is_unique = known.is_some_and(|known| known.is_unique);
            parts.push((column.to_ascii_lowercase(), text, is_unique));
        }
    }
    let hash = |parts: &[(String, &str, bool)]| {
        let mut hash = Fnv::new();
        hash.add(table.as_bytes());
        for (column, text, _) in parts {
            hash.add(&[0]);
            hash.add(column.as_bytes());
            hash.add(&[1]);
            hash.add(text.as_bytes());
        }
        hash.0
    };
    if is_insert || write == Write::Adds {
        return parts.chunks(1).map(hash).collect();
    }
    parts.sort_unstable();
    match parts.iter().position(|(.., is_unique)| *is_unique) {
        Some(unique) => vec![hash(&parts[unique..=unique])],
        None if parts.is_empty() => Vec::new(),
        None => vec![hash(&parts)],
    }
}

/// The table that a statement names first after the word for it, without its schema.
fn table(text: &str) -> Option<String> {
    let mut words =
        text.split(|c: char| c.is_whitespace() || c == '(' || c == ',').filter(|word| !word.is_empty());
    let is_before = |word: &&str| ["update", "into", "from"].iter().any(|one| word.eq_ignore_ascii_case(one));
    words.find(is_before)?;
    let name = words.find(|word| !word.eq_ignore_ascii_case("only"))?;
    let name = name.rsplit('.').next().unwrap_or(name);
    Some(name.trim_matches('"').to_ascii_lowercase())
}
