//! What restoring an archive on a server by URL could reach beyond the database that it is restored into.
//!
//! An archive is code of whoever wrote it, such as the function of a constraint, which restoring rows calls: it has all rights of the role
//! that restores, those of roles that this one may become, and, since a role sets its own password, what the role has elsewhere.

use anyhow::{Context, Result};
use dataset::clearance::published::{self, Creator};
use model::release::{Release, privileges};
use server::database::template;
use wire::session::Session;

use crate::site::Risks;

/// How many names a sentence lists.
const NAMES_MAX: usize = 5;

/// One sentence for each thing that it could reach and that was not agreed to: subscribers, and the server.
///
/// # Errors
/// When the server fails.
pub(crate) fn reach(session: &mut Session, agreed: Risks) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if !agreed.published {
        found.extend(published::problem(session, None, Creator::Load)?);
    }
    if !agreed.archive_as_superuser {
        found.extend(beyond(session)?.map(|beyond| {
            format!(
                "an archive is code of whoever wrote it, and {beyond}, so that it would reach beyond the database; connect as a role \
                 without such rights that owns the database, made for this, since an archive may also change the password and the settings of \
                 the role that restores it; or pass --allow-archive-as-superuser if you trust the archive like yourself"
            )
        }));
    }
    Ok(found)
}

/// The roles that the one that logged in is or may take, if they reach the server or other databases by what they are: `` `app` is or may
/// become `admin`, a superuser ``. A checkpoint does no harm.
pub(crate) fn powerful_roles(session: &mut Session) -> Result<Option<String>> {
    let role = session.query("select session_user")?.scalar().unwrap_or_default().to_string();
    let roles = column_pairs(session, ROLES)?;
    let named = roles.iter().filter(|(_, why)| why != CHECKPOINTS);
    let words: Vec<String> = named.map(|(name, why)| may_become(name, why)).take(NAMES_MAX).collect();
    Ok((!words.is_empty()).then(|| format!("`{role}` {}", words.join(", and "))))
}

fn may_become(name: &str, why: &str) -> String {
    format!("is or may become `{name}`, {why}")
}

/// The role that logged in, and all that gives it more than this database; `None` if nothing does.
fn beyond(session: &mut Session) -> Result<Option<String>> {
    let role = session.query("select session_user")?.scalar().unwrap_or_default().to_string();
    let mut rights = Vec::new();
    let roles = column_pairs(session, ROLES)?;
    let is_all_powerful = roles.iter().any(|(_, why)| why == SUPERUSER);
    let named = roles.iter().filter(|(_, why)| !is_all_powerful || why == SUPERUSER);
    rights.extend(named.map(|(name, why)| may_become(name, why)).take(NAMES_MAX));
    if !is_all_powerful {
        rights.extend(elsewhere(session)?);
    }
    if rights.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!("`{role}` {}", rights.join(", and "))))
}

/// What roles that it is have outside of the database, or of the server's own functions, each in words.
fn elsewhere(session: &mut Session) -> Result<Vec<String>> {
    // No database has 0.
    let mut copies = vec!["0".to_string()];
    copies.extend(template::copies(session)?.iter().map(u32::to_string));
    let copies = copies.join(", ");
    let mut rights = Vec::new();
    let grants_parameters = Release::new(session.server_version_num()).has(privileges::PARAMETERS);
    for (sql, words) in ELSEWHERE {
        if sql != PARAMETERS || grants_parameters {
            let names = names(session, &sql.replace("COPIES", &copies))?;
            rights.extend(listed(&names).map(|list| format!("{words} {list}")));
        }
    }
    Ok(rights)
}

fn column_pairs(session: &mut Session, sql: &str) -> Result<Vec<(String, String)>> {
    let rows = session.query(sql).context("look up what the role may do")?.rows;
    let pair = |row: &Vec<Option<String>>| match row.as_slice() {
        [Some(name), Some(why)] => Some((name.clone(), why.clone())),
        _ => None,
    };
    Ok(rows.iter().filter_map(pair).collect())
}

fn names(session: &mut Session, sql: &str) -> Result<Vec<String>> {
    let rows = session.query(sql).context("look up what the role has outside of the database")?.rows;
    Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
}

