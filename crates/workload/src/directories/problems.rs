//! What is wrong with the scripts of a workload directory, and what a directory may ask for that does not exist yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use generator::{Instance, Manifest, Problem};

use crate::directories::classes::Classes;
use crate::emulator::bundle::Bundle;
use crate::script::assignment::{self, Columns};
use crate::script::program::{Program, ScriptError};
use crate::script::variables::VariableId;

/// The problems of a directory's scripts: what does not compile, variables that nothing sets, and what no session can have.
/// `defines` has the variables of every client, options included.
pub fn problems(instance: &Arc<Instance>, defines: &BTreeMap<String, String>) -> Vec<Problem> {
    let mut found: Vec<Problem> = of_classes(instance).into_iter().collect();
    for transaction in instance.transactions() {
        let script = [(transaction.name.as_str(), transaction.source.as_str(), 1)];
        match Bundle::compile_directory(&script, defines, instance) {
            Ok(bundle) => found.extend(of_variables(&bundle.programs[0], defines)),
            Err(error) => found.push(of_script(&transaction.name, &error)),
        }
    }
    found
}

/// A place in a transaction's file.
fn problem(name: &str, line: usize, message: String) -> Problem {
    Problem { line, ..Problem::whole(&format!("transactions/{name}.sql"), message) }
}

fn of_script(name: &str, error: &ScriptError) -> Problem {
    // The message begins with the place, which the problem has.
    let place = format!("{name}:{}: ", error.line);
    let message = error.message.strip_prefix(&place).unwrap_or(&error.message);
    let source_line = error.source_line.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
    Problem {
        column: error.column.unwrap_or(0),
        source_line: source_line.to_owned(),
        width: usize::from(error.column.is_some()),
        ..problem(name, error.line, message.to_owned())
    }
}

fn of_variables(program: &Program, defines: &BTreeMap<String, String>) -> Vec<Problem> {
    let automatic = ["client_id", "scale", "random_seed", "default_seed"];
    let names = defines.keys().map(String::as_str).chain(automatic);
    let given: Vec<VariableId> = names.filter_map(|name| program.variables.find(name)).collect();
    // Only the server knows the columns.
    let columns = vec![Columns::Unknown; program.statements.len()];
    let unset = assignment::unset_uses(program, &given, &columns).into_iter().map(|found| {
        let name = program.variables.name(found.variable);
        let line = program.commands[found.command].line;
        let message = format!("`:{name}` is neither a parameter nor an option, and nothing has set it here");
        problem(&program.name, line, message)
    });
    unset.collect()
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
