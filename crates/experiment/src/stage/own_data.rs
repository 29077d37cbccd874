//! Data from the user's own SQL files, which run once, statement by statement, or from an archive of `pg_dump`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use dataset::layout;
use dataset::own::adopt::{TableCriteria, adopt};
use dataset::own::archive::{extensions, left_out, names_roles, without_schema_public};
use dataset::own::roles;
use dataset::own::sql_files::{self, DataFile, has_schema_public};
use dataset::state::WorkloadTables;
use model::experiment::case::WorkloadSpec;
use model::experiment::script::SqlFile;
use model::experiment::script::archive::Archive;
use model::release::Release;
use model::text::prose::bytes;
use server::binaries::version_num;
use server::running::archive::Restore;
use server::running::restorer::Restorer;
use wire::session::Session;
use workload::script::sqlfile::dump::DumpFile;
use workload::script::sqlfile::effects::{Beyond, first_beyond};
use workload::script::sqlfile::line_and_column;
use workload::script::sqlfile::roles::needed;

use crate::plan::{archive, scripts};
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::{Environment, Risks};
use crate::stage::connections;

/// Whose server it is: roles belong to a whole server, so that they are made only on our own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Ours,
    ByUrl,
}

/// The fact of a restore, and the label of a cluster, that says what distinguishes its data from the user's files or archive.
pub(crate) const UNLIKE_SOURCE: &str = "unlike_source";

/// What became of the user's own data.
pub(crate) struct OwnDataReport {
    /// All of it in words.
    pub(crate) words: String,
    /// What distinguishes the data from that of the files or the archive, in words, if anything does.
    pub(crate) unlike_source: Option<String>,
}

impl OwnDataReport {
    /// `done`, then what differs, then `passed_over`.
    fn new(done: String, made: &[String], left_out: &[String], passed_over: String) -> OwnDataReport {
        let parts = [("made without login", made), ("left out", left_out)];
        let parts = parts.into_iter().filter(|(_, all)| !all.is_empty());
        let parts: Vec<String> = parts.map(|(what, all)| format!("{what}: {}", shortened(all))).collect();
        let unlike_source = (!parts.is_empty()).then(|| parts.join("; "));
        let differs = unlike_source.iter().map(|words| format!("; {words}")).collect::<String>();
        OwnDataReport { words: format!("{done}{differs}{passed_over}"), unlike_source }
    }
}

/// A list that stays readable where a server has hundreds of roles.
fn shortened(all: &[String]) -> String {
    const MOST: usize = 30;
    let rest = all.len().saturating_sub(MOST);
    let shown = all[..all.len() - rest].join(", ");
    if rest == 0 { shown } else { format!("{shown} and {rest} more") }
}

/// Files of SQL, and where they run.
pub(crate) struct FilesRun<'a> {
    pub(crate) files: &'a [SqlFile],
    pub(crate) whose: Whose,
    /// Given to the files as the setting `pgdyno.scale`.
    pub(crate) scale: u32,
    /// Effects that the user has agreed to.
    pub(crate) risks: Risks,
}

/// The first statement of the files that reaches beyond the database, if the user has not agreed to any, with what to do.
///
/// # Errors
/// When a file cannot be read or has changed.
pub(crate) fn unasked(files: &[SqlFile], risks: Risks, stop: &AtomicBool) -> Result<Option<String>> {
    if risks.archive_as_superuser {
        return Ok(None);
    }
    for file in files {
        let text = scripts::text_of(file, stop).map_err(|message| anyhow!(message))?;
        let reaching = reaching_beyond(&file.name, &sql_files::parsed(&file.name, &text)?);
        if reaching.is_some() {
            return Ok(reaching);
        }
    }
    Ok(None)
}

/// The first statement of a file that reaches beyond the database, with what to do.
fn reaching_beyond(name: &str, dump: &DumpFile) -> Option<String> {
    let Beyond { start, what } = first_beyond(dump.statements())?;
    let (line, column) = line_and_column(dump.source(), start);
    Some(format!(
        "{name}:{line}:{column}: this statement {what}; leave it out, or pass --allow-archive-as-superuser if you have read the file and \
         trust whoever wrote it like yourself"
    ))
}

