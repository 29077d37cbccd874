//! JSON documents, arrays, UUIDs.

use super::{Call, ExpressionError, Made, Node, Type, Word, ensure};
use crate::expression::make::{Frame, Generator};
use crate::expression::node::{Code, Facts, TextFn};
use crate::value::calendar::TIMESTAMP_MAX;
use crate::value::text::{BYTES_MAX, push_element, push_json_text};

/// How a value is written within something else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As it is.
    Plain,
    /// `true` and `false`.
    JsonBool,
    /// In quotes, with JSON's escapes.
    JsonText,
    /// In quotes, with an array's escapes.
    ElementText,
}

impl Form {
    fn new(kind: &Type, is_json: bool) -> Form {
        match kind {
            Type::Int | Type::Float | Type::Decimal(_) => Form::Plain,
            Type::Bool if is_json => Form::JsonBool,
            Type::Bool => Form::Plain,
            Type::Json | Type::Vector if is_json => Form::Plain,
            Type::Date | Type::Timestamp | Type::Uuid if !is_json => Form::Plain,
            _ if is_json => Form::JsonText,
            _ => Form::ElementText,
        }
    }

    /// Most characters or bytes of something so long.
    fn longest(self, length: u64) -> u64 {
        match self {
            Form::Plain => length,
            Form::JsonBool => 5,
            Form::JsonText => length.saturating_mul(6).saturating_add(2),
            Form::ElementText => length.saturating_mul(2).saturating_add(2),
        }
    }
}

/// A value within something else.
struct Part {
    code: TextFn,
    form: Form,
    null: &'static [u8],
}

impl Part {
    fn write(&self, generator: &Generator, frame: &mut Frame, out: &mut Vec<u8>) {
        let start = out.len();
        if self.form == Form::Plain {
            if !(self.code)(generator, frame, out) {
                out.truncate(start);
                out.extend_from_slice(self.null);
            }
            return;
        }
        let mut text = frame.borrow();
        let is_there = (self.code)(generator, frame, &mut text);
        match self.form {
            _ if !is_there => out.extend_from_slice(self.null),
            Form::JsonBool => out.extend_from_slice(if text == b"t" { b"true" } else { b"false" }),
            Form::JsonText => push_json_text(out, &text),
            Form::Plain | Form::ElementText => push_element(out, &text),
        }
        frame.give(text);
    }
}

/// A part of a node, with facts whose lengths are those of the part.
fn part(node: Node, is_json: bool) -> (Part, Facts) {
    let form = Form::new(&node.kind, is_json);
    let null: &[u8] = if is_json { b"null" } else { b"NULL" };
    let longest = |length: u64| form.longest(length).max(null.len() as u64);
    let is_escaped = !matches!(form, Form::Plain | Form::JsonBool);
    let facts = Facts {
        characters: longest(node.longest()),
        bytes: longest(node.bytes()),
        is_nullable: false,
        has_specials: node.facts.has_specials || is_escaped,
        ..node.facts
    };
    (Part { code: node.into_text(), form, null }, facts)
}

/// An object of keys and values.
pub(super) fn json(call: &mut Call<'_, '_>) -> Made {
    let n = call.arguments.len();
    ensure(n.is_multiple_of(2), || call.problem("each key of `json` has a value behind it".to_string()))?;
    let mut members: Vec<(Vec<u8>, Part)> = Vec::new();
    let mut all: Vec<Facts> = Vec::new();
    let mut length = 2u64;
    let mut n_bytes = 2u64;
    for argument in (0..n).step_by(2) {
        let key = call.constant_text(argument)?;
        let mut prefix = if argument == 0 { b"{".to_vec() } else { b",".to_vec() };
        push_json_text(&mut prefix, key.as_bytes());
        prefix.push(b':');
        let (value, facts) = json_value(call, argument + 1)?;
        length = length.saturating_add(prefix.len() as u64).saturating_add(facts.characters);
        n_bytes = n_bytes.saturating_add(prefix.len() as u64).saturating_add(facts.bytes);
        all.push(Facts { has_specials: facts.has_specials || prefix.contains(&b'\\'), ..facts });
        members.push((prefix, value));
    }
    let facts = Facts::combined(&all).with_length(length, n_bytes);
    Ok(Node::text(Type::Json, facts, move |g, f, out| {
        for (prefix, value) in &members {
            out.extend_from_slice(prefix);
            value.write(g, f, out);
        }
        out.push(b'}');
        true
    }))
}

