//! The user's own scripts: read once, when the plan is made, with errors that say where in the experiment file and
//! where in the script; from then on the plan has their text.

pub mod directories;
pub(crate) mod ledger;
pub mod reads;
pub(crate) mod session_state;
pub(crate) mod sessions;
pub(crate) mod unset;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use model::experiment::case::WorkloadSpec;
use model::experiment::keys;
use model::experiment::keys::levels::Levels;
use model::experiment::script::{
    CaseData, CaseScript, DataChoice, ScriptEntry, ScriptOrigin, SqlEntry, SqlFile,
};
use model::experiment::topology::outage::Outages;
use model::experiment::{Experiment, WorkloadSection};
use model::load::{Protocol, ScriptSpec};
use model::text::encoding::not_text;
use model::text::mark::unmarked;
use sha2::{Digest, Sha256};
use workload::script::SCRIPT_BYTES_MAX;
use workload::script::sqlfile::dump::{DumpFile, named_encoding};
use workload::script::sqlfile::{self, line_and_column};
use workload::{Bundle, Program, Schema, ScriptError, TpcbScript, catalogue};

use crate::plan::archive;
use crate::plan::problems::Problems;
use crate::plan::scripts::unset::CompiledScripts;

/// A data file up to this size is stored in the plan with its text; for a larger one, the plan has path and hash.
const KEPT_BYTES_MAX: u64 = 64 * 1024;
/// Limit for data files, which are read as a whole: larger ones are better loaded by other means.
const DATA_BYTES_MAX: u64 = 1 << 30;

/// Where an experiment comes from.
pub struct ExperimentSource<'a> {
    /// Name in messages: the file's, or that of the built-in.
    pub name: &'a str,
    /// The text; empty if scripts and data come from options.
    pub text: &'a str,
    /// Directory for relative file names.
    pub dir: &'a Path,
    /// Set to end the wait for a pipe.
    pub stop: &'a AtomicBool,
}

/// Reads scripts and data files, so that the experiment is self-contained: no names of script files are left in it.
///
/// # Errors
/// In words, with file, line and column, one problem a line: unreadable files, scripts that do not compile, wrong hashes.
pub fn read(experiment: &mut Experiment, origin: &ExperimentSource) -> Result<(), String> {
    let mut problems = Problems::default();
    for file in experiment.import.iter_mut().filter_map(|import| import.csv.as_mut()) {
        // Read after each load, from wherever that is conducted.
        *file = std::path::absolute(origin.dir.join(&*file)).map_err(|error| error.to_string())?;
    }
    read_outages(&mut experiment.outage, origin, &mut problems);
    let workload = &mut experiment.workload;
    let located = |message: String| format!("{}: {message}", origin.name);
    problems.take(check_kind(workload).map_err(located));
    directories::read(workload, origin.dir, &mut problems);
    let places = Places::new(origin);
    let mut is_read = Vec::new();
    for (n, entry) in workload.scripts.iter_mut().enumerate() {
        let read = read_script(entry, origin).map_err(|message| places.script(n, &message));
        is_read.push(problems.take(read).is_some());
    }
    let mut names = BTreeSet::new();
    for (n, entry) in workload.scripts.iter().enumerate().filter(|(n, _)| is_read[*n]) {
        problems.take(compile(workload, entry).map_err(|message| places.script(n, &message)));
        if !names.insert(entry.name.as_deref()) {
            let name = entry.name.as_deref().unwrap_or_default();
            let message = format!("`{name}` is named twice; add the weights, or give one another `name`");
            problems.say(places.script(n, &message));
        }
    }
    // Scripts that do not compile cannot be judged together.
    if problems.is_empty() {
        let together = check_together(workload).map_err(|message| format!("workload.scripts: {message}"));
        problems.take(together.map_err(located));
    }
    if let Some(archive) = &mut workload.restore_from {
        let read = archive::read(archive, origin.dir);
        problems.take(read.map_err(|message| located(format!("workload.restore_from: {message}"))));
    }
    if let Some(DataChoice::Files(files)) = &mut workload.data {
        for (n, file) in files.iter_mut().enumerate() {
            problems.take(read_data(file, origin).map_err(|message| places.data(n, &message)));
        }
    }
    problems.end(Some(()))
}

