//! What would make runs on a server by URL fail: found by examining the server, and reported all at once, before
//! anything is changed.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Error, Result};
use dataset::clearance::published::{self, Creator};
use dataset::kind::data_bytes;
use dataset::session;
use dataset::state::{self, WorkloadTables, access};
use dataset::streams::tablespace;
use dataset::{load, schema};
use model::experiment::case::{Case, WorkloadSpec};
use model::experiment::script::CaseData;
use model::text::prose::bytes;
use model::workload::Dataset;
use server::cluster::space::free_bytes;
use server::database::target::locate;
use server::running::restorer::Restorer;
use wire::Conninfo;
use wire::session::{Session, quote_literal};
use workload::Schema;

use super::{Facts, as_it_is, complete, expect_same, judge};
use crate::site::{Permissions, Site};
use crate::site::{requirements, settings};
use crate::stage::connections::HoldingSession;
use crate::stage::directory_data::existing;
use crate::stage::nodes::waited_for;
use crate::stage::reach::reach;
use crate::stage::{connections, copies, directory_data, own_data};
use crate::survey;

/// One sentence for each problem of `cases`.
///
/// # Errors
/// When the server fails before any problem was found.
pub(crate) fn find(conninfo: &Conninfo, cases: &[&Case], site: &Site) -> Result<Vec<String>> {
    let mut found = Found::default();
    match examine(conninfo, cases, site, &mut found) {
        Err(error) if found.0.is_empty() => return Err(error),
        Err(error) => found.add(error),
        Ok(()) => {}
    }
    Ok(found.0)
}

#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn add(&mut self, error: Error) {
        self.say(format!("{error:#}"));
    }

    fn say(&mut self, reason: String) {
        if !self.0.contains(&reason) {
            self.0.push(reason);
        }
    }

    /// The value, or `None` after noting why there is none.
    fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }
}

fn examine(conninfo: &Conninfo, cases: &[&Case], site: &Site, found: &mut Found) -> Result<()> {
    let mut session = session::open(conninfo, site.environment.stop)?;
    let mut other = session::open(conninfo, site.environment.stop)?;
    let facts = Facts::read(conninfo, &mut session, &mut other)?;
    drop(other);
    for case in cases {
        found.take(judge(&facts, case));
        requirements::lacks(session.server_version_num(), case).into_iter().for_each(|why| found.say(why));
    }
    // A standby takes nothing that would mend the rest.
    if facts.in_recovery && !found.0.is_empty() {
        return Ok(());
    }
    let refused = found.take(site.changes.hands.refusals(cases, &mut session, site.environment.stop));
    refused.into_iter().flatten().for_each(|why| found.say(why));
    let refused = found.take(settings::problems(conninfo, cases, site.permissions.allowed));
    refused.into_iter().flatten().for_each(|why| found.say(why));
    let most_clients = cases.iter().map(|case| case.workload.n_clients).max().unwrap_or(1);
    found.take(connections::check(
        &mut session,
        conninfo,
        most_clients,
        HoldingSession::Later,
        site.environment.stop,
    ));
    of_nodes(&mut session, conninfo, cases, &site.permissions, found);
    of_scripts(&mut session, cases, found);
    of_workloads(&mut session, cases, &site.permissions, found);
    let mut seen: Vec<String> = Vec::new();
    for case in cases.iter().filter(|case| case.workload.data != CaseData::None) {
        let data = format!("{} {:?} {}", case.prepare.restore, case.workload.kind, copies::data_name(case));
        if seen.contains(&data) {
            continue;
        }
        seen.push(data);
        if copies::is_archive(&case.workload) {
            of_archive(&mut session, case, conninfo, &site.permissions, found);
        }
        if case.prepare.restore {
            of_files(case, site, found);
            of_load(&mut session, case, &facts, &site.permissions, found);
            let of_directory = found.take(directory_data::problems_by_url(conninfo, case, site));
            of_directory.into_iter().flatten().for_each(|why| found.say(why));
        } else {
            of_data_as_it_is(&mut session, case, found);
            found.take(directory_data::expect_there(&mut session, &case.workload, &site.permissions));
        }
    }
    let is_archive = |case: &&Case| copies::is_archive(&case.workload);
    let loaded = cases.iter().filter(|case| case.workload.data != CaseData::None);
    let data: BTreeSet<String> = loaded.map(|case| copies::data_name(case)).collect();
    if data.len() > 1 && cases.iter().any(is_archive) {
        found.say(
            "workload.restore_from restores into an empty database: give each archive, and other data, a database of its own".into(),
        );
    }
    let copies = |case: &&Case| {
        case.prepare.restore
            && case.workload.data != CaseData::None
            && (case.prepare.restore_by.must_copy() || is_archive(case))
    };
    let may_replace = site.permissions.replace_databases.contains(&conninfo.dbname);
    if let Some(case) = cases.iter().copied().find(copies)
        && let Some(reason) = copies::refusal(&mut session, facts.is_pooled, may_replace)?
    {
        found.say(copies::no_template(&reason, is_archive(&case)));
    }
    Ok(())
}

