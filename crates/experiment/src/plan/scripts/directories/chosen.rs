//! What a case has of a workload directory: its scripts with the variant's weights, the values of its options, its tables.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use generator::{Choice, Directory, DirectoryTransaction, Instance, Order, Problem, Table};
use model::directory::drawn::DrawnFiles;
use model::experiment::WorkloadSection;
use model::experiment::case::directory::{
    AnalyticalSpec, DirectoryLimit, DirectoryMeasure, DirectoryPlace, DirectoryTable, WorkloadDirectory,
};
use model::experiment::script::CaseScript;
use model::load::Protocol;
use model::load::execution::EXECUTIONS_MAX;
use model::workload::DirectoryName;
use workload::directories::classes::Classes;

use crate::plan::scripts::directories::replay::ReplaySpeed;
use crate::plan::scripts::directories::{AskedLoad, builtin, captured, compiled, problems_of, replay};
use crate::plan::scripts::sha256;

/// A choice among what a directory has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Chosen {
    /// The variant; none: the first.
    pub(crate) variant: Option<String>,
    /// Options that are not the directory's own.
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) scale: u32,
    pub(crate) data_seed: Option<u64>,
    /// The speed of its trace, if that is replayed.
    pub(crate) replay: Option<ReplaySpeed>,
}

/// A directory with what is chosen of it.
#[derive(Debug)]
pub(crate) struct ChosenDirectory {
    pub(crate) directory: WorkloadDirectory,
    /// Its transactions, also those that the variant leaves out, whose weight is 0.
    pub(crate) scripts: Vec<CaseScript>,
    /// How it wants its statements to be sent, if nobody says how.
    pub(crate) protocol: Option<Protocol>,
    /// Transactions of each client, if the variant ends after so many, and nobody says how many.
    pub(crate) transactions: Option<u64>,
    /// Clients that it must have, if it is a trace.
    pub(super) n_clients: Option<u32>,
    pub(super) instance: Arc<Instance>,
}

/// The file that only people read.
const README: &str = "README.md";

impl ChosenDirectory {
    /// The directory at `place` with what is `chosen` of it.
    ///
    /// # Errors
    /// All that is wrong with it, each with its place in its files.
    pub(crate) fn new(found: &Directory, place: &str, chosen: &Chosen) -> Result<ChosenDirectory, String> {
        let instance = instance(place, found, chosen)?;
        let manifest = instance.manifest();
        let mut problems = problems_of(&instance, chosen.scale);
        problems.retain(|problem| !problem.is_warning);
        if !problems.is_empty() {
            return Err(words(place, &problems));
        }
        let directory = WorkloadDirectory {
            analytical: analytical(&instance, chosen.scale),
            ..as_planned(place, found, &instance)
        };
        let protocol = manifest.defaults.protocol.as_deref().and_then(|word| word.parse().ok());
        let (scripts, transactions) = (scripts(&instance), transactions(&instance));
        let made = ChosenDirectory { directory, scripts, protocol, transactions, n_clients: None, instance };
        match chosen.replay {
            Some(speed) => replay::of_trace(made, speed),
            None => Ok(made),
        }
    }

    /// Whether it makes no data.
    pub(crate) fn is_for_existing_data(&self) -> bool {
        captured::is_for_existing_data(&self.instance)
    }

    /// Fails if its classes of clients are not as many clients as there are.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn expect_classes(&self, n_clients: u32) -> Result<(), String> {
        let scripts: Vec<(&str, u32)> =
            self.scripts.iter().map(|script| (script.name.as_str(), script.weight)).collect();
        if self.directory.analytical.is_some()
            && let Some(n_each) = self.transactions
            && n_each.saturating_mul(n_clients.into()) > EXECUTIONS_MAX
        {
            return Err(format!(
                "workload directory `{}`: {n_clients} streams of {n_each} queries are more than the {EXECUTIONS_MAX} executions that an \
                 analytical run records one by one; have fewer passes",
                self.directory.name
            ));
        }
        if let Some(trace) = &self.directory.replay {
            return replay::expect_clients(trace, self.n_clients, n_clients);
        }
        let classes = Classes::of_directory(&self.instance, &scripts, n_clients);
        classes.map(drop).map_err(|why| format!("workload directory `{}`: {why}", self.directory.name))
    }
}

