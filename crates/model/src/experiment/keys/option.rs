//! The option of the command line that gives a key.

/// An option that gives a key of the experiment file.
#[derive(Debug, Clone, Copy)]
pub struct KeyOption {
    /// Its name: `measure` of `--measure`.
    pub long: &'static str,
    /// The letter, if there is one.
    pub short: Option<char>,
    /// What its help calls the value: `TIME`; of one that takes several, `N,...`.
    pub value_name: &'static str,
    /// Its help, as a sentence without the period.
    pub help: &'static str,
    /// Its help where both sides of a comparison have the value; `None` if they cannot.
    pub help_of_both: Option<&'static str>,
    /// How its value is written.
    pub form: OptionForm,
}

/// How the value of an option is written.
#[derive(Debug, Clone, Copy)]
pub enum OptionForm {
    /// A switch, which gives this value.
    Switch(bool),
    /// Text, as in the file.
    Text,
    /// The same; with a sign in front of it, it is refused in the words of the key.
    Quantity,
    /// A share; a number of one and more is one in per cent.
    Share,
    /// Whole numbers within the bounds of the key, such as these.
    Number(&'static str),
}

impl KeyOption {
    /// An option with text.
    pub(super) const fn text(long: &'static str, value_name: &'static str, help: &'static str) -> KeyOption {
        KeyOption { long, short: None, value_name, help, help_of_both: Some(help), form: OptionForm::Text }
    }

    /// An option with a quantity.
    pub(super) const fn quantity(
        long: &'static str,
        value_name: &'static str,
        help: &'static str,
    ) -> KeyOption {
        KeyOption { form: OptionForm::Quantity, ..KeyOption::text(long, value_name, help) }
    }

    /// An option with a share.
    pub(super) const fn share(long: &'static str, help: &'static str) -> KeyOption {
        KeyOption { form: OptionForm::Share, ..KeyOption::text(long, "PERCENT", help) }
    }

    /// An option with a number, such as `example`, or with several.
    pub(super) const fn number(
        long: &'static str,
        value_name: &'static str,
        example: &'static str,
        help: &'static str,
    ) -> KeyOption {
        KeyOption { form: OptionForm::Number(example), ..KeyOption::text(long, value_name, help) }
    }

    /// An option without a value, which gives `value`.
    pub(super) const fn switch(long: &'static str, value: bool, help: &'static str) -> KeyOption {
        KeyOption { form: OptionForm::Switch(value), ..KeyOption::text(long, "", help) }
    }

    /// The same with a letter.
    pub(super) const fn short(self, letter: char) -> KeyOption {
        KeyOption { short: Some(letter), ..self }
    }

    /// The same with another help for both sides of a comparison.
    pub(super) const fn both(self, help: &'static str) -> KeyOption {
        KeyOption { help_of_both: Some(help), ..self }
    }

    /// The same, but not for comparisons.
    pub(super) const fn not_of_both(self) -> KeyOption {
        KeyOption { help_of_both: None, ..self }
    }

    /// Whether it takes several values.
    pub fn takes_several(&self) -> bool {
        self.value_name.ends_with(",...")
    }
}
