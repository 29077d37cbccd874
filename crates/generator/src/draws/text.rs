//! The text of captured rows: a line that says what it is, a line of columns with their types, and rows as COPY writes them.

use crate::draws::{DrawnColumn, DrawnValues, DrawsTable};
use crate::problem::Problem;
use crate::value::calendar::parse_date;
use crate::value::captured_words::{parse_bool, parse_decimal, parse_timestamp, rescaled};
use crate::value::is_identifier;
use crate::value::kind::Type;

/// The first line.
const HEADER: &str = "pgdyno draws 1";
/// Most columns.
const COLUMNS_MAX: usize = 256;
/// Longest value, bytes: that of any cell.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// The table that a text holds.
pub(super) fn table(file: &str, text: &str) -> Result<DrawsTable, Problem> {
    let at = |line: usize, message: String| Problem { line, column: 1, ..Problem::whole(file, message) };
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut lines = text.split('\n');
    if lines.next() != Some(HEADER) {
        return Err(at(
            1,
            format!(
                "the first line is not `{HEADER}`; this is no file of captured rows, or one of a later release"
            ),
        ));
    }
    let columns = lines.next().unwrap_or_default().split('\t');
    let mut columns: Vec<ColumnDraft> =
        columns.map(ColumnDraft::new).collect::<Result<_, _>>().map_err(|why| at(2, why))?;
    if columns.len() > COLUMNS_MAX {
        return Err(at(
            2,
            format!("there are {} columns; captured rows have at most {COLUMNS_MAX}", columns.len()),
        ));
    }
    for (n, column) in columns.iter().enumerate() {
        if columns[..n].iter().any(|other| other.name == column.name) {
            return Err(at(2, format!("there are two columns `{}`", column.name)));
        }
    }
    let mut n_rows = 0u32;
    let mut value = Vec::new();
    for (n, row) in lines.enumerate() {
        let mut fields = row.split('\t');
        for column in &mut columns {
            let Some(field) = fields.next() else {
                return Err(at(n + 3, format!("there is no value of `{}`: a value is missing", column.name)));
            };
            value.clear();
            let is_there = unescaped(field, &mut value).map_err(|why| at(n + 3, why))?;
            column
                .add(if is_there { Some(&value) } else { None })
                .map_err(|why| at(n + 3, format!("the value of `{}` {why}", column.name)))?;
        }
        if fields.next().is_some() {
            return Err(at(
                n + 3,
                format!("there are more values than the {} columns of line 2", columns.len()),
            ));
        }
        n_rows += 1;
    }
    let columns = columns.into_iter().map(ColumnDraft::finish).collect::<Result<_, _>>();
    Ok(DrawsTable { file: file.to_string(), columns: columns.map_err(|why| at(2, why))?, n_rows })
}

/// Appends a value without its escapes; false if it is null.
fn unescaped(field: &str, out: &mut Vec<u8>) -> Result<bool, String> {
    if field == "\\N" {
        return Ok(false);
    }
    let mut bytes = field.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next() {
            Some(b'b') => 8,
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'v') => 11,
            Some(b'f') => 12,
            Some(b'r') => b'\r',
            Some(b'\\') => b'\\',
            _ => return Err("a value has an escape that COPY does not write".to_string()),
        });
    }
    if out.len() > VALUE_BYTES_MAX {
        return Err(format!("a value has {} bytes; one has at most {VALUE_BYTES_MAX}", out.len()));
    }
    Ok(true)
}

/// A column that is being read.
struct ColumnDraft {
    name: String,
    kind: Type,
    values: DrawnValues,
    nulls: Vec<u64>,
    n_rows: usize,
    /// Digits after the point of each decimal.
    scales: Vec<u8>,
}

impl ColumnDraft {
    fn new(text: &str) -> Result<ColumnDraft, String> {
        let (name, kind) = text
            .split_once(':')
            .ok_or("the second line names the columns, as `key:int`, with tabs between them")?;
        if !is_identifier(name) {
            return Err(format!("`{}` is no name of a column", name.escape_debug()));
        }
        let kind = match kind {
            "int" => Type::Int,
            "float" => Type::Float,
            "decimal" => Type::Decimal(0),
            "bool" => Type::Bool,
            "text" => Type::Text,
            "date" => Type::Date,
            "timestamp" => Type::Timestamp,
            "uuid" => Type::Uuid,
            "json" => Type::Json,
            "bytes" => Type::Bytes,
            other => {
                return Err(format!(
                    "`{name}` has the type `{}`; types are int, float, decimal, bool, text, date, timestamp, uuid, json, bytes",
                    other.escape_debug()
                ));
            }
        };
        let values = match kind {
            Type::Float => DrawnValues::Floats(Vec::new()),
            Type::Text | Type::Uuid | Type::Json | Type::Bytes => {
                DrawnValues::Texts { ends: Vec::new(), bytes: Vec::new() }
            }
            _ => DrawnValues::Words(Vec::new()),
        };
        Ok(ColumnDraft {
            name: name.to_string(),
            kind,
            values,
            nulls: Vec::new(),
            n_rows: 0,
            scales: Vec::new(),
        })
    }

