//! What only the whole shows: files that are missing, files that nothing names, and names that nothing has.

use std::collections::BTreeSet;

use crate::directory::{Directory, LISTS, MANIFEST};
use crate::draws::{loop_file, rows_file};
use crate::manifest::analytical;
use crate::manifest::captured::DeclaredData;
use crate::manifest::reader::ManifestReader;
use crate::manifest::sessions::{CLIENTS_MAX, Order, option_in_braces};
use crate::manifest::transactions::DeclaredTransaction;
use crate::manifest::{Manifest, OptionValue};
use crate::problem::{Problem, meant};

/// The first line of a script that has loops.
const EXTENDED: &str = "-- pgdyno: extended";
/// Most refused commands of a script that are listed.
const REFUSED_MAX: usize = 100;
/// Commands that run something on the client's machine.
const SHELL: [&str; 2] = ["shell", "setshell"];

pub(super) fn check(manifest: &Manifest, directory: &Directory, reader: &mut ManifestReader<'_>) {
    names_of_transactions(manifest, reader);
    parents(manifest, reader);
    parameters(manifest, reader);
    data_that_is_there(manifest, reader);
    replaced(manifest, reader);
    measures(manifest, reader);
    options_of_sessions(manifest, reader);
    analytical::check(manifest, directory, reader);
    files_that_are_missing(manifest, directory, reader);
    files_that_nothing_names(manifest, directory, reader);
    for transaction in &manifest.transactions {
        let file = script_file(&transaction.name);
        if let Some(text) = directory.file(&file) {
            reader.problems.extend(refused_commands(&file, text));
        }
    }
}

/// The file of a transaction.
pub(crate) fn script_file(transaction: &str) -> String {
    format!("transactions/{transaction}.sql")
}

/// The file of a check.
pub(crate) fn check_file(check: &str) -> String {
    format!("checks/{check}.sql")
}

/// Weights and orders name transactions.
fn names_of_transactions(manifest: &Manifest, reader: &mut ManifestReader<'_>) {
    let known: Vec<&str> = manifest.transactions.iter().map(|one| one.name.as_str()).collect();
    let of_variants = manifest.variants.iter().map(|one| (&one.name, &one.at, &one.weights, &one.order));
    let of_sessions = manifest.sessions.iter().map(|one| (&one.name, &one.at, &one.weights, &one.order));
    for (owner, at, weights, order) in of_variants.chain(of_sessions) {
        let ordered = match order {
            Some(Order::Fixed(names)) => names.as_slice(),
            _ => &[],
        };
        if order.is_some() && ordered.is_empty() && *order != Some(Order::Permuted) {
            reader.problem(at.clone(), format!("the order of `{owner}` is empty"));
        }
        let weighed = weights.iter().flatten().map(|(name, _)| name);
        for name in weighed.chain(ordered).filter(|name| !known.contains(&name.as_str())) {
            if reader.is_full() {
                return;
            }
            let hint = meant(name, known.iter().copied());
            reader.problem(
                at.clone(),
                format!("`{owner}` names transaction `{name}`, which there is not{hint}"),
            );
        }
    }
}

/// A table with `each` comes after its parent.
fn parents(manifest: &Manifest, reader: &mut ManifestReader<'_>) {
    let mut before: Vec<&str> = Vec::new();
    for table in &manifest.tables {
        if let super::tables::TableSize::Each { parent, parent_at, .. } = &table.size
            && !before.contains(&parent.as_str())
        {
            let is_later = manifest.tables.iter().any(|other| other.name == *parent);
            let why = if is_later {
                format!("`{parent}` must stand before `{}`, which has rows for each of its rows", table.name)
            } else {
                format!("there is no table `{parent}`{}", meant(parent, before.iter().copied()))
            };
            reader.problem(parent_at.clone(), why);
        }
        if !table.name.contains('{') {
            before.push(&table.name);
        }
    }
}

