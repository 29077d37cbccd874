//! `pgdyno history`: stored runs of the same case over time, and where their level changed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use analysis::cost::{self, CostRow};
use analysis::history::{DifferingCondition, History, LevelChange, histories};
use anyhow::{Result, bail, ensure};
use model::text::prose::plural;

use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::commands::stored::shelf;
use crate::front::cli::FailOn;
use crate::front::cli::compare::failing::{CostLimit, FailTerms};
use crate::front::cli::stored::{HistoryArgs, RESULTS};
use crate::{Exit, print, print_exact, say};

/// Prints the histories of all experiments with one name.
pub(crate) fn history(args: &HistoryArgs) -> Result<Exit> {
    args.fail_on.as_ref().map_or(Ok(()), expect_judged)?;
    if let Some(store) = &args.store {
        shelf::fetch_all(store, &args.name)?;
    }
    let is_local = args.store.is_none();
    let given = args.place.as_deref().or(args.dir.as_deref());
    let of_one = if given.is_none() && is_local { results_of_one(Path::new(&args.name)) } else { None };
    let (name, dir) =
        of_one.unwrap_or_else(|| (args.name.clone(), given.unwrap_or(Path::new(RESULTS)).to_path_buf()));
    let listings = crate::commands::stored::list::listings(&dir)?;
    let mut names: Vec<&str> = listings.iter().map(|listing| listing.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut experiments = Vec::new();
    for listing in listings.iter().filter(|listing| listing.name == name) {
        match Explained::read(&listing.path, KeptTelemetry::No) {
            Ok(Explained { data, study }) => {
                experiments.push((listing.path.display().to_string(), data, study));
            }
            // One broken result hides no other.
            Err(error) => say(&format!("skipped damaged results: {error:#}")),
        }
    }
    if experiments.is_empty() {
        let dir = dir.display();
        match names.as_slice() {
            [] => bail!("no results in `{dir}`"),
            known if Path::new(&name).is_dir() => {
                bail!("`{name}` is a directory: name the experiment first, of {}", known.join(", "))
            }
            known => bail!("no experiment `{name}` in `{dir}`; it has {}", known.join(", ")),
        }
    }
    let found = histories(&experiments);
    if found.is_empty() && !args.json {
        say(&format!(
            "no run of `{name}` has ended with a number that counts; `pgdyno list` shows what is going on"
        ));
        return Ok(args.fail_on.as_ref().map_or(Exit::Done, |_| Exit::Partial));
    }
    if args.json {
        print_exact(&format!("{}\n", serde_json::to_string_pretty(&found)?))?;
    } else {
        print(&found.iter().map(text).collect::<Vec<String>>().join("\n"))?;
    }
    Ok(args.fail_on.as_ref().map_or(Exit::Done, |terms| judged_by(&found, terms)))
}

/// What a job does about these histories, by speed and by costs.
fn judged_by(histories: &[History], terms: &FailTerms) -> Exit {
    let speed = terms.speed.map(|speed| judged(histories, speed));
    let of_costs = |limit| histories.iter().map(move |history| of_cost(history, limit));
    Exit::of_all(speed.into_iter().chain(terms.costs.iter().flat_map(of_costs)))
}

/// Whether the last change of a cost is upwards by more than does not matter. Says what decides.
fn of_cost(history: &History, limit: &CostLimit) -> Exit {
    let n_known = history.points.iter().filter(|point| point.costs.contains_key(limit.id)).count();
    if n_known < RUNS_MIN {
        let known = plural(n_known, "run");
        say(&format!(
            "--fail-on: {}: cost {}: no verdict: known of {known}, and {RUNS_MIN} are needed",
            history.label, limit.id
        ));
        return Exit::Partial;
    }
    let last = history.cost_changes.iter().rfind(|change| change.id == limit.id);
    match last.filter(|change| change.after > change.before * (1.0 + limit.margin)) {
        Some(change) => {
            say(&format!("--fail-on: {}: cost {}: {}", history.label, limit.id, report::cost_change(change)));
            Exit::Different
        }
        None => Exit::Done,
    }
}

/// Refuses costs that no history judges.
fn expect_judged(terms: &FailTerms) -> Result<()> {
    ensure!(
        terms.statements.is_none(),
        "--fail-on statement-slower: a history has no pairs, so that no statement is judged; use it with `compare`"
    );
    let depends = |limit: &&CostLimit| cost::row(limit.id).is_some_and(CostRow::depends_on_throughput);
    match terms.costs.iter().find(depends) {
        Some(limit) => bail!(
            "--fail-on cost:{}: it changes with the throughput of a run, so that no history judges it; wal-records stands for it, and \
             `compare` judges it over equally many transactions",
            limit.id
        ),
        None => Ok(()),
    }
}

/// What a job does about the throughput of these histories. Says of each what decides.
fn judged(histories: &[History], fail_on: FailOn) -> Exit {
    let is_meant = |before: f64, after: f64| fail_on == FailOn::Different || after < before;
    let of_one = |history: &History| {
        let (change, pending) = (history.changes.last(), history.pending.as_ref());
        if let Some(change) = change.filter(|change| is_meant(change.before, change.after)) {
            say(&format!("--fail-on: {}: {}", history.label, words(change).trim()));
            return Exit::Different;
        }
        if let Some(pending) = pending.filter(|pending| is_meant(pending.before, pending.after)) {
            say(&format!("--fail-on: {}: {}: {}", history.label, pending.lead(), pending.words()));
            return Exit::Partial;
        }
        Exit::Done
    };
    Exit::of_all(histories.iter().map(of_one))
}

/// The name of the experiment whose results are in this directory, and the directory with all its results.
fn results_of_one(path: &Path) -> Option<(String, PathBuf)> {
    if !path.is_dir() {
        return None;
    }
    let all = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let listings = crate::commands::stored::list::listings(all).ok()?;
    let is_it = |listing: &&store::Listing| listing.path.file_name() == path.file_name();
    let name = listings.iter().find(is_it)?.name.clone();
    Some((name, all.to_path_buf()))
}

pub(super) fn text(history: &History) -> String {
    let mut text =
        format!("{} on {}: {}\n", history.label, history.hostname, plural(history.points.len(), "run"));
    for point in &history.points {
        let change = history.changes.iter().find(|change| change.first_after == *point);
        if let Some(change) = change {
            text.push_str(&words(change));
            text.push_str(&change.within_words().map_or(String::new(), |words| format!("     {words}\n")));
            text.push_str(&conditions(change));
        }
        let when = jiff::Timestamp::from_nanosecond(point.t_unix_ns.into()).unwrap_or_default();
        let when = when.strftime("%Y-%m-%d %H:%MZ");
        writeln!(
            text,
            "  {when}  {:>10.0} tps {:>11}  {:<16}  {} run {}",
            point.tps,
            report::good_to(point.range),
            point.revision,
            point.experiment,
            point.run
        )
        .expect("a string takes any text");
    }
    history
        .cost_changes
        .iter()
        .for_each(|change| text.push_str(&format!("  -- cost: {}\n", report::cost_change(change))));
    if let Some(pending) = &history.pending {
        writeln!(text, "  {}: {}", pending.lead(), pending.words()).expect("a string takes any text");
        text.push_str(&listed(&pending.conditions));
    } else if history.changes.is_empty() {
        text.push_str(no_change(history.points.len()));
    }
    text
}

/// Most conditions that are listed for a change.
const CONDITIONS_MAX: usize = 20;
/// Fewest runs among which a change of level can be found: four on each side.
const RUNS_MIN: usize = 8;

fn no_change(n_runs: usize) -> &'static str {
    if n_runs < RUNS_MIN {
        "  too few runs to tell whether the level changed: four are needed on each side, of a night with --repeats 4 or of four nights\n"
    } else {
        "  no level change (at least 2 %, p below 0.001, four runs on each side)\n"
    }
}

