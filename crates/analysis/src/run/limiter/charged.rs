//! The part of the clients' time that a limiter holds up: what lifting it can give at most.

use model::telemetry::wait::WaitStage;

use crate::run::limiter::facts::MeasurementFacts;
use crate::summary::limiter::Bottleneck;

/// The part of the clients' time, 0 to 1, that sessions spent in what limits, with the waits for locks whose holders were in it. `None` for
/// what is no stage that a session waits in.
pub(super) fn charged(facts: &MeasurementFacts, name: Bottleneck) -> Option<f64> {
    let of_stage =
        |stage| Some(facts.share_in(stage) + facts.roots_in(stage) * facts.share_in(WaitStage::Lock));
    let share = match name {
        Bottleneck::WalSync | Bottleneck::Checkpoint => of_stage(WaitStage::WalFlush),
        Bottleneck::WalVolume => {
            of_stage(WaitStage::WalInit).map(|share| share.max(facts.share_in(WaitStage::WalFlush)))
        }
        Bottleneck::Standby => of_stage(WaitStage::Standby),
        Bottleneck::DataRead => of_stage(WaitStage::DataRead),
        Bottleneck::DataWrite => of_stage(WaitStage::DataWrite),
        Bottleneck::Memory => of_stage(WaitStage::Spill),
        Bottleneck::ClientHeldLock => Some(facts.share_in(WaitStage::Lock) * facts.roots_at_client()),
        Bottleneck::RowLock => Some(facts.share_in(WaitStage::Lock) * facts.roots_at_work()),
        _ => None,
    }?;
    let of_clients = if facts.n_clients > 0.0 { facts.working() / facts.n_clients } else { 0.0 };
    Some((share.min(1.0) * of_clients).clamp(0.0, 1.0))
}
