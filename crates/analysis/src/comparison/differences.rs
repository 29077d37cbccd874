//! Differences between A and B other than those asked for.
//!
//! A fair comparison varies one thing (Raasveldt et al., "Fair Benchmarking Considered Difficult", 2018). What the
//! experiment varies is declared; all other recorded facts are compared and weighed here.

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::case::{Case, WorkloadSpec, carried};
use model::experiment::keys;
use model::experiment::keys::row::{Differs, KeyRow};
use model::experiment::os::WalPolicy;
use model::load::sessions::SessionSetting;
use model::run::RunRecord;
use model::run::fingerprint::Fingerprint;
use model::run::host::HostRecord;
use model::run::server::{ServerRecord, Setting};
use model::text::prose::bytes;
use serde::Serialize;

use super::{ComparedSide, ComparisonPurpose, wording};
use crate::comparison::build;
use crate::finding::Severity;
use crate::run::settings::{UNCOMPARED_SETTINGS, changed_in_sessions, set_by_scripts};

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The fact: `setting work_mem`, `scale`, `kernel`.
    pub what: String,
    /// Value in A.
    pub a: String,
    /// Value in B.
    pub b: String,
    /// Severity if it was not asked for: void if the figures then answer another question.
    pub severity: Severity,
}

/// Settings that change what a commit promises.
const DURABILITY: &[&str] = &["fsync", "full_page_writes", "synchronous_commit", "wal_sync_method"];

/// The setting that reports what initdb was asked for; compared separately.
const DATA_CHECKSUMS: &str = "data_checksums";

/// Facts of a host that are never the same twice, or are not properties of it.
/// The limit of committed memory follows from memory, swap, huge pages and overcommit, which are compared.
pub(crate) const UNCOMPARED_FACTS: &[&str] =
    &["boot_id", "load_average", "container", "kernel_options", "committed_bytes", "commit_limit_bytes"];

/// A value that an experiment sets in the operating system, and where it shows.
struct Implied {
    /// The key of `[os]`.
    key: &'static str,
    /// Facts of the host and of devices.
    facts: &'static [&'static str],
    /// Settings of the server.
    settings: &'static [&'static str],
}

const fn implied(
    key: &'static str,
    facts: &'static [&'static str],
    settings: &'static [&'static str],
) -> Implied {
    Implied { key, facts, settings }
}

/// From the kernel files of crate `host` and the facts of crate `observe`. Each scheduler has its own queue length.
const IMPLIED_BY_OS: &[Implied] = &[
    implied("huge_pages", &["huge_pages_total"], &["huge_pages", "huge_pages_status"]),
    implied("transparent_huge_pages", &["transparent_hugepage"], &[]),
    implied("transparent_huge_pages_defrag", &["transparent_hugepage_defrag"], &[]),
    implied("shmmax", &["shmmax"], &[]),
    implied("shmall", &["shmall"], &[]),
    implied("swappiness", &["swappiness"], &[]),
    implied("overcommit_memory", &["overcommit_memory"], &[]),
    implied("read_ahead_kb", &["read_ahead_kb"], &[]),
    implied("io_scheduler", &["scheduler", "nr_requests"], &[]),
    implied("somaxconn", &["somaxconn"], &[]),
    implied("max_map_count", &["max_map_count"], &[]),
    implied("cpu_governor", &["cpu_governor"], &[]),
];

/// Settings whose defaults the server computes from others: (computed, computed from). Sources: the functions
/// `XLOGChooseNumBuffers`, `SimpleLruAutotuneBuffers` and `AioChooseMaxConcurrency` of PostgreSQL 18.
const FOLLOWS: &[(&str, &[&str])] = &[
    ("wal_buffers", &["shared_buffers"]),
    ("commit_timestamp_buffers", &["shared_buffers"]),
    ("subtransaction_buffers", &["shared_buffers"]),
    ("transaction_buffers", &["shared_buffers"]),
    (
        "io_max_concurrency",
        &[
            "shared_buffers",
            "max_connections",
            "autovacuum_worker_slots",
            "max_worker_processes",
            "max_wal_senders",
            "wal_level",
        ],
    ),
    // A server at `minimal` starts only without senders.
    ("max_wal_senders", &["wal_level"]),
];

/// Settings that follow from the one called `name`.
fn following(name: &str) -> impl Iterator<Item = &'static str> {
    FOLLOWS.iter().filter(move |(_, causes)| causes.contains(&name)).map(|(what, _)| *what)
}

