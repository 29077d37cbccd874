//! The pages of stored results for a server: read and explained as for the other commands.

use std::path::Path;

use analysis::history::{PastRun, joined};
use anyhow::Result;
use report::Input;
use report::site::{self, BarLink, Page, Several};
use serve::Makers;

use crate::commands::compare;
use crate::commands::compare::page;
use crate::commands::report::run_again;
use crate::commands::serve::{control, past};
use crate::commands::stored::explained::Explained;

const TOOL_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything is drawn in this process.
pub(crate) const DRAWN_HERE: Makers = Makers {
    result,
    comparison: compare::page_of,
    several,
    history,
    stop: control::stop,
    again: control::again,
};

/// The report; of an experiment that is being measured, of the runs that have ended.
fn result(dir: &Path, back: &[BarLink]) -> Result<Page> {
    let explained = Explained::read_for_page(dir, store::writer_of(dir).is_some())?;
    let comparisons = page::own_comparisons(dir, &explained)?;
    if !comparisons.is_empty() {
        return page::with_own(dir, &explained, &comparisons, |input| site::comparison(input, back));
    }
    let Explained { data, study } = &explained;
    let commands = [run_again(dir)];
    Ok(site::result(&Input { study, data, commands: &commands, tool_version: TOOL_VERSION }, back))
}

pub(super) fn name(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    whole.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn several(dirs: &[&Path], back: &[BarLink]) -> Result<Page> {
    let read = |dir: &&Path| Ok((name(dir), Explained::read_for_figures(dir)?));
    let explained: Vec<(String, Explained)> = dirs.iter().map(read).collect::<Result<_>>()?;
    let machine = |one: &Explained| {
        let host = one.data.runs.iter().find_map(|run| run.record.host.as_ref());
        host.map_or_else(String::new, |host| host.hostname.clone())
    };
    let machines: Vec<String> = explained.iter().map(|(_, one)| machine(one)).collect();
    let results: Vec<Several> = explained
        .iter()
        .zip(&machines)
        .map(|((name, one), machine)| Several { name, machine, study: &one.study })
        .collect();
    Ok(site::several(&results, back, TOOL_VERSION))
}

fn history(experiment: &str, dirs: &[&Path], back: &[BarLink]) -> Result<Page> {
    let (runs, left_out) = past::of_all(dirs, past::read);
    Ok(history_of(experiment, runs, &left_out, back))
}

/// The page of the history of an experiment, from its runs, and what could not be read of it.
pub(super) fn history_of(
    experiment: &str,
    runs: Vec<PastRun>,
    left_out: &[String],
    back: &[BarLink],
) -> Page {
    site::history(experiment, &joined(runs), left_out, back, TOOL_VERSION)
}

#[cfg(test)]
mod tests {
    use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
    use model::experiment::plan::{Plan, RunSpec};
    use model::load::Window;
    use store::ExperimentDir;

    use super::*;

    /// A result without runs, of so many cases.
    fn prepare(path: &Path, n: u32) {
        let window = Window { ramp_up_s: 1, measure_s: 9, grace_s: 1 };
        let server = ServerSpec::new(ServerSource::Version("15".parse().expect("a version")));
        let case = Case::new(server, WorkloadSpec::new(WorkloadKind::Tpcb, 1), window);
        let of = |n: u32| Case {
            id: n,
            workload: WorkloadSpec { n_clients: n, ..case.workload.clone() },
            ..case.clone()
        };
        let plan = Plan {
            format: model::FORMAT,
            name: "many".to_string(),
            factors: vec!["load.clients".to_string()],
            cases: (1..=n).map(of).collect(),
            runs: (1..=n).map(|run| RunSpec { run, block: 1, case: run, seed: 1 }).collect(),
            ..Plan::default()
        };
        drop(ExperimentDir::create(path, &plan, "").expect("a result"));
    }

    #[test]
    fn of_two_thousand_cases_each_page_shows_the_first_and_says_so() {
        let root = tempfile::tempdir().expect("a directory");
        let [a, b] = ["a", "b"].map(|name| root.path().join(name));
        prepare(&a, 2_000);
        prepare(&b, 2_000);
        let (a, b) = (a.as_path(), b.as_path());
        let pages = [result(a, &[]), several(&[a, b, a], &[]), (DRAWN_HERE.comparison)([a, b], &[])]
            .map(|page| page.expect("a page"));
        for page in pages {
            assert!(
                page.html.contains("has 2000 cases, and this page shows the first 500"),
                "{}",
                page.html.len()
            );
            assert!(page.html.len() < 8 << 20, "{}", page.html.len());
        }
    }
}
