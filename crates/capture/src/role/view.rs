//! The sample of a template as columns: one for each slot, with a value for each execution or, in loops, for each round.

use crate::statement::SlotValue;
use crate::template::store::{LoopSpan, SampledTransaction, Template};

/// Most statements of a script after loops with a constant number of rounds were written out.
const STEPS_MAX: usize = 64;
/// Most rounds of a loop in a script.
const ROUNDS_MAX: u32 = 1000;

/// A statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateStep {
    /// Form.
    pub form: u32,
    /// The loop that it is in.
    pub in_loop: Option<usize>,
}

/// A slot of a statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotPlace {
    /// The statement.
    pub step: usize,
    /// The slot of its form.
    pub slot: usize,
}

/// The sample of a template, in the order of time.
#[derive(Debug)]
pub struct View<'a> {
    /// The statements, those of a loop once.
    pub steps: Vec<TemplateStep>,
    /// The loops as statements of `steps`.
    pub loops: Vec<LoopSpan>,
    /// The executions.
    pub rows: Vec<&'a SampledTransaction>,
    /// Rounds of each loop, by rows.
    rounds: Vec<Vec<u32>>,
}

impl<'a> View<'a> {
    /// The view of a template.
    pub fn new(template: &'a Template) -> View<'a> {
        let mut rows: Vec<&SampledTransaction> = template.sample.items().iter().collect();
        rows.sort_by_key(|row| row.began_us);
        let mut order: Vec<usize> = (0..template.loops.len()).collect();
        order.sort_by_key(|at| template.loops[*at]);
        let rounds_of = |at: usize| -> Vec<u32> {
            // Before a loop was seen for the first time, its statements went by once.
            rows.iter().map(|row| row.rounds.get(at).copied().unwrap_or(1)).collect()
        };
        let mut view = View { steps: Vec::new(), loops: Vec::new(), rounds: Vec::new(), rows: Vec::new() };
        let mut next = 0;
        for at in order {
            let span = template.loops[at];
            view.plain(&template.core[next..span.start]);
            let rounds = rounds_of(at);
            let first = rounds.first().copied().unwrap_or(1);
            let body = &template.core[span.start..span.start + span.len];
            let is_constant = rounds.iter().all(|rounds| *rounds == first);
            if is_constant && (first as usize).saturating_mul(span.len) + view.steps.len() <= STEPS_MAX {
                (0..first).for_each(|_| view.plain(body));
            } else {
                let number = view.loops.len();
                view.loops.push(LoopSpan { start: view.steps.len(), len: span.len });
                view.rounds.push(rounds);
                view.steps
                    .extend(body.iter().map(|form| TemplateStep { form: *form, in_loop: Some(number) }));
            }
            next = span.start + span.len;
        }
        view.plain(&template.core[next..]);
        // A script's loop has no more rounds; longer executions are not replayed as they were, so they are not drawn.
        let keeps: Vec<bool> =
            (0..rows.len()).map(|row| view.rounds.iter().all(|rounds| rounds[row] <= ROUNDS_MAX)).collect();
        for rounds in &mut view.rounds {
            let mut at = 0;
            rounds.retain(|_| {
                at += 1;
                keeps[at - 1]
            });
        }
        view.rows =
            rows.into_iter().zip(&keeps).filter_map(|(row, is_kept)| is_kept.then_some(row)).collect();
        view
    }

    fn plain(&mut self, forms: &[u32]) {
        self.steps.extend(forms.iter().map(|form| TemplateStep { form: *form, in_loop: None }));
    }

    /// Rounds of a loop in a row.
    pub fn rounds(&self, number: usize, row: usize) -> u32 {
        self.rounds[number][row]
    }

    /// Where a statement is in the execution of a row, in a round from 0.
    fn position(&self, row: usize, step: usize, round: u32) -> usize {
        let mut at = step;
        for (number, span) in self.loops.iter().enumerate() {
            if span.start + span.len <= step {
                at += span.len * (self.rounds(number, row) as usize - 1);
            } else if span.start <= step {
                at += span.len * round as usize;
            }
        }
        at
    }

    /// The rows of a column with their rounds: all executions, or all rounds of all executions.
    pub fn cells(&self, step: usize) -> impl Iterator<Item = ValueCell> + '_ {
        let in_loop = self.steps[step].in_loop;
        (0..self.rows.len()).flat_map(move |row| {
            let n = in_loop.map_or(1, |number| self.rounds(number, row));
            (0..n).map(move |round| ValueCell { row, round })
        })
    }

    /// The value of a slot in a cell.
    pub fn value(&self, place: SlotPlace, cell: ValueCell) -> Option<&'a SlotValue> {
        let at = self.position(cell.row, place.step, cell.round);
        self.rows[cell.row].values.get(at)?.get(place.slot)
    }

    /// All values of a slot.
    pub fn column(&self, place: SlotPlace) -> Vec<&'a SlotValue> {
        self.cells(place.step).filter_map(|cell| self.value(place, cell)).collect()
    }

    /// When a statement began, in a cell.
    pub fn began_us(&self, step: usize, cell: ValueCell) -> i64 {
        let row = self.rows[cell.row];
        let at = self.position(cell.row, step, cell.round);
        row.began_us + i64::from(row.start_us.get(at).copied().unwrap_or(0))
    }

    /// Time of the client before a statement, in a cell, microseconds.
    pub fn gap_us(&self, step: usize, cell: ValueCell) -> u32 {
        let at = self.position(cell.row, step, cell.round);
        self.rows[cell.row].gap_us.get(at).copied().unwrap_or(0)
    }
}

/// A place in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueCell {
    /// The execution.
    pub row: usize,
    /// The round of its loop, from 0.
    pub round: u32,
}
