//! The statements of a trace: their texts, and the values of each execution. A literal that all executions have stays in the text; one that
//! differs is a value, and in a statement with parameters it becomes one of them.

use std::collections::{BTreeMap, HashMap};

use model::directory::trace::TraceForm;

use crate::directory::script::literal_text;
use crate::forms::{Forms, protocol_word};
use crate::privacy::{Mask, Place};
use crate::role::rules::{KEPT_BYTES_MAX, is_programs};
use crate::role::{FormFacts, met};
use crate::statement::literal::array_text;
use crate::statement::{FormPiece, Origin, SlotValue};
use crate::transaction::{CutStep, CutTransaction};

/// Makes the statements of a trace.
pub(super) struct Texts<'a> {
    forms: &'a Forms,
    facts: &'a BTreeMap<u32, FormFacts>,
    /// Whether all statements are sent with their values in their texts.
    is_simple: bool,
    /// What is known about literals, by form and slot.
    literals: BTreeMap<(u32, usize), Literal>,
    /// Forms as the trace has them.
    made: HashMap<u32, MadeForm>,
    /// Statements of the trace by what distinguishes them.
    numbers: HashMap<String, u32>,
    all: Vec<TraceForm>,
}

/// What all executions of a statement have in the place of a literal.
struct Literal {
    /// Executions.
    n: usize,
    /// The text if it is one and the same.
    only: Option<Box<str>>,
    /// The narrowest kind of all, if they are numbers.
    kind: Option<NumberKind>,
}

/// A form as the trace has it.
struct MadeForm {
    number: u32,
    /// The slots that have values there.
    slots: Box<[usize]>,
}

/// The narrowest kind of all numbers of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NumberKind {
    Integer,
    Bigint,
    Numeric,
    /// Such as `0x1f`, which is written with quotes.
    Odd,
}

impl NumberKind {
    fn from_text(text: &str) -> NumberKind {
        match text.parse::<i64>() {
            Ok(n) if i32::try_from(n).is_ok() => NumberKind::Integer,
            Ok(_) => NumberKind::Bigint,
            Err(_) if text.parse::<f64>().is_ok_and(f64::is_finite) => NumberKind::Numeric,
            Err(_) => NumberKind::Odd,
        }
    }

    fn cast(self) -> &'static str {
        match self {
            NumberKind::Integer => "::integer",
            NumberKind::Bigint => "::bigint",
            NumberKind::Numeric | NumberKind::Odd => "::numeric",
        }
    }
}

