//! What limited a run that never was.

use analysis::summary::limiter::{Bottleneck, Confidence, Limiter, LimiterFigure};

/// Few clients limit at first, then WAL, then locks of rows.
pub(super) fn limiter(n_clients: u32) -> Limiter {
    let figure = |label: &str, share, of, speaks_for| LimiterFigure {
        label: label.to_string(),
        share,
        of,
        speaks_for,
    };
    let (name, confidence) = match n_clients {
        0..4 => (Bottleneck::OfferedLoad, Confidence::Low),
        4..64 => (Bottleneck::WalSync, Confidence::Medium),
        _ => (Bottleneck::RowLock, Confidence::Medium),
    };
    Limiter {
        figures: vec![
            figure("somebody writing or syncing WAL", 0.97, "instants", Some(name)),
            figure("writing or syncing WAL", 0.31, "sessions at work", Some(name)),
            figure("busy", 0.63, "processors", Some(Bottleneck::ServerCpu)),
            figure("in a statement", 0.94, "clients", None),
        ],
        runner_up: Some((Bottleneck::ServerCpu, "the processors were busy 63 % of the time".to_string())),
        ..Limiter::new(
            name,
            confidence,
            "at 97 % of the instants somebody was writing or syncing WAL, and 99 % of the sessions at work waited for it",
        )
    }
}
