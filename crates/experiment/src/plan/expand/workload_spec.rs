//! The workload of a case: parses levels, checks values, and resolves scales.

use std::collections::BTreeMap;
use std::str::FromStr;

use dataset::schema;
use dataset::streams::tablespace;
use model::experiment::case::{Calls, Layout, Think, TpccSpec, WorkloadKind, WorkloadSpec};
use model::experiment::driver::DriverSpec;
use model::experiment::script::CaseData;
use model::experiment::target::TargetSection;
use model::experiment::{Experiment, WorkloadSection};
use model::load::{Pace, Protocol};
use model::text::prose::bytes;
use model::text::units::Scale;
use model::workload::data::FitScale;
use model::workload::{Dataset, Tries};

use super::Resources;
use super::grid::DEFINES;
use crate::plan::problems::Problems;
use crate::plan::{archive, inventory, scripts};

/// The workload of a case, unless a value is out of range or contradicts another.
pub(super) fn workload_spec(
    values: &BTreeMap<&str, &str>,
    experiment: &Experiment,
    target: Option<&TargetSection>,
    site: &Resources,
    problems: &mut Problems,
) -> Option<WorkloadSpec> {
    let section = &experiment.workload;
    let kind: WorkloadKind = problems.take(values["workload.kind"].parse())?;
    expect_in_range(section, problems);
    let (is_own, options) = (kind.is_own(), &kind.row().options);
    let data = if is_own {
        scripts::data_of(section, site.url_keywords.is_some())
    } else {
        archive::data_of(section, Some(kind.row().data)).unwrap_or_else(|| kind.data())
    };
    expect_used(section, kind, &data, problems);
    expect_tablespace(values.get("workload.tablespace").copied(), &data, site, problems);
    let people = people(values, experiment, target, site, problems);
    let pace: Option<Pace> = problems.take(values["workload.pace"].parse());
    let tpcc = pace.filter(|_| options.terminals);
    let tpcc = tpcc.map(|pace| problems.take(tpcc_spec(values, pace)));
    let scale = problems.take(values["workload.scale"].parse());
    let most_clients = section.clients.all().iter().copied().max().unwrap_or(1);
    let scale = scale.and_then(|scale| {
        problems.take(match Dataset::of(&data) {
            Some(_) if matches!(data, CaseData::Archive(_)) => archive_scale(scale),
            Some(dataset) => {
                resolve_scale(scale, dataset, most_clients, values["prepare.restore"] == "false", site)
            }
            None => own_scale(scale, &data, site),
        })
    });
    let busy_poll_us = problems.take(number(values, "workload.busy_poll_us")).map(Option::unwrap_or_default);
    if busy_poll_us.is_some_and(|us: u32| us > BUSY_POLL_US_MAX) {
        problems.say(format!("workload.busy_poll_us: not in 0..={BUSY_POLL_US_MAX} microseconds"));
    }
    // Where nobody chose one, `forecast/protocol.rs` may choose another.
    let protocol = values.get("workload.protocol").map_or(Ok(Protocol::Prepared), |text| text.parse());
    let protocol = problems.take(protocol);
    let transactions = problems.take(number(values, "workload.transactions"));
    let poller = problems.take(values["workload.poller"].parse());
    let layout = problems.take(layout(values));
    let defines = values.iter().filter_map(|(key, value)| {
        Some((key.strip_prefix(DEFINES).filter(|_| is_own)?.to_string(), value.to_string()))
    });
    let People { n_clients, n_threads, drivers } = people?;
    Some(WorkloadSpec {
        kind,
        scale: scale?,
        protocol: protocol?,
        n_clients,
        n_threads,
        drivers,
        pace: pace?,
        transactions: transactions?,
        poller: poller?,
        busy_poll_us: busy_poll_us?,
        session_settings: BTreeMap::new(),
        reply_delay_us: 0,
        layout: layout?,
        max_message_mib: section.max_message_mib,
        max_tries: section.max_tries,
        on_disconnect: section.on_disconnect.unwrap_or_default(),
        load_streams: section.load_streams,
        schema: section.schema.clone(),
        tablespace: values.get("workload.tablespace").map(|name| name.to_string()),
        data,
        scripts: if is_own { scripts::of_case(section) } else { Vec::new() },
        defines: defines.collect(),
        tpcc: match tpcc {
            Some(tpcc) => Some(tpcc?),
            None => None,
        },
        // Terminals have their calls in `tpcc`.
        procedures: !options.terminals && values.get("workload.calls") == Some(&Calls::Procedures.as_str()),
        all_warehouses: values.get("workload.all_warehouses") == Some(&"true"),
    })
}

