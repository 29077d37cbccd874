//! What `workload.apply` cost and gained, in words.

use analysis::comparison::{AppliedSide, CaseComparison, StatementComparison, StatementVerdict};
use model::text::prose::joined;

use crate::prose::scripts::compared::of_time;
use crate::prose::{format, phrases};

/// Relations that are named.
const NAMED_MAX: usize = 3;
/// First words of statements that write.
const WRITERS: [&str; 5] = ["insert", "update", "delete", "merge", "copy"];

/// A line for each side that applied something, and one with what statements gained and writers lost.
pub(crate) fn lines(case: &CaseComparison) -> Vec<String> {
    let names = case.purpose.names();
    let sides = case.applied.iter().zip(names);
    let mut lines: Vec<String> =
        sides.filter_map(|(side, name)| side.as_ref().map(|side| built(side, name))).collect();
    // The statements of B against those of A: what A applied would be the other way round.
    if let [None, Some(_)] = case.applied {
        lines.extend(gain(case));
    }
    lines
}

/// `B applies CREATE INDEX ...: built in 1.2 s, the data grew by 21.4 MiB (index t_a_idx +21.4 MiB)`.
fn built(side: &AppliedSide, name: &str) -> String {
    let sql: String = phrases::one_line(&side.sql).chars().take(120).collect();
    let signed = |bytes: f64| {
        let sign = if bytes < 0.0 { "-" } else { "+" };
        format!("{sign}{}", format::bytes(bytes.abs()))
    };
    let of_relation = |(relation, kind, growth): &(String, String, f64)| {
        format!("{kind} {} {}", phrases::one_line(relation), signed(*growth))
    };
    let mut parts: Vec<String> = side.relations.iter().take(NAMED_MAX).map(of_relation).collect();
    if side.relations.len() > NAMED_MAX {
        parts.push(format!("{} more", side.relations.len() - NAMED_MAX));
    }
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    let growth = match side.growth_bytes {
        0.0 => "the size of the data did not change".to_string(),
        bytes => format!("size {}{parts}", signed(bytes)),
    };
    format!(
        "{name} applies `{sql}`: built in {} (median of {}), {growth}",
        of_time(1e9 * side.build_s),
        phrases::plural(side.n_runs, "run")
    )
}

fn is_writer(one: &StatementComparison) -> bool {
    let word =
        one.statement.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    WRITERS.contains(&word.to_ascii_lowercase().as_str())
}

fn gain(case: &CaseComparison) -> Option<String> {
    let all = || case.statements.all.iter();
    let sum = |verdict: StatementVerdict, is_wanted: &dyn Fn(&StatementComparison) -> bool| {
        let found: Vec<&StatementComparison> =
            all().filter(|one| one.verdict == verdict && is_wanted(one)).collect();
        let ns: f64 = found.iter().map(|one| one.part.ns.abs()).sum();
        (found.len(), ns)
    };
    let (n_faster, gained) = sum(StatementVerdict::Faster, &|_| true);
    let (n_writers, lost) = sum(StatementVerdict::Slower, &is_writer);
    let (n_others, lost_elsewhere) = sum(StatementVerdict::Slower, &|one| !is_writer(one));
    let part = |n: usize, noun: &str, verb: &str, ns: f64| {
        (n > 0).then(|| format!("{} {verb} {} of a transaction", phrases::plural(n, noun), of_time(ns)))
    };
    let parts: Vec<String> = [
        part(n_faster, "statement", if n_faster == 1 { "gains" } else { "gain" }, gained),
        part(n_writers, "writer", if n_writers == 1 { "loses" } else { "lose" }, lost),
        part(n_others, "other statement", if n_others == 1 { "loses" } else { "lose" }, lost_elsewhere),
    ]
    .into_iter()
    .flatten()
    .collect();
    all().next()?;
    Some(match parts.as_slice() {
        [] => "no statement is faster or slower for sure with it".to_string(),
        parts => format!("with it, {}", joined(parts)),
    })
}
