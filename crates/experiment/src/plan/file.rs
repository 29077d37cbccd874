//! Reads an experiment file and the options that change it, with errors that name the position.

mod bounds;
mod mistakes;

use std::fmt;

use model::experiment::Experiment;
use model::experiment::case::setting;
use model::experiment::keys::{self, row::KeyRow};
use model::text::nearest::nearest;
use toml::{Table, Value};

use self::bounds::OutOfBounds;

/// A key of the experiment file given on the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// Dotted key: `workload.clients`; [`path`] gives its parts.
    pub key: String,
    /// Its value; a list makes it a factor.
    pub value: Value,
    /// The option as typed, for messages.
    pub origin: String,
}

impl Override {
    /// Parses `--set key=value`. The value is TOML; anything that is not TOML is taken as text.
    ///
    /// # Errors
    /// When there is no `=`, or the key is not a dotted name.
    pub fn parse(text: &str) -> Result<Override, String> {
        Override::parse_of("--set", text)
    }

    /// As [`Override::parse`], for another option with key and value.
    ///
    /// # Errors
    /// As [`Override::parse`].
    pub fn parse_of(option: &str, text: &str) -> Result<Override, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{option} `{text}` has no `=`; example: {option} workload.scale=100"))?;
        let key = key.trim();
        let parts = parts(key).ok_or_else(|| {
            format!("{option}: `{key}` is not a key of the experiment file; example: workload.scale")
        })?;
        let key = joined(&parts);
        // A server's address may contain a password, so messages do not repeat it.
        let origin = format!("{option} {}", if key == keys::server::URL.name { &key } else { text });
        Ok(Override { key, value: parse_value(value.trim()), origin })
    }

    /// Makes a value from text levels: a single level is a value, several are a list.
    pub fn levels(key: &str, levels: &[String], origin: String) -> Override {
        let value = match levels {
            [single] => Value::String(single.clone()),
            several => Value::Array(several.iter().cloned().map(Value::String).collect()),
        };
        Override { key: key.to_string(), value, origin }
    }
}

/// What precedes the name of a setting, which may have dots of its own: `auto_explain.log_min_duration`.
const SETTINGS: &str = "server.settings.";

/// The parts of an [`Override`]'s key, each the name of a section or of a key in it.
pub fn path(key: &str) -> Vec<String> {
    match key.strip_prefix(SETTINGS) {
        Some(name) => vec!["server".to_string(), "settings".to_string(), name.to_string()],
        None => parts(key).unwrap_or_else(|| vec![key.to_string()]),
    }
}

/// The parts of a dotted key as TOML has them, where those with other signs are in quotes; `None` if it is none.
fn parts(key: &str) -> Option<Vec<String>> {
    let mut place =
        if key.contains('\n') { return None } else { Value::Table(format!("{key} = 0").parse().ok()?) };
    let mut parts = Vec::new();
    while let Value::Table(table) = place {
        let (name, value) = table.into_iter().next()?;
        parts.push(name);
        place = value;
    }
    Some(parts)
}

/// The one way in which a key is written.
fn joined(parts: &[String]) -> String {
    if let [server, settings, name @ ..] = parts
        && (server.as_str(), settings.as_str(), name.is_empty()) == ("server", "settings", false)
    {
        return format!("{SETTINGS}{}", name.join("."));
    }
    let is_bare = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let written = |part: &String| {
        if is_bare(part) && !part.is_empty() { part.clone() } else { Value::String(part.clone()).to_string() }
    };
    parts.iter().map(written).collect::<Vec<_>>().join(".")
}

fn parse_value(text: &str) -> Value {
    match format!("value = {text}").parse::<Table>() {
        Ok(mut table) => table.remove("value").unwrap_or_else(|| Value::String(text.to_string())),
        Err(_) => Value::String(text.to_string()),
    }
}

/// What is wrong with an experiment file or an option, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FileError {}

