//! From what was read to the files of a directory.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use model::directory::trace::TRACE_FILE;
use model::run::fidelity::WorkloadFigures;

use crate::balance::{Balance, OmissionReason, TimeShare};
use crate::directory::draws;
use crate::directory::figures::{exact, figures};
use crate::directory::lines::{self, Reproduced};
use crate::directory::manifest::{self, Entry, SourceFacts};
use crate::directory::names::name;
use crate::directory::notes;
use crate::directory::readme;
use crate::directory::rest::{self, Rest};
use crate::directory::script::TemplateScript;
use crate::directory::summary::{FILE, ShownTemplate, ShownVariable, Summary};
use crate::directory::trace;
use crate::forms::protocol_word;
use crate::privacy::{Mask, Privacy};
use crate::reader::ReadLog;
use crate::role::variables::{VariableMaker, Variables};
use crate::role::view::View;
use crate::role::{FormFacts, ValueRole};
use crate::session::classes::classes;
use crate::statistics::source::{self, SOURCE_FILE};
use crate::template::scaling::{Scaled, Weighed, scale};
use crate::template::store::Template;
use crate::value::times::shown;

/// Most transactions of a directory: pgbench takes 128 scripts, and a directory 256 files.
const TEMPLATES_MAX: usize = 100;
/// Shares of time and of transactions that are enough.
const TIME_ENOUGH: f64 = 0.99;
const TRANSACTIONS_ENOUGH: f64 = 0.95;
/// Bytes of one file of captured rows, and of all of them, before they are packed.
const DRAWS_BYTES_MAX: usize = 60 << 20;
const ALL_DRAWS_BYTES_MAX: usize = 240 << 20;
/// Longest script.
const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// Share of the time below which a statement's exact count corrects nothing.
const CORRECTING_SHARE: f64 = 0.005;

/// What a directory is made from, next to the log.
#[derive(Clone)]
pub struct Making<'a> {
    /// The name of the workload.
    pub name: &'a str,
    /// How much of the values is written.
    pub privacy: Privacy,
    /// The key of masks.
    pub key: [u8; 32],
    /// What a server says of forms, by their numbers.
    pub facts: &'a BTreeMap<u32, FormFacts>,
    /// What the source's server counted of its statements, if somebody read that.
    pub statistics: Option<&'a WorkloadFigures>,
    /// Release of the source.
    pub server: Option<&'a str>,
    /// Cluster.
    pub system_identifier: Option<&'a str>,
    /// The form of the log, in words.
    pub log: &'a str,
    /// Sessions on average, if there is no log but counters alone.
    pub n_clients: Option<usize>,
}

/// A directory that is made.
#[derive(Debug)]
pub struct MadeDirectory {
    /// Files by names with `/`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The summary.
    pub summary: Summary,
}

/// A template that becomes a transaction.
struct Chosen<'a> {
    name: String,
    template: &'a Template,
    view: View<'a>,
    variables: Variables,
    script: String,
}

