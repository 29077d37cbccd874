//! `pgdyno workload check`: all that is wrong with a workload directory, each with its place.

mod asked;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use experiment::plan::scripts::directories;
use generator::{Choice, Instance, Problem};
use model::text::prose::plural;

use crate::commands::data::workload::found::FoundDirectory;
use crate::front::cli::data::workloads::ProofArgs;
use crate::{Exit, print, print_exact};

/// All problems, and who was asked.
struct Proof {
    problems: Vec<Problem>,
    /// The directory, if its expressions could be resolved.
    instance: Option<Arc<Instance>>,
    /// What the server says, each with its place.
    of_server: Vec<String>,
    /// The server that was asked, or why none was.
    asked: String,
}

impl Proof {
    fn n_errors(&self) -> usize {
        self.of_server.len() + self.problems.iter().filter(|problem| !problem.is_warning).count()
    }
}

/// Checks the directory that `args` name.
pub(super) fn check(args: &ProofArgs) -> Result<Exit> {
    let found = FoundDirectory::read(&args.chosen)?;
    let mut proof = offline(&found, args)?;
    if let Some(instance) = proof.instance.clone()
        && !args.offline
    {
        if directories::is_for_existing_data(&instance) {
            // A server of our own has none of its tables.
            proof.asked = format!(
                "no server was asked: its data are elsewhere; `pgdyno plan -w {}` with that server or archive asks it",
                found.name
            );
        } else {
            (proof.of_server, proof.asked) = asked::problems(&found, &instance, args)?;
        }
    }
    let is_sound = proof.n_errors() == 0;
    if args.json {
        print_exact(&format!("{}\n", json(&found, &proof)))?;
    } else {
        print(&text(&found, &proof, args.chosen.scale))?;
    }
    Ok(if is_sound { Exit::Done } else { Exit::Failed })
}

/// What is wrong with a directory that was just written, in words; empty if nothing is.
///
/// # Errors
/// When it cannot be read, or is beyond the bounds of such directories.
pub(super) fn of_written(place: &str) -> Result<String> {
    let files = directories::directory_at(place, Path::new("")).map_err(anyhow::Error::msg)?;
    let choice = Choice { variant: None, options: BTreeMap::new(), scale: 1, data_seed: None };
    let mut problems = match Instance::new(&files, &choice) {
        Ok(instance) => directories::problems_of(&Arc::new(instance), 1),
        Err(problems) => problems,
    };
    problems.retain(|problem| !problem.is_warning);
    Ok(directories::words(place, &problems))
}

/// The part that needs no server.
fn offline(found: &FoundDirectory, args: &ProofArgs) -> Result<Proof> {
    let asked =
        if args.offline { "no server was asked: --offline" } else { "no server was asked yet" }.to_string();
    let proof = |problems, instance| Proof { problems, instance, of_server: Vec::new(), asked };
    let instance = match Instance::new(&found.files, &found.choice(&args.chosen)?) {
        Ok(instance) => Arc::new(instance),
        Err(problems) => return Ok(proof(problems, None)),
    };
    let mut problems = instance.warnings().to_vec();
    problems.extend(directories::problems_of(&instance, args.chosen.scale));
    Ok(proof(problems, Some(instance)))
}

fn text(found: &FoundDirectory, proof: &Proof, scale: u32) -> String {
    let mut out = String::new();
    for problem in
        [found.words(&proof.problems)].iter().filter(|words| !words.is_empty()).chain(&proof.of_server)
    {
        out.push_str(&format!("{problem}\n"));
    }
    let n_warnings = proof.problems.iter().filter(|problem| problem.is_warning).count();
    let mut verdict = match (proof.n_errors(), &proof.instance) {
        (0, Some(instance)) => {
            let counts = [
                plural(instance.tables().len(), "table"),
                plural(instance.transactions().len(), "transaction"),
                plural(instance.checks().len(), "check"),
            ];
            format!("sound at scale {scale}: {}", counts.join(", "))
        }
        (n, _) => plural(n, "problem"),
    };
    if n_warnings > 0 {
        verdict.push_str(&format!("; {}", plural(n_warnings, "warning")));
    }
    out.push_str(&format!("{}: {verdict} ({})\n", found.name, proof.asked));
    out
}

fn json(found: &FoundDirectory, proof: &Proof) -> serde_json::Value {
    let of_server =
        proof.of_server.iter().map(|message| serde_json::json!({"message": message, "is_warning": false}));
    let problems: Vec<serde_json::Value> = proof
        .problems
        .iter()
        .map(|problem| {
            serde_json::json!({
                "file": problem.file, "line": problem.line, "column": problem.column,
                "message": problem.message, "is_warning": problem.is_warning,
            })
        })
        .chain(of_server)
        .collect();
    serde_json::json!({
        "workload": found.name.to_string(), "is_sound": proof.n_errors() == 0, "problems": problems, "server": proof.asked,
    })
}
