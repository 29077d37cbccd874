//! `-i`: makes and fills the standard tables, step by step in the order asked for.

use std::io::IsTerminal;
use std::time::Instant;

use wire::session::Session;
use wire::{CancelHandle, Conninfo};
use workload::tpcb::{self, Partitioning, Table, TpcbOptions};

use super::compat::Compat;
use super::log::{Complaint, Kind, Log};
use super::options::InitPlan;
use super::prepare::show_notices;
use super::{server_text, target};

/// Since this version COPY FREEZE makes pages all-visible, so that it pays to use it.
const FREEZE_VERSION_NUM: u32 = 140_000;
/// Seconds between progress lines with `-q`.
const QUIET_STEP_S: f64 = 5.0;
/// Rows between progress lines without `-q`.
const LOUD_STEP_ROWS: u64 = 100_000;
/// Size of one piece of COPY data.
const PIECE_BYTES: usize = 64 * 1024;

type Result<T> = std::result::Result<T, Complaint>;

/// Carries out all steps.
pub(super) fn run(plan: &InitPlan, conninfo: &mut Conninfo, compat: Compat, log: &mut Log) -> Result<()> {
    let session = target::connect(conninfo, "initialization", log)?;
    cancel_on_signal(session.cancel_handle());
    let mut init = Init { plan, compat, session, log };
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

/// Ctrl-C cancels what the server is doing; the statement then fails, and with it the program.
fn cancel_on_signal(handle: CancelHandle) {
    let stop = crate::signals::stop_flag();
    std::thread::spawn(move || {
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        // The server tells the outcome on the session itself.
        handle.cancel().ok();
    });
}

struct Init<'a> {
    plan: &'a InitPlan,
    compat: Compat,
    session: Session,
    log: &'a mut Log,
}

impl Init<'_> {
    fn execute(&mut self, sql: &str) -> Result<()> {
        let result = self.session.execute(sql);
        show_notices(&mut self.session, self.log);
        result.map_err(|error| {
            let text = server_text::session_error(&error, sql);
            Complaint::new(format!("query failed: {text}")).and(Kind::Detail, format!("Query was: {sql}"))
        })
    }

    fn execute_all(&mut self, statements: &[String]) -> Result<()> {
        statements.iter().try_for_each(|sql| self.execute(sql))
    }

    fn drop_tables(&mut self) -> Result<()> {
        self.log.write("dropping old tables...\n");
        self.execute(&tpcb::drop_tables())
    }

    fn create_tables(&mut self) -> Result<()> {
        self.log.write("creating tables...\n");
        let options = TpcbOptions {
            fillfactor: self.plan.fillfactor,
            unlogged: self.plan.unlogged,
            unlogged_parents: !self.compat.keeps_parents_logged(),
            tablespace: self.plan.tablespace.clone(),
            partitioning: self.plan.partitioning,
        };
        let statements = tpcb::create_tables(self.plan.scale, &options);
        let (tables, partitions) = statements.split_at(tpcb::TABLES.len());
        self.execute_all(tables)?;
        if let Some(Partitioning::Range(n) | Partitioning::Hash(n)) = self.plan.partitioning {
            self.log.write(&format!("creating {n} partitions...\n"));
        }
        self.execute_all(partitions)
    }

    /// Rows are made here and sent: step `g`.
    fn generate_here(&mut self) -> Result<()> {
        self.log.write("generating data (client-side)...\n");
        self.execute("begin")?;
        self.execute(&tpcb::truncate_tables())?;
        for table in [Table::Branches, Table::Tellers, Table::Accounts] {
            if self.compat.copies_all_tables() || table == Table::Accounts {
                self.copy(table)?;
            } else {
                self.insert_rows(table)?;
            }
        }
        self.execute("commit")
    }

    fn insert_rows(&mut self, table: Table) -> Result<()> {
        for row in 0..tpcb::row_count(table, self.plan.scale) {
            self.execute(&tpcb::insert_statement(table, row))?;
        }
        Ok(())
    }

    fn copy(&mut self, table: Table) -> Result<()> {
        let sql = tpcb::copy_statement(table.name(), self.takes_freeze(table)?);
        let n_rows = tpcb::row_count(table, self.plan.scale);
        let mut rows = tpcb::Rows::new(table, self.plan.scale, 0..n_rows);
        let names_table = self.compat.copies_all_tables();
        let mut progress = Progress::new(table, n_rows, self.plan.is_quiet, names_table);
        let log = &mut *self.log;
        let stop = crate::signals::stop_flag();
        let copied = self.session.copy_in(&sql, |out| {
            let sent = n_rows - rows.n_left() + rows.fill(out, PIECE_BYTES) as u64;
            if let Some(text) = progress.advance(sent) {
                log.write(&text);
            }
            rows.n_left() > 0 && !stop.load(std::sync::atomic::Ordering::Relaxed)
        });
        self.log.write(&progress.close(names_table));
        copied.map_err(|error| {
            Complaint::new(format!("unexpected copy in result: {}", server_text::session_error(&error, &sql)))
        })?;
        Ok(())
    }

    /// Whether COPY FREEZE is allowed for a table and of use.
    fn takes_freeze(&mut self, table: Table) -> Result<bool> {
        if self.session.server_version_num() < FREEZE_VERSION_NUM {
            return Ok(false);
        }
        if !self.compat.asks_relkind() {
            return Ok(self.plan.partitioning.is_none() || table != Table::Accounts);
        }
        let sql = "SELECT relkind FROM pg_catalog.pg_class WHERE oid=$1::pg_catalog.regclass";
        let found = self.session.query_params(sql, &[Some(table.name())]).map_err(|error| {
            let text = server_text::session_error(&error, sql);
            Complaint::new(format!("query failed: {text}")).and(Kind::Detail, format!("Query was: {sql}"))
        })?;
        Ok(found.scalar() == Some("r"))
    }

    /// The server makes the rows: step `G`.
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
        self.execute_all(&tpcb::primary_keys_in(self.plan.index_tablespace.as_deref()))
    }

    fn foreign_keys(&mut self) -> Result<()> {
        self.log.write("creating foreign keys...\n");
        self.execute_all(&tpcb::foreign_keys())
    }
}