/// Settings that `run.wal` decides. They follow the rate of WAL, so they also differ between runs of one policy.
pub(crate) const DECIDED_BY_WAL_POLICY: &[&str] =
    &["checkpoint_segments", "checkpoint_timeout", "max_wal_size", "min_wal_size"];

/// The settings of a server that are compared, here and in histories. Checksums are compared as what the data has.
pub(crate) fn compared_settings(server: &ServerRecord) -> impl Iterator<Item = (&String, &Setting)> {
    let is_compared = |name: &str| !UNCOMPARED_SETTINGS.contains(&name) && name != DATA_CHECKSUMS;
    server.settings.iter().filter(move |(name, _)| is_compared(name))
}

/// How words of a build are chosen that change code.
type Words = fn(&str) -> Vec<&str>;
/// What is compared of how a server was built, here and in histories: warnings differ between any two versions.
pub(crate) const BUILD_WORDS: [(&str, Words); 3] = [
    ("CC", |text| text.split_whitespace().collect()),
    ("CFLAGS", build::optimizing),
    ("CONFIGURE", build::configured),
];

/// What differs between A and B, by why it does.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// Differences that the experiment asked for.
    pub(crate) declared: Vec<Difference>,
    /// Defaults that the servers bring which the experiment asked for.
    pub(crate) defaults: Vec<Difference>,
    /// Differences that nobody asked for and no default explains.
    pub(crate) undeclared: Vec<Difference>,
}

/// All recorded differences.
pub(crate) fn between(a: ComparedSide, b: ComparedSide, purpose: ComparisonPurpose) -> Differences {
    let (Some(a_case), Some(b_case)) = (a.data.plan.case(a.case), b.data.plan.case(b.case)) else {
        return Differences::default();
    };
    let mut list = List { is_repeat: purpose == ComparisonPurpose::Repeat, ..List::default() };
    let is_one_experiment = std::ptr::eq(a.data, b.data);
    list.cases(a_case, b_case, is_one_experiment);
    if let (Some(a), Some(b)) = (a.first(), b.first()) {
        list.records(&a.record, &b.record);
    }
    Differences { declared: list.declared, defaults: list.defaults, undeclared: list.undeclared }
}

/// Differences in what two cases ask for.
pub(crate) fn asked(a: &Case, b: &Case) -> Vec<Difference> {
    let mut list = List::default();
    list.cases(a, b, true);
    list.declared
}

#[derive(Default)]
struct List {
    declared: Vec<Difference>,
    defaults: Vec<Difference>,
    undeclared: Vec<Difference>,
    /// Whether B repeats A: the machines are what is compared.
    is_repeat: bool,
    /// Names of settings that the cases set differently, or that follow from such settings.
    set: BTreeSet<String>,
    /// Facts of hosts and devices that follow from what the cases ask for.
    implied_facts: BTreeSet<&'static str>,
    /// Whether the cases name different servers.
    is_other_server: bool,
    /// Whether initdb decides about checksums on both sides.
    is_checksums_default: bool,
    /// Whether the cases name different pollers.
    is_other_poller: bool,
    /// Whether the cases ask for different standbys.
    is_other_topology: bool,
    /// Whether the cases ask for different tables.
    is_other_data: bool,
    /// Whether the cases ask for different scripts.
    is_other_script: bool,
}

/// Ratio of the sizes of databases from which on they are a difference: sizes of one kind of server depend on chance a little.
const SIZE_OF_ONE: f64 = 1.02;
/// The same for servers of other releases or builds, which store the same rows in other sizes: catalogs grow, and since 13 indexes keep
/// equal keys once.
const SIZE_OF_OTHER_SERVERS: f64 = 1.25;

impl List {
    /// Notes a difference, if there is one.
    fn note(&mut self, is_declared: bool, severity: Severity, what: &str, a: &str, b: &str) {
        if a == b {
            return;
        }
        let list = if is_declared { &mut self.declared } else { &mut self.undeclared };
        list.push(Difference { what: what.to_string(), a: a.to_string(), b: b.to_string(), severity });
    }

    /// Notes a default that differs, if it does: it is part of the servers that are compared.
    fn server_default(&mut self, what: &str, a: &str, b: &str) {
        if a != b {
            let (what, a, b) = (what.to_string(), a.to_string(), b.to_string());
            self.defaults.push(Difference { what, a, b, severity: Severity::Note });
        }
    }

    fn number(&mut self, is_declared: bool, severity: Severity, what: &str, a: u32, b: u32) {
        self.note(is_declared, severity, what, &a.to_string(), &b.to_string());
    }

