//! Whether the connections of a load were encrypted: it costs, and a reader of the numbers has to know.

use std::collections::BTreeSet;

use model::run::{ExperimentData, RunRecord};

/// `connections encrypted (TLSv1.3 with TLS_AES_256_GCM_SHA384)`, `connections over TCP, not encrypted`, or both where runs differ; `None` if
/// all loads used unix sockets or nobody recorded how they connected.
pub(crate) fn encryption(data: &ExperimentData) -> Option<String> {
    let mut found: BTreeSet<String> = data.runs.iter().filter_map(|run| of_run(&run.record)).collect();
    let others = if found.remove(PLAIN) { "; not encrypted in other runs" } else { "" };
    let found = Vec::from_iter(found);
    (!found.is_empty()).then(|| format!("connections {}{others}", found.join("; ")))
}

/// What is said of a load over sockets, or of one to a server that pgdyno runs.
const PLAIN: &str = "";

fn of_run(record: &RunRecord) -> Option<String> {
    let tls = record.ready.as_ref()?.tls.as_deref();
    if let Some(tls) = tls {
        return Some(format!("encrypted ({tls})"));
    }
    let route = record.server.as_ref()?.route.as_ref()?;
    let is_plain = route.reached.starts_with("socket:") || record.case.server.source.is_embedded();
    Some(if is_plain { PLAIN } else { "over TCP, not encrypted" }.to_string())
}
