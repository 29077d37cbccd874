//! Classes of clients, and variants of a workload.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::manifest::reader::{ManifestReader, PlacedValue, Section, int_of, is_name, kind, number_of};
use crate::manifest::tables::{NamedText, named};
use crate::manifest::transactions::{Think, think};
use crate::value::is_identifier;

/// Greatest weight of a transaction, as pgbench takes it.
const WEIGHT_MAX: i64 = 1_000_000_000;
/// The unit of weights of which one has a fraction.
const THOUSANDTHS: f64 = 1000.0;
/// Most clients that a class or a variant names.
pub(crate) const CLIENTS_MAX: i64 = 100_000;
/// Most passes through an order.
const PASSES_MAX: i64 = 1_000_000;
/// Most transactions per second of a class.
const PACE_MAX: f64 = 1e9;

/// How often each transaction is chosen: weights by the names of transactions.
pub type Weights = Vec<(String, u32)>;

/// The order in which a client runs transactions, where it does not draw them by weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// These, one after the other.
    Fixed(Vec<String>),
    /// All whose weight is above 0, each client in another order.
    Permuted,
}

/// A class of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSpec {
    /// Name.
    pub name: String,
    /// Where the name stands.
    pub at: Range<usize>,
    /// So many clients.
    pub clients: Option<u32>,
    /// As many clients as this option says.
    pub clients_option: Option<String>,
    /// This part of the clients, from above 0 to 1.
    pub share: Option<f64>,
    /// Weights; none: the variant's.
    pub weights: Option<Weights>,
    /// Pause after each transaction.
    pub think: Option<Think>,
    /// Transactions per second of the whole class.
    pub pace_per_s: Option<f64>,
    /// Order of transactions.
    pub order: Option<Order>,
    /// Whether it connects again for each transaction.
    pub reconnect: bool,
    /// Settings of its sessions; a value that is `{OPTION}` stands for the option's.
    pub settings: Vec<(String, String)>,
}

/// A variant of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Name.
    pub name: String,
    /// Where the name stands.
    pub at: Range<usize>,
    /// A sentence for people.
    pub about: Option<String>,
    /// Weights; none: all transactions alike, or those of `order`.
    pub weights: Option<Weights>,
    /// Named expressions that it replaces.
    pub lets: Vec<NamedText>,
    /// Number of clients.
    pub clients: Option<u32>,
    /// Order of transactions.
    pub order: Option<Order>,
    /// How often a client goes through the order.
    pub passes: Option<CountOrOption>,
    /// How often it does so before that, without being counted.
    pub warm_passes: Option<CountOrOption>,
}

/// A number, or the option that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountOrOption {
    /// The number.
    Count(u32),
    /// `"{OPTION}"`.
    Option(String),
}

impl CountOrOption {
    /// The number, with the values of options.
    pub fn value(&self, options: &BTreeMap<String, String>) -> Option<u32> {
        match self {
            CountOrOption::Count(count) => Some(*count),
            CountOrOption::Option(name) => options.get(name)?.parse().ok(),
        }
    }

    /// The option, if it is one.
    pub(crate) fn option(&self) -> Option<&str> {
        match self {
            CountOrOption::Count(_) => None,
            CountOrOption::Option(name) => Some(name),
        }
    }
}

