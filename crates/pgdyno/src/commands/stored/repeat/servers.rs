//! Which servers are measured here instead of those of the original.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::path::absolute;

use anyhow::{Context, Result, bail, ensure};
use experiment::stage::origin;
use model::experiment::Experiment;
use model::experiment::case::{Case, ServerSource};
use model::experiment::keys::levels::Levels;
use model::experiment::plan::Plan;
use wire::Conninfo;

use crate::front::cli::packed::RepeatArgs;
use crate::front::foreign::Ours;
use crate::front::{secrets, setup};
use crate::say;

/// Servers that were measured there, and have no name here.
#[derive(Debug)]
pub(super) struct Unnamed(String);

impl fmt::Display for Unnamed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unnamed {}

/// The options that choose servers.
pub(super) struct Chosen<'a> {
    /// The targets that have got their address.
    pub(super) moved: &'a BTreeSet<String>,
    pub(super) args: &'a RepeatArgs,
    /// Gets the servers that the options name.
    pub(super) ours: &'a mut Ours,
}

/// Puts the servers that the options name into the plan and its text. Returns the servers by URL of an experiment without targets.
///
/// # Errors
/// When a server by URL has none here, or an option fits no server of the experiment.
pub(super) fn choose(
    plan: &mut Plan,
    experiment: &mut Experiment,
    Chosen { moved, args, ours }: Chosen,
) -> Result<Vec<Conninfo>> {
    expect_addresses(plan, moved)?;
    own(plan, experiment, args, ours)?;
    let servers = by_url(plan, experiment, args, ours)?;
    forget_others(plan, experiment);
    Ok(servers)
}

/// Expects that each target by URL has its address here; names all that have none.
fn expect_addresses(plan: &Plan, moved: &BTreeSet<String>) -> Result<()> {
    let mut missing: Vec<String> = Vec::new();
    for case in &plan.cases {
        let (ServerSource::Url(_), Some(target)) = (&case.server.source, &case.server.target) else {
            continue;
        };
        let name = &target.name;
        let words = format!(
            "target `{name}` was measured as {}; name the server that it is here: --target {name}=URL",
            case.server.source
        );
        if !moved.contains(name) && !missing.contains(&words) {
            missing.push(words);
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Unnamed(missing.join("; ")).into()) }
}

/// Takes out of the text the servers by URL that the plan does not have: whoever runs the text would reach them.
fn forget_others(plan: &Plan, experiment: &mut Experiment) {
    let name_of = |case: &Case| case.server.target.as_ref().map(|target| target.name.clone());
    let by_url = |name: Option<&str>| {
        plan.cases.iter().any(|case| !case.server.source.is_embedded() && name_of(case).as_deref() == name)
    };
    if !by_url(None) {
        experiment.server.url = None;
    }
    experiment
        .target
        .iter_mut()
        .filter(|target| !by_url(Some(&target.name)))
        .for_each(|target| target.url = None);
}

