//! An existing server: whether it can take the load, and its data, which is restored by copying a template or by
//! loading it again.

mod problems;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail, ensure};
use dataset::directory::marks;
use dataset::own::apply;
use dataset::session::{self, lock};
use dataset::state::{self, DataState, WorkloadTables};
use dataset::{layout, schema};
use model::experiment::case::{Case, Layout, WorkloadSpec};
use model::experiment::script::CaseData;
use model::load::Protocol;
use model::workload::Dataset;
use server::Target;
use server::database::target::{Flavor, locate, pools_transactions, rewrites_statement_names};
use server::database::template;
use wire::Conninfo;
use wire::session::Session;
use workload::{Marker, Schema};

use crate::plan::scripts::reads::{self, ReadPart};
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::{Environment, Site, requirements};
use crate::stage::connections::HoldingSession;
use crate::stage::copies::Copies;
use crate::stage::{connections, directory_data, os};

pub(crate) use problems::{find as problems, hit_by_outage};

/// Facts of a phase by name.
type Detail = BTreeMap<String, String>;

/// Facts that a plan needs about a server by URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// Whether it runs on this machine; then this machine's memory is the server's.
    pub is_local: bool,
    /// Scales of complete data that pgdyno loaded.
    pub data_scale: BTreeMap<Dataset, u32>,
    /// Scales of tables that pgdyno did not load.
    pub foreign_scale: BTreeMap<Dataset, u32>,
    /// Scales of complete data of workload directories, by name.
    pub directory_scale: BTreeMap<String, u32>,
}

/// The mark of complete data that pgdyno loaded; none also if it cannot be read.
fn complete(session: &mut Session, dataset: Dataset, schema: &Schema) -> Option<Marker> {
    state::complete_marker(session, dataset, schema).ok()?
}

/// Examines a server by URL, in the schema `asked` for or the first of the search path, and changes nothing.
///
/// # Errors
/// When it cannot be reached.
pub fn glance(conninfo: &Conninfo, asked: Option<&str>, stop: &'static AtomicBool) -> Result<Glance> {
    let mut session = session::open(conninfo, stop)?;
    // Without a schema there is no data yet; that this is wrong is reported when it matters.
    let schema = schema::find(&mut session, asked).ok();
    let mut data_scale = BTreeMap::new();
    let mut foreign_scale = BTreeMap::new();
    let mut directory_scale = BTreeMap::new();
    if let Some(schema) = &schema {
        for dataset in Dataset::ALL {
            if let Some(marker) = complete(&mut session, dataset, schema) {
                data_scale.insert(dataset, marker.scale);
            } else if let Ok(DataState::Foreign { scale: Some(scale), .. }) =
                state::inspect(&mut session, dataset, schema)
                && scale > 0
            {
                foreign_scale.insert(dataset, scale);
            }
        }
        directory_scale = marks::scales(&mut session, schema).unwrap_or_default();
    }
    Ok(Glance { is_local: locate(&mut session).is_some(), data_scale, foreign_scale, directory_scale })
}

/// An existing server, which no other pgdyno uses at the same time.
pub struct Adopted {
    pub(crate) conninfo: Conninfo,
    facts: Facts,
    /// Complete data found in each schema at first: it is not replaced by other data without consent.
    found_data: BTreeMap<(Dataset, Schema), Option<Marker>>,
    /// Holds the advisory lock; `None` while the database is replaced.
    pub(crate) holder: Option<Session>,
    copies: Copies,
    /// Data was restored at least once.
    has_restored: bool,
    /// What distinguishes data from the user's files or archive, by the data's name.
    unlike_source: BTreeMap<String, Option<String>>,
    /// Workload directories whose data was loaded, by name.
    loaded_directories: BTreeSet<Option<String>>,
}

/// Facts that determine whether a case can run there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    place: String,
    flavor: Flavor,
    in_recovery: bool,
    /// The load's connections go to several hosts in random order.
    is_spread: bool,
    /// Connections go through a pooler.
    is_pooled: bool,
    /// The pooler assigns server connections per transaction.
    pools_transactions: bool,
    /// The pooler renames prepared statements, so that those of different clients do not collide.
    rewrites_statement_names: bool,
}

