//! Transactions: what is declared next to the script of each.

use std::ops::Range;
use std::time::Duration;

use crate::manifest::reader::{ManifestReader, PlacedValue, Section, is_name};
use crate::manifest::tables::{NamedText, named};

/// How statements can be sent.
pub(crate) const PROTOCOLS: [&str; 3] = ["simple", "extended", "prepared"];
/// In which order captured rows can be dealt.
const DRAWS_ORDERS: [&str; 2] = ["any", "once"];
/// Most transactions; the most scripts that pgbench takes.
const TRANSACTIONS_MAX: usize = 128;
/// Most parameters of a transaction that are declared, braces counted once.
const PARAMETERS_MAX: usize = 1000;
/// What limits can be set on, in percent.
const PERCENTILES: [(&str, f64); 6] =
    [("p50", 50.0), ("p75", 75.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p999", 99.9)];

/// A transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredTransaction {
    /// Name, and that of its script.
    pub name: String,
    /// Where the name stands.
    pub at: Range<usize>,
    /// Parameters, drawn when it begins.
    pub params: Vec<NamedText>,
    /// Parameters of loops, drawn in each round.
    pub each: Vec<EachSpec>,
    /// How its statements are sent, if it matters.
    pub protocol: Option<String>,
    /// Pause after it.
    pub think: Option<Think>,
    /// SQLSTATEs with which it may end: counted apart, neither committed nor failed.
    pub expected: Vec<String>,
    /// SQLSTATEs after which it is tried again.
    pub retry: Vec<String>,
    /// Longest time of an execution.
    pub timeout: Option<Duration>,
    /// The latency that it is judged by.
    pub limit: Option<LimitOfLatency>,
    /// Sums over its executions: expressions over the variables of its script.
    pub facts: Vec<NamedText>,
    /// File with the expected rows of its first execution.
    pub check_answer: Option<String>,
    /// Captured rows that its parameters are drawn from.
    pub draws: Option<DrawsSpec>,
}

/// Captured rows of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawsSpec {
    /// Name of the file without directory and ending.
    pub name: String,
    /// Where it stands.
    pub at: Range<usize>,
    /// Whether each row is dealt once, to one client.
    pub is_once: bool,
}

/// Parameters of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EachSpec {
    /// Name of the loop.
    pub name: String,
    /// Where the name stands.
    pub at: Range<usize>,
    /// Parameters, drawn in each round.
    pub params: Vec<NamedText>,
}

/// A pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// Always as long.
    Fixed(Duration),
    /// Exponentially distributed with this mean.
    Exponential(Duration),
}

/// Most latency at a percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitOfLatency {
    /// The percentile, in percent.
    pub percentile: f64,
    /// The latency.
    pub most: Duration,
}

