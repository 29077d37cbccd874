//! `pgdyno check --acid`: the tests of TPC-C's clause 3, and the embedded server that they kill.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use dataset::acid::{self, AcidReport, AcidRequest, AcidResult, AcidVerdict};
use dataset::clearance::published::{self, Creator};
use dataset::schema;
use dataset::session::{self, limit, lock};
use experiment::stage::adopted;
use experiment::stage::kept_clusters::{ClusterCriteria, KeptCluster};
use model::experiment::case::WorkloadKind;
use model::text::units::Span;
use model::workload::Dataset;
use server::database::template;
use server::{Cache, StopMode};
use wire::Conninfo;

use crate::commands::data::check::embedded_source;
use crate::front::cli::data::CheckArgs;
use crate::front::setup;
use crate::{Exit, print, print_exact, say, signals};

/// Violations of one test that the table shows; JSON lists all.
const FAULTS_SHOWN: usize = 10;

/// Tests the given server, or the embedded cluster that was used last.
pub(crate) fn check(args: &CheckArgs, asked: Option<WorkloadKind>) -> Result<Exit> {
    ensure!(
        asked.is_none_or(|kind| kind == WorkloadKind::Tpcc),
        "--acid runs the tests of TPC-C, clause 3: add --workload tpcc"
    );
    let Span { ms } = args.acid_load.parse().map_err(anyhow::Error::msg).context("--acid-load")?;
    let load = Duration::from_millis(ms);
    let ledger = args.ledger.clone().unwrap_or_else(some_file);
    let (place, report) = match &args.server.server {
        Some(target) => {
            let conninfo = setup::resolve_to_change(target)?;
            let _holder = limit::within("examine the server", limit::QUESTIONS, || {
                let mut holder = session::open(&conninfo, signals::stop_flag())?;
                adopted::expect_primary(&conninfo, &mut holder)?;
                lock::take(&mut holder, template::keeper)?;
                if !args.allow_published {
                    let schema = schema::find(&mut holder, args.schema.as_deref())?;
                    published::expect_none(&mut holder, Some(&schema), Creator::Tests)?;
                }
                Ok(holder)
            })?;
            let place = conninfo.to_string();
            (
                place,
                test(Request {
                    conninfo,
                    schema: args.schema.clone(),
                    crash: None,
                    load,
                    ledger: ledger.clone(),
                })?,
            )
        }
        None => test_embedded(args, load, &ledger)?,
    };
    let has_lost =
        report.results.iter().any(|r| r.clause == acid::DURABILITY && r.verdict == AcidVerdict::Violated);
    let mut ledger = ledger;
    let mut is_kept = args.ledger.is_some();
    if ledger.exists() {
        if has_lost {
            if args.ledger.is_none() {
                ledger = keep(&ledger)?;
            }
            is_kept = true;
        } else if !is_kept {
            std::fs::remove_file(&ledger).with_context(|| format!("remove `{}`", ledger.display()))?;
        }
    }
    let kept = Some(ledger.as_path()).filter(|ledger| is_kept && ledger.exists());
    if args.json {
        print_exact(&format!("{}\n", json(&place, &report, kept)))?;
    } else {
        print(&text(&place, &report, kept))?;
    }
    Ok(if report.is_sound() { Exit::Done } else { Exit::Failed })
}

struct Request<'a> {
    conninfo: Conninfo,
    schema: Option<String>,
    crash: Option<acid::Crash<'a>>,
    load: Duration,
    ledger: PathBuf,
}

fn test(request: Request<'_>) -> Result<AcidReport> {
    let Request { conninfo, schema, crash, load, ledger } = request;
    let request = AcidRequest { conninfo, schema, crash, load, ledger, stop: signals::stop_flag() };
    acid::run(request, &mut |step| say(&format!("pgdyno: {step}")))
}