impl<'a> Texts<'a> {
    pub(super) fn new(
        transactions: &[CutTransaction],
        forms: &'a Forms,
        facts: &'a BTreeMap<u32, FormFacts>,
        is_simple: bool,
    ) -> Texts<'a> {
        Texts {
            forms,
            facts,
            is_simple,
            literals: literals(transactions, forms),
            made: HashMap::new(),
            numbers: HashMap::new(),
            all: Vec::new(),
        }
    }

    /// All statements so far.
    pub(super) fn into_all(self) -> Vec<TraceForm> {
        self.all
    }

    /// How many there are so far.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The number of a statement that the log lacks.
    pub(super) fn fixed(&mut self, text: &str) -> u32 {
        self.placed(TraceForm { text: text.to_string(), ..TraceForm::default() })
    }

    /// The number of an execution's statement, and its values.
    pub(super) fn statement(&mut self, step: &CutStep, mask: &mut Mask) -> (u32, Box<[Option<Box<str>>]>) {
        if !self.made.contains_key(&step.form) {
            let made = self.made(step.form, mask);
            self.made.insert(step.form, made);
        }
        let made = &self.made[&step.form];
        let values = made.slots.iter().map(|at| self.value(step.form, *at, &step.values[*at], mask));
        (made.number, values.collect())
    }

    fn made(&mut self, number: u32, mask: &mut Mask) -> MadeForm {
        let form = self.forms.form(number);
        let has_parameters = form.has_parameters();
        let kept: Vec<Option<String>> = (0..form.slots.len()).map(|at| self.kept(number, at, mask)).collect();
        let slots: Box<[usize]> = (0..kept.len()).filter(|at| kept[*at].is_none()).collect();
        let is_literal = self.is_simple || !has_parameters;
        let kind = |at: &usize| self.literals.get(&(number, *at)).and_then(|literal| literal.kind);
        let mut text = String::new();
        for piece in &form.pieces {
            match piece {
                FormPiece::Text(plain) => text.push_str(plain),
                FormPiece::Slot(slot) => match &kept[usize::from(*slot)] {
                    Some(literal) => text.push_str(literal),
                    None => {
                        let at = usize::from(*slot);
                        let n = slots.iter().take_while(|one| **one != at).count() + 1;
                        let kind = if is_literal { None } else { kind(&at) };
                        let cast = kind.map_or("", NumberKind::cast);
                        text.push_str(&format!(":v{n}{cast}"));
                    }
                },
            }
        }
        let letter = |at: &usize| {
            let is_plain = kind(at).is_some_and(|kind| kind != NumberKind::Odd);
            if is_plain && is_literal { 'n' } else { 'q' }
        };
        let values: String = slots.iter().map(letter).collect();
        // A text with other values each time was no prepared statement.
        let was_simple = protocol_word(self.forms.all[number as usize].by_protocol) == "simple";
        let is_text = !has_parameters && (was_simple || !values.is_empty());
        let number = self.placed(TraceForm { text: text.trim().to_string(), values, is_text });
        MadeForm { number, slots }
    }

    /// A literal as it stays in the text; `None` if it is a value.
    fn kept(&self, number: u32, at: usize, mask: &mut Mask) -> Option<String> {
        let literal = self.literals.get(&(number, at))?;
        let only = literal.only.as_deref()?;
        let written = self.masked(number, at, only, mask);
        if self.forms.form(number).slots[at].origin == Origin::Text {
            return Some(literal_text(&written));
        }
        // What masks make of `0x1f` may be no number.
        (written == only || NumberKind::from_text(&written) != NumberKind::Odd).then_some(written)
    }

    fn placed(&mut self, form: TraceForm) -> u32 {
        let key = format!("{}\0{}\0{}", form.text, form.values, form.is_text);
        let all = &mut self.all;
        *self.numbers.entry(key).or_insert_with(|| {
            all.push(form);
            all.len() as u32 - 1
        })
    }

    fn value(&self, number: u32, at: usize, value: &SlotValue, mask: &mut Mask) -> Option<Box<str>> {
        let mut masked = |text: &str| self.masked(number, at, text, mask);
        match value {
            SlotValue::Null => None,
            SlotValue::Text(text) | SlotValue::Truncated(text) => Some(masked(text).into()),
            SlotValue::List(all) => {
                let all: Vec<Option<String>> =
                    all.iter().map(|one| one.as_deref().map(&mut masked)).collect();
                Some(array_text(all.iter().map(Option::as_deref)).into())
            }
        }
    }

    /// A value as the directory has it: literals that all executions have, by the rule of those in its transactions, others as in its
    /// captured rows.
    fn masked(&self, number: u32, at: usize, text: &str, mask: &mut Mask) -> String {
        let form = self.forms.form(number);
        let facts = self.facts.get(&number).and_then(|facts| facts.slots.get(at));
        let (usage, column) = met(&form.slots[at], facts);
        let is_text = facts.filter(|facts| !facts.type_name.is_empty()).map(|facts| facts.is_text());
        let place = Place { column, is_text };
        match self.literals.get(&(number, at)) {
            Some(Literal { n, only: Some(_), .. }) => {
                mask.literal(text, place, is_programs(usage, form.has_parameters(), *n))
            }
            _ => mask.value(text, place),
        }
    }
}

fn literals(transactions: &[CutTransaction], forms: &Forms) -> BTreeMap<(u32, usize), Literal> {
    let mut found: BTreeMap<(u32, usize), Literal> = BTreeMap::new();
    for step in transactions.iter().flat_map(|one| &one.steps) {
        for (at, (slot, value)) in forms.form(step.form).slots.iter().zip(&step.values).enumerate() {
            if !matches!(slot.origin, Origin::Text | Origin::Number) {
                continue;
            }
            let kept = || value.text().filter(|text| text.len() <= KEPT_BYTES_MAX);
            let number = if slot.origin == Origin::Number { value.text() } else { None };
            let kind = number.map(NumberKind::from_text);
            let known = found.entry((step.form, at)).or_insert_with(|| Literal {
                n: 0,
                only: kept().map(Into::into),
                kind,
            });
            known.n += 1;
            known.kind = known.kind.max(kind);
            if known.only.as_deref() != kept() {
                known.only = None;
            }
        }
    }
    found
}
