//! The protocol of loads for which nobody chose one: prepared statements, unless a pooler in front of the server loses them.

use std::sync::atomic::AtomicBool;

use dataset::session::limit;
use model::experiment::case::ServerSource;
use model::experiment::plan::Plan;
use model::load::Protocol;
use wire::Conninfo;

use crate::forecast::preflight::Failed;
use crate::site::{conninfo, phase_limit};
use crate::stage::adopted;

/// What was found out about the servers of a plan.
#[derive(Debug, Clone, Default)]
pub struct FellBack {
    /// What to say about the protocol, if it is another one than usual.
    pub note: Option<String>,
    /// Servers that could not be examined. They are not asked again: one that never answers would be waited for twice.
    pub failed: Vec<Failed>,
}

/// Gives the loads on servers behind such a pooler the extended protocol.
pub fn fall_back(plan: &mut Plan, servers: &[Conninfo], stop: &'static AtomicBool) -> FellBack {
    let mut seen: Vec<(ServerSource, bool)> = Vec::new();
    let mut places: Vec<String> = Vec::new();
    let mut failed: Vec<Failed> = Vec::new();
    for case in plan.cases.iter_mut().filter(|case| case.workload.protocol == Protocol::Prepared) {
        let source = &case.server.source;
        let ServerSource::Url(keywords) = source else { continue };
        let known = seen.iter().find(|(seen, _)| seen == source).map(|(_, loses)| *loses);
        let loses = known.unwrap_or_else(|| {
            let examined = conninfo(servers, keywords).and_then(|conninfo| {
                let look = || adopted::loses_prepared(&conninfo, stop);
                let loses = limit::within("examine the server", phase_limit::of_questions(case), look)?;
                places.extend(loses.then(|| format!("`{conninfo}`")));
                Ok(loses)
            });
            let loses = examined.unwrap_or_else(|error| {
                failed.push(Failed { source: source.clone(), reason: format!("{error:#}") });
                false
            });
            seen.push((source.clone(), loses));
            loses
        });
        if loses {
            case.workload.protocol = Protocol::Extended;
        }
    }
    FellBack { note: (!places.is_empty()).then(|| words(&places.join(", "))), failed }
}

fn words(places: &str) -> String {
    format!(
        "Protocol: extended instead of prepared, as nobody chose one: the pooler at {places} assigns server connections per transaction, \
         and prepared statements are lost between them."
    )
}
