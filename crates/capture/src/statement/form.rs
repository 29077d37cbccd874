//! A statement without its values: the text that a script has, and where its values come from.

use std::collections::HashMap;

use crate::balance::OmissionReason;
use crate::statement::identity::{Fnv, identity_of};
use crate::statement::kind::StatementRole;
use crate::statement::lexer::{Backslash, LexedToken, TokenKind};
use crate::statement::lists::{InList, list};
use crate::statement::literal::{quote_without_colons, text_value};
use crate::statement::places::{PlaceHint, SlotPlaces, SlotUse};
use crate::value::logged::LoggedValue;

/// Most values of a statement: pgbench's scripts take no more under the extended protocol.
pub const VALUES_MAX: usize = 255;

/// A value of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotValue {
    /// NULL.
    Null,
    /// A text.
    Text(Box<str>),
    /// The beginning of one.
    Truncated(Box<str>),
    /// The elements of a long list.
    List(Box<[Option<Box<str>>]>),
}

impl SlotValue {
    /// The value if it is a whole text.
    pub fn text(&self) -> Option<&str> {
        match self {
            SlotValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Bytes that it has in memory, about.
    pub(crate) fn n_bytes(&self) -> usize {
        let text = match self {
            SlotValue::Null => 0,
            SlotValue::Text(text) | SlotValue::Truncated(text) => text.len(),
            SlotValue::List(all) => all.iter().flatten().map(|one| one.len() + 16).sum(),
        };
        text + size_of::<SlotValue>()
    }
}

/// A part of a statement's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormPiece {
    /// Text as it is.
    Text(String),
    /// A value, by the number of its slot.
    Slot(u16),
}

/// Where a value stood in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A literal in quotes.
    Text,
    /// A number in the text.
    Number,
    /// A parameter.
    Parameter,
    /// A long list, which becomes an array.
    Array,
}

/// A place for a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormSlot {
    /// Where it stood.
    pub origin: Origin,
    /// The surroundings.
    pub hint: PlaceHint,
}

/// A statement without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Identity of the statement, which pg_stat_statements' texts have too.
    pub identity: u64,
    /// The kind.
    pub role: StatementRole,
    /// Text.
    pub pieces: Vec<FormPiece>,
    /// Values.
    pub slots: Vec<FormSlot>,
}

impl Form {
    /// The text with `$1` and the following ones.
    pub fn numbered(&self) -> String {
        self.pieces.iter().fold(String::new(), |text, piece| match piece {
            FormPiece::Text(plain) => text + plain,
            FormPiece::Slot(n) => text + &format!("${}", n + 1),
        })
    }

    /// Whether it has parameters: what stands in its text as a literal, the program wrote.
    pub fn has_parameters(&self) -> bool {
        self.slots.iter().any(|slot| slot.origin == Origin::Parameter)
    }

    /// What distinguishes this form from others.
    pub(crate) fn key(&self) -> u64 {
        let mut hash = Fnv::new();
        for piece in &self.pieces {
            match piece {
                FormPiece::Text(text) => hash.add(text.as_bytes()),
                FormPiece::Slot(n) => {
                    let origin = self.slots[usize::from(*n)].origin as u8;
                    hash.add(&[0, origin]);
                    hash.add(&n.to_le_bytes());
                }
            }
        }
        hash.0
    }
}

/// A statement taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Without its values.
    pub form: Form,
    /// The values, one for each slot.
    pub values: Vec<SlotValue>,
    /// Whether it has parameters whose values are not known.
    pub lacks_parameters: bool,
}