pub(super) fn read(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Vec<SessionSpec> {
    let mut found: Vec<SessionSpec> = Vec::new();
    for mut section in top.array(reader, "session") {
        let name = section.name(reader);
        let share = section.number(reader, "share");
        if let Some(share) = share.as_ref().filter(|share| share.value <= 0.0 || share.value > 1.0) {
            reader.problem(share.at.clone(), "`share` is a part of the clients: above 0, at most 1");
        }
        let clients_option = named_option(reader, &mut section, "clients", "a whole number");
        let clients = match clients_option {
            Some(_) => None,
            None => section.count(reader, "clients", 0..=CLIENTS_MAX),
        };
        if section.has("clients") == section.has("share") {
            reader.problem(name.at.clone(), "a class of clients has `clients` or `share`");
        }
        found.push(SessionSpec {
            clients,
            clients_option,
            share: share.map(|share| share.value),
            weights: weights(reader, &mut section),
            think: think(reader, &mut section),
            pace_per_s: pace(reader, &mut section),
            order: order(reader, &mut section),
            reconnect: section.flag(reader, "reconnect"),
            settings: settings(reader, &mut section),
            name: name.value,
            at: name.at,
        });
        section.finish(reader);
    }
    reader.doubles("class of clients", found.iter().map(|one| (one.name.as_str(), one.at.clone())));
    let total: f64 = found.iter().filter_map(|session| session.share).sum();
    if let Some(last) = found.last()
        && total > 1.0 + 1e-9
    {
        reader.problem(
            last.at.clone(),
            format!("the shares of the classes add up to {total}, which is above 1"),
        );
    }
    found
}

pub(super) fn variants(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Vec<Variant> {
    let Some(mut section) = top.section(reader, "variants") else { return Vec::new() };
    let mut found = Vec::new();
    for (name, mut section) in section.sections(reader, "variants") {
        if !is_name(&name.value) {
            reader.problem(name.at.clone(), "the name of a variant has letters, digits, `-` and `_`");
        }
        found.push(Variant {
            about: section.line(reader, "about"),
            weights: weights(reader, &mut section),
            lets: named(reader, &mut section, "let"),
            clients: section.count(reader, "clients", 1..=CLIENTS_MAX),
            order: order(reader, &mut section),
            passes: passes(reader, &mut section, "passes", 1),
            warm_passes: passes(reader, &mut section, "warm_passes", 0),
            name: name.value,
            at: name.at,
        });
        section.finish(reader);
    }
    found
}

fn weights(reader: &mut ManifestReader<'_>, section: &mut Section<'_, '_>) -> Option<Weights> {
    let mut section = section.section(reader, "weights")?;
    let at = section.at.clone();
    let mut found = Weights::new();
    let entries = section.entries(reader);
    // Rates have fractions; weights do not.
    let is_whole = entries.iter().all(|(_, value)| int_of(value.get_ref()).is_some());
    let scale = if is_whole { 1.0 } else { THOUSANDTHS };
    for (name, value) in &entries {
        let weight =
            number_of(value.get_ref()).filter(|weight| (0.0..=WEIGHT_MAX as f64 / scale).contains(weight));
        match weight {
            Some(weight) => found.push((name.value.clone(), (weight * scale).round() as u32)),
            None => {
                let message = format!("the weight of `{}` is a number from 0 up", name.value);
                reader.problem(value.span(), message);
            }
        }
    }
    if found.len() == entries.len() && found.iter().all(|(_, weight)| *weight == 0) {
        reader.problem(at, "all weights are 0, so nothing would run");
    }
    Some(found)
}

fn order(reader: &mut ManifestReader<'_>, section: &mut Section<'_, '_>) -> Option<Order> {
    if !section.has("order") {
        return None;
    }
    let names: Vec<String> = section.texts(reader, "order").into_iter().map(|name| name.value).collect();
    if names == ["permuted"] { Some(Order::Permuted) } else { Some(Order::Fixed(names)) }
}

/// A number of passes from `least` on, or the option that has it.
fn passes(
    reader: &mut ManifestReader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
    least: i64,
) -> Option<CountOrOption> {
    match named_option(reader, section, key, "a whole number") {
        None => section.count(reader, key, least..=PASSES_MAX).map(CountOrOption::Count),
        Some(option) => (!option.is_empty()).then_some(CountOrOption::Option(option)),
    }
}

/// `"100/s"`, for all clients of the class together.
fn pace(reader: &mut ManifestReader<'_>, section: &mut Section<'_, '_>) -> Option<f64> {
    let PlacedValue { value, at } = section.text(reader, "pace")?;
    let rate = value.trim().strip_suffix("/s").and_then(|number| number.trim().parse::<f64>().ok());
    let rate = rate.filter(|rate| *rate > 0.0 && *rate <= PACE_MAX);
    if rate.is_none() {
        reader.problem(at, "`pace` is a rate of transactions, such as \"100/s\"");
    }
    rate
}

fn settings(reader: &mut ManifestReader<'_>, section: &mut Section<'_, '_>) -> Vec<(String, String)> {
    let Some(mut section) = section.section(reader, "settings") else { return Vec::new() };
    let mut found = Vec::new();
    for (name, value) in section.entries(reader) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if name.value.is_empty() || !name.value.chars().all(is_plain) {
            reader.problem(name.at.clone(), "expected the name of a setting of PostgreSQL");
        }
        let text = value.get_ref();
        let written = text.as_str().map(str::to_string);
        let written = written.or_else(|| int_of(text).map(|int| int.to_string()));
        let written = written.or_else(|| text.as_bool().map(|flag| flag.to_string()));
        match written {
            Some(text) => found.push((name.value, text)),
            None => {
                let message = format!("setting `{}` is {}; expected a text", name.value, kind(text));
                reader.problem(value.span(), message);
            }
        }
    }
    found
}

/// The option that `KEY = "{OPTION}"` names. A text that names none is reported, and stays as an empty name; `otherwise` is
/// what else the key may be.
pub(super) fn named_option(
    reader: &mut ManifestReader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
    otherwise: &str,
) -> Option<String> {
    if !section.is_text(key) {
        return None;
    }
    let text = section.text(reader, key)?;
    let option = option_in_braces(&text.value).map(str::to_string);
    if option.is_none() {
        reader.problem(text.at, format!("`{key}` is {otherwise}, or \"{{OPTION}}\""));
    }
    // What it should have been is reported once.
    Some(option.unwrap_or_default())
}

/// The option for which a value in braces stands.
pub(crate) fn option_in_braces(text: &str) -> Option<&str> {
    text.strip_prefix('{')?.strip_suffix('}').filter(|name| is_identifier(name))
}
