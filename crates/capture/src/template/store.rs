//! All templates of a log, each with a sample of its transactions.

use std::collections::{BTreeMap, HashMap};

use crate::balance::TimeShare;
use crate::statement::SlotValue;
use crate::statement::identity::Fnv;
use crate::template::fold::fold;
use crate::template::reservoir::{Mixer, Reservoir};
use crate::transaction::CutTransaction;

/// Transactions of a template that are kept.
pub const SAMPLE_MAX: usize = 10_000;
/// Bytes of all samples together.
const BYTES_MAX: usize = 512 << 20;
/// Templates that are kept while reading; beyond, those with the least time are forgotten.
const TEMPLATES_MAX: usize = 10_000;

/// A kept transaction.
#[derive(Clone, Debug)]
pub struct SampledTransaction {
    /// When it began.
    pub began_us: i64,
    /// Rounds of each loop of the template.
    pub rounds: Vec<u32>,
    /// Values of each statement, in the order of execution.
    pub values: Vec<Box<[SlotValue]>>,
    /// When each statement began, after the beginning of the transaction.
    pub start_us: Vec<u32>,
    /// Time between the end of the statement before and the beginning, for each statement.
    pub gap_us: Vec<u32>,
    n_bytes: usize,
}

/// Items of the core that go round together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoopSpan {
    /// The first item.
    pub start: usize,
    /// How many.
    pub len: usize,
}

/// A template.
#[derive(Clone, Debug)]
pub struct Template {
    /// Forms of its statements; those of a loop once.
    pub core: Vec<u32>,
    /// Loops, in order.
    pub loops: Vec<LoopSpan>,
    /// Whether it begins with `BEGIN`.
    pub is_block: bool,
    /// The error with which it fails.
    pub error: Option<[u8; 5]>,
    /// Transactions.
    pub n: u64,
    /// Share of each form.
    pub shares: BTreeMap<u32, TimeShare>,
    /// Transactions of each session.
    pub by_session: BTreeMap<u32, u64>,
    /// The sample.
    pub sample: Reservoir<SampledTransaction>,
}

impl Template {
    /// All statements of its transactions.
    pub fn share(&self) -> TimeShare {
        self.shares.values().fold(TimeShare::default(), |mut sum, share| {
            sum.add(*share);
            sum
        })
    }
}

/// All templates.
#[derive(Debug)]
pub struct TemplateStore {
    by_key: HashMap<u64, usize>,
    /// The templates, in the order in which they appeared.
    pub all: Vec<Template>,
    /// Shares of forms whose templates were forgotten.
    pub forgotten: BTreeMap<u32, TimeShare>,
    mixer: Mixer,
    n_bytes: usize,
    capacity: usize,
}

impl Default for TemplateStore {
    fn default() -> TemplateStore {
        TemplateStore {
            by_key: HashMap::new(),
            all: Vec::new(),
            forgotten: BTreeMap::new(),
            mixer: Mixer::new(1),
            n_bytes: 0,
            capacity: SAMPLE_MAX,
        }
    }
}

/// Sessions that a template counts on their own.
const SESSIONS_MAX: usize = 4096;

impl TemplateStore {
    /// Adds a whole transaction.
    pub fn add(&mut self, transaction: CutTransaction) {
        let sequence: Vec<u32> = transaction.steps.iter().map(|step| step.form).collect();
        let segments = fold(&sequence);
        let mut core = Vec::new();
        let mut loops = Vec::new();
        let mut rounds = Vec::new();
        for segment in &segments {
            if segment.rounds > 1 {
                loops.push(LoopSpan { start: core.len(), len: segment.len });
                rounds.push(u32::try_from(segment.rounds).unwrap_or(u32::MAX));
            }
            core.extend(&sequence[segment.start..segment.start + segment.len]);
        }
        let at = self.place(&transaction, core, &loops);
        let template = &mut self.all[at];
        let rounds_of = |span: &LoopSpan| loops.iter().position(|one| one == span).map_or(1, |n| rounds[n]);
        let rounds: Vec<u32> = template.loops.iter().map(rounds_of).collect();
        template.n += 1;
        for step in &transaction.steps {
            template.shares.entry(step.form).or_default().add(step.share);
        }
        if template.by_session.len() < SESSIONS_MAX || template.by_session.contains_key(&transaction.session)
        {
            *template.by_session.entry(transaction.session).or_default() += 1;
        }
        let mut added = 0;
        let make = || {
            let sampled = sampled(transaction, rounds);
            added = sampled.n_bytes;
            sampled
        };
        let removed = template.sample.offer(&mut self.mixer, make).map_or(0, |old| old.n_bytes);
        self.n_bytes = (self.n_bytes + added).saturating_sub(removed);
        while self.n_bytes > BYTES_MAX && self.capacity > 1 {
            self.shrink();
        }
    }

