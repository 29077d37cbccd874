//! Functions of numbers that draw nothing.

use super::{Call, Made, Node, Type, ensure};
use crate::expression::node::{Code, Facts, Reach};
use crate::expression::operators;
use crate::random::{self, Permutation};
use crate::value::kind::{SCALE_MAX, power_of_ten};

/// pgbench's bijection, with its keys computed once.
pub(super) fn permute(call: &mut Call<'_, '_>) -> Made {
    let value = call.int(0)?;
    let n = call.constant_int(1)?;
    ensure(n >= 1, || call.problem_at(1, format!("a permutation of {n} things")))?;
    let seed = if call.arguments.len() == 3 { call.constant_int(2)? } else { 0 };
    let permutation = Permutation::new(n, seed);
    let (low, high) = value.facts.words();
    // Distinct places stay distinct unless they are taken modulo n.
    let is_unique = value.facts.is_unique && low >= 0 && high < i128::from(n);
    let facts = Facts::combined([&value.facts]).with_reach(0, i128::from(n) - 1);
    let facts = Facts { is_unique, steps: facts.steps.saturating_add(10), ..facts };
    let code = value.code;
    Ok(Node::word(Type::Int, facts, move |g, f| code(g, f).map(|value| permutation.apply(value))))
}

/// The finalizer of splitmix64, of ints and texts.
pub(super) fn hash(call: &mut Call<'_, '_>) -> Made {
    let first = call.node(0)?;
    let all = (i128::from(i64::MIN), i128::from(i64::MAX));
    if first.kind == Type::Text && call.arguments.len() == 1 {
        let facts = Facts { has_specials: false, ..Facts::combined([&first.facts]).with_reach(all.0, all.1) };
        let code = first.into_text();
        return Ok(Node::word(Type::Int, facts, move |g, f| {
            let mut text = f.borrow();
            let is_there = code(g, f, &mut text);
            let hash = random::mix(random::fnv1a64(&text)) as i64;
            f.give(text);
            if is_there { Some(hash) } else { None }
        }));
    }
    let first = call.as_int(0, first)?;
    let is_unique = first.facts.is_unique && call.arguments.len() == 1;
    let facts = Facts::combined([&first.facts]).with_reach(all.0, all.1);
    let code = first.code;
    if call.arguments.len() == 1 {
        let facts = Facts { is_unique, ..facts };
        return Ok(Node::word(Type::Int, facts, move |g, f| {
            code(g, f).map(|word| random::mix(word as u64) as i64)
        }));
    }
    let second = call.int(1)?;
    let facts = Facts::combined([&first.facts, &second.facts]).with_reach(all.0, all.1);
    let second = second.code;
    Ok(Node::word(Type::Int, facts, move |g, f| {
        let a = code(g, f);
        let b = second(g, f);
        Some(random::hash_pair(a? as u64, b? as u64) as i64)
    }))
}

/// FNV-1a as YCSB's.
pub(super) fn fnv64(call: &mut Call<'_, '_>) -> Made {
    let value = call.int(0)?;
    let facts = Facts::combined([&value.facts]).with_reach(0, i128::from(i64::MAX));
    let code = value.code;
    Ok(Node::word(Type::Int, facts, move |g, f| code(g, f).map(random::ycsb_fnv64)))
}

/// A number without what follows the point, as pgbench's `int`.
pub(super) fn int(call: &mut Call<'_, '_>) -> Made {
    let node = call.node(0)?;
    let facts =
        Facts { is_unique: node.kind == Type::Int && node.facts.is_unique, ..Facts::combined([&node.facts]) };
    match (node.kind, node.code) {
        (Type::Int, code) => {
            Ok(Node { kind: Type::Int, code, facts: Facts { reach: node.facts.reach, ..facts } })
        }
        (Type::Bool, code) => Ok(Node { kind: Type::Int, code, facts: facts.with_reach(0, 1) }),
        (Type::Decimal(scale), Code::Word(code)) => {
            let unit = power_of_ten(scale);
            let (low, high) = node.facts.words();
            let facts = facts.with_reach(low / i128::from(unit), high / i128::from(unit));
            Ok(Node::word(Type::Int, facts, move |g, f| code(g, f).map(|word| word / unit)))
        }
        (Type::Float, Code::Float(code)) => {
            let reach = whole_reach(node.facts.floats(), f64::trunc);
            Ok(Node::word(Type::Int, Facts { reach, ..facts }, move |g, f| {
                let value = code(g, f)?;
                whole(f, value.trunc())
            }))
        }
        (kind, _) => Err(call.unfit(0, "a number", &kind)),
    }
}

