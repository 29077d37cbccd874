//! What a directory has but does not use: probably a mistake, never an error.

use std::collections::BTreeSet;

use crate::directory::{Directory, LISTS, MANIFEST};
use crate::instance::choice::Chosen;
use crate::instance::{identity, words};
use crate::manifest::Manifest;
use crate::manifest::braces::Braces;
use crate::manifest::cross::script_file;
use crate::manifest::sessions::option_in_braces;
use crate::manifest::tables::NamedText;
use crate::manifest::transactions::DeclaredTransaction;
use crate::problem::Problem;

/// Named expressions, options, parameters and lists that nothing mentions, and a scale that is not among the sensible ones.
pub(super) fn warnings(manifest: &Manifest, directory: &Directory, chosen: &Chosen) -> Vec<Problem> {
    let expressions = expressions(manifest);
    let names: BTreeSet<&str> = expressions.iter().copied().flat_map(words::names).collect();
    let mut found = Vec::new();
    let text = directory.manifest();
    let mut warn = |at: &std::ops::Range<usize>, message: String| {
        found.push(Problem::at(MANIFEST, text, at.clone(), message).into_warning());
    };
    for one in manifest.lets.iter().filter(|one| !names.contains(one.name.as_str())) {
        warn(&one.name_at, format!("nothing uses `{}`", one.name));
    }
    let variables: BTreeSet<&str> = directory
        .files()
        .iter()
        .filter(|(file, _)| file.starts_with("transactions/"))
        .flat_map(|(_, text)| words::variables(text))
        .collect();
    let settings = manifest.sessions.iter().flat_map(|session| &session.settings);
    let of_settings = settings.filter_map(|(_, text)| option_in_braces(text));
    let of_clients = manifest.sessions.iter().filter_map(|session| session.clients_option.as_deref());
    let passes = manifest.variants.iter().flat_map(|variant| [&variant.passes, &variant.warm_passes]);
    let of_passes = passes.flatten().filter_map(|passes| passes.option());
    let of_explain = manifest.defaults.explain_option.as_deref();
    let settings: BTreeSet<&str> = of_settings.chain(of_clients).chain(of_passes).chain(of_explain).collect();
    for option in &manifest.options {
        let name = option.name.as_str();
        if !names.contains(name) && !variables.contains(name) && !settings.contains(name) {
            warn(&option.at, format!("nothing uses option `{}`", option.name));
        }
    }
    for transaction in &manifest.transactions {
        let script = directory.file(&script_file(&transaction.name)).unwrap_or_default();
        let used = words::variables(script);
        let sets = transaction.each.iter().map(|each| &each.params).chain([&transaction.params]);
        for params in sets {
            let others = params.iter().chain(&transaction.facts).flat_map(|one| words::names(&one.text));
            let used: BTreeSet<&str> = used.iter().copied().chain(others).collect();
            for one in params.iter().filter(|one| !stands_for_any(one, &used)) {
                warn(&one.name_at, format!("`{}` does not use `{}`", transaction.name, one.name));
            }
        }
    }
    let texts: BTreeSet<&str> = expressions.iter().copied().flat_map(words::texts).collect();
    let lists = directory.files().keys().filter(|file| file.starts_with(LISTS));
    found.extend(
        lists
            .filter(|file| !texts.contains(file.as_str()))
            .map(|file| Problem::whole(file, "nothing uses this list").into_warning()),
    );
    let scale = f64::from(chosen.scale);
    if !manifest.scales.is_empty() && !manifest.scales.contains(&scale) {
        let known: Vec<String> = manifest.scales.iter().map(f64::to_string).collect();
        let message =
            format!("scale {scale} is not among those that the workload names: {}", known.join(", "));
        found.push(Problem::whole(MANIFEST, message).into_warning());
    }
    found
}

/// Whether any of the names that one with braces stands for is used.
fn stands_for_any(one: &NamedText, used: &BTreeSet<&str>) -> bool {
    match Braces::from_name(&one.name) {
        Ok(Some(braces)) => used.iter().any(|name| {
            let number = name.strip_prefix(braces.prefix).and_then(|rest| rest.strip_suffix(braces.suffix));
            number.is_some_and(|number| number.parse::<u64>().is_ok())
        }),
        _ => used.contains(one.name.as_str()),
    }
}

/// All expressions of the file, those of all variants included.
fn expressions(manifest: &Manifest) -> Vec<&str> {
    let of_tables = manifest.tables.iter().flat_map(identity::texts_of);
    let of_lets = manifest.lets.iter().chain(manifest.variants.iter().flat_map(|variant| &variant.lets));
    let of_transactions = manifest.transactions.iter().flat_map(params_of);
    let named = of_lets.chain(of_transactions).flat_map(|one| [one.name_braces(), one.text.as_str()]);
    of_tables.chain(named).collect()
}

fn params_of(one: &DeclaredTransaction) -> Vec<&NamedText> {
    one.params.iter().chain(one.each.iter().flat_map(|each| &each.params)).chain(&one.facts).collect()
}

impl NamedText {
    /// The part of the name that is an expression.
    fn name_braces(&self) -> &str {
        self.name.find('{').map_or("", |at| &self.name[at..])
    }
}
