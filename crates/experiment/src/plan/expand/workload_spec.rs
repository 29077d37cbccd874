//! The workload of a case: checks values, and resolves scales.

use std::collections::BTreeMap;

use dataset::schema;
use dataset::streams::tablespace;
use model::experiment::case::{Calls, Layout, Think, TpccSpec, WorkloadKind, WorkloadSpec};
use model::experiment::driver::DriverSpec;
use model::experiment::keys::prepare::RESTORE;
use model::experiment::keys::workload as keys;
use model::experiment::script::{CaseData, CaseScript};
use model::experiment::target::TargetSection;
use model::experiment::{Experiment, WorkloadSection};
use model::load::Protocol;
use model::text::prose::bytes;
use model::text::units::Scale;
use model::workload::data::FitScale;
use model::workload::{Dataset, TryLimit, WorkloadName};

use super::PlanResources;
use super::directory::DirectoryOfCase;
use crate::plan::design::choice::LevelChoice;
use crate::plan::problems::Problems;
use crate::plan::scripts::directories::chosen::{ChosenDirectories, ChosenDirectory};
use crate::plan::scripts::directories::{captured, replay};
use crate::plan::{archive, inventory, scripts};

/// The workload of a case, unless a value is out of range or contradicts another.
pub(super) fn workload_spec(
    choice: &LevelChoice,
    sources: &WorkloadSources,
    problems: &mut Problems,
) -> Option<WorkloadSpec> {
    let WorkloadSources { experiment, target, site, directories } = *sources;
    let section = &experiment.workload;
    let name = choice.get(keys::KIND);
    let kind = name.kind();
    if let Some(name) = &section.schema {
        problems.take(schema::expect_name(name).map_err(|message| format!("workload.schema: {message}")));
    }
    let (is_own, options) = (kind.is_own(), &kind.row().options);
    let chosen = match name.directory() {
        Some(name) => {
            Some(problems.take(DirectoryOfCase { name, section, directories }.choose(choice, site))?)
        }
        None => None,
    };
    let (scale_of_directory, directory) = chosen.unzip();
    let data = problems.take(data(&name, section, directory.as_deref(), site))?;
    expect_used(section, kind, &data, problems);
    let tablespace = choice.get(keys::TABLESPACE);
    expect_tablespace(tablespace.as_deref(), &data, site, problems);
    let people = people(choice, experiment, target, site, problems);
    let tpcc = options.terminals.then(|| problems.take(tpcc_spec(choice)));
    let scale = match scale_of_directory {
        Some(scale) => scale,
        None => problems.take(scale(choice, section, &data, site))?,
    };
    let directory = directory.as_deref();
    let People { n_clients, n_threads, drivers } = people?;
    if let Some(directory) = directory {
        problems.take(directory.expect_classes(n_clients));
    }
    let pace =
        problems.take(captured::resolved(choice.get(keys::PACE), directory.map(|of| &of.directory)))?;
    let of_directory = directory.map(|directory| &directory.directory);
    problems.take(replay::expect_fitting(section, of_directory, drivers.len(), pace));
    let own_protocol = directory.and_then(|directory| directory.protocol);
    let own_transactions = directory.and_then(|directory| directory.transactions);
    Some(WorkloadSpec {
        kind,
        scale,
        // Where nobody chose one, `forecast/protocol.rs` may choose another.
        protocol: choice.get(keys::PROTOCOL).or(own_protocol).unwrap_or(Protocol::Prepared),
        n_clients,
        n_threads,
        drivers,
        pace,
        only_reads: problems.take(only_reads(section, directory.is_some()))?,
        transactions: choice.get(keys::TRANSACTIONS).or(own_transactions),
        poller: choice.get(keys::POLLER),
        busy_poll_us: choice.get(keys::BUSY_POLL_US),
        session_settings: BTreeMap::new(),
        reply_delay_us: 0,
        layout: layout(choice),
        max_message_mib: section.max_message_mib,
        max_tries: section.max_tries,
        on_disconnect: section.on_disconnect.unwrap_or_default(),
        load_streams: section.load_streams,
        schema: section.schema.clone(),
        tablespace,
        data,
        scripts: scripts_of(directory, section, is_own),
        defines: match directory {
            // Scripts see options as variables.
            Some(directory) => directory.directory.options.clone(),
            None if is_own => choice.get(keys::DEFINES),
            None => BTreeMap::new(),
        },
        directory: directory.map(|directory| Box::new(directory.directory.clone())),
        tpcc: tpcc.map_or(Some(None), |tpcc| tpcc.map(Some))?,
        // Terminals have their calls in `tpcc`.
        procedures: !options.terminals && choice.get(keys::CALLS) == Some(Calls::Procedures),
        all_warehouses: choice.get(keys::ALL_WAREHOUSES) == Some(true),
    })
}

