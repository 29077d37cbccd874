//! Progress lines of `-i`, as pgbench writes them.

use std::io::IsTerminal;
use std::time::Instant;

use workload::tpcb::TpcbTable;

/// Seconds between progress lines with `-q`.
const QUIET_STEP_S: f64 = 5.0;
/// Rows between progress lines without `-q`.
const LOUD_STEP_ROWS: u64 = 100_000;

/// Progress of one table.
pub(super) struct Progress {
    table: TpcbTable,
    n_rows: u64,
    is_quiet: bool,
    names_table: bool,
    begun: Instant,
    /// On a terminal, one line is overwritten.
    is_terminal: bool,
    width: usize,
    rows_said: u64,
    quiet_steps: f64,
}

impl Progress {
    pub(super) fn new(table: TpcbTable, n_rows: u64, is_quiet: bool, names_table: bool) -> Progress {
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

    /// The text to write after `sent` rows: a line per 100 000 rows, or, with `-q`, one every 5 s and one at the end.
    pub(super) fn advance(&mut self, sent: u64) -> Option<String> {
        let elapsed_s = self.begun.elapsed().as_secs_f64();
        if self.is_quiet {
            // pgbench looks at the clock every 100 rows: smaller tables have no progress line.
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
        // Overwrites the rest of a longer previous line.
        let rest = self.width.saturating_sub(text.len());
        self.width = text.len();
        format!("{text}{}{}", " ".repeat(rest), if self.is_terminal { '\r' } else { '\n' })
    }

    /// The text to write when the table is full: since 17 the line on the terminal is erased.
    pub(super) fn close(&self, wipes: bool) -> String {
        match (self.is_terminal, wipes) {
            (false, _) => String::new(),
            (true, false) => "\n".to_string(),
            (true, true) if self.width == 0 => String::new(),
            (true, true) => format!("{}\r", " ".repeat(self.width)),
        }
    }
}
