//! Where a row is made: its place, the draws of the cell at hand, and the values that others read.

use super::stream::ClientStream;
use super::{CellFault, Generator, SetForm, ValueCode};
use crate::expression::captured::DrawnRow;
use crate::expression::node::Code;
use crate::random::{Draws, cell_state};
use crate::value::kind::Type;
use crate::value::text::{write_float, write_word};

/// The state of making one row. A frame has a frame for each other table that it reads.
#[derive(Clone)]
pub(in crate::expression) struct Frame {
    set: usize,
    /// The row; of a line, the parent's.
    pub(in crate::expression) row: i64,
    pub(in crate::expression) line: Option<u64>,
    /// The index within the list that is being made.
    pub(in crate::expression) item: i64,
    pub(in crate::expression) draws: Draws,
    pub(in crate::expression) stream: ClientStream,
    /// The captured rows of this execution.
    pub(in crate::expression) drawn: DrawnRow,
    /// The first one of the row.
    pub(in crate::expression) fault: Option<Box<CellFault>>,
    /// Room for a vector's coordinates.
    pub(in crate::expression) numbers: Vec<f64>,
    /// Which row the slots belong to.
    stamp: u64,
    slots: Vec<Slot>,
    children: Vec<Option<Box<Frame>>>,
    /// Buffers that are not in use.
    spare: Vec<Vec<u8>>,
}

/// A kept value: of the row at hand if its stamp is the frame's.
#[derive(Clone, Debug, Default)]
struct Slot {
    stamp: u64,
    is_null: bool,
    bits: u64,
    text: Vec<u8>,
}

impl Frame {
    pub(in crate::expression) fn new(generator: &Generator, set: usize) -> Frame {
        let code = &generator.sets[set];
        let mut frame = Frame::empty();
        frame.set = set;
        frame.slots.resize(code.values.len(), Slot::default());
        frame.children.resize_with(code.targets.len(), || None);
        frame
    }

