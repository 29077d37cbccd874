//! Whether the connections of a load were encrypted: it costs, and a reader of the numbers has to know.

use std::collections::BTreeSet;

use model::run::{ExperimentData, RunRecord};

/// `connections encrypted (TLSv1.3 with TLS_AES_256_GCM_SHA384)`, `connections over TCP, not encrypted`, or both where runs differ; `None` if
/// all loads used unix sockets or nobody recorded how they connected.
pub(crate) fn encryption(data: &ExperimentData) -> Option<String> {
    let found: BTreeSet<String> = data.runs.iter().filter_map(|run| of_run(&run.record)).collect();
    if found.is_empty() {
        return None;
    }
    let found: Vec<String> = found.into_iter().collect();
    Some(format!("connections {}", found.join("; ")))
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