/// The lines that tell how far a table is.
struct Progress {
    table: Table,
    n_rows: u64,
    is_quiet: bool,
    names_table: bool,
    begun: Instant,
    /// On a terminal one line is written over and over.
    is_terminal: bool,
    width: usize,
    rows_said: u64,
    quiet_steps: f64,
}

impl Progress {
    fn new(table: Table, n_rows: u64, is_quiet: bool, names_table: bool) -> Progress {
        Progress {
            table,
            n_rows,
            is_quiet,
            names_table,
            begun: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
            width: 0,
            rows_said: 0,
            quiet_steps: 1.0,
        }
    }

    /// What to write when `sent` rows are under way: a line for each 100 000 rows, or, quiet, one each 5 s and at the
    /// end.
    fn advance(&mut self, sent: u64) -> Option<String> {
        let elapsed_s = self.begun.elapsed().as_secs_f64();
        if self.is_quiet {
            // pgbench looks at the clock every 100 rows: a table of fewer is never told.
            let is_end = sent == self.n_rows && self.n_rows.is_multiple_of(100);
            let is_due = is_end || elapsed_s >= self.quiet_steps * QUIET_STEP_S;
            if !is_due {
                return None;
            }
            self.quiet_steps = (elapsed_s / QUIET_STEP_S).ceil();
            return Some(self.line(sent, elapsed_s));
        }
        let mut text = String::new();
        while sent >= self.rows_said + LOUD_STEP_ROWS {
            self.rows_said += LOUD_STEP_ROWS;
            text += &self.line(self.rows_said, elapsed_s);
        }
        (!text.is_empty()).then_some(text)
    }

    fn line(&mut self, sent: u64, elapsed_s: f64) -> String {
        let remaining_s = (self.n_rows - sent) as f64 * elapsed_s / sent as f64;
        let of_table = if self.names_table { format!(" of {}", self.table.name()) } else { String::new() };
        let text = format!(
            "{sent} of {} tuples ({}%){of_table} done (elapsed {elapsed_s:.2} s, remaining {remaining_s:.2} s)",
            self.n_rows,
            sent * 100 / self.n_rows,
        );
        // What is left of a longer line before it.
        let rest = self.width.saturating_sub(text.len());
        self.width = text.len();
        format!("{text}{:rest$}{}", "", if self.is_terminal { '\r' } else { '\n' })
    }

    /// What to write when the table is full: since 17 the line on the terminal is wiped out.
    fn close(&self, wipes: bool) -> String {
        match (self.is_terminal, wipes) {
            (false, _) => String::new(),
            (true, false) => "\n".to_string(),
            (true, true) if self.width == 0 => String::new(),
            (true, true) => format!("{:width$}\r", "", width = self.width),
        }
    }
}
