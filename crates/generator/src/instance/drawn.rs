//! Captured rows of transactions: which one an execution gets, and which ones the rounds of its loops.

use std::sync::Arc;

use crate::directory::Directory;
use crate::draws::{DrawsTable, LoopRows, loop_file, rows_file};
use crate::expression::ClientStream;
use crate::expression::ValueSource;
use crate::expression::captured::{DrawnRow, SetDraws};
use crate::manifest::transactions::{DeclaredTransaction, DrawsSpec};
use crate::problem::Problem;

/// The parameter and the fact that count executions whose row was dealt before.
pub(super) const REUSED_DRAWS: &str = "reused_draws";
/// Expression that says whether a row was dealt before.
pub(super) const REUSED: &str = "draw.reused";

/// The captured rows of a transaction.
#[derive(Clone, Debug)]
pub(super) struct TransactionRows {
    own: Arc<DrawsTable>,
    /// Those of each loop, if it has some.
    loops: Vec<Option<Arc<LoopRows>>>,
    is_once: bool,
}

impl PartialEq for TransactionRows {
    /// They are equal if they are the same.
    fn eq(&self, other: &TransactionRows) -> bool {
        Arc::ptr_eq(&self.own, &other.own) && self.is_once == other.is_once
    }
}

/// The captured rows of a transaction for the scope of its expressions.
pub(super) struct DrawnSets {
    pub(super) rows: TransactionRows,
    /// The parameter that says whether the row was dealt before.
    pub(super) reused: Option<ValueSource>,
}

/// What is wrong with captured rows.
pub(super) enum RowsProblem {
    /// A file.
    OfFile(Problem),
    /// The transaction that names it.
    OfTransaction(String),
}

impl TransactionRows {
    pub(super) fn new(
        directory: &Directory,
        spec: &DeclaredTransaction,
        draws: &DrawsSpec,
    ) -> Result<TransactionRows, RowsProblem> {
        let file = rows_file(&draws.name);
        let missing = |file: &str| {
            RowsProblem::OfTransaction(format!(
                "the captured rows of `{file}` are not here: results hold only their hash, unless they were asked to keep the rows"
            ))
        };
        let own = directory.draws(&file).ok_or_else(|| missing(&file))?;
        if own.n_rows == 0 {
            return Err(RowsProblem::OfTransaction(format!("`{file}` has no rows")));
        }
        let mut loops = Vec::with_capacity(spec.each.len());
        for each in &spec.each {
            let file = loop_file(&draws.name, &each.name);
            loops.push(match (directory.draws(&file), directory.file(&file)) {
                (Some(rows), _) => Some(Arc::new(LoopRows::new(rows, own).map_err(RowsProblem::OfFile)?)),
                (None, Some(_)) => return Err(missing(&file)),
                (None, None) => None,
            });
        }
        Ok(TransactionRows { own: Arc::clone(own), loops, is_once: draws.is_once })
    }

    /// The row of an execution that begins.
    #[inline]
    pub(super) fn draw(&self, transaction: usize, stream: &mut ClientStream) -> DrawnRow {
        let (own, is_reused) = if self.is_once {
            stream.deal(transaction, self.own.n_rows)
        } else {
            (stream.any_row(self.own.n_rows), false)
        };
        DrawnRow { own, outer: own, is_reused }
    }

    /// The rows of a loop's rounds in an execution; none if the loop has no rows of its own.
    #[inline]
    pub(super) fn rounds(&self, each: usize, row: u32) -> Option<std::ops::Range<u32>> {
        self.loops.get(each)?.as_ref().map(|rows| rows.of_row(row))
    }

    /// Why a loop has no further round.
    #[cold]
    pub(super) fn exhausted(&self, each: usize, row: u32) -> String {
        let (file, n) = match self.loops.get(each) {
            Some(Some(rows)) => (rows.rows.file.as_str(), rows.of_row(row).len()),
            _ => ("", 0),
        };
        format!("row {row} of `{}` has {n} rounds in `{file}`, and the script asks for more", self.own.file)
    }
}

impl DrawnSets {
    pub(super) fn of_transaction(&self) -> SetDraws {
        SetDraws { own: Some(Arc::clone(&self.rows.own)), outer: None, is_once: self.rows.is_once }
    }

    pub(super) fn of_loop(&self, each: usize) -> SetDraws {
        let own = self.rows.loops[each].as_ref().map(|rows| Arc::clone(&rows.rows));
        SetDraws { own, outer: Some(Arc::clone(&self.rows.own)), is_once: false }
    }
}