/// Parses `text` (of the file `name`) with changes by `overrides`.
///
/// # Errors
/// Names file, line and column, or the option at fault.
pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Experiment, FileError> {
    // The file is checked by itself first, so that its mistakes are reported with their position.
    let unchanged: Result<Experiment, _> = toml::from_str(text);
    let unchanged = match unchanged {
        Ok(experiment) => mistakes::out_of_bounds(name, text).map_or(Ok(experiment), Err),
        Err(_) => Err(mistakes::all(name, text)),
    };
    if overrides.is_empty() {
        return unchanged;
    }
    // Options are checked also next to mistakes of the file: then against a file that says nothing.
    let mut table: Table = match &unchanged {
        Ok(_) => text.parse().map_err(|_| mistakes::all(name, text))?,
        Err(_) => NOTHING.parse().map_err(|_| mistakes::all(name, text))?,
    };
    let mut refused: Vec<String> = unchanged.err().map(|error| error.message).into_iter().collect();
    let mut in_order: Vec<&Override> = overrides.iter().collect();
    if overrides.iter().any(|change| change.key == keys::server::VERSION.name) {
        // The releases of a source are named after it, in whatever order both are given.
        in_order.sort_by_key(|change| change.key != keys::server::SOURCE.name);
    }
    for change in in_order {
        // Checked one by one, so that a message can name the option.
        match with(&table, change) {
            Ok(changed) => table = changed,
            Err(error) => refused.push(error.message),
        }
    }
    if !refused.is_empty() {
        return Err(FileError { message: refused.join("\n") });
    }
    Value::Table(table)
        .try_into()
        .map_err(|e: toml::de::Error| FileError { message: mistakes::words(e.message()) })
}

/// The shortest experiment file.
const NOTHING: &str = "[experiment]\nname = \"x\"\n";

/// The table with one change, if the result is an experiment.
fn with(table: &Table, change: &Override) -> Result<Table, FileError> {
    let mut changed = table.clone();
    set(&mut changed, change)?;
    let read: Result<Experiment, _> = Value::Table(changed.clone()).try_into();
    let explain = |error: toml::de::Error| {
        let words = mistakes::words(error.message());
        let name = change.key.rsplit('.').next().unwrap_or(&change.key);
        let meant = match change.key.split_once('.') {
            // The settings of extensions have a dot.
            Some((extension, _)) if is_unknown(&words, extension) => {
                Some(format!("{SETTINGS}{}", change.key))
            }
            _ if is_unknown(&words, name) => with_section(&change.key, name),
            _ => None,
        };
        let words = match meant.filter(|_| !words.contains("did you mean")) {
            Some(key) => format!("unknown field `{}`; did you mean `{key}`?", change.key),
            None => words,
        };
        FileError { message: format!("{}: {words}", change.origin) }
    };
    read.map_err(explain)?;
    expect_in_bounds(change)?;
    Ok(changed)
}

/// Fails if the rows of the keys refuse what a change gives.
fn expect_in_bounds(change: &Override) -> Result<(), FileError> {
    let mut alone = Table::new();
    set(&mut alone, change)?;
    let text = alone.to_string();
    let read = toml::de::DeTable::parse(&text).ok();
    let refused = read.map(|alone| bounds::refusals(alone.get_ref())).unwrap_or_default();
    // The option names the key, or is its own.
    let line = |OutOfBounds { key, why, .. }: OutOfBounds| {
        if key == change.key {
            format!("{}: {why}", change.origin)
        } else {
            format!("{}: {key}: {why}", change.origin)
        }
    };
    let lines: Vec<String> = refused.into_iter().map(line).collect();
    if lines.is_empty() { Ok(()) } else { Err(FileError { message: lines.join("\n") }) }
}

fn is_unknown(message: &str, key: &str) -> bool {
    message.starts_with(&format!("unknown field `{key}`"))
}

/// The key that a name without a section, or in the wrong one, probably means: the first one of that name, else a setting of the server.
fn with_section(key: &str, name: &str) -> Option<String> {
    // The server has a setting of the same name, which is meant more often.
    let is_setting = |row: &KeyRow| row.name == keys::os::HUGE_PAGES.name;
    let is_meant = |row: &&KeyRow| !is_setting(row) && row.parts().is_some_and(|(_, known)| known == name);
    let meant = keys::all().find(is_meant).or_else(|| {
        let names = keys::all().filter_map(|row| Some(row.parts()?.1));
        let like = if setting::is_known(name) { None } else { nearest(name, names) };
        like.and_then(|like| keys::all().find(|row| row.parts().is_some_and(|(_, known)| known == like)))
    });
    let meant = meant.map(|row| row.name.to_string());
    meant.or_else(|| (name == key).then(|| format!("{SETTINGS}{name}")))
}

/// The key that stays with another one that names a server: releases are built from a source that is given with them.
fn kept_with(key: &str, server: &Table) -> Option<&'static str> {
    const VERSION: &str = keys::server::VERSION.name;
    const SOURCE: &str = keys::server::SOURCE.name;
    let has = |name: &str| server.contains_key(name);
    match key {
        VERSION if has("source") && !has("revision") => Some("source"),
        SOURCE if has("source") => Some("version"),
        _ => None,
    }
}

