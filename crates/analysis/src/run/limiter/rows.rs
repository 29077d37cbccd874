//! Rows that the clients of a built-in workload must share: with more clients than rows, some wait for each other whatever else limits.
//!
//! Own scripts are not looked into, so they share nothing that is known here.

use model::experiment::case::{Think, WorkloadSpec};
use model::telemetry::wait::WaitStage;
use model::text::prose::plural;

use crate::run::limiter::MeasurementFacts;

/// `64 clients share 10 branches`; none where there are as many rows as clients, or nothing is known to be shared.
pub(crate) fn words(workload: &WorkloadSpec) -> Option<String> {
    // Clients that key and think are rarely at work at the same time.
    if workload.tpcc.is_some_and(|tpcc| tpcc.think == Think::Spec) {
        return None;
    }
    let shared = workload.kind.row().shared.as_ref()?;
    (workload.n_clients > workload.scale).then(|| {
        format!(
            "{} share {} ({}; {})",
            plural(workload.n_clients, "client"),
            format_args!("{} {}", workload.scale, shared.nouns[usize::from(workload.scale != 1)]),
            shared.also,
            shared.by
        )
    })
}

/// The mean number of clients that waited for a lock.
pub(super) fn waiting(facts: &MeasurementFacts) -> f64 {
    facts.sessions_where(|what| WaitStage::from_event(what, true) == Some(WaitStage::Lock))
}

#[cfg(test)]
mod tests {
    use model::experiment::case::{TpccSpec, WorkloadKind};

    use super::*;

    #[test]
    fn more_clients_than_rows_that_they_share_are_named_with_the_rows() {
        let of =
            |kind, n_clients, scale| words(&WorkloadSpec { n_clients, ..WorkloadSpec::new(kind, scale) });
        let said = of(WorkloadKind::Tpcb, 64, 10);
        let expected =
            "64 clients share 10 branches (and ten times as many tellers; each transaction updates one)";
        assert_eq!(said.as_deref(), Some(expected));
        assert!(
            of(WorkloadKind::Tpcc, 8, 1)
                .is_some_and(|words| words.starts_with("8 clients share 1 warehouse ("))
        );
        for (kind, n_clients, scale) in [
            (WorkloadKind::Tpcb, 10, 10),
            (WorkloadKind::TpcbSimple, 64, 1),
            (WorkloadKind::TpcbSelect, 64, 1),
            (WorkloadKind::Scripts, 64, 1),
            (WorkloadKind::Tpcc, 5, 5),
        ] {
            assert_eq!(of(kind, n_clients, scale), None, "{kind} {n_clients} {scale}");
        }
        let tpcc = Some(TpccSpec { think: Think::Spec, ..TpccSpec::default() });
        let kind = WorkloadKind::Tpcc;
        assert_eq!(words(&WorkloadSpec { n_clients: 10, tpcc, ..WorkloadSpec::new(kind, 1) }), None);
    }
}
