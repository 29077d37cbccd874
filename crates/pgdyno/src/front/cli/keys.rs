//! Options that give keys of the experiment file, made from the rows of the keys.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use experiment::plan::file::Override;
use model::experiment::keys;
use model::experiment::keys::key::Key;
use model::experiment::keys::option::{KeyOption, OptionForm};
use model::experiment::keys::row::{KeyKind, KeyRow, NAME};
use toml::Value;

use super::compare::share_of_figure;
use super::numbers::in_range;

/// What options give to keys of the experiment file, as text.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyOptions {
    given: BTreeMap<&'static str, Vec<String>>,
}

impl KeyOptions {
    /// Whether an option gives this key.
    pub(crate) fn has<T>(&self, key: Key<T>) -> bool {
        self.given.contains_key(key.name)
    }

    /// What an option gives to this key.
    pub(crate) fn texts<T>(&self, key: Key<T>) -> &[String] {
        self.given.get(key.name).map_or(&[], Vec::as_slice)
    }

    /// The same, and `text` for a key that no option gives.
    pub(crate) fn or<T>(mut self, key: Key<T>, text: Option<String>) -> KeyOptions {
        if let Some(text) = text {
            self.given.entry(key.name).or_insert_with(|| vec![text]);
        }
        self
    }

    /// The changes to the experiment file.
    pub(crate) fn overrides(&self) -> impl Iterator<Item = Override> {
        rows().filter_map(|(row, option)| Some(change(row, option, self.given.get(row.name)?)))
    }
}

fn change(row: &KeyRow, option: &KeyOption, texts: &[String]) -> Override {
    let name = format!("--{}", option.long);
    let with_value = || format!("{name} {}", texts.join(","));
    let number = |text: &String| text.trim().parse().map_or(Value::String(text.clone()), Value::Integer);
    let (value, origin) = match option.form {
        OptionForm::Text | OptionForm::Quantity | OptionForm::Share => {
            return Override::levels(row.name, texts, with_value());
        }
        OptionForm::Switch(value) => (Value::Boolean(value), name),
        OptionForm::Number(_) if option.takes_several() => {
            (Value::Array(texts.iter().map(number).collect()), name)
        }
        OptionForm::Number(_) => (texts.first().map_or(Value::Array(Vec::new()), number), with_value()),
    };
    Override { key: row.name.to_string(), value, origin }
}

/// The rows that have an option.
fn rows() -> impl Iterator<Item = (&'static KeyRow, &'static KeyOption)> {
    keys::all().filter_map(|row| Some((row, row.option.as_ref()?)))
}

/// The options' names, which are their identifiers, too.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    rows().map(|(_, option)| option.long)
}

/// The same of those that both sides of a comparison may have.
pub(crate) fn names_of_both() -> impl Iterator<Item = &'static str> {
    rows().filter(|(_, option)| option.help_of_both.is_some()).map(|(_, option)| option.long)
}

/// The option of a row, of `run`.
fn arg(row: &'static KeyRow, option: &'static KeyOption) -> Arg {
    let arg = Arg::new(option.long).long(option.long).help(option.help);
    let arg = option.short.into_iter().fold(arg, Arg::short);
    let arg = match option.form {
        OptionForm::Switch(_) => return arg.action(ArgAction::SetTrue),
        OptionForm::Number(_) | OptionForm::Quantity | OptionForm::Share => arg.allow_hyphen_values(true),
        OptionForm::Text => arg,
    };
    // The help of those that take any text says its words itself.
    let is_any = matches!(option.form, OptionForm::Text | OptionForm::Quantity)
        && (row.may_vary || words(row).is_empty());
    let arg =
        arg.value_name(option.value_name).value_parser(parser(row, option)).hide_possible_values(is_any);
    if option.takes_several() {
        arg.value_delimiter(',').action(ArgAction::Append)
    } else {
        arg.action(ArgAction::Set)
    }
}

/// Refuses at once what the key cannot have, and offers its words to completions.
fn parser(row: &'static KeyRow, option: &'static KeyOption) -> ValueParser {
    match (option.form, row.kind) {
        (OptionForm::Number(example), KeyKind::Whole(least, most)) => ValueParser::new(move |text: &str| {
            in_range(text, least..=most, &format!("--{} {example}", option.long)).map(|n| n.to_string())
        }),
        (OptionForm::Share, _) => {
            ValueParser::new(|text: &str| share_of_figure(text).map(|share| share.to_string()))
        }
        (OptionForm::Text, KeyKind::Words(words)) if !row.may_vary => {
            PossibleValuesParser::new(words.iter().copied()).into()
        }
        _ => ValueParser::new(Offering(words(row))),
    }
}