    /// Compares what was asked for: servers and settings may differ, the load only as a factor of one experiment.
    fn cases(&mut self, a: &Case, b: &Case, is_one_experiment: bool) {
        self.is_other_server = a.server.source != b.server.source;
        let [of_a, of_b] = wording::servers(&a.server.source, &b.server.source);
        self.note(true, Severity::Note, "server", &of_a, &of_b);
        let wal = |case: &Case| wording::wal_directory(case.server.wal_directory.as_deref());
        self.note(true, Severity::Note, "WAL directory", &wal(a), &wal(b));
        let checksums = |case: &Case| wording::data_checksums(case.server.data_checksums);
        self.is_checksums_default = self.is_other_server
            && [a, b]
                .iter()
                .all(|case| case.server.source.is_embedded() && case.server.data_checksums.is_none());
        if a.server.data_checksums != b.server.data_checksums {
            self.set.insert(DATA_CHECKSUMS.to_string());
        }
        self.note(true, Severity::Note, "data checksums", &checksums(a), &checksums(b));
        let names: BTreeSet<&String> = a.server.settings.keys().chain(b.server.settings.keys()).collect();
        for name in names {
            let value =
                |case: &Case| case.server.settings.get(name).cloned().unwrap_or("not set".to_string());
            if value(a) != value(b) {
                self.set.insert(name.clone());
                self.set.extend(following(name).map(str::to_string));
            }
            self.note(true, Severity::Note, &format!("setting {name}"), &value(a), &value(b));
        }
        self.system(a, b);
        self.load(a, b, is_one_experiment);
        self.carried(carried::rows(), [a, b], is_one_experiment);
    }

    /// Compares values of the operating system, and the WAL policy. What follows from them is not reported again.
    fn system(&mut self, a: &Case, b: &Case) {
        let keys: BTreeSet<&String> = a.os.keys().chain(b.os.keys()).collect();
        for key in keys {
            let value = |case: &Case| case.os.get(key).map_or("as it is", String::as_str).to_string();
            self.note(true, Severity::Note, &format!("os.{key}"), &value(a), &value(b));
            let is_other = value(a) != value(b);
            for implied in IMPLIED_BY_OS.iter().filter(|implied| is_other && implied.key == key) {
                self.implied_facts.extend(implied.facts);
                self.set.extend(implied.settings.iter().map(|name| name.to_string()));
            }
        }
        self.note(true, Severity::Note, keys::run::WAL.name, &a.wal.to_string(), &b.wal.to_string());
        // A server by URL keeps its settings.
        let is_decided = |case: &Case| case.wal != WalPolicy::AsIs && case.server.source.is_embedded();
        if is_decided(a) || is_decided(b) {
            self.set.extend(DECIDED_BY_WAL_POLICY.iter().map(|name| name.to_string()));
        }
    }

