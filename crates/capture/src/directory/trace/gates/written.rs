//! The rows that a statement writes, as far as its text and a server tell: its table, and the values that are a key there.

use crate::role::{FormFacts, met};
use crate::statement::identity::Fnv;
use crate::statement::lexer::{Backslash, LexedToken, TokenKind, tokens};
use crate::statement::places::SlotUse;
use crate::statement::{Form, Kind, SlotValue, StatementRole};

/// The schema that names without one are most likely in.
const DEFAULT_SCHEMA: &str = "public";

/// What a statement does to the rows that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Adds one: it waits only for those who removed it before.
    Adds,
    /// Changes or locks them.
    Changes,
    /// Removes them.
    Removes,
}

/// The rows that a statement writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) write: Write,
    /// The name with the schema.
    table: String,
    /// Columns with the slots of their values, in the order of their names; each list is a key.
    keys: Vec<Vec<(String, usize)>>,
}

/// A value of a column that may be a part of a key.
struct Part {
    column: String,
    slot: usize,
    /// Whether the column alone is unique; `None` if nobody was asked.
    is_unique: Option<bool>,
}

impl Written {
    /// `None` if a form writes nothing, or nothing that it names.
    pub(super) fn from_form(form: &Form, facts: Option<&FormFacts>) -> Option<Written> {
        let text = form.numbered();
        let words = Words { text: &text, tokens: tokens(&text, Backslash::Plain) };
        let (write, before_table) = words.write(form.role)?;
        let table = words.table(before_table)?;
        let is_insert = form.role == StatementRole::Work(Kind::Insert);
        let wanted = if is_insert { SlotUse::Inserted } else { SlotUse::Equality };
        let parts = parts(form, facts, wanted);
        let keys = if is_insert { added(&parts, &words) } else { compared(&parts) };
        Some(Written { write, table, keys })
    }

    /// Hashes of the keys of an execution.
    pub(super) fn keys(&self, values: &[SlotValue]) -> Vec<u64> {
        self.keys.iter().flat_map(|key| self.hashes(key, values)).collect()
    }

    fn hashes(&self, key: &[(String, usize)], values: &[SlotValue]) -> Vec<u64> {
        if let [(column, slot)] = key
            && let Some(SlotValue::List(all)) = values.get(*slot)
        {
            return all.iter().flatten().map(|text| self.hash(&[(column.as_str(), &**text)])).collect();
        }
        // A value that is not known, or NULL, is no key.
        let parts: Option<Vec<(&str, &str)>> =
            key.iter().map(|(column, slot)| Some((column.as_str(), values.get(*slot)?.text()?))).collect();
        parts.map(|parts| self.hash(&parts)).into_iter().collect()
    }

    fn hash(&self, parts: &[(&str, &str)]) -> u64 {
        let mut hash = Fnv::new();
        hash.add(self.table.as_bytes());
        for (column, text) in parts {
            hash.add(&[0]);
            hash.add(column.as_bytes());
            hash.add(&[1]);
            hash.add(text.as_bytes());
        }
        hash.0
    }
}

/// The values that go into columns, or that columns are compared with.
fn parts(form: &Form, facts: Option<&FormFacts>, wanted: SlotUse) -> Vec<Part> {
    let part = |(at, slot)| {
        let facts = facts.and_then(|facts| facts.slots.get(at));
        let (usage, column) = met(slot, facts);
        let known = facts.and_then(|facts| facts.column.as_ref());
        let is_unique = known.map(|known| known.is_unique);
        (usage == wanted).then_some(Part { column: column?.to_string(), slot: at, is_unique })
    };
    form.slots.iter().enumerate().filter_map(part).collect()
}

