//! Whether the transactions of a case write tokens, by which their commits are found again, and where.

use model::experiment::case::{Case, WorkloadSpec};
use model::experiment::keys;
use model::load::ScriptSpec;
use model::workload::Programs;
use workload::catalogue;
use workload::ledger::{self, Tokens};

/// Variables that tokens consist of, which nobody else may set.
const VARIABLES: [&str; 2] = ["client_id", ledger::NUMBER];

/// Where the transactions of a case write their tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LedgerPlace {
    /// Nowhere, for this reason.
    None(String),
    /// Into the filler of their rows in `pgbench_history`.
    History,
    /// Into [`ledger::TABLE`]; `is_made` says whether pgdyno creates it, because a script does not write its tokens itself.
    Table {
        /// Whether pgdyno creates the table.
        is_made: bool,
    },
}

/// The place of the tokens of a case.
///
/// # Errors
/// When the case asks for tokens, by `workload.ledger` or by its outage, and a token of a script would not show whether its transaction was
/// committed: the reason, and what to do.
pub(crate) fn of_case(case: &Case) -> Result<LedgerPlace, String> {
    let asked = case.get(keys::workload::LEDGER);
    if !asked.unwrap_or(case.outage.is_some()) {
        return Ok(LedgerPlace::None(format!("{} is false", keys::workload::LEDGER)));
    }
    match possible(&case.workload) {
        Ok(LedgerPlace::None(reason)) if asked == Some(true) => {
            Err(format!("{}: {reason}; leave it out", keys::workload::LEDGER))
        }
        Err(reason) => Err(format!("{reason}, or set {} = false", keys::workload::LEDGER)),
        possible => possible,
    }
}

fn possible(workload: &WorkloadSpec) -> Result<LedgerPlace, String> {
    let kind = workload.kind;
    match kind.row().programs {
        Programs::Native(_) => Ok(LedgerPlace::None(format!("the transactions of `{kind}` write no tokens"))),
        Programs::Scripts => {
            let writes =
                catalogue::scripts(kind).iter().any(|script| ledger::in_history(script.text) != script.text);
            Ok(if writes { LedgerPlace::History } else { LedgerPlace::None(only_reads(kind.as_str())) })
        }
        Programs::Own => own(workload),
    }
}

fn own(workload: &WorkloadSpec) -> Result<LedgerPlace, String> {
    let given = workload.defines.keys().find(|name| VARIABLES.contains(&name.as_str()));
    if let Some(name) = given {
        return Err(format!("workload.defines.{name}: tokens consist of it; rename the variable"));
    }
    let (mut is_written, mut is_made) = (false, false);
    for script in workload.scripts.iter().filter(|script| script.weight > 0) {
        let tokens = ledger::in_table(&script.source);
        let tokens =
            tokens.map_err(|error| format!("script `{}` has no place for a token: {error}", script.name))?;
        is_written |= tokens != Tokens::NotNeeded;
        is_made |= matches!(tokens, Tokens::Written(_));
    }
    Ok(if is_written { LedgerPlace::Table { is_made } } else { LedgerPlace::None(only_reads("the load")) })
}

fn only_reads(what: &str) -> String {
    format!("{what} only reads, so that no commit can be lost")
}

/// The scripts with what writes their tokens.
pub(crate) fn with_tokens(place: &LedgerPlace, mut scripts: Vec<ScriptSpec>) -> Vec<ScriptSpec> {
    for script in &mut scripts {
        match place {
            LedgerPlace::None(_) => {}
            LedgerPlace::History => script.source = ledger::in_history(&script.source),
            LedgerPlace::Table { .. } => {
                if let Ok(Tokens::Written(source)) = ledger::in_table(&script.source) {
                    script.source = source;
                }
            }
        }
    }
    scripts
}
