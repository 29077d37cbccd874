//! Dates, timestamps and lengths of time.

use super::numbers::{whole, whole_reach};
use super::{Call, Made, Node, Type, ensure};
use crate::expression::compile::literal;
use crate::expression::node::{Code, Facts, Reach};
use crate::expression::operators::scaled;
use crate::expression::scope::Constant;
use crate::value::calendar::{self, DAY_US};

/// A word that is known now.
fn constant(kind: Type, word: i64) -> Node {
    Node { kind, ..literal(&Constant::Int(word)) }
}

/// A date: of a text, of year, month and day, or the day of a timestamp.
pub(super) fn date(call: &mut Call<'_, '_>) -> Made {
    match call.arguments.len() {
        1 => {}
        3 => return date_of_parts(call),
        _ => return Err(call.problem("`date('2024-01-31')` or `date(year, month, day)`".to_string())),
    }
    let node = call.node(0)?;
    match (node.kind, node.code) {
        (Type::Timestamp, Code::Word(code)) => {
            let (low, high) = node.facts.words();
            let day = i128::from(DAY_US);
            let facts = Facts::combined([&node.facts]).with_reach(low.div_euclid(day), high.div_euclid(day));
            Ok(Node::word(Type::Date, facts, move |g, f| code(g, f).map(calendar::day_of)))
        }
        (kind, code) => {
            let node = Node { kind, code, facts: node.facts };
            let text = text_of(call, &node)?;
            let day = calendar::parse_date(&text);
            let day =
                day.ok_or_else(|| call.problem_at(0, format!("`{text}` is no day; write 'YYYY-MM-DD'")))?;
            Ok(constant(Type::Date, day))
        }
    }
}

fn text_of(call: &Call<'_, '_>, node: &Node) -> Result<String, super::ExpressionError> {
    ensure(node.kind == Type::Text, || call.unfit(0, "a text", &node.kind))?;
    node.constant_text().ok_or_else(|| call.unknown(0))
}

fn date_of_parts(call: &mut Call<'_, '_>) -> Made {
    let parts = [call.int(0)?, call.int(1)?, call.int(2)?];
    let (first, last) = parts[0].facts.words();
    let year = |year: i128| i64::try_from(year).ok().filter(|year| (1..=9999).contains(year));
    let range = (year(first), year(last));
    let (least, most) = match range {
        (Some(first), Some(last)) => {
            (calendar::days_from_date(first, 1, 1), calendar::days_from_date(last, 12, 31))
        }
        _ => return Err(call.problem_at(0, format!("years {first} to {last}: 1 to 9999 are possible"))),
    };
    let (Some(least), Some(most)) = (least, most) else { return Err(call.unknown(0)) };
    let facts = Facts::combined(parts.iter().map(|part| &part.facts));
    let facts = facts.with_reach(i128::from(least), i128::from(most));
    let [year, month, day] = parts.map(|part| part.code);
    Ok(Node::word(Type::Date, facts, move |g, f| {
        let year = year(g, f);
        let month = month(g, f);
        let day = day(g, f);
        let (year, month, day) = (year?, month?, day?);
        let date = calendar::days_from_date(year, month, day);
        if date.is_none() {
            f.fail(format!("`date({year}, {month}, {day})` is no day"));
        }
        date
    }))
}

/// A timestamp: of a text, or the beginning of a day.
pub(super) fn timestamp(call: &mut Call<'_, '_>) -> Made {
    let node = call.node(0)?;
    if node.kind == Type::Date {
        return scaled(call.compiler, call.part, node, Type::Timestamp, DAY_US);
    }
    let text = text_of(call, &node)?;
    let found = calendar::parse_timestamp(&text);
    let message = || format!("`{text}` is no time; write 'YYYY-MM-DD HH:MM:SS' (UTC)");
    let found = found.ok_or_else(|| call.problem_at(0, message()))?;
    Ok(constant(Type::Timestamp, found))
}

/// So many days.
pub(super) fn days(call: &mut Call<'_, '_>) -> Made {
    interval(call, DAY_US)
}

/// So many seconds.
pub(super) fn seconds(call: &mut Call<'_, '_>) -> Made {
    interval(call, 1_000_000)
}

fn interval(call: &mut Call<'_, '_>, unit: i64) -> Made {
    let node = call.node(0)?;
    if node.kind == Type::Int {
        return scaled(call.compiler, call.part, node, Type::Interval, unit);
    }
    let Node { kind: Type::Float, code: Code::Float(code), facts } = node else {
        return Err(call.unfit(0, "a number", &node.kind));
    };
    let unit = unit as f64;
    let scaled = facts.floats().map(|(low, high)| (low * unit, high * unit));
    let reach = whole_reach(scaled, f64::round);
    if let Some((low, high)) = scaled {
        let is_within = low >= i64::MIN as f64 && high < i64::MAX as f64;
        ensure(is_within, || call.problem(format!("{low:?} to {high:?} microseconds are beyond 64 bits")))?;
    }
    let facts = Facts { reach, ..Facts::combined([&facts]) };
    Ok(Node::word(Type::Interval, facts, move |g, f| {
        let value = code(g, f)?;
        whole(f, (value * unit).round())
    }))
}

/// The year of a date or a timestamp.
pub(super) fn year(call: &mut Call<'_, '_>) -> Made {
    let node = call.node(0)?;
    let is_date = node.kind == Type::Date;
    let facts = Facts::combined([&node.facts]);
    match (node.kind, node.code) {
        (Type::Date | Type::Timestamp, Code::Word(code)) => {
            let day = move |word: i64| if is_date { word } else { calendar::day_of(word) };
            let year = move |word: i64| calendar::date_from_days(day(word)).0;
            let ends = |word: i128| i64::try_from(word).map_or(9999, year);
            let (low, high) = node.facts.words();
            let reach = match node.facts.reach {
                Reach::Words(..) => Reach::Words(i128::from(ends(low)), i128::from(ends(high))),
                _ => Reach::Words(1, 9999),
            };
            Ok(Node::word(Type::Int, Facts { reach, ..facts }, move |g, f| code(g, f).map(year)))
        }
        (kind, _) => Err(call.unfit(0, "a date or a timestamp", &kind)),
    }
}
