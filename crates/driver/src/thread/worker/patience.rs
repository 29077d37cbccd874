//! Gives up connections whose server has fallen silent. A frozen server keeps its connections, and says nothing on them for good.

use model::load::LoadSpec;

use super::Worker;
use crate::clock::{self, Nanos, SECOND_NS};
use crate::tally::SILENT;

/// How long a reply may take, and when the next one can have taken longer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    limit_ns: Nanos,
    pub(super) next_look: Nanos,
}

impl Patience {
    /// The patience of a load, if it has a limit.
    pub(super) fn new(load: &LoadSpec) -> Option<Patience> {
        let limit_ns = Nanos::from(load.reply_timeout_ms?) * (SECOND_NS / 1000);
        Some(Patience { limit_ns, next_look: 0 })
    }
}

impl Worker<'_> {
    /// Drops the connections on which a reply takes too long, as if the server had closed them. What was sent after a look cannot be late
    /// before a whole limit has passed, so that looks are rare.
    #[inline]
    pub(super) fn drop_silent(&mut self, now: Nanos) {
        if let Some(patience) = self.patience
            && now >= patience.next_look
        {
            self.look_for_silence(now, patience.limit_ns);
        }
    }

    #[cold]
    fn look_for_silence(&mut self, now: Nanos, limit_ns: Nanos) {
        let mut next_look = now + limit_ns;
        for index in 0..self.setup.clients.len() {
            let client = &self.setup.clients[index];
            let late_at = client.transaction.statement_sent + limit_ns;
            if !client.awaits_server() || client.transaction.cancelled.is_some() {
                continue;
            }
            if late_at <= now {
                let why = format!("no answer for {:.3} s", limit_ns as f64 / 1e9);
                self.lose_as(index, clock::now(), SILENT, &why);
            } else {
                next_look = next_look.min(late_at);
            }
        }
        self.patience = Some(Patience { limit_ns, next_look });
    }
}
