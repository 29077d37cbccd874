//! A case for tests.

use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
use model::load::Window;

pub(super) fn a_case() -> Case {
    Case::new(
        ServerSpec::new(ServerSource::Version("18".parse().unwrap())),
        WorkloadSpec::new(WorkloadKind::Tpcb, 1),
        Window { ramp_up_s: 1, measure_s: 2, grace_s: 1 },
    )
}