    /// Compares the load, which may differ only as a factor of one experiment.
    fn load(&mut self, a: &Case, b: &Case, asked: bool) {
        let (x, y) = (&a.workload, &b.workload);
        self.is_other_poller = asked && x.poller != y.poller;
        self.is_other_script = asked && wording::scripts(x) != wording::scripts(y);
        if asked && x.tpcc != y.tpcc {
            // The connections ask for the isolation level of TPC-C.
            self.set.insert("default_transaction_isolation".to_string());
        }
        // Tables and indexes of another directory are those that somebody wants to compare.
        let made = |workload: &WorkloadSpec| {
            workload.data_directory().map(|directory| directory.data_identity.clone())
        };
        self.is_other_data = asked
            && ((&x.data, x.layout, &x.tablespace) != (&y.data, y.layout, &y.tablespace)
                || made(x) != made(y));
        self.note(asked, Severity::Void, "workload", &x.name(), &y.name());
        self.number(asked, Severity::Void, "scale", x.scale, y.scale);
        self.number(asked, Severity::Void, "clients", x.n_clients, y.n_clients);
        self.note(asked, Severity::Void, "pace", &x.pace.to_string(), &y.pace.to_string());
        self.note(asked, Severity::Void, "protocol", x.protocol.as_str(), y.protocol.as_str());
        self.note(asked, Severity::Void, "layout", &x.layout.to_string(), &y.layout.to_string());
        let tablespace =
            |of: &WorkloadSpec| of.tablespace.clone().unwrap_or("the server's default".to_string());
        self.note(asked, Severity::Void, "tablespace", &tablespace(x), &tablespace(y));
        let mut worded = |what: &str, words: fn(&WorkloadSpec) -> String| {
            self.note(asked, Severity::Void, what, &words(x), &words(y));
        };
        worded("scripts", wording::scripts);
        worded("variables", wording::variables);
        worded("data", wording::data);
        worded("TPC-C", wording::tpcc);
        let calls = |procedures: bool| if procedures { "procedures" } else { "functions" };
        self.note(asked, Severity::Void, "calls of TPROC-C", calls(x.procedures), calls(y.procedures));
        let transactions =
            |number: Option<u64>| number.map_or("until time is up".to_string(), |n| n.to_string());
        let (of_a, of_b) = (transactions(x.transactions), transactions(y.transactions));
        self.note(asked, Severity::Void, "transactions of a client", &of_a, &of_b);
        let tries = |of: Option<u32>| match of.unwrap_or(1) {
            0 => "no limit".to_string(),
            n => n.to_string(),
        };
        self.note(asked, Severity::Void, "tries of a transaction", &tries(x.max_tries), &tries(y.max_tries));
        let (of_a, of_b) = (x.on_disconnect.as_str(), y.on_disconnect.as_str());
        self.note(asked, Severity::Doubt, "what lost connections lead to", of_a, of_b);
        self.number(asked, Severity::Doubt, "driver threads", x.n_threads, y.n_threads);
        self.number(asked, Severity::Doubt, "busy polling, microseconds", x.busy_poll_us, y.busy_poll_us);
        let windows = [a, b].map(|case| wording::window(case.window));
        self.note(asked, Severity::Doubt, "lengths of a run", &windows[0], &windows[1]);
        let steps = [a, b].map(|case| wording::preparation(&case.prepare));
        self.note(asked, Severity::Doubt, "preparation", &steps[0], &steps[1]);
    }

    /// Compares the values of keys that cases carry, as their rows say.
    fn carried(
        &mut self,
        rows: impl Iterator<Item = (&'static KeyRow, &'static str, Differs)>,
        [a, b]: [&Case; 2],
        asked: bool,
    ) {
        let standbys =
            |case: &Case| (case.get(keys::topology::STANDBYS), case.get(keys::topology::SYNCHRONOUS));
        if standbys(a) != standbys(b) {
            self.is_other_topology = true;
            self.set.insert("synchronous_standby_names".to_string());
        }
        for (row, _, differs) in rows {
            let severity = match differs {
                Differs::Nothing => continue,
                Differs::Figures => Severity::Doubt,
                Differs::Question => Severity::Void,
            };
            let default =
                || if row.default.is_empty() { "nothing".to_string() } else { row.default.replace('`', "") };
            let value = |case: &Case| case.carried.text(row).unwrap_or_else(default);
            self.note(asked, severity, row.name, &value(a), &value(b));
        }
    }

    /// Compares what was recorded on the machines.
    fn records(&mut self, a: &RunRecord, b: &RunRecord) {
        self.note(self.is_repeat, Severity::Doubt, "version of pgdyno", &a.tool_version, &b.tool_version);
        let pollers = [a, b].map(wording::poller);
        self.note(self.is_other_poller, Severity::Doubt, "poller", &pollers[0], &pollers[1]);
        if let (Some(a), Some(b)) = (wording::build_profile(a), wording::build_profile(b)) {
            self.note(self.is_repeat, Severity::Doubt, "build profile of the driver", a, b);
        }
        let (server, other) = (&a.case.server, &b.case.server);
        let is_asked = server.tls != other.tls || server.source.differs_in_encryption_alone(&other.source);
        if let (Some(a), Some(b)) = (&a.ready, &b.ready) {
            self.note(is_asked, Severity::Doubt, "TLS", a.encryption(), b.encryption());
        }
        if let (Some(a), Some(b)) = (&a.server, &b.server) {
            self.servers(a, b);
        }
        self.sessions(a, b);
        if let (Some(a), Some(b), false) = (&a.fingerprint, &b.fingerprint, self.is_other_data) {
            self.definitions(a, b);
        }
        if let (Some(a), Some(b)) = (a.our_host(), b.our_host()) {
            self.hosts("", self.is_repeat, a, b);
        }
        let is_elsewhere = [a, b].into_iter().any(|record| !record.driver_is_on_host());
        if let (true, Some(a), Some(b)) = (is_elsewhere, a.server_host(), b.server_host()) {
            self.hosts("server's ", self.is_other_server || self.is_repeat, a, b);
        }
    }

