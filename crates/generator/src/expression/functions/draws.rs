//! Functions that draw a number.

use super::{Call, Double, Made, Node, Type, Word, ensure};
use crate::expression::compile::Role;
use crate::expression::node::{Code, Facts, Reach};
use crate::expression::operators;
use crate::expression::references;
use crate::random::{self, LONGEST_TRIES, Normal, YcsbZipf, Zipf};

/// Uniform between two ends, both included (of floats, the upper one excluded).
pub(super) fn uniform(call: &mut Call<'_, '_>) -> Made {
    let nodes = [call.node(0)?, call.node(1)?];
    let constants = [nodes[0].constant_word(), nodes[1].constant_word()];
    let facts = Facts::combined(nodes.iter().map(|node| &node.facts)).drawn();
    let nodes = operators::alike(call.compiler, call.part, nodes.into())?;
    let reaches: Vec<Facts> = nodes.iter().map(|node| node.facts).collect();
    let empty = |low: String, high: String| call.problem(format!("`uniform({low}, {high})` is empty"));
    let mut codes = nodes.into_iter().map(|node| (node.kind, node.code));
    match (codes.next(), codes.next()) {
        (Some((kind, Code::Word(low))), Some((_, Code::Word(high)))) if kind != Type::Bool => {
            let is_known = reaches.iter().all(|facts| facts.reach != Reach::Unknown);
            let (least, _) = reaches[0].words();
            let (least_high, most) = (reaches[1].words().0, reaches[1].words().1);
            ensure(least <= most, || empty(least.to_string(), most.to_string()))?;
            let reach = if is_known { Reach::Words(least, most.max(least_high)) } else { Reach::Unknown };
            let facts = Facts { reach, ..facts };
            if let ([Some(low), Some(high)], Type::Int) = (constants, &kind) {
                return Ok(Node::word(kind, facts, move |_, f| Some(f.draws.between(low, high))));
            }
            Ok(Node::word(kind, facts, move |g, f| {
                let least = low(g, f);
                let most = high(g, f);
                let (least, most) = (least?, most?);
                if least > most {
                    f.fail(format!("`uniform({least}, {most})` is empty"));
                    return None;
                }
                Some(f.draws.between(least, most))
            }))
        }
        (Some((_, Code::Float(low))), Some((_, Code::Float(high)))) => {
            let reach = match (reaches[0].floats(), reaches[1].floats()) {
                (Some((least, _)), Some((_, most))) => Reach::Floats(least, most),
                _ => Reach::Unknown,
            };
            if let Reach::Floats(least, most) = reach {
                ensure(least <= most, || empty(least.to_string(), most.to_string()))?;
            }
            Ok(Node::float(Facts { reach, ..facts }, move |g, f| {
                let least = low(g, f);
                let most = high(g, f);
                let (least, most) = (least?, most?);
                Some(least + (most - least) * random::unit(&mut f.draws))
            }))
        }
        (Some((kind, _)), _) => Err(call.unfit(0, "numbers, dates or timestamps", &kind)),
        (None, _) => Err(call.unknown(0)),
    }
}

/// Normal, cut by rejection.
pub(super) fn normal(call: &mut Call<'_, '_>) -> Made {
    let arguments = [call.float(0)?, call.float(1)?, call.float(2)?, call.float(3)?];
    let facts = Facts::combined(arguments.iter().map(|argument| &argument.facts)).drawn();
    let reach = match (arguments[2].facts.floats(), arguments[3].facts.floats()) {
        (Some((low, _)), Some((_, high))) => Reach::Floats(low, high),
        _ => Reach::Unknown,
    };
    if let Reach::Floats(low, high) = reach {
        ensure(low < high, || call.problem_at(3, format!("{high} is not above {low}")))?;
    }
    let [mean, deviation, low, high] = arguments.map(|argument| argument.code);
    // A try is a logarithm, a sine, and four steps of work.
    let facts = Facts { reach, steps: facts.steps.saturating_add(20), ..facts };
    Ok(Node::float(facts, move |g, f| {
        let mean = mean(g, f);
        let deviation = deviation(g, f);
        let low = low(g, f);
        let high = high(g, f);
        let shape = Normal { mean: mean?, deviation: deviation?, low: low?, high: high? };
        let value = random::normal(&mut f.draws, &shape);
        if value.is_none() {
            let Normal { mean, deviation, low, high } = shape;
            f.fail(format!(
                "`normal({mean}, {deviation}, {low}, {high})`: none of {LONGEST_TRIES} draws was within the bounds"
            ));
        }
        value
    }))
}

