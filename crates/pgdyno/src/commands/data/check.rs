//! `pgdyno check`: verifies a workload's invariants.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use dataset::check::CheckReport;
use dataset::session::{self, limit, lock};
use dataset::verify;
use experiment::plan::scripts::directories;
use experiment::site::Risks;
use experiment::stage::directory_data;
use experiment::stage::kept_clusters::{ClusterCriteria, KeptCluster};
use experiment::stage::origin;
use model::experiment::case::{Case, Layout, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
use model::load::Window;
use model::workload::{Dataset, DirectoryName, WorkloadName};
use server::Cache;
use wire::Conninfo;
use wire::session::Session;

use crate::commands::data::acid;
use crate::front::cli::ServerArgs;
use crate::front::cli::data::CheckArgs;
use crate::front::setup;
use crate::{Exit, print, print_exact, say, signals};

/// What else may violate the checks of a workload directory.
const HINT: &str =
    "these are checks of data as it was loaded: what transactions have changed since then is not known here";

/// Checks the given server, or the embedded cluster that was used last.
pub(crate) fn check(args: &CheckArgs) -> Result<Exit> {
    if let Some(WorkloadName::Directory(name)) = &args.workload {
        let (place, report) = check_directory(args, name)?;
        return show(args, &place, &report);
    }
    let asked = args.workload.as_ref().map(WorkloadName::kind);
    asked.map_or(Ok(()), verify::require_invariants)?;
    if args.acid {
        return acid::check(args, asked);
    }
    let (place, report) = match &args.server.server {
        Some(target) => {
            let conninfo = setup::resolve_to_look(target)?;
            let mut session = open(&conninfo)?;
            say_if_loading(&mut session)?;
            let left = || dataset::acid::left_behind(&mut session, args.schema.as_deref());
            if let Some(left) = limit::within("examine the server", limit::QUESTIONS, left)? {
                say(&format!("pgdyno: note: {left}"));
            }
            let kind = asked.unwrap_or_default();
            (conninfo.to_string(), check_over(&mut session, kind, args.schema.as_deref())?)
        }
        None => check_embedded(args, asked)?,
    };
    show(args, &place, &report)
}

fn show(args: &CheckArgs, place: &str, report: &CheckReport) -> Result<Exit> {
    if args.json {
        print_exact(&format!("{}\n", json(place, report)))?;
    } else {
        print(&text(place, report))?;
    }
    Ok(if report.is_sound() { Exit::Done } else { Exit::Failed })
}

/// Makes the checks that belong to the load of a workload directory, on a server by URL.
fn check_directory(args: &CheckArgs, name: &DirectoryName) -> Result<(String, CheckReport)> {
    let target = args.server.server.as_deref().context(
        "the checks of a workload directory after a run are in its results; to check what a load has made, name its server with --server",
    )?;
    ensure!(!args.acid, "--acid is for TPC-C's tables alone");
    let conninfo = setup::resolve_to_look(target)?;
    let mut session = open(&conninfo)?;
    say_if_loading(&mut session)?;
    let scale = args.scale.unwrap_or(directories::DEFAULT_SCALE);
    let mut workload = directories::workload_at(name, scale, Path::new("")).map_err(anyhow::Error::msg)?;
    workload.schema = args.schema.clone();
    let look = || limit::database_bytes(&mut session);
    let bytes = limit::within("examine the server", limit::QUESTIONS, look)?;
    let checked = limit::within("check", limit::for_bytes(bytes), || {
        let risks = Risks { trusted_workload: args.trust_workload, ..Risks::default() };
        directory_data::check_load(&mut session, &workload, risks)
    })?;
    let is_sound = checked.violations().is_empty();
    let report = CheckReport {
        scale: workload.scale,
        history_rows: None,
        results: checked.results,
        hint: (!is_sound).then_some(HINT),
    };
    Ok((conninfo.to_string(), report))
}

/// Says so if somebody loads data there at this moment.
fn say_if_loading(session: &mut Session) -> Result<()> {
    let note = limit::within("examine the server", limit::QUESTIONS, || lock::note(session))?;
    if let Some(note) = note {
        say(&format!("pgdyno: note: {note}"));
    }
    Ok(())
}

fn open(conninfo: &Conninfo) -> Result<Session> {
    let connect = || session::open(conninfo, signals::stop_flag());
    limit::within("connect", limit::QUESTIONS, connect)
}

/// Checks within a time limit that grows with the size of the database.
fn check_over(session: &mut Session, kind: WorkloadKind, schema: Option<&str>) -> Result<CheckReport> {
    let look = || limit::database_bytes(session);
    let bytes = limit::within("examine the server", limit::QUESTIONS, look)?;
    limit::within("check", limit::for_bytes(bytes), || verify::check(session, kind, schema))
}

fn check_embedded(args: &CheckArgs, asked: Option<WorkloadKind>) -> Result<(String, CheckReport)> {
    let cache = Cache::default_location()?;
    let source = embedded_source(&args.server)?;
    let dataset = asked.and_then(Dataset::of_kind);
    let kept =
        KeptCluster::latest(&cache, ClusterCriteria { source: source.as_ref(), dataset, scale: args.scale })?;
    let kind = asked.or(kept.workload).unwrap_or_default();
    let server = kept.start(&acid::settings(&args.settings)?)?;
    let schema = args.schema.as_deref().or(kept.schema.as_deref());
    let report = open(&server.conninfo()).and_then(|mut session| check_over(&mut session, kind, schema));
    server.stop(server::StopMode::Fast)?;
    Ok((kept.cluster.root.display().to_string(), report?))
}

/// The embedded server that the options name, if any.
pub(crate) fn embedded_source(args: &ServerArgs) -> Result<Option<ServerSource>> {
    if let Some(dir) = args.bin_dir.first() {
        return Ok(Some(ServerSource::BinDir(dir.clone())));
    }
    let Some(version) = args.versions.first() else { return Ok(None) };
    let version = version.parse().map_err(anyhow::Error::msg).context("--version")?;
    Ok(Some(origin::source(Some(version))?))
}

/// A case that stands for an embedded server with data of this scale.
pub(crate) fn embedded_case(
    args: &ServerArgs,
    kind: WorkloadKind,
    scale: u32,
    layout: Layout,
    load_streams: Option<u32>,
) -> Result<Case> {
    let server = ServerSpec::new(match embedded_source(args)? {
        Some(source) => source,
        None => origin::source(None)?,
    });
    let workload = WorkloadSpec { layout, load_streams, ..WorkloadSpec::new(kind, scale) };
    Ok(Case::new(server, workload, Window { ramp_up_s: 0, measure_s: 2, grace_s: 0 }))
}

fn text(place: &str, report: &CheckReport) -> String {
    let recorded =
        report.history_rows.map(|n| format!(", {n} transactions in the history")).unwrap_or_default();
    let mut out = format!("{place}: scale {}{recorded}\n", report.scale);
    for result in &report.results {
        let verdict = if result.violations.is_empty() { "ok      " } else { "VIOLATED" };
        out.push_str(&format!("  {verdict}  {:<13} {}\n", result.id, result.title));
        for violation in result.violations.iter().take(10) {
            out.push_str(&format!("            {violation}\n"));
        }
        if result.violations.len() > 10 {
            out.push_str(&format!("            and {} more\n", result.violations.len() - 10));
        }
    }
    out.extend(report.hint.map(|hint| format!("hint: {hint}\n")));
    out
}

fn json(place: &str, report: &CheckReport) -> serde_json::Value {
    let results: Vec<_> = report
        .results
        .iter()
        .map(|r| serde_json::json!({"id": r.id, "title": r.title, "violations": r.violations}))
        .collect();
    serde_json::json!({
        "place": place, "scale": report.scale, "history_rows": report.history_rows,
        "sound": report.is_sound(), "results": results, "hint": report.hint,
    })
}
