//! The scripts of a case for a terminal: a table as wide as the screen, and below it what does not fit.

use analysis::summary::CaseSummary;

use super::{GAP, MAX_LABEL, Paint, TerminalStyle, aligned, push_wrapped, widths};
use crate::prose::{phrases, scripts};

/// Most lines below the table.
const BELOW_MAX: usize = 10;

/// The scripts of a case; the case is named if there are several.
pub(super) fn rows(text: &mut String, case: &CaseSummary, is_named: bool, width: usize, paint: &Paint) {
    let about = if is_named { format!(" of {}", phrases::one_line(&case.label)) } else { String::new() };
    let heading = format!("{}{about}", scripts::plural_noun(case));
    push_wrapped(text, paint, TerminalStyle::Bold, &heading, "", width);
    let table = scripts::narrow_table(case, width);
    let mut rows: Vec<Vec<String>> = vec![table.heads.iter().map(ToString::to_string).collect()];
    rows.extend(table.rows);
    let mut widths = widths(&rows, MAX_LABEL);
    // Numbers have priority over names.
    let numbers: usize = widths[1..].iter().map(|w| w + GAP.len()).sum();
    widths[0] = widths[0].min(width.saturating_sub(numbers)).max(table.heads[0].len());
    for (n, row) in rows.iter().enumerate() {
        let line = aligned(row, &widths);
        let style = if n == 0 { TerminalStyle::Dim } else { TerminalStyle::Plain };
        text.push_str(&format!("{}\n", paint.on(line.trim_end(), style)));
    }
    if let Some(line) = scripts::note(case) {
        push_wrapped(text, paint, TerminalStyle::Dim, &line, "", width);
    }
    let below = scripts::below(case);
    for line in below.iter().take(BELOW_MAX) {
        push_wrapped(text, paint, TerminalStyle::Plain, line, "", width);
    }
    let n_more = below.len().saturating_sub(BELOW_MAX);
    if n_more > 0 {
        text.push_str(&format!("{n_more} more lines are on the page\n"));
    }
}
