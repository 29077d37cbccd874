//! Whether the file that ALTER SYSTEM writes includes other files: the server would write all their settings into it, and drop the line
//! that includes them.

use anyhow::{Context, Result};
use model::release::{Release, privileges};
use wire::{Session, quote_literal};

use super::state::AUTO_CONF;
use crate::database::facts::{is_so, is_superuser};

/// Of the file, which has a line for each setting that somebody has changed.
const READ_MAX: u32 = 1 << 20;
const DIRECTIVES: [&str; 3] = ["include", "include_dir", "include_if_exists"];

/// Why ALTER SYSTEM must not be executed now; `None` if nothing is included, or if our user cannot know.
///
/// # Errors
/// When the server fails.
pub(super) fn problem(session: &mut Session, data_directory: &str) -> Result<Option<String>> {
    let found = match read(session)? {
        Some(text) => line(&text).map(|(number, line)| format!("line {number}: `{line}`")),
        None => included(session, data_directory)?
            .map(|file| format!("settings of `{file}` can come in by it alone")),
    };
    Ok(found.map(|found| {
        format!(
            "`{data_directory}/{AUTO_CONF}` includes another file ({found}): ALTER SYSTEM would write that file's settings into it, and drop \
             the line; include it in postgresql.conf instead, and remove the line"
        )
    }))
}

/// The text of the file, if our user may read it.
fn read(session: &mut Session) -> Result<Option<String>> {
    let granted = "select pg_catalog.has_function_privilege('pg_catalog.pg_read_binary_file(text, bigint, bigint)', 'execute')";
    let release = Release::new(session.server_version_num());
    let may_read = is_superuser(session) || release.has(privileges::READING_FILES) && is_so(session, granted);
    if !may_read {
        return Ok(None);
    }
    // Whatever its encoding is.
    let sql = format!(
        "select pg_catalog.encode(pg_catalog.pg_read_binary_file({}, 0, {READ_MAX}), 'escape')",
        quote_literal(AUTO_CONF)
    );
    let rows = session.query(&sql).with_context(|| format!("read {AUTO_CONF}"))?;
    Ok(rows.scalar().map(str::to_string))
}

/// The first line that includes something, with its number.
fn line(text: &str) -> Option<(usize, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = |line: &str| line.chars().take_while(|c| is_word(*c)).collect::<String>().to_ascii_lowercase();
    let lines = text.lines().map(str::trim).enumerate();
    let mut including = lines.filter(|(_, line)| DIRECTIVES.contains(&word(line).as_str()));
    including.next().map(|(at, line)| (at + 1, line))
}

/// A file that is read after our first line, which the server reads last.
fn included(session: &mut Session, data_directory: &str) -> Result<Option<String>> {
    let auto = quote_literal(&format!("{data_directory}/{AUTO_CONF}"));
    let sql = format!(
        "with f as (select seqno, sourcefile from pg_catalog.pg_file_settings) select sourcefile from f where sourcefile <> {auto} \
         and seqno > (select min(seqno) from f where sourcefile = {auto}) order by seqno limit 1"
    );
    let rows = session.query(&sql).context("cannot read pg_file_settings")?;
    Ok(rows.scalar().map(str::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_includes_a_file_is_found_however_it_is_written() {
        let check = |text: &str, expected: Option<usize>| {
            assert_eq!(line(text).map(|(number, _)| number), expected, "{text}");
        };
        check("# include 'x'\nwork_mem = '4MB'\n", None);
        check("work_mem = 'include'\nincluded = 1\n", None);
        check("work_mem = '4MB'\ninclude 'x'\n", Some(2));
        check(" \tINCLUDE_DIR='x'", Some(1));
        check("a = 1\r\n\r\ninclude_if_exists = 'x' # why\r\n", Some(3));
    }
}