/// Runs the files in their order in one session.
///
/// # Errors
/// With file, line and column of the failed statement; those before it have been executed.
pub(crate) fn run_files(
    session: &mut Session,
    run: &FilesRun,
    stop: &AtomicBool,
    watch: &mut Watch,
) -> Result<OwnDataReport> {
    let FilesRun { files, whose, scale, risks } = *run;
    let begun = Instant::now();
    // None of them runs if one reaches further than was agreed to.
    if let Some(why) = unasked(files, risks, stop)? {
        bail!(why);
    }
    session.execute(&format!("select pg_catalog.set_config('pgdyno.scale', '{scale}', false)"))?;
    let mut known = if whose == Whose::Ours { Some(roles::at_first(session)?) } else { None };
    // Their statements are the user's, and name tables as the user's sessions would.
    session.restore_for_user()?;
    let (mut n_statements, mut made) = (0, Vec::new());
    let (mut unknown, mut left_out) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        watch(ProgressEvent::Step(format!("running `{}`", file.name)));
        let text = scripts::text_of(file, stop).map_err(|message| anyhow!(message))?;
        let dump = sql_files::parsed(&file.name, &text)?;
        if let Some(known) = &mut known {
            let missing = roles::make_missing(session, &needed(&text))?;
            known.made.extend(missing.iter().cloned());
            made.extend(missing);
        }
        let data = DataFile { name: &file.name, dump: &dump, roles: known.as_mut() };
        let executed = sql_files::run(session, data, stop)?;
        n_statements += executed.n_statements;
        unknown.extend(executed.unknown);
        left_out.extend(executed.left_out);
    }
    // The files' settings are theirs and must not persist: `pg_dump` empties the search path.
    session.execute("reset all")?;
    session.administer()?;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let done =
        format!("{}: {n_statements} statements in {:.3} s", names.join(", "), begun.elapsed().as_secs_f64());
    let left_out: Vec<String> = left_out.into_iter().collect();
    Ok(OwnDataReport::new(done, &made, &left_out, passed_over(unknown)))
}

/// An archive, the workload whose tables it holds, and who restores it.
pub(crate) struct ArchiveRestore<'a> {
    pub(crate) workload: &'a WorkloadSpec,
    pub(crate) archive: &'a Archive,
    pub(crate) restorer: &'a Restorer,
    pub(crate) whose: Whose,
    /// How long it may take.
    pub(crate) longest: Duration,
}

/// Restores an archive over several sessions, vacuums and analyzes it, and verifies the tables of a built-in workload.
///
/// # Errors
/// When the archive has changed since the plan, cannot be read by the user who restores it, needs an extension that the server
/// does not have, `pg_restore` fails, or the tables are not those that the workload needs.
pub(crate) fn restore_archive(
    session: &mut Session,
    restored: &ArchiveRestore,
    environment: &Environment,
    watch: &mut Watch,
) -> Result<OwnDataReport> {
    let ArchiveRestore { workload, archive, restorer, whose, longest } = *restored;
    let begun = Instant::now();
    archive::expect_same(archive).map_err(|message| anyhow!(message))?;
    let n_jobs = connections::jobs(session, available_parallelism().map_or(1, usize::from))?;
    let server_num = session.server_version_num();
    let restore = Restore {
        restorer,
        archive: &archive.file,
        server_num,
        n_jobs,
        deadline: begun + longest,
        stop: environment.stop,
    };
    let (name, size) = (&archive.name, bytes(archive.bytes as f64));
    let about = || {
        format!(
            "cannot restore `{name}`{}",
            if_other(&archive.dump_version, &restorer.version, &restorer.bin_dir, server_num)
        )
    };
    let list = restore.list().with_context(about)?;
    expect_extensions(session, &extensions(&list)).with_context(about)?;
    let mut made = Vec::new();
    if whose == Whose::Ours && names_roles(&list) {
        made = roles::make_missing(session, &needed(&restore.schema().with_context(about)?))?;
    }
    watch(ProgressEvent::Step(format!("restoring `{name}` ({size}) with pg_restore --jobs={n_jobs}")));
    let selected = if has_schema_public(session)? { without_schema_public(&list) } else { None };
    let unknown = passed_over(restore.restore(selected.as_deref()).with_context(about)?);
    let restored_s = begun.elapsed().as_secs_f64();
    restore.vacuum()?;
    let vacuumed_s = begun.elapsed().as_secs_f64() - restored_s;
    if let Some(home) = WorkloadTables::find(session, workload)? {
        watch(ProgressEvent::Step(format!("verifying {}", layout::describe(workload))));
        let wanted =
            TableCriteria { scale: workload.scale, layout: workload.layout, at: (environment.now)() };
        adopt(session, &home, &wanted).with_context(|| format!("`{name}`"))?;
    }
    let mut left_out = left_out(&list);
    left_out.extend(selected.map(|_| "the schema public, which exists".to_string()));
    let done = format!("{}: {restored_s:.3} s, vacuumed and analyzed in {vacuumed_s:.3} s", archive.words());
    Ok(OwnDataReport::new(done, &made, &left_out, unknown))
}

