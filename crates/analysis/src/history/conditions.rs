//! Conditions of the runs of a history, and which of them differ around a change of level. Whether one is its cause is not decided.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::experiment::os::WalPolicy;
use model::run::RunRecord;
use model::run::host::HostRecord;
use model::run::server::ServerRecord;
use model::text::prose::bytes;
use serde::Serialize;

use crate::comparison::differences::{DECIDED_BY_WAL_POLICY, UNCOMPARED_FACTS};
use crate::comparison::{build, wording};
use crate::run::settings::UNCOMPARED_SETTINGS;

/// Digits of a checksum that are shown.
const SHA_DIGITS: usize = 8;
/// Sources of settings that nobody set.
const UNSET: [&str; 4] = ["default", "override", "client", "session"];
/// By how much databases may differ in size without another content, as in comparisons.
const SIZES_DIFFER: f64 = 1.02;

/// What a run was measured under, as far as its case does not ask for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, serde::Deserialize)]
pub(super) struct Conditions {
    /// Server, pgdyno, machine and rows by name; what is absent is unknown.
    facts: BTreeMap<String, String>,
    /// Settings that someone set.
    settings: BTreeMap<String, String>,
    /// Whether pgdyno's role saw all settings, so that an absent one has its default.
    sees_all_settings: bool,
    /// Definitions of tables, indexes and other objects.
    definitions: BTreeMap<String, String>,
    database_bytes: u64,
}

/// A condition that differs between the runs before and after a change of level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition {
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

impl Condition {
    /// `kernel: 6.1.0-18 before, 6.1.0-21 after`, and in how many runs, unless in all.
    pub fn words(&self) -> String {
        let in_runs = |[n, all]: [usize; 2]| match n == all {
            true => String::new(),
            false => format!(" (in {n} of {all} runs)"),
        };
        let (n_before, n_after) = (in_runs(self.n_before), in_runs(self.n_after));
        format!("{}: {} before{n_before}, {} after{n_after}", self.what, self.before, self.after)
    }
}

impl Conditions {
    pub(super) fn of(record: &RunRecord) -> Conditions {
        let mut of = Conditions::default();
        of.fact("version of pgdyno", &record.tool_version);
        of.fact("build profile of the driver", wording::build_profile(record).unwrap_or_default());
        if let Some(ready) = &record.ready {
            of.fact("poller", &ready.poller);
            of.fact("TLS", ready.tls.as_deref().unwrap_or("none"));
        }
        if let Some(server) = &record.server {
            of.server(server, record);
        }
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

    fn server(&mut self, server: &ServerRecord, record: &RunRecord) {
        self.fact("PostgreSQL", &server.release());
        let hash = server.executable_sha256.iter().map(|hash| hash.chars().take(SHA_DIGITS).collect());
        self.fact("program of the server", &hash.collect::<Vec<String>>().concat());
        let of_build = |name: &str| server.build.get(name).map(String::as_str).unwrap_or_default();
        self.fact("compiler of the server", of_build("CC"));
        self.fact("its flags", &build::optimizing(of_build("CFLAGS")).join(" "));
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
        self.sees_all_settings = server.settings.contains_key("data_directory");
        let is_decided = record.case.wal != WalPolicy::AsIs && record.case.server.source.is_embedded();
        let is_compared = |name: &str| {
            !(UNCOMPARED_SETTINGS.contains(&name) || is_decided && DECIDED_BY_WAL_POLICY.contains(&name))
        };
        for (name, setting) in server.settings.iter().filter(|(name, _)| is_compared(name)) {
            if !UNSET.contains(&setting.source.as_str()) {
                self.settings.insert(name.clone(), setting.value.clone());
            }
        }
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

    /// The value of a setting, if it is known.
    fn setting(&self, name: &str) -> Option<&str> {
        let default = self.sees_all_settings.then_some("default");
        self.settings.get(name).map(String::as_str).or(default)
    }

    /// The definition of an object, if definitions are known.
    fn definition(&self, name: &str) -> Option<&str> {
        let none = (!self.definitions.is_empty()).then_some("none");
        self.definitions.get(name).map(String::as_str).or(none)
    }
}

/// What differs between the runs before and after a change of level: conditions of which more than half of the runs on each side
/// have one value, and another one on the other side. A change of level may be found a run or two from its cause, so one run with
/// the other value does not hide it.
pub(super) fn differing(before: &[Arc<Conditions>], after: &[Arc<Conditions>]) -> Vec<Condition> {
    type Get = for<'a> fn(&'a Conditions, &str) -> Option<&'a str>;
    type Of = fn(&Conditions) -> &BTreeMap<String, String>;
    let kinds: [(&str, Of, Get); 3] = [
        ("", |of| &of.facts, |of, name| of.facts.get(name).map(String::as_str)),
        ("setting ", |of| &of.settings, Conditions::setting),
        ("", |of| &of.definitions, Conditions::definition),
    ];
    let mut found = Vec::new();
    for (prefix, names, get) in kinds {
        let mut names: Vec<&String> = before.iter().chain(after).flat_map(|run| names(run).keys()).collect();
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
    }
    found.extend(sizes(before, after));
    found
}

fn condition(what: String, before: Most, after: Most) -> Condition {
    Condition { what, before: before.value, after: after.value, n_before: before.n, n_after: after.n }
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
fn sizes(before: &[Arc<Conditions>], after: &[Arc<Conditions>]) -> Option<Condition> {
    let median = |runs: &[Arc<Conditions>]| {
        let known = runs.iter().filter(|run| run.database_bytes > 0);
        let sizes: Vec<f64> = known.map(|run| run.database_bytes as f64).collect();
        Some((stats::quantile(&sizes, 0.5)?, [sizes.len(); 2]))
    };
    let ((of_before, n_before), (of_after, n_after)) = median(before).zip(median(after))?;
    let differs = of_before.max(of_after) > SIZES_DIFFER * of_before.min(of_after);
    differs.then(|| Condition {
        what: "size of the database".to_string(),
        before: bytes(of_before),
        after: bytes(of_after),
        n_before,
        n_after,
    })
}