impl Facts {
    fn read(conninfo: &Conninfo, session: &mut Session, other: &mut Session) -> Result<Facts> {
        let target = Target::at(session, conninfo.clone())?;
        let pools_transactions = target.is_pooled && pools_transactions(session, other)?;
        Ok(Facts {
            place: conninfo.to_string(),
            flavor: target.flavor,
            in_recovery: target.in_recovery,
            is_spread: conninfo.is_spread(),
            is_pooled: target.is_pooled,
            pools_transactions,
            rewrites_statement_names: pools_transactions && rewrites_statement_names(other)?,
        })
    }

    fn loses_prepared(&self) -> bool {
        self.pools_transactions && !self.rewrites_statement_names
    }
}

/// Whether a pooler in front of the server loses statements that a client has prepared.
///
/// # Errors
/// When it cannot be reached.
pub(crate) fn loses_prepared(conninfo: &Conninfo, stop: &'static AtomicBool) -> Result<bool> {
    let mut session = session::open(conninfo, stop)?;
    let mut other = session::open(conninfo, stop)?;
    Ok(Facts::read(conninfo, &mut session, &mut other)?.loses_prepared())
}

impl Adopted {
    /// Examines the server before anything is changed there.
    ///
    /// # Errors
    /// When it cannot be reached, cannot take the case's load, or another pgdyno uses the database.
    pub(crate) fn set_up(
        conninfo: Conninfo,
        case: &Case,
        environment: &Environment,
        watch: &mut Watch,
    ) -> Result<Adopted> {
        let mut holder = session::open(&conninfo, environment.stop)?;
        let mut other = session::open(&conninfo, environment.stop)?;
        let facts = Facts::read(&conninfo, &mut holder, &mut other)?;
        judge(&facts, case)?;
        match &facts.flavor {
            Flavor::Postgres if facts.pools_transactions => watch(ProgressEvent::Note(
                "a pooler assigns server connections per transaction: nothing keeps another pgdyno away"
                    .to_string(),
            )),
            Flavor::Postgres => lock::take(&mut holder, template::keeper)?,
            Flavor::Other(name) => watch(ProgressEvent::Note(format!(
                "the server is {name}, not PostgreSQL: only the features that it shares with PostgreSQL are measured"
            ))),
        }
        if facts.flavor == Flavor::Postgres {
            requirements::note_if_newer(other.server_version_num(), watch);
        }
        let keeper = HoldingSession::Open(holder.backend_pid());
        connections::check(&mut other, &conninfo, environment.most_connections, keeper, environment.stop)?;
        let holder = Some(holder);
        let mut adopted = Adopted {
            conninfo,
            facts,
            found_data: BTreeMap::new(),
            holder,
            copies: Copies::Unknown,
            has_restored: false,
            unlike_source: BTreeMap::new(),
            loaded_directories: BTreeSet::new(),
        };
        if let Some(home) = WorkloadTables::find(&mut other, &case.workload)? {
            adopted.found(&mut other, &home);
        }
        Ok(adopted)
    }

    /// Whether a pooler assigns connections for each transaction.
    pub(super) fn pools_transactions(&self) -> bool {
        self.facts.pools_transactions
    }

    /// Complete data that was in a schema when it was first examined; absent if it could not be examined.
    fn found(&mut self, session: &mut Session, home: &WorkloadTables) -> Option<&Marker> {
        let look = || complete(session, home.dataset, &home.schema);
        self.found_data.entry((home.dataset, home.schema.clone())).or_insert_with(look).as_ref()
    }

    /// Restores the data to its initial state. Returns how.
    pub(crate) fn restore(&mut self, case: &Case, site: &Site, watch: &mut Watch) -> Result<Detail> {
        judge(&self.facts, case)?;
        self.hold_all(&site.environment)?;
        let mut report = |line| watch(ProgressEvent::Note(line));
        // First: a restart ends all sessions.
        let changed = site.changes.settings.apply(case, &self.conninfo, site, &mut report)?;
        if changed.is_restarted {
            self.hold_all(&site.environment)?;
        }
        let set = match &case.server.host {
            None => os::apply(case, site.changes.os, None)?.detail,
            Some(host) => {
                let mut session = session::open(&self.conninfo, site.environment.stop)?;
                let mut report = |line| watch(ProgressEvent::Note(line));
                site.changes.hands.apply(case, host, &mut session, site.environment.stop, &mut report)?
            }
        };
        let mut detail = self.restore_data(case, site, watch)?;
        detail.extend(set);
        detail.extend(changed.detail);
        Ok(detail)
    }