fn test_embedded(args: &CheckArgs, load: Duration, ledger: &Path) -> Result<(String, AcidReport)> {
    let cache = Cache::default_location()?;
    let source = embedded_source(&args.server)?;
    let wanted = ClusterCriteria { source: source.as_ref(), dataset: Some(Dataset::Tpcc), scale: args.scale };
    let kept = KeptCluster::latest(&cache, wanted)?;
    let settings = settings(&args.settings)?;
    let first = kept.start(&settings)?;
    let conninfo = first.conninfo();
    let mut running = Some(first);
    let mut crash = || {
        let Some(server) = running.take() else { bail!("the server is not running") };
        let n_killed = server.crash()?;
        let begun = std::time::Instant::now();
        let again = kept.start(&settings)?;
        let conninfo = again.conninfo();
        running = Some(again);
        let seconds = begun.elapsed().as_secs_f64();
        Ok((conninfo, format!("{n_killed} processes killed (SIGKILL), recovered in {seconds:.1} s")))
    };
    let schema = args.schema.clone().or_else(|| kept.schema.clone());
    let report =
        test(Request { conninfo, schema, crash: Some(&mut crash), load, ledger: ledger.to_path_buf() });
    if let Some(server) = running {
        server.stop(StopMode::Fast)?;
    }
    Ok((kept.cluster.root.display().to_string(), report?))
}

/// Parses `NAME=VALUE` texts.
///
/// # Errors
/// Names the text that does not have this form.
pub(crate) fn settings(texts: &[String]) -> Result<BTreeMap<String, String>> {
    let pair = |text: &String| {
        let (name, value) =
            text.split_once('=').with_context(|| format!("--setting {text}: give NAME=VALUE"))?;
        Ok((name.trim().to_string(), value.trim().to_string()))
    };
    texts.iter().map(pair).collect()
}

/// Prefix of a ledger without a given name, in the directory of temporary files; the process id follows.
const LEDGER: &str = "pgdyno-ledger-";
/// Prefix of a ledger that shows lost orders: it is evidence, and stays.
const EVIDENCE: &str = "pgdyno-lost-orders-";

/// A name for a ledger without a given name.
fn some_file() -> PathBuf {
    let name = format!("{LEDGER}{}-{}.csv", std::process::id(), jiff::Timestamp::now().as_microsecond());
    std::env::temp_dir().join(name)
}

/// Renames a ledger that shows lost orders, so that [`sweep_ledgers`] leaves it alone.
fn keep(ledger: &Path) -> Result<PathBuf> {
    let name = ledger.file_name().map(|name| name.to_string_lossy().replace(LEDGER, EVIDENCE));
    let evidence = ledger.with_file_name(name.unwrap_or_default());
    std::fs::rename(ledger, &evidence).with_context(|| format!("rename `{}`", ledger.display()))?;
    Ok(evidence)
}

/// Removes ledgers of a killed pgdyno; returns their paths.
pub(crate) fn sweep_ledgers(dir: &Path) -> Vec<PathBuf> {
    let is_dead = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
    let abandoned = ledgers_named(dir, LEDGER).into_iter().filter(|(_, pid)| is_dead(pid));
    abandoned.map(|(path, _)| path).filter(|path| std::fs::remove_file(path).is_ok()).collect()
}

/// Ledgers that show lost orders, in the directory of temporary files: they stay until somebody has looked at them.
pub(crate) fn kept_ledgers(dir: &Path) -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = ledgers_named(dir, EVIDENCE).into_iter().map(|(path, _)| path).collect();
    kept.sort();
    kept
}

/// Our ledgers with such a name, each with the process id in it.
fn ledgers_named(dir: &Path, prefix: &str) -> Vec<(PathBuf, u32)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let of_name = |path: PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let pid = name.strip_prefix(prefix)?.split('-').next()?.parse::<u32>().ok()?;
        // Anyone can create such a name in /tmp: only files of this user count, and no links.
        let facts = std::fs::symlink_metadata(&path).ok()?;
        let is_ours = facts.is_file() && facts.uid() == nix::unistd::geteuid().as_raw();
        (is_ours && begins_as_ledger(&path)).then_some((path, pid))
    };
    entries.flatten().filter_map(|entry| of_name(entry.path())).collect()
}