    fn servers(&mut self, a: &ServerRecord, b: &ServerRecord) {
        let other = self.is_other_server;
        self.note(other, Severity::Doubt, "release", &a.release(), &b.release());
        let switches = |of: fn(&ServerRecord) -> bool| [a, b].map(|server| wording::switch(of(server)));
        let [of_a, of_b] = switches(|server| server.data_checksums);
        let severity = if other { Severity::Doubt } else { Severity::Void };
        match self.set.contains(DATA_CHECKSUMS) {
            true => {}
            false if self.is_checksums_default => self.server_default("data checksums", &of_a, &of_b),
            false => self.note(false, severity, "data checksums", &of_a, &of_b),
        }
        let [of_a, of_b] = switches(|server| server.in_recovery);
        self.note(false, Severity::Void, "standby", &of_a, &of_b);
        if let (Some(a), Some(b)) = (&a.route, &b.route) {
            self.note(false, Severity::Doubt, "way to the server", &a.words(), &b.words());
        }
        let receivers = |server: &ServerRecord| wording::receivers(&server.receivers);
        if !self.is_other_topology && !wording::may_be_the_same_receivers(a, b) {
            self.note(false, Severity::Doubt, "receivers of WAL", &receivers(a), &receivers(b));
        }
        let assertions =
            |server: &ServerRecord| server.setting("debug_assertions").unwrap_or("off").to_string();
        self.note(false, Severity::Void, "assertions", &assertions(a), &assertions(b));
        self.builds(a, b);
        let (small, large) = (a.database_bytes.min(b.database_bytes), a.database_bytes.max(b.database_bytes));
        let as_large = if other { SIZE_OF_OTHER_SERVERS } else { SIZE_OF_ONE };
        // A size of zero is one that the server did not tell.
        if small > 0 && large as f64 > as_large * small as f64 {
            let severity = if other { Severity::Note } else { Severity::Doubt };
            let size = |server: &ServerRecord| bytes(server.database_bytes as f64);
            self.note(self.is_other_data, severity, "size of the database", &size(a), &size(b));
        }
        self.settings(a, b);
    }

    /// Compares what changes code in compiler, flags and options.
    fn builds(&mut self, a: &ServerRecord, b: &ServerRecord) {
        for (what, words) in BUILD_WORDS {
            let of = |server: &ServerRecord| server.build.get(what).cloned().unwrap_or_default();
            let (of_a, of_b) = (of(a), of(b));
            let [of_a, of_b] = build::differing(&words(&of_a), &words(&of_b));
            self.note(false, Severity::Doubt, &format!("build, {what}"), &of_a, &of_b);
        }
    }

    fn settings(&mut self, a: &ServerRecord, b: &ServerRecord) {
        for (name, setting) in compared_settings(a) {
            if self.set.contains(name) {
                continue;
            }
            let Some(other) = b.settings.get(name) else { continue };
            let is_default = self.is_other_server && setting.source == "default" && other.source == "default";
            let what = format!("setting {name}");
            match DURABILITY.contains(&name.as_str()) {
                true => self.note(false, Severity::Void, &what, &setting.value, &other.value),
                false if is_default => self.server_default(&what, &setting.value, &other.value),
                false => self.note(false, Severity::Doubt, &what, &setting.value, &other.value),
            }
        }
    }

    /// Compares what sessions of the load changed. What the text of scripts says that the cases name differently was asked
    /// for.
    fn sessions(&mut self, a: &RunRecord, b: &RunRecord) {
        let (Some(of_a), Some(of_b)) = (changed_in_sessions(a), changed_in_sessions(b)) else { return };
        let mut in_text: Vec<String> = Vec::new();
        if self.is_other_script {
            in_text.extend([a, b].into_iter().flat_map(set_by_scripts).map(|(name, _)| name));
        }
        let names: BTreeSet<&str> = of_a.keys().chain(of_b.keys()).copied().collect();
        for name in names {
            let value = |record: &RunRecord, changed: &BTreeMap<&str, Vec<&SessionSetting>>| match changed
                .get(name)
            {
                Some(values) => wording::values(values),
                None => wording::unchanged(record, name),
            };
            let is_declared =
                self.set.contains(name) || in_text.iter().any(|set| *set == name.to_lowercase());
            let severity = if DURABILITY.contains(&name) { Severity::Void } else { Severity::Doubt };
            let what = format!("setting {name} in sessions");
            self.note(is_declared, severity, &what, &value(a, &of_a), &value(b, &of_b));
        }
    }

