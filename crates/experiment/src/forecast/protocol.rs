//! The protocol of loads for which nobody chose one: prepared statements, unless a pooler in front of the server loses them.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, ensure};
use dataset::session::limit;
use model::experiment::case::{Case, ServerSource};
use model::experiment::keys;
use model::experiment::plan::Plan;
use model::experiment::topology::pooler::{PoolerKind, PoolerSpec};
use model::load::Protocol;
use server::pooler::program::Pgbouncer;
use wire::Conninfo;

use crate::forecast::preflight::Failed;
use crate::site::{conninfo, phase_limit};
use crate::stage::adopted;
use crate::stage::pooler::own;

/// What was found out about the servers of a plan.
#[derive(Debug, Clone, Default)]
pub struct FellBack {
    /// What to say about the protocol, if it is another one than usual.
    pub note: Option<String>,
    /// Servers that could not be examined. They are not asked again: one that never answers would be waited for twice.
    pub failed: Vec<Failed>,
}

/// Gives the loads on servers behind such a pooler the extended protocol.
pub fn fall_back(plan: &mut Plan, servers: &[Conninfo], stop: &'static AtomicBool) -> FellBack {
    let mut seen: Vec<(ServerSource, bool)> = Vec::new();
    let mut places: Vec<String> = Vec::new();
    let mut failed: Vec<Failed> = Vec::new();
    for case in plan.cases.iter_mut().filter(|case| case.workload.protocol == Protocol::Prepared) {
        let source = &case.server.source;
        let ServerSource::Url(keywords) = source else { continue };
        let known = seen.iter().find(|(seen, _)| seen == source).map(|(_, loses)| *loses);
        let loses = known.unwrap_or_else(|| {
            let examined = conninfo(servers, keywords).and_then(|conninfo| {
                let look = || adopted::loses_prepared(&conninfo, stop);
                let loses = limit::within("examine the server", phase_limit::of_questions(case), look)?;
                places.extend(loses.then(|| format!("`{conninfo}`")));
                Ok(loses)
            });
            let loses = examined.unwrap_or_else(|error| {
                failed.push(Failed { source: source.clone(), reason: format!("{error:#}") });
                false
            });
            seen.push((source.clone(), loses));
            loses
        });
        if loses {
            case.workload.protocol = Protocol::Extended;
        }
    }
    FellBack { note: (!places.is_empty()).then(|| words(&places.join(", "))), failed }
}

/// Checks that the poolers of a plan can be started on this machine, and gives all loads the extended protocol if one of them loses
/// prepared statements, so that cases are compared over one protocol. Returns what to say about that.
///
/// # Errors
/// When a program is not there, or prepared statements were asked for through a pooler that loses them.
pub fn of_own_poolers(plan: &mut Plan, is_asked: bool) -> Result<Option<String>> {
    let mut why: Option<String> = None;
    let mut programs = Programs::default();
    for case in &plan.cases {
        let Some(spec) = PoolerSpec::from_case(case) else { continue };
        if let Some(reason) = losing(case, &spec, &mut programs)?
            && case.workload.protocol == Protocol::Prepared
        {
            ensure!(
                !is_asked,
                "{} = \"prepared\": {reason}, and prepared statements are lost between transactions; use --protocol simple or extended, \
                 {} = \"session\", or PgBouncer 1.21 or later",
                keys::workload::PROTOCOL,
                keys::pooler::MODE
            );
            why.get_or_insert(reason);
        }
    }
    let Some(reason) = why else { return Ok(None) };

    for case in &mut plan.cases {
        if case.workload.protocol == Protocol::Prepared {
            case.workload.protocol = Protocol::Extended;
        }
    }
    let of_all = if plan.cases.len() > 1 { " in all cases" } else { "" };
    Ok(Some(format!("Protocol: extended instead of prepared{of_all}, as nobody chose one: {reason}.")))
}

/// Programs that have said their release, each once, by what the case says of where it is.
#[derive(Default)]
struct Programs(Vec<(Option<PathBuf>, Pgbouncer)>);

impl Programs {
    fn find(&mut self, case: &Case) -> Result<Pgbouncer> {
        let given = case.get(keys::pooler::PROGRAM);
        if let Some((_, known)) = self.0.iter().find(|(path, _)| *path == given) {
            return Ok(known.clone());
        }
        let program = own::program(case)?;
        self.0.push((given, program.clone()));
        Ok(program)
    }
}

/// Why the pooler of a case loses statements that a client has prepared, if it does.
fn losing(case: &Case, spec: &PoolerSpec, programs: &mut Programs) -> Result<Option<String>> {
    const PREPARED: &str = "max_prepared_statements";
    if spec.kind == PoolerKind::Command {
        return Ok(spec.shares_sessions().then(|| {
            "the pooler that pooler.command starts need not keep prepared statements of clients that share connections".to_string()
        }));
    }
    let program = programs.find(case)?;
    if !spec.shares_sessions() {
        return Ok(None);
    }
    let settings = case.get(keys::pooler::SETTINGS);
    let is_off =
        settings.iter().any(|(name, value)| name.eq_ignore_ascii_case(PREPARED) && value.trim() == "0");
    if !program.can_keep_prepared() {
        return Ok(Some(format!("PgBouncer {} keeps none in {} mode", program.version, spec.mode)));
    }
    Ok((is_off || case.get(keys::pooler::CONFIG).is_some()).then(|| {
        format!("PgBouncer {} keeps none in {} mode without {PREPARED}", program.version, spec.mode)
    }))
}

fn words(places: &str) -> String {
    format!(
        "Protocol: extended instead of prepared, as nobody chose one: the pooler at {places} assigns server connections per transaction, \
         and prepared statements are lost between them."
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::plan::sample;

    #[test]
    fn a_program_says_its_release_once_for_all_cases() {
        let place = tempfile::tempdir().unwrap();
        let (program, asked) = (place.path().join("pgbouncer"), place.path().join("asked"));
        fs::write(&program, format!("#!/bin/sh\necho x >> {}\necho PgBouncer 1.25.0\n", asked.display()))
            .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut plan = sample::plan(&format!(
            "[workload]\nclients = [2, 4, 8]\n[pooler]\nkind = \"pgbouncer\"\nprogram = {:?}\n",
            program.display().to_string()
        ));
        assert_eq!(plan.cases.len(), 3);
        of_own_poolers(&mut plan, false).unwrap();
        assert_eq!(fs::read_to_string(&asked).unwrap(), "x\n");
    }
}
