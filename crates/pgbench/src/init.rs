//! `-i`: creates and fills the standard tables, step by step in the order asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use dataset::streams::StreamError;
use model::release::{Release, catalogs, pgbench};
use progress::Progress;
use wire::session::{Session, SessionError};
use wire::{CancelHandle, Conninfo};
use workload::Schema;
use workload::tpcb::{self, Partitioning, TpcbOptions, TpcbTable};

use crate::command_line::options::InitPlan;
use crate::compat::Compat;
use crate::messages::{Complaint, MessageKind, MessageLog};
use crate::prepare::show_notices;
use crate::process::OwnProcess;
use crate::server_text;
use crate::target;

mod progress;
mod streams;

type Result<T> = std::result::Result<T, Complaint>;

/// Carries out all steps.
pub(crate) fn run(
    plan: &InitPlan,
    conninfo: &mut Conninfo,
    compat: Compat,
    process: &OwnProcess,
    log: &mut MessageLog,
) -> Result<()> {
    let session = target::connect(conninfo, "initialization", log)?;
    let stop = (process.stop_flag)();
    cancel_on_signal(session.cancel_handle(), stop);
    let mut init = Init { plan, compat, session, log, conninfo, stop, others: Vec::new() };
    let mut total_s = 0.0;
    let mut parts = Vec::new();
    for step in plan.steps.chars() {
        let begun = Instant::now();
        let name = match step {
            'd' => init.drop_tables().map(|()| "drop tables"),
            't' => init.create_tables().map(|()| "create tables"),
            'g' => init.generate_here().map(|()| "client-side generate"),
            'G' => init.generate_there().map(|()| "server-side generate"),
            'v' => init.vacuum().map(|()| "vacuum"),
            'p' => init.primary_keys().map(|()| "primary keys"),
            'f' => init.foreign_keys().map(|()| "foreign keys"),
            _ => continue,
        }?;
        let elapsed_s = begun.elapsed().as_secs_f64();
        parts.push(format!("{name} {elapsed_s:.2} s"));
        total_s += elapsed_s;
    }
    init.log.write(&format!("done in {total_s:.2} s ({}).\n", parts.join(", ")));
    Ok(())
}

/// On Ctrl-C, cancels the server's current statement; the statement then fails, and the program with it.
fn cancel_on_signal(handle: CancelHandle, stop: &'static AtomicBool) {
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        // The session itself receives the outcome.
        handle.cancel().ok();
    });
}

struct Init<'a> {
    plan: &'a InitPlan,
    compat: Compat,
    session: Session,
    log: &'a mut MessageLog,
    conninfo: &'a Conninfo,
    /// Raised by a signal.
    stop: &'static AtomicBool,
    /// Additional sessions for `--streams`, opened on first use.
    others: Vec<Session>,
}

