//! What a copy of the source says of the statements of its log.

use std::collections::BTreeMap;

use ::capture::forms::Forms;
use ::capture::role::{FormFacts, SlotColumn, SlotFacts};
use ::capture::statement::StatementRole;
use ::capture::statement::places::SlotUse;
use anyhow::{Context, Result};
use dataset::inquiry::{ColumnUse, Described, Inquiry, InquiryLimits, ParameterFacts};
use wire::Conninfo;
use wire::session::Session;

/// Most statements that are asked about, those with the most time first.
const ASKED_MAX: usize = 2000;

/// What the server says, and how many statements it does not take.
pub(super) struct Asked {
    pub(super) facts: BTreeMap<u32, FormFacts>,
    pub(super) n_refused: usize,
    /// The first of them, with the reason.
    pub(super) refused: Option<String>,
}

/// Asks about all statements that are replayed.
///
/// # Errors
/// When the server does not answer.
pub(super) fn asked(conninfo: &Conninfo, forms: &Forms) -> Result<Asked> {
    let mut session =
        Session::connect(conninfo).with_context(|| format!("cannot connect to `{conninfo}`"))?;
    let mut order: Vec<u32> = (0u32..)
        .zip(&forms.all)
        .filter(|(_, known)| {
            matches!(known.form.role, StatementRole::Work(_)) && !known.form.slots.is_empty()
        })
        .map(|(number, _)| number)
        .collect();
    order.sort_by_key(|number| std::cmp::Reverse(forms.all[*number as usize].share.time_us));
    order.truncate(ASKED_MAX);
    let mut found = Asked { facts: BTreeMap::new(), n_refused: 0, refused: None };
    let mut inquiry = Inquiry::begin(&mut session, InquiryLimits::default())?;
    for number in order {
        let text = forms.form(number).numbered();
        let described = inquiry.describe(&text)?;
        if let Some(refused) = &described.refused {
            found.n_refused += 1;
            found.refused.get_or_insert_with(|| format!("{} ({})", refused.message, refused.sqlstate));
            continue;
        }
        found.facts.insert(number, facts(described));
    }
    inquiry.end()?;
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