    /// Drops what `workload.apply` has made, also when the user wants to stop.
    pub(crate) fn undo_applied(&self) -> Result<()> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        apply::undo(&mut session::open(&self.conninfo, &NEVER)?)
    }

    fn restore_data(&mut self, case: &Case, site: &Site, watch: &mut Watch) -> Result<Detail> {
        let mut session = session::open(&self.conninfo, site.environment.stop)?;
        directory_data::existing::expect_allowed(&mut session, &case.workload, &site.permissions)?;
        if case.prepare.restore && matches!(case.workload.data, CaseData::Loaded(_) | CaseData::Directory) {
            // Of a pgdyno that was killed.
            apply::undo(&mut session)?;
        }
        let detail = |text: String| Ok(BTreeMap::from([("method".to_string(), text)]));
        match &case.workload.data {
            CaseData::None => return detail("none: the database is used as it is".to_string()),
            CaseData::Directory if !case.prepare.restore => {
                directory_data::expect_there(&mut session, &case.workload, &site.permissions)?;
                return detail("none: prepare.restore is off".to_string());
            }
            CaseData::Files(_) | CaseData::Archive(_) if !case.prepare.restore => {
                return detail("none: prepare.restore is off".to_string());
            }
            CaseData::Files(_) | CaseData::Archive(_) | CaseData::Directory => {
                return self.restore_tables(case, session, site, watch);
            }
            CaseData::Loaded(_) => {}
        }
        let Some(home) = WorkloadTables::find(&mut session, &case.workload)? else {
            bail!("the workload does not use pgdyno's tables");
        };
        if !case.prepare.restore {
            let state = state::inspect(&mut session, home.dataset, &home.schema)?;
            if state == DataState::Absent {
                let absent = state::absent(&mut session, home.dataset, &home.schema)?;
                bail!("{absent}, or run without --no-restore (prepare.restore = false)");
            }
            return detail(as_it_is(&state, &case.workload)?.to_string());
        }
        if let Some(found) = self.found(&mut session, &home)
            && !site.permissions.replace
        {
            expect_same(found, home.dataset, &case.workload)?;
        }
        self.restore_tables(case, session, site, watch)
    }
}

/// Existing data is replaced only by equal data: it may have taken hours to load.
fn expect_same(found: &Marker, dataset: Dataset, workload: &WorkloadSpec) -> Result<()> {
    ensure!(
        found.scale == workload.scale,
        "the experiment asks for scale {}, but the data that was loaded before has scale {}; give --scale {1}, or \
         --replace to load it again (complete data of another scale is never dropped without that: it may be what \
         somebody measures next)",
        workload.scale,
        found.scale
    );
    ensure!(
        layout::is_as_wanted(found, dataset, workload),
        "the experiment asks for data of {}, but the data that was loaded before is {}; give {}, or --replace to load \
         it again",
        layout::describe(workload),
        layout::describe_found(found),
        design_options(found, workload)
    );
    Ok(())
}

/// Options that request the layout and the tablespace of data that was found, as far as a workload asks for others.
fn design_options(found: &Marker, workload: &WorkloadSpec) -> String {
    let of_layout = layout_options(layout::layout_of(found), workload.layout);
    let tablespace = layout::tablespace_of(found);
    let of_tablespace = match tablespace {
        _ if tablespace == workload.tablespace.as_deref() => None,
        Some(name) => Some(format!("--set workload.tablespace={name}")),
        None => Some("no workload.tablespace".to_string()),
    };
    let of_layout = (!of_layout.is_empty()).then_some(of_layout);
    of_layout.into_iter().chain(of_tablespace).collect::<Vec<_>>().join(" and ")
}