/// Why a workload is refused for what is there already, asked once for each.
fn of_workloads(session: &mut Session, cases: &[&Case], permissions: &Permissions, found: &mut Found) {
    let mut judged = BTreeSet::new();
    for workload in cases.iter().map(|case| &case.workload) {
        let identity = workload.directory.as_deref().map(|directory| directory.identity.as_str());
        if judged.insert((identity, workload.data == CaseData::None)) {
            let refusal = existing::refusal(session, workload, permissions);
            found.take(refusal).into_iter().flatten().for_each(|why| found.say(why));
        }
    }
}

/// Problems with the user's scripts on tables that are there and stay as they are: others are not there yet.
fn of_scripts(session: &mut Session, cases: &[&Case], found: &mut Found) {
    let mut seen: Vec<(&WorkloadSpec, bool)> = Vec::new();
    let is_own = |case: &&&Case| {
        case.workload.kind.is_own() && (case.workload.data == CaseData::None || !case.prepare.restore)
    };
    // Hooks may make tables before a run.
    let may_make = |case: &Case| !case.hooks.before_case.is_empty() || !case.hooks.before_run.is_empty();
    for (workload, has_makers) in cases.iter().filter(is_own).map(|case| (&case.workload, may_make(case))) {
        let is_same = |(other, others): &(&WorkloadSpec, bool)| {
            (&other.scripts, &other.defines, other.protocol, *others)
                == (&workload.scripts, &workload.defines, workload.protocol, has_makers)
        };
        if !seen.iter().any(is_same) {
            seen.push((workload, has_makers));
            found.take(if has_makers {
                survey::expect_variables(session, workload)
            } else {
                survey::expect_parsable(session, workload)
            });
        }
    }
}

/// Problems with restoring a case's archive.
fn of_archive(
    session: &mut Session,
    case: &Case,
    conninfo: &Conninfo,
    permissions: &Permissions,
    found: &mut Found,
) {
    if !case.prepare.restore {
        return;
    }
    if !case.prepare.restore_by.may_copy() {
        found.say(
            "an archive is restored once, and each run begins from a copy: leave prepare.restore_by = \"load\" out".into(),
        );
    }
    found.take(copies::expect_empty(session));
    let reach = found.take(reach(session, permissions.risks));
    reach.into_iter().flatten().for_each(|why| found.say(why));
    if let CaseData::Archive(archive) = &case.workload.data {
        // Where its output goes does not matter yet.
        let server_num = session.server_version_num();
        found.take(Restorer::of_url(conninfo, server_num, &archive.dump_version, Path::new("/")));
    }
}

/// Statements of the user's own files that reach beyond the database.
fn of_files(case: &Case, site: &Site, found: &mut Found) {
    let CaseData::Files(files) = &case.workload.data else { return };
    let unasked = own_data::unasked(files, site.permissions.risks, site.environment.stop);
    found.take(unasked).flatten().into_iter().for_each(|why| found.say(why));
}

/// Problems with loading a case's data.
fn of_load(session: &mut Session, case: &Case, facts: &Facts, permissions: &Permissions, found: &mut Found) {
    let workload = &case.workload;
    let Some(schema) = found.take(schema::find(session, workload.schema.as_deref())) else { return };
    let mut of_role = Found::default();
    let may_create = of_role.take(schema::expect_creatable(session, &schema, &facts.place)).is_some();
    let problems = load::problems(session, workload, &schema, permissions.consent());
    of_role.take(problems).into_iter().flatten().for_each(|why| of_role.say(why));
    let way = if may_create { None } else { as_they_are(session, workload, &schema, &of_role.0) };
    match way {
        Some(way) => found.say(way),
        None if !may_create => schema::cannot_load(of_role.0).into_iter().for_each(|why| found.say(why)),
        None => of_role.0.into_iter().for_each(|why| found.say(why)),
    }
    if matches!(workload.data, CaseData::Files(_) | CaseData::Directory) && !permissions.risks.published {
        // They may create tables in any schema.
        let problem = found.take(published::problem(session, None, Creator::Load));
        problem.into_iter().flatten().for_each(|why| found.say(why));
    }
    let Some(dataset) = Dataset::from_case_data(&workload.data) else { return };
    if !permissions.replace
        && let Some(marker) = complete(session, dataset, &schema)
    {
        found.take(expect_same(&marker, dataset, workload));
    }
    found.take(expect_room(session, case, &WorkloadTables { dataset, schema }));
}

/// One sentence for all that keeps a role from loading tables, if they are there and it may do with them all that the workload needs.
fn as_they_are(
    session: &mut Session,
    workload: &WorkloadSpec,
    schema: &Schema,
    problems: &[String],
) -> Option<String> {
    let dataset = Dataset::from_case_data(&workload.data)?;
    let home = WorkloadTables { dataset, schema: schema.clone() };
    let state = state::inspect(session, dataset, schema).ok()?;
    let is_usable =
        as_it_is(&state, workload).is_ok() && access::lacks(session, &home, workload.kind).ok()?.is_none();
    // What to do about each is of no use where nothing needs to be done about them.
    let reasons: Vec<&str> = problems.iter().filter_map(|why| why.split("; ").next()).collect();
    is_usable.then(|| {
        format!(
            "add --no-restore (prepare.restore = false): the tables of {} are there, and this role may do with them all that {} needs; \
             it cannot load them again: {}",
            dataset.title(),
            workload.kind,
            reasons.join("; ")
        )
    })
}