/// Servers that pgdyno runs.
fn own(plan: &mut Plan, experiment: &mut Experiment, args: &RepeatArgs, ours: &mut Ours) -> Result<()> {
    let (option, source) = match (&args.version, &args.bin_dir) {
        (Some(version), _) => {
            let version = version.parse().map_err(|message| anyhow::anyhow!("--version: {message}"))?;
            (format!("--version {version}"), origin::source(Some(version))?)
        }
        (None, Some(dir)) => {
            let dir = absolute(dir).with_context(|| format!("--bin-dir {}", dir.display()))?;
            (format!("--bin-dir {}", dir.display()), ServerSource::BinDir(dir))
        }
        (None, None) => {
            let missing = origin::fetch_missing(plan)?;
            for version in missing {
                say(&format!("PostgreSQL {version} is not installed here: all versions are fetched"));
            }
            return Ok(());
        }
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
    ours.add_source(source.clone());
    let server = &mut experiment.server;
    (server.version, server.bin_dir, server.source, server.revision) = (None, None, None, None);
    match (&args.version, source) {
        (_, ServerSource::BinDir(dir)) => server.bin_dir = Some(Levels::one(dir)),
        (Some(version), _) => server.version = version.parse().ok().map(Levels::one),
        (None, _) => {}
    }
    Ok(())
}

/// The servers by URL of an experiment without targets, in the order of its cases: A of a comparison, then B.
fn by_url(
    plan: &mut Plan,
    experiment: &mut Experiment,
    args: &RepeatArgs,
    ours: &mut Ours,
) -> Result<Vec<Conninfo>> {
    let mut theirs: Vec<ServerSource> = Vec::new();
    for case in plan.cases.iter().filter(|case| is_by_url(case)) {
        if !theirs.contains(&case.server.source) {
            theirs.push(case.server.source.clone());
        }
    }
    let names = |word: &str| {
        theirs.iter().map(|source| format!("`{source}`")).collect::<Vec<String>>().join(&format!(" {word} "))
    };
    if theirs.len() != args.servers.len() {
        let each = if theirs.len() > 1 { " for each, in this order" } else { "" };
        if args.servers.is_empty() {
            let words = format!(
                "it was measured on {}; name the server to measure{each}, the same or another: --server URL",
                names("and")
            );
            return Err(Unnamed(words).into());
        }
        ensure!(
            theirs.is_empty(),
            "the experiment has the servers {} by URL: --server URL replaces one of them, once for each, in this order",
            names("and")
        );
        bail!(
            "--server replaces servers by URL, and the experiment has none; targets have --target NAME=URL"
        );
    }
    let servers =
        args.servers.iter().map(|server| setup::resolve(server)).collect::<Result<Vec<Conninfo>>>()?;
    for case in plan.cases.iter_mut().filter(|case| is_by_url(case)) {
        if let Some(place) = theirs.iter().position(|source| *source == case.server.source) {
            case.server.source = ServerSource::Url(servers[place].keywords());
            ours.add_source(case.server.source.clone());
        }
    }
    // The text is that of the first case; another server is only in the plan.
    let first =
        servers.first().filter(|_| plan.cases.first().is_some_and(is_by_url)).map(secrets::keyword_text);
    if experiment.target.is_empty() {
        experiment.server.url.clone_from(&first);
    }
    first.into_iter().for_each(|url| ours.add_url(url));
    Ok(servers)
}

fn is_by_url(case: &Case) -> bool {
    !case.server.source.is_embedded() && case.server.target.is_none()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use experiment::plan::expand::{self, PlanResources};
    use experiment::plan::file;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RepeatArgs,
    }

    fn url_of(host: &str) -> ServerSource {
        ServerSource::Url(Conninfo::new(host, 5432, "bench", "bench").keywords())
    }

    /// Chooses `given` for an experiment of four cases: of one.example and other.example in turn, as A and B of a comparison.
    fn chosen(given: &[&str]) -> Result<(Vec<ServerSource>, Vec<Conninfo>)> {
        let text = "[experiment]\nname = \"x\"\n[server]\nversion = \"15\"\n\
                    [workload]\nclients = [1, 2, 3, 4]\nscale = 1\n";
        let mut experiment = file::parse("x", text, &[]).unwrap();
        let mut plan = expand::plan(&experiment, &PlanResources::default()).unwrap();
        for (n, case) in plan.cases.iter_mut().enumerate() {
            case.server.source = url_of(["one.example", "other.example"][n % 2]);
        }
        let options = given.iter().flat_map(|server| ["--server", server]);
        let line = Line::parse_from(["repeat", "out"].into_iter().chain(options));
        let chosen = Chosen { moved: &BTreeSet::new(), args: &line.args, ours: &mut Ours::default() };
        let servers = choose(&mut plan, &mut experiment, chosen)?;
        Ok((plan.cases.into_iter().map(|case| case.server.source).collect(), servers))
    }

    #[test]
    fn each_of_two_servers_by_url_is_replaced_by_the_one_in_its_place() {
        let ours = ["postgres://bench@a.example/x", "postgres://bench@b.example/y"];
        let (sources, servers) = chosen(&ours).unwrap();
        let hosts: Vec<&str> = servers.iter().map(|server| server.hosts[0].host.as_str()).collect();
        assert_eq!(hosts, ["a.example", "b.example"]);
        let [a, b] = [0, 1].map(|n| ServerSource::Url(servers[n].keywords()));
        assert_eq!(sources, [a.clone(), b.clone(), a, b]);
    }

    #[test]
    fn a_server_that_only_the_text_has_is_forgotten() {
        let text = "[experiment]\nname = \"x\"\n[workload]\nscale = 1\n";
        let mut plan = expand::plan_unseen(&file::parse("x", text, &[]).unwrap()).unwrap();
        let more = "[server]\nurl = \"postgres://a.example/x\"\n[[target]]\nname = \"t\"\nurl = \"postgres://b.example/x\"\n";
        let mut experiment = file::parse("x", &format!("{text}{more}"), &[]).unwrap();
        let args = Line::parse_from(["repeat", "out"]).args;
        let chosen = Chosen { moved: &BTreeSet::new(), args: &args, ours: &mut Ours::default() };
        choose(&mut plan, &mut experiment, chosen).unwrap();
        assert_eq!((experiment.server.url, &experiment.target[0].url), (None, &None));
    }

    #[test]
    fn two_servers_by_url_are_not_replaced_by_one_or_three() {
        let refused = |given: &[&str]| format!("{:#}", chosen(given).unwrap_err());
        let ours = "postgres://bench@a.example/x";
        assert!(
            refused(&[])
                .contains("; name the server to measure for each, in this order, the same or another")
        );
        for given in [&[ours][..], &[ours; 3]] {
            assert!(refused(given).contains("once for each, in this order"), "{given:?}");
        }
    }
}
