//! The New-Order transaction (clause 2.4).

use crate::number::write_uint;
use crate::random::Prng;
use crate::tpcc::UNUSED_ITEM;
use crate::tpcc::parameter::TerminalParameter;
use crate::tpcc::strings::{ORIGINAL, cents, decimal};
use crate::tpcc::transaction::{
    HomeTerminal, Row, Transaction, array, array_with, number, other_warehouse, quoted,
};
use crate::tpcc::trial::{NewOrderInputs, OrderedItem};

/// Most lines of an order.
const LINES_MAX: usize = 15;

/// Statements, by their numbers in `statements::NEW_ORDER`; also the step that was taken last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(usize)]
enum Step {
    /// BEGIN.
    Begin = 0,
    /// W_TAX.
    Warehouse,
    /// D_TAX and the order's number, which is incremented.
    District,
    /// C_DISCOUNT, C_LAST, C_CREDIT.
    Customer,
    /// The row of ORDER.
    Order,
    /// The row of NEW-ORDER.
    NewOrder,
    /// The rows of ITEM of all lines.
    Items,
    /// A line's row of STOCK.
    Stock,
    /// The rows of ORDER-LINE.
    Lines,
    /// All lines are written.
    Commit,
    /// ROLLBACK, because the last line's item is unused.
    Rollback,
    /// Nothing has been sent yet, or everything has.
    #[default]
    Rest,
}

/// One line of an order.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    number: u32,
    i_id: u32,
    supply_w_id: u32,
    quantity: u32,
    // From the database.
    /// I_PRICE in cents, once the item is found.
    price: Option<i64>,
    item_is_original: bool,
    dist_info: DistInfo,
}

/// S_DIST_xx of the order's district.
#[derive(Clone, Copy, Debug, Default)]
struct DistInfo {
    text: [u8; DIST_INFO_BYTES],
    n: usize,
}

/// Length of S_DIST_xx (clause 1.3).
const DIST_INFO_BYTES: usize = 24;

impl Line {
    /// OL_AMOUNT in cents (2.4.2.2): OL_QUANTITY times I_PRICE; tax and discount only go into the total.
    fn amount(&self) -> i64 {
        self.price.unwrap_or(0) * i64::from(self.quantity)
    }
}

/// A New-Order transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewOrder {
    d_id: u32,
    c_id: u32,
    n_lines: usize,
    lines: [Line; LINES_MAX],
    /// It will be rolled back because of an unused item (clause 2.4.1.4).
    is_undone: bool,
    n_remote: u32,
    // State of the current try.
    step: Step,
    /// The current line.
    at: usize,
    o_id: u32,
    /// Lines whose item and stock are both original, "brand" on the screen (clause 2.4.3.3).
    n_brand: u32,
    /// Sum of the lines' amounts in cents.
    total: i64,
}

impl Transaction for NewOrder {
    fn draw(&mut self, prng: &mut Prng, home: &HomeTerminal) {
        let constants = &home.config.constants;
        self.d_id = prng.uint64_range(1, 10) as u32; // 2.4.1.2
        self.c_id = constants.customer(prng); // 2.4.1.2
        self.n_lines = prng.uint64_range(5, 15) as usize; // 2.4.1.3
        self.is_undone = prng.uint64_range(1, 100) == 1; // 2.4.1.4
        self.n_remote = 0;
        for n in 0..self.n_lines {
            let is_last = n + 1 == self.n_lines;
            // 2.4.1.5 1: the item, which is drawn also when the last one is to be unused.
            let used = constants.item(prng);
            let i_id = if is_last && self.is_undone { UNUSED_ITEM } else { used };
            // 2.4.1.5 2: one line in a hundred from another warehouse.
            let is_remote = prng.uint64_range(1, 100) == 1;
            let other = if is_remote { other_warehouse(prng, home) } else { None };
            self.n_remote += u32::from(other.is_some());
            self.lines[n] = Line {
                number: n as u32 + 1,
                i_id,
                supply_w_id: other.unwrap_or(home.w_id),
                quantity: prng.uint64_range(1, 10) as u32, // 2.4.1.5 3
                ..Line::default()
            };
        }
        // The order in which rows of STOCK are locked is the same for all terminals, or they would wait for each
        // other in circles. Lines keep their numbers, and the unused item comes last.
        let n_sorted = self.n_lines - usize::from(self.is_undone);
        self.lines[..n_sorted].sort_unstable_by_key(|line| (line.supply_w_id, line.i_id, line.number));
    }

    fn begin(&mut self) {
        self.step = Step::Rest;
        self.at = 0;
        self.lines.iter_mut().for_each(|line| line.price = None);
        self.total = 0;
        self.n_brand = 0;
    }

