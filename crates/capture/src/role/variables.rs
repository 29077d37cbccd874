//! The variables of a template's script: one for each slot that is neither a literal nor equal to one before it.

use std::collections::{BTreeMap, BTreeSet};

use crate::balance::OmissionReason;
use crate::forms::Forms;
use crate::privacy::{Mask, Place};
pub use crate::role::planned::{DrawColumn, DrawType, SlotFilling, Source, Variable, Variables};
use crate::role::rules::{
    KEPT_BYTES_MAX, SlotValues, is_constant, is_link, is_programs, role, selects_truncated,
};
use crate::role::view::{SlotPlace, View};
use crate::role::{FormFacts, SlotFacts, ValueRole, met};
use crate::statement::form::FormSlot;
use crate::statement::places::SlotUse;
use crate::statement::{Kind, Origin, SlotValue, StatementRole};
use crate::value::text_class::{is_decimal, is_uuid};

/// Most columns of captured rows.
pub(crate) const COLUMNS_MAX: usize = 240;
/// Names that scripts and expressions use for other things.
const RESERVED: [&str; 16] = [
    "and",
    "client_id",
    "default_seed",
    "draw",
    "false",
    "item",
    "line",
    "not",
    "null",
    "or",
    "parent",
    "random_seed",
    "row",
    "rows",
    "scale",
    "true",
];

/// A slot with what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct SlotView<'a> {
    /// Place.
    pub place: SlotPlace,
    /// Where its value stood.
    pub origin: Origin,
    /// Answers of the server.
    pub facts: Option<&'a SlotFacts>,
    /// The statement.
    pub role: StatementRole,
    slot: &'a FormSlot,
}

impl<'a> SlotView<'a> {
    /// The use of the value.
    pub fn usage(&self) -> SlotUse {
        met(self.slot, self.facts).0
    }

    /// The column.
    pub fn column(&self) -> Option<&'a str> {
        met(self.slot, self.facts).1
    }

    fn mask_place(&self) -> Place<'a> {
        Place { column: self.column(), is_text: self.facts.map(SlotFacts::is_text) }
    }
}

/// The material of variables.
pub struct VariableMaker<'a> {
    /// The sample.
    pub view: &'a View<'a>,
    /// All forms.
    pub forms: &'a Forms,
    /// Answers of a server about them.
    pub facts: &'a BTreeMap<u32, FormFacts>,
    /// Whether statements are sent as simple queries.
    pub is_simple: bool,
}

/// Mean time of the client between statements that is more than a trip over a network and the resolution of a log.
const PAUSE_US_MIN: f64 = 2000.0;

impl VariableMaker<'_> {
    /// The variables of the template.
    ///
    /// # Errors
    /// Why it cannot be replayed.
    pub fn variables(&self, mask: &mut Mask) -> Result<Variables, OmissionReason> {
        let mut made =
            Making { maker: self, found: Variables::default(), names: BTreeSet::new(), owners: Vec::new() };
        for (number, _) in self.view.loops.iter().enumerate() {
            made.rounds(number);
        }
        let places = self.places();
        for place in places {
            made.slot(place, mask)?;
        }
        made.pauses();
        for in_loop in std::iter::once(None).chain((0..self.view.loops.len()).map(Some)) {
            if made.found.columns.iter().filter(|column| column.in_loop == in_loop).count() > COLUMNS_MAX {
                return Err(OmissionReason::TooManyValues);
            }
        }
        Ok(made.found)
    }

    fn places(&self) -> Vec<SlotPlace> {
        let of_step = |(step, one): (usize, &crate::role::view::TemplateStep)| {
            let n = self.forms.form(one.form).slots.len();
            (0..n).map(move |slot| SlotPlace { step, slot })
        };
        self.view.steps.iter().enumerate().flat_map(of_step).collect()
    }

    fn slot(&self, place: SlotPlace) -> SlotView<'_> {
        let number = self.view.steps[place.step].form;
        let form = self.forms.form(number);
        let slot = &form.slots[place.slot];
        let facts = self.facts.get(&number).and_then(|facts| facts.slots.get(place.slot));
        SlotView { place, origin: slot.origin, facts, role: form.role, slot }
    }

    /// Whether the program wrote the literals of a statement: it has parameters, too.
    fn has_parameters(&self, step: usize) -> bool {
        self.forms.form(self.view.steps[step].form).has_parameters()
    }

    /// The values of a slot, one for each execution; `None` if they differ between the rounds of a loop.
    fn once_per_execution(&self, place: SlotPlace) -> Option<SlotValues<'_>> {
        let mut values = Vec::new();
        let mut first = None;
        for cell in self.view.cells(place.step) {
            let value = self.view.value(place, cell)?;
            if cell.round == 0 {
                first = Some(value);
                values.push(value);
            } else if first != Some(value) {
                return None;
            }
        }
        Some(SlotValues::new(values))
    }

    /// The last INSERT before a statement that returns a column, and the column.
    fn returning(&self, step: usize) -> Option<(usize, String)> {
        (0..step).rev().filter(|at| self.view.steps[*at].in_loop.is_none()).find_map(|at| {
            let form = self.forms.form(self.view.steps[at].form);
            if form.role != StatementRole::Work(Kind::Insert) {
                return None;
            }
            let text = form.numbered();
            let after = text.to_ascii_lowercase().rfind("returning")? + "returning".len();
            Some((at, output_name(&text[after..])?))
        })
    }
}

