//! The servers of the runs: how they were built, and their settings. Servers that differ only in what pgdyno chooses
//! for each start are one.

use model::run::RunRecord;
use model::run::server::Setting;

use super::{alike, facts, not_default, part, title_for};
use crate::html::escape::escape_html;
use crate::html::table;

/// Settings that pgdyno chooses for each start of a server that it runs: the directory of the socket, in which the files
/// of TLS are too, and the port if it listens on the network (crate `server`: `running`).
const NEW_AT_EACH_START: [&str; 4] = ["port", "ssl_cert_file", "ssl_key_file", "unix_socket_directories"];

/// The different servers, each with its runs.
pub(super) fn disclose(html: &mut String, records: &[&RunRecord]) {
    let groups = alike(records, |record| record.server.is_some().then_some(record), identity);
    for (first, runs) in &groups {
        let Some(server) = &first.server else { continue };
        let of_group: Vec<&RunRecord> =
            records.iter().copied().filter(|record| runs.contains(&record.spec.run)).collect();
        let mut pairs: Vec<(String, String)> = vec![
            ("Version".into(), server.version.clone()),
            ("Data checksums".into(), if server.data_checksums { "on" } else { "off" }.into()),
            ("Standby".into(), if server.in_recovery { "yes" } else { "no" }.into()),
            ("Data directory".into(), server.data_directory.clone().unwrap_or_default()),
            ("Executable, SHA-256".into(), server.executable_sha256.clone().unwrap_or_default()),
            ("System identifier".into(), identifier(&of_group)),
        ];
        pairs.extend(server.build.iter().map(|(name, value)| (format!("Built with {name}"), value.clone())));
        let row = |(name, setting): (&String, &Setting)| -> Vec<String> {
            let value = shown(name, setting, &of_group);
            vec![
                format!("<code>{}</code>", escape_html(name)),
                escape_html(value),
                escape_html(&setting.source),
            ]
        };
        let set: Vec<Vec<String>> = not_default(server).map(row).collect();
        let all: Vec<Vec<String>> = server.settings.iter().map(row).collect();
        let heads = ["Setting", "Value", "Source"];
        let mut body = facts(pairs);
        if !set.is_empty() {
            body.push_str("<h4>Settings that differ from the default</h4>");
            body.push_str(&table("text", &heads, &set));
        }
        body.push_str(&format!(
            "<details class=\"fold\"><summary>All {} settings</summary>{}</details>",
            server.settings.len(),
            table("text", &heads, &all)
        ));
        part(html, &title_for("Server", groups.len() > 1, runs), &body);
    }
}

/// What makes a server another one: everything that is shown, but for the values that are new at each start, and for
/// settings of the connection that read them.
fn identity(record: &RunRecord) -> String {
    let Some(server) = &record.server else { return String::new() };
    let of_server = server
        .settings
        .iter()
        .filter(|(_, setting)| !matches!(setting.source.as_str(), "client" | "session"));
    let settings: Vec<(&str, Option<&str>, &str)> = of_server
        .map(|(name, setting)| {
            let value = (!is_new_at_each_start(record, name, setting)).then_some(setting.value.as_str());
            (name.as_str(), value, setting.source.as_str())
        })
        .collect();
    // Without snapshots, each run has a cluster of its own.
    let is_ours = record.case.server.source.is_embedded();
    let identifier = if is_ours { None } else { server.system_identifier.as_ref() };
    let cluster = (&server.data_directory, identifier, server.data_checksums, server.in_recovery);
    format!("{:?}", (&server.version, &server.build, &server.executable_sha256, cluster, settings))
}

/// The cluster of the servers of a group.
fn identifier(of_group: &[&RunRecord]) -> String {
    let all = of_group.iter().filter_map(|record| record.server.as_ref()?.system_identifier.as_deref());
    let different: std::collections::BTreeSet<&str> = all.collect();
    match different.len() {
        0 | 1 => different.into_iter().collect(),
        _ => "one for each cluster".to_string(),
    }
}

/// Whether pgdyno gave the setting this value for one start. A server by URL keeps its own.
fn is_new_at_each_start(record: &RunRecord, name: &str, setting: &Setting) -> bool {
    let is_ours = record.case.server.source.is_embedded() && setting.source == "command line";
    is_ours && NEW_AT_EACH_START.contains(&name)
}

