//! The script of a template, in pgbench's language.

use crate::forms::Forms;
use crate::role::variables::{SlotFilling, Variables, loop_name};
use crate::role::view::{SlotPlace, View};
use crate::statement::literal::{quote, quote_without_colons};
use crate::statement::{FormPiece, Origin};

/// The material of a script.
pub(super) struct TemplateScript<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) forms: &'a Forms,
    pub(super) variables: &'a Variables,
    pub(super) is_block: bool,
    pub(super) is_simple: bool,
}

impl TemplateScript<'_> {
    /// The script.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        if !self.view.loops.is_empty() {
            out.push_str("-- pgdyno: extended\n");
        }
        // Several statements without BEGIN were sent in one message, or until one Sync: one transaction.
        let is_one = !self.is_block && self.view.steps.len() > 1;
        let is_message = is_one && self.is_simple && self.is_plain();
        let is_framed = is_one && !is_message;
        if is_framed {
            out.push_str("begin;\n");
        }
        for step in 0..self.view.steps.len() {
            self.step(step, is_message, &mut out);
        }
        if is_framed {
            out.push_str("end;\n");
        }
        out
    }

    fn is_plain(&self) -> bool {
        self.view.loops.is_empty() && self.variables.pauses.is_empty() && self.variables.gsets.is_empty()
    }

    fn step(&self, step: usize, is_message: bool, out: &mut String) {
        let begins = self.view.loops.iter().position(|span| span.start == step);
        if let Some(number) = begins {
            let rounds = &self.variables.all[self.variables.rounds[number]].name;
            out.push_str(&format!("\\repeat {} :{rounds}\n", loop_name(number)));
        }
        if let Some(variable) = self.variables.pauses.get(&step) {
            out.push_str(&format!("\\sleep :{} us\n", self.variables.all[*variable].name));
        }
        out.push_str(self.statement(step).trim());
        let is_last = step + 1 == self.view.steps.len();
        match self.variables.gsets.get(&step) {
            Some(prefix) => out.push_str(&format!(" \\gset {prefix}\n")),
            None if is_message && !is_last => out.push_str(" \\;\n"),
            None => out.push_str(";\n"),
        }
        if self.view.loops.iter().any(|span| span.start + span.len == step + 1) {
            out.push_str("\\endrepeat\n");
        }
    }

    fn statement(&self, step: usize) -> String {
        let form = self.forms.form(self.view.steps[step].form);
        let mut text = String::new();
        for piece in &form.pieces {
            match piece {
                FormPiece::Text(plain) => text.push_str(plain),
                FormPiece::Slot(slot) => {
                    let place = SlotPlace { step, slot: usize::from(*slot) };
                    match self.variables.fillings.get(&place) {
                        Some(SlotFilling::Literal(Origin::Number, number)) => text.push_str(number),
                        Some(SlotFilling::Literal(_, literal)) => text.push_str(&literal_text(literal)),
                        Some(SlotFilling::Variable(variable, cast)) => {
                            text.push_str(&format!(":{}{cast}", self.variables.all[*variable].name));
                        }
                        None => text.push_str("null"),
                    }
                }
            }
        }
        text
    }
}

/// A literal in which no colon begins a variable: pgbench looks for them also within quotes.
pub(super) fn literal_text(value: &str) -> String {
    let begins_name = |pair: &[u8]| {
        pair[0] == b':' && (pair[1].is_ascii_alphanumeric() || pair[1] == b'_' || pair[1] >= 0x80)
    };
    if value.as_bytes().windows(2).any(begins_name) { quote_without_colons(value) } else { quote(value) }
}
