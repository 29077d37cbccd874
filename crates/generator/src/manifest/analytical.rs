//! What analytical workloads have and others do not: passes through an order, plans and answers.

use std::collections::BTreeSet;

use crate::directory::Directory;
use crate::manifest::reader::ManifestReader;
use crate::manifest::sessions::{CountOrOption, Variant};
use crate::manifest::transactions::DeclaredTransaction;
use crate::manifest::{Manifest, OptionValue};

/// Stands for the scale in the name of a file with answers.
const SCALE: &str = "{scale}";

impl DeclaredTransaction {
    /// The file with the expected rows at a scale, if answers are compared.
    pub fn answer_file(&self, scale: u32) -> Option<String> {
        self.check_answer.as_ref().map(|name| name.replace(SCALE, &scale.to_string()))
    }
}

/// Finds keys that only analytical workloads have, and options that passes name and that are no numbers of passes.
pub(super) fn check(manifest: &Manifest, directory: &Directory, reader: &mut ManifestReader<'_>) {
    if manifest.defaults.is_analytical {
        if let Some(second) = manifest.sessions.get(1) {
            let message =
                "an analytical workload has one session class: each of its clients is a stream of queries";
            reader.problem(second.at.clone(), message);
        }
    } else {
        let of_warm = manifest.variants.iter().filter(|variant| variant.warm_passes.is_some());
        for variant in of_warm {
            reader.problem(variant.at.clone(), format!("`warm_passes` {}", only_analytical()));
        }
        for transaction in manifest.transactions.iter().filter(|one| one.check_answer.is_some()) {
            reader.problem(transaction.at.clone(), format!("`check_answer` {}", only_analytical()));
        }
        if manifest.defaults.explain || manifest.defaults.explain_option.is_some() {
            reader.problem(0..0, format!("`explain` {}", only_analytical()));
        }
    }
    for variant in &manifest.variants {
        options(manifest, variant, reader);
    }
    // What it should have been is reported with the value.
    if let Some(name) = manifest.defaults.explain_option.as_ref().filter(|name| !name.is_empty()) {
        let default = manifest.option(name).map(|option| &option.default);
        if !matches!(default, Some(OptionValue::Bool(_))) {
            reader.problem(0..0, format!("`explain` needs an option `{name}` that is true or false"));
        }
    }
    for transaction in &manifest.transactions {
        answers(transaction, directory, reader);
    }
}

fn only_analytical() -> &'static str {
    "is for workloads with `kind = \"analytical\"` in [defaults]"
}

fn options(manifest: &Manifest, variant: &Variant, reader: &mut ManifestReader<'_>) {
    for (key, passes, from) in [("passes", &variant.passes, 1), ("warm_passes", &variant.warm_passes, 0)] {
        let Some(name) = passes.as_ref().and_then(CountOrOption::option) else { continue };
        let bounds = manifest.option(name).map(|option| (&option.least, &option.most));
        let is_count = matches!(
            bounds,
            Some((Some(OptionValue::Int(least)), Some(OptionValue::Int(most)))) if *least >= from && *most <= 1_000_000
        );
        if !is_count {
            let message = format!(
                "`{key}` of `{}` needs an option `{name}` that is a whole number with `least` from {from} and `most` to 1000000",
                variant.name
            );
            reader.problem(variant.at.clone(), message);
        }
    }
}

fn answers(transaction: &DeclaredTransaction, directory: &Directory, reader: &mut ManifestReader<'_>) {
    let Some(name) = &transaction.check_answer else { return };
    if !name.starts_with("answers/") || !name.ends_with(".csv") {
        let message = format!(
            "`check_answer` is `{name}`; expected a file such as \"answers/{}.csv\"",
            transaction.name
        );
        return reader.problem(transaction.at.clone(), message);
    }
    if files(name, directory).is_empty() {
        let message = format!("the file `{name}` is missing, so answers are not compared");
        reader.warning(transaction.at.clone(), message);
    }
}

/// The files with answers that all transactions name.
pub(super) fn answer_files(manifest: &Manifest, directory: &Directory) -> BTreeSet<String> {
    let names = manifest.transactions.iter().filter_map(|one| one.check_answer.as_ref());
    names.flat_map(|name| files(name, directory)).collect()
}

/// The files that a name stands for: one, or one for each scale.
fn files(name: &str, directory: &Directory) -> Vec<String> {
    let Some((before, after)) = name.split_once(SCALE) else {
        return directory.file(name).map(|_| name.to_string()).into_iter().collect();
    };
    let is_scale = |file: &str| {
        let scale = file.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        scale.is_some_and(|scale| scale.parse::<u32>().is_ok())
    };
    directory.files().keys().filter(|file| is_scale(file)).cloned().collect()
}
