//! Conditions of the runs of a history, and which of them differ around a change of level. Whether one is its cause is not decided.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::experiment::os::WalPolicy;
use model::load::sessions::SessionSetting;
use model::run::RunRecord;
use model::run::host::HostRecord;
use model::run::server::{ServerRecord, Setting};
use model::text::prose::bytes;
use serde::Serialize;

use crate::comparison::differences::{
    BUILD_WORDS, DECIDED_BY_WAL_POLICY, UNCOMPARED_FACTS, compared_settings,
};
use crate::comparison::wording;
use crate::run::settings::{UNCOMPARED_SETTINGS, changed_in_sessions};

/// Digits of a checksum that are shown.
const SHA_DIGITS: usize = 8;
/// Sources of settings that nobody set.
const UNSET: [&str; 2] = ["default", "override"];
/// Sources of settings that pgdyno set for its own session.
const OF_SESSION: [&str; 2] = ["client", "session"];
/// What follows the name of a setting that sessions of the load had.
const IN_SESSIONS: &str = " in sessions";
/// By how much databases may differ in size without another content, as in comparisons.
const SIZES_DIFFER: f64 = 1.02;

/// What a run was measured under, as far as its case does not ask for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, serde::Deserialize)]
pub(super) struct Conditions {
    /// Server, pgdyno, machine and rows by name; what is absent is unknown.
    facts: BTreeMap<String, String>,
    /// Written by [`super::packed`] alone: they are larger than all else, and mostly equal.
    #[serde(skip)]
    pub(super) settings: Arc<Settings>,
    /// Settings that sessions of the load had otherwise; absent if none was asked.
    sessions: Option<BTreeMap<String, String>>,
    /// Definitions of tables, indexes and other objects.
    definitions: BTreeMap<String, String>,
    database_bytes: u64,
    /// What was not recorded, so that nobody knows whether it differs.
    unrecorded: BTreeSet<String>,
}

/// Settings of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, serde::Deserialize)]
pub(super) struct Settings {
    values: BTreeMap<String, Value>,
    /// Names of those that pgdyno's role cannot see.
    hidden: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
struct Value {
    value: String,
    /// Whether somebody set it.
    is_set: bool,
}

/// A condition that differs between the runs before and after a change of level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DifferingCondition {
    /// The condition: `PostgreSQL`, `setting work_mem`, `kernel`.
    pub what: String,
    /// Its value in most runs before the change.
    pub before: String,
    /// Its value in most runs after it.
    pub after: String,
    /// Runs before the change with this value, and all of which it is known.
    pub n_before: [usize; 2],
    /// Runs after the change with this value, and all of which it is known.
    pub n_after: [usize; 2],
}

impl DifferingCondition {
    /// `kernel: 6.1.0-18 before, 6.1.0-21 after`, and in how many runs, unless in all.
    pub fn words(&self) -> String {
        let in_runs =
            |[n, all]: [usize; 2]| if n == all { String::new() } else { format!(" (in {n} of {all} runs)") };
        let (n_before, n_after) = (in_runs(self.n_before), in_runs(self.n_after));
        let [before, after] =
            [&self.before, &self.after].map(|value| if value.is_empty() { "''" } else { value });
        format!("{}: {before} before{n_before}, {after} after{n_after}", self.what)
    }
}

impl Conditions {
    pub(super) fn from_record(record: &RunRecord) -> Conditions {
        let mut of = Conditions { unrecorded: unrecorded(record), ..Conditions::default() };
        of.fact("version of pgdyno", &record.tool_version);
        of.fact("build profile of the driver", wording::build_profile(record).unwrap_or_default());
        if let Some(ready) = &record.ready {
            of.fact("poller", &ready.poller);
            of.fact("TLS", ready.encryption());
        }
        if let Some(server) = &record.server {
            of.server(server);
            of.settings = Arc::new(Settings::from_record(server, record));
        }
        of.sessions = changed_in_sessions(record).map(|changed| {
            let words = |(name, values): (&str, Vec<&SessionSetting>)| {
                (format!("{name}{IN_SESSIONS}"), wording::values(&values))
            };
            changed.into_iter().map(words).collect()
        });
        if let Some(host) = record.our_host() {
            of.host("", host);
        }
        if let (false, Some(host)) = (record.driver_is_on_host(), record.server_host()) {
            of.fact("server's host", &host.hostname);
            of.host("server's ", host);
        }
        for (table, rows) in &record.rows_before {
            of.fact(&format!("rows of {table}"), &rows.to_string());
        }
        for (table, objects) in record.fingerprint.iter().flat_map(|print| &print.definitions) {
            for (object, text) in objects {
                let name = match object.as_str() {
                    "table" => format!("table {table}"),
                    object => format!("{object} of {table}"),
                };
                of.definitions.insert(name, text.clone());
            }
        }
        of
    }

