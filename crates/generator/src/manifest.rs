//! `workload.toml`: what a workload directory is, with the place of everything in it.
//!
//! Expressions are texts here; what they mean depends on the scale, the variant and the options.

mod analytical;
pub(crate) mod braces;
pub(crate) mod captured;
pub(crate) mod cross;
pub(crate) mod reader;
pub(crate) mod sessions;
pub(crate) mod tables;
pub(crate) mod transactions;

use std::fmt;
use std::ops::Range;

use toml::de::DeTable;

use crate::directory::{Directory, MANIFEST};
use crate::manifest::captured::{CapturedSource, DeclaredData};
use crate::manifest::reader::{ManifestReader, PlacedValue, Section, is_name};
use crate::manifest::sessions::{SessionSpec, Variant};
use crate::manifest::tables::{DeclaredTable, NamedText};
use crate::manifest::transactions::{DeclaredTransaction, Think};
use crate::problem::{Problem, sorted};
use crate::value::is_identifier;

/// The version of the format that this program knows.
pub(crate) const FORMAT: i64 = 1;

/// What `workload.toml` says. Ranges are bytes of its text.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Name, of small letters, digits and hyphens.
    pub name: String,
    /// A title of a few words.
    pub title: String,
    /// A sentence that says what it does.
    pub about: String,
    /// Where it comes from.
    pub source: String,
    /// The server and the window that it was captured from.
    pub captured: Option<CapturedSource>,
    /// Where its data comes from.
    pub data: DeclaredData,
    /// The licence of its files.
    pub licence: String,
    /// What is to be said with every result.
    pub notice: Option<String>,
    /// Requirements on the server.
    pub needs: Needs,
    /// The meaning of one unit of scale.
    pub scale: String,
    /// Sensible scales; empty if all are.
    pub scales: Vec<f64>,
    /// Typed values that a user can set.
    pub options: Vec<OptionSpec>,
    /// Named expressions.
    pub lets: Vec<NamedText>,
    /// Tables in load order; a name may have braces.
    pub tables: Vec<DeclaredTable>,
    /// Transactions in the order of the file.
    pub transactions: Vec<DeclaredTransaction>,
    /// Classes of clients; empty if all are alike.
    pub sessions: Vec<SessionSpec>,
    /// Variants; the first is the default.
    pub variants: Vec<Variant>,
    /// Ratios of facts.
    pub measures: Vec<Measure>,
    /// Checks of the data.
    pub checks: Vec<Check>,
    /// What is used where a user says nothing.
    pub defaults: Defaults,
    /// What does not keep the directory from being used.
    pub warnings: Vec<Problem>,
}

/// Requirements on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The oldest release, as `9.5` or `13`.
    pub server: Option<String>,
    /// Extensions that pgdyno creates.
    pub extensions: Vec<String>,
}

/// A value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A whole number.
    Int(i64),
    /// Any number.
    Float(f64),
    /// A text, often one of several words.
    Text(String),
    /// Yes or no.
    Bool(bool),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Int(value) => write!(f, "{value}"),
            OptionValue::Float(value) => write!(f, "{value}"),
            OptionValue::Text(value) => f.write_str(value),
            OptionValue::Bool(value) => write!(f, "{value}"),
        }
    }
}

impl OptionValue {
    /// The type in words.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            OptionValue::Int(_) => "a whole number",
            OptionValue::Float(_) => "a number",
            OptionValue::Text(_) => "a text",
            OptionValue::Bool(_) => "true or false",
        }
    }

    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            OptionValue::Int(value) => Some(*value as f64),
            OptionValue::Float(value) => Some(*value),
            OptionValue::Text(_) | OptionValue::Bool(_) => None,
        }
    }
}

/// An option.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionSpec {
    /// Name, which expressions and scripts use.
    pub name: String,
    /// The value if nobody gives one; its type is the option's.
    pub default: OptionValue,
    /// Least value of a number.
    pub least: Option<OptionValue>,
    /// Greatest value of a number.
    pub most: Option<OptionValue>,
    /// Values that a text can have; empty if any.
    pub words: Vec<String>,
    /// A sentence for people.
    pub about: String,
    /// Where its name stands.
    pub at: Range<usize>,
}

/// A ratio of sums of facts, such as recall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Name.
    pub name: String,
    /// A title of a few words; the name if none is given.
    pub title: String,
    /// The fact that is divided.
    pub numerator: String,
    /// The fact that divides.
    pub denominator: String,
    /// Where the ratio stands.
    pub at: Range<usize>,
}

/// A check: a query that returns the rows that violate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name, and that of its file.
    pub name: String,
    /// The statement that is true where it holds.
    pub title: String,
    /// Whether it is tried after a load.
    pub on_load: bool,
    /// Whether it is tried after a run.
    pub on_run: bool,
    /// Where its name stands.
    pub at: Range<usize>,
}

/// What is used where a user says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Whether executions are few and long, and each counts by itself.
    pub is_analytical: bool,
    /// `simple`, `extended` or `prepared`.
    pub protocol: Option<String>,
    /// Longest time of a statement.
    pub statement_timeout: Option<std::time::Duration>,
    /// Pause after each transaction.
    pub think: Option<Think>,
    /// Whether plans are recorded after the window.
    pub explain: bool,
    /// The option that says so.
    pub explain_option: Option<String>,
}

