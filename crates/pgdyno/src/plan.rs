//! `pgdyno plan`: what `run` would do.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use experiment::stage::{data_bytes, data_words};
use model::case::{Case, ServerSource, WorkloadSpec};
use model::plan::Plan;
use model::script::CaseData;
use server::build::Source;
use workload::Program;

use crate::cli::PlanArgs;
use crate::{Exit, print, setup};

/// Seconds of a run besides its load: restore, start, vacuum, prewarm, checkpoint, settle, stop.
/// Seen on two cores with half a gigabyte of data; progress corrects it with what runs really took.
pub(crate) const AROUND_LOAD_S: f64 = 6.0;

/// Prints the ordered runs and what they need.
pub(crate) fn plan(args: &PlanArgs) -> Result<Exit> {
    let plan = setup::ask(&args.experiment)?.plan;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&plan)?))?;
    } else {
        print(&text(&plan)?)?;
    }
    Ok(Exit::Done)
}

/// Seconds that the plan's runs will take, loading not counted.
pub(crate) fn estimated_s(plan: &Plan) -> f64 {
    let of_run = |case: &Case| f64::from(case.window.load_s()) + AROUND_LOAD_S;
    plan.runs.iter().filter_map(|run| plan.case(run.case)).map(of_run).sum()
}

fn text(plan: &Plan) -> Result<String> {
    let mut out = String::new();
    writeln!(out, "{}: {}", plan.name, plan.title)?;
    writeln!(
        out,
        "seed {}, {} cases, {} runs in {} randomized blocks",
        plan.seed,
        plan.cases.len(),
        plan.runs.len(),
        plan.repeats
    )?;
    scripts(&mut out, plan)?;
    writeln!(out)?;
    for case in &plan.cases {
        let workload = &case.workload;
        writeln!(
            out,
            "case {:>3}  {}  {} {}, {} clients, {} threads, {}, pace {}, ramp-up {} s, measure {} s",
            case.id,
            server(&case.server.source),
            workload.kind,
            experiment::load::words(workload),
            workload.n_clients,
            workload.n_threads,
            workload.protocol.as_str(),
            workload.pace,
            case.window.ramp_up_s,
            case.window.measure_s,
        )?;
        for (name, value) in &workload.defines {
            writeln!(out, "          :{name} = {value}")?;
        }
        for (name, value) in &case.server.settings {
            writeln!(out, "          {name} = {value}")?;
        }
        for (name, value) in &case.os {
            writeln!(out, "          os.{name} = {value}")?;
        }
        if !case.wal.is_as_is() {
            writeln!(out, "          run.wal = {}", case.wal)?;
        }
    }
    writeln!(out)?;
    for run in &plan.runs {
        let label = plan.case(run.case).map(Case::label).unwrap_or_default();
        writeln!(out, "run {:>4}  block {:>3}  case {:>3}  {label}", run.run, run.block, run.case)?;
    }
    let data: BTreeMap<String, u64> =
        plan.cases.iter().map(|case| (data_words(&case.workload), data_bytes(&case.workload))).collect();
    let bytes: u64 = data.values().sum();
    let wal = match wal_bytes(plan) {
        0 => String::new(),
        bytes => format!("; WAL up to {:.1} GB", bytes as f64 / 1e9),
    };
    writeln!(out)?;
    writeln!(out, "time    about {} after loading", duration(estimated_s(plan)))?;
    writeln!(
        out,
        "disk    about {:.1} GB: data and its snapshot, per server{wal}",
        2.0 * bytes as f64 / 1e9
    )?;
    Ok(out)
}

/// The user's own scripts, which all cases share that have any, and what they run on.
fn scripts(out: &mut String, plan: &Plan) -> Result<()> {
    let Some(workload) = plan.cases.iter().map(|case| &case.workload).find(|w| !w.scripts.is_empty()) else {
        return Ok(());
    };
    writeln!(out)?;
    let total: f64 = workload.scripts.iter().map(|script| f64::from(script.weight)).sum();
    let width = workload.scripts.iter().map(|script| script.name.chars().count()).max().unwrap_or(0);
    for script in &workload.scripts {
        let n = Program::compile(&script.name, &script.source).map_or(0, |program| program.statements.len());
        writeln!(
            out,
            "script  {:<width$}  weight {} ({:.1} %), {n} {}, SHA-256 {}",
            script.name,
            script.weight,
            100.0 * f64::from(script.weight) / total,
            if n == 1 { "statement" } else { "statements" },
            &script.sha256[..12],
        )?;
    }
    writeln!(out, "data    {}", data(workload))?;
    Ok(())
}