/// Makes the directory.
///
/// # Errors
/// A log of which nothing can be replayed, which is said with the reasons; or counts that do not add up, which is a fault of this program.
pub fn make(read: &mut ReadLog, making: &Making<'_>) -> Result<MadeDirectory> {
    let Some(span) = read.span else {
        bail!("{}", nothing_inside(read));
    };
    let length_s = (span.to_us.saturating_sub(span.from_us)) as f64 / 1e6;
    leave_out_forgotten(read);
    let protocol = protocol(read);
    let is_simple = protocol == "simple";
    let mut mask = Mask::new(making.privacy, making.key);
    let templates = std::mem::take(&mut read.templates.all);
    let (mut chosen, refused) = choose(read, making, &templates, is_simple, &mut mask);
    let (rest, refused) = rest(read, making, &templates, refused, is_simple, &mut mask);
    let of_rest = rest.template();
    if !rest.is_empty() {
        chosen.push(Chosen {
            name: rest::NAME.to_string(),
            template: &of_rest,
            view: View::new(&of_rest),
            variables: rest.variables(),
            script: rest.script(),
        });
    }
    leave_out_refused(read, &templates, refused);
    if chosen.is_empty() {
        bail!("nothing of the log can be replayed: {}", reasons(&read.balance));
    }

    let reproduced = reproduced(&chosen);
    expect_balance(read, &reproduced)?;
    let scaled = scaled(read, making, &chosen, length_s);
    let mut summary = summarize(read, making, &chosen, &scaled, length_s);
    summary.protocol = protocol;

    let mut files = BTreeMap::new();
    if !rest.is_empty() {
        files.insert(format!("draws/{}.zst", rest::NAME), rest.file(&mut mask)?);
    }
    add_transactions(&mut files, &chosen, &mut mask)?;
    let kinds = classes(&read.sessions, &chosen.iter().map(|one| one.template).collect::<Vec<_>>());
    summary.association = kinds.association;
    summary.classes = kinds.kinds.iter().map(|kind| kind.name.clone()).collect();
    summary.n_masked = (mask.n_masked, mask.n_secrets);
    let settings = read.settings.common(read.sessions.len());
    if !rest.is_empty() {
        summary.notes.push(format!("`rest` is {} rare kinds of transactions in one", rest.n_shapes()));
    }
    summary.notes.extend(if summary.is_counted {
        notes::of_counted()
    } else {
        notes::of_rates(&summary, &scaled, making.statistics.is_some())
    });
    summary.notes.extend(notes::of_values(chosen.iter().map(|one| &one.variables)));
    summary.notes.extend(notes::of_log(read));
    if let Some(traced) = read.trace.take() {
        let made = trace::file(read, traced, making, is_simple, &mut mask)?;
        trace::expect_sendable(drawn_bytes(&files), made.bytes.len() as u64)?;
        files.insert(TRACE_FILE.to_string(), made.bytes);
        summary.notes.push(made.note);
        summary.n_masked = (mask.n_masked, mask.n_secrets);
    }

    let (statements, left_out) = lines::files(&read.forms, &reproduced, making.facts);
    let entries = entries(&chosen, &scaled.rates);
    let source =
        SourceFacts { server: making.server, system_identifier: making.system_identifier, log: making.log };
    let mut add = |name: &str, text: String| files.insert(name.to_string(), text.into_bytes());
    add("workload.toml", manifest::text(&summary, &source, &entries, &kinds.kinds, &settings));
    add("statements.jsonl", statements);
    add("left-out.jsonl", left_out);
    add(SOURCE_FILE, source::text(&figures(read, &reproduced, making.statistics, length_s)));
    add("README.md", readme::text(&summary));
    add(FILE, summary.file());
    Ok(MadeDirectory { files, summary })
}

/// Bytes of the captured rows among files.
fn drawn_bytes(files: &BTreeMap<String, Vec<u8>>) -> u64 {
    let draws = files.iter().filter(|(name, _)| name.starts_with("draws/"));
    draws.map(|(_, bytes)| bytes.len() as u64).sum()
}

/// Why there is no statement.
fn nothing_inside(read: &ReadLog) -> String {
    if read.n_unwanted > 0 && read.n_outside == 0 {
        return format!(
            "no statement is of the sessions that are wanted ({} are of others); see --database, --user and --application",
            read.n_unwanted
        );
    }
    format!(
        "the window has no statement ({} are outside of it); choose another with --window",
        read.n_outside
    )
}

/// Kinds of transactions that were forgotten to bound the memory are left out as rare ones.
fn leave_out_forgotten(read: &mut ReadLog) {
    for (form, share) in std::mem::take(&mut read.templates.forgotten) {
        read.leave_out(OmissionReason::Rare, form, share);
    }
}