/// The settings of a newer dump that the server does not have, in words: empty if there are none.
fn passed_over(settings: impl IntoIterator<Item = &'static str>) -> String {
    let settings: Vec<&str> = settings.into_iter().collect();
    match &settings[..] {
        [] => String::new(),
        all => format!("; passed over, as this server does not have it: SET {}", all.join(", SET ")),
    }
}

/// Advice if the archive was written by a `pg_dump` that is newer than the `pg_restore`, or the latter is not the server's: they may
/// not know, or say, what the other has.
fn if_other(dump_version: &str, version: &str, bin_dir: &Path, server_num: u32) -> String {
    let of_server = Release::new(server_num);
    let Some(ours) = version_num(version).map(Release::new) else { return String::new() };
    if version_num(dump_version).is_some_and(|num| Release::new(num).is_of_newer_series(ours)) {
        return format!(
            ", which pg_dump {dump_version} made, by the older pg_restore {version} of `{}`; install the client programs of the newer \
             one, or dump again with pg_dump {}",
            bin_dir.display(),
            ours.series()
        );
    }
    if ours.series() != of_server.series() {
        return format!(
            " by pg_restore {version} of `{}` into PostgreSQL {}; install the client programs of that version",
            bin_dir.display(),
            of_server.series()
        );
    }
    String::new()
}

/// Fails if the server lacks an extension that the archive creates: `pg_restore` would find out after hours.
fn expect_extensions(session: &mut Session, wanted: &[String]) -> Result<()> {
    let rows = session.query("select name from pg_catalog.pg_available_extensions")?;
    let available: BTreeSet<&str> = (0..rows.len()).filter_map(|row| rows.get(row, "name")).collect();
    let missing: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|name| !available.contains(name)).collect();
    ensure!(
        missing.is_empty(),
        "the archive needs the {} {}, which this server's installation does not have; install the package, or dump without it",
        if missing.len() == 1 { "extension" } else { "extensions" },
        missing.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_series_is_named_where_a_restore_fails() {
        let check = |dump: &str, restorer: &str, server_num: u32, expected: &str| {
            let words = if_other(dump, restorer, Path::new("/bin"), server_num);
            assert_eq!(words.is_empty(), expected.is_empty(), "{dump} {restorer} {server_num}: {words}");
            assert!(words.contains(expected), "{words}");
        };
        check("15.18 (Debian 15.18-1)", "15.20 (Debian 15.20-1)", 150_020, "");
        check(
            "9.6.24",
            "9.5.25",
            90_525,
            ", which pg_dump 9.6.24 made, by the older pg_restore 9.5.25 of `/bin`; install",
        );
        check(
            "18.1",
            "17.2",
            170_002,
            ", which pg_dump 18.1 made, by the older pg_restore 17.2 of `/bin`; install",
        );
        check("9.4.26", "9.6.24", 90_525, " by pg_restore 9.6.24 of `/bin` into PostgreSQL 9.5; install");
        check("15.1", "18.4", 160_015, " by pg_restore 18.4 of `/bin` into PostgreSQL 16; install");
    }
}