/// Exponential.
pub(super) fn exponential(call: &mut Call<'_, '_>) -> Made {
    let mean = call.float(0)?;
    // The largest draw is that of 1 - 2^-53, and a hair for rounding.
    let longest = 53.0 * std::f64::consts::LN_2 * (1.0 + 1e-9);
    let reach = match mean.facts.floats() {
        Some((low, high)) => Reach::Floats((low * longest).min(0.0), (high * longest).max(0.0)),
        None => Reach::Unknown,
    };
    let facts = Facts { reach, ..Facts::combined([&mean.facts]).drawn() };
    let mean = mean.code;
    Ok(Node::float(facts, move |g, f| {
        let mean = mean(g, f)?;
        Some(random::exponential(&mut f.draws, mean))
    }))
}

/// The interval of a rank below `n`.
fn ranks(call: &Call<'_, '_>, n: &Word) -> Result<Facts, super::ExpressionError> {
    let (low, high) = n.facts.words();
    let is_known = n.facts.reach != Reach::Unknown;
    ensure(!is_known || high >= 1, || {
        call.problem_at(0, format!("{high} is no number of things to draw from"))
    })?;
    let most = i128::from(Zipf::N_MAX);
    ensure(!is_known || high <= most, || call.problem_at(0, format!("{low} to {high}: at most 2^53")))?;
    Ok(Facts::combined([&n.facts]).drawn().with_reach(0, high.max(1) - 1))
}

fn exponent(call: &mut Call<'_, '_>, argument: usize) -> Result<f64, super::ExpressionError> {
    let exponent = call.constant_float(argument)?;
    let message = || format!("an exponent of Zipf is above 0 and at most 1000, not {exponent}");
    ensure(exponent > 0.0 && exponent <= 1000.0, || call.problem_at(argument, message()))?;
    Ok(exponent)
}

/// Zipf's distribution, exact.
pub(super) fn zipf(call: &mut Call<'_, '_>) -> Made {
    let n = call.int(0)?;
    let exponent = exponent(call, 1)?;
    let facts = ranks(call, &n)?;
    let facts = Facts { steps: facts.steps.saturating_add(20), ..facts };
    if let Some(n) = n.constant {
        let zipf = Zipf::new(n as u64, exponent);
        return Ok(Node::word(Type::Int, facts, move |_, f| Some(zipf.draw(&mut f.draws) as i64)));
    }
    let n = n.code;
    Ok(Node::word(Type::Int, facts, move |g, f| {
        let n = n(g, f)?;
        if n < 1 {
            f.fail(format!("`zipf({n}, {exponent})` is empty"));
            return None;
        }
        Some(Zipf::new(n as u64, exponent).draw(&mut f.draws) as i64)
    }))
}

/// YCSB's scrambled Zipf.
pub(super) fn zipf_ycsb(call: &mut Call<'_, '_>) -> Made {
    let n = call.int(0)?;
    let facts = ranks(call, &n)?;
    let zipf = YcsbZipf::new();
    let code = n.code;
    Ok(Node::word(Type::Int, Facts { steps: facts.steps.saturating_add(10), ..facts }, move |g, f| {
        let n = code(g, f)?;
        if n < 1 {
            f.fail(format!("`zipf_ycsb({n})` is empty"));
            return None;
        }
        Some(zipf.draw(&mut f.draws, n))
    }))
}

/// sysbench's default distribution.
pub(super) fn special(call: &mut Call<'_, '_>) -> Made {
    let ends = [call.int(0)?, call.int(1)?];
    let facts = Facts::combined(ends.iter().map(|end| &end.facts)).drawn();
    let (least, most) = (ends[0].facts.words().0, ends[1].facts.words().1);
    ensure(least <= most, || call.problem(format!("`special({least}, {most})` is empty")))?;
    let is_known = ends.iter().all(|end| end.facts.reach != Reach::Unknown);
    let reach = if is_known { Reach::Words(least, most) } else { Reach::Unknown };
    let [low, high] = ends.map(|end| end.code);
    Ok(Node::word(Type::Int, Facts { reach, steps: facts.steps.saturating_add(12), ..facts }, move |g, f| {
        let least = low(g, f);
        let most = high(g, f);
        let (least, most) = (least?, most?);
        if least > most {
            f.fail(format!("`special({least}, {most})` is empty"));
            return None;
        }
        Some(random::special(&mut f.draws, least, most))
    }))
}