/// What scripts run on, and what is done to it.
fn data(workload: &WorkloadSpec) -> String {
    match &workload.data {
        CaseData::Tpcb => "TPC-B-like tables, loaded by pgdyno".to_string(),
        CaseData::Tpcc | CaseData::TprocC => "TPC-C tables, loaded by pgdyno".to_string(),
        CaseData::None => "the database as it is: not loaded, restored, vacuumed or analyzed".to_string(),
        CaseData::Files(_) => format!("what these files make: {}", data_words(workload)),
    }
}

/// Space that the WAL of a server of our own may take, at most: one runs at a time. Our default is lowered where there
/// is no room for it.
fn wal_bytes(plan: &Plan) -> u64 {
    let of_case = |case: &Case| {
        let version_num = match &case.server.source {
            ServerSource::Url(_) => return None,
            // The numbers of versions before 10 count other units; of binaries we do not ask here.
            ServerSource::Version(version) if version.series() == "9.6" => 90_600,
            ServerSource::Version(_) | ServerSource::BinDir(_) | ServerSource::Source { .. } => 100_000,
        };
        let bytes = server::defaults::max_wal_bytes(version_num, &case.server.settings);
        Some(server::space::wal_space_bytes(bytes.unwrap_or(server::defaults::MAX_WAL_SIZE_BYTES)))
    };
    plan.cases.iter().filter_map(of_case).max().unwrap_or(0)
}

fn server(source: &ServerSource) -> String {
    match source {
        ServerSource::Version(version) => format!("PostgreSQL {version}"),
        ServerSource::BinDir(dir) => format!("binaries in {}", dir.display()),
        ServerSource::Source { tree, revision } => {
            format!("built from {}", server::build::words(&Source { tree, revision: revision.as_deref() }))
        }
        ServerSource::Url(keywords) => {
            let of = |key: &str| keywords.get(key).map(String::as_str).unwrap_or_default();
            format!("{}@{}:{}/{}", of("user"), of("host"), of("port"), of("dbname"))
        }
    }
}

/// Seconds as people say them.
pub(crate) fn duration(s: f64) -> String {
    let s = s.round() as u64;
    match s {
        0..=119 => format!("{s} s"),
        120..=7199 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::embedded_case;
    use crate::cli::ServerArgs;
    use model::case::WorkloadKind;

    #[test]
    fn the_space_of_the_wal_is_told_with_its_quarter() {
        let check = |versions: &[&str], max_wal_size: Option<&str>, expected: &str| {
            let versions = versions.iter().map(ToString::to_string).collect();
            let server = ServerArgs { server: None, versions, bin_dir: Vec::new() };
            let mut case = embedded_case(&server, WorkloadKind::Tpcb, 10, Default::default(), None).unwrap();
            let value = max_wal_size.map(|value| ("max_wal_size".to_string(), value.to_string()));
            case.server.settings.extend(value);
            let plan = Plan {
                format: model::FORMAT,
                name: String::new(),
                title: String::new(),
                description: String::new(),
                seed: 1,
                repeats: 1,
                tool_version: String::new(),
                made_unix_ns: 0,
                factors: Vec::new(),
                cases: vec![case],
                runs: Vec::new(),
            };
            let text = text(&plan).unwrap();
            assert!(text.contains(expected), "{text}");
        };
        check(&[], None, "per server; WAL up to 10.7 GB");
        check(&[], Some("1GB"), "WAL up to 1.3 GB");
        check(&["12"], Some("1024"), "WAL up to 1.3 GB");
        check(&["9.6"], Some("64"), "WAL up to 1.3 GB");
    }
}
