//! The part of the clients' time that a limiter holds up: what lifting it can give at most.

use model::telemetry::wait::{self, Stage};

use crate::run::limiter::facts::Facts;
use crate::summary::limiter::Bottleneck;

/// The part of the clients' time, 0 to 1, that sessions spent in what limits, with the waits for locks whose holders were in it. `None` for
/// what is no stage that a session waits in.
pub(super) fn charged(facts: &Facts, name: Bottleneck) -> Option<f64> {
    let of_stage = |stage| {
        let roots = facts.roots_where(|what| Stage::of(what, true) == Some(stage));
        Some(facts.share_in(stage) + roots * facts.share_in(Stage::Lock))
    };
    let of_locks =
        |is_meant: &dyn Fn(&str) -> bool| Some(facts.share_in(Stage::Lock) * facts.roots_where(is_meant));
    let share = match name {
        Bottleneck::WalSync | Bottleneck::Checkpoint => of_stage(Stage::WalFlush),
        Bottleneck::WalVolume => {
            of_stage(Stage::WalInit).map(|share| share.max(facts.share_in(Stage::WalFlush)))
        }
        Bottleneck::DataRead => of_stage(Stage::DataRead),
        Bottleneck::DataWrite => of_stage(Stage::DataWrite),
        Bottleneck::Memory => of_stage(Stage::Spill),
        Bottleneck::ClientHeldLock => of_locks(&|what| what == wait::IDLE_IN_TRANSACTION),
        Bottleneck::RowLock => of_locks(&|what| {
            what != wait::IDLE_IN_TRANSACTION
                && Stage::of(what, true).is_none_or(|stage| stage == Stage::Lock)
        }),
        _ => None,
    }?;
    let of_clients = if facts.n_clients > 0.0 { facts.working() / facts.n_clients } else { 0.0 };
    Some((share.min(1.0) * of_clients).clamp(0.0, 1.0))
}