fn listed(names: &[String]) -> Option<String> {
    let mut words: Vec<String> = names.iter().take(NAMES_MAX).map(|name| format!("`{name}`")).collect();
    if names.len() > NAMES_MAX {
        words.push(format!("and {} more", names.len() - NAMES_MAX));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

const SUPERUSER: &str = "a superuser";
const CHECKPOINTS: &str = "which makes the whole server write checkpoints";

/// Roles that it is, or may take (`SET ROLE`), with what they may do on the server. CREATEROLE lets it grant itself the predefined roles that
/// execute programs and write files, before 16; and other people's roles. Predefined roles that only look (`pg_monitor`) change nothing.
const ROLES: &str = "select r.rolname, case \
       when r.rolsuper then 'a superuser' when r.rolcreaterole then 'which manages roles (CREATEROLE)' \
       when r.rolreplication then 'which may replicate (REPLICATION)' \
       when r.rolname in ('pg_execute_server_program', 'pg_write_server_files', 'pg_read_server_files') \
         then 'which reaches the files and programs of the server' \
       when r.rolname like 'pg\\_signal\\_%' then 'which ends statements and sessions of others' \
       when r.rolname in ('pg_read_all_data', 'pg_write_all_data', 'pg_maintain') then 'which reaches the tables of all databases' \
       when r.rolname = 'pg_checkpoint' then 'which makes the whole server write checkpoints' \
       else 'which has rights on the whole server' end \
     from pg_catalog.pg_roles r where (r.rolsuper or r.rolcreaterole or r.rolreplication or r.oid < 16384 and r.rolname like 'pg\\_%' \
       and r.rolname not in ('pg_database_owner', 'pg_monitor', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables')) \
     and pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER') \
     order by r.rolname <> session_user, not r.rolsuper, r.rolname";

/// The contents of each list, in words.
const ELSEWHERE: [(&str, &str); 6] = [
    (DATABASES, "owns other databases:"),
    (OBJECTS, "owns objects or has privileges in other databases:"),
    (TABLESPACES, "owns tablespaces:"),
    (FUNCTIONS, "may execute functions of the server that are not everybody's:"),
    (FOREIGN, "may use foreign servers and wrappers:"),
    (PARAMETERS, "may set parameters of the server:"),
];

const DATABASES: &str = "select d.datname from pg_catalog.pg_database d where d.datname <> pg_catalog.current_database() \
     and d.oid not in (COPIES) and pg_catalog.pg_has_role(session_user, d.datdba, 'MEMBER') order by 1";

const OBJECTS: &str = "select distinct d.datname from pg_catalog.pg_shdepend s join pg_catalog.pg_database d on d.oid = s.dbid \
     where d.datname <> pg_catalog.current_database() and d.oid not in (COPIES) \
       and s.refclassid = 'pg_catalog.pg_authid'::regclass and s.deptype in ('o', 'a') \
       and pg_catalog.pg_has_role(session_user, s.refobjid, 'MEMBER') \
       and not pg_catalog.pg_has_role(session_user, d.datdba, 'MEMBER') order by 1";

const TABLESPACES: &str = "select t.spcname from pg_catalog.pg_tablespace t \
     where pg_catalog.pg_has_role(session_user, t.spcowner, 'MEMBER') order by 1";

/// Functions of the system, which initdb made, with privileges of the role.
const FUNCTIONS: &str = "select distinct p.proname from pg_catalog.pg_shdepend s join pg_catalog.pg_proc p on p.oid = s.objid \
     where s.dbid = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database()) \
       and s.classid = 'pg_catalog.pg_proc'::regclass and s.objid < 16384 and s.deptype = 'a' \
       and s.refclassid = 'pg_catalog.pg_authid'::regclass and pg_catalog.pg_has_role(session_user, s.refobjid, 'MEMBER') order by 1";

const FOREIGN: &str = "select s.srvname from pg_catalog.pg_foreign_server s join pg_catalog.pg_roles r \
       on pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER') and pg_catalog.has_server_privilege(r.oid, s.oid, 'USAGE') \
     union select f.fdwname from pg_catalog.pg_foreign_data_wrapper f join pg_catalog.pg_roles r \
       on pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER') and pg_catalog.has_foreign_data_wrapper_privilege(r.oid, f.oid, 'USAGE') \
     order by 1";

/// What a session sets for itself alone does not reach far, unless it loads libraries.
const PARAMETERS: &str = "select distinct p.parname from pg_catalog.pg_parameter_acl p join pg_catalog.pg_roles r \
       on pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER') and (pg_catalog.has_parameter_privilege(r.oid, p.parname, 'ALTER SYSTEM') \
         or p.parname ~ 'librar' and pg_catalog.has_parameter_privilege(r.oid, p.parname, 'SET')) order by 1";
