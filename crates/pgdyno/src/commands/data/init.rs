//! `pgdyno init`: loads a workload's tables.

mod directory;

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use dataset::clearance::LoadConsent;
use dataset::load::{self, LoadRequest};
use dataset::loading;
use dataset::schema;
use dataset::session::{self, limit, lock};
use experiment::forecast::intent::Intent;
use experiment::plan::scripts::directories;
use experiment::site::progress::ProgressEvent;
use experiment::site::{Permissions, Risks, Site, stored_words};
use experiment::stage::adopted;
use experiment::stage::{ResolvedServer, Stage};
use model::experiment::case::{Case, Layout};
use model::text::prose::{bytes, grouped};
use model::text::units::Scale;
use model::workload::{Dataset, WorkloadName};
use server::Cache;
use server::alter_system::AllowedChange;
use server::cluster::budget::CacheBudget;
use server::database::template::{self, Doors, MAINTENANCE};
use wire::Conninfo;
use wire::session::Session;
use workload::TpcbScript;

use crate::commands::data::check::embedded_case;
use crate::commands::data::site::{now, without_experiment};
use crate::front::cli::data::InitArgs;
use crate::front::cli::data::name::workload_name;
use crate::front::setup;
use crate::job::screen::Screen;
use crate::{Exit, print, say, signals};

/// Loads the tables that `args` ask for, into the given server or an embedded one.
pub(crate) fn init(args: &InitArgs) -> Result<Exit> {
    // pgbench's names are known by their beginnings, so ours come first.
    let name = match (workload_name(&args.workload), TpcbScript::parse(&args.workload)) {
        (Ok(name), _) => name,
        (Err(_), Ok(script)) => WorkloadName::Kind(script.kind()),
        (Err(refused), Err(_)) => return Err(anyhow::Error::msg(refused)).context("--workload"),
    };
    let given = args.scale.as_deref().map(|scale| units(scale).context("--scale")).transpose()?;
    let kind = match &name {
        WorkloadName::Directory(name) => {
            return directory::init(args, name, given.unwrap_or(directories::DEFAULT_SCALE));
        }
        WorkloadName::Kind(kind) => *kind,
    };
    let scale = given.unwrap_or(DEFAULT_SCALE);
    let dataset = if kind.is_own() { None } else { Dataset::of_kind(kind) };
    let dataset = dataset.context(
        "scripts have no tables of their own to load; workload.data of the experiment file says what \
         they run on, and pgdyno run loads it; for TPC-B-like tables omit --workload",
    )?;
    if dataset.name() != args.workload {
        say(&format!("workload `{}` runs on the tables of `{}`", args.workload, dataset.name()));
    }
    let partition_method =
        args.partition_method.parse().map_err(anyhow::Error::msg).context("--partition-method")?;
    let layout = Layout { partitions: args.partitions, partition_method, unlogged: args.unlogged };
    let order = Order { args, dataset, scale, layout, stop: signals::stop_flag() };
    match &args.server.server {
        Some(target) => order.load_into(target),
        None => order.load_into_embedded(),
    }
}

/// Scale units where nobody says how many.
const DEFAULT_SCALE: u32 = 10;

fn units(text: &str) -> Result<u32> {
    match text.parse().map_err(anyhow::Error::msg)? {
        Scale::Units(units) => Ok(units),
        Scale::Fit | Scale::TimesRam(_) => bail!("{text}: expected a number of scale units"),
    }
}

/// The tables that are wanted.
#[derive(Clone, Copy)]
struct Order<'a> {
    args: &'a InitArgs,
    dataset: Dataset,
    scale: u32,
    layout: Layout,
    stop: &'static AtomicBool,
}