/// Options that request the layout `found` instead of the one that is asked for.
fn layout_options(found: Layout, asked: Layout) -> String {
    let Layout { partitions, partition_method, unlogged } = found;
    let is_as_cut =
        partitions == asked.partitions && (partitions == 0 || partition_method == asked.partition_method);
    let mut options = Vec::new();
    match partitions {
        _ if is_as_cut => {}
        0 => options.push("--set workload.partitions=0".to_string()),
        n => options.push(format!(
            "--set workload.partitions={n} --set workload.partition_method={}",
            partition_method.as_str()
        )),
    }
    if unlogged != asked.unlogged {
        options.push(format!("--set workload.unlogged={unlogged}"));
    }
    options.join(" ")
}

/// Whether the data can be used without loading it again.
fn as_it_is(state: &DataState, workload: &WorkloadSpec) -> Result<&'static str> {
    let found = match state {
        DataState::Whole(marker) => marker.scale,
        DataState::Foreign { scale: Some(found), .. } => *found,
        DataState::Foreign { .. } | DataState::Half(_) => {
            bail!(
                "the data is not complete; load it with pgdyno init, or run without --no-restore (prepare.restore = false)"
            )
        }
        DataState::Absent => {
            bail!(
                "the database has no such tables; load them with pgdyno init, as a role that may create tables (of a standby: on its primary), or run \
                 without --no-restore (prepare.restore = false)"
            )
        }
    };
    let scale = workload.scale;
    ensure!(
        found == scale,
        "the experiment asks for scale {scale}, but the data has scale {found}; give --scale {found}"
    );
    if let DataState::Whole(marker) = state {
        // Data as it is has whatever tablespace it has, unless the experiment says that it measures one.
        let wanted = WorkloadSpec {
            tablespace: workload.tablespace.clone().or(layout::tablespace_of(marker).map(str::to_string)),
            ..workload.clone()
        };
        ensure!(
            layout::is_as_wanted(
                marker,
                Dataset::from_case_data(&workload.data).unwrap_or_default(),
                &wanted
            ),
            "the experiment asks for data of {}, but the existing data is {}; give {}, or run without --no-restore (prepare.restore = false)",
            layout::describe(workload),
            layout::describe_found(marker),
            design_options(marker, workload)
        );
    } else if let Some(name) = &workload.tablespace {
        bail!(
            "workload.tablespace = \"{name}\" is where pgdyno loads data, but it did not load these tables; leave it out, or run \
             without --no-restore (prepare.restore = false)"
        );
    }
    Ok(match state {
        DataState::Whole(_) => "none: prepare.restore is off",
        _ => "none: prepare.restore is off, tables not created by pgdyno",
    })
}

/// Message for a server in recovery.
fn is_standby(place: &str) -> String {
    format!("`{place}` is a standby, which takes no writes")
}

/// Fails if the server is a standby: for commands that always write.
///
/// # Errors
/// With what to do, or when the server fails.
pub fn expect_primary(conninfo: &Conninfo, session: &mut Session) -> Result<()> {
    let target = Target::at(session, conninfo.clone())?;
    ensure!(
        !target.in_recovery,
        "{}; use the primary, from which it receives the data",
        is_standby(&conninfo.to_string())
    );
    Ok(())
}

/// The option by which a load only reads.
fn how_to_read(case: &Case) -> &'static str {
    if case.workload.directory.is_some() { "--only-reads" } else { "-w tpcb-select" }
}

