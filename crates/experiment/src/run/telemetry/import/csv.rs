//! Times and values in a file of comma-separated values with a line of names (RFC 4180). Pure.

use model::text::mark::without_mark;

use super::{LoadSpan, POINTS_MAX};

/// The points of a column within a span; if there are too many, evenly chosen ones.
///
/// # Errors
/// Names the missing column, or the line that cannot be read.
pub(super) fn read(text: &str, [time, value]: [&str; 2], span: LoadSpan) -> Result<Vec<(f64, f64)>, String> {
    let text = without_mark(text);
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, head) = lines.next().ok_or("is empty")?;
    let separator = [';', '\t'].into_iter().find(|c| head.contains(*c) && !head.contains(',')).unwrap_or(',');
    let names = cells(head, separator);
    let column = |wanted: &str| {
        let known = || format!("has no column `{wanted}`; its columns: {}", names.join(", "));
        names.iter().position(|name| name == wanted).ok_or_else(known)
    };
    let (time, value) = (column(time)?, column(value)?);
    let mut points = Vec::new();
    for (number, line) in lines {
        let cells = cells(line, separator);
        let cell = |column: usize| cells.get(column).map(String::as_str).unwrap_or_default();
        let wrong = |what: &str, text: &str| format!("line {}: `{text}` is not {what}", number + 1);
        let t_s = seconds(cell(time)).ok_or_else(|| wrong("a time: Unix seconds or RFC 3339", cell(time)))?;
        if !(span.from_s..=span.to_s).contains(&t_s) || cell(value).is_empty() {
            continue;
        }
        let number = cell(value).parse().map_err(|_| wrong("a number", cell(value)))?;
        points.push((t_s, number));
    }
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    Ok(points.into_iter().step_by(every).collect())
}

/// Seconds since the Unix epoch: as a number, or `2026-11-24T19:00:00+01:00`.
fn seconds(text: &str) -> Option<f64> {
    let number = || text.parse().ok().filter(|t_s: &f64| t_s.is_finite());
    let time = || text.parse::<jiff::Timestamp>().ok();
    let of = |time: jiff::Timestamp| time.as_second() as f64 + f64::from(time.subsec_nanosecond()) / 1e9;
    number().or_else(|| time().map(of))
}

/// Cells of a line, without blanks around them. A quoted cell may contain the separator and doubled quotes.
fn cells(line: &str, separator: char) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => is_quoted = !is_quoted,
            c if c == separator && !is_quoted => cells.push(std::mem::take(&mut cell).trim().to_string()),
            c => cell.push(c),
        }
    }
    cells.push(cell.trim().to_string());
    cells
}