    /// A frame of no set, in which constants are evaluated.
    pub(in crate::expression) fn empty() -> Frame {
        Frame {
            set: 0,
            row: i64::MIN,
            line: None,
            item: 0,
            draws: Draws { state: 0 },
            stream: ClientStream::default(),
            drawn: DrawnRow::default(),
            fault: None,
            numbers: Vec::new(),
            stamp: 1,
            slots: Vec::new(),
            children: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Moves to a row; what was kept of the same row stays.
    pub(in crate::expression) fn go(&mut self, row: i64, line: Option<u64>) {
        if self.row != row || self.line != line {
            self.row = row;
            self.line = line;
            self.stamp += 1;
        }
    }

    /// Forgets all values but the first `n_kept`.
    pub(in crate::expression) fn renew(&mut self, n_kept: usize) {
        self.row = 0;
        self.stamp += 1;
        for slot in &mut self.slots[..n_kept] {
            slot.stamp = self.stamp;
        }
    }

    pub(in crate::expression) fn enter_cell(&mut self, key: u64) {
        self.draws.state = cell_state(key, self.row as u64, self.line);
    }

    /// Records that a value cannot be made. The value is null then, and the row is not used.
    #[cold]
    pub(in crate::expression) fn fail(&mut self, message: String) {
        if self.fault.is_none() {
            self.fault = Some(Box::new(CellFault { message, ..CellFault::default() }));
        }
    }

    /// Says whose fault it is, unless a value below it has said so.
    #[inline]
    pub(in crate::expression) fn name_fault(&mut self, generator: &Generator, value: &ValueCode) {
        let Some(fault) = &mut self.fault else { return };
        if fault.column.is_empty() {
            fault.table.clone_from(&generator.sets[self.set].name);
            fault.column.clone_from(&value.name);
            fault.row = self.row.max(0) as u64;
        }
    }

    /// A buffer for a text that is not sent; give it back with [`Frame::give`].
    pub(in crate::expression) fn borrow(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    pub(in crate::expression) fn give(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare.push(buffer);
    }

    pub(in crate::expression) fn word(&self, value: usize) -> Option<i64> {
        let slot = &self.slots[value];
        if slot.is_null { None } else { Some(slot.bits as i64) }
    }

    pub(in crate::expression) fn float(&self, value: usize) -> Option<f64> {
        let slot = &self.slots[value];
        if slot.is_null { None } else { Some(f64::from_bits(slot.bits)) }
    }

    /// The text of a kept text; none if it is null.
    pub(in crate::expression) fn kept_text(&self, value: usize) -> Option<&[u8]> {
        let slot = &self.slots[value];
        if slot.is_null { None } else { Some(&slot.text) }
    }

    pub(in crate::expression) fn set_word(&mut self, value: usize, word: Option<i64>) {
        let slot = &mut self.slots[value];
        slot.is_null = word.is_none();
        slot.bits = word.unwrap_or(0) as u64;
    }

    /// Appends the text of a kept value; false if it is null.
    pub(in crate::expression) fn write(&self, value: usize, kind: &Type, out: &mut Vec<u8>) -> bool {
        let slot = &self.slots[value];
        if slot.is_null {
            return false;
        }
        if kind.is_word() {
            write_word(kind, slot.bits as i64, out);
        } else if *kind == Type::Float {
            write_float(f64::from_bits(slot.bits), out);
        } else {
            out.extend_from_slice(&slot.text);
        }
        true
    }

    /// The frame of a set that this one reads.
    pub(in crate::expression) fn child(&mut self, generator: &Generator, child: usize) -> &mut Frame {
        let set = generator.sets[self.set].targets[child];
        self.children[child].get_or_insert_with(|| Box::new(Frame::new(generator, set)))
    }
}

/// Makes a value of the frame's row unless it is there.
pub(in crate::expression) fn keep(generator: &Generator, frame: &mut Frame, at: usize) {
    if frame.slots[at].stamp == frame.stamp {
        return;
    }
    let set = &generator.sets[frame.set];
    let value = &set.values[at];
    let outer_state = frame.draws.state;
    let outer_item = frame.item;
    let has_cell = !matches!(set.form, SetForm::Parameters { .. });
    if has_cell {
        frame.enter_cell(value.key);
    }
    match &value.code {
        Code::Word(code) => {
            let word = code(generator, frame);
            frame.set_word(at, word);
        }
        Code::Float(code) => {
            let word = code(generator, frame).map(|double| double.to_bits() as i64);
            frame.set_word(at, word);
        }
        Code::Text(code) => {
            let mut text = std::mem::take(&mut frame.slots[at].text);
            text.clear();
            let is_there = code(generator, frame, &mut text);
            let slot = &mut frame.slots[at];
            slot.text = text;
            slot.is_null = !is_there;
        }
    }
    frame.slots[at].stamp = frame.stamp;
    frame.name_fault(generator, value);
    frame.item = outer_item;
    if has_cell {
        frame.draws.state = outer_state;
    }
}

/// A place in another set.
#[derive(Clone, Copy)]
pub(in crate::expression) struct ChildPlace {
    /// The number of its frame.
    pub(in crate::expression) child: usize,
    pub(in crate::expression) value: usize,
    pub(in crate::expression) row: i64,
    pub(in crate::expression) line: Option<u64>,
}

/// Makes a value of another table's row, and returns the frame that has it.
pub(in crate::expression) fn children_value<'f>(
    generator: &Generator,
    frame: &'f mut Frame,
    place: &ChildPlace,
) -> &'f Frame {
    let child = frame.child(generator, place.child);
    child.go(place.row, place.line);
    keep(generator, child, place.value);
    if let Some(fault) = child.fault.take()
        && frame.fault.is_none()
    {
        frame.fault = Some(fault);
    }
    frame.child(generator, place.child)
}

/// The number of lines of a parent's row, in a frame of the table of the lines.
pub(in crate::expression) fn n_lines(generator: &Generator, frame: &mut Frame, parent: i64) -> u64 {
    let SetForm::Lines { lines, .. } = &generator.sets[frame.set].form else { return 0 };
    let Code::Word(code) = &lines.code else { return 0 };
    frame.go(parent, None);
    frame.enter_cell(lines.key);
    let n = code(generator, frame);
    frame.name_fault(generator, lines);
    n.map_or(0, |n| n.max(0) as u64)
}