/// Fails if the server cannot take the case as it is.
fn judge(facts: &Facts, case: &Case) -> Result<()> {
    let place = &facts.place;
    // The user knows what the scripts do; the server rejects what they must not do.
    let is_as_it_is = case.workload.data == CaseData::None;
    let only_reads = is_as_it_is || reads::part(&case.workload) == ReadPart::All;
    let prepare = &case.prepare;
    let writers = [
        (prepare.restore, "--no-restore"),
        (prepare.vacuum, "--set prepare.vacuum=false"),
        (prepare.analyze, "--set prepare.analyze=false"),
    ];
    let lacking: Vec<&str> =
        writers.into_iter().filter(|(is_on, _)| *is_on).map(|(_, option)| option).collect();
    if facts.in_recovery {
        let is_standby = is_standby(place);
        ensure!(
            only_reads,
            "{is_standby}; use the primary, or load the data there with pgdyno init, and only read here: {}",
            [&[how_to_read(case)], &lacking[..]].concat().join(" ")
        );
        ensure!(
            is_as_it_is || lacking.is_empty(),
            "{is_standby}: load the data on the primary with pgdyno init, and measure it here with {}",
            lacking.join(" ")
        );
    }
    if facts.is_spread {
        let several = format!("`{place}` names several servers in random order (load_balance_hosts=random)");
        ensure!(
            case.server.settings.is_empty(),
            "{several}, and server.settings would be changed on one of them; name one host, or change the settings on each yourself"
        );
        ensure!(
            is_as_it_is || lacking.is_empty(),
            "{several}, and pgdyno would load or change the data of one of them; name one host, or load each with pgdyno init, and \
             measure them with {}",
            lacking.join(" ")
        );
    }
    if let Flavor::Other(name) = &facts.flavor {
        ensure!(
            is_as_it_is || (only_reads && !prepare.restore),
            "`{place}` is {name}, not PostgreSQL: loading and writing are not supported there; only tpcb-select on \
             data as it is (--no-restore)"
        );
    }
    ensure!(
        !facts.loses_prepared() || case.workload.protocol != Protocol::Prepared,
        "a pooler at `{place}` assigns server connections per transaction, and prepared statements are lost \
         between them; use --protocol simple or extended, use session pooling, or connect to the server itself"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample::case;

    #[test]
    fn servers_that_cannot_take_the_load_are_refused() {
        let plain = Facts {
            place: "db:5432".to_string(),
            flavor: Flavor::Postgres,
            in_recovery: false,
            is_spread: false,
            is_pooled: false,
            pools_transactions: false,
            rewrites_statement_names: false,
        };
        let standby = Facts { in_recovery: true, ..plain.clone() };
        let spread = Facts { is_spread: true, ..plain.clone() };
        let other = Facts { flavor: Flavor::Other("CockroachDB".to_string()), ..plain.clone() };
        let pooled = Facts { pools_transactions: true, ..plain.clone() };
        let new_pooler = Facts { rewrites_statement_names: true, ..pooled.clone() };
        let writes = "[workload]\nkind = \"tpcb\"\n";
        let reads = "[workload]\nkind = \"tpcb-select\"\n";
        let as_is = "[prepare]\nrestore = false\nvacuum = false\nanalyze = false\n";
        let check = |facts: &Facts, text: &str, expected: Option<&str>| {
            let message = judge(facts, &case(text)).err().map(|error| error.to_string());
            match (&message, expected) {
                (None, None) => {}
                (Some(message), Some(expected)) if message.contains(expected) => {}
                _ => panic!("{facts:?}\n{text}: {message:?}"),
            }
        };
        check(&plain, writes, None);
        check(&standby, writes, Some("is a standby, which takes no writes; use the primary"));
        let all = "measure it here with --no-restore --set prepare.vacuum=false --set prepare.analyze=false";
        check(&standby, reads, Some(all));
        let rest = "measure it here with --set prepare.vacuum=false --set prepare.analyze=false";
        check(&standby, &format!("{reads}[prepare]\nrestore = false\n"), Some(rest));
        check(&standby, &format!("{reads}{as_is}"), None);
        check(&spread, writes, Some("load each with pgdyno init, and measure them with --no-restore --set"));
        check(&spread, &format!("{writes}{as_is}"), None);
        let setting = format!("{writes}{as_is}[server.settings]\nwork_mem = \"8MB\"\n");
        check(&spread, &setting, Some("server.settings would be changed on one of them"));
        check(&other, writes, Some("is CockroachDB, not PostgreSQL"));
        check(&other, reads, Some("is CockroachDB, not PostgreSQL"));
        check(&other, &format!("{reads}{as_is}"), None);
        check(&pooled, writes, Some("use --protocol simple or extended"));
        check(&pooled, &format!("{writes}protocol = \"extended\"\n"), None);
        check(&new_pooler, writes, None);
    }
}
