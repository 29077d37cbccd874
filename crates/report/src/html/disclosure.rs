//! Everything behind the numbers: host, server, data, driver, steps, commands, and what could not be observed.

mod os_values;
mod servers;

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::Prepare;
use model::load::Window;
use model::load::course::RampUpEnd;
use model::load::drive::Ready;
use model::run::RunRecord;
use model::run::host::HostRecord;
use model::run::phase::Phase;
use model::run::residency::InMemory;
use model::run::server::{ServerRecord, Setting};

use super::escape::escape_html;
use super::{named, scripts, table};
use crate::Input;
use crate::prose::{format, phrases};

/// Settings that someone changed: not the default, not computed by the server itself, and not those of the connection
/// that read them.
pub(crate) fn not_default(server: &ServerRecord) -> impl Iterator<Item = (&String, &Setting)> {
    server.settings.iter().filter(|(_, setting)| {
        !matches!(setting.source.as_str(), "default" | "override" | "client" | "session")
    })
}

pub(super) fn section(input: &Input) -> String {
    let records: Vec<&RunRecord> = input.data.runs.iter().map(|run| &run.record).collect();
    let mut html = String::new();
    hosts(&mut html, &records);
    if let Some(body) = os_values::disclosed(&records) {
        part(&mut html, "Values of the operating system", &body);
    }
    servers::disclose(&mut html, &records);
    called(&mut html, &records);
    data(&mut html, &records);
    if let Some(body) = scripts::disclosed(&records) {
        part(&mut html, "Scripts", &body);
    }
    driver(&mut html, &records);
    steps(&mut html, &records);
    repeat(&mut html, input);
    unseen(&mut html, input);
    html
}

fn part(html: &mut String, title: &str, body: &str) {
    let body = named(body, title);
    html.push_str(&format!("<div class=\"part\"><h3>{}</h3><div>{body}</div></div>\n", escape_html(title)));
}

/// A list of names and values; escapes the values.
fn facts<N: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (N, V)>) -> String {
    let mut html = String::from("<dl class=\"facts\">");
    for (name, value) in pairs {
        let (name, value) = (name.as_ref(), value.as_ref());
        if !value.is_empty() {
            html.push_str(&format!("<dt>{}</dt><dd>{}</dd>", escape_html(name), escape_html(value)));
        }
    }
    html.push_str("</dl>");
    html
}

/// Distinct records by `key`, each with its runs.
fn alike<'a, T>(
    records: &[&'a RunRecord],
    value: impl Fn(&'a RunRecord) -> Option<&'a T>,
    key: impl Fn(&T) -> String,
) -> Vec<(&'a T, Vec<u32>)> {
    let mut groups: Vec<(String, &T, Vec<u32>)> = Vec::new();
    for record in records {
        let Some(found) = value(record) else { continue };
        let key = key(found);
        match groups.iter_mut().find(|group| group.0 == key) {
            Some(group) => group.2.push(record.spec.run),
            None => groups.push((key, found, vec![record.spec.run])),
        }
    }
    groups.into_iter().map(|(_, found, runs)| (found, runs)).collect()
}

/// The title, with the runs if there are several kinds.
fn title_for(title: &str, several: bool, runs: &[u32]) -> String {
    if several { format!("{title}, runs {}", phrases::ranges(runs)) } else { title.to_string() }
}

fn hosts<'a>(html: &mut String, records: &[&'a RunRecord]) {
    let n_kinds = machines(html, records, "Host", |record| record.host.as_ref());
    machines(html, records, "Driver's host", |record| record.driver_host.as_ref());
    let elsewhere = |record: &'a RunRecord| record.eyes.as_ref().filter(|eyes| !eyes.is_here);
    let observed = alike(records, elsewhere, |eyes| eyes.name.clone());
    for (eyes, runs) in &observed {
        let noun = if runs.len() == 1 { "run" } else { "runs" };
        let of_runs = format!(" of {noun} {}", phrases::ranges(runs));
        let of_runs = if observed.len() > 1 { of_runs } else { String::new() };
        html.push_str(&format!(
            "<p class=\"quiet\">The host{of_runs} is the server's, observed by <code>pgdyno watch</code> on {}.</p>\n",
            escape_html(&eyes.name)
        ));
    }
    let remote: Vec<u32> = records.iter().filter(|r| !r.server_is_local).map(|r| r.spec.run).collect();
    if !remote.is_empty() && n_kinds > 0 {
        html.push_str(&format!(
            "<p class=\"quiet\">The server of {} ran on another machine: the host above is the driver's.</p>\n",
            escape_html(&format!("{} {}", if remote.len() == 1 { "run" } else { "runs" }, phrases::ranges(&remote)))
        ));
    }
}