fn json_value(call: &mut Call<'_, '_>, argument: usize) -> Result<(Part, Facts), ExpressionError> {
    if call.is_call(argument, "list") {
        let (name, arguments) = match &call.arguments[argument].form {
            crate::expression::parse::Form::Call { arguments, .. } if arguments.len() == 2 => {
                ("list", arguments)
            }
            _ => return Err(call.problem_at(argument, "`list(n, x)` has two arguments".to_string())),
        };
        let part_of_list = &call.arguments[argument];
        let mut inner = Call { compiler: &mut *call.compiler, part: part_of_list, name, arguments };
        return Ok(part(list_of(&mut inner, true)?, true));
    }
    let node = call.node(argument)?;
    if matches!(node.kind, Type::List(_)) {
        let message = "an array is no JSON; write `list(…)` itself here".to_string();
        return Err(call.problem_at(argument, message));
    }
    Ok(part(node, true))
}

/// An array of n values, each made by draws of its own; `item` is its index.
pub(super) fn list(call: &mut Call<'_, '_>) -> Made {
    list_of(call, false)
}

fn list_of(call: &mut Call<'_, '_>, is_json: bool) -> Made {
    let Word { code: n, facts: of_n, .. } = call.int(0)?;
    let (least, most) = of_n.words();
    let is_length = least >= 0 && most <= i128::from(BYTES_MAX);
    ensure(is_length, || call.problem_at(0, format!("a list of {least} to {most} values")))?;
    call.compiler.site().n_lists += 1;
    let (element, kind, of_element) = if is_json {
        let (element, facts) = json_value(call, 1)?;
        (element, Type::Json, facts)
    } else {
        let node = call.node(1)?;
        if matches!(node.kind, Type::List(_)) {
            return Err(call.problem_at(1, "a list of lists is not supported".to_string()));
        }
        let kind = Type::List(Box::new(node.kind.clone()));
        let (element, facts) = part(node, false);
        (element, kind, facts)
    };
    call.compiler.site().n_lists -= 1;
    let most = most as u64;
    let longest = |length: u64| length.saturating_add(1).saturating_mul(most).saturating_add(2);
    let facts = Facts::combined([&of_n, &of_element]);
    let steps = of_n.steps.saturating_add(of_element.steps.saturating_add(1).saturating_mul(most));
    let facts = Facts { steps, is_nullable: of_n.is_nullable, ..facts };
    let facts = facts.with_length(longest(of_element.characters), longest(of_element.bytes));
    let (open, close) = if is_json { (b'[', b']') } else { (b'{', b'}') };
    Ok(Node::text(kind, facts, move |g, f, out| {
        let Some(n) = n(g, f) else { return false };
        let outer = f.item;
        out.push(open);
        for item in 0..n {
            if item > 0 {
                out.push(b',');
            }
            f.item = item;
            element.write(g, f, out);
        }
        f.item = outer;
        out.push(close);
        true
    }))
}

/// A random UUID (version 4), of two draws.
pub(super) fn uuid(_: &mut Call<'_, '_>) -> Made {
    let facts = Facts { is_unique: true, ..Facts::varying() }.with_length(36, 36);
    Ok(Node::text(Type::Uuid, facts, |_, f, out| {
        let high = f.draws.next_bits();
        let low = f.draws.next_bits();
        push_uuid(out, versioned(high, low, 4));
        true
    }))
}

/// A UUID of a time (version 7): its milliseconds, then random bits.
pub(super) fn uuid7(call: &mut Call<'_, '_>) -> Made {
    let node = call.node(0)?;
    let (low, high) = node.facts.words();
    let Node { kind: Type::Timestamp, code: Code::Word(code), facts } = node else {
        return Err(call.unfit(0, "a timestamp", &node.kind));
    };
    let is_within = low >= 0 && high <= i128::from(TIMESTAMP_MAX);
    ensure(is_within, || call.problem_at(0, "a UUID of version 7 has a time since 1970".to_string()))?;
    let facts = Facts { is_unique: true, ..Facts::combined([&facts]).drawn() }.with_length(36, 36);
    Ok(Node::text(Type::Uuid, facts, move |g, f, out| {
        let Some(time) = code(g, f) else { return false };
        let ms = (time / 1000) as u64;
        let high = ms << 16 | f.draws.next_bits() & 0xFFFF;
        let low = f.draws.next_bits();
        push_uuid(out, versioned(high, low, 7));
        true
    }))
}

/// 128 bits with the version and the variant of RFC 9562.
fn versioned(high: u64, low: u64, version: u64) -> u128 {
    let high = high & !0xF000 | version << 12;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    u128::from(high) << 64 | u128::from(low)
}

fn push_uuid(out: &mut Vec<u8>, bits: u128) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for digit in 0..32u32 {
        if matches!(digit, 8 | 12 | 16 | 20) {
            out.push(b'-');
        }
        out.push(HEX[(bits >> (124 - 4 * digit) & 15) as usize]);
    }
}
