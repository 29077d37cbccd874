//! What a user chooses of a directory: the variant and values of options, as texts until here.

use std::collections::BTreeMap;

use crate::directory::MANIFEST;
use crate::manifest::{Manifest, OptionSpec, OptionValue};
use crate::problem::{Problem, meant};

/// The seed of data unless one is given.
const DATA_SEED: u64 = 1;

/// A choice of what a directory offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The variant; none: the first.
    pub variant: Option<String>,
    /// Values of options as texts; others have their default.
    pub options: BTreeMap<String, String>,
    /// The scale, at least 1.
    pub scale: u32,
    /// The seed of the data; none: that of all who give none.
    pub data_seed: Option<u64>,
}

/// A choice with types.
pub(super) struct Chosen {
    /// Index of the variant, if there are variants.
    pub(super) variant: Option<usize>,
    pub(super) options: BTreeMap<String, OptionValue>,
    pub(super) scale: u32,
    pub(super) data_seed: u64,
}

impl Chosen {
    /// The meaning of `choice`.
    ///
    /// # Errors
    /// A variant or an option that there is not, and values that options cannot have.
    pub(super) fn new(manifest: &Manifest, choice: &Choice) -> Result<Chosen, Vec<Problem>> {
        let mut problems = Vec::new();
        let variant = match &choice.variant {
            None => (!manifest.variants.is_empty()).then_some(0),
            Some(name) => {
                let found = manifest.variants.iter().position(|variant| variant.name == *name);
                if found.is_none() {
                    let hint = meant(name, manifest.variants.iter().map(|variant| variant.name.as_str()));
                    problems.push(format!("there is no variant `{name}`{hint}"));
                }
                found
            }
        };
        let mut options = BTreeMap::new();
        for option in &manifest.options {
            let given = choice.options.get(&option.name);
            let value = given.map_or(Ok(option.default.clone()), |text| value_of(option, text));
            match value {
                Ok(value) => drop(options.insert(option.name.clone(), value)),
                Err(why) => problems.push(format!("option `{}`: {why}", option.name)),
            }
        }
        for name in choice.options.keys().filter(|name| manifest.option(name).is_none()) {
            let hint = meant(name, manifest.options.iter().map(|option| option.name.as_str()));
            problems.push(format!("there is no option `{name}`{hint}"));
        }
        if choice.scale == 0 {
            problems.push("the scale is at least 1".to_string());
        }
        if !problems.is_empty() {
            return Err(problems.into_iter().map(|why| Problem::whole(MANIFEST, why)).collect());
        }
        let data_seed = choice.data_seed.unwrap_or(DATA_SEED);
        Ok(Chosen { variant, options, scale: choice.scale, data_seed })
    }
}

/// The value that a text is for an option.
fn value_of(option: &OptionSpec, text: &str) -> Result<OptionValue, String> {
    let value = match option.default {
        OptionValue::Int(_) => text.parse().ok().map(OptionValue::Int),
        OptionValue::Float(_) => {
            text.parse().ok().filter(|value: &f64| value.is_finite()).map(OptionValue::Float)
        }
        OptionValue::Bool(_) => text.parse().ok().map(OptionValue::Bool),
        OptionValue::Text(_) => Some(OptionValue::Text(text.to_string())),
    };
    let value = value.ok_or_else(|| format!("`{text}` is not {}", option.default.kind()))?;
    option.refusal(&value).map_or(Ok(value), Err)
}