/// Takes a statement apart; `parameters` are those of its `$1` and the following ones.
pub fn take(
    text: &str,
    tokens: &[LexedToken],
    role: StatementRole,
    parameters: &[LoggedValue],
    backslash: Backslash,
) -> Taken {
    let end = tokens.iter().rposition(|token| token.kind != TokenKind::Semicolon).map_or(0, |last| last + 1);
    let tokens = &tokens[..end];
    // Outside of quotes, SQL has none, and a script would take what follows for a command.
    let has_backslash =
        |token: &LexedToken| token.kind == TokenKind::Operator && token.text(text).contains('\\');
    let role = if tokens.iter().any(has_backslash) {
        StatementRole::Refused(OmissionReason::NoStatement)
    } else {
        role
    };
    // Of what is not replayed, no literal is kept.
    let has_slots = !matches!(role, StatementRole::Fixed | StatementRole::Begin | StatementRole::End { .. });
    let keeps_literals = matches!(role, StatementRole::Work(_));
    let mut taker = Taker {
        text,
        tokens,
        places: SlotPlaces::new(text, tokens),
        parameters,
        is_escaped: backslash == Backslash::Escape,
        keeps_literals,
        pieces: Vec::new(),
        slots: Vec::new(),
        values: Vec::new(),
        by_number: HashMap::new(),
        lacks_parameters: false,
    };
    if role == StatementRole::Fixed && taker.set_local() {
        let form =
            Form { identity: identity_of(text, tokens), role, pieces: taker.pieces, slots: taker.slots };
        return Taken { form, values: taker.values, lacks_parameters: false };
    }
    let mut at = 0;
    let mut end_before = tokens.first().map_or(0, |token| token.start);
    while at < tokens.len() {
        taker.gap(end_before, tokens[at].start);
        at = if has_slots { taker.token(at) } else { taker.plain(at) };
        end_before = tokens[at - 1].end;
    }
    let form = Form { identity: identity_of(text, tokens), role, pieces: taker.pieces, slots: taker.slots };
    Taken { form, values: taker.values, lacks_parameters: taker.lacks_parameters }
}

struct Taker<'a> {
    text: &'a str,
    tokens: &'a [LexedToken],
    places: SlotPlaces<'a>,
    parameters: &'a [LoggedValue],
    is_escaped: bool,
    /// Whether literals stay where no value may stand.
    keeps_literals: bool,
    pieces: Vec<FormPiece>,
    slots: Vec<FormSlot>,
    values: Vec<SlotValue>,
    /// The slot of each parameter, by its number.
    by_number: HashMap<u16, u16>,
    lacks_parameters: bool,
}

