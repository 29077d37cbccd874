//! A resolved part of an expression: its type, its code, and what is known of its values before one is made.

use super::make::{Frame, Generator};
use crate::value::kind::Type;
use crate::value::text::{FLOAT_LENGTH, word_length};

/// Makes 64 bits: int, decimal, bool, date, timestamp, interval. `None` is null.
pub(super) type WordFn = Box<dyn Fn(&Generator, &mut Frame) -> Option<i64> + Send + Sync>;
/// Makes a double.
pub(super) type FloatFn = Box<dyn Fn(&Generator, &mut Frame) -> Option<f64> + Send + Sync>;
/// Appends a text; false is null, and then nothing of what was appended counts.
pub(super) type TextFn = Box<dyn Fn(&Generator, &mut Frame, &mut Vec<u8>) -> bool + Send + Sync>;

/// Code, by the form of its values.
pub(super) enum Code {
    Word(WordFn),
    Float(FloatFn),
    Text(TextFn),
}

/// The interval of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reach {
    /// Not known; arithmetic is then checked value by value.
    Unknown,
    /// Of words.
    Words(i128, i128),
    /// Of doubles.
    Floats(f64, f64),
}

/// What is known of the values of a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) is_nullable: bool,
    /// The same in each row, without a draw.
    pub(super) is_constant: bool,
    /// No two rows of the table have the same value, as far as this is known.
    pub(super) is_unique: bool,
    /// Depends on rows that this client inserts (`fresh`, `latest`).
    pub(super) is_new: bool,
    pub(super) reach: Reach,
    /// Most characters of a text.
    pub(super) characters: u64,
    /// Most bytes of a text.
    pub(super) bytes: u64,
    /// A text that can hold what COPY escapes.
    pub(super) has_specials: bool,
    /// Bound of the work of a value: parts evaluated, characters made.
    pub(super) steps: u64,
    /// Parts of the expression, `let`s written out.
    pub(super) n_parts: u64,
    /// Nesting, through columns and tables.
    pub(super) depth: u32,
}

impl Facts {
    /// Of a constant without operands.
    pub(super) fn constant() -> Facts {
        Facts {
            is_nullable: false,
            is_constant: true,
            is_unique: false,
            is_new: false,
            reach: Reach::Unknown,
            characters: 0,
            bytes: 0,
            has_specials: false,
            steps: 1,
            n_parts: 1,
            depth: 1,
        }
    }

    /// Of something that differs from row to row.
    pub(super) fn varying() -> Facts {
        Facts { is_constant: false, ..Facts::constant() }
    }

    /// Of a function of `operands`; reach and lengths are left to the caller.
    pub(super) fn combined<'f>(operands: impl IntoIterator<Item = &'f Facts>) -> Facts {
        let mut all = Facts::constant();
        for operand in operands {
            all.is_nullable |= operand.is_nullable;
            all.is_constant &= operand.is_constant;
            all.is_new |= operand.is_new;
            all.has_specials |= operand.has_specials;
            all.steps = all.steps.saturating_add(operand.steps);
            all.n_parts = all.n_parts.saturating_add(operand.n_parts);
            all.depth = all.depth.max(operand.depth.saturating_add(1));
        }
        all
    }

    pub(super) fn with_reach(self, low: i128, high: i128) -> Facts {
        Facts { reach: Reach::Words(low, high), ..self }
    }

    /// With the length of a text; its work grows with it.
    pub(super) fn with_length(self, characters: u64, bytes: u64) -> Facts {
        Facts { characters, bytes, steps: self.steps.saturating_add(bytes / 8), ..self }
    }

    /// Of a value that takes draws.
    pub(super) fn drawn(self) -> Facts {
        Facts { is_constant: false, is_unique: false, ..self }
    }

    /// The interval of words; all of 64 bits if it is not known.
    pub(super) fn words(&self) -> (i128, i128) {
        match self.reach {
            Reach::Words(low, high) => (low, high),
            _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
        }
    }

    /// The interval as doubles, if it is known.
    pub(super) fn floats(&self) -> Option<(f64, f64)> {
        match self.reach {
            Reach::Floats(low, high) => Some((low, high)),
            _ => None,
        }
    }
}

/// A resolved part.
pub(super) struct Node {
    pub(super) kind: Type,
    pub(super) code: Code,
    pub(super) facts: Facts,
}

impl Node {
    pub(super) fn word(
        kind: Type,
        facts: Facts,
        code: impl Fn(&Generator, &mut Frame) -> Option<i64> + Send + Sync + 'static,
    ) -> Node {
        Node { kind, facts, code: Code::Word(Box::new(code)) }
    }

    pub(super) fn float(
        facts: Facts,
        code: impl Fn(&Generator, &mut Frame) -> Option<f64> + Send + Sync + 'static,
    ) -> Node {
        Node { kind: Type::Float, facts, code: Code::Float(Box::new(code)) }
    }

    pub(super) fn text(
        kind: Type,
        facts: Facts,
        code: impl Fn(&Generator, &mut Frame, &mut Vec<u8>) -> bool + Send + Sync + 'static,
    ) -> Node {
        Node { kind, facts, code: Code::Text(Box::new(code)) }
    }

    /// Most characters of the value as it is written.
    pub(super) fn longest(&self) -> u64 {
        match self.code {
            Code::Text(_) => self.facts.characters,
            Code::Float(_) => FLOAT_LENGTH,
            Code::Word(_) => {
                let (low, high) = self.facts.words();
                word_length(&self.kind, low, high)
            }
        }
    }

    /// Most bytes of the value as it is written.
    pub(super) fn bytes(&self) -> u64 {
        if matches!(self.code, Code::Text(_)) { self.facts.bytes } else { self.longest() }
    }

    /// The value of a constant word.
    pub(super) fn constant_word(&self) -> Option<i64> {
        let Code::Word(code) = &self.code else { return None };
        if self.facts.is_constant { code(&Generator::empty(), &mut Frame::empty()) } else { None }
    }

    /// The value of a constant double.
    pub(super) fn constant_float(&self) -> Option<f64> {
        let Code::Float(code) = &self.code else { return None };
        if self.facts.is_constant { code(&Generator::empty(), &mut Frame::empty()) } else { None }
    }

    /// The value of a constant text.
    pub(super) fn constant_text(&self) -> Option<String> {
        let Code::Text(code) = &self.code else { return None };
        let mut out = Vec::new();
        let is_known = self.facts.is_constant && code(&Generator::empty(), &mut Frame::empty(), &mut out);
        if is_known { String::from_utf8(out).ok() } else { None }
    }

    /// The text of the value, whatever its type.
    pub(super) fn into_text(self) -> TextFn {
        let kind = self.kind;
        match self.code {
            Code::Text(code) => code,
            Code::Float(code) => Box::new(move |generator, frame, out| {
                let Some(value) = code(generator, frame) else { return false };
                crate::value::text::write_float(value, out);
                true
            }),
            Code::Word(code) => Box::new(move |generator, frame, out| {
                let Some(value) = code(generator, frame) else { return false };
                crate::value::text::write_word(&kind, value, out);
                true
            }),
        }
    }
}