/// The words among the values of a key.
fn words(row: &KeyRow) -> Vec<&'static str> {
    let of_kind = |kind: &KeyKind| match kind {
        KeyKind::Words(words) => words.to_vec(),
        KeyKind::Flag => vec!["true", "false"],
        _ => Vec::new(),
    };
    // Shells take a value with a space for two.
    row.kinds().iter().flat_map(of_kind).filter(|word| !word.contains(' ')).collect()
}

/// Each key with `=`, and with its words where it has some.
static ASSIGNMENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let of_row = |row: &KeyRow| {
        let key = row.name.strip_suffix(NAME).map_or_else(|| format!("{}=", row.name), str::to_string);
        match words(row).as_slice() {
            words if row.name.ends_with(NAME) || words.is_empty() => vec![key],
            words => words.iter().map(|word| format!("{key}{word}")).collect(),
        }
    };
    keys::all().filter(|row| row.parts().is_some()).flat_map(of_row).collect()
});

/// Reads `KEY=VALUE` as text, and offers each key to completions.
pub(crate) fn assignments() -> ValueParser {
    ValueParser::new(Offering(ASSIGNMENTS.iter().map(String::as_str).collect()))
}

/// Takes any text, which its key reads later, and offers some to completions.
#[derive(Clone)]
struct Offering(Vec<&'static str>);

impl TypedValueParser for Offering {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = self.0.iter().map(|text| PossibleValue::new(*text));
        (!self.0.is_empty()).then(|| Box::new(values) as Box<dyn Iterator<Item = PossibleValue>>)
    }
}

impl FromArgMatches for KeyOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<KeyOptions, clap::Error> {
        let mut options = KeyOptions::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.take(matches, rows());
        Ok(())
    }
}

impl KeyOptions {
    /// Values that these options give.
    fn take(
        &mut self,
        matches: &ArgMatches,
        rows: impl Iterator<Item = (&'static KeyRow, &'static KeyOption)>,
    ) {
        for (row, option) in rows {
            let given: Vec<String> = match option.form {
                OptionForm::Switch(value) if matches.get_flag(option.long) => vec![value.to_string()],
                OptionForm::Switch(_) => continue,
                _ => matches.get_many(option.long).into_iter().flatten().cloned().collect(),
            };
            if !given.is_empty() {
                self.given.insert(row.name, given);
            }
        }
    }
}

impl Args for KeyOptions {
    fn augment_args(command: Command) -> Command {
        command.args(rows().map(|(row, option)| arg(row, option)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        KeyOptions::augment_args(command)
    }
}

/// The same for both sides of a comparison: one value each, and none with results that exist.
#[derive(Debug, Clone, Default)]
pub(crate) struct OptionsOfBoth(pub(crate) KeyOptions);

impl FromArgMatches for OptionsOfBoth {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OptionsOfBoth, clap::Error> {
        let mut options = OptionsOfBoth::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        // `compare` has an option of its own by the name of one that is not among them.
        self.0.take(matches, rows().filter(|(_, option)| option.help_of_both.is_some()));
        Ok(())
    }
}

impl Args for OptionsOfBoth {
    fn augment_args(command: Command) -> Command {
        let of_both = |(row, option): (&'static KeyRow, &'static KeyOption)| {
            let arg = arg(row, option).help(option.help_of_both?).conflicts_with("results");
            let Some(single) = option.value_name.strip_suffix(",...") else { return Some(arg) };
            Some(arg.value_name(single).value_delimiter(None).action(ArgAction::Set))
        };
        command.args(rows().filter_map(of_both))
    }

    fn augment_args_for_update(command: Command) -> Command {
        OptionsOfBoth::augment_args(command)
    }
}

/// Names of options after which others stand in the help of a command.
pub(crate) type Places = &'static [(&'static str, &'static [&'static str])];

/// Where options of keys stand in the help of `run`; others come after them.
pub(crate) const OF_RUN: Places = &[
    ("bin_dir", &["clients", "measure", "ramp-up", "threads"]),
    (
        "host",
        &[
            "repeats",
            "precision",
            "scale",
            "schema",
            "max-tries",
            "on-disconnect",
            "no-restore",
            "protocol",
            "workload",
        ],
    ),
    ("defines", &["pace"]),
    ("set", &["calibrate", "perf"]),
];

/// The same for `compare`.
pub(crate) const OF_COMPARE: Places = &[
    ("allow_commands", &["clients", "scale", "schema", "workload"]),
    ("scripts", &["threads"]),
    ("host", &["max-tries", "on-disconnect", "no-restore", "protocol"]),
    ("defines", &["pace", "calibrate", "measure", "ramp-up", "perf"]),
];

/// Room for the options of one place.
const STEP: usize = 16;

