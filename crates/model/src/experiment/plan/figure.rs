//! Figures of a study: what each is drawn from, so that a smaller experiment still has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::selector::Selector;

/// `[[figure]]`: a figure or table of the study. `--fit` keeps what the first ones need before what the later ones need.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSection {
    /// What it shows, in the study's words.
    pub name: String,
    /// The levels at which it is drawn, as in a selector; without them, all.
    #[serde(default, skip_serializing_if = "is_everywhere")]
    pub at: Selector,
    /// How many levels it needs of a factor, a label of the targets, or `repeats`, at the least.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub needs: BTreeMap<String, Need>,
    /// Labels of targets: what it needs of other labels, it needs of the targets with each value of these. Two regions of one cloud are
    /// not a region each of two clouds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<String>,
    /// Metrics that it is drawn from, of those that not every machine has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
}

/// Levels that a figure needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Need {
    /// At least this many.
    Least(u32),
    /// Each of them: the sides of a comparison.
    All,
    /// Four numbers of clients, one of which lies beyond the peak.
    Curve,
}

/// Levels that a curve with a peak needs: two before it, the peak, and one after it.
pub const CURVE_LEVELS: usize = 4;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u32),
    Word(String),
}

impl TryFrom<Written> for Need {
    type Error = String;

    fn try_from(written: Written) -> Result<Need, String> {
        match written {
            Written::Number(n) if n > 0 => Ok(Need::Least(n)),
            Written::Number(n) => Err(format!("{n} levels are none; give a number from 1, `all` or `curve`")),
            Written::Word(word) => match word.as_str() {
                "all" => Ok(Need::All),
                "curve" => Ok(Need::Curve),
                _ => Err(format!("`{word}` is no need of a figure; give a number, `all` or `curve`")),
            },
        }
    }
}

impl From<Need> for Written {
    fn from(need: Need) -> Written {
        match need {
            Need::Least(n) => Written::Number(n),
            Need::All => Written::Word("all".to_string()),
            Need::Curve => Written::Word("curve".to_string()),
        }
    }
}

impl Need {
    /// How many of `n_all` levels that is.
    pub fn of(self, n_all: usize) -> usize {
        match self {
            Need::Least(n) => n_all.min(n as usize),
            Need::All => n_all,
            Need::Curve => n_all.min(CURVE_LEVELS),
        }
    }
}

fn is_everywhere(at: &Selector) -> bool {
    at.levels.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_numbers_or_words_and_stay_what_they_were() {
        let parse =
            |text: &str| serde_json::from_str::<FigureSection>(text).map_err(|error| error.to_string());
        let text =
            r#"{"name":"a","at":{"clients":"64"},"needs":{"clients":"curve","repeats":5,"version":"all"}}"#;
        let figure = parse(text).unwrap();
        assert_eq!(serde_json::to_string(&figure).unwrap(), text);
        let of = |key: &str, n_all| figure.needs[key].of(n_all);
        assert_eq!((of("clients", 7), of("clients", 3), of("repeats", 9), of("version", 9)), (4, 3, 5, 9));
        for (wrong, reason) in [("0", "0 levels are none"), ("\"most\"", "`most` is no need of a figure")] {
            let error = parse(&format!(r#"{{"name":"a","needs":{{"clients":{wrong}}}}}"#)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
