//! `pgdyno compare --duet`: both servers at once, their loads in turns.

use std::collections::BTreeSet;

use analysis::comparison::compare_duet;
use anyhow::{Context, Result};
use experiment::conduct::Order;
use experiment::copies;
use experiment::pairs::Pairs;
use experiment::stage::Site;
use model::duet::Slicing;
use server::Cache;

use super::measure::{Prepared, prepare};
use super::{Explained, finish};
use crate::cli::CompareArgs;
use crate::screen::Screen;
use crate::{Exit, say, signals};

/// Measures A and B in turns and compares them.
pub(super) fn compare(args: &CompareArgs) -> Result<Exit> {
    let slicing = Slicing { slice_ms: args.slice, guard_ms: args.guard };
    let Prepared { plan, dir, servers, os } = prepare(args, |_| Pairs { n_max: 1, precision: None })?;
    let cache = Cache::default_location()?;
    let now = || jiff::Timestamp::now().to_string();
    let site = Site {
        cache: &cache,
        // Two servers share the machine's.
        memory_bytes: server::defaults::memory_bytes() / 2,
        most_clients: plan.cases.iter().map(|case| case.workload.n_clients).max().unwrap_or(1),
        servers: &servers,
        os,
        runs_by_data: copies::runs_by_data(&plan),
        replace: args.replace,
        stop: signals::stop_flag(),
        now: &now,
        is_enough: None,
    };
    let mut screen = Screen::new(&plan);
    let program = std::env::current_exe().context("find the program of this process")?;
    let done = BTreeSet::new();
    let order = Order {
        plan: &plan,
        dir: &dir,
        site: &site,
        program: &program,
        done: &done,
        tool_version: env!("CARGO_PKG_VERSION"),
    };
    let result = experiment::duet::conduct(&order, slicing, &mut |progress| screen.show(progress));
    screen.close();
    let path = dir.path().to_path_buf();
    let duet = match result {
        Ok(duet) => duet,
        Err(error) => {
            let has_runs =
                store::read_records(&path).is_ok_and(|runs| runs.iter().any(|run| run.go_unix_ns.is_some()));
            if has_runs {
                say(&format!("what was measured is in {}", path.display()));
            } else {
                dir.discard();
            }
            return Err(error);
        }
    };
    drop(dir);
    let explained = Explained::read(&path)?;
    let comparison = compare_duet(explained.side(1), explained.side(2), &duet, args.margin);
    let exit = finish(&[comparison], &explained.data, args)?;
    say(&format!("results: {}", path.display()));
    Ok(exit)
}
