//! Where in the WAL a standby that does not stream is, and its upstream: for the message.

use anyhow::Result;
use model::release::{Release, functions};
use model::text::prose::bytes;
use wire::{Session, quote_literal};

use super::{Standby, session_of};
use crate::site::Environment;

/// Positions of a standby and of its upstream, which is asked by `upstream`, and the slot between them. What nobody says is unknown.
pub(super) fn words(node: &Standby, upstream: &mut Session, environment: &Environment) -> String {
    let release = Release::new(node.cluster.binaries.version_num);
    let of_upstream = of_upstream(upstream, release, &node.name)
        .unwrap_or_else(|error| format!("its upstream does not say where it is ({error:#})"));
    let of_standby = of_standby(node, release, environment)
        .unwrap_or_else(|error| format!("the standby does not say where it is ({error:#})"));
    format!("{of_upstream}; {of_standby}")
}

/// Slots of a primary, and how much WAL each keeps; `None` without any that keeps some.
///
/// # Errors
/// When it cannot be asked.
pub(super) fn kept_by_slots(primary: &mut Session, release: Release) -> Result<Option<String>> {
    let (difference, written) =
        (release.name(functions::WAL_DIFFERENCE), release.name(functions::WAL_WRITTEN));
    let rows = primary.query(&format!(
        "select slot_name, active::text, pg_catalog.{difference}(pg_catalog.{written}(), restart_lsn)::text as kept \
         from pg_catalog.pg_replication_slots where restart_lsn is not null order by slot_name"
    ))?;
    let slot = |row: usize| {
        let is_used = rows.get(row, "active") == Some("true");
        kept_words(rows.get(row, "slot_name")?, is_used, rows.get(row, "kept")?.parse().ok()?)
    };
    let slots: Vec<String> = (0..rows.len()).filter_map(slot).collect();
    Ok(if slots.is_empty() { None } else { Some(slots.join(", ")) })
}

/// Words about the WAL that a slot keeps, bytes; `None` if that is none.
fn kept_words(slot: &str, is_used: bool, kept: f64) -> Option<String> {
    let unused = if is_used { "" } else { ", which nobody uses," };
    (kept > 0.0).then(|| format!("slot `{slot}`{unused} keeps {} of it", bytes(kept)))
}

fn of_upstream(session: &mut Session, release: Release, name: &str) -> Result<String> {
    let (written, replayed) = (release.name(functions::WAL_WRITTEN), release.name(functions::WAL_REPLAYED));
    let sql = format!(
        "select case when pg_catalog.pg_is_in_recovery() then pg_catalog.{replayed}() else pg_catalog.{written}() end::text"
    );
    let position = session.query(&sql)?.scalar().unwrap_or("unknown").to_string();
    let slots = session.query(&format!(
        "select active::text, restart_lsn::text from pg_catalog.pg_replication_slots where slot_name = {}",
        quote_literal(name)
    ))?;
    let slot = match (slots.get(0, "active"), slots.get(0, "restart_lsn")) {
        (None, _) => "there is no slot for it".to_string(),
        (Some(active), restart) => {
            let is_used = if active == "true" { "active" } else { "not active" };
            format!("slot `{name}` is {is_used} and keeps WAL from {}", restart.unwrap_or("nowhere on"))
        }
    };
    Ok(format!("its upstream is at {position} in the WAL; {slot}"))
}

fn of_standby(node: &Standby, release: Release, environment: &Environment) -> Result<String> {
    let mut session = session_of(node.running()?, environment)?;
    let (received, replayed) = (release.name(functions::WAL_RECEIVED), release.name(functions::WAL_REPLAYED));
    let rows = session.query(&format!(
        "select pg_catalog.{received}()::text as received, pg_catalog.{replayed}()::text as replayed"
    ))?;
    let of = |name: &str| rows.get(0, name).unwrap_or("nothing").to_string();
    Ok(format!(
        "the standby has received WAL up to {} and replayed it up to {}",
        of("received"),
        of("replayed")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_keeps_nothing_is_not_named() {
        for (is_used, kept, expected) in [
            (true, 0.0, None),
            (false, 0.0, None),
            // Its standby is ahead of what was written when that was asked for.
            (true, -8.0, None),
            (true, 2048.0, Some("slot `s1` keeps 2.00 KiB of it")),
            (false, 2048.0, Some("slot `s1`, which nobody uses, keeps 2.00 KiB of it")),
        ] {
            assert_eq!(kept_words("s1", is_used, kept).as_deref(), expected, "{is_used} {kept}");
        }
    }
}