    /// The template of a transaction; its loops get those that this one has.
    fn place(&mut self, transaction: &CutTransaction, core: Vec<u32>, loops: &[LoopSpan]) -> usize {
        let error = transaction.error();
        let mut hash = Fnv::new();
        core.iter().for_each(|form| hash.add(&form.to_le_bytes()));
        hash.add(&error.unwrap_or_default());
        hash.add(&[u8::from(transaction.is_block)]);
        if let Some(at) = self.by_key.get(&hash.0).copied() {
            let known = &mut self.all[at].loops;
            if loops.iter().all(|span| fits(known, *span)) {
                known.extend(loops.iter().filter(|span| !known.contains(span)).copied().collect::<Vec<_>>());
                return at;
            }
            // The same statements in loops that overlap are another template.
            for span in loops {
                hash.add(&[0xff]);
                hash.add(&span.start.to_le_bytes());
                hash.add(&span.len.to_le_bytes());
            }
            if let Some(at) = self.by_key.get(&hash.0) {
                return *at;
            }
        }
        if self.all.len() >= TEMPLATES_MAX {
            self.forget();
        }
        self.by_key.insert(hash.0, self.all.len());
        self.all.push(Template {
            core,
            loops: loops.to_vec(),
            is_block: transaction.is_block,
            error,
            n: 0,
            shares: BTreeMap::new(),
            by_session: BTreeMap::new(),
            sample: Reservoir::new(self.capacity),
        });
        self.all.len() - 1
    }

    /// Forgets the half of the templates that has the least time.
    fn forget(&mut self) {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        let weight = |template: &Template| (template.share().time_us, template.n);
        order.sort_by_cached_key(|at| std::cmp::Reverse(weight(&self.all[*at])));
        order.truncate(TEMPLATES_MAX / 2);
        order.sort_unstable();
        let mut places = HashMap::new();
        let mut kept = Vec::with_capacity(TEMPLATES_MAX);
        for (at, template) in std::mem::take(&mut self.all).into_iter().enumerate() {
            if order.binary_search(&at).is_ok() {
                places.insert(at, kept.len());
                kept.push(template);
                continue;
            }
            self.n_bytes -=
                template.sample.items().iter().map(|one| one.n_bytes).sum::<usize>().min(self.n_bytes);
            for (form, share) in template.shares {
                self.forgotten.entry(form).or_default().add(share);
            }
        }
        self.all = kept;
        self.by_key = self.by_key.drain().filter_map(|(key, at)| Some((key, *places.get(&at)?))).collect();
    }

    /// Halves the largest samples.
    fn shrink(&mut self) {
        self.capacity = (self.capacity / 2).max(1);
        for template in &mut self.all {
            let removed = template.sample.shrink(self.capacity, &mut self.mixer);
            self.n_bytes -= removed.iter().map(|one| one.n_bytes).sum::<usize>().min(self.n_bytes);
        }
    }
}

/// Whether a loop is one of these, or apart from all of them.
fn fits(known: &[LoopSpan], span: LoopSpan) -> bool {
    let is_apart = |one: &LoopSpan| one.start + one.len <= span.start || span.start + span.len <= one.start;
    known.iter().all(|one| *one == span || is_apart(one))
}

fn sampled(transaction: CutTransaction, rounds: Vec<u32>) -> SampledTransaction {
    let began_us = transaction.began_us();
    let to_u32 = |us: i64| u32::try_from(us.max(0)).unwrap_or(u32::MAX);
    let mut start_us = Vec::with_capacity(transaction.steps.len());
    let mut gap_us = Vec::with_capacity(transaction.steps.len());
    let mut end_us = began_us;
    let mut values = Vec::with_capacity(transaction.steps.len());
    for step in transaction.steps {
        start_us.push(to_u32(step.start_us.saturating_sub(began_us)));
        gap_us.push(to_u32(step.start_us.saturating_sub(end_us)));
        end_us = step.start_us.saturating_add_unsigned(step.time_us);
        values.push(step.values);
    }
    let n_bytes = values.iter().flatten().map(SlotValue::n_bytes).sum::<usize>() + values.len() * 40 + 120;
    SampledTransaction { began_us, rounds, values, start_us, gap_us, n_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::CutStep;

    fn transaction(word: &str) -> CutTransaction {
        let step = |form: u8| CutStep {
            form: form.into(),
            values: vec![SlotValue::Text("x".repeat(100).into())].into(),
            start_us: 0,
            time_us: 1,
            share: TimeShare { calls: 1, time_us: 1 },
            is_inside: true,
            error: None,
            lacks_values: false,
            number: 0,
        };
        CutTransaction { session: 0, steps: word.bytes().map(step).collect(), is_block: false }
    }

    #[test]
    fn loops_of_any_length_are_one_template() {
        let mut templates = TemplateStore::default();
        for word in ["bxyc", "bxyxyc", "bxyxyxyxyc", "bzc", "bxxyc"] {
            templates.add(transaction(word));
        }
        let found: Vec<(u64, usize, usize)> =
            templates.all.iter().map(|one| (one.n, one.core.len(), one.loops.len())).collect();
        assert_eq!(found, [(3, 4, 1), (1, 3, 0), (1, 4, 1)]);
        let rounds: Vec<&[u32]> = templates.all[0].sample.items().iter().map(|one| &one.rounds[..]).collect();
        // The first one came before the loop was known.
        assert_eq!(rounds, [&[][..], &[2], &[4]]);
    }

    #[test]
    fn templates_that_are_forgotten_are_counted() {
        let mut templates = TemplateStore::default();
        for n in 0..3 * TEMPLATES_MAX as u32 {
            let mut one = transaction("abc");
            one.steps.iter_mut().for_each(|step| step.form += 1000 * n);
            templates.add(one);
        }
        assert!(templates.all.len() <= TEMPLATES_MAX);
        let kept: u64 = templates.all.iter().map(|one| one.share().calls).sum();
        let forgotten: u64 = templates.forgotten.values().map(|share| share.calls).sum();
        assert_eq!(kept + forgotten, 9 * TEMPLATES_MAX as u64);
    }
}
