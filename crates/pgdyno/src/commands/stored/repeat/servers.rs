//! Which servers are measured here instead of those of the original.

use std::collections::BTreeSet;
use std::path::absolute;

use anyhow::{Context, Result, ensure};
use model::experiment::Experiment;
use model::experiment::case::{Case, ServerSource};
use model::experiment::levels::Levels;
use model::experiment::plan::Plan;
use wire::Conninfo;

use crate::front::cli::packed::RepeatArgs;
use crate::front::{secrets, setup};

/// Puts the servers that `args` name into the plan and its text; `moved` are the targets that have got their address.
/// Returns the server by URL of an experiment without targets.
///
/// # Errors
/// When a server by URL has none here, or an option fits no server of the experiment.
pub(super) fn choose(
    plan: &mut Plan,
    experiment: &mut Experiment,
    moved: &BTreeSet<String>,
    args: &RepeatArgs,
) -> Result<Option<Conninfo>> {
    for case in &plan.cases {
        if let (ServerSource::Url(_), Some(target)) = (&case.server.source, &case.server.target) {
            let name = &target.name;
            ensure!(
                moved.contains(name),
                "target `{name}` was measured as {}; name the server that it is here: --target {name}=URL",
                case.server.source
            );
        }
    }
    own(plan, experiment, args)?;
    by_url(plan, experiment, args)
}

/// Servers that pgdyno runs.
fn own(plan: &mut Plan, experiment: &mut Experiment, args: &RepeatArgs) -> Result<()> {
    let (option, source) = match (&args.version, &args.bin_dir) {
        (Some(version), _) => {
            let version = version.parse().map_err(|message| anyhow::anyhow!("--version: {message}"))?;
            (format!("--version {version}"), ServerSource::of_version(version))
        }
        (None, Some(dir)) => {
            let dir = absolute(dir).with_context(|| format!("--bin-dir {}", dir.display()))?;
            (format!("--bin-dir {}", dir.display()), ServerSource::BinDir(dir))
        }
        (None, None) => return Ok(()),
    };
    let is_own = |case: &&mut Case| case.server.source.is_embedded();
    let theirs: BTreeSet<String> =
        plan.cases.iter_mut().filter(is_own).map(|case| case.server.source.to_string()).collect();
    ensure!(
        theirs.len() == 1,
        "{option} replaces one server, and the experiment has {}",
        if theirs.is_empty() {
            "none that pgdyno runs".to_string()
        } else {
            theirs.into_iter().collect::<Vec<_>>().join(", ")
        }
    );
    plan.cases.iter_mut().filter(is_own).for_each(|case| case.server.source = source.clone());
    let server = &mut experiment.server;
    (server.version, server.bin_dir, server.source, server.revision) = (None, None, None, None);
    match (&args.version, source) {
        (_, ServerSource::BinDir(dir)) => server.bin_dir = Some(Levels::one(dir)),
        (Some(version), _) => server.version = version.parse().ok().map(Levels::one),
        (None, _) => {}
    }
    Ok(())
}

/// The server by URL of an experiment without targets.
fn by_url(plan: &mut Plan, experiment: &mut Experiment, args: &RepeatArgs) -> Result<Option<Conninfo>> {
    let is_elsewhere = |case: &&mut Case| !case.server.source.is_embedded() && case.server.target.is_none();
    let theirs: BTreeSet<String> =
        plan.cases.iter_mut().filter(is_elsewhere).map(|case| case.server.source.to_string()).collect();
    let Some(server) = &args.server else {
        ensure!(
            theirs.is_empty(),
            "it was measured on {}, which is not yours; name the server to measure: --server URL",
            theirs.into_iter().collect::<Vec<_>>().join(" and ")
        );
        return Ok(None);
    };
    ensure!(
        theirs.len() == 1,
        "--server replaces one server by URL, and the experiment has {}; targets have --target NAME=URL",
        if theirs.is_empty() {
            "none".to_string()
        } else {
            theirs.into_iter().collect::<Vec<_>>().join(", ")
        }
    );
    let conninfo = setup::resolve(server)?;
    for case in plan.cases.iter_mut().filter(is_elsewhere) {
        case.server.source = ServerSource::Url(conninfo.keywords());
    }
    experiment.server.url = Some(secrets::keyword_text(&conninfo));
    Ok(Some(conninfo))
}
