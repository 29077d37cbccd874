//! What of a load only reads, and so goes where `workload.reads` says.

use std::collections::BTreeSet;

use model::experiment::case::{Case, WorkloadSpec};
use model::experiment::keys;
use model::experiment::script::{CaseScript, ScriptTarget};
use model::experiment::topology::Reads;
use model::workload::Programs;
use workload::{catalogue, reads};

use crate::plan::scripts::sessions;

/// The part of a load that only reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadPart {
    /// None of its transactions.
    Nothing,
    /// Those of the scripts with these names, but not all.
    Some(BTreeSet<String>),
    /// All.
    All,
}

/// What of a workload only reads, as far as its texts tell, unless a script says where it goes.
pub(crate) fn part(workload: &WorkloadSpec) -> ReadPart {
    let row = workload.kind.row();
    if workload.only_reads && workload.scripts.is_empty() {
        return ReadPart::All;
    }
    match row.programs {
        Programs::Native(_) if row.reads.is_empty() => ReadPart::Nothing,
        Programs::Native(_) => ReadPart::Some(row.reads.iter().map(|name| name.to_string()).collect()),
        Programs::Scripts => of_judged(
            catalogue::scripts(workload.kind).iter().map(|one| (one.name, reads::only_reads(one.text))),
        ),
        Programs::Own => {
            let used = workload.scripts.iter().filter(|script| script.weight > 0);
            of_judged(used.map(|script| (script.name.as_str(), goes_to_reads(workload, script))))
        }
    }
}

/// The scripts of a case whose transactions go over a second connection of each client.
pub(crate) fn over_second_connection(case: &Case) -> Option<BTreeSet<String>> {
    if case.get(keys::workload::READS) == Reads::Primary {
        return None;
    }
    match part(&case.workload) {
        ReadPart::Some(names) => Some(names),
        ReadPart::Nothing | ReadPart::All => None,
    }
}

/// How many connections the clients of a case have.
pub fn n_connections(case: &Case) -> u32 {
    let n_clients = case.workload.n_clients;
    let has_two = over_second_connection(case).is_some() && !sessions::connects_each(&case.workload);
    if has_two { n_clients.saturating_mul(2) } else { n_clients }
}

fn goes_to_reads(workload: &WorkloadSpec, script: &CaseScript) -> bool {
    let reads = || workload.only_reads || reads::only_reads(&script.source);
    script.to.map_or_else(reads, |to| to == ScriptTarget::Reads)
}

fn of_judged<'a>(scripts: impl Iterator<Item = (&'a str, bool)>) -> ReadPart {
    let (reading, others): (Vec<_>, Vec<_>) = scripts.partition(|(_, reads)| *reads);
    match (reading.is_empty(), others.is_empty()) {
        (true, _) => ReadPart::Nothing,
        (false, true) => ReadPart::All,
        (false, false) => ReadPart::Some(reading.iter().map(|(name, _)| name.to_string()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;

    #[test]
    fn a_mix_is_parted_by_its_texts_unless_a_script_says_where_it_goes() {
        let some = |names: &[&str]| ReadPart::Some(names.iter().map(|name| name.to_string()).collect());
        for (workload, expected) in [
            ("kind = \"tpcb-select\"", ReadPart::All),
            ("kind = \"tpcb\"", ReadPart::Nothing),
            ("kind = \"tpcc\"", some(&["order-status", "stock-level"])),
            (
                "kind = \"scripts\"\nscripts = [{name = \"select-only\", builtin = \"select-only\"}, \
                 {name = \"b\", builtin = \"tpcb-like\"}]",
                some(&["select-only"]),
            ),
            (
                "kind = \"scripts\"\nscripts = [{name = \"a\", text = \"select f();\", to = \"reads\"}, \
                 {name = \"b\", text = \"select 1;\", to = \"primary\"}]",
                some(&["a"]),
            ),
            ("kind = \"scripts\"\nscripts = [{name = \"a\", text = \"select f();\"}]", ReadPart::Nothing),
            (
                "kind = \"scripts\"\nscripts = [\"builtin:select-only@1\", \"builtin:tpcb-like@0\"]",
                ReadPart::All,
            ),
        ] {
            let plan = sample::plan(&format!("[workload]\n{workload}\n"));
            assert_eq!(part(&plan.cases[0].workload), expected, "{workload}");
        }
    }
}
