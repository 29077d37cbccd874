//! The title of an experiment that has none of its own: workload, server and what is measured by which factors.

use model::experiment::case::{Case, ServerSource};
use model::experiment::keys;
use model::text::prose::joined;

/// `TPC-B-like on bench at db1:5432: throughput by clients`.
pub(crate) fn title(cases: &[Case], factors: &[String]) -> String {
    let Some(first) = cases.first() else { return String::new() };
    let by: Vec<String> = factors.iter().map(|key| factor(key).to_string()).collect();
    let by = match by.as_slice() {
        [] => {
            let clients = model::text::prose::plural(first.workload.n_clients, "client");
            // The figure of a search has a `with` of its own.
            if first.workload.pace.target().is_some() {
                format!(", {clients}")
            } else {
                format!(" with {clients}")
            }
        }
        by => format!(" by {}", joined(by)),
    };
    format!("{} on {}: {}{by}", several(cases, workload), servers(cases), several(cases, figure))
}

fn factor(key: &str) -> &str {
    const BIN_DIR: &str = keys::server::BIN_DIR.name;
    const URL: &str = keys::server::URL.name;
    const KIND: &str = keys::workload::KIND.name;
    const POOLER: &str = keys::pooler::KIND.name;
    match key {
        BIN_DIR => "binaries",
        URL => "server",
        KIND => "workload",
        POOLER => "pooler",
        _ => key.rsplit('.').next().unwrap_or(key),
    }
}

fn workload(case: &Case) -> String {
    if let Some(directory) = &case.workload.directory {
        return directory.title_words();
    }
    match case.workload.scripts.as_slice() {
        [] => case.workload.kind.row().title.to_string(),
        few @ ([_] | [_, _]) => joined(&few.iter().map(|script| script.name.clone()).collect::<Vec<_>>()),
        many => format!("{} scripts", many.len()),
    }
}

fn figure(case: &Case) -> String {
    let pace = case.workload.pace;
    match pace.target() {
        Some(target) => format!("highest rate with {target}"),
        None if pace.is_open() => format!("latency at {pace}"),
        None => case.workload.kind.row().figure.word().to_string(),
    }
}

fn servers(cases: &[Case]) -> String {
    let version = |case: &Case| match (&case.server.target, &case.server.source) {
        (None, source) => source.version().map(ToString::to_string),
        (Some(_), _) => None,
    };
    match cases.iter().map(version).collect::<Option<Vec<String>>>() {
        Some(versions) => {
            let versions = distinct(versions);
            match versions.as_slice() {
                [first, _, _, _, ..] => format!("PostgreSQL {first} to {}", versions[versions.len() - 1]),
                few => format!("PostgreSQL {}", joined(few)),
            }
        }
        None => several(cases, server),
    }
}

fn server(case: &Case) -> String {
    if let Some(target) = &case.server.target {
        return target.name.clone();
    }
    let keywords = match &case.server.source {
        ServerSource::Url(keywords) => keywords,
        ServerSource::Source { .. } => return format!("PostgreSQL {}", case.server.source),
        ServerSource::BinDir(dir) => return format!("the server in {}", dir.display()),
        ServerSource::Version(_) | ServerSource::Installed(_) => return case.server.source.to_string(),
    };
    let of = |key: &str| keywords.get(key).cloned().unwrap_or_default();
    let host = if of("host").is_empty() { of("hostaddr") } else { of("host") };
    format!("{} at {host}:{}", of("dbname"), of("port"))
}

/// What the cases have in common, or up to three different things.
fn several(cases: &[Case], of: fn(&Case) -> String) -> String {
    let words = distinct(cases.iter().map(of).collect());
    match words.as_slice() {
        [first, _, _, _, ..] => format!("{first} and {} others", words.len() - 1),
        few => joined(few),
    }
}

fn distinct(mut words: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words
}

#[cfg(test)]
mod tests {
    use crate::plan::sample::plan;

    #[test]
    fn a_title_names_what_is_measured_unless_the_user_gives_one() {
        for (text, expected) in [
            ("[workload]\nclients = [1, 8]", "TPC-B-like on PostgreSQL 18: throughput by clients"),
            (
                "[server]\nversion = [\"13\", \"18\"]\n[workload]\nclients = 4",
                "TPC-B-like on PostgreSQL 13 and 18: throughput by version",
            ),
            (
                "[server]\nversion = [\"13\", \"14\", \"15\", \"16\", \"18\"]\n[workload]\nclients = [1, 4]",
                "TPC-B-like on PostgreSQL 13 to 18: throughput by version and clients",
            ),
            ("[workload]\nclients = 1", "TPC-B-like on PostgreSQL 18: throughput with 1 client"),
            (
                "[server]\nsource = \"/pg\"\nrevision = \"REL_12_1\"\n[workload]\nclients = 1",
                "TPC-B-like on PostgreSQL built from `/pg` at REL_12_1: throughput with 1 client",
            ),
            (
                "[workload]\nkind = \"tpcc\"\n[server.settings]\nwork_mem = [\"4MB\", \"64MB\"]",
                "TPC-C-like on PostgreSQL 18: NOPM by work_mem",
            ),
            (
                "[workload]\npace = \"max with p99 <= 10ms\"\nclients = [8, 16]\n[run]\nmeasure = \"60s\"",
                "TPC-B-like on PostgreSQL 18: highest rate with p99 <= 10ms by clients",
            ),
            (
                "[workload]\npace = [\"1000/s\", \"2000/s\"]\nclients = 8",
                "TPC-B-like on PostgreSQL 18: latency at 1000/s and latency at 2000/s by pace",
            ),
            (
                "[workload]\npace = \"max with p99 <= 10ms\"\nclients = 16\n[run]\nmeasure = \"60s\"",
                "TPC-B-like on PostgreSQL 18: highest rate with p99 <= 10ms, 16 clients",
            ),
            ("title = \"My own\"\n[workload]\nclients = [1, 8]", "My own"),
        ] {
            assert_eq!(plan(text).title, expected, "{text}");
        }
    }
}