/// The directory that a section has the texts of; where files were not read, only what is built in is known.
///
/// # Errors
/// All that is wrong with its files as texts and rows.
pub(super) fn found(section: &WorkloadSection, name: &DirectoryName) -> Result<Directory, String> {
    let texts = section.directories.get(&name.place).cloned();
    let texts = texts.or_else(|| builtin(&name.place).map(Into::into));
    let texts =
        texts.ok_or_else(|| format!("the files of workload directory `{}` were not read", name.place))?;
    compiled(&name.place, texts)
}

/// The load that a choice among a directory asks for; `None` if it is wrong, which planning reports.
pub(super) fn asked_load(found: &Directory, place: &str, chosen: &Chosen) -> Option<AskedLoad> {
    if chosen.replay.is_some() {
        return replay::asked_load(&ChosenDirectory::new(found, place, chosen).ok()?);
    }
    let instance = instance(place, found, chosen).ok()?;
    let is_counted = transactions(&instance).is_some();
    let source = captured::from(&instance);
    Some(AskedLoad {
        n_clients: n_clients(&instance).or_else(|| captured::n_clients(source.as_ref())),
        is_counted,
        is_captured: captured::has_rate(source.as_ref()) && !is_counted,
        replay_s: None,
    })
}

/// A directory as a plan has it.
pub fn as_planned(place: &str, found: &Directory, instance: &Instance) -> WorkloadDirectory {
    let manifest = instance.manifest();
    let texts = found.files().iter().filter(|(name, _)| *name != README);
    WorkloadDirectory {
        name: manifest.name.clone(),
        title: manifest.title.clone(),
        place: DirectoryPlace(place.to_string()),
        notice: manifest.notice.clone(),
        variant: instance.variant().map(|variant| variant.name.clone()),
        options: instance.options().clone(),
        data_seed: instance.data_seed(),
        identity: found.identity(),
        data_identity: instance.data_identity().to_string(),
        tables: tables(instance),
        measures: measures(instance),
        limits: limits(instance),
        analytical: None,
        has_classes: has_classes(instance),
        draws_from: (!found.contents().is_empty()).then(|| place.to_string()),
        draws: DrawnFiles(found.contents().clone()),
        captured: captured::from(instance),
        replay: None,
        texts: texts.map(|(name, text)| (name.clone(), text.clone())).collect(),
    }
}

/// How many clients a directory is for: those of its variant, or of its classes if each says how many.
fn n_clients(instance: &Instance) -> Option<u32> {
    let of_variant = instance.variant().and_then(|variant| variant.clients);
    let of_classes = || instance.sessions().iter().map(|session| session.clients).sum();
    of_variant.or_else(of_classes)
}

fn scripts(instance: &Instance) -> Vec<CaseScript> {
    let script = |transaction: &DirectoryTransaction| CaseScript {
        name: transaction.name.clone(),
        weight: transaction.weight,
        sha256: sha256(&transaction.source),
        source: transaction.source.clone(),
        to: None,
    };
    instance.transactions().iter().map(script).collect()
}

/// Transactions of each client, if the passes of a variant end.
fn transactions(instance: &Instance) -> Option<u64> {
    let passes = instance.passes()?.saturating_add(instance.warm_passes());
    Some(u64::from(passes) * n_in_order(instance) as u64)
}

/// How many transactions one pass is.
fn n_in_order(instance: &Instance) -> usize {
    match instance.sessions().first().and_then(|session| session.order.as_ref()) {
        Some(Order::Fixed(names)) => names.len(),
        Some(Order::Permuted) | None => {
            instance.transactions().iter().filter(|transaction| transaction.weight > 0).count()
        }
    }
}

/// What an analytical workload asks of a load.
fn analytical(instance: &Instance, scale: u32) -> Option<AnalyticalSpec> {
    let manifest = instance.manifest();
    if !manifest.defaults.is_analytical {
        return None;
    }
    let of_all = manifest.defaults.statement_timeout;
    let timeouts = instance.transactions().iter().filter_map(|transaction| {
        let timeout = transaction.timeout.or(of_all)?;
        Some((transaction.name.clone(), u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)))
    });
    let answers = manifest.transactions.iter();
    Some(AnalyticalSpec {
        passes: instance.passes().unwrap_or(1),
        warm_passes: instance.warm_passes(),
        n_queries: n_in_order(instance) as u32,
        explain: instance.explains(),
        timeouts_ms: timeouts.collect(),
        answers: answers.filter_map(|one| Some((one.name.clone(), one.answer_file(scale)?))).collect(),
    })
}