/// Puts each option of a command where its help has it.
pub(crate) fn in_order(places: Places) -> impl FnMut(Arg) -> Arg {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    move |arg| {
        let place = places.iter().find_map(|(after, names)| {
            let n = names.iter().position(|name| arg.get_id() == *name)?;
            Some(known.get(*after)? + n + 1)
        });
        let order = place.unwrap_or_else(|| {
            let order = known.len() * STEP;
            known.insert(arg.get_id().to_string(), order);
            order
        });
        arg.display_order(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_changes_of_their_keys() {
        let line = "run -c 1,8 --measure 30s --perf --no-restore --repeats 5 -s fit,10 --precision 2.5";
        let command = KeyOptions::augment_args(Command::new("run"));
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        let options = KeyOptions::from_arg_matches(&matches).unwrap();
        let options = options.or(keys::run::MEASURE, Some("1s".to_string()));
        let changes = options.overrides().map(|change| format!("{change:?}")).collect::<Vec<_>>().join("\n");
        let expected = [
            ("experiment.repeats", "Integer(5)", "--repeats 5"),
            ("workload.scale", "Array([String(\"fit\"), String(\"10\")])", "--scale fit,10"),
            ("workload.clients", "Array([Integer(1), Integer(8)])", "--clients"),
            ("run.measure", "String(\"30s\")", "--measure 30s"),
            ("run.precision", "String(\"2.5%\")", "--precision 2.5%"),
            ("run.perf", "Boolean(true)", "--perf"),
            ("prepare.restore", "Boolean(false)", "--no-restore"),
        ];
        let expected = expected.map(|(key, value, origin)| {
            format!("Override {{ key: \"{key}\", value: {value}, origin: \"{origin}\" }}")
        });
        assert_eq!(changes, expected.join("\n"));
        assert!(options.has(keys::run::PERF) && !options.has(keys::run::CALIBRATE));
        assert_eq!(options.texts(keys::workload::SCALE), ["fit", "10"]);
    }

    #[test]
    fn an_option_of_compare_by_the_name_of_a_key_is_its_own() {
        let own = Arg::new("precision").long("precision").value_parser(clap::value_parser!(f64));
        let command = Command::new("compare").arg(Arg::new("results")).arg(own);
        let words = ["compare", "--precision", "0.5", "--clients", "4"];
        let matches = OptionsOfBoth::augment_args(command).try_get_matches_from(words).unwrap();
        let options = OptionsOfBoth::from_arg_matches(&matches).unwrap().0;
        assert!(options.has(keys::workload::CLIENTS) && !options.has(keys::run::PRECISION));
    }

    #[test]
    fn completions_offer_the_words_of_the_rows() {
        let command = KeyOptions::augment_args(Command::new("run"));
        let offered = |command: &Command, name: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name)).unwrap();
            let values = arg.get_possible_values();
            values.iter().map(|value| value.get_name().to_string()).collect::<Vec<String>>()
        };
        assert_eq!(offered(&command, "protocol"), ["simple", "extended", "prepared"]);
        assert_eq!(offered(&command, "ramp-up"), ["auto"]);
        assert_eq!(offered(&command, "measure"), Vec::<String>::new());
        let help = command.clone().render_long_help().to_string();
        assert_eq!(offered(&command, "replay"), ["modelled", "trace"]);
        assert_eq!(help.matches("possible values").count(), 2, "{help}");

        let command = Command::new("run").arg(Arg::new("set").long("set").value_parser(assignments()));
        let all = offered(&command, "set");
        for expected in ["run.measure=", "workload.protocol=simple", "run.perf=true", "server.settings."] {
            assert!(all.iter().any(|one| one == expected), "{expected}: {all:?}");
        }
        for row in keys::all().filter(|row| row.parts().is_some()) {
            let start = row.name.trim_end_matches(NAME);
            assert!(all.iter().any(|one| one.starts_with(start)), "{start}");
        }
        let other = command.try_get_matches_from(["run", "--set", "run.measure=5s"]).unwrap();
        assert_eq!(other.get_one::<String>("set").unwrap(), "run.measure=5s");
    }

    #[test]
    fn a_number_is_within_the_bounds_of_its_row() {
        let command = || OptionsOfBoth::augment_args(Command::new("compare").arg(Arg::new("results")));
        let refused = |line: &str| command().try_get_matches_from(line.split(' ')).unwrap_err().to_string();
        assert!(refused("compare --clients 0").contains("0 is not in 1..100000"));
        assert!(refused("compare --threads x").contains("(example: --threads 1,4)"));
        assert!(refused("compare --precision 200").contains("unexpected argument"));
        let run = || KeyOptions::augment_args(Command::new("run"));
        let error = run().try_get_matches_from(["run", "--precision", "200"]).unwrap_err().to_string();
        assert!(error.contains("`200%` is not a share above 0"), "{error}");
        assert!(refused("compare --repeats 3").contains("unexpected argument"));
    }
}