    /// Compares how tables are defined. A key's constraint is not listed next to its index.
    fn definitions(&mut self, a: &Fingerprint, b: &Fingerprint) {
        let is_key = |text: &str| text.starts_with("PRIMARY KEY") || text.starts_with("UNIQUE");
        for (what, of_a, of_b) in a.definitions_differ(b) {
            let texts = [of_a, of_b].map(|text| text.unwrap_or("none"));
            let is_missing = of_a.is_none() || of_b.is_none();
            if is_missing && texts.into_iter().any(is_key) {
                continue;
            }
            let [is_unlogged, is_other] = texts.map(|text| text.starts_with("UNLOGGED"));
            let is_unique_index = texts.iter().any(|text| text.starts_with("CREATE UNIQUE INDEX"));
            let weighs = is_unlogged != is_other || (is_missing && is_unique_index);
            let severity = if weighs { Severity::Void } else { Severity::Doubt };
            self.note(false, severity, &what, texts[0], texts[1]);
        }
    }

    /// Compares machines: pgdyno's own, or those of the servers, which may differ where the servers do.
    fn hosts(&mut self, whose: &str, asked: bool, a: &HostRecord, b: &HostRecord) {
        let what = |fact: &str| format!("{whose}{fact}");
        self.note(asked, Severity::Void, &what("host"), &a.hostname, &b.hostname);
        self.note(asked, Severity::Void, &what("processor"), &a.cpu_model, &b.cpu_model);
        self.number(asked, Severity::Void, &what("processors"), a.n_cpus, b.n_cpus);
        let gib = |host: &HostRecord| format!("{:.0} GiB", host.memory_bytes as f64 / f64::from(1 << 30));
        self.note(asked, Severity::Void, &what("memory"), &gib(a), &gib(b));
        self.note(asked, Severity::Doubt, &what("kernel"), &a.kernel, &b.kernel);
        self.note(asked, Severity::Doubt, &what("operating system"), &a.os, &b.os);
        self.map(whose, asked, &a.facts, &b.facts);
        for (role, mount) in &a.mounts {
            if role == "results" {
                continue;
            }
            let Some(other) = b.mounts.get(role) else { continue };
            let text = |mount: &model::run::host::MountRecord| {
                format!("{} on {} ({})", mount.fs_type, mount.device, mount.options)
            };
            let file_system = what(&format!("file system of {role}"));
            self.note(asked, Severity::Doubt, &file_system, &text(mount), &text(other));
            self.map(&what(&format!("device of {role}, ")), asked, &mount.facts, &other.facts);
        }
    }

    fn map(&mut self, of: &str, asked: bool, a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) {
        for (name, value) in a.iter().filter(|(name, _)| !UNCOMPARED_FACTS.contains(&name.as_str())) {
            // For a device below another one, its name is in brackets: `scheduler[vda]`.
            let fact = name.split('[').next().unwrap_or(name);
            if let Some(other) = b.get(name)
                && !self.implied_facts.contains(fact)
            {
                self.note(asked, Severity::Doubt, &format!("{of}{name}"), value, other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::experiment::case::{ServerSource, ServerSpec, WorkloadKind};
    use model::experiment::keys::run::PERF;
    use model::load::Window;

    use super::*;

    #[test]
    fn what_cases_carry_is_compared_as_its_row_says() {
        let server = ServerSpec::new(ServerSource::BinDir("/x".into()));
        let window = Window { ramp_up_s: 0, measure_s: 2, grace_s: 0 };
        let a = Case::new(server, WorkloadSpec::new(WorkloadKind::default(), 1), window);
        let mut b = a.clone();
        b.set(PERF, true);
        let found = |differs: Differs, asked: bool| {
            let row = keys::find(PERF.name).unwrap();
            let mut list = List::default();
            list.carried([(row, "perf", differs)].into_iter(), [&a, &b], asked);
            (list.declared, list.undeclared)
        };
        let difference = |severity: Severity| Difference {
            what: "run.perf".to_string(),
            a: "false".to_string(),
            b: "true".to_string(),
            severity,
        };
        assert_eq!(found(Differs::Nothing, false), (Vec::new(), Vec::new()));
        assert_eq!(found(Differs::Figures, false), (Vec::new(), vec![difference(Severity::Doubt)]));
        assert_eq!(found(Differs::Question, false), (Vec::new(), vec![difference(Severity::Void)]));
        assert_eq!(found(Differs::Question, true), (vec![difference(Severity::Void)], Vec::new()));
    }
}