impl Manifest {
    /// Reads `workload.toml` and looks whether the files that it names exist.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(directory: &Directory) -> Result<Manifest, Vec<Problem>> {
        let text = directory.manifest();
        let tree = match DeTable::parse(text) {
            Ok(tree) => tree,
            Err(error) => {
                let message: Vec<&str> = error.message().lines().map(str::trim).collect();
                let at = error.span().unwrap_or(0..0);
                return Err(vec![Problem::at(MANIFEST, text, at, message.join("; "))]);
            }
        };
        let mut reader = ManifestReader::new(text);
        let top = Section::new("workload.toml", 0..0, tree.get_ref());
        let mut manifest = all(&mut reader, top);
        cross::check(&manifest, directory, &mut reader);
        let (warnings, problems): (Vec<Problem>, Vec<Problem>) =
            sorted(reader.problems).into_iter().partition(|problem| problem.is_warning);
        if !problems.is_empty() {
            return Err(problems);
        }
        manifest.warnings = warnings;
        Ok(manifest)
    }

    /// The option of this name.
    pub fn option(&self, name: &str) -> Option<&OptionSpec> {
        self.options.iter().find(|option| option.name == name)
    }

    /// The variant of this name.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }
}

fn all(reader: &mut ManifestReader<'_>, mut top: Section<'_, '_>) -> Manifest {
    match top.int(reader, "format") {
        None if top.has("format") => {}
        None => top.lacks("format", 0..0, "`format = 1` is missing; it fixes the meaning of every function"),
        Some(PlacedValue { value: FORMAT, .. }) => {}
        Some(PlacedValue { value, at }) => {
            reader.problem(at, format!("format {value} is not known; this pgdyno knows format {FORMAT}"));
        }
    }
    let (source, captured) = captured::source(reader, &mut top);
    let manifest = Manifest {
        captured,
        data: captured::data(reader, &mut top),
        name: name(reader, &mut top),
        title: top.required(reader, "title").value,
        about: top.line(reader, "about").unwrap_or_default(),
        source,
        licence: top.line(reader, "licence").unwrap_or_default(),
        notice: top.line(reader, "notice"),
        needs: needs(reader, &mut top),
        scale: top.line(reader, "scale").unwrap_or_default(),
        scales: scales(reader, &mut top),
        options: options(reader, &mut top),
        lets: tables::named(reader, &mut top, "let"),
        tables: tables::read(reader, &mut top),
        transactions: transactions::read(reader, &mut top),
        sessions: sessions::read(reader, &mut top),
        variants: sessions::variants(reader, &mut top),
        measures: measures(reader, &mut top),
        checks: checks(reader, &mut top),
        defaults: defaults(reader, &mut top),
        warnings: Vec::new(),
    };
    top.finish(reader);
    manifest
}

