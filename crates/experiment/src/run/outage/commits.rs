//! What became of the load's commits: the tokens of each server that could have them, the killed one's after a start of its own.

use std::time::Duration;

use anyhow::{Context, Result};
use dataset::acid::tokens::{self, NodeTokens, Takeover, TokenPlace};
use model::experiment::case::Case;
use model::experiment::topology::outage::PRIMARY;
use model::load::execution::Execution;
use model::run::server::outage::{OutageRecord, READ_COMMITS};
use wire::Session;
use workload::Schema;

use super::step;
use crate::plan::scripts::ledger::{self, LedgerPlace};
use crate::stage::Stage;

/// The reason why tokens say nothing on data that is used as it is.
const STALE: &str = "prepare.restore is off, so that tokens of earlier loads may be there";
/// How long the tokens of one server may take.
const READ_MAX: Duration = Duration::from_secs(120);

/// The load of a run whose commits are looked for.
pub(crate) struct LoadCommits<'a> {
    pub(crate) case: &'a Case,
    /// Where the tables of the workload are.
    pub(crate) schema: Schema,
    /// Each transaction, as the drivers reported it.
    pub(crate) executions: &'a [Execution],
    /// When the load began, nanoseconds since the Unix epoch.
    pub(crate) go: u64,
}

impl LoadCommits<'_> {
    /// Records what each server has, the survivor first. What cannot be read is unknown.
    pub(crate) fn judge(&self, stage: &mut Stage, record: &mut OutageRecord) {
        let is_lost = self.case.outage.as_ref().is_some_and(|outage| outage.fault.ends_primary());
        if is_lost && record.survivor.is_none() {
            // Nobody took over: the rows are those of the one that was lost.
            if let Err(error) = start_lost(stage, record) {
                return record.ledger_unavailable = Some(format!("{error:#}"));
            }
        }

        let place = match ledger::of_case(self.case) {
            Ok(LedgerPlace::None(reason)) => return record.ledger_unavailable = Some(reason),
            Err(reason) => return record.ledger_unavailable = Some(reason),
            Ok(LedgerPlace::Table { is_made: true }) => TokenPlace::Table,
            Ok(_) if !self.case.prepare.restore => {
                return record.ledger_unavailable = Some(STALE.to_string());
            }
            Ok(LedgerPlace::History) => TokenPlace::History(self.schema.clone()),
            Ok(LedgerPlace::Table { is_made: false }) => TokenPlace::Table,
        };
        let survivor = record.survivor.clone().unwrap_or_else(|| PRIMARY.to_string());
        let of_survivor = match read(stage, &survivor, &place) {
            Ok(found) => found,
            Err(error) => return record.ledger_unavailable = Some(format!("{error:#}")),
        };
        record.ledgers.push(tokens::judge(&of_survivor, self.executions, None));

        if survivor != PRIMARY {
            self.judge_former(stage, record, &place, &of_survivor);
        }
    }

    /// The same of the first primary. That it cannot be read takes nothing from what the survivor says.
    fn judge_former(
        &self,
        stage: &mut Stage,
        record: &mut OutageRecord,
        place: &TokenPlace,
        of_survivor: &NodeTokens,
    ) {
        let at_ns = record.ready_unix_ns.unwrap_or(u64::MAX).saturating_sub(self.go);
        let takeover = Takeover { at_ns, tokens: of_survivor };
        match start_lost(stage, record).and_then(|()| read(stage, PRIMARY, place)) {
            Ok(former) => record.ledgers.push(tokens::judge(&former, self.executions, Some(takeover))),
            Err(error) => record.former_unavailable = Some(format!("{error:#}")),
        }
    }
}

/// Starts the first primary again, to be read. One that still runs, or runs again since its fault was undone, is read as it is.
fn start_lost(stage: &mut Stage, record: &mut OutageRecord) -> Result<()> {
    if stage.node(PRIMARY)?.server().check_running().is_ok() {
        return Ok(());
    }
    step(record, READ_COMMITS.to_string(), || stage.node(PRIMARY)?.start_again())
}

fn read(stage: &mut Stage, node: &str, place: &TokenPlace) -> Result<NodeTokens> {
    let conninfo = match stage.server() {
        Some(_) => stage.node(node)?.conninfo(),
        None => stage.conninfo()?,
    };
    let mut session =
        Session::connect(&conninfo).with_context(|| format!("connect to `{node}`, for its commits"))?;
    tokens::read(&mut session, node, place, READ_MAX)
}