/// The interval of doubles made whole, if it is within 64 bits.
pub(super) fn whole_reach(floats: Option<(f64, f64)>, make_whole: fn(f64) -> f64) -> Reach {
    match floats {
        // What is beyond 64 bits is refused value by value.
        Some((low, high)) => {
            Reach::Words(i128::from(make_whole(low) as i64), i128::from(make_whole(high) as i64))
        }
        None => Reach::Unknown,
    }
}

/// A double without a fraction as an int.
pub(super) fn whole(frame: &mut crate::expression::make::Frame, value: f64) -> Option<i64> {
    // 2^63 is the first double beyond; casting it would give another number.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        return Some(value as i64);
    }
    frame.fail(format!("{value:?} is beyond 64 bits"));
    None
}

/// Any number as a float.
pub(super) fn float(call: &mut Call<'_, '_>) -> Made {
    let node = call.node(0)?;
    let facts = Facts::combined([&node.facts]);
    match (node.kind, node.code) {
        (Type::Decimal(scale), Code::Word(code)) => {
            let unit = power_of_ten(scale) as f64;
            let reach = match node.facts.reach {
                Reach::Words(low, high) => Reach::Floats(low as f64 / unit, high as f64 / unit),
                other => other,
            };
            Ok(Node::float(Facts { reach, ..facts }, move |g, f| code(g, f).map(|word| word as f64 / unit)))
        }
        (kind, code) => {
            ensure(matches!(kind, Type::Int | Type::Float), || call.unfit(0, "a number", &kind))?;
            let node = Node { kind, code, facts: Facts { reach: node.facts.reach, ..facts } };
            let (code, facts) = operators::to_float(call.compiler, call.part, node)?;
            Ok(Node { kind: Type::Float, code: Code::Float(code), facts })
        }
    }
}

fn digits(call: &mut Call<'_, '_>) -> Result<u8, super::ExpressionError> {
    let digits = call.constant_int(1)?;
    let message = || format!("from 0 to {SCALE_MAX} digits after the point, not {digits}");
    ensure((0..=i64::from(SCALE_MAX)).contains(&digits), || call.problem_at(1, message()))?;
    Ok(digits as u8)
}

/// An int as so many units of the last digit.
pub(super) fn decimal(call: &mut Call<'_, '_>) -> Made {
    let value = call.int(0)?;
    let scale = digits(call)?;
    let facts = Facts {
        is_unique: value.facts.is_unique,
        reach: value.facts.reach,
        ..Facts::combined([&value.facts])
    };
    Ok(Node { kind: Type::Decimal(scale), code: Code::Word(value.code), facts })
}

/// To whole numbers, or to digits after the point: decimals half away from zero, floats half to even, as in SQL.
pub(super) fn round(call: &mut Call<'_, '_>) -> Made {
    if call.arguments.len() == 1 {
        return rounded(call, half_away, f64::round_ties_even);
    }
    let node = call.node(0)?;
    let scale = digits(call)?;
    let facts = Facts::combined([&node.facts]);
    match (node.kind, node.code) {
        (Type::Decimal(own), Code::Word(code)) if own > scale => {
            let unit = power_of_ten(own - scale);
            let (low, high) = node.facts.words();
            let facts = facts.with_reach(low / i128::from(unit) - 1, high / i128::from(unit) + 1);
            Ok(Node::word(Type::Decimal(scale), facts, move |g, f| {
                code(g, f).map(|word| half_away(word, unit))
            }))
        }
        (kind @ (Type::Decimal(_) | Type::Int), code) => {
            let node = Node { kind, code, facts: node.facts };
            operators::to_decimal(call.compiler, call.part, node, scale)
        }
        (Type::Float, Code::Float(code)) => {
            let unit = power_of_ten(scale) as f64;
            let scaled = node.facts.floats().map(|(low, high)| (low * unit, high * unit));
            let reach = whole_reach(scaled, f64::round_ties_even);
            Ok(Node::word(Type::Decimal(scale), Facts { reach, ..facts }, move |g, f| {
                let value = code(g, f)?;
                whole(f, (value * unit).round_ties_even())
            }))
        }
        (kind, _) => Err(call.unfit(0, "a number", &kind)),
    }
}

/// The largest whole number that is not above.
pub(super) fn floor(call: &mut Call<'_, '_>) -> Made {
    rounded(call, i64::div_euclid, f64::floor)
}

fn half_away(word: i64, unit: i64) -> i64 {
    let rest = word % unit;
    word / unit + if rest.unsigned_abs() * 2 >= unit as u64 { rest.signum() } else { 0 }
}

