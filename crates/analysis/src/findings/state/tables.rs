//! Findings about tables that differ from those that `pgdyno init` creates.

use std::collections::BTreeMap;

use model::experiment::script::CaseData;
use model::run::RunRecord;
use model::workload::Dataset;
use model::workload::data::TableSet;

use crate::finding::{Finding, Severity};
use crate::findings::format::list;
use crate::findings::{Rule, RuleCheck, RunContext};

pub(in crate::findings) const TABLES_ALTERED: Rule = Rule {
    id: "tables-altered",
    title: "Tables are not those that pgdyno init makes",
    severity: "Doubt when a table of a dataset is UNLOGGED (or is not, where workload.unlogged asks for it), lacks its primary key (Void \
               in a built-in workload), or has further indexes, foreign keys, checks, triggers, rules, policies or publications; Note for \
               a fill factor and other storage parameters",
    source: "pgbench documentation, initialization; TPC-C 1.3 and 1.4",
    advice: "Load the tables again (pgdyno init --replace), or state with the number how they differ.",
    evidence: "Tables, columns, constraints, indexes, triggers, rules, policies and publications in the \
               catalog before the load.",
    why: "Statements do more or less work than on the tables that others measure.",
    tested: "UNLOGGED, a missing primary key, another index, a trigger and a fill factor on tables of pgdyno init, by URL and on one side \
             of a comparison.",
    check: RuleCheck::Run(tables_altered),
};

fn tables_altered(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let definitions = &record.fingerprint.as_ref()?.definitions;
    // Tables of the user's scripts are recorded with their schemas.
    let plain = |name: &str| name.rsplit('.').next().unwrap_or_default().to_string();
    let known = definitions.iter().filter(|(name, _)| is_known(record, &plain(name)));
    let mut found: Vec<(Severity, String)> = known
        .flat_map(|(name, objects)| unusual(&plain(name), objects, Asked::from_record(record)))
        .collect();
    found.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    let severity = found.first()?.0;
    let texts: Vec<String> = found.into_iter().map(|(_, text)| text).collect();
    let finding = TABLES_ALTERED.finds(severity, list(&texts, 6));
    Some(Finding { advice: advice(record), ..finding })
}

/// The rule's advice with the options that load the same data where the run found it.
fn advice(record: &RunRecord) -> String {
    let workload = &record.case.workload;
    match Dataset::from_case_data(&workload.data) {
        Some(dataset) if !record.case.server.source.is_embedded() => {
            let again = format!(
                "pgdyno init --replace -w {} -s {} --server URL",
                dataset.row().workload.as_str(),
                workload.scale
            );
            TABLES_ALTERED.advice.replace("pgdyno init --replace", &again)
        }
        _ => TABLES_ALTERED.advice.to_string(),
    }
}

/// Properties of the tables that were asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// A built-in workload.
    is_built_in: bool,
    /// UNLOGGED tables.
    is_unlogged: bool,
}

impl Asked {
    fn from_record(record: &RunRecord) -> Asked {
        Asked { is_built_in: record.survey.is_none(), is_unlogged: record.case.workload.layout.unlogged }
    }
}

/// Whether pgdyno knows how the table should be. Tables of the user's own files or archive are the user's.
fn is_known(record: &RunRecord, table: &str) -> bool {
    match &record.case.workload.data {
        CaseData::Archive(archive) => archive.tables_of.is_some(),
        CaseData::Files(_) | CaseData::Directory => false,
        CaseData::Loaded(dataset) if !dataset.row().are_names_distinct => true,
        // Own scripts may use these tables too.
        CaseData::Loaded(_) | CaseData::None => is_any(
            |row, name| row.are_names_distinct && row.tables.iter().any(|known| known.name == name),
            table,
        ),
    }
}

/// Whether some set of tables fits a name.
fn is_any(fits: impl Fn(&TableSet, &str) -> bool, name: &str) -> bool {
    Dataset::ALL.into_iter().any(|dataset| fits(dataset.row(), name))
}