    /// Adds the value of the next row. What is wrong with it is said without it: it may be personal.
    fn add(&mut self, value: Option<&[u8]>) -> Result<(), String> {
        let row = self.n_rows;
        self.n_rows += 1;
        if value.is_none() {
            self.nulls.resize(row / 64 + 1, 0);
            self.nulls[row / 64] |= 1 << (row % 64);
        }
        let text = match value.map(std::str::from_utf8) {
            None => None,
            Some(Ok(text)) => Some(text),
            Some(Err(_)) => return Err("is not UTF-8 text".to_string()),
        };
        match &mut self.values {
            DrawnValues::Texts { ends, bytes } => {
                bytes.extend_from_slice(value.unwrap_or_default());
                ends.push(u32::try_from(bytes.len()).map_err(|_| "is one too many".to_string())?);
            }
            DrawnValues::Floats(floats) => {
                let float =
                    text.map_or(Some(0.0), |text| text.parse::<f64>().ok().filter(|float| float.is_finite()));
                floats.push(float.ok_or("is no number")?);
            }
            DrawnValues::Words(words) => {
                let word = match (text, &self.kind) {
                    (None, _) => Some((0, 0)),
                    (Some(text), Type::Decimal(_)) => parse_decimal(text),
                    (Some(text), kind) => word(text, kind).map(|word| (word, 0)),
                };
                let (word, scale) =
                    word.ok_or_else(|| format!("is no {} that fits", type_word(&self.kind)))?;
                words.push(word);
                if matches!(self.kind, Type::Decimal(_)) {
                    self.scales.push(scale);
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<DrawnColumn, String> {
        let scale = self.scales.iter().copied().max().unwrap_or(0);
        if let (Type::Decimal(_), DrawnValues::Words(words)) = (&self.kind, &mut self.values) {
            for (word, of_word) in words.iter_mut().zip(&self.scales) {
                *word = rescaled(*word, *of_word, scale).ok_or_else(|| {
                    format!("the values of `{}` have more digits than 64 bits; make its type text", self.name)
                })?;
            }
            self.kind = Type::Decimal(scale);
        }
        Ok(DrawnColumn { name: self.name, kind: self.kind, values: self.values, nulls: self.nulls })
    }
}

fn word(text: &str, kind: &Type) -> Option<i64> {
    match kind {
        Type::Bool => parse_bool(text),
        Type::Date => parse_date(text),
        Type::Timestamp => parse_timestamp(text),
        _ => text.parse().ok(),
    }
}

fn type_word(kind: &Type) -> &'static str {
    match kind {
        Type::Int => "int",
        Type::Decimal(_) => "decimal of at most 18 digits",
        Type::Bool => "bool (t or f)",
        Type::Date => "date (YYYY-MM-DD)",
        _ => "timestamp (YYYY-MM-DD HH:MM:SS, with an offset or in UTC)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, expected: &str) {
        let problem = table("draws/a.zst", text).unwrap_err().to_string();
        assert_eq!(problem, format!("draws/a.zst:{expected}"));
    }

    #[test]
    fn values_are_what_copy_has_written() {
        let text = "pgdyno draws 1\nk:int\tp:decimal\tt:text\tb:bool\td:date\tat:timestamp\tf:float\n\
                    7\t1.5\ta\\tb\\\\\tt\t2024-02-29\t2024-01-01 12:00:00.25+02\t1e3\n\
                    \\N\t-0.25\t\\N\tf\t\\N\t2024-01-01 00:00:00\t\\N\n";
        let found = table("draws/a.zst", text).unwrap();
        assert_eq!(found.n_rows, 2);
        let words = |name: &str| {
            let column = &found.columns[found.column(name).unwrap()];
            [column.word(0), column.word(1)]
        };
        assert_eq!(words("k"), [Some(7), None]);
        assert_eq!(words("p"), [Some(150), Some(-25)]);
        assert_eq!(found.columns[1].kind, Type::Decimal(2));
        assert_eq!(words("b"), [Some(1), Some(0)]);
        assert_eq!(words("d"), [Some(19_782), None]);
        assert_eq!(words("at"), [Some(1_704_103_200_250_000), Some(1_704_067_200_000_000)]);
        let text = &found.columns[2];
        assert_eq!((text.text(0), text.text(1)), (Some(&b"a\tb\\"[..]), None));
        assert_eq!((found.columns[6].float(0), found.columns[6].float(1)), (Some(1000.0), None));
    }

    #[test]
    fn what_is_wrong_has_its_line_and_no_value() {
        refused(
            "",
            "1:1: the first line is not `pgdyno draws 1`; this is no file of captured rows, or one of a later release",
        );
        let with = |rest: &str| format!("pgdyno draws 1\n{rest}");
        refused(&with(""), "2:1: the second line names the columns, as `key:int`, with tabs between them");
        refused(&with("a-b:int"), "2:1: `a-b` is no name of a column");
        refused(&with("a:int\ta:int"), "2:1: there are two columns `a`");
        refused(
            &with("a:money"),
            "2:1: `a` has the type `money`; types are int, float, decimal, bool, text, date, timestamp, uuid, json, bytes",
        );
        refused(&with("a:int\tb:int\n1\n"), "3:1: there is no value of `b`: a value is missing");
        refused(&with("a:int\n1\n1\t2\n"), "4:1: there are more values than the 1 columns of line 2");
        refused(&with("a:int\nsecret\n"), "3:1: the value of `a` is no int that fits");
        refused(&with("a:float\nNaN\n"), "3:1: the value of `a` is no number");
        refused(&with("a:text\n\\x\n"), "3:1: a value has an escape that COPY does not write");
        refused(
            &with("a:decimal\n0.000000000000000001\n1234567\n"),
            "2:1: the values of `a` have more digits than 64 bits; make its type text",
        );
    }
}