fn scripts_of(
    directory: Option<&ChosenDirectory>,
    section: &WorkloadSection,
    is_own: bool,
) -> Vec<CaseScript> {
    match directory {
        Some(directory) => directory.scripts.clone(),
        None if is_own => scripts::of_case(section),
        None => Vec::new(),
    }
}

/// What the workload of a case is made from.
#[derive(Clone, Copy)]
pub(super) struct WorkloadSources<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) target: Option<&'a TargetSection>,
    pub(super) site: &'a PlanResources,
    pub(super) directories: &'a ChosenDirectories,
}

/// The data of a workload.
fn data(
    name: &WorkloadName,
    section: &WorkloadSection,
    directory: Option<&ChosenDirectory>,
    site: &PlanResources,
) -> Result<CaseData, String> {
    let kind = name.kind();
    let is_by_url = site.url_keywords.is_some();
    if let (WorkloadName::Directory(name), Some(directory)) = (name, directory) {
        return captured::data_of(section, &name.place, directory.is_for_existing_data(), is_by_url);
    }
    Ok(if kind.is_own() {
        scripts::data_of(section, is_by_url)
    } else {
        archive::data_of(section, Some(kind.row().data)).unwrap_or_else(|| kind.data())
    })
}

/// Whether the load only reads.
fn only_reads(section: &WorkloadSection, is_directory: bool) -> Result<bool, String> {
    match section.only_reads {
        Some(true) if !is_directory => Err(format!(
            "{} is for workload directories; for others, set default_transaction_read_only in the URL's options",
            keys::ONLY_READS
        )),
        given => Ok(given == Some(true)),
    }
}

/// Reports keys that the workload would not follow.
fn expect_used(section: &WorkloadSection, kind: WorkloadKind, data: &CaseData, problems: &mut Problems) {
    let is_ours = Dataset::from_case_data(data).is_some() || *data == CaseData::Directory;
    if section.schema.is_some() && !is_ours {
        problems.say(
            "workload.schema is for tables that pgdyno loads; your own scripts and files name their schema \
                    themselves"
                .to_string(),
        );
    }
    let asks = section.unlogged.as_ref().is_some_and(|levels| levels.all().contains(&true));
    if asks && Dataset::from_case_data(data).is_none() {
        problems.say(format!(
            "{} is for tables that pgdyno loads; your own SQL files say `create unlogged table` themselves",
            keys::UNLOGGED
        ));
    }
    if section.max_tries.is_some() && kind.row().options.tries != TryLimit::AsAsked {
        let decide = |kind: WorkloadKind| Some(format!("`{kind}` {}", kind.row().options.tries.words()?));
        let all: Vec<String> = WorkloadKind::ALL.into_iter().filter_map(decide).collect();
        problems.say(format!("workload.max_tries: `{kind}` decides this itself ({})", all.join(", ")));
    }
}

/// Reports a tablespace that no load would use, or that no server could have.
fn expect_tablespace(name: Option<&str>, data: &CaseData, site: &PlanResources, problems: &mut Problems) {
    let Some(name) = name else { return };
    problems.take(tablespace::expect_name(name).map_err(|message| format!("workload.tablespace: {message}")));
    if !matches!(data, CaseData::Loaded(_)) {
        problems.say(
            "workload.tablespace is for tables that pgdyno loads; name it in your own files (CREATE TABLE ... TABLESPACE), or set \
             server.settings.default_tablespace"
                .to_string(),
        );
    }
    if site.url_keywords.is_none() {
        problems.say(
            "workload.tablespace needs a server by URL: a server that pgdyno runs has no tablespaces; `directory` of a [[target]] \
             decides where its data is, and server.wal_directory where its WAL is"
                .to_string(),
        );
    }
}

/// The clients, and who makes them.
struct People {
    n_clients: u32,
    n_threads: u32,
    drivers: Vec<DriverSpec>,
}

fn people(
    choice: &LevelChoice,
    experiment: &Experiment,
    target: Option<&TargetSection>,
    site: &PlanResources,
    problems: &mut Problems,
) -> Option<People> {
    let n_clients = choice.get(keys::CLIENTS);
    let n_threads = choice.get(keys::THREADS);
    let drivers = problems.take(drivers(choice, experiment, target))?;
    let n_clients_each = n_clients / (drivers.len() as u32).max(1);
    if n_clients_each == 0 {
        problems.say(format!(
            "workload.clients: {n_clients} clients cannot be shared by {} drivers",
            drivers.len()
        ));
    }
    let default_threads = n_clients_each.div_ceil(64).min((site.n_cpus / 2).max(1));
    let n_threads = n_threads.unwrap_or(default_threads);
    Some(People { n_clients, n_threads, drivers })
}