fn leave_out_refused(read: &mut ReadLog, templates: &[Template], refused: Vec<(OmissionReason, usize)>) {
    for (reason, at) in refused {
        for (form, share) in &templates[at].shares {
            read.leave_out(reason, *form, *share);
        }
    }
}

/// Enters what is reproduced into the sum, which then must be that of the source.
fn expect_balance(read: &mut ReadLog, reproduced: &Reproduced) -> Result<()> {
    for share in reproduced.shares.values() {
        read.balance.reproduced.add(*share);
    }
    let difference = read.balance.difference();
    if difference != (0, 0) {
        bail!(
            "{} statements and {} µs are neither reproduced nor left out; this is a fault of pgdyno",
            difference.0,
            difference.1
        );
    }
    Ok(())
}

fn entries<'a>(chosen: &'a [Chosen<'_>], rates: &[f64]) -> Vec<Entry<'a>> {
    let entry = |(one, rate): (&'a Chosen<'_>, &f64)| Entry {
        name: &one.name,
        rate: *rate,
        variables: &one.variables,
        errors: errors(one, chosen),
    };
    chosen.iter().zip(rates).map(entry).collect()
}

/// Errors of the source in transactions with these statements, up to the one that failed.
fn errors(one: &Chosen<'_>, chosen: &[Chosen<'_>]) -> BTreeSet<[u8; 5]> {
    let core = &one.template.core;
    let begins_alike = |other: &&Chosen<'_>| {
        // The last statement ends the transaction, in one way or the other.
        let failed = other.template.core.split_last().map_or(&[][..], |(_, before)| before);
        !failed.is_empty() && core.starts_with(failed)
    };
    let of_others = chosen.iter().filter(begins_alike).filter_map(|other| other.template.error);
    one.template.error.into_iter().chain(of_others).collect()
}

/// Templates by time until enough is covered, and for each of the others why it is left out.
fn choose<'a>(
    read: &ReadLog,
    making: &Making<'_>,
    templates: &'a [Template],
    is_simple: bool,
    mask: &mut Mask,
) -> (Vec<Chosen<'a>>, Vec<(OmissionReason, usize)>) {
    let total = templates.iter().fold(TimeShare::default(), |mut sum, one| {
        sum.add(one.share());
        sum
    });
    let n_total: u64 = templates.iter().map(|one| one.n).sum();
    let mut order: Vec<usize> = (0..templates.len()).collect();
    order.sort_by_cached_key(|at| std::cmp::Reverse((templates[*at].share().time_us, templates[*at].n)));
    let (mut chosen, mut refused) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    let (mut covered, mut n_covered) = (TimeShare::default(), 0);
    for at in order {
        let template = &templates[at];
        let is_enough = covered.time_us as f64 >= TIME_ENOUGH * total.time_us as f64
            && n_covered as f64 >= TRANSACTIONS_ENOUGH * n_total as f64;
        if is_enough || chosen.len() >= TEMPLATES_MAX {
            refused.push((OmissionReason::Rare, at));
            continue;
        }
        match one(read, making, template, is_simple, mask) {
            Ok(one) => {
                covered.add(template.share());
                n_covered += template.n;
                chosen.push(Chosen { name: name(template, &read.forms, &mut names), ..one });
            }
            Err(reason) => refused.push((reason, at)),
        }
    }
    (chosen, refused)
}

/// What is too rare for a transaction of its own, as one, and for each of the others why it is left out.
fn rest<'a>(
    read: &ReadLog,
    making: &Making<'_>,
    templates: &'a [Template],
    refused: Vec<(OmissionReason, usize)>,
    is_simple: bool,
    mask: &mut Mask,
) -> (Rest<'a>, Vec<(OmissionReason, usize)>) {
    let mut rest = Rest::default();
    let mut left_out = Vec::new();
    for (reason, at) in refused {
        if reason != OmissionReason::Rare {
            left_out.push((reason, at));
            continue;
        }
        let template = &templates[at];
        let view = View::new(template);
        if tells_literals(read, making, &view) {
            left_out.push((OmissionReason::SessionState, at));
            continue;
        }
        let maker = VariableMaker { view: &view, forms: &read.forms, facts: making.facts, is_simple };
        match maker.variables(mask) {
            Err(reason) => left_out.push((reason, at)),
            Ok(variables) => {
                if !rest.add(template, view, variables, &read.forms, is_simple) {
                    left_out.push((OmissionReason::Rare, at));
                }
            }
        }
    }
    (rest, left_out)
}

