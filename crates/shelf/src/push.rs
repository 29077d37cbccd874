//! Stores a result: in one transaction, so that a result is there as a whole or not at all.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use analysis::comparison::CaseComparison;
use analysis::summary::Study;
use anyhow::{Context, Result, ensure};
use model::experiment::plan::RunState;
use model::release::{Release, functions};
use model::run::ExperimentData;
use store::{PackExtent, PackedFile, Stored};
use wire::Session;

use crate::copy::{CopyRow, copy};
use crate::migrate::VERSION;
use crate::traps::{self, SessionPurpose};
use crate::{SCHEMA, Shelf, rows};

/// Bytes of a file in one row: two requests of a round trip each are no burden, and memory stays small.
pub(crate) const PART_BYTES: usize = 512 << 10;

/// Most bytes of one result: what is stored can be read back on another machine, which believes no store to any length.
pub(crate) const RESULT_BYTES_MAX: u64 = 16 << 30;

/// A result to be stored.
#[derive(Clone, Copy)]
pub struct PushedResult<'a> {
    /// The results directory.
    pub dir: &'a Path,
    /// Its records; measurements are read run by run.
    pub data: &'a ExperimentData,
    /// The explained experiment.
    pub study: &'a Study,
    /// What it compares, if it is a comparison: case 1 with case 2.
    pub comparisons: &'a [CaseComparison],
    /// Version of the pgdyno that explained it.
    pub tool_version: &'a str,
    /// Whether this user's pgdyno made the plan and the experiment file in the directory, which is no copy.
    pub is_ours: bool,
    /// Whether it replaces a stored state that has more.
    pub replace: bool,
}

/// The outcome of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It is stored for the first time.
    New(i64),
    /// It replaces what was stored of the same experiment.
    Replaced(i64),
    /// The same was there already.
    Unchanged(i64),
}

impl Shelf {
    /// Stores a result, or replaces it if the same experiment has other files by now, or was explained by another version.
    ///
    /// # Errors
    /// When the directory cannot be read, lacks completed runs that are stored, or the server refuses it. Then what was stored before stays.
    pub fn push(&mut self, source: &PushedResult) -> Result<Pushed> {
        self.session.execute("BEGIN")?;
        let held = traps::hold(&mut self.session, SessionPurpose::Write);
        let pushed = held.and_then(|()| store(&mut self.session, source));
        let kept = matches!(pushed, Ok(Pushed::New(_) | Pushed::Replaced(_)));
        self.session.execute(if kept { "COMMIT" } else { "ROLLBACK" }).context("cannot store the result")?;
        pushed
    }
}

fn store(session: &mut Session, source: &PushedResult) -> Result<Pushed> {
    let packed = store::packed(source.dir, PackExtent::Report)?;
    expect_readable(packed.bytes())?;
    let contents = contents(&packed.files)?;
    let plan = &source.data.plan;
    let key = [plan.name.clone(), plan.seed.to_string(), plan.made_unix_ns.to_string()];
    let key: Vec<Option<&str>> = key.iter().map(|part| Some(part.as_str())).collect();
    // Whoever pushes the same experiment at the same time waits.
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2 || '/' || $3, 0))";
    let lock = if Release::new(session.server_version_num()).has(functions::HASHES_OF_64_BITS) {
        lock.to_string()
    } else {
        lock.replace("hashtextextended(", "hashtext(").replace(", 0))", "))")
    };
    session.query_params(&lock, &key)?;
    let known = session.query_params(
        &format!(
            "SELECT experiment_id, contents, pushed_by, rows_version FROM {SCHEMA}.experiment \
              WHERE name = $1 AND seed = $2::numeric AND made_unix_ns = $3::bigint"
        ),
        &key,
    )?;
    let known_id: Option<i64> = known.parse(0, "experiment_id");
    if let Some(id) = known_id {
        let is_same = known.get(0, "contents") == Some(&contents)
            && known.get(0, "pushed_by") == Some(source.tool_version)
            && known.parse(0, "rows_version") == Some(VERSION);
        if is_same {
            return Ok(Pushed::Unchanged(id));
        }
        if !source.replace {
            expect_no_loss(session, source, id, &packed.files)?;
        }
        session.execute(&format!("DELETE FROM {SCHEMA}.experiment WHERE experiment_id = {id}"))?;
    }
    let id = experiment(session, source, &contents, known_id)?;
    files(session, source.dir, id, &packed.files)?;
    copy(session, "cases", rows::cases(id, source.study)?)?;
    copy(session, "runs", rows::runs(id, source.study, source.data))?;
    copy(session, "phases", rows::phases(id, source.study, source.data))?;
    copy(session, "costs", rows::costs(id, source.study))?;
    copy(session, "findings", rows::findings(id, source.study))?;
    copy(session, "comparisons", rows::comparisons(id, source.comparisons))?;
    measurements(session, source, id)?;
    Ok(known_id.map_or(Pushed::New(id), Pushed::Replaced))
}