/// Keys that name a server exclude each other: the last one given wins.
const SERVER_KEYS: [&str; 4] = [
    keys::server::VERSION.name,
    keys::server::BIN_DIR.name,
    keys::server::SOURCE.name,
    keys::server::URL.name,
];

fn set(table: &mut Table, change: &Override) -> Result<(), FileError> {
    if SERVER_KEYS.contains(&change.key.as_str())
        && let Some(Value::Table(server)) = table.get_mut("server")
    {
        let kept = kept_with(&change.key, server);
        let names_one =
            |key: &str| SERVER_KEYS.contains(&format!("server.{key}").as_str()) || key == "revision";
        server.retain(|key, _| !names_one(key) || Some(key) == kept);
    }
    let mut parts = path(&change.key);
    let last = parts.pop().expect("a key has at least one part");
    let mut place = table;
    for part in parts {
        let next = place.entry(part.clone()).or_insert_with(|| Value::Table(Table::new()));
        place = next.as_table_mut().ok_or_else(|| FileError {
            message: format!("{}: `{part}` is not a section of the experiment file", change.origin),
        })?;
    }
    place.insert(last, change.value.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[experiment]\nname = \"x\"\n\n[workload]\nclients = [1, 8]\n";

    #[test]
    fn mistakes_in_a_file_are_reported_with_their_position() {
        let check = |text: &str, expected: &str| {
            let message = parse("x.toml", text, &[]).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}\nexpected: {expected}");
        };
        check("[experiment]\nname = \"x\"\n[workload]\nclinets = 1\n", "x.toml:4:1: unknown field `clinets`");
        check("[experiment]\nname = \"x\"\nrepeats = \"three\"\n", "x.toml:3:11: invalid type: string");
        check("[experiment]\nname = \"x\"\n[run]\nmeasure = 30\n", "x.toml:4:11: 30 needs a unit");
        check(
            "[experiment]\nname = \"x\"\n[workload]\nclients = []\n",
            "x.toml:4:11: an empty list has no levels",
        );
        check(
            "[experiment]\nname = \"x\"\n[server]\nversion = 10.1\n",
            "x.toml:4:11: write the version as text",
        );
        check(
            "[experiment]\nname = \"x\"\n[server]\nversion = \"8.4\"\n",
            "x.toml:4:11: version `8.4` is older",
        );
        check("[experiment]\nname = \n", "x.toml:2:");
        check(
            "[experiment]\nname = \"x\"\n[run]\nrepeats = 5\n",
            "x.toml:4:1: unknown field `repeats`; `repeats` belongs to [experiment]",
        );
        check(
            "[experiment]\nname = \"x\"\n[workload]\nclinets = 1\n",
            "x.toml:4:1: unknown field `clinets`; did you mean `clients`?",
        );
        let option = Override::parse("workload.clinets=1").unwrap();
        let both = parse("x.toml", "[experiment]\nname = 1\n", &[option]).unwrap_err().to_string();
        assert!(
            both.starts_with("x.toml:2:8: ") && both.contains("\n--set workload.clinets=1: unknown"),
            "{both}"
        );
        check("", "x.toml:1:1: missing field `experiment`");
    }

    #[test]
    fn values_out_of_the_bounds_of_their_rows_are_reported_with_their_position() {
        let head = "[experiment]\nname = \"x\"\nrepeats = 0\n";
        let text = format!(
            "{head}[workload]\nclients = [1, 0]\n[run]\nmeasure = [\"2s\", \"1s\"]\ngrace = \"1500ms\"\n\
             [limits]\nwal_iops = -1\n[[target]]\nname = \"a\"\nlimits = {{data_iops = nan}}\n"
        );
        let message = parse("x.toml", &text, &[]).unwrap_err().to_string();
        let lines: Vec<&str> = message.lines().filter(|line| line.starts_with("x.toml")).collect();
        let expected = [
            "x.toml:3:11: experiment.repeats: 0 is not in 1..1000",
            "x.toml:5:15: workload.clients: 0 is not in 1..100000",
            "x.toml:7:18: run.measure: 1s is too short; give at least 2s",
            "x.toml:8:9: run.grace: 1500ms is not a whole number of seconds",
            "x.toml:10:12: limits.wal_iops: -1 is not a positive number; example: 3000",
            "x.toml:13:23: limits.data_iops: NaN is not a positive number; example: 3000",
        ];
        assert_eq!(lines, expected, "{message}");

        // Next to a mistake that the type refuses, and where that refuses the same value.
        let message = parse("x.toml", &format!("{head}[workload]\nclients = -1\n"), &[]);
        let message = message.unwrap_err().to_string();
        assert_eq!(message.matches("x.toml:").count(), 2, "{message}");

        let refused = |option: &str| {
            let change = Override::parse(option).unwrap();
            parse("x.toml", FILE, &[change]).unwrap_err().to_string()
        };
        assert_eq!(refused("run.measure=0"), "--set run.measure=0: 0s is too short; give at least 2s");
        let whole = "--set run={measure = [\"2s\", \"1s\"]}: run.measure: 1s is too short; give at least 2s";
        assert_eq!(refused("run={measure = [\"2s\", \"1s\"]}"), whole);
    }

    #[test]
    fn a_source_and_its_releases_stay_together() {
        let server = |file: &str, changes: &[&str]| {
            let text = format!("[experiment]\nname = \"x\"\n[server]\n{file}");
            let changes: Vec<Override> = changes.iter().map(|text| Override::parse(text).unwrap()).collect();
            let server = parse("x.toml", &text, &changes).unwrap().server;
            let text = |given: Option<String>| given.unwrap_or_else(|| "-".to_string());
            let version = server.version.map(|levels| levels.all()[0].to_string());
            let source = server.source.map(|levels| levels.all()[0].clone());
            [text(version), text(source), text(server.revision.map(|levels| levels.all()[0].clone()))]
        };
        let built = "source = \"/a\"\nversion = \"12.1\"";
        assert_eq!(server(built, &["server.version=9.5.21"]), ["9.5.21", "/a", "-"]);
        assert_eq!(server(built, &["server.source=/b"]), ["12.1", "/b", "-"]);
        assert_eq!(server(built, &["server.bin_dir=/b"]), ["-", "-", "-"]);
        let fetched = "version = \"18\"";
        assert_eq!(server(fetched, &["server.source=/b"]), ["-", "/b", "-"]);
        for both in
            [["server.source=/b", "server.version=9.5.21"], ["server.version=9.5.21", "server.source=/b"]]
        {
            assert_eq!(server(fetched, &both), ["9.5.21", "/b", "-"]);
        }
        let revision = "source = \"/a\"\nrevision = \"master\"";
        assert_eq!(server(revision, &["server.version=18"]), ["18", "-", "-"]);
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let text = "[experiment]\nname = \"x\"\nrepeats = \"three\"\n[workload]\nclinets = [\n  1,\n]\nscale = 1\n\
                    [serverr]\nversion = \"18\"\n[run]\nmeasure = 30\n";
        let message = parse("x.toml", text, &[]).unwrap_err().to_string();
        let places: Vec<&str> = message.lines().filter(|line| line.starts_with("x.toml")).collect();
        assert_eq!(places.len(), 4, "{message}");
        for (place, start) in places.iter().zip(["x.toml:3:11:", "x.toml:5:1:", "x.toml:9:", "x.toml:12:11:"])
        {
            assert!(place.starts_with(start), "{message}");
        }
        // Required keys, inline tables, lists and repeated sections hide nothing.
        let text = "experiment = {name = 3, repeets = 2, ordr = \"x\"}\n[workload]\nscripts = [{file = \"a\", wieght = 3}, \
                    {fil = \"b\"}]\npace = [\"closed\", \"fast\", true]\n[[driver]]\nname = 3\nvai = [\"ssh\"]\n[[driver]]\n\
                    name = \"b\"\nuplod = true\n[[target]]\npric = 3\n[run]\nmeasure = 30\n";
        let message = parse("x.toml", text, &[]).unwrap_err().to_string();
        let places: Vec<&str> =
            message.lines().filter_map(|line| line.strip_prefix("x.toml:")?.split(": ").next()).collect();
        let expected =
            ["1:22", "1:25", "1:38", "3:25", "3:39", "4:19", "4:27", "6:8", "7:1", "10:1", "12:1", "14:11"];
        assert_eq!(places, expected, "{message}");
        let many: String = (0..30).map(|n| format!("key{n} = 1\n")).collect();
        let message = parse("x.toml", &format!("[workload]\n{many}"), &[]).unwrap_err().to_string();
        assert_eq!(message.matches("unknown field").count(), 30, "{message}");
        let options = ["workload.clinets=1", "run.measure=30", "workload.scale=1"];
        let changes: Vec<Override> = options.iter().map(|text| Override::parse(text).unwrap()).collect();
        let message = parse("x.toml", FILE, &changes).unwrap_err().to_string();
        assert_eq!(message.lines().count(), 2, "{message}");
        assert!(message.contains("--set workload.clinets=1: unknown field"), "{message}");
        assert!(message.contains("--set run.measure=30: 30 needs a unit"), "{message}");
    }

    #[test]
    fn options_change_single_keys() {
        let check = |option: &str, read: &dyn Fn(&Experiment) -> String, expected: &str| {
            let change = Override::parse(option).unwrap();
            let experiment = parse("x.toml", FILE, &[change]).unwrap();
            assert_eq!(read(&experiment), expected, "{option}");
        };
        check("workload.clients=[2, 4]", &|e| format!("{:?}", e.workload.clients.all()), "[2, 4]");
        check("workload.scale=3x RAM", &|e| e.workload.scale.all()[0].to_string(), "3x RAM");
        check(
            "server.settings.shared_buffers=1GB",
            &|e| e.server.settings["shared_buffers"].all()[0].to_string(),
            "1GB",
        );
        let of_extension = |e: &Experiment| {
            let levels = &e.server.settings["auto_explain.log_min_duration"];
            levels.all().iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
        };
        check("server.settings.auto_explain.log_min_duration=[0, -1]", &of_extension, "0 and -1");
        check("server . settings.\"auto_explain.log_min_duration\" = 5ms", &of_extension, "5ms");
        check("\"workload\".'scale'=3", &|e| e.workload.scale.all()[0].to_string(), "3");
        check("server.settings.jit=false", &|e| e.server.settings["jit"].all()[0].to_string(), "off");
        check("server.version=9.6", &|e| e.server.version.as_ref().unwrap().all()[0].to_string(), "9.6");
        check("run.measure=5s", &|e| e.run.measure.all()[0].to_string(), "5s");
        check("prepare.restore=false", &|e| e.prepare.restore.all()[0].to_string(), "false");
    }

    #[test]
    fn mistakes_in_options_name_the_option() {
        let check = |option: &str, expected: &str| {
            let message = match Override::parse(option) {
                Err(message) => message,
                Ok(change) => parse("x.toml", FILE, &[change]).unwrap_err().to_string(),
            };
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        };
        check("workload.clinets=1", "--set workload.clinets=1: unknown field `clinets`");
        check("workload.clients=ten", "--set workload.clients=ten: invalid type");
        check("server.host=", "expected a table of keys, KEY.NAME = VALUE");
        check("clients=8", "unknown field `clients`; did you mean `workload.clients`?");
        check("work_mem=8MB", "unknown field `work_mem`; did you mean `server.settings.work_mem`?");
        check("measur=1s", "unknown field `measur`; did you mean `run.measure`?");
        check("run.clinets=1", "unknown field `run.clinets`; did you mean `workload.clients`?");
        check(
            "shared_bufers=1GB",
            "unknown field `shared_bufers`; did you mean `server.settings.shared_bufers`?",
        );
        check("huge_pages=on", "did you mean `server.settings.huge_pages`?");
        check("swappiness=1", "unknown field `swappiness`; did you mean `os.swappiness`?");
        check("before_run=x", "did you mean `hooks.before_run`?");
        check("workloda=8", "unknown field `workloda`; did you mean `workload`?");
        check("run.repeats=8", "unknown field `run.repeats`; did you mean `experiment.repeats`?");
        check("workload.kind=tpch", "`tpch` is no workload; ");
        check("scale", "has no `=`");
        check(
            "auto_explain.log_min_duration=0",
            "did you mean `server.settings.auto_explain.log_min_duration`?",
        );
        check("workload.\"a.b\"=0", "unknown field `a.b`");
        check("a b=1", "is not a key");
        check("server.settings.a b=1", "is not a key");
        check("server.settings.=1", "is not a key");
        check("a.\n[b]\nc=1", "is not a key");
        check("experiment.name.x=1", "is not a section");
    }

    #[test]
    fn naming_a_server_replaces_the_other_ways_to_name_it() {
        let file = "[experiment]\nname = \"x\"\n[server]\nversion = \"18\"\n";
        let change = Override::parse("server.url=postgres://h/d").unwrap();
        let experiment = parse("x.toml", file, &[change]).unwrap();
        assert_eq!(experiment.server.version, None);
        assert_eq!(experiment.server.url.as_deref(), Some("postgres://h/d"));
    }
}