    fn next(&mut self, n_rows: u32) -> Result<Option<usize>, &'static str> {
        self.step = match self.step {
            Step::Rest => Step::Begin,
            Step::Begin => Step::Warehouse,
            Step::Warehouse if n_rows == 1 => Step::District,
            Step::Warehouse => return Err("the home warehouse"),
            Step::District if n_rows == 1 => Step::Customer,
            Step::District => return Err("the district"),
            Step::Customer if n_rows == 1 => Step::Order,
            Step::Customer => return Err("the customer"),
            Step::Order => Step::NewOrder,
            Step::NewOrder => Step::Items,
            Step::Items => self.first_line()?,
            Step::Stock if n_rows == 1 => self.next_line(),
            Step::Stock => return Err("the item's stock"),
            Step::Lines => Step::Commit,
            Step::Commit | Step::Rollback => return Ok(None),
        };
        Ok(Some(self.step as usize))
    }

    fn take_row(&mut self, mut row: Row) -> Option<()> {
        match self.step {
            Step::District => self.o_id = number(&mut row)?,
            Step::Items => {
                let i_id: u32 = number(&mut row)?;
                let price = cents(row.next()??)?;
                let item_is_original = is_original(row.nth(1)??);
                // An item may come more than once in an order.
                for line in self.lines[..self.n_lines].iter_mut().filter(|line| line.i_id == i_id) {
                    (line.price, line.item_is_original) = (Some(price), item_is_original);
                }
            }
            Step::Stock => {
                let line = &mut self.lines[self.at];
                let stock_is_original = is_original(row.nth(1)??);
                self.n_brand += u32::from(line.item_is_original && stock_is_original);
                let info = row.next()??;
                line.dist_info.n = info.len().min(DIST_INFO_BYTES);
                line.dist_info.text[..line.dist_info.n].copy_from_slice(&info[..line.dist_info.n]);
                self.total += line.amount();
            }
            _ => {}
        }
        Some(())
    }

    fn parameter(&self, home: &HomeTerminal, parameter: TerminalParameter, out: &mut Vec<u8>) -> bool {
        let line = &self.lines[self.at.min(LINES_MAX - 1)];
        let lines = &self.lines[..self.n_lines];
        let value = match parameter {
            TerminalParameter::WId => home.w_id,
            TerminalParameter::DId => self.d_id,
            TerminalParameter::CId => self.c_id,
            TerminalParameter::OId => self.o_id,
            TerminalParameter::OlCnt => self.n_lines as u32,
            TerminalParameter::AllLocal => u32::from(self.n_remote == 0),
            TerminalParameter::Item => line.i_id,
            TerminalParameter::Supply => line.supply_w_id,
            TerminalParameter::Quantity => line.quantity,
            TerminalParameter::IsRemote => u32::from(line.supply_w_id != home.w_id),
            TerminalParameter::Amounts => {
                array_with(out, lines, |line, out| decimal(out, line.amount().unsigned_abs(), 2));
                return true;
            }
            TerminalParameter::DistInfos => {
                array_with(out, lines, |line, out| quoted(out, &line.dist_info.text[..line.dist_info.n]));
                return true;
            }
            TerminalParameter::Numbers => {
                array(out, lines.iter().map(|line| line.number));
                return true;
            }
            TerminalParameter::Items => {
                array(out, lines.iter().map(|line| line.i_id));
                return true;
            }
            TerminalParameter::Supplies => {
                array(out, lines.iter().map(|line| line.supply_w_id));
                return true;
            }
            TerminalParameter::Quantities => {
                array(out, lines.iter().map(|line| line.quantity));
                return true;
            }
            _ => return false,
        };
        write_uint(out, value.into());
        true
    }

    fn add_facts(&self, facts: &mut [u64]) {
        facts[0] += u64::from(self.is_undone);
        facts[1] += self.n_lines as u64;
        facts[2] += u64::from(self.n_remote);
    }
}

impl NewOrder {
    /// An order with these inputs.
    pub(crate) fn given(order: &NewOrderInputs) -> NewOrder {
        let mut this = NewOrder {
            d_id: order.d_id,
            c_id: order.c_id,
            n_lines: order.lines.len().min(LINES_MAX),
            is_undone: order.is_undone(),
            ..NewOrder::default()
        };
        for (number, (line, asked)) in (1..).zip(this.lines.iter_mut().zip(&order.lines)) {
            let OrderedItem { i_id, supply_w_id, quantity } = *asked;
            *line = Line { number, i_id, supply_w_id, quantity, ..Line::default() };
            this.n_remote += u32::from(supply_w_id != order.w_id);
        }
        this
    }

    /// Inputs of the transaction.
    pub(crate) fn order(&self, w_id: u32) -> NewOrderInputs {
        let asked = |line: &Line| OrderedItem {
            i_id: line.i_id,
            supply_w_id: line.supply_w_id,
            quantity: line.quantity,
        };
        let lines = self.lines[..self.n_lines].iter().map(asked).collect();
        NewOrderInputs { w_id, d_id: self.d_id, c_id: self.c_id, lines }
    }

    /// The first line's row of STOCK, if all items exist that should.
    fn first_line(&mut self) -> Result<Step, &'static str> {
        let is_missing = |line: &&Line| line.price.is_none() && line.i_id != UNUSED_ITEM;
        match self.lines[..self.n_lines].iter().find(is_missing) {
            Some(_) => Err("an item"),
            None => Ok(Step::Stock),
        }
    }

    /// The next line's row of STOCK; after the last one, the lines are written. The unused item, which is in the last
    /// line, has no stock: by then all other rows are changed, and the order is rolled back.
    fn next_line(&mut self) -> Step {
        self.at += 1;
        match self.lines[..self.n_lines].get(self.at) {
            Some(line) if line.price.is_none() => Step::Rollback,
            Some(_) => Step::Stock,
            None => Step::Lines,
        }
    }

    /// Whether this order is meant to end with the error [`crate::tpcc::UNUSED_ITEM_SQLSTATE`].
    pub(crate) fn is_undone(&self) -> bool {
        self.is_undone
    }
}

fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}