/// Refuses a result with more bytes of files than can be read back.
fn expect_readable(bytes: u64) -> Result<()> {
    let gib = |bytes: u64| bytes.div_ceil(1 << 30);
    ensure!(
        bytes <= RESULT_BYTES_MAX,
        "its files have {} GiB, and a store takes at most {} GiB of one result; give it to others with `pgdyno pack`",
        gib(bytes),
        gib(RESULT_BYTES_MAX)
    );
    Ok(())
}

/// Refuses an older, damaged or altered copy of a result: completed runs that are stored are here too, with the same files, and so are the
/// plan, the ratio of a duet, proofs and profiles. Only the directory that it was measured in may have others: runs that were made again later, for a server that was replaced, and
/// its new address. A copy says of itself what it likes.
fn expect_no_loss(session: &mut Session, source: &PushedResult, id: i64, here: &[PackedFile]) -> Result<()> {
    let stored = session
        .query(&format!("SELECT path, sha256 FROM {SCHEMA}.file WHERE experiment_id = {id} ORDER BY path"))?;
    let there: BTreeSet<(&str, &str)> = (0..stored.len())
        .filter_map(|row| Some((stored.get(row, "path")?, stored.get(row, "sha256")?)))
        .collect();
    let here: BTreeSet<(&str, &str)> =
        here.iter().map(|file| (file.path.as_str(), file.sha256.as_str())).collect();
    let rows = session.query(&format!(
        "SELECT run, (extract(epoch FROM go_at) * 1000000)::bigint AS go_unix_us FROM {SCHEMA}.runs \
          WHERE experiment_id = {id} AND state = 'completed' ORDER BY run"
    ))?;
    let is_here = |row: &usize| {
        let Some(number) = rows.parse::<u32>(*row, "run") else { return false };
        let run = source.study.runs.iter().find(|run| run.run == number);
        let Some(run) = run.filter(|run| run.state == RunState::Completed) else { return false };
        let go_us: Option<u64> = rows.parse(*row, "go_unix_us");
        let directory = format!("{}/{}/", store::names::RUNS, store::names::run_dir(number));
        let of_run = |files: &BTreeSet<(&str, &str)>| -> Vec<String> {
            let own = files.iter().filter(|(path, _)| path.starts_with(&directory));
            own.map(|(path, sha256)| format!("{path} {sha256}")).collect()
        };
        let is_later = source.is_ours && run.go_unix_ns.map(|go| go / 1000) > go_us;
        is_later || of_run(&here) == of_run(&there)
    };
    let lost = (0..rows.len()).filter(|row| !is_here(row)).filter_map(|row| rows.get(row, "run"));
    let lost = lost.collect::<Vec<&str>>().join(", ");
    ensure!(
        lost.is_empty(),
        "#{id} of the store has completed runs that are missing, damaged or altered here: {lost}; push the copy that was measured, or \
         replace that one with --replace"
    );
    let is_other = |file: &&(&str, &str)| is_evidence(file.0) && !here.contains(*file);
    let others: Vec<&str> = there.iter().filter(is_other).map(|(path, _)| *path).collect();
    ensure!(
        source.is_ours || others.is_empty(),
        "#{id} of the store has another {} than this copy, which is not the directory that it was measured in; push that one, or replace it \
         with --replace",
        others.join(", ")
    );
    Ok(())
}