/// Problems with data that is used as it is.
fn of_data_as_it_is(session: &mut Session, case: &Case, found: &mut Found) {
    let Some(Some(home)) = found.take(WorkloadTables::find(session, &case.workload)) else { return };
    let Some(state) = found.take(state::inspect(session, home.dataset, &home.schema)) else { return };
    let lacks = access::lacks(session, &home, case.workload.kind);
    found.take(lacks).into_iter().flatten().for_each(|why| found.say(why));
    found.take(as_it_is(&state, &case.workload));
}

/// Fails if the data does not fit on the server's disk, as far as that can be seen: the server runs on this machine and
/// says where its data directory is. What the existing tables take is free again after they are dropped; the WAL of the
/// load, whose size depends on the server's settings, is not counted.
fn expect_room(session: &mut Session, case: &Case, home: &WorkloadTables) -> Result<()> {
    let Some(directory) = locate(session).and_then(|server| server.data_directory) else { return Ok(()) };
    let directory = match &case.workload.tablespace {
        Some(name) => tablespace::directory(session, name)?.unwrap_or(directory),
        None => directory,
    };
    let Ok(free) = free_bytes(&directory) else { return Ok(()) };
    let names: Vec<String> = home.dataset.tables().into_iter().map(quote_literal).collect();
    let sql = format!(
        "select coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint from pg_catalog.pg_class c \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = {} and c.relname in ({})",
        quote_literal(home.schema.name()),
        names.join(", ")
    );
    let replaced: u64 = session.query(&sql)?.scalar().and_then(|n| n.parse().ok()).unwrap_or(0);
    let needed = data_bytes(&case.workload);
    anyhow::ensure!(
        needed <= free.saturating_add(replaced),
        "data of scale {} needs about {}, but the server's directory `{}` has {} free; lower --scale, or free some \
         space",
        case.workload.scale,
        bytes(needed as f64),
        directory.display(),
        bytes(free as f64)
    );
    Ok(())
}

/// Whether the standbys that commits wait for are there; and of an outage, whether the user has said by name that commands may harm this
/// server, and whether somebody else would be hit.
fn of_nodes(
    session: &mut Session,
    conninfo: &Conninfo,
    cases: &[&Case],
    permissions: &Permissions,
    found: &mut Found,
) {
    let standbys = found.take(waited_for::problem(session, cases));
    standbys.into_iter().flatten().for_each(|why| found.say(why));
    let Some(case) = cases.iter().find(|case| case.outage.is_some()) else { return };
    let target = case.server.target.as_ref().map(|target| target.name.clone());
    let host = conninfo.hosts.first().map(|host| host.host.clone());
    let names: Vec<String> = target.into_iter().chain(host).collect();
    if !names.iter().any(|name| permissions.outages.contains(name)) {
        let name = names.first().map_or("NAME", String::as_str);
        return found.say(format!(
            "the commands of the outage harm this server, whoever else uses it; if they may, say so by its name: --allow-outages {name}"
        ));
    }
    let hit = hit_by_outage(session, conninfo, &[]);
    found.take(hit).flatten().into_iter().for_each(|why| found.say(why));
}

/// Why an outage of a server would hit somebody else, by the sessions that it has now; `None` if it has only pgdyno's: the backends of a
/// load, `of_load`, whatever they call themselves, and sessions with pgdyno's names.
///
/// # Errors
/// When the server fails.
pub(crate) fn hit_by_outage(
    session: &mut Session,
    conninfo: &Conninfo,
    of_load: &[i32],
) -> Result<Option<String>> {
    // Those of a load that connects for each transaction, whose backends nobody knows, have the name that the URL gives them.
    let own = conninfo.application_name.as_deref().unwrap_or("pgdyno");
    let pids: Vec<String> = of_load.iter().map(ToString::to_string).collect();
    let rows = session.query_params(
        "select count(*)::text from pg_catalog.pg_stat_activity a where a.pid <> pg_catalog.pg_backend_pid() \
         and a.datid is not null and a.usesysid is not null and a.query not like 'autovacuum:%' \
         and a.pid <> all ($2::pg_catalog.int4[]) \
         and coalesce(a.application_name, '') not like 'pgdyno%' and coalesce(a.application_name, '') <> $1::pg_catalog.name::pg_catalog.text",
        &[Some(own), Some(&format!("{{{}}}", pids.join(",")))],
    )?;
    Ok(match rows.scalar().and_then(|n| n.parse::<u64>().ok()) {
        Some(0) => None,
        Some(n) => Some(format!(
            "{} of others would be hit by the outage (pg_stat_activity); end them first",
            model::text::prose::plural(n, "session")
        )),
        None => Some("the sessions of others cannot be seen, which the outage would hit".to_string()),
    })
}
