//! Sends and receives outside of the load, where a thread may wait for one connection.

use std::io;
use std::time::{Duration, Instant};

use wire::{Flow, Link, Reply, Scanner, Want};

/// How long to wait, and for what.
#[derive(Clone, Copy)]
pub(crate) struct ConnectWait {
    began: Instant,
    length: Duration,
    /// What goes on when the connection is lost: `preparing`.
    doing: &'static str,
    /// What the server did not do in time: `parse the statements`.
    awaited: &'static str,
}

impl ConnectWait {
    /// Begins now.
    pub(crate) fn new(length: Duration, doing: &'static str, awaited: &'static str) -> ConnectWait {
        ConnectWait { began: Instant::now(), length, doing, awaited }
    }

    fn deadline(&self) -> Instant {
        self.began + self.length
    }

    fn overdue(&self) -> String {
        format!("the server did not {} within {:?}", self.awaited, self.length)
    }

    /// Waits if the last step found the socket full or empty.
    fn wait_if_blocked(&self, link: &Link, step: io::Result<()>, want: Want) -> Result<(), String> {
        let waited = match step {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => link.wait(&[want], Some(self.deadline())),
            step => step.map(|()| true),
        };
        match waited {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.overdue()),
            Err(e) => Err(format!("connection lost while {}: {e}", self.doing)),
        }
    }
}

/// Sends all of `bytes`.
pub(crate) fn send_all(link: &mut Link, bytes: &[u8], patience: ConnectWait) -> Result<(), String> {
    let mut n_sent = 0;
    while n_sent < bytes.len() || link.wants_write() {
        let step = if n_sent < bytes.len() {
            link.send(&bytes[n_sent..]).map(|n| n_sent += n)
        } else {
            link.flush_pending()
        };
        patience.wait_if_blocked(link, step, Want::Write)?;
    }
    Ok(())
}

/// Receives until `take` stops, beginning with `pending`; returns what came after that.
pub(crate) fn receive(
    link: &mut Link,
    scanner: &mut Scanner,
    mut pending: Vec<u8>,
    patience: ConnectWait,
    mut take: impl FnMut(Reply) -> Flow,
) -> Result<Vec<u8>, String> {
    let mut buffer = [0u8; 8192];
    loop {
        let mut is_over = false;
        let watch = |reply: Reply| {
            let flow = take(reply);
            is_over = flow == Flow::Stop;
            flow
        };
        let n_taken = scanner.feed(&pending, watch).map_err(|e| e.to_string())?;
        if is_over {
            return Ok(pending.split_off(n_taken));
        }
        pending.clear();
        let step = match link.recv(&mut buffer) {
            Ok(0) => return Err(format!("the server closed a connection while {}", patience.doing)),
            Ok(n) => {
                pending.extend_from_slice(&buffer[..n]);
                Ok(())
            }
            Err(e) => Err(e),
        };
        if Instant::now() >= patience.deadline() {
            return Err(patience.overdue());
        }
        patience.wait_if_blocked(link, step, Want::Read)?;
    }
}