/// Reports keys that the workload would not follow.
fn expect_used(section: &WorkloadSection, kind: WorkloadKind, data: &CaseData, problems: &mut Problems) {
    if section.schema.is_some() && Dataset::of(data).is_none() {
        problems.say(
            "workload.schema is for tables that pgdyno loads; your own scripts and files name their schema \
                    themselves"
                .to_string(),
        );
    }
    let asks = section.unlogged.as_ref().is_some_and(|levels| levels.all().contains(&true));
    if asks && Dataset::of(data).is_none() {
        problems.say(format!(
            "{UNLOGGED} is for tables that pgdyno loads; your own SQL files say `create unlogged table` themselves"
        ));
    }
    if section.max_tries.is_some() && kind.row().options.tries != Tries::AsAsked {
        let decide = |kind: WorkloadKind| Some(format!("`{kind}` {}", kind.row().options.tries.words()?));
        let all: Vec<String> = WorkloadKind::ALL.into_iter().filter_map(decide).collect();
        problems.say(format!("workload.max_tries: `{kind}` decides this itself ({})", all.join(", ")));
    }
}

/// Reports a tablespace that no load would use, or that no server could have.
fn expect_tablespace(name: Option<&str>, data: &CaseData, site: &Resources, problems: &mut Problems) {
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
    values: &BTreeMap<&str, &str>,
    experiment: &Experiment,
    target: Option<&TargetSection>,
    site: &Resources,
    problems: &mut Problems,
) -> Option<People> {
    let n_clients = values["workload.clients"].parse().map_err(|e| format!("workload.clients: {e}"));
    let n_clients: Option<u32> = problems.take(n_clients);
    if let Some(n) = n_clients.filter(|n| !(1..=100_000).contains(n)) {
        problems.say(format!("workload.clients: {n} is not in 1..100000"));
    }
    let n_threads: Option<Option<u32>> = problems.take(number(values, "workload.threads"));
    if n_threads == Some(Some(0)) {
        problems.say("workload.threads: 0 is not in 1..clients".to_string());
    }
    let drivers = problems.take(drivers(values, experiment, target))?;
    let n_clients = n_clients.filter(|n| *n > 0)?;
    let n_clients_each = n_clients / (drivers.len() as u32).max(1);
    if n_clients_each == 0 {
        problems.say(format!(
            "workload.clients: {n_clients} clients cannot be shared by {} drivers",
            drivers.len()
        ));
    }
    let default_threads = n_clients_each.div_ceil(64).min((site.n_cpus / 2).max(1));
    let n_threads = n_threads?.unwrap_or(default_threads);
    Some(People { n_clients, n_threads, drivers })
}