fn begins_as_ledger(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let read = files::open(path).and_then(|file| file.take(128).read_to_end(&mut bytes));
    read.is_ok() && dataset::acid::is_ledger(&bytes)
}

fn text(place: &str, report: &AcidReport, ledger: Option<&Path>) -> String {
    let mut out = format!("{place}: scale {}, tests of TPC-C 5.11 clause 3\n", report.scale);
    for result in &report.results {
        let AcidResult { clause, title, isolation, verdict, seen, faults } = result;
        let verdict = match verdict {
            AcidVerdict::Violated => "VIOLATED",
            other => other.as_str(),
        };
        out.push_str(&format!("  {verdict:<8}  {clause:<7}  {:<15}  {title}\n", isolation.unwrap_or("")));
        out.push_str(&format!("{:38}{seen}\n", ""));
        for fault in faults.iter().take(FAULTS_SHOWN) {
            out.push_str(&format!("{:38}! {fault}\n", ""));
        }
        if faults.len() > FAULTS_SHOWN {
            out.push_str(&format!("{:38}! and {} more; --json lists all\n", "", faults.len() - FAULTS_SHOWN));
        }
    }
    let count = |verdict| report.results.iter().filter(|result| result.verdict == verdict).count();
    let allowed = count(AcidVerdict::Allowed);
    out.push_str(&format!(
        "{} held, {} violated, {allowed} allowed, {} skipped\n",
        count(AcidVerdict::Held),
        count(AcidVerdict::Violated),
        count(AcidVerdict::Skipped)
    ));
    if allowed > 0 {
        out.push_str(
            "allowed: seen, but this isolation level permits it; TPC-C does not call that isolated\n",
        );
    }
    if let Some(ledger) = ledger {
        out.push_str(&format!("ledger of acknowledged orders: {}\n", ledger.display()));
    }
    out
}

fn json(place: &str, report: &AcidReport, ledger: Option<&Path>) -> serde_json::Value {
    let results: Vec<_> = report
        .results
        .iter()
        .map(|r| {
            serde_json::json!({
                "clause": r.clause, "title": r.title, "isolation": r.isolation, "verdict": r.verdict.as_str(),
                "seen": r.seen, "faults": r.faults,
            })
        })
        .collect();
    serde_json::json!({
        "place": place, "scale": report.scale, "sound": report.is_sound(), "acid": results, "ledger": ledger,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_names_and_values() {
        let parse = |text: &str| settings(&[text.to_string()]);
        assert_eq!(parse("fsync = off").unwrap()["fsync"], "off");
        assert_eq!(parse("search_path=a=b").unwrap()["search_path"], "a=b");
        assert!(parse("fsync").unwrap_err().to_string().contains("--setting fsync: give NAME=VALUE"));
    }

    #[test]
    fn ledgers_of_the_dead_are_removed_and_evidence_stays() {
        let dir = tempfile::tempdir().unwrap();
        // No process id is that large.
        let (dead, own) =
            ("pgdyno-ledger-4294967295-1.csv", format!("pgdyno-ledger-{}-1.csv", std::process::id()));
        for name in [dead, &own, "pgdyno-ledger-4294967295-2.csv", "pgdyno-ledger-x.csv"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let mine = dir.path().join("pgdyno-ledger-4294967295-3.csv");
        std::fs::write(&mine, "my own accounts\n").unwrap();
        let evidence = keep(&dir.path().join("pgdyno-ledger-4294967295-2.csv")).unwrap();
        assert_eq!(sweep_ledgers(dir.path()), [dir.path().join(dead)]);
        let foreign = dir.path().join("pgdyno-lost-orders-4294967295-4.csv");
        std::fs::write(&foreign, "my own accounts\n").unwrap();
        let link = dir.path().join("pgdyno-lost-orders-4294967295-5.csv");
        std::os::unix::fs::symlink(&evidence, link).unwrap();
        assert_eq!(kept_ledgers(dir.path()), std::slice::from_ref(&evidence));
        assert!(evidence.exists() && dir.path().join(own).exists());
        assert!(mine.exists(), "such a name proves nothing");
    }
}