fn words(change: &LevelChange) -> String {
    let percent = 100.0 * (change.after / change.before - 1.0);
    let revisions = if change.last_before.revision == change.first_after.revision {
        String::new()
    } else {
        format!(", {} to {}", change.last_before.revision, change.first_after.revision)
    };
    let (before, after, p) = (change.before, change.after, change.p);
    format!("  -- change: median {before:.0} to {after:.0} tps ({percent:+.1} %, p = {p:.1e}{revisions})\n")
}

/// The conditions that differ around a change, one a line.
fn conditions(change: &LevelChange) -> String {
    if change.conditions.is_empty() {
        return format!("     {}\n", change.no_condition());
    }
    listed(&change.conditions)
}

fn listed(conditions: &[DifferingCondition]) -> String {
    let shown = conditions.iter().take(CONDITIONS_MAX);
    let mut text: String = shown.map(|condition| format!("     {}\n", condition.words())).collect();
    if let n @ 1.. = conditions.len().saturating_sub(CONDITIONS_MAX) {
        text.push_str(&format!("     and {n} more, which --json lists\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_downwards_fails_a_job_and_one_that_few_runs_suggest_has_no_verdict() {
        use analysis::history::{HistoryPoint, Pending};
        let point = || HistoryPoint {
            experiment: "day 1".to_string(),
            run: 1,
            t_unix_ns: 1,
            revision: "18.1".to_string(),
            tps: 1000.0,
            range: None,
            costs: Default::default(),
        };
        let change = |after: f64| LevelChange {
            last_before: point(),
            first_after: point(),
            before: 1000.0,
            after,
            p: 1e-5,
            within: None,
            conditions: Vec::new(),
            unrecorded: Vec::new(),
        };
        let of = |changes: &[f64], pending: Option<Pending>| History {
            label: "8 clients".to_string(),
            hostname: String::new(),
            points: vec![point()],
            changes: changes.iter().map(|after| change(*after)).collect(),
            cost_changes: Vec::new(),
            pending,
        };
        let pending = |after: f64| Some(Pending::new(point(), [5, 5], [1000.0, after], 0.008, Some(4)));
        let check = |history: History, slower: Exit, different: Exit| {
            let found = [FailOn::Slower, FailOn::Different]
                .map(|fail_on| judged(std::slice::from_ref(&history), fail_on));
            assert_eq!(found, [slower, different], "{history:?}");
        };
        check(of(&[], None), Exit::Done, Exit::Done);
        check(of(&[900.0], None), Exit::Different, Exit::Different);
        check(of(&[900.0, 1100.0], None), Exit::Done, Exit::Different);
        check(of(&[], pending(540.0)), Exit::Partial, Exit::Partial);
        check(of(&[], pending(1540.0)), Exit::Done, Exit::Partial);
        check(of(&[900.0], pending(540.0)), Exit::Different, Exit::Different);
        assert!(text(&of(&[], pending(540.0))).ends_with(
            "  no verdict yet: the last 5 are 46 % below the first 5; 4 more runs would decide\n"
        ));
    }

    #[test]
    fn conditions_that_differ_around_a_change_have_a_line_each() {
        use analysis::history::{DifferingCondition, HistoryPoint};
        let point = |revision: &str| HistoryPoint {
            experiment: "day 1".to_string(),
            run: 1,
            t_unix_ns: 1,
            revision: revision.to_string(),
            tps: 1000.0,
            range: None,
            costs: Default::default(),
        };
        let condition = |n: usize| DifferingCondition {
            what: format!("setting s{n}"),
            before: "1".to_string(),
            after: "2".to_string(),
            n_before: [4, 5],
            n_after: [5, 5],
        };
        let change = |n: usize| LevelChange {
            last_before: point("18.1"),
            first_after: point("18.1"),
            before: 1000.0,
            after: 900.0,
            p: 1e-5,
            within: None,
            conditions: (0..n).map(condition).collect(),
            unrecorded: Vec::new(),
        };
        assert_eq!(conditions(&change(1)), "     setting s0: 1 before (in 4 of 5 runs), 2 after\n");
        let mut small = change(0);
        small.within = Some([[0.95, 1.11], [0.91, 1.02]]);
        let of = |change: LevelChange| {
            text(&History {
                label: "8 clients".to_string(),
                hostname: "here".to_string(),
                points: vec![HistoryPoint { range: Some([0.95, 1.11]), ..point("18.1") }],
                changes: vec![change],
                cost_changes: Vec::new(),
                pending: None,
            })
        };
        small.first_after = HistoryPoint { range: Some([0.95, 1.11]), ..point("18.1") };
        let shown = of(small);
        assert!(shown.contains("1000 tps       ±11 %  18.1"), "{shown}");
        assert!(
            shown.contains("     one run alone can be off by more (±11 % before, ±9.0 % after); all runs together show it\n"),
            "{shown}"
        );
        assert!(conditions(&change(0)).starts_with("     no recorded condition differs: server, settings"));
        let blind = LevelChange {
            unrecorded: ["the server's machine", "settings"].map(String::from).into(),
            ..change(0)
        };
        assert_eq!(
            conditions(&blind),
            "     no recorded condition differs; not recorded: the server's machine, settings\n"
        );
        assert!(conditions(&change(23)).ends_with("     and 3 more, which --json lists\n"));
    }

    #[test]
    fn a_few_runs_are_too_few_to_deny_a_change() {
        for n_runs in [1, 2, 7] {
            assert!(no_change(n_runs).contains("too few runs to tell"), "{n_runs}");
        }
        assert!(no_change(8).contains("no level change"));
    }
}
