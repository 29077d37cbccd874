//! Whether the connections of a load were encrypted: it costs, and a reader of the numbers has to know.

use std::collections::BTreeSet;

use model::run::{ExperimentData, RunRecord};

/// `connections encrypted (TLSv1.3 with TLS_AES_256_GCM_SHA384)`, `connections over TCP, not encrypted`, or both where runs differ; `None` if
/// all loads used unix sockets or nobody recorded how they connected.
pub(crate) fn encryption(data: &ExperimentData) -> Option<String> {
    let runs: Vec<Option<String>> = data.runs.iter().map(|run| of_run(&run.record)).collect();
    let found: BTreeSet<&String> = runs.iter().flatten().collect();
    if found.is_empty() {
        return None;
    }
    let is_plain = |(record, words): (&RunRecord, &Option<String>)| {
        words.is_none()
            && record.ready.is_some()
            && record.server.as_ref().is_some_and(|server| server.route.is_some())
    };
    let others = data.runs.iter().map(|run| &run.record).zip(&runs).any(is_plain);
    let others = if others { "; not encrypted in other runs" } else { "" };
    let found: Vec<&str> = found.into_iter().map(String::as_str).collect();
    Some(format!("connections {}{others}", found.join("; ")))
}

fn of_run(record: &RunRecord) -> Option<String> {
    let tls = record.ready.as_ref()?.tls.as_deref();
    if let Some(tls) = tls {
        return Some(format!("encrypted ({tls})"));
    }
    let route = record.server.as_ref()?.route.as_ref()?;
    let is_socket = route.reached.starts_with("socket:");
    (!is_socket && !record.case.server.source.is_embedded()).then(|| "over TCP, not encrypted".to_string())
}