/// A hot part and a cold one.
pub(super) fn hot(call: &mut Call<'_, '_>) -> Made {
    let n = call.int(0)?;
    let share = |call: &mut Call<'_, '_>, argument: usize| {
        let share = call.constant_float(argument)?;
        let message = || format!("this is a share from 0 to 1, not {share}");
        ensure((0.0..=1.0).contains(&share), || call.problem_at(argument, message()))?;
        Ok(share)
    };
    let items = share(call, 1)?;
    let requests = share(call, 2)?;
    let facts = ranks(call, &n)?;
    let code = n.code;
    Ok(Node::word(Type::Int, facts, move |g, f| {
        let n = code(g, f)?;
        if n < 1 {
            f.fail(format!("`hot({n}, …)` is empty"));
            return None;
        }
        let n_hot = ((n as f64 * items) as i64).min(n).max(1);
        let is_hot = random::unit(&mut f.draws) < requests || n_hot == n;
        let (first, width) = if is_hot { (0, n_hot) } else { (n_hot, n - n_hot) };
        Some(first + f.draws.below(width as u64) as i64)
    }))
}

/// True with a probability.
pub(super) fn chance(call: &mut Call<'_, '_>) -> Made {
    let Double { code, facts, .. } = probability(call)?;
    Ok(Node::word(Type::Bool, facts.drawn().with_reach(0, 1), move |g, f| {
        let probability = code(g, f)?;
        Some(i64::from(random::unit(&mut f.draws) < probability))
    }))
}

/// The first argument, a probability.
pub(super) fn probability(call: &mut Call<'_, '_>) -> Result<Double, super::ExpressionError> {
    let found = call.float(0)?;
    if let Some((low, high)) = found.facts.floats() {
        let message = || format!("a probability is from 0 to 1, not {low} to {high}");
        ensure(low >= 0.0 && high <= 1.0, || call.problem_at(0, message()))?;
    }
    let facts = Facts::combined([&found.facts]);
    Ok(Double { facts, ..found })
}

/// Most rows that clients add to a table: 2^40 take more than twelve days at a million a second. Products of a number of a new row
/// and a small one are then known to be within 64 bits.
const NEW_ROWS_MAX: i64 = 1 << 40;

/// What only parameters have: rows that clients insert.
fn is_parameter(call: &mut Call<'_, '_>) -> Result<(), super::ExpressionError> {
    let is_parameter = call.compiler.site().role == Role::Parameter;
    ensure(is_parameter, || call.problem(format!("`{}` has a meaning in parameters alone", call.name)))
}

fn own_rows(call: &mut Call<'_, '_>) -> Result<(usize, i64), super::ExpressionError> {
    is_parameter(call)?;
    let table = references::table_argument(call.compiler, &call.arguments[0])?;
    let node = references::row_number(call.compiler, &call.arguments[0])?;
    Ok((table, node.constant_word().unwrap_or(0)))
}

/// The number of a new row.
pub(super) fn fresh(call: &mut Call<'_, '_>) -> Made {
    let (table, n_rows) = own_rows(call)?;
    let facts = Facts { is_new: true, is_unique: true, ..Facts::varying() };
    let most = n_rows.saturating_add(NEW_ROWS_MAX);
    let facts = facts.with_reach(i128::from(n_rows), i128::from(most));
    Ok(Node::word(Type::Int, facts, move |_, f| {
        let row = f.stream.fresh(table, n_rows);
        if row > most {
            f.fail(format!("`fresh` names at most {NEW_ROWS_MAX} rows of a table"));
        }
        Some(row.min(most))
    }))
}

/// A row that exists, mostly a new one.
pub(super) fn latest(call: &mut Call<'_, '_>) -> Made {
    let (table, n_rows) = own_rows(call)?;
    let exponent = exponent(call, 1)?;
    let facts = Facts { is_new: true, steps: 20, ..Facts::varying() };
    let most = n_rows.saturating_add(NEW_ROWS_MAX);
    let facts = facts.with_reach(0, i128::from(most));
    let name = call.compiler.scope.tables[table].name.clone();
    Ok(Node::word(Type::Int, facts, move |_, f| {
        let mut draws = f.draws;
        let row = f.stream.latest(table, n_rows, exponent, &mut draws);
        f.draws = draws;
        if row.is_none() {
            f.fail(format!("`latest({name}, {exponent})`: it has no rows yet"));
        }
        row.map(|row| row.min(most))
    }))
}