impl Init<'_> {
    fn execute(&mut self, sql: &str) -> Result<()> {
        let result = self.session.execute(sql);
        show_notices(&mut self.session, self.log);
        result.map_err(|error| query_failed(&error, sql))
    }

    fn execute_all(&mut self, statements: &[String]) -> Result<()> {
        statements.iter().try_for_each(|sql| self.execute(sql))
    }

    fn drop_tables(&mut self) -> Result<()> {
        self.log.write("dropping old tables...\n");
        self.execute(&tpcb::drop_tables())
    }

    fn options(&self) -> TpcbOptions {
        TpcbOptions {
            schema: Schema::searched(),
            fillfactor: self.plan.fillfactor,
            unlogged: self.plan.unlogged,
            unlogged_parents: !self.compat.has(pgbench::KEEPS_PARENTS_LOGGED),
            tablespace: self.plan.tablespace.clone(),
            partitioning: self.plan.partitioning,
        }
    }

    fn create_tables(&mut self) -> Result<()> {
        self.log.write("creating tables...\n");
        let statements = tpcb::create_tables(self.plan.scale, &self.options());
        let (tables, partitions) = statements.split_at(tpcb::TABLES.len());
        self.execute_all(tables)?;
        if let Some(Partitioning::Range(n) | Partitioning::Hash(n)) = self.plan.partitioning {
            self.log.write(&format!("creating {n} partitions...\n"));
        }
        self.execute_all(partitions)
    }

    /// Generates rows here and sends them: step `g`.
    fn generate_here(&mut self) -> Result<()> {
        self.log.write("generating data (client-side)...\n");
        if self.is_parallel()? {
            return self.fill_side_by_side();
        }
        self.execute("begin")?;
        self.execute(&tpcb::truncate_tables())?;
        for table in [TpcbTable::Branches, TpcbTable::Tellers, TpcbTable::Accounts] {
            if self.compat.has(pgbench::COPIES_ALL_TABLES) || table == TpcbTable::Accounts {
                self.copy(table)?;
            } else {
                self.insert_rows(table)?;
            }
        }
        self.execute("commit")
    }

    fn insert_rows(&mut self, table: TpcbTable) -> Result<()> {
        for row in 0..tpcb::row_count(table, self.plan.scale) {
            self.execute(&tpcb::insert_statement(table, row))?;
        }
        Ok(())
    }

    fn copy(&mut self, table: TpcbTable) -> Result<()> {
        let copy = dataset::loading::tpcb::copy::copy(table, self.plan.scale, self.takes_freeze(table)?);
        let n_rows = tpcb::row_count(table, self.plan.scale);
        let names_table = self.compat.has(pgbench::COPIES_ALL_TABLES);
        let mut progress = Progress::new(table, n_rows, self.plan.is_quiet, names_table);
        let log = &mut *self.log;
        let stop = self.stop;
        let mut n_sent = 0;
        let copied = copy.run(&mut self.session, table.name(), &mut |piece| {
            n_sent += piece.n_rows;
            if let Some(text) = progress.advance(n_sent) {
                log.write(&text);
            }
            !stop.load(Ordering::Relaxed)
        });
        self.log.write(&progress.close(names_table));
        copied.map_err(|error| match error {
            StreamError::Statement { sql, error, .. } => {
                let text = server_text::session_error(&error, &sql);
                Complaint::new(format!("unexpected copy in result: {text}"))
            }
            error => Complaint::new(error.to_string()),
        })
    }

    /// Whether COPY FREEZE is allowed for a table and useful.
    fn takes_freeze(&mut self, table: TpcbTable) -> Result<bool> {
        if !Release::new(self.session.server_version_num()).has(catalogs::FREEZE_SETS_VISIBLE) {
            return Ok(false);
        }
        if !self.compat.has(pgbench::ASKS_RELKIND) {
            return Ok(self.plan.partitioning.is_none() || table != TpcbTable::Accounts);
        }
        let sql = "SELECT relkind FROM pg_catalog.pg_class WHERE oid=$1::pg_catalog.regclass";
        let found = self
            .session
            .query_params(sql, &[Some(table.name())])
            .map_err(|error| query_failed(&error, sql))?;
        Ok(found.scalar() == Some("r"))
    }

    /// Generates rows on the server: step `G`.
    fn generate_there(&mut self) -> Result<()> {
        self.log.write("generating data (server-side)...\n");
        self.execute("begin")?;
        self.execute(&tpcb::truncate_tables())?;
        self.execute_all(&tpcb::generate_statements(self.plan.scale))?;
        self.execute("commit")
    }

    fn vacuum(&mut self) -> Result<()> {
        self.log.write("vacuuming...\n");
        tpcb::TABLES.iter().try_for_each(|table| self.execute(&format!("vacuum analyze {}", table.name())))
    }

    fn primary_keys(&mut self) -> Result<()> {
        self.log.write("creating primary keys...\n");
        if self.is_parallel()? {
            return self.key_side_by_side();
        }
        self.execute_all(&tpcb::primary_keys_in(self.plan.index_tablespace.as_deref()))
    }

    fn foreign_keys(&mut self) -> Result<()> {
        self.log.write("creating foreign keys...\n");
        self.execute_all(&tpcb::foreign_keys())
    }
}

fn query_failed(error: &SessionError, sql: &str) -> Complaint {
    let text = server_text::session_error(error, sql);
    Complaint::new(format!("query failed: {text}")).and(MessageKind::Detail, format!("Query was: {sql}"))
}