/// The name of the first column that a list of outputs has, if `\\gset` can make a variable of it: the alias, or the last part of a name.
fn output_name(outputs: &str) -> Option<String> {
    let first = outputs.split([',', ';']).next()?;
    let words: Vec<&str> = first.split_whitespace().collect();
    let name = match words[..] {
        [name] => name.rsplit('.').next()?,
        [_, alias] => alias,
        [_, word, alias] if word.eq_ignore_ascii_case("as") => alias,
        _ => return None,
    };
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    let name = inner.map_or_else(|| name.to_ascii_lowercase(), str::to_string);
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (name.starts_with(|c: char| !c.is_ascii_digit()) && name.chars().all(is_plain)).then_some(name)
}

struct Making<'a> {
    maker: &'a VariableMaker<'a>,
    found: Variables,
    names: BTreeSet<String>,
    /// Slots that have a variable of their own.
    owners: Vec<(SlotPlace, usize)>,
}

impl Making<'_> {
    fn slot(&mut self, place: SlotPlace, mask: &mut Mask) -> Result<(), OmissionReason> {
        let maker = self.maker;
        let slot = maker.slot(place);
        let values = SlotValues::new(maker.view.column(place));
        if selects_truncated(&slot, &values) {
            return Err(OmissionReason::Truncated);
        }
        if is_constant(&slot, &values)
            && let Some(text) = values.values.first().and_then(|value| value.text())
            && text.len() <= KEPT_BYTES_MAX
        {
            self.constant(&slot, text, values.values.len(), mask);
            return Ok(());
        }
        if slot.origin != Origin::Array
            && let Some((_, variable)) =
                self.owners.iter().find(|(earlier, _)| is_link(maker.view, place, *earlier)).copied()
        {
            self.rename(variable, &slot);
            let cast = self.cast(&slot, &values);
            self.found.fillings.insert(place, SlotFilling::Variable(variable, cast));
            self.found.roles.insert(place, ValueRole::Link);
            return Ok(());
        }
        let is_returned = slot.usage() != SlotUse::Limit
            && maker.once_per_execution(place).is_some_and(|values| values.grows());
        let returning = if is_returned { maker.returning(place.step) } else { None };
        let role = if returning.is_some() { ValueRole::Returned } else { role(maker.view, &slot, &values) };
        let variable = if let Some((step, column)) = returning {
            let prefix = format!("s{}_", step + 1);
            let name = format!("{prefix}{column}");
            self.found.gsets.insert(step, prefix);
            self.names.insert(name.clone());
            self.add(name, role.clone(), None, None, place, &values)
        } else {
            self.drawn(&slot, &values, role.clone())
        };
        let cast = self.cast(&slot, &values);
        self.owners.push((place, variable));
        self.found.fillings.insert(place, SlotFilling::Variable(variable, cast));
        self.found.roles.insert(place, role);
        Ok(())
    }

    fn constant(&mut self, slot: &SlotView<'_>, text: &str, n: usize, mask: &mut Mask) {
        let is_programs = is_programs(slot.usage(), self.maker.has_parameters(slot.place.step), n);
        let written = match slot.origin {
            Origin::Parameter => mask.value(text, slot.mask_place()),
            _ => mask.literal(text, slot.mask_place(), is_programs),
        };
        self.found.roles.insert(slot.place, ValueRole::Constant);
        if slot.origin != Origin::Parameter {
            self.found.fillings.insert(slot.place, SlotFilling::Literal(slot.origin, written));
            return;
        }
        // A parameter stays one: the server plans for it, not for the value.
        let is_int =
            !slot.facts.is_some_and(SlotFacts::is_text) && crate::value::text_class::int(&written).is_some();
        let expression = if is_int { written } else { format!("'{}'", written.replace('\'', "''")) };
        let name = self.name(slot);
        let values = SlotValues::new(Vec::new());
        let in_loop = self.maker.view.steps[slot.place.step].in_loop;
        let variable = self.add(name, ValueRole::Constant, in_loop, Some(expression), slot.place, &values);
        self.found.all[variable].distinct = (1, n);
        self.found.fillings.insert(slot.place, SlotFilling::Variable(variable, ""));
    }

    /// A variable that is drawn.
    fn drawn(&mut self, slot: &SlotView<'_>, values: &SlotValues<'_>, role: ValueRole) -> usize {
        let in_loop = self.maker.view.steps[slot.place.step].in_loop;
        let name = self.name(slot);
        let kind = draw_type(slot, values);
        let expression = match &role {
            ValueRole::Key { unseen } => {
                self.column(slot, &name, kind, Source::Slot(slot.place));
                key(&name, *unseen, kind, slot, values)
            }
            ValueRole::Fresh => self.fresh(slot, values, &name, kind),
            ValueRole::Clock => {
                self.column(
                    slot,
                    &format!("{name}_after_s"),
                    DrawType::Float,
                    Source::Difference(slot.place),
                );
                format!("now() + seconds(draw.{name}_after_s)")
            }
            ValueRole::Opaque => opaque(values),
            ValueRole::Consumed => {
                self.found.deals_once |= in_loop.is_none();
                self.column(slot, &name, kind, Source::Slot(slot.place));
                format!("draw.{name}")
            }
            _ => {
                self.column(slot, &name, kind, Source::Slot(slot.place));
                format!("draw.{name}")
            }
        };
        self.add(name, role, in_loop, Some(expression), slot.place, values)
    }

    /// A key that no row has yet: UUIDs are drawn, numbers are dealt one after the other above the largest.
    fn fresh(&mut self, slot: &SlotView<'_>, values: &SlotValues<'_>, name: &str, kind: DrawType) -> String {
        let texts = || values.values.iter().filter_map(|value| value.text());
        if texts().all(is_uuid) {
            return "uuid()".to_string();
        }
        self.found.may_collide = true;
        if let Some(ints) = &values.ints {
            let of_server = slot.facts.and_then(|facts| facts.column.as_ref()).and_then(|column| column.most);
            let most = of_server.into_iter().chain(ints.iter().copied()).max().unwrap_or(0);
            let n = i64::try_from(ints.len()).unwrap_or(i64::MAX);
            // Without a server, the captured keys tell how wide the column is.
            let unasked = if most > i64::from(i32::MAX) / 2 { i64::MAX } else { i64::from(i32::MAX) };
            let greatest = slot.facts.map_or(unasked, SlotFacts::int_max);
            let least = most.saturating_add(n).saturating_add(1).min(greatest);
            if self.maker.view.steps[slot.place.step].in_loop.is_some() {
                return format!("uniform({least}, {greatest})");
            }
            self.found.deals_once = true;
            self.column(slot, name, DrawType::Int, Source::Sequence(slot.place, most.saturating_add(1)));
            return format!("choose(draw.reused == 1, uniform({least}, {greatest}), draw.{name})");
        }
        let first = texts().next().unwrap_or_default();
        let is_pattern = first.len() <= 200
            && first.bytes().any(|byte| byte.is_ascii_digit())
            && !first.contains(['?', '#', '\\']);
        if is_pattern {
            // Letters may be personal, digits are drawn: so letters are drawn, too.
            let shape: String = first
                .chars()
                .map(|c| {
                    if c.is_ascii_digit() {
                        '#'
                    } else if c.is_alphabetic() {
                        '?'
                    } else {
                        c
                    }
                })
                .collect();
            return format!("pattern('{}')", shape.replace('\'', "''"));
        }
        self.column(slot, name, kind, Source::Slot(slot.place));
        self.found.deals_once |= self.maker.view.steps[slot.place.step].in_loop.is_none();
        format!("draw.{name}")
    }

    fn column(&mut self, slot: &SlotView<'_>, name: &str, kind: DrawType, source: Source) {
        self.found.columns.push(DrawColumn {
            name: name.to_string(),
            kind,
            source,
            in_loop: self.maker.view.steps[slot.place.step].in_loop,
            of_column: slot.column().map(str::to_string),
            is_text: slot.facts.map(SlotFacts::is_text),
        });
    }

    fn add(
        &mut self,
        name: String,
        role: ValueRole,
        in_loop: Option<usize>,
        expression: Option<String>,
        place: SlotPlace,
        values: &SlotValues<'_>,
    ) -> usize {
        let distinct = (values.frequencies.distinct, values.frequencies.n);
        self.found.all.push(Variable { name, role, in_loop, expression, place, distinct });
        self.found.all.len() - 1
    }

    /// A cast that a number in a text needs if it becomes a parameter.
    fn cast(&self, slot: &SlotView<'_>, values: &SlotValues<'_>) -> &'static str {
        if self.maker.is_simple || slot.origin != Origin::Number {
            return "";
        }
        match &values.ints {
            Some(ints) if ints.iter().all(|int| i32::try_from(*int).is_ok()) => "::integer",
            Some(_) => "::bigint",
            None => "::numeric",
        }
    }

    /// A name that nothing else has: of the column, or of the place.
    fn name(&mut self, slot: &SlotView<'_>) -> String {
        let base = slot.column().map(identifier).filter(|name| !name.is_empty());
        let base = base.unwrap_or_else(|| format!("v{}", self.names.len() + 1));
        self.unused(base)
    }

    fn unused(&mut self, base: String) -> String {
        let is_taken = |name: &String| self.names.contains(name) || RESERVED.contains(&name.as_str());
        let name = if is_taken(&base) {
            (2..).map(|n| format!("{base}_{n}")).find(|name| !is_taken(name)).unwrap_or_default()
        } else {
            base
        };
        self.names.insert(name.clone());
        name
    }

    /// A column that is read or filled names a value better than one that is changed by it.
    fn rename(&mut self, variable: usize, slot: &SlotView<'_>) {
        let owner = self.maker.slot(self.found.all[variable].place);
        let is_better = matches!(slot.usage(), SlotUse::Inserted | SlotUse::Equality)
            && !matches!(owner.usage(), SlotUse::Inserted | SlotUse::Equality);
        let old = self.found.all[variable].name.clone();
        if !is_better || self.found.all[variable].role == ValueRole::Returned || slot.column().is_none() {
            return;
        }
        let name = self.name(slot);
        self.names.remove(&old);
        let one = &mut self.found.all[variable];
        if let Some(expression) = &mut one.expression {
            *expression = expression.replace(&format!("draw.{old}"), &format!("draw.{name}"));
        }
        one.name.clone_from(&name);
        for column in self.found.columns.iter_mut().filter(|column| column.source_of(one.place)) {
            column.name = column.name.replacen(&old, &name, 1);
        }
    }

    fn rounds(&mut self, number: usize) {
        let name = self.unused(format!("{}_rounds", loop_name(number)));
        self.found.columns.push(DrawColumn {
            name: name.clone(),
            kind: DrawType::Int,
            source: Source::Rounds(number),
            in_loop: None,
            of_column: None,
            is_text: Some(false),
        });
        let place = SlotPlace { step: self.maker.view.loops[number].start, slot: usize::MAX };
        let values = SlotValues::new(Vec::new());
        let variable =
            self.add(name.clone(), ValueRole::Value, None, Some(format!("draw.{name}")), place, &values);
        self.found.rounds.push(variable);
    }

    fn pauses(&mut self) {
        let view = self.maker.view;
        for step in 1..view.steps.len() {
            let (mut n, mut sum) = (0.0, 0.0);
            for cell in view.cells(step) {
                n += 1.0;
                sum += f64::from(view.gap_us(step, cell));
            }
            if n == 0.0 || sum / n < PAUSE_US_MIN {
                continue;
            }
            let name = self.unused(format!("pause_{}_us", step + 1));
            let in_loop = view.steps[step].in_loop;
            self.found.columns.push(DrawColumn {
                name: name.clone(),
                kind: DrawType::Int,
                source: Source::Gap(step),
                in_loop,
                of_column: None,
                is_text: Some(false),
            });
            let place = SlotPlace { step, slot: usize::MAX };
            let values = SlotValues::new(Vec::new());
            let variable = self.add(
                name.clone(),
                ValueRole::Value,
                in_loop,
                Some(format!("draw.{name}")),
                place,
                &values,
            );
            self.found.pauses.insert(step, variable);
        }
    }
}

