//! The protocol of loads for which nobody chose one: prepared statements, unless a pooler in front of the server loses them.

use std::sync::atomic::AtomicBool;

use dataset::session::limit;
use model::experiment::Experiment;
use model::experiment::case::ServerSource;
use model::experiment::keys::levels::Levels;
use model::experiment::plan::Plan;
use model::load::Protocol;
use wire::Conninfo;

use crate::site::{conninfo, phase_limit};
use crate::stage::adopted;

/// Gives the loads on servers behind such a pooler the extended protocol. Returns what to say about it, if there is one. Servers that
/// cannot be examined are left alone: why, is reported where the plan is looked at.
pub fn fall_back(
    plan: &mut Plan,
    experiment: &mut Experiment,
    servers: &[Conninfo],
    stop: &'static AtomicBool,
) -> Option<String> {
    let mut seen: Vec<(ServerSource, bool)> = Vec::new();
    let mut places: Vec<String> = Vec::new();
    for case in plan.cases.iter_mut().filter(|case| case.workload.protocol == Protocol::Prepared) {
        let ServerSource::Url(keywords) = &case.server.source else { continue };
        let known = seen.iter().find(|(source, _)| *source == case.server.source).map(|(_, loses)| *loses);
        let loses = known.unwrap_or_else(|| {
            let examined = conninfo(servers, keywords).and_then(|conninfo| {
                let look = || adopted::loses_prepared(&conninfo, stop);
                let loses = limit::within("examine the server", phase_limit::of_questions(case), look)?;
                places.extend(loses.then(|| format!("`{conninfo}`")));
                Ok(loses)
            });
            let loses = examined.unwrap_or(false);
            seen.push((case.server.source.clone(), loses));
            loses
        });
        if loses {
            case.workload.protocol = Protocol::Extended;
        }
    }
    // One file asks for all servers alike.
    if !places.is_empty() && plan.cases.iter().all(|case| case.workload.protocol == Protocol::Extended) {
        experiment.workload.protocol = Levels::one(Protocol::Extended);
    }
    (!places.is_empty()).then(|| words(&places.join(", ")))
}

fn words(places: &str) -> String {
    format!(
        "Protocol: extended instead of prepared, as nobody chose one: the pooler at {places} assigns server connections per transaction, \
         and prepared statements are lost between them."
    )
}
