//! Answers of queries against expected ones: a CSV file with the names of columns in its first line.
//!
//! Numbers are compared with as many digits after the point as the file has.

/// Most expected rows that are read.
const ROWS_MAX: usize = 100_000;

/// A field: its text, or `None` for NULL, which is an empty field without quotes.
type Field = Option<String>;

/// The first difference between expected rows and those that were found, in words.
pub fn difference(csv: &str, columns: &[String], found: &[Vec<Field>]) -> Option<String> {
    let mut records = match records(csv) {
        Ok(records) => records.into_iter(),
        Err(why) => return Some(why),
    };
    let names = records.next().unwrap_or_default();
    let names: Vec<String> = names.into_iter().map(Option::unwrap_or_default).collect();
    let is_named = |(expected, found): (&String, &String)| expected.trim().eq_ignore_ascii_case(found);
    if names.len() != columns.len() || !names.iter().zip(columns).all(is_named) {
        return Some(format!("columns {} instead of {}", columns.join(", "), names.join(", ")));
    }
    let expected: Vec<Vec<Field>> = records.collect();
    for (n, (expected, found)) in expected.iter().zip(found).enumerate() {
        if expected.len() != columns.len() {
            return Some(format!(
                "line {} of the file has {} fields instead of {}",
                n + 2,
                expected.len(),
                columns.len()
            ));
        }
        let differing = expected.iter().zip(found).position(|(expected, found)| !is_same(expected, found));
        if let Some(column) = differing {
            let shown = |field: &Field| {
                field.as_deref().map_or("NULL".to_string(), |text| format!("`{}`", text.trim_end()))
            };
            return Some(format!(
                "row {}, {}: {} instead of {}",
                n + 1,
                columns[column],
                shown(&found[column]),
                shown(&expected[column])
            ));
        }
    }
    (expected.len() != found.len()).then(|| format!("{} rows instead of {}", found.len(), expected.len()))
}

fn is_same(expected: &Field, found: &Field) -> bool {
    let (Some(expected), Some(found)) = (expected, found) else { return expected == found };
    // Values of type char are padded.
    let (expected, found) = (expected.trim_end(), found.trim_end());
    expected == found
        || match (Decimal::read(expected), Decimal::read(found)) {
            (Some(expected), Some(found)) => expected.is_rounded(found),
            _ => false,
        }
}

/// `digits / 10^scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    fn read(text: &str) -> Option<Decimal> {
        let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let (whole, after) = rest.split_once('.').unwrap_or((rest, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + after.len() == 0 || !is_number(whole) || !is_number(after) {
            return None;
        }
        let digits: i128 = format!("{whole}{after}").parse().ok()?;
        Some(Decimal { digits: sign * digits, scale: u32::try_from(after.len()).ok()? })
    }

    fn at_scale(self, scale: u32) -> Option<i128> {
        self.digits.checked_mul(10_i128.checked_pow(scale.checked_sub(self.scale)?)?)
    }

    /// Whether `found` is at most half a unit of the last digit away.
    fn is_rounded(self, found: Decimal) -> bool {
        let scale = self.scale.max(found.scale);
        let distance = || {
            let distance =
                self.at_scale(scale)?.checked_sub(found.at_scale(scale)?)?.checked_abs()?.checked_mul(2)?;
            Some(
                distance <= 10_i128.checked_pow(scale - self.scale)? && (scale > self.scale || distance == 0),
            )
        };
        distance().unwrap_or(false)
    }
}

/// The records of a CSV file (RFC 4180).
fn records(text: &str) -> Result<Vec<Vec<Field>>, String> {
    let mut found = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while !rest.is_empty() {
        if found.len() > ROWS_MAX {
            return Err(format!("the file has more than {ROWS_MAX} rows"));
        }
        let mut record = Vec::new();
        loop {
            let (field, after) = field(rest)
                .ok_or_else(|| format!("line {} of the file has an open quote", found.len() + 1))?;
            record.push(field);
            rest = after;
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix('\r').unwrap_or(rest);
        match rest.strip_prefix('\n') {
            Some(next) => rest = next,
            None if rest.is_empty() => {}
            None => return Err(format!("line {} of the file has text after a quote", found.len() + 1)),
        }
        found.push(record);
    }
    Ok(found)
}

/// One field, and what follows it; `None` if its quote is not closed.
fn field(text: &str) -> Option<(Field, &str)> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find([',', '\n', '\r']).unwrap_or(text.len());
        let value = &text[..end];
        return Some(((!value.is_empty()).then(|| value.to_string()), &text[end..]));
    };
    let mut value = String::new();
    loop {
        let end = rest.find('"')?;
        value.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                value.push('"');
                rest = next;
            }
            None => return Some((Some(value), rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_with_the_digits_of_the_file() {
        let check = |csv: &str, row: &[Option<&str>], expected: Option<&str>| {
            let row: Vec<Field> = row.iter().map(|field| field.map(str::to_string)).collect();
            let found = difference(csv, &["a".to_string(), "b".to_string()], &[row]);
            assert_eq!(found.as_deref(), expected, "{csv}");
        };
        check("a,b\n1,x\n", &[Some("1"), Some("x   ")], None);
        check("A, b\r\n\"1\",\"x,\"\"y\"\"\"\r\n", &[Some("1"), Some("x,\"y\"")], None);
        check("a,b\n1.23,x\n", &[Some("1.2349999"), Some("x")], None);
        check("a,b\n1.23,x\n", &[Some("1.2351"), Some("x")], Some("row 1, a: `1.2351` instead of `1.23`"));
        check("a,b\n2,x\n", &[Some("1"), Some("x")], Some("row 1, a: `1` instead of `2`"));
        check("a,b\n2.0,x\n", &[Some("2"), Some("x")], None);
        check("a,b\n-0.5,x\n", &[Some("-0.4501"), Some("x")], None);
        check("a,b\n,\"\"\n", &[None, Some("")], None);
        check("a,b\n,x\n", &[Some("0"), Some("x")], Some("row 1, a: `0` instead of NULL"));
        check("a,c\n1,x\n", &[Some("1"), Some("x")], Some("columns a, b instead of a, c"));
        check("a,b\n1,x\n1,y\n", &[Some("1"), Some("x")], Some("1 rows instead of 2"));
        check("a,b\n1\n", &[Some("1"), Some("x")], Some("line 2 of the file has 1 fields instead of 2"));
        check("a,b\n1,\"x\n", &[Some("1"), Some("x")], Some("line 2 of the file has an open quote"));
        let large = "123456789012345678901234567890123456.5";
        check(&format!("a,b\n{large},x\n"), &[Some(large), Some("x")], None);
    }
}