/// The drivers that take part: the first ones of those that the target names, else of the experiment's.
fn drivers(
    choice: &LevelChoice,
    experiment: &Experiment,
    target: Option<&TargetSection>,
) -> Result<Vec<DriverSpec>, String> {
    let (entries, of) = match target.filter(|target| !target.driver.is_empty()) {
        Some(target) => (&target.driver, format!("target `{}`: driver", target.name)),
        None => (&experiment.driver, "driver".to_string()),
    };
    let all = inventory::drivers_of(entries).map_err(|message| format!("{of}: {message}"))?;
    let n = choice.get(keys::DRIVERS).map_or(all.len(), |n| n as usize);
    if n > 0 && all.is_empty() {
        return Err(match target {
            Some(target) => format!("workload.drivers: target `{}` has no [[driver]]", target.name),
            None => "workload.drivers: the experiment names no [[driver]]".to_string(),
        });
    }
    if n > all.len() || (n == 0 && !all.is_empty()) {
        return Err(format!("workload.drivers: {n} is not in 1..{}, the number of drivers", all.len()));
    }
    Ok(all[..n].to_vec())
}

/// The scale units of a case.
fn scale(
    choice: &LevelChoice,
    section: &WorkloadSection,
    data: &CaseData,
    site: &PlanResources,
) -> Result<u32, String> {
    let scale = choice.get(keys::SCALE);
    match Dataset::from_case_data(data) {
        Some(_) if matches!(data, CaseData::Archive(_)) => archive_scale(scale),
        Some(dataset) => {
            let most_clients = section.clients.all().iter().copied().max().unwrap_or(1);
            resolve_scale(scale, dataset, most_clients, !choice.get(RESTORE), site)
        }
        None => own_scale(scale, data, site),
    }
}

/// The value of `:scale` in scripts with their own data. `fit`: the scale of existing TPC-B-like tables, else 1, as in
/// pgbench.
fn own_scale(scale: Scale, data: &CaseData, site: &PlanResources) -> Result<u32, String> {
    match scale {
        Scale::Units(units) => Ok(units),
        Scale::Fit if *data == CaseData::None => {
            let tables = Dataset::default();
            let scale = site.data_scale.get(&tables).or(site.foreign_scale.get(&tables));
            Ok(scale.copied().unwrap_or(1))
        }
        Scale::Fit => Ok(1),
        Scale::TimesRam(_) => Err(format!(
            "workload.scale: `{scale}` needs tables of known size; give a number, which scripts see as :scale"
        )),
    }
}

/// The scale of built-in tables in an archive, which is verified after they are restored.
fn archive_scale(scale: Scale) -> Result<u32, String> {
    match scale {
        Scale::Units(units) if units > 0 => Ok(units),
        _ => Err(format!(
            "workload.scale: `{scale}` is not a number; give the branches or warehouses that the archive holds"
        )),
    }
}

fn layout(choice: &LevelChoice) -> Layout {
    Layout {
        partitions: choice.get(keys::PARTITIONS),
        partition_method: choice.get(keys::PARTITION_METHOD),
        unlogged: choice.get(keys::UNLOGGED) == Some(true),
    }
}

/// Values of the keys that only TPC-C has.
fn tpcc_spec(choice: &LevelChoice) -> Result<TpccSpec, String> {
    let spec = TpccSpec {
        calls: choice.get(keys::CALLS).unwrap_or_default(),
        think: choice.get(keys::THINK).unwrap_or_default(),
        isolation: choice.get(keys::ISOLATION).unwrap_or_default(),
    };
    if spec.think == Think::Spec && choice.get(keys::PACE).is_open() {
        return Err(
            "workload.think = \"spec\" needs workload.pace = \"closed\": terminals have their own pace"
                .to_string(),
        );
    }
    Ok(spec)
}

/// Scale units for a rule. `fit`: the existing data, if pgdyno loaded it or it is measured as it is; else as much as the dataset has by default for
/// so many clients, at most an eighth of memory.
fn resolve_scale(
    scale: Scale,
    dataset: Dataset,
    most_clients: u32,
    is_as_it_is: bool,
    site: &PlanResources,
) -> Result<u32, String> {
    let as_it_is = || {
        let known = site.foreign_scale.get(&dataset).or(site.kept_scale.get(&dataset));
        if is_as_it_is { known } else { None }
    };
    let unit_bytes = dataset.estimated_bytes(1).max(1);
    let FitScale { per_client, least } = dataset.row().fit_scale;
    match (scale, site.memory_bytes) {
        (Scale::Units(units), _) => Ok(units),
        (Scale::Fit, memory_bytes) => {
            Ok(site.data_scale.get(&dataset).or_else(as_it_is).copied().unwrap_or_else(|| {
                let most = memory_bytes.map_or(u64::MAX, |bytes| (bytes / 8 / unit_bytes).max(1));
                u64::from(most_clients).saturating_mul(per_client).max(least).min(most) as u32
            }))
        }
        (Scale::TimesRam(times), Some(bytes)) => {
            Ok(((bytes as f64 * times / unit_bytes as f64).ceil() as u32).max(1))
        }
        (Scale::TimesRam(_), None) => Err(format!(
            "workload.scale: `{scale}` needs the memory of the server's machine, which is not this one; give a \
             number: one scale unit is about {}",
            bytes(unit_bytes as f64)
        )),
    }
}
