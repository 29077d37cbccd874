//! The durability test (clauses 3.5.3 and 3.5.4): sends New-Orders and records those that are acknowledged; kills the
//! server in the middle and starts it again; every acknowledged order has to be there.
//!
//! The test kills processes, not the machine: the operating system's cache survives, so that the test does not judge
//! `fsync` and the devices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use wire::session::{Limit, Session, SessionError};
use workload::tpcc::{Constants, NewOrderInputs, Trial};
use workload::{Prng, Schema};

use super::actor::Actor;
use super::ledger::{self, AcknowledgedOrder, Ledger};
use super::{AcidRequest, AcidResult, AcidVerdict, Observations};
use crate::session;
use crate::session::STOPPED;

/// Number of the clause.
pub const CLAUSE: &str = "3.5.3";
const TITLE: &str = "every acknowledged order is there after the server was killed";
/// Sessions that send New-Orders.
const N_SESSIONS: usize = 8;
/// Pause between two checks of the time.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Runs the test.
///
/// # Errors
/// When the server fails before it is killed, cannot be started again, or the user wants to stop.
pub(super) fn test(request: &mut AcidRequest<'_>, schema: &Schema, scale: u32) -> Result<AcidResult> {
    let result = |verdict, Observations { text: seen, faults }| AcidResult {
        clause: CLAUSE,
        title: TITLE,
        isolation: None,
        verdict,
        seen,
        faults,
    };
    let Some(crash) = request.crash.as_mut() else {
        let text = "pgdyno did not start this server and does not kill it; test one that pgdyno starts: omit --server, or give \
                    --bin-dir with the same binaries";
        return Ok(result(AcidVerdict::Skipped, Observations { text: text.to_string(), faults: Vec::new() }));
    };
    let mut observer = session::open(&request.conninfo, request.stop)?;
    let settings = settings(&mut observer)?;
    let n_before = sum_of_next(&mut observer, schema)?;
    drop(observer);

    let ledger = Ledger::create(&request.ledger)?;
    let sessions = (0..N_SESSIONS).map(|_| session::open(&request.conninfo, request.stop));
    let sessions: Vec<Session> = sessions.collect::<Result<_>>()?;
    let stop = request.stop;
    let (conninfo, crashed) = send_orders(sessions, &ledger, schema, scale, || {
        let end = Instant::now() + request.load;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_PAUSE);
        }
        let killed_unix_us = unix_us();
        crash().map(|(conninfo, text)| (conninfo, (text, killed_unix_us)))
    })?;
    request.conninfo = conninfo;
    ensure!(!stop.load(Ordering::Relaxed), STOPPED);

    let entries = ledger::read(&request.ledger)?;
    let mut observer = session::open(&request.conninfo, request.stop)?;
    let lost = ledger::find_faults(&mut observer, schema, &entries)?;
    let n_after = sum_of_next(&mut observer, schema)?;
    let (n, grown) = (entries.len() as i64, n_after - n_before);
    let mut seen = Observations::default();
    for (entry, fault) in &lost {
        let when = relative_to_kill(entry.acknowledged_unix_us, crashed.1);
        seen.faults.push(format!("{} {fault} (acknowledged {when})", entry.name()));
    }
    // Clause 3.5.4: beyond the acknowledged orders, each session may have one whose outcome it never learned.
    if lost.is_empty() {
        seen.expect((n..=n + N_SESSIONS as i64).contains(&grown), || {
            format!("districts count {grown} orders more than before, for {n} acknowledged by {N_SESSIONS} sessions")
        });
    }
    seen.expect(n > 0, || "no order was acknowledged".to_string());
    let found =
        if lost.is_empty() { "all are there".to_string() } else { format!("{} are lost", lost.len()) };
    seen.text = format!(
        "{n} orders acknowledged to {N_SESSIONS} sessions within {:.0} s, {}, {found}; D_NEXT_O_ID grew by {grown}; \
         {settings}",
        request.load.as_secs_f64(),
        crashed.0
    );
    let verdict = if seen.faults.is_empty() { AcidVerdict::Held } else { AcidVerdict::Violated };
    Ok(result(verdict, seen))
}