/// The keys of new rows: unique columns, each by itself, and what a conflict is looked for by. Where no server was asked, each column of an
/// INSERT may be unique; but one that changes the row that it meets meets it by what it names.
fn added(parts: &[Part], words: &Words<'_>) -> Vec<Vec<(String, usize)>> {
    let conflict = words.conflict();
    let is_key = |part: &&Part| part.is_unique.unwrap_or(conflict.is_none());
    let mut keys: Vec<Vec<(String, usize)>> =
        parts.iter().filter(is_key).map(|part| vec![(part.column.clone(), part.slot)]).collect();
    for key in rows(parts, conflict.as_deref().unwrap_or_default()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// The values of these columns in each of the new rows; nothing if one of them has none, or another number than the others.
fn rows(parts: &[Part], columns: &[String]) -> Vec<Vec<(String, usize)>> {
    let slots = |column: &String| -> Vec<usize> {
        parts.iter().filter(|part| part.column == *column).map(|part| part.slot).collect()
    };
    let all: Vec<(&String, Vec<usize>)> = columns.iter().map(|column| (column, slots(column))).collect();
    let n = all.first().map_or(0, |(_, slots)| slots.len());
    if all.iter().any(|(_, slots)| slots.len() != n) {
        return Vec::new();
    }
    (0..n).map(|row| all.iter().map(|(column, slots)| ((*column).clone(), slots[row])).collect()).collect()
}

/// The key that rows are found by: each value of a unique column, or else all columns that are compared together, each with one value.
fn compared(parts: &[Part]) -> Vec<Vec<(String, usize)>> {
    let one = |part: &Part| (part.column.clone(), part.slot);
    let unique = parts.iter().find(|part| part.is_unique == Some(true)).map(|part| &part.column);
    if let Some(column) = unique {
        return parts.iter().filter(|part| part.column == *column).map(|part| vec![one(part)]).collect();
    }
    let mut all: Vec<(String, usize)> = parts.iter().map(one).collect();
    all.sort_unstable();
    // `in (1, 2)` is no row.
    let has_several = all.windows(2).any(|pair| pair[0].0 == pair[1].0);
    if all.is_empty() || has_several { Vec::new() } else { vec![all] }
}

/// The tokens of a statement.
struct Words<'a> {
    text: &'a str,
    tokens: Vec<LexedToken>,
}

impl Words<'_> {
    fn is(&self, at: usize, word: &str) -> bool {
        let token = self.tokens.get(at);
        token.is_some_and(|token| {
            token.kind == TokenKind::Word && token.text(self.text).eq_ignore_ascii_case(word)
        })
    }

    fn is_mark(&self, at: usize, mark: u8) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == TokenKind::Mark(mark))
    }

    /// Where these words follow each other.
    fn find(&self, words: &[&str]) -> Option<usize> {
        (0..self.tokens.len()).find(|at| words.iter().enumerate().all(|(n, word)| self.is(at + n, word)))
    }

    /// What it does, and the words before its table.
    fn write(&self, role: StatementRole) -> Option<(Write, &'static [&'static str])> {
        let locks = || {
            self.find(&["for", "update"]).is_some() || self.find(&["for", "no", "key", "update"]).is_some()
        };
        match role {
            StatementRole::Work(Kind::Insert) if self.find(&["on", "conflict"]).is_some() => {
                Some((Write::Changes, &["insert", "into"]))
            }
            StatementRole::Work(Kind::Insert) => Some((Write::Adds, &["insert", "into"])),
            StatementRole::Work(Kind::Update) => Some((Write::Changes, &["update"])),
            StatementRole::Work(Kind::Delete) => Some((Write::Removes, &["delete", "from"])),
            StatementRole::Work(Kind::Select) if locks() => Some((Write::Changes, &["from"])),
            _ => None,
        }
    }

    /// The name after these words, with its schema unless that is the default one. Outside of parentheses they are those of the statement,
    /// and inside those of a part of it.
    fn table(&self, words: &[&str]) -> Option<String> {
        let (mut depth, mut inside, mut outside) = (0usize, None, None);
        for (at, token) in self.tokens.iter().enumerate() {
            match token.kind {
                TokenKind::Mark(b'(') => depth += 1,
                TokenKind::Mark(b')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            let is_lock = at > 0 && ["for", "key", "do"].iter().any(|word| self.is(at - 1, word));
            if is_lock || !words.iter().enumerate().all(|(n, word)| self.is(at + n, word)) {
                continue;
            }
            let first = if depth == 0 { &mut outside } else { &mut inside };
            first.get_or_insert(at + words.len() - 1);
        }
        let before = outside.or(inside)?;
        let mut at = before + 1 + usize::from(self.is(before + 1, "only"));
        let mut parts = vec![self.name(at)?];
        while self.is_mark(at + 1, b'.') {
            at += 2;
            parts.push(self.name(at)?);
        }
        if parts.len() > 1 && parts[parts.len() - 2] == DEFAULT_SCHEMA {
            parts.drain(..parts.len() - 1);
        }
        Some(parts.join("\0"))
    }

    /// A name, in small letters unless it is in quotes.
    fn name(&self, at: usize) -> Option<String> {
        let token = self.tokens.get(at)?;
        let text = token.text(self.text);
        match token.kind {
            TokenKind::Word => Some(text.to_lowercase()),
            TokenKind::QuotedName => {
                let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                Some(inner.map_or_else(|| text.to_string(), |inner| inner.replace("\"\"", "\"")))
            }
            _ => None,
        }
    }

    /// The columns of `on conflict (a, b)` in the order of their names; none if it is another kind of target. `None` without the words.
    fn conflict(&self) -> Option<Vec<String>> {
        let mut at = self.find(&["on", "conflict"])? + 2;
        let mut columns = Vec::new();
        if self.is_mark(at, b'(') {
            loop {
                let Some(column) = self.name(at + 1) else { return Some(Vec::new()) };
                columns.push(column);
                at += 2;
                if self.is_mark(at, b')') {
                    break;
                }
                if !self.is_mark(at, b',') {
                    return Some(Vec::new());
                }
            }
        }
        columns.sort_unstable();
        Some(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::{SlotColumn, SlotFacts};
    use crate::statement::form::take;
    use crate::statement::kind::role;

    fn form(text: &str) -> Form {
        let tokens = tokens(text, Backslash::Plain);
        take(text, &tokens, role(text, &tokens), &[], Backslash::Plain).form
    }

    /// What a server says: these columns are unique, the others are not.
    fn facts(form: &Form, unique: &[&str]) -> FormFacts {
        let slot = |slot: &crate::statement::form::FormSlot| SlotFacts {
            type_name: "integer".to_string(),
            column: slot.hint.column.as_ref().map(|column| SlotColumn {
                table: "t".to_string(),
                column: column.clone(),
                usage: slot.hint.usage,
                is_unique: unique.contains(&column.as_str()),
                is_indexed: false,
                has_default: false,
                least: None,
                most: None,
            }),
        };
        FormFacts { slots: form.slots.iter().map(slot).collect() }
    }

    /// The keys of a statement as `a+b c`; `unique` columns are those that a server names, if it was asked.
    fn keys(text: &str, unique: Option<&[&str]>) -> String {
        let form = form(text);
        let facts = unique.map(|unique| facts(&form, unique));
        let written = Written::from_form(&form, facts.as_ref()).unwrap();
        let key = |key: &Vec<(String, usize)>| {
            key.iter().map(|(column, slot)| format!("{column}{slot}")).collect::<Vec<_>>().join("+")
        };
        written.keys.iter().map(key).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_key_is_what_is_unique_and_not_whatever_a_new_row_has() {
        let insert = "insert into t (id, a) values ($1, $2), ($3, $4)";
        assert_eq!(keys(insert, Some(&["id"])), "id0 id2");
        assert_eq!(keys(insert, Some(&[])), "");
        assert_eq!(keys(insert, None), "id0 a1 id2 a3", "any of them may be");
        let upsert =
            "insert into t (b, a, n) values ($1, $2, 1) on conflict (b, a) do update set n = t.n + 1";
        assert_eq!(keys(upsert, None), "a1+b0");
        assert_eq!(keys(upsert, Some(&[])), "a1+b0");
        let nothing = "insert into t (id, n) values ($1, 1) on conflict do nothing";
        assert_eq!(keys(nothing, None), "");
        assert_eq!(keys(nothing, Some(&["id"])), "id0");
        assert_eq!(keys("insert into t (id) values ($1) on conflict (id) do nothing", Some(&["id"])), "id0");
        assert_eq!(keys("insert into t (id) values ($1) on conflict (lower(id)) do nothing", None), "");
    }

    #[test]
    fn rows_are_found_by_a_unique_column_or_by_all_that_are_compared() {
        let update = "update t set n = $1 where b = $2 and a = $3";
        assert_eq!(keys(update, None), "a2+b1");
        assert_eq!(keys(update, Some(&[])), "a2+b1");
        assert_eq!(keys(update, Some(&["b"])), "b1");
        let several = "delete from t where id in ($1, $2)";
        assert_eq!(keys(several, None), "");
        assert_eq!(keys(several, Some(&["id"])), "id0 id1");
        let written = Written::from_form(&form("delete from t where id = $1"), None).unwrap();
        let text = |text: &str| SlotValue::Text(text.into());
        let list = SlotValue::List(vec![Some("7".into()), None, Some("8".into())].into());
        assert_eq!(written.keys(&[list]), [text("7"), text("8")].map(|one| written.keys(&[one])[0]));
        assert!(written.keys(&[SlotValue::Null]).is_empty());
    }

    #[test]
    fn tables_of_two_schemas_are_two_tables() {
        let table = |text: &str| Written::from_form(&form(text), None).unwrap().table;
        assert_eq!(table("update only T set a = 1"), "t");
        assert_eq!(table("insert into public.t values (1)"), "t");
        assert_eq!(table("insert into app.t values (1)"), "app\0t");
        assert_eq!(table("delete from \"App\".\"my t, (x)\" where id = 1"), "App\0my t, (x)");
        assert_eq!(table("delete from \"a.t\" where id = 1"), "a.t");
        assert_eq!(table("select extract(day from x) from u where id = 1 for update"), "u");
        assert_eq!(table("with d as (delete from old returning id) insert into new select id from d"), "new");
        assert_eq!(
            table("with d as (update old set a = 1 where id = 1 returning id) select id from d"),
            "old"
        );
        assert_eq!(table("with d as (select id from q for update) delete from q using d where id = 1"), "q");
        assert_eq!(Written::from_form(&form("select * from t where id = 1"), None), None);
    }
}