/// The different machines among those that `which` selects; returns how many there are.
fn machines(
    html: &mut String,
    records: &[&RunRecord],
    title: &str,
    which: impl Fn(&RunRecord) -> Option<&HostRecord>,
) -> usize {
    let key =
        |host: &HostRecord| format!("{} {} {} {}", host.hostname, host.kernel, host.cpu_model, host.n_cpus);
    let groups = alike(records, which, key);
    for (host, runs) in &groups {
        let mut pairs: Vec<(String, String)> = vec![
            ("Name".into(), host.hostname.clone()),
            (
                "Processors".into(),
                format!("{} x {}, NUMA nodes: {}", host.n_cpus, host.cpu_model, host.n_numa_nodes),
            ),
            ("Memory".into(), format::bytes(host.memory_bytes as f64)),
            ("System".into(), format!("{}, kernel {}", host.os, host.kernel)),
        ];
        pairs.extend(host.facts.iter().map(|(name, value)| (phrases::of_id(name), value.clone())));
        for (role, mount) in &host.mounts {
            let device: Vec<String> =
                mount.facts.iter().map(|(k, v)| format!("{} {v}", phrases::of_id(k))).collect();
            let text = format!(
                "{} on {} ({}), {} free of {}; {}; {}",
                mount.fs_type,
                if mount.device.is_empty() { "no device" } else { &mount.device },
                mount.mount_point,
                format::bytes(mount.free_bytes as f64),
                format::bytes(mount.total_bytes as f64),
                mount.options,
                device.join(", ")
            );
            pairs.push((format!("File system for {role}"), text.trim_end_matches("; ").to_string()));
        }
        part(html, &title_for(title, groups.len() > 1, runs), &facts(pairs));
    }
    groups.len()
}

/// What the user's own commands did.
fn called(html: &mut String, records: &[&RunRecord]) {
    let of_run = |record: &RunRecord| record.spec.run;
    let mut rows: Vec<(String, String)> = Vec::new();
    for record in records {
        for called in &record.hooks {
            let ended = if called.failure.is_empty() { "succeeded" } else { &called.failure };
            let last = called.output.lines().last().unwrap_or_default();
            let command = called.command.join(" ");
            let text = format!("{command}: {ended} after {} s: {last}", format::seconds(called.length_s()));
            let name = format!("{}, run {}", phrases::of_id(called.hook.as_str()), of_run(record));
            rows.push((name, text.trim_end_matches(": ").to_string()));
        }
    }
    if !rows.is_empty() {
        part(html, "Hooks", &facts(rows));
    }
}

fn data(html: &mut String, records: &[&RunRecord]) {
    let mut seen = BTreeSet::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for record in records {
        let workload = &record.case.workload;
        if !seen.insert((workload.kind, workload.scale, workload.layout, &workload.tablespace)) {
            continue;
        }
        let counts: Vec<String> =
            record.rows_before.iter().map(|(name, n)| format!("{name} {}", format::count(*n))).collect();
        let bytes = record.server.as_ref().map_or(0, |server| server.database_bytes);
        rows.push(vec![
            escape_html(workload.kind.as_str()),
            format::count(u64::from(workload.scale)),
            match &workload.tablespace {
                Some(name) => escape_html(&format!("{} in tablespace {name}", workload.layout)),
                None => workload.layout.to_string(),
            },
            if bytes == 0 { String::new() } else { escape_html(&format::bytes(bytes as f64)) },
            escape_html(&counts.join("; ")),
        ]);
    }
    if !rows.is_empty() {
        let heads = ["Workload", "Scale", "Layout", "Database", "Rows before the load"];
        part(html, "Data", &table("text", &heads, &rows));
    }
    memory(html, records);
}

