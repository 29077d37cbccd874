//! `-i --streams`: several sessions fill and index partitions in parallel. The result is the same as with one session.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use dataset::loading::tpcb::copy::TpcbLoad;
use dataset::streams::{SentTotal, StreamError, StreamJob, Streams};
use model::release::pgbench;
use wire::session::Session;
use workload::tpcb::{self, TpcbTable};
use workload::{Marker, MarkerState};

use super::progress::Progress;
use super::{Init, Result, query_failed};
use crate::messages::Complaint;
use crate::server_text;

/// Counts foreign keys to the tables, because of which the server refuses to truncate them one by one.
const FOREIGN_KEYS: &str = "select count(*) from pg_catalog.pg_constraint where contype = 'f' and confrelid in \
     (pg_catalog.to_regclass('pgbench_accounts'), pg_catalog.to_regclass('pgbench_tellers'), \
      pg_catalog.to_regclass('pgbench_branches'))";

impl Init<'_> {
    /// Whether there is work for several sessions.
    pub(super) fn is_parallel(&mut self) -> Result<bool> {
        if self.plan.n_streams < 2 || self.load().parts().is_empty() {
            return Ok(false);
        }
        let found = self.session.query(FOREIGN_KEYS).map_err(|error| query_failed(&error, FOREIGN_KEYS))?;
        Ok(found.scalar() == Some("0"))
    }

    /// Fills all tables, as one session does in one transaction; until then a comment marks them as incomplete.
    pub(super) fn fill_side_by_side(&mut self) -> Result<()> {
        let marker = Marker {
            workload: "tpcb".to_string(),
            scale: self.plan.scale,
            tool_version: env!("CARGO_PKG_VERSION").to_string(),
            state: MarkerState::Loading,
            oid: None,
            extra: BTreeMap::new(),
        };
        self.execute(&tpcb::truncate_tables())?;
        self.execute(&marker.comment_sql_on(TpcbTable::Branches.name()))?;
        let n_rows = tpcb::row_count(TpcbTable::Accounts, self.plan.scale);
        let names_table = self.compat.has(pgbench::COPIES_ALL_TABLES);
        let mut progress = Progress::new(TpcbTable::Accounts, n_rows, self.plan.is_quiet, names_table);
        let filled = self.run(self.load().fill(), &mut |log, sent| {
            // The other tables have few rows: they get no progress lines.
            if let Some(text) = progress.advance(sent.n_rows.min(n_rows)) {
                log.write(&text);
            }
        });
        self.log.write(&progress.close(names_table));
        filled?;
        self.execute("comment on table pgbench_branches is null")
    }

    pub(super) fn key_side_by_side(&mut self) -> Result<()> {
        self.run(self.load().key(), &mut |_, _| ())?;
        let key = tpcb::primary_key_of(
            TpcbTable::Accounts,
            TpcbTable::Accounts.name(),
            self.plan.index_tablespace.as_deref(),
        );
        self.execute(&key)
    }

    fn load(&self) -> TpcbLoad {
        TpcbLoad {
            scale: self.plan.scale,
            options: self.options(),
            index_tablespace: self.plan.index_tablespace.clone(),
            version_num: self.session.server_version_num(),
        }
    }

    fn run(
        &mut self,
        jobs: Vec<StreamJob>,
        watch: &mut dyn FnMut(&mut super::MessageLog, SentTotal),
    ) -> Result<()> {
        let stop = self.stop;
        while self.others.len() + 1 < self.plan.n_streams as usize {
            let mut session = Session::connect_as_libpq(self.conninfo).map_err(|error| {
                self.log.error(&server_text::connect_error(&error, self.conninfo));
                Complaint::new(format!("could not create connection {} for --streams", self.others.len() + 2))
            })?;
            session.set_stop(stop);
            self.others.push(session);
        }
        let sessions = std::iter::once(&mut self.session).chain(&mut self.others).collect();
        let log = &mut *self.log;
        let done = Streams { sessions, stop }.run(jobs, &mut |sent| watch(log, sent));
        match done {
            Ok(_) => Ok(()),
            Err(StreamError::Statement { sql, error, .. }) => Err(query_failed(&error, &sql)),
            Err(error) => {
                debug_assert!(stop.load(Ordering::Relaxed) || !matches!(error, StreamError::Stopped));
                Err(Complaint::new(error.to_string()))
            }
        }
    }
}