/// Whether a file outside of the runs decides what a report says: a copy has it was stored, and may have more.
fn is_evidence(path: &str) -> bool {
    let of_profiles = path.strip_prefix(store::names::PROFILES).is_some_and(|rest| rest.starts_with('/'));
    of_profiles
        || [store::names::PLAN, store::names::DUET, store::names::COMPARISON, store::names::PROOFS]
            .contains(&path)
}

/// One digest for all files.
pub(crate) fn contents(files: &[PackedFile]) -> Result<String> {
    let lines: String =
        files.iter().map(|file| format!("{} {} {}\n", file.sha256, file.bytes, file.path)).collect();
    Ok(files::sha256_of(lines.as_bytes())?)
}

/// Inserts the row of the experiment, under the number that it had.
fn experiment(
    session: &mut Session,
    source: &PushedResult,
    contents: &str,
    known: Option<i64>,
) -> Result<i64> {
    let id = match known {
        Some(id) => id,
        None => session
            .query(&format!(
                "SELECT nextval(pg_get_serial_sequence('{SCHEMA}.experiment', 'experiment_id')) AS id"
            ))?
            .parse(0, "id")
            .context("the store gives no number")?,
    };
    let plan = &source.data.plan;
    let row = CopyRow::new(id)
        .put(&plan.name)
        .put(plan.seed)
        .put(plan.made_unix_ns)
        .put(store::name_of(source.dir))
        .put(&plan.title)
        .put(&plan.description)
        .time(Some(plan.made_unix_ns))
        .put(&plan.tool_version)
        .put(source.tool_version)
        .put(contents)
        .maybe(source.study.partial.as_ref())
        .put(rows::json(plan))
        .put(!plan.origins.is_empty())
        .put(VERSION);
    let columns = "experiment (experiment_id, name, seed, made_unix_ns, directory, title, description, made_at, \
                   tool_version, pushed_by, contents, partial, plan, merged, rows_version)";
    copy(session, columns, [row])?;
    Ok(id)
}

fn files(session: &mut Session, dir: &Path, id: i64, files: &[PackedFile]) -> Result<()> {
    let row = |(place, file): (usize, &PackedFile)| {
        CopyRow::new(id).put(place).put(&file.path).put(file.bytes).put(&file.sha256)
    };
    copy(session, "file", files.iter().enumerate().map(row))?;
    for (place, file) in files.iter().enumerate() {
        let mut parts = Parts { session, id, place, part: 0, buffer: Vec::new() };
        store::copy_packed(dir, file, &mut parts)?;
        parts.send().with_context(|| format!("cannot store `{}`", file.path))?;
    }
    Ok(())
}

/// A file that becomes rows.
struct Parts<'a> {
    session: &'a mut Session,
    id: i64,
    place: usize,
    part: u32,
    buffer: Vec<u8>,
}

impl Parts<'_> {
    fn send(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            let row = CopyRow::new(self.id).put(self.place).put(self.part).bytes(&self.buffer);
            copy(self.session, "file_part", [row])?;
            self.buffer.clear();
            self.part += 1;
        }
        Ok(())
    }
}

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..n]);
        if self.buffer.len() == PART_BYTES {
            self.send().map_err(io::Error::other)?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Intervals and readings, run by run.
fn measurements(session: &mut Session, source: &PushedResult, id: i64) -> Result<()> {
    let stored = Stored::open(source.dir)?;
    for index in 0..stored.n_runs() {
        let number = stored.number(index);
        if !source.study.runs.iter().any(|run| run.run == number) {
            continue;
        }
        let Some(run) = stored.run(index)? else { continue };
        copy(session, "intervals", rows::intervals(id, &run))?;
        copy(session, "readings", rows::readings(id, &run))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_could_not_be_read_back_is_too_large() {
        expect_readable(RESULT_BYTES_MAX).unwrap();
        let words = expect_readable(RESULT_BYTES_MAX + 1).unwrap_err().to_string();
        assert!(words.contains("have 17 GiB, and a store takes at most 16 GiB"), "{words}");
    }
}