/// How much of the data was in memory, of each case the run with the least.
fn memory(html: &mut String, records: &[&RunRecord]) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut seen = BTreeSet::new();
    for record in records.iter().filter(|record| !record.residency.is_empty()) {
        if !seen.insert(record.case.id) {
            continue;
        }
        let of_case = records.iter().filter(|other| other.case.id == record.case.id);
        let least = |of: fn(&RunRecord) -> Option<InMemory>| {
            of_case.clone().filter_map(|record| of(record)).min_by_key(InMemory::least_bytes)
        };
        let before = least(|record| record.residency.before);
        let after = least(|record| record.residency.after);
        let words =
            |found: Option<InMemory>| found.map_or(String::new(), |found| escape_html(&in_memory(found)));
        rows.push(vec![escape_html(&phrases::one_line(&record.case.label())), words(before), words(after)]);
    }
    if !rows.is_empty() {
        part(
            html,
            "Tables and indexes in memory",
            &table("text", &["Case", "Before the load", "After it"], &rows),
        );
    }
}

/// `31.0 GiB of 32.0 GiB (shared buffers 6.00 GiB, page cache 31.0 GiB)`.
fn in_memory(found: InMemory) -> String {
    let bytes = |bytes: u64| format::bytes(bytes as f64);
    let place = |name: &str, found: Option<u64>| match found {
        Some(found) => format!("{name} {}", bytes(found)),
        None => format!("{name} not visible"),
    };
    let buffers = match found.buffers_bytes {
        None if found.is_in_page_cache() => String::new(),
        buffers => format!("{}, ", place("shared buffers", buffers)),
    };
    let places = format!("{buffers}{}", place("page cache", found.page_cache_bytes));
    match found.least_bytes() {
        Some(least) => format!("{} of {} ({places})", bytes(least), bytes(found.total_bytes)),
        None => format!("of {} ({places})", bytes(found.total_bytes)),
    }
}

/// The measurement window, and how its ends were found if they were not given.
fn window(record: &RunRecord) -> String {
    let Window { ramp_up_s, measure_s, grace_s } = record.window();
    let end = record.course.and_then(|course| course.ramp_up_end).map_or(String::new(), |end| match end {
        RampUpEnd::Steady => " until it was steady".to_string(),
        RampUpEnd::Bound => " without becoming steady".to_string(),
    });
    let extended = record.course.filter(|course| course.extended_s > 0);
    let extended =
        extended.map_or(String::new(), |course| format!(" ({} s more than planned)", course.extended_s));
    format!("{ramp_up_s} s ramp-up{end}, {measure_s} s measured{extended}, {grace_s} s grace")
}

fn driver(html: &mut String, records: &[&RunRecord]) {
    let mut pairs: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut put = |name: &'static str, value: String| {
        pairs.entry(name).or_default().insert(value);
    };
    for record in records {
        let workload = &record.case.workload;
        put("Threads", workload.n_threads.to_string());
        put("Protocol", workload.protocol.as_str().to_string());
        put("Pace", workload.pace.to_string());
        put("Window", window(record));
        if let Some(ready) = &record.ready {
            put("Poller", ready.poller.clone());
            put("Build", build(ready));
            put("TLS", ready.tls.clone().unwrap_or_else(|| "none".to_string()));
        }
        for from in &record.connections {
            let tls = from.tls.as_deref().unwrap_or("no TLS");
            put("Clients come from", format!("{} ({tls})", from.client_address));
        }
        if let Some(load) = &record.load {
            // A target never contains a password; anything that could point to one is omitted too.
            let target: Vec<String> = load
                .target
                .iter()
                .filter(|(key, _)| !key.contains("pass"))
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            put("Target", target.join(" "));
        }
    }
    let pairs = pairs.into_iter().map(|(name, values)| {
        let shown: Vec<String> = values.iter().take(8).cloned().collect();
        let more = if values.len() > 8 { format!("; and {} more", values.len() - 8) } else { String::new() };
        (name, format!("{}{more}", shown.join("; ")))
    });
    if !records.is_empty() {
        part(html, "Driver", &facts(pairs));
    }
}

/// `profile dist, optimization level 3`; nothing if the record does not say.
fn build(ready: &Ready) -> String {
    if ready.build_profile.is_empty() {
        return String::new();
    }
    format!("profile {}, optimization level {}", ready.build_profile, ready.opt_level)
}