/// The name of a loop.
pub fn loop_name(number: usize) -> String {
    format!("loop{}", number + 1)
}

fn draw_type(slot: &SlotView<'_>, values: &SlotValues<'_>) -> DrawType {
    let texts = || values.values.iter().filter_map(|value| value.text());
    match slot.origin {
        Origin::Text | Origin::Array => DrawType::Text,
        Origin::Number if values.ints.is_some() => DrawType::Int,
        Origin::Number if texts().all(is_decimal) => DrawType::Decimal,
        Origin::Number => DrawType::Float,
        Origin::Parameter if values.ints.is_some() && !slot.facts.is_some_and(SlotFacts::is_text) => {
            DrawType::Int
        }
        Origin::Parameter => DrawType::Text,
    }
}

/// The captured key, or one near it with the chance that the sample cannot have seen the next one. Only a server knows which keys
/// there are.
fn key(name: &str, unseen: f64, kind: DrawType, slot: &SlotView<'_>, values: &SlotValues<'_>) -> String {
    let column = slot.facts.and_then(|facts| facts.column.as_ref());
    let bounds = column.and_then(|column| Some((column.least?, column.most?)));
    match bounds {
        Some((least, most))
            if kind == DrawType::Int && unseen > 0.0 && least < most && values.frequencies.n >= 20 =>
        {
            let near = format!("near(draw.{name}, {least}, {most})");
            if unseen >= 1.0 { near } else { format!("choose(chance({unseen:.4}), {near}, draw.{name})") }
        }
        _ => format!("draw.{name}"),
    }
}

