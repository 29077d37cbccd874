//! Where the binaries of a version come from on this machine: installed, fetched, or built from PostgreSQL's repository. All versions
//! of an experiment get the same kind where that is possible: another compiler changes more than most settings do.

use std::env;

use anyhow::{Context, Result};
use model::experiment::Experiment;
use model::experiment::case::{Build, Case, REPOSITORY, ServerSource};
use model::experiment::keys;
use model::experiment::keys::levels::Levels;
use model::experiment::plan::Plan;
use model::text::units::PgVersion;
use server::Cache;
use server::binaries::build::{self, SourceTree};
use server::binaries::{fetch, installed};

use crate::plan::expand::{DEFAULT_VERSION, Versions};

/// What `server.build` is where an experiment does not say it.
const BUILD_VARIABLE: &str = "PGDYNO_SERVER_BUILD";

/// What the versions of `experiment` mean on this machine, and which one is measured if it names no server.
///
/// # Errors
/// When the kind of build that is asked for is not here.
pub fn versions(experiment: &Experiment) -> Result<Versions> {
    let server = &experiment.server;
    let named = server.bin_dir.is_some() || server.source.is_some() || server.url.is_some();
    if named && server.version.is_none() || server.source.is_some() {
        return Ok(Versions::default());
    }
    let asked: Vec<PgVersion> = server.version.iter().flat_map(Levels::all).cloned().collect();
    versions_of(asked, server.build)
}

/// The source of one version, or of the default one.
///
/// # Errors
/// As [`versions`].
pub fn source(version: Option<PgVersion>) -> Result<ServerSource> {
    let versions = versions_of(version.iter().cloned().collect(), None)?;
    Ok(versions.source(version.unwrap_or_else(|| versions.default_version())))
}

fn versions_of(asked: Vec<PgVersion>, build: Option<Build>) -> Result<Versions> {
    let build = build.map_or_else(by_environment, |build| Ok(Some(build)))?;
    let default = if build == Some(Build::Fetched) { None } else { installed::newest() };
    let asked = if asked.is_empty() {
        vec![default.clone().map_or_else(|| DEFAULT_VERSION.parse(), Ok).map_err(anyhow::Error::msg)?]
    } else {
        asked
    };
    let use_installed = match build {
        Some(Build::Fetched) => false,
        Some(Build::Installed) => {
            asked
                .iter()
                .try_for_each(|version| installed::server(version).map(drop))
                .context(keys::server::BUILD.name)?;
            true
        }
        // What is built from source has the compiler of this machine and -O2, as packages have.
        None => asked
            .iter()
            .filter(|version| !is_built(version))
            .all(|version| installed::server(version).is_ok()),
    };
    let cache = Cache::default_location()?;
    let sources = asked.into_iter().map(|version| {
        let source = if use_installed && installed::server(&version).is_ok() {
            ServerSource::Installed(version.clone())
        } else {
            published_or_built(&version, &cache, &is_published(&cache))
        };
        (version.to_string(), source)
    });
    Ok(Versions { default, sources: sources.collect() })
}

fn by_environment() -> Result<Option<Build>> {
    let text = env::var(BUILD_VARIABLE).unwrap_or_default();
    let parsed = (!text.is_empty()).then(|| text.parse().map_err(anyhow::Error::msg).context(BUILD_VARIABLE));
    parsed.transpose()
}

/// Whether it is built from source wherever it is not installed: nobody offers its series as binaries.
fn is_built(version: &PgVersion) -> bool {
    version.last_before_binaries().is_some()
}

/// Whether binaries of a version are published; none where nobody could be asked.
fn is_published(cache: &Cache) -> impl Fn(&PgVersion) -> Option<bool> {
    |version| fetch::is_published(cache, version).ok()
}

/// A version that is not installed: fetched if it is published, else built from PostgreSQL's repository by its tag.
fn published_or_built(
    version: &PgVersion,
    cache: &Cache,
    is_published: &dyn Fn(&PgVersion) -> Option<bool>,
) -> ServerSource {
    let fetched = ServerSource::of_version(version.clone());
    if is_built(version) {
        return fetched;
    }
    if fetch::is_at_hand(cache, version) {
        return fetched;
    }
    let Some(tag) = version.source_tag() else {
        return fetched;
    };
    let is_kept = build::is_kept(cache, &SourceTree { tree: REPOSITORY, revision: Some(&tag) });
    // Without a network, what fetches it says why it cannot.
    if is_kept || is_published(version) == Some(false) {
        return ServerSource::Source { tree: REPOSITORY.to_string(), revision: Some(tag) };
    }
    fetched
}

/// Makes the builds of two sides one kind, if nobody asked for others: where only one is installed, both are fetched.
pub fn make_alike(plans: [&mut Plan; 2]) {
    let is_fetched =
        |plan: &Plan| plan.cases.iter().any(|case| matches!(case.server.source, ServerSource::Version(_)));
    if !plans.iter().any(|plan| is_fetched(plan)) {
        return;
    }
    for case in plans.into_iter().flat_map(|plan| &mut plan.cases) {
        if let ServerSource::Installed(version) = &case.server.source {
            case.server.source = ServerSource::Version(version.clone());
        }
    }
}