/// What is unusual about a table, each with its weight.
fn unusual(table: &str, objects: &BTreeMap<String, String>, asked: Asked) -> Vec<(Severity, String)> {
    let mut found = Vec::new();
    let primary: Vec<&str> = objects
        .iter()
        .filter(|(_, definition)| definition.starts_with("PRIMARY KEY"))
        .filter_map(|(object, _)| object.strip_prefix("constraint "))
        .collect();
    if primary.is_empty() && !is_any(|row, name| row.history_table == Some(name), table) {
        let severity = if asked.is_built_in { Severity::Void } else { Severity::Doubt };
        found.push((severity, format!("`{table}` has no primary key")));
    }
    for (object, definition) in objects {
        let (kind, name) = object.split_once(' ').unwrap_or((object, ""));
        let doubt = match kind {
            "table" | "part" => {
                found.extend(storage(table, definition, asked));
                continue;
            }
            "index" => !primary.contains(&name) && !is_any(|row, name| row.indexes.contains(&name), name),
            "constraint" => !definition.starts_with("PRIMARY KEY"),
            "trigger" | "rule" | "policy" | "publication" | "foreign" => true,
            _ => false,
        };
        if doubt {
            found.push((Severity::Doubt, format!("{object} on `{table}`")));
        }
        if definition.ends_with("(invalid)") {
            found.push((Severity::Doubt, format!("{object} on `{table}` is invalid")));
        }
    }
    found
}

/// What is unusual about how a table is stored.
fn storage(table: &str, definition: &str, asked: Asked) -> Vec<(Severity, String)> {
    // It has no storage of its own.
    let is_partitioned = definition.contains("partitioned");
    let words = definition.split(", ").filter_map(|word| match word {
        "partitioned" | "fillfactor=100" => None,
        "logged" if !asked.is_unlogged || is_partitioned => None,
        "UNLOGGED" if asked.is_unlogged => None,
        "logged" => Some((Severity::Doubt, word)),
        "UNLOGGED" | "temporary" | "row security" | "foreign" | "view" | "materialized view" => {
            Some((Severity::Doubt, word))
        }
        word if word.starts_with("using ") => Some((Severity::Doubt, word)),
        word => Some((Severity::Note, word)),
    });
    words.map(|(severity, word)| (severity, format!("`{table}` is stored with: {word}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_as_init_makes_it_is_usual_and_others_are_named() {
        let usual = [
            ("table", "logged, fillfactor=100"),
            ("columns of pgbench_tellers", "tid integer not null"),
            ("constraint pgbench_tellers_pkey", "PRIMARY KEY (tid)"),
            ("index pgbench_tellers_pkey", "CREATE UNIQUE INDEX"),
        ];
        let check = |without: &str, with: &[(&str, &str)], expected: &[(Severity, &str)]| {
            let all =
                usual.iter().filter(|(name, _)| without.is_empty() || !name.contains(without)).chain(with);
            let objects = all.map(|(name, text)| (name.to_string(), text.to_string())).collect();
            let asked = Asked { is_built_in: true, is_unlogged: false };
            let found = unusual("pgbench_tellers", &objects, asked);
            let found: Vec<(Severity, &str)> = found.iter().map(|(s, text)| (*s, text.as_str())).collect();
            assert_eq!(found, expected, "{with:?}");
        };
        use Severity::{Doubt, Note, Void};
        check("", &[], &[]);
        check("_pkey", &[], &[(Void, "`pgbench_tellers` has no primary key")]);
        check("", &[("table", "UNLOGGED")], &[(Doubt, "`pgbench_tellers` is stored with: UNLOGGED")]);
        check(
            "",
            &[("table", "logged, fillfactor=50")],
            &[(Note, "`pgbench_tellers` is stored with: fillfactor=50")],
        );
        check("", &[("index more", "CREATE INDEX")], &[(Doubt, "index more on `pgbench_tellers`")]);
        check("", &[("trigger audit", "f()")], &[(Doubt, "trigger audit on `pgbench_tellers`")]);
        check(
            "",
            &[("constraint fk", "FOREIGN KEY (bid)")],
            &[(Doubt, "constraint fk on `pgbench_tellers`")],
        );
        check("", &[("statistics s", "s")], &[]);
        let asked = Asked { is_built_in: true, is_unlogged: true };
        let stored = |definition: &str| storage("t", definition, asked);
        assert_eq!(stored("UNLOGGED, fillfactor=100"), []);
        assert_eq!(stored("logged, partitioned"), []);
        assert_eq!(stored("logged"), [(Doubt, "`t` is stored with: logged".to_string())]);
    }
}