/// Refuses keys that belong to the workload `scripts` in other workloads.
fn check_kind(workload: &WorkloadSection) -> Result<(), String> {
    if workload.data.is_some() && workload.restore_from.is_some() {
        return Err("workload.data and workload.restore_from both say where the data comes from; give one"
            .to_string());
    }
    if workload.kind.all().iter().any(|name| name.is_own()) {
        return if workload.scripts.is_empty() {
            Err("workload.scripts: no script is given; example: scripts = [\"a.sql@3\", \
                         \"builtin:select-only\"], or on the command line -f a.sql@3"
                .to_string())
        } else {
            Ok(())
        };
    }
    let given = [
        ("scripts", !workload.scripts.is_empty()),
        ("defines", !workload.defines.is_empty()),
        ("data", workload.data.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some(("defines", _)) if workload.kind.all().iter().any(|name| name.directory().is_some()) => {
            Err("workload.defines needs workload.kind = \"scripts\"; a workload directory has options: workload.options.NAME"
                .to_string())
        }
        Some((key, _)) => Err(format!("workload.{key} needs workload.kind = \"scripts\"")),
        None => Ok(()),
    }
}

fn read_script(entry: &mut ScriptEntry, origin: &ExperimentSource) -> Result<(), String> {
    match &entry.source {
        ScriptOrigin::Text(_) => {}
        ScriptOrigin::Builtin(name) => {
            let builtin = find_builtin(name)?;
            entry.name.get_or_insert(builtin.pgbench_name().to_string());
        }
        ScriptOrigin::File(file) => {
            let text = read_text(&origin.dir.join(file), SCRIPT_BYTES_MAX, "", origin.stop)?;
            entry.name.get_or_insert(file.display().to_string());
            entry.source = ScriptOrigin::Text(text);
        }
    }
    Ok(())
}

/// Reads the SQL that outages run.
fn read_outages(outages: &mut Outages, origin: &ExperimentSource, problems: &mut Problems) {
    for table in &mut outages.0 {
        for file in table.faults.0.iter().filter_map(|fault| fault.script()) {
            let given = table.scripts.get(file).cloned();
            let read = || read_text(&origin.dir.join(file), SCRIPT_BYTES_MAX, "", origin.stop);
            let checked = given.map_or_else(read, Ok).and_then(|text| {
                let wrong = sqlfile::steps(&text).find_map(Result::err);
                let place = |start| line_and_column(&text, start);
                wrong.map_or(Ok(()), |error| {
                    let (line, column) = place(error.start);
                    Err(format!("{file}:{line}:{column}: {}", error.message))
                })?;
                Ok(text)
            });
            let read = problems.take(checked.map_err(|message| format!("{}: {message}", keys::OUTAGE)));
            table.scripts.extend(read.map(|text| (file.to_string(), text)));
        }
    }
}

fn find_builtin(name: &str) -> Result<TpcbScript, String> {
    TpcbScript::parse(name).map_err(|_| {
        let known: Vec<&str> = TpcbScript::ALL.into_iter().map(TpcbScript::pgbench_name).collect();
        format!("no built-in script is named `{name}`; available: {}", known.join(", "))
    })
}

/// Reads a file that the user named; `hint` is for a file that is too long.
fn read_text(path: &Path, bytes_max: u64, hint: &str, stop: &AtomicBool) -> Result<String, String> {
    let bytes = files::read_named(path, bytes_max, stop).map_err(|error| {
        let hint = if error.kind() == ErrorKind::FileTooLarge { hint } else { "" };
        format!("cannot read `{}`: {error}{hint}", path.display())
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("`{}` {}", path.display(), no_text(error.as_bytes())))?;
    Ok(unmarked(text))
}

/// What is wrong with bytes that are no text, and what to do: a dump says which encoding it has.
fn no_text(bytes: &[u8]) -> String {
    let Some(encoding) = named_encoding(bytes) else { return not_text(bytes).to_string() };
    format!(
        "is not UTF-8 text, but {encoding} by its own words; dump again with pg_dump --encoding=UTF8, or convert it (iconv -t UTF-8) and \
         have it set client_encoding to UTF8"
    )
}

/// The text of a data file.
fn read_data_text(path: &Path, stop: &AtomicBool) -> Result<String, String> {
    let hint =
        "; restore an archive instead, which may be of any size: pg_dump -Fc, and workload.restore_from";
    read_text(path, DATA_BYTES_MAX, hint, stop)
}

/// The text of a script that was read.
fn source_of(entry: &ScriptEntry) -> &str {
    match &entry.source {
        ScriptOrigin::Text(text) => text,
        ScriptOrigin::Builtin(name) => TpcbScript::parse(name).map_or("", TpcbScript::source),
        ScriptOrigin::File(_) => "",
    }
}

fn compile(workload: &WorkloadSection, entry: &ScriptEntry) -> Result<(), String> {
    let (name, source) = (entry.name.as_deref().unwrap_or_default(), source_of(entry));
    // It begins with the script's name.
    let located = |error: ScriptError| with_column(&error, source);
    let program = Program::compile(name, source).map_err(located)?;
    let is_simple =
        |levels: &Levels<Protocol>| levels.all().iter().all(|protocol| *protocol == Protocol::Simple);
    if !workload.protocol.as_ref().is_some_and(is_simple) {
        program.check_parameter_counts().map_err(located)?;
    }
    Ok(())
}

/// The message with the column in addition to file and line, if it is known.
fn with_column(error: &ScriptError, source: &str) -> String {
    let text = error.to_string();
    let (Some(column), Some(shown)) = (error.column, &error.source_line) else { return text };
    let line = source.lines().nth(error.line.saturating_sub(1)).unwrap_or_default();
    let first = shown.lines().next().unwrap_or_default();
    let start = line.find(first).unwrap_or(0);
    let before = line.floor_char_boundary(start + column - 1);
    let place = format!("{}:{}:", error.file, error.line);
    text.replacen(&place, &format!("{place}{}:", 1 + line[..before].chars().count()), 1)
}

/// Checks the scripts together: names of variables, weights, their number.
fn check_together(workload: &WorkloadSection) -> Result<(), String> {
    if workload.scripts.is_empty() {
        return Ok(());
    }
    let names = workload.defines.keys().map(|name| (name.clone(), String::new())).collect();
    let scripts: Vec<(&str, &str, u32)> = workload
        .scripts
        .iter()
        .map(|entry| (entry.name.as_deref().unwrap_or_default(), source_of(entry), entry.weight))
        .collect();
    let bundle = Bundle::compile(&scripts, &names).map_err(|error| error.to_string())?;
    let sources: Vec<&str> = scripts.iter().map(|(_, source, _)| *source).collect();
    CompiledScripts::without_columns(&bundle, &sources, workload.defines.keys().map(String::as_str)).check()
}

fn read_data(entry: &mut SqlEntry, origin: &ExperimentSource) -> Result<(), String> {
    let Some(file) = &entry.file else { return Ok(()) };
    let path = std::path::absolute(origin.dir.join(file)).map_err(|error| error.to_string())?;
    let text = read_data_text(&path, origin.stop)?;
    expect_hash(entry.sha256.as_deref(), &text, &path)?;
    if let Err(error) = DumpFile::from_source(&text) {
        let (line, column) = line_and_column(&text, error.start);
        return Err(format!("{}:{line}:{column}: {}", entry.name, error.message));
    }
    entry.sha256 = Some(sha256(&text));
    if text.len() as u64 <= KEPT_BYTES_MAX {
        (entry.file, entry.text) = (None, Some(text));
    } else if !path.is_file() {
        return Err(format!(
            "`{}` is not a regular file and has more than {KEPT_BYTES_MAX} bytes, which are read again when the data is created; \
             write them into a file",
            path.display()
        ));
    } else {
        entry.file = Some(path);
    }
    Ok(())
}

fn expect_hash(expected: Option<&str>, text: &str, path: &Path) -> Result<(), String> {
    let found = sha256(text);
    match expected {
        Some(expected) if expected != found => Err(format!(
            "`{}` has changed since the plan was made: its SHA-256 is {found}, not {expected}",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// SHA-256 in hexadecimal.
fn sha256(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

/// Scripts of a case, after their texts were read.
pub(crate) fn of_case(workload: &WorkloadSection) -> Vec<CaseScript> {
    // User scripts rely on the search path; a built-in script next to them names a schema only if the user does.
    let schema = workload.schema.as_deref().map_or_else(Schema::searched, Schema::named);
    let script = |entry: &ScriptEntry| {
        let source = match &entry.source {
            ScriptOrigin::Builtin(name) => {
                TpcbScript::parse(name).map_or(String::new(), |builtin| builtin.source_in(&schema))
            }
            ScriptOrigin::Text(_) | ScriptOrigin::File(_) => source_of(entry).to_string(),
        };
        CaseScript {
            name: entry.name.clone().unwrap_or_default(),
            weight: entry.weight,
            sha256: sha256(&source),
            source,
            to: entry.to,
        }
    };
    workload.scripts.iter().map(script).collect()
}

/// Data of the scripts. By default, TPC-B-like tables on a server that pgdyno runs, because it has nothing else; on an
/// existing server, none are created.
pub(crate) fn data_of(workload: &WorkloadSection, is_adopted: bool) -> CaseData {
    let file = |entry: &SqlEntry| {
        let sha256 = entry.sha256.clone().or_else(|| entry.text.as_deref().map(sha256)).unwrap_or_default();
        let of_file =
            || entry.file.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |meta| meta.len());
        let bytes = entry.text.as_ref().map_or_else(of_file, |text| text.len() as u64);
        SqlFile {
            name: entry.name.clone(),
            sha256,
            bytes,
            file: entry.file.clone(),
            text: entry.text.clone(),
        }
    };
    if let Some(data) = archive::data_of(workload, None) {
        return data;
    }
    match &workload.data {
        Some(DataChoice::Tpcb) => CaseData::default(),
        Some(DataChoice::None) => CaseData::None,
        Some(DataChoice::Files(files)) => CaseData::Files(files.iter().map(file).collect()),
        None if is_adopted => CaseData::None,
        None => CaseData::default(),
    }
}

/// Text of a data file: from the plan, or from its path if it is unchanged.
///
/// # Errors
/// When it cannot be read or has changed.
pub(crate) fn text_of(file: &SqlFile, stop: &AtomicBool) -> Result<String, String> {
    if let Some(text) = &file.text {
        return Ok(text.clone());
    }
    let path: &PathBuf =
        file.file.as_ref().ok_or_else(|| format!("the plan has no text of `{}`", file.name))?;
    let text = read_data_text(path, stop)?;
    expect_hash(Some(&file.sha256), &text, path)?;
    Ok(text)
}

/// Scripts of a case as the driver gets them, including built-in workloads.
pub(crate) fn for_driver(workload: &WorkloadSpec, schema: &Schema) -> Vec<ScriptSpec> {
    let own = catalogue::scripts(workload.kind).iter().map(|script| ScriptSpec {
        name: script.name.to_string(),
        tag: script.name.to_string(),
        weight: script.weight,
        source: schema.fill(script.text),
    });
    let script = |(n, script): (usize, &CaseScript)| ScriptSpec {
        name: script.name.clone(),
        tag: tag(n, &script.name),
        weight: script.weight,
        source: script.source.clone(),
    };
    own.chain(workload.scripts.iter().enumerate().map(script)).collect()
}

/// Variables of every client.
pub(crate) fn variables(workload: &WorkloadSpec) -> BTreeMap<String, String> {
    let mut variables = workload.defines.clone();
    variables.entry("scale".to_string()).or_insert_with(|| workload.scale.to_string());
    variables
}

/// A unique name for histograms, similar to the script's.
fn tag(n: usize, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("{}-{}", n + 1, name.chars().map(plain).take(40).collect::<String>())
}

/// Positions of entries in an experiment file.
struct Places<'a> {
    origin: &'a ExperimentSource<'a>,
    scripts: Vec<usize>,
    data: Vec<usize>,
}

impl<'a> Places<'a> {
    fn new(origin: &'a ExperimentSource<'a>) -> Places<'a> {
        let mut places = Places { origin, scripts: Vec::new(), data: Vec::new() };
        // A text that does not parse has been refused earlier.
        let Ok(table) = toml::de::DeTable::parse(origin.text) else { return places };
        let Some(workload) = table.get_ref().get("workload").and_then(|value| value.get_ref().as_table())
        else {
            return places;
        };
        let starts = |value: Option<&toml::Spanned<toml::de::DeValue<'_>>>| -> Vec<usize> {
            let items = value.and_then(|value| value.get_ref().as_array());
            items.into_iter().flatten().map(|item| item.span().start).collect()
        };
        places.scripts = starts(workload.get("scripts"));
        let data = workload.get("data").and_then(|value| value.get_ref().as_table());
        places.data = starts(data.and_then(|data| data.get("files")));
        places
    }

    /// A message with the position of script number `n`, from 0.
    fn script(&self, n: usize, message: &str) -> String {
        self.located(&self.scripts, n, keys::workload::SCRIPTS.name, message)
    }

    fn data(&self, n: usize, message: &str) -> String {
        self.located(&self.data, n, keys::workload::DATA.name, message)
    }

    fn located(&self, starts: &[usize], n: usize, key: &str, message: &str) -> String {
        let name = self.origin.name;
        match starts.get(n) {
            Some(start) => {
                let (line, column) = line_and_column(self.origin.text, *start);
                format!("{name}:{line}:{column}: {message}")
            }
            // Given by an option.
            None => format!("{key}: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The experiment of `text` with its scripts read, from a directory with these files.
    fn read_all(text: &str, files: &[(&str, &str)]) -> Result<Experiment, String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let text = format!("[experiment]\nname = \"x\"\n[workload]\n{text}");
        let mut experiment =
            crate::plan::file::parse("x.toml", &text, &[]).map_err(|error| error.to_string())?;
        read(
            &mut experiment,
            &ExperimentSource { name: "x.toml", text: &text, dir: dir.path(), stop: &AtomicBool::new(false) },
        )?;
        Ok(experiment)
    }

    #[test]
    fn a_file_that_is_packed_is_named_as_that() {
        let dir = tempfile::tempdir().unwrap();
        let said = |bytes: &[u8]| {
            let path = dir.path().join("a.sql");
            std::fs::write(&path, bytes).unwrap();
            let read = read_text(&path, 100, "", &AtomicBool::new(false));
            read.unwrap_err().replace(&path.display().to_string(), "a.sql")
        };
        for (bytes, expected) in [
            (
                &b"\x1f\x8b\x08\x00\xff"[..],
                "`a.sql` is compressed by gzip; unpack it with gunzip, and name the unpacked file",
            ),
            (b"select '\xe4';", "`a.sql` is not UTF-8 text; convert it"),
            (
                b"set client_encoding = 'LATIN1';\n\xe4",
                "`a.sql` is not UTF-8 text, but LATIN1 by its own words; dump again with pg_dump --encoding=UTF8, or convert it (iconv -t \
                 UTF-8) and have it set client_encoding to UTF8",
            ),
        ] {
            assert_eq!(said(bytes), expected);
        }
    }

    #[test]
    fn scripts_are_read_by_all_their_forms() {
        let text = "kind = \"scripts\"\nscripts = [\"a.sql@3\", {file = \"b.sql\", name = \"two\"}, \
                    \"builtin:select-only@2\", {name = \"three\", text = \"select 3;\", weight = 0}]\n\
                    data = {files = [\"load.sql\"]}\ndefines = {n = 7, x = [1, 2]}\n";
        let files = [("a.sql", "select 1;\n"), ("b.sql", "select :n;"), ("load.sql", "create table t ();")];
        let experiment = read_all(text, &files).unwrap();
        let scripts = of_case(&experiment.workload);
        let brief: Vec<_> = scripts.iter().map(|s| (s.name.as_str(), s.weight, s.source.len())).collect();
        let n = TpcbScript::TpcbSelect.source().len();
        assert_eq!(brief, [("a.sql", 3, 10), ("two", 1, 10), ("select-only", 2, n), ("three", 0, 9)]);
        assert_eq!(scripts[0].sha256, sha256("select 1;\n"));
        let CaseData::Files(files) = data_of(&experiment.workload, true) else { panic!("no files") };
        assert_eq!((files[0].name.as_str(), files[0].bytes), ("load.sql", 18));
        assert_eq!(text_of(&files[0], &AtomicBool::new(false)).unwrap(), "create table t ();");

        // The experiment written with the results needs no files any more.
        let written = toml::to_string_pretty(&experiment).unwrap();
        let again = crate::plan::file::parse("y.toml", &written, &[]).unwrap();
        assert_eq!(again, experiment, "{written}");
    }

    #[test]
    fn mistakes_are_reported_with_their_position_in_both_files() {
        let files = [
            ("bad.sql", "select 1;\n  \\set i 1 +\n"),
            ("umlaut.sql", "\\set ü 1 +\n"),
            ("ok.sql", "select 1;"),
            ("l.sql", "\n \\connect x\n \\connect y\n"),
        ];
        let check = |text: &str, expected: &str| {
            let message = read_all(text, &files).unwrap_err();
            assert!(message.starts_with(expected), "{message}\nexpected: {expected}");
        };
        let kind = "kind = \"scripts\"\n";
        check(
            &format!("{kind}scripts = [\"ok.sql\", \"bad.sql@2\"]"),
            "x.toml:5:22: bad.sql:2:13: syntax error in command \"set\"\n\\set i 1 +\n",
        );
        check(&format!("{kind}scripts = [\"umlaut.sql\"]"), "x.toml:5:12: umlaut.sql:1:11: syntax error");
        check(&format!("{kind}[[workload.scripts]]\nfile = \"no.sql\""), "x.toml:5:1: cannot read `");
        check(&format!("{kind}scripts = [\"ok.sql@x\"]"), "x.toml:5:12: `x` in `ok.sql@x` is not a weight");
        check(&format!("{kind}scripts = [{{file = \"ok.sql\", wieght = 1}}]"), "x.toml:5:");
        check(&format!("{kind}scripts = [\"ok.sql\", \"ok.sql\"]"), "x.toml:5:22: `ok.sql` is named twice");
        check(
            &format!("{kind}scripts = [\"builtin:tpcx\"]"),
            "x.toml:5:12: no built-in script is named `tpcx`",
        );
        check(&format!("{kind}scripts = [\"ok.sql@0\"]"), "x.toml: workload.scripts: total script weight");
        check(
            &format!("{kind}scripts = [\"ok.sql\"]\ndefines = {{\"a b\" = 1}}"),
            "x.toml: workload.scripts: ",
        );
        check(kind, "x.toml: workload.scripts: no script is given");
        check("scripts = [\"ok.sql\"]", "x.toml: workload.scripts needs workload.kind = \"scripts\"");
        check("data = \"none\"", "x.toml: workload.data needs workload.kind");
        let with_data = format!("{kind}scripts = [\"ok.sql\"]\ndata = ");
        check(&format!("{with_data}\"some\""), "x.toml:6:8: `some` is no data");
        check(
            &format!("{with_data}{{files = [\"ok.sql\", \"l.sql\"]}}"),
            "x.toml:6:28: l.sql:3:2: `\\connect y` goes to a second database",
        );
    }

    #[test]
    fn a_changed_data_file_is_not_taken_for_the_old_one() {
        let long = format!("select 1; -- {}", "x".repeat(KEPT_BYTES_MAX as usize));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load.sql");
        std::fs::write(&path, &long).unwrap();
        let mut entry =
            SqlEntry { name: "load.sql".into(), file: Some("load.sql".into()), sha256: None, text: None };
        let origin = ExperimentSource { name: "", text: "", dir: dir.path(), stop: &AtomicBool::new(false) };
        read_data(&mut entry, &origin).unwrap();
        assert_eq!(entry.file.as_deref(), Some(path.as_path()));
        std::fs::write(&path, "select 2;").unwrap();
        assert!(read_data(&mut entry, &origin).unwrap_err().contains("has changed since the plan was made"));
    }
}