fn rounded(call: &mut Call<'_, '_>, of_words: fn(i64, i64) -> i64, of_doubles: fn(f64) -> f64) -> Made {
    let node = call.node(0)?;
    let facts = Facts::combined([&node.facts]);
    match (node.kind, node.code) {
        (Type::Int, code) => {
            Ok(Node { kind: Type::Int, code, facts: Facts { reach: node.facts.reach, ..facts } })
        }
        (Type::Decimal(scale), Code::Word(code)) => {
            let unit = power_of_ten(scale);
            let (low, high) = node.facts.words();
            let facts = facts.with_reach(low / i128::from(unit) - 1, high / i128::from(unit) + 1);
            Ok(Node::word(Type::Decimal(0), facts, move |g, f| code(g, f).map(|word| of_words(word, unit))))
        }
        (Type::Float, Code::Float(code)) => {
            let reach = match node.facts.floats() {
                Some((low, high)) => Reach::Floats(of_doubles(low), of_doubles(high)),
                None => Reach::Unknown,
            };
            Ok(Node::float(Facts { reach, ..facts }, move |g, f| code(g, f).map(of_doubles)))
        }
        (kind, _) => Err(call.unfit(0, "a number", &kind)),
    }
}

/// Without its sign.
pub(super) fn abs(call: &mut Call<'_, '_>) -> Made {
    let node = call.node(0)?;
    let facts = Facts::combined([&node.facts]);
    match (node.kind, node.code) {
        (kind @ (Type::Int | Type::Decimal(_)), Code::Word(code)) => {
            let (low, high) = node.facts.words();
            let most = low.abs().max(high.abs());
            let least = if low <= 0 && high >= 0 { 0 } else { low.abs().min(high.abs()) };
            let message = || format!("`abs` can reach {most}, which is beyond 64 bits");
            let is_within = node.facts.reach == Reach::Unknown || most <= i128::from(i64::MAX);
            ensure(is_within, || call.problem(message()))?;
            let facts =
                if node.facts.reach == Reach::Unknown { facts } else { facts.with_reach(least, most) };
            Ok(Node::word(kind, facts, move |g, f| code(g, f).map(i64::saturating_abs)))
        }
        (Type::Float, Code::Float(code)) => {
            let reach = match node.facts.floats() {
                Some((low, high)) => Reach::Floats(0.0, low.abs().max(high.abs())),
                None => Reach::Unknown,
            };
            Ok(Node::float(Facts { reach, ..facts }, move |g, f| code(g, f).map(f64::abs)))
        }
        (kind, _) => Err(call.unfit(0, "a number", &kind)),
    }
}

/// The least of those that are not null.
pub(super) fn least(call: &mut Call<'_, '_>) -> Made {
    extreme(call, i64::min, f64::min)
}

/// The largest of those that are not null.
pub(super) fn greatest(call: &mut Call<'_, '_>) -> Made {
    extreme(call, i64::max, f64::max)
}

fn extreme(call: &mut Call<'_, '_>, of_words: fn(i64, i64) -> i64, of_doubles: fn(f64, f64) -> f64) -> Made {
    let nodes = call.alike(0..call.arguments.len())?;
    let facts = Facts::combined(nodes.iter().map(|node| &node.facts));
    let facts = Facts { is_nullable: nodes.iter().all(|node| node.facts.is_nullable), ..facts };
    // Of an operand that can be null, the other one can be the result.
    let has_null = nodes.iter().any(|node| node.facts.is_nullable);
    let kind = nodes[0].kind.clone();
    let word_reach = nodes.iter().map(|node| node.facts.reach).reduce(|a, b| match (a, b) {
        (Reach::Words(a, b), Reach::Words(c, d)) if has_null => Reach::Words(a.min(c), b.max(d)),
        (Reach::Words(a, b), Reach::Words(c, d)) => {
            let end = |a: i128, b: i128| i128::from(of_words(a as i64, b as i64));
            Reach::Words(end(a, c), end(b, d))
        }
        (Reach::Floats(a, b), Reach::Floats(c, d)) => Reach::Floats(a.min(c), b.max(d)),
        _ => Reach::Unknown,
    });
    let facts = Facts { reach: word_reach.unwrap_or(Reach::Unknown), ..facts };
    let mut words = Vec::new();
    let mut doubles = Vec::new();
    for node in nodes {
        match node.code {
            Code::Word(code) => words.push(code),
            Code::Float(code) => doubles.push(code),
            Code::Text(_) => return Err(call.unfit(0, "numbers, dates or timestamps", &kind)),
        }
    }
    if kind == Type::Float {
        return Ok(Node::float(facts, move |g, f| {
            let values = doubles.iter().filter_map(|code| code(g, f));
            values.reduce(of_doubles)
        }));
    }
    Ok(Node::word(kind, facts, move |g, f| {
        let values = words.iter().filter_map(|code| code(g, f));
        values.reduce(of_words)
    }))
}
