//! The servers of the runs: how they were built, and their settings.

use model::run::RunRecord;
use model::run::server::{ServerRecord, Setting};

use super::{alike, facts, not_default, part, title_for};
use crate::html::escape::text;
use crate::html::table;

/// The different servers, each with its runs.
pub(super) fn disclose(html: &mut String, records: &[&RunRecord]) {
    let key = |server: &ServerRecord| {
        let settings: Vec<String> = not_default(server).map(|(n, s)| format!("{n}={}", s.value)).collect();
        format!("{} {:?} {:?} {settings:?}", server.version, server.build, server.executable_sha256)
    };
    let groups = alike(records, |record| record.server.as_ref(), key);
    for (server, runs) in &groups {
        let mut pairs: Vec<(String, String)> = vec![
            ("Version".into(), server.version.clone()),
            ("Data checksums".into(), if server.data_checksums { "on" } else { "off" }.into()),
            ("Standby".into(), if server.in_recovery { "yes" } else { "no" }.into()),
            ("Data directory".into(), server.data_directory.clone().unwrap_or_default()),
            ("Executable, SHA-256".into(), server.executable_sha256.clone().unwrap_or_default()),
            ("System identifier".into(), server.system_identifier.clone().unwrap_or_default()),
        ];
        pairs.extend(server.build.iter().map(|(name, value)| (format!("Built with {name}"), value.clone())));
        let set: Vec<Vec<String>> = not_default(server).map(setting_row).collect();
        let all: Vec<Vec<String>> = server.settings.iter().map(setting_row).collect();
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

fn setting_row((name, setting): (&String, &Setting)) -> Vec<String> {
    vec![format!("<code>{}</code>", text(name)), text(&setting.value), text(&setting.source)]
}
