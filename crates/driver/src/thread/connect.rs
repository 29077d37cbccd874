//! Connects a thread's clients, several at once, and has the server parse every statement.

pub(crate) mod blocking;

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use wire::{Connection, Conninfo, DialProgress, Dialing, Flow, ProtocolError, Reply, Scanner, Want};

use crate::client::script::Scripts;
use crate::client::session::Destination;
use crate::clock::{self, Nanos};
use crate::thread::connect::blocking::{ConnectWait, receive, send_all};
use crate::thread::order::Conninfos;

/// Handshakes under way at once in one thread. More gain nothing and can overrun the server's backlog.
const DIALING_MAX: usize = 8;
/// How long a server may take to parse one connection's statements.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(30);
/// Handshakes are checked at least this often, for their deadlines.
const POLL_MAX_MS: u16 = 200;

/// The connections of a thread.
#[derive(Default)]
pub(crate) struct Connected {
    /// The connections, one for each client.
    pub(crate) connections: Vec<Connection>,
    /// Time taken to have every statement parsed, nanoseconds.
    pub(crate) prepare_ns: Nanos,
}

/// Opens the connections of clients and has every statement parsed on each (with the simple protocol there is nothing
/// to parse).
pub(crate) fn connect_all(
    conninfos: &Conninfos,
    destination: Destination,
    scripts: &Scripts,
    clients: Range<usize>,
) -> Result<Connected, String> {
    let of_client = |client| conninfos.of(scripts.class(client), destination);
    let mut connections = dial_all(clients.map(of_client).collect())?;
    let mut messages = Vec::new();
    let order = scripts.parse_messages(destination, &mut messages);
    if order.is_empty() {
        return Ok(Connected { connections, prepare_ns: 0 });
    }
    let begun = clock::now();
    // All are asked before the first answer is awaited, so that the backends parse in parallel.
    for connection in &mut connections {
        send_all(&mut connection.link, &messages, patience())?;
    }
    for connection in &mut connections {
        await_parsed(connection, scripts, &order)?;
    }
    Ok(Connected { connections, prepare_ns: clock::now() - begun })
}

/// A connection that is being made.
struct Handshake {
    dial: Dialing,
    /// Readiness that it waits for.
    want: Want,
    /// Its place among those that were asked for.
    place: usize,
}

/// A connection for each of these, in their order.
fn dial_all(all: Vec<Arc<Conninfo>>) -> Result<Vec<Connection>, String> {
    let n = all.len();
    let mut done = Vec::with_capacity(n);
    let mut dialing: Vec<Handshake> = Vec::new();
    let mut waiting = all.into_iter().enumerate();
    while done.len() < n {
        let mut ready = wait_for_any(&dialing)?;
        while dialing.len() < DIALING_MAX
            && let Some((place, conninfo)) = waiting.next()
        {
            let dial = Dialing::start_shared(conninfo).map_err(|e| e.to_string())?;
            dialing.push(Handshake { dial, want: Want::Write, place });
            ready.push(true);
        }
        let mut still = Vec::with_capacity(dialing.len());
        for (handshake, is_ready) in dialing.into_iter().zip(ready) {
            if !is_ready {
                still.push(handshake);
                continue;
            }
            let Handshake { mut dial, place, .. } = handshake;
            match dial.advance().map_err(|e| format!("client {}: {e}", done.len()))? {
                DialProgress::Done(mut connection) => {
                    // Thousands of clients have the same settings, of which only one is needed.
                    connection.parameters.retain(|name, _| name == "client_encoding");
                    done.push((place, connection));
                }
                DialProgress::WantRead => still.push(Handshake { dial, want: Want::Read, place }),
                DialProgress::WantWrite => still.push(Handshake { dial, want: Want::Write, place }),
            }
        }
        dialing = still;
    }
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, connection)| connection).collect())
}

/// Which of the handshakes can go on; all of them after a while, for their deadlines.
fn wait_for_any(dialing: &[Handshake]) -> Result<Vec<bool>, String> {
    if dialing.is_empty() {
        return Ok(Vec::new());
    }
    let mut fds: Vec<PollFd> = dialing
        .iter()
        .map(|Handshake { dial, want, .. }| {
            let flags = if *want == Want::Read { PollFlags::POLLIN } else { PollFlags::POLLOUT };
            // SAFETY: the descriptor belongs to `dial`, which outlives this call and is not advanced in it.
            PollFd::new(unsafe { BorrowedFd::borrow_raw(dial.fd()) }, flags)
        })
        .collect();
    let n = poll(&mut fds, PollTimeout::from(POLL_MAX_MS))
        .map_err(|e| format!("cannot wait for connections: {e}"))?;
    Ok(fds.iter().map(|fd| n == 0 || fd.any().unwrap_or(true)).collect())
}

fn patience() -> ConnectWait {
    ConnectWait::new(PREPARE_TIMEOUT, "preparing", "parse the statements")
}

/// Reads the answers to the parse messages; an error names the statement at fault.
fn await_parsed(
    connection: &mut Connection,
    scripts: &Scripts,
    order: &[(usize, usize)],
) -> Result<(), String> {
    let (mut n_parsed, mut error, mut unasked) = (0, None, None);
    let pending = std::mem::take(&mut connection.leftover);
    // The client judges what came after it.
    connection.leftover = receive(&mut connection.link, &mut Scanner::new(), pending, patience(), |reply| {
        match reply {
            Reply::ParseComplete if n_parsed < order.len() => n_parsed += 1,
            Reply::Error(body) => {
                error.get_or_insert_with(|| wire::parse_error(body));
            }
            Reply::ReadyForQuery(_) => return Flow::Stop,
            Reply::Notice(_) | Reply::Parameter(..) | Reply::Notification(_) => {}
            other => unasked = Some(ProtocolError::Unasked(other.tag())),
        }
        if unasked.is_some() { Flow::Stop } else { Flow::Continue }
    })?;
    if let Some(unasked) = unasked {
        return Err(unasked.to_string());
    }
    if error.is_none() && n_parsed < order.len() {
        return Err(ProtocolError::Unanswered(b'Z').to_string());
    }
    match error {
        None => Ok(()),
        Some(error) => {
            let (script, index) = order[n_parsed.min(order.len() - 1)];
            let program = &scripts.bundle.programs[script];
            let statement = &program.statements[index];
            Err(format!(
                "{}:{}: server says {error} (nothing was run)\n  {}",
                program.name, statement.line, statement.label
            ))
        }
    }
}