pub(super) fn read(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Vec<DeclaredTransaction> {
    let found: Vec<DeclaredTransaction> =
        top.array(reader, "transaction").into_iter().map(|section| one(reader, section)).collect();
    if found.is_empty() && !top.has("transaction") {
        reader.problem(0..0, "there is no [[transaction]]");
    }
    if found.len() > TRANSACTIONS_MAX {
        let at = found[TRANSACTIONS_MAX].at.clone();
        reader.problem(at, format!("a workload has at most {TRANSACTIONS_MAX} transactions"));
    }
    reader.doubles("transaction", found.iter().map(|one| (one.name.as_str(), one.at.clone())));
    found
}

fn one(reader: &mut ManifestReader<'_>, mut section: Section<'_, '_>) -> DeclaredTransaction {
    let name = section.name(reader);
    let params = named(reader, &mut section, "params");
    if params.len() > PARAMETERS_MAX {
        reader.problem(name.at.clone(), format!("a transaction has at most {PARAMETERS_MAX} parameters"));
    }
    let check_answer = section.text(reader, "check_answer").map(|file| file.value);
    let transaction = DeclaredTransaction {
        each: each(reader, &mut section),
        protocol: section.word(reader, "protocol", &PROTOCOLS),
        think: think(reader, &mut section),
        expected: sqlstates(reader, &mut section, "expected"),
        retry: sqlstates(reader, &mut section, "retry"),
        timeout: section.duration(reader, "timeout"),
        limit: limit(reader, &mut section),
        facts: named(reader, &mut section, "facts"),
        name: name.value,
        at: name.at,
        params,
        check_answer,
        draws: draws(reader, &mut section),
    };
    if let Some(both) = transaction.expected.iter().find(|state| transaction.retry.contains(state)) {
        let message =
            format!("{both} is expected and retried; a transaction ends with it, or is tried again");
        reader.problem(transaction.at.clone(), message);
    }
    section.finish(reader);
    transaction
}

/// `draws = "NAME"`, and the order in which their rows are dealt.
fn draws(reader: &mut ManifestReader<'_>, section: &mut Section<'_, '_>) -> Option<DrawsSpec> {
    let name = section.text(reader, "draws");
    let order_at = section.at.clone();
    let order = section.word(reader, "draws_order", &DRAWS_ORDERS);
    if order.is_some() && name.is_none() {
        reader.problem(order_at, "`draws_order` is for a transaction with `draws`");
    }
    let PlacedValue { value: name, at } = name?;
    if !is_name(&name) {
        reader.problem(at.clone(), "`draws` is the name of a file in `draws/`, without its ending `.zst`");
        return None;
    }
    Some(DrawsSpec { name, at, is_once: order.as_deref() == Some("once") })
}

fn each(reader: &mut ManifestReader<'_>, section: &mut Section<'_, '_>) -> Vec<EachSpec> {
    let Some(mut section) = section.section(reader, "each") else { return Vec::new() };
    let names: Vec<PlacedValue<String>> = section.entries(reader).into_iter().map(|(name, _)| name).collect();
    let loops = section.sections(reader, "each");
    let mut found = Vec::new();
    for (name, inner) in loops {
        let params = inner.named(reader);
        found.push(EachSpec { name: name.value, at: name.at, params });
    }
    for name in names.iter().filter(|name| !crate::value::is_identifier(&name.value)) {
        reader.problem(name.at.clone(), "the name of a loop has letters, digits and `_`, no digit first");
    }
    found
}

fn sqlstates(
    reader: &mut ManifestReader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
) -> Vec<String> {
    let states = section.texts(reader, key);
    let is_state = |state: &str| {
        state.len() == 5 && state.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    };
    for state in states.iter().filter(|state| !is_state(&state.value)) {
        let message =
            format!("`{}` is no SQLSTATE, which has five digits or capitals, as 40001", state.value);
        reader.problem(state.at.clone(), message);
    }
    states.into_iter().map(|state| state.value).collect()
}

/// A pause: `"50ms"`, or `{mean = "50ms"}` for exponentially distributed ones.
pub(super) fn think(reader: &mut ManifestReader<'_>, section: &mut Section<'_, '_>) -> Option<Think> {
    if !section.is_table("think") {
        return section.duration(reader, "think").map(Think::Fixed);
    }
    let mut section = section.section(reader, "think")?;
    let mean = section.duration(reader, "mean");
    if mean.is_none() && !section.has("mean") {
        reader.problem(section.at.clone(), "`mean` of the pause is missing");
    }
    section.finish(reader);
    mean.map(Think::Exponential)
}

fn limit(reader: &mut ManifestReader<'_>, section: &mut Section<'_, '_>) -> Option<LimitOfLatency> {
    let mut section = section.section(reader, "limit")?;
    let at = section.at.clone();
    let mut found = Vec::new();
    for (key, percentile) in PERCENTILES {
        found.extend(section.duration(reader, key).map(|most| LimitOfLatency { percentile, most }));
    }
    let n_given = PERCENTILES.iter().filter(|(key, _)| section.has(key)).count();
    section.finish(reader);
    if n_given > 1 {
        reader.problem(at, "a transaction has one limit");
    }
    found.into_iter().next()
}
