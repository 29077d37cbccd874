//! Data on disks that are lost with their machine.

use super::super::format::list;
use super::super::{ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};

pub(in crate::findings) const LOST_WITH_MACHINE: Rule = Rule {
    id: "lost-with-machine",
    title: "Data is on a disk that is lost with the machine",
    severity: "Note when data or WAL on the observed machine are on EC2's instance store, GCP's local SSD or \
               Azure's temporary disk",
    source: "EC2 (instance store), Google Cloud (Local SSD) and Azure (temporary disk): their documentation",
    advice: "State it with the number, and compare with a network disk; durability needs a synchronous \
             standby or streamed WAL.",
    evidence: "Model of the disk and vendor of the machine (/sys), also below RAID, LVM and encryption. EC2's machines with Xen name no model.",
    why: "Local disks are faster because they do not promise to outlive their machine.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(lost_with_machine),
};

fn lost_with_machine(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    if !record.server_is_local {
        return None;
    }
    let host = record.host.as_ref()?;
    let of_role =
        |role: &str| Some(format!("{role} on {}", host.mounts.get(role)?.facts.get("lost_with_machine")?));
    let all: Vec<String> = ["data", "wal"].into_iter().filter_map(of_role).collect();
    (!all.is_empty()).then(|| LOST_WITH_MACHINE.finds(Severity::Note, list(&all, 4)))
}
