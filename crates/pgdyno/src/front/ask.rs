//! What a command does not do with a stored experiment before its user has consented: the only words that name an option of consent,
//! next to the whole list of what the option would allow. A terminal shows them as an error; a page gets the same as a structure.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

use model::secret;
use serde::{Deserialize, Serialize};

/// Below each list.
const UNSHOWN: &str = "What programs do, and what is in the files that they are given or find, is not shown: they are used as they are on \
     this machine.";

/// Hexadecimal digits of the number of a list: nobody finds two lists that have the same.
const NUMBER_DIGITS: usize = 32;

/// The option that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissingConsent {
    /// `--allow-commands`: to execute and use here what the experiment brings along.
    Commands,
    /// `--yes`: to measure for long.
    Size,
}

/// A consent that is missing. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) wanted: MissingConsent,
    /// Why it is asked for, in a sentence without the names of options.
    pub(crate) about: String,
    /// All that the consent would allow.
    pub(crate) list: Vec<ConsentLine>,
    /// The number of this list: [`number`].
    pub(crate) number: String,
}

/// A line of a list of what a consent allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConsentLine {
    /// What it is, and what it says; over several lines where a script has several.
    pub(crate) text: String,
    /// Options of the command line that make it unnecessary, in words; may be empty.
    pub(crate) instead: String,
}

impl Ask {
    /// Asks to execute and use what this list says.
    pub(crate) fn commands(about: String, list: Vec<ConsentLine>) -> Ask {
        let number = number(&list);
        Ask { wanted: MissingConsent::Commands, about, list, number }
    }

    /// Asks to measure for long.
    pub(crate) fn size(about: String) -> Ask {
        Ask { wanted: MissingConsent::Size, about, list: Vec::new(), number: number(&[]) }
    }

    /// Whether all of it is shown: whatever looks like a secret is hidden wherever it is printed, line by line, as a whole, and on a page.
    /// Whoever wrote a list might make a command look like one.
    pub(crate) fn is_shown_whole(&self) -> bool {
        let is_whole = |text: &str| secret::hide_text(text) == text;
        let mut texts = self.list.iter().map(|line| line.text.as_str());
        is_whole(&self.to_string())
            && is_whole(&self.page_text())
            && texts.all(|text| is_whole(text) && text.lines().all(is_whole))
    }

    /// Why it is asked for and the whole list, as a page shows them.
    pub(crate) fn page_text(&self) -> String {
        let texts = self.list.iter().map(|line| line.text.as_str());
        let unshown = if self.wanted == MissingConsent::Commands { Some(UNSHOWN) } else { None };
        [self.about.as_str()].into_iter().chain(texts).chain(unshown).collect::<Vec<_>>().join("\n")
    }
}

/// The number of a list: another list has another one.
pub(crate) fn number(list: &[ConsentLine]) -> String {
    // Each text with its length: lines that are divided differently are another list.
    let counted: String = list.iter().map(|line| format!("{}:{}", line.text.len(), line.text)).collect();
    let mut number = files::sha256_of(counted.as_bytes()).expect("bytes in memory can be read");
    number.truncate(NUMBER_DIGITS);
    number
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Ask { wanted, about, list, number } = self;
        match wanted {
            MissingConsent::Size => write!(f, "{about}; confirm with --yes"),
            MissingConsent::Commands => {
                writeln!(f, "{about}:")?;
                for ConsentLine { text, instead } in list {
                    // No line of a text begins where ours do.
                    writeln!(f, "  {}", text.replace('\n', "\n      "))?;
                    if !instead.is_empty() {
                        writeln!(f, "    ({instead})")?;
                    }
                }
                writeln!(f, "{UNSHOWN}")?;
                write!(
                    f,
                    "Nothing was executed. {} accepts all of this as it is, {} accepts exactly this list",
                    AllowedCommands::All.option(),
                    AllowedCommands::List(number.clone()).option()
                )
            }
        }
    }
}

impl Error for Ask {}

/// The value of `--allow-commands`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AllowedCommands {
    /// Whatever there is.
    All,
    /// The list with this number.
    List(String),
}

impl FromStr for AllowedCommands {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<AllowedCommands, Infallible> {
        Ok(if text.is_empty() { AllowedCommands::All } else { AllowedCommands::List(text.to_string()) })
    }
}

impl AllowedCommands {
    /// The option with this value.
    pub(crate) fn option(&self) -> String {
        match self {
            AllowedCommands::All => "--allow-commands".to_string(),
            AllowedCommands::List(number) => format!("--allow-commands={number}"),
        }
    }

    /// Whether this list is allowed.
    pub(crate) fn covers(&self, list: &[ConsentLine]) -> bool {
        match self {
            AllowedCommands::All => true,
            AllowedCommands::List(shown) => *shown == number(list),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<ConsentLine> {
        texts.iter().map(|text| ConsentLine { text: text.to_string(), instead: String::new() }).collect()
    }

    #[test]
    fn a_number_allows_exactly_the_list_that_was_shown() {
        let shown = lines(&["hooks: a", "hooks: b"]);
        let ask = Ask::commands("it would".to_string(), shown.clone());
        let allowed: AllowedCommands = ask.number.parse().unwrap();
        assert!(allowed.covers(&shown) && AllowedCommands::All.covers(&shown));
        for other in [
            &["hooks: a"][..],
            &["hooks: ahooks: b"],
            &["hooks: b", "hooks: a"],
            &["hooks: a", "hooks: b", "c"],
        ] {
            assert!(!allowed.covers(&lines(other)), "{other:?}");
        }
    }

    #[test]
    fn an_option_of_consent_stands_below_all_that_it_allows() {
        let text = Ask::commands("it would".to_string(), lines(&["hooks: a", "hooks: b"])).to_string();
        let option = text.find("--allow-commands").unwrap();
        assert!(text.find("hooks: b").unwrap() < option && !text[..option].contains("--"), "{text}");
        // The list has commands, and not what these call.
        assert!(text[..option].contains(UNSHOWN), "{text}");
        let ask = Ask::commands("it would".to_string(), lines(&["hooks: a"]));
        assert_eq!(ask.page_text(), format!("it would\nhooks: a\n{UNSHOWN}"));
        assert_eq!(Ask::size("it is long".to_string()).page_text(), "it is long");
    }
}
