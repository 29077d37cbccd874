//! The name of an experiment that was asked for by options alone: made from what it varies.

use model::experiment::case::WorkloadKind;
use model::experiment::keys;
use model::experiment::plan::Plan;

/// Longest name that is made; an experiment file allows 64 characters.
const NAME_MAX: usize = 60;
/// With more levels than this a name does not list them.
const LEVELS_MAX: usize = 4;
const CLIENTS: &str = keys::workload::CLIENTS.name;
const KIND: &str = keys::workload::KIND.name;
const POOLER: &str = keys::pooler::KIND.name;
const VARIANT: &str = keys::workload::VARIANT.name;
const VERSION: &str = keys::server::VERSION.name;

/// What the plan asks, as a name: `versions-15-18`, `settings-shared_buffers`, `clients`. Numbers of clients count only
/// if `asks_clients`, or if nothing else varies. `None` if nothing was asked but what the experiment has by itself.
pub fn name(plan: &Plan, asks_clients: bool) -> Option<String> {
    let varied: Vec<&String> =
        plan.factors.iter().filter(|key| key.as_str() != CLIENTS || asks_clients).collect();
    let mut parts: Vec<String> = varied.iter().map(|key| of_factor(plan, key)).collect();
    let workload = plan.cases.first().map(|case| &case.workload);
    let is_varied = plan.factors.iter().any(|key| key == KIND);
    if let Some(workload) = workload.filter(|workload| workload.kind != WorkloadKind::default() && !is_varied)
    {
        // A variant that varies is in the name as a factor.
        let directory = workload.directory.as_ref();
        let is_one = !plan.factors.iter().any(|key| key == VARIANT);
        let name = match directory {
            Some(directory) if !is_one => directory.name.clone(),
            _ => workload.name(),
        };
        parts.insert(0, name);
    }
    if parts.is_empty() {
        let n_clients = plan.cases.first().filter(|_| asks_clients)?.workload.n_clients;
        parts.push(format!("clients-{n_clients}"));
    }
    let mut name: String = parts.join("-").chars().map(kept).take(NAME_MAX).collect();
    name.truncate(name.trim_end_matches(['-', '.', '_']).len());
    Some(name)
}

fn of_factor(plan: &Plan, key: &str) -> String {
    let levels = levels(plan, key);
    let listed = if levels.len() <= LEVELS_MAX { format!("-{}", levels.join("-")) } else { String::new() };
    match key {
        VERSION => format!("versions{listed}"),
        KIND => format!("workloads{listed}"),
        POOLER => format!("poolers{listed}"),
        keys::TARGET => format!("targets{listed}"),
        CLIENTS => format!("clients{listed}"),
        _ => match key.split_once(".settings.") {
            Some((_, setting)) => format!("settings-{setting}"),
            None => key.rsplit('.').next().unwrap_or(key).to_string(),
        },
    }
}

/// The levels of a factor, in the order of the cases.
fn levels(plan: &Plan, key: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for level in plan.cases.iter().filter_map(|case| case.levels.get(key)) {
        if !found.contains(level) {
            found.push(level.clone());
        }
    }
    found
}

/// Names hold letters, digits, `-`, `_` and `.`.
fn kept(c: char) -> char {
    if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_varies() {
        let check = |text: &str, asks_clients: bool, expected: Option<&str>| {
            let plan = crate::plan::sample::plan(text);
            assert_eq!(name(&plan, asks_clients).as_deref(), expected, "{text}");
        };
        let clients = "[workload]\nclients = [1, 8]\n";
        check(clients, false, None);
        check(clients, true, Some("clients-1-8"));
        check("[workload]\nclients = 8\n", true, Some("clients-8"));
        check(&format!("[server]\nversion = [\"15\", \"18\"]\n{clients}"), false, Some("versions-15-18"));
        check(
            "[server.settings]\nshared_buffers = [\"1GB\", \"2GB\"]\n",
            false,
            Some("settings-shared_buffers"),
        );
        check("[workload]\nkind = \"tpcb-select\"\n", false, Some("tpcb-select"));
        check("[workload]\nkind = [\"tpcb\", \"tpcb-select\"]\n", false, Some("workloads-tpcb-tpcb-select"));
        check("[workload]\nscale = [10, 100]\n", false, Some("scale"));
        let many = (1..=60).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        check(&format!("[workload]\nclients = [{many}]\n"), true, Some("clients"));
    }
}
