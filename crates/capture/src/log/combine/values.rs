//! Values of parameters as the server logs them in DETAIL and CONTEXT: `$1 = 'it''s', $2 = NULL`.

use crate::log::executed::LoggedValue;
use crate::log::time;

/// Most parameters of a statement: the protocol's limit.
const PARAMETERS_MAX: usize = 65_535;

/// Recognizes values that `log_parameter_max_length` has cut. A value may end in `...` itself: it is cut only if no whole value was longer.
#[derive(Debug, Default)]
pub(super) struct Cut {
    longest_whole: usize,
}

/// The values of a list, in the order of their numbers; `None` if the text is no such list.
pub(super) fn values(
    text: &[u8],
    cut: &mut Cut,
    decode: &mut dyn FnMut(&[u8]) -> String,
) -> Option<Vec<LoggedValue>> {
    let mut values = Vec::new();
    let mut rest = text;
    loop {
        let digits = rest.strip_prefix(b"$")?;
        let n_digits = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = usize::try_from(time::number(&digits[..n_digits])?).ok()?;
        if number != values.len() + 1 || number > PARAMETERS_MAX {
            return None;
        }
        let after = digits[n_digits..].strip_prefix(b" = ")?;
        let (value, after) = value(after, cut, decode)?;
        values.push(value);
        match after {
            [] => return Some(values),
            [b',', b' ', others @ ..] => rest = others,
            _ => return None,
        }
    }
}

/// A value, and what follows it.
fn value<'a>(
    text: &'a [u8],
    cut: &mut Cut,
    decode: &mut dyn FnMut(&[u8]) -> String,
) -> Option<(LoggedValue, &'a [u8])> {
    if let Some(rest) = text.strip_prefix(b"NULL") {
        return Some((LoggedValue::Null, rest));
    }
    let (inside, has_quotes, rest) = quoted(text)?;
    let text = if has_quotes { decode(&undoubled(inside)) } else { decode(inside) };
    let value = match text.strip_suffix("...") {
        Some(begin) if begin.len() >= cut.longest_whole => LoggedValue::Truncated(begin.to_string()),
        _ => {
            cut.longest_whole = cut.longest_whole.max(text.len());
            LoggedValue::Text(text)
        }
    };
    Some((value, rest))
}

/// The text within single quotes, whether quotes in it are doubled, and the rest.
pub(super) fn quoted(text: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    let inside = text.strip_prefix(b"'")?;
    let mut end = 0;
    let mut has_quotes = false;
    loop {
        end += memchr::memchr(b'\'', &inside[end..])?;
        if inside.get(end + 1) != Some(&b'\'') {
            return Some((&inside[..end], has_quotes, &inside[end + 1..]));
        }
        has_quotes = true;
        end += 2;
    }
}

/// With one quote for each two.
pub(super) fn undoubled(text: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\'', rest) {
        whole.extend_from_slice(&rest[..=at]);
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    whole.extend_from_slice(rest);
    whole
}

/// The list in a DETAIL, whose first letter depends on the release.
pub(super) fn list_of_detail(detail: &[u8]) -> Option<&[u8]> {
    detail.strip_prefix(b"parameters: ").or_else(|| detail.strip_prefix(b"Parameters: "))
}

/// The list in the CONTEXT of an error (`log_parameter_max_length_on_error`).
pub(super) fn list_of_context(context: &[u8]) -> Option<&[u8]> {
    const WITH: &[u8] = b" with parameters: ";
    let line = context.split(|byte| *byte == b'\n').find(|line| {
        (line.starts_with(b"unnamed portal") || line.starts_with(b"portal \""))
            && memchr::memmem::find(line, WITH).is_some()
    })?;
    // The values may contain newlines, so the list goes on to the end of the context.
    let begin =
        line.as_ptr() as usize - context.as_ptr() as usize + memchr::memmem::find(line, WITH)? + WITH.len();
    context.get(begin..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<LoggedValue>> {
        let mut decode = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        values(text.as_bytes(), &mut Cut::default(), &mut decode)
    }

    #[test]
    fn values_are_read_as_the_server_writes_them() {
        let text = |text: &str| LoggedValue::Text(text.to_string());
        let check =
            |list: &str, expected: Option<Vec<LoggedValue>>| assert_eq!(read(list), expected, "{list}");
        check("$1 = '5'", Some(vec![text("5")]));
        check(
            "$1 = 'a''b', $2 = NULL, $3 = '', $4 = 'x, $5 = ''y'''",
            Some(vec![text("a'b"), LoggedValue::Null, text(""), text("x, $5 = 'y'")]),
        );
        check("$1 = 'nj\n\thello'", Some(vec![text("nj\n\thello")]));
        check("$1 = '12345...'", Some(vec![LoggedValue::Truncated("12345".to_string())]));
        check("$1 = 'a longer value', $2 = 'etc...'", Some(vec![text("a longer value"), text("etc...")]));
        for bad in ["", "$1", "$1 = ", "$1 = 'a", "$2 = 'a'", "$1 = 'a' $2 = 'b'", "$1 = 'a', ", "1 = 'a'"] {
            check(bad, None);
        }
    }

    #[test]
    fn an_error_has_its_values_in_the_context() {
        let context = b"PL/pgSQL function f()\nunnamed portal with parameters: $1 = 'a\nb', $2 = NULL";
        assert_eq!(list_of_context(context), Some(&b"$1 = 'a\nb', $2 = NULL"[..]));
        assert_eq!(list_of_context(b"SQL function \"f\" statement 1"), None);
    }
}
