//! Reports the server's notices and warnings.

use model::telemetry::event::{Event, EventKind};

use super::Worker;
use crate::client::notices::UnreadNotice;
use crate::clock::Nanos;

impl Worker<'_> {
    /// Reports a client's notices, up to the limit.
    #[cold]
    pub(super) fn report_notices(&mut self, index: usize, now: Nanos) {
        let client = &mut self.setup.clients[index];
        let (id, units, chosen) =
            (client.id, client.session.units, self.interval.notices.choose(&mut client.notices));
        for UnreadNotice { notice, is_of_parse } in chosen {
            let query = if is_of_parse {
                Some(self.statement_text(index, self.setup.clients[index].transaction.statement))
            } else {
                self.query_text(index)
            };
            let text = notice.libpq_text(query.as_deref(), units);
            let event = Event::new(0, EventKind::ServerNotice, text)
                .with("client", id)
                .with("severity", &notice.severity)
                .with("sqlstate", &notice.sqlstate);
            self.report_event(now, event);
        }
    }

    /// A second is over: notices beyond its limit are reported by their number.
    pub(super) fn report_dropped_notices(&mut self, now: Nanos) {
        let n = self.interval.notices.renew();
        if n > 0 {
            let text = format!("{n} more notices of the server in this second");
            self.report_event(now, Event::new(0, EventKind::ServerNotice, text).with("n_dropped", n));
        }
    }
}
