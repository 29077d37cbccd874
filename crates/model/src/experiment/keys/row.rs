//! A row of the table of keys, and the kinds of values that a key may have.

use crate::experiment::Experiment;
use crate::experiment::keys::option::KeyOption;

/// A row: what there is to know of a key of the experiment file. [`super::section`] fills in the rest from the key's type.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The dotted key: `run.measure`; [`NAME`] stands for a name of the user's.
    pub name: &'static str,
    /// Its documentation, as Markdown.
    pub(super) what: &'static str,
    /// Its default, as Markdown; empty if there is nothing to say.
    pub default: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// Whether a list makes it a factor.
    pub may_vary: bool,
    /// Whether it executes something or names a file, an address or a value of one machine: then results of somebody
    /// else show it before it has any effect.
    pub is_of_place: bool,
    /// The option of the command line that gives it.
    pub option: Option<KeyOption>,
    /// What varies or could, each name with its levels as text.
    pub dimensions: ReadDimensions,
    /// Keeps the levels whose text is one of those wanted; without any, the key is left out if it can be.
    pub keep: KeepLevels,
    /// Writes a level as cases do, if they have a form of their own for it.
    pub as_cases_write: fn(&str) -> Option<String>,
}

/// Reads what of a key varies or could, each name with its levels as text.
pub type ReadDimensions = fn(&Experiment) -> Vec<(String, Vec<String>)>;

/// Keeps the levels of a key whose text is wanted.
pub type KeepLevels = fn(&mut Experiment, &dyn Fn(&str) -> bool);

/// Last part of a key whose names are the user's: `server.settings.NAME`.
pub const NAME: &str = "NAME";

impl Row {
    /// Its documentation, as Markdown without a final period.
    pub fn what(&self) -> &'static str {
        self.what.trim_start()
    }

    /// The same, which an option of the command line gives, too.
    pub(super) const fn given_by(self, option: KeyOption) -> Row {
        Row { option: Some(option), ..self }
    }

    /// Its section, and its name there; `None` for a section of its own.
    pub fn parts(&self) -> Option<(&'static str, &'static str)> {
        self.name.split_once('.')
    }
}

/// The basis of a row with this kind of value and this default, as Markdown.
pub(super) const fn row(kind: Kind, default: &'static str) -> Row {
    Row {
        name: "",
        what: "",
        default,
        kind,
        may_vary: false,
        is_of_place: false,
        option: None,
        dimensions: |_| Vec::new(),
        keep: |_, _| {},
        as_cases_write: |_| None,
    }
}

/// As [`row`], for a key that is [of one place](Row::is_of_place).
pub(super) const fn of_place(kind: Kind, default: &'static str) -> Row {
    Row { is_of_place: true, ..row(kind, default) }
}

/// The kind of the value of a key.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Any text, or one that the type reads further.
    Text,
    /// Text of this form.
    Pattern(&'static str),
    /// On or off.
    Flag,
    /// A number.
    Number,
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A duration.
    Span,
    /// One of several kinds.
    Or(&'static [Kind]),
    /// A list of values.
    List(&'static Kind),
    /// Names and values, such as a combination of levels.
    Table,
    /// The way to another machine.
    Machine,
    /// A script and its weight.
    Script,
    /// Files of SQL.
    Files,
}

/// The value of a setting, or of a variable.
pub(super) const SETTING: Kind = Kind::Or(&[Kind::Text, Kind::Number, Kind::Flag]);