fn name(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> String {
    let name = top.required(reader, "name");
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.value.is_empty() && (!name.value.chars().all(is_plain) || name.value.len() > 63) {
        reader.problem(name.at, "a name has small letters, digits and hyphens, at most 63");
    }
    name.value
}

fn needs(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Needs {
    let Some(mut section) = top.section(reader, "needs") else { return Needs::default() };
    let server = section.text(reader, "server").and_then(|text| {
        let is_version = |text: &str| {
            let mut parts = text.split('.');
            let is_number =
                |part: &str| !part.is_empty() && part.len() < 4 && part.bytes().all(|b| b.is_ascii_digit());
            parts.clone().count() <= 2 && parts.all(is_number)
        };
        if !is_version(&text.value) {
            reader.problem(text.at, "expected a release, such as \"9.5\" or \"13\"");
            return None;
        }
        Some(text.value)
    });
    let extensions = section.texts(reader, "extensions");
    for extension in &extensions {
        if !is_name(&extension.value) {
            reader.problem(extension.at.clone(), "expected the name of an extension");
        }
    }
    section.finish(reader);
    Needs { server, extensions: extensions.into_iter().map(|extension| extension.value).collect() }
}

fn scales(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Vec<f64> {
    let numbers = top.numbers(reader, "scales");
    for number in &numbers {
        if number.value <= 0.0 {
            reader.problem(number.at.clone(), "a scale is above 0");
        }
    }
    numbers.into_iter().map(|number| number.value).collect()
}

fn options(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Vec<OptionSpec> {
    let Some(mut section) = top.section(reader, "options") else { return Vec::new() };
    let mut found = Vec::new();
    for (name, mut option) in section.sections(reader, "options") {
        if !is_identifier(&name.value) {
            reader.problem(
                name.at.clone(),
                "the name of an option has letters, digits and `_`, no digit first",
            );
        }
        let default = option.option_value(reader, "default");
        let least = option.option_value(reader, "least");
        let most = option.option_value(reader, "most");
        let words = option.texts(reader, "words").into_iter().map(|word| word.value).collect();
        let about = option.line(reader, "about").unwrap_or_default();
        option.finish(reader);
        let Some(default) = default else {
            reader.problem(name.at, format!("option `{}` has no `default`", name.value));
            continue;
        };
        let bound = |bound: Option<PlacedValue<OptionValue>>| bound.map(|bound| bound.value);
        let at = name.at;
        let spec = OptionSpec {
            name: name.value,
            default: default.value,
            least: bound(least),
            most: bound(most),
            words,
            about,
            at,
        };
        if let Some(problem) = spec.problem() {
            reader.problem(default.at, problem);
        }
        found.push(spec);
    }
    section.finish(reader);
    found
}

impl OptionSpec {
    /// What is wrong with its own default and bounds.
    fn problem(&self) -> Option<String> {
        let number = |value: &Option<OptionValue>| value.as_ref().map(|value| (value.number(), value.kind()));
        let bounds = [number(&self.least), number(&self.most)];
        let of_text = bounds.iter().flatten().any(|(number, _)| number.is_none());
        if of_text || (self.default.number().is_none() && bounds.iter().any(Option::is_some)) {
            return Some("`least` and `most` are for numbers".to_string());
        }
        let whole = OptionValue::Int(0).kind();
        let has_fraction = bounds.iter().flatten().any(|(_, kind)| *kind != whole);
        if matches!(self.default, OptionValue::Int(_)) && has_fraction {
            return Some(
                "the default is a whole number, a bound is not; write the default as 1.0".to_string(),
            );
        }
        if !self.words.is_empty() && !matches!(self.default, OptionValue::Text(_)) {
            return Some("`words` are for texts".to_string());
        }
        self.refusal(&self.default).map(|why| format!("the default {why}"))
    }

    /// Why the option cannot have this value of its type.
    pub(crate) fn refusal(&self, value: &OptionValue) -> Option<String> {
        let beyond = |bound: &Option<OptionValue>, is_wrong: fn(f64, f64) -> bool| {
            let (value, limit) = (value.number()?, bound.as_ref()?.number()?);
            is_wrong(value, limit).then_some(limit)
        };
        if value.number().is_some_and(|number| !number.is_finite()) {
            return Some(format!("{value} is no number"));
        }
        if let Some(least) = beyond(&self.least, |value, least| value < least) {
            return Some(format!("{value} is below {least}, the least"));
        }
        if let Some(most) = beyond(&self.most, |value, most| value > most) {
            return Some(format!("{value} is above {most}, the most"));
        }
        match value {
            OptionValue::Text(word) if !self.words.is_empty() && !self.words.contains(word) => {
                Some(format!("`{word}` is none of {}", self.words.join(", ")))
            }
            _ => None,
        }
    }
}

fn measures(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Vec<Measure> {
    let mut found = Vec::new();
    for mut section in top.array(reader, "measure") {
        let name = section.name(reader);
        let ratio = section.required(reader, "ratio");
        let title = section.line(reader, "title").unwrap_or_else(|| name.value.clone());
        section.finish(reader);
        let parts: Vec<&str> = ratio.value.split('/').map(str::trim).collect();
        match parts[..] {
            [numerator, denominator] if is_identifier(numerator) && is_identifier(denominator) => {
                let (numerator, denominator) = (numerator.to_string(), denominator.to_string());
                found.push(Measure { name: name.value, title, numerator, denominator, at: ratio.at });
            }
            _ if ratio.value.is_empty() => {}
            _ => reader.problem(ratio.at, "expected a ratio of two facts, such as \"hits / wanted\""),
        }
    }
    found
}

fn checks(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Vec<Check> {
    let mut found: Vec<Check> = Vec::new();
    for mut section in top.array(reader, "check") {
        let name = section.name(reader);
        let title = section.line(reader, "title").unwrap_or_else(|| name.value.clone());
        let when = section.texts(reader, "when");
        section.finish(reader);
        for word in &when {
            if !["load", "run"].contains(&word.value.as_str()) {
                reader.problem(
                    word.at.clone(),
                    format!("`{}` is no time of a check; known: load, run", word.value),
                );
            }
        }
        let has = |time: &str| when.is_empty() || when.iter().any(|word| word.value == time);
        found.push(Check { name: name.value, title, on_load: has("load"), on_run: has("run"), at: name.at });
    }
    reader.doubles("check", found.iter().map(|check| (check.name.as_str(), check.at.clone())));
    found
}

fn defaults(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Defaults {
    let Some(mut section) = top.section(reader, "defaults") else { return Defaults::default() };
    let kind = section.word(reader, "kind", &["oltp", "analytical"]);
    let explain_option = sessions::named_option(reader, &mut section, "explain", "true, false");
    let defaults = Defaults {
        is_analytical: kind.is_some_and(|kind| kind == "analytical"),
        protocol: section.word(reader, "protocol", &transactions::PROTOCOLS),
        statement_timeout: section.duration(reader, "statement_timeout"),
        think: transactions::think(reader, &mut section),
        explain: explain_option.is_none() && section.flag(reader, "explain"),
        explain_option,
    };
    section.finish(reader);
    defaults
}
