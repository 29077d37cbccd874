//! `pgdyno init` of a workload directory, with its own options.

use std::path::Path;

use anyhow::{Result, ensure};
use dataset::clearance::published::{self, Creator};
use dataset::session::limit;
use dataset::{layout, schema};
use experiment::plan::scripts::directories;
use experiment::site::{phase_limit, stored_words};
use experiment::stage::directory_data;
use model::experiment::case::{Case, Layout, WorkloadKind};
use model::text::prose::grouped;
use model::workload::DirectoryName;
use server::Cache;

use super::{load_into_embedded, open_to_load, site};
use crate::commands::data::check::embedded_case;
use crate::front::cli::data::InitArgs;
use crate::front::setup;
use crate::job::screen::Screen;
use crate::{Exit, print, signals};

/// Loads the data of a directory into the given server or an embedded one.
pub(super) fn init(args: &InitArgs, name: &DirectoryName, scale: u32) -> Result<Exit> {
    let is_plain = args.partitions == 0 && !args.unlogged && args.tablespace.is_none();
    ensure!(
        is_plain,
        "a workload directory says itself how its tables are made: leave --partitions, --unlogged and --tablespace out"
    );
    let mut case = embedded_case(&args.server, WorkloadKind::OWN, scale, Layout::default(), args.streams)?;
    case.workload = directories::workload_at(name, scale, Path::new("")).map_err(anyhow::Error::msg)?;
    case.workload.load_streams = args.streams;
    match &args.server.server {
        Some(target) => load_into(args, case, target),
        None => load_into_embedded(args, case),
    }
}

/// Loads it into a server by URL.
fn load_into(args: &InitArgs, mut case: Case, target: &str) -> Result<Exit> {
    let stop = signals::stop_flag();
    let mut screen = Screen::of_one();
    let conninfo = setup::resolve_to_change(target)?;
    case.workload.schema = args.schema.clone();
    let cache = Cache::default_location()?;
    let site = site(args, &cache)?;
    let mut session = limit::within("examine the server", limit::QUESTIONS, || {
        let mut session = open_to_load(args, &conninfo, stop)?;
        let schema = schema::find(&mut session, args.schema.as_deref())?;
        schema::expect_creatable(&mut session, &schema, &conninfo.to_string())?;
        let mut problems = directory_data::problems_by_url(&conninfo, &case, &site)?;
        if !args.allow_published {
            problems.extend(published::problem(&mut session, Some(&schema), Creator::Load)?);
        }
        ensure!(problems.is_empty(), "{}", problems.join("\npgdyno: error: "));
        Ok(session)
    })?;
    let mut show = |progress| screen.show(progress);
    let report = limit::within("load", phase_limit::for_case(&case), || {
        directory_data::load_by_url(&mut session, &conninfo, &case, args.replace, &site, &mut show)
    });
    screen.close();
    let report = report?;
    let (rows, stored) = (grouped(&report.n_rows.to_string()), stored_words(&report));
    let data = layout::describe(&case.workload);
    print(&format!("loaded {data}: {rows} rows{stored} in {:.2} s\n", report.seconds))?;
    Ok(Exit::Done)
}