impl Order<'_> {
    /// Loads them into a server by URL.
    fn load_into(self, target: &str) -> Result<Exit> {
        let Order { args, dataset, scale, layout, stop } = self;
        let mut screen = Screen::of_one();
        let conninfo = setup::resolve_to_change(target)?;
        let consent = LoadConsent { replace: args.replace, published: args.allow_published };
        let mut case = embedded_case(&args.server, dataset.row().workload, scale, layout, args.streams)?;
        case.workload.tablespace = args.tablespace.clone();
        let (mut session, schema) = limit::within("examine the server", limit::QUESTIONS, || {
            let mut session = open_to_load(args, &conninfo, stop)?;
            let schema = schema::find(&mut session, args.schema.as_deref())?;
            let mut problems = load::problems(&mut session, &case.workload, &schema, consent)?;
            if let Err(error) = schema::expect_creatable(&mut session, &schema, &conninfo.to_string()) {
                problems.insert(0, format!("{error:#}"));
                problems = schema::cannot_load(problems).into_iter().collect();
            }
            ensure!(problems.is_empty(), "{}", problems.join("\npgdyno: error: "));
            say(&Intent::to_load(&conninfo, dataset, &schema));
            Ok((session, schema))
        })?;
        let request = LoadRequest {
            schema: &schema,
            scale,
            layout,
            tablespace: args.tablespace.as_deref(),
            n_streams: args.streams,
            connect: &|| session::open(&conninfo, stop),
            consent,
            now: &now,
            stop,
        };
        let mut show = |load| screen.show(ProgressEvent::Load(load));
        let report = limit::within("load", experiment::site::phase_limit::for_case(&case), || {
            loading::load(&mut session, dataset, &request, &mut show)
        });
        screen.close();
        let report = report?;
        let (rows, stored) = (grouped(&report.n_rows.to_string()), stored_words(&report));
        print(&format!("loaded scale {scale}: {rows} rows{stored} in {:.2} s\n", report.seconds))?;
        Ok(Exit::Done)
    }

    /// Loads them into an embedded server.
    fn load_into_embedded(self) -> Result<Exit> {
        let Order { args, dataset, scale, layout, .. } = self;
        let case = embedded_case(&args.server, dataset.row().workload, scale, layout, args.streams)?;
        load_into_embedded(args, case)
    }
}

/// Opens a session that keeps others from loading, in a database that is made if `args` ask for that.
fn open_to_load(args: &InitArgs, conninfo: &Conninfo, stop: &'static AtomicBool) -> Result<Session> {
    if args.create_database {
        create_database(conninfo, stop)?;
    }
    let mut session = session::open(conninfo, stop)?;
    adopted::expect_primary(conninfo, &mut session)?;
    lock::take(&mut session, template::keeper)?;
    Ok(session)
}

/// Loads the data of a case into an embedded server.
fn load_into_embedded(args: &InitArgs, mut case: Case) -> Result<Exit> {
    let mut screen = Screen::of_one();
    let cache = Cache::default_location()?;
    let budget = CacheBudget::read(&cache)?;
    ensure!(
        !budget.keeps_nothing(),
        "{} keeps no cluster, so there is nothing to load in advance",
        budget.origin
    );
    let site = site(args, &cache)?;
    if let Some(name) = &args.schema {
        schema::expect_name(name).map_err(anyhow::Error::msg).context("--schema")?;
    }
    case.workload.schema = args.schema.clone();
    let mut watch = |progress| screen.show(progress);
    let stage = ResolvedServer::resolve(&case, &site.environment, &mut watch)
        .and_then(|found| Stage::set_up(found, &case, &site, &mut watch));
    screen.close();
    let mut stage = stage?;
    stage.stand_down()?;
    if let Some(report) = stage.put_back()? {
        let (size, method) = (bytes(report.bytes as f64), report.method.as_str());
        say(&format!("restored from its snapshot: {size} by {method} in {:.2} s", report.seconds));
    }
    if let Some(cluster) = stage.cluster() {
        let data = dataset::layout::describe(&case.workload);
        print(&format!("{data} is loaded in {}\n", cluster.root.display()))?;
    }
    drop(stage);
    let mut screen = Screen::of_one();
    experiment::stage::disk::keep_to_budget(&cache, &mut |progress| screen.show(progress));
    screen.close();
    Ok(Exit::Done)
}

/// What a stage needs to be loaded, with the consents that `args` give.
fn site<'a>(args: &InitArgs, cache: &'a Cache) -> Result<Site<'a>> {
    let permissions = Permissions {
        replace: args.replace,
        replace_databases: &[],
        risks: Risks {
            published: args.allow_published,
            trusted_workload: args.trust_workload,
            ..Risks::default()
        },
        allowed: AllowedChange::Nothing,
        outages: &[],
    };
    without_experiment(cache, permissions)
}

/// NAMEDATALEN - 1 of every common build: the server cuts what is longer, and another database would be made.
const NAME_BYTES_MAX: usize = 63;

fn create_database(conninfo: &Conninfo, stop: &'static AtomicBool) -> Result<()> {
    let n_bytes = conninfo.dbname.len();
    ensure!(
        n_bytes <= NAME_BYTES_MAX,
        "the name of database `{}` has {n_bytes} bytes; PostgreSQL takes at most {NAME_BYTES_MAX}",
        conninfo.dbname
    );
    let mut maintenance = Doors::new(conninfo, stop).open(MAINTENANCE)?;
    let (name, is_new) =
        (conninfo.dbname.as_str(), template::create_database(&mut maintenance, &conninfo.dbname)?);
    say(&if is_new {
        format!("created database `{name}`; a run may replace it by a copy of itself")
    } else {
        format!("database `{name}` exists; pgdyno created it")
    });
    Ok(())
}