/// When an order was acknowledged. The server's processes are killed one after the other; some still answer until then.
fn relative_to_kill(acknowledged_unix_us: u64, killed_unix_us: u64) -> String {
    let ms = acknowledged_unix_us.abs_diff(killed_unix_us) as f64 / 1000.0;
    if acknowledged_unix_us <= killed_unix_us {
        format!("{ms:.0} ms before the kill")
    } else {
        format!("{ms:.0} ms after the kill began")
    }
}

/// Sends New-Orders over all sessions while `meanwhile` runs and ends the server.
fn send_orders<T>(
    sessions: Vec<Session>,
    ledger: &Ledger,
    schema: &Schema,
    scale: u32,
    meanwhile: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let send = |(id, session): (usize, Session)| {
            let limit = Limit::current();
            scope.spawn(move || {
                let _entered = limit.enter();
                send_orders_over(session, id, ledger, schema, scale, is_over)
            })
        };
        let senders: Vec<_> = sessions.into_iter().enumerate().map(send).collect();
        let result = meanwhile();
        is_over.store(true, Ordering::Relaxed);
        for sender in senders {
            sender.join().map_err(|_| anyhow!("a thread that sends orders has panicked"))??;
        }
        result
    })
}

/// Sends New-Orders one after the other until the server is gone.
fn send_orders_over(
    mut session: Session,
    id: usize,
    ledger: &Ledger,
    schema: &Schema,
    scale: u32,
    is_over: &AtomicBool,
) -> Result<()> {
    let mut prng = Prng::seed(unix_us() ^ (id as u64) << 56);
    let (constants, w_id) = (Constants::for_load(1), id as u32 % scale + 1);
    while !is_over.load(Ordering::Relaxed) {
        let order = NewOrderInputs::draw(&mut prng, scale, w_id, constants);
        let mut actor = Actor::new(&mut session, Trial::new_order(schema, &order));
        if let Err(error) = actor.finish_with_retries() {
            return if is_gone(&error) { Ok(()) } else { Err(error.context("a New-Order failed")) };
        }
        if order.is_undone() {
            continue;
        }
        let o_id = actor.number("update @.district", 0)?;
        ledger.add(&AcknowledgedOrder {
            w_id,
            d_id: order.d_id,
            o_id: u32::try_from(o_id).context("an order has a valid number")?,
            c_id: order.c_id,
            ol_cnt: order.lines.len() as u32,
            acknowledged_unix_us: unix_us(),
        })?;
    }
    Ok(())
}

/// Whether the server has shut down or is shutting down (class 57P: operator intervention).
fn is_gone(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<SessionError>() {
        Some(SessionError::Lost(_) | SessionError::Stopped) => true,
        Some(SessionError::Server(error)) => error.sqlstate.starts_with("57P"),
        _ => false,
    }
}

/// The settings that determine what an acknowledged commit guarantees.
fn settings(session: &mut Session) -> Result<String> {
    let mut all = Vec::new();
    for name in ["synchronous_commit", "fsync", "full_page_writes"] {
        let value = session.query(&format!("show {name}"))?;
        all.push(format!("{name} = {}", value.scalar().unwrap_or_default()));
    }
    Ok(all.join(", "))
}

/// Number of orders that all districts have counted (clause 3.5.4, steps 1 and 7).
fn sum_of_next(session: &mut Session, schema: &Schema) -> Result<i64> {
    let rows = session.query(&schema.fill("select sum(d_next_o_id)::bigint from @.district"))?;
    rows.scalar().and_then(|n| n.parse().ok()).context("districts count their orders")
}

fn unix_us() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_order_is_acknowledged_a_negative_time_before_the_kill() {
        assert_eq!(relative_to_kill(1_000_000, 1_037_400), "37 ms before the kill");
        assert_eq!(relative_to_kill(1_037_000, 1_000_000), "37 ms after the kill began");
        assert_eq!(relative_to_kill(1_000_000, 1_000_000), "0 ms before the kill");
    }
}