/// Whether statements that are replayed as they are would tell values that must be masked.
fn tells_literals(read: &ReadLog, making: &Making<'_>, view: &View<'_>) -> bool {
    making.privacy != Privacy::Values
        && view.steps.iter().any(|step| lines::has_literals(read.forms.form(step.form)))
}

/// A template as a transaction, without a name yet.
fn one<'a>(
    read: &ReadLog,
    making: &Making<'_>,
    template: &'a Template,
    is_simple: bool,
    mask: &mut Mask,
) -> Result<Chosen<'a>, OmissionReason> {
    let view = View::new(template);
    if view.rows.is_empty() {
        return Err(OmissionReason::TooLong);
    }
    if tells_literals(read, making, &view) {
        return Err(OmissionReason::SessionState);
    }
    let maker = VariableMaker { view: &view, forms: &read.forms, facts: making.facts, is_simple };
    let variables = maker.variables(mask)?;
    let script = TemplateScript {
        view: &view,
        forms: &read.forms,
        variables: &variables,
        is_block: template.is_block,
        is_simple,
    }
    .text();
    if script.len() > SCRIPT_BYTES_MAX {
        return Err(OmissionReason::TooLong);
    }
    Ok(Chosen { name: String::new(), template, view, variables, script })
}

fn add_transactions(
    files: &mut BTreeMap<String, Vec<u8>>,
    chosen: &[Chosen<'_>],
    mask: &mut Mask,
) -> Result<()> {
    let bytes_max = DRAWS_BYTES_MAX.min(ALL_DRAWS_BYTES_MAX / chosen.len().max(1));
    for one in chosen {
        files.insert(format!("transactions/{}.sql", one.name), one.script.clone().into_bytes());
        // The rows of the rest are of several templates.
        if one.view.rows.is_empty() {
            continue;
        }
        for (name, bytes) in draws::files(&one.name, &one.view, &one.variables, mask, bytes_max)? {
            files.insert(format!("draws/{name}.zst"), bytes);
        }
    }
    Ok(())
}

/// The protocol of most executions.
fn protocol(read: &ReadLog) -> &'static str {
    let mut sums = [0u64; 3];
    for known in &read.forms.all {
        sums.iter_mut().zip(known.by_protocol).for_each(|(sum, n)| *sum += n);
    }
    protocol_word(sums)
}

fn reproduced(chosen: &[Chosen<'_>]) -> Reproduced {
    let mut found = Reproduced::default();
    for one in chosen {
        for (form, share) in &one.template.shares {
            found.shares.entry(*form).or_default().add(*share);
            let per_transaction = share.calls as f64 / one.template.n.max(1) as f64;
            found.per_transaction.entry(*form).or_default().insert(one.name.clone(), per_transaction);
        }
    }
    found
}

/// Rates, corrected to the exact counts of the statements that take time.
fn scaled(read: &ReadLog, making: &Making<'_>, chosen: &[Chosen<'_>], length_s: f64) -> Scaled {
    let weighed: Vec<Weighed> = chosen
        .iter()
        .map(|one| {
            let mut calls = BTreeMap::new();
            for (form, share) in &one.template.shares {
                let n = share.calls as f64 / one.template.n.max(1) as f64;
                *calls.entry(read.forms.form(*form).identity).or_default() += n;
            }
            Weighed { rate: one.template.n as f64 / length_s.max(1e-6), calls }
        })
        .collect();
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    for known in &read.forms.all {
        *times.entry(known.form.identity).or_default() += known.share.time_us;
    }
    let least = CORRECTING_SHARE * read.balance.total.time_us as f64;
    let exact = exact(making.statistics);
    let counts = exact.iter().filter(|(id, _)| times.get(id).is_none_or(|time| *time as f64 >= least));
    scale(&weighed, &counts.map(|(id, n)| (*id, *n)).collect())
}