fn steps(html: &mut String, records: &[&RunRecord]) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for phase in Phase::ALL {
        let found: Vec<_> = records.iter().filter_map(|record| record.phase(phase)).collect();
        let omitted = records.iter().filter(|record| is_left_out(phase, &record.case.prepare)).count();
        let mut lengths: Vec<f64> = found.iter().map(|record| record.length_s()).collect();
        lengths.sort_by(f64::total_cmp);
        let length = match (lengths.first(), lengths.last()) {
            (Some(low), Some(high)) if format::seconds(*low) != format::seconds(*high) => {
                format!("{} to {}", format::seconds(*low), format::seconds(*high))
            }
            (Some(low), _) => format::seconds(*low),
            _ => String::new(),
        };
        let mut detail: Vec<String> = found
            .first()
            .map(|record| {
                record
                    .detail
                    .iter()
                    .map(|(name, value)| format!("{} {value}", phrases::of_id(name)))
                    .collect()
            })
            .unwrap_or_default();
        match omitted {
            0 => {}
            n if n == records.len() => detail.insert(0, "left out".to_string()),
            n => detail.insert(0, format!("left out in {n} of {}", phrases::plural(records.len(), "run"))),
        }
        if !found.is_empty() || omitted > 0 {
            rows.push(vec![
                escape_html(&phrases::of_id(phase.as_str())),
                length,
                escape_html(&detail.join("; ")),
            ]);
        }
    }
    if !rows.is_empty() {
        part(html, "Steps of a run", &table("text", &["Step", "Seconds", "How (first run)"], &rows));
    }
}

fn is_left_out(phase: Phase, prepare: &Prepare) -> bool {
    match phase {
        Phase::Restore => !prepare.restore,
        Phase::Vacuum => !prepare.vacuum && !prepare.analyze,
        Phase::Prewarm => !prepare.prewarm,
        Phase::Checkpoint => !prepare.checkpoint,
        Phase::Settle => !prepare.settle,
        Phase::Apply | Phase::Connect | Phase::RampUp | Phase::Measure | Phase::Drain => false,
    }
}

fn repeat(html: &mut String, input: &Input) {
    let plan = &input.study.plan;
    let order: Vec<u32> = plan.runs.iter().map(|spec| spec.case).collect();
    let order: Vec<String> = order.iter().map(u32::to_string).collect();
    let mut body = String::new();
    if !input.commands.is_empty() {
        body.push_str(&format!("<pre>{}</pre>", escape_html(&input.commands.join("\n"))));
    }
    body.push_str(&facts([
        ("Seed", plan.seed.to_string()),
        ("Order of cases", order.join(" ")),
        ("Repeats", plan.repeats.to_string()),
        ("Measured by", format!("pgdyno {}", plan.tool_version)),
        ("Drawn by", format!("pgdyno {}", input.tool_version)),
        ("Plan made", format::utc(plan.made_unix_ns)),
    ]));
    body.push_str(&format!(
        "<details class=\"fold\" open><summary>Experiment file</summary><pre>{}</pre></details>",
        escape_html(&input.data.experiment_toml)
    ));
    part(html, "Repeat this experiment", &body);
}

/// What could not be observed, with the reason; also says so if there is nothing.
fn unseen(html: &mut String, input: &Input) {
    let mut found: BTreeMap<(String, String), Vec<u32>> = BTreeMap::new();
    for run in &input.data.runs {
        let record = &run.record;
        let of_server = record.server.iter().flat_map(|server| &server.unavailable);
        for (name, reason) in record.telemetry_unavailable.iter().chain(of_server) {
            let runs = found.entry((name.clone(), reason.clone())).or_default();
            if runs.last() != Some(&record.spec.run) {
                runs.push(record.spec.run);
            }
        }
        for damage in &run.damage {
            found.entry(("records".to_string(), damage.clone())).or_default().push(record.spec.run);
        }
    }
    let rows: Vec<Vec<String>> = found
        .into_iter()
        .map(|((name, reason), runs)| {
            vec![escape_html(&name), escape_html(&reason), escape_html(&phrases::ranges(&runs))]
        })
        .collect();
    let body = if rows.is_empty() {
        "<p>pgdyno observed everything that it can observe.</p>".to_string()
    } else {
        table("text", &["What", "Why", "Runs"], &rows)
    };
    part(html, "What could not be observed", &body);
}