fn tables(instance: &Instance) -> Vec<DirectoryTable> {
    let table = |table: &Table| {
        let n_rows = table.estimated_rows();
        let bytes = (n_rows as f64 * table.estimated_row_bytes()) as u64;
        DirectoryTable { name: table.name.clone(), n_rows, bytes }
    };
    instance.tables().iter().map(table).collect()
}

fn measures(instance: &Instance) -> Vec<DirectoryMeasure> {
    let measures = instance.manifest().measures.iter();
    let measures = measures.map(|measure| DirectoryMeasure {
        name: measure.name.clone(),
        title: measure.title.clone(),
        numerator: measure.numerator.clone(),
        denominator: measure.denominator.clone(),
    });
    measures.collect()
}

fn limits(instance: &Instance) -> Vec<DirectoryLimit> {
    let limits = instance.transactions().iter().filter_map(|transaction| {
        let (percentile, most_ms) = transaction.limit?;
        Some(DirectoryLimit {
            transaction: transaction.name.clone(),
            permille: (10.0 * percentile).round() as u16,
            limit_ns: (1e6 * most_ms).round() as u64,
        })
    });
    limits.collect()
}

/// Whether something but the variant's weights decides which transactions clients run.
fn has_classes(instance: &Instance) -> bool {
    let mut sessions = instance.manifest().sessions.iter();
    sessions.any(|session| session.weights.is_some() || session.order.is_some())
        || instance.sessions().iter().any(|session| session.order.is_some())
}

fn instance(place: &str, directory: &Directory, chosen: &Chosen) -> Result<Arc<Instance>, String> {
    let Chosen { variant, options, scale, data_seed, replay: _ } = chosen.clone();
    let choice = Choice { variant, options, scale, data_seed };
    Instance::new(directory, &choice).map(Arc::new).map_err(|problems| words(place, &problems))
}

/// The size of the tables at scale 1 with the first level of each key; what is wrong with the directory, planning reports.
pub(crate) fn unit_bytes(section: &WorkloadSection, name: &DirectoryName) -> u64 {
    let first = super::choices(section, name).into_iter().next();
    let at_one = first.map(|first| Chosen { scale: 1, ..first });
    let made = at_one.and_then(|chosen| instance(&name.place, &found(section, name).ok()?, &chosen).ok());
    let bytes =
        made.map(|instance| tables(&instance).iter().map(|table| table.bytes).fold(0, u64::saturating_add));
    bytes.unwrap_or(0)
}

/// Problems in words, each with its place: the files are named as they are seen from where the user is.
pub fn words(place: &str, problems: &[Problem]) -> String {
    let place = place.trim_end_matches('/');
    problems.iter().map(|problem| format!("{place}/{problem}")).collect::<Vec<_>>().join("\n")
}

/// A directory that was made, or its problems in words.
type Made = Result<Rc<ChosenDirectory>, String>;

/// The directories of a plan's cases, each made once for all cases that choose the same of it.
#[derive(Default)]
pub(crate) struct ChosenDirectories {
    /// Directories by place: their rows are unpacked once.
    found: RefCell<BTreeMap<String, Result<Rc<Directory>, String>>>,
    known: RefCell<BTreeMap<(String, Chosen), Made>>,
}

impl ChosenDirectories {
    /// As [`ChosenDirectory::new`] of the directory that `section` has.
    ///
    /// # Errors
    /// As there, and all that is wrong with its files.
    pub(crate) fn get(
        &self,
        section: &WorkloadSection,
        name: &DirectoryName,
        chosen: Chosen,
    ) -> Result<Rc<ChosenDirectory>, String> {
        let mut all = self.found.borrow_mut();
        let found = all.entry(name.place.clone()).or_insert_with(|| found(section, name).map(Rc::new));
        let found = found.clone()?;
        let mut known = self.known.borrow_mut();
        let key = (name.place.clone(), chosen);
        if let Some(made) = known.get(&key) {
            return made.clone();
        }
        let made = ChosenDirectory::new(&found, &key.0, &key.1).map(Rc::new);
        known.insert(key, made.clone());
        made
    }
}