    fn fact(&mut self, what: &str, value: &str) {
        if !value.is_empty() {
            self.facts.insert(what.to_string(), value.to_string());
        }
    }

    fn server(&mut self, server: &ServerRecord) {
        self.fact("PostgreSQL", &server.release());
        let hash = server.executable_sha256.iter().map(|hash| hash.chars().take(SHA_DIGITS).collect());
        self.fact("program of the server", &hash.collect::<Vec<String>>().concat());
        for (what, words) in BUILD_WORDS {
            let text = server.build.get(what).map(String::as_str).unwrap_or_default();
            self.fact(&format!("build, {what}"), &words(text).join(" "));
        }
        self.fact("data checksums", &wording::switch(server.data_checksums));
        self.fact("standby", &wording::switch(server.in_recovery));
        self.fact("assertions", server.setting("debug_assertions").unwrap_or_default());
        if let Some(route) = &server.route {
            self.fact("way to the server", &route.words());
        }
        let is_known = !server.unavailable.contains_key("receivers");
        if is_known && !server.receivers.iter().any(|kind| kind == "hidden") {
            self.fact("receivers of WAL", &wording::receivers(&server.receivers));
        }
        self.database_bytes = server.database_bytes;
    }

    fn host(&mut self, whose: &str, host: &HostRecord) {
        let mut put = |fact: &str, value: &str| self.fact(&format!("{whose}{fact}"), value);
        put("processor", &host.cpu_model);
        put("processors", &host.n_cpus.to_string());
        put("memory", &format!("{:.0} GiB", host.memory_bytes as f64 / f64::from(1 << 30)));
        put("kernel", &host.kernel);
        put("operating system", &host.os);
        for (name, value) in host.facts.iter().filter(|(name, _)| !UNCOMPARED_FACTS.contains(&name.as_str()))
        {
            put(name, value);
        }
        for (role, mount) in host.mounts.iter().filter(|(role, _)| *role != "results") {
            let file_system = format!("{} on {} ({})", mount.fs_type, mount.device, mount.options);
            put(&format!("file system of {role}"), &file_system);
            for (name, value) in &mount.facts {
                put(&format!("device of {role}, {name}"), value);
            }
        }
    }

    /// The value of a setting in sessions of the load, if they were asked.
    fn in_sessions(&self, name: &str) -> Option<&str> {
        Some(self.sessions.as_ref()?.get(name).map_or("as the server has it", String::as_str))
    }

    /// The definition of an object, if definitions are known.
    fn definition(&self, name: &str) -> Option<&str> {
        let none = (!self.definitions.is_empty()).then_some("none");
        self.definitions.get(name).map(String::as_str).or(none)
    }
}

impl Settings {
    fn from_record(server: &ServerRecord, record: &RunRecord) -> Settings {
        let is_decided = record.case.wal != WalPolicy::AsIs && record.case.server.source.is_embedded();
        let compared = compared_settings(server)
            .filter(|(name, _)| !(is_decided && DECIDED_BY_WAL_POLICY.contains(&name.as_str())))
            // What pgdyno sets for its own session says nothing about others.
            .filter(|(_, setting)| !OF_SESSION.contains(&setting.source.as_str()));
        let value = |(name, setting): (&String, &Setting)| {
            let is_set = !UNSET.contains(&setting.source.as_str());
            (name.clone(), Value { value: setting.value.clone(), is_set })
        };
        let hidden = server.hidden().filter(|name| !UNCOMPARED_SETTINGS.contains(name));
        Settings { values: compared.map(value).collect(), hidden: hidden.map(str::to_string).collect() }
    }

    /// The value of a setting, if it is known: one that the server does not have is not set.
    fn value(&self, name: &str) -> Option<&str> {
        let is_known = !self.values.is_empty() && !self.hidden.contains(name);
        self.values.get(name).map(|setting| setting.value.as_str()).or(is_known.then_some("not set"))
    }

    fn is_set(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|setting| setting.is_set)
    }
}

