//! Keeps rows: for the variables of `\gset` and `\aset`, or for a terminal.

use wire::scan::{column_names, row_values};
use workload::{Emulator, Fetch, Interpreter, Program, RunError};

/// The results of one statement, as far as they are needed. The memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    is_on: bool,
    /// The rows are for a terminal, which takes all of them, by position of their columns.
    is_for_terminal: bool,
    /// Every row of every result, for a terminal, and where each ends.
    rows: Vec<u8>,
    row_ends: Vec<usize>,
    results: Vec<Kept>,
    /// How many of `results` belong to the statement.
    n: usize,
    /// The last result is not complete.
    is_open: bool,
    /// Limit and size of what is kept of one statement: the server's bytes, and the overhead of each row and result.
    n_bytes_max: usize,
    n_bytes: usize,
}

/// One result: its columns and its last row, as the server sent them.
#[derive(Debug, Default)]
struct Kept {
    /// Whether it returns rows, even if there are none.
    has_columns: bool,
    columns: Vec<u8>,
    n_rows: u64,
    row: Vec<u8>,
}

/// Why results did not become variables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FetchVariableError {
    /// `\gset` needs exactly one row.
    RowCount {
        /// Number of the query in the statement, from 0.
        query: usize,
        n_rows: u64,
    },
    /// A column's name is not a valid name of a variable.
    Name {
        query: usize,
        /// Prefix and column.
        name: String,
        /// The problem with the value.
        cause: String,
    },
}

impl Fetched {
    /// Keeps at most `n_bytes_max` of one statement's results.
    pub(crate) fn new(n_bytes_max: u32) -> Fetched {
        Fetched { n_bytes_max: n_bytes_max as usize, ..Fetched::default() }
    }

    /// Whether more came than may be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.n_bytes > self.n_bytes_max
    }

    /// Counts what is about to be kept; `false` if that is too much.
    fn make_room(&mut self, n_bytes: usize) -> bool {
        if self.is_on {
            self.n_bytes = self.n_bytes.saturating_add(n_bytes);
        }
        !self.is_full()
    }

    /// Begins a new statement; `is_on` says whether its results are kept.
    pub(crate) fn begin(&mut self, is_on: bool, is_for_terminal: bool) {
        self.is_on = is_on;
        self.is_for_terminal = is_for_terminal;
        self.rows.clear();
        self.row_ends.clear();
        self.n = 0;
        self.is_open = false;
        self.n_bytes = 0;
    }

    /// A result with columns begins; `false` if it is too much to be kept.
    pub(crate) fn columns(&mut self, body: &[u8]) -> bool {
        if !self.make_room(size_of::<Kept>() + body.len()) {
            return false;
        }
        let Some(result) = self.open() else { return true };
        result.has_columns = true;
        result.columns.extend_from_slice(body);
        true
    }

    /// Takes a row of the result; `false` if it is too much to be kept.
    pub(crate) fn row(&mut self, body: &[u8]) -> bool {
        if self.is_for_terminal && self.is_on {
            if !self.make_room(size_of::<usize>() + body.len()) {
                return false;
            }
            self.rows.extend_from_slice(body);
            self.row_ends.push(self.rows.len());
            return true;
        }
        if !self.is_open {
            return true;
        }
        let Some(last) = self.n.checked_sub(1) else { return true };
        // Only the last row of a result is kept.
        if !self.make_room(body.len().saturating_sub(self.results[last].row.len())) {
            return false;
        }
        let result = &mut self.results[last];
        result.n_rows += 1;
        result.row.clear();
        result.row.extend_from_slice(body);
        true
    }

    /// Hands all rows to the terminal.
    pub(crate) fn give(&self, program: &Program, emulator: &mut Emulator) -> Result<(), RunError> {
        let mut start = 0;
        for &end in &self.row_ends {
            emulator.take_row(program, &mut row_values(&self.rows[start..end]))?;
            start = end;
        }
        Ok(())
    }

    /// The end of a result, with columns or without; `false` if there are too many to be kept.
    pub(crate) fn end_result(&mut self) -> bool {
        if !self.is_open {
            if !self.make_room(size_of::<Kept>()) {
                return false;
            }
            self.open();
        }
        self.is_open = false;
        true
    }

    fn open(&mut self) -> Option<&mut Kept> {
        if !self.is_on || self.is_for_terminal {
            return None;
        }
        if self.n == self.results.len() {
            self.results.push(Kept::default());
        }
        self.n += 1;
        self.is_open = true;
        let result = &mut self.results[self.n - 1];
        result.has_columns = false;
        result.n_rows = 0;
        result.columns.clear();
        result.row.clear();
        Some(result)
    }

    /// Assigns the statement's results to variables.
    pub(crate) fn store(
        &self,
        fetch: &Fetch,
        program: &Program,
        script: &mut Interpreter,
    ) -> Result<(), FetchVariableError> {
        let results = &self.results[..self.n];
        match fetch {
            Fetch::Discard | Fetch::Rows => Ok(()),
            Fetch::Gset { prefix } => {
                let Some(last) = results.last() else { return Ok(()) };
                let query = results.len() - 1;
                match if last.has_columns { last.n_rows } else { 0 } {
                    1 => last.store(query, "gset", prefix, program, script),
                    n_rows => Err(FetchVariableError::RowCount { query, n_rows }),
                }
            }
            Fetch::Aset { prefix } => results
                .iter()
                .enumerate()
                .filter(|(_, result)| result.n_rows > 0)
                .try_for_each(|(query, result)| result.store(query, "aset", prefix, program, script)),
        }
    }
}

impl Kept {
    fn store(
        &self,
        query: usize,
        context: &str,
        prefix: &str,
        program: &Program,
        script: &mut Interpreter,
    ) -> Result<(), FetchVariableError> {
        for (column, value) in column_names(&self.columns).iter().zip(row_values(&self.row)) {
            let name = format!("{prefix}{column}");
            script
                .assign_column(program, context, &name, value)
                .map_err(|cause| FetchVariableError::Name { query, name, cause })?;
        }
        Ok(())
    }
}
