//! SQL for the segments of WAL that wait to be archived.
//!
//! Pure. Absent where nothing is archived. The names are those of the files in `archive_status`, which the archiver renames when it is done.

use model::release::{Release, functions};

/// How many wait, and since when the oldest does. Before 12 only a superuser may look, and before 9.5, where a file that goes meanwhile is an
/// error, the age is not asked for.
pub(crate) fn queue(release: Release) -> String {
    let is_on = "current_setting('archive_mode') <> 'off'";
    let directory = format!("{}/archive_status", release.name(functions::WAL_DIRECTORY));
    let names = format!("pg_ls_dir('{directory}') f(name)");
    let age = |modified: &str| format!("extract(epoch from clock_timestamp() - min({modified}))::numeric");
    let (age, from) = if release.has(functions::LIST_OF_ARCHIVING) {
        (age("f.modification"), "pg_ls_archive_statusdir() f".to_string())
    } else if release.has(functions::FILES_MAY_BE_MISSING) {
        (age(&format!("(pg_stat_file('{directory}/' || f.name, true)).modification")), names)
    } else {
        ("null::numeric".to_string(), names)
    };
    format!(
        "select v.m, '', v.x::text from (select count(*)::numeric as n, greatest({age}, 0) as age from {from} \
         where {is_on} and f.name like '%.ready') q, \
         lateral (values ('archive.ready', q.n), ('archive.oldest_ready', case when q.n > 0 then q.age end)) v(m, x) \
         where {is_on} and v.x is not null"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_asked_with_what_it_has() {
        for (version_num, has, has_not) in [
            (90_426, "pg_ls_dir('pg_xlog/archive_status')", "pg_stat_file"),
            (90_624, "pg_stat_file('pg_xlog/archive_status/' || f.name, true)", "statusdir"),
            (110_000, "pg_ls_dir('pg_wal/archive_status')", "statusdir"),
            (120_000, "pg_ls_archive_statusdir()", "pg_ls_dir"),
        ] {
            let text = queue(Release::new(version_num));
            assert!(text.contains(has) && !text.contains(has_not), "{version_num}: {text}");
        }
    }
}
