//! The captured rows of a transaction's loop: which of them belong to which execution.

use std::sync::Arc;

use super::DrawsTable;
use crate::problem::Problem;
use crate::value::kind::Type;

/// The column that says to which row of the transaction a round belongs.
const ROW: &str = "row";

/// Rows of a loop, by the executions that they are of.
#[derive(Debug)]
pub(crate) struct LoopRows {
    pub(crate) rows: Arc<DrawsTable>,
    /// Where the rounds of each execution begin, and after the last one where they end.
    starts: Vec<u32>,
}

impl LoopRows {
    /// The rounds of the executions of `outer`.
    pub(crate) fn new(rows: &Arc<DrawsTable>, outer: &DrawsTable) -> Result<LoopRows, Problem> {
        let problem = |message: String| Problem::whole(&rows.file, message);
        let first = rows.columns.first().filter(|column| column.name == ROW && column.kind == Type::Int);
        let Some(first) = first else {
            return Err(problem(format!(
                "its first column has to be `{ROW}:int`, the row of `{}` that a round is of",
                outer.file
            )));
        };
        let mut starts = Vec::with_capacity(outer.n_rows as usize + 1);
        let mut n_found = 0;
        for (at, row) in first.words() {
            n_found += 1;
            let line = at + 3;
            if !(0..i64::from(outer.n_rows)).contains(&row) {
                let message = format!(
                    "line {line}: `{}` has no row {row}; it has {}, from 0",
                    outer.file, outer.n_rows
                );
                return Err(problem(message));
            }
            if row + 1 < starts.len() as i64 {
                return Err(problem(format!("line {line}: the rows have to stand in the order of `{ROW}`")));
            }
            starts.resize((row + 1).max(starts.len() as i64) as usize, at);
        }
        if n_found != rows.n_rows {
            return Err(problem(format!("`{ROW}` is null in a row")));
        }
        starts.resize(outer.n_rows as usize + 1, rows.n_rows);
        Ok(LoopRows { rows: Arc::clone(rows), starts })
    }

    /// The rounds of an execution.
    #[inline]
    pub(crate) fn of_row(&self, row: u32) -> std::ops::Range<u32> {
        let at = row as usize;
        match self.starts.get(at..at + 2) {
            Some([start, end]) => *start..*end,
            _ => 0..0,
        }
    }
}
