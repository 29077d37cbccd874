//! A row of the table of keys, and the kinds of values that a key may have.

use serde_json::Value;

use crate::experiment::Experiment;
use crate::experiment::keys::option::KeyOption;

/// A row: what there is to know of a key of the experiment file. [`super::section`] fills in the rest from the key's type.
#[derive(Debug, Clone, Copy)]
pub struct KeyRow {
    /// The dotted key: `run.measure`; [`NAME`] stands for a name of the user's.
    pub name: &'static str,
    /// Its documentation, as Markdown.
    pub(super) what: &'static str,
    /// Its default, as Markdown; empty if there is nothing to say.
    pub default: &'static str,
    /// The kind of its value.
    pub kind: KeyKind,
    /// Whether a list makes it a factor.
    pub may_vary: bool,
    /// Whether an experiment that is made to fit into a time keeps all of its levels: it follows another key, as threads follow clients,
    /// or each level is another thing, so that none stands for two.
    pub keeps_all: bool,
    /// Whether it executes something or names a file, an address or a value of one machine: then results of somebody
    /// else show it before it has any effect.
    pub is_of_place: bool,
    /// The option of the command line that gives it.
    pub option: Option<KeyOption>,
    /// What varies or could, each name with its levels as text.
    pub dimensions: ReadDimensions,
    /// Keeps the levels whose text is one of those wanted; without any, the key is left out if it can be.
    pub keep: KeepLevels,
    /// What its value changes for a comparison, if cases carry it was chosen.
    pub carried: Option<Differs>,
    /// What a combination has, given the number of the level that it has of a key.
    pub chosen: ReadChosen,
    /// Fails for what is no value that a combination can have.
    pub reads: fn(&Value) -> Result<(), serde_json::Error>,
    /// Writes a level as cases do, if they have a form of their own for it.
    pub as_cases_write: fn(&str) -> Option<String>,
}

/// Reads what of a key varies or could, each name with its levels as text.
pub type ReadDimensions = fn(&Experiment) -> Vec<(String, Vec<String>)>;

/// Reads what a combination has of a key, given the number of the level by key.
pub type ReadChosen = fn(&Experiment, &dyn Fn(&str) -> Option<usize>) -> Value;

/// Keeps the levels of a key whose text is wanted.
pub type KeepLevels = fn(&mut Experiment, &dyn Fn(&str) -> bool);

/// Last part of a key whose names are the user's: `server.settings.NAME`.
pub const NAME: &str = "NAME";

impl KeyRow {
    /// Its documentation, as Markdown without a final period.
    pub fn what(&self) -> &'static str {
        self.what.trim_start()
    }

    /// The kinds of its value: one, or several.
    pub fn kinds(&self) -> &[KeyKind] {
        match &self.kind {
            KeyKind::Or(kinds) => kinds,
            kind => std::slice::from_ref(kind),
        }
    }

    /// The same, which an option of the command line gives, too.
    pub(super) const fn given_by(self, option: KeyOption) -> KeyRow {
        KeyRow { option: Some(option), ..self }
    }

    /// The same, whose value cases carry as it was chosen.
    pub(super) const fn carried(self, differs: Differs) -> KeyRow {
        KeyRow { carried: Some(differs), ..self }
    }

    /// The same, of which an experiment that is made to fit into a time [keeps all](KeyRow::keeps_all) levels.
    pub(super) const fn whole(self) -> KeyRow {
        KeyRow { keeps_all: true, ..self }
    }

    /// Its section, and its name there; `None` for a section of its own.
    pub fn parts(&self) -> Option<(&'static str, &'static str)> {
        self.name.split_once('.')
    }
}

/// The basis of a row with this kind of value and this default, as Markdown.
pub(super) const fn row(kind: KeyKind, default: &'static str) -> KeyRow {
    KeyRow {
        name: "",
        what: "",
        default,
        kind,
        may_vary: false,
        keeps_all: false,
        is_of_place: false,
        option: None,
        dimensions: |_| Vec::new(),
        keep: |_, _| {},
        carried: None,
        chosen: |_, _| Value::Null,
        reads: |_| Ok(()),
        as_cases_write: |_| None,
    }
}

/// As [`row`], for a key that is [of one place](KeyRow::is_of_place).
pub(super) const fn of_place(kind: KeyKind, default: &'static str) -> KeyRow {
    KeyRow { is_of_place: true, ..row(kind, default) }
}

/// What two values of a key change for a comparison of cases that were not made to differ in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differs {
    /// Nothing: it is about what is seen, and not about what is measured.
    Nothing,
    /// The figures may differ for it.
    Figures,
    /// The figures answer another question.
    Question,
}

/// The kind of the value of a key.
#[derive(Debug, Clone, Copy)]
pub enum KeyKind {
    /// Any text, or one that the type reads further.
    Text,
    /// Text of this form.
    Pattern(&'static str),
    /// A name that becomes part of a directory's.
    Name,
    /// On or off.
    Flag,
    /// A number.
    Number,
    /// A number above 0.
    Positive,
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A duration.
    Span,
    /// A duration in whole seconds, at least so many.
    Seconds(u32),
    /// One of several kinds.
    Or(&'static [KeyKind]),
    /// A list of values.
    List(&'static KeyKind),
    /// Names and values, such as a combination of levels.
    Table,
    /// The way to another machine.
    Machine,
    /// A script and its weight.
    Script,
    /// Files of SQL.
    Files,
    /// Tables of outages, or their faults alone.
    Outages,
}

/// The value of a setting, or of a variable.
pub(super) const SETTING: KeyKind = KeyKind::Or(&[KeyKind::Text, KeyKind::Number, KeyKind::Flag]);
