//! What a copy of the source says of the statements of its log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ::capture::forms::Forms;
use ::capture::role::{FormFacts, SlotColumn, SlotFacts};
use ::capture::statement::StatementRole;
use ::capture::statement::places::SlotUse;
use anyhow::{Context, Result, ensure};
use dataset::inquiry::{ColumnFacts, ColumnUse, Described, Inquiry, InquiryLimits, ParameterFacts};
use wire::Conninfo;
use wire::session::Session;

use crate::say;

/// Most statements that are asked about, those with the most time first.
const ASKED_MAX: usize = 2000;

/// Longest time for all statements; each question has a limit of its own.
const ALL_MAX: Duration = Duration::from_secs(600);

/// Answers of the server about statements.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) facts: BTreeMap<u32, FormFacts>,
    /// Types that the server could not infer, by statement and number of the value.
    pub(super) guessed: BTreeMap<(u32, usize), String>,
    /// Columns that values meet, with their schemas.
    pub(super) columns: BTreeMap<(u32, usize), TableColumn>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TableColumn {
    pub(super) schema: String,
    pub(super) table: String,
    pub(super) column: String,
}

/// The statements that are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Those with values.
    WithValues,
    /// All that work: whether the server takes them is not known.
    AllWork,
}

/// Asks about statements that are replayed, and says how many the server does not take.
///
/// # Errors
/// When the server does not answer, or has taken too long.
pub(super) fn asked(conninfo: &Conninfo, forms: &Forms, which: Which) -> Result<Asked> {
    let mut session =
        Session::connect(conninfo).with_context(|| format!("cannot connect to `{conninfo}`"))?;
    let mut order: Vec<u32> = (0u32..)
        .zip(&forms.all)
        .filter(|(_, known)| {
            matches!(known.form.role, StatementRole::Work(_))
                && (which == Which::AllWork || !known.form.slots.is_empty())
        })
        .map(|(number, _)| number)
        .collect();
    order.sort_by_key(|number| std::cmp::Reverse(forms.all[*number as usize].share.time_us));
    order.truncate(ASKED_MAX);
    let mut found = Asked::default();
    let (mut n_refused, mut first_refused) = (0, None);
    let began = Instant::now();
    let mut inquiry = Inquiry::begin(&mut session, InquiryLimits::default())?;
    let n_all = order.len();
    for (n, number) in order.into_iter().enumerate() {
        ensure!(
            began.elapsed() < ALL_MAX,
            "the server has answered about {n} of {n_all} statements in {} s; ask a copy that is not busy, or capture less",
            ALL_MAX.as_secs()
        );
        let text = forms.form(number).numbered();
        let described = inquiry.describe(&text)?;
        if let Some(refused) = &described.refused {
            n_refused += 1;
            first_refused.get_or_insert_with(|| format!("{} ({})", refused.message, refused.sqlstate));
            continue;
        }
        for (slot, parameter) in described.parameters.iter().enumerate() {
            if parameter.is_guessed {
                found.guessed.insert((number, slot), parameter.type_name.clone());
            }
            if let Some(column) = parameter.column.as_ref().filter(|column| column.is_bare) {
                let ColumnFacts { schema, table, column, .. } = column.clone();
                found.columns.insert((number, slot), TableColumn { schema, table, column });
            }
        }
        found.facts.insert(number, facts(described));
    }
    inquiry.end()?;
    if let Some(first) = first_refused {
        say(&format!("note: the server does not take {n_refused} statements; the first: {first}"));
    }
    Ok(found)
}

fn facts(described: Described) -> FormFacts {
    FormFacts { slots: described.parameters.into_iter().map(slot).collect() }
}

fn slot(parameter: ParameterFacts) -> SlotFacts {
    let column = parameter.column.filter(|column| column.is_bare).map(|column| SlotColumn {
        table: column.table,
        column: column.column,
        usage: match column.reads {
            ColumnUse::None => SlotUse::Other,
            ColumnUse::Assigned => SlotUse::Assigned,
            ColumnUse::Range => SlotUse::Range,
            ColumnUse::Equality => SlotUse::Equality,
            ColumnUse::Inserted => SlotUse::Inserted,
        },
        is_unique: column.unique,
        is_indexed: column.indexed,
        has_default: column.has_default,
        least: column.least,
        most: column.most,
    });
    SlotFacts { type_name: parameter.type_name, column }
}