/// Random text of the lengths of the sample.
fn opaque(values: &SlotValues<'_>) -> String {
    let texts: Vec<&str> = values
        .values
        .iter()
        .filter_map(|value| match value {
            SlotValue::Text(text) | SlotValue::Truncated(text) => Some(&**text),
            SlotValue::Null | SlotValue::List(_) => None,
        })
        .collect();
    let is_bytes = !texts.is_empty() && texts.iter().all(|text| text.starts_with("\\x"));
    let lengths = || texts.iter().map(|text| text.len());
    let most = lengths().max().unwrap_or(0).min(1 << 19);
    let least = lengths().min().unwrap_or(0).min(most);
    if is_bytes {
        format!("bytes(alnum({}, {}))", least / 2, most / 2)
    } else {
        format!("alnum({least}, {most})")
    }
}

/// A name for a variable: small letters, digits and `_`.
fn identifier(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .take(40)
        .collect();
    let name = name.trim_matches('_').to_string();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("v{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::output_name;

    #[test]
    fn what_an_insert_returns_has_the_name_that_gset_gives_it() {
        for (outputs, expected) in [
            (" id", Some("id")),
            (" ID;", Some("id")),
            (" \"app\".\"id\"", Some("id")),
            (" users.id AS users_id, name", Some("users_id")),
            (" id new_id", Some("new_id")),
            (" \"Id\"", None),
            (" *", None),
            (" lower(name)", None),
        ] {
            assert_eq!(output_name(outputs).as_deref(), expected, "{outputs}");
        }
    }
}