/// The value of a setting; where the servers of a group have several, that each start has its own.
fn shown<'a>(name: &str, setting: &'a Setting, of_group: &[&RunRecord]) -> &'a str {
    let is_other = |record: &&RunRecord| {
        let value = record.server.as_ref().and_then(|server| server.setting(name));
        is_new_at_each_start(record, name, setting) && value != Some(setting.value.as_str())
    };
    if of_group.iter().any(is_other) { "one for each start" } else { setting.value.as_str() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
    use model::experiment::plan::RunSpec;
    use model::load::Window;
    use model::run::server::ServerRecord;

    use super::*;

    /// A run of a server with these settings from its command line.
    fn record(run: u32, is_ours: bool, settings: &[(&str, &str)]) -> RunRecord {
        let source = if is_ours {
            ServerSource::Version("18".parse().unwrap())
        } else {
            ServerSource::Url(BTreeMap::new())
        };
        let window = Window { ramp_up_s: 0, measure_s: 1, grace_s: 1 };
        let case = Case::new(ServerSpec::new(source), WorkloadSpec::new(WorkloadKind::Tpcb, 1), window);
        let setting = |(name, value): &(&str, &str)| {
            (name.to_string(), Setting { value: value.to_string(), source: "command line".to_string() })
        };
        let settings = settings.iter().map(setting).collect();
        RunRecord {
            server: Some(ServerRecord { settings, ..ServerRecord::default() }),
            ..RunRecord::new(RunSpec { run, block: 1, case: 1, seed: 1 }, case, "0")
        }
    }

    fn disclosed(records: &[RunRecord]) -> String {
        let mut html = String::new();
        disclose(&mut html, &records.iter().collect::<Vec<_>>());
        html
    }

    #[test]
    fn servers_that_differ_by_their_start_alone_are_one() {
        let start = |run: u32, dir: &str, work_mem: &str| {
            record(run, true, &[("unix_socket_directories", dir), ("port", "5432"), ("work_mem", work_mem)])
        };
        let alike = disclosed(&[start(1, "/tmp/a", "4MB"), start(2, "/tmp/b", "4MB")]);
        assert_eq!(alike.matches("<h3>").count(), 1, "{alike}");
        assert!(
            alike.contains("<h3>Server</h3>") && alike.contains("<td>one for each start</td>"),
            "{alike}"
        );
        assert!(alike.contains("<td>5432</td>") && !alike.contains("/tmp/"), "the port is the same: {alike}");
        let two = disclosed(&[
            start(1, "/tmp/a", "4MB"),
            start(2, "/tmp/b", "8MB"),
            start(3, "/tmp/c", "4MB"),
            start(4, "/tmp/d", "4MB"),
        ]);
        assert!(two.contains("<h3>Server, runs 1, 3, 4</h3>"), "{two}");
        assert!(two.contains("<h3>Server, runs 2</h3>") && two.contains("<td>/tmp/b</td>"), "{two}");
    }

    #[test]
    fn everything_else_that_is_shown_makes_another_server() {
        let check = |what: &str, change: &dyn Fn(&mut ServerRecord)| {
            let records = [1, 2].map(|run| record(run, true, &[("jit", "on")]));
            let [one, mut other] = records;
            change(other.server.as_mut().unwrap());
            assert_eq!(disclosed(&[one, other]).matches("<h3>").count(), 2, "{what}");
        };
        check("checksums", &|server| server.data_checksums = true);
        check("directory", &|server| server.data_directory = Some("/data".to_string()));
        check("build", &|server| drop(server.build.insert("CC".to_string(), "gcc".to_string())));
        check("source", &|server| {
            server.settings.get_mut("jit").unwrap().source = "configuration file".to_string();
        });
        let of_clusters = |is_ours: bool| {
            let mut records = [1, 2].map(|run| record(run, is_ours, &[("jit", "on")]));
            for (one, identifier) in records.iter_mut().zip(["7", "8"]) {
                one.server.as_mut().unwrap().system_identifier = Some(identifier.to_string());
            }
            disclosed(&records)
        };
        assert_eq!(of_clusters(false).matches("<h3>").count(), 2, "two servers by URL");
        let ours = of_clusters(true);
        assert!(ours.matches("<h3>").count() == 1 && ours.contains("one for each cluster"), "{ours}");
        // Servers by URL are where they are: another port is another server.
        let by_url = ["5432", "5433"].map(|port| record(port.parse().unwrap(), false, &[("port", port)]));
        assert_eq!(disclosed(&by_url).matches("<h3>").count(), 2);
    }
}