fn is_name_byte(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Taker<'_> {
    fn push(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(FormPiece::Text(last)) => last.push_str(text),
            // `a = 'x'and b`: what follows must not become part of a variable's name.
            Some(FormPiece::Slot(_)) if text.starts_with(is_name_byte) => {
                self.pieces.push(FormPiece::Text(format!(" {text}")));
            }
            _ => self.pieces.push(FormPiece::Text(text.to_string())),
        }
    }

    /// `SET LOCAL name = 'value'` as a call of `set_config`, which takes the value as a parameter: applications tell policies by it who
    /// the user is. Returns whether it is such a statement.
    fn set_local(&mut self) -> bool {
        let word = |at: usize| self.tokens.get(at).map_or("", |token| token.text(self.text));
        let is = |at: usize, expected: &str| word(at).eq_ignore_ascii_case(expected);
        if !is(0, "set") || !is(1, "local") {
            return false;
        }
        let mut name = word(2).to_lowercase();
        let mut at = 3;
        while word(at) == "." {
            name = format!("{name}.{}", word(at + 1).to_lowercase());
            at += 2;
        }
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
        let is_last = self.tokens.len() == at + 2;
        if !is_plain || !is_last || !(is(at, "=") || is(at, "to")) {
            return false;
        }
        let Some(token) = self.tokens.get(at + 1) else { return false };
        let value = match token.kind {
            TokenKind::Text => text_value(word(at + 1), self.is_escaped),
            TokenKind::Number => Some(word(at + 1).to_string()),
            _ => None,
        };
        let Some(value) = value else { return false };
        self.push(&format!("select set_config('{name}', "));
        let column = name.rsplit('.').next().map(str::to_string);
        self.add(Origin::Text, PlaceHint { usage: SlotUse::Other, column }, SlotValue::Text(value.into()));
        self.push(", true)");
        true
    }

    /// What stands between two tokens: blanks as they are, comments as a blank, hints of pg_hint_plan as they are.
    fn gap(&mut self, from: usize, to: usize) {
        let between = &self.text[from..to];
        if between.is_empty() {
            return;
        }
        if between.bytes().all(|byte| byte.is_ascii_whitespace()) || between.trim_start().starts_with("/*+") {
            self.push(between);
        } else if between.contains('\n') {
            self.push("\n");
        } else {
            self.push(" ");
        }
    }

    /// Takes a token as it is. A name after a colon would be a variable of a script.
    fn plain(&mut self, at: usize) -> usize {
        let token = &self.tokens[at];
        let word = token.text(self.text);
        let ends_in_colon = matches!(self.pieces.last(), Some(FormPiece::Text(text)) if text.ends_with(':'));
        if ends_in_colon && token.kind != TokenKind::Operator {
            let is_cast = at > 0 && self.tokens[at - 1].kind == TokenKind::Operator;
            self.push(if is_cast { "" } else { " " });
        }
        match token.kind {
            TokenKind::Parameter(_) => self.lacks_parameters = true,
            // Where values cannot stand, a literal with a colon would be read as one with a variable.
            TokenKind::Text if word.contains(':') && !word.starts_with(['u', 'U']) => {
                if let Some(value) = text_value(word, self.is_escaped) {
                    self.push(&quote_without_colons(&value));
                    return at + 1;
                }
            }
            _ => {}
        }
        self.push(word);
        at + 1
    }

    /// Takes what begins at a token, and returns the token after it.
    fn token(&mut self, at: usize) -> usize {
        if let Some(list) = list(self.text, self.tokens, at) {
            return self.list(list);
        }
        self.single(at, at).unwrap_or_else(|| self.plain(at))
    }

    /// Takes a single value.
    fn single(&mut self, at: usize, up_to: usize) -> Option<usize> {
        let token = self.tokens[at];
        let (origin, value) = self.value(&token)?;
        if self.keeps_literals && origin != Origin::Parameter && self.places.is_fixed(at) {
            return None;
        }
        let number = if let TokenKind::Parameter(number) = token.kind { Some(number) } else { None };
        if let Some(slot) = number.and_then(|number| self.by_number.get(&number)).copied() {
            self.slot(slot);
            return Some(at + 1);
        }
        let hint = self.places.hint(at, up_to);
        let slot = self.add(origin, hint, value);
        self.by_number.extend(number.map(|number| (number, slot)));
        Some(at + 1)
    }

    fn value(&mut self, token: &LexedToken) -> Option<(Origin, SlotValue)> {
        let word = token.text(self.text);
        match token.kind {
            TokenKind::Text => {
                let value = text_value(word, self.is_escaped)?;
                Some((Origin::Text, SlotValue::Text(value.into())))
            }
            TokenKind::Number => Some((Origin::Number, SlotValue::Text(word.into()))),
            TokenKind::Parameter(number) => {
                let found = usize::from(number).checked_sub(1).and_then(|at| self.parameters.get(at));
                self.lacks_parameters |= found.is_none();
                let value = match found {
                    None | Some(LoggedValue::Null) => SlotValue::Null,
                    Some(LoggedValue::Text(text)) => SlotValue::Text(text.as_str().into()),
                    Some(LoggedValue::Truncated(text)) => SlotValue::Truncated(text.as_str().into()),
                };
                Some((Origin::Parameter, value))
            }
            _ => None,
        }
    }

    fn add(&mut self, origin: Origin, hint: PlaceHint, value: SlotValue) -> u16 {
        let slot = u16::try_from(self.slots.len()).unwrap_or(u16::MAX);
        self.slots.push(FormSlot { origin, hint });
        self.values.push(value);
        self.slot(slot);
        slot
    }

    /// Puts a slot into the text: never directly after a letter, where a variable would be a part of a name, nor after a colon.
    fn slot(&mut self, slot: u16) {
        let is_glued = matches!(self.pieces.last(), Some(FormPiece::Text(text))
            if text.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | ':' | '-')));
        if is_glued || matches!(self.pieces.last(), Some(FormPiece::Slot(_))) {
            self.push(" ");
        }
        self.pieces.push(FormPiece::Slot(slot));
    }

    fn list(&mut self, list: InList) -> usize {
        let column = self.places.name_before(if list.is_not { list.word - 1 } else { list.word });
        let hint = PlaceHint { usage: if list.is_not { SlotUse::Other } else { SlotUse::Equality }, column };
        let elements: Vec<(Origin, SlotValue)> = (list.open + 1..list.close)
            .step_by(2)
            .filter_map(|at| {
                let token = self.tokens[at];
                self.value(&token)
            })
            .collect();
        if elements.len() != list.len() {
            // A literal that makes no text stays, and so does its list.
            return self.plain(list.word);
        }
        if list.is_array() {
            if list.is_not
                && let Some(FormPiece::Text(text)) = self.pieces.last_mut()
            {
                let kept = text.trim_end().len().saturating_sub("not".len());
                text.truncate(kept);
            }
            self.push(if list.is_not { "<> all (" } else { "= any (" });
            let one = |(_, value): (Origin, SlotValue)| match value {
                SlotValue::Text(text) | SlotValue::Truncated(text) => Some(text),
                SlotValue::Null | SlotValue::List(_) => None,
            };
            let values = SlotValue::List(elements.into_iter().map(one).collect());
            self.add(Origin::Array, hint, values);
        } else {
            self.push(&self.text[self.tokens[list.word].start..self.tokens[list.open].end]);
            let padding = elements.last().cloned();
            let n = list.padded() - elements.len();
            let all = elements.into_iter().chain(padding.into_iter().cycle().take(n));
            for (at, (origin, value)) in all.enumerate() {
                if at > 0 {
                    self.push(", ");
                }
                self.add(origin, hint.clone(), value);
            }
        }
        self.push(")");
        list.close + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::kind::role;
    use crate::statement::lexer::tokens;

    fn taken(text: &str, parameters: &[LoggedValue]) -> Taken {
        let tokens = tokens(text, Backslash::Plain);
        take(text, &tokens, role(text, &tokens), parameters, Backslash::Plain)
    }

    fn texts(values: &[SlotValue]) -> Vec<&str> {
        values.iter().map(|value| value.text().unwrap_or("-")).collect()
    }

    fn check(text: &str, expected: &str, values: &[&str]) {
        let taken = taken(text, &[]);
        assert_eq!(taken.form.numbered(), expected, "{text}");
        assert_eq!(texts(&taken.values), values, "{text}");
    }

    #[test]
    fn literals_become_slots_where_values_may_stand() {
        check(
            "SELECT * FROM t WHERE id=5 AND a = 'it''s';",
            "SELECT * FROM t WHERE id=$1 AND a = $2",
            &["5", "it's"],
        );
        check("update t set a = a + -5 where b=-1", "update t set a = a + $1 where b=$2", &["-5", "-1"]);
        check("select 1 -- x\n, /* y */ 2", "select $1\n, $2", &["1", "2"]);
        check("select * from t limit 10 offset 20", "select * from t limit $1 offset $2", &["10", "20"]);
        check("select 'a'::date, x[1:n]", "select $1::date, x[$2: n]", &["a", "1"]);
        check("/*+ IndexScan(t) */ select 1", "select $1", &["1"]);
        check("select /*+ IndexScan(t) */ 1", "select /*+ IndexScan(t) */ $1", &["1"]);
    }

    #[test]
    fn literals_stay_where_they_must() {
        for text in [
            "select interval '1 day', date '2024-01-01'",
            "select a::numeric(10, 2), cast(b as varchar(20))",
            "select a, b from t order by 1, 2 desc",
            "select a from t group by 1 having true",
            "select timestamp with time zone '2024-01-01', B'01'",
            "fetch 10 from c",
            "select U&'\\0061'",
        ] {
            check(text, text, &[]);
        }
        check("notes 'a:b'", "notes $1", &["a:b"]);
        check("lock table x in mode 'a:b'", "lock table x in mode E'a\\x3ab'", &[]);
        check("SET LOCAL app.user = 'a:b'", "select set_config('app.user', $1, true)", &["a:b"]);
        check("set local work_mem to '64MB'", "select set_config('work_mem', $1, true)", &["64MB"]);
        check("set local enable_seqscan = off", "set local enable_seqscan = off", &[]);
    }

    #[test]
    fn a_parameter_used_twice_is_one_slot() {
        let found = taken("select $2, $1, $2", &[LoggedValue::Text("a".into()), LoggedValue::Null]);
        assert_eq!(found.form.numbered(), "select $1, $2, $1");
        assert_eq!(found.values, [SlotValue::Null, SlotValue::Text("a".into())]);
        assert!(!found.lacks_parameters);
        assert!(taken("select $1", &[]).lacks_parameters);
    }

    #[test]
    fn lists_have_lengths_of_powers_of_two_or_are_arrays() {
        check(
            "select 1 from t where id in (1,2,3)",
            "select $1 from t where id in ($2, $3, $4, $5)",
            &["1", "1", "2", "3", "3"],
        );
        let many: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let found = taken(&format!("delete from t where id not in ({})", many.join(", ")), &[]);
        assert_eq!(found.form.numbered(), "delete from t where id <> all ($1)");
        assert!(matches!(&found.values[..], [SlotValue::List(all)] if all.len() == 40));
        check("select a from t where a in (select 1)", "select a from t where a in (select $1)", &["1"]);
    }

    #[test]
    fn neighbours_say_what_a_value_is_for() {
        let hints = |text: &str| -> Vec<(SlotUse, Option<String>)> {
            let found = taken(text, &[]);
            found.form.slots.into_iter().map(|slot| (slot.hint.usage, slot.hint.column)).collect()
        };
        let column = |name: &str| Some(name.to_string());
        assert_eq!(
            hints("select a from t where t.id = 5 and 3 < b"),
            [(SlotUse::Equality, column("id")), (SlotUse::Range, column("b")),]
        );
        assert_eq!(
            hints("insert into t (a, b) values (1, 'x'), (2, f('y'))"),
            [
                (SlotUse::Inserted, column("a")),
                (SlotUse::Inserted, column("b")),
                (SlotUse::Inserted, column("a")),
                (SlotUse::Other, None),
            ]
        );
        assert_eq!(
            hints("update t set a = 1, b = b + 2 where c = 3"),
            [
                (SlotUse::Assigned, column("a")),
                (SlotUse::Assigned, column("b")),
                (SlotUse::Equality, column("c")),
            ]
        );
        assert_eq!(
            hints("select * from t where d between 1 and 2 and e = any('{1}') limit 3"),
            [
                (SlotUse::Range, column("d")),
                (SlotUse::Range, column("d")),
                (SlotUse::Equality, column("e")),
                (SlotUse::Limit, column("limit")),
            ]
        );
    }

    #[test]
    fn any_text_is_taken_apart() {
        let pieces = [
            "in",
            "(",
            ")",
            ",",
            "1",
            "'a'",
            "not",
            "select",
            "insert into t (",
            "values",
            "$1",
            ":",
            "::",
            "by",
            "order",
            "-",
            "x",
            "--",
            "\n",
            "'",
        ];
        let mut state = 1u64;
        for _ in 0..4000 {
            let text: Vec<&str> = (0..14)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    pieces[(state >> 33) as usize % pieces.len()]
                })
                .collect();
            let found = taken(&format!("select {}", text.join(" ")), &[]);
            assert_eq!(found.form.slots.len(), found.values.len());
        }
    }
}
