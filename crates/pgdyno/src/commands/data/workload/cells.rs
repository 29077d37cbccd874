//! Values of generated rows, from the text that COPY takes, and the forms in which they are printed.

use model::text::columns;
use model::text::visible::on_one_line;

/// A value; `None` is NULL.
pub(super) type Cell = Option<String>;

/// The rows of COPY's text format.
pub(super) fn rows(text: &[u8]) -> Vec<Vec<Cell>> {
    let lines = text.split(|byte| *byte == b'\n');
    // Each row ends with a line feed.
    let complete = lines.take(text.iter().filter(|byte| **byte == b'\n').count());
    complete.map(|line| line.split(|byte| *byte == b'\t').map(cell).collect()).collect()
}

/// One value, with the escapes that COPY's text format has.
fn cell(escaped: &[u8]) -> Cell {
    if escaped == b"\\N" {
        return None;
    }
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.iter();
    while let Some(byte) = rest.next() {
        let literal = if *byte == b'\\' { rest.next().map(unescaped) } else { Some(*byte) };
        bytes.extend(literal);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The byte that a backslash and this one stand for.
fn unescaped(escape: &u8) -> u8 {
    match escape {
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        other => *other,
    }
}

/// A table for people: values are cut after `shown_max` characters, numbers stand to the right.
pub(super) fn table(names: &[&str], rows: &[Vec<Cell>], shown_max: usize) -> String {
    let shown: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| shown(cell.as_deref(), shown_max)).collect()).collect();
    let is_number = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)?.as_deref()).peekable();
        cells.peek().is_some() && cells.all(|text| text.parse::<f64>().is_ok())
    };
    let mut out = String::new();
    let numeric: Vec<bool> = (0..names.len()).map(is_number).collect();
    let width = |column: usize| {
        let of_rows = shown.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count());
        of_rows.chain([names[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let mut line = |cells: &[&str]| {
        let pad = |n: usize| if numeric[n] { columns::right } else { columns::left };
        let padded = cells.iter().enumerate().map(|(n, text)| pad(n)(text, widths[n]));
        let joined = padded.collect::<Vec<String>>().join("  ");
        out.push_str(joined.trim_end());
        out.push('\n');
    };
    line(names);
    for row in &shown {
        line(&row.iter().map(String::as_str).collect::<Vec<&str>>());
    }
    out
}

fn shown(cell: Option<&str>, shown_max: usize) -> String {
    let Some(text) = cell else { return "NULL".to_string() };
    let text = on_one_line(text);
    if text.chars().count() <= shown_max {
        return text.into_owned();
    }
    let head: String = text.chars().take(shown_max - 1).collect();
    format!("{head}…")
}

/// A line of CSV, with NULL as nothing and an empty text in quotes, as PostgreSQL's COPY writes it.
pub(super) fn csv<'a>(cells: impl IntoIterator<Item = Option<&'a str>>) -> String {
    let quoted = |text: &str| {
        if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_string()
        }
    };
    let cells: Vec<String> = cells.into_iter().map(|cell| cell.map_or(String::new(), quoted)).collect();
    format!("{}\n", cells.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[Option<&str>]) -> Vec<Cell> {
        texts.iter().map(|text| text.map(str::to_string)).collect()
    }

    #[test]
    fn values_are_those_that_copy_would_store() {
        let check = |text: &str, expected: &[&[Option<&str>]]| {
            let expected: Vec<Vec<Cell>> = expected.iter().map(|row| of(row)).collect();
            assert_eq!(rows(text.as_bytes()), expected, "{text:?}");
        };
        check("", &[]);
        check("1\ta b\n2\t\\N\n", &[&[Some("1"), Some("a b")], &[Some("2"), None]]);
        check("\\\\N\t\\t\\n\\\\\n", &[&[Some("\\N"), Some("\t\n\\")]]);
        check("\t\n", &[&[Some(""), Some("")]]);
    }

    #[test]
    fn tables_cut_what_is_long_and_csv_does_not() {
        let long = "x".repeat(60);
        let rows = [of(&[Some("1"), Some(&long)]), of(&[Some("20"), None])];
        let text = table(&["id", "name"], &rows, 48);
        let cut = format!("{}…", "x".repeat(47));
        assert_eq!(text, format!("id  name\n 1  {cut}\n20  NULL\n"));
        assert_eq!(csv([Some("a"), None, Some(""), Some("b,\"c\"")]), "a,,\"\",\"b,\"\"c\"\"\"\n");
        assert_eq!(table(&["a"], &[of(&[Some("b\nc")])], 9), "a\nb\\nc\n");
    }
}
