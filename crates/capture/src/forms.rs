//! All forms of statements of a log, each once, with what is counted about it.

use std::collections::{BTreeMap, HashMap};

use crate::balance::{OmissionReason, TimeShare};
use crate::log::Protocol;
use crate::statement::identity::Fnv;
use crate::statement::kind::AdvisoryLocks;
use crate::statement::lexer::{Backslash, tokens};
use crate::statement::{Form, SlotValue, StatementRole};
use crate::template::hot::HotValues;
use crate::template::sketch::DistinctSketch;

/// Most forms; statements beyond them are left out.
const FORMS_MAX: usize = 20_000;
/// Bytes of all texts.
const BYTES_MAX: usize = 256 << 20;
/// Longest text of a statement that is taken apart.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;
/// Slots whose hottest values are counted.
const HOT_SLOTS_MAX: usize = 500;
/// Slots whose distinct values are counted, of the statements that came first: a full sketch has about 4 KiB.
const SKETCHED_SLOTS_MAX: usize = 20_000;

/// A form, and what was counted.
#[derive(Debug)]
pub struct KnownForm {
    /// The form.
    pub form: Form,
    /// All executions, those that are left out included.
    pub share: TimeShare,
    /// Executions as simple queries, as unnamed statements, and as prepared ones.
    pub by_protocol: [u64; 3],
    /// Distinct values of each slot, as long as there is room; none of statements that are no work.
    pub distinct: Vec<DistinctSketch>,
    /// The hottest values of each slot, as long as there is room.
    pub hot: Vec<Option<HotValues>>,
    /// Advisory locks of the session that it takes or releases.
    pub locks: AdvisoryLocks,
    /// Whether it declares, reads or closes a cursor.
    pub is_cursor: bool,
}

/// All forms.
#[derive(Debug, Default)]
pub struct Forms {
    by_key: HashMap<u64, u32>,
    /// The forms by their numbers.
    pub all: Vec<KnownForm>,
    n_bytes: usize,
    n_hot: usize,
    n_sketched: usize,
    /// What is left out, by reason and form.
    pub left_out: BTreeMap<(OmissionReason, u32), TimeShare>,
}

impl Forms {
    /// The number of a form, with its values counted. All that there is no room for is one form, whose role says so.
    pub(crate) fn count(
        &mut self,
        mut form: Form,
        values: &[SlotValue],
        protocol: &Protocol,
        share: TimeShare,
    ) -> u32 {
        let key = form.key();
        let number = match self.by_key.get(&key) {
            Some(number) => *number,
            None => {
                let bytes: usize = form.numbered().len() + form.slots.len() * 64;
                if self.all.len() >= FORMS_MAX || self.n_bytes + bytes > BYTES_MAX {
                    form = rest();
                    if let Some(number) = self.by_key.get(&form.key()).copied() {
                        self.all[number as usize].share.add(share);
                        return number;
                    }
                }
                self.n_bytes += bytes;
                self.insert(form)
            }
        };
        let known = &mut self.all[number as usize];
        known.share.add(share);
        known.by_protocol[place(protocol)] += share.calls;
        let values = if share.calls > 0 { values } else { &[] };
        for (n, value) in values.iter().enumerate().take(known.distinct.len()) {
            if let SlotValue::Text(text) = value {
                let mut hash = Fnv::new();
                hash.add(text.as_bytes());
                known.distinct[n].add(hash.0);
                if let Some(hot) = &mut known.hot[n] {
                    hot.add(hash.0);
                }
            }
        }
        number
    }

    fn insert(&mut self, mut form: Form) -> u32 {
        // A pattern may find a secret in words that a form has, never in its values, which are not there.
        let text = form.numbered();
        if matches!(model::secret::hide_text(&text), std::borrow::Cow::Owned(_)) {
            form = Form { role: StatementRole::Refused(OmissionReason::Secret), ..form };
        }
        let first_word = text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.by_key.insert(form.key(), number);
        let n = form.slots.len();
        let is_work = matches!(form.role, StatementRole::Work(_));
        let n_hot = if is_work { n.min(HOT_SLOTS_MAX.saturating_sub(self.n_hot)) } else { 0 };
        self.n_hot += n_hot;
        let n_sketched = if is_work { n.min(SKETCHED_SLOTS_MAX.saturating_sub(self.n_sketched)) } else { 0 };
        self.n_sketched += n_sketched;
        let hot = (0..n).map(|at| if at < n_hot { Some(HotValues::default()) } else { None });
        self.all.push(KnownForm {
            hot: hot.collect(),
            distinct: vec![DistinctSketch::default(); n_sketched],
            form,
            share: TimeShare::default(),
            by_protocol: [0; 3],
            locks: AdvisoryLocks::new(&text, &tokens(&text, Backslash::Plain)),
            is_cursor: ["declare", "fetch", "move", "close"].contains(&first_word.as_str()),
        });
        number
    }

    /// Counts an execution that is left out.
    pub(crate) fn leave_out(&mut self, reason: OmissionReason, form: u32, share: TimeShare) {
        self.left_out.entry((reason, form)).or_default().add(share);
    }

    /// A form by its number.
    pub fn form(&self, number: u32) -> &Form {
        &self.all[number as usize].form
    }
}

/// Index of a protocol in [`KnownForm::by_protocol`].
fn place(protocol: &Protocol) -> usize {
    match protocol {
        Protocol::Simple => 0,
        Protocol::Extended => 1,
        Protocol::Named(_) => 2,
    }
}

/// The word for the protocol of most executions; of several, the first.
pub(crate) fn protocol_word(by_protocol: [u64; 3]) -> &'static str {
    let most = (0..3).max_by_key(|at| (by_protocol[*at], 3 - at)).unwrap_or(0);
    ["simple", "extended", "prepared"][most]
}

/// Stands for all that there is no room for.
fn rest() -> Form {
    Form {
        identity: 0,
        role: StatementRole::Refused(OmissionReason::Rare),
        pieces: Vec::new(),
        slots: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::form::take;
    use crate::statement::kind::role;

    #[test]
    fn all_statements_together_have_a_bounded_number_of_sketches() {
        let mut forms = Forms::default();
        let values: Vec<String> = (0..250).map(|n| format!("c{n} = {n}")).collect();
        for n in 0..100 {
            let text = format!("update t{n} set {}", values.join(", "));
            let tokens = tokens(&text, Backslash::Plain);
            let taken = take(&text, &tokens, role(&text, &tokens), &[], Backslash::Plain);
            let share = TimeShare { calls: 1, time_us: 1 };
            forms.count(taken.form, &taken.values, &Protocol::Simple, share);
        }
        let n_sketched: usize = forms.all.iter().map(|known| known.distinct.len()).sum();
        assert_eq!((forms.all.len(), n_sketched), (100, SKETCHED_SLOTS_MAX));
        assert_eq!(forms.all[0].distinct[0].distinct(), 1);
    }
}
