//! What is wrong with the scripts of a workload directory, and what a directory may ask for that does not exist yet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use generator::{DirectoryTransaction, Instance, Manifest, Problem};
use model::text::nearest::nearest;

use crate::directories::classes::Classes;
use crate::emulator::bundle::Bundle;
use crate::script::assignment::{self, Columns};
use crate::script::program::{Program, ScriptCommand, ScriptError};
use crate::script::sqlfile::line_start;
use crate::script::variables::{VariableId, is_name_byte};

/// The problems of a directory's scripts: what does not compile, variables that nothing sets, and what no session can have.
/// `defines` has the variables of every client, options included.
pub fn problems(instance: &Arc<Instance>, defines: &BTreeMap<String, String>) -> Vec<Problem> {
    let mut found: Vec<Problem> = of_classes(instance).into_iter().collect();
    for transaction in instance.transactions() {
        match of_transaction(instance, transaction, defines) {
            Ok(bundle) => found.extend(of_variables(&bundle.programs[0], &transaction.source, defines)),
            Err(error) => found.push(of_script(transaction, &error)),
        }
    }
    found
}

/// One transaction of a directory, compiled alone.
///
/// # Errors
/// When its script does not compile.
pub fn of_transaction(
    instance: &Arc<Instance>,
    transaction: &DirectoryTransaction,
    defines: &BTreeMap<String, String>,
) -> Result<Bundle, ScriptError> {
    let script = [(transaction.name.as_str(), transaction.source.as_str(), 1)];
    Bundle::compile_directory(&script, defines, instance)
}

/// The file of a transaction's script.
pub fn script_file(transaction: &str) -> String {
    format!("transactions/{transaction}.sql")
}

fn of_script(transaction: &DirectoryTransaction, error: &ScriptError) -> Problem {
    let (name, source) = (&transaction.name, transaction.source.as_str());
    // The message begins with the place, which the problem has.
    let place = format!("{name}:{}: ", error.line);
    let message = error.message.strip_prefix(&place).unwrap_or(&error.message);
    if error.line == 0 {
        return Problem::whole(&script_file(name), message);
    }
    let start = line_start(source, error.line);
    let line = source[start..].lines().next().unwrap_or_default();
    let first = error.source_line.as_deref().and_then(|text| text.lines().next());
    let indent = first.and_then(|first| line.find(first)).unwrap_or(line.len() - line.trim_start().len());
    let at = start + indent + error.column.map_or(0, |column| column.saturating_sub(1));
    let end = if error.column.is_some() { at + 1 } else { start + line.trim_end().len() };
    Problem::at(&script_file(name), source, at..end, message)
}

/// Variables that every client has.
const AUTOMATIC: [&str; 4] = ["client_id", "scale", "random_seed", "default_seed"];

fn of_variables(program: &Program, source: &str, defines: &BTreeMap<String, String>) -> Vec<Problem> {
    let names = || defines.keys().map(String::as_str).chain(AUTOMATIC);
    let given: Vec<VariableId> = names().filter_map(|name| program.variables.find(name)).collect();
    // Only the server knows the columns.
    let columns = vec![Columns::Unknown; program.statements.len()];
    let declared = program.declared.iter().flat_map(|declared| declared.all());
    let of_steps = program.commands.iter().filter_map(|step| match &step.command {
        ScriptCommand::Set { variable, .. } => Some(*variable),
        _ => None,
    });
    let set = declared.map(|parameter| parameter.variable).chain(of_steps);
    let known: BTreeSet<&str> = set.map(|variable| program.variables.name(variable)).chain(names()).collect();
    let unset = assignment::unset_uses(program, &given, &columns).into_iter().map(|found| {
        let name = program.variables.name(found.variable);
        let hint = nearest(name, known.iter().copied().filter(|known| *known != name));
        let hint = hint.map_or(String::new(), |near| format!("; did you mean `:{near}`?"));
        let message =
            format!("`:{name}` is neither a parameter nor an option, and nothing has set it here{hint}");
        let start = line_start(source, program.commands[found.command].line);
        Problem::at(&script_file(&program.name), source, place_of(source, start, name), message)
    });
    unset.collect()
}

/// Where a script mentions a variable first, from a byte on.
fn place_of(source: &str, from: usize, name: &str) -> Range<usize> {
    let variable = format!(":{name}");
    let is_whole = |(at, _): &(usize, &str)| {
        let next = source[from + at + variable.len()..].bytes().next();
        let before = source[..from + at].bytes().next_back();
        before != Some(b':') && !next.is_some_and(is_name_byte)
    };
    let found = source[from..].match_indices(&variable).find(is_whole);
    found.map_or(from..from, |(at, _)| from + at..from + at + variable.len())
}

/// What a directory asks for and this release does not do, by name.
pub fn unsupported(manifest: &Manifest) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut say = |what: String| found.push(of_manifest(what));
    for session in &manifest.sessions {
        let name = &session.name;
        if session.pace_per_s.is_some() {
            let instead = "offer a rate to the whole load with run.pace";
            say(format!("session class `{name}`: `pace` is not supported; {instead}"));
        }
        if session.reconnect && manifest.sessions.len() > 1 {
            say(format!(
                "session class `{name}`: `reconnect` is not supported; it is a key of the whole load"
            ));
        }
    }
    if manifest.sessions.len() > 1 && manifest.variants.iter().any(|variant| variant.passes.is_some()) {
        say("`passes` is not supported where there are several session classes".to_owned());
    }
    let of_all = manifest.defaults.protocol.as_ref();
    for transaction in &manifest.transactions {
        if transaction.protocol.is_some() && transaction.protocol.as_ref() != of_all {
            let name = &transaction.name;
            let instead = "write it into [defaults], for all of them";
            say(format!("transaction `{name}`: `protocol` is not supported; {instead}"));
        }
    }
    found
}

/// What session classes ask for and no session can have.
fn of_classes(instance: &Instance) -> Option<Problem> {
    let transactions = instance.transactions().iter();
    let scripts: Vec<(&str, u32)> = transactions.map(|one| (one.name.as_str(), one.weight)).collect();
    // Whether there are as many clients as the classes need is asked when the number of clients is known.
    let named: u32 = instance.sessions().iter().filter_map(|session| session.clients).sum();
    let has_shares = instance.sessions().iter().any(|session| session.share.is_some());
    let n_clients = named + u32::from(has_shares);
    Classes::of_directory(instance, &scripts, n_clients).err().map(of_manifest)
}

fn of_manifest(message: String) -> Problem {
    Problem::whole("workload.toml", message)
}