/// What the record of a run does not have of that which a history compares.
fn unrecorded(record: &RunRecord) -> BTreeSet<String> {
    let server = record.server.as_ref();
    let lacks = |is_lacking: fn(&ServerRecord) -> bool| server.is_none_or(is_lacking);
    let is_hidden = |name: &str| !UNCOMPARED_SETTINGS.contains(&name);
    let missing = [
        (server.is_none(), "the server"),
        (server.is_some_and(|server| server.settings.is_empty()), "settings"),
        (
            server.is_some_and(|server| server.hidden().any(is_hidden)),
            "settings that pgdyno's role cannot see",
        ),
        (lacks(|server| server.executable_sha256.is_none()), "the server's program"),
        (lacks(|server| server.build.is_empty()), "how the server was built"),
        (record.server_host().is_none(), "the server's machine"),
        (record.our_host().is_none(), "the machine of pgdyno"),
        (record.fingerprint.is_none(), "definitions of tables"),
        (lacks(|server| server.database_bytes == 0), "the size of the database"),
        (changed_in_sessions(record).is_none(), "settings of the load's sessions"),
    ];
    missing.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| what.to_string()).collect()
}

/// What was not recorded of some of these runs.
pub(super) fn unrecorded_of<'a>(runs: impl Iterator<Item = &'a Arc<Conditions>>) -> Vec<String> {
    runs.flat_map(|run| &run.unrecorded).collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

/// What differs between the runs before and after a change of level: conditions of which more than half of the runs on each side
/// have one value, and another one on the other side. A change of level may be found a run or two from its cause, so one run with
/// the other value does not hide it.
pub(super) fn differing(before: &[Arc<Conditions>], after: &[Arc<Conditions>]) -> Vec<DifferingCondition> {
    type Get = for<'a> fn(&'a Conditions, &str) -> Option<&'a str>;
    type Of = fn(&Conditions) -> Vec<&String>;
    let kinds: [(&str, Of, Get); 4] = [
        ("", |of| of.facts.keys().collect(), |of, name| of.facts.get(name).map(String::as_str)),
        ("setting ", |of| of.settings.values.keys().collect(), |of, name| of.settings.value(name)),
        ("setting ", |of| of.sessions.iter().flat_map(BTreeMap::keys).collect(), Conditions::in_sessions),
        ("", |of| of.definitions.keys().collect(), Conditions::definition),
    ];
    let mut found = Vec::new();
    for (prefix, names, get) in kinds {
        let mut names: Vec<&String> = before.iter().chain(after).flat_map(|run| names(run)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let most = |runs: &[Arc<Conditions>]| of_most(runs.iter().filter_map(|run| get(run, name)));
            let (Some(before), Some(after)) = (most(before), most(after)) else { continue };
            if before.value != after.value {
                found.push(condition(format!("{prefix}{name}"), before, after));
            }
        }
    }
    // Another release is always another program.
    if found.iter().any(|condition| condition.what == "PostgreSQL") {
        found.retain(|condition| condition.what != "program of the server");
        // It brings other defaults, too.
        let is_set = |name: &str| before.iter().chain(after).any(|run| run.settings.is_set(name));
        found.retain(|condition| match condition.what.strip_prefix("setting ") {
            Some(name) => name.ends_with(IN_SESSIONS) || is_set(name),
            None => true,
        });
    }
    found.extend(sizes(before, after));
    found
}

fn condition(what: String, before: Most, after: Most) -> DifferingCondition {
    DifferingCondition {
        what,
        before: before.value,
        after: after.value,
        n_before: before.n,
        n_after: after.n,
    }
}

/// A value that more than half of the runs have.
struct Most {
    value: String,
    n: [usize; 2],
}

fn of_most<'a>(values: impl Iterator<Item = &'a str>) -> Option<Most> {
    let (mut counts, mut all) = (HashMap::new(), 0);
    for value in values {
        all += 1;
        *counts.entry(value).or_insert(0) += 1;
    }
    let (value, n) = counts.into_iter().max_by_key(|(_, n)| *n)?;
    (2 * n > all).then(|| Most { value: value.to_string(), n: [n, all] })
}

/// Median sizes of the database; zero is one that the server did not tell.
fn sizes(before: &[Arc<Conditions>], after: &[Arc<Conditions>]) -> Option<DifferingCondition> {
    let median = |runs: &[Arc<Conditions>]| {
        let known = runs.iter().filter(|run| run.database_bytes > 0);
        let sizes: Vec<f64> = known.map(|run| run.database_bytes as f64).collect();
        Some((stats::quantile(&sizes, 0.5)?, [sizes.len(); 2]))
    };
    let ((of_before, n_before), (of_after, n_after)) = median(before).zip(median(after))?;
    let differs = of_before.max(of_after) > SIZES_DIFFER * of_before.min(of_after);
    differs.then(|| DifferingCondition {
        what: "size of the database".to_string(),
        before: bytes(of_before),
        after: bytes(of_after),
        n_before,
        n_after,
    })
}