/// The drivers that take part: the first ones of those that the target names, else of the experiment's.
fn drivers(
    values: &BTreeMap<&str, &str>,
    experiment: &Experiment,
    target: Option<&TargetSection>,
) -> Result<Vec<DriverSpec>, String> {
    let (entries, of) = match target.filter(|target| !target.driver.is_empty()) {
        Some(target) => (&target.driver, format!("target `{}`: driver", target.name)),
        None => (&experiment.driver, "driver".to_string()),
    };
    let all = inventory::drivers_of(entries).map_err(|message| format!("{of}: {message}"))?;
    let n = number(values, "workload.drivers")?.unwrap_or(all.len());
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

/// Checks the values that are no factors.
fn expect_in_range(section: &WorkloadSection, problems: &mut Problems) {
    if section.transactions.as_ref().is_some_and(|levels| levels.all().contains(&0)) {
        problems.say("workload.transactions: 0 is not in 1..".to_string());
    }
    if section.load_streams.is_some_and(|n| !(1..=LOAD_STREAMS_MAX).contains(&n)) {
        problems.say(format!("workload.load_streams: not in 1..{LOAD_STREAMS_MAX}"));
    }
    if let Some(name) = &section.schema {
        problems.take(schema::expect_name(name).map_err(|message| format!("workload.schema: {message}")));
    }
    if section.max_message_mib.is_some_and(|n| !(1..=MAX_MESSAGE_MIB_MAX).contains(&n)) {
        problems.say(format!("workload.max_message_mib: not in 1..{MAX_MESSAGE_MIB_MAX}"));
    }
}

/// The number that a key has, if it was given.
fn number<T: FromStr<Err = std::num::ParseIntError>>(
    values: &BTreeMap<&str, &str>,
    key: &str,
) -> Result<Option<T>, String> {
    values.get(key).map(|text| text.parse().map_err(|error| format!("{key}: {error}"))).transpose()
}

/// The value of `:scale` in scripts with their own data. `fit`: the scale of existing TPC-B-like tables, else 1, as in
/// pgbench.
fn own_scale(scale: Scale, data: &CaseData, site: &Resources) -> Result<u32, String> {
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

/// Limit for concurrent loading sessions: the server's processors limit loading, not the number of sessions.
pub const LOAD_STREAMS_MAX: u32 = 256;
/// One second: the driver reports every second.
const BUSY_POLL_US_MAX: u32 = 1_000_000;
/// PostgreSQL's own limit for a field.
const MAX_MESSAGE_MIB_MAX: u32 = 1024;
/// The key of tables that write no WAL.
const UNLOGGED: &str = "workload.unlogged";
/// Limit for partitions: PostgreSQL's documentation advises a few thousand at most.
pub const PARTITIONS_MAX: u32 = 10_000;

fn layout(values: &BTreeMap<&str, &str>) -> Result<Layout, String> {
    let partitions: u32 =
        values["workload.partitions"].parse().map_err(|e| format!("workload.partitions: {e}"))?;
    if partitions > PARTITIONS_MAX {
        return Err(format!("workload.partitions: {partitions} is not in 0..{PARTITIONS_MAX}"));
    }
    let partition_method = values["workload.partition_method"].parse()?;
    Ok(Layout { partitions, partition_method, unlogged: values.get(UNLOGGED) == Some(&"true") })
}

/// Values of the keys that only TPC-C has.
fn tpcc_spec(values: &BTreeMap<&str, &str>, pace: Pace) -> Result<TpccSpec, String> {
    fn read<T: FromStr<Err = String> + Default>(
        values: &BTreeMap<&str, &str>,
        key: &str,
    ) -> Result<T, String> {
        values.get(key).map_or_else(|| Ok(T::default()), |text| text.parse())
    }
    let spec = TpccSpec {
        calls: read(values, "workload.calls")?,
        think: read(values, "workload.think")?,
        isolation: read(values, "workload.isolation")?,
    };
    if spec.think == Think::Spec && pace.is_open() {
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
    site: &Resources,
) -> Result<u32, String> {
    let as_it_is = || {
        let known = site.foreign_scale.get(&dataset).or(site.kept_scale.get(&dataset));
        known.filter(|_| is_as_it_is)
    };
    let unit_bytes = dataset.estimated_bytes(1).max(1);
    let FitScale { per_client, least } = dataset.row().fit_scale;
    match (scale, site.memory_bytes) {
        (Scale::Units(0), _) => Err("workload.scale: 0 is not in 1..".to_string()),
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