/// A variant replaces a `let` that exists.
fn replaced(manifest: &Manifest, reader: &mut ManifestReader<'_>) {
    let known: Vec<&str> = manifest.lets.iter().map(|one| one.name.as_str()).collect();
    for one in manifest.variants.iter().flat_map(|variant| &variant.lets) {
        if reader.is_full() {
            return;
        }
        if !known.contains(&one.name.as_str()) {
            let hint = meant(&one.name, known.iter().copied());
            let message = format!("[let] has no `{}` that the variant could replace{hint}", one.name);
            reader.problem(one.name_at.clone(), message);
        }
    }
    for one in manifest.lets.iter().filter(|one| one.name.contains('{')) {
        reader.problem(one.name_at.clone(), "a named expression has no braces");
    }
    for one in manifest.lets.iter().filter(|one| manifest.option(&one.name).is_some()) {
        reader.problem(one.name_at.clone(), format!("`{}` is an option, too", one.name));
    }
}

/// Scripts see parameters and options as variables, and a client keeps its variables from one transaction to the next.
fn parameters(manifest: &Manifest, reader: &mut ManifestReader<'_>) {
    for transaction in &manifest.transactions {
        let of_rounds = transaction.each.iter().flat_map(|each| &each.params);
        for one in transaction.params.iter().chain(of_rounds) {
            if reader.is_full() {
                return;
            }
            if manifest.option(&one.name).is_some() {
                let message = format!("`{}` is an option, too; give the parameter another name", one.name);
                reader.problem(one.name_at.clone(), message);
            }
        }
    }
}

/// A measure divides facts.
fn measures(manifest: &Manifest, reader: &mut ManifestReader<'_>) {
    let facts = manifest.transactions.iter().flat_map(|one| &one.facts);
    let known: BTreeSet<&str> = facts.map(|fact| fact.name.as_str()).collect();
    for measure in &manifest.measures {
        for fact in [&measure.numerator, &measure.denominator] {
            if !known.contains(fact.as_str()) {
                let hint = meant(fact, known.iter().copied());
                let message = format!("no transaction has a fact `{fact}`{hint}");
                reader.problem(measure.at.clone(), message);
            }
        }
    }
}

/// Settings and numbers of clients of a class stand for options that exist.
fn options_of_sessions(manifest: &Manifest, reader: &mut ManifestReader<'_>) {
    for session in &manifest.sessions {
        if let Some(name) = session.clients_option.as_ref().filter(|name| !name.is_empty()) {
            let bounds = manifest.option(name).map(|option| (&option.least, &option.most));
            let counts = |least: i64, most: i64| least >= 0 && most <= CLIENTS_MAX;
            let is_count = matches!(
                bounds,
                Some((Some(OptionValue::Int(least)), Some(OptionValue::Int(most)))) if counts(*least, *most)
            );
            if !is_count {
                let message = format!(
                    "`clients` of `{}` needs an option `{name}` that is a whole number with `least` from 0 and `most` to {CLIENTS_MAX}",
                    session.name
                );
                reader.problem(session.at.clone(), message);
            }
        }
        for name in session.settings.iter().filter_map(|(_, text)| option_in_braces(text)) {
            if manifest.option(name).is_none() && !reader.is_full() {
                let hint = meant(name, manifest.options.iter().map(|option| option.name.as_str()));
                let message = format!(
                    "a setting of `{}` names option `{name}`, which there is not{hint}",
                    session.name
                );
                reader.problem(session.at.clone(), message);
            }
        }
    }
}

