//! Findings about the builds of servers and drivers.

use model::experiment::case::ServerSource;
use model::run::RunRecord;

use super::format::list;
use super::{ON_RECORDS, Rule, RuleCheck, RunContext, StudyContext};
use crate::comparison::build;
use crate::finding::{Finding, Severity};

pub(super) const ASSERTIONS_ON: Rule = Rule {
    id: "assertions-on",
    title: "The server was built with assertions",
    severity: "Doubt when debug_assertions is on",
    source: "PostgreSQL documentation, --enable-cassert",
    advice: "Measure a build without --enable-cassert.",
    evidence: "The server's setting debug_assertions.",
    why: "They slow some code paths down much more than others.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(assertions_on),
};

fn assertions_on(context: &RunContext) -> Option<Finding> {
    let on = context.data.record.server.as_ref()?.setting("debug_assertions") == Some("on");
    on.then(|| ASSERTIONS_ON.finds(Severity::Doubt, "debug_assertions is on"))
}

pub(super) const BUILD_NOT_OPTIMIZED: Rule = Rule {
    id: "build-not-optimized",
    title: "The server was not compiled for speed",
    severity: "Doubt without optimization (-O0); Note for less than PostgreSQL's configure asks for, or \
               another aim (-Os, -Oz, -Og, -O1)",
    source: BUILDS_DIFFER.source,
    advice: "Compare it only with similar builds, or measure the binaries that you use (server.bin_dir) or a \
             build with -O2 (server.source).",
    evidence: "The optimization level in the server's CFLAGS, from the view pg_config.",
    why: "Code optimized for size or debugging differs from packages, by another amount in each code path.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(build_not_optimized),
};

/// Checks the flags: builds by meson may optimize without naming a level.
fn build_not_optimized(context: &RunContext) -> Option<Finding> {
    let flags = context.data.record.server.as_ref()?.build.get("CFLAGS")?;
    let level = build::level(flags)?;
    let severity = match level {
        "-O0" => Severity::Doubt,
        "-Os" | "-Oz" | "-Og" | "-O1" | "-O" => Severity::Note,
        _ => return None,
    };
    Some(BUILD_NOT_OPTIMIZED.finds(severity, format!("compiled with {level}")))
}

pub(super) const DRIVER_NOT_OPTIMIZED: Rule = Rule {
    id: "driver-not-optimized",
    title: "pgdyno was not built for measuring",
    severity: "Doubt when the driver was not optimized (level 0); Note for the profile `dev`",
    source: "decision 102",
    advice: "Measure with a package, or build with `--release`, or with `--profile dist` to compare drivers.",
    evidence: "The build profile and the optimization level of the driver, in ready of run.json.",
    why: "It needs more processor time per transaction, which adds to latencies and is missing to a server \
          on the same machine.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(driver_not_optimized),
};

fn driver_not_optimized(context: &RunContext) -> Option<Finding> {
    let ready = context.data.record.ready.as_ref()?;
    let (profile, level) = (&ready.build_profile, &ready.opt_level);
    let severity = match (level.as_str(), profile.as_str()) {
        ("0", _) => Severity::Doubt,
        (_, "dev") => Severity::Note,
        _ => return None,
    };
    Some(DRIVER_NOT_OPTIMIZED.finds(severity, format!("profile {profile}, optimization level {level}")))
}

pub(super) const BUILDS_DIFFER: Rule = Rule {
    id: "builds-differ",
    title: "The servers were not built alike",
    severity: "Doubt when compilers, optimization flags or assertions of compared servers differ",
    source: "study of packagers: -Os by gcc 7.5 against -O2 by gcc 12: -17 to +18 % processor time",
    advice: "Build each version alike (server.source, server.revision), or attribute differences below 20 % \
             to the builds.",
    evidence: "Compiler, its flags and assertions of each server, from version() and pg_config.",
    why: "The same release then differs by up to 18 % in processor time.",
    tested: ON_RECORDS,
    check: RuleCheck::Study(builds_differ),
};

fn builds_differ(context: &StudyContext) -> Option<Finding> {
    let data = context.data;
    let mut builds: Vec<(String, Build)> = Vec::new();
    for record in data.runs.iter().map(|run| &run.record) {
        let Some(build) = build_of(record) else { continue };
        if !builds.iter().any(|(_, known)| *known == build) {
            builds.push((server_name(record), build));
        }
    }
    let is_alike = |(_, build): &(String, Build)| builds.iter().any(|(_, other)| build.may_be(other));
    let differing: Vec<&(String, Build)> = builds.iter().filter(|build| !is_alike(build)).collect();
    let texts: Vec<String> =
        differing.iter().map(|(name, build)| format!("{name}: {}", build.words())).collect();
    (texts.len() > 1).then(|| BUILDS_DIFFER.finds(Severity::Doubt, list(&texts, 6)))
}

fn server_name(record: &RunRecord) -> String {
    let release = record.server.as_ref().map(|server| server.release()).unwrap_or_default();
    match &record.case.server.source {
        ServerSource::Source { revision: Some(revision), .. } => format!("{release} ({revision})"),
        _ => release,
    }
}

/// What affects the speed of a build.
#[derive(Debug, PartialEq, Eq)]
struct Build {
    compiler: String,
    /// Optimization flags; unknown before 9.6, which has no view of them.
    flags: Option<String>,
    has_assertions: bool,
}

impl Build {
    /// Whether its flags are unknown, and it may be like `other`, whose flags are known.
    fn may_be(&self, other: &Build) -> bool {
        let is_same = self.compiler == other.compiler && self.has_assertions == other.has_assertions;
        is_same && self.flags.is_none() && other.flags.is_some()
    }

    fn words(&self) -> String {
        let flags = self.flags.as_deref().filter(|flags| !flags.is_empty());
        let assertions = self.has_assertions.then_some("assertions");
        let parts = [Some(self.compiler.as_str()), flags, assertions];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// The build of a run's server; `None` if it is unknown.
fn build_of(record: &RunRecord) -> Option<Build> {
    let server = record.server.as_ref()?;
    // `PostgreSQL 15.18 on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit`.
    let compiler = server.version.split_once("compiled by ")?.1;
    let compiler = compiler.rsplit_once(", ").map_or(compiler, |(compiler, _)| compiler);
    Some(Build {
        compiler: compiler.to_string(),
        flags: server.build.get("CFLAGS").map(|flags| build::optimizing(flags).join(" ")),
        has_assertions: server.setting("debug_assertions") == Some("on"),
    })
}