fn summarize(
    read: &ReadLog,
    making: &Making<'_>,
    chosen: &[Chosen<'_>],
    scaled: &Scaled,
    length_s: f64,
) -> Summary {
    let template = |(one, rate): (&Chosen<'_>, &f64)| {
        let sampled = one.template.n as f64 / length_s.max(1e-6);
        ShownTemplate {
            name: one.name.clone(),
            rate: *rate,
            n: one.template.n,
            time_us: one.template.share().time_us,
            statements: one.view.steps.iter().map(|step| lines::shown(&read.forms, step.form)).collect(),
            variables: shown_variables(read, making, one),
            correction: if making.statistics.is_none() {
                None
            } else {
                Some(rate / (sampled * scaled.factor))
            },
        }
    };
    Summary {
        name: making.name.to_string(),
        privacy: making.privacy.to_string(),
        began: read.span.map(|span| shown(span.from_us)).unwrap_or_default(),
        length_s,
        rate: scaled.rates.iter().sum(),
        dispersion: read.arrivals.dispersion(),
        n_sessions: read.sessions.len(),
        n_clients: making.n_clients.unwrap_or_else(|| read.arrivals.sessions_max()),
        active: making
            .statistics
            .and_then(|one| one.active_sessions)
            .unwrap_or_else(|| read.arrivals.active(length_s)),
        is_counted: making.n_clients.is_some(),
        templates: chosen.iter().zip(&scaled.rates).map(template).collect(),
        balance: read.balance.clone(),
        has_durations: read.has_durations,
        ..Summary::default()
    }
}

fn shown_variables(read: &ReadLog, making: &Making<'_>, one: &Chosen<'_>) -> Vec<ShownVariable> {
    let shown = |variable: &crate::role::variables::Variable| {
        let number = one.view.steps[variable.place.step].form;
        let known = &read.forms.all[number as usize];
        let slot = known.form.slots.get(variable.place.slot);
        let of_server = making.facts.get(&number).and_then(|facts| facts.slots.get(variable.place.slot));
        let of_server = of_server.and_then(|facts| facts.column.as_ref());
        let of_server = of_server.map(|column| format!("{}.{}", column.table, column.column));
        ShownVariable {
            name: variable.name.clone(),
            role: variable.role.word(),
            column: of_server.or_else(|| slot.and_then(|slot| slot.hint.column.clone())),
            distinct: variable.distinct.0,
            n: variable.distinct.1,
            unseen: if let ValueRole::Key { unseen } = variable.role { Some(unseen) } else { None },
            exponent: known
                .hot
                .get(variable.place.slot)
                .and_then(|hot| hot.as_ref())
                .and_then(|hot| hot.exponent()),
            distinct_in_window: known.distinct.get(variable.place.slot).map_or(0, |sketch| sketch.distinct()),
        }
    };
    one.variables.all.iter().filter(|variable| variable.place.slot != usize::MAX).map(shown).collect()
}

fn reasons(balance: &Balance) -> String {
    let mut all: Vec<_> = balance.left_out.iter().collect();
    all.sort_by_key(|(_, share)| std::cmp::Reverse(share.calls));
    let words: Vec<String> = all
        .iter()
        .take(3)
        .map(|(reason, share)| format!("{} ({} statements)", reason.about(), share.calls))
        .collect();
    if words.is_empty() { "it has no statement".to_string() } else { words.join("; ") }
}