fn files_that_are_missing(manifest: &Manifest, directory: &Directory, reader: &mut ManifestReader<'_>) {
    let scripts = manifest.transactions.iter().map(|one| (script_file(&one.name), &one.name, &one.at));
    let checks = manifest.checks.iter().map(|one| (check_file(&one.name), &one.name, &one.at));
    for (file, name, at) in scripts.chain(checks) {
        if !name.is_empty() && directory.file(&file).is_none() {
            reader.problem(at.clone(), format!("the file `{file}` is missing"));
        }
    }
    for draws in manifest.transactions.iter().filter_map(|one| one.draws.as_ref()) {
        let file = rows_file(&draws.name);
        if directory.file(&file).is_none() {
            reader.problem(draws.at.clone(), format!("the file `{file}` is missing"));
        }
    }
    let at = match &manifest.data {
        DeclaredData::Tables => manifest.tables.first().map(|table| &table.name_at),
        DeclaredData::Native { at, .. } => Some(at),
        DeclaredData::Existing | DeclaredData::RestoredFrom { .. } => None,
    };
    if let Some(at) = at
        && directory.file("schema.sql").is_none()
    {
        reader.problem(at.clone(), "the file `schema.sql` is missing, which creates the tables");
    }
}

/// The files of captured rows that a transaction may have.
fn files_of_draws(transaction: &DeclaredTransaction) -> Vec<String> {
    let Some(draws) = &transaction.draws else { return Vec::new() };
    let of_loops = transaction.each.iter().map(|each| loop_file(&draws.name, &each.name));
    of_loops.chain([rows_file(&draws.name)]).collect()
}

/// Rows that are there, or that a library makes, are not made by expressions.
fn data_that_is_there(manifest: &Manifest, reader: &mut ManifestReader<'_>) {
    if let DeclaredData::Native { data, .. } = &manifest.data
        && let Some(table) = manifest.tables.first()
    {
        let message = format!("`data = \"{}\"` makes all tables; take [[table]] out, or `data`", data.name());
        return reader.problem(table.name_at.clone(), message);
    }
    if !manifest.data.is_there() {
        return;
    }
    for table in &manifest.tables {
        let made = table.columns.iter().chain(&table.hidden).next();
        if let Some(made) = made {
            let message = format!("`{}` makes no rows, because `data` says that they are there", table.name);
            reader.problem(made.name_at.clone(), message);
        }
    }
}

fn files_that_nothing_names(manifest: &Manifest, directory: &Directory, reader: &mut ManifestReader<'_>) {
    let scripts = manifest.transactions.iter().map(|one| script_file(&one.name));
    let checks = manifest.checks.iter().map(|one| check_file(&one.name));
    let answers = analytical::answer_files(manifest, directory);
    let draws = manifest.transactions.iter().flat_map(files_of_draws);
    let named: BTreeSet<String> = scripts.chain(checks).chain(answers).chain(draws).collect();
    for file in directory.files().keys().filter(|file| !named.contains(*file)) {
        match file.split_once('/') {
            Some(("transactions", _)) => {
                reader.push(Problem::whole(
                    file,
                    "no [[transaction]] has this name; add one, or remove the file",
                ));
            }
            Some(("checks", _)) => {
                reader.push(Problem::whole(file, "no [[check]] has this name; add one, or remove the file"));
            }
            None if [MANIFEST, "schema.sql", "after.sql"].contains(&file.as_str()) => {}
            // What people read.
            None if !file.ends_with(".sql") => {}
            _ if file.starts_with(LISTS) => {}
            _ => reader.push(Problem::whole(file, "nothing names this file").into_warning()),
        }
    }
}

/// Commands that scripts of directories do not have.
fn refused_commands(file: &str, text: &str) -> Vec<Problem> {
    let is_extended = text.lines().next().is_some_and(|line| line.trim_end() == EXTENDED);
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let command = line.trim_start();
        let at = start + line.len() - command.len();
        start += line.len();
        let Some(name) = command.strip_prefix('\\') else { continue };
        if found.len() >= REFUSED_MAX {
            break;
        }
        let name: String = name.chars().take_while(char::is_ascii_alphanumeric).collect();
        let range = at..at + 1 + name.len();
        if SHELL.contains(&name.as_str()) {
            let message =
                format!("`\\{name}` runs a command of the client's machine; a workload directory has none");
            found.push(Problem::at(file, text, range, message));
        } else if name == "repeat" && !is_extended {
            let message = format!("`\\repeat` is not pgbench's; begin the file with the line `{EXTENDED}`");
            found.push(Problem::at(file, text, range, message));
        }
    }
    found
}