/// Says that versions are fetched although they are installed, because another one of these cases is not: all get builds of one kind.
/// `None` where that is not so, or where somebody asked for the kind.
pub fn fetched_though_installed(cases: &[Case]) -> Option<String> {
    if by_environment().ok().flatten().is_some() {
        return None;
    }
    let fetched = cases.iter().filter_map(|case| match &case.server.source {
        ServerSource::Version(version) => Some(version),
        _ => None,
    });
    let mut fetched: Vec<&PgVersion> = fetched.collect();
    fetched.sort_by_key(|version| server::binaries::version_num(version.as_str()));
    fetched.dedup();
    let here = |version: &&PgVersion| installed::server(version).ok();
    let missing: Vec<&str> =
        fetched.iter().filter(|version| here(version).is_none()).map(|version| version.as_str()).collect();
    let though = fetched.iter().filter_map(|version| {
        let release = here(version)?.version.split_whitespace().next()?.to_string();
        Some(format!("{version}: fetched although {release} is installed"))
    });
    let though: Vec<String> = though.collect();
    let is = if missing.len() == 1 { "is" } else { "are" };
    (!though.is_empty() && !missing.is_empty()).then(|| {
        format!(
            "{}, because {} {is} not: all get builds of one kind (server.build chooses the kind)",
            though.join(", "),
            missing.join(" and ")
        )
    })
}

/// Lets versions be fetched that were installed where a plan was made and are not here; returns them.
///
/// # Errors
/// When this machine cannot be examined.
pub fn fetch_missing(plan: &mut Plan) -> Result<Vec<PgVersion>> {
    let mut missing: Vec<PgVersion> = plan
        .cases
        .iter()
        .filter_map(|case| match &case.server.source {
            ServerSource::Installed(version) => Some(version.clone()),
            _ => None,
        })
        .filter(|version| installed::server(version).is_err())
        .collect();
    missing.sort_by_key(|version| server::binaries::version_num(version.as_str()));
    missing.dedup();
    if missing.is_empty() {
        return Ok(missing);
    }
    let cache = Cache::default_location()?;
    for case in &mut plan.cases {
        if let ServerSource::Installed(version) = &case.server.source {
            case.server.source = published_or_built(version, &cache, &is_published(&cache));
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;

    fn series_here() -> String {
        installed::newest().expect("the tests need an installed server").to_string()
    }

    #[test]
    fn what_is_installed_is_used_if_all_versions_are() {
        let here = series_here();
        let of = |asked: &[&str], build| {
            let asked = asked.iter().map(|version| version.parse().unwrap()).collect();
            let versions = versions_of(asked, build).unwrap();
            let kind = |source: &ServerSource| match source {
                ServerSource::Installed(_) => "installed",
                ServerSource::Version(_) => "fetched",
                _ => "built",
            };
            versions.sources.values().map(kind).collect::<Vec<_>>()
        };
        assert_eq!(of(&[&here], Some(Build::Installed)), ["installed"]);
        assert_eq!(of(&[], None), ["installed"]);
        assert_eq!(of(&[&here], Some(Build::Fetched)), ["fetched"]);
        assert_eq!(of(&["9.5.21", &here], None), ["installed", "built"]);
        let none = (10..19).map(|n| n.to_string()).find(|v| installed::server(&v.parse().unwrap()).is_err());
        let none = none.expect("not all releases are installed");
        assert_eq!(of(&[&none, &here], None), ["fetched", "fetched"]);
        let cases = |asked: &[&str]| -> Vec<Case> {
            let source = |version: &&str| ServerSource::of_version(version.parse().unwrap());
            let of = |source| {
                let mut case = sample::case("");
                case.server.source = source;
                case
            };
            asked.iter().map(source).map(of).collect()
        };
        let said = fetched_though_installed(&cases(&[&none, &here, &here])).unwrap();
        let expected =
            [format!("{here}: fetched although {here}."), format!("because {none} is not: all get")];
        assert!(expected.iter().all(|words| said.contains(words)), "{said}");
        assert_eq!(fetched_though_installed(&cases(&[&here])), None, "somebody asked for it");
        assert_eq!(fetched_though_installed(&cases(&[&none])), None);
        let refused = versions_of(vec![none.parse().unwrap()], Some(Build::Installed)).unwrap_err();
        let words = format!("{refused:#}");
        assert!(
            words.contains(&format!("PostgreSQL {none} is not installed here (found {here}.")),
            "{words}"
        );
    }

    #[test]
    fn releases_that_nobody_publishes_are_built_by_their_tags() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache { dir: place.path().to_path_buf() };
        let source = |version: &str, is_published: Option<bool>| {
            published_or_built(&version.parse().unwrap(), &cache, &|_| is_published)
        };
        for (version, tag) in [("12.1", "REL_12_1"), ("9.6.17", "REL9_6_17"), ("10.0", "REL_10_0")] {
            let built =
                ServerSource::Source { tree: REPOSITORY.to_string(), revision: Some(tag.to_string()) };
            assert_eq!(source(version, Some(false)), built);
            let fetched = ServerSource::of_version(version.parse().unwrap());
            assert_eq!(source(version, Some(true)), fetched);
            assert_eq!(source(version, None), fetched, "the fetch says why it cannot");
        }
    }

    #[test]
    fn sides_of_which_one_is_installed_are_both_fetched() {
        let plan = |source: ServerSource| {
            let mut plan = sample::plan("");
            plan.cases.iter_mut().for_each(|case| case.server.source = source.clone());
            plan
        };
        let version = |text: &str| text.parse::<PgVersion>().unwrap();
        let mut a = plan(ServerSource::Installed(version("15")));
        let mut b = plan(ServerSource::Installed(version("18")));
        make_alike([&mut a, &mut b]);
        assert_eq!(a.cases[0].server.source, ServerSource::Installed(version("15")));
        let mut b = plan(ServerSource::Version(version("18")));
        make_alike([&mut a, &mut b]);
        assert_eq!(a.cases[0].server.source, ServerSource::Version(version("15")));
    }
}
